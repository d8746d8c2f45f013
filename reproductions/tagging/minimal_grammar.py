"""The fewest tag bigrams that can tag a text, and how long a tagging is to describe ([RaviKnight2009])."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln

from spectrem.structures import Chain, Parts

Sentences = Sequence[Sequence[str]]
Dictionary = Mapping[str, Collection[str]]


def minimal_grammar(words: Sentences, dictionary: Dictionary, tags: Sequence[str]) -> NDArray[np.bool_]:
    """A small set of tag bigrams under which every sentence can be tagged, from text and dictionary alone.

    Bigrams are taken greedily until each pair of neighbouring ambiguity classes is covered by one, the bigram that
    covers the most pairs first; then each sentence without a path adds the fewest that give it one. [RaviKnight2009]
    find the smallest set by integer program.

    Use when a dictionary lists rare tags: most of the bigrams that these allow then drop out before EM.

    Parameters
    ----------
    words : sequence of sentences
    dictionary : mapping of word -> tags
        Must list every word.
    tags : sequence of str

    Returns
    -------
    ndarray of bool of shape (n_tags, n_tags)
        [from, to], as ``transition_mask`` of `HMMTagger` takes it.

    Examples
    --------
    >>> dictionary = {"the": ["DT"], "run": ["NN", "VB"], "dogs": ["NN", "VB"]}
    >>> minimal_grammar([["the", "dogs", "run"], ["the", "run"]], dictionary, ["DT", "NN", "VB"]).astype(int).tolist()
    [[0, 1, 0], [0, 1, 0], [0, 0, 0]]
    """
    number = {tag: k for k, tag in enumerate(tags)}
    classes = {word: tuple(sorted({number[tag] for tag in dictionary[word]})) for word in set(chain(*words))}
    texts = [[classes[word] for word in sentence] for sentence in words]
    allowed = _cover(sorted({pair for text in texts for pair in pairwise(text)}), len(tags))
    for text in texts:
        _open_a_path(allowed, text)
    return allowed


def tag_bigrams(tagged: Sentences) -> set[tuple[str, str]]:
    """The tag bigrams that occur in a tagging: the size of its grammar ([RaviKnight2009]).

    Examples
    --------
    >>> sorted(tag_bigrams([["DT", "NN"], ["DT", "NN", "VB"]]))
    [('DT', 'NN'), ('NN', 'VB')]
    """
    return {pair for sentence in tagged for pair in pairwise(sentence)}


def description_length(words: Sentences, tagged: Sentences, dictionary: Dictionary, tags: Sequence[str]) -> float:
    """Bits that an adaptive code spends on tags given the tag before, and on words given their tag.

    The code knows the dictionary; it starts every distribution at half a count for each tag, or for each word of the
    text that the dictionary lets the tag emit.

    Parameters
    ----------
    words, tagged : sequence of sentences
    dictionary : mapping of word -> tags
    tags : sequence of str

    Examples
    --------
    >>> round(description_length([["a", "b"]], [["X", "X"]], {"a": ["X"], "b": ["X"]}, ["X"]), 6)
    3.0
    """
    emitters = Counter(tag for word in set(chain(*words)) for tag in set(dictionary[word]))
    first = Counter(sentence[0] for sentence in tagged if sentence)
    following = Counter(pair for sentence in tagged for pair in pairwise(sentence))
    emitted = Counter((tag, word) for pair in zip(tagged, words, strict=True) for tag, word in zip(*pair, strict=True))
    bits = _adaptive_bits(list(first.values()), len(tags))
    for counts, sizes in ((following, dict.fromkeys(tags, len(tags))), (emitted, emitters)):
        rows: dict[str, list[int]] = {}
        for (row, _), count in counts.items():
            rows.setdefault(row, []).append(count)
        bits += sum(_adaptive_bits(row, sizes[tag]) for tag, row in rows.items())
    return bits


def _adaptive_bits(counts: ArrayLike, size: int, start: float = 0.5) -> float:
    """Code length of a sequence with these counts of symbols, in whatever order, from an alphabet of ``size``."""
    found = np.asarray(counts, np.float64)
    total = gammaln(start * size + found.sum()) - gammaln(start * size)
    return float(total - (gammaln(start + found) - gammaln(start)).sum()) / float(np.log(2.0))


def _cover(pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], n_tags: int) -> NDArray[np.bool_]:
    """Greedy set cover of class pairs by tag bigrams; among equals the lowest bigram."""
    found = np.array([(k, a * n_tags + b) for k, (left, right) in enumerate(pairs) for a in left for b in right])
    pair, bigram = found.reshape(-1, 2).T
    covers = csr_array((np.ones(len(pair)), (bigram, pair)), (n_tags**2, len(pairs)))
    gain: NDArray[np.float64] = np.asarray(covers.sum(axis=1))
    is_open, allowed = np.ones(len(pairs), np.bool_), np.zeros(n_tags**2, np.bool_)
    while is_open.any():
        best = int(gain.argmax())
        allowed[best] = True
        own = covers.indices[covers.indptr[best] : covers.indptr[best + 1]]
        closed = np.zeros(len(pairs))
        closed[own] = is_open[own]
        gain = gain - covers @ closed
        is_open[own] = False
    return allowed.reshape(n_tags, n_tags)


def _open_a_path(allowed: NDArray[np.bool_], text: Sequence[tuple[int, ...]]) -> None:
    """Add the bigrams that a sentence needs; its best path is the one with the fewest new ones."""
    if not text:
        return
    offsets = np.cumsum([0, *map(len, text)])
    structure = Chain([len(text)], len(allowed), (offsets, np.concatenate(text)))
    path = structure.decode(Parts(np.zeros(offsets[-1]), (np.where(allowed, 0.0, -1.0),)))
    allowed[path[:-1], path[1:]] = True
