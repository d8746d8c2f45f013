"""The English-French Hansards with the gold links of the 2003 shared task ([OchNey2000], [MihalceaPedersen2003])."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reproductions.places import find_folder
from spectrem.data import Bitext, Links, read_bitext, read_links
from spectrem.exceptions import InvalidInputError

FOLDER = "align/hansards-enfr"
_TRAIN = ("train.en.gz", "train.fr.gz")
_HELD_OUT = ("dev", "test")
FILES = (*_TRAIN, *(f"{part}.{ending}" for part in _HELD_OUT for ending in ("en", "fr", "align")))


@dataclass(frozen=True)
class Hansards:
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


def read_hansards(data: Path | None, n_pairs: int) -> Hansards:
    """Read the first ``n_pairs`` training pairs, dev and test.

    Parameters
    ----------
    data : path, optional
        See `find_folder`: the folder of the files, or one that holds it as ``align/hansards-enfr``.
    n_pairs : int

    Raises
    ------
    InvalidInputError
        If a file is missing or malformed, or the corpus has fewer pairs.
    """
    folder = find_folder(data, FILES, FOLDER)
    training = read_bitext(*(folder / name for name in _TRAIN), limit=n_pairs)
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
    return Hansards(training, n_pairs, dev, gold[0], test, gold[1])
