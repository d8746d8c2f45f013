"""A log-linear model of dependency trees whose score is a sum over arcs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem._heads import UNKNOWN_HEAD
from spectrem._validate import as_bool
from spectrem.constraints.compilation.groups import Key
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.parsing import arcs as kernel
from spectrem.models.estep import Statistics
from spectrem.models.loglinear.coordinates import Spread
from spectrem.models.loglinear.optimise import Optimiser, WeightPrior, m_step
from spectrem.models.parsing.shards import ParsingShard
from spectrem.models.parsing.templates import ArcTemplates
from spectrem.structures import Known, Parts, ProjectiveTrees, Structure
from spectrem.structures._ragged import offsets_of, runs_of

Table: TypeAlias = NDArray[np.float64] | NDArray[np.float32]
# Arcs whose scores are worked on at once: a megabyte.
_AT_ONCE = 1 << 17
# Bits of the number of a row: 2^31 weights, 8 GiB in single precision.
_LARGEST_TABLE = 27


@dataclass(frozen=True, eq=False)
class EdgeFactoredModel:
    """``p(tree | sentence)`` in proportion to ``exp(theta . sum over arcs of f(arc))`` [McDonald2005].

    Weights are one flat array, a table whose rows have 16 places each. A hash of what `ArcTemplates` joins says which
    row a feature has; features that share one share their weights, the more the smaller the table. Statistics and
    gradients are arrays of that shape. The log-likelihood of labelled sentences is concave in the weights.

    Use when sentences are to be parsed and some heads, or constraints on them, are known.

    Parameters
    ----------
    templates : ArcTemplates
    bits : int
        The table has ``2 ** bits`` rows, so ``2 ** (bits + 4)`` weights; 1 to 27.
    trees : structure over arcs
        A class such as `ProjectiveTrees` or `NonProjectiveTrees`.
    single_root : bool
        Whether exactly one word of a sentence hangs on the root, or one or more.
    prior : WeightPrior
    optimiser : Optimiser
        How far the M-step goes.

    Raises
    ------
    InvalidInputError
        If ``bits`` is out of range.

    Examples
    --------
    >>> from spectrem.data import ParsedSentence
    >>> from spectrem.models.parsing import ArcTemplates, ParsingText, TokenAtoms
    >>> sentence = ParsedSentence(("it", "fell"), ("PRON", "VERB"), ("_", "_"), np.array([1, -1]))
    >>> atoms = TokenAtoms.of([sentence])
    >>> model = EdgeFactoredModel(ArcTemplates(fine=atoms.fine), bits=8)
    >>> (shard,) = ParsingText.raw(np.array([2]), atoms.encode([sentence])).shards()
    >>> values, marginals = model.structure(shard).smoothed_max(model.scores(model.initial(), shard), 1.0)
    >>> float(np.exp(values[0])), marginals.unary.tolist()
    (2.0, [0.5, 0.5, 0.5, 0.5])
    """

    templates: ArcTemplates = ArcTemplates()  # noqa: RUF009
    bits: int = 18
    trees: type = ProjectiveTrees
    single_root: bool = True
    prior: WeightPrior = WeightPrior()  # noqa: RUF009
    optimiser: Optimiser = Optimiser()  # noqa: RUF009

    def __post_init__(self) -> None:
        as_bool(self.single_root, "single_root")
        if not 1 <= self.bits <= _LARGEST_TABLE:
            raise InvalidInputError(
                f"bits must be in 1..{_LARGEST_TABLE}, got {self.bits}; 18 makes 2^22 weights, which suit a treebank"
            )

    @property
    def n_weights(self) -> int:
        """The number of parameters."""
        return kernel.CELLS << self.bits

    @property
    def n_penalised(self) -> int:
        """The number of parameters that the prior is on: all."""
        return self.n_weights

    def initial(self) -> Floats:
        """All weights 0: every tree is as probable as every other."""
        return np.zeros(self.n_weights)

    def structure(self, shard: ParsingShard) -> Structure:
        """The trees of the sentences of a shard, or the distribution over them that is given."""
        inside = self.free_structure(shard)
        return Known(inside, self.shares(shard)) if shard.known else inside

    def free_structure(self, shard: ParsingShard) -> Structure:
        """All trees of the sentences of a shard, whatever heads are known."""
        trees: Structure = self.trees(shard.lengths, single_root=self.single_root)
        return trees

    def scores(self, theta: Table, shard: ParsingShard) -> Parts:
        """Scores of arcs, nats; ``-inf`` for those that heads known in part forbid."""
        scores = self.free_scores(theta, shard).unary
        return Parts(scores if shard.known else self.restricted(shard, scores))

    def restricted(self, shard: ParsingShard, scores: Floats) -> Floats:
        """Scores with ``-inf`` for the arcs that heads known in part forbid."""
        if shard.heads is None:
            return scores
        arcs = self._arcs(shard)
        known = np.repeat(shard.heads != UNKNOWN_HEAD, np.repeat(shard.lengths, shard.lengths))
        only = np.where(known, -np.inf, scores)
        only[arcs] = scores[arcs]
        return only

    def free_scores(self, theta: Table, shard: ParsingShard) -> Parts:
        """Scores of all arcs, whatever heads are known, nats.

        Raises
        ------
        InvalidInputError
            If ``theta`` has another number of weights than the model.
        """
        if theta.shape != (self.n_weights,):
            raise InvalidInputError(
                f"theta must have shape ({self.n_weights},), 16 weights for each of 2^{self.bits} rows; got "
                f"{theta.shape}; initial() makes such an array"
            )
        scores = np.empty(int((shard.lengths**2).sum()))
        kernel.score_arcs(shard.lengths, shard.atoms, *self._features, theta, scores)
        return Parts(scores)

    def shares(self, shard: ParsingShard) -> Floats:
        """The probabilities of arcs that a known shard gives, shape (n_arcs,)."""
        if shard.shares is not None:
            return shard.shares
        shares = np.zeros(int((shard.lengths**2).sum()))
        shares[self._arcs(shard)] = 1.0
        return shares

    def log_normaliser(self, theta: Table, shard: ParsingShard) -> float:
        """Sum over sentences of weight times the log of the sum of ``exp(score)`` over all trees, nats."""
        values, _ = self.free_structure(shard).smoothed_max(self.free_scores(theta, shard), 1.0)
        return float(shard.weights @ values)

    def is_free(self, shard: ParsingShard) -> bool:
        """Whether nothing is known of the heads of a shard."""
        return shard.heads is None and shard.shares is None

    def gather(self, theta: Table, shard: ParsingShard, marginals: Parts) -> Floats:
        """Expected values of all features, shape (n_weights,), sentences counted by their weights."""
        counts = np.zeros(self.n_weights)
        self.add_counts(counts, shard, marginals.unary)
        return counts

    def add_counts(self, counts: Floats, shard: ParsingShard, shares: Floats) -> None:
        """Add the features of arcs times their shares and the weights of their sentences."""
        weighted = shares * np.repeat(shard.weights, shard.lengths**2)
        rest = (weighted, 0.0, 1.0, 0.0, counts, np.zeros(0))
        kernel.add_arcs(shard.lengths, shard.atoms, *self._features, *rest)

    def climb(
        self, theta: Table, later: Table, shard: ParsingShard, shares: Floats, rate: float, clock: float, least: float
    ) -> None:
        """Add ``rate`` times the features of arcs, times their shares, to ``theta``: one of the steps of `run_online`.

        Parameters
        ----------
        theta : ndarray of shape (n_weights,)
            Changed in place.
        later : ndarray of shape (n_weights,) or (0,)
            Gets ``clock`` times the same, unless it is empty; the mean of the weights over steps is made from it.
        shard : ParsingShard
        shares : ndarray of shape (n_arcs,)
            Probabilities that are wanted less those of the model, [dependent, head] by sentence.
        rate, clock : float
        least : float
            Arcs with shares of at most this size are left out, which saves time.
        """
        weighted = shares * np.repeat(shard.weights, shard.lengths**2)
        kernel.add_arcs(shard.lengths, shard.atoms, *self._features, weighted, least, rate, clock, theta, later)

    def spread(self, shard: ParsingShard) -> Spread:
        """The number and weight of sentences and words of a shard, whose arcs are there or not; features are 1."""
        return Spread.of(shard.weights, shard.lengths, 2)

    def distributions(self, shard: ParsingShard, marginals: Parts) -> Floats:
        """Posteriors of arcs, sentence after sentence in blocks [dependent, head], the root on the diagonal; flat."""
        return marginals.unary

    def columns(self, shard: ParsingShard) -> Mapping[str, Key]:
        """Columns for constraints beside the structure's own.

        ``sentence``, the number in the corpus, and ``labelled``, whether all heads are given, both of shape
        (n_sentences,); those of the shard, of values of words such as ``tag`` columns of arcs, ``head_tag`` and
        ``dependent_tag``.
        """
        inside, own = self.free_structure(shard), shard.columns
        return {
            "sentence": shard.instances,
            "labelled": np.full(len(shard.lengths), shard.known),
            **own.of_sentences,
            **inside.arc_columns(own.of_words),  # type: ignore[attr-defined]
            **own.of_arcs,
        }

    def log_prior(self, theta: Table) -> float:
        """Log-density of the weights, nats, up to a constant."""
        return -self.prior.penalty(theta)  # type: ignore[arg-type]

    def m_step(self, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
        """Weights that maximise ``theta . stats`` less the log-normaliser plus the log-prior, from ``theta`` on."""
        return m_step(self, theta, stats, corpus)

    def moments(self, theta: Table, shard: ParsingShard) -> Statistics:
        """The log-normalisers of a shard, weighted, and their gradient, the expected values of all features."""
        scores, total = self.free_scores(theta, shard).unary, 0.0
        sizes = shard.lengths**2
        starts = offsets_of(sizes)
        # posteriors take the place of scores, some sentences at a time
        for own in runs_of(np.arange(len(sizes)), sizes, _AT_ONCE):
            here = slice(own[0], own[-1] + 1)
            arcs = slice(starts[here.start], starts[here.stop])
            few = self.trees(shard.lengths[here], single_root=self.single_root)
            values, marginals = few.smoothed_max(Parts(scores[arcs]), 1.0)
            total += float(shard.weights[here] @ values)
            scores[arcs] = marginals.unary
        counts = np.zeros(self.n_weights)
        self.add_counts(counts, shard, scores)
        return Statistics(value=total, gradient=counts)

    def _arcs(self, shard: ParsingShard) -> Ints:
        """Places of the arcs from known heads among all."""
        arcs: Ints = self.free_structure(shard).arcs_of(shard.heads)  # type: ignore[attr-defined]
        return arcs[arcs >= 0]

    @property
    def _features(self) -> tuple[object, ...]:
        own = self.templates
        return own.parts, own.pairs, own.between, own.of_heads, own.of_dependents, np.uint32(32 - self.bits)
