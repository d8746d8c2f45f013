"""Dependency parsers: a log-linear model of trees that scores arcs, and a classifier of relations to heads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints, Reals
from spectrem._heads import UNKNOWN_HEAD
from spectrem._reprs import brief_dataclass, briefly_shown
from spectrem._validate import as_bool
from spectrem.constraints.compilation.groups import Key
from spectrem.corpus import Corpus
from spectrem.data import ParsedSentence
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.parsing import arcs as kernel
from spectrem.models.estep import Statistics
from spectrem.models.loglinear import (
    Features,
    Labels,
    LogLinearModel,
    LogLinearShard,
    Optimiser,
    Support,
    WeightPrior,
    build_shards,
)
from spectrem.models.loglinear.optimise import Spread, m_step
from spectrem.models.shards import Columns, cut
from spectrem.structures import Known, Parts, ProjectiveTrees, Structure
from spectrem.structures._ragged import offsets_of, positions_of, ranges_of, runs_of

__all__ = ["FREE", "GIVEN", "SHARED", "EdgeFactoredModel", "ParsingShard", "ParsingText", "TokenAtoms"]

Atoms = NDArray[np.uint32]
MISSING = "_"

# Parts of the context of a word, by name: columns of atoms (form, first tag, second tag) and distances from the word.
_FORM, _TAG, _FINE = 0, 1, 2
_PARTS: dict[str, tuple[tuple[int, int], ...]] = {
    "form": ((_FORM, 0),),
    "tag": ((_TAG, 0),),
    "form tag": ((_FORM, 0), (_TAG, 0)),
    "before": ((_TAG, -1), (_TAG, 0)),
    "after": ((_TAG, 0), (_TAG, 1)),
    "around": ((_TAG, -1), (_TAG, 0), (_TAG, 1)),
    "two before": ((_TAG, -2), (_TAG, -1), (_TAG, 0)),
    "two after": ((_TAG, 0), (_TAG, 1), (_TAG, 2)),
    "form before": ((_FORM, -1), (_TAG, 0)),
    "form after": ((_FORM, 1), (_TAG, 0)),
    "fine": ((_FINE, 0),),
    "form fine": ((_FORM, 0), (_FINE, 0)),
    "fine before": ((_FINE, -1), (_FINE, 0)),
    "fine after": ((_FINE, 0), (_FINE, 1)),
}
# Parts of one end alone, and pairs of a part of the head and a part of the dependent.
_ONE = ("form", "tag", "form tag", "around")
_FURTHER = ("two before", "two after")
_ONE_FINE = ("fine", "form fine")
_PAIRS = (
    *(("form tag", "form tag"), ("form tag", "tag"), ("tag", "form tag"), ("tag", "tag"), ("form", "form")),
    *(("after", "before"), ("before", "before"), ("after", "after"), ("before", "after")),
    *(("tag", "form before"), ("form tag", "form before"), ("tag", "form after")),
    *(("form before", "tag"), ("form after", "tag")),
)
_PAIRS_FINE = (
    *(("fine", "fine"), ("fine after", "fine before"), ("fine before", "fine before")),
    *(("fine after", "fine after"), ("fine before", "fine after")),
)


class ArcTemplates(NamedTuple):
    """The features of arcs, as `spectrem.kernels.parsing.arcs` reads them.

    Attributes
    ----------
    parts : ndarray of shape (n_parts, 4, 2), int64
        Columns of atoms and distances of every part; the end is marked by -1.
    pairs : ndarray of shape (n_pairs, 2), int64
        Parts of the head and the dependent that are joined.
    between : int
        The part that words between head and dependent give, once for each value.
    head_parts, dependent_parts : ndarray of int64
        Parts of the head alone, and of the dependent alone.
    """

    parts: Ints
    pairs: Ints
    between: int
    head_parts: Ints
    dependent_parts: Ints


@cache
def arc_templates(fine: bool) -> ArcTemplates:
    """The features of arcs: those of the first-order MSTParser [McDonald2005], and more.

    As [Ganchev2010] table 7 lists them: forms and tags of head and dependent, alone and in pairs; their tags with those
    of their neighbours, and with each tag that stands between them. Beyond MSTParser: the tag of one end and the form
    before or after it, as a preposition before a noun, with what the other end is. Each is taken as it is, with the
    direction of the arc, and with direction and length in bins (1, 2, 3, 4-5, 6-10, more words). An arc from the root
    has the distance from a word before the first.

    Parameters
    ----------
    fine : bool
        Whether words have a second, finer tag, whose pairs are features, too.

    Examples
    --------
    >>> len(arc_templates(False).pairs), len(arc_templates(True).pairs)
    (14, 19)
    """
    names = [name for name, part in _PARTS.items() if fine or all(column != _FINE for column, _ in part)]
    parts = np.full((len(names), 4, 2), -1, np.int64)
    for row, name in zip(parts, names, strict=True):
        row[: len(_PARTS[name])] = _PARTS[name]
    number = {name: k for k, name in enumerate(names)}
    pairs = [(number[head], number[dependent]) for head, dependent in _PAIRS + _PAIRS_FINE * fine]
    head_parts = [number[name] for name in _ONE + _ONE_FINE * fine]
    dependent_parts = [number[name] for name in _ONE + _FURTHER + _ONE_FINE * fine]
    return ArcTemplates(parts, np.array(pairs), number["tag"], np.array(head_parts), np.array(dependent_parts))


@briefly_shown
class TokenAtoms(NamedTuple):
    """From sentences to the numbers of their forms and tags.

    Numbers are hashes of the texts, so that nothing but ``frequent`` needs to be remembered. Tags: the first one is the
    universal tag, or the language-specific one where all universal ones are ``_``; the second one is the other.

    Attributes
    ----------
    frequent : frozenset of str
        The forms that have a number of their own; all others share one.
    coarse : bool
        Whether the first tag is the universal one.
    fine : bool
        Whether there is a second tag.

    Examples
    --------
    >>> sentences = [ParsedSentence(("a", "b", "a"), ("X", "Y", "X"), ("_", "_", "_"))]
    >>> atoms = TokenAtoms.of(sentences, min_count=2)
    >>> sorted(atoms.frequent), atoms.coarse, atoms.fine
    (['a'], True, False)
    >>> atoms.encode(sentences).shape
    (3, 3)
    """

    frequent: frozenset[str]
    coarse: bool
    fine: bool

    @classmethod
    def of(cls, sentences: Sequence[ParsedSentence], min_count: int = 1) -> TokenAtoms:
        """The forms that occur at least ``min_count`` times, and the tags that there are."""
        counts = Counter(form for sentence in sentences for form in sentence.forms)
        coarse, fine = (
            any(tag != MISSING for sentence in sentences for tag in getattr(sentence, name))
            for name in ("upos", "xpos")
        )
        return cls(
            frozenset(form for form, count in counts.items() if count >= min_count), coarse or not fine, coarse and fine
        )

    def encode(self, sentences: Sequence[ParsedSentence]) -> Atoms:
        """Atoms of all words, shape (n_tokens, 3): form, first tag, second tag."""
        table = np.zeros((sum(len(sentence.forms) for sentence in sentences), 3), np.uint32)
        forms = _Numbers(self.frequent)
        table[:, _FORM] = [forms[form] for sentence in sentences for form in sentence.forms]
        tags = _Numbers(None)
        for column, name in ((_TAG, "upos" if self.coarse else "xpos"), (_FINE, "xpos" if self.fine else "")):
            if name:
                table[:, column] = [tags[tag] for sentence in sentences for tag in getattr(sentence, name)]
        return table


class _Numbers(dict[str, int]):
    """Texts and their hashes, found when first asked for; 0 for those that are not among the ``frequent``."""

    def __init__(self, frequent: frozenset[str] | None) -> None:
        super().__init__()
        self._frequent = frequent

    def __missing__(self, text: str) -> int:
        number = self[text] = _hash(text) if self._frequent is None or text in self._frequent else 0
        return number


def _hash(text: str) -> int:
    """A number of 32 bits that does not depend on the process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little")


