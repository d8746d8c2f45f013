"""Options of deterministic annealing, and the schedule that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from spectrem.estimators.shared_parameters import TRAINING
from spectrem.exceptions import InvalidInputError

_RATE = 1.2  # that of `spectrem.learning.Anneal`


@dataclass(frozen=True)
class Annealing:
    """Options of a command that trains; `spectrem.cli.estimator_options.takes` makes them of these fields.

    Examples
    --------
    >>> Annealing(anneal=0.5).given
    {'--anneal': 0.5}
    """

    anneal: Annotated[
        float | None,
        typer.Option(
            "--anneal",
            metavar="BETA",
            help="Deterministic annealing: start softer, at gamma = 1 / BETA, and cool down to --gamma step by step, "
            "with at most --max-iter iterations at every step; for example 0.5.",
            show_default="off",
            rich_help_panel=TRAINING,
        ),
    ] = None
    anneal_rate: Annotated[
        float | None,
        typer.Option(
            "--anneal-rate",
            metavar="RATE",
            help="Factor above 1 by which 1 / gamma grows from step to step of --anneal.",
            show_default=f"{_RATE}",
            rich_help_panel=TRAINING,
        ),
    ] = None
    quench: Annotated[
        bool, typer.Option("--quench", help="End with hard EM, at gamma = 0.", rich_help_panel=TRAINING)
    ] = False

    @property
    def given(self) -> dict[str, Any]:
        """Options that were given, with their values."""
        options = {"--anneal": self.anneal, "--anneal-rate": self.anneal_rate, "--quench": self.quench or None}
        return {option: value for option, value in options.items() if value is not None}

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
