"""Treebanks of the shared folder: Universal Dependencies, and trees of a sample of the Wall Street Journal."""

from __future__ import annotations

import gzip
import os
from typing import NamedTuple

import numpy as np

from reproductions.places import find_folder
from spectrem.data import ParsedSentence


class BracketedSentence(NamedTuple):
    """A sentence with dependency heads and constituents.

    Attributes
    ----------
    parsed : ParsedSentence
        Its Penn tags stand in ``xpos``.
    spans : tuple of (int, int)
        Gold constituents of at least two words, half-open.
    """

    parsed: ParsedSentence
    spans: tuple[tuple[int, int], ...]


def read_ud(data: str | os.PathLike[str] | None, name: str, part: str) -> list[ParsedSentence]:
    """A part of a treebank, as ``read_ud(None, "en_ewt", "dev")``; ``data`` is the folder that holds ``ud``."""
    file = f"ud/{name}-ud-{part}.tsv.gz"
    with gzip.open(find_folder(data, [file]) / file, "rt", encoding="utf-8", newline="\n") as stream:
        blocks = stream.read().strip("\n").split("\n\n")
    return [_sentence_of(block) for block in blocks]


def read_wsj(data: str | os.PathLike[str] | None, longest: int) -> list[BracketedSentence]:
    """Sentences of at most 10, 20 or 40 words without punctuation; ``data`` is the folder that holds ``parse``."""
    file = f"parse/wsj{longest}.tsv.gz"
    with gzip.open(find_folder(data, [file]) / file, "rt", encoding="utf-8", newline="\n") as stream:
        rows = [line.rstrip("\n").split("\t") for line in stream if not line.startswith("#")]
    return [_bracketed(words, tags, heads, spans) for _, words, tags, heads, spans in rows]


def _sentence_of(block: str) -> ParsedSentence:
    forms, upos, xpos, heads, relations = zip(*(line.split("\t") for line in block.split("\n")), strict=True)
    return ParsedSentence(forms, upos, xpos, np.array(heads, np.int64) - 1, relations)


def _bracketed(words: str, tags: str, heads: str, spans: str) -> BracketedSentence:
    forms, xpos = tuple(words.split(" ")), tuple(tags.split(" "))
    numbers = np.array(heads.split(" "), np.int64) - 1
    pairs = (span.split("-") for span in spans.split(" ") if span)
    sentence = ParsedSentence(forms, ("_",) * len(forms), xpos, numbers)
    return BracketedSentence(sentence, tuple((int(start), int(stop)) for start, stop in pairs))
