"""The rules that the parameters of WordAligner obey."""

from __future__ import annotations

from numbers import Real
from typing import Any

from spectrem.estimators.decode import DECODES
from spectrem.estimators.settings_checks import check_choice, check_count, check_number
from spectrem.exceptions import InvalidInputError
from spectrem.learning.schedule import check_gamma

_MODELS = ("ibm1", "ibm2", "hmm")
_CONSTRAINTS = ("agreement", "fertility")
_AT_LEAST = {"iterations": 1, "model1_iterations": 0, "max_jump": 1, "dual_steps": 0}
_OR_NONE = ("max_length", "n_threads")
_NUMBERS = ("gamma", "null_probability", "stem_strength", "cognate_strength", "step_size", "max_fertility", "alpha")


def check_settings(aligner: Any) -> None:
    """Raise `InvalidInputError` for the first parameter of a WordAligner that breaks its rule."""
    check_choice("model", aligner.model, _MODELS)
    if isinstance(aligner.constraints, str):
        raise InvalidInputError(
            f"constraints must be a sequence, got the string {aligner.constraints!r}; put it in a list"
        )
    for constraint in aligner.constraints:
        if isinstance(constraint, str) and constraint not in _CONSTRAINTS:
            raise InvalidInputError(
                f"constraints must be {' or '.join(_CONSTRAINTS)}, or constraints made with E, got {constraint!r}"
            )
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
