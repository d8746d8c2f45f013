"""Criteria that log-linear models climb: posteriors under constraints, and the model's own expectations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from spectrem._arrays import Bools, Floats
from spectrem._first_use import sparse as sp
from spectrem.constraints.compilation.rows import Block
from spectrem.exceptions import InvalidInputError, quoted

Distance = Literal["squares", "divergence"]

# An expectation of less counts as this much, so that a divergence stays finite.
_LEAST = 1e-300


class Costs(NamedTuple):
    """Costs of rows, nats, and their derivatives by the expectations, each of shape (n_rows,)."""

    cost: Floats
    price: Floats


@dataclass(frozen=True)
class Posteriors:
    """The objective of EM under constraints, climbed by its gradient in the weights.

    At every point posteriors are projected onto the constraints, and the weights take a step of L-BFGS along the
    derivative of the whole objective, which is that at fixed posteriors (weights and multipliers move together, as in
    the variational objective for measurements of [Liang2009]). It ends at the same kind of points as EM, whose M-step
    climbs further between two E-steps.

    Use in place of EM where a projection costs little beside an M-step, as of classifiers: it then ends nearer to the
    optimum in a fraction of the time. Of CRFs under very many constraints over the corpus, EM is quicker, which takes
    few steps on multipliers per iteration. gamma = 0 and -inf need EM. Without constraints, estimators of log-linear
    models climb by themselves at gamma = 1: the objective is then the log-likelihood of the labels that are known.

    Parameters
    ----------
    gamma : float
        Above 0: 1 is posterior regularisation, below it unified EM.

    Raises
    ------
    InvalidInputError
        If ``gamma`` is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem import E, MaxEntClassifier, part
    >>> X, y = np.array([[0.0], [1.0], [2.0], [5.0], [6.0], [9.0]]), [0, -1, -1, -1, -1, 1]
    >>> third = E[part("label") == 1] == E.count(..., each="row") / 3
    >>> climbed = MaxEntClassifier([third], criterion=Posteriors()).fit(X, y)
    >>> by_turns = MaxEntClassifier([third], tol=1e-9).fit(X, y)
    >>> round(climbed.objective_, 3) == round(by_turns.objective_, 3)
    True
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.gamma < math.inf:
            raise InvalidInputError(
                f"gamma must be above 0 and finite for a gradient, got {self.gamma}; hard EM goes by turns: leave out "
                "the criterion"
            )


