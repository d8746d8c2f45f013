"""Reviews of four kinds of goods, with counts of their words and pairs of words [Blitzer2007]."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reproductions.places import find_folder
from spectrem.exceptions import InvalidInputError

DOMAINS = ("books", "dvd", "electronics", "kitchen")


@dataclass(frozen=True, eq=False)
class Reviews:
    """The reviews of one domain, those that occur twice once.

    Attributes
    ----------
    counts : csr_array of shape (n_reviews, n_features)
        The features are those of all domains that were read together.
    features : list of str
        Words, and pairs of words with _ between.
    positive : ndarray of shape (n_reviews,), bool
    n_dropped : int
        Reviews that were left out since one before has the same counts.
    """

    counts: sp.csr_array
    features: list[str]
    positive: NDArray[np.bool_]
    n_dropped: int


def read_reviews(data: str | os.PathLike[str] | None, domains: Sequence[str]) -> dict[str, Reviews]:
    """The reviews of some domains, by name.

    Raises
    ------
    InvalidInputError
        If a domain is not among `DOMAINS`, a file is not there, or a line is not ``feature:count ... #label#:name``.
    """
    unknown = [name for name in domains if name not in DOMAINS]
    if unknown:
        raise InvalidInputError(f"domains must be among {', '.join(DOMAINS)}, got {unknown[0]!r}; correct it")
    files = [f"{name}/{label}.review.gz" for name in domains for label in ("positive", "negative")]
    folder = find_folder(data, files, "sentiment")
    numbers: dict[str, int] = {}
    rows = {name: _read_domain(folder / name, numbers) for name in domains}
    return {name: _as_matrix(*own, list(numbers)) for name, own in rows.items()}


def _read_domain(folder: Path, numbers: dict[str, int]) -> tuple[list[dict[int, int]], list[bool], int]:
    found: dict[frozenset[tuple[int, int]], bool] = {}
    n_read = 0
    for label in ("positive", "negative"):
        path = folder / f"{label}.review.gz"
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            for line in file:
                counts: dict[int, int] = {}
                for entry in line.split():
                    feature, colon, count = entry.rpartition(":")
                    if feature == "#label#":
                        continue
                    if not colon or not count.isdecimal():
                        raise InvalidInputError(
                            f"{path}: entries must be feature:count, got {entry!r}; give the processed reviews"
                        )
                    number = numbers.setdefault(feature, len(numbers))
                    counts[number] = counts.get(number, 0) + int(count)
                n_read += 1
                found.setdefault(frozenset(counts.items()), label == "positive")
    return [dict(sorted(own)) for own in found], list(found.values()), n_read - len(found)


def _as_matrix(rows: list[dict[int, int]], positive: list[bool], n_dropped: int, features: list[str]) -> Reviews:
    indptr = np.concatenate([[0], np.cumsum([len(own) for own in rows])])
    indices = np.fromiter((number for own in rows for number in own), np.int64)
    values = np.fromiter((count for own in rows for count in own.values()), np.float64)
    matrix = sp.csr_array((values, indices, indptr), shape=(len(rows), len(features)))
    return Reviews(matrix, features, np.array(positive), n_dropped)
