"""The schedule that --stepwise and --step-power make."""

import pytest

from spectrem.cli.training import Annealing, StepwiseOptions
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal, Constant, Stepwise

ONCE = {"max_iter": 1, "model1_iterations": 1}


@pytest.mark.parametrize(
    ("steps", "settings", "expected"),
    [
        (StepwiseOptions(), {"gamma": 0.5, "max_iter": 2}, {"gamma": 0.5, "max_iter": 2}),
        (StepwiseOptions(8), {"tol": 0.1}, {**ONCE, "tol": 0.1, "schedule": Stepwise(n_batches=8)}),
        (StepwiseOptions(8, 1.0), {"gamma": 0.5}, {**ONCE, "schedule": Stepwise(Constant(0.5), 8, 1.0)}),
        (StepwiseOptions(8), {"max_iter": 2}, {**ONCE, "max_iter": 2, "schedule": Stepwise(n_batches=8)}),
        (StepwiseOptions(8), Annealing(0.5).schedule({}), {**ONCE, "schedule": Stepwise(Anneal(0.5), 8)}),
    ],
)
def test_schedule(steps, settings, expected):
    steps.check()
    assert steps.schedule(settings) == expected


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (StepwiseOptions(None, 0.7), "--step-power 0.7 concerns --stepwise, which is off; add it or drop this"),
        (
            StepwiseOptions(8, 0.5),
            "--step-power 0.5: must be above 0.5 and at most 1, so that steps shrink, but not too fast; ",
        ),
        (StepwiseOptions(8, 1.5), "--step-power 1.5: must be above 0.5 and at most 1"),
    ],
)
def test_powers_that_make_no_sense(steps, message):
    with pytest.raises(InvalidInputError) as error:
        steps.check()
    assert str(error.value).startswith(message)
