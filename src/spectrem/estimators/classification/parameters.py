"""The parameters of MaxEntClassifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from spectrem.estimators.declare import check_number, given, number, switch
from spectrem.estimators.shared_parameters import (
    CriterionParameters,
    WeightParameters,
    check_column_names,
    check_constraints,
)
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from spectrem.constraints.text import Constraints


def _check_class_weight(name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        for label, weight in value.items():
            check_number(f"{name}[{label!r}]", weight)
    elif value != "balanced":
        raise InvalidInputError(f'{name} must be "balanced" or a mapping from labels to weights, got {quoted(value)}')


@dataclass(eq=False, repr=False)
class MaxEntParameters(WeightParameters, CriterionParameters):
    """The parameters of a maximum-entropy classifier.

    Parameters
    ----------
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        In the language of `spectrem.E` over the columns row, label (as in ``y``), labelled (a truth value) and those of
        ``columns``. Constraints ``.per("row", ...)`` leave labelled rows alone; in all others these count as given. A
        condition ``~part("labelled")`` leaves them out. Rows count by their ``sample_weight``, not by
        ``class_weight`` or ``unlabelled_weight``.
    C : float
        Variance of the Gaussian prior of weights, above 0, as in scikit-learn: the objective is the log-likelihood less
        half their squares over C. With two classes one array of weights is learnt, as there, that of the second.
    l1_ratio : float
        From 0 to 1, as in scikit-learn: of the penalty 1 / C, this share is on the sizes of weights, of which many then
        become 0, and the rest on half their squares.
    fit_intercept : bool
        Whether every class has a weight of its own, which is not penalised.
    class_weight : "balanced" or mapping of label -> float, optional
        By what the rows of a class are multiplied, 1 for classes that are not named; "balanced" makes all classes
        weigh the same. Of rows whose label is not known, with certainty or in shares, the weight does not change.
    unlabelled_weight : float
        How much a sentence or row counts whose labels, or heads, are missing or partial, beside those with all of them.
        At 0 they are left out. It is c2 of [Samdani2012] eq. 5. The costs
        of constraints, slack included, are multiplied by it, too; those of `Expectations` have a strength instead.
    classes : sequence of labels, optional
        All labels that there are; by default those in y. Where one of them has no labelled row, training starts from
        weights of 0, and the constraints must say what it is.
    columns : sequence of names, or mapping of name -> name or position, optional
        Columns of X (a frame, or an array with positions, such as ``{"document": 0}``; negative ones count from the
        last column) that constraints read and that are no features, in `predict` as in `fit`. They stay with their
        rows in cross-validation.
    tol : float
        Gain of the objective, in nats per row, below which training stops at a gamma; 0 runs all iterations.
    project_at_predict : bool
        Whether new rows meet the constraints, too. They do so all together, in the probabilities of `predict_proba`;
        `predict` takes the most probable labels. At gamma = -inf both are the best labels that meet them.
    """

    constraints: Constraints = given((), check_constraints)
    _: KW_ONLY
    l1_ratio: float = number(0.0, 0, 1)
    fit_intercept: bool = switch(True, option=None)
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = given(None, _check_class_weight)
    classes: Sequence[Any] | None = given(None)
    columns: Sequence[Any] | Mapping[str, Any] | None = given(None, check_column_names)
    tol: float = number(1e-5)
    m_tol: float = number(1e-8, open=True)
    project_at_predict: bool = switch(False, option=None)
