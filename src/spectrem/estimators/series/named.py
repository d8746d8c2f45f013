"""Hidden Markov models by the names of what their states emit, with the names of hmmlearn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spectrem.estimators.declare import documented
from spectrem.estimators.series.hidden_markov_model import HiddenMarkovModel, codec_of
from spectrem.estimators.series.parameters import (
    CategoricalHMMParameters,
    GaussianHMMParameters,
    GaussianMixtureHMMParameters,
    MultinomialHMMParameters,
    PoissonHMMParameters,
)
from spectrem.models.emissions import Categorical, Gaussian, GaussianMixture, Multinomial, Poisson


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
    >>> abs(model.means_[model.predict([0.0, 5.0])].round(1)).ravel().tolist()
    [0.0, 5.0]
    """

    _codec = codec_of("GaussianHMM")

    def _emissions(self) -> Any:
        return Gaussian(
            self.covariance_type,
            self.means_prior,
            self.means_weight,
            self.covars_prior,
            self.covars_weight,
            self.tied,
        )


@documented
@dataclass(eq=False, repr=False)
class GaussianMixtureHMM(HiddenMarkovModel, GaussianMixtureHMMParameters):
    """A hidden Markov model whose states emit rows of numbers from mixtures of Gaussians; hmmlearn's ``GMMHMM``.

    Use when the rows of a state form several groups.

    Attributes
    ----------
    states_ : tuple of str or int
    startprob_, transmat_ : ndarray of shape (n_states,), and (n_states, n_states), [from, to]
    weights_, means_, covars_ : ndarray
        Of shapes (n_states, n_mix), (n_states, n_mix, n_columns), and those of `spectrem.emissions`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([0.0, 9.1, 0.1, 9.0, 4.9, 5.1, 5.0, 5.2, 0.2, 9.0, 0.1, 8.9])
    >>> model = GaussianMixtureHMM(2, n_mix=2, random_state=0, n_threads=1).fit(X)
    >>> model.means_.shape
    (2, 2, 1)
    """

    _codec = codec_of("GaussianMixtureHMM")

    def _emissions(self) -> Any:
        return GaussianMixture(
            self.n_mix,
            self.covariance_type,
            self.weights_prior,
            self.means_prior,
            self.means_weight,
            self.covars_prior,
            self.covars_weight,
        )


@documented
@dataclass(eq=False, repr=False)
class PoissonHMM(HiddenMarkovModel, PoissonHMMParameters):
    """A hidden Markov model whose states emit counts: `HMM` with ``emissions=Poisson(...)``.

    Use when events are counted per day, year or place in a row.

    Attributes
    ----------
    states_ : tuple of str or int
    startprob_, transmat_ : ndarray of shape (n_states,), and (n_states, n_states), [from, to]
    lambdas_ : ndarray of shape (n_states, n_columns)
        Rates.

    Examples
    --------
    >>> model = PoissonHMM(2, random_state=0, n_threads=1).fit([1, 0, 2, 1, 9, 11, 8, 10, 1, 0, 1, 2])
    >>> sorted(model.lambdas_.ravel().round().tolist())
    [1.0, 9.0]
    """

    _codec = codec_of("PoissonHMM")

    def _emissions(self) -> Any:
        return Poisson(self.lambdas_prior, self.lambdas_weight)


@documented
@dataclass(eq=False, repr=False)
class CategoricalHMM(HiddenMarkovModel, CategoricalHMMParameters):
    """A hidden Markov model whose states emit categories: `HMM` with ``emissions=Categorical(...)``.

    Use when a series is of symbols; words are tagged by `spectrem.HMMTagger`, which has dictionaries, too.

    Attributes
    ----------
    states_ : tuple of str or int
    startprob_, transmat_ : ndarray of shape (n_states,), and (n_states, n_states), [from, to]
    emissionprob_ : ndarray of shape (n_states, n_features)
        Probabilities of the values of every column, one column after the other.

    Examples
    --------
    >>> model = CategoricalHMM(2, random_state=0, n_threads=1).fit([0, 0, 1, 0, 2, 2, 1, 2, 2, 0, 0, 0])
    >>> model.emissionprob_.shape
    (2, 3)
    """

    _codec = codec_of("CategoricalHMM")

    def _emissions(self) -> Any:
        return Categorical(self.emissionprob_prior, self.n_features)


@documented
@dataclass(eq=False, repr=False)
class MultinomialHMM(HiddenMarkovModel, MultinomialHMMParameters):
    """A hidden Markov model whose states emit rows of counts: `HMM` with ``emissions=Multinomial(...)``.

    Use when every row counts what of several kinds happened, and how much in all says nothing.

    Attributes
    ----------
    states_ : tuple of str or int
    startprob_, transmat_ : ndarray of shape (n_states,), and (n_states, n_states), [from, to]
    emissionprob_ : ndarray of shape (n_states, n_columns)
        Shares of the kinds.

    Examples
    --------
    >>> model = MultinomialHMM(2, random_state=0, n_threads=1).fit([[9, 1], [8, 2], [1, 9], [2, 7], [9, 0]])
    >>> model.emissionprob_.sum(axis=1).round(12).tolist()
    [1.0, 1.0]
    """

    _codec = codec_of("MultinomialHMM")

    def _emissions(self) -> Any:
        return Multinomial(self.emissionprob_prior, self.n_trials)
