"""Word aligners side by side: error, time and memory on the same files; see README.md."""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from common import most_anonymous, write_readme

if TYPE_CHECKING:
    from spectrem.data import Symmetrization

MERGES: tuple[Symmetrization, ...] = ("intersection", "union", "grow-diag-final-and")
SETTINGS: dict[str, list[str]] = {
    "spectrem": [],
    "spectrem --gamma 0.5": ["--gamma", "0.5"],
    "spectrem --constraint fertility": ["--constraint", "fertility"],
    "spectrem --constraint none": ["--constraint", "none"],
}


@dataclass(frozen=True)
class Task:
    """A bitext as files; gold links belong to its last sentence pairs.

    ``joint`` holds both sides on one line and leaves out pairs with an empty side, listed in ``empty``.
    """

    name: str
    source: Path
    target: Path
    joint: Path
    gold: Path
    empty: tuple[int, ...]
    n_pairs: int
    n_test: int


@dataclass(frozen=True)
class Cost:
    """What a process tree used: seconds, seconds, MB."""

    wall: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu, max(self.memory, other.memory))


@dataclass(frozen=True)
class Outcome:
    """One system on one task; two files of links are two directions yet to be merged."""

    task: Task
    system: str
    cost: Cost
    links: tuple[Path, ...] = field(default=())


