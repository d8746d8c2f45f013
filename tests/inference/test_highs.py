"""Programs end within their time, share the time of a call, and have no variable without an end."""

from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.optimize import OptimizeResult

from spectrem import E, Lattice, part
from spectrem import project as project_table
from spectrem.constraints import compile_constraints
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Status, batch, program, project_batch
from spectrem.inference.program import INFEASIBLE, OPTIMAL, OUT_OF_TIME, Deadline, Program, run_integer, run_linear
from spectrem.structures import Categorical, Parts

LABEL = part("label")
ONE = Program(np.ones(1), np.ones(1), sp.csr_array((0, 1)), np.zeros(0), np.zeros(0, bool))


def triangles(n):
    """Triangles of rows of which no two may have label 1: problems whose linear programs have fractions."""
    structure = Categorical([2] * 3 * n)
    matrix, bounds = [], []
    for i in range(n):
        for a, b in ((0, 1), (0, 2), (1, 2)):
            row = np.zeros(6 * n)
            row[[2 * (3 * i + a) + 1, 2 * (3 * i + b) + 1]] = 1.0
            matrix.append(row)
            bounds.append(1.0)
    rows = compile_constraints(E[LABEL == 1] <= 0, structure)
    block = replace(rows.blocks[0], stop=len(bounds), slack_group=np.zeros(len(bounds), np.int64), keys={})
    rows = replace(
        rows,
        matrix=sp.csr_array(np.array(matrix)),
        bounds=np.array(bounds),
        row_instance=np.full(len(bounds), -1),
        blocks=(block,),
    )
    return structure, Parts(np.tile([0.0, 1.0], 3 * n)), rows


@pytest.fixture
def programs(monkeypatch):
    """What HiGHS is given: the upper ends of all variables, and the options."""
    seen = []
    for name in ("linprog", "milp"):
        real = getattr(scipy.optimize, name)

        def watched(*args, real=real, **given):
            bounds = given["bounds"]
            seen.append((np.asarray(bounds.ub if hasattr(bounds, "ub") else bounds[:, 1]), given["options"]))
            return real(*args, **given)

        monkeypatch.setattr(scipy.optimize, name, watched)
    return seen


def test_a_program_over_which_presolve_loops():
    half = (E[LABEL == 0] == 0.5).per("label").slack(bound=0.5, norm="l1")
    table = project_table([[0.6, 0.4]], half)
    with pytest.raises(InfeasibleConstraintError, match="whole structures cannot; no subset of these rows conflicts"):
        table.decide()


@pytest.mark.parametrize("kind", ["penalty", "bound"])
@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_variables_have_finite_ends_that_are_never_met(programs, kind, norm, gamma):
    rng = np.random.default_rng(0)
    structure = Categorical([3] * 6)
    rules = [
        (E[LABEL.isin([0, 1])] == 2.5).slack(**{kind: 1.0}, norm=norm),
        (E[...] <= 1).per("label").slack(**{kind: 3.0}, norm=norm),
        E[LABEL.isin([1, 2])] >= 4,
    ]
    scores = Parts(rng.normal(size=18))
    rows = compile_constraints(rules, structure)
    found = project_batch(structure, scores, rows, gamma)
    infeasible = [*rules, E[LABEL == 0] >= 5]
    with pytest.raises(InfeasibleConstraintError):
        project_batch(structure, scores, compile_constraints(infeasible, structure), gamma)
    assert found.status in (Status.CERTIFIED, Status.SOLVED)
    assert len(programs) > 2
    assert all(np.isfinite(upper).all() for upper, _ in programs)


@pytest.mark.parametrize("run", [run_linear, lambda *args: run_integer(args[0], 1, args[1])])
def test_a_program_that_does_not_come_back_is_given_up(monkeypatch, run):
    released, ended = Event(), Event()

    def stuck(*args, **options):
        released.wait()
        ended.set()

    for name in ("linprog", "milp"):
        monkeypatch.setattr(scipy.optimize, name, stuck)
    monkeypatch.setattr(program, "_GRACE", 0.0)
    outcome = run(ONE, 0.0)
    assert (outcome.status, outcome.x) == (OUT_OF_TIME, None)
    assert outcome.message == "HiGHS did not return within its time"
    assert not ended.is_set()
    released.set()
    assert ended.wait()


def test_errors_inside_a_program_are_those_of_the_caller(monkeypatch):
    def wrong(*args, **options):
        raise ValueError("wrong")

    monkeypatch.setattr(scipy.optimize, "linprog", wrong)
    with pytest.raises(ValueError, match="wrong"):
        run_linear(ONE, np.inf)


