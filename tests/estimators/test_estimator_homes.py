"""Estimators give the same bits wherever their shards live, and mean the same however these are cut."""

import dataclasses
import math
import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from spectrem import E, GaussianHMM, GaussianMixture, HMMTagger, WordAligner, agreement, fertility, part
from spectrem.constraints import at_least, cannot_link, cluster_size, must_link, sparsity
from spectrem.corpus import Local, OnDask, Spilled
from spectrem.datasets import make_bitext, make_tagged_corpus
from spectrem.estimators.mixture import gaussian_mixture
from spectrem.exceptions import InvalidInputError
from spectrem.learning.em import leaves
from spectrem.models import series
from spectrem.models import tagging as shards
from spectrem.models.alignment import pairs
from spectrem.models.mixture import build_shards
from spectrem.models.priors import MeanFieldPrior

TAGGED = make_tagged_corpus(24)
NEW = make_tagged_corpus(9, seed=7).words
TAGS = sorted({tag for tags in TAGGED.tags for tag in tags})
BITEXT = make_bitext(24, seed=3)
X = np.random.default_rng(5).normal(size=(90, 2)) + np.repeat([[0, 0], [3, 0], [0, 4]], 30, axis=0)

BLANK = np.where(np.arange(180).reshape(90, 2) % 7 == 3, np.nan, X)
LENGTHS = [6, 1, 0, 11, 4, 8] * 3

VERB = at_least(1, "VERB")
NOUNS = E[part("tag") == "NOUN"] >= 0.2 * E.count(...)
SHARES = [E[part("tag") == "NOUN"] == 50, E[part("tag") == "VERB"] == 33]

TAGGERS = {
    "free": {"n_states": 3},
    "dictionary": {"dictionary": TAGGED.dictionary},
    "second order": {"dictionary": TAGGED.dictionary, "order": 2},
    "mean field": {"dictionary": TAGGED.dictionary, "prior": MeanFieldPrior(0.1), "smoothing": 0.0},
    "in sentences": {"dictionary": TAGGED.dictionary, "constraints": [VERB]},
    "over the corpus": {"dictionary": TAGGED.dictionary, "constraints": SHARES},
    "both": {"dictionary": TAGGED.dictionary, "constraints": [VERB, NOUNS]},
    "sparse": {"dictionary": TAGGED.dictionary, "constraints": [sparsity(1.0)]},
}
MIXTURES = {
    "free": {},
    "sizes": {"constraints": [cluster_size(25, 33)]},
    "links": {"constraints": [must_link([[0, 1], [40, 71]]), cannot_link([[2, 3]])], "assign": "feasible"},
    "in rows": {"constraints": [(E[part("label") == 0] <= 0.7).per("row")], "gamma": 0.5},
}
SERIES = {
    "free": {},
    "missing and labelled": {"y": [0, {1, 2}, {0: 0.3, 1: 0.7}, *[None] * 87]},
    "in sequences": {"constraints": [(E[part("state") == 0] >= 1).per("sequence")]},
    "over the corpus": {"constraints": [E[part("state") == 0] == 40]},
    "changes": {"constraints": [(E[part("change") == 1] <= 2).per("sequence")], "gamma": 0.5},
    "durations": {"durations": "poisson", "longest": 6},
}
ALIGNERS = {
    "names": {},
    "objects": {"constraints": [agreement(), fertility(1.0)]},
    "soft": {"gamma": 0.5},
}
# Hundreds of rows over the corpus take long where they are solved to the end.
CASES = [
    *((name, 1.0) for name in TAGGERS if name != "sparse"),
    *((name, gamma) for name in ("free", "in sentences", "over the corpus", "both") for gamma in (0.5, 0.0, -math.inf)),
]


def fit_tagger(gamma=1.0, **settings):
    defaults = {"random_state": 0, "tol": 0.0, "max_iter": 2, "smoothing": 0.1, "gamma": gamma}
    return HMMTagger(**(defaults | settings)).fit(TAGGED.words)


