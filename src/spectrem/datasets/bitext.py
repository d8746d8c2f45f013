"""A generated bitext with known links, for demonstrations and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._validate import as_generator
from spectrem.data import Links
from spectrem.exceptions import InvalidInputError

_CLASSES = ("determiner", "preposition", "adjective", "verb", "noun", "name")
_SHARES = (0.03, 0.04, 0.15, 0.20, 0.33, 0.25)  # of the vocabulary
_AMBIGUITY = (0.6, 0.25, 0.15)  # probabilities of a word's translations, best first
_ENDINGS = {"adjective": "y", "verb": "en", "noun": "o"}
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_TARGET_CONSONANTS, _TARGET_VOWELS = "cdghjlmqrstwx", "aeiouy"


class GeneratedBitext(NamedTuple):
    """Source lines, target lines and the links (all sure) between their words."""

    source: list[str]
    target: list[str]
    links: Links


@dataclass(frozen=True)
class _Lexicon:
    """Words of every class by falling frequency, and each one's translations (tuples of one or two words)."""

    words: dict[str, list[str]]
    translations: dict[str, list[tuple[str, ...]]]
    particles: list[str]
    taken: set[str]

    def draw(self, kind: str, rng: np.random.Generator) -> str:
        """A word of a class; half of the names are coined on the spot."""
        if kind != "name" or rng.random() < 0.5:
            return _choose(self.words[kind], rng)
        name = _new_word(rng, 2, _CONSONANTS, _VOWELS, self.taken).capitalize()
        self.translations[name] = [(_new_word(rng, 2, _TARGET_CONSONANTS, _TARGET_VOWELS, self.taken),)]
        return name


def make_bitext(n_pairs: int = 1000, vocabulary: int = 400, seed: int = 0) -> GeneratedBitext:
    """Generate sentence pairs of two made-up languages with their true word links.

    Source sentences of 3 to 20 words come from a small grammar (noun phrases, verbs, prepositional phrases) with
    Zipfian word frequencies; half of the names occur just once, and such rare words attract stray words in
    training (they are "garbage collectors"). The target is translated word by word – up to three translations per
    word, some of them shared by several words, one word in twelve translated by two – with adjectives moved behind
    their noun, verbs sometimes moved to the end, prepositional phrases sometimes to the front; some function words
    have no counterpart, and particles without a source word are inserted.

    Parameters
    ----------
    n_pairs : int
        At least 1.
    vocabulary : int
        Source words besides the names that occur once, at least 50.
    seed : int
        The same seed gives the same bitext.

    Returns
    -------
    GeneratedBitext
        ``source``, ``target`` (lists of str) and ``links`` (`spectrem.data.Links`, all sure).

    Raises
    ------
    InvalidInputError
        If ``n_pairs`` or ``vocabulary`` is too small.

    Examples
    --------
    >>> bitext = make_bitext(n_pairs=2, seed=1)
    >>> len(bitext.source), len(bitext.target), bitext.links.n_sentences
    (2, 2, 2)
    """
    if n_pairs < 1:
        raise InvalidInputError(f"n_pairs must be at least 1, but is {n_pairs}")
    if vocabulary < 50:
        raise InvalidInputError(f"vocabulary must be at least 50 words, but is {vocabulary}; give more words")
    rng = as_generator(seed, "seed")
    lexicon = _make_lexicon(vocabulary, rng)
    source_lines, target_lines, pairs = [], [], []
    for _ in range(n_pairs):
        phrases = _sentence(rng)
        source = [lexicon.draw(kind, rng) for phrase in phrases for kind in phrase]
        target, links = _translate(source, _reorder(phrases, rng), lexicon, rng)
        source_lines.append(" ".join(source))
        target_lines.append(" ".join(target))
        pairs.append(links)
    return GeneratedBitext(source_lines, target_lines, Links.from_pairs(pairs))


def _make_lexicon(size: int, rng: np.random.Generator) -> _Lexicon:
    counts = [max(2, round(share * size)) for share in _SHARES]
    taken: set[str] = set()
    words: dict[str, list[str]] = {}
    translations: dict[str, list[tuple[str, ...]]] = {}
    for kind, count in zip(_CLASSES, counts, strict=True):
        syllables = 1 if kind in ("determiner", "preposition") else 2
        words[kind] = [
            _new_word(rng, syllables, _CONSONANTS, _VOWELS, taken, _ENDINGS.get(kind, "")) for _ in range(count)
        ]
        if kind == "name":
            words[kind] = [word.capitalize() for word in words[kind]]
        targets = [_new_word(rng, syllables, _TARGET_CONSONANTS, _TARGET_VOWELS, taken) for _ in range(count)]
        for number, word in enumerate(words[kind]):
            translations[word] = _translations_of(kind, targets[number], targets, taken, rng)
    particles = [_new_word(rng, 1, _TARGET_CONSONANTS, _TARGET_VOWELS, taken) for _ in range(3)]
    return _Lexicon(words, translations, particles, taken)


