"""Mixtures under constraints: seconds of whole fits, with bounds on sizes and with links; see README.md.

The data are drawn by a generator that lies outside the project. Where k-means-constrained is installed it runs on the
first data, too.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from common import load_module
from sklearn.metrics import adjusted_rand_score

from spectrem import GaussianMixture
from spectrem.constraints.clusters import cannot_link, cluster_size, must_link


def inertia(x: np.ndarray, labels: np.ndarray) -> float:
    """Sum of squared distances from the means of clusters."""
    return float(sum(((x[labels == k] - x[labels == k].mean(axis=0)) ** 2).sum() for k in np.unique(labels)))


def run_sizes(x: np.ndarray, k: int, n_threads: int) -> None:
    low, high = len(x) / k / 2, 2 * len(x) / k
    started = time.perf_counter()
    mixture = GaussianMixture(
        k, covariance_type="spherical", constraints=[cluster_size(low, high)], random_state=0, n_threads=n_threads
    ).fit(x)
    seconds = time.perf_counter() - started
    sizes, counted = mixture.posteriors_.sum(axis=0), np.bincount(mixture.labels_, minlength=k)
    print(
        f"sizes {low:.0f} to {high:.0f}: {seconds:.1f} s, {mixture.n_iter_} iterations, expected sizes "
        f"{sizes.min():.1f} to {sizes.max():.1f}, of labels {counted.min()} to {counted.max()}, inertia "
        f"{inertia(x, mixture.labels_):.5g}"
    )
    try:
        from k_means_constrained import KMeansConstrained  # type: ignore[import-not-found]
    except ImportError:
        return
    started = time.perf_counter()
    peer = KMeansConstrained(k, size_min=int(low), size_max=int(high), n_init=1, random_state=0).fit(x)
    print(f"k-means-constrained: {time.perf_counter() - started:.1f} s, inertia {peer.inertia_:.5g}")


def run_links(x: np.ndarray, z: np.ndarray, together: np.ndarray, apart: np.ndarray, k: int, n_threads: int) -> None:
    for kind in ("spherical", "tied", "full"):
        started = time.perf_counter()
        mixture = GaussianMixture(
            k, covariance_type=kind, constraints=[must_link(together), cannot_link(apart)], random_state=0,
            n_threads=n_threads,
        ).fit(x)  # fmt: skip
        seconds = time.perf_counter() - started
        pairs = mixture.posteriors_[together], mixture.posteriors_[apart]
        worst = max(float(np.abs(pairs[0][:, 0] - pairs[0][:, 1]).max()), float(pairs[1].sum(axis=1).max()) - 1)
        print(
            f"{len(together)} must-links and {len(apart)} cannot-links, {kind}: {seconds:.2f} s, ARI "
            f"{adjusted_rand_score(z, mixture.labels_):.4f}, violated by at most {worst:.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parent.parent.parent / "shared"
    parser.add_argument("--generator", type=Path, default=beside / "bench", help="folder of gen.py")
    parser.add_argument("--rows", type=int, default=100_000, help="of the data with bounds on sizes")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    generator = load_module(options.generator, "gen")
    run_sizes(generator.cc_data(options.rows, k=20)[0], 20, options.threads)
    x, z = generator.cc_data(2000)
    together, apart = (np.asarray(pairs) for pairs in generator.cc_links(z, 1000))
    run_links(x, z, together, apart, 10, options.threads)


if __name__ == "__main__":
    main()
