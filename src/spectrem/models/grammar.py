"""The dependency model with valence over tagged sentences, with no heads, some or all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._heads import UNKNOWN_HEAD
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_bool, as_integers, as_lengths, as_weights
from spectrem.constraints.compilation.groups import Key
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.inference.dual import sum_by
from spectrem.models.estep import Statistics
from spectrem.models.priors import DirichletPrior, Multinomials, Prior, Tables
from spectrem.models.shards import Columns, cut, in_corpus_order
from spectrem.structures import Known, Parts, Structure, ValenceTrees
from spectrem.structures._ragged import offsets_of, ranges_of

__all__ = [
    "GrammarParameters", "GrammarShard", "ValenceModel", "build_shards", "harmonic", "in_corpus_order",
    "random_counts", "supervised", "uniform",
]  # fmt: skip

# Parts of a shard.
_LEAST_PARTS, _MOST_PARTS = 1 << 15, 1 << 21


@brief_dataclass(frozen=True, eq=False)
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
    columns: Columns = Columns()


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
    known_heads = heads[parts.dependent]
    cells[parts.never | (~parts.stop & (known_heads != UNKNOWN_HEAD) & (known_heads != head))] = n_cells(n_tags) - 1
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

    Examples
    --------
    >>> shards = build_shards([1, 2, 1], [0, 0, 1, 0], 2, heads=[-1, -2, -2, -1])
    >>> [(shard.known, shard.instances.tolist()) for shard in shards]
    [(False, [1]), (True, [0, 2])]
    """
    lengths, tags = as_lengths(lengths, "lengths"), as_integers(tags, "tags")
    known_heads = np.full(len(tags), UNKNOWN_HEAD) if heads is None else as_integers(heads, "heads")
    weights = as_weights(weights, len(lengths))
    offsets, sizes = offsets_of(lengths), 2 * lengths**2 + 4 * lengths
    unknown = np.diff(offsets_of(known_heads == UNKNOWN_HEAD)[offsets])
    groups = (unknown > 0) & (weights > 0), (unknown == 0) & (weights > 0)
    shards = []
    for sentences, known in cut(sizes, groups, _LEAST_PARTS, _MOST_PARTS):
        n_words = lengths[sentences]
        tokens = ranges_of(offsets[sentences], n_words)
        words = tags[tokens], known_heads[tokens]
        cells, named = cells_of(ValenceTrees(n_words), *words, n_tags), columns.take(sentences, lengths)
        shards.append(GrammarShard(n_words, *words, weights[sentences], bool(known), sentences, cells, named))
    return shards


TABLES = ("root", "choose", "stop")


@brief_dataclass(frozen=True, eq=False)
class GrammarParameters:
    """Probabilities (or, under a mean-field prior, weights); every row, along the last axis, is a distribution.

    Attributes
    ----------
    root : ndarray of shape (n_tags,)
        Probability of the tag of a word that hangs on the root.
    choose : ndarray of shape (n_tags, 2, n_tags) or (n_tags, 2, 2, n_tags)
        Probability of the tag of a child: [tag of the head, 0: left / 1: right, child], or with the position among the
        children of that side, 0: first / 1: later, before the last axis.
    stop : ndarray of shape (n_tags, 2, 2, 2)
        [tag of the head, 0: left / 1: right, 0: without / 1: with a child there, 0: take another child / 1: stop].
    log_prior : float or None
        Log-density under the model's priors, nats, if an M-step made the parameters: that of a mean-field prior cannot
        be computed from the weights alone.
    """

    root: Floats
    choose: Floats
    stop: Floats
    log_prior: float | None = None


