"""Projective trees: every word of a sentence takes one head, and no two arcs cross."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spectrem._heads import UNKNOWN_HEAD
from spectrem._validate import as_gamma
from spectrem.kernels.chains.potentials import subtract_tops
from spectrem.kernels.trees import eisner, eisner_max
from spectrem.structures._polytopes import check_tree_program
from spectrem.structures._ragged import Inputs, check_inputs, check_instance, check_scores
from spectrem.structures.derivations import NO_STEPS, Derivations, covariances, sum_up
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope
from spectrem.structures.trees._arcs import ArcStructure, decode_one_by_one
from spectrem.structures.trees._steps import projective_steps


@dataclass(frozen=True, eq=False, init=False)
class ProjectiveTrees(ArcStructure):
    """Dependency trees without crossing arcs: every word takes one head, another word or the root.

    The sum pass is the inside-outside algorithm over the spans of [Eisner1996], the max pass his parser. Time grows
    with the cube of the length of a sentence, memory with its square: up to 200 words, sixteen sentences at once take
    640 n² bytes in the sum pass (26 MB for 200 words), a longer one alone 280 n² (180 MB for 800 words, and 0.7
    seconds); the max pass takes less, and scores and marginals 16 n².

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
    so NaN, at arcs from the root. Columns from values of words, such as tags, are made by ``arc_columns``.

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

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], Parts]:
        """Values, shape (n_instances,) in nats, and probabilities of arcs; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, spans are divided as far to the left as possible.
        """
        gamma = as_gamma(gamma)
        given = check_inputs(self, scores, active, weights)
        if gamma == 0.0:
            values, heads = self._best(given)
            return values, self._taken(heads)
        # marginals take the place of potentials, since new memory costs as much as filling it
        values, marginals, tops = np.zeros(self.n_instances), np.empty(self.n_unary), np.empty(self.n_tokens)
        subtract_tops(given.unary, self.offsets, gamma, marginals, tops)
        np.exp(marginals, out=marginals)  # which has vector instructions that a kernel does not have
        if not given.active.all():
            marginals[np.repeat(~given.active, self.lengths**2)] = 0.0
        status = (given.active & (self.lengths > 0)).astype(np.int8)
        order = self.by_length(given.active & (self.lengths <= eisner.LONGEST))
        scaled = (marginals, tops, self.token_offsets, gamma, self.single_root)
        eisner.sum_pass(order, self.lengths, self.block_offsets, *scaled, values, status)
        if status.any():
            marginals[np.repeat(status == 1, self.lengths**2)] = 0.0
            sum_up(self, status == 1, Parts(given.unary), gamma, given.weights, values, Parts(marginals))
        return values, Parts(marginals)

    def derivations(self, instance: int) -> Derivations:
        """The steps of Eisner's algorithm that derive the trees of one sentence."""
        tokens = self._tokens_of(instance)
        n = tokens.stop - tokens.start
        parts = slice(int(self.block_offsets[instance]), int(self.block_offsets[instance + 1]))
        every = np.arange(parts.start, parts.stop)
        steps = projective_steps(n, self.single_root) if n else NO_STEPS
        return Derivations(steps, every, parts, (), np.arange(n + 1) * n, np.ones(n, np.int64))

    def covariances(
        self, scores: Parts, values: NDArray[np.float64], weights: NDArray[np.float64] | None = None
    ) -> Parts:
        """Of every arc with the sum of values of the arcs taken, at gamma = 1.

        Parameters
        ----------
        scores : Parts
            Nats.
        values : ndarray of shape (n_unary,)
            What every arc adds to the sum, any finite numbers.
        weights : ndarray of shape (n_instances,), optional
            Without effect, as nothing is shared.

        Notes
        -----
        By the expectation semiring [LiEisner2009], sentence by sentence: some forty times as slow as marginals.
        """
        return covariances(self, scores, values, weights)

    def decode(self, scores: Parts) -> NDArray[np.int64]:
        """Best head of every word, shape (n_tokens,): its position in the sentence, or ``ROOT`` (-1).

        -2 throughout a sentence without any possible tree.
        """
        return self._best(check_inputs(self, scores))[1]

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

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every projective tree of one sentence as indicators over the batch: for a handful of words."""
        return self._trees(instance, lambda heads: not _crosses(heads))

    def _best(self, given: Inputs) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Values, and heads of all words."""
        values, heads = np.zeros(self.n_instances), np.full(self.n_tokens, UNKNOWN_HEAD)
        layout = (self.lengths, self.block_offsets, self.token_offsets, given.unary)
        long = given.active & (self.lengths > eisner_max.LONGEST)
        eisner_max.max_pass(self.by_length(given.active & ~long), *layout, self.single_root, values, heads)
        decode_one_by_one(self, np.flatnonzero(long), given.unary, values, heads)
        return values, heads


def _crosses(heads: tuple[int, ...]) -> bool:
    """Whether two arcs cross; the root stands before the first word."""
    arcs = [(min(arc), max(arc)) for arc in enumerate(heads)]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)
