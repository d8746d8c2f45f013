"""Emissions by names and columns, and their settings as files hold them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from emission_cases import CASES, NAMES, draw

from spectrem.exceptions import InvalidInputError
from spectrem.models.emissions import Gaussian, Joined, Poisson, StudentT, of_settings, resolve, settings_of


@pytest.mark.parametrize("name", list(CASES))
def test_settings_come_back_from_json(name):
    x, states = draw(name, 60, 0.2)
    learnt = CASES[name].emission.learn(x, NAMES)
    again = of_settings(json.loads(json.dumps(settings_of(learnt))))
    assert type(again) is type(learnt)
    one, other = (emission.start(x, np.eye(2)[states]) for emission in (learnt, again))
    np.testing.assert_array_equal(learnt.scores(one, x), again.scores(other, x))
    assert learnt.log_prior(one) == again.log_prior(other)
    assert learnt.n_free(one) == again.n_free(other)
    assert learnt.arrays(one).keys() == again.arrays(other).keys()
    if name != "joined":
        kept = replace(learnt, fixed=list(learnt.arrays(one))[:1])
        assert list(of_settings(json.loads(json.dumps(settings_of(kept)))).fixed) == kept.fixed


def test_columns_are_named_or_numbered():
    names = ["visits", "height", "weight"]
    emission = resolve({"visits": "poisson", ("weight", 1): StudentT("diag")}, names)
    assert isinstance(emission, Joined)
    assert {key: type(one) for key, one in emission.emissions.items()} == {(0,): Poisson, (2, 1): StudentT}
    assert isinstance(resolve("gaussian", names), Gaussian)
    for key in ("size", 3, -1, True, ("visits", None)):
        with pytest.raises(InvalidInputError, match=r"names of columns \(visits, height, weight\) or numbers, got"):
            resolve({key: "poisson"}, names)
    with pytest.raises(InvalidInputError, match=r"emissions must be one of gaussian, student-t, .*, got 'normal'"):
        resolve("normal", names)
    with pytest.raises(InvalidInputError, match=r"a value of spectrem\.emissions, got 3"):
        resolve({0: 3}, names)


def test_joined_emissions_are_named_as_their_columns():
    emission = Joined({0: Gaussian(fixed=["means"]), 1: Poisson()}, ["a", "b"])
    assert emission.fixed == ["a_means"]
    assert Joined({(0, 2): Gaussian(fixed=["means"]), 1: Poisson()}).fixed == ["0_2_means"]
