"""Options that are true or false take nothing else: text such as "no" would be true."""

import importlib
import inspect
import pkgutil
from functools import partial

import numpy as np
import pytest

import spectrem
from spectrem import estimators
from spectrem.data import (
    Links,
    conserved_arcs,
    encode_bitext,
    read_bitext,
    read_conllu,
    read_dictionary,
    read_pairs,
    read_priors,
    read_tagged,
)
from spectrem.estimators import LinkPosteriors, transfer_parser
from spectrem.estimators.declare import check_parameters, parameters_of
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep
from spectrem.learning.online import SmallSteps
from spectrem.metrics import bracket_scores
from spectrem.models.alignment import AlignmentModel
from spectrem.models.bracketing import ConstituentContextModel, SpanVocabulary
from spectrem.models.grammar import ValenceModel
from spectrem.models.loglinear import LogLinearModel, Support
from spectrem.models.parsing import EdgeFactoredModel
from spectrem.structures import Alignment, NonProjectiveTrees, ProjectiveTrees, ValenceTrees
from spectrem.tables import project

ESTIMATORS = {name: getattr(estimators, name) for name in estimators.__all__}
ESTIMATORS = {name: own for name, own in ESTIMATORS.items() if inspect.isclass(own) and hasattr(own, "fit")}
SWITCHES = [
    (name, parameter)
    for name, own in ESTIMATORS.items()
    for parameter, (default, _) in parameters_of(own).items()
    if isinstance(default, bool)
]
LINKS = Links.from_pairs([[(0, 0)]])
CALLS = {
    ("Alignment", "reverse"): partial(Alignment, [1], [1]),
    ("AlignmentModel", "chain"): partial(AlignmentModel, None, 5, learn_positions=True),
    ("AlignmentModel", "learn_positions"): partial(AlignmentModel, None, 5, True),
    ("EdgeFactoredModel", "fine"): EdgeFactoredModel,
    ("ConstituentContextModel", "by_length"): partial(
        ConstituentContextModel, SpanVocabulary.learn([1], [0], n_tags=1)[0]
    ),
    ("EStep", "warm_start"): EStep,
    ("EdgeFactoredModel", "single_root"): EdgeFactoredModel,
    ("LinkPosteriors.reliability", "possible"): partial(
        LinkPosteriors(np.array([1]), np.array([1]), [np.ones((1, 1))], [np.ones((1, 1))]).reliability, LINKS
    ),
    ("ProjectedTable.decide", "verbose"): project([[0.5, 0.5]], []).decide,
    ("LogLinearModel", "chain"): partial(LogLinearModel, Support(1, 2)),
    ("LogLinearModel", "intercept"): partial(LogLinearModel, Support(1, 2)),
    ("LogLinearModel", "reference"): partial(LogLinearModel, Support(1, 2)),
    ("NonProjectiveTrees", "single_root"): partial(NonProjectiveTrees, [1]),
    ("ProjectiveTrees", "single_root"): partial(ProjectiveTrees, [1]),
    ("SmallSteps", "average"): SmallSteps,
    ("ValenceModel", "adjacency"): partial(ValenceModel, 1),
    ("ValenceModel", "single_root"): partial(ValenceModel, 1),
    ("ValenceTrees", "single_root"): partial(ValenceTrees, [1]),
    ("project", "verbose"): partial(project, [[0.5, 0.5]], []),
    ("bracket_scores", "whole"): partial(bracket_scores, [[]], [[]], [1]),
    ("conserved_arcs", "roots"): partial(conserved_arcs, [[-1]], LINKS, [1]),
    ("encode_bitext", "lowercase"): partial(encode_bitext, ["a"], ["b"]),
    ("read_bitext", "lowercase"): partial(read_bitext, "nowhere"),
    ("read_conllu", "trees"): partial(read_conllu, "nowhere"),
    ("read_dictionary", "lowercase"): partial(read_dictionary, "nowhere"),
    ("read_pairs", "lowercase"): partial(read_pairs, "nowhere.tsv", columns=["a", "b"]),
    ("read_pairs", "tokenize"): partial(read_pairs, "nowhere.tsv", columns=["a", "b"]),
    ("read_priors", "lowercase"): partial(read_priors, "nowhere"),
    ("read_tagged", "soft"): partial(read_tagged, "nowhere"),
    ("transfer_parser", "roots"): partial(
        transfer_parser, ESTIMATORS["DependencyModel"](), [[-1]], [["X"]], LINKS, share=0.9
    ),
}
MADE_BY_THE_LIBRARY = {
    *("AlignmentStats", "BitextShard", "Block", "Constraint", "ConstraintReport", "ConstraintSummary", "CoupledKernel"),
    *("GrammarShard", "JointShard", "LexicalPrior", "Line", "LinearConstraint", "LogLinearShard.take", "ParsingShard"),
    *("ConstrainedTargets.project_cells", "PosedCorpus", "TableFile", "TagShard", "read_bytes", "tokenise"),
    # of hidden Markov models
    *("Durations", "Geometric", "Histogram", "NegativeBinomial", "Poisson", "duration_scores"),
    *("Categorical", "Emission", "Gaussian", "Joined", "Multinomial", "StudentT"),
}


