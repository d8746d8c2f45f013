"""Numbers of reports, held against posteriors and against what bounds are worth when they move."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from spectrem import E, GaussianMixture, SelfTrainer, part, project
from spectrem.constraints import cannot_link, cluster_size, must_link
from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.corpus import Local
from spectrem.exceptions import NoEffectWarning
from spectrem.inference import project_batch
from spectrem.models.mixture import MixtureModel, build_shards
from spectrem.models.mixture.constrained import ConstrainedMixture, constrain
from spectrem.reports import prices_by_name, report_rows

N, K = 40, 3
PAIRS = [[0, 1], [1, 2]]
APART = [[3, 20], [4, 21]]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    return rng.normal(size=(N, 2)), rng.integers(1, 4, size=N).astype(float)


def constraints(size, sure=0.6):
    return [
        must_link(PAIRS),
        cannot_link(APART),
        (E[part("label") == 0] >= size).named("large"),
        (E[part("label") == 0] <= sure).per("row", "seen").named("sure"),
    ]


SEEN = np.where(np.isin(np.arange(N), [0, 8, 9]), 1.0, np.nan)


@pytest.fixture(scope="module")
def mixture(data):
    x, weights = data
    free = GaussianMixture(K, random_state=0, covariance_type="spherical", n_threads=1).fit(x, sample_weight=weights)
    size = 15.0 + float(weights @ free.predict_proba(x)[:, 0])
    fitted = GaussianMixture(
        K, random_state=0, covariance_type="spherical", n_threads=1, constraints=constraints(size), max_iter=20, tol=0.0
    ).fit(x, sample_weight=weights, columns={"seen": SEEN})
    return fitted, size


def reports_of(fitted):
    return {report.name: report for report in fitted.report_.constraints}


def test_expected_values_are_sums_over_rows_of_data(data, mixture):
    x, weights = data
    fitted, size = mixture
    reports = reports_of(fitted)
    assert list(reports) == ["cannot link", "large", "sure"]
    for moment, posteriors in {"before": fitted.predict_proba(x), "after": fitted.posteriors_}.items():
        large = getattr(reports["large"], moment)
        np.testing.assert_allclose(large, [weights @ posteriors[:, 0]])
        pairs = np.add(*(posteriors[side] for side in np.transpose(APART)))
        np.testing.assert_allclose(getattr(reports["cannot link"], moment), pairs.ravel())
        np.testing.assert_allclose(getattr(reports["sure"], moment), posteriors[[0, 8, 9], 0])
    assert reports["large"].sense.tolist() == [">="]
    assert reports["large"].bound.tolist() == [size]
    before = size - reports["large"].before[0]
    assert before > 0.3
    assert reports["large"].violation_before[0] == pytest.approx(before)
    assert reports["large"].violation_after[0] < 1e-4
    keys = reports["cannot link"].keys
    assert [keys["row"][4], keys["other row"][4], keys["label"][4]] == [4, 21, 1]
    assert reports["sure"].keys["row"].tolist() == [0, 8, 9]
    assert fitted.report_.notes == ("must link: 2 pairs, held exactly",)


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("joined", [[], PAIRS])
def test_rows_tied_together_are_told_one_by_one(data, weighed, joined):
    x, weights = data
    weights = weights if weighed else np.ones(N)
    rules = [must_link(joined), cannot_link(APART), (E[part("label") == 0] >= 1).per("half").named("some")]
    columns = {"half": np.arange(N) % 2}
    fitted = GaussianMixture(K, random_state=0, n_threads=1, constraints=rules, max_iter=2, tol=0.0)
    fitted.fit(x, sample_weight=weights, columns=columns)
    apart, some = fitted.report_.constraints
    for moment, posteriors in {"before": fitted.predict_proba(x), "after": fitted.posteriors_}.items():
        pairs = np.add(*(posteriors[side] for side in np.transpose(APART)))
        np.testing.assert_allclose(getattr(apart, moment), pairs.ravel())
        halves = np.bincount(columns["half"], weights * posteriors[:, 0])
        np.testing.assert_allclose(getattr(some, moment), halves)


def test_prices_are_what_the_objective_gains(data, mixture):
    x, weights = data
    fitted, size = mixture

    def value(size, sure):
        columns, blocks = {"row": np.arange(N), "seen": SEEN}, Local(build_shards(x, weights))
        rows = constrain(constraints(size, sure), K, columns, weights, blocks)
        model = ConstrainedMixture(MixtureModel(K, "spherical"))
        structure, scores = model.structure(rows), model.scores(fitted._params(), rows)
        return project_batch(structure, scores, rows.rows, weights=rows.chunks.weights, tol=1e-12).dual_value

    prices, step = fitted.report_.prices, 1e-4
    slope = (value(size - step, 0.6) - value(size + step, 0.6)) / (2 * step)
    np.testing.assert_allclose(prices["large"], [slope], rtol=1e-3)
    step = 1e-6
    slope = (value(size, 0.6 + step) - value(size, 0.6 - step)) / (2 * step)
    assert prices["sure"][:2].min() > 0.01  # row 0 counts for those tied to it, and all with their weights
    np.testing.assert_allclose(prices["sure"].sum(), slope, rtol=1e-3)


def test_a_trainer_tells_its_last_projection():
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=60)
    x = z[:, None] * 1.5 + rng.normal(size=(60, 2))
    y = np.where(np.arange(60) < 10, z, -1)
    weights = rng.integers(1, 3, size=60).astype(float)
    bounds = [
        (E[part("label") == 1] == 50).named("many"),
        (E[part("label") == 1] >= 0.9).per("row", "sure").named("sure"),
    ]
    columns = {"sure": np.where(np.arange(60) == 30, 1.0, np.nan)}
    trainer = SelfTrainer(LogisticRegression(), bounds, tol=0.0, max_iter=3, unlabelled_weight=0.5)
    trainer.fit(x, y, weights, columns)
    many, sure = trainer.report_.constraints
    np.testing.assert_allclose(many.after, [weights @ trainer.label_distributions_[:, 1]])
    np.testing.assert_allclose(sure.after, trainer.label_distributions_[[30], 1])
    np.testing.assert_allclose(many.after, [50.0], rtol=1e-5)
    last = SelfTrainer(LogisticRegression(), bounds, tol=0.0, max_iter=2, unlabelled_weight=0.5)
    proba = last.fit(x, y, weights, columns).predict_proba(x)
    proba[:10] = np.eye(2)[z[:10]]
    np.testing.assert_allclose(many.before, [weights @ proba[:, 1]])

    def value(many_bound, sure_bound):
        moved = [
            (E[part("label") == 1] == many_bound).named("many"),
            (E[part("label") == 1] >= sure_bound).per("row", "sure").named("sure"),
        ]
        return project(proba, moved, columns=columns, sample_weight=weights).objective

    slope = (value(50.01, 0.9) - value(49.99, 0.9)) / 0.02
    np.testing.assert_allclose(many.price, [slope], rtol=1e-3)
    assert sure.price[0] > 0
    slope = (value(50, 0.8999) - value(50, 0.9001)) / 2e-4
    np.testing.assert_allclose(sure.price, [slope], rtol=1e-3)


def test_without_constraints_there_is_no_table_and_beside_labels_alone_they_are_held_against_these():
    x = np.arange(8.0)[:, None]
    assert GaussianMixture(2, random_state=0, n_threads=1).fit(x).report_.constraints == ()
    start = GaussianMixture(2, random_state=0, max_iter=0, n_threads=1).fit(x).report_
    assert (start.history, start.status, start.settings["gamma"]) == ((), "kept the start", 1.0)
    y = np.arange(8) > 3
    trainer = SelfTrainer(LogisticRegression(), [(E[part("label") == 1] >= 3).named("some")])
    with pytest.warns(NoEffectWarning, match="got some"):
        trainer.fit(x, y.astype(int))
    (some,) = trainer.report_.constraints
    assert (some.price.tolist(), some.before.tolist(), some.after.tolist()) == ([0.0], [4.0], [4.0])


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_hard_posteriors_are_told_alike(data, gamma):
    x, _ = data
    fitted = GaussianMixture(2, random_state=0, gamma=gamma, n_threads=1, constraints=[cluster_size(19, 21)]).fit(x)
    (size,) = fitted.report_.constraints
    np.testing.assert_allclose(size.after, np.tile(fitted.posteriors_.sum(axis=0), 2))
    np.testing.assert_allclose(size.before, np.tile(np.bincount(fitted.predict(x), minlength=2), 2))
    assert (size.price == 0).all() or gamma == 0


def test_rows_are_told_as_they_were_written_whatever_their_entries():
    block = Block("empty", 0, 2, False, "corpus", None, np.zeros(2, int), {}, turned=np.array([False, True]))
    rows = Rows(sp.csr_array((2, 4)), np.array([3.0, -1.0]), np.full(2, -1), (block,))
    (report,) = report_rows(rows, np.zeros(2), np.zeros(2), np.zeros(2))
    assert report.sense.tolist() == ["<=", ">="]
    assert report.bound.tolist() == [3.0, 1.0]
    assert report.violation_after.tolist() == [0.0, 1.0]


def test_names_that_come_twice():
    rule = (E[part("label") == 1] <= 0.5).named("same")
    table = project([[0.5, 0.5]], [rule, rule])
    assert (
        list(table.prices)
        == list(prices_by_name((own.name, own.price) for own in table.constraints))
        == ["same", "same (2)"]
    )
