"""An interrupted training that goes on ends with the same bits as one that was never interrupted."""

from functools import partial

import numpy as np
import pytest

from spectrem import E, GaussianHMM, GaussianMixture, HMMTagger, WordAligner, agreement, fertility, part
from spectrem.constraints import at_least, cannot_link, cluster_size, must_link
from spectrem.corpus import Spilled
from spectrem.datasets import make_bitext, make_tagged_corpus
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal
from spectrem.learning.em import leaves
from spectrem.models import series
from spectrem.models import tagging as shards
from spectrem.models.alignment import pairs
from spectrem.models.priors import MeanFieldPrior

TAGGED = make_tagged_corpus(16)
BITEXT = make_bitext(16, seed=3)
VERB = at_least(1, "VERB")
NOUNS = E[part("tag") == "NOUN"] == 33

TAGGERS = {
    "free": {},
    "kept multipliers": {"constraints": [VERB]},
    "over the corpus": {"constraints": [NOUNS, VERB], "dual_steps": 3},
    "restarts": {"n_init": 2, "init": "random", "max_iter": 2},
    "annealing": {"schedule": Anneal(0.5, 1.0, 1.5), "constraints": [NOUNS], "max_iter": 2},
    "mean field": {"prior": MeanFieldPrior(0.1), "smoothing": 0.0},
    "mean field under constraints": {"prior": MeanFieldPrior(0.1), "smoothing": 0.0, "constraints": [VERB]},
}
ALIGNERS = {
    "names": {},
    "objects": {"constraints": [agreement(), fertility(1.0)]},
    "annealing": {"schedule": Anneal(0.7)},
}
SERIES = {
    "free": {},
    "search for starts": {"init": "auto", "n_init": 2, "max_iter": 1},
    "labels": {"y": [0, 1, *[None] * 22]},
    "constraints": {"constraints": [(E[part("state") == 0] >= 1).per("sequence"), E[part("state") == 1] >= 9]},
    "durations": {"durations": "poisson", "longest": 5, "dual_steps": 3},
    "annealing": {"schedule": Anneal(0.5, 1.0, 1.5), "constraints": [E[part("state") == 1] >= 9], "max_iter": 2},
}
MIXTURES = {
    "free": {},
    "constraints": {"constraints": [cluster_size(5), must_link([[0, 1]]), cannot_link([[2, 3]])]},
    "restarts": {"n_init": 2, "init_params": "random_from_data"},
    "annealing": {"schedule": Anneal(0.5, 1.0, 1.5), "fixed": ["covariances"], "constraints": [cluster_size(5)]},
}


def fit_tagger(**settings):
    defaults = {"dictionary": TAGGED.dictionary, "random_state": 0, "tol": 0.0, "max_iter": 3, "smoothing": 0.1}
    return HMMTagger(**(defaults | settings)).fit(TAGGED.words)


def fit_aligner(**settings):
    defaults = {"max_iter": 2, "model1_iterations": 2, "max_jump": 20, "dual_steps": 2}
    return WordAligner(**(defaults | settings)).fit(BITEXT.source, BITEXT.target)


def fit_mixture(**settings):
    points = np.random.default_rng(0).normal(size=(24, 2))
    return GaussianMixture(3, **({"random_state": 0, "tol": 0.0, "max_iter": 2} | settings)).fit(points)


def fit_series(y=None, **settings):
    rows = np.random.default_rng(0).normal(size=(24, 2)) + np.repeat([0.0, 2.0], 12)[:, None]
    defaults = {"random_state": 0, "tol": 0.0, "max_iter": 2, "init": "clusters", "n_init": 1}
    return GaussianHMM(2, **(defaults | settings)).fit(rows, y, lengths=[6, 1, 9, 8])


def outcome(fitted):
    """Parameters and objectives of every iteration."""
    objectives = [(record.gamma, record.objective, record.violation) for record in fitted.history_]
    params = fitted._params() if isinstance(fitted, GaussianMixture) else fitted.params_
    return [None if leaf is None else leaf.tobytes() for leaf in leaves(params)], str(objectives)


class Interrupt:
    """Counts iterations and ends the training after some of them."""

    def __init__(self, after):
        self.after, self.count = after, 0

    def __call__(self, record):
        self.count += 1
        if self.count == self.after:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def several_shards(monkeypatch):
    for module, amount, size in ((shards, "PARTS", 100), (series, "PARTS", 20), (pairs, "CELLS", 100)):
        monkeypatch.setattr(module, f"_LEAST_{amount}", size)
        monkeypatch.setattr(module, f"_MOST_{amount}", size)


