"""Clusterings under constraints: bounds on sizes, links between rows, beside k-means-constrained; see README.md.

The data are drawn by a generator that lies outside the project.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import load_module, timed, write_readme
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from spectrem import GaussianMixture
from spectrem.constraints import cannot_link, cluster_size, must_link

HERE = Path(__file__).resolve().parent
# Measured apart from these runs, where a peer is not installed or left out.
KNOWN_INERTIA = 2356043.0
KNOWN_SIZES = [
    "| k-means-constrained, seed 0 (known) | 90 to 120 | | 51 | 2,500 to 10,000 | 2.356e+06 |",
    "| k-means-constrained, seeds 1 to 4 (known) | 46 to 130 | 43 to 97 | 32 to 71 | 2,500 to 10,000 "
    "| 2.3711e+06 to 2.4633e+06 (+0.64% to +4.55%) |",
]
KNOWN_LINKS = [
    "| COP-KMeans (known) | 11.7 | | .9945 | 0 must, 0 cannot | |",
    "| PCK-Means (known) | 82 | | .859 | | |",
]
# Of balanced k-means: the share of the rows that starts are tried on, how many, and the seeds of the table.
SHARE, STARTS, SEEDS = 50, 10, range(5)


def inertia(x: np.ndarray, labels: np.ndarray) -> float:
    """Sum of squared distances from the means of clusters."""
    return float(sum(((x[labels == k] - x[labels == k].mean(axis=0)) ** 2).sum() for k in np.unique(labels)))


def report_sizes(x: np.ndarray, k: int, n_threads: int, repeats: int, peer: bool) -> list[str]:
    """Bounds of half and twice the mean size: our settings, and the peer."""
    low, high = len(x) // (2 * k), 2 * len(x) // k
    lines = [
        f"{len(x):,} rows, {x.shape[1]} features, {k} clusters of {low:,} to {high:,} rows, {n_threads} thread(s); "
        f"median of {repeats}:",
        "",
        "| clustering | wall s | processor s | iterations | sizes of labels | inertia |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    lowest, known = run_peer(x, k, low, high) if peer else (None, [])
    if lowest is None and len(x) == 100_000:
        lowest, known = KNOWN_INERTIA, KNOWN_SIZES
    lines += known
    for kind in ("spherical", "tied"):
        for assign in ("probable", "feasible"):

            def fit(x: np.ndarray = x, low: int = low, kind: Any = kind, assign: Any = assign) -> GaussianMixture:
                return GaussianMixture(
                    k, covariance_type=kind, constraints=[cluster_size(low, high)], assign=assign, random_state=0,
                    n_threads=n_threads,
                ).fit(x)  # fmt: skip

            fit(x[: 100 * k], 1)  # compiles
            wall, processor, mixture = timed(fit, repeats)
            sizes = mixture.posteriors_.sum(axis=0)
            assert sizes.min() >= low - 0.1
            assert sizes.max() <= high + 0.1
            line = (
                f'| {kind}, assign="{assign}" | {wall:.2f} | {processor:.2f} | {mixture.n_iter_} '
                f"| {told_sizes(mixture.labels_, k)} | {told_inertia(inertia(x, mixture.labels_), lowest)} |"
            )
            lines.append(line)
            print(line, flush=True)
    for starts, name in ((1, "one start"), (STARTS, f"the best of {STARTS} starts on 1/{SHARE} of the rows")):
        line = report_balanced(x, k, low, high, n_threads, starts, name, lowest)
        lines.append(line)
        print(line, flush=True)
    return lines


def report_balanced(
    x: np.ndarray, k: int, low: int, high: int, n_threads: int, starts: int, name: str, lowest: float | None
) -> str:
    """Balanced k-means over several seeds: median seconds, and ranges of all else."""
    walls, processors, iterations, counts, found = [], [], [], [], []
    for seed in SEEDS:
        wall, processor, mixture = timed(lambda: fit_balanced(x, k, low, high, n_threads, seed, starts), 1)  # noqa: B023
        walls.append(wall)
        processors.append(processor)
        iterations.append(mixture.n_iter_)
        counts.append(np.bincount(mixture.labels_, minlength=k))
        found.append(inertia(x, mixture.labels_))
    sizes = np.concatenate(counts)
    assert sizes.min() >= low
    assert sizes.max() <= high
    return (
        f"| gamma=0, equal spheres, {name}, seeds {SEEDS[0]} to {SEEDS[-1]} | {statistics.median(walls):.2f} "
        f"| {statistics.median(processors):.2f} | {min(iterations)} to {max(iterations)} "
        f"| {sizes.min():,} to {sizes.max():,} | {told_range(found, lowest)} |"
    )


def fit_balanced(x: np.ndarray, k: int, low: int, high: int, n_threads: int, seed: int, starts: int) -> GaussianMixture:
    """Balanced k-means: hard EM of clusters of equal weight and variance, whatever these are; labels are exact."""
    spheres: dict[str, Any] = {
        "covariance_type": "spherical", "fixed": ("weights", "covariances"), "weights_init": np.full(k, 1 / k),
        "precisions_init": np.ones(k), "gamma": 0.0, "random_state": seed, "n_threads": n_threads,
    }  # fmt: skip
    means = None
    if starts > 1:
        few = x[::SHARE]
        rule = cluster_size(low * len(few) // len(x), high * len(few) // len(x))
        search = GaussianMixture(k, constraints=[rule], n_init=starts, **spheres)
        means = search.fit(few).means_
    return GaussianMixture(k, constraints=[cluster_size(low, high)], means_init=means, **spheres).fit(x)


def run_peer(x: np.ndarray, k: int, low: int, high: int) -> tuple[float | None, list[str]]:
    """Inertia and the line of k-means-constrained, where it is installed."""
    try:
        from k_means_constrained import KMeansConstrained  # type: ignore[import-not-found]
    except ImportError:
        return None, []
    wall, processor, peer = timed(
        lambda: KMeansConstrained(k, size_min=low, size_max=high, n_init=1, random_state=0).fit(x), 1
    )
    line = (
        f"| k-means-constrained | {wall:.2f} | {processor:.2f} | {peer.n_iter_} | {told_sizes(peer.labels_, k)} "
        f"| {inertia(x, peer.labels_):.5g} |"
    )
    print(line, flush=True)
    return inertia(x, peer.labels_), [line]


def told_sizes(labels: np.ndarray, k: int) -> str:
    counts = np.bincount(labels, minlength=k)
    return f"{counts.min():,} to {counts.max():,}"


def told_inertia(found: float, lowest: float | None) -> str:
    return f"{found:.5g}" if lowest is None else f"{found:.5g} ({found / lowest - 1:+.2%})"


def told_range(found: list[float], lowest: float | None) -> str:
    ends = min(found), max(found)
    text = " to ".join(f"{end:.5g}" for end in ends)
    return text if lowest is None else f"{text} ({' to '.join(f'{end / lowest - 1:+.2%}' for end in ends)})"


def report_links(
    x: np.ndarray, z: np.ndarray, together: np.ndarray, apart: np.ndarray, k: int, n_threads: int, repeats: int
) -> list[str]:
    """Must-links and cannot-links: ARI, broken links, and the worst violation in expectation."""
    lines = [
        f"{len(x):,} rows, {k} clusters, {len(together):,} must-links and {len(apart):,} cannot-links; median of "
        f"{repeats}:",
        "",
        "| clustering | wall s | processor s | ARI | links that labels break | violated in expectation by at most |",
        "|---|--:|--:|--:|--:|--:|",
        *KNOWN_LINKS,
    ]
    for kind in ("spherical", "tied", "full"):
        for assign in ("probable", "feasible"):

            def fit(kind: Any = kind, assign: Any = assign) -> GaussianMixture:
                return GaussianMixture(
                    k, covariance_type=kind, constraints=[must_link(together), cannot_link(apart)], assign=assign,
                    random_state=0, n_threads=n_threads,
                ).fit(x)  # fmt: skip

            fit()  # compiles
            wall, processor, mixture = timed(fit, repeats)
            labels, q = mixture.labels_, mixture.posteriors_
            broken_must = int((labels[together[:, 0]] != labels[together[:, 1]]).sum())
            broken_cannot = int((labels[apart[:, 0]] == labels[apart[:, 1]]).sum())
            worst = max(np.abs(q[together[:, 0]] - q[together[:, 1]]).max(), q[apart].sum(axis=1).max() - 1, 0.0)
            line = (
                f'| {kind}, assign="{assign}" | {wall:.2f} | {processor:.2f} | {adjusted_rand_score(z, labels):.4f} '
                f"| {broken_must} must, {broken_cannot} cannot | {worst:.0e} |"
            )
            lines.append(line)
            print(line, flush=True)
    return lines


def main() -> None:
    """Run all rows and print them, or put them into the README."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generator", type=Path, default=HERE.parents[1] / "shared" / "bench", help="folder of gen.py")
    parser.add_argument("--rows", type=int, default=100_000, help="of the data with bounds on sizes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="leave k-means-constrained out")
    parser.add_argument("--write", action="store_true", help="put the tables into benchmarks/README.md")
    options = parser.parse_args()
    generator = load_module(options.generator, "gen")
    sizes = generator.cc_data(options.rows, k=20)[0]
    x, z = generator.cc_data(2000)
    together, apart = (np.asarray(pairs) for pairs in generator.cc_links(z, 1000))
    with threadpool_limits(options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of the peer
        lines = [
            f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
            f"{time.strftime('%Y-%m-%d')}.",
            "",
            *report_sizes(sizes, 20, options.threads, options.repeats, not options.no_peer),
            "",
            *report_links(x, z, together, apart, 10, options.threads, options.repeats),
        ]
    if options.write:
        write_readme("clusters", "\n".join(lines))


if __name__ == "__main__":
    main()
