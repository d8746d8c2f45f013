"""Errors and warnings of our own."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sklearn.exceptions

from spectrem import exceptions
from spectrem.constraints import parse_constraint
from spectrem.tables.project import check_log_scores


def test_a_convergence_warning_is_scikit_learns_too():
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="out of iterations") as caught:
        exceptions.warn_unconverged("out of iterations")
    assert caught[0].category is exceptions.ConvergenceWarning
    assert caught[0].filename == __file__
    assert pickle.loads(pickle.dumps(caught[0].message)).args == ("out of iterations",)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
        exceptions.warn_unconverged("not seen")


@pytest.mark.parametrize(
    "fail", [lambda: parse_constraint("3"), lambda: check_log_scores(np.array([np.inf]), np.array([0, 1]))]
)
def test_errors_with_constructors_of_their_own_travel_between_processes(fail):
    with pytest.raises(exceptions.InvalidInputError) as caught:
        fail()
    caught.value.keys = {"row": 2}
    caught.value.add_note("found in shard 1")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy), vars(copy)) == (caught.type, str(caught.value), vars(caught.value))


def test_other_names_are_missing():
    with pytest.raises(AttributeError, match=r"module 'spectrem\.exceptions' has no attribute 'Missing'"):
        exceptions.Missing  # noqa: B018


def test_learning_and_inference_do_not_load_scikit_learn():
    code = (
        "import sys, spectrem.exceptions, spectrem.learning, spectrem.inference, spectrem.tables\n"
        "print([name for name in ('sklearn',) if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_convergence_warning_does_not_load_scikit_learn_but_is_ignored_by_its_name():
    code = (
        "import sys, warnings\n"
        "from spectrem import exceptions\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    exceptions.warn_unconverged('late')\n"
        "    print(caught[0].category is exceptions.Unconverged, 'sklearn' in sys.modules)\n"
        "    warnings.simplefilter('ignore', exceptions.ConvergenceWarning)\n"
        "    exceptions.warn_unconverged('later')\n"
        "    print(len(caught), issubclass(exceptions.ConvergenceWarning, exceptions.Unconverged))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n1 True\n"
