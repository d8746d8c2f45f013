"""Projective trees: every word of a sentence takes one head, and no two arcs cross; with valence or without."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem._reprs import brief_dataclass
from spectrem.kernels.chains.potentials import fill_potentials
from spectrem.kernels.derivations import ONE, Steps
from spectrem.kernels.trees import eisner, valence
from spectrem.structures._columns import missing_where
from spectrem.structures._polytopes import check_tree_program
from spectrem.structures._ragged import Inputs, check_instance, check_scores, no_parts, offsets_of, positions_of
from spectrem.structures.derivations import (
    NO_STEPS,
    Derivations,
    Runs,
    covary,
    keep_steps,
    places_of,
    spans_in_tiles,
    steps_of,
    sum_up,
)
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope
from spectrem.structures.trees._trees import ArcStructure, Trees


@brief_dataclass(frozen=True, eq=False, init=False)
class _SpanTrees(Trees):
    """Abstract: trees without crossing arcs, summed and maximised over spans by the kernel of their layout."""

    @property
    def _layout(self) -> tuple[Any, Ints]:
        """The kernel, and boundaries of choices, of each of which a tree takes one part."""
        raise NotImplementedError

    def derivations(self, instance: int) -> Derivations:
        """The steps that derive the trees of one sentence."""
        raise NotImplementedError

    def _sum_up(self, scores: tuple[Floats, ...], gamma: float, active: Bools) -> tuple[Floats, tuple[Floats, ...]]:
        kernel, choices = self._layout
        offsets, sizes = self._bounds, np.diff(self._bounds)
        # marginals take the place of potentials, since new memory costs as much as filling it
        values, potentials, tops = np.zeros(self.n_instances), np.empty(self.n_unary), np.empty(len(choices) - 1)
        fill_potentials(scores[0], choices, gamma, 1e-307, potentials, tops)
        if not active.all():
            potentials[np.repeat(~active, sizes)] = 0.0
        sums = (potentials, *(along * potentials for along in scores[1:]))
        status = (active & (self.lengths > 0)).astype(np.int8)
        order = self.by_length(active & (self.lengths <= eisner.LONGEST))
        batch = (self.lengths, offsets, self.token_offsets, sums, tops, gamma, self.single_root)
        kernel.sum_pass(order, *batch, values, status)
        if status.any():
            left, ones = status == 1, np.ones(self.n_instances)
            for one in sums:
                one[np.repeat(left, sizes)] = 0.0
            sum_up(self, left, Parts(scores[0]), gamma, ones, values, Parts(sums[0]))
            if len(scores) == 2:
                covary(self, left, Parts(scores[0]), Parts(scores[1]), ones, np.zeros_like(values), Parts(sums[1]))
        return values, sums

    def _best(self, inputs: Inputs) -> tuple[Floats, Ints]:
        (kernel, _), offsets = self._layout, self._bounds
        values, heads = np.zeros(self.n_instances), np.full(self.n_tokens, UNKNOWN_HEAD)
        long = inputs.active & (self.lengths > eisner.LONGEST_MAX)
        batch = (self.lengths, offsets, self.token_offsets, inputs.unary, self.single_root)
        kernel.max_pass(self.by_length(inputs.active & ~long), *batch, values, heads)
        for n in np.flatnonzero(long).tolist():
            derivations, size = self.derivations(n), int(self.lengths[n])
            values[n], taken = derivations.smoothed_max(inputs.unary[derivations.entries], 0.0)
            if values[n] > -np.inf:
                per_arc = 1 if len(taken) == size * size else 2
                dependent, head = np.nonzero(taken[: per_arc * size * size].reshape(size, size, per_arc).any(axis=2))
                heads[int(self.token_offsets[n]) + dependent] = np.where(head == dependent, ROOT, head)
        return values, heads


@brief_dataclass(frozen=True, eq=False, init=False)
class ProjectiveTrees(_SpanTrees, ArcStructure):
    """Dependency trees without crossing arcs: every word takes one head, another word or the root.

    The sum pass is the inside-outside algorithm over the spans of [Eisner1996], the max pass his parser. Time grows
    with the cube of the length of a sentence, memory with its square: up to 200 words, sixteen sentences at once take
    640 n² bytes in the sum pass (26 MB for 200 words), a longer one alone 280 n² (180 MB for 800 words, and 0.7
    seconds); `covariances` take twice that, the max pass less, and scores and marginals 16 n².

    Use when words depend on words and word order is mostly projective: dependency parsers, grammar induction.

    Parameters
    ----------
    lengths : array-like of shape (n_instances,), int
        Words of every sentence, >= 0. A sentence without words has one tree, the empty one, of value 0.
    single_root : bool, default True
        Whether exactly one word of a sentence hangs on the root, or one or more. The root stands before the first word,
        so that with several roots no arc spans a word that hangs on the root.

    Raises
    ------
    InvalidInputError
        If lengths are negative, or ``single_root`` is not a truth value.

    Notes
    -----
    ``Parts.unary`` holds for every sentence of n words a block of shape (n, n), row-major, indexed [dependent, head];
    the entry [d, d] is the arc from the root to d. Give forbidden arcs the score ``-inf``. Nothing is shared. Columns:
    ``sentence``, ``dependent`` and ``head`` (positions in the sentence), ``occurrence`` (the dependent among the words
    of the batch), ``root`` (whether the arc comes from the root), ``direction`` ("left" where the dependent stands left
    of its head, else "right") and ``length`` (distance in words). ``head``, ``direction`` and ``length`` are missing,
    so NaN, at arcs from the root. Columns from values of words, such as tags, are made by ``arc_columns``. Among equals
    at ``gamma == 0``, spans are divided as far to the left as possible.

    Examples
    --------
    Two words; that the second one is the root and the first one its dependent is three times as likely as the reverse:

    >>> import numpy as np
    >>> from spectrem.structures import Parts, ProjectiveTrees
    >>> trees = ProjectiveTrees([2])
    >>> scores = Parts(np.log([1.0, 3.0, 1.0, 1.0]))
    >>> values, marginals = trees.smoothed_max(scores, gamma=1.0)
    >>> float(np.exp(values[0]).round(12)), marginals.unary.reshape(2, 2).round(12).tolist()
    (4.0, [[0.25, 0.75], [0.25, 0.75]])
    >>> trees.decode(scores).tolist()
    [1, -1]
    """

    @property
    def _layout(self) -> tuple[Any, Ints]:
        return eisner, self.offsets

    def derivations(self, instance: int) -> Derivations:
        """The steps of Eisner's algorithm that derive the trees of one sentence."""
        n = int(self.lengths[check_instance(self, instance)])
        parts = slice(int(self.block_offsets[instance]), int(self.block_offsets[instance + 1]))
        every = np.arange(parts.start, parts.stop)
        steps = projective_steps(n, self.single_root) if n else NO_STEPS
        return Derivations(steps, every, parts, (), np.arange(n + 1) * n, np.ones(n, np.int64))

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """A unit of flow through the spans of Eisner's algorithm, whose vertices are trees.

        Raises
        ------
        InvalidInputError
            If the sentence is too long: variables grow with the cube of its length.
        """
        n = int(self.lengths[check_instance(self, instance)])
        check_tree_program(n, (n**3 - n) // 2 + (n**2 + n if self.single_root else 2 * n**2))
        return self.derivations(instance).polytope(check_scores(self, scores))


class ValenceParts(NamedTuple):
    """The meaning of the parts of a batch of `ValenceTrees`, each array of shape (n_unary,).

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

    dependent: Ints
    head: Ints
    side: Ints
    later: Bools
    stop: Bools
    root: Bools
    never: Bools


@brief_dataclass(frozen=True, eq=False, init=False)
class ValenceTrees(_SpanTrees):
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
    whatever names them speaks of arcs alone. Among equals at ``gamma == 0``, the lowest root wins, and then the split
    with the lowest position.

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

    @cached_property
    def arcs(self) -> ProjectiveTrees:
        """The same trees, whose parts are arcs alone."""
        return ProjectiveTrees(self.lengths, single_root=self.single_root)

    @property
    def n_unary(self) -> int:
        """Number of parts of the batch: 2 n² + 4 n for every sentence of n words."""
        return int(self.offsets[-1])

    @cached_property
    def offsets(self) -> Ints:
        """Boundaries of the sentences in ``Parts.unary``, shape (n_instances + 1,)."""
        return offsets_of(2 * self.lengths**2 + 4 * self.lengths)

    @cached_property
    def _choice_offsets(self) -> Ints:
        """Boundaries in ``Parts.unary`` of what words may hang on, and of the stops of their sides."""
        sizes, sentence = np.full(3 * self.n_tokens, 2), np.repeat(np.arange(self.n_instances), self.lengths)
        sizes[2 * self.token_offsets[sentence] + np.arange(self.n_tokens)] = 2 * self.lengths[sentence]
        return offsets_of(sizes)

    @cached_property
    def instance(self) -> Ints:
        """Sentence of every part, shape (n_unary,)."""
        return np.repeat(np.arange(self.n_instances), np.diff(self.offsets))

    @property
    def choice(self) -> Ints:
        """The dependent of every arc among the words of the batch; behind them two numbers per word for its stops."""
        parts = self.parts
        return np.where(parts.stop, self.n_tokens + 2 * parts.head + parts.side, parts.dependent)

    @property
    def parts(self) -> ValenceParts:
        """The meaning of the parts; built anew at every call."""
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
        by_part, stop = np.asarray(values)[self._arc], self.parts.stop
        return by_part & ~stop if by_part.dtype.kind == "b" else missing_where(by_part, stop)

    @property
    def _arc(self) -> Ints:
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

        Returns
        -------
        Parts
            Indicators, 0 or 1.

        Raises
        ------
        InvalidInputError
            If a head lies outside its sentence, or a word is its own head.
        """
        self.arcs.arcs_of(heads)  # validates them
        known_heads, indicator = np.asarray(heads, np.int64), no_parts(self)
        first, n = np.repeat(self.token_offsets[:-1], self.lengths), np.repeat(self.lengths, self.lengths)
        start, position = np.repeat(self.offsets[:-1], self.lengths), positions_of(self.lengths)
        known = known_heads != UNKNOWN_HEAD
        rooted = known_heads == ROOT
        head = np.where(known_heads < 0, position, known_heads)
        word = np.flatnonzero(known & ~rooted)
        slot = 2 * (first + head)[word] + (position > head)[word]  # a side of a head
        distance = np.abs(position - head)[word]
        nearest = np.full(2 * self.n_tokens, np.iinfo(np.int64).max)
        np.minimum.at(nearest, slot, distance)
        later = np.zeros(self.n_tokens, np.int64)
        later[word] = distance > nearest[slot]
        arc = start + 2 * (position * n + head) + later
        indicator.unary[arc[known]] = 1.0
        has_child = (nearest < np.iinfo(np.int64).max).reshape(-1, 2)
        stops = (start + 2 * n * n + 4 * position)[:, None] + 2 * np.arange(2) + has_child
        indicator.unary[stops[known]] = 1.0
        return indicator

    @property
    def _bounds(self) -> Ints:
        return self.offsets

    @property
    def _layout(self) -> tuple[Any, Ints]:
        return valence, self._choice_offsets

    def _indicators(self, heads: Ints) -> Parts:
        return self.parts_of(heads)

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


# ---- steps ----------------------------------------------------------------------------------------------------------


def projective_steps(n: int, single_root: bool) -> Steps:
    """The steps of the projective trees over n words, whose parts are the arcs [dependent, head].

    The words of a sentence stand in a row, and every subtree spans an interval [Eisner1996]. Items are ``complete[h,
    e]``, the words from h to e, all of which descend from h; ``joint[i, j]``, a complete span of i and one of j that
    meet between them; ``incomplete[h, d]``, the same words under an arc from h to d. A complete span joins the
    incomplete span of the outermost dependent with the complete span of what hangs on its far side. The root stands
    before the first word: ``prefix[e]`` are the first e words with all their roots, ``rooted[d]`` is a prefix whose
    last root is d, without what hangs on the right of d. With a single root the only prefix that another root may
    follow is the empty one.
    """
    return keep_steps(_projective, n, single_root)


def valence_steps(n: int, single_root: bool) -> Steps:
    """The steps of the trees over n words whose heads take children one by one; parts are those of `ValenceTrees`.

    Every head is split into its left and its right half. A half that reaches no further than its head has no child
    yet, so that the first child of a side is told from later ones, and stopping without a child from stopping with one,
    by the width of spans alone: there are O(n^3) steps, as without valence. A half is named by the place where it ends;
    place b lies before word b. ``opened[h, b]`` is the half of h that ends at b, to its left where b <= h and to its
    right where b > h, before it stops; ``closed[h, b]`` the same half afterwards. ``linked[h, d]`` are the words from h
    to d under an arc from h to d, ``later[h, d]`` the same where d is a later child.
    """
    return keep_steps(_valence, n, single_root)


def _projective(n: int, single_root: bool) -> Steps:
    complete, by_end, incomplete, joint, prefix, rooted, arcs = places_of(n * n, n * n, n * n, n * n, n + 1, n, n * n)
    i, j = spans_in_tiles(n, n)
    ij, ji, ii, width, word = n * i + j, n * j + i, (n + 1) * i, j - i, np.arange(n)
    spans = [
        (joint + ij, joint + ij, ONE, complete + ii, complete + ji + 1, width),
        (incomplete + ij, incomplete + ij, arcs + ji, joint + ij, ONE, 1),
        (incomplete + ji, incomplete + ji, arcs + ij, joint + ij, ONE, 1),
        (complete + ij, by_end + ji, ONE, incomplete + ii + 1, by_end + ji + 1, width),
        (complete + ji, by_end + ij, ONE, incomplete + ji, by_end + ii, width),
    ]
    every = np.arange(n * n)
    return steps_of(
        spans,
        *_roots(n, single_root, prefix, rooted, arcs + (n + 1) * word, complete + n * word, by_end + n * word),
        parts=(arcs + every, every),
        ones=np.concatenate([[prefix], complete + (n + 1) * word, by_end + (n + 1) * word]),
    )


def _valence(n: int, single_root: bool) -> Steps:
    c, n_halves = n + 1, n * (n + 1)
    opened, closed, by_end, linked, later, prefix, rooted, parts = places_of(
        n_halves, n_halves, c * c, n_halves, n_halves, n + 1, n, 2 * n * n + 4 * n
    )
    word, stops = np.arange(n), parts + 2 * n * n
    alone = [
        (closed + c * word + word + side, by_end + c * (word + side) + word, stops + 4 * word + 2 * side, ONE, ONE, 1)
        for side in (0, 1)
    ]
    i, j = spans_in_tiles(n, n)
    ij, ji, ii, width = c * i + j, c * j + i, (c + 1) * i, j - i
    beyond = by_end + ji + c  # the halves that end behind j, from that of i on
    to_right, to_left = parts + 2 * (n * j + i), parts + 2 * (n * i + j)
    spans = [
        (later + ij, later + ij, to_right + 1, opened + ii + 2, closed + ji + 2, width - 1),
        (linked + ij, linked + ij, ONE, closed + ji + 1, to_right, 1),
        (linked + ij, linked + ij, ONE, later + ij, ONE, 1),
        (later + ji, later + ji, to_left + 1, closed + ii + 1, opened + ji + 1, width - 1),
        (linked + ji, linked + ji, ONE, closed + ij, to_left, 1),
        (linked + ji, linked + ji, ONE, later + ji, ONE, 1),
        (opened + ij + 1, opened + ij + 1, ONE, linked + ii + 1, beyond + 1, width),
        (closed + ij + 1, beyond, stops + 4 * i + 3, opened + ij + 1, ONE, 1),
        (opened + ji, opened + ji, ONE, linked + ji, by_end + ii, width),
        (closed + ji, by_end + ij, stops + 4 * j + 1, opened + ji, ONE, 1),
    ]
    every = np.arange(2 * n * n + 4 * n)
    never = np.zeros(len(every), np.bool_)
    never[2 * (n + 1) * word + 1] = True  # a second arc from the root to the same word
    return steps_of(
        alone,
        spans,
        *_roots(n, single_root, prefix, rooted, parts + 2 * (n + 1) * word, closed + c * word, by_end + c * (word + 1)),
        parts=(parts + every[~never], every[~never]),
        ones=np.concatenate([[prefix], opened + (c + 1) * word, opened + (c + 1) * word + 1]),
    )


def _roots(n: int, single_root: bool, prefix: int, rooted: int, arcs: Ints, left: Ints, right: Ints) -> list[Runs]:
    """The last steps, from arcs from the root and the places of what hangs on the left and on the right of words."""
    word = np.arange(n)
    below = (rooted + word, rooted + word, arcs, prefix, left, 1 if single_root else word + 1)
    if single_root:
        return [[below], [(prefix + word[-1:] + 1, prefix + word[-1:] + 1, ONE, rooted, right[-1:], n)]]
    return [[below, (prefix + word + 1, prefix + word + 1, ONE, rooted, right, word + 1)]]
