"""BracketingModel: binary brackets learned from sentences of tags without trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem._validate import check_same_index
from spectrem.corpus import Corpus
from spectrem.estimators.bracketing import file
from spectrem.estimators.bracketing.decoding import bracket, log_likelihoods, span_posteriors
from spectrem.estimators.bracketing.input import SpanCoding, read_sentences
from spectrem.estimators.bracketing.parameters import BracketingParameters, check_settings
from spectrem.estimators.bracketing.training import make_model, train
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, row_weights
from spectrem.estimators.declare import documented
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.probability_tables import mean_log_likelihood, record_training
from spectrem.estimators.storage import Saved
from spectrem.estimators.tagging.text import LabelledText, Sentences
from spectrem.models.bracketing import ConstituentContextModel, SpanParameters
from spectrem.models.shards import in_corpus_order
from spectrem.structures import Bracketings

Brackets = list[tuple[int, int]]
"""Spans of a sentence as (start, end), the position behind the last word, from 0."""


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
    coding_ : SpanCoding
        Their numbers and those of their spans.
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

    _codec = file.CODEC

    def fit(self, sentences: Sentences, y: None = None, sample_weight: ArrayLike | None = None) -> BracketingModel:
        """Train on sentences.

        Parameters
        ----------
        sentences : sequence of sequences of tags, or of str
            Strings are split at spaces.
        y : None
            Not used; scikit-learn passes it.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.

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
        check_settings(self)
        check_same_index(sentences=sentences, sample_weight=sample_weight)
        text = read_sentences(sentences)
        weights = row_weights(sample_weight, len(text.lengths), "sentence")
        coding, trained = train(self, text, weights, partial(make_corpus, self))
        self._take(coding, trained.result.params, trained.result.history[-1].gamma)
        yields = "yields given their length" if self.by_length else "yields of all lengths"
        self.log_likelihood_ = trained.log_likelihood
        record_training(self, len(text.lengths), {"model": yields, "tags": len(coding.tags)}, trained)
        return self

    def predict(self, sentences: Sentences) -> list[Brackets]:
        """The brackets of every sentence: its constituents of two words and more, the whole sentence among them.

        Returns
        -------
        list of list of (start, end)
            By start and end, from 0; ``end`` is the position behind the last word. A sentence of n words has n - 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        model, corpus, text = self._encoded(sentences)
        found = list(map(tuple, bracket(self, model, corpus).tolist()))
        ends = Bracketings(text.lengths).bracket_offsets.tolist()
        return PerSentence(found[start:end] for start, end in pairwise(ends))

    def predict_proba(self, sentences: Sentences) -> list[Floats]:
        """Posterior probabilities of spans to be constituents.

        Returns
        -------
        list of ndarray of shape (n_words, n_words + 1)
            One array per sentence, indexed [start, end]; 0 where ``end <= start``.
        """
        model, corpus, text = self._encoded(sentences)
        shares = span_posteriors(self, model, corpus)
        trees = Bracketings(text.lengths)
        start, end = trees.spans
        tables = []
        for n, size in enumerate(text.lengths.tolist()):
            own = slice(int(trees.span_offsets[n]), int(trees.span_offsets[n + 1]))
            table = np.zeros((size, size + 1))
            table[start[own], end[own]] = shares[own]
            tables.append(table)
        return tables

    def score(self, sentences: Sentences, y: None = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean log-likelihood per word in nats; always finite, see `score_samples`."""
        lengths = read_sentences(sentences).lengths
        return mean_log_likelihood("sentences", self.score_samples(sentences), lengths, sample_weight)

    def score_samples(self, sentences: Sentences) -> Floats:
        """Log-likelihood of every sentence, shape (n_sentences,), nats.

        A yield or context that training did not see counts as one more event of its distribution, as probable as the
        average one; where a sentence is impossible, events of probability 0 count as 1e-9.
        """
        model, text = make_model(as_fitted(self), self.coding_), read_sentences(sentences)
        shards = self.coding_.encode(text)
        values = make_corpus(self, shards).collect(log_likelihoods, model, self.params_)
        return in_corpus_order(shards, values, np.ones(len(text.lengths), np.int64))

    def _encoded(self, sentences: Sentences) -> tuple[ConstituentContextModel, Corpus, LabelledText]:
        model, text = make_model(as_fitted(self), self.coding_), read_sentences(sentences)
        return model, make_corpus(self, self.coding_.encode(text)), text

    def _take(self, coding: SpanCoding, params: SpanParameters, gamma: float) -> None:
        """Set the attributes that bracketing needs, from training or a file."""
        self.coding_, self.params_, self.gamma_, self.tags_ = coding, params, gamma, coding.tags
