"""Links that are known before a bitext is aligned, and where the cells of a shard lie among its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.data import MAX_LENGTH, Links
from spectrem.kernels.alignments.bidirectional import Direction, Pairs
from spectrem.structures._ragged import offsets_of, positions_of, rows_of


@dataclass(frozen=True, eq=False)
class Anchors:
    """The known links of some sentence pairs; a word that has any has no others, in both directions.

    A word with several anchors shares its mass among them in the direction in which it chooses. Words without an
    anchor are free, and choose among words without an anchor and NULL; where links are *complete*, they are NULL's.

    Attributes
    ----------
    links : Links
        Of every pair; none where nothing is known.
    complete : ndarray of shape (n_pairs,), bool
        Pairs of which all links are given. No constraint concerns them.
    """

    links: Links
    complete: Bools

    @property
    def held(self) -> Bools:
        """Pairs of which anything is known, shape (n_pairs,)."""
        return (np.diff(self.links.offsets) > 0) | self.complete

    def take(self, chosen: NDArray[np.integer]) -> Anchors:
        """The anchors of the pairs with the given numbers, in that order."""
        return Anchors(self.links.take(chosen), self.complete[chosen])

    def excluded(self, pairs: Pairs) -> Excluded:
        """What the anchors of a shard rule out."""
        sentence = self.links.sentence
        widths = np.diff(pairs.target_offsets)
        source = pairs.source_offsets[sentence] + self.links.source
        target = pairs.target_offsets[sentence] + self.links.target
        source_linked = np.zeros(int(pairs.source_offsets[-1]), np.bool_)
        target_linked = np.zeros(int(pairs.target_offsets[-1]), np.bool_)
        source_linked[source], target_linked[target] = True, True
        closed_source = source_linked | np.repeat(self.complete, np.diff(pairs.source_offsets))
        closed_target = target_linked | np.repeat(self.complete, widths)
        n, i, j = places_of(pairs)
        cells = closed_source[pairs.source_offsets[n] + i] | closed_target[pairs.target_offsets[n] + j]
        cells[pairs.cell_offsets[sentence] + self.links.source * widths[sentence] + self.links.target] = False
        return Excluded(cells, source_linked, target_linked)

    def without_excluded(
        self, pairs: Pairs, forward: Direction, backward: Direction
    ) -> tuple[Pairs, Direction, Direction]:
        """A shard and potentials of its two directions, in which what the anchors rule out has potential 0.

        Cells of impossible links refer to an entry of their own, after all others.
        """
        found = self.excluded(pairs)
        cells = np.where(found.cells, np.int32(len(forward.links)), pairs.cells)
        links = np.concatenate([forward.links, np.zeros((1, 2))])
        forward = forward._replace(links=links, null=np.where(found.target_linked, 0.0, forward.null))
        backward = backward._replace(links=links, null=np.where(found.source_linked, 0.0, backward.null))
        return pairs._replace(cells=cells), forward, backward

    def allowed(self, pairs: Pairs) -> Bools:
        """Unary parts that the anchors of a shard leave possible: those of the forward, then of the backward direction.

        They are laid out as in `spectrem.structures.Alignment`.
        """
        found = self.excluded(pairs)
        return parts_of(pairs, ~found.cells, ~found.target_linked, ~found.source_linked)

    def impose_on_masses(self, forward: Floats, backward: Floats) -> None:
        """Set the posteriors of the links of one pair, both of shape (source words, target words), as it says."""
        source, target = self.links.source, self.links.target
        for masses, places in ((forward, target), (backward, source)):
            masses[source] = 0.0
            masses[:, target] = 0.0
            masses[source, target] = 1.0 / np.bincount(places)[places]

    def impose(self, links: Links, begin: int) -> Links:
        """Links of the pairs from number ``begin`` on, without those of anchored words and with the anchors."""
        return self.take(np.arange(begin, begin + links.n_sentences))._impose(links)

    def _impose(self, links: Links) -> Links:
        own, sentence = self.links.sentence * MAX_LENGTH, links.sentence * MAX_LENGTH
        closed = np.isin(sentence + links.source, own + self.links.source)
        closed |= np.isin(sentence + links.target, own + self.links.target)
        left = links.where(~(closed | self.complete[links.sentence]))
        return Links.from_arrays(
            np.concatenate([left.sentence, self.links.sentence]),
            np.concatenate([left.source, self.links.source]),
            np.concatenate([left.target, self.links.target]),
            n_sentences=links.n_sentences,
        )


class Excluded(NamedTuple):
    """What anchors rule out in a shard.

    Attributes
    ----------
    cells : ndarray of shape (n_cells,), bool
        Links that are not possible in either direction.
    source_linked, target_linked : ndarray of shape (n_tokens,), bool
        Words that are not NULL's.
    """

    cells: Bools
    source_linked: Bools
    target_linked: Bools


def places_of(pairs: Pairs) -> tuple[Ints, Ints, Ints]:
    """Sentence pair, source position and target position of every cell of a shard, each of shape (n_cells,)."""
    n = rows_of(np.diff(pairs.cell_offsets))
    i, j = np.divmod(np.arange(len(n)) - pairs.cell_offsets[n], np.diff(pairs.target_offsets)[n])
    return n, i, j


def parts_of(pairs: Pairs, cells: Bools, target_null: Bools, source_null: Bools) -> Bools:
    """Marks of unary parts, those of the forward, then of the backward direction, as `Alignment` lays them out.

    Parameters
    ----------
    pairs : Pairs
    cells : ndarray of shape (n_cells,), bool
        Marks of links, the same in both directions.
    target_null, source_null : ndarray of shape (n_tokens,), bool
        Marks of NULL as the choice of target words (forward) and of source words (backward).
    """
    n, i, j = places_of(pairs)
    parts = []
    for offsets, others, chooser, choice, null in (
        (pairs.target_offsets, pairs.source_offsets, j, i, target_null),
        (pairs.source_offsets, pairs.target_offsets, i, j, source_null),
    ):
        steps, widths = np.diff(offsets), np.diff(others) + 1
        begins, step = offsets_of(steps * widths), rows_of(steps)
        own = np.empty(int(begins[-1]), np.bool_)
        own[begins[n] + chooser * widths[n] + choice] = cells
        own[begins[step] + (positions_of(steps) + 1) * widths[step] - 1] = null
        parts.append(own)
    return np.concatenate(parts)
