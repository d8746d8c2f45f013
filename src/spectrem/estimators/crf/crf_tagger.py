"""CRFTagger: linear-chain conditional random fields from labelled, partly labelled and raw sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._damage import DamageError
from spectrem._first_use import sparse as sp
from spectrem._html import MOST_SHOWN
from spectrem._validate import as_count, as_lengths
from spectrem.constraints import check_columns
from spectrem.constraints.compilation.draft import used_columns
from spectrem.constraints.text import flatten
from spectrem.corpus import Corpus
from spectrem.data.features import FeatureIndex, check_sentence, token_features
from spectrem.estimators import engine, storage
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, row_weights
from spectrem.estimators.crf.parameters import CRFParameters
from spectrem.estimators.crf.scheme import check_labels
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.labelled import fit_labelled
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentence_tables import tag_label
from spectrem.estimators.sentences import (
    Tag,
    TokenLabels,
    TokenLabelsLike,
    check_tag_values,
    check_tags,
    read_labels,
    tag_names,
    token_columns,
)
from spectrem.estimators.shared_parameters import as_sequence
from spectrem.estimators.storage import TEXT, Codec, Member, Saved, finite
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models import loglinear
from spectrem.models.loglinear import AgreedModel, Features, Labels, LogLinearModel, LogLinearShard, PairModel, Support
from spectrem.models.tag_schemes import possible_moves
from spectrem.structures import Parts
from spectrem.structures._ragged import offsets_of, positions_of
from spectrem.structures.draws import n_best

_TAKEN = ("sentence", "token", "occurrence", "tag", "label", "previous", "labelled")  # columns that there are anyway
_TAG_COLUMNS = ("tag", "label", "previous")
_PAIRS, _EDGES = ("pair_features", "pair_tags"), ("edge_features", "edges")


def _write(tagger: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    model = tagger.model_
    arrays: dict[str, NDArray[Any]] = {"theta": tagger.theta_}
    if tagger.features_ is not None:
        arrays["features"] = storage.pack_names(tagger.features_.names)
    if model.transitions is not None:
        arrays["transitions"] = model.transitions
    if model.support.indptr is not None:
        arrays |= storage.write_pairs(model.support, _PAIRS)
    if isinstance(model, PairModel) and model.edges is not None:
        arrays |= storage.write_pairs(model.edges, _EDGES)
    return {"tags": list(tagger.tags_), "n_features": tagger.n_features_in_, "n_steps": tagger.n_steps_}, arrays


def _read(tagger: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    tags, n_features, index = check_tags(values["tags"]), int(values["n_features"]), None
    if "features" in arrays:
        names = storage.unpack_names(arrays["features"], "features")
        if not all(isinstance(name, str) for name in names) or len(names) != n_features:
            raise DamageError("features do not fit their number")
        index = FeatureIndex(names)
    n = len(tags)
    support = storage.read_pairs(arrays, _PAIRS, n_features, n) or Support(n_features, n)
    edges = storage.read_pairs(arrays, _EDGES, n_features, n * n)
    cells = arrays.get("transitions")
    if cells is not None and not storage.increase(cells, n * n):
        raise DamageError("transitions do not fit the tags")
    model = model_of(tagger, tags, support, cells, edges)
    _CODEC.check_arrays(arrays, {"theta": (model.n_weights,)})
    tagger.set_params(tags=list(tags))
    tagger.features_, tagger.n_features_in_, tagger.n_steps_ = index, n_features, int(values["n_steps"])
    tagger.tags_, tagger.model_, tagger.theta_ = tags, model, arrays["theta"]


_CODEC = Codec(
    kind="CRFTagger",
    members={
        **{"features": TEXT, "theta": Member("f8", 1, finite), "transitions": Member("i8", 1)},
        **dict.fromkeys((*_PAIRS, *_EDGES), Member("i4", 1)),
    },
    write=_write,
    read=_read,
    apart=("tags",),
)


TokenSentences: TypeAlias = "Iterable[str | Iterable[Any]] | ArrayLike | sp.sparray | sp.spmatrix"
"""Sentences of tokens, which are what ``features`` says, or matrices of numbers."""


class TagSequence(NamedTuple):
    """The tags of a sentence and their log-probability, nats."""

    tags: list[Tag]
    log_probability: float


@documented
@dataclass(eq=False, repr=False)
class CRFTagger(Saved, CRFParameters, Estimator):
    """Tag tokens by a linear-chain conditional random field [Lafferty2001].

    The score of a sequence of tags is a sum of weights, of the pairs of a feature of a token and its tag, and of
    neighbouring tags; its probability given the tokens is in proportion to the exponential of the score. Labels may be
    full, partial (sets of tags), soft (distributions) or missing; constraints on expectations guide what is inferred of
    the rest ([Ganchev2010], [Samdani2012]).

    Use when tokens need labels and overlapping features describe them: chunking, named entities, parts of speech.

    Attributes
    ----------
    tags_ : tuple of str or int
    features_ : FeatureIndex or None
        Names of the features with their numbers; None where tokens were rows of a matrix.
    n_features_in_ : int
    model_ : LogLinearModel
    theta_ : ndarray of shape (n_weights,)
        Weights of pairs of features and tags, then of pairs of tags; ``model_.split(theta_)`` parts them.
    transition_ : ndarray of shape (n_tags, n_tags)
        Weights of neighbouring tags, [from, to].
    history_ : list of Record
        Of EM, or of the steps of the ascent of a ``criterion`` or of the log-likelihood; where all sentences have all
        labels, one record, of the end of training.
    n_iter_ : int
    n_steps_ : int
        Steps of L-BFGS on the sentences with all labels.
    objective_ : float
        That of the last record, nats.
    status_ : FitStatus
    converged_ : bool
    report_ : FitReport
        The course of training; a notebook shows it below the tagger, ``print(tagger.report_.summary())`` elsewhere.
    gamma_ : float
        The last one of training.

    Examples
    --------
    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
    >>> y = [["DT", "NN", "VB"], ["DT", "NN", "VB"], ["DT", None, {"NN", "VB"}]]
    >>> tagger = CRFTagger("words", n_threads=1).fit(X, y)
    >>> tagger.predict(["the cat sleeps"])
    [['DT', 'NN', 'VB']]
    >>> tagger.n_best([["a", "dog"]], n=2)[0][1].tags
    ['DT', 'VB']
    """

    _codec = _CODEC

    @shows_progress
    def fit(
        self,
        X: TokenSentences,
        y: TokenLabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> CRFTagger:
        """Train on sentences.

        Parameters
        ----------
        X : iterable of sentences, or array-like or sparse matrix of shape (n_tokens, n_features)
            Sentences are sequences of tokens, which are what ``features`` says, or matrices of shape (tokens,
            n_features); with "words" also text, split at spaces. They are gone through once, so that a generator will
            do. One matrix stacks the tokens of all sentences, and needs ``lengths``.
        y : sequence of (sequence of labels, array of shape (tokens, n_tags), or None), optional
            Per token a tag; a set, list or tuple of the tags that it may have; a mapping of tags to probabilities; or
            None. Arrays hold probabilities of ``tags``. None for sentences without labels. With ``lengths`` also one
            sequence of the labels of all tokens. Where a token has a distribution, all others of its sentence have one,
            too, or a tag; its tags count as independent of those of others.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.
        lengths : array-like of shape (n_sentences,), int, optional
            Tokens of every sentence, where X is one matrix.
        columns : mapping of name -> sequence, optional
            What constraints name beside the columns that there are anyway: per sentence a value, or a sequence of a
            value per token.

        Returns
        -------
        CRFTagger
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.
        InfeasibleConstraintError
            If a sentence cannot meet a constraint and ``infeasible`` is "raise", for example since its labels
            contradict it.
        """
        check_parameters(self)
        task, read, n_sentences = _pose(self, X, y, sample_weight, lengths, columns)
        trained = engine.train(self, task)
        self.features_, self.tags_, self.model_ = read.features, read.tags, read.model
        self.n_features_in_, self.theta_ = read.model.support.n_features, trained.params
        self.n_steps_ = trained.n_steps
        engine.record(self, trained, n_sentences, {"weights": len(self.theta_), "tags": len(self.tags_)})
        return self

    def predict(
        self, X: TokenSentences, *, lengths: ArrayLike | None = None, columns: Mapping[str, Any] | None = None
    ) -> list[list[Tag]]:
        """Tags of every token.

        Parameters
        ----------
        X, lengths, columns
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
        new = self._encoded(X, lengths, columns)
        tags = np.array(self.tags_, object)[new.structures(_states, "sequences")].tolist()
        return PerSentence.cut(tags, new.lengths)

    def predict_proba(
        self, X: TokenSentences, *, lengths: ArrayLike | None = None, columns: Mapping[str, Any] | None = None
    ) -> list[Floats]:
        """Posterior probabilities of tags.

        Parameters
        ----------
        X, lengths, columns
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
        new = self._encoded(X, lengths, columns)
        return new.shown(new.tables(), partial(tag_label, self.tags_))

    def n_best(self, X: TokenSentences, n: int = 5, *, lengths: ArrayLike | None = None) -> list[list[TagSequence]]:
        """The n most probable sequences of tags of every sentence, with their log-probabilities, best first.

        Constraints have no part in it. A sentence with fewer sequences has all of them.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        n : int
            At least 1.

        Returns
        -------
        list of list of TagSequence
            For every sentence up to n pairs ``(tags, log_probability)``, the latter in nats, at most 0.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If n is below 1.
        """
        n = as_count(n, "n", minimum=1)
        text = self._read(X, lengths, None)
        shards = self._shards(text)
        sequences: list[list[TagSequence]] = []
        names, sizes = np.array(self.tags_, object), iter(text.sizes[text.sizes > 0].tolist())
        for values, states in engine.make_corpus(self, shards).collect(_best_sequences, self.model_, self.theta_, n):
            end = 0
            for scores, size in zip(values.tolist(), sizes, strict=False):
                end += size
                tags = names[states[:, end - size : end]].tolist()
                sequences.append([TagSequence(*pair) for pair in zip(tags, scores, strict=True) if pair[1] > -np.inf])
        filled = iter(sequences)
        return [next(filled) if size else [TagSequence([], 0.0)] for size in text.sizes.tolist()]

    def score(
        self,
        X: TokenSentences,
        y: TokenLabelsLike,
        sample_weight: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> float:
        """The share of the tokens with a label in y whose tag `predict` finds, from 0 to 1.

        Of tags that mark chunks or names (B-PER, I-PER, O) it counts O, too, which most tokens have, and is high even
        where few chunks are found; `spectrem.metrics.chunk_scores` gives precision, recall and F1 of chunks.

        Parameters
        ----------
        X, lengths, columns
            As in `predict`.
        y : sequence of sequences of labels
            As in `fit`. Tokens without a label are left out; a set counts as right where it holds the tag that is
            found, a distribution by the probability that it gives it.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        InvalidInputError
            If no token has a label.
        """
        predicted = self.predict(X, lengths=lengths, columns=columns)
        sizes = np.array([len(sentence) for sentence in predicted], np.int64)
        labels = read_labels(y, sizes, self.tags_, stacked=lengths is not None)
        return labels.score(predicted, sample_weight, self.tags_)

    def score_samples(self, X: TokenSentences, y: TokenLabelsLike, *, lengths: ArrayLike | None = None) -> Floats:
        """log p(y | X) of every sentence, shape (n_sentences,), nats; of partial labels, of all that they allow.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        y : sequence of sequences of labels
            As in `fit`; a set of labels, or none, allows several tags.

        Returns
        -------
        ndarray of shape (n_sentences,)
            Nats, at most 0.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        text = self._read(X, lengths, None)
        labels = read_labels(y, text.sizes, self.tags_, stacked=lengths is not None)
        numbered, known = labels.numbered(self.tags_), labels.known()
        shards = self._shards(text, numbered, known)
        new = engine.NewSentences(self, self.model_, self.theta_, shards, text.sizes)
        return new.values(_log_probabilities, self.model_, self.theta_)

    def top_features(self, n: int = 10) -> dict[Tag, list[tuple[str, float]]]:
        """The features that speak most for a tag, and most against it, with their weights.

        Parameters
        ----------
        n : int
            For every tag at most so many of each kind, weights of 0 left out.

        Returns
        -------
        dict of tag -> list of (name, weight)
            Weights decreasing; those of neighbouring tags are in ``transition_``.
        """
        index = as_fitted(self).features_
        names = [f"x{number}" for number in range(self.n_features_in_)] if index is None else index.names
        support, weights = self.model_.support, self.model_.split(self.theta_).features
        features: dict[Tag, list[tuple[str, float]]] = {}
        feature, label = support.listed()
        for k, tag in enumerate(self.tags_):
            rows, strengths = feature[label == k], weights[label == k]
            order = np.argsort(-strengths, kind="stable")
            chosen = [at for at in order[:n] if strengths[at] > 0]
            chosen += [at for at in order[max(len(order) - n, 0) :] if strengths[at] < 0]
            features[tag] = [(names[int(rows[at])], float(strengths[at])) for at in chosen]
        return features

    @property
    def transition_(self) -> Floats:
        """Weights of neighbouring tags, shape (n_tags, n_tags), [from, to]; 0 for pairs without a weight."""
        n = len(as_fitted(self).tags_)
        table = np.zeros(n * n)
        cells = self.model_.transitions
        table[slice(None) if cells is None else cells] = self.model_.split(self.theta_).transitions
        return table.reshape(n, n)

    def _read(self, X: TokenSentences, lengths: ArrayLike | None, columns: Mapping[str, Any] | None) -> LogLinearShard:
        return read_tokens(as_fitted(self), X, lengths, columns, fitted=True)[0]

    def _encoded(
        self, X: TokenSentences, lengths: ArrayLike | None, columns: Mapping[str, Any] | None
    ) -> engine.NewSentences:
        text = self._read(X, lengths, columns)
        words = [token for sentence in X[:MOST_SHOWN] for token in sentence] if isinstance(X, list) else []
        known = words if all(isinstance(word, str) for word in words) else ()  # others are mappings of features
        return engine.NewSentences(self, _constrained_model(self), self.theta_, self._shards(text), text.sizes, known)

    def _shards(self, text: LogLinearShard, labels: Labels | None = None, known: Any = None) -> list[LogLinearShard]:
        return loglinear.build_shards(
            text.features, text.sizes, labels, known, columns=text.columns, n_labels=len(self.tags_)
        )


