"""The first things that a user does, in an environment that holds nothing but an installed Spectrem.

Prints how many kernels `spectrem align` compiled for ten lines, and its processor time. With --prebuilt, as for a wheel
that brings compiled code, one that was compiled is an error.
"""

from __future__ import annotations

import argparse
import logging
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ALIGN = """
import logging
logging.basicConfig(format="%(message)s")
logging.getLogger("spectrem.compiling").setLevel("INFO")
from spectrem.cli import main
main()
"""


def align(folder: Path) -> tuple[int, float]:
    """Align ten lines by the command; how many kernels were compiled for it, and its processor time in seconds."""
    from spectrem.data import write_lines
    from spectrem.datasets import make_bitext

    bitext = make_bitext(10, seed=0)
    write_lines(folder / "en", bitext.source)
    write_lines(folder / "fr", bitext.target)
    command = [sys.executable, "-c", ALIGN, "align", "en", "fr", "-o", "links", "--save", "model"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len((folder / "links").read_text().splitlines()) == 10
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stderr.count("compiled "), seconds


def estimators(folder: Path) -> None:
    """Train a conditional random field, save and load it and the model of the command, and project a table."""
    from spectrem import CRFTagger, E, load, part, project
    from spectrem.datasets import make_tagged_corpus

    corpus = make_tagged_corpus(40, seed=0)
    words, tags = [list(sentence) for sentence in corpus.words], [list(sentence) for sentence in corpus.tags]
    tagger = CRFTagger(features="words").fit(words, tags)
    tagger.save(folder / "tagger")
    assert [list(sentence) for sentence in load(folder / "tagger").predict(words)] == [
        list(sentence) for sentence in tagger.predict(words)
    ]
    load(folder / "model")
    table = project([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], E[part("label") == 1] == 1)
    assert abs(table.proba[:, 1].sum() - 1) < 1e-6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prebuilt", action="store_true")
    prebuilt = parser.parse_args().prebuilt
    n_compiled = 0

    def count(record: logging.LogRecord) -> bool:
        nonlocal n_compiled
        n_compiled += str(record.msg).startswith("compiled")
        return True

    log = logging.getLogger("spectrem.compiling")
    log.addFilter(count)
    log.setLevel("INFO")
    with tempfile.TemporaryDirectory() as name:
        n_aligning, _ = align(Path(name))
        _, seconds = align(Path(name))  # Python's own bytecode is there by now
        estimators(Path(name))
    print(f"smoke: align compiled {n_aligning} kernels, {seconds:.2f} s when compiled; the rest {n_compiled}")
    if prebuilt and n_aligning + n_compiled:
        sys.exit("the compiled code of the wheel was not used")


if __name__ == "__main__":
    main()
