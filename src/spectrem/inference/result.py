"""The result of a projection, the ways in which a solve ends, and what to do about rows that cannot hold."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem._html import BLUE, ORANGE, and_more, facts, page, paragraphs, table, with_bar
from spectrem._reprs import brief_dataclass
from spectrem.exceptions import InvalidInputError, counted, warn_unconverged
from spectrem.structures.parts import Parts

_MESSAGES = (
    "exact: an integral structure that no other feasible one beats",
    "solved to the tolerance asked for",
    "ran the number of steps asked for",
    "ran out of iterations before the tolerance was met",
    "no distribution meets the constraints",
)
_MOST_PRICES = 10  # that notebooks show
Infeasible: TypeAlias = Literal["raise", "skip"]


class Status(IntEnum):
    """How a solve ended; ``message`` is what the user is shown. A batch has the largest of its parts.

    Examples
    --------
    >>> Status.FIXED_STEPS.message
    'ran the number of steps asked for'
    >>> max(Status.SOLVED, Status.MAX_ITERATIONS).name
    'MAX_ITERATIONS'
    """

    CERTIFIED = 0
    SOLVED = 1
    FIXED_STEPS = 2
    MAX_ITERATIONS = 3
    INFEASIBLE = 4

    @property
    def message(self) -> str:
        """The meaning, as users are shown it."""
        return _MESSAGES[self]


@brief_dataclass(frozen=True)
class Projection:
    """The distribution nearest to a model that meets the constraints, and how near.

    Attributes
    ----------
    marginals : Parts
        Unary: probability of each part under q, in [0, 1]. Factors: expected counts, times the instance weights.
    multipliers : ndarray of shape (n_rows,)
        Price of each row in nats per unit of its bound (of a row inside an instance, for one copy of it); >= 0 for
        ``<=`` rows. All zero for an integer program.
    values : ndarray of shape (n_instances,)
        Each instance's ``smax_gamma(s - U^T multipliers)`` in nats; the score of its structure for an integer program.
    objectives : ndarray of shape (n_instances,)
        Of one copy of each instance, in nats: ``values`` and what its rows and their slack add (instances that rows of
        corpus scope tie together share it equally), so that ``weights @ objectives`` is ``dual_value``; the score of
        its structure for an integer program.
    dual_value, primal_value : float
        Sums over the batch in nats, in which an instance counts as often as its weight says: an upper and (as far as
        ``violation`` is 0) a lower bound of the optimum.
    violation : float
        Worst violation of any row or slack group, after the slack it is allowed, in units of the row.
    kl : float or None
        What the rows cost, ``smax_gamma(s) - dual_value`` in nats and summed alike: KL(q || p) at gamma = 1 without
        slack. None after a warm start (but for counts of labels at gamma = 0) or an integer program.
    status : Status
        The largest of ``instance_status``.
    n_evaluations, n_iter : int
        Passes over the batch, and rounds of the solver.
    residual : float
        Worst distance from the optimality conditions, relative to the size of the row.
    instance_status : ndarray of shape (n_instances,), int8
        A ``Status`` code per instance.
    instance_violation : ndarray of shape (n_instances,)
        ``violation`` of the rows that the instance is solved together with.
    skipped : ndarray of int64
        Rows that were left out because they cannot hold; their multipliers are 0.
    free_expected : ndarray of shape (n_rows,) or None
        ``U mu`` of all rows without any of them at the same gamma, where the solver came by it.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem import E, part
    >>> from spectrem.constraints import compile_constraints
    >>> from spectrem.inference import project_batch
    >>> from spectrem.structures import Categorical, Parts
    >>> structure = Categorical([2, 2])
    >>> rows = compile_constraints(E[part("label") == 1] <= 1, structure)
    >>> found = project_batch(structure, Parts(np.log([0.2, 0.8, 0.5, 0.5])), rows)
    >>> found.marginals.unary.round(3).tolist(), found.multipliers.round(3).tolist(), found.status.name
    ([0.333, 0.667, 0.667, 0.333], [0.693], 'SOLVED')
    """

    marginals: Parts
    multipliers: Floats
    values: Floats
    objectives: Floats
    dual_value: float
    primal_value: float
    violation: float
    kl: float | None
    status: Status
    n_evaluations: int
    n_iter: int
    residual: float
    instance_status: NDArray[np.int8]
    instance_violation: Floats
    skipped: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    free_expected: Floats | None = None

    def _repr_html_(self) -> str:
        cost = {} if self.kl is None else {"cost of the constraints": f"{self.kl:.6g} nats"}
        total = {"instances": f"{len(self.values):,}", "dual value": f"{self.dual_value:.6g} nats"}
        left_out = {"rows left out": f"{len(self.skipped):,}"} if len(self.skipped) else {}
        largest = np.argsort(-np.abs(self.multipliers), kind="stable")[:_MOST_PRICES]
        most = float(np.abs(self.multipliers).max(initial=0.0))
        prices = [
            (f"{row:,}", with_bar(f"{price:.4g}", BLUE if price > 0 else ORANGE, abs(price) / most))
            for row, price in zip(largest.tolist(), self.multipliers[largest].tolist(), strict=True)
            if price
        ]
        binding = int(np.count_nonzero(self.multipliers))
        return page(
            f"Projection: {self.status.message}",
            facts({**total, **cost, "largest violation": f"{self.violation:.3g}", **left_out}),
            paragraphs([f"{binding:,} of {counted(len(self.multipliers), 'row')} of the constraints have a price."]),
            table(("row", "price, nats"), prices) if prices else "",
            and_more(binding - len(prices), "of smaller prices"),
        )


def warn_open(status: NDArray[np.int8], detail: str, way_out: str) -> None:
    """Warn of problems that ran out of iterations or time."""
    warn_unconverged(
        f"{(status == Status.MAX_ITERATIONS).sum()} of {len(status)} constrained problems "
        f"{Status.MAX_ITERATIONS.message} ({detail}); raise {way_out}, or give the constraint slack",
    )


def check_infeasible(infeasible: str) -> None:
    """Raise unless ``infeasible`` is "raise" or "skip"."""
    if infeasible not in get_args(Infeasible):
        raise InvalidInputError(
            f'infeasible must be "raise" or "skip", got {infeasible!r}; "raise" names the constraint'
        )
