"""Generalised expectation criteria: gradients, shards, optima, and what they cannot measure."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
from scipy.special import log_softmax, softmax

from spectrem.constraints import E, compile_constraints, part
from spectrem.corpus import Local
from spectrem.exceptions import ConvergenceWarning, InvalidInputError
from spectrem.learning import EStep, Expectations, FitStatus, Step, pose, run_ascent
from spectrem.learning.ascent import cost_gradient, evaluate_criterion
from spectrem.models.loglinear import (
    Features,
    Labels,
    LogLinearModel,
    Optimiser,
    PairModel,
    Support,
    WeightPrior,
    build_shards,
)
from spectrem.reports.posed import report_expectations
from spectrem.testing import enumerate_structures

K = 3
LABEL, GROUP = part("label"), part("group")
INSIDE = [(E[LABEL == 2] >= 0.6).per("row"), (E[LABEL == 0] <= 0.3).per("row")]
ACROSS = [E[LABEL == 0] == 0.5 * E.count(...), (E[LABEL == 1] <= 0.2 * E.count(...)).per("group")]
# of chains
TAG = part("tag")
SENTENCE = [(E[TAG == 1] >= 1).per("sentence"), E[TAG == 0] == 0.3 * E.count(...)]
PAIRS = [(E[(TAG == 1) & (part("previous") == 1)] <= 0.1).per("sentence"), E[part("previous") == 2] <= 2]


def labels_of(allowed):
    """Labels from a table of shares or of what is allowed."""
    rows, columns = np.nonzero(allowed)
    offsets = np.searchsorted(rows, np.arange(len(allowed) + 1))
    return Labels(offsets, columns, allowed[rows, columns])


def rows(least=1 << 16, n=30, seed=0, weights=None):
    """Rows of which some are known, some partly known, some not."""
    rng = np.random.default_rng(seed)
    known = np.arange(n) % 5 == 0
    allowed = np.ones((n, K))
    allowed[known] = rng.dirichlet(np.ones(K), known.sum())
    allowed[np.arange(n) % 5 == 1, 0] = 0.0
    x = rng.normal(size=(n, 4))
    weight = rng.uniform(0.3, 2, n) * (np.arange(n) % 7 > 0) if weights is None else weights
    columns = {"group": rng.integers(0, 4, n)}
    return build_shards(
        Features.of(x), None, labels_of(allowed), known, weight, columns, n_labels=K, least=least
    )  # fmt: skip


def counted(least=1 << 16):
    """The same, of which unknown rows weigh 0.4 of what they count, and known ones something else."""
    return [
        replace(shard, counts=shard.weights / 0.4 if not shard.known else 1 + shard.instances / 30)
        for shard in rows(least)
    ]


def sentences(least=1 << 16, lengths=(3, 1, 4, 2, 5, 3), seed=0):
    rng = np.random.default_rng(seed)
    known = np.arange(len(lengths)) % 3 == 0
    n = sum(lengths)
    allowed = np.ones((n, K))
    token_known = np.repeat(known, lengths)
    allowed[token_known] = np.eye(K)[rng.integers(0, K, token_known.sum())]
    allowed[np.flatnonzero(~token_known)[0], 0] = 0.0
    weights = rng.uniform(0.3, 2, len(lengths))
    return build_shards(
        Features.of(rng.normal(size=(n, 2))), lengths, labels_of(allowed), known, weights, n_labels=K, least=least
    )


ROWS = LogLinearModel(Support(4, K), intercept=True, optimiser=Optimiser(tol=1e-13))
CHAIN = LogLinearModel(Support(2, K), chain=True, optimiser=Optimiser(tol=1e-13))
CASES = {
    "rows": (ROWS, rows, [*INSIDE, *ACROSS]),
    "rows, inside alone": (ROWS, rows, INSIDE),
    "rows that count otherwise": (ROWS, counted, [*INSIDE, *ACROSS]),
    "sentences": (CHAIN, sentences, SENTENCE),
    "pairs of tags": (PairModel(CHAIN), sentences, PAIRS),
    "edges with features": (PairModel(CHAIN, Support(2, K * K)), sentences, [*SENTENCE, *PAIRS]),
}
cases = pytest.mark.parametrize("case", list(CASES))
distances = pytest.mark.parametrize("distance", ["squares", "divergence"])


def evaluation(model, shards, constraints, criterion):
    """From weights to the likelihood less the costs, by two sums, and its gradient."""
    estep = EStep(constraints)
    posed = pose(model, Local(shards), estep)

    def evaluate(theta):
        step = Step(model, theta, 1.0, estep)
        found, slopes, cost = posed.shards.sum(evaluate_criterion, step, criterion), None, 0.0
        if posed.rows is not None:
            costs = criterion.costs(posed.rows.blocks, found.stats.expectation.dense, posed.rows.bounds)
            cost, slopes = costs.cost.sum(), costs.price
        gradient = found.stats.gradient - posed.shards.sum(cost_gradient, step, criterion, slopes)
        return found.objective - found.stats.cost - cost, gradient

    return evaluate


@cases
@distances
@pytest.mark.parametrize("least", [1 << 16, 10])
def test_the_gradient_is_that_of_finite_differences(case, distance, least):
    model, make, constraints = CASES[case]
    evaluate = evaluation(model, make(least), constraints, Expectations(2.0, distance))
    rng, step = np.random.default_rng(1), 1e-5
    theta = 0.5 * rng.normal(size=model.n_weights)
    _, gradient = evaluate(theta)
    for _ in range(4):
        direction = rng.normal(size=len(theta))
        slope = (evaluate(theta + step * direction)[0] - evaluate(theta - step * direction)[0]) / (2 * step)
        np.testing.assert_allclose(gradient @ direction, slope, rtol=1e-6, atol=1e-6)


@cases
@distances
def test_shards_change_nothing(case, distance):
    model, make, constraints = CASES[case]
    theta = 0.3 * np.random.default_rng(2).normal(size=model.n_weights)
    whole, cut = make(), make(10)
    assert len(cut) > len(whole)
    found = [
        run_ascent(model, home, theta, EStep(constraints), Expectations(3.0, distance))
        for home in (Local(whole), Local(cut), Local(cut, 3))
    ]
    objectives = [[record.objective for record in one.history] for one in found]
    assert (np.diff(objectives[0]) >= 0).all()
    assert objectives[0][-1] > objectives[0][0]
    np.testing.assert_allclose(found[1].params, found[0].params, atol=1e-5)
    assert np.array_equal(found[1].params, found[2].params)
    assert found[0].status is FitStatus.CONVERGED


def test_expectations_of_sentences_are_those_of_enumeration():
    shard = next(shard for shard in sentences() if not shard.known)
    theta = np.random.default_rng(3).normal(size=CHAIN.n_weights)
    structure, scores = CHAIN.structure(shard), CHAIN.scores(theta, shard)
    rows = compile_constraints(SENTENCE, structure, CHAIN.columns(shard), shard.weights)
    expected = np.zeros(structure.n_unary)
    for n in range(structure.n_instances):
        listed = list(enumerate_structures(structure, n))
        share = softmax([scores.dot(h) for h in listed])
        expected += sum(p * h.unary for p, h in zip(share, listed, strict=True))
    verbs = (rows.matrix @ expected)[: structure.n_instances]
    missed = np.maximum(verbs - rows.bounds[: structure.n_instances], 0.0)
    found = evaluate_criterion(
        pose_alone(CHAIN, shard, SENTENCE[:1]), Step(CHAIN, theta, 1.0, EStep(SENTENCE[:1])), Expectations(4.0)
    )
    np.testing.assert_allclose(found.stats.cost, 2.0 * shard.weights @ missed**2, rtol=1e-10)


def pose_alone(model, shard, constraints):
    return next(pose(model, Local([shard]), EStep(constraints)).shards.collect(lambda posed: posed))


def test_label_regularisation_is_the_optimum_that_scipy_finds():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(60, 4)), rng.integers(0, K, 12)
    shares, strength, l2 = np.array([0.5, 0.3, 0.2]), 2.5, 0.7
    allowed = np.ones((60, K))
    allowed[:12] = np.eye(K)[y]
    known = np.arange(60) < 12
    shards = build_shards(Features.of(x), None, labels_of(allowed), known, n_labels=K)
    model = LogLinearModel(Support(4, K), prior=WeightPrior(l2), optimiser=Optimiser(tol=1e-15))
    free = E[(LABEL == 0) & ~part("labelled")], E[(LABEL == 1) & ~part("labelled")], E[(LABEL == 2) & ~part("labelled")]
    constraints = [one == 48 * share for one, share in zip(free, shares, strict=True)]
    found = run_ascent(model, shards, model.initial(), EStep(constraints), Expectations(strength, "divergence"))

    def dense(flat):
        log_p = log_softmax(x @ flat.reshape(4, K), axis=1)
        mean = np.exp(log_p[12:]).mean(axis=0)
        divergence = shares @ np.log(shares / mean)
        return -log_p[np.arange(12), y].sum() + strength * 48 * divergence + 0.5 * l2 * flat @ flat

    best = scipy.optimize.minimize(dense, np.zeros(4 * K), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found.history[-1].objective, -best.fun, rtol=1e-10)
    np.testing.assert_allclose(found.params, best.x, atol=1e-4)


def test_squares_far_out_are_the_optimum_that_scipy_finds():
    rng = np.random.default_rng(5)
    x, weight = rng.normal(size=(40, 4)), rng.uniform(0.5, 2, 40)
    shards = build_shards(Features.of(x), weights=weight, columns={"group": np.arange(40) % 3}, n_labels=K, least=10)
    model = LogLinearModel(Support(4, K), optimiser=Optimiser(tol=1e-15))
    constraints = [(E[LABEL == 0] == 9).per("group"), (E[LABEL == 1] >= 0.5).per("row")]
    found = run_ascent(model, shards, model.initial(), EStep(constraints), Expectations(0.8))

    def dense(flat):
        p = softmax(x @ flat.reshape(4, K), axis=1)
        groups = np.bincount(np.arange(40) % 3, weight * p[:, 0]) - 9
        missed = np.maximum(0.5 - p[:, 1], 0.0)
        return 0.4 * (groups @ groups) + 0.4 * weight @ missed**2 + 0.5 * flat @ flat

    best = scipy.optimize.minimize(dense, np.zeros(4 * K), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found.history[-1].objective, -best.fun, rtol=1e-9)


def test_posteriors_beside_the_model_reach_no_lower_objective():
    """[Ganchev2010] eq. 35: q = p is one of the distributions that posterior regularisation may take."""
    shards, theta = rows(), 0.5 * np.random.default_rng(6).normal(size=ROWS.n_weights)
    plain, _ = evaluation(ROWS, shards, [], Expectations(1.0))(theta)
    missed = pose(ROWS, Local(shards), EStep(ACROSS))
    step = Step(ROWS, theta, 1.0, EStep(ACROSS))
    excess = missed.shards.sum(evaluate_criterion, step, Expectations(1.0)).stats.expectation.dense - missed.rows.bounds
    excess = np.where(np.arange(len(excess)) == 0, np.abs(excess), np.maximum(excess, 0))
    slack = [one.slack(penalty=1.5, norm="l1") for one in ACROSS]
    relaxed, _ = pose(ROWS, Local(shards), EStep(slack)).expect(Step(ROWS, theta, 1.0, EStep(slack)))
    assert relaxed.objective >= plain - 1.5 * excess.sum() - 1e-9
    assert relaxed.objective > plain - 1.5 * excess.sum() + 0.1


def test_structures_that_are_made_anew_give_the_same(monkeypatch):
    import spectrem.learning.posed_corpus as posed_corpus

    kept = run_ascent(ROWS, rows(10), ROWS.initial(), EStep(INSIDE), Expectations(3.0))
    monkeypatch.setattr(posed_corpus, "_MOST_PARTS", 0)
    anew = run_ascent(ROWS, rows(10), ROWS.initial(), EStep(INSIDE), Expectations(3.0))
    assert anew.posed.facts is not None
    assert np.array_equal(kept.params, anew.params)
    setting = (ROWS, kept.params, Expectations(3.0), EStep(INSIDE))
    _, own = report_expectations(anew.posed, *setting)
    _, its = report_expectations(kept.posed, *setting)
    assert own == its
    assert [summary.n_rows for summary in own] == [24, 18]  # six rows cannot have the label 0 anyway


def test_prices_of_a_report_are_the_derivatives_of_the_objective():
    constraints = [E[LABEL == 0] == 12.0, E[LABEL == 1] >= 11.0]

    def best(bound):
        estep = EStep([E[LABEL == 0] == bound, constraints[1]])
        return run_ascent(ROWS, rows(), ROWS.initial(), estep, Expectations(0.5)).history[-1].objective

    found = run_ascent(ROWS, rows(), ROWS.initial(), EStep(constraints), Expectations(0.5))
    reports, summaries = report_expectations(found.posed, ROWS, found.params, Expectations(0.5), EStep(constraints))
    assert not summaries
    slope = (best(12.001) - best(11.999)) / 0.002
    np.testing.assert_allclose(reports[0].price, [slope], rtol=1e-3)
    assert reports[1].price[0] > 0
    assert reports[1].sense[0] == ">="
    assert np.array_equal(reports[0].before, reports[0].after)


def test_records_are_handed_out_step_by_step_and_running_out_of_steps_is_said():
    seen = []
    few = LogLinearModel(Support(4, K), optimiser=Optimiser(max_steps=2))
    with pytest.warns(ConvergenceWarning, match="the objective still rose after 2 steps: raise m_steps or m_tol"):
        found = run_ascent(few, rows(), few.initial(), EStep(ACROSS), Expectations(1.0), on_iteration=seen.append)
    assert found.status is FitStatus.MAX_STEPS
    assert list(found.history) == seen
    assert len(seen) == 3
    assert seen[-1].objective > seen[0].objective
    np.testing.assert_allclose(seen[-1].log_prior, few.log_prior(found.params))


@pytest.mark.parametrize(
    ("constraint", "distance", "message"),
    [
        (
            ACROSS[0].slack(penalty=3, norm="l1").named("half"),
            "squares",
            "'half' has slack, which a criterion of expectations replaces; leave out",
        ),
        (INSIDE[0].slack(bound=0.1, norm="l1").named("two"), "squares", "'two' has slack"),
        (
            (E[LABEL == 0] - E[LABEL == 1] == 0).named("as many"),
            "divergence",
            r"'as many' must compare an expected number of at least 0 with a bound of at least 0 for a divergence, "
            r"got -\d.* in it; take distance='squares'",
        ),
        ((E[LABEL == 0] >= -1.0).per("row").named("more"), "divergence", "'more' must compare .* got -1 in it"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_named(constraint, distance, message):
    with pytest.raises(InvalidInputError, match=message):
        run_ascent(ROWS, rows(), ROWS.initial(), EStep([constraint]), Expectations(1.0, distance))


def test_structures_without_covariances_are_named():
    class Other(LogLinearModel):
        def structure(self, shard):
            found = super().structure(shard)
            return type("Tree", (), {name: getattr(found, name) for name in ("n_instances", "n_unary", "instance")})()

    with pytest.raises(InvalidInputError, match="criterion needs covariances of labels, which Tree does not have"):
        run_ascent(Other(Support(4, K)), rows()[:1], np.zeros(12), EStep([]), Expectations(1.0))


@pytest.mark.parametrize("strength", [0.0, -1.0, np.inf, np.nan])
def test_bad_strengths_are_named(strength):
    with pytest.raises(InvalidInputError, match=f"strength must be above 0 and finite, got {strength}"):
        Expectations(strength)


def test_bad_distances_are_named():
    with pytest.raises(InvalidInputError, match='distance must be "squares" or "divergence", got \'kl\''):
        Expectations(1.0, "kl")


def test_divergences_of_what_is_not_expected_at_all_stay_finite():
    block = compile_constraints(E[LABEL == 0] == 2.0, ROWS.structure(rows()[0])).blocks
    found = Expectations(1.0, "divergence").costs(block, np.zeros(1), np.full(1, 2.0))
    assert np.isfinite(found.cost).all()
    assert np.isfinite(found.price).all()
    nothing = Expectations(1.0, "divergence").costs(block, np.full(1, 3.0), np.zeros(1))
    assert (nothing.cost[0], nothing.price[0]) == (3.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Expectations(1.0, "divergence").costs(block, np.zeros(1), np.zeros(1)).price[0] == 1.0
