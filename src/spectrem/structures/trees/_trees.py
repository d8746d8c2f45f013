"""Words that each take one head: what all structures of trees share, and the shapes of those whose parts are arcs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem._validate import as_bool, as_gamma, as_integers, as_lengths
from spectrem.exceptions import InvalidInputError
from spectrem.structures._columns import missing_where
from spectrem.structures._ragged import (
    Inputs,
    check_direction,
    check_inputs,
    check_instance,
    check_scores,
    moderate,
    no_parts,
    offsets_of,
    positions_of,
    reduced,
    rows_of,
)
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure


@dataclass(frozen=True, eq=False, init=False)
class Trees(Structure):
    """Abstract: sentences whose words each take one head, another word of the sentence or the root, without cycles.

    A family of trees adds the shapes of its parts, ``polytope``, and the three methods that `smoothed_max` calls.
    """

    lengths: Ints
    single_root: bool

    crossing: ClassVar[bool] = False
    """Whether arcs may cross."""

    def __init__(self, lengths: ArrayLike, *, single_root: bool = True) -> None:
        single = as_bool(single_root, "single_root", "; pass single_root=False for trees with several roots")
        vars(self).update(lengths=as_lengths(lengths, "lengths"), single_root=single)

    @property
    def n_instances(self) -> int:
        """Number of sentences of the batch."""
        return len(self.lengths)

    @property
    def n_tokens(self) -> int:
        """Number of words of the batch."""
        return int(self.token_offsets[-1])

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing is shared."""
        return ()

    @cached_property
    def token_offsets(self) -> Ints:
        """Boundaries of the sentences among the words, shape (n_instances + 1,)."""
        return offsets_of(self.lengths)

    @property
    def instance_name(self) -> str:
        """The column that numbers the sentences."""
        return "sentence"

    @property
    def column_values(self) -> Mapping[str, tuple[str, ...]]:
        """The values of text columns."""
        return {"direction": ("left", "right")}

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Values, shape (n_instances,) in nats, and marginals of the parts; see `Structure.smoothed_max`.

        ``weights`` change nothing, as there are no shared factors.
        """
        gamma = as_gamma(gamma)
        inputs = check_inputs(self, scores, active, weights)
        if gamma > 0.0:
            values, (marginals,) = self._sum_up((inputs.unary,), gamma, inputs.active)
            return values, Parts(marginals)
        values, heads = self._best(inputs)
        return values, self._indicators(heads)

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """Means of a sum over parts taken, and covariances of all parts with it; see `Differentiable.covariances`.

        Notes
        -----
        The pass that finds marginals carries the derivatives of all its numbers along the direction, in twice to three
        times its time. Sentences that it does not take, since scores are extreme or there are too many words, take some
        thirty times as long.
        """
        scores, (along, _) = check_scores(self, scores), check_direction(self, along, weights)
        direction, powers = moderate(along.unary, self._bounds)
        every = np.ones(self.n_instances, np.bool_)
        _, (marginals, slopes) = self._sum_up((scores.unary, direction), 1.0, every)
        slopes[marginals == 0.0] = 0.0  # where a marginal underflows its slope may not
        if powers is not None:
            np.ldexp(slopes, powers, out=slopes)
        return reduced(np.add, marginals * along.unary, self._bounds), Parts(slopes)

    def decode(self, scores: Parts) -> Ints:
        """Best head of every word, shape (n_tokens,): its position in the sentence, or ``ROOT`` (-1).

        -2 throughout a sentence without any possible tree.
        """
        return self._best(check_inputs(self, scores))[1]

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every tree of one sentence as indicators over the batch: for a handful of words."""
        n = check_instance(self, instance)
        size = int(self.lengths[n])
        for heads in itertools.product(range(ROOT, size), repeat=size):
            rooted = heads.count(ROOT) == 1 or not (self.single_root and size)
            if rooted and _is_tree(heads) and (self.crossing or not _crosses(heads)):
                all_heads = np.full(self.n_tokens, UNKNOWN_HEAD)
                all_heads[self.token_offsets[n] : self.token_offsets[n + 1]] = heads
                yield self._indicators(all_heads)

    def by_length(self, active: Bools) -> Ints:
        """Numbers of the active sentences that have words, by length: those that share lanes then have similar ones."""
        return self._by_length[(active & (self.lengths > 0))[self._by_length]]

    @cached_property
    def _by_length(self) -> Ints:
        return np.argsort(self.lengths, kind="stable")

    @property
    def _bounds(self) -> Ints:
        """Boundaries of the sentences among the parts, shape (n_instances + 1,)."""
        raise NotImplementedError

    def _sum_up(self, scores: tuple[Floats, ...], gamma: float, active: Bools) -> tuple[Floats, tuple[Floats, ...]]:
        """Values and marginals of active sentences; gamma > 0.

        Where scores come with a direction, marginals come with their slopes along it, times gamma.
        """
        raise NotImplementedError

    def _best(self, inputs: Inputs) -> tuple[Floats, Ints]:
        """Values, and heads of all words in the best trees."""
        raise NotImplementedError

    def _indicators(self, heads: Ints) -> Parts:
        """Indicators of the parts of trees, of none where heads are not known."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, init=False)
class ArcStructure(Trees):
    """Abstract: trees whose parts are arcs.

    ``Parts.unary`` holds for every sentence of n words a block of shape (n, n), row-major, indexed [dependent, head];
    the entry [d, d] is the arc from the root to d.
    """

    @property
    def n_unary(self) -> int:
        """Number of arcs of the batch, the square of its length for every sentence."""
        return int(self.block_offsets[-1])

    @cached_property
    def block_offsets(self) -> Ints:
        """Boundaries of the sentences in ``Parts.unary``, shape (n_instances + 1,)."""
        return offsets_of(self.lengths**2)

    @property
    def _bounds(self) -> Ints:
        return self.block_offsets

    @cached_property
    def offsets(self) -> Ints:
        """Boundaries of the words, as dependents, in ``Parts.unary``, shape (n_tokens + 1,)."""
        return offsets_of(np.repeat(self.lengths, self.lengths))

    @cached_property
    def instance(self) -> Ints:
        """Sentence of every arc, shape (n_unary,)."""
        return rows_of(self.lengths**2)

    @property
    def choice(self) -> Ints:
        """Dependent of every arc among the words of the batch, shape (n_unary,); built anew at every call."""
        return rows_of(np.repeat(self.lengths, self.lengths))

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The columns of the class notes, each of shape (n_unary,); built anew at every call."""
        dependent, head = self._ends
        root = dependent == head
        return {
            "sentence": self.instance,
            "dependent": dependent,
            "head": missing_where(head, root),
            "occurrence": self.choice,
            "root": root,
            "direction": missing_where(np.where(dependent < head, "left", "right"), root),
            "length": missing_where(np.abs(dependent - head), root),
        }

    def arc_columns(self, values: Mapping[str, ArrayLike]) -> dict[str, NDArray]:
        """Columns over arcs from values of words: of a mapping ``{"tag": ...}``, ``head_tag`` and ``dependent_tag``.

        Parameters
        ----------
        values : mapping of name -> array-like of shape (n_tokens,)
            One value for every word of the batch, text, numbers or truth values; None, NaN and the like are missing.

        Returns
        -------
        dict of name -> ndarray of shape (n_unary,)
            Values that belong to the head are missing (NaN, None among objects) at arcs from the root; numbers are
            floating-point there.

        Raises
        ------
        InvalidInputError
            If there is not one value per word.

        Examples
        --------
        >>> from spectrem.structures import ProjectiveTrees
        >>> columns = ProjectiveTrees([2]).arc_columns({"tag": ["DET", "NOUN"]})
        >>> columns["head_tag"].tolist(), columns["dependent_tag"].tolist()
        ([nan, 'NOUN', 'DET', nan], ['DET', 'DET', 'NOUN', 'NOUN'])
        """
        columns: dict[str, NDArray] = {}
        dependent, head = self._ends
        first = np.repeat(self.token_offsets[:-1], self.lengths**2)
        for name, word_values in values.items():
            words = _as_words(word_values)
            if words.shape != (self.n_tokens,):
                raise InvalidInputError(
                    f"values[{name!r}] must have shape ({self.n_tokens},), one value per word of the batch; got "
                    f"{words.shape}; join the values of all sentences"
                )
            columns[f"head_{name}"] = missing_where(words[first + head], dependent == head)
            columns[f"dependent_{name}"] = words[first + dependent]
        return columns

    def arcs_of(self, heads: ArrayLike) -> Ints:
        """The arcs that words take, as positions in ``Parts.unary``; -1 where the head of a word is not given.

        Parameters
        ----------
        heads : array-like of shape (n_tokens,), int
            Positions in the sentence, ``ROOT`` (-1) for the root, -2 where it is not known.

        Returns
        -------
        ndarray of shape (n_tokens,), int64

        Raises
        ------
        InvalidInputError
            If a head lies outside its sentence, or a word is its own head.

        Notes
        -----
        Whether the heads of a sentence make a tree is not asked.

        Examples
        --------
        >>> from spectrem.structures import ROOT, ProjectiveTrees
        >>> ProjectiveTrees([1, 2]).arcs_of([ROOT, 1, ROOT]).tolist()
        [0, 2, 4]
        """
        checked = as_integers(heads, "heads")
        if len(checked) != self.n_tokens:
            raise InvalidInputError(
                f"heads must have {self.n_tokens} entries, one per word of the batch; got {len(checked)}; join the "
                "heads of all sentences"
            )
        place, lengths = positions_of(self.lengths), np.repeat(self.lengths, self.lengths)
        wrong = (checked < UNKNOWN_HEAD) | (checked >= lengths) | (checked == place)
        if wrong.any():
            at = int(np.argmax(wrong))
            n = int(np.searchsorted(self.token_offsets, at, side="right")) - 1
            raise InvalidInputError(
                f"heads must be in 0..{lengths[at] - 1} (positions in the sentence) and not the word itself, {ROOT} "
                f"for the root or {UNKNOWN_HEAD} if unknown; got {checked[at]} for word {place[at]} of sentence {n}; "
                "CoNLL's heads less one are such positions"
            )
        arcs = self.offsets[:-1] + np.where(checked == ROOT, place, checked)
        return np.where(checked == UNKNOWN_HEAD, -1, arcs)

    @property
    def _ends(self) -> tuple[Ints, Ints]:
        """Dependent and head of every arc as positions in the sentence; the head of an arc from the root is its end."""
        lengths = self.lengths
        dependent = np.repeat(positions_of(lengths), np.repeat(lengths, lengths))
        return dependent, positions_of(np.repeat(lengths, lengths))

    def _indicators(self, heads: Ints) -> Parts:
        """Indicators of the arcs of trees, of none where heads are not known."""
        indicator, arcs = no_parts(self), self.arcs_of(heads)
        indicator.unary[arcs[arcs >= 0]] = 1.0
        return indicator


def _as_words(values: ArrayLike) -> NDArray:
    """Values of words as an array, of objects where NumPy would write missing ones as the text "nan"."""
    plain = values.tolist() if isinstance(values, np.ma.MaskedArray) else values
    words = np.asarray(plain)
    if isinstance(plain, np.ndarray) or words.dtype.kind in "biuf":
        return words
    objects = np.asarray(plain, object)
    return words if all(isinstance(value, str) for value in objects) else objects


def _is_tree(heads: tuple[int, ...]) -> bool:
    """Whether every word reaches the root."""
    for word in range(len(heads)):
        for _ in heads:
            word = heads[word] if word != ROOT else word
        if word != ROOT:
            return False
    return True


def _crosses(heads: tuple[int, ...]) -> bool:
    """Whether two arcs cross; the root stands before the first word."""
    arcs = [(min(arc), max(arc)) for arc in enumerate(heads)]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)