def test_presolve_is_left_out_where_it_breaks_down(monkeypatch):
    presolve = []

    def broken(*args, options, **given):
        presolve.append(options["presolve"])
        return OptimizeResult(x=None, status=4, message="no")

    monkeypatch.setattr(scipy.optimize, "milp", broken)
    assert run_integer(ONE, 1, np.inf).status == 4
    assert presolve == [True, False]


def test_nothing_to_choose():
    def program(equal_to, limit):
        n = len(equal_to) + len(limit)
        equality = np.arange(n) < len(equal_to)
        return Program(np.zeros(0), np.zeros(0), sp.csr_array((n, 0)), np.array(equal_to + limit), equality)

    assert run_linear(program([0.0], [1.0]), 1.0).status == OPTIMAL
    assert run_linear(program([1.0], [1.0]), 1.0).status == INFEASIBLE
    assert run_integer(program([0.0], [-1.0]), 0, 1.0).status == INFEASIBLE


@pytest.mark.parametrize("bad", [-1, np.nan, "3", True])
def test_time_limits_that_are_none(bad):
    with pytest.raises(InvalidInputError, match=r"time_limit must be a number of seconds >= 0, got .*; leave None"):
        Deadline(bad)
    table = project_table([[0.6, 0.4]], E[LABEL == 0] == 1)
    with pytest.raises(InvalidInputError, match="time_limit must be a number"):
        table.decide(time_limit=bad)
    with pytest.raises(InvalidInputError, match="time_limit must be a number"):
        project_table([[0.6, 0.4]], E[LABEL == 0] == 1, -np.inf, time_limit=bad)


def test_the_programs_of_a_call_share_its_time(monkeypatch, programs):
    structure, scores, rows = triangles(3)
    now = [0.0]
    monkeypatch.setattr(program.time, "monotonic", lambda: now[0])
    real = scipy.optimize.milp

    def slow(*args, **given):
        now[0] += 4.0
        return real(*args, **given)

    monkeypatch.setattr(scipy.optimize, "milp", slow)
    found = project_batch(structure, scores, rows, -np.inf, time_limit=100.0)
    assert found.primal_value == pytest.approx(3.0)
    assert [options["time_limit"] for _, options in programs] == [100.0, 96.0, 92.0]
    programs.clear()
    project_batch(structure, scores, rows, -np.inf)
    assert [options["time_limit"] for _, options in programs] == [300.0, 296.0, 292.0]


def test_the_programs_of_a_lattice_share_the_time_of_its_decision(programs):
    rng = np.random.default_rng(0)
    lattice = Lattice([rng.normal(size=(3, 2)) for _ in range(2)], rng.normal(size=(2, 2)))
    table = project_table(lattice, E[(LABEL == 1) * part("token")] <= 1.5)
    programs.clear()
    table.decide(time_limit=7.0)
    assert programs
    assert all(options["time_limit"] <= 7.0 for _, options in programs)


def test_linear_programs_out_of_time_leave_the_average(monkeypatch):
    def hurried(*args, **given):
        return OptimizeResult(x=None, status=1, message="time")

    structure, scores, rows = triangles(1)
    monkeypatch.setattr(scipy.optimize, "linprog", hurried)
    with pytest.warns(ConvergenceWarning, match="1 of 1 constrained problems"):
        found = project_batch(structure, scores, rows, 0.0, max_iter=3)
    assert found.status == Status.MAX_ITERATIONS
    np.testing.assert_allclose(found.marginals.unary.reshape(-1, 2).sum(axis=1), 1.0)
    assert found.dual_value >= 1.5 - 1e-9


def test_integer_programs_out_of_time(monkeypatch):
    structure, scores, rows = triangles(2)
    real = batch.run_integer

    def best_so_far(*args):
        return replace(real(*args), status=OUT_OF_TIME, bound=-np.inf)

    monkeypatch.setattr(batch, "run_integer", best_so_far)
    with pytest.warns(ConvergenceWarning, match="raise time_limit, or give"):
        found = project_batch(structure, scores, rows, -np.inf)
    assert found.status == Status.MAX_ITERATIONS
    assert found.primal_value == pytest.approx(2.0)
    assert 3.0 - 1e-6 <= found.dual_value < np.inf
    monkeypatch.setattr(batch, "run_integer", lambda *args: program.Outcome(OUT_OF_TIME, message="late"))
    with pytest.raises(
        InvalidInputError,
        match=r"no structures that meet the constraints were found within time_limit=9 seconds \(late; 2 of 2 problems "
        r"are left\); allow more time, give the constraints slack, or use gamma = 0",
    ):
        project_batch(structure, scores, rows, -np.inf, time_limit=9)
