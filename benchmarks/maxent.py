"""Maximum-entropy classifiers of reviews beside scikit-learn, in the same run; see README.md."""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import write_readme
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from spectrem import MaxEntClassifier

# Where scikit-learn comes within 1e-7 of the optimum; its tolerance is one of the mean gradient.
PEER_TOL = 1e-8
# Optima measured when the benchmark was set up, in nats, to which both must come within 1e-7.
KNOWN = {2: 371.521463, 8: 548.698707}


def read_reviews(folder: Path) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Counts of tokens of all reviews, whether they are negative, and their domain."""
    numbers: dict[str, int] = {}
    indptr, indices, values, negative, domain = [0], [], [], [], []
    for number, place in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
        for sign, name in enumerate(("positive", "negative")):
            with gzip.open(place / f"{name}.review.gz", "rt", encoding="utf-8") as file:
                for line in file:
                    for token in line.split():
                        feature, _, count = token.rpartition(":")
                        if feature != "#label#":
                            indices.append(numbers.setdefault(feature, len(numbers)))
                            values.append(float(count))
                    indptr.append(len(indices))
                    negative.append(sign)
                    domain.append(number)
    shape = (len(negative), len(numbers))
    return sp.csr_array((values, indices, indptr), shape=shape), np.array(negative), np.array(domain)


def objective(classifier: Any, x: sp.csr_array, y: np.ndarray) -> float:
    """Sum of the losses plus half the sum of squares of the weights, nats."""
    scores = x @ classifier.coef_.T + classifier.intercept_
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]
    return float(losses.sum() + 0.5 * (classifier.coef_**2).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with sentiment/<domain>/*.review.gz")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    args = parser.parse_args()
    x, negative, domain = read_reviews(args.data / "sentiment")
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, {args.threads} thread(s), Python "
        f"{platform.python_version()}, {time.strftime('%Y-%m-%d')}; median of {args.repeats} alternating runs.",
        "",
        f"| {x.shape[0]:,} reviews, {x.shape[1]:,} counts | objective, nats | above the optimum | wall s "
        "| processor s |",
        "|---|--:|--:|--:|--:|",
    ]
    ours = MaxEntClassifier(n_threads=args.threads)
    ours.fit(x[::40], negative[::40])  # compiles
    ours.fit(x[::40], (2 * domain + negative)[::40])
    for n_classes, y in ((2, negative), (8, 2 * domain + negative)):
        peer = LogisticRegression(tol=PEER_TOL, max_iter=5000)
        times: dict[str, list[tuple[float, float]]] = {"MaxEntClassifier": [], "LogisticRegression": []}
        reached = {}
        with threadpool_limits(args.threads):
            for _ in range(args.repeats):
                for classifier in (ours, peer):
                    name, wall, processor = type(classifier).__name__, time.perf_counter(), time.process_time()
                    classifier.fit(x, y)
                    times[name].append((time.perf_counter() - wall, time.process_time() - processor))
                    reached[name] = objective(classifier, x, y)
        for name, found in times.items():
            wall, processor = (statistics.median(column) for column in zip(*found, strict=True))
            above = reached[name] / KNOWN[n_classes] - 1
            lines.append(
                f"| {n_classes} classes, {name} | {reached[name]:.6f} | {above:.1e} | {wall:.2f} | {processor:.2f} |"
            )
            print(lines[-1], flush=True)
        ratio = statistics.median(a[1] / b[1] for a, b in zip(*times.values(), strict=True))
        lines.append(f"| ratio of processor seconds | | | | {ratio:.2f} |")
        print(lines[-1], flush=True)
    if args.write:
        write_readme("maxent", "\n".join(lines))


if __name__ == "__main__":
    main()
