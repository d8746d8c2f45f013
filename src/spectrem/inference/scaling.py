"""Programs in units in which the absolute tolerances of HiGHS mean the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem.inference.program import Program


@dataclass(frozen=True)
class ScaledProgram:
    """A program whose rows have coefficients near 1, and the way back; all factors are powers of two, hence exact.

    Attributes
    ----------
    program : Program
        Its variables are ``x / column``, its rows ``row_below`` and ``row_equal`` times those of the original, its
        cost is counted in ``unit`` nats.
    column : ndarray of shape (n_variables,)
        1 for the variables of the structures.
    row_below, row_equal : ndarray of shape (n_rows,)
    unit : float
    """

    program: Program
    column: NDArray[np.float64]
    row_below: NDArray[np.float64]
    row_equal: NDArray[np.float64]
    unit: float

    def below_prices(self, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Nats per unit of the original bounds of the constraints' inequalities, from prices of the program's."""
        n = len(self.program.rows_below)
        return marginals[:n] * self.row_below[:n] * self.unit

    def scale_prices(self, prices: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The other way round, of the constraints' inequalities and equalities, from prices of all rows."""
        below, equal = self.program.rows_below, self.program.rows_equal
        return (
            prices[below] / (self.row_below[: len(below)] * self.unit),
            prices[equal] / (self.row_equal[: len(equal)] * self.unit),
        )

    def equal_prices(self, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """As `below_prices`, of the constraints' equalities."""
        n = len(self.program.rows_equal)
        return marginals[:n] * self.row_equal[:n] * self.unit


def scale_program(program: Program, spread: float) -> ScaledProgram:
    """Write a program in units of its scores, of its rows' coefficients and of the violations these can have.

    Parameters
    ----------
    program : Program
    spread : float
        How far the scores of whole structures lie apart, in sum over its instances, nats.
    """
    n_x, n_below, n_equal = len(program.shapes.objective), len(program.rows_below), len(program.rows_equal)
    row_below = np.ones(program.below.shape[0])
    row_equal = np.ones(program.equal.shape[0])
    row_below[:n_below] = _levels(program.below[:n_below, :n_x], program.limit[:n_below])
    row_equal[:n_equal] = _levels(program.equal[:n_equal, :n_x], program.equal_to[:n_equal])
    column = np.ones(len(program.cost))
    if len(program.slack):
        # A violation is counted in the size of its row; a norm in that of the largest violation it is of.
        heads = sp.vstack([program.below[:n_below, n_x:], program.equal[:n_equal, n_x:]], format="csc")
        largest = _column_maxima(heads, np.concatenate([row_below[:n_below], row_equal[:n_equal]]))
        own = np.where(largest > 0, 1.0 / np.where(largest > 0, largest, 1.0), 0.0)
        ties = sp.csr_array(program.below[n_below:, n_x:])
        reach = _row_maxima(ties, own)
        norms = _column_maxima(sp.csc_array(ties), reach)
        column[n_x:] = np.where(own > 0, own, np.where(norms > 0, norms, 1.0))
        row_below[n_below:] = 1.0 / np.where(reach > 0, reach, 1.0)
    unit = float(_power(spread / len(program.instances))) if spread > 0 else 1.0
    columns = sp.diags_array(column, format="csr")
    scaled = replace(
        program,
        cost=program.cost * column / unit,
        upper=program.upper / column,
        equal=sp.csr_array(sp.diags_array(row_equal, format="csr") @ program.equal @ columns),
        equal_to=program.equal_to * row_equal,
        below=sp.csr_array(sp.diags_array(row_below, format="csr") @ program.below @ columns),
        limit=program.limit * row_below,
    )
    return ScaledProgram(scaled, column, row_below, row_equal, unit)


def _levels(matrix: sp.csr_array, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = _row_maxima(sp.csr_array(matrix), np.ones(matrix.shape[1]))
    largest = np.where(largest > 0, largest, np.abs(bounds))
    return 1.0 / _power(np.where(largest > 0, largest, 1.0))


def _power(value: ArrayLike) -> NDArray[np.float64]:
    """The power of two next to a positive number."""
    return np.asarray(2.0 ** np.rint(np.log2(value)), np.float64)


def _row_maxima(matrix: sp.csr_array, column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest ``|entry| * column`` of every row, 0 for those without entries."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    out = np.zeros(matrix.shape[0])
    np.maximum.at(out, row, np.abs(matrix.data) * column[matrix.indices])
    return out


def _column_maxima(matrix: sp.csc_array, row: NDArray[np.float64]) -> NDArray[np.float64]:
    return _row_maxima(sp.csr_array(matrix.T), row)
