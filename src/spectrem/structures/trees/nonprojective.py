"""Trees over the words of sentences, whether or not their arcs cross."""

from __future__ import annotations

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._heads import UNKNOWN_HEAD
from spectrem._reprs import brief_dataclass
from spectrem.kernels.trees import draws, edmonds, matrix_tree, matrix_tree_log
from spectrem.structures._polytopes import check_tree_program, simplex_polytope
from spectrem.structures._ragged import Inputs, check_instance, check_scores
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope
from spectrem.structures.trees._trees import ArcStructure


@brief_dataclass(frozen=True, eq=False, init=False)
class NonProjectiveTrees(ArcStructure):
    """Dependency trees whose arcs may cross: every word takes one head, another word or the root, without cycles.

    The sum pass is the matrix-tree theorem [Koo2007] by elimination without subtraction, so that marginals keep their
    digits where posteriors are nearly certain; its time grows with the cube of the length of a sentence. The max pass
    contracts cycles [Chu1965; Edmonds1967], in time that grows with the square [Tarjan1977]. `sample` draws trees from
    the elimination, after the idea of [Durfee2017] and not by random walks [Wilson1996], whose time has no bound;
    `n_best` divides the trees that are not in the list yet, and takes the best one of each part [Lawler1972].

    Use when words depend on words and word order is free: dependency parsers of Czech, Latin or Turkish.

    Parameters
    ----------
    lengths : array-like of shape (n_instances,), int
        Words of every sentence, >= 0. A sentence without words has one tree, the empty one, of value 0.
    single_root : bool, default True
        Whether exactly one word of a sentence hangs on the root, or one or more.

    Raises
    ------
    InvalidInputError
        If lengths are negative, or ``single_root`` is not a truth value.

    Notes
    -----
    Parts and columns are those of `ProjectiveTrees`. With a single root the best tree is exact, not the best of one run
    per root: an arc from the root is taken where nothing else is left, which puts the number of roots before the score.
    Among equals at ``gamma == 0``, words, and cycles that are contracted, take the first of their best arcs.

    Examples
    --------
    Two words; that the second one is the root and the first one its dependent is three times as likely as the reverse:

    >>> import numpy as np
    >>> from spectrem.structures import NonProjectiveTrees, Parts
    >>> trees = NonProjectiveTrees([2])
    >>> scores = Parts(np.log([1.0, 3.0, 1.0, 1.0]))
    >>> values, marginals = trees.smoothed_max(scores, gamma=1.0)
    >>> float(np.exp(values[0]).round(12)), marginals.unary.reshape(2, 2).round(12).tolist()
    (4.0, [[0.25, 0.75], [0.25, 0.75]])
    >>> trees.decode(scores).tolist()
    [1, -1]
    """

    crossing = True

    def _sum_up(self, scores: tuple[Floats, ...], gamma: float, active: Bools) -> tuple[Floats, tuple[Floats, ...]]:
        values, sums = np.zeros(self.n_instances), tuple(np.zeros(self.n_unary) for _ in scores)
        status, layout = np.zeros(self.n_instances, np.int8), (self.lengths, self.block_offsets)
        sentences = self.by_length(active)
        matrix_tree.sum_pass(sentences, *layout, scores, self.single_root, gamma, values, sums, status)
        if status.any():
            still = () if len(scores) == 2 else (np.zeros(self.n_unary),)
            matrix_tree_log.sum_pass(*layout, *scores, *still, self.single_root, gamma, values, *sums, *still, status)
        return values, sums

    def sample(self, scores: Parts, gamma: float, n: int, rng: np.random.Generator) -> Ints:
        """Draw n trees of every sentence; `spectrem.structures.sample` checks arguments and calls this.

        Parameters
        ----------
        scores : Parts
            Nats, ``-inf`` for impossible.
        gamma : float
            Temperature, at least 0; at 0 all draws are the best tree.
        n : int
            At least 1.
        rng : numpy.random.Generator
            It draws for one sentence after another.

        Returns
        -------
        ndarray of shape (n, n_tokens), int64
            Heads as those of `decode`.
        """
        if gamma == 0.0:
            return np.tile(self.decode(scores), (n, 1))
        heads = np.full((n, self.n_tokens), UNKNOWN_HEAD)
        layout = (self.lengths, self.block_offsets, self.token_offsets, scores.unary)
        draws.sample(*layout, self.single_root, gamma, rng, heads)
        return heads

    def n_best(self, scores: Parts, n: int) -> tuple[Floats, Ints]:
        """The n best trees of every sentence; `spectrem.structures.n_best` checks arguments and calls this.

        Parameters
        ----------
        scores : Parts
            Nats, ``-inf`` for impossible.
        n : int
            At least 1.

        Returns
        -------
        values : ndarray of shape (n_instances, n)
            Scores, decreasing, nats; ``-inf`` where a sentence has fewer trees.
        heads : ndarray of shape (n, n_tokens), int64
            As those of `decode`, -2 where there is no tree.
        """
        values, heads = np.empty((self.n_instances, n)), np.full((n, self.n_tokens), UNKNOWN_HEAD)
        layout = (self.lengths, self.block_offsets, self.token_offsets, scores.unary)
        edmonds.n_best(*layout, self.single_root, values, heads)
        return values, heads

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """Arcs, and for every word a unit of flow from the root over arcs that are taken.

        Raises
        ------
        InvalidInputError
            If the sentence is too long: variables grow with the cube of its length.
        """
        n = check_instance(self, instance)
        arcs = slice(int(self.block_offsets[n]), int(self.block_offsets[n + 1]))
        unary = check_scores(self, scores).unary[arcs]
        return _polytope(int(self.lengths[n]), self.single_root, arcs.start, unary)

    def _best(self, inputs: Inputs) -> tuple[Floats, Ints]:
        values, heads = np.zeros(self.n_instances), np.full(self.n_tokens, UNKNOWN_HEAD)
        layout = (self.lengths, self.block_offsets, self.token_offsets, inputs.unary)
        edmonds.max_pass(*layout, self.single_root, inputs.active, values, heads)
        return values, heads


