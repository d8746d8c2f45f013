"""Programs in units in which the absolute tolerances of HiGHS mean the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from spectrem._arrays import Floats
from spectrem.inference.program import Program
from spectrem.inference.segments import row_maxima


@dataclass(frozen=True)
class ScaledProgram:
    """A program whose rows have coefficients near 1, and the way back; all factors are powers of two, hence exact.

    Attributes
    ----------
    program : Program
        Its slack variables are those of the original over ``slack``, its rows ``row`` times those of the original, its
        cost is counted in ``unit`` nats.
    slack : ndarray of shape (n_slack,)
    row : ndarray of shape (n_rows,)
    unit : float
    """

    program: Program
    slack: Floats
    row: Floats
    unit: float

    @property
    def price(self) -> Floats:
        """Nats per unit of the original bound of each row that a price of 1 is, shape (n_rows,)."""
        return self.row * self.unit

    def original(self, x: Floats) -> Floats:
        """The variables of the original."""
        return x * np.concatenate([np.ones(len(x) - len(self.slack)), self.slack])


def scale_program(program: Program, n_instances: int, spread: float) -> ScaledProgram:
    """Write a program in units of its scores, of its rows' coefficients and of the violations these can have.

    Parameters
    ----------
    program : Program
    n_instances : int
    spread : float
        How far the scores of whole structures lie apart, in sum over its instances, nats.
    """
    largest = row_maxima(program.body)
    largest = np.where(largest > 0, largest, np.abs(program.bounds))
    row = 1.0 / _power(np.where(largest > 0, largest, 1.0))
    slack = program.slack
    # A violation is counted in the size of its row; a norm in that of the largest violation it is of.
    largest = row_maxima(sp.csr_array(slack.matrix.T), row)
    own = np.where(largest > 0, 1.0 / np.where(largest > 0, largest, 1.0), 0.0)
    reach = row_maxima(slack.ties, own)
    norms = row_maxima(sp.csr_array(slack.ties.T), reach)
    column = np.where(own > 0, own, np.where(norms > 0, norms, 1.0))
    tie = 1.0 / np.where(reach > 0, reach, 1.0)
    unit = float(_power(spread / n_instances)) if spread > 0 else 1.0
    levels, columns = sp.diags_array(row, format="csr"), sp.diags_array(column, format="csr")
    scaled = replace(
        program,
        cost=program.cost / unit,
        body=sp.csr_array(levels @ program.body),
        bounds=program.bounds * row,
        slack=replace(
            slack,
            matrix=sp.csr_array(levels @ slack.matrix @ columns),
            cost=slack.cost * column / unit,
            upper=slack.upper / column,
            ties=sp.csr_array(sp.diags_array(tie, format="csr") @ slack.ties @ columns),
        ),
    )
    return ScaledProgram(scaled, column, row, unit)


def _power(value: ArrayLike) -> Floats:
    """The power of two next to a positive number."""
    return np.asarray(2.0 ** np.rint(np.log2(value)), np.float64)
