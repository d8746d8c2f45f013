"""Generated English sentences with universal tags and dependency trees, for demonstrations and tests."""

from __future__ import annotations

import numpy as np

from spectrem._validate import as_count, as_generator
from spectrem.data import ROOT, ParsedSentence

_WORDS = {
    "DET": ["the", "a", "this", "every", "no"],
    "ADJ": ["old", "little", "red", "quiet", "strange"],
    "NOUN": ["house", "river", "friend", "window", "story", "market", "stone", "boat"],
    "PRON": ["she", "he", "they", "it", "someone"],
    "PROPN": ["Anna", "Paris", "Tom", "Oslo"],
    "ADP": ["in", "near", "with", "for", "from"],
    "VERB": ["see", "find", "keep", "paint", "build", "visit", "leave"],
    "AUX": ["can", "must", "will", "should"],
    "ADV": ["often", "then", "never", "soon"],
}


class _Sentence:
    """Words as they are drawn, from left to right; a head that is still to come is filled in later."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.tags: list[str] = []
        self.heads: list[int] = []

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def add(self, tag: str, head: int = ROOT) -> int:
        self.tags.append(tag)
        self.heads.append(head)
        return len(self.tags) - 1

    def noun_phrase(self, depth: int = 0) -> int:
        """Draw a phrase and return the position of its head; a preposition hangs on the noun behind it."""
        kind = self.rng.choice(["PRON", "PROPN", "NOUN"], p=[0.2, 0.15, 0.65])
        if kind != "NOUN":
            return self.add(str(kind))
        before = [self.add("DET")] if self.chance(0.7) else []
        before += [self.add("ADJ") for _ in range(2) if self.chance(0.25)]
        noun = self.add("NOUN")
        for word in before:
            self.heads[word] = noun
        if depth == 0 and self.chance(0.2):
            self.heads[self.prepositional(1)] = noun
        return noun

    def prepositional(self, depth: int) -> int:
        preposition = self.add("ADP")
        self.heads[preposition] = noun = self.noun_phrase(depth)
        return noun

    def clause(self) -> None:
        before = [self.add("ADV")] if self.chance(0.15) else []
        before += [self.noun_phrase()] if self.chance(0.9) else []
        before += [self.add("AUX")] if self.chance(0.25) else []
        verb = self.add("VERB")
        for word in before:
            self.heads[word] = verb
        if self.chance(0.6):
            self.heads[self.noun_phrase()] = verb
        if self.chance(0.3):
            self.heads[self.prepositional(1)] = verb
        if self.chance(0.15):
            self.add("ADV", verb)


def make_treebank(n_sentences: int = 200, seed: int = 0) -> list[ParsedSentence]:
    """Draw simple English clauses with nine universal tags and projective trees, as Universal Dependencies has them.

    Verbs head sentences; nouns head their determiners, adjectives and prepositions.

    Parameters
    ----------
    n_sentences : int
    seed : int
        The same seed gives the same sentences; fewer sentences are the first ones of more.

    Raises
    ------
    InvalidInputError
        If ``n_sentences`` is negative.

    Examples
    --------
    >>> sentence = make_treebank(1, seed=4)[0]
    >>> " ".join(sentence.forms), sentence.upos, sentence.heads.tolist()
    ('the window should paint', ('DET', 'NOUN', 'AUX', 'VERB'), [1, 3, 3, -1])
    """
    rng = as_generator(seed, "seed")
    drawn = []
    for _ in range(as_count(n_sentences, "n_sentences", minimum=0)):
        own = _Sentence(rng)
        own.clause()
        forms = tuple(str(rng.choice(_WORDS[tag])) for tag in own.tags)
        relations = tuple("root" if head == ROOT else "dep" for head in own.heads)
        drawn.append(ParsedSentence(forms, tuple(own.tags), ("_",) * len(forms), np.array(own.heads), relations))
    return drawn