# What is known of the heads of a sentence: nothing or some of them, all, or their distributions.
FREE, GIVEN, SHARED = 0, 1, 2
# Of a sentence that is in no shard.
LEFT_OUT = -1
# Arcs of a shard at least: every shard of an evaluation has a gradient of all weights to be made and added up.
_LEAST_ARCS = 1 << 19


@brief_dataclass(frozen=True, eq=False)
class ParsingShard:
    """Some sentences of a corpus, with what is known of their heads.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    atoms : ndarray of shape (n_tokens, 3), uint32
        See `TokenAtoms.encode`.
    heads : ndarray of shape (n_tokens,), int64, or None
        Positions in the sentence, -1 for the root, -2 where not known; None where none is.
    shares : ndarray of shape (n_arcs,), float64, or None
        Probabilities of arcs, [dependent, head], those from the root on the diagonal, in place of heads.
    known : bool
        Whether all heads, or distributions over heads, are given.
    weights : ndarray of shape (n_sentences,), float64
    instances : ndarray of shape (n_sentences,), int64
        Numbers of the sentences in the corpus.
    columns : Columns
        Columns that constraints may name.
    counts : ndarray of shape (n_sentences,), float64, or None
        How often sentences count in constraints; None: by their weights.
    """

    lengths: Ints
    atoms: Atoms
    heads: Ints | None
    shares: Floats | None
    known: bool
    weights: Floats
    instances: Ints
    columns: Columns = Columns()
    counts: Floats | None = None

    @property
    def labels(self) -> Ints | Floats | None:
        """Known heads, or distributions over heads; None where every tree is possible."""
        return self.heads if self.shares is None else self.shares


