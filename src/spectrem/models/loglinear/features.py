"""Sparse features of choices, the pairs of features and labels that have a weight, and shards of labelled choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._reprs import brief_dataclass, briefly_shown
from spectrem._validate import as_count, as_integers, as_lengths, as_weights
from spectrem.constraints.compilation.groups import Key
from spectrem.data.features import LARGEST_VALUE
from spectrem.exceptions import InvalidInputError
from spectrem.kernels import loglinear as kernel
from spectrem.models.shards import check_numbers, check_total, cut
from spectrem.structures._ragged import offsets_of, positions_of, ranges_of, rows_of

_MOST_FEATURES = 2**31 - 1


@brief_dataclass(frozen=True, eq=False)
class Features:
    """The features of every choice, as compressed rows; immutable, and small to send and to keep.

    A feature whose value is 0 is one that the choice does not have: no row holds it.

    Attributes
    ----------
    indptr : ndarray of shape (n_choices + 1,), int64
        Choice c has the entries ``indptr[c]:indptr[c + 1]``.
    indices : ndarray of shape (n_entries,), int32
        The feature of every entry, from 0.
    values : ndarray of shape (n_entries,), float32 or float64, or None
        The value of every entry, finite; None where all are 1. Of a feature that a choice has twice the values add up.
    n_features : int
        Features are numbered below this.

    Examples
    --------
    >>> features = Features.of([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    >>> features.indices.tolist(), features.values.tolist(), features.n_choices
    ([0, 2], [2.0, 1.0], 2)
    >>> Features.of([[1, 0, 0], [0, 1, 0]]).values is None
    True
    """

    indptr: Ints
    indices: NDArray[np.int32]
    values: NDArray[np.floating] | None
    n_features: int

    @classmethod
    def of(cls, matrix: Any) -> Features:
        """The features of a matrix of shape (n_choices, n_features), dense or sparse.

        They depend on its numbers alone, to the bit, and not on how it stores them: those that are 0 are left out,
        several of one place are added up, and the features of a choice increase.

        Parameters
        ----------
        matrix : array-like, or sparse matrix or array
            Numbers, finite. Those of type float32 stay so; others become float64.

        Raises
        ------
        InvalidInputError
            If there are other axes than two, or a value is NaN, infinite or 1e100 and more in size.
        """
        if not sp.issparse(matrix):
            matrix = np.asarray(matrix)
            if matrix.ndim != 2:
                raise InvalidInputError(
                    f"features must have the shape (n_choices, n_features), got {matrix.shape}; put one choice in a row"
                )
        n_features = int(matrix.shape[1])
        if n_features > _MOST_FEATURES:
            raise InvalidInputError(
                f"features must be at most {_MOST_FEATURES}, got {n_features}; hash them into fewer columns"
            )
        indptr, indices, data = _compressed(matrix)
        values: NDArray[np.floating] = data.astype(np.float32 if data.dtype == np.float32 else np.float64)
        usable = np.abs(values) < np.float64(LARGEST_VALUE)
        if not usable.all():
            at = int(np.argmin(usable))
            row, kind = int(np.searchsorted(indptr, at, side="right")) - 1, "finite"
            advice = "replace or impute it"
            if np.isfinite(values[at]):
                kind, advice = f"below {LARGEST_VALUE:g} in size", "give it in larger units"
            raise InvalidInputError(
                f"features must be {kind}, got {values[at]} in row {row}, column {indices[at]}; {advice}"
            )
        return cls(
            indptr.astype(np.int64), indices.astype(np.int32), None if (values == 1).all() else values, n_features
        )

    @property
    def n_choices(self) -> int:
        """Number of rows or tokens."""
        return len(self.indptr) - 1

    def take(self, rows: Ints) -> Features:
        """The features of the choices of these numbers, in their order."""
        sizes = np.diff(self.indptr)[rows]
        entries = ranges_of(self.indptr[:-1][rows], sizes)
        values = None if self.values is None else self.values[entries]
        return Features(offsets_of(sizes), self.indices[entries], values, self.n_features)

    def where(self, chosen: Bools) -> Features:
        """The chosen features alone, under their numbers; the others are left out of all choices."""
        kept = chosen[self.indices]
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        values = None if self.values is None else self.values[kept]
        return Features(before[self.indptr], self.indices[kept], values, self.n_features)

    def renumbered(self, numbers: Ints) -> Features:
        """The same with ``numbers[f]`` for feature f, a permutation; the features of a choice increase."""
        rows = self.matrix
        rows.indices = numbers.astype(rows.indices.dtype)[self.indices]
        rows.has_sorted_indices = False
        rows.sort_indices()
        values = None if self.values is None else rows.data.astype(self.values.dtype)
        return Features(self.indptr, rows.indices.astype(np.int32), values, self.n_features)

    @cached_property
    def table(self) -> NDArray[np.floating] | None:
        """Values as an array of shape (n_choices, n_features), where at least half are not 0; else None.

        Products with it as a whole are then quicker than those with single values.
        """
        shape = (self.n_choices, self.n_features)
        if self.values is None or 2 * len(self.indices) < shape[0] * shape[1]:
            return None
        if (np.diff(self.indptr) == shape[1]).all() and (self.indices.reshape(shape) == np.arange(shape[1])).all():
            return self.values.reshape(shape)
        whole: NDArray[np.floating] = sp.csr_array((self.values, self.indices, self.indptr), shape=shape).toarray()
        return whole

    @property
    def matrix(self) -> sp.csr_array:
        """As a SciPy array of shape (n_choices, n_features), float64."""
        values = np.ones(len(self.indices)) if self.values is None else self.values.astype(np.float64)
        return sp.csr_array((values, self.indices, self.indptr), shape=(self.n_choices, self.n_features))


def _compressed(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows of a matrix: where they start, and the columns, in increasing order, and values of what is not 0 there."""
    if isinstance(matrix, np.ndarray):
        kept = matrix != 0
        columns = np.broadcast_to(np.arange(matrix.shape[1], dtype=np.int32), matrix.shape)
        return offsets_of(np.count_nonzero(kept, axis=1)), columns[kept], matrix[kept]
    rows = sp.csr_array(matrix)
    if not rows.has_canonical_format or not rows.data.all():
        rows = rows.copy()  # it may share its arrays with the matrix
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows.indptr, rows.indices, rows.data


_NONE = np.zeros(0, np.int64)
_NO_VALUES = np.zeros(0)
# Features with so many labels are added up by rows of a table.
_WIDE = 6


@brief_dataclass(frozen=True, eq=False)
class Support:
    """The pairs of features and labels that have a weight.

    Weights of all pairs together are one flat array: feature after feature, within each the labels in increasing
    order.

    Attributes
    ----------
    n_features, n_labels : int
    indptr : ndarray of shape (n_features + 1,), int64, or None
        Feature f has the weights ``indptr[f]:indptr[f + 1]``; None where every feature has one for every label.
    labels : ndarray of shape (n_weights,), uint8 or int32, or None
        The label of every weight.

    Examples
    --------
    >>> Support(n_features=3, n_labels=2).n_weights
    6
    >>> seen = Support.pairs([0, 2, 2], [1, 0, 1], n_features=3, n_labels=2)
    >>> seen.n_weights, seen.table(np.array([5.0, 6.0, 7.0])).tolist()
    (3, [[0.0, 5.0], [0.0, 0.0], [6.0, 7.0]])
    """

    n_features: int
    n_labels: int
    indptr: Ints | None = None
    labels: NDArray[np.integer] | None = None

    @classmethod
    def pairs(cls, features: ArrayLike, labels: ArrayLike, n_features: int, n_labels: int) -> Support:
        """The pairs in two lists; a pair may be listed several times.

        Raises
        ------
        InvalidInputError
            If the lists differ in length, or a number is out of range.
        """
        rows, columns = as_integers(features, "features"), as_integers(labels, "labels")
        n, k = as_count(n_features, "n_features", minimum=0), as_count(n_labels, "n_labels", minimum=1)
        if len(rows) != len(columns):
            raise InvalidInputError(
                f"features and labels must have one length, got {len(rows)} and {len(columns)}; list pairs"
            )
        for name, numbers, size in (("features", rows, n), ("labels", columns, k)):
            check_numbers(numbers, size, name, f"raise n_{name} or drop the pair")
        cells = np.unique(rows * k + columns)
        return cls._of_cells(cells, n, k)

    @classmethod
    def observed(cls, features: Features, offsets: Ints, labels: Ints, n_labels: int) -> Support:
        """The pairs of a feature and a label that some choice has together.

        Parameters
        ----------
        features : Features
        offsets, labels : ndarrays
            Choice c may have the labels ``labels[offsets[c]:offsets[c + 1]]``.
        n_labels : int
        """
        # Label after label, so that no list of all pairs, which may be long, is ever made.
        n, cells = features.n_features, []
        for label in range(n_labels):
            seen = np.zeros(n, np.bool_)
            kernel.mark(features.indptr, features.indices, offsets, labels, label, seen)
            cells.append(np.flatnonzero(seen) * n_labels + label)
        return cls._of_cells(np.sort(np.concatenate(cells)), n, n_labels)

    @classmethod
    def _of_cells(cls, cells: Ints, n_features: int, n_labels: int) -> Support:
        if len(cells) == n_features * n_labels:
            return cls(n_features, n_labels)
        kind = np.uint8 if n_labels <= 256 else np.int32
        indptr = np.searchsorted(cells, np.arange(n_features + 1) * n_labels)
        return cls(n_features, n_labels, indptr.astype(np.int64), (cells % n_labels).astype(kind))

    @property
    def n_weights(self) -> int:
        """Number of pairs."""
        return self.n_features * self.n_labels if self.labels is None else len(self.labels)

    def listed(self) -> tuple[Ints, Ints]:
        """Feature and label of every weight."""
        if self.indptr is None or self.labels is None:
            features, labels = np.divmod(np.arange(self.n_weights), self.n_labels)
            return features, labels
        return rows_of(np.diff(self.indptr)), self.labels.astype(np.int64)

    def table(self, weights: Floats) -> Floats:
        """Weights as an array of shape (n_features, n_labels), with 0 for pairs without one."""
        table = np.zeros((self.n_features, self.n_labels))
        table[self.listed()] = weights
        return table

    def add_scores(self, features: Features, weights: Floats, scores: Floats) -> None:
        """Add the scores of all labels of all choices, nats, to an array of shape (n_choices, n_labels)."""
        if self.indptr is None or self.labels is None:
            table = weights.reshape(-1, self.n_labels)
            if features.table is None:
                kernel.add_table_scores(*_entries(features), table, scores)
            else:
                scores += features.table @ table
            return
        wide = self._wide_table(features)
        wide.ravel()[self._wide_places[: wide.size]] = weights[: len(self._wide_places[: wide.size])]
        kernel.add_scores(*_entries(features), self.indptr, self.labels, weights, wide, scores)

    def add_counts(self, features: Features, shares: Floats, counts: Floats) -> None:
        """Add to ``counts``, one per weight, the sum of a feature's values times the share of the label.

        ``shares`` has the shape (n_choices, n_labels): of every label, how much of it the choice has.
        """
        if self.indptr is None or self.labels is None:
            table = counts.reshape(-1, self.n_labels)
            if features.table is None:
                kernel.add_table_counts(*_entries(features), shares, table)
            else:
                table += features.table.T @ shares
            return
        wide = self._wide_table(features)
        kernel.add_counts(*_entries(features), self.indptr, self.labels, shares, wide, counts)
        places = self._wide_places[: wide.size]
        counts[: len(places)] += wide.ravel()[places]

    def per_weight(self, of_features: Floats) -> Floats:
        """The value of its feature for every weight, shape (n_weights,)."""
        return np.repeat(of_features, self.n_labels if self.indptr is None else np.diff(self.indptr))

    def order(self) -> Ints:
        """The features, those with many labels first: numbered in this order, they are added up most quickly.

        Otherwise they keep their order, so that features which occur together, as those first met in one place do, lie
        close together in memory.
        """
        if self.indptr is None:
            return np.arange(self.n_features)
        return np.argsort(np.diff(self.indptr) < _WIDE, kind="stable")

    def take(self, features: Ints) -> Support:
        """The pairs of these features, numbered in this order."""
        if self.indptr is None or self.labels is None:
            return Support(len(features), self.n_labels)
        sizes = np.diff(self.indptr)[features]
        labels = self.labels[ranges_of(self.indptr[:-1][features], sizes)]
        return Support(len(features), self.n_labels, offsets_of(sizes), labels)

    @cached_property
    def _wide_places(self) -> Ints:
        """The place of the first weights in a table of the first features, as far as these have `_WIDE` labels."""
        if self.indptr is None or self.labels is None:
            return _NONE
        narrow = np.diff(self.indptr) < _WIDE
        n_wide = int(np.argmax(narrow)) if narrow.any() else self.n_features
        rows = np.repeat(np.arange(n_wide), np.diff(self.indptr[: n_wide + 1]))
        return rows * self._n_places + self.labels[: len(rows)]

    @property
    def _n_places(self) -> int:
        return -(-self.n_labels // kernel.LANES) * kernel.LANES

    def _wide_table(self, features: Features) -> Floats:
        """Zeros for the first features, or an empty table where making it would cost more than it gains."""
        places = self._wide_places
        n_wide = int(places[-1]) // self._n_places + 1 if len(places) else 0
        return np.zeros((n_wide if n_wide <= len(features.indices) else 0, self._n_places))


def _entries(features: Features) -> tuple[Ints, NDArray[np.int32], NDArray[np.floating]]:
    values = _NO_VALUES if features.values is None else features.values
    return features.indptr, features.indices, values


@brief_dataclass(frozen=True, eq=False)
class Merged:
    """Features of which none is another times a factor, and the groups of those that were merged.

    Under a Gaussian prior with one variance the best weights of such features are in proportion to their factors,
    since the likelihood sees one direction of them only. Of text, most features occur in one row and merge with all
    others that occur in that row alone: the optimum stays where it was, with a fraction of the parameters.

    Attributes
    ----------
    features : Features
        Each group as one feature whose sum of squares is that of all.
    group : ndarray of shape (n_features,), int64, or None
        The merged feature of every feature, -1 for those that no choice has. None where all are as they were.
    share : ndarray of shape (n_features,), or None
        The weight of a feature is this times the weight of its group; the squares of a group add up to 1.
    """

    features: Features
    group: Ints | None = None
    share: Floats | None = None

    def expand(self, weights: Floats) -> Floats:
        """Weights of all features from those of the groups, shapes (n_features, k) and (n_groups, k)."""
        if self.group is None or self.share is None:
            return weights
        expanded = self.share[:, None] * weights[np.maximum(self.group, 0)]
        expanded[self.group < 0] = 0.0
        return expanded


def merge_features(features: Features) -> Merged:
    """Merge the features whose values, choice by choice, are in one proportion, of those that `Features.of` makes.

    Examples
    --------
    >>> merged = merge_features(Features.of([[3.0, 4.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]))
    >>> merged.features.matrix.toarray().tolist(), merged.group.tolist(), merged.share.tolist()
    ([[5.0, 1.0], [0.0, 1.0]], [0, 0, 1, -1], [0.6, 0.8, 1.0, 0.0])
    """
    columns = sp.csc_array(features.matrix)
    n, starts = features.n_features, columns.indptr[:-1].astype(np.int64)
    sizes = np.diff(columns.indptr).astype(np.int64)
    used = np.flatnonzero(sizes)
    first = np.zeros(n)
    first[used] = columns.data[starts[used]]
    pattern = columns.data / np.repeat(first, sizes)
    representative = _representatives(columns.indices.astype(np.int64), pattern, starts, sizes, used)
    chosen, index = np.unique(representative[used], return_inverse=True)
    group = np.full(n, -1)
    group[used] = index
    norm = np.sqrt(np.bincount(index, first[used] ** 2, len(chosen)))
    share = np.zeros(n)
    share[used] = first[used] / norm[index]
    kept = ranges_of(starts[chosen], sizes[chosen])
    data = pattern[kept] * np.repeat(norm, sizes[chosen])
    merged = sp.csc_array(
        (data, columns.indices[kept], offsets_of(sizes[chosen])), shape=(features.n_choices, len(chosen))
    )
    return Merged(Features.of(merged.tocsr()), group, share)


def _representatives(rows: Ints, pattern: Floats, starts: Ints, sizes: Ints, used: Ints) -> Ints:
    """For every feature the first one with the same pattern, shape (n_features,)."""
    code = _codes(rows, pattern, starts[used])
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    representative = np.arange(len(sizes))
    representative[used] = used[first[inverse]]
    # Codes may agree by chance: what differs from its representative stands for itself.
    other = used[representative[used] != used]
    same = sizes[other] == sizes[representative[other]]
    representative[other[~same]] = other[~same]
    other = other[same]
    entries = ranges_of(starts[other], sizes[other])
    other_entries = ranges_of(starts[representative[other]], sizes[other])
    differs = (rows[entries] != rows[other_entries]) | (pattern[entries] != pattern[other_entries])
    wrong = np.unique(np.repeat(other, sizes[other])[differs])
    representative[wrong] = wrong
    return representative


def _codes(rows: Ints, pattern: Floats, starts: Ints) -> NDArray[np.uint64]:
    """A number for every column that begins at ``starts``, the same for those with the same rows and pattern."""
    if not len(starts):
        return np.zeros(0, np.uint64)
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ pattern.view(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.add.reduceat(mixed, starts)


# Work of a shard at least, in products of an evaluation: some per weight, since every shard has a gradient of its own
# to be made and added up. Where all labels are known, nothing is projected, and as much work takes less time.
_LEAST_WORK, _PER_WEIGHT, _KNOWN = 1 << 18, 4, 4


@briefly_shown
class Labels(NamedTuple):
    """The labels that choices may have, or have in shares.

    Attributes
    ----------
    offsets : ndarray of shape (n_choices + 1,), int64
    labels : ndarray of shape (n_entries,), int64
        Choice c has the labels ``labels[offsets[c]:offsets[c + 1]]``, increasing, at least one.
    shares : ndarray of shape (n_entries,), float64, or None
        The probability of each: the choices are then known, and nothing about them is inferred. None: the labels are
        those allowed.
    """

    offsets: Ints
    labels: Ints
    shares: Floats | None = None

    def take(self, choices: Ints) -> Labels:
        """The labels of the choices of these numbers, in their order."""
        sizes = np.diff(self.offsets)[choices]
        entries = ranges_of(self.offsets[:-1][choices], sizes)
        shares = None if self.shares is None else self.shares[entries]
        return Labels(offsets_of(sizes), self.labels[entries], shares)

    def neighbours(self, lengths: Ints) -> tuple[Ints, Ints]:
        """Every pair of a label of a token and one of the token after it in its sentence, as places in ``labels``.

        Examples
        --------
        >>> left, right = Labels(np.array([0, 2, 3, 5]), np.array([0, 1, 1, 0, 1])).neighbours(np.array([2, 1]))
        >>> left.tolist(), right.tolist()
        ([0, 1], [2, 2])
        """
        sizes, starts = np.diff(self.offsets), self.offsets[:-1]
        later = np.flatnonzero(positions_of(lengths) > 0)
        here = ranges_of(starts[later], sizes[later])
        before = np.repeat(later - 1, sizes[later])
        return ranges_of(starts[before], sizes[before]), np.repeat(here, sizes[before])


@brief_dataclass(frozen=True, eq=False)
class LogLinearShard:
    """Some instances of a corpus, or all: rows of one choice each, or sentences of tokens.

    Attributes
    ----------
    features : Features
        Of every choice, instance after instance.
    lengths : ndarray of shape (n_instances,), int64, or None
        Tokens of every sentence; None where every instance is one choice.
    labels : Labels or None
        None where every choice may have any label.
    weights : ndarray of shape (n_instances,), float64
    instances : ndarray of shape (n_instances,), int64
        Numbers of the instances in the corpus.
    columns : mapping of name -> ndarray of shape (n_choices,)
        What constraints may name beside the columns that there are anyway.
    given : ndarray of shape (n_instances,), bool, or None
        Instances that are labelled, each choice with one label, among others that are not; None if there are none.
    counts : ndarray of shape (n_instances,), float64, or None
        How often instances count in constraints; None: by their weights.
    owners : ndarray of shape (n_instances,), int64, or None
        In a joint model: to which of its instances each of these belongs; None where both are the same.
    """

    features: Features
    lengths: Ints | None
    labels: Labels | None
    weights: Floats
    instances: Ints
    columns: Mapping[str, Key]
    given: Bools | None = None
    counts: Floats | None = None
    owners: Ints | None = None

    @classmethod
    def whole(
        cls,
        features: Features,
        lengths: Ints | None = None,
        labels: Labels | None = None,
        columns: Mapping[str, Key] | None = None,
        **more: Any,
    ) -> LogLinearShard:
        """All instances of a corpus, of weight 1, from which shards are cut; ``more`` are other attributes."""
        n = features.n_choices if lengths is None else len(lengths)
        return cls(features, lengths, labels, np.ones(n), np.arange(n), columns or {}, **more)

    @property
    def known(self) -> bool:
        """Whether the labels, or distributions over them, are given."""
        return self.labels is not None and self.labels.shares is not None

    @property
    def n_instances(self) -> int:
        """Number of instances."""
        return len(self.weights)

    @cached_property
    def sizes(self) -> Ints:
        """Number of choices of every instance."""
        return np.ones(self.n_instances, np.int64) if self.lengths is None else self.lengths

    @cached_property
    def _starts(self) -> Ints:
        return offsets_of(self.sizes)

    def check(self) -> None:
        """Raise `InvalidInputError` if lengths do not add up to the choices, or a column has another length."""
        n_choices = self.features.n_choices
        check_total(self.sizes, n_choices, "tokens", "give one row of features per token")
        for name, column in self.columns.items():
            if len(column) != n_choices:
                raise InvalidInputError(
                    f"columns[{name!r}] must have {n_choices} values, one per choice; got {len(column)}; repeat those "
                    "of instances"
                )

    def work(self, n_labels: int) -> Ints:
        """Products that an evaluation of every instance takes, shape (n_instances,)."""
        return np.diff(self.features.indptr[self._starts]) * n_labels + self.sizes

    def take(self, instances: Ints, n_labels: int, *, known: bool) -> LogLinearShard:
        """The shard of some instances, by their numbers; the shares of labels are kept if they are known."""
        choices = ranges_of(self._starts[instances], self.sizes[instances])
        labels = None if self.labels is None else self.labels.take(choices)
        if labels is not None and not known:
            free = bool((np.diff(labels.offsets) == n_labels).all())
            labels = None if free else Labels(labels.offsets, labels.labels)
        return LogLinearShard(
            self.features.take(choices),
            at(self.lengths, instances),
            labels,
            self.weights[instances],
            instances,
            {name: values[choices] for name, values in self.columns.items()},
            some_of(self.given, instances),
            at(self.counts, instances),
            at(self.owners, instances),
        )


def build_shards(
    features: Features,
    lengths: ArrayLike | None = None,
    labels: Labels | None = None,
    known: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    columns: Mapping[str, Key] | None = None,
    given: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    *,
    present: ArrayLike | None = None,
    n_weights: int = 0,
    n_labels: int = 1,
    least: int | None = None,
) -> list[LogLinearShard]:
    """Cut a corpus into shards: first instances whose labels are to be inferred, then those that are known.

    Within each of the two kinds instances keep their order. Instances without choices are in no shard.

    Parameters
    ----------
    features : Features
    lengths : array-like of shape (n_instances,), int, optional
        Tokens of every sentence; by default every instance is one choice.
    labels : Labels, optional
        By default every choice may have any label. Those of known instances need ``shares``.
    known : array-like of shape (n_instances,), bool, optional
        Instances whose labels, or distributions over labels, are given: of these the shares of ``labels`` are kept,
        of the others dropped. By default none.
    weights : array-like of shape (n_instances,), optional
        At least 0; by default 1.
    columns : mapping of name -> ndarray of shape (n_choices,), optional
    given : array-like of shape (n_instances,), bool, optional
        Instances that are labelled, each choice with one label, but stay among those that are not since constraints
        tie them to others; they are not ``known``. By default none.
    counts : array-like of shape (n_instances,), optional
        How often instances count in constraints, at least 0; by default by their weights.
    present : array-like of shape (n_instances,), bool, optional
        The others are in no shard. By default all are that have a choice.
    n_weights, n_labels : int
        Of the model: the more weights, the fewer shards pay.
    least : int, optional
        Work of a shard at least: entries times labels.

    Returns
    -------
    list of LogLinearShard
        At least one, the same for every number of threads.

    Raises
    ------
    InvalidInputError
        If lengths do not add up to the number of choices, or a column has another length.

    Examples
    --------
    >>> features = Features.of(np.eye(3))
    >>> labels = Labels(np.array([0, 1, 3, 5]), np.array([0, 0, 1, 0, 1]), np.array([1, 0.5, 0.5, 0.5, 0.5]))
    >>> shards = build_shards(features, labels=labels, known=[True, False, False])
    >>> [(shard.known, shard.instances.tolist()) for shard in shards]
    [(False, [1, 2]), (True, [0])]
    """
    whole = LogLinearShard.whole(features, None if lengths is None else as_lengths(lengths, "lengths"), labels, columns)
    whole = replace(whole, **instance_values(whole.n_instances, weights, given, counts))
    whole.check()
    pieces = cut_by_known(whole.work(n_labels), known, present, n_weights, least)
    return [whole.take(instances, n_labels, known=kind) for instances, kind in pieces]


def instance_values(
    n: int, weights: ArrayLike | None, given: ArrayLike | None, counts: ArrayLike | None
) -> dict[str, Any]:
    """Attributes of a shard of n instances; the arguments are those of `build_shards`."""
    return {
        "weights": as_weights(weights, n),
        "given": None if given is None else np.asarray(given, np.bool_),
        "counts": None if counts is None else as_weights(counts, n),
    }


def cut_by_known(
    work: Ints, known: ArrayLike | None, present: ArrayLike | None, n_weights: int, least: int | None
) -> list[tuple[Ints, bool]]:
    """Instances of every shard, and whether they are known: first those that are not; see `build_shards`."""
    is_known = np.zeros(len(work), np.bool_) if known is None else np.asarray(known, np.bool_)
    work = work * (True if present is None else np.asarray(present, np.bool_))
    usual = _LEAST_WORK * (_KNOWN if is_known[work > 0].all() else 1)
    size = max(_PER_WEIGHT * n_weights, usual if least is None else least)
    return [(instances, bool(group)) for instances, group in cut(work, [~is_known, is_known], size)]


def at(values: NDArray | None, instances: Ints) -> NDArray | None:
    """Values at some instances, if there are any."""
    return None if values is None else values[instances]


def some_of(mask: Bools | None, instances: Ints) -> Bools | None:
    """A mask at the instances of a shard; None if it is nowhere true."""
    return None if mask is None or not mask[instances].any() else mask[instances]
