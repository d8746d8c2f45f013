"""HMMTagger: hidden Markov models of order 1 and 2 from raw, partly labelled or labelled sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_generator, check_same_index
from spectrem.data import TaggedCorpus
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, check_fitted, row_weights
from spectrem.estimators.declare import documented
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.probability_tables import mean_log_likelihood, record_training
from spectrem.estimators.storage import Saved
from spectrem.estimators.tagging import file
from spectrem.estimators.tagging.coding import Coding
from spectrem.estimators.tagging.decoding import (
    best_states,
    finite_log_likelihoods,
    log_likelihoods,
    marginals_of,
)
from spectrem.estimators.tagging.parameters import TaggerParameters, check_settings
from spectrem.estimators.tagging.text import LabelledText, Labels, Sentences, Tag, Word, read_text
from spectrem.estimators.tagging.training import train
from spectrem.exceptions import InvalidInputError
from spectrem.models.shards import in_corpus_order
from spectrem.models.tagging import (
    HMMModel,
    HMMParameters,
    TagKernel,
    TagShard,
    build_shards,
    sample_sentences,
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

    _codec = file.CODEC

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
        tables = (initial, transition, second, emission)
        return file.from_tables(cls(**options), tables, tags, vocabulary)

    def fit(self, sentences: Sentences, y: Labels | None = None, sample_weight: ArrayLike | None = None) -> HMMTagger:
        """Train on sentences.

        Parameters
        ----------
        sentences : sequence of sequences of words, or of str
            Strings are split at spaces.
        y : sequence of (sequence of labels or None), optional
            Per token a tag, a collection of tags that it may have, or None; None for sentences without labels.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.

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
        check_settings(self)
        check_same_index(sentences=sentences, y=y, sample_weight=sample_weight)
        text = read_text(sentences, y)
        weights = row_weights(sample_weight, len(text.lengths), "sentence")
        coding, trained = train(self, text, weights, partial(make_corpus, self))
        self._take(coding, trained.result.params, trained.result.history[-1].gamma)
        self.log_likelihood_ = trained.log_likelihood
        record_training(self, len(text.lengths), {"order": self.order, "tags": len(coding.tags)}, trained)
        return self

    def predict(self, sentences: Sentences) -> list[list[Tag]]:
        """Tags of every token.

        Sentences that are impossible under the model get the tags that take the fewest impossible events.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        model, shards, lengths = self._encoded(read_text(sentences))
        found = best_states(self, model, make_corpus(self, shards))
        names = np.array(self.tags_, object)
        tags = names[in_corpus_order(shards, found, lengths)].tolist()
        return PerSentence.cut(tags, lengths)

    def predict_proba(self, sentences: Sentences) -> list[Floats]:
        """Posterior probabilities of tags, in the order of ``tags_``.

        Returns
        -------
        list of ndarray of shape (n_tokens, n_states)
            One array per sentence.
        """
        model, shards, lengths = self._encoded(read_text(sentences))
        found = marginals_of(self, model, make_corpus(self, shards))
        table = in_corpus_order(shards, (marginals.dense(len(self.tags_)) for marginals in found), lengths)
        return list(PerSentence.cut(table, lengths))

    def score(self, sentences: Sentences, y: Labels | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean log-likelihood per token in nats, of the words or, with labels, of words and labels; always finite.

        Where a sentence is impossible, events of probability 0 count as 1e-9; a word that training did not see, and
        no ``unknown`` word stands for, has the probability 1 / (words of the vocabulary + 1) with every tag.
        """
        text = read_text(sentences, y)
        values = self._log_likelihoods(text, finite=True)
        return mean_log_likelihood("sentences", values, text.lengths, sample_weight)

    def score_samples(self, sentences: Sentences, y: Labels | None = None) -> Floats:
        """Log-likelihood of every sentence (with labels, of words and labels), shape (n_sentences,), nats.

        -inf if it is impossible; words that training did not see, and no ``unknown`` word stands for, are left out.
        """
        return self._log_likelihoods(read_text(sentences, y))

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
        check_fitted(self)
        lengths = np.full(n_sentences, length) if np.ndim(length) == 0 else np.asarray(length)
        if lengths.shape != (n_sentences,):
            expected = f"one number or {n_sentences}, one per sentence"
            raise InvalidInputError(f"length must be {expected}, got shape {lengths.shape}; set n_sentences")
        rng = as_generator(self.random_state if random_state is None else random_state)
        numbers, states = sample_sentences(self.params_, self.lexicon_, lengths, rng)
        words = [self.vocabulary_.words[number] for number in numbers.tolist()]
        tags = [self.tags_[state] for state in states.tolist()]
        return TaggedCorpus(list(PerSentence.cut(words, lengths)), list(PerSentence.cut(tags, lengths)))

    @property
    def emission_(self) -> Floats:
        """Probabilities of words, shape (n_states, n_words)."""
        return as_fitted(self).lexicon_.table(self.params_.emission)

    def _encoded(self, text: LabelledText) -> tuple[HMMModel, list[TagShard], Ints]:
        lexicon, entries = as_fitted(self).coding_.encode(text)
        model = HMMModel(lexicon, self.params_.order, names=self.coding_.names)
        return model, build_shards(lexicon, text.lengths, entries, known=text.labelled()), text.lengths

    def _log_likelihoods(self, text: LabelledText, finite: bool = False) -> Floats:
        model, shards, lengths = self._encoded(text)
        corpus, table = make_corpus(self, shards), TagKernel(model).table(self.params_, 1.0)
        found = (
            corpus.collect(finite_log_likelihoods, model, self.params_, table)
            if finite
            else corpus.collect(log_likelihoods, table)
        )
        return in_corpus_order(shards, found, np.ones(len(lengths), np.int64))

    def _take(self, coding: Coding, params: HMMParameters, gamma: float) -> None:
        """Set the attributes that tagging needs, from training or a file."""
        self.coding_, self.params_, self.gamma_ = coding, params, gamma
        self.tags_, self.vocabulary_, self.lexicon_ = coding.tags, coding.vocabulary, coding.lexicon
        self.initial_, self.transition_ = params.initial, params.transition