def measure(command: list[str], output: Path | None = None, *, threads: int) -> Cost:
    """Run a command to its end; its standard output goes to a file, its messages are shown if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryFile() as messages, open(output or os.devnull, "wb") as stdout:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=stdout, stderr=messages, env=environment)
        with most_anonymous(process.pid) as most:
            _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            messages.seek(0)
            sys.exit(f"{' '.join(command)} failed:\n{messages.read().decode(errors='replace')[-2000:]}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, most())


def run_spectrem(task: Task, system: str, threads: int) -> Outcome:
    output = task.joint.with_suffix(f".spectrem-{list(SETTINGS).index(system)}")
    command = [spectrem(), "align", str(task.source), str(task.target), "-o", str(output), "--quiet"]
    cost = measure([*command, "--n-threads", str(threads), *SETTINGS[system]], threads=threads)
    return Outcome(task, system, cost, (output,))


def run_fast_align(task: Task, threads: int) -> Outcome:
    outputs = (task.joint.with_suffix(".fast-forward"), task.joint.with_suffix(".fast-backward"))
    cost = Cost()
    for output, direction in zip(outputs, ([], ["-r"]), strict=True):
        cost += measure(["fast_align", "-i", str(task.joint), "-d", "-o", "-v", *direction], output, threads=threads)
        lines = output.read_text().splitlines()
        for number in task.empty:
            lines.insert(number, "")
        output.write_text("".join(f"{line}\n" for line in lines))
    return Outcome(task, "fast_align, 2 directions", cost, outputs)


def run_eflomal(task: Task, threads: int) -> Outcome:
    outputs = (task.joint.with_suffix(".eflomal-forward"), task.joint.with_suffix(".eflomal-backward"))
    command = ["eflomal-align", "-s", str(task.source), "-t", str(task.target), "--overwrite"]
    command += ["-f", str(outputs[0]), "-r", str(outputs[1])]
    return Outcome(task, "eflomal", measure(command, threads=threads), outputs)


def spectrem() -> str:
    """The command installed beside this Python, else the one on the PATH."""
    beside = Path(sys.executable).with_name("spectrem")
    found = str(beside) if beside.exists() else shutil.which("spectrem")
    if not found:
        sys.exit("spectrem is not installed; pip install -e . in the project's folder")
    return found


def hansards(folder: Path, work: Path, size: str) -> Task:
    """The first pairs of the training text, dev, test. "all": the whole of it; "4x": four times, in random order."""
    sides = []
    for language in ("en", "fr"):
        train = list(islice(read_lines(folder / f"train.{language}.gz"), int(size) if size.isdigit() else None))
        if size == "4x":
            train *= 4
            Random(0).shuffle(train)  # the same order on both sides, since they are as long
        sides.append(chain(train, *(read_lines(folder / f"{part}.{language}") for part in ("dev", "test"))))
    return write_task("En-Fr", *sides, folder, work)


def europarl(folder: Path, work: Path) -> Task:
    """The training text, which ends with the test sentences."""
    return write_task("En-Es", read_lines(folder / "train.en.gz"), read_lines(folder / "train.es.gz"), folder, work)


def golden(folder: Path, work: Path, language: str) -> Task:
    """The Golden Collection of a language: 100 sentence pairs after Europarl (es), 10,000 Hansards (fr), or alone."""
    sides = []
    for side in ("en", language):
        beside = {"es": "europarl-enes", "fr": "hansards-enfr"}.get(language)
        more = islice(read_lines(folder.parent / beside / f"train.{side}.gz"), 10_000) if beside else iter(())
        sides.append(chain(more, read_lines(folder / f"test.{side}")))
    return write_task(f"Golden En-{language.title()}", *sides, folder, work)


def write_task(languages: str, source: Iterator[str], target: Iterator[str], folder: Path, work: Path) -> Task:
    stem = work / f"{languages.replace(' ', '-')}-{len(list(work.iterdir()))}"
    paths = [stem.with_suffix(ending) for ending in (".source", ".target", ".joint")]
    n_pairs, empty = 0, []
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("w", encoding="utf-8")) for path in paths]
        for pair in zip(source, target, strict=True):
            for file, line in zip(files[:2], pair, strict=True):
                file.write(f"{line}\n")
            if all(line.strip() for line in pair):
                files[2].write(f"{pair[0]} ||| {pair[1]}\n")
            else:
                empty.append(n_pairs)
            n_pairs += 1
    n_test = sum(1 for _ in read_lines(folder / "test.en"))
    name, gold = f"{languages} {n_pairs:,}", folder / "test.align"
    return Task(name, paths[0], paths[1], paths[2], gold, tuple(empty), n_pairs, n_test)


def read_lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            yield line.rstrip("\n")


def score(outcome: Outcome) -> tuple[str, float, float, float]:
    """Way of merging ("" if merged already), AER, precision and recall in percent, on the test pairs."""
    from spectrem.data import Links, read_links, symmetrize
    from spectrem.metrics import alignment_scores

    task = outcome.task
    gold = read_links(task.gold, task.n_test)
    first = task.n_pairs - task.n_test

    def of_test(path: Path) -> Links:
        links = read_links(path, task.n_pairs)
        kept = links.where(links.sentence >= first)
        return Links(kept.offsets[first:], kept.source, kept.target, kept.sure)

    sides = [of_test(path) for path in outcome.links]
    merged = {"": sides[0]} if len(sides) == 1 else {way: symmetrize(sides[0], sides[1], way) for way in MERGES}
    scores = {way: alignment_scores(links, gold) for way, links in merged.items()}
    best = min(scores, key=lambda way: scores[way].aer)
    return best, 100 * scores[best].aer, 100 * scores[best].precision, 100 * scores[best].recall


def table(outcomes: list[Outcome], threads: int) -> str:
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, {threads} threads, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}.",
        "",
        "| training pairs | system | merged by | AER | precision | recall | wall s | processor s | memory MB |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for outcome in outcomes:
        merge, aer, precision, recall = score(outcome)
        cost = outcome.cost
        lines.append(
            f"| {outcome.task.name} | {outcome.system} | {merge} | {aer:.2f} | "
            f"{precision:.1f} | {recall:.1f} | {cost.wall:.1f} | {cost.cpu:.1f} | {cost.memory:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=os.environ.get("SPECTREM_DATA", beside))
    parser.add_argument("--sizes", default="10000,50000,100000,all", help="pairs of the Hansards; 4x; '' for none")
    parser.add_argument("--golden", nargs="*", choices=["es", "fr", "pt"], default=["es", "fr", "pt"])
    parser.add_argument("--no-spanish", action="store_true", help="leave En-Es out")
    parser.add_argument("--settings", nargs="*", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--no-readme", action="store_true", help="print only")
    options = parser.parse_args()
    if not (options.data / "align").is_dir():
        sys.exit(f"--data must be a folder that holds align/hansards-enfr, got {options.data}; see README.md")
    align = options.data / "align"
    outcomes: list[Outcome] = []
    subprocess.run([spectrem(), "warmup"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        makers: list[Callable[[], Task]] = (
            [] if options.no_spanish else [partial(europarl, align / "europarl-enes", work)]
        )
        makers += [partial(golden, align / f"golden-en{language}", work, language) for language in options.golden]
        makers += [partial(hansards, align / "hansards-enfr", work, size) for size in options.sizes.split(",") if size]
        for make in makers:
            # In a process of its own: text held in this one would count as memory of the systems.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                task = pool.submit(make).result()
            for system in options.settings:
                outcomes.append(run_spectrem(task, system, options.threads))
                report(outcomes[-1])
            for program, run in (("fast_align", run_fast_align), ("eflomal-align", run_eflomal)):
                if shutil.which(program):
                    outcomes.append(run(task, options.threads))
                    report(outcomes[-1])
                else:
                    print(f"{program} is not on the PATH", file=sys.stderr)
        content = table(outcomes, options.threads)
    print(content)
    if not options.no_readme:
        write_readme("align", content)


def report(outcome: Outcome) -> None:
    cost = outcome.cost
    costs = f"{cost.wall:.1f} s, {cost.cpu:.1f} s, {cost.memory:.0f} MB"
    print(f"{outcome.task.name} {outcome.system}: {costs}", file=sys.stderr)


if __name__ == "__main__":
    main()
