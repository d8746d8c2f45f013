"""A corpus of tagged sentences, with some heads or none, cut into shards whose borders depend on the data only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._heads import UNKNOWN_HEAD
from spectrem._validate import as_integers, as_lengths, as_weights
from spectrem.exceptions import InvalidInputError
from spectrem.models.shards import Columns, cut
from spectrem.structures import ValenceTrees
from spectrem.structures._ragged import offsets_of, ranges_of

# Parts of a shard.
_LEAST_PARTS, _MOST_PARTS = 1 << 15, 1 << 21


@dataclass(frozen=True, eq=False)
class GrammarShard:
    """Some sentences of a corpus.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
        Words of every sentence.
    tags : ndarray of shape (n_tokens,), int64
        Numbers of their tags.
    heads : ndarray of shape (n_tokens,), int64
        Positions in the sentence, -1 for the root, -2 where the head is not known.
    weights : ndarray of shape (n_sentences,), float64
    known : bool
        Whether all heads are given; constraints inside instances then do not apply.
    instances : ndarray of shape (n_sentences,), int64
        Numbers of the sentences in the corpus.
    cells : ndarray of shape (n_unary,), int64
        For every part of `ValenceTrees`, its place in the table of all scores; see `cells_of`.
    columns : Columns
        More columns for constraints.
    """

    lengths: Ints
    tags: Ints
    heads: Ints
    weights: Floats
    known: bool
    instances: Ints
    cells: Ints
    columns: Columns = Columns()  # noqa: RUF009


def n_cells(n_tags: int) -> int:
    """Size of the table of all scores of a model: arcs, arcs from the root, stops, and what is impossible."""
    return 4 * n_tags * n_tags + 5 * n_tags + 1


def cells_of(trees: ValenceTrees, tags: Ints, heads: Ints, n_tags: int) -> Ints:
    """Where the scores of parts stand in the table of all scores.

    The table holds arcs [tag of the head, side, later, tag of the child], then arcs from the root [tag], then stops
    [tag of the head, side, with a child], and last the score of what is impossible: arcs to a word with another head.
    """
    parts = trees.parts
    head_side = (2 * tags[parts.head] + parts.side) * 2 + parts.later
    n_arcs = 4 * n_tags * n_tags
    cells = np.where(parts.stop, n_arcs + n_tags + head_side, head_side * n_tags + tags[parts.dependent])
    cells[parts.root] = n_arcs + tags[parts.dependent[parts.root]]
    first = trees.token_offsets[:-1][trees.instance]
    head = np.where(parts.root, -1, parts.head - first)
    given = heads[parts.dependent]
    cells[parts.never | (~parts.stop & (given != UNKNOWN_HEAD) & (given != head))] = n_cells(n_tags) - 1
    return cells


def build_shards(
    lengths: ArrayLike,
    tags: ArrayLike,
    n_tags: int,
    *,
    heads: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    columns: Columns = Columns(),  # noqa: B008
) -> list[GrammarShard]:
    """Cut a corpus into shards: first sentences with unknown heads, then those whose heads are all given.

    Within each of the two kinds sentences keep their order. Sentences of length 0, or of weight 0, are in no shard.

    Parameters
    ----------
    lengths : array-like of shape (n_sentences,), int
        Words of every sentence, >= 0.
    tags : array-like of shape (n_tokens,), int
        Numbers of tags, sentence after sentence.
    n_tags : int
    heads : array-like of shape (n_tokens,), int, optional
        Positions in the sentence, -1 for the root, -2 where the head is not known; by default none is.
    weights : array-like of shape (n_sentences,), optional
        Weight of every sentence, >= 0; default 1.
    columns : Columns, optional
        More columns for constraints.

    Returns
    -------
    list of GrammarShard
        At least one, the same for every number of workers.

    Raises
    ------
    InvalidInputError
        If lengths do not add up to the number of tags or heads, a tag is out of range, a head lies outside its
        sentence, or a word is its own head.

    Examples
    --------
    >>> shards = build_shards([1, 2, 1], [0, 0, 1, 0], 2, heads=[-1, -2, -2, -1])
    >>> [(shard.known, shard.instances.tolist()) for shard in shards]
    [(False, [1]), (True, [0, 2])]
    """
    lengths, tags = as_lengths(lengths, "lengths"), as_integers(tags, "tags")
    given = np.full(len(tags), UNKNOWN_HEAD) if heads is None else as_integers(heads, "heads")
    for name, values in (("tags", tags), ("heads", given)):
        if lengths.sum() != len(values):
            raise InvalidInputError(
                f"lengths must add up to the number of {name}, got {lengths.sum()} and {len(values)}; give one per word"
            )
    outside = (tags < 0) | (tags >= n_tags)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidInputError(f"tags must be in 0..{n_tags - 1}; got {tags[at]} at index {at}; raise n_tags")
    ValenceTrees(lengths).arcs.arcs_of(given)  # validates them
    weights = as_weights(weights, len(lengths))
    offsets, sizes = offsets_of(lengths), 2 * lengths**2 + 4 * lengths
    unknown = np.diff(offsets_of(given == UNKNOWN_HEAD)[offsets])
    groups = (unknown > 0) & (weights > 0), (unknown == 0) & (weights > 0)
    shards = []
    for sentences, known in cut(sizes, groups, _LEAST_PARTS, _MOST_PARTS):
        n_words = lengths[sentences]
        tokens = ranges_of(offsets[sentences], n_words)
        cells = cells_of(ValenceTrees(n_words), tags[tokens], given[tokens], n_tags)
        named = columns.take(sentences, lengths)
        shards.append(
            GrammarShard(n_words, tags[tokens], given[tokens], weights[sentences], bool(known), sentences, cells, named)
        )
    return shards
