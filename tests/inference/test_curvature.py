"""Second derivatives of a batch's dual value in prices over the corpus, and Newton's method that goes by them."""

import numpy as np
import pytest
import scipy.sparse as sp
from typed_pairs import case

from spectrem.constraints.compilation.rows import Block, CorpusRows, no_rows
from spectrem.inference import Newton, QuasiNewton, Status, project_batch
from spectrem.inference.corpus.dual import solve_corpus_dual
from spectrem.inference.dual import shift_scores
from spectrem.inference.solvers.smooth import curvature_of_batch
from spectrem.structures import Chain, Parts


class Batch:
    """A batch whose own rows are solved within every evaluation of the rows over the corpus."""

    def __init__(self, seed, gamma, inside=True):
        rng = np.random.default_rng(seed)
        self.structure, self.scores, rows = case([2, 4, 1, 3], seed)
        self.gamma, self.rows, self.looks = gamma, rows if inside else no_rows(self.structure.n_unary), 0
        self.weights = np.array([1.0, 2.0, 0.5, 1.5])
        self.across = sp.csr_array(np.where(rng.random((self.structure.n_unary, 3)) < 0.3, rng.normal(size=3), 0.0))
        self.own = None

    def shifted(self, prices):
        return shift_scores(self.scores, self.across, prices)

    def evaluate(self, prices):
        self.looks += 1
        solver = Newton(tol=1e-11) if len(self.rows.bounds) else None
        found = project_batch(
            self.structure, self.shifted(prices), self.rows, self.gamma, weights=self.weights, solver=solver
        )
        self.own = found.multipliers
        weighed = self.weights[self.structure.instance] * found.marginals.unary
        return found.dual_value, self.across.T @ weighed

    def curvature(self, prices):
        return curvature_of_batch(
            self.structure, self.shifted(prices), self.rows, self.own, self.gamma, self.weights, self.across
        )


def over_corpus(bounds):
    block = Block("sums", 0, len(bounds), False, "corpus", None, np.arange(len(bounds)), {})
    return CorpusRows(np.array(bounds), (block,))


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("gamma", [0.4, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_slope_of_the_expectations(seed, gamma, inside):
    batch, at, step = Batch(seed, gamma, inside), np.array([0.3, -0.2, 0.1]), 1e-5
    batch.evaluate(at)
    assert inside == bool((batch.own > 1e-3).any())
    slopes = [
        (batch.evaluate(at - step * unit)[1] - batch.evaluate(at + step * unit)[1]) / (2 * step) for unit in np.eye(3)
    ]
    batch.evaluate(at)
    np.testing.assert_allclose(batch.curvature(at), slopes, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.4, 1.0])
def test_the_prices_are_those_of_another_solver_in_fewer_evaluations(gamma):
    batch = Batch(1, gamma)
    rows = over_corpus(batch.evaluate(np.array([1.0, -0.5, 0.5]))[1].tolist())
    batch.looks = 0
    plain = solve_corpus_dual(batch.evaluate, rows, gamma, solver=QuasiNewton(tol=1e-8))
    plain_looks, batch.looks = batch.looks, 0
    found = solve_corpus_dual(batch.evaluate, rows, gamma, curvature=batch.curvature)
    assert found.status == plain.status == Status.SOLVED
    np.testing.assert_allclose(found.multipliers, plain.multipliers, atol=1e-5)
    assert found.dual_value == pytest.approx(plain.dual_value, abs=1e-8)
    assert batch.looks < plain_looks


def test_without_a_known_curvature_another_solver_takes_over():
    batch = Batch(2, 1.0)
    rows = over_corpus(batch.evaluate(np.array([0.5, 0.5, 0.5]))[1].tolist())
    plain = solve_corpus_dual(batch.evaluate, rows)
    found = solve_corpus_dual(batch.evaluate, rows, curvature=lambda prices: np.full((3, 3), np.nan))
    np.testing.assert_allclose(found.multipliers, plain.multipliers, atol=1e-6)


def test_chains_do_not_tell_it():
    structure = Chain([2, 1], 2)
    scores = Parts(np.zeros(6), tuple(np.zeros(shape) for shape in structure.factor_shapes))
    rows = no_rows(6)
    across = sp.csr_array(np.ones((6, 1)))
    assert np.isnan(curvature_of_batch(structure, scores, rows, np.zeros(0), 1.0, np.ones(2), across)).all()


@pytest.mark.parametrize("seed", [4, 10])
def test_newton_steps_end_where_they_should_though_values_are_rounded_coarsely(seed):
    scores = np.random.default_rng(seed).normal(size=50) * 2
    block, results = Block("heads", 0, 1, True, "corpus", None, np.zeros(1, int), {}), []

    def shares(prices):
        return 1 / (1 + np.exp(prices[0] - scores))

    for shift in (0.0, 1e7):  # which leaves values nine digits behind the point
        results.append(
            solve_corpus_dual(
                lambda prices, shift=shift: (
                    float(np.logaddexp(0, scores - prices[0]).sum()) + shift, np.array([shares(prices).sum()])
                ),
                CorpusRows(np.array([30.0]), (block,)),
                curvature=lambda prices: np.array([[(shares(prices) * (1 - shares(prices))).sum()]]),
            )
        )  # fmt: skip
    assert results[0].n_evaluations == results[1].n_evaluations
    np.testing.assert_array_equal(results[0].multipliers, results[1].multipliers)
