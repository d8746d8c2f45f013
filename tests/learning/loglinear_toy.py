"""A log-linear classifier as a user would write it: rows of features, a label or none, a Gaussian prior."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from spectrem.structures import Categorical, Parts


class Rows(NamedTuple):
    x: np.ndarray  # (n, d)
    labels: np.ndarray  # (n,), -1 where unknown


@dataclass(frozen=True)
class LogLinear:
    """p(label | x) in proportion to exp(theta[label] . x); parameters are theta, shape (k, d)."""

    n_labels: int
    variance: float = 1.0

    def structure(self, shard):
        return Categorical(np.full(len(shard.labels), self.n_labels))

    def scores(self, theta, shard):
        scores = shard.x @ theta.T
        other = (shard.labels[:, None] >= 0) & (shard.labels[:, None] != np.arange(self.n_labels))
        return Parts(np.where(other, -np.inf, scores).ravel())

    def log_normaliser(self, theta, shard):
        return logsumexp(shard.x @ theta.T, axis=1).sum()

    def log_prior(self, theta):
        return -(theta**2).sum() / (2 * self.variance)

    def gather(self, theta, shard, marginals):
        return marginals.unary.reshape(-1, self.n_labels).T @ shard.x

    def m_step(self, theta, stats, corpus):
        def loss(flat):
            at = flat.reshape(theta.shape)
            found = corpus.sum(log_partition, at)
            value = found[0] - (at * stats).sum() - self.log_prior(at)
            return value, (found[1:].reshape(theta.shape) - stats + at / self.variance).ravel()

        found = minimize(loss, theta.ravel(), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
        return found.x.reshape(theta.shape)


def log_partition(shard, theta):
    """Sum over the rows of the log of the normaliser, then its gradient."""
    scores = shard.x @ theta.T
    normaliser = logsumexp(scores, axis=1, keepdims=True)
    return np.append(normaliser.sum(), (np.exp(scores - normaliser).T @ shard.x).ravel())
