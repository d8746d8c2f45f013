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
    """

    @property
    def fixed(self) -> Sequence[str]: ...

    def learn(self, x: Floats, names: Sequence[str]) -> Self:
        """Check training rows, and fill in the settings that depend on them.

        Raises
        ------
        InvalidInputError
            Naming a column, if it holds values that the distribution does not have.
        """
        ...

    def check(self, x: Floats, names: Sequence[str]) -> None:
        """Raise `InvalidInputError` if new rows hold values that the distribution does not have."""
        ...

    def start(self, x: Floats, shares: Floats) -> Any:
        """The parameters of states to which rows belong by ``shares``, shape (n_rows, n_states)."""
        ...

    def scores(self, params: Any, x: Floats) -> Floats:
        """Log-densities of rows in all states, shape (n_rows, n_states), nats; 0 for rows without any value."""
        ...

    def gather(self, params: Any, x: Floats, shares: Floats) -> Statistics:
        """Expected statistics of rows whose posteriors of states, times weights, are ``shares``."""
        ...

    def m_step(self, params: Any, stats: Statistics) -> Any:
        """Parameters that maximise the expected log-density plus the log-prior; states without rows keep theirs."""
        ...

    def log_prior(self, params: Any) -> float:
        """Log-density of the parameters, nats, up to a constant."""
        ...

    def means(self, params: Any) -> Floats:
        """Expected rows of all states, shape (n_states, n_columns)."""
        ...

    def variances(self, params: Any) -> Floats:
        """Variances of the columns in all states, shape (n_states, n_columns)."""
        ...

    def cumulative(self, params: Any, x: Floats, strictly: bool = False) -> Floats:
        """Probabilities of values up to those of every cell, shape (n_rows, n_states, n_columns); NaN if missing.

        With ``strictly`` of values below them, which differs in discrete columns.
        """
        ...

    def impute(self, params: Any, x: Floats, posteriors: Floats) -> Floats:
        """Rows whose missing cells hold what posteriors of states expect of them, given the other cells."""
        ...

    def sample(self, params: Any, states: Ints, rng: np.random.Generator) -> Floats:
        """A row for each state, shape (n_rows, n_columns)."""
        ...

    def n_free(self, params: Any) -> int:
        """Number of free parameters."""
        ...

    def arrays(self, params: Any) -> dict[str, Floats]:
        """The parameters by the names of attributes, with a row for every state."""
        ...

    def of_arrays(self, arrays: Mapping[str, Floats]) -> Any:
        """Parameters from what `arrays` gave.

        Raises
        ------
        InvalidInputError
            If they are not parameters of the distribution.
        """
        ...