def check_every_interrupt(fit, tmp_path):
    whole, counter = outcome(fit()), Interrupt(0)
    assert outcome(fit(on_iteration=counter, checkpoint=tmp_path / "whole")) == whole
    for k in range(1, counter.count + 1):
        with pytest.raises(KeyboardInterrupt):
            fit(on_iteration=Interrupt(k), checkpoint=tmp_path / str(k))
        assert outcome(fit(checkpoint=tmp_path / str(k))) == whole
    assert outcome(fit(checkpoint=tmp_path / "whole")) == whole


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", TAGGERS)
def test_a_tagger_goes_on(name, tmp_path):
    check_every_interrupt(lambda **options: fit_tagger(**TAGGERS[name], **options), tmp_path)


@pytest.mark.parametrize("name", ALIGNERS)
def test_an_aligner_goes_on(name, tmp_path):
    check_every_interrupt(lambda **options: fit_aligner(**ALIGNERS[name], **options), tmp_path)


@pytest.mark.parametrize("name", MIXTURES)
def test_a_mixture_goes_on(name, tmp_path):
    check_every_interrupt(lambda **options: fit_mixture(**MIXTURES[name], **options), tmp_path)


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SERIES)
def test_states_of_series_go_on(name, tmp_path):
    check_every_interrupt(lambda **options: fit_series(**SERIES[name], **options), tmp_path)


@pytest.mark.filterwarnings("ignore:2 had no rows left after training:UserWarning")
def test_training_goes_on_where_a_state_without_rows_is_started_again(tmp_path):
    alone = np.array([[np.nan, np.nan, 0], [np.nan, np.nan, 0], [0, 0, 1]])
    fixed = {"startprob": np.array([1.0, 0, 0]), "transmat": alone}
    settings = {"fixed": fixed, "random_state": 0, "max_iter": 2, "tol": 0.0, "init": "clusters", "n_init": 1}
    rows = np.repeat([0.0, 1.0], 12)
    check_every_interrupt(lambda **options: GaussianHMM(3, **settings, **options).fit(rows), tmp_path)


def test_a_constrained_mixture_goes_on_in_another_home(tmp_path):
    settings = {"constraints": [cluster_size(min=6)], "checkpoint": tmp_path / "state", "max_iter": 3}
    with pytest.raises(KeyboardInterrupt):
        fit_mixture(**settings, on_iteration=Interrupt(2), n_threads=1)
    count = Interrupt(0)
    found = fit_mixture(**settings, on_iteration=count, corpus=partial(Spilled, folder=tmp_path))
    assert outcome(found) == outcome(fit_mixture(**(settings | {"checkpoint": None})))
    assert count.count == 3


def test_other_sentences_of_the_same_words_are_noticed(tmp_path):
    tagger = HMMTagger(n_states=2, init="uniform", tol=0.0, max_iter=2, checkpoint=tmp_path)
    tagger.fit(["a b", "b c"])
    with pytest.raises(InvalidInputError, match=r"start-1/state\.npz is that of a run with other data"):
        tagger.fit(["a c", "b b"])
    aligner = WordAligner(max_iter=1, checkpoint=tmp_path).fit(["a b", "a b"], ["x", "y"])
    with pytest.raises(InvalidInputError, match=r"model1/state\.npz is that of a run with other data"):
        aligner.fit(["a b", "b a"], ["x", "y"])
    model = GaussianHMM(2, random_state=0, init="clusters", n_init=1, max_iter=1, tol=0.0, checkpoint=tmp_path / "s")
    model.fit(np.arange(6.0))
    for other in ({"X": -np.arange(6.0)}, {"X": np.arange(6.0), "lengths": [3, 3]}, {"X": [0, 1, 2, np.nan, 4, 5]}):
        with pytest.raises(InvalidInputError, match=r"start-1/state\.npz is that of a run with other data"):
            model.fit(**other)


@pytest.mark.parametrize("changed", [{"smoothing": 0.2}, {"constraints": [VERB]}, {"order": 2}, {"random_state": 1}])
def test_other_settings_are_noticed(tmp_path, changed):
    fit_tagger(init="random", checkpoint=tmp_path)
    with pytest.raises(InvalidInputError, match="is that of a run with other data, another start or other settings"):
        fit_tagger(init="random", checkpoint=tmp_path, **changed)


def test_a_finished_training_runs_no_iteration_again(tmp_path):
    first, second = (fit_aligner(checkpoint=tmp_path) for _ in range(2))
    assert [record.seconds for record in second.history_] == [record.seconds for record in first.history_]
    assert np.array_equal(second.params_.forward.translation, first.params_.forward.translation)