@dataclass(frozen=True)
class Expectations:
    """A generalised expectation criterion: the model's own expectations pay for breaking constraints.

    The weights maximise ``L(theta) + log p(theta) - strength * D(E_p[U h], b)`` ([Ganchev2010] eq. 33,
    [MannMcCallum2007], [MannMcCallum2008]). There is no distribution q beside that of the model: constraints are met
    more or less, and the gradient needs the covariances of the rows of constraints with the features (eq. 34). With q
    beside it, the same objective is that of posterior regularisation, which is never lower (eq. 35).

    Use to compare with posteriors under constraints, or where the model itself must come near known proportions, as it
    is used without the constraints later.

    Parameters
    ----------
    strength : float
        Above 0.
    distance : {"squares", "divergence"}
        Summed over rows, those inside instances times how often these count. "squares": half the square of the
        violation, in the unit of the row; one over ``strength`` is the variance of Gaussian noise on the bounds
        (eqs 39-40).
        "divergence": ``b log(b / E) - b + E`` where the expected value E breaks the bound b. For rows that say how many
        of N have each label, it is N times the divergence KL(b / N || E / N): label regularisation, also known as
        expectation regularisation [MannMcCallum2007].

    Raises
    ------
    InvalidInputError
        If ``strength`` is not above 0, or ``distance`` unknown.

    Examples
    --------
    Of six rows two are of class 1, as the model itself expects in the end:

    >>> import numpy as np
    >>> from spectrem import E, MaxEntClassifier, part
    >>> X, y = np.array([[0.0], [1.0], [2.0], [5.0], [6.0], [9.0]]), [0, -1, -1, -1, -1, 1]
    >>> third = E[part("label") == 1] == E.count(..., each="row") / 3
    >>> classifier = MaxEntClassifier([third], criterion=Expectations(100.0)).fit(X, y)
    >>> round(float(classifier.label_distributions_[:, 1].sum()), 2)
    2.0
    """

    strength: float
    distance: Distance = "squares"

    def __post_init__(self) -> None:
        if not 0 < self.strength < math.inf:
            raise InvalidInputError(
                f"strength must be above 0 and finite, got {self.strength}; it is in nats per squared unit of a row"
            )
        if self.distance not in get_args(Distance):
            raise InvalidInputError(
                f'distance must be "squares" or "divergence", got {self.distance!r}; label regularisation is '
                '"divergence"'
            )

    def costs(self, blocks: Sequence[Block], expected: Floats, bounds: Floats) -> Costs:
        """Costs of rows and their derivatives.

        Parameters
        ----------
        blocks : sequence of Block
            Of all rows.
        expected, bounds : ndarray of shape (n_rows,)
            ``U mu`` and b.

        Returns
        -------
        Costs
            ``cost``, in nats, and ``price``, its derivative by the expectation; each of shape (n_rows,).

        Examples
        --------
        >>> row = Block("half", 0, 1, True, "corpus", None, np.zeros(1, int), {})
        >>> found = Expectations(8.0).costs([row], np.array([2.0]), np.array([1.5]))
        >>> found.cost, found.price
        (array([1.]), array([4.]))
        """
        equality, sign = _senses(blocks, len(bounds))
        if self.distance == "squares":
            excess = expected - bounds
            excess = np.where(equality, excess, np.maximum(excess, 0.0))
            return Costs(0.5 * self.strength * excess * excess, self.strength * excess)
        value, target = np.maximum(sign * expected, _LEAST), sign * bounds
        counts = equality | (expected > bounds)
        log_ratio = np.log(np.where(target > 0, target, 1.0) / value)
        cost = np.where(target > 0, target * log_ratio, 0.0) - target + value
        price = sign * (1.0 - target / value)
        return Costs(self.strength * np.where(counts, cost, 0.0), self.strength * np.where(counts, price, 0.0))

    def check(self, blocks: Sequence[Block], matrix: sp.csr_array, bounds: Floats) -> None:
        """Raise `InvalidInputError` if the criterion cannot measure a constraint.

        Parameters
        ----------
        blocks : sequence of Block
            Of all rows.
        matrix : csr_array of shape (n_rows, n_unary)
        bounds : ndarray of shape (n_rows,)
        """
        _, sign = _senses(blocks, len(bounds))
        for block in blocks:
            if block.slack is not None:
                raise InvalidInputError(
                    f"constraints: {quoted(block.name)} has slack, which a criterion of expectations replaces; leave "
                    "out .slack() or .penalty() and give the criterion a strength"
                )
            if self.distance == "divergence":
                span = slice(block.start, block.stop)
                entries = matrix[span]
                lowest = (np.repeat(sign[span], np.diff(entries.indptr)) * entries.data).min(initial=0.0)
                lowest = min(float(lowest), float((sign[span] * bounds[span]).min(initial=0.0)))
                if lowest < 0:
                    raise InvalidInputError(
                        f"constraints: {quoted(block.name)} must compare an expected number of at least 0 with a bound "
                        f"of at least 0 for a divergence, got {lowest:g} in it; take distance='squares'"
                    )


def _senses(blocks: Sequence[Block], n_rows: int) -> tuple[Bools, Floats]:
    """Which rows are equalities, and the factor by which rows were multiplied that were written as ``>=``."""
    equality, sign = np.zeros(n_rows, np.bool_), np.ones(n_rows)
    for block in blocks:
        span = slice(block.start, block.stop)
        equality[span] = block.equality
        if block.turned is not None:
            sign[span] = np.where(block.turned, -1.0, 1.0)
    return equality, sign