def fit_aligner(**settings):
    defaults = {"max_iter": 2, "model1_iterations": 1, "max_jump": 20, "dual_steps": 2}
    return WordAligner(**(defaults | settings)).fit(BITEXT.source, BITEXT.target)


def fit_mixture(**settings):
    return GaussianMixture(3, random_state=0, tol=0.0, max_iter=4, **settings).fit(X)


def fit_series(y=None, **settings):
    defaults = {"random_state": 0, "tol": 0.0, "max_iter": 3, "init": "clusters", "n_init": 1}
    return GaussianHMM(3, **(defaults | settings)).fit(X if y is None else BLANK, y, lengths=LENGTHS)


def reported(fitted):
    """All numbers that the report gives of constraints, and the rest of it but for times."""
    report = fitted.report_
    summaries = [dataclasses.astuple(own)[1:] for own in report.summaries]
    rows = [(own.bound, own.price, own.before, own.after) for own in report.constraints]
    return [np.array(summaries, float), *(np.array(own) for own in rows)]


def outcome(fitted):
    """All numbers that training and its model give, but for times."""
    records = [dataclasses.replace(record, seconds=0.0) for record in fitted.history_]
    numbers = [list(map(float, dataclasses.astuple(record))) for record in records]
    if isinstance(fitted, HMMTagger):
        tables = [*leaves(fitted.params_), *fitted.predict_proba(NEW), np.array(fitted.log_likelihood_)]
        tables += reported(fitted)
        return tables, numbers, fitted.predict(NEW)
    if isinstance(fitted, WordAligner):
        links = fitted.predict(BITEXT.source, BITEXT.target)
        tables = [*leaves(fitted.params_), np.array(fitted.threshold_), *reported(fitted)]
        return tables, numbers, [links.source.tolist(), links.target.tolist()]
    if isinstance(fitted, GaussianHMM):
        tables = [*leaves(fitted.params_), fitted.predict_proba(X, LENGTHS), np.array(fitted.objective_)]
        return [*tables, *reported(fitted)], numbers, fitted.predict(X, LENGTHS).tolist()
    tables = [fitted.weights_, fitted.means_, fitted.covariances_, fitted.labels_, *reported(fitted)]
    return tables, numbers, fitted.predict(X).tolist()


def assert_same(one, other):
    """Bit for bit."""
    for a, b in zip(one[0], other[0], strict=True):
        np.testing.assert_array_equal(a, b)
    assert str(one[1:]) == str(other[1:])  # NaN equals itself there


def assert_close(one, other):
    for a, b in zip(one[0], other[0], strict=True):
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-9, atol=1e-9)
    assert one[2] == other[2]


@pytest.fixture
def cut(monkeypatch):
    """Cut data into more shards, several for these small ones."""

    def cut_finer(parts, rows):
        for module, amount in ((shards, "PARTS"), (series, "PARTS"), (pairs, "CELLS")):
            monkeypatch.setattr(module, f"_LEAST_{amount}", parts)
            monkeypatch.setattr(module, f"_MOST_{amount}", parts)
        monkeypatch.setattr(gaussian_mixture, "build_shards", partial(build_shards, rows=rows))

    return cut_finer


def counted(home, sizes):
    """The home, which also writes down how many shards it got."""

    def place(given):
        corpus = home(given)
        sizes.append(len(corpus))
        return corpus

    return place


def check_homes(fit, tmp_path, client):
    sizes = []
    serial = outcome(fit(n_threads=1, corpus=counted(lambda given: Local(list(given)), sizes)))
    assert max(sizes) >= 4
    assert_same(outcome(fit(n_threads=3)), serial)
    assert_same(outcome(fit(corpus=partial(Spilled, folder=tmp_path))), serial)
    assert not list(tmp_path.iterdir())
    assert_same(outcome(fit(corpus=partial(OnDask, client=client))), serial)


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "gamma"), [*CASES, ("sparse", 1.0)])
def test_a_tagger_gives_the_same_bits_in_every_home(name, gamma, cut, tmp_path, client):
    cut(60, 20)
    check_homes(partial(fit_tagger, gamma, **TAGGERS[name]), tmp_path, client)


