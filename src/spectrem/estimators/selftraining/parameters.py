"""The parameters of SelfTrainer."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from spectrem.estimators.declare import count, given, number, switch
from spectrem.estimators.shared_parameters import (
    ComputingParameters,
    LearningParameters,
    check_column_names,
    check_constraints,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sklearn.base import BaseEstimator

    from spectrem.constraints.text import Constraints


@dataclass(eq=False, repr=False)
class SelfTrainerParameters(LearningParameters, ComputingParameters):
    """The parameters of `spectrem.SelfTrainer`.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``, and ``sample_weight`` in ``fit``. It is cloned for every fit; one with
        ``warm_start=True`` goes on from the fit before, which pays where fits take long. A pipeline is fitted as a
        whole every time, and all of its steps that take weights get them; steps that need not be fitted again stand
        before the trainer, as in ``make_pipeline(StandardScaler(), SelfTrainer(LogisticRegression()))``.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        Constraints in the language of `spectrem.E` over the columns row, label (as in ``y``), labelled (a truth value)
        and those of ``columns``. Constraints ``.per("row", ...)`` leave labelled rows alone; in all others these count
        as given. A condition ``~part("labelled")`` leaves them out. Rows count by their ``sample_weight``, not by
        ``unlabelled_weight``.
    unlabelled_weight : float
        How much a sentence or row counts whose labels, or heads, are missing or partial, beside those with all of them.
        At 0 they are left out. It is c2 of [Samdani2012] eq. 5: the weight of unlabelled rows when the classifier is
        fitted.
    columns : sequence of names, or mapping of name -> name or position, optional
        Columns of X (a frame, or an array with positions, such as ``{"document": 0}``; negative ones count from the
        last column) that constraints read and the estimator is not shown, in `predict` as in `fit`. They stay with
        their rows in cross-validation.
    classes : sequence of labels, optional
        All labels that there are; by default those in y. Where one of them has no labelled row, training starts from
        the labels of largest entropy that meet the constraints, which may then be all that there is to learn from.
    soft_targets : bool
        Whether ``estimator.fit`` takes an array of shape (n_rows, n_classes) of probabilities as y, the classes in
        increasing order; ``sample_weight`` is then needed only where weights differ. Classifiers of scikit-learn do
        not: for these every unlabelled row is repeated, once per label, weighted by its probability (those below
        1e-6 are left out).
    max_iter : int
        Iterations at most, for every gamma.
    tol : float
        Relative change of the objective below which training stops at a gamma; 0 runs all iterations. Near gamma = 1
        the objective comes close to 0 and asks for a larger ``tol``.
    n_threads : int, optional
        All rows are one shard, which one thread works on. What spreads the work of the classifier is its own
        (``n_jobs``).
    corpus : callable, optional
        From an iterable of shards to the `spectrem.corpus.Corpus` that keeps them. All rows are one shard, and come to
        the classifier wherever that is. By default they stay in memory. Saved models do not hold it.
    checkpoint : path, optional
        A folder that holds the labels of the rows after every iteration: the same `fit` again, also in another process,
        goes on from them. The classifier is fitted to them again: one that draws random numbers needs a
        ``random_state``, and one with ``warm_start=True`` begins anew.
    """

    estimator: BaseEstimator = given()
    constraints: Constraints = given((), check_constraints)
    _: KW_ONLY
    unlabelled_weight: float = number(1.0, former="weight")
    columns: Sequence[Any] | Mapping[str, Any] | None = given(None, check_column_names)
    classes: Sequence[Any] | None = given(None)
    soft_targets: bool = switch(False, option=None)
    max_iter: int = count(50)
    tol: float = number(1e-3)
