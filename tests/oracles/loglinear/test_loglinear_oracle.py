"""Log-linear models against dense enumeration, SciPy's minimisers and scikit-learn.

A case is its kind and seed: ``KINDS[kind](seed)``. A failure prints both with what was drawn.
"""

from __future__ import annotations

from collections import Counter

import pytest
from classifier_cases import KINDS, MismatchError


def run(kind, seeds):
    """Check cases; returns how often each outcome came, and what is wrong."""
    outcomes, wrong = Counter(), []
    for seed in seeds:
        try:
            outcome, _ = KINDS[kind](seed)
            outcomes[outcome] += 1
        except MismatchError as error:
            wrong.append(str(error))
        except Exception as error:
            wrong.append(f"seed {seed}: {error!r}")
    return outcomes, wrong


def check(kind, seeds):
    outcomes, wrong = run(kind, seeds)
    assert not wrong, f"{kind}: {len(wrong)} of {len(seeds)} cases are wrong\n" + "\n\n".join(wrong[:10])
    assert outcomes["agree"] >= 0.5 * len(seeds), outcomes
    assert outcomes["warned"] <= 0.1 * len(seeds), outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_optima_and_posteriors(kind):
    check(kind, range(24))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 2000, 200))
@pytest.mark.parametrize("kind", KINDS)
def test_optima_and_posteriors_at_length(kind, start):
    check(kind, range(start, start + 200))
