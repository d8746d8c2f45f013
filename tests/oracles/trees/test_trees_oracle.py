"""Structures of all families under random constraints against enumeration and SciPy's programs.

A case is its seed: ``draw(seed)``. A failure prints the seed, the way of asking, gamma and the constraints.
"""

from __future__ import annotations

from collections import Counter

import pytest
from cases import GAMMAS, Wrong, by_batch, by_prices, by_shards, check, draw, program_of

WAYS = ("batch", "shards", "prices")


def run(seeds, gammas_of):
    """Check cases in all ways; returns how often each outcome came, and what is wrong."""
    outcomes, wrong = Counter(), []
    for seed in seeds:
        case = draw(seed)
        program = program_of(case)
        for gamma in gammas_of(seed):
            for way in WAYS:
                n_shards = min(1 + seed % 3, len(case.shapes))
                try:
                    answer = by_batch(case, gamma) if way == "batch" else (
                        by_shards if way == "shards" else by_prices
                    )(case, gamma, n_shards)  # fmt: skip
                    outcomes[way, check(case, program, gamma, answer, exact=way == "batch")] += 1
                except Wrong as error:
                    wrong.append(f"{way}, gamma {gamma:g}, {n_shards} shards: {error}\n{case}")
                except Exception as error:
                    wrong.append(f"{way}, gamma {gamma:g}, {n_shards} shards: {error!r}\n{case}")
    return outcomes, wrong


def report(outcomes, wrong):
    return f"{len(wrong)} of {outcomes.total() + len(wrong)} answers are wrong\n" + "\n\n".join(wrong[:10])


def test_constraints_on_every_structure():
    outcomes, wrong = run(range(60), lambda seed: [GAMMAS[seed % 5]])
    assert not wrong, report(outcomes, wrong)
    assert outcomes["batch", "agree"] >= 20
    assert outcomes["batch", "infeasible"] >= 5


# chains of second order at scores of 1e12, where steps of the quasi-Newton method overflowed
ONCE_WRONG = {262: (0.3, 1.0)}


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_what_was_wrong_once(seed):
    outcomes, wrong = run([seed], ONCE_WRONG.get)
    assert not wrong, report(outcomes, wrong)


@pytest.mark.parametrize("name", FAMILIES)
def test_exact_numbers(name):
    """Scores are logarithms of whole numbers: at gamma = 1 sums are whole and marginals fractions, without rounding."""
    rng = np.random.default_rng(3)
    for _ in range(4):
        family = FAMILIES[name](rng)
        batch = family.batch(family.shapes(2))
        whole = rng.integers(1, 7, len(batch.parts))
        shared = [rng.integers(1, 7, shape) for shape in batch.structure.factor_shapes]
        scores = Parts(np.log(whole), tuple(np.log(factor) for factor in shared))
        values, marginals = batch.structure.smoothed_max(scores, 1.0)
        best, indicators = batch.structure.smoothed_max(scores, 0.0)
        expected = [Fraction(0)] * len(batch.parts)
        for i, structures in enumerate(batch.structures):
            masses = [mass_of(structure, whole, shared) for structure in structures]
            for mass, (taken, _) in zip(masses, structures, strict=True):
                for k in taken.tolist():
                    expected[k] += Fraction(mass, sum(masses))
            assert values[i] == pytest.approx(math.log(sum(masses)), rel=1e-13)
            assert best[i] == pytest.approx(math.log(max(masses)), rel=1e-13)
            chosen = np.flatnonzero((indicators.unary == 1) & (batch.owner == i))
            same = [m for m, (taken, _) in zip(masses, structures, strict=True) if sorted(taken) == chosen.tolist()]
            assert same == [max(masses)]
        assert [float(p) for p in expected] == pytest.approx(marginals.unary.tolist(), abs=1e-13)


def mass_of(structure, whole, shared):
    """The product of the whole numbers of a structure's parts and factors."""
    taken, counts = structure
    used = [int(n) for n in whole[taken]]
    for factor, count in zip(shared, counts, strict=True):
        # a shard without the longest source has smaller factors
        here = count[tuple(map(slice, factor.shape))]
        used += [int(n) ** int(c) for n, c in zip(factor.ravel(), here.ravel(), strict=True)]
    return math.prod(used)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 6000, 250))
def test_constraints_on_every_structure_at_length(start):
    outcomes, wrong = run(range(start, start + 250), lambda seed: GAMMAS)
    assert not wrong, report(outcomes, wrong)
    wide = sum(count for (_, outcome), count in outcomes.items() if outcome == "wide")
    assert wide <= 0.02 * outcomes.total(), "the oracle itself is not sure"
