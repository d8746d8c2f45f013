"""Sentences without their punctuation, and trees over these as trees over all words."""

from __future__ import annotations

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem.data import ROOT, UNKNOWN_HEAD, ParsedSentence

_PUNCTUATION = "PUNCT"


def without_punctuation(sentence: ParsedSentence) -> tuple[ParsedSentence, Ints]:
    """A sentence of the words that are not tagged PUNCT, and their positions; heads skip what is left out.

    Examples
    --------
    >>> shout = ParsedSentence(("go", "!"), ("VERB", "PUNCT"), ("_", "_"), np.array([1, ROOT]))
    >>> without_punctuation(shout)[0][:2], without_punctuation(shout)[0].heads
    ((('go',), ('VERB',)), array([-1]))
    """
    kept = np.flatnonzero([tag != _PUNCTUATION for tag in sentence.upos])
    heads = None
    if sentence.heads is not None:
        place = np.full(len(sentence.forms), -3)  # of a word that is left out
        place[kept] = np.arange(len(kept))
        heads = np.array([_lifted(word, sentence.heads, place) for word in kept.tolist()], np.int64)
    forms, upos, xpos = (tuple(own[k] for k in kept) for own in (sentence.forms, sentence.upos, sentence.xpos))
    relations = None if sentence.relations is None else tuple(sentence.relations[k] for k in kept)
    return ParsedSentence(forms, upos, xpos, heads, relations), kept


def with_punctuation(heads: Ints, kept: Ints, n: int) -> Ints:
    """Heads of all n words from those of the words ``kept``; all others hang on the first word under the root.

    Examples
    --------
    >>> with_punctuation(np.array([1, ROOT]), np.array([0, 2]), 4)
    array([ 2,  2, -1,  2])
    >>> with_punctuation(np.zeros(0, np.int64), np.zeros(0, np.int64), 2)
    array([-1,  0])
    """
    if not len(kept):
        whole = np.zeros(n, np.int64)
        whole[:1] = ROOT
        return whole
    roots = kept[heads == ROOT]
    whole = np.full(n, roots[0] if len(roots) else UNKNOWN_HEAD)
    whole[kept] = np.where(heads >= 0, kept[np.maximum(heads, 0)], heads)
    return whole


def table_with_punctuation(table: Floats, kept: Ints, whole: Ints) -> Floats:
    """Probabilities of arcs between all words from those between the words ``kept``; other words are sure of theirs."""
    n = len(whole)
    found = np.zeros((n, n))
    known = np.flatnonzero(whole > UNKNOWN_HEAD)
    found[known, np.where(whole == ROOT, np.arange(n), whole)[known]] = 1.0
    found[kept] = 0.0
    found[np.ix_(kept, kept)] = table
    return found


def _lifted(word: int, heads: Ints, place: Ints) -> int:
    head = int(heads[word])
    while head >= 0 and place[head] == -3:
        head = int(heads[head])
    return int(place[head]) if head >= 0 else ROOT if head == ROOT else UNKNOWN_HEAD