def best_states(tagger: Any, corpus: Corpus) -> Iterator[Ints]:
    """The states of every token, shard after shard, as the settings of a fitted CRFTagger say."""
    return engine.best_structures(tagger, _constrained_model(tagger), tagger.theta_, corpus, _states, "sequences")


def _constrained_model(tagger: Any) -> Any:
    """The model of a fitted tagger, on pairs of tags where constraints that new sentences have to meet name them."""
    if not engine.projects(tagger):
        return tagger.model_
    check_tag_values(tagger.constraints, tagger.tags_, _TAG_COLUMNS)
    return with_pairs(tagger.model_, tagger.constraints)


def _states(model: Any, shard: LogLinearShard, marginals: Parts) -> Ints:
    """The most probable tag of every token."""
    return engine.table(model, shard, marginals).argmax(axis=1)


def _log_probabilities(shard: LogLinearShard, model: Any, theta: Floats) -> Floats:
    """log p(labels | sentence) of every sentence of a shard, nats; of partial labels, of all that they allow."""
    free = replace(shard, labels=None)
    values = (model.structure(one).smoothed_max(model.scores(theta, one), 1.0)[0] for one in (shard, free))
    return next(values) - next(values)


def _best_sequences(shard: LogLinearShard, model: Any, theta: Floats, n: int) -> tuple[Floats, Ints]:
    """The n best sequences of every sentence, shape (n, n_tokens), and their log-probabilities, (n_sentences, n)."""
    normalisers, _ = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0)
    inside, edges = model, None
    if isinstance(model, PairModel):
        inside, edges = model.model, model.edge_table(theta, shard)
        theta = theta[: inside.n_weights]
    values, states = n_best(inside.structure(shard), inside.scores(theta, shard), n, edges)
    return values - normalisers[:, None], states


