"""A corpus cut into shards, whose borders depend on the data only, and results of shards in the order of the corpus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Ints
from spectrem.constraints.compilation.groups import Key
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import offsets_of, ranges_of, runs_of

# A shard is closed after an eighth of the work of the corpus, within bounds that its model sets.
_SHARDS = 8


class Columns(NamedTuple):
    """Values that constraints may name, by what they belong to.

    Attributes
    ----------
    of_sentences : mapping of name -> ndarray of shape (n_sentences,)
    of_words : mapping of name -> ndarray of shape (n_tokens,)
        Constraints on trees name them with "head_" and with "dependent_" before the name.
    of_arcs : mapping of name -> ndarray of shape (n_arcs,)
        In blocks [dependent, head], arcs from the root on the diagonal.
    """

    of_sentences: Mapping[str, Key] = {}
    of_words: Mapping[str, Key] = {}
    of_arcs: Mapping[str, Key] = {}

    def take(self, sentences: Ints, lengths: Ints) -> Columns:
        """The columns of some sentences, by their numbers; ``lengths`` are those of all."""
        sizes = lengths[sentences]
        words = ranges_of(offsets_of(lengths)[sentences], sizes) if self.of_words else sentences
        arcs = ranges_of(offsets_of(lengths**2)[sentences], sizes**2) if self.of_arcs else sentences
        places = (sentences, words, arcs)
        return Columns(*({name: c[at] for name, c in kind.items()} for kind, at in zip(self, places, strict=True)))


def cut(work: Ints, groups: Iterable[Bools], least: int, most: int | None = None) -> list[tuple[Ints, int]]:
    """Numbers of the instances of every shard, and of their group; no shard holds instances of two groups.

    Groups keep their order, and instances theirs within a group. Those of no group, or without work, are in no shard.

    Parameters
    ----------
    work : ndarray of shape (n_instances,)
    groups : iterable of ndarrays of shape (n_instances,), bool
    least, most : int
        A shard is closed after about an eighth of all work, but not before the work reaches ``least``, nor far above
        ``most``.

    Returns
    -------
    list of (instances, group)
        At least one, without instances if there are none.
    """
    size = int(np.clip(-(-int(work.sum()) // _SHARDS), least, most))
    shards = []
    for number, members in enumerate(groups):
        instances = np.flatnonzero(members & (work > 0))
        shards += [(run, number) for run in runs_of(instances, work[instances], size)]
    return shards or [(np.zeros(0, np.int64), 0)]


def in_corpus_order(shards: Sequence[Any], values: Iterable[NDArray], sizes: Ints | int) -> NDArray:
    """Rows that were found shard after shard, as one array in the order of the corpus.

    Parameters
    ----------
    shards : sequence of shards
        All shards of a corpus.
    values : iterable of ndarrays
        Of every shard, the rows of its instances one after the other.
    sizes : ndarray of shape (n_instances of the corpus,), int64, or int
        Rows of every instance, or the number of instances that have one each; those that are in no shard are 0.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> shards = [SimpleNamespace(instances=np.array([1, 3])), SimpleNamespace(instances=np.array([0]))]
    >>> in_corpus_order(shards, [np.array([10, 20, 30]), np.array([40])], np.array([1, 2, 1, 1])).tolist()
    [40, 10, 20, 0, 30]
    """
    starts, ordered = None if isinstance(sizes, int) else offsets_of(sizes), np.zeros(0)
    for number, (shard, rows) in enumerate(zip(shards, values, strict=True)):
        if not number:
            ordered = np.zeros((sizes if starts is None else starts[-1], *rows.shape[1:]), rows.dtype)
        at = shard.instances
        ordered[at if isinstance(sizes, int) or starts is None else ranges_of(starts[at], sizes[at])] = rows
    return ordered


def check_total(lengths: Ints, n: int, name: str, advice: str) -> None:
    """Raise `InvalidInputError` if lengths do not add up to the number of values called ``name``."""
    if lengths.sum() != n:
        raise InvalidInputError(f"lengths must add up to the number of {name}, got {lengths.sum()} and {n}; {advice}")


def check_numbers(numbers: Ints, size: int, name: str, advice: str) -> None:
    """Raise `InvalidInputError` if a number is not in 0 ... ``size`` - 1."""
    outside = (numbers < 0) | (numbers >= size)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidInputError(f"{name} must be in 0..{size - 1}; got {numbers[at]} at index {at}; {advice}")


def count_known(shard: Any) -> int:
    """1 for a shard whose structures are given, else 0."""
    return int(shard.known)
