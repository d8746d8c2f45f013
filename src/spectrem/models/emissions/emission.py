"""The interface of emissions: distributions of the rows of a series, one for each state of a hidden Markov model.

An emission is a frozen value that holds settings and priors; its parameters are another value, which holds arrays with
a row for every state. Rows are matrices of shape (n_rows, n_columns), NaN where a cell is missing: a missing cell is
summed out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.models.estep import Statistics


class Emission(Protocol):
    """How states emit rows.

    Attributes
    ----------
    fixed : sequence of str
        Names of parameters that training keeps.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.emissions import Poisson
    >>> x = np.array([[1.0], [3.0], [np.nan]])
    >>> emission = Poisson(lambdas_weight=0.0).learn(x, ["events"])
    >>> params = emission.start(x, np.ones((3, 1)))
    >>> emission.means(params).round(3).tolist(), emission.scores(params, x).shape
    ([[2.0]], (3, 1))
    """

    @property
    def fixed(self) -> Sequence[str]: ...

    def learn(self, x: Floats, names: Sequence[str]) -> Self:
        """Check training rows, and fill in the settings that depend on them.

        Parameters
        ----------
        x : ndarray of shape (n_rows, n_columns)
            NaN where a cell is missing.
        names : sequence of str
            Names of the columns, for messages.

        Returns
        -------
        Emission
            With all its settings.

        Raises
        ------
        InvalidInputError
            Naming a column, if it holds values that the distribution does not have.
        """
        ...

    def check(self, x: Floats, names: Sequence[str]) -> None:
        """Refuse new rows with values that the distribution does not have.

        Parameters
        ----------
        x : ndarray of shape (n_rows, n_columns)
            NaN where a cell is missing.
        names : sequence of str
            Names of the columns, for messages.

        Raises
        ------
        InvalidInputError
            Naming the column.
        """
        ...

    def start(self, x: Floats, shares: Floats) -> Any:
        """Find parameters of states to which rows belong.

        Parameters
        ----------
        x : ndarray of shape (n_rows, n_columns)
            NaN where a cell is missing.
        shares : ndarray of shape (n_rows, n_states)
            Posteriors of states times weights of rows.

        Returns
        -------
        parameters of the emission
        """
        ...

    def scores(self, params: Any, x: Floats) -> Floats:
        """Log-densities of rows in all states; 0 for rows without any value.

        Parameters
        ----------
        params : parameters of the emission
        x : ndarray of shape (n_rows, n_columns)
            NaN where a cell is missing.

        Returns
        -------
        ndarray of shape (n_rows, n_states), nats
        """
        ...

    def gather(self, params: Any, x: Floats, shares: Floats) -> Statistics:
        """Expected statistics of rows.

        Parameters
        ----------
        params : parameters of the emission
        x : ndarray of shape (n_rows, n_columns)
            NaN where a cell is missing.
        shares : ndarray of shape (n_rows, n_states)
            Posteriors of states times weights of rows.

        Returns
        -------
        Statistics
            They add up over rows.
        """
        ...

    def m_step(self, params: Any, stats: Statistics) -> Any:
        """Parameters that maximise the expected log-density plus the log-prior; states without rows keep theirs.

        Parameters
        ----------
        params : parameters of the emission
        stats : Statistics
            Of all rows.

        Returns
        -------
        parameters of the emission
        """
        ...

    def log_prior(self, params: Any) -> float:
        """Log-density of the parameters, up to a constant.

        Parameters
        ----------
        params : parameters of the emission

        Returns
        -------
        float, nats
        """
        ...

    def means(self, params: Any) -> Floats:
        """Expected rows of all states.

        Parameters
        ----------
        params : parameters of the emission

        Returns
        -------
        ndarray of shape (n_states, n_columns)
        """
        ...

    def variances(self, params: Any) -> Floats:
        """Variances of the columns in all states.

        Parameters
        ----------
        params : parameters of the emission

        Returns
        -------
        ndarray of shape (n_states, n_columns)
        """
        ...

    def cumulative(self, params: Any, x: Floats, strictly: bool = False) -> Floats:
        """Probabilities of values up to those of every cell.

        Parameters
        ----------
        params : parameters of the emission
        x : ndarray of shape (n_rows, n_columns)
            NaN where a cell is missing.
        strictly : bool
            Whether the values must be below those of the cells, which differs in discrete columns.

        Returns
        -------
        ndarray of shape (n_rows, n_states, n_columns)
            NaN where a cell is missing.
        """
        ...

    def impute(self, params: Any, x: Floats, posteriors: Floats) -> Floats:
        """Rows whose missing cells hold what posteriors of states expect of them, given the other cells.

        Parameters
        ----------
        params : parameters of the emission
        x : ndarray of shape (n_rows, n_columns)
            NaN where a cell is missing.
        posteriors : ndarray of shape (n_rows, n_states)

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        ...

    def sample(self, params: Any, states: Ints, rng: np.random.Generator) -> Floats:
        """Draw a row for each state.

        Parameters
        ----------
        params : parameters of the emission
        states : ndarray of shape (n_rows,), int
        rng : numpy.random.Generator

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        ...

    def n_free(self, params: Any) -> int:
        """Number of free parameters.

        Parameters
        ----------
        params : parameters of the emission

        Returns
        -------
        int
        """
        ...

    def arrays(self, params: Any) -> dict[str, Floats]:
        """The parameters by the names of attributes, with a row for every state.

        Parameters
        ----------
        params : parameters of the emission

        Returns
        -------
        dict of str -> ndarray
        """
        ...

    def of_arrays(self, arrays: Mapping[str, Floats]) -> Any:
        """Parameters from what `arrays` gave.

        Parameters
        ----------
        arrays : mapping of str -> ndarray

        Returns
        -------
        parameters of the emission

        Raises
        ------
        InvalidInputError
            If they are not parameters of the distribution.
        """
        ...