def _pose(
    tagger: Any, sentences: Any, y: Any, sample_weight: Any, lengths: Any, columns: Mapping[str, Any] | None
) -> tuple[engine.Task, ReadText, int]:
    """Read and check what `CRFTagger.fit` takes, and cut the shards.

    Also what was read, without the text, which takes as much memory as the shards, and the number of sentences.
    """
    read = read_sentences(tagger, sentences, y, lengths, columns)
    data, known, model = read.data, read.known, read.model
    counts = row_weights(sample_weight, data.n_instances, "sentence")
    present = (data.lengths > 0) & (counts > 0)
    check_tag_values(tagger.constraints, read.tags, _TAG_COLUMNS)
    check_columns(tagger.constraints, data.columns)
    learns, any_known = tagger.unlabelled_weight > 0 and bool((~known & present).any()), bool((known & present).any())
    if not any_known and not (learns and (as_sequence(tagger.constraints) or read.any_label)):
        raise InvalidInputError(
            "y must label some token, got none; without labels or constraints nothing says what tags mean"
        )
    weights = counts * np.where(known, 1.0, tagger.unlabelled_weight)
    shards = loglinear.build_shards(
        data.features, data.lengths, data.labels, known, weights, data.columns, counts=counts,
        present=present if learns or as_sequence(tagger.constraints) else present & known,
        n_weights=model.n_weights, n_labels=model.n_labels,
    )  # fmt: skip
    corpus = engine.make_corpus(tagger, shards)
    task = engine.Task(
        with_pairs(model, tagger.constraints),
        corpus,
        model.initial,
        engine.estep_of(tagger),
        labelled=partial(fit_labelled, tagger, model, corpus, goes_on=learns) if any_known else None,
        learns=learns,
    )
    return task, read._replace(data=None, known=None), data.n_instances


