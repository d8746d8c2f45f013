"""The parameters of Views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from spectrem.estimators.declare import count, given, number
from spectrem.estimators.shared_parameters import CorpusParameters, SentenceParameters, check_constraints
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from spectrem.constraints.constraint import AnyConstraint


def _check_views(name: str, value: Any) -> None:
    pairs = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []
    named = [pair[0] for pair in pairs if isinstance(pair, tuple | list) and len(pair) == 2]
    if len(named) != len(pairs) or len(pairs) < 2:
        raise InvalidInputError(
            f"{name} must list two or more pairs of a name and an estimator, got {quoted(value)}; give for example "
            '[("spelling", MaxEntClassifier()), ("context", MaxEntClassifier())]'
        )
    for view in named:
        if not isinstance(view, str) or not view.isidentifier() or "__" in view:
            raise InvalidInputError(
                f"{name} must have names that can stand in a constraint, without two underscores in a row, got "
                f"{quoted(view)}; rename it"
            )
    if len(set(named)) < len(named):
        raise InvalidInputError(f"{name} must have distinct names, got {', '.join(named)}; rename one")


def _check_agreement(name: str, value: Any) -> None:
    if value == "full" or isinstance(value, Mapping):
        return
    if isinstance(value, str) or (isinstance(value, Sequence) and not len(value)):
        raise InvalidInputError(
            f'{name} must be "full", a mapping of views to the groups of their labels, or a list of constraints that '
            f"tie the views, got {quoted(value)}; views without a tie are fitted one by one"
        )
    check_constraints(name, value)


@dataclass(eq=False, repr=False)
class ViewsParameters(SentenceParameters, CorpusParameters):
    """The parameters of `spectrem.Views`.

    Parameters
    ----------
    views : sequence of (name, estimator)
        Two or more, each a `MaxEntClassifier` or a `CRFTagger` that is not fitted. Of a classifier ``C``,
        ``l1_ratio``, ``fit_intercept``, ``classes``, ``m_steps`` and ``m_tol`` are used; of a tagger these (``tags``
        for ``classes``), ``features``, ``pairs``, ``edge_features``, ``scheme`` and ``min_count``; all others must be
        at their defaults, as they are here for all views together.
    agreement : "full", mapping of view -> mapping of label -> group, or sequence of constraints
        What the views agree on. "full": all have the same labels, and one distribution of them (of sequences, if the
        views are taggers). A mapping says which labels of a view are one group; labels it leaves out are a group of
        their own name, and groups that some view does not have are one group together: all views then expect every
        group alike, in every row or, where all are taggers, at every token. Constraints over the columns row, view,
        ``<view>_label`` (of taggers ``<view>_tag``, token), and those of `fit`, say anything else.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        What else is known, in the language of `spectrem.E`. With full agreement over the columns that a classifier
        has (row, label, labelled) or a tagger (sentence, token, tag, ...), where every row or sentence counts once
        however many views it has; otherwise over those of ``agreement``.
    agreement_penalty : float, optional
        With groups of labels: what a difference of 1 in an expectation costs, nats, so that views agree in part. By
        default they agree exactly.
    feature_groups : mapping of view -> sequence, optional
        For one matrix or frame X: the columns that each view sees, by number, or of frames by name.
    unlabelled_weight : float
        How much a sentence or row counts whose labels, or heads, are missing or partial, beside those with all of them.
        That is one that some view has no label for. Constraints count them as any others. At 0 the views are trained by
        themselves, and agree when they predict.
    dual_steps : int
        Steps per iteration on the multipliers of constraints over the corpus, from those of the iteration before; 0
        solves them every time, as views must agree in every iteration.
    project_at_predict : bool
        Whether new sentences meet the constraints, too. They always meet the agreement.
    tol : float
        Gain of the objective, in nats per row, below which training stops at a gamma; 0 runs all iterations.
    """

    views: Sequence[tuple[str, Any]] = given(check=_check_views)
    agreement: Literal["full"] | Mapping[str, Mapping[Any, Any]] | Sequence[AnyConstraint] = given(
        "full", _check_agreement
    )
    _: KW_ONLY
    agreement_penalty: float | None = number(None, open=True)
    feature_groups: Mapping[str, Sequence[Any]] | None = given(None)
    unlabelled_weight: float = number(1.0)
    tol: float = number(1e-5)
    dual_steps: int = count(0, 0)
