"""Where shards live: EM of a hidden Markov model in memory, in files and on a cluster of processes; see README.md.

Each home runs in a process of its own, so that memory is its own; all give the same bits, which is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import anonymous, load_module, most_anonymous, write_readme
from hmm import N_WORDS, start_parameters

from spectrem.corpus import Local, OnDask, Spilled
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.tagging import HMMModel, Lexicon, TagKernel, TagShard, build_shards

HERE = Path(__file__).resolve().parent
N_STATES, PROCESSES = 17, 2
HOMES = ("serial", "2 threads", "spilled, 2 threads", "Dask, 2 processes", "spilled, 10 times the corpus")


def copies(shards: list[TagShard], times: int) -> Iterator[TagShard]:
    """The shards several times over, each with arrays of its own that are made when it is asked for."""
    for _ in range(times):
        for shard in shards:
            yield replace(shard, entries=shard.entries.copy(), lengths=shard.lengths.copy())


def run_home(generator: Any, home: str, iterations: int) -> dict[str, Any]:
    """Seconds per iteration, memory of the driver beyond what it holds before, and the last parameters' bits."""
    drawn = generator.hmm_corpus()
    tokens, lengths = drawn["tokens"], drawn["lengths"]
    lexicon = Lexicon.full(N_WORDS, N_STATES)
    model, start = HMMModel(lexicon, order=1), start_parameters(generator, N_STATES)
    shards = build_shards(lexicon, lengths, tokens)
    estep = EStep(kernel=TagKernel(model))
    run_em(model, shards[:1], start, estep, stopping=Stopping(1))  # compile before anything is measured
    n_tokens = len(tokens)
    del drawn, tokens, lengths
    if home.startswith("Dask"):
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=PROCESSES, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster, direct_to_workers=True) as client,
        ):
            client.wait_for_workers(PROCESSES)
            corpus = OnDask(shards, client)
            run_em(model, corpus, start, estep, stopping=Stopping(1))  # the workers load their kernels
            history, params = _train(model, corpus, start, estep, iterations)
            return _result(home, n_tokens, history, params, float("nan"))
    before = anonymous()
    times = 10 if "10 times" in home else 1
    if home.startswith("spilled"):
        corpus = Spilled(copies(shards, times), n_threads=2)
    else:
        corpus = Local(shards, 2 if "threads" in home else 1)
    with most_anonymous() as most:
        history, params = _train(model, corpus, start, estep, iterations)
    return _result(home, times * n_tokens, history, params, most() - before)


def _train(model: HMMModel, corpus: Any, start: Any, estep: EStep, iterations: int) -> tuple[Any, Any]:
    result = run_em(model, corpus, start, estep, stopping=Stopping(iterations))
    return result.history, result.params


def _result(home: str, n_tokens: int, history: Any, params: Any, extra: float) -> dict[str, Any]:
    return {
        "home": home,
        "tokens": n_tokens,
        "seconds": statistics.median(record.seconds for record in history),
        "memory": extra,
        "bits": params.emission.tobytes().hex()[:4096] + np.float64(history[-1].objective).hex(),
    }


def report(results: list[dict[str, Any]]) -> str:
    threads = next(result["seconds"] for result in results if result["home"] == "2 threads")
    bits = {result["bits"] for result in results if "10 times" not in result["home"]}
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}. {N_STATES} states. All homes of the same corpus give the same bits: "
        f"{'yes' if len(bits) == 1 else 'NO'}.",
        "",
        "| home | tokens | s per iteration | of that of 2 threads | memory of the driver, MB |",
        "|---|--:|--:|--:|--:|",
    ]
    for result in results:
        extra = "" if np.isnan(result["memory"]) else f"{result['memory']:.0f}"
        lines.append(
            f"| {result['home']} | {result['tokens']:,} | {result['seconds']:.3f} | "
            f"{result['seconds'] / threads:.2f} | {extra} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generator", type=Path, default=HERE.parent.parent / "shared" / "bench")
    parser.add_argument("--iterations", type=int, default=9, help="of which the median is shown")
    parser.add_argument("--no-readme", action="store_true", help="print only")
    parser.add_argument("--child", choices=HOMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    generator = load_module(options.generator, "gen")
    if options.child is not None:
        print(json.dumps(run_home(generator, options.child, options.iterations)))
        return
    results = []
    for home in HOMES:
        run = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child", home], stdout=subprocess.PIPE)
        if run.returncode:
            sys.exit(run.returncode)
        results.append(json.loads(run.stdout.splitlines()[-1]))
    content = report(results)
    print(content)
    if not options.no_readme:
        write_readme("homes", content)


if __name__ == "__main__":
    main()
