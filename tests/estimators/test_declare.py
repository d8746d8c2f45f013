"""What estimators declare: order, meaning and rules of parameters."""

import subprocess
import sys
from dataclasses import KW_ONLY, dataclass

import pytest

from spectrem import GaussianMixture, RelationExtractor, SelfTrainer
from spectrem.estimators.declare import (
    check_parameters,
    count,
    documented,
    given,
    meanings,
    number,
    parameters_of,
    renewed,
)
from spectrem.estimators.storage import read_parameters
from spectrem.exceptions import InvalidInputError


@dataclass(kw_only=True)
class Base:
    """Of many.

    Parameters
    ----------
    size : int
        From the base.
    tol : float
        From the base.
    """

    size: int = count(3)
    tol: float = number(1.0)


@dataclass
class Own(Base):
    """Of one.

    Parameters
    ----------
    what : object
        The first.
    low, high : float
        Both ends.
    tol : float
        Its own.
    """

    what: object = given()
    _: KW_ONLY
    low: float = number(0.0)
    high: float | None = number(None)
    tol: float = number(2.0)


@documented
@dataclass
class Estimator(Own):
    """Does something.

    Attributes
    ----------
    found_ : int
    """


def test_own_parameters_come_first():
    assert list(parameters_of(Estimator)) == ["what", "low", "high", "tol", "size"]
    assert list(parameters_of(Estimator(3))) == list(parameters_of(Estimator))
    assert parameters_of(Own)["tol"][0] == 2.0
    assert Estimator("x", size=2).what == "x"


def test_the_docstring_has_every_entry_once():
    lines = [line.strip() for line in Estimator.__doc__.splitlines() if " : " in line]
    assert lines == ["what : object", "low, high : float", "tol : float", "size : int", "found_ : int"]
    assert "Its own." in Estimator.__doc__
    assert Estimator.__doc__.index("Parameters\n") < Estimator.__doc__.index("Attributes\n")
    assert meanings(Own)["high"] == meanings(Own)["low"] == "low, high : float\n    Both ends."


def test_rules_are_held():
    check_parameters(Estimator(None))
    with pytest.raises(InvalidInputError, match="high must be finite and at least 0, got -1"):
        check_parameters(Estimator(None, high=-1))
    with pytest.raises(InvalidInputError, match="low must be a number, got None"):
        check_parameters(Estimator(None, low=None))


@pytest.mark.parametrize("cls", [GaussianMixture, SelfTrainer])
def test_every_parameter_of_an_estimator_has_a_meaning(cls):
    assert set(parameters_of(cls)) <= set(meanings(cls))
    section = cls.__doc__[cls.__doc__.index("Parameters\n") : cls.__doc__.index("Attributes\n")]
    assert all(name in section for name in parameters_of(cls))


def test_former_names_work_for_a_version_and_say_the_new_one():
    with pytest.warns(FutureWarning, match="weight of SelfTrainer is called unlabelled_weight now; the old name works"):
        trainer = SelfTrainer(None, weight=0.5)
    assert trainer.unlabelled_weight == 0.5
    with pytest.warns(FutureWarning, match="weight of SelfTrainer is called unlabelled_weight now"):
        assert trainer.set_params(weight=0.25).unlabelled_weight == 0.25
    with pytest.warns(FutureWarning, match="decode='best' of RelationExtractor is called decode='viterbi' now"):
        extractor = RelationExtractor(decode="best")
    assert extractor.decode == RelationExtractor().decode == "viterbi"
    for both in {"unlabelled_weight": 0.5, "weight": 0.5}, {"weight": 0.5, "unlabelled_weight": 0.5}:
        with pytest.raises(InvalidInputError, match="given once, got it as weight, too; drop weight, its old name"):
            SelfTrainer(None, **both)


def test_estimators_work_without_docstrings():
    code = "from spectrem import HMMTagger; assert HMMTagger.fit.__doc__ is None; print(HMMTagger(n_states=2))"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert done.stdout == "HMMTagger(n_states=2)\n", done.stderr


def test_saved_models_with_former_names_load():
    renamed = renewed(RelationExtractor, {"decode": "best", "C": 2.0}, warned=False)
    assert renamed == {"decode": "viterbi", "C": 2.0}
    settings = {"parameters": {"weight": 0.5}, "constraints": []}
    assert read_parameters(SelfTrainer, settings)["unlabelled_weight"] == 0.5
