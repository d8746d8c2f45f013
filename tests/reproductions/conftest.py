"""Small corpora in the layout of the public ones, generated."""

import gzip
from pathlib import Path

import pytest

from reproductions.__main__ import EXPERIMENTS, main
from reproductions.report import bullets
from spectrem.data import Links, write_pharaoh, write_tag_dictionary, write_tagged
from spectrem.datasets import make_bitext, make_tagged_corpus

N_TRAIN, N_DEV, N_TEST = 600, 40, 60


@pytest.fixture
def reproduce(tmp_path, capsys):
    """Run an experiment quickly by the command line: what it prints, and the rows of its numbers by column."""

    def run(name, data, *options):
        given = [] if data is None else ["--data", str(data), "--threads", "1"]
        main([name, "--quick", "--output", str(tmp_path / "new" / "folder"), *given, *options])
        printed = capsys.readouterr().out
        figure, numbers, text = (tmp_path / "new" / "folder" / f"{name}.{ending}" for ending in ("png", "tsv", "txt"))
        assert figure.read_bytes().startswith(b"\x89PNG")
        assert text.read_text().strip() in printed
        notes = bullets(EXPERIMENTS[name].__doc__)
        assert notes
        assert all(f"\n- {note}\n" in printed for note in notes)
        columns, *rows = (line.split("\t") for line in numbers.read_text().splitlines())
        return printed, [dict(zip(columns, row, strict=True)) for row in rows]

    return run


@pytest.fixture(scope="session")
def hansards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "align" / "hansards-enfr"
    folder.mkdir(parents=True)
    bitext = make_bitext(N_TRAIN + N_DEV + N_TEST, seed=5)
    for language, lines in (("en", bitext.source), ("fr", bitext.target)):
        (folder / f"train.{language}.gz").write_bytes(gzip.compress(_text(lines[:N_TRAIN])))
        (folder / f"dev.{language}").write_bytes(_text(lines[N_TRAIN : N_TRAIN + N_DEV]))
        (folder / f"test.{language}").write_bytes(_text(lines[N_TRAIN + N_DEV :]))
    pairs = [bitext.links.pairs(n) for n in range(N_TRAIN, bitext.links.n_sentences)]
    write_pharaoh(folder / "dev.align", Links.from_pairs(pairs[:N_DEV]))
    write_pharaoh(folder / "test.align", Links.from_pairs(pairs[N_DEV:]))
    return folder


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


PENN = {
    "ADJ": "JJ", "ADP": "IN", "ADV": "RB", "AUX": "MD", "CCONJ": "CC", "DET": "DT", "NOUN": "NN", "PART": "TO",
    "PRON": "PRP", "PROPN": "NNP", "PUNCT": ".", "VERB": "VB",
}  # fmt: skip


@pytest.fixture(scope="session")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated text in the layout of the tagged corpora: 400 "English" sentences, 300 "Portuguese" ones."""
    root = tmp_path_factory.mktemp("tagged")
    (root / "tag").mkdir()
    (root / "ud").mkdir()
    corpus = make_tagged_corpus(400, seed=3)
    write_tagged(root / "tag" / "wsj_sample.pos.gz", corpus.words, [[PENN[t] for t in s] for s in corpus.tags])
    allowed = {word: tuple(PENN[tag] for tag in tags) for word, tags in corpus.dictionary.items()}
    write_tag_dictionary(root / "tag" / "tagdict_sample_conll2000_ewt3.tsv.gz", allowed)
    corpus = make_tagged_corpus(300, seed=4)
    for k, part in enumerate(("train", "dev", "test")):
        own = slice(100 * k, 100 * (k + 1))
        write_tagged(root / "ud" / f"pt_bosque-ud-{part}.tsv.gz", corpus.words[own], corpus.tags[own], "columns")
    return root
