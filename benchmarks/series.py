"""EM of hidden Markov models of rows of numbers beside hmmlearn's, with gaps and with durations; see README.md.

Every line of the table is measured in a process of its own, one thread, by turns; both libraries start from the same
parameters. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from common import anonymous, most_anonymous, write_readme
from threadpoolctl import threadpool_limits

from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.durations import Histogram
from spectrem.models.emissions import Gaussian, Poisson
from spectrem.models.priors import DirichletPrior, Multinomials, Tables
from spectrem.models.series import SeriesModel, SeriesParameters, Sojourns, build_shards

# With the priors of hmmlearn.
DIAG, FULL = (Gaussian(kind, covars_prior=0.01, covars_weight=1.0) for kind in ("diag", "full"))
COUNTS = Poisson(0.0, 0.0)


class Workload(NamedTuple):
    """Rows and states; ``n_rows`` of each of ``n_sequences`` sequences."""

    n_columns: int
    emission: Gaussian | Poisson
    n_states: int
    n_sequences: int = 100
    n_rows: int = 1_000

    @property
    def name(self) -> str:
        """Of the emission, in the table."""
        return "Poisson" if self.emission is COUNTS else f"Gaussian, {self.emission.covariance_type}"


BESIDE_HMMLEARN = (Workload(3, DIAG, 4), Workload(6, FULL, 8), Workload(6, DIAG, 20), Workload(1, COUNTS, 4))
MISSING, SHARE = Workload(6, FULL, 8), 0.3
DURATIONS, LONGEST = Workload(6, DIAG, 8), 100


def draw(work: Workload) -> tuple[np.ndarray, np.ndarray, SeriesParameters]:
    """Rows of states that stay, lengths of sequences, and parameters to start from."""
    rng = np.random.default_rng(0)
    k, d, n = work.n_states, work.n_columns, work.n_sequences * work.n_rows
    means = rng.uniform(2, 20, (k, d)) if work.emission is COUNTS else rng.normal(0, 2, (k, d))
    moves = np.where(rng.random(n) < 0.1, rng.integers(k, size=n), -1)
    moves[0] = 0
    states = moves[np.maximum.accumulate(np.where(moves >= 0, np.arange(n), 0))]
    if work.emission is COUNTS:
        x, start = rng.poisson(means[states]).astype(np.float64), {"lambdas": means * rng.uniform(0.8, 1.2, (k, d))}
    else:
        x = means[states] + rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
        covars = np.broadcast_to(2.0 * np.eye(d), (k, d, d)) if work.emission is FULL else np.full((k, d), 2.0)
        start = {"means": means + rng.normal(size=(k, d)), "covars": covars.copy()}
    transition = np.full((k, k), 0.2 / (k - 1))
    np.fill_diagonal(transition, 0.8)
    lengths = np.full(work.n_sequences, work.n_rows)
    return x, lengths, SeriesParameters(np.full(k, 1 / k), transition, work.emission.of_arrays(start))


def trainer(
    work: Workload, x: np.ndarray, lengths: np.ndarray, start: SeriesParameters, sojourns: Sojourns | None = None
) -> Callable[[int], list[float]]:
    """A function that runs so many iterations, and returns log-likelihoods before every M-step."""
    k = work.n_states
    rows = {"initial": Multinomials.dense((k,)), "transition": Multinomials.dense((k, k))}
    tables = Tables(rows, dict.fromkeys(rows, DirichletPrior()))
    model = SeriesModel(tuple(range(k)), work.emission, tables, False, sojourns)
    shards = build_shards(x, lengths, k)

    def train(iterations: int) -> list[float]:
        trained = run_em(model, shards, start, EStep(), stopping=Stopping(iterations, 0.0))
        return [record.free_objective for record in trained.history]

    run_em(model, shards[:1], start, EStep(), stopping=Stopping(1, 0.0))  # compile before anything is measured
    return train


def hmmlearn_trainer(
    work: Workload, x: np.ndarray, lengths: np.ndarray, start: SeriesParameters, implementation: str
) -> Callable[[int], list[float]] | None:
    """The same of hmmlearn; None if it is not installed."""
    try:
        from hmmlearn.hmm import GaussianHMM, PoissonHMM
    except ImportError:
        return None

    def train(iterations: int) -> list[float]:
        run = {"n_iter": iterations, "tol": -np.inf, "init_params": "", "implementation": implementation}
        if work.emission is COUNTS:
            hmm, rows = PoissonHMM(work.n_states, **run), x.astype(np.int64)
        else:
            hmm, rows = GaussianHMM(work.n_states, work.emission.covariance_type, **run), x
        hmm.n_features = work.n_columns
        hmm.startprob_, hmm.transmat_ = start.initial, start.transition
        for name, array in work.emission.arrays(start.emission).items():
            setattr(hmm, f"{name}_", array.copy())
        hmm.fit(rows, lengths)
        return list(hmm.monitor_.history)

    return train


def by_turns(trainers: list[Callable[[int], list[float]]], iterations: int, rounds: int) -> tuple[list[float], Any]:
    """Median processor seconds of all, and the log-likelihoods of their last runs."""
    seconds: list[list[float]] = [[] for _ in trainers]
    likelihoods: list[list[float]] = [[] for _ in trainers]
    for _ in range(rounds):
        for number, train in enumerate(trainers):
            started = time.process_time()
            likelihoods[number] = train(iterations)
            seconds[number].append(time.process_time() - started)
    return [statistics.median(one) for one in seconds], likelihoods


def measure(number: int, iterations: int, rounds: int) -> dict[str, Any]:
    """One line of the table."""
    if number < len(BESIDE_HMMLEARN):
        work = BESIDE_HMMLEARN[number]
        x, lengths, start = draw(work)
        ours = trainer(work, x, lengths, start)
        before = anonymous()
        with most_anonymous() as most:
            ours(2)
        memory = most() - before
        peers = [hmmlearn_trainer(work, x, lengths, start, kind) for kind in ("log", "scaling")]
        present = [peer for peer in peers if peer is not None]
        seconds, likelihoods = by_turns([ours, *present], iterations, rounds)
        apart = max(
            (float(np.abs(np.divide(likelihoods[0], one) - 1).max()) for one in likelihoods[1:]), default=np.nan
        )
        return {"seconds": seconds, "memory": memory, "apart": apart}
    work = MISSING if number == len(BESIDE_HMMLEARN) else DURATIONS
    x, lengths, start = draw(work)
    if work is MISSING:
        gaps = np.where(np.random.default_rng(1).random(x.shape) < SHARE, np.nan, x)
        other = trainer(work, gaps, lengths, start)
    else:
        k = work.n_states
        swap = np.full((k, k), 1 / (k - 1))
        np.fill_diagonal(swap, 0.0)
        spread = np.full((LONGEST, k), 1 / LONGEST)
        longer = SeriesParameters(start.initial, swap, start.emission, spread)
        other = trainer(work, x, lengths, longer, Sojourns(Histogram(0.1), LONGEST))
    return {"seconds": by_turns([trainer(work, x, lengths, start), other], iterations, rounds)[0]}


def report(results: list[dict[str, Any]], iterations: int) -> str:
    beside, (missing, durations) = results[: len(BESIDE_HMMLEARN)], results[len(BESIDE_HMMLEARN) :]
    lines = [
        f"{platform.machine()}, one thread, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}; "
        f"100 sequences of 1,000 rows, {iterations} iterations, processor seconds.",
        "",
        "| columns | emission | states | Spectrem, s | hmmlearn, s | ratio | hmmlearn, scaling, s | ratio "
        "| extra memory, MB | log-likelihoods differ by at most |",
        "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for work, result in zip(BESIDE_HMMLEARN, beside, strict=True):
        ours, *theirs = result["seconds"]
        cells = [str(work.n_columns), work.name, str(work.n_states), f"{ours:.2f}"]
        cells += [cell for one in theirs for cell in (f"{one:.2f}", f"{ours / one:.3f}")] or ["-"] * 4
        cells += [f"{result['memory']:.0f}", f"{result['apart']:.0e}"]
        lines.append(f"| {' | '.join(cells)} |")
    plain, gaps = missing["seconds"]
    without, lasting = durations["seconds"]
    lines += [
        "",
        f"{SHARE:.0%} of the cells missing, {MISSING.n_columns} columns, {MISSING.name}, {MISSING.n_states} "
        f"states: {gaps:.2f} s, complete {plain:.2f} s, {gaps / plain:.1f} times. Durations up to {LONGEST} rows, "
        f"{DURATIONS.n_states} states, {DURATIONS.n_columns} columns, {DURATIONS.name}: {lasting:.2f} s, without "
        f"{without:.2f} s, {lasting / without:.1f} times.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is shown")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        with threadpool_limits(1):
            print(json.dumps(measure(options.child, options.iterations, options.rounds)))
        return
    results = []
    for number in range(len(BESIDE_HMMLEARN) + 2):
        run = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child", str(number)], stdout=subprocess.PIPE)
        if run.returncode:
            sys.exit(run.returncode)
        results.append(json.loads(run.stdout))
        print(results[-1], file=sys.stderr, flush=True)
    content = report(results, options.iterations)
    print(content)
    if options.write:
        write_readme("series", content)


if __name__ == "__main__":
    main()
