"""WordAligner: unsupervised word alignment of a bitext under constraints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem._validate import as_sample_weight
from spectrem.constraints import agreement, fertility
from spectrem.constraints.constraint import AnyConstraint
from spectrem.corpus import Corpus, Local, stream
from spectrem.data import Bitext, Links
from spectrem.estimators import aligner_file, long_pairs
from spectrem.estimators.aligner_input import Known, Lines, as_bitext, check_words, select_pairs
from spectrem.estimators.aligner_settings import check_settings
from spectrem.estimators.aligner_text import read_text, unknown_shares
from spectrem.estimators.aligner_threshold import expected_threshold, least_error_threshold, sample_pairs
from spectrem.estimators.conventions import Estimator, not_fitted
from spectrem.estimators.decode import (
    Decode,
    LinkPosteriors,
    as_matrices,
    concatenate_links,
    concatenate_posteriors,
    links_above,
    viterbi_links,
)
from spectrem.estimators.homes import make_corpus, stage_folder
from spectrem.estimators.long_pairs import LongPair, LongPairs, LongShard
from spectrem.inference import FixedStep
from spectrem.learning import Anneal, Constant, EStep, Record, Schedule, Step, Stopping, run_em
from spectrem.learning.posed_corpus import posterior_alone
from spectrem.metrics import alignment_scores
from spectrem.models.alignment import (
    AlignmentModel,
    AlignmentParameters,
    BitextShard,
    CoupledKernel,
    expect_new_words,
    iter_shards,
    lexical_priors,
    tabulate_pairs,
)

Result = TypeVar("Result")


@dataclass(eq=False, repr=False)
class WordAligner(Estimator):
    """Align the words of sentence pairs without labelled data.

    IBM Model 1, then (by default) an HMM are trained in both directions at once by EM whose posteriors are projected
    onto constraints: by default both directions must agree on every link ([Graca2007] §4.1.2, [Ganchev2010] §5,
    [Samdani2012] §5). NULL keeps the last position ([OchNey2003]); jump widths are shared by all sentences
    ([Vogel1996], [Liang2006]); the distance of the last position from the sentence end has a distribution of its own;
    rare words are helped by their stems and by words that look alike (`spectrem.models.alignment.LexicalPrior`), new
    ones also by words as rare as they (`spectrem.models.alignment.UnseenPairs`).

    Parameters
    ----------
    model : {"hmm", "ibm2", "ibm1"}
        The last stage; all start with IBM Model 1.
    constraints : sequence of {"agreement", "fertility"} or of constraints
        Names, or constraints in the language of `spectrem.E` over the columns sentence, direction, source, target,
        state (the position chosen; NULL is -1).
    gamma : float
        0 or greater, or -inf, of the last stage: 1 is posterior regularisation, 0 constraint-driven learning
        (by linear program), between them unified EM. Model 1, when it is not the last stage, uses 1.
    beta_min : float, optional
        Anneal the last stage from gamma = 1 / beta_min down to ``gamma``.
    iterations : int
        Of the last stage (for every gamma when annealing).
    model1_iterations : int
        Of Model 1 as first stage.
    null_probability : float
        p0, in (0, 1).
    max_jump : int
        Widest jump with a potential of its own.
    stem_strength, cognate_strength : float
        Pseudo-counts of the lexical prior; 0 and 0 train by maximum likelihood.
    max_fertility : float
        Bound of the constraint "fertility".
    dual_steps, step_size : int, float
        Fixed gradient steps R and eta on the multipliers, what [Samdani2012] ran. ``dual_steps=0`` solves to
        convergence by the generic solvers, slowly.
    alpha : float
        Strength of the constraints, in [0, 1] ([Ganchev2010] appendix A).
    decode : {"posterior", "viterbi", "forward", "backward", "intersection", "union", "grow-diag-final-and"}
        ``posterior`` keeps links whose mean posterior exceeds ``threshold``; the others use the best alignment of each
        direction: one of them ("viterbi" is "forward") or both merged.
    project : bool
        Whether posteriors are projected onto the constraints when decoding too.
    threshold : float or "auto"
        In [0, 1]. "auto" takes the one with the greatest expected F1 under the posteriors of (some hundreds of pairs
        of) the training text (`spectrem.metrics.expected_f1_threshold`): lower where links are less certain.
    max_length : int, optional
        Train only on pairs with no more words on either side; longer ones are still aligned.
    n_threads : int, optional
        By default one per processor. Results do not depend on it.
    corpus : callable, optional
        From an iterable of shards to the `spectrem.corpus.Corpus` that keeps them, such as
        ``partial(Spilled, folder="/scratch")``, or ``OnDask`` for the cluster that was connected to last. By default
        they stay in memory. Results do not depend on it; saved models do not hold it.
    checkpoint : path, optional
        A folder that holds the state after every iteration: the same `fit` again, also in another process, goes on
        from it, with the same bits as one that was not interrupted.
    on_iteration : callable, optional
        Called with the `spectrem.learning.Record` of every iteration.

    Attributes
    ----------
    params_ : AlignmentParameters
    table_ : PairTable
    history_ : list of Record
        All stages.
    threshold_ : float
        ``threshold``, or the number that "auto" or `tune` chose.
    source_counts_, target_counts_ : ndarray of shape (n_words,), int
        Tokens of every word in the training text.
    gamma_ : float
        Used for decoding.
    n_skipped_ : int
        Sentence pairs that were too long to train on, by ``max_length`` or for the model.

    Examples
    --------
    >>> from spectrem.datasets import make_bitext
    >>> bitext = make_bitext(300, seed=1)
    >>> aligner = WordAligner(n_threads=1).fit(bitext.source, bitext.target)
    >>> links = aligner.predict(bitext.source[:2], bitext.target[:2])
    >>> links.n_sentences
    2
    """

    model: Literal["hmm", "ibm2", "ibm1"] = "hmm"
    _: KW_ONLY
    constraints: Sequence[str | AnyConstraint] = ("agreement",)
    gamma: float = 1.0
    beta_min: float | None = None
    iterations: int = 3
    model1_iterations: int = 5
    null_probability: float = 0.1
    max_jump: int = 100
    stem_strength: float = 10.0
    cognate_strength: float = 2.0
    max_fertility: float = 1.0
    dual_steps: int = 5
    step_size: float = 1.0
    alpha: float = 1.0
    decode: Decode = "posterior"
    project: bool = True
    threshold: float | Literal["auto"] = "auto"
    max_length: int | None = None
    n_threads: int | None = None
    corpus: Callable[[Iterable[BitextShard | LongPair]], Corpus] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    on_iteration: Callable[[Record], None] | None = None

    def fit(
        self,
        source: Bitext | Lines,
        target: Lines | None = None,
        *,
        known: Known | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> WordAligner:
        """Train on a bitext.

        Parameters
        ----------
        source : Bitext, or sequence of str
            Tokenised lines when ``target`` is given.
        target : sequence of str, optional
        known : sequence of (sequence of (source, target) or None), optional
            Given links of some pairs, None for the others: words without a link are NULL's.
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
        check_settings(self)
        bitext = as_bitext(source, target)
        check_words(bitext)
        given = as_sample_weight(sample_weight, bitext.n_pairs, "sentence pair")
        weights = np.ones(bitext.n_pairs) if given is None else given
        too_long = long_pairs.find_untrainable(bitext, long_pairs.most_cells(self, self.gamma))
        n_pairs = bitext.n_pairs
        bitext, weights, links = select_pairs(bitext, weights, known, self.max_length, too_long)
        self.n_skipped_ = n_pairs - bitext.n_pairs
        self.table_ = table = tabulate_pairs(bitext)
        self.source_vocabulary_, self.target_vocabulary_ = bitext.source_vocabulary, bitext.target_vocabulary
        self.source_counts_ = np.bincount(bitext.source_tokens, minlength=table.n_source_words)
        self.target_counts_ = np.bincount(bitext.target_tokens, minlength=table.n_target_words)
        priors = lexical_priors(
            table,
            bitext.source_vocabulary.words,
            bitext.target_vocabulary.words,
            self.source_counts_,
            self.target_counts_,
            stem_strength=self.stem_strength,
            cognate_strength=self.cognate_strength,
        )
        corpus = make_corpus(self, iter_shards(bitext, table, weights, links))
        self.history_: list[Record] = []
        make = partial(AlignmentModel, table, self.max_jump, forward_prior=priors[0], backward_prior=priors[1])
        model = make(chain=False, learn_positions=False)
        start = [model.initial(self.null_probability)]
        if self.model != "ibm1":
            start = [self._train(model, corpus, start, Constant(1.0), self.model1_iterations, "model1")]
            model = make(chain=self.model == "hmm", learn_positions=True)
        schedule = Constant(self.gamma) if self.beta_min is None else Anneal(self.beta_min, 1.0 / self.gamma)
        self.model_, self.gamma_ = model, self.gamma
        params = self._train(model, corpus, start, schedule, self.iterations, self.model)
        self.params_ = expect_new_words(params, self.source_counts_, self.target_counts_)
        self.threshold_ = self._expected_threshold(bitext, weights) if self.threshold == "auto" else self.threshold
        return self

    def predict(self, source: Bitext | Lines, target: Lines | None = None) -> Links:
        """Links of every sentence pair, trained on or new; pairs with an empty side have none.

        Raises
        ------
        NotFittedError
            Before `fit`.

        Warns
        -----
        UserWarning
            If sentence pairs are too long for the model; see `long_pairs`.
        """
        return concatenate_links(list(self.iter_predict(source, target)))

    def iter_predict(self, source: Bitext | Lines, target: Lines | None = None) -> Iterator[Links]:
        """The links of `predict`, some hundreds of sentence pairs at a time and in order."""
        return self._map(self._decode, source, target)

    def long_pairs(self, source: Bitext | Lines, target: Lines | None = None) -> LongPairs:
        """Which sentence pairs `predict` aligns without the chain, and which not at all.

        With the default settings a pair of more than 2^20 possible links (1,024 x 1,024 words), or of more than 2,000
        words on a side, is aligned by translation probabilities and the distance from the diagonal; of the constraints
        only "agreement" is kept. The limit is 2^18 links where constraints are not names, or gamma lies below 0.1,
        2^14 where ``dual_steps`` is 0, and 2^10 where gamma is -inf, or 0 without dual steps. A pair of more than 5,000
        words on a side is left without links.
        """
        return long_pairs.find_long_pairs(
            as_bitext(source, target), long_pairs.most_cells(self, getattr(self, "gamma_", self.gamma))
        )

    def predict_proba(self, source: Bitext | Lines, target: Lines | None = None) -> LinkPosteriors:
        """Posterior probabilities of all links, projected onto the constraints if ``project``.

        Pairs that are left unaligned (see `long_pairs`) count as empty.
        """
        return concatenate_posteriors(list(self.iter_predict_proba(source, target)))

    def iter_predict_proba(self, source: Bitext | Lines, target: Lines | None = None) -> Iterator[LinkPosteriors]:
        """The posteriors of `predict_proba`, some hundreds of sentence pairs at a time and in order."""
        return self._map(self._matrices, source, target)

    def score(self, source: Bitext | Lines, target: Lines | None, gold: Links) -> float:
        """1 - alignment error rate ([OchNey2003]) against gold links."""
        return 1.0 - alignment_scores(self.predict(source, target), gold).aer

    def tune(
        self, source: Bitext | Lines, target: Lines | None, gold: Links, *, gammas: Sequence[float] | None = None
    ) -> WordAligner:
        """Choose ``threshold_`` (and ``gamma_`` of decoding, among ``gammas``) with the least error on gold links.

        Among equally good thresholds the middle one is taken.
        """
        shards = list(self._map(lambda shard: shard, source, target))
        best: tuple[float, float, float] | None = None
        for gamma in gammas or [self.gamma_]:
            error, threshold = least_error_threshold(shards, [self._masses(gamma, shard) for shard in shards], gold)
            if best is None or error < best[0]:
                best = (error, threshold, gamma)
        assert best is not None
        _, self.threshold_, self.gamma_ = best
        return self

    def unknown_shares(self, source: Bitext | Lines, target: Lines | None = None) -> tuple[float, float]:
        """Parts of the source and of the target tokens of a text whose words did not occur in training."""
        self._check_fitted()
        return unknown_shares(self, source, target)

    def lexicon(self, min_probability: float = 0.01) -> Iterator[tuple[str, str, float, float]]:
        """Word pairs with p(target | source) and p(source | target), if either reaches ``min_probability``."""
        self._check_fitted()
        forward, backward = self.params_.forward.translation[:-1], self.params_.backward.translation[:-1]
        kept = np.flatnonzero(np.maximum(forward, backward) >= min_probability)
        sources, targets = self.table_.sources, self.table_.targets
        for k in kept:
            yield (
                self.source_vocabulary_.words[sources[k]],
                self.target_vocabulary_.words[targets[k]],
                float(forward[k]),
                float(backward[k]),
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted aligner to one file of JSON and arrays.

        Raises
        ------
        InvalidInputError
            If ``constraints`` holds constraints that are not names.
        """
        self._check_fitted()
        aligner_file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordAligner:
        """Read an aligner that `save` wrote.

        Raises
        ------
        InvalidInputError
            If the file is missing, damaged or foreign.
        """
        return aligner_file.load(cls(), path)

    def _check_fitted(self) -> None:
        if not hasattr(self, "params_"):
            raise not_fitted(self)

    def _train(
        self,
        model: AlignmentModel,
        corpus: Corpus,
        start: list[AlignmentParameters],
        schedule: Schedule,
        iterations: int,
        stage: str,
    ) -> AlignmentParameters:
        """Train from the parameters that ``start`` holds; they are taken out, so that nobody keeps them meanwhile."""
        result = run_em(
            model,
            corpus,
            start.pop(),
            self._estep(model, min(schedule.gammas())),
            schedule=schedule,
            stopping=Stopping(iterations),
            on_iteration=self.on_iteration,
            checkpoint=stage_folder(self, stage),
        )
        self.history_ += result.history
        return result.params

    def _expected_threshold(self, bitext: Bitext, weights: Floats) -> float:
        """The threshold of greatest expected F1 on a sample of the training text."""
        sample = sample_pairs(weights)
        shards = list(iter_shards(bitext.take(sample), self.table_, weights[sample]))
        masses = Local(shards, self.n_threads).collect(partial(self._masses, self.gamma_))
        return expected_threshold(shards, list(masses))

    def _estep(self, model: AlignmentModel, gamma: float) -> EStep:
        if self._is_coupled(gamma):
            return EStep(kernel=self._coupled(model, self.constraints))
        solver = FixedStep(self.dual_steps, self.step_size) if self.dual_steps > 0 and gamma >= 0 else None
        made = {"agreement": agreement(), "fertility": fertility(self.max_fertility)}
        constraints = [made[c] if isinstance(c, str) else c for c in self.constraints]
        return EStep(constraints, solver=solver, alpha=self.alpha)

    def _is_coupled(self, gamma: float) -> bool:
        named = all(isinstance(constraint, str) for constraint in self.constraints)
        return named and gamma > 0 and self.alpha == 1 and (self.dual_steps > 0 or not self.constraints)

    def _coupled(self, model: AlignmentModel, names: Sequence[Any]) -> CoupledKernel:
        return CoupledKernel(
            model,
            agreement="agreement" in names,
            max_fertility=self.max_fertility if "fertility" in names else np.inf,
            steps=self.dual_steps,
            step_size=self.step_size,
        )

    def _map(
        self, work: Callable[[BitextShard], Result], source: Bitext | Lines, target: Lines | None
    ) -> Iterator[Result]:
        """Apply ``work`` to the shards of a text, trained on or new, and return the results in order."""
        self._check_fitted()
        return stream(_work, read_text(self, source, target), work, n_threads=self.n_threads)

    def _decode(self, shard: BitextShard) -> Links:
        if isinstance(shard, LongShard):
            return long_pairs.long_links(self, shard)
        if self.decode == "posterior":
            return links_above(shard, self._masses(self.gamma_, shard), self.threshold_)
        return viterbi_links(self.model_, self.params_, shard, self.decode)

    def _masses(self, gamma: float, shard: BitextShard) -> Floats:
        """Mean posterior over both directions of every cell."""
        forward, backward = self._posteriors(shard, gamma)
        forward += backward
        forward /= 2
        return forward

    def _posteriors(self, shard: BitextShard, gamma: float) -> tuple[Floats, Floats]:
        if isinstance(shard, LongShard):
            return long_pairs.long_posteriors(self, shard, gamma)
        if gamma > 0 and (not self.project or self._is_coupled(gamma)):
            names = self.constraints if self.project else ()
            return self._coupled(self.model_, names).posteriors(self.params_, shard, gamma)
        estep = self._estep(self.model_, gamma) if self.project else EStep()
        found = posterior_alone(shard, Step(self.model_, self.params_, gamma, estep))
        return self.model_.cell_masses(shard, found.marginals)

    def _matrices(self, shard: BitextShard) -> LinkPosteriors:
        return as_matrices(shard, *self._posteriors(shard, self.gamma_))


def _work(complete: Callable[[], BitextShard], work: Callable[[BitextShard], Result]) -> Result:
    return work(complete())