class ReadText(NamedTuple):
    """Sentences and their labels, as training needs them.

    Attributes
    ----------
    data : LogLinearShard
        All sentences, with columns for constraints; tokens without a label may have all.
    features : FeatureIndex or None
    tags : tuple of str or int
    known : ndarray of shape (n_sentences,), bool
        Sentences where every token has a label or a distribution.
    any_label : bool
        Whether something is known of the label of some token.
    model : LogLinearModel or PairModel
    """

    data: Any
    features: FeatureIndex | None
    tags: tuple[Tag, ...]
    known: Any
    any_label: bool
    model: Any


def read_sentences(tagger: Any, sentences: Any, y: Any, lengths: Any, columns: Mapping[str, Any] | None) -> ReadText:
    """Read what `CRFTagger.fit` takes, number features and tags, and choose the pairs of them that have a weight.

    Raises
    ------
    InvalidInputError
        If settings, sentences and labels do not fit each other.
    """
    text, index = read_tokens(tagger, sentences, lengths, columns, fitted=False)
    n = text.n_instances
    if not text.features.n_choices:
        raise InvalidInputError(f"X must hold a token to train on, got {n} sentences without any")
    labels = read_labels([None] * n if y is None else y, text.sizes, tagger.tags, stacked=lengths is not None)
    tags = labels.tags if tagger.tags is None else check_tags(tagger.tags)
    if not tags:
        raise InvalidInputError("tags must be given where y holds no labels, got none; list them in tags")
    known, numbered = labels.known(), labels.numbered(tags)
    possible = possible_moves(tagger.scheme, tags)
    if possible is not None:
        check_labels(possible, tagger.scheme, tags, text.sizes, numbered, known)
    support, transitions = Support(text.features.n_features, len(tags)), None
    listed = _listed(labels, numbered)
    if tagger.pairs == "observed":
        support = Support.observed(text.features, listed.offsets, listed.labels, len(tags))
        transitions = _observed_transitions(listed, text.sizes, len(tags))
    if index is not None:  # features in an order in which they are added up quickly
        order = support.order()
        support, index = support.take(order), index.take(order)
        text = replace(text, features=text.features.renumbered(np.argsort(order)))
    edges = _edge_pairs(tagger, len(tags), text, listed, index) if tagger.edge_features else None
    model = model_of(tagger, tags, support, transitions, edges)
    return ReadText(replace(text, labels=numbered), index, tags, known, bool((labels.kind >= 0).any()), model)


