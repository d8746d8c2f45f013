"""What a structure offers, not what it is, chooses the way of inference."""

import numpy as np
import pytest
from check_projection import check_projection

from spectrem.constraints import E, compile_constraints, part
from spectrem.exceptions import InvalidInputError
from spectrem.inference import Newton, project_batch
from spectrem.structures import Categorical, Parts
from spectrem.testing import check_structure

LABELS = Categorical([2, 3, 2, 4])
RULES = [
    E[part("label") == 0] >= 2.5,
    (E[part("label") == 1] <= 0.3).per("instance"),
    (E[...] <= 2).per("label"),
    (E[part("label") == 1] >= 1).slack(penalty=0.5, norm="l1"),
]
SCORES = Parts(np.random.default_rng(0).normal(size=LABELS.n_unary))


class OneOf:
    """A user's own family of labels, which is no `Categorical` but may say that it has one label per instance."""

    def __init__(self, says_so):
        for name in ("n_instances", "n_unary", "factor_shapes", "instance", "instance_name", "choice", "columns",
                     "smoothed_max", "decode", "polytope", "enumerate"):  # fmt: skip
            setattr(self, name, getattr(LABELS, name))
        if says_so:
            self.one_label, self.offsets = True, LABELS.offsets


@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("rule", range(len(RULES)))
def test_one_label_per_instance_is_inferred_as_a_categorical_is(rule, gamma):
    rows = compile_constraints(RULES[rule], LABELS)
    one, same, other = (project_batch(s, SCORES, rows, gamma) for s in (LABELS, OneOf(True), OneOf(False)))
    np.testing.assert_array_equal(same.marginals.unary, one.marginals.unary)
    np.testing.assert_array_equal(same.multipliers, one.multipliers)
    assert same.n_evaluations == one.n_evaluations
    assert other.primal_value == pytest.approx(one.primal_value, abs=1e-6)


def test_newton_takes_what_says_that_it_has_one_label():
    rows = compile_constraints(RULES[0], LABELS)
    assert project_batch(OneOf(True), SCORES, rows, 1.0, solver=Newton()).violation < 1e-6
    with pytest.raises(InvalidInputError, match=r"solver Newton needs gamma > 0, one label per instance"):
        project_batch(OneOf(False), SCORES, rows, 1.0, solver=Newton())


@pytest.mark.parametrize("says_so", [False, True])
def test_checks_use_the_enumeration_that_a_structure_offers(says_so):
    check_structure(OneOf(says_so), np.random.default_rng(0))
    assert None not in check_projection(RULES[1:], OneOf(says_so)).values()