def _polytope(n: int, single_root: bool, start: int, scores: Floats) -> Polytope:
    """The polytope of a sentence of n words, whose arcs are parts from ``start`` on, with ``scores``, shape (n * n,).

    Every word takes one arc. For every word there is a flow of one unit from the root to it, over arcs that are taken:
    variables are the arcs, in the order of the parts, then the flow of every word over every arc that does not leave
    this word, then what an arc could carry besides. Where arcs are 0 or 1, flows exist exactly if these make a tree;
    and all corners are trees [Wong1984].

    Raises
    ------
    InvalidInputError
        If the sentence is too long, before anything is built.
    """
    if n == 0:
        return simplex_polytope(scores, start, np.zeros(0, np.int64))
    n_flows = n * (n * n - n + 1)
    n_variables = n * n + 2 * n_flows
    check_tree_program(n, n_variables)
    every = np.arange(n)
    word, dependent, head = (axis.ravel() for axis in np.meshgrid(every, every, every, indexing="ij"))
    used = (head != word) | (dependent == head)
    word, dependent, head = word[used], dependent[used], head[used]
    from_root = dependent == head
    arc, flow = dependent * n + head, n * n + np.arange(n_flows)
    rows, columns, signs = [], [], []

    def add(row: Ints, column: Ints, sign: float) -> None:
        rows.append(row)
        columns.append(column)
        signs.append(np.full(len(row), sign))

    arcs = np.arange(n * n)
    add(arcs // n, arcs, 1.0)  # one head per word
    balance = n + word * n  # what comes to a word and does not leave it: one unit at its own, none elsewhere
    add(balance + dependent, flow, 1.0)
    add((balance + head)[~from_root], flow[~from_root], -1.0)
    within = n + n * n + np.arange(n_flows)
    add(within, arc, 1.0)
    add(within, flow, -1.0)
    add(within, flow + n_flows, -1.0)
    right_hand_side = np.concatenate([np.ones(n), np.eye(n).ravel(), np.zeros(n_flows)])
    if single_root:
        add(np.full(n, len(right_hand_side)), every * (n + 1), 1.0)
        right_hand_side = np.append(right_hand_side, 1.0)
    everything = (np.concatenate(signs), (np.concatenate(rows), np.concatenate(columns)))
    return Polytope(
        equalities=sp.csr_array(everything, shape=(len(right_hand_side), n_variables)),
        right_hand_side=right_hand_side,
        objective=np.concatenate([scores, np.zeros(2 * n_flows)]),
        unary_index=np.arange(start, start + n * n),
        unary=sp.csr_array(sp.eye_array(n * n, n_variables, format="csr")),
        factors=(),
    )
