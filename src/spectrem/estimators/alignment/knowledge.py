"""What is known of words before an aligner reads text: a dictionary, and which tokens are copied."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from spectrem.data import Vocabulary
from spectrem.estimators.alignment.parameters import fused_rules
from spectrem.exceptions import quoted, warn
from spectrem.models.alignment import GivenCounts, ListedPairs, PairTable

_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://|www\.).+|[^@\s]+@[^@\s]+\.[^@\s]+")


def kind_of(token: str) -> str:
    """Which kind a token is of: "urls", "numbers", "punctuation" or "words".

    Addresses of pages and mail are URLs. A number has digits and no letters, such as 1,000 or 50%; punctuation, which
    here includes symbols, has neither.

    Examples
    --------
    >>> [kind_of(token) for token in ("www.example.org", "me@example.org", "12:30", "$5", "...", "B2", "x")]
    ['urls', 'urls', 'numbers', 'numbers', 'punctuation', 'words', 'words']
    """
    if _URL.fullmatch(token):
        return "urls"
    categories = {unicodedata.category(character)[0] for character in token}
    if categories <= {"P", "S"}:
        return "punctuation"
    return "numbers" if "N" in categories and not categories & {"L", "M"} else "words"


def given_counts(aligner: Any, table: PairTable, source: Vocabulary, target: Vocabulary) -> GivenCounts:
    """Pseudo-counts of word pairs that the ``dictionary`` of a `WordAligner` lists or that are the ``same`` token.

    Warns
    -----
    UserWarning
        If the dictionary has entries of several words, which no token of a text is.
    """
    _warn_of_phrases(aligner.dictionary or {})
    listed = [*_listed(aligner, source, target), *_same(aligner, source, target)]
    numbers = np.array([pair[:2] for pair in listed], np.int64).reshape(-1, 2)
    return GivenCounts.of(table, numbers[:, 0], numbers[:, 1], np.array([pair[2] for pair in listed]))


def listed_pairs(aligner: Any, source: Vocabulary, target: Vocabulary) -> ListedPairs | None:
    """The pairs of the ``dictionary`` of a `WordAligner` for its constraints; None where none of them can refer to it.

    The compiled constraints, which have names, do not.
    """
    if aligner.dictionary is None or fused_rules(aligner) is not None:
        return None
    numbers = np.array([pair[:2] for pair in _listed(aligner, source, target)], np.int64).reshape(-1, 2)
    return ListedPairs.of(numbers[:, 0], numbers[:, 1], len(target))


def _warn_of_phrases(dictionary: Mapping[str, Mapping[str, float]]) -> None:
    """Warn of entries with several words on a side."""
    phrases = [
        (source, target) for source, entry in dictionary.items() for target in entry if " " in source or " " in target
    ]
    if phrases:
        n_pairs = sum(map(len, dictionary.values()))
        warn(
            f"{len(phrases)} of the {n_pairs} pairs of the dictionary have several words on a side and no effect, the "
            f"first {quoted(phrases[0][0])} and {quoted(phrases[0][1])}; pair their words one by one",
        )


def _listed(aligner: Any, source: Vocabulary, target: Vocabulary) -> Iterator[tuple[int, int, float]]:
    """The pairs of the dictionary whose words both occur, by their numbers, and their pseudo-counts."""
    dictionary, strength = aligner.dictionary or {}, aligner.dictionary_strength
    words = list(dictionary)
    for word, s in zip(words, source.lookup(words).tolist(), strict=True):
        if s >= 0:
            entry = dictionary[word]
            for weight, t in zip(entry.values(), target.lookup(entry).tolist(), strict=True):
                if t >= 0:
                    yield s, t, strength * weight


def _same(aligner: Any, source: Vocabulary, target: Vocabulary) -> Iterator[tuple[int, int, float]]:
    if not aligner.same:
        return
    for s, t in enumerate(target.lookup(source.words).tolist()):
        if t >= 0 and kind_of(source.words[s]) in aligner.same:
            yield s, t, aligner.same_strength
