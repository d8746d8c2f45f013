"""Dependency parsing: accuracy and processor time of training and parsing on Universal Dependencies; see README.md.

Every row is a process of its own on one thread. Heads are learned from gold tags, projective trees with a single root;
settings were chosen on development data, and test sentences are read at the end.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROWS = (("en_ewt", "train", "test"), ("pt_bosque", "train", "test"), ("bg_btb", "dev", "test"))
LENGTH, PARSED = 20, 2000


def measure(data: Path, treebank: str, train: str, test: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Train on one part, parse another, and parse sentences of one length; processor seconds."""
    sys.path.insert(0, str(HERE.parent))
    from reproductions.treebanks import read_ud
    from spectrem import EdgeFactoredParser
    from spectrem.metrics import attachment_scores, not_punctuation

    sentences, gold = read_ud(data, treebank, train), read_ud(data, treebank, test)
    # kernels are compiled, or read from their cache, beforehand
    EdgeFactoredParser(bits=10, n_threads=1, **settings).fit(sentences[:64]).parse(gold[:64])
    parser = EdgeFactoredParser(n_threads=1, relations=False, **settings)
    started = time.process_time()
    parser.fit(sentences)
    fit = time.process_time() - started
    started = time.process_time()
    heads = parser.predict(gold)
    parse = time.process_time() - started
    mask, truth = not_punctuation([one.upos for one in gold]), [one.heads for one in gold]
    # distinct sentences, cut or not, of the same number of words
    same = [one for one in (*sentences, *gold) if len(one.forms) >= LENGTH][:PARSED]
    cut = [one._replace(forms=one.forms[:LENGTH], upos=one.upos[:LENGTH], xpos=one.xpos[:LENGTH]) for one in same]
    speeds = []
    for _ in range(5):
        started = time.process_time()
        parser.predict(cut)
        speeds.append(len(cut) / (time.process_time() - started))
    labelled = EdgeFactoredParser(n_threads=1, **settings)
    started = time.process_time()
    labelled.fit(sentences)
    with_relations = time.process_time() - started
    relations = [one.relations for one in labelled.parse(gold)]
    given = [one.relations for one in gold]
    return {
        "without": attachment_scores(truth, heads, mask=mask).uas,
        "with": attachment_scores(truth, heads).uas,
        "las": attachment_scores(truth, heads, mask=mask, gold_relations=given, predicted_relations=relations).las,
        "n": len(sentences),
        "fit": fit,
        "with_relations": with_relations,
        "parse": len(gold) / parse,
        "speed": statistics.median(speeds),
        "log_likelihood": parser.history_[-1].free_objective,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds ud")
    parser.add_argument("--settings", default="{}", help="parameters of EdgeFactoredParser, as JSON")
    parser.add_argument("--treebank", help="one row only, as en_ewt")
    parser.add_argument(
        "--dev", action="store_true", help="parse development data (of bg_btb, which learns from it, none)"
    )
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    args = parser.parse_args()
    if args.row:
        print(json.dumps(measure(args.data, *args.row.split(","), json.loads(args.settings))))
        return
    lines = [
        "| treebank | sentences | UAS | with punctuation | LAS | training, s | and relations, s | sentences/s | "
        "20 words |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for treebank, train, test in ROWS:
        part = "dev" if args.dev else test
        if args.treebank not in (None, treebank) or train == part:
            continue
        command = [sys.executable, __file__, "--data", str(args.data), "--settings", args.settings]
        command += ["--row", f"{treebank},{train},{part}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["log_likelihood"] <= 0, "heads that no tree of the model has"
        shares = " | ".join(f"{100 * found[name]:.2f}" for name in ("without", "with", "las"))
        lines.append(
            f"| {treebank}, {train} → {part} | {found['n']:,} | {shares} | {found['fit']:.1f} | "
            f"{found['with_relations']:.1f} | {found['parse']:,.0f} | {found['speed']:,.0f} |"
        )
        print(lines[-1], file=sys.stderr, flush=True)
    content = "\n".join(
        [*lines, "", f"Python {platform.python_version()}, {platform.processor() or platform.machine()}."]
    )
    print(content)
    if args.readme:
        sys.path.insert(0, str(HERE))
        from common import write_readme

        write_readme("parsing", content)


if __name__ == "__main__":
    main()
