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


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 6000, 250))
def test_constraints_on_every_structure_at_length(start):
    outcomes, wrong = run(range(start, start + 250), lambda seed: GAMMAS)
    assert not wrong, report(outcomes, wrong)
    wide = sum(count for (_, outcome), count in outcomes.items() if outcome == "wide")
    assert wide <= 0.02 * outcomes.total(), "the oracle itself is not sure"
