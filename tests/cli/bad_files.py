"""The files that the rows of ``bad_inputs.tsv`` name: a few good ones, and damage of every kind."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np

from spectrem import HMMTagger, WordAligner

ENGLISH = ["the house", "the book", "a house", "a book", "the red house", "a red book"]
FRENCH = ["la maison", "le livre", "une maison", "un livre", "la maison rouge", "un livre rouge"]
POINTS = [(0.0, 0.1), (0.2, 0.0), (0.1, 0.3), (5.0, 5.1), (5.2, 5.0), (5.1, 5.3)]

TEXTS = {
    "rel.corp": (
        "0\tPeop\t0\tO\tNNP\tRay\tO\tO\tO\n0\tO\t1\tO\tVBD\tshot\tO\tO\tO\n"
        "0\tPeop\t2\tO\tNNP\tKing\tO\tO\tO\n\n0\t2\tKill\n\n"
    ),
    "rel-blank.corp": "\n",
    "rel-other.corp": (
        "0\tPeop\t0\tO\tNNP\tTim\tO\tO\tO\n0\tO\t1\tO\tVBD\tshot\tO\tO\tO\n"
        "0\tPeop\t2\tO\tNNP\tKing\tO\tO\tO\n\n0\t2\tKill\n\n"
    ),
    # bitexts
    "en.txt": "\n".join(ENGLISH) + "\n",
    "fr.txt": "\n".join(FRENCH) + "\n",
    "both.txt": "".join(f"{s} ||| {t}\n" for s, t in zip(ENGLISH, FRENCH, strict=True)),
    "short.txt": "\n".join(FRENCH[:-1]) + "\n",
    "no-separator.txt": "a ||| b\n\nc d\n",
    "two-separators.txt": "a ||| b\nc ||| d ||| e\n",
    "damaged.tmx": "<tmx><body>\n<tu><tuv xml:lang='en'><seg>a</tuv></tu></body></tmx>\n",
    "three.tmx": "<tmx><body><tu>"
    + "".join(f"<tuv xml:lang='{code}'><seg>a</seg></tuv>" for code in ("en", "fr", "de"))
    + "</tu></body></tmx>\n",
    "page.tmx": "<html/>\n",
    "pairs.jsonl": '{"en": "a", "fr": "b"}\n',
    "number.jsonl": '{"source": "a", "target": "b"}\n{"source": "a", "target": 3}\n',
    "damaged.jsonl": '{"source": "a", "target": "b"}\n{"source": "a"\n',
    "bitext.csv": "en,fr\na,b\n",
    "with-blank.txt": "the house\n\n",
    "blank.txt": "\n\n\n",
    "empty.txt": "",
    # links
    "gold.txt": "0-0 1-1\n" * 4 + "0-0 1-2 2-1\n" * 2,
    "links.txt": "0-0 1-1\n" * 6,
    "few-links.txt": "0-0\n",
    "outside.links": "0-0 1-7\n" + "0-0\n" * 5,
    "null.json": '{"links": [[0, 0, null]]}\n',
    "null.jsonl": '{"source": "a", "target": "b"}\n{"source": null, "target": null}\n',
    "words.links": "0-0 1-1\n0-0 one-1\n",
    "negative.links": "0-0\n-1-0\n",
    "huge.links": "0-0\n0-99999999999999999999\n",
    "naacl.links": "1 1 1 S\n2 1 0 S\n",
    # tagged text
    "text.txt": "the dog sleeps\nthe cat sleeps\n",
    "tags.tsv": "the\tDT\ndog\tNN\ncat\tNN JJ\nsleeps\tVB\n",
    "no-tags.tsv": "the\tDT\ndog\t\n",
    "one-column.tsv": "the\ndog\n",
    "tagged.txt": "the/DT dog/NN sleeps/VB\nthe/DT cat/NN sleeps/VB\n",
    "half-tagged.txt": "the/DT dog/NN\nthe/DT cat\n",
    "other-tags.txt": "the/XX dog/NN\n",
    "bio.txt": "Ray/B-P ran/O\nRay/O King/I-P\n",
    "return.txt": "the dog sleeps\nthe cat\rsleeps\n",
    "other-words.txt": "the/DT dog/NN barks/VB\nthe/DT cat/NN sleeps/VB\n",
    "fewer.txt": "the/DT dog/NN sleeps/VB\n",
    "short.conllu": "1\tthe\tthe\tDET\n",
    # trees
    "trees.conllu": "1\tdogs\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n",
    "cycle.conllu": "1\tdogs\t_\tNOUN\t_\t_\t2\t_\t_\t_\n2\tbark\t_\tVERB\t_\t_\t1\t_\t_\t_\n\n",
    "far-head.conllu": "1\tdogs\t_\tNOUN\t_\t_\t7\t_\t_\t_\n\n",
    "headless.conllu": "1\tcats\t_\tNOUN\t_\t_\t_\t_\t_\t_\n2\tbark\t_\tVERB\t_\t_\t_\t_\t_\t_\n\n",
    # tables and constraints
    "s.csv": "id,document,ham,spam\n7,a,0.9,0.1\n8,a,0.4,0.6\n9,b,0.5,0.5\n",
    "logs.csv": "id,ham,spam\n7,-0.1,-2\n8,-1,-0.5\n",
    "long.csv": "id,label,p\n7,ham,0.9\n7,spam,0.1\n8,ham,0.5\n8,spam,0.5\n",
    "long-twice.csv": "id,label,p\n7,ham,0.9\n7,ham,0.1\n",
    "negative.csv": "ham,spam\n1.2,-0.2\n0.5,0.5\n",
    "cell.csv": "ham,spam\n0.9,0.1\n0.5,O.5\n",
    "ragged.csv": "ham,spam\n0.9,0.1\n0.5\n",
    "twice.csv": "ham,ham\n0.5,0.5\n",
    "header.csv": "ham,spam\n",
    "sums.csv": "ham,spam\n0.9,0.1\n9,1\n",
    "huge.csv": "ham,spam\n0.9,0.1\n" + "9" * 400 + ",0.5\n",
    "weights.csv": "ham,spam,w\n0.9,0.1,1\n0.5,0.5,-1\n",
    "nan.csv": "ham,spam\n0.9,0.1\nnan,0.5\n",
    "quote.csv": 'ham,spam\n"0.9,0.1\n',
    "c.yaml": "- E[label == 'spam'] == 2\n",
    "row.yaml": "- (E[label == 'spam'] <= 1).per('row')\n",
    "row-impossible.yaml": "- (E[label == 'spam'] >= 2).per('row')\n",
    "impossible.yaml": "- E[label == 'spam'] >= 4\n",
    "clash.yaml": "- E[label == 'spam'] >= 2\n- E[label == 'ham'] >= 2\n",
    "not.yaml": "- 'E[label == 1] <= 2\n",
    "map.yaml": "few: {label: spam}\n",
    "unknown.yaml": "- at_mots(1, 'spam', per='document')\n",
    "column.yaml": "- E[labell == 'spam'] <= 1\n",
    "value.yaml": "- E[label == 'spma'] <= 1\n",
    "bound.yaml": "- E[label == 'spam'] <= 'many'\n",
    "no-bound.yaml": "- E[label == 'spam']\n",
    "per.yaml": "- (E[label == 'spam'] <= 1).per('documnet')\n",
    "order.yaml": "- E[label == 'spam'].between(3, 1)\n",
    "slack.yaml": "- (E[label == 'spam'] <= 1).slack(penalty=-1)\n",
    "norm.yaml": "- (E[label == 'spam'] <= 1).slack(penalty=1, norm='l3')\n",
    "links.yaml": "- must_link([[0, 99]])\n",
    "share.yaml": "- E[label == 'spam'] <= '130%'\n",
    "number.yaml": "- E[label == 'spam'] <= " + "9" * 5000 + "\n",
    "infinite.yaml": "- E[label == 'spam'] <= 1e999\n",
    "old.yaml": "- {expect: {label: spam}, at_most: 1}\n",
    "sequences.yaml": "- " * 50_000 + "1\n",
    "brackets.yaml": "[" * 100_000,
    "braces.yaml": "{a: " * 100_000,
    "brackets.json": "[" * 100_000,
    "python.yaml": "- !!python/object/apply:os.system ['true']\n",
    "aliases.yaml": "a: &a [1,1,1,1,1,1,1,1]\n"
    + "".join(f"{b}: &{b} [{','.join(['*' + a] * 8)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)),
    "not.json": '["E[label == 1] <= 1", ',
    "d.csv": "name,x,y,kind\n" + "".join(f"r{k},{x},{y},k\n" for k, (x, y) in enumerate(POINTS)),
    "d-cell.csv": "x,y\n1,2\n3,four\n5,6\n",
    "d-constant.csv": "x,y\n1,2\n1,2\n1,2\n",
    "d-text.csv": "name,kind\na,b\nc,d\n",
    "d-infinite.csv": "x,y\n1,2\ninf,3\n",
    "d-twice.csv": "name,x\na,1\na,2\nb,3\n",
    "d-known.csv": "x,y,c\n0,0,0\n1,1,7\n5,5,1\n",
    "pairs.csv": "a,b\nr0,r1\n",
    "pairs-unknown.csv": "a,b\nr0,nobody\n",
    "pairs-three.csv": "a,b,c\nr0,r1,r2\n",
    "pairs-self.csv": "a,b\nr0,r0\n",
    "pairs-number.csv": "a,b\n0,99\n",
}
BYTES = {
    "latin1.txt": "caf\xe9 noir\nth\xe9\n".encode("latin-1"),
    "utf16.txt": "the house\n".encode("utf-16"),
    "utf16.csv": "ham,spam\n0.9,0.1\n".encode("utf-16"),
    "picture.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(64),
    "damaged.gz": b"\x1f\x8bnonsense",
    "plain.txt.gz": b"the house\n",
    "plain.csv.gz": b"ham,spam\n0.9,0.1\n",
    "plain.tmx.gz": b"<tmx/>\n",
    "plain.jsonl.gz": b'{"source": "a", "target": "b"}\n',
    "cut.gz": gzip.compress(b"the house\n" * 1000)[:-12],
    "nul.csv": b"ham,spam\n0.9,0.1\x00\n",
    "s.parquet": b"PAR1 damaged",
    "noise.npz": bytes(range(256)) * 4,
}


def write_files(folder: Path) -> None:
    """Make all files in an empty folder."""
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, data in BYTES.items():
        (folder / name).write_bytes(data)
    (folder / "folder").mkdir()
    (folder / "link.txt").symlink_to("en.txt")
    WordAligner(model1_iterations=1, max_iter=1).fit(ENGLISH, FRENCH).save(folder / "m.npz")
    dictionary = {"the": ["DT"], "dog": ["NN"], "cat": ["NN", "JJ"], "sleeps": ["VB"]}
    sentences = [line.split() for line in TEXTS["text.txt"].splitlines()]
    HMMTagger(dictionary=dictionary, max_iter=1, tol=0).fit(sentences).save(folder / "t.npz")
    _damage_models(folder)


def _damage_models(folder: Path) -> None:
    """Variants of the saved models in which one member is not what it should be."""
    (folder / "m-cut.npz").write_bytes((folder / "m.npz").read_bytes()[:2000])
    np.savez(folder / "foreign.npz", weights=np.zeros(3))
    members = _members(folder / "t.npz")
    for name, member, value in (
        ("t-nan.npz", "transition", np.full((4, 4), np.nan)),
        ("t-shape.npz", "transition", np.zeros((4, 5))),
        ("t-states.npz", "dictionary_states", np.full_like(np.load(folder / "t.npz")["dictionary_states"], 77)),
        ("t-type.npz", "initial", np.array(["a", "b", "c", "d"])),
    ):
        _write_members(folder / name, members | {f"{member}.npy": _npy(value)})
    header = np.lib.format.header_data_from_array_1_0(np.zeros(1)) | {"shape": (10**9,)}
    large = io.BytesIO()
    np.lib.format.write_array_header_1_0(large, header)
    _write_members(folder / "t-huge.npz", members | {"transition.npy": large.getvalue()})
    _write_members(folder / "t-less.npz", {name: data for name, data in members.items() if name != "emission.npy"})


def _members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _write_members(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def _npy(value: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, value)
    return stream.getvalue()
