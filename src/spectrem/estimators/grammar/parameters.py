"""The parameters of DependencyModel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from spectrem.estimators.declare import given, switch
from spectrem.estimators.shared_parameters import (
    MODEL,
    TRAINING,
    CorpusParameters,
    SentenceParameters,
    StartingParameters,
    TreeParameters,
    prior_of,
    smoothing_of,
)
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from spectrem.estimators.grammar.dependency_model import DependencyModel
    from spectrem.models.grammar import GrammarParameters
    from spectrem.models.priors import Prior

TABLES = ("root", "choose", "stop")
"""Tables that have pseudo-counts and priors of their own."""

STARTS = ("harmonic", "uniform", "random", "supervised")


def _check_fitted(name: str, value: Any) -> None:
    from spectrem.models.grammar import GrammarParameters

    if value is not None and not isinstance(value, GrammarParameters) and not hasattr(value, "params_"):
        raise InvalidInputError(f"{name} must be a fitted DependencyModel or GrammarParameters, got {quoted(value)}")


def _check_start(name: str, value: Any) -> None:
    if isinstance(value, Mapping) or (isinstance(value, str) and value in STARTS):
        return
    from spectrem.models.grammar import GrammarParameters

    if not isinstance(value, GrammarParameters) and not hasattr(value, "params_"):
        raise InvalidInputError(
            f"{name} must be one of {', '.join(STARTS)}, a mapping of tags of heads to tags of children, "
            f"GrammarParameters or a fitted DependencyModel, got {quoted(value)}"
        )


@dataclass(eq=False, repr=False)
class GrammarSettings(TreeParameters, SentenceParameters, CorpusParameters, StartingParameters):
    """The parameters of `spectrem.DependencyModel`.

    Parameters
    ----------
    adjacency : bool
        Whether the tag of a child depends on its being the first one on its side.
    tags : sequence of str or int, optional
        By default those of the sentences, sorted.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        Constraints in the language of `spectrem.E` over the columns of `spectrem.structures.ValenceTrees` (sentence,
        dependent, head, root, direction, length, adjacent ...), ``head_tag`` and ``dependent_tag``, and those given to
        ``fit``; `spectrem.constraints.tag_rules` makes one of rules of grammar. A share of all words is written with
        ``E.count(..., each="occurrence")``, since decisions to stop are choices, too. Sentences with all heads are left
        alone by constraints inside sentences.
    reference : fitted DependencyModel or GrammarParameters, optional
        At gamma > 1, posteriors are drawn to this model's instead of the uniform ones: skewed annealing.
    init : {"harmonic", "uniform", "random", "supervised"}, mapping, GrammarParameters or DependencyModel, optional
        Where to start: "harmonic", heads near by ([KleinManning2004]); "uniform" tables; "random" ones; those of
        sentences with all heads; or given ones. A mapping of tags of heads to lists of tags of children (of None to
        those under the root) is the harmonic start in which such arcs count a hundred times. By default "supervised" if
        there are sentences with all heads, else "harmonic".
    smoothing : float or mapping of {"root", "choose", "stop"} -> float
        Added to every expected count.
    prior : Prior or mapping of {"root", "choose", "stop"} -> Prior, optional
        A prior in place of smoothing, such as `spectrem.models.priors.MeanFieldPrior` for variational Bayes. The
        objective is then a bound on the probability of the text, whatever the parameters, by which settings can be
        compared.
    """

    adjacency: bool = switch(False, group=MODEL)
    _: KW_ONLY
    tags: Sequence[str | int] | None = given(None)
    reference: DependencyModel | GrammarParameters | None = given(None, _check_fitted)
    init: str | Mapping[Any, Any] | GrammarParameters | DependencyModel | None = given(
        None,
        _check_start,
        convert=str,
        choices=STARTS,
        option="",
        group=TRAINING,
        metavar="NAME",
        help="Where to start. harmonic: heads near by. supervised: from the sentences with all heads, if there are "
        "any. uniform, or random: tables drawn by --random-state. By default supervised or harmonic.",
    )
    smoothing: float | Mapping[str, float] = smoothing_of(TABLES, group=MODEL)
    prior: Prior | Mapping[str, Prior] | None = prior_of(TABLES)
