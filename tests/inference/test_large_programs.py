"""Large linear relaxations by column generation: the same optimum as the whole program's, with its certificate."""

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem.constraints import E, linear, part
from spectrem.constraints.compilation.compile import compile_constraints
from spectrem.constraints.compilation.rows import Rows
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError
from spectrem.inference import Status, project_batch
from spectrem.inference.dual import BatchDual
from spectrem.inference.program import Deadline, ProblemPrograms
from spectrem.inference.solvers import linear_program
from spectrem.inference.solvers.linear_program import LinearProgram, follow_temperatures, solve_by_columns
from spectrem.structures import Categorical, Parts

LABEL = part("label")
N, K = 400, 8


def table(seed, impossible=0.1):
    rng = np.random.default_rng(seed)
    scores = np.log(np.maximum(rng.dirichlet(np.full(K, 0.3), N), 1e-8))
    scores[(rng.random((N, K)) < impossible) & (np.arange(K) != scores.argmax(axis=1)[:, None])] = -np.inf
    return Categorical(np.full(N, K)), Parts(scores.ravel())


def features(seed, scores, share=0.6, n_rows=60):
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((n_rows, N * K), density=0.01, rng=rng, format="csr")
    matrix.data = np.rint(1 + 2 * matrix.data)
    return linear(matrix, share * (matrix @ np.exp(scores.unary)), name="features")


RULES = {
    "at most": [(E[...] <= 52).per("label")],
    "equal": [E[LABEL == 0] == 61.5, E[LABEL == 3] == 40, (E[...] >= 38).per("label")],
    "penalty": [(E[...] <= 45).per("label").slack(penalty=0.7, norm="l1"), E[LABEL == 1] >= 50],
    "largest": [(E[...] == 50).per("label").slack(penalty=2, norm="linf")],
    "bound": [(E[...] <= 48).per("label").slack(bound=20, norm="l1"), (E[...] >= 46).per("label")],
    "inside": [(E[LABEL <= 1] <= 0.4).per("instance"), E[LABEL == 2] >= 90.25],
}


def both_ways(monkeypatch, *arguments, **options):
    fast = project_batch(*arguments, 0.0, **options)
    monkeypatch.setattr(linear_program, "_LARGE", 10**9)
    whole = project_batch(*arguments, 0.0, **options)
    monkeypatch.undo()
    return fast, whole


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("rules", RULES)
def test_the_optimum_is_that_of_the_whole_program(rules, weighted, monkeypatch):
    structure, scores = table(0)
    rows = compile_constraints([*RULES[rules], features(1, scores)], structure)
    weights = np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.0], N) if weighted else None
    if weighted and rules not in ("penalty", "largest"):
        rows = compile_constraints([features(1, scores), (E[LABEL == 2] >= 70).slack(penalty=3)], structure)
    fast, whole = both_ways(monkeypatch, structure, scores, rows, weights=weights)
    assert fast.status == whole.status == Status.SOLVED
    assert fast.primal_value == pytest.approx(whole.primal_value, rel=1e-9)
    assert fast.dual_value == pytest.approx(fast.primal_value, rel=1e-8)
    assert fast.violation < 1e-8
    np.testing.assert_allclose(fast.marginals.unary.reshape(N, K).sum(axis=1), 1.0, atol=1e-9)
    assert (fast.marginals.unary[np.isneginf(scores.unary)] == 0).all()


def test_programs_hold_few_labels():
    structure, scores = table(0, impossible=0.0)
    dual = BatchDual(structure, scores, compile_constraints(RULES["equal"], structure), 0.0)
    problem = ProblemPrograms(dual).write(0)
    program, owner, unit = problem.program, problem.owner, problem.row * problem.unit
    warm, gamma = follow_temperatures(dual)
    found = solve_by_columns(program, owner, warm.multipliers / unit, 6 * gamma / problem.unit, 1e-8, Deadline(None))
    bound = dual.evaluate(found.prices * unit, np.ones(1, bool)).value[0]
    assert -found.cost * problem.unit == pytest.approx(bound, rel=1e-9)
    # far from the optimum, too, it comes to the same end
    lost = solve_by_columns(program, owner, np.zeros_like(found.prices), 0.0, 1e-8, Deadline(None))
    assert lost.cost == pytest.approx(found.cost, rel=1e-9)


