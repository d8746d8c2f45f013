"""A folder of good files for every command, commands over them, and the damage that is done to files."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from spectrem.cli.app import app

ENGLISH = ["the house", "the book", "a house", "a book", "the red house", "a red book"]
FRENCH = ["la maison", "le livre", "une maison", "un livre", "la maison rouge", "un livre rouge"]


def _conllu(sentences):
    """Trees of (word, tag, head, relation), heads counted from 1."""
    blocks = []
    for n, words in enumerate(sentences):
        lines = [f"# sent_id = {n}"]
        lines += [f"{k}\t{w}\t{w}\t{tag}\t_\t_\t{head}\t{rel}\t_\t_" for k, (w, tag, head, rel) in enumerate(words, 1)]
        blocks.append("\n".join(lines) + "\n\n")
    return "".join(blocks)


DOG = [("the", "DET", 2, "det"), ("dog", "NOUN", 3, "nsubj"), ("sleeps", "VERB", 0, "root")]
CAT = [("a", "DET", 2, "det"), ("cat", "NOUN", 3, "nsubj"), ("eats", "VERB", 0, "root"), ("fish", "NOUN", 3, "obj")]
_SENTENCE = (
    "{n}\tPeop\t0\tO\tNNP\t{a}\tO\tO\tO\n{n}\tO\t1\tO\tVBD\tshot\tO\tO\tO\n{n}\tPeop\t2\tO\tNNP\t{b}\tO\tO\tO\n\n0\t2\tKill\n\n"
    "{m}\tLoc\t0\tO\tNNP\t{c}\tO\tO\tO\n{m}\tO\t1\tO\tVBZ\tis\tO\tO\tO\n\n\n"
)
_POINTS = [(0.0, 0.1), (0.2, 0.0), (0.1, 0.3), (5.0, 5.1), (5.2, 5.0), (5.1, 5.3), (5.3, 5.2), (0.3, 0.2)]

GOOD = {
    "en.txt": "\n".join(ENGLISH) + "\n",
    "fr.txt": "\n".join(FRENCH) + "\n",
    "pairs.jsonl": "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in zip(ENGLISH, FRENCH, strict=True)),
    "gold.txt": "0-0 1-1\n" * 4 + "0-0 1-2 2-1\n" * 2,
    "links.txt": "0-0 1-1\n" * 6,
    "words.tsv": "house\tmaison\nbook\tlivre\n",
    "priors.tsv": "LEX\thouse\tmaison\t1.5\n",
    "text.txt": "the dog sleeps\na cat eats fish\n",
    "tags.tsv": "the\tDET\na\tDET\ndog\tNOUN\ncat\tNOUN VERB\nsleeps\tVERB\neats\tVERB\nfish\tNOUN VERB\n",
    "tagged.txt": "the/DET dog/NOUN sleeps/VERB\na/DET cat/NOUN eats/VERB fish/NOUN\n",
    "tagged2.txt": "the/DET dog/NOUN sleeps/NOUN\na/DET cat/NOUN eats/VERB fish/VERB\n",
    "trees.conllu": _conllu([DOG, CAT, DOG[1:] and [("dogs", "NOUN", 2, "nsubj"), ("sleep", "VERB", 0, "root")]]),
    "trees2.conllu": _conllu([DOG, CAT, [("dogs", "NOUN", 0, "root"), ("sleep", "VERB", 1, "dep")]]),
    "tree-links.txt": "0-0 1-1 2-2\n0-0 1-1 2-2 3-3\n0-0 1-1\n",
    "rel.corp": "".join(
        _SENTENCE.format(n=2 * k, m=2 * k + 1, a=a, b=b, c=c)
        for k, (a, b, c) in enumerate([("Ray", "King", "Rome"), ("Lee", "Ruby", "Oslo"), ("Ann", "Bob", "Lima")])
    ),
    "scores.csv": "id,document,ham,spam\n7,a,0.9,0.1\n8,a,0.4,0.6\n9,b,0.5,0.5\n",
    "c.yaml": "- E[label == 'spam'] == 1.5\n",
    "data.csv": "name,x,y,kind\n" + "".join(f"r{k},{x},{y},k\n" for k, (x, y) in enumerate(_POINTS)),
    "clusters.yaml": "- (E[label == 0] >= 3).named('three')\n",
    "must.csv": "a,b\nr0,r1\n",
    "series.csv": "room,day,x,y\n" + "".join(f"{'ab'[k > 4]},{k},{x},{y}\n" for k, (x, y) in enumerate(_POINTS)),
    "votes.csv": "item,source,label,box\n"
    + "".join(f"{k},{s},{'ham' if (k + s) % 3 else 'spam'},{'xy'[k % 2]}\n" for k in range(8) for s in range(3)),
    "truth.csv": "item,label\n" + "".join(f"{k},ham\n" for k in range(4)) + "7,spam\n",
    "weak.json": json.dumps(
        {k: {"label": k % 2, "weak_labels": [k % 2, -1, k % 3 % 2], "data": {"text": "t"}} for k in range(8)}, indent=1
    ),
    "labels.yaml": "- (E[label == 'spam'] <= 3).named('three')\n",
    "states.yaml": "- (E[state == 0] >= 3).named('three')\n",
}

# Every command with names of good files for what it reads, and ``{out}`` and the like for what it writes.
COMMANDS = {
    "align": "align en.txt fr.txt --model1-iterations 1 --max-iter 1 --anchors gold.txt --dictionary words.tsv "
    "-o {out.links} --save {saved.npz} --probabilities {p.tsv}",
    "align priors": "align en.txt fr.txt --model1-iterations 1 --max-iter 1 --priors priors.tsv -o {out.links}",
    "align json": "align pairs.jsonl --model1-iterations 1 --max-iter 1 -o {out.links}",
    "align load": "align en.txt fr.txt --load aligner.npz -o {out.links}",
    "align dev": "align en.txt fr.txt --model1-iterations 1 --max-iter 1 --dev en.txt fr.txt gold.txt -o {out.links}",
    "evaluate": "evaluate links.txt gold.txt",
    "symmetrize": "symmetrize links.txt gold.txt -o {out.links}",
    "lexicon": "lexicon --load aligner.npz -o {lexicon.tsv}",
    "tag train": "tag train text.txt --dictionary tags.tsv --max-iter 2 --save {t.npz}",
    "tag train crf": "tag train --crf --labelled tagged.txt --max-iter 2 --save {t.npz}",
    "tag predict": "tag predict --load tagger.npz text.txt -o {out.tags} --probabilities {p.tsv}",
    "tag evaluate": "tag evaluate tagged.txt tagged2.txt --dictionary tags.tsv",
    "parse train": "parse train trees.conllu --passes 1 --bits 10 --save {p.npz}",
    "parse train dmv": "parse train trees.conllu --dmv --max-iter 2 --save {p.npz}",
    "parse predict": "parse predict --load parser.npz trees.conllu -o {out.conllu} --probabilities {p.tsv}",
    "parse evaluate": "parse evaluate trees.conllu trees2.conllu",
    "parse transfer": "parse transfer trees.conllu trees2.conllu --align tree-links.txt --bits 10 --max-iter 2 "
    "--save {p.npz}",
    "extract train": "extract train rel.corp --max-iter 2 --save {e.npz}",
    "extract predict": "extract predict --load extractor.npz rel.corp -o {out.corp}",
    "extract evaluate": "extract evaluate rel.corp rel.corp",
    "project": "project scores.csv --labels ham,spam -c c.yaml -o {out.csv} --prices {prices.csv} --report {r.html}",
    "cluster": "cluster data.csv -k 2 --id name --features x,y -c clusters.yaml --must-link must.csv --max-iter 3 "
    "-o {out.csv} --report {r.html}",
    "states fit": "states fit series.csv --group room --time day --features x,y -c states.yaml --n-init 1 --max-iter 3 "
    "--save {s.npz} --report {r.html}",
    "states predict": "states predict series.csv --load states.npz -o {out.csv}",
    "states forecast": "states forecast series.csv --load states.npz --steps 2 -o {out.csv}",
    "label fit": "label fit votes.csv --truth truth.csv --group box -c labels.yaml --max-iter 3 --save {l.npz} "
    "--report {r.html}",
    "label fit json": "label fit weak.json --max-iter 3 --save {l.npz}",
    "label predict": "label predict votes.csv --load labels.npz --group box -o {out.csv}",
    "label evaluate": "label evaluate votes.csv --load labels.npz --group box --truth truth.csv",
    "demo": "demo --n-pairs 50",
}
MODELS = {
    "aligner.npz": "align en.txt fr.txt --model1-iterations 1 --max-iter 1 -o links.out --save aligner.npz",
    "tagger.npz": "tag train text.txt --dictionary tags.tsv --max-iter 2 --save tagger.npz",
    "crf.npz": "tag train --crf --labelled tagged.txt --max-iter 2 --save crf.npz",
    "parser.npz": "parse train trees.conllu --passes 1 --bits 10 --save parser.npz",
    "grammar.npz": "parse train trees.conllu --dmv --max-iter 2 --save grammar.npz",
    "extractor.npz": "extract train rel.corp --max-iter 2 --save extractor.npz",
    "states.npz": "states fit series.csv --group room --time day --n-init 1 --max-iter 3 --save states.npz",
    "labels.npz": "label fit votes.csv --group box --max-iter 3 --save labels.npz",
}


def write_good(folder: Path) -> None:
    """The good files and the models, into an empty folder which is the working folder."""
    for name, text in GOOD.items():
        (folder / name).write_text(text)
    for name, command in MODELS.items():
        done = CliRunner().invoke(app, [*command.split(), "--quiet"])
        assert done.exit_code == 0, (name, done.stderr)
    (folder / "links.out").unlink()


@dataclass(frozen=True)
class Damage:
    """What is done to a good file.

    Attributes
    ----------
    apply : callable
        From its bytes to those of the hostile file, or to None where there is no such file.
    outcome : str
        "error", "fine" or "either" for files whose contents are text.
    rename : str
        What is put in place of the name; ``{}`` is the name.
    """

    apply: object
    outcome: str
    rename: str = "bad-{}"


def _truncated(data):
    return gzip.compress(data)[: len(gzip.compress(data)) // 2]


def _lines(data, change):
    return b"".join(change(data.splitlines(keepends=True)))


DAMAGES = {
    "missing": Damage(lambda data: None, "error"),
    "folder": Damage(lambda data: Path, "error"),
    "empty": Damage(lambda data: b"", "error"),
    "blank lines": Damage(lambda data: b"\n" * 3, "error"),
    "spaces": Damage(lambda data: b"  \n \t \n", "error"),
    "gz that is none": Damage(lambda data: data, "error", "bad-{}.gz"),
    "truncated gz": Damage(_truncated, "error", "bad-{}.gz"),
    "gz with a tail": Damage(lambda data: gzip.compress(data) + b"tail", "error", "bad-{}.gz"),
    "gz": Damage(gzip.compress, "fine", "bad-{}.gz"),
    "byte order mark": Damage(lambda data: b"\xef\xbb\xbf" + data, "either"),
    "carriage returns": Damage(lambda data: data.replace(b"\n", b"\r\n"), "fine"),
    "NUL": Damage(lambda data: data[: len(data) // 2] + b"\0" + data[len(data) // 2 :], "either"),
    "not UTF-8": Damage(lambda data: data[: len(data) // 2] + b"\xff\xfe" + data[len(data) // 2 :], "error"),
    "UTF-16": Damage(lambda data: data.decode().encode("utf-16"), "error"),
    "noise": Damage(lambda data: bytes(range(256)) * 8, "error"),
    "long line": Damage(lambda data: data.splitlines()[0] + b" x" * 3000 + b"\n" + data, "either"),
    "long word": Damage(lambda data: b"x" * 200_000 + b"\n" + data, "either"),
    "null": Damage(lambda data: b"null\n" * 6, "either"),
    "arrays": Damage(lambda data: b"[1, 2]\n" * 6, "either"),
    "numbers": Damage(lambda data: b"3\n" * 6, "either"),
    "a line less": Damage(lambda data: _lines(data, lambda lines: lines[:-1]), "either"),
    "a line twice": Damage(lambda data: _lines(data, lambda lines: [*lines, lines[-1]]), "either"),
    "first line only": Damage(lambda data: _lines(data, lambda lines: lines[:1]), "either"),
    "a column more": Damage(lambda data: data.replace(b"\t", b"\tx\t", 1), "either"),
    "cut": Damage(lambda data: data[: len(data) * 2 // 3], "either"),
    "huge numbers": Damage(lambda data: data.replace(b"1", b"9" * 400), "either"),
    "negative numbers": Damage(lambda data: data.replace(b"1", b"-1"), "either"),
    "nan": Damage(lambda data: data.replace(b"1", b"nan"), "either"),
    "control characters": Damage(lambda data: data.replace(b"o", b"\x1b[31m\x07"), "either"),
    "a name with control characters": Damage(lambda data: b"\xff", "error", "bad\x1b[31m\n{}"),
    "a name that is not UTF-8": Damage(lambda data: b"\xff", "error", "bad\udcff{}"),
}

# What the same damage means elsewhere than in plain text. First the command (or *), then the file (or *).
OTHERWISE = {
    ("*", "c.yaml", "gz"): "either",
    ("*", "clusters.yaml", "gz"): "either",
    ("*", "states.yaml", "gz"): "either",
    ("*", "labels.yaml", "gz"): "either",
    ("label fit json", "weak.json", "gz"): "fine",
    ("evaluate", "*", "blank lines"): "either",
    ("symmetrize", "*", "blank lines"): "either",
    ("parse transfer", "tree-links.txt", "blank lines"): "either",
    ("align", "words.tsv", "blank lines"): "either",
    ("align", "words.tsv", "spaces"): "either",
    ("align priors", "priors.tsv", "blank lines"): "either",
    ("tag predict", "text.txt", "blank lines"): "either",
    ("tag predict", "text.txt", "spaces"): "either",
    ("extract predict", "rel.corp", "blank lines"): "either",
    ("extract predict", "rel.corp", "spaces"): "either",
    ("*", "links.txt", "a line less"): "error",
    ("*", "gold.txt", "a line less"): "error",
    ("*", "links.txt", "a line twice"): "error",
    ("*", "gold.txt", "a line twice"): "error",
    ("*", "tree-links.txt", "a line less"): "error",
    ("*", "tree-links.txt", "a line twice"): "error",
    ("*", "fr.txt", "a line less"): "error",
    ("*", "en.txt", "a line twice"): "error",
    ("*", "pairs.jsonl", "null"): "error",
    ("*", "pairs.jsonl", "arrays"): "error",
    ("*", "pairs.jsonl", "numbers"): "error",
    ("*", "trees.conllu", "a column more"): "error",
    ("*", "trees2.conllu", "a column more"): "error",
    ("*", "trees.conllu", "null"): "error",
    ("*", "trees2.conllu", "null"): "error",
    ("*", "rel.corp", "null"): "error",
    ("*", "scores.csv", "nan"): "error",
    ("*", "scores.csv", "first line only"): "error",
    ("*", "data.csv", "first line only"): "error",
}


OF_ANY_FILE = (
    "missing",
    "folder",
    "empty",
    "blank lines",
    "noise",
    "null",
    "cut",
    "a name with control characters",
    "a name that is not UTF-8",
)


def outcome_of(command: str, name: str, damage: str) -> str:
    """Whether a command must refuse a damaged file; a model that is damaged in any way but its name must be refused."""
    for key in ((command, name, damage), ("*", name, damage), (command, "*", damage)):
        if key in OTHERWISE:
            return OTHERWISE[key]
    if name.endswith(".npz"):
        return "error" if damage in OF_ANY_FILE else "either"  # an archive may have a head and a tail
    return DAMAGES[damage].outcome


def damaged_models(folder: Path, name: str, rng: np.random.Generator, n: int):
    """Bytes of a model that is changed byte by byte, or cut."""
    data = (folder / name).read_bytes()
    for _ in range(n):
        at = int(rng.integers(len(data)))
        if rng.random() < 0.3:
            yield f"{name} cut at {at}", data[:at]
        else:
            value = int(rng.integers(256))
            yield f"{name} with byte {at} = {value}", data[:at] + bytes([value]) + data[at + 1 :]