@brief_dataclass(frozen=True, eq=False)
class ValenceModel:
    """Sentences of tags generated by heads that take children one by one [KleinManning2004].

    The root takes one word (or, independently, any number of them). Every head takes children on each side from the
    inside out: before each it decides whether to stop, given its tag, the side, and whether it has a child there; then
    it chooses the tag of the child given its own and the side. With ``adjacency``, first and later children are chosen
    from distributions of their own.

    The probability is that of tags and tree; trees are projective unless they are given.

    Parameters
    ----------
    n_tags : int
    adjacency : bool
        Whether the choice of a child depends on its being the first on its side.
    single_root : bool
        Whether exactly one word hangs on the root.
    root_prior, choose_prior, stop_prior : Prior
        On the rows of each table.
    tags : sequence of n_tags str, optional
        Names of the tags, for the columns ``head_tag`` and ``dependent_tag`` of constraints.

    Raises
    ------
    InvalidInputError
        If there are not as many names as tags.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.grammar import GrammarParameters, build_shards
    >>> model = ValenceModel(2)  # tag 0 takes tag 1 on its right half of the time
    >>> stop = np.full((2, 2, 2, 2), [0.0, 1.0])
    >>> stop[0, 1, 0] = 0.5
    >>> params = GrammarParameters(np.array([1.0, 0.0]), np.full((2, 2, 2), [0.0, 1.0]), stop)
    >>> shard = build_shards([2], [0, 1], n_tags=2)[0]
    >>> values, _ = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
    >>> float(np.exp(values[0]))
    0.5
    """

    n_tags: int
    adjacency: bool = False
    single_root: bool = True
    root_prior: Prior = DirichletPrior()
    choose_prior: Prior = DirichletPrior()
    stop_prior: Prior = DirichletPrior()
    tags: Sequence[str] | None = None

    def __post_init__(self) -> None:
        as_bool(self.adjacency, "adjacency")
        as_bool(self.single_root, "single_root")
        if self.tags is not None and len(self.tags) != self.n_tags:
            raise InvalidInputError(
                f"tags must hold {self.n_tags} names, as n_tags says; got {len(self.tags)}; name every one or none"
            )

    def structure(self, shard: GrammarShard) -> Structure:
        """The projective trees of every sentence, or those given."""
        trees = ValenceTrees(shard.lengths, single_root=self.single_root)
        return Known(trees, trees.parts_of(shard.heads).unary) if shard.known else trees

    def scores(self, params: GrammarParameters, shard: GrammarShard) -> Parts:
        """Log-probabilities, nats: of an arc, of going on and of choosing the child; of a stop, of stopping."""
        n = self.n_tags
        with np.errstate(divide="ignore"):
            root, choose, stop = (np.log(getattr(params, name)) for name in TABLES)
        if not self.adjacency:
            choose = choose[:, :, None, :]
        arcs = (choose + stop[..., :1]).ravel() if n else np.zeros(0)
        table = np.concatenate([arcs, root, stop[..., 1].ravel(), [-np.inf]])
        return Parts(table[shard.cells])

    def gather(self, params: GrammarParameters | None, shard: GrammarShard, marginals: Parts) -> Statistics:
        """Expected counts of a shard, times the sentences' weights, from the marginals; ``params`` are not read."""
        n, expected = self.n_tags, marginals.unary
        if not (shard.weights == 1.0).all():
            expected = np.repeat(shard.weights, 2 * shard.lengths**2 + 4 * shard.lengths) * expected
        counts = sum_by(shard.cells, expected, n_cells(n))
        arcs, root, stops = np.split(counts[:-1], [4 * n * n, 4 * n * n + n])
        children = arcs.reshape(n, 2, 2, n)
        stop = np.stack([children.sum(axis=-1), stops.reshape(n, 2, 2)], axis=-1)
        return Statistics(
            root=root.copy(), choose=children.copy() if self.adjacency else children.sum(axis=2), stop=stop
        )

    def distributions(self, shard: GrammarShard, marginals: Parts) -> Floats:
        """Posteriors of arcs, sentence after sentence in blocks [dependent, head], the root on the diagonal; flat."""
        begins = offsets_of(2 * shard.lengths**2 + 4 * shard.lengths)[:-1]
        first_or_later: Floats = marginals.unary[ranges_of(begins, 2 * shard.lengths**2)].reshape(-1, 2)
        return first_or_later.sum(axis=1)

    def columns(self, shard: GrammarShard) -> Mapping[str, Key]:
        """``sentence``, as numbers in the corpus; ``head_tag``, ``dependent_tag``; and those that the shard holds."""
        trees, columns = ValenceTrees(shard.lengths), shard.columns
        tags = shard.tags if self.tags is None else np.array(self.tags, np.str_)[shard.tags]
        # One value per part: as many words as sentences would leave open which of them the values are of.
        of_sentences = {"sentence": shard.instances, **columns.of_sentences}
        return {
            **{name: values[trees.instance] for name, values in of_sentences.items()},
            **trees.arc_columns({"tag": tags, **columns.of_words}),
            **{name: trees.spread_arcs(values) for name, values in columns.of_arcs.items()},
        }

    def m_step(self, params: GrammarParameters, stats: Statistics, corpus: object = None) -> GrammarParameters:
        """Parameters that maximise the expected log-probability plus the log-prior; ``corpus`` is not read."""
        return GrammarParameters(**self._tables.m_step(stats))

    def normalise(self, counts: Statistics | GrammarParameters, prior: Prior | None = None) -> GrammarParameters:
        """Distributions in proportion to counts; ``prior``, if given, stands in for those of the model."""
        return GrammarParameters(**self._tables.normalise(counts, prior))

    def log_prior(self, params: GrammarParameters) -> float:
        """Log-density of the parameters, nats, up to a constant.

        Under a mean-field prior it is minus the divergence of the posterior over parameters from it, and -inf for
        parameters that no M-step made.
        """
        return self._tables.log_density(params) if params.log_prior is None else params.log_prior

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the tables ``root``, ``choose`` and ``stop``."""
        n = self.n_tags
        return (n,), (n, 2, 2, n) if self.adjacency else (n, 2, n), (n, 2, 2, 2)

    @cached_property
    def _tables(self) -> Tables:
        priors = self.root_prior, self.choose_prior, self.stop_prior
        rows = dict(zip(TABLES, map(Multinomials.dense, self.shapes), strict=True))
        return Tables(rows, dict(zip(TABLES, priors, strict=True)))


# Added to counts of starts, so that nothing is impossible before training has begun.
_LEAST = 0.01


def uniform(model: ValenceModel) -> GrammarParameters:
    """Every row of every table uniform.

    Examples
    --------
    >>> uniform(ValenceModel(2)).root.tolist()
    [0.5, 0.5]
    """
    return model.normalise(_ones(model), DirichletPrior(0.0))


def random_counts(model: ValenceModel, rng: np.random.Generator) -> GrammarParameters:
    """Tables in proportion to ``1 + U(0, 1)``.

    Examples
    --------
    >>> random_counts(ValenceModel(2), np.random.default_rng(0)).root.round(3).tolist()
    [0.563, 0.437]
    """
    noisy = {name: 1.0 + rng.random(shape) for name, shape in zip(TABLES, model.shapes, strict=True)}
    return model.normalise(Statistics(**noisy), DirichletPrior(0.0))


def harmonic(
    model: ValenceModel, corpus: Corpus, *, preferred: Iterable[tuple[int, int]] = (), factor: float = 1.0
) -> GrammarParameters:
    """Heads near by, and all words alike as roots: the start of [KleinManning2004].

    In a sentence of n words, each hangs on the root with probability 1 / n, and on another word in inverse proportion
    to the distance. Where e children are expected on a side of a head, it is taken to have one with probability
    min(e, 1). Given heads are kept.

    Use when no heads are known: EM from a uniform start finds grammars in which, for example, determiners head nouns.

    Parameters
    ----------
    model : ValenceModel
    corpus : Corpus
        Its shards are `GrammarShard`.
    preferred : iterable of (int, int)
        Tags of heads, -1 for the root, and of children whose arcs count ``factor`` times.
    factor : float
        Above 0.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.grammar import build_shards
    >>> model = ValenceModel(2)
    >>> start = harmonic(model, Local(build_shards([3, 3], [0, 1, 1, 0, 1, 1], n_tags=2)))
    >>> start.choose[1].round(2).tolist()  # children of tag 1 to its left and right
    [[0.67, 0.33], [0.01, 0.99]]
    """
    factors = np.ones((model.n_tags + 1, model.n_tags))
    for head, child in preferred:
        factors[head, child] = factor
    return model.normalise(corpus.sum(_harmonic_counts, model, factors), DirichletPrior(_LEAST))


def supervised(model: ValenceModel, corpus: Corpus) -> GrammarParameters:
    """Relative frequencies, after 0.1 was added to every count, in the sentences whose heads are all given.

    Parameters
    ----------
    model : ValenceModel
    corpus : Corpus
        Its shards are `GrammarShard`; those with unknown heads are left out.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.grammar import build_shards
    >>> model = ValenceModel(2)
    >>> corpus = Local(build_shards([2], [1, 0], n_tags=2, heads=[1, -1]))
    >>> supervised(model, corpus).root.round(2).tolist()
    [0.92, 0.08]
    """
    return model.normalise(corpus.sum(_known_counts, model), DirichletPrior(0.1))


def _ones(model: ValenceModel) -> Statistics:
    return Statistics(**{name: np.ones(shape) for name, shape in zip(TABLES, model.shapes, strict=True)})


def _known_counts(shard: GrammarShard, model: ValenceModel) -> Statistics:
    counts = 0.0 * _ones(model)
    if not shard.known:
        return counts
    trees = ValenceTrees(shard.lengths, single_root=model.single_root)
    return model.gather(None, shard, trees.parts_of(shard.heads))


def _harmonic_counts(shard: GrammarShard, model: ValenceModel, factors: Floats) -> Statistics:
    if shard.known:
        return _known_counts(shard, model)
    trees = ValenceTrees(shard.lengths, single_root=model.single_root)
    parts, allowed = trees.parts, shard.cells != n_cells(model.n_tags) - 1
    n_tokens, root = len(shard.tags), np.flatnonzero(parts.root & allowed)
    arc = np.flatnonzero(~parts.stop & ~parts.root & ~parts.later & allowed)
    dependent, head, side = parts.dependent[arc], parts.head[arc], parts.side[arc]
    root_share = factors[-1][shard.tags[parts.dependent[root]]]
    hangs = np.zeros(n_tokens)  # on the root
    sentence = trees.instance[root]
    hangs[parts.dependent[root]] = root_share / np.bincount(sentence, root_share, trees.n_instances)[sentence]
    share = factors[shard.tags[head], shard.tags[dependent]] / np.abs(dependent - head)
    total = np.bincount(dependent, share, n_tokens)
    hangs[total == 0] = 1.0
    share *= ((1.0 - hangs) / np.where(total > 0, total, 1.0))[dependent]
    expected = np.bincount(2 * head + side, share, 2 * n_tokens)
    has_child = np.minimum(expected, 1.0)
    marginals = np.zeros(trees.n_unary)
    marginals[root] = hangs[parts.dependent[root]]
    first = (has_child / np.where(expected > 0, expected, 1.0))[2 * head + side]
    marginals[arc] = share * first
    marginals[arc + 1] = share * (1.0 - first)
    stop = np.flatnonzero(parts.stop)
    with_child = has_child[2 * parts.head[stop] + parts.side[stop]]
    marginals[stop] = np.where(parts.later[stop], with_child, 1.0 - with_child)
    return model.gather(None, shard, Parts(marginals))
