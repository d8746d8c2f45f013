"""A small corpus in the layout of the Hansards folder, generated."""

import gzip
from pathlib import Path

import pytest

from spectrem.data import Links, write_pharaoh
from spectrem.datasets import make_bitext

N_TRAIN, N_DEV, N_TEST = 600, 40, 60


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
