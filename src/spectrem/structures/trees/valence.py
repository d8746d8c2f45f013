"""Projective dependency trees for grammars that generate the children of a head one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem._validate import as_gamma
from spectrem.kernels.chains.potentials import subtract_tops
from spectrem.kernels.trees import eisner, eisner_max, valence_lanes, valence_max
from spectrem.structures._columns import missing_where
from spectrem.structures._polytopes import check_tree_program
from spectrem.structures._ragged import (
    Inputs,
    check_inputs,
    check_instance,
    check_scores,
    no_parts,
    offsets_of,
    positions_of,
)
from spectrem.structures.derivations import NO_STEPS, Derivations, sum_up
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope
from spectrem.structures.trees._arcs import decode_one_by_one
from spectrem.structures.trees._steps import valence_steps
from spectrem.structures.trees.projective import ProjectiveTrees


class ValenceParts(NamedTuple):
    """What the parts of a batch of `ValenceTrees` stand for, each array of shape (n_unary,).

    Attributes
    ----------
    dependent, head : ndarray of int64
        Words of the batch. The head of an arc from the root is its dependent; a stop has its head as dependent, too.
    side : ndarray of int64
        0 to the left of the head, 1 to its right; 0 for arcs from the root.
    later : ndarray of bool
        Arcs: whether the head has a child on that side already. Stops: whether it has one at all.
    stop, root : ndarray of bool
    never : ndarray of bool
        Parts that no tree has: a second arc from the root to the same word.
    """

    dependent: NDArray[np.int64]
    head: NDArray[np.int64]
    side: NDArray[np.int64]
    later: NDArray[np.bool_]
    stop: NDArray[np.bool_]
    root: NDArray[np.bool_]
    never: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, init=False)
class ValenceTrees:
    """Projective trees whose parts say which child of its head a word is, and when heads stop taking children.

    A head takes the children of each side from the inside out, and then stops, as in the dependency model with valence
    [KleinManning2004]. So an arc has one score as the first child of its head on that side and another one as a later
    child, and a head has a score for stopping on a side without a child and one for stopping with some.

    Use for generative grammars of dependencies; where arcs have scores of their own, `ProjectiveTrees` is smaller.

    Parameters
    ----------
    lengths : array-like of shape (n_instances,), int
        Words of every sentence, >= 0; a sentence without words has the value 0.
    single_root : bool, default True
        Whether exactly one word hangs on the root, or any number of them, at least one. The root takes its words
        independently: it neither counts nor stops.

    Raises
    ------
    InvalidInputError
        If lengths are negative or ``single_root`` is not a truth value.

    Notes
    -----
    ``Parts.unary`` holds for every sentence of n words first the arcs, a block of shape (n, n, 2), row-major, indexed
    [dependent, head, 0: first child on that side, 1: later], where [d, d, 0] is the arc from the root to d and
    [d, d, 1] is never taken; then the stops, of shape (n, 2, 2), indexed [head, 0: left, 1: right, 0: without child,
    1: with]. There are no shared factors. A word chooses its arc; each of its two stops is a choice of its own, so
    that ``E.count(~part("stop"))`` counts words.

    Columns: ``sentence``, ``dependent``, ``head``, ``occurrence`` (the dependent among the words of the batch),
    ``root``, ``direction`` ("left": the dependent stands left of its head) and ``length`` as those of
    `ProjectiveTrees`; ``adjacent`` (bool), true of the first child of a head on a side and of arcs from the root;
    ``stop`` (bool). At stops ``dependent``, ``head``, ``occurrence``, ``direction`` and ``length`` are missing, so that
    whatever names them speaks of arcs alone.

    Examples
    --------
    Two words: the first or the second one is the root.

    >>> import numpy as np
    >>> from spectrem.structures import Parts, ValenceTrees
    >>> trees = ValenceTrees([2])
    >>> scores = Parts(np.zeros(trees.n_unary))
    >>> values, marginals = trees.smoothed_max(scores, gamma=1.0)
    >>> float(np.exp(values[0]).round(9)), marginals.unary[:8].round(9).reshape(2, 2, 2)[:, :, 0].tolist()
    (2.0, [[0.5, 0.5], [0.5, 0.5]])
    >>> trees.decode(scores).tolist()
    [-1, 0]
    """

    arcs: ProjectiveTrees

    def __init__(self, lengths: ArrayLike, *, single_root: bool = True) -> None:
        object.__setattr__(self, "arcs", ProjectiveTrees(lengths, single_root=single_root))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words of every sentence, shape (n_instances,)."""
        return self.arcs.lengths

    @property
    def single_root(self) -> bool:
        """Whether exactly one word hangs on the root."""
        return self.arcs.single_root

    @property
    def n_instances(self) -> int:
        """Number of sentences of the batch."""
        return self.arcs.n_instances

    @property
    def n_tokens(self) -> int:
        """Number of words of the batch."""
        return self.arcs.n_tokens

    @property
    def n_unary(self) -> int:
        """Number of parts of the batch: 2 n² + 4 n for every sentence of n words."""
        return int(self.offsets[-1])

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing is shared."""
        return ()

    @property
    def token_offsets(self) -> NDArray[np.int64]:
        """Boundaries of the sentences among the words, shape (n_instances + 1,)."""
        return self.arcs.token_offsets

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Boundaries of the sentences in ``Parts.unary``, shape (n_instances + 1,)."""
        return offsets_of(2 * self.lengths**2 + 4 * self.lengths)

    @cached_property
    def _choice_offsets(self) -> NDArray[np.int64]:
        """Boundaries in ``Parts.unary`` of what words may hang on, and of the stops of their sides."""
        sizes, sentence = np.full(3 * self.n_tokens, 2), np.repeat(np.arange(self.n_instances), self.lengths)
        sizes[2 * self.token_offsets[sentence] + np.arange(self.n_tokens)] = 2 * self.lengths[sentence]
        return offsets_of(sizes)

    @property
    def instance_name(self) -> str:
        """The column that numbers the sentences."""
        return "sentence"

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Sentence of every part, shape (n_unary,)."""
        return np.repeat(np.arange(self.n_instances), np.diff(self.offsets))

    @property
    def choice(self) -> NDArray[np.int64]:
        """The dependent of every arc among the words of the batch; behind them two numbers per word for its stops."""
        parts = self.parts
        return np.where(parts.stop, self.n_tokens + 2 * parts.head + parts.side, parts.dependent)

    @property
    def parts(self) -> ValenceParts:
        """What the parts stand for; built anew at every call."""
        lengths, instance = self.lengths, self.instance
        place, n = positions_of(np.diff(self.offsets)), lengths[instance]
        first = self.token_offsets[:-1][instance]
        behind = place - 2 * n * n
        stop = behind >= 0
        n = np.maximum(n, 1)
        dependent = np.where(stop, behind // 4, place // (2 * n))
        head = np.where(stop, behind // 4, place // 2 % n)
        side = np.where(stop, behind // 2 % 2, dependent > head)
        later = place % 2 == 1  # n² arcs are twice as many parts, so that stops begin at an even place
        root = ~stop & (dependent == head)
        return ValenceParts(first + dependent, first + head, side, later, stop, root & ~later, root & later)

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The columns of the class notes, each of shape (n_unary,); built anew at every call."""
        parts, first = self.parts, self.token_offsets[:-1][self.instance]
        rooted = parts.root | parts.never
        no_arc = parts.stop | rooted
        return {
            "sentence": self.instance,
            "dependent": missing_where(parts.dependent - first, parts.stop),
            "head": missing_where(parts.head - first, no_arc),
            "occurrence": missing_where(parts.dependent, parts.stop),
            "root": parts.root,
            "direction": missing_where(np.where(parts.side == 0, "left", "right"), no_arc),
            "length": missing_where(np.abs(parts.dependent - parts.head), no_arc),
            "adjacent": ~parts.stop & ~parts.later,
            "stop": parts.stop,
        }

    @property
    def column_values(self) -> Mapping[str, tuple[str, ...]]:
        """The values of text columns."""
        return self.arcs.column_values

    def arc_columns(self, values: Mapping[str, ArrayLike]) -> dict[str, NDArray]:
        """Columns over parts from values of words: of a mapping ``{"tag": ...}``, ``head_tag`` and ``dependent_tag``.

        Parameters
        ----------
        values : mapping of name -> array-like of shape (n_tokens,)

        Returns
        -------
        dict of name -> ndarray of shape (n_unary,)
            Both are missing (NaN, None among objects) at stops, and values of the head at arcs from the root.

        Raises
        ------
        InvalidInputError
            If there is not one value per word.
        """
        columns, arc, stop = self.arcs.arc_columns(values), self._arc, self.parts.stop
        return {name: missing_where(column[arc], stop) for name, column in columns.items()}

    def spread_arcs(self, values: ArrayLike) -> NDArray:
        """A value per part from one per arc, as those of `ProjectiveTrees`; False, or missing, at stops.

        Parameters
        ----------
        values : array-like of shape (n_arcs,)
            In blocks [dependent, head], arcs from the root on the diagonal; first and later children have the same.

        Returns
        -------
        ndarray of shape (n_unary,)
        """
        found, stop = np.asarray(values)[self._arc], self.parts.stop
        return found & ~stop if found.dtype.kind == "b" else missing_where(found, stop)

    @property
    def _arc(self) -> NDArray[np.int64]:
        """The arc of every part among those of all sentences, the first one at stops."""
        n, place = self.lengths[self.instance], positions_of(np.diff(self.offsets))
        first = offsets_of(self.lengths**2)[:-1][self.instance]
        return np.where(self.parts.stop, 0, first + np.minimum(place // 2, n * n - 1))

    def parts_of(self, heads: ArrayLike) -> Parts:
        """Indicators of the arcs and stops of given trees, which need not be projective.

        Parameters
        ----------
        heads : array-like of shape (n_tokens,), int
            Positions in the sentence, ``ROOT`` (-1) for the root, -2 throughout a sentence that is to have no parts.

        Raises
        ------
        InvalidInputError
            If a head lies outside its sentence, or a word is its own head.
        """
        self.arcs.arcs_of(heads)  # validates them
        given, indicator = np.asarray(heads, np.int64), no_parts(self)
        first, n = np.repeat(self.token_offsets[:-1], self.lengths), np.repeat(self.lengths, self.lengths)
        start, own = np.repeat(self.offsets[:-1], self.lengths), positions_of(self.lengths)
        known = given != UNKNOWN_HEAD
        rooted = given == ROOT
        head = np.where(given < 0, own, given)
        word = np.flatnonzero(known & ~rooted)
        slot = 2 * (first + head)[word] + (own > head)[word]  # a side of a head
        distance = np.abs(own - head)[word]
        nearest = np.full(2 * self.n_tokens, np.iinfo(np.int64).max)
        np.minimum.at(nearest, slot, distance)
        later = np.zeros(self.n_tokens, np.int64)
        later[word] = distance > nearest[slot]
        arc = start + 2 * (own * n + head) + later
        indicator.unary[arc[known]] = 1.0
        has_child = (nearest < np.iinfo(np.int64).max).reshape(-1, 2)
        stops = (start + 2 * n * n + 4 * own)[:, None] + 2 * np.arange(2) + has_child
        indicator.unary[stops[known]] = 1.0
        return indicator

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], Parts]:
        """Values, shape (n_instances,) in nats, and marginals of arcs and stops; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, the lowest root wins, and then the split with the lowest position.
        """
        gamma = as_gamma(gamma)
        given = check_inputs(self, scores, active, weights)
        if gamma == 0.0:
            values, heads = self._best(given)
            return values, self.parts_of(heads)
        # marginals take the place of potentials, since new memory costs as much as filling it
        values, marginals, tops = np.zeros(self.n_instances), np.empty(self.n_unary), np.empty(3 * self.n_tokens)
        subtract_tops(given.unary, self._choice_offsets, gamma, marginals, tops)
        np.exp(marginals, out=marginals)  # which has vector instructions that a kernel does not have
        if not given.active.all():
            marginals[np.repeat(~given.active, np.diff(self.offsets))] = 0.0
        status = (given.active & (self.lengths > 0)).astype(np.int8)
        order = self.arcs.by_length(given.active & (self.lengths <= eisner.LONGEST))
        scaled = (marginals, tops, self.token_offsets, gamma, self.single_root)
        valence_lanes.sum_pass(order, self.lengths, self.offsets, *scaled, values, status)
        if status.any():
            marginals[np.repeat(status == 1, np.diff(self.offsets))] = 0.0
            sum_up(self, status == 1, Parts(given.unary), gamma, given.weights, values, Parts(marginals))
        return values, Parts(marginals)

    def decode(self, scores: Parts) -> NDArray[np.int64]:
        """Heads of the best trees, shape (n_tokens,): positions in the sentence, ``ROOT`` (-1) for the root.

        -2 throughout a sentence without any possible tree.
        """
        return self._best(check_inputs(self, scores))[1]

    def _best(self, given: Inputs) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Values, and heads of all words."""
        values, heads = np.zeros(self.n_instances), np.full(self.n_tokens, UNKNOWN_HEAD)
        layout = (self.lengths, self.offsets, self.token_offsets, given.unary)
        long = given.active & (self.lengths > eisner_max.LONGEST)
        valence_max.max_pass(self.arcs.by_length(given.active & ~long), *layout, self.single_root, values, heads)
        decode_one_by_one(self, np.flatnonzero(long), given.unary, values, heads)
        return values, heads

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """A unit of flow through the items of the kernels, whose vertices are derivations: one for every tree."""
        n = int(self.lengths[check_instance(self, instance)])
        check_tree_program(n, 2 * (n**3 - n) // 3 + 2 * n**2 + (2 * n if self.single_root else n * (n + 1)))
        return self.derivations(instance).polytope(check_scores(self, scores))

    def derivations(self, instance: int) -> Derivations:
        """The steps that derive the trees of one sentence, head by head from the inside out."""
        n = int(self.lengths[check_instance(self, instance)])
        parts = slice(int(self.offsets[instance]), int(self.offsets[instance + 1]))
        choices = self._choice_offsets
        words = slice(3 * int(self.token_offsets[instance]), 3 * int(self.token_offsets[instance + 1]) + 1)
        steps = valence_steps(n, self.single_root) if n else NO_STEPS
        return Derivations(
            steps, np.arange(parts.start, parts.stop), parts, (), choices[words] - parts.start, np.ones(3 * n, np.int64)
        )

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every tree of one sentence as indicators over the batch: for a handful of words."""
        for tree in self.arcs.enumerate(instance):
            taken = np.flatnonzero(tree.unary)
            dependent, head = self.arcs.choice[taken], positions_of(np.repeat(self.lengths, self.lengths))[taken]
            heads = np.full(self.n_tokens, UNKNOWN_HEAD)
            heads[dependent] = np.where(head == positions_of(self.lengths)[dependent], ROOT, head)
            yield self.parts_of(heads)
