"""The English-French Hansards with the gold links of the 2003 shared task ([OchNey2000], [MihalceaPedersen2003])."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spectrem.data import Bitext, Links, read_bitext, read_links
from spectrem.exceptions import InvalidInputError

_HANSARDS = Path("align", "hansards-enfr")
_BESIDE = Path("..", "shared", "data")
_TRAIN = ("train.en.gz", "train.fr.gz")
_HELD_OUT = ("dev", "test")


@dataclass(frozen=True)
class HansardsCorpus:
    """What one experiment trains on, tunes on and is scored on; English is the source.

    Attributes
    ----------
    training : Bitext
        The first pairs of the corpus, then dev, then test (their links unseen), as in the papers.
    n_pairs : int
        How many pairs of the corpus come first.
    dev, test : Bitext
    dev_gold, test_gold : Links
        Sure and possible links.
    """

    training: Bitext
    n_pairs: int
    dev: Bitext
    dev_gold: Links
    test: Bitext
    test_gold: Links

    @property
    def differences(self) -> list[str]:
        """How the corpus differs from the one in the papers."""
        return [
            "Corpus: tokenised, lower-cased sentences of at most 40 words of the ISI Hansards; its first pairs, then "
            "dev and test. The papers took other samples of the Hansards.",
            f"Dev has {self.dev.n_pairs} sentence pairs ([Samdani2012] had 50); test has {self.test.n_pairs}.",
        ]


def find_hansards(data: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the Hansards files.

    Parameters
    ----------
    data : path, optional
        The files' folder, or one that holds it as ``align/hansards-enfr``. By default what the environment variable
        SPECTREM_DATA names, else ``../shared/data``.

    Raises
    ------
    InvalidInputError
        If the files are not there; the message lists them.
    """
    named = data or os.environ.get("SPECTREM_DATA")
    root = Path(named or _BESIDE)
    for folder in (root / _HANSARDS, root):
        if (folder / _TRAIN[0]).is_file():
            return folder
    files = ", ".join([*_TRAIN, *(f"{part}.{{en,fr,align}}" for part in _HELD_OUT)])
    looked = f"found none in {root / _HANSARDS} nor in {root}" if named else f"none was given, and {root} has none"
    raise InvalidInputError(
        f"data must be the folder of the Hansards files ({files}): {looked}; pass --data or set SPECTREM_DATA"
    )


def read_hansards(folder: Path, n_pairs: int) -> HansardsCorpus:
    """Read the first ``n_pairs`` training pairs, dev and test.

    Raises
    ------
    InvalidInputError
        If a file is missing or malformed, or the corpus has fewer pairs.
    """
    training = read_bitext(folder / _TRAIN[0], folder / _TRAIN[1], limit=n_pairs)
    if training.n_pairs < n_pairs:
        raise InvalidInputError(
            f"sizes must not exceed the {training.n_pairs:,} pairs in {folder}, got {n_pairs:,}; ask for fewer"
        )
    held_out, gold = [], []
    for part in _HELD_OUT:
        bitext = read_bitext(folder / f"{part}.en", folder / f"{part}.fr")
        training = training.concat(bitext)
        held_out.append(bitext)
        gold.append(read_links(folder / f"{part}.align", bitext.n_pairs))
    ends = n_pairs + np.cumsum([bitext.n_pairs for bitext in held_out])
    dev, test = (
        training.take(np.arange(end - bitext.n_pairs, end)) for end, bitext in zip(ends, held_out, strict=True)
    )
    return HansardsCorpus(training, n_pairs, dev, gold[0], test, gold[1])