def public_switches():
    """Parameters of all public functions, classes and methods that are declared as true or false."""
    folders = [module.name for module in pkgutil.iter_modules(spectrem.__path__) if not module.name.startswith("_")]
    folders.remove("torch")  # which may be missing; see tests/pytorch
    rooms = [f"models.{own.name}" for own in pkgutil.iter_modules([f"{spectrem.__path__[0]}/models"])]
    for folder in ("", *(f".{name}" for name in (*folders, *rooms))):
        module = importlib.import_module(f"spectrem{folder}")
        for name in getattr(module, "__all__", ()):
            made = getattr(module, name)
            methods = inspect.getmembers(made, inspect.isfunction) if inspect.isclass(made) else ()
            called = {name: made, **{f"{name}.{key}": own for key, own in methods if not key.startswith("_")}}
            for key, function in called.items():
                try:
                    parameters = inspect.signature(function).parameters.values() if callable(function) else ()
                except (TypeError, ValueError):
                    continue
                for parameter in parameters:
                    if parameter.annotation in (bool, "bool") or isinstance(parameter.default, bool):
                        yield key, parameter.name


def test_all_of_them_are_looked_at_here():
    found = {
        (key, name)
        for key, name in public_switches()
        if key.partition(".")[0] not in MADE_BY_THE_LIBRARY | ESTIMATORS.keys()
        and key not in MADE_BY_THE_LIBRARY
        and name != "deep"  # of scikit-learn
    }
    assert found == CALLS.keys()


@pytest.mark.parametrize("value", ["no", 1, None, [True]], ids=repr)
@pytest.mark.parametrize(("called", "name"), CALLS)
def test_functions_and_classes(called, name, value):
    with pytest.raises(InvalidInputError, match=f"^{name} must be True or False; got"):
        CALLS[called, name](**{name: value})


@pytest.mark.parametrize("value", ["no", 0, None], ids=repr)
@pytest.mark.parametrize(("estimator", "name"), SWITCHES)
def test_estimators(estimator, name, value):
    cls = ESTIMATORS[estimator]
    needed = {"SelfTrainer": [None], "Views": [[]]}.get(estimator, [])
    made = cls(*needed, **{name: value})
    with pytest.raises(InvalidInputError, match=f"^{name} must be True or False; got {value!r}"):
        parameters_of(cls)[name][1].check(name, getattr(made, name))
    if not needed:
        with pytest.raises(InvalidInputError, match=f"^{name} must be True or False"):
            check_parameters(made)
        with pytest.raises(InvalidInputError, match=f"^{name} must be True or False"):
            made.fit(*(["a"], ["b"]) if estimator in ("WordAligner", "SequenceLabelModel") else [[["a"]]])


@pytest.mark.parametrize("value", [np.True_, np.False_])
def test_truth_values_of_numpy_are_taken(value):
    assert ProjectiveTrees([1], single_root=value).single_root is bool(value)
    for estimator, name in SWITCHES:
        parameters_of(ESTIMATORS[estimator])[name][1].check(name, value)
    assert ValenceModel(1, value).adjacency == value
