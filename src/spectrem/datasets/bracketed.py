"""Generated sentences of tags with their brackets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spectrem._validate import as_count, as_generator

# Left side -> right sides with their weights; what has no rule is a tag.
_RULES: dict[str, list[tuple[float, tuple[str, ...]]]] = {
    "S": [(0.85, ("NP", "VP")), (0.15, ("RB", "S"))],
    "NP": [(0.35, ("DT", "N")), (0.2, ("PRP",)), (0.15, ("NNP",)), (0.1, ("NNS",)), (0.2, ("NP", "PP"))],
    "N": [(0.7, ("NN",)), (0.2, ("JJ", "N")), (0.1, ("NN", "NN"))],
    "VP": [(0.45, ("V", "NP")), (0.2, ("V",)), (0.2, ("VP", "PP")), (0.1, ("MD", "VP")), (0.05, ("V", "S"))],
    "V": [(0.6, ("VBD",)), (0.4, ("VBZ",))],
    "PP": [(1.0, ("IN", "NP"))],
}


class GeneratedBrackets(NamedTuple):
    """Sentences of tags and, sentence by sentence, their constituents of two words and more, by start and end."""

    sentences: list[list[str]]
    brackets: list[list[tuple[int, int]]]


def make_bracketed_corpus(n_sentences: int, *, max_length: int = 10, seed: int = 0) -> GeneratedBrackets:
    """Draw sentences of tags from a small grammar of English, with their binary trees.

    Parameters
    ----------
    n_sentences : int
    max_length : int
        Words of a sentence at most, at least 2; longer ones are drawn again.
    seed : int
        The same seed gives the same sentences; fewer sentences are the first ones of more.

    Returns
    -------
    GeneratedBrackets
        The whole sentence is among the constituents. A bracket is (start, end), the position behind the last word.

    Raises
    ------
    InvalidInputError
        If ``n_sentences`` is below 0 or ``max_length`` below 2.

    Examples
    --------
    >>> corpus = make_bracketed_corpus(2, seed=3)
    >>> corpus.sentences[0], corpus.brackets[0]
    (['DT', 'JJ', 'NN', 'VBD', 'PRP'], [(0, 3), (0, 5), (1, 3), (3, 5)])
    """
    count, most = as_count(n_sentences, "n_sentences", minimum=0), as_count(max_length, "max_length", minimum=2)
    rng = as_generator(seed, "seed")
    sentences: list[list[str]] = []
    brackets: list[list[tuple[int, int]]] = []
    while len(sentences) < count:
        words: list[str] = []
        spans: set[tuple[int, int]] = set()
        if _expand("S", words, spans, most, rng):
            sentences.append(words)
            brackets.append(sorted(spans))
    return GeneratedBrackets(sentences, brackets)


def _expand(symbol: str, words: list[str], spans: set[tuple[int, int]], most: int, rng: np.random.Generator) -> bool:
    """Append the words of a symbol, and its spans; False if there are more than ``most``."""
    rules = _RULES.get(symbol)
    if rules is None:
        words.append(symbol)
        return len(words) <= most
    start = len(words)
    weights = np.array([weight for weight, _ in rules])
    chosen = rules[int(rng.choice(len(rules), p=weights))][1]
    if not all(_expand(part, words, spans, most, rng) for part in chosen):
        return False
    if len(words) > start + 1:
        spans.add((start, len(words)))
    return True
