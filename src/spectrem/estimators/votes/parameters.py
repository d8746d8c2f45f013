"""The parameters of LabelModel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from spectrem.estimators.declare import check_number, choice, count, given, number, switch
from spectrem.estimators.shared_parameters import MODEL, TRAINING, CorpusParameters, labels_of
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from spectrem.models.votes import Confusion

COLUMNS = ("item", "source", "label")
"""The columns of a long table of votes."""


def _check_names(name: str, value: Any) -> None:
    if isinstance(value, str) or not hasattr(value, "__iter__") or len(set(value)) != 3:
        raise InvalidInputError(
            f"{name} must name the columns of items, of sources and of labels, got {quoted(value)}; write "
            "('item', 'source', 'label')"
        )


def _check_groups(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"{name} must map names of sources to names of their groups, got {quoted(value)}; write {{'ann': 'a'}}"
        )


def _check_weights(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must map names of sources to weights, got {quoted(value)}; write {{'ann': 2}}")
    for source, weight in value.items():
        check_number(f"{name}[{source!r}]", weight)


def _check_shares(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not value:
        raise InvalidInputError(
            f"{name} must map all classes to their shares, got {quoted(value)}; write {{'spam': 0.2}}"
        )
    for label, share in value.items():
        check_number(f"{name}[{label!r}]", share, 0, 1)
    if abs(sum(value.values()) - 1) > 1e-6:
        raise InvalidInputError(f"{name} must sum to 1, got {sum(value.values()):g}; divide them by their sum")


def _check_estimator(name: str, value: Any) -> None:
    if value is not None:
        from spectrem.estimators.selftraining.self_trainer import check_classifier

        check_classifier(value, False, name)


def default_classifier() -> BaseEstimator:
    """The classifier of features where no other is set."""
    from spectrem.estimators.classification.maxent_classifier import MaxEntClassifier

    return MaxEntClassifier(C=10.0)


@dataclass(eq=False, repr=False)
class LabelModelParameters(CorpusParameters):
    """The parameters of `spectrem.LabelModel`.

    Parameters
    ----------
    sources : {"auto", "answers", "rules"}
        How sources vote. "answers": each may name any class, as annotators and judges do, and has probabilities of its
        answers for every class. "rules": each names a class where it applies and is silent elsewhere, as patterns and
        dictionaries do, and has a precision; silence says nothing. "auto" takes rules where most votes are of sources
        that name one class only.
    confusion : {"full", "class", "source"}
        How answers err: a probability for every pair of class and answer; one number for every class, with errors
        spread evenly; one number for the source.
    strength : float, optional
        How much the prior of a source counts: for answers the votes for every class of each class that there is, by
        default 1; for rules the votes beside 0.7 for each of the source, by default 10.
    accuracy : float, optional
        The share of these votes that are right, in (0, 1): by default 0.8 of answers, 0.85 of rules.
    source_groups : mapping of source -> group, optional
        Sources of a group share their probabilities; those that are not named stand alone.
    source_weight : mapping of source -> float, optional
        How much a vote of a source counts, 1 for those that are not named.
    dependence : {"weigh", "joint", "ignore"}
        Whether votes of sources that are nearly copies of each other, as `LabelModel.dependent_sources` finds them,
        count less where they agree, or are answers with a probability for every combination of votes of a group, given
        the class. Otherwise copies of a weak source can outvote the others and seem to be right.
    joint_groups : mapping of source -> group, optional
        Sources that are known to depend on each other, such as judges of one family: their answers have a probability
        for every combination. All others are then independent, and ``dependence`` is not read.
    shares : mapping of class -> float, optional
        Shares of the classes, which are learnt without them.
    share_strength : float
        How many items, for every item that there is, the prior of shares counts, evenly divided among the classes.
    classifier : classifier, optional
        Learns from the features of items what their labels are; with ``predict_proba``, and ``sample_weight`` in
        ``fit``. By default `spectrem.MaxEntClassifier` with ``C=10``.
    joint_steps : int
        How often the classifier's probabilities take the place of the shares of the classes, label model and
        classifier are learnt again, and items without votes take part ([Raykar2010]). It helps where features say
        more of the labels than votes do; by default the classifier learns once and teaches nothing.
    classes : sequence of labels, optional
        All labels that there are; by default those in votes and labels.
    table_columns : (str, str, str)
        What a long table calls the items, the sources and the labels.
    repeated : bool
        Whether a source may vote several times on an item, each time anew. Otherwise a vote that is there twice counts
        once, and votes that differ are an error.
    project_at_predict : bool
        Whether new items meet the constraints, too, all together.
    """

    sources: Literal["auto", "answers", "rules"] = choice("auto", "auto", "answers", "rules", group=MODEL)
    _: KW_ONLY
    confusion: Confusion = choice("full", "full", "class", "source", group=MODEL)
    strength: float | None = number(None, open=True, group=MODEL)
    accuracy: float | None = number(None, 0, 1, open=True, group=MODEL)
    source_groups: Mapping[Any, Any] | None = given(None, _check_groups)
    source_weight: Mapping[Any, float] | None = given(None, _check_weights)
    dependence: Literal["weigh", "joint", "ignore"] = choice("weigh", "weigh", "joint", "ignore", group=MODEL)
    joint_groups: Mapping[Any, Any] | None = given(None, _check_groups)
    shares: Mapping[Any, float] | None = given(None, _check_shares)
    share_strength: float = number(1.0, group=MODEL)
    classifier: BaseEstimator | None = given(None, _check_estimator)
    joint_steps: int = count(0, 0, option=None)
    classes: Sequence[Any] | None = given(None, convert=labels_of, option="", group=MODEL, metavar="A,B,C")
    table_columns: Sequence[str] = given(
        COLUMNS,
        _check_names,
        convert=lambda text: tuple(name.strip() for name in text.split(",")),
        option="--columns",
        group="Columns",
        metavar="ITEM,SOURCE,LABEL",
        help="What a table with a row for every vote calls items, sources and labels.",
    )
    repeated: bool = switch(False, group=MODEL)
    project_at_predict: bool = switch(False, group=MODEL)
    tol: float = number(1e-8, group=TRAINING, metavar="GAIN")
