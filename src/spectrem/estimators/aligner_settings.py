"""The rules that the parameters of WordAligner obey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from spectrem.constraints import Constraint, agreement, fertility
from spectrem.constraints.compile import flatten
from spectrem.estimators.decode import DECODES
from spectrem.estimators.settings_checks import check_choice, check_constraints, check_count, check_number
from spectrem.exceptions import InvalidInputError
from spectrem.learning.schedule import check_gamma

_MODELS = ("ibm1", "ibm2", "hmm")
_AT_LEAST = {"iterations": 1, "model1_iterations": 0, "max_jump": 1, "dual_steps": 0}
_OR_NONE = ("max_length", "n_threads")
_NUMBERS = ("gamma", "null_probability", "stem_strength", "cognate_strength", "step_size", "max_fertility", "alpha")


def rules_of(aligner: Any) -> list[Any]:
    """The constraints of a WordAligner; ``"fertility"`` alone has the aligner's own bound."""
    bounded = fertility(aligner.max_fertility)
    return flatten([bounded if isinstance(one, str) and one == "fertility" else one for one in _listed(aligner)])


def fused_rules(aligner: Any) -> tuple[bool, float] | None:
    """Whether both directions agree, and the largest fertility; None if not all constraints are texts that say so."""
    agree, most = False, np.inf
    for one in rules_of(aligner) if all(isinstance(given, str) for given in _listed(aligner)) else [None]:
        own = replace(one, label=None) if isinstance(one, Constraint) else None
        if own == replace(agreement(), label=None):
            agree = True
        elif own is not None and own.upper is not None and own == replace(fertility(own.upper.constant), label=None):
            most = min(most, own.upper.constant)
        else:
            return None
    return agree, most


def _listed(aligner: Any) -> Sequence[Any]:
    return [aligner.constraints] if isinstance(aligner.constraints, str | Mapping) else aligner.constraints


def check_settings(aligner: Any) -> None:
    """Raise `InvalidInputError` for the first parameter of a WordAligner that breaks its rule."""
    check_choice("model", aligner.model, _MODELS)
    check_constraints(aligner.constraints)
    for name, least in _AT_LEAST.items():
        check_count(name, getattr(aligner, name), least)
    for name in _OR_NONE:
        if getattr(aligner, name) is not None:
            check_count(name, getattr(aligner, name), 1, "; None sets no limit")
    for name in _NUMBERS if aligner.beta_min is None else (*_NUMBERS, "beta_min"):
        check_number(name, getattr(aligner, name))
    check_gamma(aligner.gamma)
    check_choice("decode", aligner.decode, DECODES)
    if aligner.beta_min is not None and aligner.gamma <= 0:
        raise InvalidInputError(
            f"beta_min anneals towards a gamma above 0, got gamma {aligner.gamma}; drop one of them"
        )
    for name, holds, rule, hint in (
        ("null_probability", 0 < aligner.null_probability < 1, "lie between 0 and 1", "; try 0.1"),
        ("alpha", 0 <= aligner.alpha <= 1, "lie in [0, 1]", ""),
        ("stem_strength", aligner.stem_strength >= 0, "be at least 0", ""),
        ("cognate_strength", aligner.cognate_strength >= 0, "be at least 0", ""),
        ("step_size", aligner.step_size > 0, "be positive", ""),
        ("max_fertility", aligner.max_fertility > 0, "be positive", ""),
    ):
        if not holds:
            raise InvalidInputError(f"{name} must {rule}, got {getattr(aligner, name)}{hint}")
    threshold = aligner.threshold
    is_number = isinstance(threshold, Real) and not isinstance(threshold, bool) and 0 <= float(threshold) <= 1
    if not is_number and not (isinstance(threshold, str) and threshold == "auto"):
        raise InvalidInputError(f'threshold must be "auto" or a number in [0, 1], got {threshold!r}')
