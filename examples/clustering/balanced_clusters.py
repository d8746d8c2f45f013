"""
Balanced clusters
=================

Balanced clusters: regions of similar size, as delivery rounds or classes in a school need them.

Most customers live in the city, so a mixture without constraints makes one large group of it and small ones outside.
`cluster_size` bounds how many rows a cluster expects. Expected sizes may still be made of fractions;
``assign="feasible"`` finds the best labels whose counts hold exactly. At ``gamma=0`` every row belongs to one cluster
from the first iteration on; with equal spheres that stay as they are, this is balanced k-means.
"""

import numpy as np
from matplotlib.figure import Figure

from spectrem import GaussianMixture
from spectrem.constraints import cluster_size
from spectrem.plotting import plot_clusters

rng = np.random.default_rng(0)
homes = np.array([[0.0, 0.0], [6.0, 1.0], [5.0, 6.0], [-1.0, 6.0]])
X = homes[rng.choice(4, 400, p=[0.55, 0.15, 0.15, 0.15])] + rng.normal(scale=1.6, size=(400, 2))

settings = {"covariance_type": "spherical", "random_state": 0, "n_threads": 1}
balanced = [cluster_size(min=90, max=110)]
equal = {"weights_init": np.full(4, 1 / 4), "precisions_init": np.ones(4), "fixed": ("weights", "covariances")}
mixtures = {
    "no constraint": GaussianMixture(4, **settings),
    "balanced, most probable": GaussianMixture(4, constraints=balanced, **settings),
    "balanced, feasible": GaussianMixture(4, constraints=balanced, assign="feasible", **settings),
    "balanced k-means": GaussianMixture(4, constraints=balanced, gamma=0.0, **equal, **settings),
}
print(f"{'':>24}  customers per region   mean distance to the centre")
for name, mixture in mixtures.items():
    labels = mixture.fit_predict(X)
    distance = np.linalg.norm(X - mixture.means_[labels], axis=1).mean()
    print(f"{name:>24}  {sorted(np.bincount(labels, minlength=4).tolist())!s:<22} {distance:.3f}")

expected = mixtures["balanced, feasible"].posteriors_.sum(axis=0)
print(f"\nexpected sizes under the constraint: {np.sort(expected).round(1).tolist()}")

# %%
# The city is one region without a constraint; with sizes between 90 and 110 its outskirts go to the others.
figure = Figure((9.6, 4.4), layout="constrained")
for name, axes in zip(("no constraint", "balanced, feasible"), figure.subplots(1, 2), strict=True):
    plot_clusters(X, mixtures[name].labels_, mixtures[name], title=name, axes=axes)
alt = "Points in four colours with ellipses, without a constraint and with balanced sizes"
