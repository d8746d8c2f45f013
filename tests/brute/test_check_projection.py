"""check_projection passes what is right, at every scale, and notices what is not."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from check_projection import check_projection

from spectrem.constraints import E, linear, part
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Status
from spectrem.structures import Alignment, Categorical, Chain, Chain2, Parts, Product
from spectrem.testing import enumerate_structures

module = importlib.import_module("check_projection")
VERB = (E[part("tag") == 1] >= 1).per("sentence").named("verb")
CHAIN = Chain([1, 3, 2], n_states=3)
INFINITE = float("inf")


@pytest.mark.parametrize("slack", [None, *({kind: 0.3, "norm": norm} for kind in ("penalty", "bound")
                                           for norm in ("l1", "l2", "linf"))], ids=str)  # fmt: skip
@pytest.mark.parametrize(
    ("structure", "rule"),
    [
        (Categorical([2, 3, 3]), (E[...] <= 1).per("label")),
        (Categorical([3, 3, 3]), E[part("label") == 0] == 1.5),
        (CHAIN, VERB),
        (CHAIN, (E[...] >= 1).per("tag")),
        (Chain2([2, 3], n_states=2), E[part("tag") == 1].between(1.2, 2.3)),
        (Alignment([2, 1], [2, 2], max_jump=1), (E[part("source") != -1] <= 1).per("sentence", "source")),
    ],
    ids=["labels", "sum", "chain", "corpus", "trigrams", "links"],
)
def test_what_is_right_passes(structure, rule, slack):
    rule = rule if slack is None else rule.slack(**slack)
    found = check_projection(rule, structure)
    assert set(found) == {0.0, 0.2, 1.0, 3.0} | ({-INFINITE} if slack is None or slack["norm"] != "l2" else set())
    assert any(result is not None for result in found.values())


def test_products_and_several_constraints():
    both = Product({"forward": Alignment([2], [1]), "backward": Alignment([1], [2], reverse=True)}, name="direction")
    rules = [(E[part("source") != -1] <= 1).per("sentence", "source"), E[part("source") == -1] <= 2.5]
    assert None not in check_projection(rules, both).values()


def random_case(seed):
    """Rows with an inner point, or near one, in all senses, scopes and kinds of slack; of one size or of many."""
    rng = np.random.default_rng(seed)
    structure = [
        lambda: Categorical(rng.integers(1, 5, rng.integers(1, 6))),
        lambda: Chain(rng.integers(1, 4, rng.integers(1, 3)).tolist(), n_states=int(rng.integers(2, 4))),
        lambda: Alignment(rng.integers(1, 3, 2), rng.integers(1, 3, 2), max_jump=[None, 2][seed % 2]),
    ][seed % 3]()
    unit = 10.0 ** rng.choice([0, 0, 1, -3, -9])
    scores = Parts(
        unit * rng.normal(size=structure.n_unary), tuple(unit * rng.normal(size=s) for s in structure.factor_shapes)
    )
    inner = np.zeros(structure.n_unary)
    for i in range(structure.n_instances):
        members = np.array([h.unary for h in enumerate_structures(structure, i)])
        inner += rng.dirichlet(np.full(len(members), 0.5)) @ members
    size = [1.0, 10.0 ** rng.uniform(-9, 9), None][rng.integers(3)]
    rules = []
    for _ in range(rng.integers(1, 4)):
        n_rows, sense, scope = rng.integers(1, 4), rng.choice(["<=", ">=", "=="]), rng.choice(["instance", "corpus"])
        owner = np.arange(structure.n_instances) if scope == "instance" else np.array([-1])
        matrix = np.array(
            [
                np.where((structure.instance == i) | (i < 0), rng.integers(-1, 3, structure.n_unary), 0)
                for i in owner
                for _ in range(n_rows)
            ]
        )
        matrix = matrix[matrix.any(axis=1)]
        if not len(matrix):
            continue
        bounds = matrix @ inner + {"<=": 1, ">=": -1, "==": 0}[sense] * rng.choice([0, 0.05, 0.3], len(matrix))
        if seed % 5 == 0:
            bounds = bounds + 10.0 ** rng.uniform(-3, 0) * rng.normal(size=len(matrix))
        scale = np.full(len(matrix), size) if size else 10.0 ** rng.uniform(-3, 3, len(matrix))
        rule = linear(scale[:, None] * matrix, scale * bounds, sense, scope=scope)
        if rng.random() < 0.5:
            kind, norm, strength = (
                rng.choice(["penalty", "bound"]),
                rng.choice(["l1", "l2", "linf"]),
                rng.uniform(0.1, 3),
            )
            strength *= (size or 1.0) if kind == "bound" else unit / (size or 1.0)
            rule = rule.slack(**{kind: float(strength)}, norm=norm)
        rules.append(rule)
    return structure, scores, rules


@pytest.mark.parametrize("seed", range(75))
def test_projections_at_random(seed):
    structure, scores, rules = random_case(seed)
    check_projection(rules, structure, scores)


def changed(**how):
    def wrong(structure, scores, rows, gamma, **options):
        result = PROJECT(structure, scores, rows, gamma, **options)
        return replace(result, **{name: change(getattr(result, name)) for name, change in how.items()})

    return wrong


def refuses(structure, scores, rows, gamma, **options):
    raise InfeasibleConstraintError("no")


def ignores(structure, scores, rows, gamma, **options):
    return replace(PROJECT(structure, scores, None, gamma, **options), multipliers=np.zeros(len(rows.bounds)))


PROJECT = module.project_batch
SOME = {"verb": VERB, "slack": VERB.slack(penalty=0.2, norm="l1"), "sum": E[part("tag") == 2] == 2.5}


@pytest.mark.parametrize(
    ("wrong", "gamma", "rule", "told"),
    [
        (changed(dual_value=lambda v: v + 1e-4), 1.0, "verb", "at gamma = 1, the dual value is"),
        (changed(primal_value=lambda v: v - 1e-4), 0.0, "verb", "at gamma = 0, the primal value is"),
        (changed(dual_value=lambda v: v + 1e-4), -INFINITE, "verb", "at gamma = -inf, the dual value is"),
        (changed(multipliers=lambda x: x * 0.99), 0.2, "verb", "marginals are"),
        (changed(multipliers=lambda x: -x), 1.0, "verb", "a multiplier leaves the set"),
        (changed(multipliers=lambda x: x + 1.0), 1.0, "slack", "a multiplier leaves the set"),
        (changed(marginals=lambda m: Parts(m.unary**1.01, m.factors)), 3.0, "sum", "marginals are"),
        (changed(marginals=lambda m: Parts(m.unary * 0.999, m.factors)), 0.0, "sum", "rows are violated by"),
        (changed(marginals=lambda m: Parts(m.unary, (0.9 * m.factors[0],))), 0.0, "sum", "the score of the marginals"),
        (changed(status=lambda s: Status.MAX_ITERATIONS), 1.0, "verb", "ran out of iterations"),
        (refuses, 1.0, "verb", "distributions that meet the rows were refused: no"),
        (refuses, -INFINITE, "verb", "structures that meet the rows were refused: no"),
        (ignores, 1.0, "sum", "rows are violated by"),
        (ignores, 0.0, "sum", "rows are violated by"),
        (ignores, -INFINITE, "sum", "the rows cannot be met, and the status is"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_noticed(monkeypatch, wrong, gamma, rule, told):
    check_projection(SOME[rule], CHAIN, gammas=[gamma])
    monkeypatch.setattr(module, "project_batch", wrong)
    with pytest.raises(AssertionError, match=told):
        check_projection(SOME[rule], CHAIN, gammas=[gamma])


def test_an_infeasible_problem_that_is_not_told_is_noticed(monkeypatch):
    never = (E[part("tag") == 1] >= 4).per("sentence")
    assert set(check_projection(never, CHAIN).values()) == {None}
    monkeypatch.setattr(module, "project_batch", ignores)
    for gamma, told in ((1.0, "and cannot be met"), (0.0, "cannot be met"), (-INFINITE, "cannot be met")):
        with pytest.raises(AssertionError, match=told):
            check_projection(never, CHAIN, gammas=[gamma])


def test_a_wrong_decision_is_noticed(monkeypatch):
    rule, labels = E[part("label") == 1] == 1, Categorical([2, 2, 2])
    check_projection(rule, labels, gammas=[-INFINITE])
    assign = module.assign
    monkeypatch.setattr(module, "assign", lambda *given: replace(assign(*given), score=0.1))
    with pytest.raises(AssertionError, match=r"the score of the labels decided on is 0\.1, and by brute force"):
        check_projection(rule, labels, gammas=[-INFINITE])


def test_too_many_structures_and_none():
    with pytest.raises(InvalidInputError, match="at most 200000 joint choices for gamma = -inf, got"):
        check_projection(E[part("label") == 1] == 1, Categorical([2] * 20), gammas=[-INFINITE])
    with pytest.raises(InvalidInputError, match="scores of instance 1 must leave at least one structure possible"):
        check_projection(E[...] <= 9, Categorical([1, 1]), Parts(np.array([0.0, -np.inf])))
