"""Conditional random fields: seconds beside python-crfsuite's, by turns; see README.md.

Four workloads: an iteration of L-BFGS on generated chunking data, by a generator that lies outside the project;
training on CoNLL-2000 and on short sentences of English Web Treebank, in processes of their own so that their memory
can be told; and marginals of chains with scores of their own for every edge. python-crfsuite is run by the interpreter
that ``--peer`` names, if there is one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

PEER = """
import gzip, json, resource, sys, time
import pycrfsuite
path, variance, iterations = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
trainer = pycrfsuite.Trainer(verbose=False)
started, words, labels = time.process_time(), [], []
for line in gzip.open(path, "rt"):
    *features, label = line.rstrip("\\n").split("\\t")
    if label:
        words.append(features)
        labels.append(label)
    elif words:
        trainer.append(words, labels)
        words, labels = [], []
read = time.process_time() - started
trainer.set_params({"c1": 0.0, "c2": 0.5 / variance, "max_iterations": iterations})
wall, started = time.perf_counter(), time.process_time()
trainer.train(sys.argv[4])
last = trainer.logparser.last_iteration
print(json.dumps({
    "read": read, "seconds": time.process_time() - started, "wall": time.perf_counter() - wall,
    "iterations": last["num"], "loss": last["loss"],
}))
"""


def sentences_of(path: Path) -> Iterator[list[list[str]]]:
    """Sentences of a file of columns, one after another."""
    rows: list[list[str]] = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                rows.append(line.split())
            elif rows:
                yield rows
                rows = []
    if rows:
        yield rows


def short_sentences(treebank: Path) -> Iterator[list[list[str]]]:
    """Sentences of at most 20 words of a treebank, as many as users had tweets: words, nothing, parts of speech."""
    kept = 0
    for rows in sentences_of(treebank):
        if len(rows) <= 20 and kept < 2715:
            kept += 1
            yield [[row[0], "", row[1]] for row in rows]


def read(source: str) -> tuple[Iterator[list[list[str]]], str]:
    """Sentences of a file of columns, of a treebank or, of a folder, generated ones, and the templates of features."""
    path = Path(source)
    if path.is_dir():
        return generated(path), "chunking"
    return (short_sentences(path), "words") if path.name.endswith(".tsv.gz") else (sentences_of(path), "chunking")


def generated(generator: Path) -> Iterator[list[list[str]]]:
    """The chunking data of the generator as words, tags and labels."""
    from common import load_module

    data = load_module(generator, "gen").chunk_data()
    ends = data["lengths"].cumsum()
    for size, end in zip(data["lengths"].tolist(), ends.tolist(), strict=True):
        own = slice(end - size, end)
        columns = (data[name][own].tolist() for name in ("words", "pos", "labels"))
        yield [[f"w{word}", f"p{tag}", f"y{label}"] for word, tag, label in zip(*columns, strict=True)]


def tokens_of(rows: list[list[str]], templates: str) -> list[Any]:
    """The tokens of a sentence as templates read them."""
    return [row[0] if templates == "words" else (row[0], row[1]) for row in rows]


def write_features(source: str, path: Path) -> None:
    """One line per token for the peer: features of the templates, then the label; a blank line between sentences."""
    from spectrem.data import token_features

    sentences, templates = read(source)
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        kept = list(sentences)
        texts = [tokens_of(rows, templates) for rows in kept]
        for rows, tokens in zip(kept, token_features(texts, templates), strict=True):
            for row, features in zip(rows, tokens, strict=True):
                file.write("\t".join([*features, row[2]]) + "\n")
            file.write("\t\n")


def run_peer(python: str, features: Path, variance: float, iterations: int) -> dict[str, Any]:
    """What python-crfsuite does in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(features), str(variance), str(iterations), f"{folder}/model"]
        return _run([python, "-c", PEER, *arguments])


def run_ours(source: str, variance: float, steps: int, n_threads: int) -> dict[str, Any]:
    """What Spectrem does in a process of its own."""
    arguments = ["--ours", source, "--variance", str(variance), "--steps", str(steps), "--threads", str(n_threads)]
    return _run([sys.executable, __file__, *arguments])


def _run(command: list[str]) -> dict[str, Any]:
    """The numbers that a process prints, and the anonymous memory that it held at most."""
    from common import run_measured

    done, megabytes = run_measured(command, stdout=subprocess.PIPE, text=True)
    done.check_returncode()
    return json.loads(done.stdout) | {"megabytes": megabytes}


