"""Generated bitexts of any size, block by block, with a vocabulary that grows with the text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from spectrem.data import Links, open_output, pharaoh_lines
from spectrem.datasets import GeneratedBitext

_BLOCK = 1 << 15  # sentence pairs
_SHORTEST, _LONGEST, _MEAN = 5, 40, 10.5  # words of a source sentence
# Ranks below _HEAD follow the law of Zipf and Mandelbrot; a tail of the tokens has any rank above, with a density in
# proportion to 1 / rank^2, so that the vocabulary grows with the square root of the text.
_HEAD, _EXPONENT, _SHIFT, _TAIL, _LAST_RANK = 8192, 1.1, 1.0, 0.02, 10**9
_FUNCTION_WORDS, _PARTICLES = 60, 5
_CONSONANTS, _VOWELS = b"bdfgklmnprstv", b"aeiou"
_TARGET_CONSONANTS = b"cdghjlmqrstwx"
_SYLLABLES = len(_CONSONANTS) * len(_VOWELS)
_SCRAMBLE = 1_000_003  # without a common divisor with the powers of _SYLLABLES


def iter_bitext(n_pairs: int, seed: int = 0) -> Iterator[GeneratedBitext]:
    """Generate sentence pairs of two made-up languages with their true word links, some ten thousand at a time.

    The statistics are about those of parliamentary debates: source sentences of 5 to 40 words, 10.5 on average; word
    frequencies by Zipf's law; a vocabulary that grows with the square root of the text ([Heaps1978]), a third of it
    words that occur once. A word has up to three translations, some of them shared with other words, one word in
    twelve is translated by two words, and words with a common beginning have translations with a common beginning.
    Some words move behind their neighbour, some sentences begin with their last third; some function words have no
    counterpart, and particles without a source word are inserted.

    Use for corpora that need not fit into memory; `make_bitext` has a grammar, and suits some thousands of pairs.

    Parameters
    ----------
    n_pairs : int
        At least 1.
    seed : int
        At least 0. The same seed gives the same bitext; the first pairs do not depend on ``n_pairs``.

    Yields
    ------
    GeneratedBitext
        Consecutive pairs: ``source``, ``target`` (lists of str) and ``links`` (`spectrem.data.Links`, all sure).

    Examples
    --------
    >>> block = next(iter_bitext(2, seed=1))
    >>> len(block.source), len(block.target), block.links.n_sentences
    (2, 2, 2)
    """
    for block in _blocks(n_pairs, seed):
        lines = [data.decode().split("\n")[:-1] for data in (block.source, block.target)]
        yield GeneratedBitext(lines[0], lines[1], block.links)


def write_bitext(
    n_pairs: int,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    links: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> None:
    """Write the pairs of `iter_bitext` to files, line by line; memory does not grow with their number.

    Parameters
    ----------
    n_pairs : int
        At least 1; a million take some ten seconds, and twice as long with their links.
    source, target : path
        A name that ends in ``.gz`` is gzipped.
    links : path, optional
        The true links, in the Pharaoh format.
    seed : int

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import read_bitext
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bitext(3, f"{folder}/a.txt", f"{folder}/b.txt")
    ...     read_bitext(f"{folder}/a.txt", f"{folder}/b.txt").n_pairs
    3
    """
    with ExitStack() as stack:
        outputs = [stack.enter_context(open_output(path)) for path in (source, target)]
        links_out = None if links is None else stack.enter_context(open_output(links))
        for block in _blocks(n_pairs, seed):
            outputs[0].write(block.source.decode())
            outputs[1].write(block.target.decode())
            if links_out is not None:
                links_out.writelines(f"{line}\n" for line in pharaoh_lines(block.links))


class _Block(NamedTuple):
    """Lines of both sides, each with its end, and the links between their words."""

    source: bytes
    target: bytes
    links: Links


def _blocks(n_pairs: int, seed: int) -> Iterator[_Block]:
    if n_pairs < 1:
        raise ValueError(f"n_pairs must be at least 1, but is {n_pairs}")
    weights = 1.0 / (np.arange(_HEAD) + _SHIFT + 1.0) ** _EXPONENT
    head = np.cumsum(weights / weights.sum())
    for number in range(-(-n_pairs // _BLOCK)):
        yield _block(np.random.default_rng([seed, number]), head, min(_BLOCK, n_pairs - number * _BLOCK))


def _block(rng: np.random.Generator, head: NDArray[np.float64], n_pairs: int) -> _Block:
    """The first pairs of a block, which is always drawn as a whole."""
    lengths = np.clip(_SHORTEST + rng.poisson(_MEAN - _SHORTEST, _BLOCK), _SHORTEST, _LONGEST)
    sentence = np.repeat(np.arange(_BLOCK), lengths)
    place = np.arange(len(sentence)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    ranks = _draw_ranks(rng, head, len(sentence))
    chosen = _order(rng, sentence, place, lengths, ranks)
    chosen = chosen[~((ranks[chosen] < _FUNCTION_WORDS) & (rng.random(len(chosen)) < 0.2))]  # the others have a word
    first, second = _translate(rng, ranks[chosen])
    particle = np.where(rng.random(len(chosen)) < 0.1, rng.integers(_PARTICLES, size=len(chosen)), -1)
    words = np.column_stack([particle, first, second])
    present = words >= 0
    target, n_words = words[present], present.sum(axis=1)
    target_sentence = np.repeat(sentence[chosen], n_words)
    origin = np.repeat(place[chosen], n_words)
    target_lengths = np.bincount(target_sentence, minlength=_BLOCK)
    target_place = np.arange(len(target)) - np.repeat(np.cumsum(target_lengths) - target_lengths, target_lengths)
    linked = (np.nonzero(present)[1] > 0) & (target_sentence < n_pairs)
    links = Links.from_arrays(
        target_sentence[linked], origin[linked], target_place[linked], n_sentences=n_pairs
    )  # fmt: skip
    return _Block(
        _spell(ranks, lengths[:n_pairs], _CONSONANTS),
        _spell(target, target_lengths[:n_pairs], _TARGET_CONSONANTS),
        links,
    )


def _draw_ranks(rng: np.random.Generator, head: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    ranks = np.searchsorted(head, rng.random(size)).clip(max=_HEAD - 1)
    tail = np.flatnonzero(rng.random(size) < _TAIL)
    ranks[tail] = np.minimum(_HEAD / (1.0 - rng.random(len(tail))), _LAST_RANK).astype(np.int64)
    return ranks


def _order(
    rng: np.random.Generator,
    sentence: NDArray[np.int64],
    place: NDArray[np.int64],
    lengths: NDArray[np.int64],
    ranks: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Source tokens in the order in which the target says them."""
    behind = (_hash(ranks, 1) % 4 == 0) & (rng.random(len(ranks)) < 0.75)
    ahead = (rng.random(len(lengths)) < 0.15)[sentence] & (place >= (2 * lengths // 3)[sentence])
    key = sentence * (4.0 * _LONGEST) + place + 1.5 * behind - 2.0 * _LONGEST * ahead
    return np.argsort(key, kind="stable")


def _translate(rng: np.random.Generator, ranks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks of the first target word of every source word, and of a second one or -1."""
    frequent = ranks < _HEAD
    uniform = rng.random(len(ranks))
    other = ranks - ranks // 4 + _hash(ranks, 2) % (ranks // 2 + 10)
    third = ranks - ranks // 4 + _hash(ranks, 3) % (ranks // 2 + 10)
    first = np.where(uniform < np.where(frequent, 0.6, 0.85), ranks, np.where(uniform < 0.85, other, third))
    double = (first == ranks) & (_hash(ranks, 4) % 12 == 0)
    return first, np.where(double, _hash(ranks, 5) % 2000, -1)


def _hash(ranks: NDArray[np.int64], salt: int) -> NDArray[np.int64]:
    """A number of at least 0 that looks random, the same whenever a rank occurs."""
    mixed = (ranks.astype(np.uint64) + np.uint64(salt << 40)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(33)).astype(np.int64)


def _spell(ranks: NDArray[np.int64], lengths: NDArray[np.int64], consonants: bytes) -> bytes:
    """Sentences of words, one per line."""
    ranks = ranks[: lengths.sum()]
    steps = np.cumsum(float(_SYLLABLES) ** np.arange(1, 7))
    n_syllables = 1 + np.searchsorted(steps, ranks, side="right")
    text = np.empty(int(2 * n_syllables.sum() + len(ranks) + (lengths == 0).sum()), np.uint8)
    letters = [np.frombuffer(part, np.uint8) for part in (consonants, _VOWELS)]
    _write(ranks, lengths, n_syllables, letters[0], letters[1], _SCRAMBLE, text)
    return text.tobytes()


@numba.njit(cache=True)
def _write(ranks, lengths, n_syllables, consonants, vowels, scramble, text):  # type: ignore[no-untyped-def]
    """Fill ``text`` with words: those of few syllables have the low ranks, in a scrambled order."""
    base = len(consonants) * len(vowels)
    at = 0
    token = 0
    for length in lengths:
        for k in range(length):
            n = n_syllables[token]
            number, size = ranks[token], base
            for _ in range(n - 1):
                number -= size
                size *= base
            number = number * scramble % size
            for _ in range(n):
                size //= base
                syllable = number // size
                number -= syllable * size
                text[at] = consonants[syllable // len(vowels)]
                text[at + 1] = vowels[syllable % len(vowels)]
                at += 2
            text[at] = 10 if k == length - 1 else 32
            at += 1
            token += 1
        if length == 0:
            text[at] = 10
            at += 1
