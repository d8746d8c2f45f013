"""EM of label models beside crowd-kit's Dawid-Skene, memory of a fit, and homes; see README.md.

Every measurement has a process of its own, one thread; ours and crowd-kit's take turns. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

N_SOURCES, N_CLASSES, COVERAGE = 20, 5, 0.3
INPUTS = ("array, int8", "array, int64", "long table")


def draw(n_items: int) -> np.ndarray:
    """Votes of sources that are right in 50 to 90 per cent of the items, -1 where silent."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, n_items).astype(np.int8)
    votes = np.full((n_items, N_SOURCES), -1, np.int8)
    for source, accuracy in enumerate(np.linspace(0.5, 0.9, N_SOURCES)):
        wrong = (y + rng.integers(1, N_CLASSES, n_items)) % N_CLASSES
        answers = np.where(rng.random(n_items) < accuracy, y, wrong)
        votes[:, source] = np.where(rng.random(n_items) < COVERAGE, answers, -1)
    return votes


def as_input(votes: np.ndarray, kind: str) -> tuple[Any, float]:
    """The votes as users have them, and their MB."""
    if kind == "long table":
        import polars as pl

        item, source = np.nonzero(votes >= 0)
        frame = pl.DataFrame({"item": item, "source": source, "label": votes[item, source].astype(np.int64)})
        return frame, frame.estimated_size() / 2**20
    table = votes.astype(kind.removeprefix("array, "))
    return table, table.nbytes / 2**20


def ours(n_items: int, kind: str) -> dict[str, float]:
    """Seconds of an iteration and of a whole fit, and its memory beyond the votes."""
    from common import anonymous, most_anonymous

    from spectrem import LabelModel

    votes, size = as_input(draw(n_items), kind)
    ends: list[float] = []
    settings: dict[str, Any] = {"sources": "answers", "n_threads": 1, "max_iter": 12, "tol": 0.0}
    LabelModel(**settings).fit(as_input(draw(2_000), kind)[0])  # compiles
    model = LabelModel(on_iteration=lambda record: ends.append(time.process_time()), **settings)
    before, started = anonymous(), time.process_time()
    with most_anonymous() as most:
        model.fit(votes)
    seconds = time.process_time() - started
    return {
        **{"iteration": statistics.median(np.diff(ends)), "fit": seconds},
        **{"votes": size, "extra": most() - before},
    }


def peer(n_items: int) -> dict[str, float]:
    """Seconds of an iteration of crowd-kit."""
    import pandas as pd
    from crowdkit.aggregation import DawidSkene

    votes = draw(n_items)
    item, source = np.nonzero(votes >= 0)
    frame = pd.DataFrame({"task": item, "worker": source, "label": votes[item, source].astype(np.int64)})
    seconds = []
    for iterations in (1, 6):
        started = time.process_time()
        DawidSkene(n_iter=iterations, tol=-np.inf).fit(frame)
        seconds.append(time.process_time() - started)
    return {"iteration": (seconds[1] - seconds[0]) / 5}


def homes(n_items: int, spill: Path) -> dict[str, str]:
    """Digests of what is learnt in memory, in files and on Dask."""
    from functools import partial

    from distributed import Client, LocalCluster

    from spectrem import LabelModel
    from spectrem.corpus import OnDask, Spilled

    spill.mkdir(parents=True, exist_ok=True)
    votes, digests = draw(n_items), {}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        places = {"memory": None, "files": partial(Spilled, folder=spill), "Dask": partial(OnDask, client=client)}
        for name, home in places.items():
            started = time.monotonic()
            model = LabelModel("answers", n_threads=1, max_iter=3, tol=0.0, corpus=home).fit(votes)
            digest = hashlib.sha256(model.label_distributions_.tobytes() + model.confusion_.tobytes())
            digest.update(repr([record.objective for record in model.history_]).encode())
            digests[name] = digest.hexdigest()
            del model
            print(f"{name}: {digests[name][:16]}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return digests


def measured(options: argparse.Namespace, python: str, task: str) -> dict[str, Any]:
    """Measurements of a process of its own."""
    command = [python, __file__, "--items", str(options.items), "--child", task]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(task, result, file=sys.stderr, flush=True)
    return result


def report(results: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> str:
    def median(task: str, figure: str) -> float:
        return statistics.median(result[figure] for result in results[task])

    iteration = median(INPUTS[0], "iteration")
    lines = [
        f"{platform.machine()}, one thread, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}; "
        f"{options.items:,} items, {N_SOURCES} sources that answer {COVERAGE:.0%} of them, {N_CLASSES} classes; "
        f"processor seconds, medians of {options.rounds} rounds.",
        "",
        "| votes | MB of them | an EM iteration, s | a fit of 12 iterations, s | memory beyond the votes, MB "
        "| over the votes |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for kind in INPUTS:
        size, extra = median(kind, "votes"), median(kind, "extra")
        cells = [f"{size:.0f}", f"{median(kind, 'iteration'):.3f}", f"{median(kind, 'fit'):.1f}"]
        lines.append(f"| {' | '.join([kind, *cells, f'{extra:.0f}', f'{extra / size:.1f}'])} |")
    if "peer" in results:
        theirs = median("peer", "iteration")
        lines += ["", f"crowd-kit's `DawidSkene`: {theirs:.2f} s an iteration, {theirs / iteration:.0f} times ours."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is shown")
    parser.add_argument("--peers", help="the Python of an environment that has crowd-kit")
    parser.add_argument("--homes", type=Path, help="compare homes instead; a folder for the files")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        warnings.simplefilter("ignore")
        print(json.dumps(peer(options.items) if options.child == "peer" else ours(options.items, options.child)))
        return
    if options.homes is not None:
        warnings.simplefilter("ignore")
        digests = homes(options.items, options.homes)
        sys.exit(None if len(set(digests.values())) == 1 else f"homes differ: {digests}")
    tasks = [(sys.executable, kind) for kind in INPUTS] + ([(options.peers, "peer")] if options.peers else [])
    results: dict[str, list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for python, task in tasks:
            results.setdefault(task, []).append(measured(options, python, task))
    content = report(results, options)
    print(content)
    if options.write:
        from common import write_readme

        write_readme("votes", content)


if __name__ == "__main__":
    main()
