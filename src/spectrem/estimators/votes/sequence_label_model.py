"""SequenceLabelModel: spans in sentences from many weak votes and some knowledge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._damage import DamageError
from spectrem.constraints import check_columns
from spectrem.constraints.compilation.groups import Coded, Key
from spectrem.estimators import engine, storage
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, check_words_to_learn, row_weights
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentence_tables import tag_label
from spectrem.estimators.sentences import (
    Sentences,
    TokenLabelsLike,
    check_tag_values,
    read_labels,
    read_sentence_columns,
    read_text,
    tag_names,
    tag_numbers,
)
from spectrem.estimators.storage import TEXT, Codec, Member, Saved, distributions, probabilities
from spectrem.estimators.votes.sequence_input import known_tags, read_token_votes, tags_of
from spectrem.estimators.votes.sequence_parameters import SequenceLabelModelParameters
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import chunk_scores
from spectrem.models.shards import in_corpus_order
from spectrem.models.vote_sequences import (
    VoteSequenceModel,
    VoteSequenceParameters,
    VoteSequenceShard,
    build_shards,
    shares_of,
    similarities,
    tables_of,
    token_cells,
)
from spectrem.models.votes import scale_of
from spectrem.structures import Parts
from spectrem.structures._ragged import rows_of

_TAKEN = ("sentence", "token", "occurrence", "tag", "label", "previous", "word", "silent", "source", "vote")
_TAG_COLUMNS = ("tag", "label", "previous", "vote")


def _write(model: SequenceLabelModel) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    values = {"fitted_tags": list(model.tags_), "fitted_sources": list(model.sources_)}
    arrays = {"words": storage.pack_names(model.words_), "shares": model.shares_, "similarity": model.similarity_}
    return values, {**arrays, **vars(model.params_)}


def _read(model: SequenceLabelModel, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    words, tags = storage.unpack_names(arrays["words"], "words"), tuple(values["fitted_tags"])
    sources = storage.check_names(tuple(values["fitted_sources"]), "sources")
    if len(tags) < 3 or tags != tags_of([tag.partition("-")[2] for tag in tags[1::2]], ()):
        raise DamageError("fitted_tags must be O, and B and I of every type")
    k, n = len(tags), len(sources)
    shapes = {"initial": (k,), "transition": (k, k), "source": (n * k, k), "word": (len(words), k)}
    _CODEC.check_arrays(arrays, {**shapes, "shares": (k,), "similarity": (n, n)})
    if not (arrays["shares"] > 0).all() or not (np.diag(arrays["similarity"]) == 1).all():
        raise DamageError("shares must be above 0, and every source similar to itself")
    params = VoteSequenceParameters(**{name: arrays[name] for name in shapes})
    model._take(params, tags, sources, words, arrays["shares"], arrays["similarity"])


_CODEC = Codec(
    kind="SequenceLabelModel",
    members={
        **{"words": TEXT, "similarity": Member("f8", 2, probabilities)},
        **dict.fromkeys(("initial", "shares"), Member("f8", 1, distributions)),
        **dict.fromkeys(("transition", "source", "word"), Member("f8", 2, distributions)),
    },
    write=_write,
    read=_read,
)


@documented
@dataclass(eq=False, repr=False)
class SequenceLabelModel(Saved, SequenceLabelModelParameters, Estimator):
    """Spans in sentences from votes of sources that find some, miss others, and err in type and at the edges.

    Every token has a hidden tag, O, B or I of a type, that follows the one before as in a hidden Markov model. A source
    has a precision for every tag that it votes for, the probability of all tags given the vote; sources that copy each
    other share one vote, and words speak, too. EM learns all of it from votes alone, from labels of some tokens, and
    under constraints, at any gamma.

    Use when dictionaries, patterns and other models mark spans, and none can be trusted alone. What it finds trains a
    `CRFTagger` that reads text without votes.

    Attributes
    ----------
    tags_ : tuple of str
        O, then B and I of every type.
    sources_ : tuple of str or int
    precision_ : ndarray of shape (n_sources, n_tags)
        P(tag | vote for it), that of the prior for votes that a source did not cast.
    similarity_ : ndarray of shape (n_sources, n_sources)
        Of the tokens where either of two sources votes, the share where both vote alike.
    shares_ : ndarray of shape (n_tags,)
        Of the tags, by the majority of votes and by labels.
    params_ : VoteSequenceParameters
        Probabilities of first tags, of transitions, and of tags given votes and words.
    words_ : tuple of str or int
        Of training.
    label_distributions_ : list of ndarray of shape (n_tokens, n_tags)
        Of the training sentences, under the constraints; zeros where a sentence is left out by a weight of 0.
    history_ : list of Record
    report_ : FitReport

    Notes
    -----
    The log-probability of tags, votes and words is, up to a constant, the sum over tokens of

    * ``log transition[tag before, tag]``;
    * for every vote ``strength * log(P(tag | vote) / share)``, where strength is 1 over the sum of the similarities of
      the source to all that vote on the token;
    * ``log(P(tag | word) / share)`` of words that training saw;
    * for I, less ``end_cost`` times the strengths of the votes on the token before of sources that are silent here,
      where others are not;
    * for all tags but O, less ``silence_cost`` where all sources are silent.

    Shares, similarities and strengths are fixed before EM begins, which starts from the majority of votes. The five
    iterations that are the default were chosen on held-out parts of three corpora; two or fifteen find nearly the same.

    Examples
    --------
    >>> words = [["Ada", "Lovelace", "wrote"], ["Ada", "met", "Charles", "Babbage"]]
    >>> names = [{"gazetteer": [(0, 2, "PER")]}, {"gazetteer": [(0, 1, "PER")], "capitals": [(2, 4, "PER")]}]
    >>> model = SequenceLabelModel(n_threads=1).fit(words, names)
    >>> model.predict(words, names)[1]
    ['B-PER', 'O', 'B-PER', 'I-PER']
    """

    _codec = _CODEC

    @shows_progress
    def fit(
        self,
        words: Sentences,
        votes: Sequence[Any],
        y: TokenLabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> SequenceLabelModel:
        """Learn from votes, and from labels of tokens that are known.

        Parameters
        ----------
        words : sequence of sequences of words, or of str
            Strings are split at spaces.
        votes : sequence of (array-like of shape (n_tokens, n_sources), or mapping of source -> spans)
            For every sentence. Tables hold tags, B-TYPE and I-TYPE; O, None, -1, NaN and other missing values mean that
            a source is silent, which only says something where a span of it ends, and where all are. Spans are tuples
            ``(start, stop, type)`` of the first token, the one behind the last, and the type; sources that a mapping
            lacks are silent. Where I follows no span of its type, it is a vote all the same.
        y : sequence of (sequence of labels, array of shape (n_tokens, n_tags), or None), optional
            Per token a tag; a set of the tags that it may have; a mapping of tags to probabilities; or None. Arrays
            hold probabilities of the tags O, B and I of each of ``span_types``. None for sentences without labels.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.
        columns : mapping of name -> sequence, optional
            What constraints name beside the columns that there are anyway: per sentence a value, or a sequence of a
            value per word.

        Returns
        -------
        SequenceLabelModel
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.
        InfeasibleConstraintError
            If the constraints cannot hold.
        """
        check_parameters(self)
        text = read_text(words)
        weights = row_weights(sample_weight, len(text.lengths), "sentence")
        check_words_to_learn("words", text.lengths, weights)
        cast = read_token_votes(votes, text.lengths, self.source_names)
        order = None if self.span_types is None else tags_of(self.span_types, ())
        labels = read_labels([None] * len(text.lengths) if y is None else y, text.lengths, order)
        tags = tags_of(self.span_types, {*cast.tags, *map(str, labels.tags)})
        evidence, known = known_tags(labels, tags)
        named = read_sentence_columns(columns, text.lengths, _TAKEN, arcs=False)
        names, sources = _words_of(text.words), np.array(tag_names(cast.sources))
        check_tag_values(self.constraints, tags, _TAG_COLUMNS)
        more = {"source": sources, "word": names, **named.of_sentences, **named.of_words}
        check_columns(self.constraints, more)

        of_vote = weights[rows_of(text.lengths)[cast.token]]
        tag, n = tag_numbers(tags, cast.tags)[cast.tag], len(sources)
        similarity = similarities(cast.token, cast.source, tag, of_vote, n)
        vocabulary = tuple(sorted(set(text.words), key=lambda word: (isinstance(word, str), word)))
        cells = token_cells(
            text.lengths, cast.token, cast.source, tag, tag_numbers(vocabulary, text.words), similarity, len(tags)
        )
        n_votes = np.bincount(cast.source * len(tags) + tag, of_vote, n * len(tags)).astype(np.float64)
        tables = partial(
            tables_of, tags, n_votes=n_votes, n_words=len(vocabulary), precision=self.precision,
            pseudo_votes=(self.pseudo_votes, self.pseudo_votes_per_vote), word_pseudo_count=self.word_pseudo_count,
            transition_pseudo_count=self.transition_pseudo_count,
        )  # fmt: skip
        shards = build_shards(text.lengths, cells, names, len(tags), weights, known, evidence, named)
        corpus, flat = engine.make_corpus(self, shards), np.full(len(tags), 1 / len(tags))
        total = math.fsum(np.repeat(weights, text.lengths) * (np.diff(cells[0]) + 1.0))
        model = self._model(tags, sources, flat, tables(flat), total)
        counted = corpus.sum(model.start)
        shares = shares_of(counted.tags / scale_of(total))
        model = self._model(tags, sources, shares, tables(shares), total)
        all_known = bool(known[(weights > 0) & (text.lengths > 0)].all())
        start = partial(model.m_step, None, counted)
        trained = engine.train(self, engine.Task(model, corpus, start, engine.estep_of(self), all_known=all_known))
        self._take(trained.params, tags, cast.sources, vocabulary, shares, similarity)
        found = in_corpus_order(shards, engine.learnt_posteriors(trained), text.lengths)
        self.label_distributions_ = PerSentence.cut(found, text.lengths)
        sizes = {"sources": n, "votes": len(cast.token), "tags": len(tags)}
        engine.record(self, trained, len(text.lengths), sizes)
        return self

    def predict(
        self, words: Sentences, votes: Sequence[Any], *, columns: Mapping[str, Any] | None = None
    ) -> list[list[str]]:
        """Tags of every token.

        Parameters
        ----------
        words, votes, columns
            As in `fit`, votes of sources that were there; ``columns`` for ``project_at_predict``.

        Returns
        -------
        list of list of str
            One of ``tags_`` per token, sentence by sentence.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(words, votes, columns)
        tags = np.array(self.tags_, object)[new.structures(_most_probable, "sequences")].tolist()
        return PerSentence.cut(tags, new.lengths)

    def predict_proba(
        self, words: Sentences, votes: Sequence[Any], *, columns: Mapping[str, Any] | None = None
    ) -> list[Floats]:
        """Posterior probabilities of tags, under the constraints if ``project_at_predict``.

        Parameters
        ----------
        words, votes, columns
            As in `predict`.

        Returns
        -------
        list of ndarray of shape (n_tokens, n_tags)
            Probabilities in [0, 1], one array per sentence, columns in the order of ``tags_``; rows sum to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(words, votes, columns)
        return new.shown(new.tables(), partial(tag_label, self.tags_))

    def score(
        self,
        words: Sentences,
        votes: Sequence[Any],
        y: Sequence[Sequence[str] | None],
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> float:
        """F1 of the spans that `predict` finds, from 0 to 1: a span is right where its tokens and its type are.

        Parameters
        ----------
        words, votes, columns
            As in `predict`.
        y : sequence of (sequence of str, or None)
            Tags; sentences without them are left out.

        Returns
        -------
        float
            In [0, 1]; 1 where there are no spans and none are found.

        Raises
        ------
        InvalidInputError
            If no sentence has tags, or one has them for some tokens only.
        """
        found = self.predict(words, votes, columns=columns)
        gold = [None] * len(found) if y is None else list(y)
        if len(gold) != len(found) or all(one is None for one in gold):
            raise InvalidInputError(
                f"y must have tags, or None, for each of {len(found)} sentences, and tags for one at least, got "
                f"{len(gold)} entries, {sum(one is not None for one in gold)} with tags"
            )
        pairs = [(guess, list(truth)) for guess, truth in zip(found, gold, strict=True) if truth is not None]
        scores = chunk_scores(*map(list, zip(*pairs, strict=True)))
        return 1.0 if math.isnan(scores.f1) else scores.f1

    def _encoded(
        self, words: Sentences, votes: Sequence[Any], columns: Mapping[str, Any] | None
    ) -> engine.NewSentences:
        fitted, text = as_fitted(self), read_text(words)
        cast = read_token_votes(votes, text.lengths, fitted.sources_)
        named = read_sentence_columns(columns, text.lengths, _TAKEN, arcs=False)
        if engine.projects(self):
            check_tag_values(self.constraints, fitted.tags_, _TAG_COLUMNS)
        tags_of(fitted.span_types_, cast.tags)
        tag = tag_numbers(fitted.tags_, cast.tags)[cast.tag]
        word = tag_numbers(fitted.words_, text.words)
        cells = token_cells(text.lengths, cast.token, cast.source, tag, word, fitted.similarity_, len(fitted.tags_))
        shards = build_shards(text.lengths, cells, _words_of(text.words), len(fitted.tags_), columns=named)
        sources = np.array(tag_names(fitted.sources_))
        model = fitted._model(fitted.tags_, sources, fitted.shares_, None)
        return engine.NewSentences(self, model, fitted.params_, shards, text.lengths, text.words)

    def _model(
        self, tags: tuple[str, ...], sources: NDArray[Any], shares: Floats, tables: Any, total: float = 1.0
    ) -> VoteSequenceModel:
        return VoteSequenceModel(tags, sources, shares, tables, self.silence_cost, self.end_cost, total)

    def _take(
        self,
        params: VoteSequenceParameters,
        tags: tuple[str, ...],
        sources: tuple[Any, ...],
        words: tuple[Any, ...],
        shares: Floats,
        similarity: Floats,
    ) -> None:
        """Set the attributes that predictions need, from training or a file."""
        self.params_, self.tags_, self.sources_, self.words_ = params, tags, sources, words
        self.shares_, self.similarity_ = shares, similarity
        self.span_types_ = tuple(tag.partition("-")[2] for tag in tags[1::2])
        k = len(tags)
        self.precision_ = np.diagonal(params.source.reshape(-1, k, k), axis1=1, axis2=2).copy()


def _words_of(words: list[Any]) -> Key:
    """Words as a column for constraints."""
    values, codes = np.unique(np.array(tag_names(words)), return_inverse=True)
    return Coded(values, codes.astype(np.int32)) if values.dtype.kind == "U" else values[codes]


def _most_probable(model: VoteSequenceModel, shard: VoteSequenceShard, marginals: Parts) -> Ints:
    return model.distributions(shard, marginals).argmax(axis=1)
