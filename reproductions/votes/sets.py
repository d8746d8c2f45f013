"""Public votes: crowds as tables of items and workers; in the JSON of the WRENCH benchmark rules on texts, and
dictionaries and patterns on sentences."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reproductions.places import find_folder
from spectrem.data import WeakSentences, read_weak_items, read_weak_sentences

PARTS = ("train", "valid", "test")


class Items(NamedTuple):
    """Items with their votes.

    Attributes
    ----------
    votes : ndarray of shape (n_items, n_sources), int16
        Numbers of classes, -1 for silence.
    y : ndarray of shape (n_items,), int64
        The class that is right, -1 where nobody knows it.
    texts : list of str
        Empty for crowds.
    """

    votes: NDArray[np.int16]
    y: NDArray[np.int64]
    texts: list[str]


class VoteSet(NamedTuple):
    """Votes by part: "train" to learn from, "valid" and "test"; of crowds "all", to learn from and to judge."""

    name: str
    n_classes: int
    parts: Mapping[str, Items]

    @property
    def fitted(self) -> Items:
        """The items whose votes are learnt from."""
        return next(iter(self.parts.values()))

    @property
    def votes(self) -> NDArray[np.int16]:
        """The votes of all parts, one after the other."""
        return np.concatenate([items.votes for items in self.parts.values()])


class SentenceSet(NamedTuple):
    """Sentences with votes on their words and with the tags that are right, by part as of rules."""

    name: str
    parts: Mapping[str, WeakSentences]

    @property
    def fitted(self) -> WeakSentences:
        """The sentences whose votes are learnt from."""
        return self.parts["train"]

    @property
    def tags(self) -> tuple[str, ...]:
        """O, then B and I of every type that is voted for, sorted by type."""
        votes = {tag for part in self.parts.values() for table in part.votes for tag in table.flat if tag}
        types = sorted({tag[2:] for tag in votes - {"O"}})
        return ("O", *(f"{letter}-{one}" for one in types for letter in "BI"))


def read_crowd(data: str | os.PathLike[str] | None, name: str) -> VoteSet:
    """A crowd, by its folder in ``weak``."""
    folder = find_folder(data, (f"{name}/label.csv.gz", f"{name}/truth.csv.gz"), "weak") / name
    cells, truth = (_csv(folder / f"{file}.csv.gz") for file in ("label", "truth"))
    items, item = np.unique(cells[:, 0], return_inverse=True)
    _, worker = np.unique(cells[:, 1], return_inverse=True)
    labels, label = np.unique(cells[:, 2], return_inverse=True)
    votes = np.full((len(items), worker.max() + 1), -1, np.int16)
    votes[item, worker] = label
    right = dict(truth.tolist())
    number = {value: k for k, value in enumerate(labels.tolist())}
    y = np.array([number.get(right.get(one), -1) for one in items.tolist()])
    return VoteSet(name, len(labels), {"all": Items(votes, y, [])})


def read_rules(data: str | os.PathLike[str] | None, name: str) -> VoteSet:
    """Texts with the votes of labelling functions, by their folder in ``weak``."""
    files = [f"{name}/{part}.json.gz" for part in PARTS]
    names = f"{name}/label.json.gz"
    folder = find_folder(data, [*files, names], "weak")
    classes = json.loads(gzip.decompress((folder / names).read_bytes()))
    number, parts = {None: -1} | {label: int(k) for k, label in classes.items()}, {}
    for part, file in zip(PARTS, files, strict=True):
        read = read_weak_items(folder / file)
        votes, y = (np.vectorize(number.__getitem__)(np.array(cells, object)) for cells in (read.votes, read.labels))
        parts[part] = Items(votes.astype(np.int16), y, [text or "" for text in read.texts])
    return VoteSet(name, len(classes), parts)


def read_sentences(data: str | os.PathLike[str] | None, name: str) -> SentenceSet:
    """Sentences with the votes of dictionaries and patterns, by their folder in ``weak``."""
    files = [f"{name}/{part}.json.gz" for part in PARTS]
    folder = find_folder(data, files, "weak")
    return SentenceSet(
        name, {part: read_weak_sentences(folder / file) for part, file in zip(PARTS, files, strict=True)}
    )


def _csv(path: Path) -> NDArray[Any]:
    return pl.read_csv(gzip.decompress(path.read_bytes()), infer_schema_length=0).to_numpy()