@brief_dataclass(frozen=True, eq=False)
class ParsingText:
    """All sentences of a corpus, from which shards are cut.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    atoms : ndarray of shape (n_tokens, 3), uint32
    heads : ndarray of shape (n_tokens,), int64
        Positions in the sentence, -1 for the root, -2 where not known.
    supervision : ndarray of shape (n_sentences,), int
        FREE, GIVEN (all heads) or SHARED (distributions over heads).
    shares : mapping of int -> ndarray of shape (length, length), float64
        Distributions over heads, [dependent, head], by the number of their sentence.
    weights : ndarray of shape (n_sentences,), float64
    columns : Columns
    counts : ndarray of shape (n_sentences,), float64, or None
        How often sentences count in constraints; None: by their weights.

    Examples
    --------
    >>> text = ParsingText.raw(np.array([2, 1]), np.zeros((3, 3), np.uint32))
    >>> [shard.lengths.tolist() for shard in text.shards()]
    [[2, 1]]
    """

    lengths: Ints
    atoms: Atoms
    heads: Ints
    supervision: Ints
    shares: Mapping[int, Floats]
    weights: Floats
    columns: Columns = Columns()
    counts: Floats | None = None

    @classmethod
    def raw(cls, lengths: Ints, atoms: Atoms, columns: Columns = Columns()) -> ParsingText:  # noqa: B008
        """Sentences of whose heads nothing is known."""
        n = len(lengths)
        return cls(lengths, atoms, np.full(len(atoms), UNKNOWN_HEAD), np.full(n, FREE), {}, np.ones(n), columns)

    @cached_property
    def _tokens(self) -> Ints:
        return offsets_of(self.lengths)

    def take(self, sentences: Ints) -> ParsingShard:
        """The shard of sentences with the same supervision, by their numbers."""
        sizes, level = self.lengths[sentences], FREE if not len(sentences) else int(self.supervision[sentences[0]])
        words = ranges_of(self._tokens[sentences], sizes)
        word_heads, shares = self.heads[words], None
        if level == SHARED:
            shares = np.concatenate([self.shares[n].ravel() for n in sentences.tolist()])
        none = level == SHARED or (level == FREE and bool((word_heads == UNKNOWN_HEAD).all()))
        heads = None if none else word_heads
        columns = self.columns.take(sentences, self.lengths)
        counts = None if self.counts is None else self.counts[sentences]
        known = level != FREE
        return ParsingShard(
            sizes, self.atoms[words], heads, shares, known, self.weights[sentences], sentences, columns, counts
        )

    def without(self, left_out: Bools) -> ParsingText:
        """The same sentences, some of which, shape (n_sentences,), are in no shard."""
        return replace(self, supervision=np.where(left_out, LEFT_OUT, self.supervision))

    def shards(self, most: int = _LEAST_ARCS) -> list[ParsingShard]:
        """Shards of about ``most`` arcs, or an eighth of all if that is more: first what is inferred, then the known.

        Sentences without words are in none. At least one shard, the same for every number of threads.
        """
        groups = (self.supervision == level for level in (FREE, GIVEN, SHARED))
        return [self.take(sentences) for sentences, _ in cut(self.lengths**2, groups, most)]

    def batches(self, size: int, rng: np.random.Generator) -> list[ParsingShard]:
        """Shards of about ``size`` sentences drawn at random, in random order, for learning in small steps.

        All sentences of a shard have the same supervision; those without words are in none.
        """
        batches = []
        for level in (FREE, GIVEN, SHARED):
            # sentences of like lengths in a batch would be worked on more quickly, but learn less: three tenths of a
            # point of accuracy on English
            sentences = rng.permutation(np.flatnonzero((self.lengths > 0) & (self.supervision == level)))
            batches += [self.take(run) for run in runs_of(sentences, np.ones(len(sentences), np.int64), size)]
        return [batches[place] for place in rng.permutation(len(batches))]