def _listed(labels: TokenLabels, numbered: Labels) -> Labels:
    """The labels of tokens, none where ``y`` says nothing of a token."""
    sizes, labelled = np.diff(numbered.offsets), labels.kind >= 0
    return Labels(offsets_of(sizes * labelled), numbered.labels[np.repeat(labelled, sizes)])


def _edge_pairs(tagger: Any, n: int, text: LogLinearShard, listed: Labels, index: FeatureIndex | None) -> Support:
    """The pairs of features that ``edge_features`` name and of transitions, ``before * n + tag``, with a weight."""
    if index is None:
        raise InvalidInputError(
            "edge_features must be () where tokens are rows of a matrix, whose columns have no names"
        )
    starts = (tagger.edge_features,) if isinstance(tagger.edge_features, str) else tuple(tagger.edge_features)
    chosen = np.array([name.startswith(starts) for name in index.names], np.bool_)
    if not chosen.any():
        raise InvalidInputError(
            f"edge_features must begin the name of some feature, got {', '.join(starts)}; names are such as "
            f"{', '.join(index.names[:3])}"
        )
    if tagger.pairs == "all":
        numbers = np.flatnonzero(chosen)
        return Support.pairs(np.repeat(numbers, n * n), np.tile(np.arange(n * n), len(numbers)), len(chosen), n * n)
    left, right = listed.neighbours(text.sizes)
    cells = listed.labels[left] * n + listed.labels[right]
    sizes = np.diff(listed.offsets)
    per_token = np.where(positions_of(text.sizes) > 0, sizes * np.roll(sizes, 1), 0)
    return Support.observed(text.features.where(chosen), offsets_of(per_token), cells, n * n)


