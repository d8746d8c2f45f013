"""A row or sentence counts once in constraints, in all estimators, whatever it weighs in the objective."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from spectrem import CRFTagger, E, EdgeFactoredParser, MaxEntClassifier, RelationExtractor, SelfTrainer, Views, part
from spectrem.data import RelationSentence
from spectrem.datasets import make_treebank

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) + np.repeat(np.eye(3), [14, 13, 13], axis=0)
ROWS = [0] * 3 + [None] * 11 + [1] * 3 + [None] * 10 + [2] * 3 + [None] * 10
BOTH = {"left": X[:, :2], "right": X[:, 1:]}
CLASSIFIERS = [("left", MaxEntClassifier()), ("right", MaxEntClassifier())]
TEXT = [[[f"w{RNG.integers(6)}"] for _ in range(4)] for _ in range(12)]
TAGS = [["A", "B", "A", "A"], ["B", "A", "B", "B"], ["B", "B", "A", "A"]] + [None] * 9
TWICE = {"left": TEXT, "right": TEXT}
TAGGERS = [("left", CRFTagger(pairs="all")), ("right", CRFTagger(pairs="all", C=0.5))]
TREES = make_treebank(24, seed=0)
BARE = [one if number < 6 else one._replace(heads=None) for number, one in enumerate(TREES)]
WORDS, MENTIONS = ("Ray", "met", "King"), [(0, 1), (2, 3)]
RELATIONS = [
    RelationSentence(("Ray", verb, "King"), MENTIONS, types, relations)
    for verb, types, relations in [("met", ["P", "P"], {}), ("shot", ["P", "Q"], {(0, 1): "Kill"})] * 3
    + [("met", None, None), ("shot", None, None), ("saw", None, None)] * 4
]
LABEL, TAG = E[part("label") == 1], E[part("tag") == "A"]
TIES = {"agreement": {"left": {}}}
SOLVED = {"dual_steps": 0}

# Of every estimator what makes one of a weight, what it is fitted to, and an expectation with what it must be: more
# than all unlabelled instances weigh at small weights.
CASES = {
    "MaxEntClassifier": (
        lambda weight: MaxEntClassifier([LABEL == 20], unlabelled_weight=weight, C=0.3), (X, ROWS),
    ),
    "SelfTrainer": (
        lambda weight: SelfTrainer(
            LogisticRegression(), [LABEL == 20], unlabelled_weight=weight, tol=0.0, max_iter=4
        ), (X, ROWS),
    ),
    "Views": (
        lambda weight: Views(CLASSIFIERS, constraints=[LABEL == 20], unlabelled_weight=weight), (BOTH, ROWS),
    ),
    "Views with groups": (
        lambda weight: Views(
            CLASSIFIERS, constraints=[E[part("left_label") == 1] == 20], unlabelled_weight=weight, **TIES
        ),
        (BOTH, {"left": ROWS, "right": [None if n == 1 else own for n, own in enumerate(ROWS)]}),
    ),
    "Views of taggers": (
        lambda weight: Views(TAGGERS, constraints=[TAG == 30], unlabelled_weight=weight), (TWICE, TAGS),
    ),
    "CRFTagger": (
        lambda weight: CRFTagger(
            tags=["A", "B"], pairs="all", constraints=[TAG == 30], unlabelled_weight=weight, m_tol=1e-8, **SOLVED
        ),
        (TEXT, TAGS),
    ),
    "RelationExtractor": (
        lambda weight: RelationExtractor(
            [E[part("relation") == "Kill"] == 9], type_features=False, unlabelled_weight=weight, **SOLVED
        ),
        (RELATIONS,),
    ),
    "EdgeFactoredParser": (
        lambda weight: EdgeFactoredParser(
            learner="batch", bits=8, constraints=[E[part("length") == 1] == 75], unlabelled_weight=weight, m_tol=1e-6,
            max_iter=4, tol=0.0, **SOLVED
        ),
        (BARE,),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*(max_iter|hardly ever)")
@pytest.mark.parametrize("name", CASES)
def test_counts_do_not_depend_on_the_weight_of_what_is_not_labelled(name):
    make, data = CASES[name]
    fitted = {weight: make(weight).fit(*data) for weight in (1.0, 0.2, 0.01)}
    first = {}
    for weight, estimator in fitted.items():
        (report,) = estimator.report_.constraints
        np.testing.assert_allclose(report.after, report.bound, rtol=1e-4)
        objectives = [record.objective for record in estimator.history_]
        first[weight] = objectives[0]
        if name != "SelfTrainer":  # whose classifier maximises something else
            assert (np.diff(objectives) >= -1e-6 * np.abs(objectives[0])).all()
    # All start from what is labelled, where the objective is linear in the weight.
    slopes = (first[1.0] - first[0.2]) / 0.8, (first[0.2] - first[0.01]) / 0.19
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-4)
