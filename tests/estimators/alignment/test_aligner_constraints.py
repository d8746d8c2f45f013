"""WordAligner under hard E-steps, exact duals, constraints of one's own, and alpha."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from aligner_helpers import clone_fitted, make, same_params

from spectrem import E, agreement, fertility, part
from spectrem.datasets import make_bitext
from spectrem.exceptions import InfeasibleConstraintError

TINY = SimpleNamespace(source=["a b c", "b d", "c", ""], target=["x y z", "y w", "z v", "x"])


@pytest.mark.parametrize("constraints", [(), ("agreement",), ("fertility",), ("agreement", "fertility")])
@pytest.mark.parametrize("gamma", [0.0, -math.inf])
def test_hard_e_steps(gamma, constraints):
    bitext = TINY
    aligner = make(gamma=gamma, constraints=constraints, max_iter=2, dual_steps=0).fit(bitext.source, bitext.target)
    assert aligner.history_[-1].gamma == gamma
    assert aligner.history_[-1].violation <= 1e-6
    posteriors = aligner.predict_proba(bitext.source, bitext.target)
    for forward, backward in zip(posteriors.forward, posteriors.backward, strict=True):
        if gamma == -math.inf:
            assert set(np.unique(forward)) <= {0.0, 1.0}
        if "agreement" in constraints:
            np.testing.assert_allclose(forward, backward, atol=1e-6)
        if "fertility" in constraints:
            assert (forward.sum(axis=1) <= 1 + 1e-6).all()
            assert (backward.sum(axis=0) <= 1 + 1e-6).all()
    assert aligner.predict(bitext.source, bitext.target).n_links > 0


def test_gamma_zero_with_fixed_steps_is_the_papers_codl():
    bitext = make_bitext(10, seed=5)
    aligner = make(gamma=0.0, max_iter=2).fit(bitext.source, bitext.target)
    posteriors = aligner.predict_proba(bitext.source, bitext.target)
    assert set(np.unique(np.concatenate([m.ravel() for m in posteriors.forward]))) <= {0.0, 1.0}


def test_no_projection_at_decode_for_hard_gammas():
    bitext = TINY
    for gamma in (0.0, -math.inf):
        aligner = make(gamma=gamma, project_at_predict=False, max_iter=1).fit(bitext.source, bitext.target)
        posteriors = aligner.predict_proba(bitext.source, bitext.target)
        best = clone_fitted(aligner, decode="forward").predict(bitext.source, bitext.target)
        for n, matrix in enumerate(posteriors.forward):
            assert best.pairs(n) == [tuple(cell) for cell in np.argwhere(matrix == 1.0).tolist()]


def test_exact_duals_are_what_many_fixed_steps_approach():
    bitext = make_bitext(8, seed=7)
    options = {"max_iter": 1, "model1_iterations": 3, "model": "ibm2"}
    exact = make(dual_steps=0, **options).fit(bitext.source, bitext.target)
    many = make(dual_steps=3000, step_size=0.5, **options).fit(bitext.source, bitext.target)
    few = make(dual_steps=1, step_size=0.5, **options).fit(bitext.source, bitext.target)
    assert exact.history_[-1].violation < 1e-5
    assert many.history_[0].objective == pytest.approx(exact.history_[0].objective, rel=1e-6)
    assert few.history_[0].objective > exact.history_[0].objective + 1e-3


def test_constraints_made_with_e_are_those_with_a_name():
    bitext = make_bitext(10, seed=8)
    named, made = (
        make(constraints=constraints, max_iter=2, max_fertility=0.9).fit(bitext.source, bitext.target)
        for constraints in (("agreement", "fertility"), (agreement(), fertility(0.9)))
    )
    same_params(named, made, rtol=1e-6)
    a, b = (aligner.predict_proba(bitext.source, bitext.target).average for aligner in (named, made))
    for one, other in zip(a, b, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-8)


def test_a_constraint_of_ones_own():
    bitext = make_bitext(20, seed=9)
    few_nulls = (E[(part("direction") == "forward") & (part("source") == -1)] <= 0.05).per("sentence")
    aligner = make(constraints=[few_nulls], dual_steps=0, max_iter=2).fit(bitext.source, bitext.target)
    assert aligner.history_[-1].violation < 1e-6
    posteriors = aligner.predict_proba(bitext.source, bitext.target)
    for matrix in posteriors.forward:
        assert matrix.shape[1] - matrix.sum() <= 0.05 + 1e-5
    free = make(constraints=[], max_iter=2).fit(bitext.source, bitext.target)
    loose = free.predict_proba(bitext.source, bitext.target).forward
    assert max(matrix.shape[1] - matrix.sum() for matrix in loose) > 0.5


def test_pairs_that_cannot_meet_a_constraint():
    source, target = ["a b", "a"], ["x y z", "x"]
    two = (E[(part("direction") == "forward") & (part("source") == 0)] >= 2).per("sentence").named("two")
    rule = {"constraints": [two], "dual_steps": 0, "max_iter": 1, "model": "ibm1"}
    with pytest.raises(InfeasibleConstraintError, match="'two': no feasible q in sentence 1"):
        make(**rule).fit(source, target)
    with pytest.warns(UserWarning, match="left out: 'two' in 1 of the instances"):
        aligner = make(**rule, infeasible="skip").fit(source, target)
    first, second = aligner.predict_proba(source, target).forward
    assert first[0].sum() == pytest.approx(2, abs=1e-5)
    assert second[0].sum() <= 1


def test_alpha():
    bitext = make_bitext(10, seed=10)
    free = make(constraints=[], max_iter=2).fit(bitext.source, bitext.target)
    none = make(alpha=0.0, max_iter=2).fit(bitext.source, bitext.target)
    same_params(free, none, rtol=1e-7)
    full, half = (make(alpha=alpha, max_iter=2).fit(bitext.source, bitext.target) for alpha in (1.0, 0.5))
    assert free.history_[0].objective > half.history_[0].objective > full.history_[0].objective