def model_of(
    tagger: Any, tags: Sequence[Tag], support: Support, transitions: Ints | None, edges: Support | None = None
) -> Any:
    """The model of a tagger's settings: a `LogLinearModel`, or a `PairModel` where transitions depend on features."""
    model = LogLinearModel(
        support,
        chain=True,
        transitions=transitions,
        possible=possible_moves(tagger.scheme, tags),
        prior=loglinear.WeightPrior((1.0 - tagger.l1_ratio) / tagger.C, tagger.l1_ratio / tagger.C),
        optimiser=loglinear.Optimiser(tagger.m_steps, tagger.m_tol, memory=None),
        names=tag_names(tags),
    )
    return model if edges is None else PairModel(model, edges)


def with_pairs(model: Any, constraints: Any) -> Any:
    """The model, or where a constraint names the tag before, the same with parts that say it."""
    if not any("previous" in used_columns(one) for one in flatten(constraints)):
        return model
    if isinstance(model, AgreedModel):
        return AgreedModel({name: with_pairs(view, constraints) for name, view in model.members.items()})
    return model if isinstance(model, PairModel) else PairModel(model)


def _observed_transitions(listed: Labels, lengths: Ints, n: int) -> Ints:
    """Pairs of tags that two neighbouring tokens may have by their labels, as ``before * n + tag``, increasing."""
    allowed = sp.csr_array((np.ones(len(listed.labels)), listed.labels, listed.offsets), (len(listed.offsets) - 1, n))
    later = np.flatnonzero(positions_of(lengths) > 0)
    return np.flatnonzero((allowed[later - 1].T @ allowed[later]).toarray())


# ---- sentences ------------------------------------------------------------------------------------------------------


def read_tokens(
    tagger: Any, sentences: Any, lengths: ArrayLike | None, columns: Mapping[str, Any] | None, *, fitted: bool
) -> tuple[LogLinearShard, FeatureIndex | None]:
    """Read sentences, with the features that training numbered or, before it, number them; those of matrices are.

    Raises
    ------
    InvalidInputError
        If they are not what ``tagger.features`` and ``lengths`` say, or a matrix has other columns than that of
        training.
    """
    matrix, index = _as_matrix(tagger, sentences, lengths), tagger.features_ if fitted else None
    if fitted and (matrix is None) != (index is not None):
        expected = "a matrix of numbers" if index is None else "sentences of tokens with features"
        raise InvalidInputError(f"X must be {expected}, as in fit, got {quoted(sentences)}; give the same kind")
    if matrix is not None:
        features, sizes = matrix
        if fitted and features.n_features != tagger.n_features_in_ and features.n_choices:
            raise InvalidInputError(
                f"X must have {tagger.n_features_in_} features, as in fit, got {features.n_features}; give the same "
                "columns"
            )
        return LogLinearShard.whole(features, sizes, columns=token_columns(columns, sizes, _TAKEN)), None
    source = _Source(tagger, sentences)
    if index is None:
        index, tokens = FeatureIndex.learn(source, tagger.min_count)
    else:
        tokens = index.encode(source)
    words = {} if source.words is None else {"word": np.array(source.words, np.str_)}
    named = {**words, **token_columns(columns, tokens.lengths, _TAKEN)}
    features = Features(tokens.indptr, tokens.indices, tokens.values, len(index))
    return LogLinearShard.whole(features, tokens.lengths, columns=named), index


