"""Options of stepwise EM, and the schedule that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from spectrem.estimators.shared_parameters import TRAINING
from spectrem.exceptions import InvalidInputError

_POWER = 0.9  # that of `spectrem.learning.Stepwise`


@dataclass(frozen=True)
class StepwiseOptions:
    """Options of a command that trains; `spectrem.cli.estimator_options.takes` makes them of these fields.

    Examples
    --------
    >>> StepwiseOptions(stepwise=16).given
    {'--stepwise': 16}
    """

    stepwise: Annotated[
        int | None,
        typer.Option(
            "--stepwise",
            metavar="BATCHES",
            min=1,
            help="Update the model after every one of so many parts of the text, for example 32, in place of after all "
            "of it; one pass of every stage, unless --model1-iterations and --max-iter ask for more, then takes the "
            "place of several. For large texts.",
            show_default="off",
            rich_help_panel=TRAINING,
        ),
    ] = None
    step_power: Annotated[
        float | None,
        typer.Option(
            "--step-power",
            metavar="POWER",
            help="Above 0.5 and at most 1: how fast the steps of --stepwise shrink.",
            show_default=f"{_POWER}",
            rich_help_panel=TRAINING,
        ),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """Options that were given, with their values."""
        options = {"--stepwise": self.stepwise, "--step-power": self.step_power}
        return {option: value for option, value in options.items() if value is not None}

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
