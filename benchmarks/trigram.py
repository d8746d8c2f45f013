"""Trigram taggers on the Penn sample: time of one EM iteration, E-step and M-step; see README.md."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import write_readme

from spectrem.corpus import Local
from spectrem.data import read_tag_dictionary, read_tagged
from spectrem.learning import EStep, Record, Stopping, run_em
from spectrem.models.tagging import HMMModel, Lexicon, TagKernel, TagShard, build_shards, uniform

CORPUS = "wsj_sample.pos.gz"
DICTIONARIES = ("tagdict_sample_conll2000_ewt3.tsv.gz", "tagdict_sample.tsv.gz")


@dataclass(frozen=True)
class Task:
    """A corpus of which every word may take the states of its row of the lexicon."""

    name: str
    lexicon: Lexicon
    shards: list[TagShard]

    @property
    def n_tokens(self) -> int:
        return sum(shard.n_tokens for shard in self.shards)

    @property
    def n_triples(self) -> int:
        """Terms of the forward sum: three neighbours' numbers of states, multiplied, summed over the corpus."""
        total, sizes = 0, np.diff(self.lexicon.entry_offsets)
        for shard in self.shards:
            widths, inside = sizes[shard.entries], np.ones(shard.n_tokens, bool)
            starts = np.cumsum(shard.lengths) - shard.lengths
            for position in (0, 1):
                inside[starts[shard.lengths > position] + position] = False
            last = np.flatnonzero(inside)
            total += int((widths[last] * widths[last - 1] * widths[last - 2]).sum())
        return total


@dataclass(frozen=True)
class Cost:
    """Of one iteration, in seconds: wall clock, processor."""

    wall: float
    processor: float


def tasks(folder: Path) -> Iterator[Task]:
    """The sample under each dictionary (missing words may take every tag) and with 17 states but no dictionary."""
    corpus = read_tagged(folder / CORPUS)
    spellings = sorted({word for sentence in corpus.words for word in sentence})
    number = {word: k for k, word in enumerate(spellings)}
    lengths = [len(sentence) for sentence in corpus.words]
    entries = [number[word] for sentence in corpus.words for word in sentence]

    def task(name: str, lexicon: Lexicon) -> Task:
        return Task(name, lexicon, build_shards(lexicon, lengths, entries))

    seen = {tag for sentence in corpus.tags for tag in sentence if tag is not None}
    for file in DICTIONARIES:
        dictionary = read_tag_dictionary(folder / file)
        tags = {tag: k for k, tag in enumerate(sorted(seen.union(*dictionary.values())))}
        states = [sorted(tags[tag] for tag in dictionary.get(word, tags)) for word in spellings]
        offsets = np.cumsum([0, *map(len, states)])
        yield task(file, Lexicon.from_allowed(offsets, np.concatenate(states), len(tags)))
    yield task("none", Lexicon.full(len(spellings), 17))


def measure(task: Task, threads: int, iterations: int) -> Cost:
    """Medians over iterations of EM, after one that compiles and warms up."""
    model = HMMModel(task.lexicon, order=2)
    walls, clocks = [], [time.process_time()]

    def note(record: Record) -> None:
        walls.append(record.seconds)
        clocks.append(time.process_time())

    run_em(
        model,
        Local(task.shards, threads),
        uniform(model, perturbation=1.0, rng=np.random.default_rng(0)),
        EStep(kernel=TagKernel(model)),
        stopping=Stopping(max_iter=iterations + 1, tol=0.0),
        on_iteration=note,
    )
    return Cost(statistics.median(walls[1:]), statistics.median(np.diff(clocks)[1:].tolist()))


def table(rows: list[tuple[Task, int, Cost]], iterations: int) -> str:
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}; median of {iterations} iterations.",
        "",
        "| dictionary | states | tokens | triples | threads | wall s | processor s |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for task, threads, cost in rows:
        lines.append(
            f"| {task.name} | {task.lexicon.n_states} | {task.n_tokens:,} | {task.n_triples / 1e6:.1f} M | {threads} | "
            f"{cost.wall:.3f} | {cost.processor:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=os.environ.get("SPECTREM_DATA", beside))
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--iterations", type=int, default=9)
    parser.add_argument("--no-readme", action="store_true", help="print only")
    options = parser.parse_args()
    if not (options.data / "tag" / CORPUS).is_file():
        sys.exit(f"--data must be a folder that holds tag/{CORPUS}, got {options.data}; see README.md")
    rows = []
    for task in tasks(options.data / "tag"):
        for threads in options.threads:
            rows.append((task, threads, measure(task, threads, options.iterations)))
            print(f"{task.name}, {threads} threads: {rows[-1][2]}", file=sys.stderr)
    content = table(rows, options.iterations)
    print(content)
    if not options.no_readme:
        write_readme("trigram", content)


if __name__ == "__main__":
    main()
