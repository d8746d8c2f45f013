"""WordAligner: unsupervised word alignment of a bitext under constraints."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem import reports
from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus, Local
from spectrem.data import Bitext, EncodedPairs, Links, Vocabulary
from spectrem.estimators import engine
from spectrem.estimators.alignment import decoding, file, text
from spectrem.estimators.alignment.decoding import LinkPosteriors
from spectrem.estimators.alignment.parameters import AlignerParameters, is_coupled, rules_of
from spectrem.estimators.alignment.text import KnownLinks, Lines, LongPairs, TrainingText
from spectrem.estimators.conventions import Estimator, as_fitted, check_fitted, take_course
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.shared_parameters import constraint_names
from spectrem.estimators.storage import Saved
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Constant, EStep, FitResult, Record, Schedule, Step, Stepwise, Stopping, pose, run_em
from spectrem.metrics import alignment_scores
from spectrem.models import alignment
from spectrem.models.alignment import AlignmentModel, AlignmentParameters, BitextShard, PairTable
from spectrem.models.alignment.priors import Classes

# Pairs of more possible links are left out of the sample of reports: the general E-step takes some hundred bytes for
# each.
_MOST_CELLS = 1 << 16


@documented
@dataclass(eq=False, repr=False)
class WordAligner(Saved, AlignerParameters, Estimator):
    """Align the words of sentence pairs without labelled data.

    IBM Model 1, then (by default) an HMM are trained in both directions at once by EM whose posteriors are projected
    onto constraints: by default both directions must agree on every link ([Graca2007] §4.1.2, [Ganchev2010] §5,
    [Samdani2012] §5). NULL keeps the last position ([OchNey2003]); jump widths are shared by all sentences
    ([Vogel1996], [Liang2006]); the distance of the last position from the sentence end has a distribution of its own;
    rare words are helped by their stems and by words that look alike (`spectrem.models.alignment.LexicalPrior`), new
    ones also by words as rare as they (`spectrem.models.alignment.UnseenPairs`). The last M-step leaves out a part
    (``discount``) of what a single sentence pair says of a word pair (`spectrem.models.alignment.LeftOutPrior`).

    Attributes
    ----------
    params_ : AlignmentParameters
    table_ : PairTable
    history_ : list of Record
        The iterations of all stages.
    n_iter_ : int
    objective_ : float
        The objective of the last record, nats.
    status_ : FitStatus
    converged_ : bool
        Whether the last stage stopped because its objective gained less than ``tol``.
    report_ : FitReport
        The course of training, and what the constraints demanded and cost: those over the corpus row by row, those
        inside sentence pairs in a line each, over a sample of at most 500 pairs when the report is first read. A
        notebook shows it below the aligner; ``print(aligner.report_.summary())`` elsewhere.
    threshold_ : float
        ``threshold``, or the number that "auto" or `tune` chose.
    source_counts_, target_counts_ : ndarray of shape (n_words,), int
        Tokens of every word in the training text.
    gamma_ : float
        The last one of training, or the one that `tune` chose; used for decoding.
    n_skipped_ : int
        Sentence pairs that were too long to train on, by ``max_length`` or for the model.
    pruned_ : (float, float)
        ``min_count`` of `save` and the share of links ``lost`` by it, if the model was loaded so; else 0 and 0.
    tokenizes_ : bool or None
        Whether ``spectrem align`` split the text with ``--tokenize``; with ``--load`` it then does so, too. None after
        `fit`, and in files of versions that did not keep it.
    n_given_ : int
        Word pairs of the training text that ``dictionary`` lists or that are the ``same`` token.

    Examples
    --------
    >>> from spectrem.datasets import make_bitext
    >>> bitext = make_bitext(300, seed=1)
    >>> aligner = WordAligner(n_threads=1).fit(bitext.source, bitext.target)
    >>> links = aligner.predict(bitext.source[:2], bitext.target[:2])
    >>> links.n_sentences
    2
    """

    _codec = file.CODEC

    @shows_progress
    def fit(
        self,
        source: Bitext | Lines,
        target: Lines | None = None,
        *,
        known: KnownLinks | None = None,
        anchors: KnownLinks | None = None,
        classes: Classes = ({}, {}),
        sample_weight: ArrayLike | None = None,
    ) -> WordAligner:
        """Train on a bitext.

        Parameters
        ----------
        source : Bitext, or iterable of str or of sequences of str
            Tokenised lines, or the words of every sentence; columns of tables and arrays will do. Without ``target`` a
            `Bitext`, or pairs of such sentences.
        target : iterable of str or of sequences of str, optional
        known : Links or sequence of (sequence of (source, target) or None), optional
            All links of some pairs, None for the others: words without a link are NULL's, and no constraint concerns
            these pairs.
        anchors : Links or sequence of (sequence of (source, target) or None), optional
            Some links of some pairs. They are certain in both directions, a word that has any has no others, and the
            links of the other words follow. (A word with several anchors shares its probability among them: under
            constraints that are solved to convergence, "agreement" cannot hold there, and ``infeasible="skip"`` leaves
            it out.)
        classes : (mapping, mapping) of word to class
            Classes of source and of target words, such as their lemmas: words of a class share what the lexical prior
            learns (``stem_strength``) in place of words of a stem. `spectrem.data.split_factors` finds them in tokens.
        sample_weight : array-like of shape (n_pairs,), optional

        Returns
        -------
        WordAligner
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.

        Warns
        -----
        UserWarning
            If sentence pairs are too long for the model and not trained on; see `long_pairs`.
        """
        check_parameters(self)
        schedule = self.schedule or Constant(self.gamma)
        training, n_skipped = text.read_training(self, source, target, known, anchors, sample_weight)
        bitext, weights, links = training
        table = alignment.tabulate_pairs(bitext, self.max_chance)
        words, counts = (bitext.source_vocabulary, bitext.target_vocabulary), text.count_sides(bitext)
        extra = text.pseudo_counts(self, table, bitext)
        spelling = alignment.lexical_priors(
            table, words[0].words, words[1].words, *counts, stem_strength=self.stem_strength,
            cognate_strength=self.cognate_strength, classes=classes,
        )  # fmt: skip
        corpus = engine.make_corpus(self, alignment.shards_to_train(bitext, table, weights, links))
        table, spelling = _put_aside(corpus, (table, spelling))
        priors = extra.added_to(spelling)
        last = None
        if self.discount > 0:
            last = alignment.left_out_priors(spelling, bitext, weights, links, extra, self.discount)
        make = partial(
            AlignmentModel, table, self.max_jump, forward_prior=priors[0], backward_prior=priors[1],
            listed=text.listed_pairs(self, *words),
        )  # fmt: skip
        model = make(chain=False, learn_positions=False)
        start, history = [model.initial(self.null_probability)], list[Record]()
        if self.model != "ibm1":
            soft = replace(schedule, within=Constant(1.0)) if isinstance(schedule, Stepwise) else Constant(1.0)
            first = self._train(model, corpus, start, "model1", soft, Stopping(self.model1_iterations))
            start, history = [first.params], list(first.history)
            del first
            model = make(chain=self.model == "hmm", learn_positions=True)
        stopping = Stopping(self.max_iter, self.tol)
        result = self._train(replace(model, last_priors=last), corpus, start, self.model, schedule, stopping)
        # Only now, so that training that fails leaves an earlier fit as it was.
        self.n_skipped_, self.n_given_, self.gamma_ = n_skipped, len(extra.entries), list(schedule.gammas())[-1]
        self._take_model(model, words, counts, result.params)
        self.pruned_ = file.WHOLE
        self.tokenizes_: bool | None = None
        self.threshold_ = decoding.choose_threshold(self, training) if self.threshold == "auto" else self.threshold
        take_course(self, history + list(result.history), result.status)
        self.report_ = self._report(training, self.model_, self.params_, result)
        return self

    def update(
        self,
        source: Bitext | Lines,
        target: Lines | None = None,
        *,
        known: KnownLinks | None = None,
        anchors: KnownLinks | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> WordAligner:
        """Train on more text, in the time that this text alone takes; any number of times.

        What the model expected of the text so far is added to the expected counts of the new text, as often as
        ``update_strength`` says: EM on all of it, with the old text's posteriors as they are (the sufficient statistics
        of [NeaHin1998]). Words and word pairs are added to vocabularies and table. Text that comes twice counts twice.
        Parameters may be set anew but for model, max_jump and null_probability; ``dictionary`` and ``same`` concern
        word pairs that the model does not have. A ``threshold`` "auto" is chosen again where the new text has at least
        500 pairs; ``max_chance``, ``discount`` and classes are not read. ``history_``, ``report_`` are the new text's.

        Parameters and errors are those of `fit`.

        Parameters
        ----------
        source, target, known, anchors, sample_weight
            As in `fit`.

        Returns
        -------
        WordAligner
            Itself.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If such a parameter differs from that of training, or the model was saved by an earlier version, which did
            not keep the counts behind its probabilities.

        Examples
        --------
        >>> from spectrem.datasets import make_bitext
        >>> bitext = make_bitext(300, seed=1)
        >>> aligner = WordAligner(n_threads=1).fit(bitext.source[:200], bitext.target[:200])
        >>> aligner.update(bitext.source[200:], bitext.target[200:]).source_counts_.sum() == len(
        ...     " ".join(bitext.source).split()
        ... )
        np.True_
        """
        check_fitted(self)
        check_parameters(self)
        self._check_unchanged()
        training, n_skipped = text.read_training(self, source, target, known, anchors, sample_weight)
        bitext, weights, links = training
        table = alignment.tabulate_pairs(bitext)  # what meets by chance here may be translations that the model knows
        extra = text.pseudo_counts(self, table, bitext)
        unseen = replace(
            text.unseen_pairs(as_fitted(self)), stem_strength=self.stem_strength, cognate_strength=self.cognate_strength
        )
        new = alignment.Continuation.of(unseen, self.params_, bitext, table, weights, self.update_strength, extra)
        corpus = engine.make_corpus(self, alignment.shards_to_train(bitext, table, weights, links))
        table, priors = _put_aside(corpus, (table, new.priors))
        model = replace(
            self.model_, table=table, forward_prior=priors[0], backward_prior=priors[1], kept=new.kept,
            listed=text.listed_pairs(self, bitext.source_vocabulary, bitext.target_vocabulary),
        )  # fmt: skip
        schedule, stopping = self.schedule or Constant(self.gamma), Stopping(self.update_iterations, self.tol)
        result = self._train(model, corpus, [new.params], "update", schedule, stopping)
        table, params, words = alignment.splice(
            self.table_, self.params_, (self.source_vocabulary_, self.target_vocabulary_), new, result.params
        )
        training = training._replace(bitext=text.recode(bitext, words))
        counts = text.count_sides(training.bitext)
        for now, before in zip(counts, (self.source_counts_, self.target_counts_), strict=True):
            now[: len(before)] += before
        self.n_skipped_, self.n_given_ = n_skipped, int((new.entries[extra.entries] < 0).sum())
        self.gamma_ = list(schedule.gammas())[-1]
        self._take_model(
            replace(self.model_, table=table, listed=text.listed_pairs(self, *words)), words, counts, params
        )
        if self.threshold != "auto":
            self.threshold_ = self.threshold
        elif len(decoding.sample_pairs(weights)) == decoding.SAMPLE:
            self.threshold_ = decoding.choose_threshold(self, training)
        take_course(self, result.history, result.status)
        # Rows over the corpus belong to its shards, and these to the new text alone.
        alone = result.posed.rows is not None
        self.report_ = self._report(
            training, model if alone else self.model_, result.params if alone else self.params_, result
        )
        return self

    def predict(
        self, source: Bitext | Lines, target: Lines | None = None, *, anchors: KnownLinks | None = None
    ) -> Links:
        """Links of every sentence pair, trained on or new; pairs with an empty side have none.

        Parameters
        ----------
        source, target
            As in `fit`.
        anchors : Links or sequence of (sequence of (source, target) or None), optional
            Some links of some pairs, as in `fit`. They are among the links that are returned, and the only ones of
            their words.

        Returns
        -------
        Links
            All of them sure; the sentences are those of the text, in its order.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If an anchor lies outside its sentence pair.

        Warns
        -----
        UserWarning
            If sentence pairs are too long for the model; see `long_pairs`.
        """
        return decoding.concatenate_links(list(self.iter_predict(source, target, anchors=anchors)))

    def iter_predict(
        self, source: Bitext | Lines, target: Lines | None = None, *, anchors: KnownLinks | None = None
    ) -> Iterator[Links]:
        """The links of `predict`, some hundreds of sentence pairs at a time and in order.

        Parameters
        ----------
        source, target, anchors
            As in `predict`.

        Returns
        -------
        iterator of Links
            Those of the next sentence pairs, one after another.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If an anchor lies outside its sentence pair.
        """
        fitted, bitext = as_fitted(self), text.as_bitext(source, target)
        links = text.read_anchors(bitext, None, anchors)
        return text.impose(decoding.map_shards(fitted, partial(decoding.decode, fitted), bitext, links), links)

    def long_pairs(self, source: Bitext | Lines, target: Lines | None = None) -> LongPairs:
        """Which sentence pairs `predict` aligns without the chain, and which not at all.

        With the default settings a pair of more than 2^20 possible links (1,024 x 1,024 words), or of more than 2,000
        words on a side, is aligned by translation probabilities and the distance from the diagonal; of the constraints
        only "agreement" is kept. The limit is 2^18 links where constraints are not names, or gamma lies below 0.1,
        2^14 where ``dual_steps`` is 0, and 2^10 where gamma is -inf, or 0 without dual steps. A pair of more than 5,000
        words on a side is left without links.

        Parameters
        ----------
        source, target
            As in `fit`.

        Returns
        -------
        LongPairs
            ``by_position`` and ``unaligned``, each an ndarray of the numbers of pairs, from 0.
        """
        return text.find_long_pairs(
            text.as_bitext(source, target), text.most_cells(self, getattr(self, "gamma_", self.gamma))
        )

    def predict_proba(
        self, source: Bitext | Lines, target: Lines | None = None, *, anchors: KnownLinks | None = None
    ) -> LinkPosteriors:
        """Posterior probabilities of all links, projected onto the constraints if ``project_at_predict``.

        They do not depend on ``rare_discount``. Pairs that are left unaligned (see `long_pairs`) count as empty.

        Parameters
        ----------
        source, target, anchors
            As in `predict`.

        Returns
        -------
        LinkPosteriors
            Matrices of shape (source length, target length) for each direction, in [0, 1].

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If an anchor lies outside its sentence pair.
        """
        return decoding.concatenate_posteriors(list(self.iter_predict_proba(source, target, anchors=anchors)))

    def iter_predict_proba(
        self, source: Bitext | Lines, target: Lines | None = None, *, anchors: KnownLinks | None = None
    ) -> Iterator[LinkPosteriors]:
        """The posteriors of `predict_proba`, some hundreds of sentence pairs at a time and in order.

        Parameters
        ----------
        source, target, anchors
            As in `predict`.

        Returns
        -------
        iterator of LinkPosteriors
            Those of the next sentence pairs, one after another.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If an anchor lies outside its sentence pair.
        """
        fitted, bitext = as_fitted(self), text.as_bitext(source, target)

        def matrices(shard: BitextShard) -> LinkPosteriors:
            return decoding.as_matrices(shard, *decoding.posteriors(fitted, shard, fitted.gamma_))

        return decoding.map_shards(fitted, matrices, bitext, text.read_anchors(bitext, None, anchors))

    def score(
        self, source: Bitext | Lines, target: Lines | None, gold: Links, *, anchors: KnownLinks | None = None
    ) -> float:
        """1 - alignment error rate ([OchNey2003]) of the links that `predict` finds, against gold links.

        Parameters
        ----------
        source, target, anchors
            As in `predict`.
        gold : Links
            Sure and possible links of the same sentence pairs.

        Returns
        -------
        float
            In [0, 1], 1 where all sure links are found and none that is not possible.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If gold has another number of sentences, or a link outside its sentence pair.
        """
        bitext = text.as_bitext(source, target)
        gold.check_inside(bitext.source_lengths, bitext.target_lengths, "gold")
        return 1.0 - alignment_scores(self.predict(bitext, anchors=anchors), gold).aer

    def score_pairs(self, source: Bitext | Lines, target: Lines | None = None) -> Floats:
        """How likely each sentence pair is a translation: look at the lowest first.

        The score is the geometric mean of three numbers from 0 to 1, the last one counted twice.

        * What the links explain. A word of relative frequency q carries -log q nats of information; a link of
          probability p to a word that produces it with probability t explains p (log t - log q) of them. The share of
          the information of a sentence that the best links of its words explain is taken of the side where it is
          smaller, and multiplied by the mean probability of the best links of all words of both sides.
        * The geometric mean of the probabilities of all words of both sides given the other side, under the model
          without constraints, order and NULL included: 1 over the perplexity.
        * The ratio of the numbers of words of both sides, over that of the training text or under it.

        It has no unit. Compare scores of one aligner: they rise with the text that it was trained on, and fall as
        translations get freer.

        Parameters
        ----------
        source, target
            As in `predict`, trained on or new.

        Returns
        -------
        ndarray of shape (n_pairs,)
            From 0 (nothing in common) to 1; NaN where a side is empty, or a pair too long to align.

        Examples
        --------
        >>> from spectrem import WordAligner
        >>> from spectrem.datasets import make_bitext
        >>> bitext = make_bitext(300, seed=1)
        >>> aligner = WordAligner(n_threads=1).fit(bitext.source, bitext.target)
        >>> good, bad = aligner.score_pairs(bitext.source[:1] * 2, [bitext.target[0], bitext.target[2]])
        >>> bool(good > 2 * bad)
        True
        """
        fitted = as_fitted(self)

        def work(shard: BitextShard) -> Floats:
            forward, backward = decoding.posteriors(fitted, shard, fitted.gamma_)
            return decoding.score_shard(fitted, shard, (forward + backward) / 2)

        return np.concatenate([np.zeros(0), *decoding.map_shards(fitted, work, text.as_bitext(source, target))])

    def report_pairs(
        self, source: Bitext | Lines, target: Lines | None = None, *, n_shown: int = 10
    ) -> reports.FitReport:
        """The report of training, with pictures of the links of a text.

        Parameters
        ----------
        source, target
            As in `predict`, trained on or new.
        n_shown : int
            How many pairs to show of each kind: the first ones, those of the lowest scores (see `score_pairs`), and
            those of the highest.

        Returns
        -------
        FitReport
            A notebook shows it; ``report.save("links.html")`` writes it as a page.

        Examples
        --------
        >>> from spectrem import WordAligner
        >>> from spectrem.datasets import make_bitext
        >>> bitext = make_bitext(300, seed=1)
        >>> aligner = WordAligner(n_threads=1).fit(bitext.source, bitext.target)
        >>> list(aligner.report_pairs(bitext.source, bitext.target).sections[0].groups)
        ['The first pairs', 'The lowest scores', 'The highest scores']
        """
        from spectrem.estimators.alignment.gallery import Gallery

        fitted, bitext = as_fitted(self), text.as_bitext(source, target)
        gallery = Gallery(EncodedPairs(bitext).tokens, n_shown)
        for part in decoding.align_pairs(fitted, bitext):
            gallery.add(part)
        return gallery.report(fitted)

    def tune(
        self, source: Bitext | Lines, target: Lines | None, gold: Links, *, gammas: Sequence[float] | None = None
    ) -> WordAligner:
        """Choose ``threshold_`` (and ``gamma_`` of decoding, among ``gammas``) with the least error on gold links.

        Among equally good thresholds the middle one is taken.

        Parameters
        ----------
        source, target
            As in `predict`.
        gold : Links
            Sure and possible links of the same sentence pairs.
        gammas : sequence of float, optional
            By default ``gamma_`` alone.

        Returns
        -------
        WordAligner
            Itself.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If gold has another number of sentences, or a link outside its sentence pair.
        """
        fitted, bitext = as_fitted(self), text.as_bitext(source, target)
        gold.check_inside(bitext.source_lengths, bitext.target_lengths, "gold")
        shards = list(decoding.map_shards(fitted, lambda shard: shard, bitext))
        choices = []
        for gamma in gammas or [self.gamma_]:
            masses = [decoding.masses(fitted, shard, gamma) for shard in shards]
            choices.append((*decoding.least_error_threshold(shards, masses, gold), gamma))
        _, self.threshold_, self.gamma_ = min(choices, key=lambda choice: choice[0])
        return self

    def unknown_shares(self, source: Bitext | Lines, target: Lines | None = None) -> tuple[float, float]:
        """Parts of the source and of the target tokens of a text whose words did not occur in training.

        Parameters
        ----------
        source, target
            As in `predict`.

        Returns
        -------
        source, target : float
            In [0, 1]; 0 of a side without tokens.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted, bitext = as_fitted(self), text.as_bitext(source, target)
        sides = text.recode(bitext, (fitted.source_vocabulary_, fitted.target_vocabulary_)).sides

        def share(tokens: NDArray[np.int32], counts: Ints) -> float:
            return float(np.mean(np.append(counts, 0)[tokens] == 0)) if len(tokens) else 0.0

        return share(sides[0].tokens, fitted.source_counts_), share(sides[1].tokens, fitted.target_counts_)

    def lexicon(self, min_probability: float = 0.01) -> Iterator[tuple[str, str, float, float]]:
        """Word pairs with p(target | source) and p(source | target), if either reaches ``min_probability``.

        Parameters
        ----------
        min_probability : float
            In [0, 1].

        Returns
        -------
        iterator of (str, str, float, float)
            Source word, target word, p(target | source), p(source | target).

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted = as_fitted(self)
        sides = fitted.params_.forward.translation[:-1], fitted.params_.backward.translation[:-1]
        return file.name_pairs(fitted, np.maximum(*sides) >= min_probability, *sides)

    def counted_lexicon(self, min_probability: float = 0.01, min_count: float = 0.0) -> Iterator[file.LexiconEntry]:
        """The word pairs of `lexicon`, each with how many links of it were expected in the training text.

        Parameters
        ----------
        min_probability : float
            In [0, 1]: what p(target | source) or p(source | target) must reach.
        min_count : float
            What the expected links, the mean over both directions, must reach.

        Returns
        -------
        iterator of LexiconEntry
            ``source``, ``target``, ``forward``, ``backward`` and ``links``.

        Raises
        ------
        InvalidInputError
            If the model was saved by an earlier version, which did not keep counts.

        Examples
        --------
        >>> from spectrem import WordAligner
        >>> aligner = WordAligner(n_threads=1).fit([("the house", "das haus"), ("the tree", "der baum")] * 20)
        >>> best = max(aligner.counted_lexicon(), key=lambda entry: entry.forward * entry.links)
        >>> best.source in ("the", "house", "tree"), best.links > 10
        (True, True)
        """
        return file.list_entries(as_fitted(self), min_probability, min_count)

    def save(self, path: str | os.PathLike[str], *, min_count: float = 0.0) -> None:
        """Write the fitted aligner, and how its training went, to one file of JSON and arrays.

        Constraints are written as texts. A ``schedule`` comes back as its default; the gamma of decoding is kept.
        ``report_`` is not.

        Parameters
        ----------
        path : path
        min_count : float
            Word pairs of fewer expected links both ways are left out; see ``spectrem.estimators.alignment.file.prune``.

        Raises
        ------
        InvalidInputError
            If ``min_count`` breaks its rule, or ``project_at_predict`` needs constraints that cannot be written as text
            (matrices, objects of your own).

        Warns
        -----
        UserWarning
            If such constraints, which only training needs, are left out.
        """
        self._save(path, min_count=min_count)

    def _train(
        self,
        model: AlignmentModel,
        corpus: Corpus,
        start: list[AlignmentParameters],
        stage: str,
        schedule: Schedule,
        stopping: Stopping,
    ) -> FitResult[AlignmentParameters]:
        """Train one stage from the only element of ``start``.

        It is taken out, so that nobody keeps the former parameters beside those of every iteration.
        """
        gamma = min(schedule.gammas())
        fused = is_coupled(self, gamma)
        estep = EStep(kernel=decoding.coupled(self, model)) if fused else decoding.general_estep(self, gamma)
        settings = engine.run_settings(self, stage, schedule=schedule, stopping=stopping)
        return run_em(model, corpus, start.pop(), estep, **settings)

    def _take_model(
        self,
        model: AlignmentModel,
        words: tuple[Vocabulary, Vocabulary],
        counts: tuple[Ints, Ints],
        params: AlignmentParameters,
    ) -> None:
        self.source_vocabulary_, self.target_vocabulary_ = words
        self.source_counts_, self.target_counts_ = counts
        self.table_, self.model_, self.params_ = model.table, model, alignment.expect_new_words(params, *counts)

    def _check_unchanged(self) -> None:
        """Raise unless the model is of the kind that was trained, and knows the counts behind its probabilities."""
        forward, model = self.params_.forward, self.model_
        trained = "hmm" if model.chain else "ibm2" if model.learn_positions else "ibm1"
        for name, value in (
            ("model", trained),
            ("max_jump", forward.max_jump),
            ("null_probability", forward.null_probability),
        ):
            if getattr(self, name) != value:
                raise InvalidInputError(
                    f"{name} must be {value!r} as when the model was trained, got {getattr(self, name)!r}; set it "
                    "back, or fit on all text"
                )
        if forward.totals is None or self.params_.backward.totals is None:
            raise InvalidInputError(
                "update needs the counts behind the model's probabilities, which files saved by earlier versions "
                "lack; fit and save it again"
            )

    def _report(
        self, training: TrainingText, model: AlignmentModel, params: AlignmentParameters, result: FitResult[Any]
    ) -> reports.FitReport:
        """The report of what the general E-step finds at the parameters that were learned.

        Constraints over the corpus are reported at once, by one more sum over it. Where all lie inside sentence pairs,
        a sum would cost as much as an iteration; they are summarised when the report is read, over a sample of the
        pairs, those of which all links are known left out.
        """
        step = Step(model, params, self.gamma_, decoding.general_estep(self, self.gamma_))
        notes = [f"{self.n_skipped_} sentence pairs too long, not trained on"] * (self.n_skipped_ > 0)
        constraints: tuple[reports.ConstraintReport, ...] = ()
        summaries: Sequence[reports.ConstraintSummary] = ()
        if result.posed.rows is not None:
            constraints, summaries = reports.report_posed(result.posed, step)
        elif step.estep.constraints:
            free = np.ones(len(training.weights), np.bool_) if training.anchors is None else ~training.anchors.complete
            short = training.bitext.source_lengths * training.bitext.target_lengths <= _MOST_CELLS
            pairs = decoding.sample_pairs(np.where(free & short, training.weights, 0.0))
            sample = training.take(pairs)
            summaries = reports.OnDemand(partial(_summarise, sample, self.table_, step, self.n_threads or 1))
            if len(pairs) < free.sum():
                notes.append(f"constraints are summarised over a sample of {len(pairs)} sentence pairs")
        return reports.report_training(
            self,
            training.bitext.n_pairs,
            {
                "model": self.model,
                "constraints": constraint_names(rules_of(self)),
                "gamma": reports.gamma_course(result.history, self.gamma),
            },
            constraints,
            notes=tuple(notes),
            unit="sentence pairs",
            summaries=summaries,
        )


def _put_aside(corpus: Corpus, value: Any) -> Any:
    """Data that training reads between sums, kept where the corpus keeps such, as `spectrem.corpus.Spilled` does."""
    put_aside = getattr(corpus, "aside", None)
    return value if put_aside is None else put_aside(value)


def _summarise(
    sample: TrainingText, table: PairTable, step: Step, n_threads: int
) -> Sequence[reports.ConstraintSummary]:
    """One entry per constraint."""
    corpus = Local(list(sample.shards(table)), n_threads)
    return reports.report_posed(pose(step.model, corpus, step.estep), step)[1]
