"""A corpus of choices with sparse features, cut into shards by the data alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_lengths, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.models.loglinear.features import Features
from spectrem.structures._ragged import offsets_of, positions_of, ranges_of

# A shard is closed after this much work, in products of an evaluation: an eighth of the corpus, but no less than some
# products per weight, since every shard has a gradient of its own to be made and added up.
_SHARDS, _LEAST_WORK, _PER_WEIGHT = 8, 1 << 16, 4


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
    columns : mapping of name -> ndarray of shape (n_instances,) or (n_choices,)
        What constraints may name beside the columns that there are anyway.
    given : ndarray of shape (n_instances,), bool, or None
        Instances that are labelled, each choice with one label, among others that are not; None if there are none.
    """

    features: Features
    lengths: Ints | None
    labels: Labels | None
    weights: Floats
    instances: Ints
    columns: Mapping[str, NDArray]
    given: Bools | None = None

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
    columns: Mapping[str, NDArray] | None = None,
    given: ArrayLike | None = None,
    *,
    n_weights: int = 0,
    n_labels: int = 1,
    least: int = _LEAST_WORK,
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
    columns : mapping of name -> ndarray of shape (n_instances,) or (n_choices,), optional
    given : array-like of shape (n_instances,), bool, optional
        Instances that are labelled, each choice with one label, but stay among those that are not since constraints
        tie them to others; they are not ``known``. By default none.
    n_weights, n_labels : int
        Of the model: the more weights, the fewer shards pay.
    least : int
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
    n = features.n_choices if sizes is None else len(sizes)
    per_instance = np.ones(n, np.int64) if sizes is None else sizes
    if per_instance.sum() != features.n_choices:
        raise InvalidInputError(
            f"lengths must add up to the number of tokens, got {per_instance.sum()} and {features.n_choices}; give one "
            "row of features per token"
        )
    weight = as_weights(weights, n)
    apart = np.zeros(n, np.bool_) if known is None else np.asarray(known, np.bool_)
    among = None if given is None else np.asarray(given, np.bool_)
    for name, column in (columns or {}).items():
        if len(column) not in (n, features.n_choices):
            raise InvalidInputError(
                f"columns[{name!r}] must have {n} values, one per instance, or one per choice; got {len(column)}"
            )
    starts = offsets_of(per_instance)
    work = np.diff(features.indptr[starts]) * n_labels + per_instance  # of every instance
    total = int(work.sum())
    most = max(-(-total // _SHARDS), _PER_WEIGHT * n_weights, least)
    shards = []
    for kind in (False, True):
        chosen = np.flatnonzero((apart == kind) & (per_instance > 0))
        for own in runs_of(chosen, work[chosen], most):
            tokens = ranges_of(starts[own], per_instance[own])
            found = None if labels is None else labels.take(tokens)
            if found is not None and not kind:
                free = bool((np.diff(found.offsets) == n_labels).all())
                found = None if free else Labels(found.offsets, found.labels)
            shards.append(
                LogLinearShard(
                    features.take(tokens),
                    None if sizes is None else sizes[own],
                    found,
                    weight[own],
                    own,
                    {name: c[own] if len(c) == n else c[tokens] for name, c in (columns or {}).items()},
                    None if among is None or not among[own].any() else among[own],
                )
            )
    nothing = np.zeros(0, np.int64)
    return shards or [LogLinearShard(features[:0], None if sizes is None else nothing, None, weight[:0], nothing, {})]


def runs_of(instances: Ints, work: Ints, most: int) -> list[Ints]:
    """Runs of instances of about ``most`` work each, as equal as whole instances allow."""
    if not len(instances):
        return []
    ends = np.cumsum(work)
    n_runs = max(round(int(ends[-1]) / most), 1)
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_runs) / n_runs) + 1
    return [run for run in np.split(instances, np.unique(cuts)) if len(run)]