def test_rows_that_conflict_are_found_on_the_way():
    structure, scores = table(0)
    rows = compile_constraints([features(1, scores), (E[...] >= 51).per("label").named("sizes")], structure)
    with pytest.raises(InfeasibleConstraintError, match=r"'sizes': .* sum to 408, and together they can reach 400"):
        project_batch(structure, scores, rows, 0.0)
    dual = BatchDual(structure, scores, rows, 0.0)
    problem = ProblemPrograms(dual).write(0)
    nothing = np.zeros(len(rows.bounds))
    # no price of a violation makes the rows hold: the whole program has to show that nothing does
    assert solve_by_columns(problem.program, problem.owner, nothing, 1.0, 1e-8, Deadline(None)) is None


def test_many_rows(monkeypatch):
    structure, scores = table(3)
    rows = compile_constraints(features(4, scores, n_rows=230), structure)
    fast, whole = both_ways(monkeypatch, structure, scores, rows)
    assert fast.primal_value == pytest.approx(whole.primal_value, rel=1e-9)
    assert fast.status == Status.SOLVED


def words(n, n_words, scale=1.0, **more):
    """Tokens of words: of those of one word, no label takes more than half and a bit."""
    rng = np.random.default_rng(0)
    labels = Categorical(np.full(n, 3))
    word = rng.integers(0, n_words, n)
    scores = np.log(rng.dirichlet(np.ones(3), n)) * np.where(word % 2, scale, 1.0)[:, None]
    half = (E[...] <= 0.5 * E.count(...) + 0.3).per("word", "label").named("half")
    return labels, Parts(scores.ravel()), compile_constraints([half, *more.values()], labels, {"word": word})


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_thousands_of_small_problems_are_solved_exactly_and_few_programs_run(monkeypatch, scale):
    labels, scores, rows = words(6000, 2500, scale)
    assert len(rows.bounds) > 5000
    programs = []
    run = linear_program.run_linear
    monkeypatch.setattr(linear_program, "run_linear", lambda *given: (programs.append(1), run(*given))[1])
    result = project_batch(labels, scores, rows, 0.0)
    assert result.status == Status.SOLVED
    assert result.violation <= 1e-7
    assert result.primal_value == pytest.approx(result.dual_value, abs=1e-6)
    small = Parts(np.where(np.abs(scores.unary) < 1e-6, scores.unary, 0.0)) if scale < 1 else scores
    own = project_batch(labels, small, rows, 0.0)
    assert own.status <= Status.SOLVED
    assert own.primal_value == pytest.approx(own.dual_value, abs=1e-8 * abs(own.dual_value))
    assert 2 <= len(programs) <= 40


def test_one_infeasible_problem_among_thousands_is_named():
    labels, scores, rows = words(6000, 2500)
    bounds = rows.bounds.copy()
    word = rows.blocks[0].keys["word"]
    few = np.flatnonzero(word == 1234)
    bounds[few] = 0.2 * bounds[few]
    rows = Rows(rows.matrix, bounds, rows.row_instance, rows.blocks)
    with pytest.raises(InfeasibleConstraintError, match="'half': no feasible q in word 1234, label 0"):
        project_batch(labels, scores, rows, 0.0)


def test_thousands_of_rows_that_are_one_problem_are_solved_exactly():
    labels, scores, rows = words(20_000, 2500, totals=(E[...] <= 7400).per("label").named("totals"))
    result = project_batch(labels, scores, rows, 0.0)
    assert len(rows.bounds) > 5000
    assert BatchDual(labels, scores, rows, 0.0).n_problems == 1
    assert result.status == Status.SOLVED
    assert result.violation <= 1e-7
    assert result.primal_value == pytest.approx(result.dual_value, abs=1e-4)


def test_problems_beyond_the_limit_end_open_and_say_so():
    labels, scores, rows = words(600, 30)
    open_ended = LinearProgram(most_rows=2)
    with pytest.warns(ConvergenceWarning, match="ran out of iterations"):
        result = project_batch(labels, scores, rows, 0.0, solver=open_ended)
    assert result.status == Status.MAX_ITERATIONS
    assert result.residual > 1e-8
    exact = project_batch(labels, scores, rows, 0.0)
    assert exact.status == Status.SOLVED
    assert result.dual_value >= exact.dual_value - 1e-9
