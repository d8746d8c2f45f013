"""Which E-step a WordAligner takes: the compiled one of its named constraints, or the general one."""

from __future__ import annotations

from typing import Any

import numpy as np

from spectrem.estimators.alignment.parameters import fused_rules, rules_of
from spectrem.learning import EStep
from spectrem.models.alignment import AlignmentModel, CoupledKernel


def choose_estep(aligner: Any, model: AlignmentModel, gamma: float) -> EStep:
    """The E-step of training at ``gamma``."""
    return EStep(kernel=coupled(aligner, model)) if is_coupled(aligner, gamma) else general_estep(aligner, gamma)


def general_estep(aligner: Any, gamma: float) -> EStep:
    """The E-step that takes any constraints, at any gamma."""
    from spectrem.inference import FixedStep

    solver = FixedStep(aligner.dual_steps, aligner.step_size) if aligner.dual_steps > 0 and gamma >= 0 else None
    return EStep(rules_of(aligner), solver=solver, alpha=aligner.alpha, infeasible=aligner.infeasible)


def is_coupled(aligner: Any, gamma: float) -> bool:
    """Whether the compiled E-step knows all constraints of an aligner and solves them as it asks."""
    exact = aligner.dual_steps == 0 and bool(aligner.constraints)
    return fused_rules(aligner) is not None and gamma > 0 and aligner.alpha == 1 and not exact


def coupled(aligner: Any, model: AlignmentModel, project: bool = True) -> CoupledKernel:
    """The compiled E-step, without constraints if not ``project``."""
    agree, most = (fused_rules(aligner) if project else None) or (False, np.inf)
    return CoupledKernel(
        model, agreement=agree, max_fertility=most, steps=aligner.dual_steps, step_size=aligner.step_size
    )