Table: TypeAlias = Reals
# Bits of the number of a row: 2^31 weights, 8 GiB in single precision.
_LARGEST_TABLE = 27


@brief_dataclass(frozen=True, eq=False)
class EdgeFactoredModel:
    """``p(tree | sentence)`` in proportion to ``exp(theta . sum over arcs of f(arc))`` [McDonald2005].

    Weights are one flat array, a table whose rows have 16 places each. A hash of what `arc_templates` join says which
    row a feature has; features that share one share their weights, the more the smaller the table. Statistics and
    gradients are arrays of that shape. The log-likelihood of labelled sentences is concave in the weights.

    Use when sentences are to be parsed and some heads, or constraints on them, are known.

    Parameters
    ----------
    fine : bool
        Whether words have a second, finer tag; see `arc_templates`.
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
    >>> from spectrem.models.parsing import ParsingText, TokenAtoms
    >>> sentence = ParsedSentence(("it", "fell"), ("PRON", "VERB"), ("_", "_"), np.array([1, -1]))
    >>> atoms = TokenAtoms.of([sentence])
    >>> model = EdgeFactoredModel(atoms.fine, bits=8)
    >>> (shard,) = ParsingText.raw(np.array([2]), atoms.encode([sentence])).shards()
    >>> values, marginals = model.structure(shard).smoothed_max(model.scores(model.initial(), shard), 1.0)
    >>> float(np.exp(values[0])), marginals.unary.tolist()
    (2.0, [0.5, 0.5, 0.5, 0.5])
    """

    fine: bool = True
    bits: int = 18
    trees: type = ProjectiveTrees
    single_root: bool = True
    prior: WeightPrior = WeightPrior()
    optimiser: Optimiser = Optimiser()

    def __post_init__(self) -> None:
        as_bool(self.fine, "fine")
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
        inside, columns = self.free_structure(shard), shard.columns
        return {
            "sentence": shard.instances,
            "labelled": np.full(len(shard.lengths), shard.known),
            **columns.of_sentences,
            **inside.arc_columns(columns.of_words),  # type: ignore[attr-defined]
            **columns.of_arcs,
        }

    def log_prior(self, theta: Table) -> float:
        """Log-density of the weights, nats, up to a constant."""
        return -self.prior.penalty(theta)  # type: ignore[arg-type]

    def m_step(self, theta: Floats, stats: Floats, corpus: Corpus) -> Floats:
        """Weights that maximise ``theta . stats`` less the log-normaliser plus the log-prior, from ``theta`` on."""
        return m_step(self, theta, stats, corpus)

    def moments(self, theta: Table, shard: ParsingShard) -> Statistics:
        """The log-normalisers of a shard, weighted, and their gradient, the expected values of all features."""
        values, marginals = self.free_structure(shard).smoothed_max(self.free_scores(theta, shard), 1.0)
        return Statistics(value=float(shard.weights @ values), gradient=self.gather(theta, shard, marginals))

    def _arcs(self, shard: ParsingShard) -> Ints:
        """Places of the arcs from known heads among all."""
        arcs: Ints = self.free_structure(shard).arcs_of(shard.heads)  # type: ignore[attr-defined]
        return arcs[arcs >= 0]

    @property
    def _features(self) -> tuple[object, ...]:
        return *arc_templates(self.fine), np.uint32(32 - self.bits)


_BITS = 20
N_FEATURES = 1 << _BITS
# Atoms in place of missing words: of the head of a root, beyond the ends of a sentence, of the child of a leaf.
_ROOT, _END, _CHILDLESS = 1, 2, 3
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# When training ends; to go on to a thousandth of the objective takes thrice as long and finds no more right relations.
_TOL, _MOST_STEPS = 0.01, 30


@brief_dataclass(frozen=True, eq=False)
class RelationModel:
    """``p(relation | arc)``.

    Attributes
    ----------
    names : tuple of str
        The relations by number.
    model : LogLinearModel
    theta : ndarray of shape (n_weights,)
    """

    names: tuple[str, ...]
    model: LogLinearModel
    theta: Floats

    def label(self, lengths: Ints, atoms: Atoms, heads: Ints) -> list[str]:
        """The most probable relation of every word to its head; ``_`` where it has none."""
        features = arc_features(lengths, atoms, heads)
        shards = build_shards(features, n_labels=len(self.names))
        table = np.concatenate([self.model.scores(self.theta, shard).unary for shard in shards])
        best = np.array(self.names, object)[table.reshape(-1, len(self.names)).argmax(axis=1)]
        best[heads == UNKNOWN_HEAD] = MISSING
        return list(best)


