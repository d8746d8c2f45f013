"""BracketingModel: binary brackets learned from sentences of tags without trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._damage import DamageError
from spectrem._validate import check_same_index
from spectrem.constraints import check_columns, check_values
from spectrem.corpus import Corpus
from spectrem.estimators import engine, sentences, storage
from spectrem.estimators.bracketing.parameters import BracketingParameters, span_smoothing
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, check_words_to_learn, row_weights
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentence_tables import span_label
from spectrem.estimators.sentences import LabelledText, Sentences, Word
from spectrem.estimators.storage import TEXT, Codec, Member, Saved, probabilities
from spectrem.exceptions import InvalidInputError
from spectrem.models import bracketing
from spectrem.models.bracketing import BracketShard, ConstituentContextModel, SpanParameters, SpanVocabulary
from spectrem.models.shards import Columns
from spectrem.structures import Bracketings, Parts

Brackets = list[tuple[int, int]]
"""Spans of a sentence as (start, end), the position behind the last word, from 0."""


# Numbers, scores and posteriors of a span take about a hundred bytes.
_BYTES_PER_SPAN, _MOST_SPANS = 100, 1 << 27
_VOCABULARY = ("yield_keys", "yield_offsets", "context_keys")


def _write(estimator: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    params, keys = estimator.params_, {name: getattr(estimator.coding_, name) for name in _VOCABULARY}
    tags = storage.pack_names(estimator.tags_)
    return {}, {"tags": tags, **keys, "yields": params.yields, "contexts": params.contexts}


def _read(estimator: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    if isinstance(estimator.smoothing, list):
        estimator.set_params(smoothing=tuple(estimator.smoothing))
    tags = storage.unpack_names(arrays["tags"], "tags")
    vocabulary = _checked(SpanVocabulary(len(tags), *(arrays[name] for name in _VOCABULARY)))
    shapes = {"yields": (2, vocabulary.n_yields), "contexts": (2, vocabulary.n_contexts)}
    _CODEC.check_arrays(arrays, shapes)
    estimator.tags_, estimator.coding_ = tags, vocabulary
    estimator.params_ = SpanParameters(arrays["yields"], arrays["contexts"])


def _checked(vocabulary: SpanVocabulary) -> SpanVocabulary:
    """The vocabulary; ValueError unless its numbers belong together."""
    n_tags, offsets, contexts = vocabulary.n_tags, vocabulary.yield_offsets, vocabulary.context_keys
    if not storage.are_offsets(offsets, len(offsets) - 1, offsets[-1]):
        raise DamageError("yield_offsets must begin at 0 and not fall")
    inside = contexts.min(initial=0) >= 0 and contexts.max(initial=0) < (n_tags + 1) ** 2
    # every yield extends one of one tag less
    before, length = vocabulary.yield_keys // n_tags - 1, vocabulary.yield_lengths
    first = length == 1
    extended = (before[first] == -1).all() and (before[~first] >= 0).all()
    if not inside or not extended or (length[before[~first]] != length[~first] - 1).any():
        raise DamageError("yields or contexts do not fit the tags")
    return vocabulary


_CODEC = Codec(
    kind="BracketingModel",
    members={
        "tags": TEXT,
        **dict.fromkeys(_VOCABULARY, Member("i8", 1)),
        **dict.fromkeys(("yields", "contexts"), Member("f8", 2, probabilities)),
    },
    write=_write,
    read=_read,
    numbers=("gamma", "log_likelihood"),
)


@documented
@dataclass(eq=False, repr=False)
class BracketingModel(Saved, BracketingParameters, Estimator):
    """Bracket sentences by a constituent-context model that is learned without trees.

    Every span of a sentence draws its tags, and the tags beside it, as a constituent or as something else
    [KleinManning2002]; the posteriors of EM over binary trees can be restricted by constraints on expectations
    ([Ganchev2010]), annealed or hardened by gamma ([SmithEisner2004], [Samdani2012]).

    Use when sentences of parts of speech (or words) are to be bracketed and there are no trees to learn from. Short
    sentences, of some ten words, suit it best: time grows with the third power of their length.

    Attributes
    ----------
    tags_ : tuple of str or int
        The tags, or words, of the training sentences.
    coding_ : SpanVocabulary
        The numbers of their spans.
    params_ : SpanParameters
    history_ : list of Record
        With the violation that few ``dual_steps`` leave of constraints over the corpus.
    n_iter_ : int
    objective_ : float
        The objective of the last record, nats.
    status_ : FitStatus
    converged_ : bool
        Whether the objective gained less than ``tol`` at every gamma in the end.
    report_ : FitReport
        The course of training and, at the parameters learned, what the constraints demanded and cost.
    log_likelihood_ : float
        The log-likelihood of the training sentences, nats. The model is deficient, as each tag is drawn once for every
        span around it: compare it between fits to the same sentences only.
    gamma_ : float
        The last one of training.

    Examples
    --------
    >>> from spectrem.datasets import make_bracketed_corpus
    >>> sentences = make_bracketed_corpus(200).sentences
    >>> model = BracketingModel(max_iter=40, tol=0.0, n_threads=1).fit(sentences)
    >>> model.predict(["DT NN VBD DT NN"])
    [[(0, 2), (0, 5), (2, 5), (3, 5)]]
    """

    _codec = _CODEC

    @shows_progress
    def fit(
        self,
        X: Sentences,
        y: None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> BracketingModel:
        """Train on sentences.

        Parameters
        ----------
        X : sequence of sequences of tags, or of str
            Strings are split at spaces.
        y : None
            Not used; scikit-learn passes it.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.
        columns : mapping of name -> sequence, optional
            More columns that constraints may name: per sentence a value, or a sequence of a
            value per word, of which ``first_``, ``last_``, ``before_`` and ``after_`` with the name are columns of
            spans.

        Returns
        -------
        BracketingModel
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.
        InfeasibleConstraintError
            If a sentence cannot meet a constraint and ``infeasible`` is "raise".
        """
        check_parameters(self)
        check_same_index(X=X, sample_weight=sample_weight)
        text = _read_sentences(X)
        named = _read_columns(columns, text.lengths)
        weights = row_weights(sample_weight, len(text.lengths), "sentence")
        tags, vocabulary, shards = _learn_spans(text, weights, named)
        for place in bracketing.PLACES:
            check_values(self.constraints, place, sentences.tag_names(tags))
        of_spans = {f"{place}_{name}": values for name, values in named.of_words.items() for place in bracketing.PLACES}
        check_columns(self.constraints, {**named.of_sentences, **of_spans})
        model, corpus = _make_model(self, tags, vocabulary), engine.make_corpus(self, shards)
        estep = engine.estep_of(self, reference=_split_reference if self.reference == "split" else None)
        trained = engine.train(self, engine.Task(model, corpus, partial(_start, self.init, model, corpus), estep))
        self.tags_, self.coding_, self.params_ = tags, vocabulary, trained.params
        self.log_likelihood_ = corpus.sum(engine.log_likelihood, engine.log_likelihoods, model, trained.params)
        yields = "yields given their length" if self.by_length else "yields of all lengths"
        engine.record(self, trained, len(text.lengths), {"model": yields, "tags": len(tags)})
        return self

    def predict(self, X: Sentences, *, columns: Mapping[str, Any] | None = None) -> list[Brackets]:
        """The brackets of every sentence: its constituents of two words and more, the whole sentence among them.

        Parameters
        ----------
        X, columns
            As in `fit`; ``columns`` for ``project_at_predict``.

        Returns
        -------
        list of list of (start, end)
            By start and end, from 0; ``end`` is the position behind the last word. A sentence of n words has n - 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(X, columns)
        n_brackets = np.maximum(new.lengths - 1, 0)
        brackets = [(start, end) for start, end in new.structures(_most_expected, "trees", n_brackets).tolist()]
        return PerSentence.cut(brackets, n_brackets)

    def predict_proba(self, X: Sentences, *, columns: Mapping[str, Any] | None = None) -> list[Floats]:
        """Posterior probabilities of spans to be constituents.

        Parameters
        ----------
        X, columns
            As in `predict`.

        Returns
        -------
        list of ndarray of shape (n_words, n_words + 1)
            Probabilities in [0, 1], one array per sentence, indexed [start, end]; 0 where ``end <= start``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new, tables = self._encoded(X, columns), []
        shares = new.tables(new.lengths * (new.lengths + 1) // 2)
        for size, spans in zip(new.lengths.tolist(), shares, strict=True):
            tables.append(np.zeros((size, size + 1)))
            tables[-1][np.triu_indices(size, 1, size + 1)] = spans
        return new.shown(tables, span_label)

    def score(
        self,
        X: Sentences,
        y: None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> float:
        """Mean log-likelihood per word in nats; always finite, see `score_samples`.

        Constraints have no part in it, nor have ``columns``.

        Parameters
        ----------
        X
            As in `fit`.
        y : None
            Not read.
        sample_weight : array-like of shape (n_sentences,), optional
            How often each sentence counts, at least 0.
        columns
            Not read.

        Returns
        -------
        float
            Nats per word.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        return engine.mean_log_likelihood("sentences", self.score_samples(X), _read_sentences(X).lengths, sample_weight)

    def score_samples(self, X: Sentences) -> Floats:
        """Log-likelihood of every sentence, shape (n_sentences,), nats.

        A yield or context that training did not see counts as one more event of its distribution, as probable as the
        average one; where a sentence is impossible, events of probability 0 count as 1e-9.

        Parameters
        ----------
        X
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_sentences,)
            Nats.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(X)
        return new.values(_finite_log_likelihoods, new.model, self.params_)

    def _encoded(self, X: Sentences, columns: Mapping[str, Any] | None = None) -> engine.NewSentences:
        model, text = _make_model(as_fitted(self), self.tags_, self.coding_), _read_sentences(X)
        tags, named = sentences.tag_numbers(self.tags_, text.words), _read_columns(columns, text.lengths)
        shards = bracketing.build_shards(text.lengths, tags, self.coding_.number(text.lengths, tags), columns=named)
        return engine.NewSentences(self, model, self.params_, shards, text.lengths, text.words)


def _read_sentences(X: Sentences) -> LabelledText:
    """Sentences as flat arrays.

    Raises
    ------
    InvalidInputError
        If they are not sequences of tags, or have so many spans that their arrays would not fit into memory.
    """
    text = sentences.read_text(X)
    n_spans = text.lengths * (text.lengths + 1) // 2
    if n_spans.sum() > _MOST_SPANS:
        longest = int(np.argmax(text.lengths))
        raise InvalidInputError(
            f"sentences have {int(n_spans.sum()):,} spans, which would take about "
            f"{n_spans.sum() * _BYTES_PER_SPAN / 2**30:.0f} GiB, {int(n_spans[longest]):,} of them in sentence "
            f"{longest} of {int(text.lengths[longest]):,} words; leave out long sentences"
        )
    return text


def _read_columns(columns: Any, lengths: Ints) -> Columns:
    taken = ("sentence", *bracketing.PLACES, "yield", *Bracketings([0]).columns)
    return sentences.read_sentence_columns(columns, lengths, taken, arcs=False)


def _learn_spans(
    text: LabelledText, weights: Floats, columns: Columns
) -> tuple[tuple[Word, ...], SpanVocabulary, list[BracketShard]]:
    """Number the tags and spans of sentences to train on; those of weight 0 are left out.

    Raises
    ------
    InvalidInputError
        If no sentence with a weight above 0 has a word.
    """
    check_words_to_learn("sentences", text.lengths, weights)
    counted = weights > 0
    words = [text.words[k] for k in np.flatnonzero(np.repeat(counted, text.lengths))]
    tags = sentences.sort_tags(words)
    flat = sentences.tag_numbers(tags, words)
    # Sentences of weight 0 keep their numbers, as sentences without words.
    lengths = np.where(counted, text.lengths, 0)
    vocabulary, numbers = SpanVocabulary.learn(lengths, flat, len(tags))
    of_words = {name: values[np.repeat(counted, text.lengths)] for name, values in columns.of_words.items()}
    columns = columns._replace(of_words=of_words)
    return tags, vocabulary, bracketing.build_shards(lengths, flat, numbers, weights, columns)


def _make_model(settings: Any, tags: tuple[Word, ...], vocabulary: SpanVocabulary) -> ConstituentContextModel:
    """The model that the settings of an estimator describe."""
    smoothing = span_smoothing(settings.smoothing)
    return ConstituentContextModel(vocabulary, settings.by_length, smoothing, sentences.tag_names(tags))


def _start(init: Any, model: ConstituentContextModel, corpus: Corpus) -> SpanParameters:
    """The parameters that the setting ``init`` says to start from."""
    if isinstance(init, str):
        return bracketing.start_from(model, corpus, init)
    params: SpanParameters = getattr(init, "params_", init)
    shapes = (2, model.vocabulary.n_yields), (2, model.vocabulary.n_contexts)
    shapes_given = params.yields.shape, params.contexts.shape
    is_model = hasattr(init, "coding_")
    if shapes_given != shapes or (is_model and not _numbers_alike(init, model)):
        raise InvalidInputError(
            f"init must have a probability for each yield and context of these sentences, arrays of shapes {shapes}, "
            f"got {shapes_given}{' of other spans' if is_model else ''}; give a model that was fitted to the same "
            "sentences"
        )
    return params


def _numbers_alike(fitted: Any, model: ConstituentContextModel) -> bool:
    """Whether two models give the same spans of the same tags the same numbers."""
    keys = ((getattr(fitted.coding_, name), getattr(model.vocabulary, name)) for name in _VOCABULARY)
    return sentences.tag_names(fitted.tags_) == model.names and all(np.array_equal(*pair) for pair in keys)


def _split_reference(shard: BracketShard) -> Parts:
    return bracketing.tree_scores(shard.lengths, "split")


def _most_expected(model: ConstituentContextModel, shard: BracketShard, marginals: Parts) -> Ints:
    """The trees with the largest expected numbers of right brackets; of indicators of trees, these trees."""
    scores = np.zeros((len(marginals.unary) // 2, 2))
    scores[:, 0] = marginals.unary[::2]
    return Bracketings(shard.lengths).decode(Parts(scores.ravel()))


def _finite_log_likelihoods(shard: BracketShard, model: ConstituentContextModel, params: SpanParameters) -> Floats:
    """Log-probabilities of the tags of every sentence, nats, with those of yields and contexts never seen."""
    values = engine.log_likelihoods(shard, model, params, finite=True)
    vocabulary, structure = model.vocabulary, model.structure(shard)
    start, end = structure.spans
    # the sizes of the distributions of yields, by the length of the span
    sizes = np.full(int(max(shard.lengths.max(initial=0), len(vocabulary.yield_offsets) - 1)), vocabulary.n_yields)
    if model.by_length:
        sizes[:] = 0
        sizes[: len(vocabulary.yield_offsets) - 1] = np.diff(vocabulary.yield_offsets)
    cost = np.where(shard.yields < 0, np.log(sizes[end - start - 1] + 1.0), 0.0)
    cost += np.where(shard.contexts < 0, np.log(vocabulary.n_contexts + 1.0), 0.0)
    return values - np.bincount(structure.instance[::2], cost, len(values))
