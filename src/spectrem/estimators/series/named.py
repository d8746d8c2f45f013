"""Hidden Markov models by the names of what their states emit, with the names of hmmlearn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spectrem.estimators.declare import documented
from spectrem.estimators.series.hidden_markov_model import HiddenMarkovModel, codec_of
from spectrem.estimators.series.parameters import GaussianHMMParameters
from spectrem.models.emissions import Gaussian


@documented
@dataclass(eq=False, repr=False)
class GaussianHMM(HiddenMarkovModel, GaussianHMMParameters):
    """A hidden Markov model whose states emit rows of numbers from Gaussians: `HMM` with ``emissions=Gaussian(...)``.

    Use when a series of numbers switches between a few regimes.

    Attributes
    ----------
    states_ : tuple of str or int
    startprob_, transmat_ : ndarray of shape (n_states,), and (n_states, n_states), [from, to]
    means_ : ndarray of shape (n_states, n_columns)
    covars_ : ndarray
        Of shape (n_states, n_columns, n_columns) if "full", (n_columns, n_columns) if "tied", (n_states, n_columns) if
        "diag", (n_states,) if "spherical".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([0.1, -0.2, 0.0, np.nan, 5.1, 4.9, 5.0, 0.2, -0.1])
    >>> model = GaussianHMM(2, random_state=0, n_threads=1).fit(X)
    >>> model.means_[model.predict([0.0, 5.0])].round(1).ravel().tolist()
    [0.0, 5.0]
    """

    _codec = codec_of("GaussianHMM")

    def _emissions(self) -> Any:
        return Gaussian(
            self.covariance_type, self.means_prior, self.means_weight, self.covars_prior, self.covars_weight
        )
