"""Log-linear models as dense arrays over all outcomes of every instance, and SciPy's minimisers of their loss."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import scipy.optimize as so
from scipy.special import logsumexp


@dataclass
class Loss:
    """``sum_i w_i (log Z_i - t_i . F_i theta) + l2/2 |theta|^2 + l1 |theta|`` over the penalised parameters.

    Attributes
    ----------
    features : list of arrays of shape (n_outcomes, n_parameters)
    targets : list of arrays of shape (n_outcomes,)
        Probabilities of the outcomes; instances without have no part in it.
    weights : array of shape (n_instances,)
    penalised : array of shape (n_parameters,), bool
    """

    features: list
    targets: list
    weights: np.ndarray
    penalised: np.ndarray
    l2: float
    l1: float

    def value(self, theta):
        return self.smooth(theta)[0] + self.l1 * float(np.abs(theta[self.penalised]).sum())

    def smooth(self, theta):
        """The loss without the l1 penalty, its gradient and its Hessian."""
        squares = np.where(self.penalised, theta, 0.0)
        value, gradient = self.l2 / 2 * float(squares @ squares), self.l2 * squares
        hessian = np.diag(self.l2 * self.penalised.astype(float))
        for F, target, weight in zip(self.features, self.targets, self.weights, strict=True):
            scores = F @ theta
            whole = logsumexp(scores)
            p = np.exp(scores - whole)
            value += weight * float(target @ (whole - scores))
            mean = p @ F
            gradient = gradient + weight * (mean - target @ F)
            hessian += weight * ((F * p[:, None]).T @ F - np.outer(mean, mean))
        return value, gradient, hessian

    def minimum(self, *starts):
        """The lowest loss that SciPy finds, and where, from 0 and some other starts."""
        zero = np.zeros(len(self.penalised))
        found = [self._descend(start) for start in (zero, *starts)]
        return min(found, key=lambda pair: pair[0])

    def _descend(self, start):
        """In coordinates in which the Hessian is about the unit matrix, so that features may have any scale."""
        _, _, hessian = self.smooth(start)
        if self.l1:
            return self._descend_l1(start, hessian)
        size = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
        values, vectors = np.linalg.eigh(size[:, None] * hessian * size)
        kept = values > 1e-13
        basis = size[:, None] * vectors[:, kept] / np.sqrt(values[kept])
        z = np.zeros(basis.shape[1])
        if not len(z):
            return self.value(start), start

        def loss(z):
            value, gradient, _ = self.smooth(start + basis @ z)
            return value, basis.T @ gradient

        def curve(z):
            return basis.T @ self.smooth(start + basis @ z)[2] @ basis

        unit = max(abs(loss(z)[0]), 1e-300)
        with np.errstate(all="ignore"):
            found = so.minimize(
                lambda z: loss(z)[0] / unit,
                z,
                jac=lambda z: loss(z)[1] / unit,
                hess=lambda z: curve(z) / unit,
                method="trust-exact",
                options={"gtol": 1e-12, "maxiter": 500},
            )
        theta = start + basis @ found.x
        return min((self.value(theta), theta), (self.value(start), start), key=lambda pair: pair[0])

    def _descend_l1(self, start, hessian):
        size = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
        n = len(start)
        cost = np.where(self.penalised, self.l1, 0.0)

        def loss(x):
            theta = size * (x[:n] - x[n:])
            value, gradient, _ = self.smooth(theta)
            gradient = size * gradient
            total = value + float((cost * size) @ (x[:n] + x[n:]))
            return total, np.concatenate([gradient + cost * size, -gradient + cost * size])

        x = np.concatenate([np.maximum(start, 0.0) / size, np.maximum(-start, 0.0) / size])
        unit = max(abs(loss(x)[0]), 1e-300)
        with np.errstate(all="ignore"):
            for _ in range(3):
                found = so.minimize(
                    lambda x: tuple(part / unit for part in loss(x)),
                    x,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=[(0, None)] * (2 * n),
                    options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 2000, "maxfun": 4000},
                )
                x = found.x
            theta = size * (x[:n] - x[n:])
            lowest = self.value(theta)  # NaN where the search left what is finite
        return (lowest, theta) if lowest < self.value(start) else (self.value(start), start)


def label_features(X, n_classes, intercept):
    """Features of labels, with two classes those of the second less the first; weights by class, intercept last."""
    n_arrays = 1 if n_classes == 2 else n_classes
    d = X.shape[1]
    made = []
    for x in X:
        F = np.zeros((n_classes, n_arrays * (d + intercept)))
        for k in range(n_classes):
            own = k - 1 if n_classes == 2 else k
            if own >= 0:
                F[k, own * d : (own + 1) * d] = x
                if intercept:
                    F[k, n_arrays * d + own] = 1.0
        made.append(F)
    return made


def sequence_features(sentences, n_tags, cells, moves):
    """Features of all tag sequences of sentences; ``cells`` and ``moves`` number the weights there are."""
    made, n = [], len(cells) + len(moves)
    for x in sentences:
        rows = []
        for tags in itertools.product(range(n_tags), repeat=len(x)):
            row = np.zeros(n)
            for token, tag in zip(x, tags, strict=True):
                for name, value in token.items():
                    if (name, tag) in cells:
                        row[cells[name, tag]] += value
            for pair in itertools.pairwise(tags):
                if pair in moves:
                    row[len(cells) + moves[pair]] += 1.0
            rows.append(row)
        made.append(np.array(rows))
    return made