@pytest.mark.parametrize("name", ALIGNERS)
def test_an_aligner_gives_the_same_bits_in_every_home(name, cut, tmp_path, client):
    cut(200, 20)
    check_homes(partial(fit_aligner, **ALIGNERS[name]), tmp_path, client)


@pytest.mark.parametrize("name", MIXTURES)
def test_a_mixture_gives_the_same_bits_in_every_home(name, cut, tmp_path, client):
    cut(60, 20)
    check_homes(partial(fit_mixture, **MIXTURES[name]), tmp_path, client)


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SERIES)
def test_states_of_series_have_the_same_bits_in_every_home(name, cut, tmp_path, client):
    cut(60, 20)
    check_homes(partial(fit_series, **SERIES[name]), tmp_path, client)


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "gamma"), CASES)
def test_what_a_tagger_learns_does_not_depend_on_how_text_is_cut(name, gamma, cut):
    whole = outcome(fit_tagger(gamma, dual_steps=0, **TAGGERS[name]))
    for parts in (1000, 60):
        cut(parts, 20)
        assert_close(outcome(fit_tagger(gamma, dual_steps=0, **TAGGERS[name])), whole)


@pytest.mark.parametrize("name", ALIGNERS)
def test_what_an_aligner_learns_does_not_depend_on_how_text_is_cut(name, cut):
    whole = outcome(fit_aligner(**ALIGNERS[name]))
    for parts in (1000, 200):
        cut(parts, 20)
        assert_close(outcome(fit_aligner(**ALIGNERS[name])), whole)


@pytest.mark.parametrize("name", ["free", "sizes"])
def test_what_a_mixture_learns_does_not_depend_on_how_rows_are_cut(name, cut):
    whole = outcome(fit_mixture(**MIXTURES[name]))
    for rows in (40, 7):
        cut(60, rows)
        assert_close(outcome(fit_mixture(**MIXTURES[name])), whole)


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SERIES)
def test_what_is_learnt_of_series_does_not_depend_on_how_they_are_cut(name, cut):
    whole = outcome(fit_series(dual_steps=0, **SERIES[name]))
    for parts in (1000, 60):
        cut(parts, 20)
        assert_close(outcome(fit_series(dual_steps=0, **SERIES[name])), whole)


ESTIMATORS = (HMMTagger, WordAligner, GaussianMixture, GaussianHMM)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_homes_survive_clones_and_pickles(cls, tmp_path):
    for home in (OnDask, partial(Spilled, folder=str(tmp_path))):
        estimator = cls(corpus=home)
        for other in (clone(estimator), pickle.loads(pickle.dumps(estimator))):
            found = other.get_params()["corpus"]
            assert found is home or (found.func, found.keywords) == (home.func, home.keywords)


def test_saved_models_hold_no_home(tmp_path):
    home, state = partial(Spilled, folder=tmp_path), tmp_path / "state"
    fit_tagger(n_states=3, corpus=home, checkpoint=state).save(tmp_path / "tagger")
    fit_aligner(corpus=home, checkpoint=state).save(tmp_path / "aligner")
    fit_series(corpus=home, checkpoint=tmp_path / "states").save(tmp_path / "series")
    kinds = {"tagger": HMMTagger, "aligner": WordAligner, "series": GaussianHMM}
    for loaded in (cls.load(tmp_path / name) for name, cls in kinds.items()):
        assert loaded.corpus is None
        assert loaded.checkpoint is None


@pytest.mark.parametrize("fit", [fit_aligner, fit_mixture, fit_series, partial(fit_tagger, n_states=3)])
def test_a_corpus_that_is_no_callable_is_refused(fit):
    with pytest.raises(InvalidInputError) as error:
        fit(corpus="/scratch")
    assert str(error.value) == (
        "corpus must be a callable that puts shards somewhere, got '/scratch'; give for example "
        "functools.partial(Spilled, folder=...), or OnDask for the cluster that was connected to last"
    )
