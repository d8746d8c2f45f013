"""Options of deterministic annealing and of stepwise EM, and the schedules that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spectrem.cli.declare import option
from spectrem.estimators.shared_parameters import TRAINING
from spectrem.exceptions import InvalidInputError

_RATE = 1.2  # that of `spectrem.learning.Anneal`
_POWER = 0.9  # that of `spectrem.learning.Stepwise`


@dataclass(frozen=True)
class Annealing:
    """Options of a command that trains.

    Parameters
    ----------
    anneal
        Deterministic annealing: start softer, at gamma = 1 / BETA, and cool down to --gamma step by step, with at
        most --max-iter iterations at every step; for example 0.5.
    anneal_rate
        Factor above 1 by which 1 / gamma grows from step to step of --anneal.
    quench
        End with hard EM, at gamma = 0.
    """

    anneal: float | None = option(None, metavar="BETA", show_default="off", group=TRAINING)
    anneal_rate: float | None = option(None, metavar="RATE", show_default=f"{_RATE}", group=TRAINING)
    quench: bool = option(False, group=TRAINING)

    def check(self, gamma: float) -> None:
        """Refuse what cannot cool down to ``gamma``.

        Raises
        ------
        InvalidInputError
            Naming the option.
        """
        beta, rate = self.anneal, self.anneal_rate
        if rate is not None and beta is None:
            raise InvalidInputError(f"--anneal-rate {rate:g} concerns --anneal, which is off; add it or drop this")
        if beta is None:
            return
        if not gamma > 0:
            raise InvalidInputError(
                f"--anneal cools down to a gamma above 0, but --gamma is {gamma:g}; raise it, and add --quench for 0"
            )
        if not 0 < beta <= 1.0 / gamma:
            raise InvalidInputError(
                f"--anneal {beta:g}: starts at gamma = 1 / BETA, which must not be below --gamma {gamma:g}; give a "
                f"BETA above 0 and at most {1.0 / gamma:g}, for example {0.1 / gamma:g}"
            )
        if rate is not None and not 1 < rate < float("inf"):
            raise InvalidInputError(
                f"--anneal-rate {rate:g}: 1 / gamma must grow; give a finite factor above 1, such as 1.2"
            )

    def schedule(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of an estimator with a ``schedule`` in place of ``gamma``, if there is any.

        Examples
        --------
        >>> Annealing(0.5).schedule({"gamma": 0.5, "max_iter": 3})
        {'max_iter': 3, 'schedule': Anneal(beta_min=0.5, beta_max=2.0, alpha=1.2)}
        """
        if self.anneal is None and not self.quench:
            return dict(settings)
        from spectrem.learning import Anneal, Constant, Quench, Schedule

        gamma = settings.get("gamma", 1.0)
        before: Schedule = Constant(gamma)
        if self.anneal is not None:
            before = Anneal(self.anneal, 1.0 / gamma, self.anneal_rate or _RATE)
        others = {name: value for name, value in settings.items() if name != "gamma"}
        return {**others, "schedule": Quench(before) if self.quench else before}


@dataclass(frozen=True)
class StepwiseOptions:
    """Options of a command that trains.

    Parameters
    ----------
    stepwise
        Update the model after every one of so many parts of the text, for example 32, in place of after all of it;
        one pass of every stage, unless --model1-iterations and --max-iter ask for more, then takes the place of
        several. For large texts.
    step_power
        Above 0.5 and at most 1: how fast the steps of --stepwise shrink.
    """

    stepwise: int | None = option(None, metavar="BATCHES", min=1, show_default="off", group=TRAINING)
    step_power: float | None = option(None, metavar="POWER", show_default=f"{_POWER}", group=TRAINING)

    def check(self) -> None:
        """Refuse a power out of its range, or without steps.

        Raises
        ------
        InvalidInputError
            Naming the option.
        """
        power = self.step_power
        if power is not None and self.stepwise is None:
            raise InvalidInputError(f"--step-power {power:g} concerns --stepwise, which is off; add it or drop this")
        if power is not None and not 0.5 < power <= 1:
            raise InvalidInputError(
                f"--step-power {power:g}: must be above 0.5 and at most 1, so that steps shrink, but not too fast; "
                "try 0.9"
            )

    def schedule(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of an estimator whose schedule takes small steps, if that was asked for.

        Examples
        --------
        >>> StepwiseOptions(16).schedule({"gamma": 0.5})["schedule"]
        Stepwise(within=Constant(gamma=0.5), n_batches=16, power=0.9, seed=0)
        """
        if self.stepwise is None:
            return dict(settings)
        from spectrem.learning import Constant, Stepwise

        within = settings.get("schedule") or Constant(settings.get("gamma", 1.0))
        others = {name: value for name, value in settings.items() if name != "gamma"}
        schedule = Stepwise(within, self.stepwise, self.step_power or _POWER)
        return {"max_iter": 1, "model1_iterations": 1, **others, "schedule": schedule}
