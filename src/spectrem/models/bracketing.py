"""The constituent-context model: brackets of sentences from yields and contexts of spans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass, briefly_shown
from spectrem._validate import as_bool, as_integers, as_lengths, as_weights
from spectrem.constraints.compilation.groups import Coded, Key
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.inference.dual import sum_by
from spectrem.models.estep import Statistics
from spectrem.models.priors import DirichletPrior
from spectrem.models.shards import Columns, cut
from spectrem.structures import Bracketings, Parts
from spectrem.structures._columns import TEXT, missing_where
from spectrem.structures._ragged import offsets_of, positions_of, ranges_of, rows_of

__all__ = [
    "PLACES", "BracketShard", "ConstituentContextModel", "SpanNumbers", "SpanParameters", "SpanVocabulary",
    "build_shards", "start_from", "tree_scores",
]  # fmt: skip

NEVER = -1
"""The number of a yield or context that is not in a vocabulary."""


@briefly_shown
class SpanNumbers(NamedTuple):
    """Numbers of yield and context of every span of some sentences, in the order of `Bracketings`; -1 for unseen ones.

    Attributes
    ----------
    yields, contexts : ndarray of shape (n_spans,), int64
    """

    yields: Ints
    contexts: Ints


@brief_dataclass(frozen=True, eq=False)
class SpanVocabulary:
    """The yields (sequences of tags) and contexts (the tags on both sides) of all spans of a corpus.

    A yield is kept as the number of the yield without its last tag, and this tag: yields are numbered by length, and
    the memory of one does not grow with its length.

    Attributes
    ----------
    n_tags : int
        Tags are 0 ... n_tags - 1.
    yield_keys : ndarray of shape (n_yields,), int64
        ``(number of the yield without its last tag + 1) * n_tags + last tag``, increasing; the number is -1 for yields
        of one tag.
    yield_offsets : ndarray of shape (longest + 1,), int64
        Boundaries of the lengths: yields of k tags are ``yield_offsets[k - 1]:yield_offsets[k]``.
    context_keys : ndarray of shape (n_contexts,), int64
        ``tag before * (n_tags + 1) + tag after``, increasing; n_tags stands for the end of the sentence.

    Examples
    --------
    >>> vocabulary, numbers = SpanVocabulary.learn([3], [1, 0, 1], n_tags=2)
    >>> vocabulary.yields()
    [(0,), (1,), (0, 1), (1, 0), (1, 0, 1)]
    >>> numbers.yields.tolist()
    [1, 3, 4, 0, 2, 1]
    >>> vocabulary.number([2], [0, 0]).yields.tolist()
    [0, -1, 0]
    """

    n_tags: int
    yield_keys: Ints
    yield_offsets: Ints
    context_keys: Ints

    @classmethod
    def learn(cls, lengths: Ints, tags: Ints, n_tags: int) -> tuple[SpanVocabulary, SpanNumbers]:
        """The vocabulary of some sentences, and the numbers of their spans.

        Parameters
        ----------
        lengths : ndarray of shape (n_sentences,), int64
        tags : ndarray of shape (n_tokens,), int64
            In 0 ... n_tags - 1, sentence after sentence.
        n_tags : int
        """
        lengths, tags = np.asarray(lengths), np.asarray(tags)
        keys_by_length: list[Ints] = []

        def number(keys: Ints) -> Ints:
            first = sum(map(len, keys_by_length))
            distinct, inverse = np.unique(keys, return_inverse=True)
            keys_by_length.append(distinct)
            return first + inverse

        yields = _by_length(lengths, tags, n_tags, number)
        context_keys, contexts = np.unique(_context_keys(lengths, tags, n_tags), return_inverse=True)
        offsets = offsets_of(np.array([len(keys_of_one) for keys_of_one in keys_by_length], np.int64))
        vocabulary = cls(n_tags, np.concatenate([np.zeros(0, np.int64), *keys_by_length]), offsets, context_keys)
        return vocabulary, SpanNumbers(yields, contexts)

    def __post_init__(self) -> None:
        if not (np.diff(self.yield_keys) > 0).all() or not (np.diff(self.context_keys) > 0).all():
            raise InvalidInputError("yield_keys and context_keys must increase; build them with SpanVocabulary.learn")
        if self.yield_offsets[-1] != len(self.yield_keys):
            raise InvalidInputError(
                f"yield_offsets must end at the number of yields, {len(self.yield_keys)}; got {self.yield_offsets[-1]}"
            )

    @property
    def n_yields(self) -> int:
        return len(self.yield_keys)

    @property
    def n_contexts(self) -> int:
        return len(self.context_keys)

    @cached_property
    def yield_lengths(self) -> Ints:
        """Tags of every yield, shape (n_yields,)."""
        return rows_of(np.diff(self.yield_offsets)) + 1

    def number(self, lengths: Ints, tags: Ints) -> SpanNumbers:
        """Numbers of the spans of other sentences; tags that are not in the vocabulary are -1.

        Parameters
        ----------
        lengths : ndarray of shape (n_sentences,), int64
        tags : ndarray of shape (n_tokens,), int64
        """
        text = np.asarray(lengths), np.asarray(tags), self.n_tags
        yields = _by_length(*text, partial(_look_up, self.yield_keys))
        return SpanNumbers(yields, _look_up(self.context_keys, _context_keys(*text)))

    def yields(self) -> list[tuple[int, ...]]:
        """The tags of every yield."""
        listed: list[tuple[int, ...]] = [()]
        for key in self.yield_keys.tolist():
            before, last = divmod(key, self.n_tags)
            listed.append((*listed[before], last))
        return listed[1:]


def _by_length(lengths: Ints, tags: Ints, n_tags: int, number: Callable[[Ints], Ints]) -> Ints:
    """Numbers of the yields of all spans, each found from that of the span without its last word."""
    first = positions_of(lengths)
    left = np.repeat(lengths, lengths) - first  # words from here to the end of the sentence
    places = offsets_of(left)[:-1]
    yields = np.full(int(left.sum()), NEVER)
    token = np.arange(len(tags))
    before = np.full(len(tags), -1)
    possible: Bools = np.ones(len(tags), np.bool_)
    for length in range(1, int(lengths.max(initial=0)) + 1):
        token = token[left[token] >= length]
        last = tags[token + length - 1]
        possible[token] &= last >= 0
        if length > 1:
            possible[token] &= before[token] >= 0
        starts = token[possible[token]]
        numbers = number((before[starts] + 1) * n_tags + tags[starts + length - 1])
        before[starts] = numbers
        yields[places[starts] + length - 1] = numbers
    return yields


def _context_keys(lengths: Ints, tags: Ints, n_tags: int) -> Ints:
    """Keys of the contexts of all spans; -1 where a tag on either side is unknown."""
    first = positions_of(lengths)
    left = np.repeat(lengths, lengths) - first
    before = np.where(first > 0, np.append(n_tags, tags)[:-1], n_tags)
    after = np.where(left > 1, np.append(tags, n_tags)[1:], n_tags)
    starts = rows_of(left)
    ends = starts + positions_of(left)
    known = (before[starts] >= 0) & (after[ends] >= 0)
    return np.where(known, before[starts] * (n_tags + 1) + after[ends], NEVER)


def _look_up(keys: Ints, wanted: Ints) -> Ints:
    """Places of keys among sorted ones; -1 where there is none."""
    if not len(keys):
        return np.full(len(wanted), NEVER)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, NEVER)


# Spans of a shard.
_LEAST_SPANS, _MOST_SPANS = 1 << 14, 1 << 20


@brief_dataclass(frozen=True, eq=False)
class BracketShard:
    """Some sentences of a corpus.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
        Words of every sentence.
    tags : ndarray of shape (n_tokens,), int64
        -1 for those that are not in the vocabulary.
    yields, contexts : ndarray of shape (n_spans,), int64
        Numbers of the spans in a `SpanVocabulary`, in the order of `Bracketings`; -1 for unseen ones.
    weights : ndarray of shape (n_sentences,), float64
    instances : ndarray of shape (n_sentences,), int64
        Numbers of the sentences in the corpus.
    columns : Columns
        More columns for constraints, of sentences.
    """

    lengths: Ints
    tags: Ints
    yields: Ints
    contexts: Ints
    weights: Floats
    instances: Ints
    columns: Columns = Columns()


def build_shards(
    lengths: ArrayLike,
    tags: ArrayLike,
    numbers: SpanNumbers,
    weights: ArrayLike | None = None,
    columns: Columns = Columns(),  # noqa: B008
) -> list[BracketShard]:
    """Cut a corpus into shards; sentences of length 0 are in none.

    Parameters
    ----------
    lengths : array-like of shape (n_sentences,), int
        Words of every sentence, >= 0.
    tags : array-like of shape (n_tokens,), int
        Sentence after sentence.
    numbers : SpanNumbers
        The numbers of all spans of the corpus.
    weights : array-like of shape (n_sentences,), optional
        Weight of every sentence, >= 0; default 1.
    columns : Columns, optional
        More columns for constraints, of sentences.

    Returns
    -------
    list of BracketShard
        At least one, the same for every number of workers.

    Examples
    --------
    >>> from spectrem.models.bracketing import SpanVocabulary
    >>> _, numbers = SpanVocabulary.learn([2, 1], [0, 1, 1], n_tags=2)
    >>> [shard.yields.tolist() for shard in build_shards([2, 1], [0, 1, 1], numbers)]
    [[0, 2, 1, 1]]
    """
    sizes, flat = as_lengths(lengths, "lengths"), as_integers(tags, "tags")
    spans, tokens = Bracketings(sizes).span_offsets, offsets_of(sizes)
    weight = as_weights(weights, len(sizes))
    n_spans = np.diff(spans)
    shards = []
    for sentences, _ in cut(n_spans, [np.ones(len(sizes), np.bool_)], _LEAST_SPANS, _MOST_SPANS):
        places = ranges_of(spans[sentences], n_spans[sentences])
        words = ranges_of(tokens[sentences], sizes[sentences])
        shards.append(
            BracketShard(
                sizes[sentences], flat[words], numbers.yields[places], numbers.contexts[places], weight[sentences],
                sentences, columns.take(sentences, sizes),
            )
        )  # fmt: skip
    return shards


PLACES = ("first", "last", "before", "after")
"""Columns for constraints: the tags at the ends of a span, and those beside it."""


@brief_dataclass(frozen=True, eq=False)
class SpanParameters:
    """Probabilities of yields and contexts of constituents, the first row, and of distituents, the second.

    Attributes
    ----------
    yields : ndarray of shape (2, n_yields)
        Every row is one distribution or, where yields depend on their length, one for each length.
    contexts : ndarray of shape (2, n_contexts)
    """

    yields: Floats
    contexts: Floats

    @cached_property
    def log(self) -> tuple[Floats, Floats]:
        """Their logarithms in nats, each with a last column of 0 for what was never seen."""
        with np.errstate(divide="ignore"):
            yields, contexts = (np.log(table) for table in (self.yields, self.contexts))
        return np.pad(yields, ((0, 0), (0, 1))), np.pad(contexts, ((0, 0), (0, 1)))


@brief_dataclass(frozen=True, eq=False)
class ConstituentContextModel:
    """Sentences of tags from binary trees: every span draws its yield and its context [KleinManning2002].

    All trees of a sentence are equally probable; given the tree, every span, from single words to the whole
    sentence, draws the sequence of its tags (yield) and the pair of tags beside it (context), each from a distribution
    of constituents or of distituents. The model is deficient: it draws each tag many times over.

    Use when sentences of tags are to be bracketed without trees to learn from; short sentences suit it best.

    Parameters
    ----------
    vocabulary : SpanVocabulary
    by_length : bool
        Whether yields are drawn given their length: model 2 of [SmithEisner2004] §6.1, else model 1.
    smoothing : tuple of two floats
        Added to every expected count of constituents, and of distituents; as published 2 and 8. At least 0.
    names : sequence of n_tags str or int, optional
        The tags, for the columns of constraints.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.bracketing import build_shards
    >>> vocabulary, numbers = SpanVocabulary.learn([3], [0, 1, 1], n_tags=2)
    >>> model = ConstituentContextModel(vocabulary, smoothing=(0.0, 0.0))
    >>> [shard] = build_shards([3], [0, 1, 1], numbers)
    >>> yields, contexts = np.full((2, 5), 0.2), np.full((2, 6), 1 / 6)
    >>> yields[0, 2] = 0.6  # the constituent (0, 1)
    >>> params = SpanParameters(yields, contexts)
    >>> values, marginals = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
    >>> model.gather(params, shard, marginals).yields.round(3).tolist()
    [[1.0, 2.0, 0.75, 0.25, 1.0], [0.0, 0.0, 0.25, 0.75, 0.0]]
    """

    vocabulary: SpanVocabulary
    by_length: bool = False
    smoothing: tuple[float, float] = (2.0, 8.0)
    names: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        as_bool(self.by_length, "by_length")

    def structure(self, shard: BracketShard) -> Bracketings:
        """Binary trees over the words of every sentence."""
        return Bracketings(shard.lengths)

    def scores(self, params: SpanParameters, shard: BracketShard) -> Parts:
        """Log-probabilities (nats) of yield and context of every span; that of the tree with the whole sentence.

        A yield, or a context, that is not in the vocabulary scores 0 both ways: it says nothing about the tree.
        """
        yields, contexts = params.log
        unary = np.empty((len(shard.yields), 2))
        for kind in (0, 1):
            np.add(yields[kind][shard.yields], contexts[kind][shard.contexts], out=unary[:, kind])
        several = shard.lengths > 0
        unary[_whole(shard.lengths)[several], 0] -= log_trees(shard.lengths[several])
        return Parts(unary.ravel())

    def gather(self, params: SpanParameters | None, shard: BracketShard, marginals: Parts) -> Statistics:
        """Expected counts of a shard, times the sentences' weights, from the marginals; ``params`` are not read."""
        shares = marginals.unary.reshape(-1, 2)
        weight = np.repeat(shard.weights, shard.lengths * (shard.lengths + 1) // 2)
        n_yields, n_contexts = self.vocabulary.n_yields, self.vocabulary.n_contexts
        seen = shard.yields >= 0, shard.contexts >= 0
        tables = []
        for numbers, known, size in ((shard.yields, seen[0], n_yields), (shard.contexts, seen[1], n_contexts)):
            kept = slice(None) if known.all() else known
            tables.append(np.stack([sum_by(numbers[kept], (weight * shares[:, k])[kept], size) for k in (0, 1)]))
        return Statistics(yields=tables[0], contexts=tables[1])

    def distributions(self, shard: BracketShard, marginals: Parts) -> Floats:
        """The probability of every span to be a constituent, shape (n_spans,)."""
        return marginals.unary[::2]

    def columns(self, shard: BracketShard) -> Mapping[str, Key]:
        """Columns for constraints beside the structure's own.

        ``sentence`` as numbers in the corpus, shape (n_sentences,); of shape (n_unary,) ``first`` and ``last``, the
        tags at the ends of the span, ``before`` and ``after``, the tags beside it (missing at the ends of the
        sentence), ``yield``, the tags of the span as text with blanks between (missing if never seen); and
        those that the shard holds, of values of words such as ``case`` columns ``first_case`` and so on.
        """
        start, end = Bracketings(shard.lengths).spans
        n_spans = shard.lengths * (shard.lengths + 1) // 2
        word, size = np.repeat(np.cumsum(shard.lengths) - shard.lengths, n_spans), np.repeat(shard.lengths, n_spans)
        before, after = np.where(start > 0, word + start - 1, -1), np.where(end < size, word + end, -1)
        names, tags = np.array(self._names), np.append(shard.tags, NEVER)
        of_spans = {"yield": _taken(self._texts, shard.yields)}
        for place, at in zip(PLACES, (word + start, word + end - 1, before, after), strict=True):
            of_spans[place] = _taken(names, tags[at])
            of_spans |= {f"{place}_{name}": _taken(values, at) for name, values in shard.columns.of_words.items()}
        twice = np.repeat(np.arange(len(start)), 2)  # as a constituent, and as none
        columns = {name: values[twice] for name, values in of_spans.items()}
        return {"sentence": shard.instances, **columns, **shard.columns.of_sentences}

    def m_step(self, params: SpanParameters, stats: Statistics, corpus: object = None) -> SpanParameters:
        """Parameters that maximise the expected log-probability plus the log-prior; ``corpus`` is not read."""
        return self.normalise(stats)

    def log_prior(self, params: SpanParameters) -> float:
        """Log-density of the parameters under the pseudo-counts, nats, up to a constant."""
        return sum(
            DirichletPrior(self.smoothing[kind]).log_density(table[kind], row, sizes)
            for table, (row, sizes) in zip((params.yields, params.contexts), self._rows, strict=True)
            for kind in (0, 1)
        )

    def normalise(self, counts: Statistics) -> SpanParameters:
        """Distributions in proportion to counts plus pseudo-counts; those without either are uniform."""
        return SpanParameters(
            *(
                np.stack([DirichletPrior(self.smoothing[kind]).normalise(table[kind], row, sizes) for kind in (0, 1)])
                for table, (row, sizes) in zip((counts.yields, counts.contexts), self._rows, strict=True)
            )
        )

    @cached_property
    def _rows(self) -> tuple[tuple[Ints, Ints], ...]:
        """The distribution that each yield and each context belongs to, and the sizes of the distributions."""
        vocabulary, n_contexts = self.vocabulary, self.vocabulary.n_contexts
        row = vocabulary.yield_lengths - 1 if self.by_length else np.zeros(vocabulary.n_yields, np.int64)
        sizes = np.diff(vocabulary.yield_offsets) if self.by_length else np.array([vocabulary.n_yields])
        return (row, sizes), (np.zeros(n_contexts, np.int64), np.array([n_contexts]))

    @cached_property
    def _texts(self) -> NDArray:
        """The yields as text."""
        return np.array([" ".join(str(self._names[tag]) for tag in tags) for tags in self.vocabulary.yields()], TEXT)

    @property
    def _names(self) -> Sequence[Any]:
        return range(self.vocabulary.n_tags) if self.names is None else self.names


def log_trees(lengths: Ints) -> Floats:
    """Log of the number of binary trees over so many words (a Catalan number), nats; lengths of at least 1.

    Examples
    --------
    >>> np.exp(log_trees(np.array([1, 2, 3, 4, 5]))).round(9).tolist()
    [1.0, 1.0, 2.0, 5.0, 14.0]
    """
    from scipy.special import gammaln

    n = np.asarray(lengths, np.float64) - 1.0
    return gammaln(2 * n + 1) - gammaln(n + 1) - gammaln(n + 2)


def _whole(lengths: Ints) -> Ints:
    """The span that is the whole sentence, of every sentence of a batch; without meaning for empty ones."""
    spans = lengths * (lengths + 1) // 2
    return np.cumsum(spans) - spans + lengths - 1


def _taken(column: Key, places: Ints) -> Key:
    """The entries of a column at some places, missing where the place is negative."""
    if isinstance(column, Coded):
        return Coded(column.values, np.where(places < 0, np.int32(-1), column.codes[places]))
    return missing_where(np.asarray(column)[places], places < 0)


def tree_scores(lengths: np.ndarray, start: str) -> Parts:
    """Log-probabilities of trees as scores of the parts of `Bracketings`, nats, up to a constant per sentence.

    Parameters
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    start : {"split", "uniform"}
        "split": from the whole sentence on, every span is cut at one of its places, all equally probable
        [KleinManning2002]: a tree has the probability of the product of 1 / (words - 1) over its constituents. So it is
        less balanced than under "uniform", which gives all trees the same probability.

    Examples
    --------
    >>> import numpy as np
    >>> lengths = np.array([4])
    >>> _, split = Bracketings(lengths).smoothed_max(tree_scores(lengths, "split"), 1.0)
    >>> _, uniform = Bracketings(lengths).smoothed_max(tree_scores(lengths, "uniform"), 1.0)
    >>> split.unary[[2, 10]].round(3).tolist(), uniform.unary[[2, 10]].round(3).tolist()  # words 0 and 1, 1 and 2
    ([0.5, 0.333], [0.4, 0.4])
    """
    begin, end = Bracketings(lengths).spans
    unary = np.zeros((len(begin), 2))
    if start == "split":
        unary[:, 0] = -np.log(np.maximum(end - begin - 1, 1))
    return Parts(unary.ravel())


def start_from(model: ConstituentContextModel, corpus: Corpus, start: str) -> SpanParameters:
    """The M-step of expected counts under a distribution over trees; see `tree_scores`.

    Parameters
    ----------
    model : ConstituentContextModel
    corpus : Corpus
        Its shards are `BracketShard`.
    start : {"split", "uniform"}
        "uniform" is also what the first step of EM makes of uniform parameters.

    Returns
    -------
    SpanParameters
    """
    counts: Statistics = corpus.sum(_expected, model, start)
    return model.normalise(counts)


def _expected(shard: BracketShard, model: ConstituentContextModel, start: str) -> Statistics:
    _, marginals = Bracketings(shard.lengths).smoothed_max(tree_scores(shard.lengths, start), 1.0)
    return model.gather(None, shard, marginals)
