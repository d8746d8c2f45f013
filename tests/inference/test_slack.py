"""Slack terms: projections and proximal steps against quadratic programs, Moreau's identity, primal measures."""

import numpy as np
import pytest
import scipy.optimize as so
from enumerated import slack_cost, slack_norm
from hypothesis import given
from hypothesis import strategies as st

from spectrem.constraints.compilation.rows import Block, Rows, Slack
from spectrem.inference.dual import compile_slack
from spectrem.kernels.duals.spectral import project_l1_balls

DUAL = {"l1": "linf", "l2": "l2", "linf": "l1"}
EVERY = [(kind, norm) for kind in ("penalty", "bound") for norm in ("l1", "l2", "linf")]
every_slack = pytest.mark.parametrize(("kind", "norm"), EVERY)
every_sense = pytest.mark.parametrize("equality", [False, True], ids=["below", "equal"])


def terms_of(kind, norm, strength, group, equality):
    block = Block("b", 0, len(group), equality, "instance", Slack(kind, norm, strength), np.asarray(group), {})
    return compile_slack((block,), np.zeros(len(group), np.int64), 1)


def ball(values, radius):
    out = np.empty_like(values)
    even = np.ones(len(values))
    project_l1_balls(values, even, even, np.array([0, len(values)]), np.array([radius]), out)
    return out


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.floats(0, 4))
def test_l1_ball_projection_is_the_closest_point(values, radius):
    x = np.array(values)
    p = ball(x, radius)
    assert np.abs(p).sum() <= radius + 1e-12
    np.testing.assert_allclose(ball(p, radius), p, atol=1e-12)
    # variational inequality over the ball's corners: no corner lies on the far side of the tangent at p
    corners = radius * np.vstack([np.eye(len(x)), -np.eye(len(x))])
    assert ((x - p) @ (corners - p).T <= 1e-9).all()


def test_l1_ball_projection_ends_where_rounding_decides():
    # the support once alternated between one and two entries for ever
    p = ball(np.array([0.05833333333333335, 0.1]), 0.041666666666666664)
    np.testing.assert_allclose(p, [0.0, 0.041666666666666664], atol=1e-15)


def quadratic_program(x, step, kind, norm, strength, equality):
    """prox of one group by SLSQP: minimise |l - x|^2 / 2 + step * strength * t with the dual norm of l at most t."""
    n = len(x)
    dual = DUAL[norm]
    # l = up - down with both nonnegative, so that norms are smooth functions of them
    down_limit = None if equality else 0.0

    def split(z):
        return z[:n] - z[n : 2 * n], z[:n] + z[n : 2 * n], z[2 * n]

    def f(z):
        point, _, t = split(z)
        return 0.5 * ((point - x) ** 2).sum() + (step * strength * t if kind == "bound" else 0.0)

    def room(z):
        _, size, t = split(z)
        limit = strength if kind == "penalty" else t
        if dual == "linf":
            return limit - size
        if dual == "l1":
            return np.array([limit - size.sum()])
        return np.array([limit**2 - (size**2).sum()])

    bounds = [(0, None)] * n + [(0, down_limit)] * n + [(0, None)]
    start = np.concatenate([np.maximum(x, 0.0), np.maximum(-x, 0.0) if equality else np.zeros(n)])
    # The tip of an l2 cone is no regular point: SLSQP may call it the end. The best of several starts counts.
    found = [
        so.minimize(
            f,
            np.concatenate([share * start, [limit]]),
            method="SLSQP",
            bounds=bounds,
            constraints={"type": "ineq", "fun": room},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        for share, limit in ((1.0, 10.0), (1.0, np.linalg.norm(start)), (0.1, 0.2 * np.linalg.norm(start)))
    ]
    best = min((r for r in found if (room(r.x) >= -1e-7).all()), key=lambda r: r.fun)
    return split(best.x)[0]


@every_slack
@every_sense
@pytest.mark.parametrize("seed", [0, 1])
def test_prox_is_the_minimiser(kind, norm, equality, seed):
    rng = np.random.default_rng(seed)
    group = np.array([1, 0, 1, 1, 0])
    x, step = rng.normal(size=5) * 2, 0.8
    ours = terms_of(kind, norm, 1.1, group, equality).prox(x, np.full(5, step))
    for g in (0, 1):
        best = quadratic_program(x[group == g], step, kind, norm, 1.1, equality)
        np.testing.assert_allclose(ours[group == g], best, atol=1e-5)


@every_slack
@every_sense
@given(seed=st.integers(0, 2**32 - 1))
def test_projection_is_idempotent_and_feasible(kind, norm, equality, seed):
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(0, 3, 6))
    group = np.unique(group, return_inverse=True)[1]
    terms = terms_of(kind, norm, 0.9, group, equality)
    p = terms.project(rng.normal(size=6) * 3)
    np.testing.assert_allclose(terms.project(p), p, atol=1e-12)
    assert equality or (p >= 0).all()
    if kind == "penalty":
        for g in np.unique(group):
            assert slack_norm(np.abs(p[group == g]), DUAL[norm]) <= 0.9 + 1e-9


