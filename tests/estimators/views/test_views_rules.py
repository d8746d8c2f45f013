"""What Views refuses, and in which words."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from views_data import rows, sentences

from spectrem import CRFTagger, E, MaxEntClassifier, Views, part
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, NotFittedError

X, GOLD, Y = rows()
TWO = [("left", MaxEntClassifier()), ("right", MaxEntClassifier())]
TOKENS, TAGS, SOME, _ = sentences()
TAGGERS = [("content", CRFTagger()), ("context", CRFTagger())]


def refused(message, views=TWO, data=X, y=Y, fit=None, **options):
    with pytest.raises(InvalidInputError) as error:
        Views(views, **options).fit(data, y, **(fit or {}))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (
            TWO[:1],
            "views must list two or more pairs of a name and an estimator, got [('left', MaxEntClassifier())]; give "
            'for example [("spelling", MaxEntClassifier()), ("context", MaxEntClassifier())]',
        ),
        (
            [TWO[0], ("a view", MaxEntClassifier())],
            "views must have names that can stand in a constraint, without two underscores in a row, got 'a view'; "
            "rename it",
        ),
        ([TWO[0], TWO[0]], "views must have distinct names, got left, left; rename one"),
        (
            [TWO[0], ("right", LogisticRegression())],
            "views['right'] must be a MaxEntClassifier or a CRFTagger, got LogisticRegression(); other classifiers can "
            "be trained on agreed labels by SelfTrainer",
        ),
        (
            [TWO[0], ("right", MaxEntClassifier(gamma=0.5))],
            "views['right'] must leave gamma at 1.0, got 0.5; give it to Views, for all views together",
        ),
        (
            [TWO[0], ("right", CRFTagger())],
            'agreement must not be "full" between classifiers and taggers, got both; tie them by constraints over '
            "left_label, right_tag",
        ),
    ],
)
def test_views(views, message):
    refused(message, views)


@pytest.mark.parametrize(
    ("agreement", "message"),
    [
        (
            "partial",
            'agreement must be "full", a mapping of views to the groups of their labels, or a list of constraints that '
            "tie the views, got 'partial'; views without a tie are fitted one by one",
        ),
        ({"middle": {}}, "agreement must name views, left, right, got 'middle'; correct it"),
        (
            {"left": {9: 1}},
            "agreement['left'] must group labels of that view, [0, 1, 2], got 9; leave it out, or list it in classes "
            "or tags",
        ),
        (
            {"left": {0: "a", 1: "a", 2: "b"}},
            "agreement must give the views some group in common, got left: ['a', 'b']; right: ['0', '1', '2']; map "
            "labels of each view to the same groups",
        ),
    ],
)
def test_agreement(agreement, message):
    refused(message, agreement=agreement)


def test_data():
    refused(
        "X must map every view, left, right, to what it sees, got left; of one matrix, feature_groups says which "
        "columns a view sees",
        data={"left": X["left"]},
    )
    refused(
        "feature_groups['right'] must list columns of X, got 9, and X has 0, 1, 2, 3, ...; give numbers of columns, or "
        "names of a frame",
        data=X["left"], feature_groups={"left": [0, 1], "right": [2, 9]},
    )  # fmt: skip
    refused(
        "y must be the labels that all views share in full agreement, and otherwise may map views (left, right) to "
        "theirs, got a mapping; correct it",
        y={"left": Y, "right": Y},
    )
    refused(
        "y must have one value per row of X, got 39 for 40 rows; -1 marks missing labels (found input variables with "
        "inconsistent numbers of samples)",
        y=Y[1:],
    )
    refused(
        "X must have the same tokens in every view, got 2 of 'context' and 3 of 'content' in sentence 3; give the same "
        "sentences",
        TAGGERS, {**TOKENS, "context": shorter(TOKENS["context"], 3)}, [None if own is None else own for own in drop()],
    )  # fmt: skip


def shorter(text, number):
    return [own[: len(TAGS[number]) - 1] if at == number else own for at, own in enumerate(text)]


def drop():
    return [*SOME[:3], *[None] * (len(SOME) - 3)]


def test_views_of_other_numbers_of_rows():
    fewer = {"left": X["left"], "right": X["right"][:39]}
    with pytest.raises(InvalidInputError) as error:
        Views(TWO, agreement={}).fit(fewer, {"left": Y, "right": Y[:39]})
    assert str(error.value) == (
        "X must have the same rows or sentences in every view, got 40 of 'left', 39 of 'right'; leave out those that a "
        "view lacks, or say by owners what they are parts of"
    )


def test_labels():
    refused(
        "views must share some row that is not labelled in all of them, got 40 that are; add rows without a label, or "
        "set unlabelled_weight=0 to train the views by themselves",
        y=GOLD,
    )
    with pytest.raises(InvalidInputError, match="views must share some row that is not labelled in all of them"):
        Views(TWO).fit(X, Y, sample_weight=[float(label is not None) for label in Y])
    refused(
        "y must label some row, got none; without labels or constraints nothing says what labels mean",
        [(name, MaxEntClassifier(classes=[0, 1, 2])) for name, _ in TWO], y=[None] * 40,
    )  # fmt: skip
    refused(
        "views must have the same labels in full agreement, got [0, 1, 2] of 'left' and [0, 1, 2, 3] of 'right'; give "
        "them the same classes or tags, or map labels to groups by agreement",
        [TWO[0], ("right", MaxEntClassifier(classes=[0, 1, 2, 3]))],
    )
    refused(
        "y['left'] must have labels and no distributions where another view has no label, got a distribution in row 2; "
        "give the most probable label, or none",
        agreement={}, y={"left": [*Y[:2], {0: 0.5, 1: 0.5}, *Y[3:]], "right": [None if row == 2 else v for row, v in
                                                                              enumerate(Y)]},
    )  # fmt: skip


def test_constraints():
    with pytest.raises(InvalidInputError, match="7"):
        Views(TWO, constraints=[E[part("label") == 7] <= 1]).fit(X, Y)
    with pytest.raises(InvalidInputError, match="document"):
        Views(TWO, constraints=[(E[part("label") == 1] <= 1).per("document")]).fit(X, Y)
    never = (E[part("label") == GOLD[0]] == 0).per("row").named("never")
    always = (E[part("label") == GOLD[0]] == 1).per("row").named("always")
    with pytest.raises(InfeasibleConstraintError, match="never"):
        Views(TWO, constraints=[never, always]).fit(X, Y)
    contradicted = [{0, 1} if label == 2 else None for label in Y[:6]] + [None] * 34
    own = [TWO[0], ("right", MaxEntClassifier(classes=[0, 1, 2]))]
    with pytest.raises(InfeasibleConstraintError, match="left and right agree on"):
        Views(own, agreement={}).fit(X, {"left": Y, "right": contradicted})


def test_use_before_fit_and_on_other_data():
    for name in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(Views(TWO), name)(X)
    tied = Views(TWO, agreement={}, max_iter=1, tol=0.0).fit(X, Y)
    with pytest.raises(InvalidInputError) as error:
        tied.score(X, GOLD)
    assert str(error.value) == (
        'agreement must be "full" for one score, got other ties; compare predict(X)[view] with the labels of every view'
    )
    with pytest.raises(InvalidInputError) as error:
        Views(TWO).fit(X, Y, owners={"left": np.arange(40)})
    assert str(error.value) == (
        "owners must be of views (left, right) that do not agree fully, got 'left'; leave it out"
    )
