"""EM of Gaussian mixtures: seconds per iteration beside scikit-learn's, by turns; see README.md.

The data are drawn by a generator that lies outside the project. All libraries start from the same parameters, and the
numbers of the last column say how far the log-likelihoods differ from scikit-learn's. Where pomegranate is installed it
runs too, in single precision as it does by default.
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
from common import load_module, write_readme
from sklearn.mixture import GaussianMixture as Peer
from threadpoolctl import threadpool_limits

from spectrem.corpus import Local
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.mixture import MixtureModel, MixtureShard, build_shards, from_precisions

HERE = Path(__file__).resolve().parent


def unit_precisions(kind: str, k: int, d: int) -> np.ndarray:
    return {
        "full": np.repeat(np.eye(d)[None], k, axis=0),
        "tied": np.eye(d),
        "diag": np.ones((k, d)),
        "spherical": np.ones(k),
    }[kind]


def peer_iteration(kind: str, x: np.ndarray, means: np.ndarray, iterations: int) -> tuple[float, list[float]]:
    """Seconds of an iteration, from runs of two lengths so that start and end do not count, and log-likelihoods."""
    k, d = means.shape
    seconds = []
    peer = None
    for n in (1, 1 + iterations):
        peer = Peer(
            k, covariance_type=kind, tol=0, max_iter=n, means_init=means, weights_init=np.full(k, 1 / k),
            precisions_init=unit_precisions(kind, k, d),
        )  # fmt: skip
        started = time.perf_counter()
        peer.fit(x)
        seconds.append(time.perf_counter() - started)
    assert peer is not None
    return (seconds[1] - seconds[0]) / iterations, peer.lower_bounds_


def third_iteration(kind: str, x: np.ndarray, means: np.ndarray, iterations: int) -> float | None:
    """Median seconds of an iteration of pomegranate, None where it is not installed or has no such covariances."""
    try:
        import torch
        from pomegranate.distributions import Normal
        from pomegranate.gmm import GeneralMixtureModel
    except ImportError:
        return None
    if kind not in ("full", "diag"):
        return None
    torch.set_num_threads(1)
    k, d = means.shape
    rows = torch.tensor(x, dtype=torch.float32)
    unit = torch.eye(d) if kind == "full" else torch.ones(d)
    components = [Normal(torch.tensor(mean, dtype=torch.float32), unit.clone(), covariance_type=kind) for mean in means]
    model = GeneralMixtureModel(components, priors=torch.full((k,), 1 / k))
    seconds = []
    for _ in range(1 + iterations):
        started = time.perf_counter()
        model.summarize(rows)
        model.from_summaries()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def our_iteration(
    kind: Any, shards: list[MixtureShard], means: np.ndarray, iterations: int, n_threads: int
) -> tuple[float, list[float]]:
    """Median seconds of an iteration and log-likelihoods per row."""
    k, d = means.shape
    model = MixtureModel(k, kind)
    start = from_precisions(kind, np.full(k, 1 / k), means, unit_precisions(kind, k, d))
    estep = EStep(kernel=model)
    stopping = Stopping(1 + iterations, 0.0)
    history = run_em(model, Local(shards, n_threads), start, estep, stopping=stopping).history
    n = sum(len(shard.x) for shard in shards)
    return statistics.median(record.seconds for record in history), [record.objective / n for record in history]


def report(data: Any, kinds: list[str], threads: list[int], iterations: int, rounds: int) -> str:
    x, means = data["X"], data["init_means"]
    shards = build_shards(x)
    headers = [f"{n} thread{'s' if n > 1 else ''}, s" for n in threads]
    peers = ["scikit-learn, 1 thread, s", "pomegranate (float32), 1 thread, s"]
    columns = ["covariance", *headers, *peers, "log-likelihoods differ by at most"]
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}; {len(x):,} rows, {x.shape[1]} features, {len(means)} components.",
        "",
        f"| {' | '.join(columns)} |",
        f"|---|{'--:|' * (len(columns) - 1)}",
    ]
    for kind in kinds:
        ours: dict[int, list[float]] = {n: [] for n in threads}
        theirs, thirds, worst = [], [], 0.0
        for _ in range(rounds):
            seconds, wanted = peer_iteration(kind, x, means, iterations)
            theirs.append(seconds)
            thirds.append(third_iteration(kind, x, means, iterations))
            for n in threads:
                seconds, found = our_iteration(kind, shards, means, iterations, n)
                ours[n].append(seconds)
                worst = max(worst, float(np.max(np.abs(np.array(found) / np.array(wanted) - 1))))
        ran = [seconds for seconds in thirds if seconds is not None]
        third = f"{min(ran):.3f}" if ran else "-"
        cells = [kind, *(f"{min(ours[n]):.3f}" for n in threads), f"{min(theirs):.3f}", third, f"{worst:.0e}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def report_missing(kinds: list[str], iterations: int, rounds: int, share: float = 0.3) -> str:
    """Seconds of an iteration on complete rows and on the same with a share of cells missing, by turns."""
    rng = np.random.default_rng(0)
    means = rng.normal(0, 3, (8, 6))
    x = means[rng.integers(8, size=100_000)] + rng.normal(size=(100_000, 6)) @ rng.normal(size=(6, 6))
    gaps = np.where(rng.uniform(size=x.shape) < share, np.nan, x)
    lines = [
        f"{len(x):,} rows, {x.shape[1]} features, {len(means)} components, 1 thread.",
        "",
        f"| covariance | complete, s | {share:.0%} of cells missing, s | ratio |",
        "|---|--:|--:|--:|",
    ]
    for kind in kinds:
        turns = [
            [our_iteration(kind, build_shards(rows), means, iterations, 1)[0] for rows in (x, gaps)]
            for _ in range(rounds)
        ]
        complete, missing = np.min(turns, axis=0)
        lines.append(f"| {kind} | {complete:.4f} | {missing:.4f} | {missing / complete:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = HERE.parent.parent / "shared"
    parser.add_argument("--generator", type=Path, default=beside / "bench", help="folder of gen.py")
    parser.add_argument("--kinds", default="full,tied,diag,spherical")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest is shown, for all libraries")
    parser.add_argument("--missing-only", action="store_true", help="time rows with missing cells alone")
    parser.add_argument("--no-readme", action="store_true", help="print only")
    options = parser.parse_args()
    kinds, contents = options.kinds.split(","), {}
    threads = [int(n) for n in options.threads.split(",")]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        contents["mixture-missing"] = report_missing(kinds, options.iterations, options.rounds)
        if not options.missing_only:
            data = load_module(options.generator, "gen").gmm_data(n=options.rows)
            contents["mixture"] = report(data, kinds, threads, options.iterations, options.rounds)
    for name, content in contents.items():
        print(content)
        if not options.no_readme:
            write_readme(name, content)


if __name__ == "__main__":
    main()
