"""The schedule that --anneal, --anneal-rate and --quench make."""

import pytest

from spectrem.cli.training import Annealing
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal, Constant, Quench


@pytest.mark.parametrize(
    ("annealing", "settings", "expected"),
    [
        (Annealing(), {"gamma": 0.5, "tol": 0.1}, {"gamma": 0.5, "tol": 0.1}),
        (Annealing(0.5), {"tol": 0.1}, {"tol": 0.1, "schedule": Anneal(0.5)}),
        (Annealing(0.5, 2.0), {"gamma": 0.5}, {"schedule": Anneal(0.5, 2.0, 2.0)}),
        (Annealing(quench=True), {"gamma": 0.5}, {"schedule": Quench(Constant(0.5))}),
        (Annealing(0.5, quench=True), {}, {"schedule": Quench(Anneal(0.5))}),
    ],
)
def test_schedule(annealing, settings, expected):
    annealing.check(settings.get("gamma", 1.0))
    assert annealing.schedule(settings) == expected


@pytest.mark.parametrize(
    ("annealing", "gamma", "message"),
    [
        (Annealing(None, 2.0), 1.0, "--anneal-rate 2 concerns --anneal, which is off; add it or drop this"),
        (Annealing(0.5), 0.0, "--anneal cools down to a gamma above 0, but --gamma is 0; raise it, and add --quench"),
        (Annealing(2.0), 1.0, "--anneal 2: starts at gamma = 1 / BETA, which must not be below --gamma 1; give a BETA"),
        (Annealing(-1.0), 1.0, "--anneal -1: starts at gamma"),
        (Annealing(0.5, 1.0), 1.0, "--anneal-rate 1: 1 / gamma must grow; give a finite factor above 1, such as 1.2"),
    ],
)
def test_what_cannot_cool_down(annealing, gamma, message):
    with pytest.raises(InvalidInputError) as error:
        annealing.check(gamma)
    assert str(error.value).startswith(message)
