"""Constraints over several shards at gamma = 0 and minus infinity: what one batch gives, or an honest word."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from estep_helpers import of_corpus
from toy_models import Tagger, join, random_params, random_shards

from spectrem.constraints import E, compile_constraints, part
from spectrem.corpus import Local
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference import project_batch
from spectrem.inference.corpus import choice, dual
from spectrem.learning import Constant, EStep, Step, Stopping, pose, run_em

ONES = E[part("tag") == 1]
RULES = {
    "equal": [ONES == 9],
    "at most": [ONES <= 7],
    "slack": [(ONES == 9).slack(penalty=0.3, norm="l1")],
    "two": [ONES == 9, E[(part("tag") == 0) & (part("token") == 0)] >= 8],
    "inside too": [ONES == 25, (ONES >= 1).per("sentence")],
}


class Counting(Tagger):
    """Statistics are the expected number of tokens of every tag."""

    def gather(self, params, shard, marginals):
        weight = np.repeat(shard.weights, shard.lengths)[:, None]
        return (marginals.unary.reshape(-1, self.n_states) * weight).sum(axis=0)


def problem(n_shards=5, seed=3):
    rng = np.random.default_rng(seed)
    params, shards = random_params(rng), random_shards(rng, n_shards)
    return params, [shard._replace(weights=np.ones(len(shard.lengths))) for shard in shards]


def whole(params, shards, rules, gamma):
    one, model = join(shards), Tagger()
    structure = model.structure(one)
    return project_batch(structure, model.scores(params, one), compile_constraints(rules, structure), gamma)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("n_shards", [1, 2, 5])
def test_at_gamma_zero_shards_mix_to_the_linear_program(name, n_shards):
    params, shards = problem(5)
    oracle = whole(params, shards, RULES[name], 0.0)
    shards = {1: [join(shards)], 2: [join(shards[:3]), join(shards[3:])], 5: shards}[n_shards]
    found = of_corpus(Counting(), EStep(RULES[name]), shards, params, 0.0)
    assert found.objective == pytest.approx(oracle.primal_value, rel=1e-7)
    assert found.violation < 1e-6
    if name == "equal":
        assert found.stats[1] == pytest.approx(9.0, abs=1e-6)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("n_shards", [1, 5])
def test_at_minus_infinity_structures_are_whole(name, n_shards):
    params, shards = problem(5)
    oracle = whole(params, shards, RULES[name], -np.inf)
    shards = shards if n_shards == 5 else [join(shards)]
    found = of_corpus(Counting(), EStep(RULES[name]), shards, params, -np.inf)
    assert found.objective == pytest.approx(oracle.primal_value, rel=1e-6)
    np.testing.assert_allclose(found.stats, np.round(found.stats), atol=1e-9)
    assert name == "slack" or found.violation < 1e-9


@pytest.mark.parametrize("gamma", [-np.inf, 0.0])
def test_hard_em_climbs_under_rows_over_the_corpus(gamma):
    params, shards = problem(5)
    result = run_em(
        Tagger(), Local(shards, 2), params, EStep([ONES == 9]), schedule=Constant(gamma), stopping=Stopping(4)
    )
    values = np.array([record.objective for record in result.history])
    assert (np.diff(values) >= -1e-6 * np.abs(values[1:])).all()
    assert max(record.violation for record in result.history) < 1e-6


@pytest.mark.parametrize("gamma", [-np.inf, 0.0])
def test_what_cannot_hold_is_an_error_at_every_gamma(gamma):
    params, shards = problem(5)
    with pytest.raises(InfeasibleConstraintError, match=r"'far too many': .* over the corpus"):
        of_corpus(Counting(), EStep([(ONES >= 1000).named("far too many")]), shards, params, gamma)


def test_whole_structures_cannot_make_halves():
    params, shards = problem(5)
    with pytest.raises(InfeasibleConstraintError, match="whole structures"):
        of_corpus(Counting(), EStep([ONES == 8.5]), shards, params, -np.inf)


def test_few_steps_do_not_hide_what_cannot_hold():
    params, shards = problem(5)
    with pytest.raises(InfeasibleConstraintError, match="'far too many': no feasible q over the corpus"):
        run_em(Tagger(), shards, params, EStep([(ONES >= 1000).named("far too many")], dual_steps=3))


def test_too_few_steps_are_warned_of():
    params, shards = problem(5)
    with pytest.warns(ConvergenceWarning, match=r"over the corpus are still missed by .* raise dual_steps"):
        run_em(Tagger(), shards, params, EStep([ONES == 9], dual_steps=1), stopping=Stopping(1))


@pytest.mark.parametrize("final", [False, True], ids=["iteration", "posteriors"])
@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_posteriors_that_miss_rows_are_warned_of_whatever_the_program_says(monkeypatch, gamma, final):
    """What is measured is what shards make of the program's answer: here they get prices of zero."""
    params, shards = problem(5)

    def without_prices(solve, *arguments, **named):
        mixture = solve(*arguments, **named)
        return replace(mixture, points=0.0 * mixture.points[:1], weights=np.ones((1, 1)), choices=())

    room, name = (dual, "solve_corpus_program") if gamma == 0 else (choice, "choose_structures")
    monkeypatch.setattr(room, name, partial(without_prices, getattr(room, name)))
    estep = EStep([ONES == 9])
    posed, step = pose(Counting(), Local(shards), estep), Step(Counting(), params, gamma, estep)
    with pytest.warns(ConvergenceWarning, match=r"over the corpus are not solved \(violation \d"):
        posed.at_prices(step) if final else posed.expect(step)


def test_groups_and_rows_over_the_corpus_have_no_whole_structures_together():
    params, shards = problem(2)

    class Documents(Counting):
        def columns(self, shard):
            return {"document": np.arange(len(shard.lengths)) // 2 + 10 * int(shard is shards[1])}

    rules = [(ONES <= 3).per("document").named("three a document"), ONES == 9]
    found = of_corpus(Documents(), EStep(rules), shards, params, 0.0)
    assert found.stats[1] == pytest.approx(9.0, abs=1e-6)
    with pytest.raises(InvalidInputError, match="gamma must be at least 0 where 'three a document' ties instances"):
        of_corpus(Documents(), EStep(rules), shards, params, -np.inf)
