"""The constituent-context model over the spans of sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_bool
from spectrem.constraints.compilation.groups import Coded, Key
from spectrem.exceptions import InvalidInputError
from spectrem.inference.segments import sum_by
from spectrem.models.bracketing.shards import BracketShard
from spectrem.models.bracketing.vocabulary import SpanVocabulary
from spectrem.models.estep import Statistics
from spectrem.models.priors import DirichletPrior
from spectrem.structures import Bracketings, Parts

PLACES = ("first", "last", "before", "after")
"""Columns for constraints: the tags at the ends of a span, and those beside it."""


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
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

    Raises
    ------
    InvalidInputError
        If ``smoothing`` is negative, or ``names`` do not fit the vocabulary.

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
        if len(self.smoothing) != 2 or not all(0 <= count < np.inf for count in self.smoothing):
            raise InvalidInputError(
                f"smoothing must be two finite numbers of at least 0, for constituents and distituents, got "
                f"{self.smoothing}; as published it is (2, 8)"
            )
        if self.names is not None and len(self.names) != self.vocabulary.n_tags:
            raise InvalidInputError(
                f"names must hold {self.vocabulary.n_tags} names, as the vocabulary has tags; got {len(self.names)}; "
                "name every one or none"
            )

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

    def gather(self, params: SpanParameters, shard: BracketShard, marginals: Parts) -> Statistics:
        """Expected counts of a shard, times the sentences' weights, from the marginals of `scores`."""
        shares = marginals.unary.reshape(-1, 2)
        weight = np.repeat(shard.weights, shard.lengths * (shard.lengths + 1) // 2)
        n_yields, n_contexts = self.vocabulary.n_yields, self.vocabulary.n_contexts
        seen = shard.yields >= 0, shard.contexts >= 0
        tables = []
        for numbers, known, size in ((shard.yields, seen[0], n_yields), (shard.contexts, seen[1], n_contexts)):
            own = slice(None) if known.all() else known
            tables.append(np.stack([sum_by(numbers[own], (weight * shares[:, k])[own], size) for k in (0, 1)]))
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
        names = _with_missing(range(self.vocabulary.n_tags) if self.names is None else self.names)
        tags = names[np.append(shard.tags, -1)]
        words = {name: _ending_in_missing(values) for name, values in shard.columns.of_words.items()}
        of_spans: dict[str, Key] = {"yield": self._texts[shard.yields]}
        for place, at in zip(PLACES, (word + start, word + end - 1, before, after), strict=True):
            of_spans |= {place: tags[at], **{f"{place}_{name}": values[at] for name, values in words.items()}}
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
        """Of yields and of contexts: the distribution that each belongs to, and the sizes of the distributions."""
        vocabulary, n_contexts = self.vocabulary, self.vocabulary.n_contexts
        row = vocabulary.yield_lengths - 1 if self.by_length else np.zeros(vocabulary.n_yields, np.int64)
        sizes = np.diff(vocabulary.yield_offsets) if self.by_length else np.array([vocabulary.n_yields])
        return (row, sizes), (np.zeros(n_contexts, np.int64), np.array([n_contexts]))

    @cached_property
    def _texts(self) -> NDArray:
        """The yields as text, with a missing one behind the last."""
        names = [str(name) for name in (range(self.vocabulary.n_tags) if self.names is None else self.names)]
        return _with_missing([" ".join(names[tag] for tag in own) for own in self.vocabulary.yields()])


def log_trees(lengths: Ints) -> Floats:
    """Log of the number of binary trees over so many words (a Catalan number), nats; lengths of at least 1.

    Examples
    --------
    >>> np.exp(log_trees(np.array([1, 2, 3, 4, 5]))).round(9).tolist()
    [1.0, 1.0, 2.0, 5.0, 14.0]
    """
    n = np.asarray(lengths, np.float64) - 1.0
    return gammaln(2 * n + 1) - gammaln(n + 1) - gammaln(n + 2)


def _whole(lengths: Ints) -> Ints:
    """The span that is the whole sentence, of every sentence of a batch; without meaning for empty ones."""
    spans = lengths * (lengths + 1) // 2
    return np.cumsum(spans) - spans + lengths - 1


def _ending_in_missing(column: Key) -> Key:
    """A column with a missing value at the end."""
    if isinstance(column, Coded):
        return Coded(column.values, np.append(column.codes, np.int32(-1)))
    values: NDArray[Any] = np.asarray(column)
    return (
        _with_missing(values.tolist()) if values.dtype.kind in "OUT" else np.append(values.astype(np.float64), np.nan)
    )


def _with_missing(values: Sequence[Any] | range) -> NDArray:
    """Values as an array with a missing one at the end: text, or numbers as float64."""
    listed = list(values)
    if all(not isinstance(value, str) for value in listed):
        return np.array([*listed, np.nan], np.float64)
    return np.array([*map(str, listed), np.nan], np.dtypes.StringDType(na_object=np.nan))