def train_ours(source: str, variance: float, steps: int, n_threads: int) -> dict[str, Any]:
    """Train on a file of columns, or on generated data if it is a folder; numbers of this process."""
    from spectrem import CRFTagger
    from spectrem.cli.freeing import return_freed_memory

    return_freed_memory()  # as every command does
    path = Path(source)
    sentences, templates = read(source)
    labels: list[list[str]] = []

    def words() -> Iterator[list[Any]]:
        for rows in sentences:
            labels.append([sys.intern(row[2]) for row in rows])
            yield tokens_of(rows, templates)

    marks: list[tuple[float, float]] = []
    import spectrem.estimators.labelled as labelled

    fit_known = labelled.fit_known

    def timed(*arguments: Any, **options: Any) -> Any:
        marks.append((time.process_time(), time.perf_counter()))
        found = fit_known(*arguments, **options)
        marks.append((time.process_time(), time.perf_counter()))
        counted.append(found)
        return found

    counted: list[Any] = []
    labelled.fit_known = timed
    started = time.process_time()
    tagger = CRFTagger(templates, C=variance, n_threads=n_threads, m_steps=steps or None)
    tagger.fit(words(), labels)
    found = counted[0]
    report = {
        "read": marks[0][0] - started,
        "seconds": marks[1][0] - marks[0][0],
        "wall": marks[1][1] - marks[0][1],
        "iterations": found.n_steps,
        "evaluations": found.n_evaluations,
        "loss": found.value,
        "weights": len(tagger.theta_),
    }
    test = path.with_name(path.name.replace("train", "test"))
    if templates == "chunking" and test != path and test.is_file():
        from spectrem.metrics import chunk_scores

        rows = list(sentences_of(test))
        predicted = tagger.predict([[(row[0], row[1]) for row in own] for own in rows])
        report["f1"] = chunk_scores(predicted, [[row[2] for row in own] for own in rows]).f1
    return report


def edge_marginals(repeats: int = 100) -> float:
    """Processor milliseconds of the marginals of 64 chains of 24 tokens and 12 states, each edge with its own score."""
    import numpy as np

    from spectrem.structures import EdgeChain, Parts

    chain = EdgeChain(np.full(64, 24), 12)
    scores = Parts(np.random.default_rng(0).normal(size=chain.n_unary), (np.zeros((12, 12)),))
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        chain.smoothed_max(scores, 1.0)
        seconds.append(time.process_time() - started)
    return 1e3 * statistics.median(seconds)


def compare(name: str, source: str, features: Path | None, options: argparse.Namespace, steps: int) -> None:
    """Run the peer and ours by turns, and print what each did."""
    for turn in range(options.turns):
        if features is not None:
            found = run_peer(options.peer, features, options.variance, steps or 1000)
            print(f"{name}: python-crfsuite, turn {turn + 1}: {tell(found)}", flush=True)
        for n_threads in (1, 2):
            found = run_ours(source, options.variance, steps, n_threads)
            print(f"{name}: spectrem, {n_threads} threads, turn {turn + 1}: {tell(found)}", flush=True)


def tell(found: dict[str, Any]) -> str:
    work = found.get("evaluations", found["iterations"])
    more = f", F1 {100 * found['f1']:.2f}" if "f1" in found else ""
    return (
        f"read {found['read']:.2f} s, {found['iterations']} iterations, {found['seconds']:.1f} s of processor, "
        f"{found['wall']:.1f} s; {found['seconds'] / work:.3f} s of processor and {found['wall'] / work:.3f} s each; "
        f"loss {found['loss']:.4f}, {found['megabytes']:.0f} MB{more}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generator", type=Path, help="folder of gen.py, the workload generators")
    parser.add_argument("--data", type=Path, help="folder of conll2000-train.txt.gz")
    parser.add_argument("--treebank", type=Path, help="en_ewt-ud-train.tsv.gz, for short sentences")
    parser.add_argument("--peer", help="a Python that has python-crfsuite")
    parser.add_argument("--variance", type=float, default=0.5)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20, help="of the generated data; CoNLL-2000 runs to the end")
    parser.add_argument("--ours", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours is not None:
        print(json.dumps(train_ours(options.ours, options.variance, options.steps, options.threads)))
        return
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"marginals of 64 x 24 x 12 with own edges: {edge_marginals():.2f} ms of processor")
    with tempfile.TemporaryDirectory() as folder:
        conll = None if options.data is None else options.data / "conll2000-train.txt.gz"
        for name, source, steps in (
            ("generated", options.generator, options.steps),
            ("short sentences", options.treebank, 0),
            ("CoNLL-2000", conll, 0),
        ):
            if source is None:
                continue
            features = Path(folder) / "features.gz" if options.peer else None
            if features is not None:
                write_features(str(source), features)
            compare(name, str(source), features, options, steps)


if __name__ == "__main__":
    main()