def _translations_of(
    kind: str, own: str, others: list[str], taken: set[str], rng: np.random.Generator
) -> list[tuple[str, ...]]:
    """A word's own translation, then a synonym, then the translation of another word."""
    if kind == "name":
        return [(own,)]
    best = (own, _new_word(rng, 1, _TARGET_CONSONANTS, _TARGET_VOWELS, taken)) if rng.random() < 0.08 else (own,)
    synonym = _new_word(rng, 2, _TARGET_CONSONANTS, _TARGET_VOWELS, taken)
    return [best, (synonym,), (_choose(others, rng),)]


def _new_word(
    rng: np.random.Generator, syllables: int, consonants: str, vowels: str, taken: set[str], ending: str = ""
) -> str:
    """A new pronounceable word, which is longer when the short ones are used up."""
    for attempt in range(10_000):
        length = syllables + attempt // 20
        word = "".join(
            consonants[rng.integers(len(consonants))] + vowels[rng.integers(len(vowels))] for _ in range(length)
        )
        if word + ending not in taken:
            taken.add(word + ending)
            return word + ending
    raise AssertionError("words grow with every twentieth attempt, so one must be new")


def _choose(words: list[str], rng: np.random.Generator) -> str:
    """A word, drawn by Zipf's law: with a probability in inverse proportion to its rank."""
    weights = 1.0 / np.arange(1, len(words) + 1)
    return words[int(rng.choice(len(words), p=weights / weights.sum()))]


def _noun_phrase(rng: np.random.Generator) -> list[str]:
    if rng.random() < 0.25:
        return ["name"]
    n_adjectives = int(rng.choice(3, p=[0.5, 0.35, 0.15]))
    return ["determiner"] * int(rng.random() < 0.85) + ["adjective"] * n_adjectives + ["noun"]


def _sentence(rng: np.random.Generator) -> list[list[str]]:
    """Classes of the words, phrase by phrase: subject, verb, object, then prepositional phrases; 3 to 20 words."""
    phrases = [_noun_phrase(rng), ["verb"], _noun_phrase(rng)]
    for _ in range(int(rng.choice(4, p=[0.3, 0.35, 0.2, 0.15]))):
        phrase = ["preposition", *_noun_phrase(rng)]
        if sum(map(len, phrases)) + len(phrase) <= 20:
            phrases.append(phrase)
    return phrases


def _reorder(phrases: list[list[str]], rng: np.random.Generator) -> NDArray[np.int64]:
    """Source positions in the order in which the target says them."""
    starts = np.cumsum([0] + [len(phrase) for phrase in phrases])
    spans = []
    for start, phrase in zip(starts.tolist(), phrases, strict=False):
        span = list(range(start, start + len(phrase)))
        if "adjective" in phrase and rng.random() < 0.75:
            span.insert(phrase.index("adjective"), span.pop())
        spans.append(span)
    if len(spans) > 3 and rng.random() < 0.2:
        spans.insert(0, spans.pop())
    if rng.random() < 0.2:
        spans.append(spans.pop(next(n for n, span in enumerate(spans) if span == [len(phrases[0])])))
    return np.concatenate(spans)


def _translate(
    source: list[str], order: NDArray[np.int64], lexicon: _Lexicon, rng: np.random.Generator
) -> tuple[list[str], list[tuple[int, int]]]:
    function_words = {*lexicon.words["determiner"], *lexicon.words["preposition"]}
    target: list[str] = []
    links: list[tuple[int, int]] = []
    for position in order.tolist():
        word = source[position]
        if rng.random() < 0.1:
            target.append(_choose(lexicon.particles, rng))
        if word in function_words and rng.random() < 0.25:
            continue
        known = lexicon.translations[word]
        weights = np.array(_AMBIGUITY[: len(known)])
        for translated in known[int(rng.choice(len(known), p=weights / weights.sum()))]:
            links.append((position, len(target)))
            target.append(translated)
    return target, links