def relation_model(names: Sequence[str], support: Support, C: float) -> LogLinearModel:
    """The model of these relations, whose weights have the variance C."""
    return LogLinearModel(
        support, prior=WeightPrior(1.0 / C), optimiser=Optimiser(_MOST_STEPS, _TOL, memory=6), names=names
    )


def relation_shards(
    lengths: Ints, atoms: Atoms, heads: Ints, relations: Sequence[str], words: Ints, weights: Floats
) -> tuple[tuple[str, ...], Support, list[LogLinearShard]]:
    """Names of relations, the pairs of features and relations that occur together, and shards to learn from.

    Parameters
    ----------
    lengths, atoms, heads
        As of `arc_features`.
    relations : sequence of str
        The relations of the words to learn from.
    words : ndarray of int64
        The numbers of these among all words.
    weights : ndarray of shape (n_tokens,)
        Weights of all words.
    """
    names, numbers = np.unique(np.array(relations), return_inverse=True)
    features = arc_features(lengths, atoms, heads).take(words)
    labels = Labels(np.arange(len(words) + 1), numbers.astype(np.int64), np.ones(len(words)))
    support = Support.observed(features, labels.offsets, labels.labels, len(names))
    shards = build_shards(
        features,
        labels=labels,
        known=np.ones(len(words), np.bool_),
        weights=weights[words],
        n_weights=support.n_weights,
        n_labels=len(names),
    )
    return tuple(map(str, names)), support, shards


def arc_features(lengths: Ints, atoms: Atoms, heads: Ints) -> Features:
    """Hashed features of the arc to every word from its head.

    Parameters
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    atoms : ndarray of shape (n_tokens, 3), uint32
    heads : ndarray of shape (n_tokens,), int64
        Positions in the sentence, -1 for the root; those of words without a known head do not matter.
    """
    n, position = len(atoms), positions_of(lengths)
    start = np.repeat(offsets_of(lengths)[:-1], lengths)
    size = np.repeat(lengths, lengths)
    table = np.concatenate([atoms, np.repeat(np.array([[_ROOT], [_END], [_CHILDLESS]], np.uint32), 3, axis=1)])
    token = np.arange(n)
    head = np.where(heads >= 0, start + np.maximum(heads, 0), n)
    before = np.where(position > 0, token - 1, n + 1)
    after = np.where(position < size - 1, token + 1, n + 1)
    # of the children of a word, the first and the last: writes in order, so that the last one stays
    first, last = np.full(n + 1, n + 2), np.full(n + 1, n + 2)
    first[head[::-1]] = token[::-1]
    last[head] = token
    side = np.where(heads < 0, 0, np.where(heads > position, 1, 2)) * 8
    reach = side + np.minimum(np.abs(heads - position), 7)
    tag, fine, form = table[:, _TAG], table[:, _FINE], table[:, _FORM]
    templates = (
        *((tag[token],), (fine[token],), (form[token],), (form[token], fine[token])),
        *((tag[token], tag[head], reach), (fine[token], fine[head], side), (tag[token], tag[head], side)),
        *((form[token], form[head]), (form[token], tag[head], side), (tag[token], form[head], side)),
        *((fine[token], form[head], side), (tag[before], tag[token], side), (tag[token], tag[after], side)),
        *((form[before], tag[token], tag[head]), (form[token], fine[head], side)),
        *((tag[token], tag[head], form[first[:n]], side), (tag[token], tag[head], tag[last[:n]], side)),
        *((fine[token], fine[first[:n]], side), (tag[token], form[head], form[first[:n]])),
    )
    indices = np.empty((n, len(templates)), np.int32)
    for k, columns in enumerate(templates):
        indices[:, k] = _hashed(k, columns, n)
    indptr = np.arange(n + 1) * len(templates)
    return Features(indptr, indices.ravel(), None, N_FEATURES)


def _hashed(seed: int, columns: Sequence[NDArray], n: int) -> NDArray[np.uint64]:
    """A number below ``2 ** _BITS`` for every row; products are modulo 2^64."""
    h = np.full(n, seed + 1, np.uint64)
    for column in columns:
        h = (h ^ (h >> np.uint64(29))) * _MULTIPLIER + column.astype(np.uint64)
    h = (h ^ (h >> np.uint64(32))) * _MULTIPLIER
    return h >> np.uint64(64 - _BITS)
