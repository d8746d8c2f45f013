"""Word alignment on a cluster of small worker processes, one of which is killed amid training; see README.md.

A bitext is generated, read into mapped files and aligned in this process and on the cluster: links must be the same.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from spectrem import WordAligner
from spectrem.corpus import OnDask, Spilled
from spectrem.data import read_bitext
from spectrem.datasets import write_bitext
from spectrem.learning import Stepwise

WORKERS = 2


class Watch:
    """The largest resident memory of the workers, looked up twice a second; bytes."""

    def __init__(self, client: Any) -> None:
        self._client, self._stop = client, threading.Event()
        self.resident = self.private = 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            for pid in self._pids():
                try:
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                except OSError:
                    continue
                sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmRSS", "RssAnon"))}
                self.resident = max(self.resident, 1024 * int(sizes.get("VmRSS", 0)))
                self.private = max(self.private, 1024 * int(sizes.get("RssAnon", 0)))

    def _pids(self) -> list[int]:
        return [nanny.process.pid for nanny in self._client.cluster.workers.values() if getattr(nanny, "process", None)]

    def kill_one(self) -> None:
        os.kill(self._pids()[0], signal.SIGKILL)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--memory", default="1.5GB", help="limit of every worker")
    parser.add_argument("--batches", type=int, default=32)
    parser.add_argument("--kill-after", type=float, default=5.0, help="seconds after the first stage")
    parser.add_argument("--folder", help="where files are kept meanwhile")
    options = parser.parse_args()
    from distributed import Client, LocalCluster

    settings: dict[str, Any] = {
        "schedule": Stepwise(n_batches=options.batches), "max_iter": 1, "model1_iterations": 1, "n_threads": 1,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = f"{folder}/source", f"{folder}/target"
        write_bitext(options.pairs, *paths)
        bitext = read_bitext(*paths, folder=folder)
        with (
            LocalCluster(
                n_workers=WORKERS, threads_per_worker=1, memory_limit=options.memory, dashboard_address=":0"
            ) as cluster,
            Client(cluster, direct_to_workers=True) as client,
        ):
            watch, started, killed = Watch(client), time.perf_counter(), []

            def on_iteration(record: Any) -> None:
                if not killed:
                    killed.append(record)
                    threading.Timer(options.kill_after, watch.kill_one).start()

            home = partial(OnDask, client=client, folder=folder)
            aligner = WordAligner(corpus=home, on_iteration=on_iteration, **settings).fit(bitext)
            seconds = time.perf_counter() - started
            watch.stop()
        print(
            f"{options.pairs:,} pairs, {aligner.table_.n_pairs:,} word pairs: {WORKERS} workers of {options.memory} "
            f"trained in {seconds:.0f} s, at most {watch.resident / 1e6:.0f} MB resident ({watch.private / 1e6:.0f} MB "
            "without files that are mapped) each; one was killed"
        )
        here = WordAligner(corpus=partial(Spilled, folder=folder), **settings).fit(bitext)
        same = aligner.params_.forward.translation.tobytes() == here.params_.forward.translation.tobytes()
        same &= aligner.params_.backward.translation.tobytes() == here.params_.backward.translation.tobytes()
        links = all(
            one == other for one, other in zip(aligner.iter_predict(bitext), here.iter_predict(bitext), strict=True)
        )
        print(f"the same parameters, bit for bit: {same}; the same links: {links}")


if __name__ == "__main__":
    main()
