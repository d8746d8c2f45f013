"""HMMTagger: hidden Markov models of order 1 and 2 from raw, partly labelled or labelled sentences."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_sample_weight, check_same_index
from spectrem.constraints.constraint import AnyConstraint
from spectrem.corpus import Corpus
from spectrem.data import TaggedCorpus, Vocabulary
from spectrem.estimators import tagger_file
from spectrem.estimators.conventions import Estimator, not_fitted
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.tagger_coding import Coding
from spectrem.estimators.tagger_decode import (
    best_states,
    finite_log_likelihoods,
    log_likelihoods,
    marginals_of,
    weighted_sum,
)
from spectrem.estimators.tagger_input import LabelledText, Labels, Sentences, Tag, Word, read_text
from spectrem.estimators.tagger_settings import check_settings
from spectrem.estimators.tagger_training import train
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Record, Schedule
from spectrem.models.priors import Prior
from spectrem.models.tagging import (
    HMMModel,
    HMMParameters,
    TagKernel,
    TagShard,
    build_shards,
    in_corpus_order,
    sample_sentences,
)


@dataclass(eq=False, repr=False)
class HMMTagger(Estimator):
    """Tag words by a hidden Markov model learned with or without labels.

    The posteriors of EM can be restricted by a dictionary of the tags each word may have, by labels, and by constraints
    on expectations ([Ganchev2010]); annealed or hardened by gamma ([SmithEisner2004], [Samdani2012]). A sentence's
    probability is that of its words given its length: there is no event for its end.

    Use when tokens need labels and there are few labelled sentences or none.

    Parameters
    ----------
    order : {1, 2}
        Tags that the next one depends on.
    n_states : int, optional
        Number of tags; needed when nothing names them. They are then ``0 ... n_states - 1``.
    tags : sequence of str or int, optional
        By default all in the dictionary and in ``y``, sorted.
    dictionary : mapping of word -> collection of tags, optional
        What words may be. Others may be what the entry of ``unknown`` lists (open classes), or anything.
    vocabulary : sequence of words, optional
        By default the words that occur ``min_count`` times. All others become ``unknown``.
    constraints : sequence of constraints
        In the language of `spectrem.E` over the columns sentence, token, occurrence, word and tag (tags as text if they
        are); see `spectrem.constraints` for shortcuts such as `at_least`. Sentences labelled throughout are left alone
        by constraints inside sentences.
    gamma : float
        0 or greater, or -inf: 1 is EM, 0 Viterbi training, between them unified EM, above 1 smoother posteriors.
    schedule : Schedule, optional
        Several gammas in turn, as `spectrem.learning.Anneal` or `Quench`.
    reference : fitted HMMTagger, HMMParameters or list of arrays of shape (tokens, n_states), optional
        At gamma > 1, posteriors are drawn to this model's, or to these, instead of the uniform ones: skewed annealing.
    init : {"uniform", "posterior-uniform", "random", "unambiguous", "supervised"}, HMMParameters or HMMTagger, optional
        Uniform tables; those of posteriors uniform over the tags of each token; those of counts 1 + X U(0, 1); those of
        neighbours with a single tag; those of sentences with a label on every token; or given ones. By default
        "supervised" if there are such sentences, else "unambiguous" if there are tokens with a single tag, else
        "random".
    perturbation : float, optional
        X: entries of the start are multiplied by factors from [1, 1 + X). By default 0.01 for "uniform", 1 for
        "random", 0 for "posterior-uniform"; the other starts have none.
    init_smoothing : float or mapping, optional
        Pseudo-counts of the starts "unambiguous" (by default 1) and "supervised" (0.1); positive.
    smoothing : float or mapping of {"initial", "transition", "emission"} -> float
        Added to every expected count of a possible event.
    prior : Prior or mapping of {"initial", "transition", "emission"} -> Prior, optional
        In place of smoothing, such as `spectrem.models.priors.MeanFieldPrior` for variational Bayes.
    transition_mask : mapping of tag -> tags that may follow, or boolean array, optional
        Other transitions stay impossible. Arrays are [from, to]; tags that a mapping leaves out may be followed by any.
    fixed : mapping of {"initial", "transition", "second", "emission"} -> array or mapping, optional
        Probabilities that training keeps: arrays with NaN where free (emission: tags by words of the vocabulary), or
        mappings such as ``{"transition": {("DT", "VB"): 0.0}, "emission": {("DT", "the"): 0.6}}``.
    unknown : str
        The word that stands for rare and unseen ones, if training met any (or ``vocabulary`` has it). Without it unseen
        words say nothing about their tags, and `score` counts them as one more word.
    min_count : int
        Words that occur less often in training become ``unknown``; the dictionary still goes by their spelling.
    decode : {"posterior", "viterbi"}
        The most probable tag of each token, or the most probable sequence of tags.
    project_at_predict : bool
        Whether new sentences meet the constraints, too; those over the corpus then span the sentences given. Viterbi
        finds the best sequences that meet them by integer programs, for constraints inside sentences only.
    infeasible : {"raise", "skip"}
        What to do about sentences that cannot meet a constraint. To relax one instead, give it slack.
    dual_steps : int
        Steps per iteration on the multipliers of constraints over the corpus, from those of the iteration before;
        ``history_`` tells what is violated still. 0 solves them every time, which takes long for `sparsity`.
    max_iter, tol : int, float
        For every gamma: iterations at most, relative gain of the objective at which to stop (0 runs all iterations).
    n_init : int
        Trainings from different starts; the one with the largest objective at the end is kept.
    random_state : int or numpy.random.Generator, optional
    n_threads : int, optional
        By default one per processor. Results do not depend on it.
    corpus : callable, optional
        From an iterable of shards to the `spectrem.corpus.Corpus` that keeps them, such as
        ``partial(Spilled, folder="/scratch")``, or ``OnDask`` for the cluster that was connected to last. By default
        they stay in memory. Results do not depend on it; saved models do not hold it.
    checkpoint : path, optional
        A folder that holds the state after every iteration: the same `fit` again, also in another process, goes on
        from it, with the same bits as one that was not interrupted. Random starts need a ``random_state`` for that.
    on_iteration : callable, optional
        Called with the `spectrem.learning.Record` of every iteration.

    Attributes
    ----------
    tags_ : tuple of str or int
    vocabulary_ : Vocabulary
    lexicon_ : Lexicon
    params_ : HMMParameters
        Emissions by cell of the lexicon.
    initial_, transition_, emission_ : ndarray
        Of shapes (n_states,), (n_states, n_states) or one more axis at order 2, and (n_states, n_words).
    history_ : list of Record
    status_ : FitStatus
    n_iter_ : int
    log_likelihood_ : float
        Of the training sentences, nats.
    gamma_ : float
        The last one of training.

    Examples
    --------
    >>> dictionary = {"the": ["DT"], "dog": ["NN"], "barks": ["VB", "NN"], "sleeps": ["VB"]}
    >>> tagger = HMMTagger(dictionary=dictionary, smoothing=0.1, random_state=0, n_threads=1, max_iter=200)
    >>> tagger.fit(["the dog barks", "the dog sleeps"]).predict(["the dog barks"])
    [['DT', 'NN', 'VB']]
    """

    order: int = 1
    _: KW_ONLY
    n_states: int | None = None
    tags: Sequence[Tag] | None = None
    dictionary: Mapping[Any, Any] | None = None
    vocabulary: Sequence[Word] | Vocabulary | None = None
    constraints: Sequence[AnyConstraint] = ()
    gamma: float = 1.0
    schedule: Schedule | None = None
    reference: HMMTagger | HMMParameters | Sequence[ArrayLike] | None = None
    init: str | HMMParameters | HMMTagger | None = None
    perturbation: float | None = None
    init_smoothing: float | Mapping[str, float] | None = None
    smoothing: float | Mapping[str, float] = 0.0
    prior: Prior | Mapping[str, Prior] | None = None
    transition_mask: Mapping[Tag, Sequence[Tag]] | ArrayLike | None = None
    fixed: Mapping[str, Any] | None = None
    unknown: str = "<unk>"
    min_count: int = 1
    decode: Literal["posterior", "viterbi"] = "posterior"
    project_at_predict: bool = False
    infeasible: Literal["raise", "skip"] = "raise"
    dual_steps: int = 8
    max_iter: int = 100
    tol: float = 1e-6
    n_init: int = 1
    random_state: int | np.random.Generator | None = None
    n_threads: int | None = None
    corpus: Callable[[Iterable[TagShard]], Corpus] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    on_iteration: Callable[[Record], None] | None = None

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
        return tagger_file.from_tables(cls(**options), tables, tags, vocabulary)

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
        given = as_sample_weight(sample_weight, len(text.lengths), "sentence")
        weights = np.ones(len(text.lengths)) if given is None else given
        coding, result, self.log_likelihood_ = train(self, text, weights, partial(make_corpus, self))
        self._take(coding, result.params, result.history[-1].gamma)
        self.history_, self.status_, self.n_iter_ = list(result.history), result.status, len(result.history)
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
        tags = names[in_corpus_order(shards, list(found))].tolist()
        return [tags[end - size : end] for size, end in _spans(lengths)]

    def predict_proba(self, sentences: Sentences) -> list[Floats]:
        """Posterior probabilities of tags (in the order of ``tags_``), an array of shape (tokens, n_states) each."""
        model, shards, lengths = self._encoded(read_text(sentences))
        found = marginals_of(self, model, make_corpus(self, shards))
        table = in_corpus_order(shards, [marginals.dense(len(self.tags_)) for marginals in found])
        return [table[end - size : end] for size, end in _spans(lengths)]

    def score(self, sentences: Sentences, y: Labels | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Log-likelihood per token, nats; with labels that of words and labels. Finite, as cross-validation needs it.

        Where a sentence is impossible, events of probability 0 count as 1e-9; a word that training did not see, and
        no ``unknown`` word stands for, has the probability 1 / (words of the vocabulary + 1) with every tag.
        """
        text = read_text(sentences, y)
        values = self._log_likelihoods(text, finite=True)
        given = as_sample_weight(sample_weight, len(values), "sentence")
        weights = np.ones(len(values)) if given is None else given
        tokens = float(weights @ text.lengths)
        if tokens <= 0:
            raise InvalidInputError("sentences must hold at least one word to be scored, got none with weight above 0")
        return weighted_sum(weights, values) / tokens

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
        self._check_fitted()
        lengths = np.full(n_sentences, length) if np.ndim(length) == 0 else np.asarray(length)
        if lengths.shape != (n_sentences,):
            expected = f"one number or {n_sentences}, one per sentence"
            raise InvalidInputError(f"length must be {expected}, got shape {lengths.shape}; set n_sentences")
        rng = np.random.default_rng(self.random_state if random_state is None else random_state)
        numbers, states = sample_sentences(self.params_, self.lexicon_, lengths, rng)
        words = [self.vocabulary_.words[number] for number in numbers.tolist()]
        tags = [self.tags_[state] for state in states.tolist()]
        return TaggedCorpus(
            [words[end - size : end] for size, end in _spans(lengths)],
            [tags[end - size : end] for size, end in _spans(lengths)],
        )

    @property
    def emission_(self) -> Floats:
        """Probabilities of words, shape (n_states, n_words)."""
        self._check_fitted()
        return self.lexicon_.table(self.params_.emission)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what tagging needs to one file of JSON and arrays.

        Of the parameters, those that only training reads and that are not plain numbers, texts or lists (a schedule, a
        reference, given start parameters, a callback ...) come back as their defaults.

        Raises
        ------
        InvalidInputError
            If ``project_at_predict`` needs the constraints, which cannot be written.
        """
        self._check_fitted()
        tagger_file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HMMTagger:
        """Read a tagger that `save` wrote.

        Raises
        ------
        InvalidInputError
            If the file is missing, damaged or foreign.
        """
        return tagger_file.load(cls(), path)

    def _check_fitted(self) -> None:
        if "params_" not in vars(self):
            raise not_fitted(self)

    def _encoded(self, text: LabelledText) -> tuple[HMMModel, list[TagShard], Ints]:
        self._check_fitted()
        lexicon, entries = self.coding_.encode(text)
        model = HMMModel(lexicon, self.params_.order, names=self.coding_.names)
        return model, build_shards(lexicon, text.lengths, entries, known=text.labelled()), text.lengths

    def _log_likelihoods(self, text: LabelledText, finite: bool = False) -> Floats:
        model, shards, lengths = self._encoded(text)
        values = np.zeros(len(lengths))
        corpus, table = make_corpus(self, shards), TagKernel(model).table(self.params_, 1.0)
        found = (
            corpus.collect(finite_log_likelihoods, model, self.params_, table)
            if finite
            else corpus.collect(log_likelihoods, table)
        )
        for shard, own in zip(shards, found, strict=True):
            values[shard.sentences] = own
        return values

    def _take(self, coding: Coding, params: HMMParameters, gamma: float) -> None:
        """What tagging needs, from training or a file."""
        self.coding_, self.params_, self.gamma_ = coding, params, gamma
        self.tags_, self.vocabulary_, self.lexicon_ = coding.tags, coding.vocabulary, coding.lexicon
        self.initial_, self.transition_ = params.initial, params.transition


def _spans(lengths: Ints) -> Iterator[tuple[int, int]]:
    """Length and end of every sentence."""
    return zip(lengths.tolist(), np.cumsum(lengths).tolist(), strict=True)
