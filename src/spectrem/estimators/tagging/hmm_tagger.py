"""HMMTagger: hidden Markov models of order 1 and 2 from raw, partly labelled or labelled sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._damage import DamageError
from spectrem._validate import as_generator, check_same_index
from spectrem.constraints import check_columns, check_values
from spectrem.data import TaggedCorpus, Vocabulary
from spectrem.estimators import conventions, engine, sentences, storage
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, row_weights
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentence_tables import tag_label
from spectrem.estimators.sentences import LabelledText, Sentences, Tag, TokenLabelsLike, Word
from spectrem.estimators.shared_parameters import as_sequence, table_priors
from spectrem.estimators.storage import TEXT, Codec, Member, Saved, probabilities, rows
from spectrem.estimators.tagging import tables
from spectrem.estimators.tagging.parameters import TABLES, TaggerParameters, check_size
from spectrem.estimators.tagging.tables import Coding
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, FitStatus
from spectrem.models import tagging
from spectrem.models.tagging import HMMModel, HMMParameters, TagKernel, TagShard
from spectrem.structures import Parts, TiedChain, TiedChain2

_TAKEN = ("sentence", "token", "occurrence", "word", "tag", "label")  # columns that there are anyway


def _write(tagger: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    coding: Coding = tagger.coding_
    listed = list(coding.dictionary.values())
    arrays = {
        "words": storage.pack_names(coding.vocabulary.words),
        "dictionary_words": storage.pack_names(tuple(coding.dictionary)),
        "dictionary_offsets": np.cumsum([0] + [len(states) for states in listed]),
        "dictionary_states": np.array([state for states in listed for state in states], np.int64),
    }
    by_name = {name: getattr(tagger.params_, name) for name in tables.FIXABLE}
    arrays |= {name: table for name, table in by_name.items() if table is not None}
    return {"tags": list(coding.tags), "free": list(coding.free), "unknown": coding.unknown}, arrays


def _read(tagger: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    tags = sentences.check_tags(values["tags"])
    words = storage.unpack_names(arrays["dictionary_words"], "words")
    offsets, states = arrays["dictionary_offsets"], arrays["dictionary_states"].tolist()
    if not storage.are_offsets(offsets, len(words), len(states)):
        raise DamageError("dictionary_states do not fit their offsets")
    listed = (states[start:stop] for start, stop in pairwise(offsets.tolist()))
    dictionary = {word: tuple(allowed) for word, allowed in zip(words, listed, strict=True)}
    vocabulary = Vocabulary(storage.unpack_names(arrays["words"], "words"))
    [unknown] = storage.check_names((values["unknown"],), "the unknown word")
    coding = Coding(tags, vocabulary, dictionary, tuple(values["free"]), unknown)
    parameters = HMMParameters(arrays["initial"], arrays["transition"], arrays.get("second"), arrays["emission"])
    params = _checked(coding, parameters)
    named = {word: [tags[state] for state in allowed] for word, allowed in dictionary.items()}
    tagger.set_params(tags=list(tags), dictionary=named or None)
    tagger._take(coding, params)


def _checked(coding: Coding, params: HMMParameters) -> HMMParameters:
    """Raise ValueError unless all arrays belong together; kernels trust them."""
    n = len(coding.tags)
    for states in (*coding.dictionary.values(), coding.free):
        whole = all(isinstance(state, int) and 0 <= state < n for state in states)
        if not whole or not states or any(first >= second for first, second in pairwise(states)):
            raise DamageError("states do not fit the tags")
    # counted here, since the lexicon itself may be far larger than the file
    words = coding.vocabulary.words
    n_cells = sum(n if word == coding.unknown else len(coding.states(word)) for word in words)
    second = params.second is not None
    shapes = {"initial": (n,), "transition": (n,) * (3 if second else 2), "emission": (n_cells,)}
    shapes |= {"second": (n, n)} if second else {}
    _CODEC.check_arrays(vars(params), shapes)
    return params


_CODEC = Codec(
    kind="HMMTagger",
    members={
        **{"words": TEXT, "dictionary_words": TEXT},
        **dict.fromkeys(("dictionary_offsets", "dictionary_states"), Member("i8", 1)),
        **{"initial": Member("f8", 1, rows), "transition": Member("f8", 3, rows), "second": Member("f8", 2, rows)},
        "emission": Member("f8", 1, probabilities),
    },
    write=_write,
    read=_read,
    # The dictionary is saved as arrays, and the tags and the vocabulary of a fitted tagger as they were learned.
    apart=("dictionary", "vocabulary", "tags"),
)


@documented
@dataclass(eq=False, repr=False)
class HMMTagger(Saved, TaggerParameters, Estimator):
    """Tag words by a hidden Markov model learned with or without labels.

    The posteriors of EM can be restricted by a dictionary of the tags each word may have, by labels, and by constraints
    on expectations ([Ganchev2010]); annealed or hardened by gamma ([SmithEisner2004], [Samdani2012]). A sentence's
    probability is that of its words given its length: there is no event for its end.

    Use when tokens need labels and there are few labelled sentences or none.

    Attributes
    ----------
    tags_ : tuple of str or int
    vocabulary_ : Vocabulary
    lexicon_ : Lexicon
    params_ : HMMParameters
        Emissions by cell of the lexicon.
    initial_, transition_, emission_ : ndarray
        Probabilities, of shapes (n_states,), (n_states, n_states) or one more axis at order 2, and (n_states, n_words).
    history_ : list of Record
        With the violation that few ``dual_steps`` leave of constraints over the corpus.
    n_iter_ : int
    objective_ : float
        The objective of the last record, nats.
    status_ : FitStatus
    converged_ : bool
        Whether the objective gained less than ``tol`` at every gamma in the end.
    report_ : FitReport
        The course of training and, at the parameters learned, what the constraints demanded and cost: those over the
        corpus row by row, those inside sentences (and longer ones) in a line each. It takes as long as one more
        iteration. A notebook shows it below the tagger; ``print(tagger.report_.summary())`` elsewhere.
    log_likelihood_ : float
        The log-likelihood of the training sentences, nats.
    gamma_ : float
        The last one of training.

    Examples
    --------
    >>> dictionary = {"the": ["DT"], "dog": ["NN"], "barks": ["VB", "NN"], "sleeps": ["VB"]}
    >>> tagger = HMMTagger(dictionary=dictionary, smoothing=0.1, random_state=0, n_threads=1, max_iter=200)
    >>> tagger.fit(["the dog barks", "the dog sleeps"]).predict(["the dog barks"])
    [['DT', 'NN', 'VB']]
    """

    _codec = _CODEC

    @classmethod
    def from_parameters(
        cls,
        initial: ArrayLike,
        transition: ArrayLike,
        emission: ArrayLike,
        *,
        second: ArrayLike | None = None,
        tags: Sequence[Tag] | None = None,
        vocabulary: Sequence[Word] | None = None,
        **options: Any,
    ) -> HMMTagger:
        """A tagger with known tables, ready to tag and to score; `fit` trains on from them.

        Parameters
        ----------
        initial, transition, emission : array-like
            Probabilities, of shapes (n_states,), (n_states, n_states) [from, to] and (n_states, n_words); with one
            axis more for transition at order 2.
        second : array-like of shape (n_states, n_states), optional
            Order 2: of the second tag given the first.
        tags, vocabulary : sequence, optional
            By default numbers from 0.
        **options
            Other parameters of HMMTagger.

        Raises
        ------
        InvalidInputError
            If shapes do not fit each other, or rows do not sum to 1.

        Examples
        --------
        >>> tagger = HMMTagger.from_parameters([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]])
        >>> tagger.predict([[0, 0, 0, 1, 1, 1]])
        [[0, 0, 0, 1, 1, 1]]
        """
        tagger = cls(**options)
        initial, transition, emission = (np.array(table, np.float64) for table in (initial, transition, emission))
        second = None if second is None else np.array(second, np.float64)
        n_states, n_words = emission.shape if emission.ndim == 2 else (len(initial), -1)
        names = tuple(range(n_states)) if tags is None else tuple(sentences.check_tag(tag, "tags") for tag in tags)
        words = tuple(range(max(n_words, 0))) if vocabulary is None else tuple(vocabulary)
        if len(names) != n_states or len(words) != n_words:
            raise InvalidInputError(
                f"emission must have shape {(len(names), len(words))}, as tags and vocabulary say, got "
                f"{emission.shape}; name all of them or none"
            )
        free = tuple(range(n_states))
        coding = Coding(names, Vocabulary(words), {}, free, tagger.unknown)  # type: ignore[arg-type]
        for name, table in (
            ("initial", initial),
            ("transition", transition),
            ("second", second),
            ("emission", emission),
        ):
            if table is not None and not np.allclose(table.sum(axis=-1), 1.0, atol=1e-6):
                raise InvalidInputError(
                    f"{name} must have rows that sum to 1, got sums from {table.sum(axis=-1).min():g} to "
                    f"{table.sum(axis=-1).max():g}; give probabilities [from, to], not logarithms or counts"
                )
        try:
            params = _checked(coding, HMMParameters(initial, transition, second, tables.by_cell(coding, emission)))
        except ValueError as error:
            raise InvalidInputError(f"tables must fit each other: {error}") from None
        # training, if asked for, goes on from here
        tagger.set_params(order=params.order, tags=list(names), vocabulary=words, init=params)
        check_parameters(tagger)
        tagger._take(coding, params)
        tagger.gamma_ = engine.asked_gamma(tagger)
        conventions.take_course(tagger, [], FitStatus.FIXED_ITERATIONS)
        return tagger

    @shows_progress
    def fit(
        self,
        X: Sentences,
        y: TokenLabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> HMMTagger:
        """Train on sentences.

        Parameters
        ----------
        X : sequence of sequences of words, or of str
            Strings are split at spaces.
        y : sequence of (sequence of labels or None), optional
            Per token a tag, a collection of tags that it may have, or None; None for sentences without labels.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.
        columns : mapping of name -> sequence, optional
            What constraints name beside the columns that there are anyway: per sentence a value, or a sequence of a
            value per word.

        Returns
        -------
        HMMTagger
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.
        InfeasibleConstraintError
            If a sentence cannot meet a constraint and ``infeasible`` is "raise".
        """
        check_parameters(self)
        check_same_index(sentences=X, y=y, sample_weight=sample_weight)
        text = sentences.read_text(X, y)
        named = sentences.read_sentence_columns(columns, text.lengths, _TAKEN, arcs=False)
        weights = row_weights(sample_weight, len(text.lengths), "sentence")
        conventions.check_words_to_learn("sentences", text.lengths, weights)
        coding = tables.learn_coding(self, text)
        check_size(len(coding.tags), self.order)
        sentences.check_tag_values(self.constraints, coding.tags)
        if coding.names.words is not None:
            check_values(self.constraints, "word", [*coding.names.words, coding.names.unknown], every=False)
        check_columns(self.constraints, {**named.of_sentences, **named.of_words})
        lexicon, entries = coding.encode(text)
        initial, transition, emission = table_priors(TABLES, self.prior, self.smoothing)
        rules = tables.restrictions(coding, self.order, self.fixed, self.transition_mask)
        model = HMMModel(lexicon, self.order, initial, transition, emission, rules, coding.names)
        known = text.labels.known()
        shards = tagging.build_shards(lexicon, text.lengths, entries, weights, known=known, columns=named)
        corpus, rng = engine.make_corpus(self, shards), as_generator(self.random_state)
        start = partial(tables.start_parameters, self, coding, model, corpus, rng)
        estep = _estep(self, model, tables.make_reference(self.reference, coding, model, text.lengths))
        all_known = bool((known | (text.lengths == 0)).all())
        trained = engine.train(self, engine.Task(model, corpus, start, estep, all_known=all_known))
        self._take(coding, trained.params)
        table = TagKernel(model).table(trained.params, 1.0)
        self.log_likelihood_ = corpus.sum(engine.log_likelihood, _log_likelihoods, table)
        engine.record(self, trained, len(text.lengths), {"order": self.order, "tags": len(coding.tags)})
        return self

    def predict(self, X: Sentences, *, columns: Mapping[str, Any] | None = None) -> list[list[Tag]]:
        """Tags of every token.

        Sentences that are impossible under the model get the tags that take the fewest impossible events.

        Parameters
        ----------
        X, columns
            As in `fit`; ``columns`` for ``project_at_predict``.

        Returns
        -------
        list of list of tags
            One of ``tags_`` per token, sentence by sentence.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(sentences.read_text(X), columns)
        tags = np.array(self.tags_, object)[new.structures(_most_probable, "sequences")].tolist()
        return PerSentence.cut(tags, new.lengths)

    def predict_proba(self, X: Sentences, *, columns: Mapping[str, Any] | None = None) -> list[Floats]:
        """Posterior probabilities of tags, in the order of ``tags_``.

        Parameters
        ----------
        X, columns
            As in `predict`.

        Returns
        -------
        list of ndarray of shape (n_tokens, n_states)
            Probabilities in [0, 1], one array per sentence; rows sum to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(sentences.read_text(X), columns)
        return new.shown(new.tables(), partial(tag_label, self.tags_))

    def score(
        self,
        X: Sentences,
        y: TokenLabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> float:
        """Mean log-likelihood per token in nats, of the words or, with labels, of words and labels; always finite.

        Where a sentence is impossible, events of probability 0 count as 1e-9; a word that training did not see, and
        no ``unknown`` word stands for, has the probability 1 / (words of the vocabulary + 1) with every tag.
        Constraints have no part in it, nor have ``columns``.

        Parameters
        ----------
        X
            As in `fit`.
        y : sequence of sequences of labels, optional
            As in `fit`.
        sample_weight : array-like of shape (n_sentences,), optional
            How often each sentence counts, at least 0.
        columns
            Not read.

        Returns
        -------
        float
            Nats per token, at most 0.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        text = sentences.read_text(X, y)
        values = self._log_likelihoods(text, finite=True)
        return engine.mean_log_likelihood("sentences", values, text.lengths, sample_weight)

    def score_samples(self, X: Sentences, y: TokenLabelsLike | None = None) -> Floats:
        """Log-likelihood of every sentence (with labels, of words and labels), shape (n_sentences,), nats.

        -inf if it is impossible; words that training did not see, and no ``unknown`` word stands for, are left out.

        Parameters
        ----------
        X, y
            As in `score`.

        Returns
        -------
        ndarray of shape (n_sentences,)
            Nats, at most 0.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        return self._log_likelihoods(sentences.read_text(X, y))

    def sample(
        self,
        n_sentences: int = 1,
        length: int | Sequence[int] = 10,
        random_state: int | np.random.Generator | None = None,
    ) -> TaggedCorpus:
        """Draw sentences with their tags.

        Parameters
        ----------
        n_sentences : int
        length : int or sequence of n_sentences int
            Words of the sentences: their number is not part of the model.
        random_state : int or numpy.random.Generator, optional
            By default that of the tagger.

        Returns
        -------
        TaggedCorpus
        """
        conventions.check_fitted(self)
        lengths = np.full(n_sentences, length) if np.ndim(length) == 0 else np.asarray(length)
        if lengths.shape != (n_sentences,):
            expected = f"one number or {n_sentences}, one per sentence"
            raise InvalidInputError(f"length must be {expected}, got shape {lengths.shape}; set n_sentences")
        rng = as_generator(self.random_state if random_state is None else random_state)
        numbers, states = tagging.sample_sentences(self.params_, self.lexicon_, lengths, rng)
        words = [self.vocabulary_.words[number] for number in numbers.tolist()]
        tags = [self.tags_[state] for state in states.tolist()]
        return TaggedCorpus(list(PerSentence.cut(words, lengths)), list(PerSentence.cut(tags, lengths)))

    @property
    def emission_(self) -> Floats:
        """Probabilities of words, shape (n_states, n_words)."""
        return as_fitted(self).lexicon_.table(self.params_.emission)

    def _encoded(self, text: LabelledText, columns: Mapping[str, Any] | None = None) -> engine.NewSentences:
        fitted, named = as_fitted(self), sentences.read_sentence_columns(columns, text.lengths, _TAKEN, arcs=False)
        if engine.projects(self):
            sentences.check_tag_values(self.constraints, self.tags_)
        lexicon, entries = fitted.coding_.encode(text)
        model = HMMModel(lexicon, self.params_.order, names=self.coding_.names)
        shards = tagging.build_shards(lexicon, text.lengths, entries, known=text.labels.known(), columns=named)
        return engine.NewSentences(self, model, self.params_, shards, text.lengths, text.words)

    def _log_likelihoods(self, text: LabelledText, finite: bool = False) -> Floats:
        new = self._encoded(text)
        table = TagKernel(new.model).table(self.params_, 1.0)
        if finite:
            return new.values(_finite_log_likelihoods, new.model, self.params_, table)
        return new.values(_log_likelihoods, table)

    def _take(self, coding: Coding, params: HMMParameters) -> None:
        """Set the attributes that tagging needs, from training or a file."""
        self.coding_, self.params_ = coding, params
        self.tags_, self.vocabulary_, self.lexicon_ = coding.tags, coding.vocabulary, coding.lexicon
        self.initial_, self.transition_ = params.initial, params.transition


def _estep(tagger: Any, model: HMMModel, reference: HMMParameters | Callable[[TagShard], Parts] | None) -> EStep:
    if not as_sequence(tagger.constraints) and not callable(reference):
        return EStep(kernel=TagKernel(model, reference))
    if isinstance(reference, HMMParameters):
        reference = partial(model.scores, reference)
    return engine.estep_of(tagger, reference=reference)


def _most_probable(model: HMMModel, shard: TagShard, marginals: Parts) -> Ints:
    """The most probable state of every token, the first one among equals."""
    if not shard.n_tokens:
        return np.zeros(0, np.int64)
    layout = model.layout(shard)
    top = np.maximum.reduceat(marginals.unary, layout.offsets[:-1])
    best = np.flatnonzero(marginals.unary == np.repeat(top, np.diff(layout.offsets)))
    return layout.states[best[np.searchsorted(best, layout.offsets[:-1])]]


def _log_likelihoods(shard: TagShard, table: TiedChain | TiedChain2) -> Floats:
    """log p of the words (and labels) of every sentence of a shard, nats; -inf if impossible."""
    return table.expected_counts(shard.lengths, shard.entries, shard.weights)[0]


def _finite_log_likelihoods(
    shard: TagShard, model: HMMModel, params: HMMParameters, table: TiedChain | TiedChain2
) -> Floats:
    """Log-likelihoods that are always finite, so that models can be compared on text that they were not trained on.

    In sentences that are impossible, events of probability 0 count as 1e-9. A word never seen counts as one more word
    of the vocabulary, as probable as the average one, whatever its tag: if it counted for nothing, a model that knows
    fewer words would seem the better one.
    """
    values = _log_likelihoods(shard, table)
    impossible = np.isneginf(values)
    if impossible.any():
        rare = TagKernel(model).table(engine.floored(params, engine.RARE), 1.0)
        values = np.where(impossible, _log_likelihoods(shard, rare), values)
    sentence = np.repeat(np.arange(len(shard.lengths)), shard.lengths)
    never = model.lexicon.entry_words[shard.entries] < 0
    return values - np.log(model.lexicon.n_words + 1.0) * np.bincount(sentence, never, len(values))
