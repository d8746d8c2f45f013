"""
Annealing a mixture out of bad starts
=====================================

Annealing a mixture out of bad starts, and what must be held fixed while it is hot.

Six groups of points; all six means start inside one of them. EM then mostly ends with two means in one group and two
groups sharing a mean. Deterministic annealing begins with posteriors so soft that the start is forgotten, and lets
the means part as they harden, group by group. But variances must not be learned meanwhile: soft posteriors make every
component as wide as all the data, and nothing is left that would drive the means apart. So anneal with variances held
at a guess of the spread within a group, then let EM learn them.
"""

import warnings

import numpy as np
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from spectrem import GaussianMixture
from spectrem.learning import Anneal
from spectrem.plotting import plot_clusters

warnings.simplefilter("ignore", ConvergenceWarning)
rng = np.random.default_rng(0)
centres = np.array([[0, 0], [4, 0], [0, 4], [4, 4], [8, 2], [2, 8]])
gold = rng.integers(6, size=500)
X = centres[gold] + rng.normal(scale=0.7, size=(500, 2))

settings = {"covariance_type": "spherical", "weights_init": np.full(6, 1 / 6), "n_threads": 1, "max_iter": 500}
guess = np.full(6, 1.0)  # 1 / variance; the truth is 2
schedule = Anneal(beta_min=0.1, alpha=1.2)  # gamma = 1 / beta: 10, 8.3, 6.9, ... 1


def fitted(means, **more):
    return GaussianMixture(6, means_init=means, precisions_init=guess, tol=1e-5, **settings, **more).fit(X)


def in_two_steps(means):
    hot = fitted(means, schedule=schedule, fixed=["covariances"])
    return fitted(hot.means_)


methods = {
    "EM": fitted,
    "annealed, variances learned": lambda means: fitted(means, schedule=schedule),
    "annealed, variances fixed, then EM": in_two_steps,
}
starts = [X[rng.choice(np.flatnonzero(gold == group), 6, replace=False)] for group in range(6) for _ in range(4)]
best = fitted(centres).score(X)  # from the true centres, for comparison
print(f"from the true centres: {best:.3f} nats per point")
print(f"{'':>35}  nats per point: mean  worst  as good as from the centres  ARI, mean")
for name, method in methods.items():
    fits = [method(means) for means in starts]
    scores = np.array([fit.score(X) for fit in fits])
    if name == "EM":
        hardest = starts[scores.argmin()]
    ari = np.mean([adjusted_rand_score(gold, fit.labels_) for fit in fits])
    reached = int((scores > best - 0.001).sum())
    print(f"{name:>35} {scores.mean():21.3f} {scores.min():6.3f} {reached:12} of {len(starts)} starts {ari:11.3f}")

# %%
# From the start that is worst for EM: by EM, and annealed.
figure = Figure((9.6, 4.4), layout="constrained")
for name, axes in zip(("EM", "annealed, variances fixed, then EM"), figure.subplots(1, 2), strict=True):
    mixture = methods[name](hardest)
    plot_clusters(X, mixture.labels_, mixture, title=name, axes=axes)
alt = "Six groups of points with the ellipses of a mixture, by EM from a bad start and by annealing from the same start"
