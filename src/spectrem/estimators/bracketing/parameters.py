"""The parameters of BracketingModel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from spectrem.estimators.declare import check_number, choice, given, switch
from spectrem.estimators.shared_parameters import MODEL, TRAINING, CorpusParameters, SentenceParameters
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from spectrem.estimators.bracketing.bracketing_model import BracketingModel
    from spectrem.models.bracketing import SpanParameters

STARTS = ("split", "uniform")


def span_smoothing(smoothing: float | Sequence[float]) -> tuple[float, float]:
    """Pseudo-counts of constituents and of distituents.

    Examples
    --------
    >>> span_smoothing([2, 8]), span_smoothing(0.5)
    ((2.0, 8.0), (0.5, 0.5))
    """
    constituent, distituent = smoothing if isinstance(smoothing, Sequence) else (smoothing, smoothing)
    return float(constituent), float(distituent)


def _check_smoothing(name: str, value: Any) -> None:
    """A number of at least 0, or two."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        check_number(name, value, hint="; give one for all spans, or two: of constituents and of distituents")
        return
    if len(value) != 2:
        raise InvalidInputError(f"{name} must be one number, or two: of constituents and of distituents, got {value!r}")
    for kind, amount in zip(("constituents", "distituents"), value, strict=True):
        check_number(f"{name} of {kind}", amount)


def _check_start(name: str, value: Any) -> None:
    if isinstance(value, str) and value in STARTS:
        return
    if hasattr(value, "get_params") and not hasattr(value, "params_"):
        raise InvalidInputError(f"{name} must be a fitted BracketingModel, got one that is not fitted; fit it first")
    from spectrem.models.bracketing import SpanParameters

    if not hasattr(value, "params_") and not isinstance(value, SpanParameters):
        raise InvalidInputError(
            f"{name} must be one of {', '.join(STARTS)}, SpanParameters or a fitted BracketingModel, got "
            f"{quoted(value)}"
        )


@dataclass(eq=False, repr=False)
class BracketingParameters(SentenceParameters, CorpusParameters):
    """The parameters of `spectrem.BracketingModel`.

    Parameters
    ----------
    by_length : bool
        Whether the tags of a span are drawn given their number: model 2 of [SmithEisner2004], else model 1, that of
        [KleinManning2002].
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        Constraints in the language of `spectrem.E` over the columns sentence, start, end, span_length, constituent
        (true or false), and the tags of a span: first and last, before and after it, and yield, all of them with blanks
        between.
    reference : {"split"}, optional
        At gamma > 1, posteriors are drawn to trees cut at random instead of to uniform ones: skewed annealing.
    init : {"split", "uniform"}, SpanParameters or BracketingModel
        Where to start: expected counts of trees cut at random from the top, or of equally probable trees; or given
        parameters, or those of a fitted model, of the same sentences.
    smoothing : float or pair of floats
        Added to the expected counts of every yield and context that occurs, as a constituent and as a distituent. By
        default as published, 2 and 8, for some thousand sentences; smaller corpora want less.
    """

    by_length: bool = switch(True, group=MODEL)
    _: KW_ONLY
    reference: Literal["split"] | None = choice(None, "split", group=TRAINING)
    init: str | SpanParameters | BracketingModel = given(
        "split", _check_start, convert=str, choices=STARTS, option="", group=TRAINING, metavar="NAME"
    )
    smoothing: float | Sequence[float] = given(
        (2.0, 8.0), _check_smoothing, convert=float, option="", least=0.0, group=MODEL, metavar="COUNT"
    )
