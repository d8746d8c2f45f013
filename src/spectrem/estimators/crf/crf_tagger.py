"""CRFTagger: linear-chain conditional random fields from labelled, partly labelled and raw sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem._validate import as_count
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, take_course
from spectrem.estimators.crf import file
from spectrem.estimators.crf.decoding import best_sequences, best_states, log_probabilities, posteriors_of
from spectrem.estimators.crf.input import TokenText, read_more
from spectrem.estimators.crf.labels import read_labels
from spectrem.estimators.crf.parameters import CRFParameters, check_settings
from spectrem.estimators.crf.training import Trained, pairs_of, train
from spectrem.estimators.declare import documented
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.shared_parameters import constraint_names
from spectrem.estimators.storage import Saved
from spectrem.estimators.tagging.text import Tag
from spectrem.models.loglinear import Labels, LogLinearShard, build_shards
from spectrem.reports import report_training


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
        Of EM, or of the steps of the ascent of a ``criterion``; where all sentences have all labels, one record, of the
        end of training.
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

    _codec = file.CODEC

    def fit(
        self,
        X: Any,
        y: Any = None,
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
        check_settings(self)
        found = train(self, partial(make_corpus, self), X, y, sample_weight, lengths, columns)
        self._take(found)
        take_course(self, found.history, found.status)
        self.n_steps_ = found.n_steps
        settings = {
            "weights": len(found.theta),
            "tags": len(found.tags),
            "constraints": constraint_names(self.constraints),
        }
        self.report_ = report_training(
            self, found.n_sentences, settings, found.constraints, unit="sentences", summaries=found.summaries
        )
        return self

    def predict(
        self, X: Any, *, lengths: ArrayLike | None = None, columns: Mapping[str, Any] | None = None
    ) -> list[list[Tag]]:
        """Tags of every token.

        Parameters
        ----------
        X, lengths, columns
            As in `fit`; ``columns`` for ``project_at_predict``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted = as_fitted(self)
        text = fitted._read(X, lengths, columns)
        if not text.lengths.sum():
            return PerSentence([] for _ in text.lengths)
        found = best_states(fitted, make_corpus(self, self._shards(text)))
        names = np.array(self.tags_, object)[np.concatenate(list(found))].tolist()
        return PerSentence.cut(names, text.lengths)

    def predict_proba(
        self, X: Any, *, lengths: ArrayLike | None = None, columns: Mapping[str, Any] | None = None
    ) -> list[Floats]:
        """Posterior probabilities of tags (in the order of ``tags_``), an array of shape (tokens, n_tags) each."""
        fitted = as_fitted(self)
        text = fitted._read(X, lengths, columns)
        if not text.lengths.sum():
            return [np.zeros((0, len(self.tags_))) for _ in text.lengths]
        table = np.concatenate(list(posteriors_of(fitted, make_corpus(self, self._shards(text)))))
        return list(PerSentence.cut(table, text.lengths))

    def n_best(self, X: Any, n: int = 5, *, lengths: ArrayLike | None = None) -> list[list[TagSequence]]:
        """The n most probable sequences of tags of every sentence, with their log-probabilities, best first.

        Constraints have no part in it. A sentence with fewer sequences has all of them.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        n : int
            At least 1.
        """
        n = as_count(n, "n", minimum=1)
        text = as_fitted(self)._read(X, lengths, None)
        shards = self._shards(text)
        found: list[list[TagSequence]] = []
        names, sizes = np.array(self.tags_, object), iter(text.lengths[text.lengths > 0].tolist())
        for values, states in make_corpus(self, shards).collect(best_sequences, self.model_, self.theta_, n):
            end = 0
            for scores, size in zip(values.tolist(), sizes, strict=False):
                end += size
                tags = names[states[:, end - size : end]].tolist()
                found.append([TagSequence(*pair) for pair in zip(tags, scores, strict=True) if pair[1] > -np.inf])
        filled = iter(found)
        return [next(filled) if size else [TagSequence([], 0.0)] for size in text.lengths.tolist()]

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, lengths: ArrayLike | None = None
    ) -> float:
        """The share of the tokens with a label in y whose tag `predict` finds, from 0 to 1.

        Parameters
        ----------
        X, lengths
            As in `fit`.
        y : sequence of sequences of labels
            As in `fit`. Tokens without a label are left out; a set counts as right where it holds the tag that is
            found, a distribution by the probability that it gives it.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.

        Raises
        ------
        InvalidInputError
            If no token has a label.
        """
        predicted = self.predict(X, lengths=lengths)
        sizes = np.array([len(own) for own in predicted], np.int64)
        labels = read_labels(y, sizes, self.tags_, stacked=lengths is not None)
        return labels.score(predicted, sample_weight, self.tags_)

    def score_samples(self, X: Any, y: Any, *, lengths: ArrayLike | None = None) -> Floats:
        """log p(y | X) of every sentence, shape (n_sentences,), nats; of partial labels, of all that they allow."""
        text = as_fitted(self)._read(X, lengths, None)
        labels = read_labels(y, text.lengths, self.tags_, stacked=lengths is not None)
        numbered, known = labels.numbered(self.tags_), labels.known()
        values = np.zeros(len(text.lengths))
        shards = self._shards(text, numbered, known)
        found = make_corpus(self, shards).collect(log_probabilities, self.model_, self.theta_)
        for shard, own in zip(shards, found, strict=True):
            values[shard.instances] = own
        return values

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
        names = as_fitted(self)._feature_names()
        support, weights = self.model_.support, self.model_.split(self.theta_).features
        found: dict[Tag, list[tuple[str, float]]] = {}
        feature, label = pairs_of(support)
        for k, tag in enumerate(self.tags_):
            rows, own = feature[label == k], weights[label == k]
            order = np.argsort(-own, kind="stable")
            chosen = [at for at in order[:n] if own[at] > 0]
            chosen += [at for at in order[max(len(order) - n, 0) :] if own[at] < 0]
            found[tag] = [(names[int(rows[at])], float(own[at])) for at in chosen]
        return found

    @property
    def transition_(self) -> Floats:
        """Weights of neighbouring tags, shape (n_tags, n_tags), [from, to]; 0 for pairs without a weight."""
        n = len(as_fitted(self).tags_)
        table = np.zeros(n * n)
        cells = self.model_.transitions
        table[slice(None) if cells is None else cells] = self.model_.split(self.theta_).transitions
        return table.reshape(n, n)

    def _feature_names(self) -> Sequence[str]:
        if self.features_ is not None:
            return self.features_.names
        return [f"x{number}" for number in range(self.n_features_in_)]

    def _read(self, X: Any, lengths: ArrayLike | None, columns: Mapping[str, Any] | None) -> TokenText:
        return read_more(self, self.features_, self.n_features_in_, X, lengths, columns)

    def _shards(self, text: TokenText, labels: Labels | None = None, known: Any = None) -> list[LogLinearShard]:
        return build_shards(text.features, text.lengths, labels, known, columns=text.columns, n_labels=len(self.tags_))

    def _take(self, found: Trained) -> None:
        """What tagging needs, from training."""
        self.features_, self.n_features_in_ = found.features, found.model.support.n_features
        self.tags_, self.model_, self.theta_ = found.tags, found.model, found.theta
        self.gamma_ = found.history[-1].gamma
