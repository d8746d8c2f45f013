"""Word alignment on a cluster of small worker processes, one of which is killed amid training; see README.md.

A bitext is generated, read into mapped files and aligned in this process and on the cluster: parameters and links must
be the same. With ``--only`` one of the two runs is made alone; the lines with digests of two runs can be compared.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from large_bitext import iter_bitext, write_bitext

from spectrem import WordAligner
from spectrem.corpus import OnDask, Spilled
from spectrem.data import Bitext, read_bitext
from spectrem.learning import Stepwise
from spectrem.metrics import alignment_scores

WORKERS = 2
JUDGED = 20_000  # the first pairs, of which the error is shown


class Watch:
    """The largest resident memory of this process and of any worker, looked up twice a second; bytes."""

    def __init__(self, client: Any = None) -> None:
        self._client, self._stop = client, threading.Event()
        self.driver, self.worker = [0, 0], [0, 0]  # resident; of it private
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            self._raise(self.driver, os.getpid())
            for pid in self._pids():
                self._raise(self.worker, pid)

    def _raise(self, largest: list[int], pid: int) -> None:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            return
        sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmRSS", "RssAnon"))}
        largest[:] = map(max, largest, (1024 * int(sizes.get(name, 0)) for name in ("VmRSS", "RssAnon")))

    def _pids(self) -> list[int]:
        if self._client is None:
            return []
        return [nanny.process.pid for nanny in self._client.cluster.workers.values() if getattr(nanny, "process", None)]

    def kill_one(self) -> None:
        os.kill(self._pids()[0], signal.SIGKILL)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def cluster_of(options: argparse.Namespace) -> Iterator[Any]:
    """A client of a new cluster."""
    from distributed import Client, LocalCluster

    limits = {"threads_per_worker": 1, "memory_limit": options.memory, "dashboard_address": ":0"}
    with (
        LocalCluster(n_workers=WORKERS, **limits) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        yield client


def train(bitext: Bitext, options: argparse.Namespace, home: Any, killer: Callable[[], None] | None) -> WordAligner:
    """An aligner trained in a home; ``killer`` is called a while after the first pass."""

    def on_iteration(record: Any) -> None:
        nonlocal killer
        print(f"  a pass of {record.seconds:.0f} s, objective {record.objective!r}", flush=True)
        if killer is not None:
            threading.Timer(options.kill_after, killer).start()
            killer = None

    aligner = WordAligner(
        schedule=Stepwise(n_batches=options.batches), max_iter=1, model1_iterations=1, n_threads=1,
        max_chance=options.max_chance, corpus=home, on_iteration=on_iteration,
    )  # fmt: skip
    return aligner.fit(bitext)


def digests(aligner: WordAligner, bitext: Bitext) -> tuple[str, str]:
    """Of all parameters, and of the links of a text."""
    params, links = hashlib.sha256(), hashlib.sha256()
    for side in (aligner.params_.forward, aligner.params_.backward):
        for array in (side.translation, side.null, side.jump, side.end):
            params.update(array.tobytes())
    for part in aligner.iter_predict(bitext):
        for array in (part.offsets, part.source, part.target, part.sure):
            links.update(array.tobytes())
    return params.hexdigest(), links.hexdigest()


def error(aligner: WordAligner) -> float:
    """Alignment error rate of the first pairs, in per cent."""
    block = next(iter_bitext(JUDGED))
    return 100 * alignment_scores(aligner.predict(block.source, block.target), block.links).aer


def described(sizes: list[int]) -> str:
    return f"{sizes[0] / 1e6:.0f} MB resident ({sizes[1] / 1e6:.0f} MB without files that are mapped)"


def run(name: str, bitext: Bitext, options: argparse.Namespace, folder: str) -> tuple[str, str]:
    """Train and align in one place, say what it took, and return digests of what was found."""
    print(f"{name}:", flush=True)
    started = time.perf_counter()
    if name == "here":
        watch = Watch()
        aligner = train(bitext, options, partial(Spilled, folder=folder), None)
    else:
        with cluster_of(options) as client:
            watch = Watch(client)
            aligner = train(bitext, options, partial(OnDask, client=client, folder=folder), watch.kill_one)
    seconds = time.perf_counter() - started
    watch.stop()
    print(f"  {bitext.n_pairs:,} pairs, {aligner.table_.n_pairs:,} word pairs, trained in {seconds:.0f} s")
    print(f"  this process: at most {described(watch.driver)}")
    if name != "here":
        print(f"  each of {WORKERS} workers of {options.memory}: at most {described(watch.worker)}")
    found = digests(aligner, bitext.take(np.arange(min(options.links, bitext.n_pairs))))
    print(f"  parameters {found[0]}\n  links {found[1]}")
    print(f"  error on the first {min(JUDGED, bitext.n_pairs):,} pairs {error(aligner):.2f} %", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--max-chance", type=float, help="as of WordAligner; 0.1 makes the table a third smaller")
    parser.add_argument("--memory", default="1.5GB", help="limit of every worker")
    parser.add_argument("--batches", type=int, default=32)
    parser.add_argument("--kill-after", type=float, default=5.0, help="seconds after the first stage")
    parser.add_argument("--only", choices=["cluster", "here"], help="one of the two runs")
    parser.add_argument("--links", type=int, default=1_000_000, help="how many of the first pairs are aligned")
    parser.add_argument("--folder", help="where files are kept meanwhile")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = f"{folder}/source", f"{folder}/target"
        write_bitext(options.pairs, *paths)
        bitext = read_bitext(*paths, folder=folder)
        names = ["cluster", "here"] if options.only is None else [options.only]
        found = [run(name, bitext, options, folder) for name in names]
    if len(found) == 2:
        print(f"the same, bit for bit: parameters {found[0][0] == found[1][0]}, links {found[0][1] == found[1][1]}")


if __name__ == "__main__":
    main()
