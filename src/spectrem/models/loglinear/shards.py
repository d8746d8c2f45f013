"""A corpus of choices with sparse features, cut into shards by the data alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_lengths, as_weights
from spectrem.constraints.compilation.groups import Key
from spectrem.exceptions import InvalidInputError
from spectrem.models.loglinear.features import Features
from spectrem.models.shards import cut
from spectrem.structures._ragged import offsets_of, positions_of, ranges_of

# Work of a shard at least, in products of an evaluation: some per weight, since every shard has a gradient of its own
# to be made and added up.
_LEAST_WORK, _PER_WEIGHT = 1 << 18, 4


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


@dataclass(frozen=True, eq=False)
class LogLinearShard:
    """Some instances of a corpus: rows of one choice each, or sentences of tokens.

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
    """

    features: Features
    lengths: Ints | None
    labels: Labels | None
    weights: Floats
    instances: Ints
    columns: Mapping[str, Key]
    given: Bools | None = None
    counts: Floats | None = None

    @property
    def known(self) -> bool:
        """Whether the labels, or distributions over them, are given."""
        return self.labels is not None and self.labels.shares is not None

    @property
    def choices_per_instance(self) -> Ints:
        """Number of choices of every instance."""
        return np.ones(len(self.weights), np.int64) if self.lengths is None else self.lengths


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
    sizes = None if lengths is None else as_lengths(lengths, "lengths")
    member = Member(features, sizes, labels, columns={} if columns is None else columns)
    n = member.n_instances
    weight = as_weights(weights, n)
    among = None if given is None else np.asarray(given, np.bool_)
    member.check()
    work = member.work(n_labels) * (True if present is None else np.asarray(present, np.bool_))
    pieces = cut_by_known(work, known, n_weights, least)
    shards = [member.take(own, kind, n_labels, weight[own], some_of(among, own)) for own, kind in pieces]
    if counts is None:
        return shards
    count = as_weights(counts, n)
    return [replace(shard, counts=count[shard.instances]) for shard in shards]


@dataclass(frozen=True, eq=False)
class Member:
    """The instances of a corpus as one log-linear model sees them, from which shards are cut.

    Attributes
    ----------
    features : Features
        Of every choice, instance after instance.
    lengths : ndarray of shape (n_instances,), int64, or None
        Tokens of every sentence; None where every instance is one choice.
    labels : Labels or None
        None where every choice may have any label.
    columns : mapping of name -> ndarray of shape (n_choices,)
    owners : ndarray of shape (n_instances,), int64, or None
        In a joint model: to which of its instances each of these belongs; None where both are the same.
    """

    features: Features
    lengths: Ints | None = None
    labels: Labels | None = None
    columns: Mapping[str, Key] = field(default_factory=dict)
    owners: Ints | None = None

    @cached_property
    def sizes(self) -> Ints:
        """Number of choices of every instance."""
        return np.ones(self.features.n_choices, np.int64) if self.lengths is None else self.lengths

    @property
    def n_instances(self) -> int:
        """Number of instances."""
        return len(self.sizes)

    @cached_property
    def _starts(self) -> Ints:
        return offsets_of(self.sizes)

    def check(self) -> None:
        """Raise `InvalidInputError` if lengths do not add up to the choices, or a column has another length."""
        n_choices = self.features.n_choices
        if self._starts[-1] != n_choices:
            raise InvalidInputError(
                f"lengths must add up to the number of tokens, got {self._starts[-1]} and {n_choices}; give one "
                "row of features per token"
            )
        for name, column in self.columns.items():
            if len(column) != n_choices:
                raise InvalidInputError(
                    f"columns[{name!r}] must have {n_choices} values, one per choice; got {len(column)}; repeat those "
                    "of instances"
                )

    def work(self, n_labels: int) -> Ints:
        """Products that an evaluation of every instance takes, shape (n_instances,)."""
        return np.diff(self.features.indptr[self._starts]) * n_labels + self.sizes

    def take(
        self, own: Ints, known: bool, n_labels: int, weights: Floats, given: Bools | None = None
    ) -> LogLinearShard:
        """The shard of the instances of these numbers."""
        choices = ranges_of(self._starts[own], self.sizes[own])
        labels = None if self.labels is None else self.labels.take(choices)
        if labels is not None and not known:
            free = bool((np.diff(labels.offsets) == n_labels).all())
            labels = None if free else Labels(labels.offsets, labels.labels)
        lengths = None if self.lengths is None else self.lengths[own]
        columns = {name: values[choices] for name, values in self.columns.items()}
        return LogLinearShard(self.features.take(choices), lengths, labels, weights, own, columns, given)


def cut_by_known(work: Ints, known: ArrayLike | None, n_weights: int, least: int | None) -> list[tuple[Ints, bool]]:
    """Instances of every shard, and whether they are known: first those that are not; see `build_shards`."""
    is_known = np.zeros(len(work), np.bool_) if known is None else np.asarray(known, np.bool_)
    size = max(_PER_WEIGHT * n_weights, _LEAST_WORK if least is None else least)
    return [(instances, bool(group)) for instances, group in cut(work, [~is_known, is_known], size)]


def some_of(among: Bools | None, own: Ints) -> Bools | None:
    """A mask at the instances of a shard; None if it is nowhere true."""
    return None if among is None or not among[own].any() else among[own]