class _Source:
    """Sentences of tokens with features, gone through once, of which the words are remembered for constraints."""

    def __init__(self, tagger: Any, sentences: Any) -> None:
        if isinstance(sentences, str | bytes | Mapping) or not hasattr(sentences, "__iter__"):
            raise InvalidInputError(
                f"X must be a sequence of sentences, got {quoted(sentences)}; put a single sentence in a list"
            )
        self._templates, self._sentences = tagger.features, sentences
        self.words: list[str] | None = [] if as_sequence(tagger.constraints) and tagger.features != "tokens" else None

    def __iter__(self) -> Iterator[Sequence[Any]]:
        if self._templates == "tokens":
            return iter(self._sentences)
        return token_features(self._remembering(), self._templates)

    def _remembering(self) -> Iterator[Sequence[Any]]:
        for number, sentence in enumerate(self._sentences):
            tokens = sentence.split() if isinstance(sentence, str) and self._templates == "words" else sentence
            check_sentence(tokens, number)
            yield tokens
            if self.words is not None:
                self.words += tokens if self._templates == "words" else [token[0] for token in tokens]


def _as_matrix(tagger: Any, sentences: Any, lengths: ArrayLike | None) -> tuple[Features, Ints] | None:
    """Features and lengths of sentences given as matrices, one of all tokens or one each; None if they are not."""
    if lengths is not None:
        sizes = as_lengths(lengths, "lengths")
        _refuse_templates(tagger)
        features = _checked(sentences)
        if sizes.sum() != features.n_choices:
            raise InvalidInputError(
                f"lengths must add up to the rows of X, got {sizes.sum()} and {features.n_choices}; X stacks the "
                "tokens of all sentences"
            )
        return features, sizes
    if _is_matrix(sentences):
        raise InvalidInputError(
            f"lengths must say where sentences end in a single matrix, got none for X of shape {sentences.shape}; give "
            "the tokens of every sentence, or a list of one matrix per sentence"
        )
    if not isinstance(sentences, Sequence | np.ndarray) or not len(sentences) or not _is_matrix(sentences[0]):
        return None
    _refuse_templates(tagger)
    width = sentences[0].shape[1]
    for number, sentence in enumerate(sentences):
        if not _is_matrix(sentence):
            raise InvalidInputError(
                "X must hold one matrix of shape (n_tokens, n_features) per sentence, got "
                f"{quoted(sentence)} for sentence {number}; give all the same kind"
            )
        if sentence.shape[1] != width:
            raise InvalidInputError(
                f"X must have as many features in every sentence, got {width} in sentence 0 and {sentence.shape[1]} "
                f"in sentence {number}; give all matrices the same columns"
            )
    stacked = sp.vstack(list(sentences)) if any(map(sp.issparse, sentences)) else np.concatenate(list(sentences))
    return _checked(stacked), np.array([sentence.shape[0] for sentence in sentences], np.int64)


def _checked(matrix: Any) -> Features:
    try:
        return Features.of(matrix if sp.issparse(matrix) else np.asarray(matrix, np.float64))
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"X must be a matrix of numbers where lengths are given: {error}") from None


def _is_matrix(value: Any) -> bool:
    numeric = sp.issparse(value) or (isinstance(value, np.ndarray) and value.dtype.kind in "buif")
    return numeric and value.ndim == 2


def _refuse_templates(tagger: Any) -> None:
    if tagger.features != "tokens":
        raise InvalidInputError(
            f"features must be 'tokens' for matrices of numbers, got {tagger.features!r}; templates take words"
        )