@every_sense
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@given(seed=st.integers(0, 2**32 - 1))
def test_bound_and_penalty_are_conjugate(norm, equality, seed):
    """Moreau: x+ = prox of the support function + projection on its ball, for the same norm's penalty and bound."""
    rng = np.random.default_rng(seed)
    group, x, step = np.array([0, 0, 0, 1, 1]), rng.normal(size=5) * 2, 0.7
    other = DUAL[norm]
    shrunk = terms_of("bound", norm, 1.3, group, equality).prox(x, np.full(5, step))
    inside = terms_of("penalty", other, step * 1.3, group, equality).project(x)
    np.testing.assert_allclose(shrunk + inside, x if equality else np.maximum(x, 0), atol=1e-12)


@every_slack
@every_sense
def test_dual_terms_and_primal_measures_are_the_definitions(kind, norm, equality):
    rng = np.random.default_rng(0)
    group, excess, multipliers = np.array([0, 1, 0, 1, 2]), rng.normal(size=5), rng.random(5)
    terms = terms_of(kind, norm, 0.4, group, equality)
    block = Block("b", 0, 5, equality, "instance", Slack(kind, norm, 0.4), group, {})
    cost, worst = slack_cost(Rows(None, excess, group, (block,)), excess)
    assert terms.cost(excess)[0] == pytest.approx(cost)
    assert terms.worst_violation(excess)[0] == pytest.approx(max(worst, 0.0))
    support = sum(0.4 * slack_norm(multipliers[group == g], DUAL[norm]) for g in range(3))
    assert terms.value(multipliers)[0] == pytest.approx(support if kind == "bound" else 0.0)


def test_only_penalised_multipliers_are_bounded():
    penalty = Block("p", 0, 2, True, "instance", Slack("penalty", "l2", 1.0), np.zeros(2, np.int64), {})
    free = Block("f", 2, 3, True, "instance", None, np.zeros(1, np.int64), {})
    terms = compile_slack((penalty, free), np.zeros(3, np.int64), 1)
    np.testing.assert_array_equal(terms.recession(np.ones(3)), [0.0, 0.0, 1.0])
    assert not terms.is_box


@pytest.mark.parametrize(("kind", "norm"), [("penalty", "l2"), ("penalty", "linf"), ("bound", "l2"), ("bound", "l1")])
@every_sense
@pytest.mark.parametrize("seed", range(4))
def test_tied_rows_may_take_steps_of_different_length(kind, norm, equality, seed):
    rng = np.random.default_rng(seed)
    n, group = 6, np.array([0, 0, 1, 1, 1, 1])
    step, values = 10.0 ** rng.uniform(-3, 3, n), rng.normal(size=n) * 10.0 ** rng.uniform(-2, 2, n)
    terms = terms_of(kind, norm, 0.7, group, equality)
    found = terms.prox(values, step)

    def cost(x):
        return terms.value(x)[0] + (((x - values) ** 2) / (2 * step)).sum()

    def inside(x):
        x = x if equality else np.maximum(x, 0.0)
        if kind == "bound":
            return x
        for g in range(2):
            length = slack_norm(np.abs(x[group == g]), DUAL[norm])
            x[group == g] *= min(1.0, 0.7 / length) if length > 0 else 1.0
        return x

    np.testing.assert_allclose(inside(found.copy()), found, rtol=1e-12)
    for _ in range(300):
        other = inside(found + rng.normal(size=n) * 10.0 ** rng.uniform(-6, 1) * np.sqrt(step))
        assert cost(other) >= cost(found) * (1 - 1e-12)
    for scale in (0.0, 0.5, 0.999, 1.001, 2.0):
        assert cost(inside(scale * found)) >= cost(found) * (1 - 1e-12)
