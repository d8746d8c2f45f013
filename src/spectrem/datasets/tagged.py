"""Generated English sentences with gold tags, for demonstrations and tests."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._validate import as_generator
from spectrem.exceptions import InvalidInputError

# By falling frequency. A word that stands in several lists, or whose form does, is ambiguous.
_NOUNS = (
    "house watch walk garden light water play work answer dog back saw park train hand book river cook cry ring plant "
    "guard hope city visit leaf/leaves letter dance home dream drink well paint past cover round duck bear present "
    "friend window call ship sound fish/fish stone smile mother stop can open picture look road need rose market boat "
    "story cold king child/children bridge rest second bore farmer carpet question box lamp ground kind song field "
    "village step felt"
)
_VERBS = (
    "see/sees/saw watch walk find/finds/found leave/leaves/left like play work answer take/takes/took cook feel/feels/"
    "felt cry light/lights/lit paint keep/keeps/kept hope water visit train guard drink/drinks/drank need plant clean "
    "dream cover dance call open write/writes/wrote ring/rings/rang present bear/bears/bore sound own fish warm smile "
    "rise/rises/rose duck look build/builds/built back round dry empty hand rest step/steps/stepped narrow book "
    "question"
)
_OTHERS = {
    "DET.singular": "the this her every that no another some his one",
    "DET.plural": "the her these some no his all many",
    "ADJ": (
        "old little light last open red cold past own clean second warm round quiet kind still present dry empty "
        "fast strange long green left narrow back well"
    ),
    "ADV": "often then there fast still back well home soon never down again so round slowly yet here",
    "PRON.singular": "she it he that this someone",
    "PRON.plural": "they we you all some many",
    "PRON.object": "it her them him that this you all",
    "ADP": "in to on near with like over for past down from under round by",
    "AUX": "can will must could may might would should did",
    "PART.to": "to",
    "PART.not": "not",
    "CCONJ": "and but or so yet",
    "PROPN": "Anna London May Tom Paris Rose Mark Clara Oslo Will Lima Hope",
    "PUNCT.comma": ",",
    "PUNCT.stop": ". ! ?",
}


class GeneratedTagging(NamedTuple):
    """Words and gold tags, sentence by sentence, and the tags that each word of the vocabulary may have."""

    words: list[list[str]]
    tags: list[list[str]]
    dictionary: dict[str, tuple[str, ...]]


def make_tagged_corpus(n_sentences: int = 1000, seed: int = 0) -> GeneratedTagging:
    """Generate English sentences from a small grammar, tagged with 12 universal tags.

    Sentences have 3 to some 25 words: a clause of subject, verb and complements, sometimes two. Two in five
    words of the text may have several tags ("the old saw" and "she saw the cold light"), which only their neighbours
    tell apart. Every sentence has a verb. Sentences are grammatical and mostly make no sense.

    Parameters
    ----------
    n_sentences : int
        At least 1.
    seed : int
        The same seed gives the same sentences; fewer sentences are the first ones of more.

    Returns
    -------
    GeneratedTagging
        The dictionary lists the whole vocabulary, whether a word occurs or not, and always allows the gold tag.

    Raises
    ------
    InvalidInputError
        If ``n_sentences`` is below 1.

    Examples
    --------
    >>> corpus = make_tagged_corpus(4)
    >>> print(*(f"{word}/{tag}" for word, tag in zip(corpus.words[3], corpus.tags[3], strict=True)))
    this/PRON can/AUX like/VERB his/DET house/NOUN past/ADP her/DET still/ADJ house/NOUN ./PUNCT
    >>> corpus.dictionary["saw"]
    ('NOUN', 'VERB')
    """
    if n_sentences < 1:
        raise InvalidInputError(f"n_sentences must be at least 1, but is {n_sentences}")
    rng = as_generator(seed, "seed")
    words, tags = [], []
    for _ in range(n_sentences):
        kinds = _sentence(rng)
        words.append([_draw(kind, rng) for kind in kinds])
        tags.append([_tag(kind) for kind in kinds])
    allowed: dict[str, dict[str, None]] = {}
    for kind, listed in _vocabulary().items():
        for word in listed:
            allowed.setdefault(word, {})[_tag(kind)] = None
    return GeneratedTagging(words, tags, {word: tuple(its) for word, its in allowed.items()})


def _tag(kind: str) -> str:
    return kind.partition(".")[0]


@cache
def _vocabulary() -> dict[str, list[str]]:
    """Words of every kind by falling frequency."""
    kinds: dict[str, list[str]] = {
        kind: [] for kind in ("NOUN.singular", "NOUN.plural", "VERB.plain", "VERB.third", "VERB.past")
    }
    for noun in _NOUNS.split():
        singular, _, plural = noun.partition("/")
        kinds["NOUN.singular"].append(singular)
        kinds["NOUN.plural"].append(plural or _with_s(singular))
    for verb in _VERBS.split():
        plain, _, others = verb.partition("/")
        third, _, past = others.partition("/")
        kinds["VERB.plain"].append(plain)
        kinds["VERB.third"].append(third or _with_s(plain))
        kinds["VERB.past"].append(past or _with_ed(plain))
    return kinds | {kind: listed.split() for kind, listed in _OTHERS.items()}


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeo":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


def _with_ed(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeo":
        return f"{word[:-1]}ied"
    return f"{word}d" if word.endswith("e") else f"{word}ed"


@cache
def _shares(n_words: int) -> NDArray[np.float64]:
    """Probabilities of words by rank: Zipf's law, flattened so that the first word is not far more frequent."""
    weights = 1.0 / (2.0 + np.arange(n_words))
    return weights / weights.sum()


def _draw(kind: str, rng: np.random.Generator) -> str:
    listed = _vocabulary()[kind]
    return listed[int(rng.choice(len(listed), p=_shares(len(listed))))]


def _sentence(rng: np.random.Generator) -> list[str]:
    kinds = [*_prepositional(rng), "PUNCT.comma"] if rng.random() < 0.08 else []
    kinds += _clause(rng)
    if rng.random() < 0.25:
        kinds += ["PUNCT.comma"] * int(rng.random() < 0.5) + ["CCONJ", *_clause(rng)]
    return [*kinds, "PUNCT.stop"]


def _clause(rng: np.random.Generator) -> list[str]:
    number = "plural" if rng.random() < 0.4 else "singular"
    draw = rng.random()
    if draw < 0.35:
        subject = [f"PRON.{number}"]
    elif draw < 0.5 and number == "singular":
        subject = ["PROPN"]
    else:
        subject = _noun_phrase(number, rng)
    return subject + _predicate(number, rng)


def _predicate(number: str, rng: np.random.Generator) -> list[str]:
    draw = rng.random()
    adverb = ["ADV"] * int(rng.random() < 0.12)
    if draw < 0.3:
        kinds = ["AUX"] + ["PART.not"] * int(rng.random() < 0.2) + adverb + ["VERB.plain"]
    elif draw < 0.65:
        kinds = [*adverb, "VERB.past"]
    else:
        kinds = [*adverb, "VERB.plain" if number == "plural" else "VERB.third"]
    draw = rng.random()
    if draw < 0.55:
        kinds += _object(rng)
    elif draw < 0.67:
        kinds += ["PART.to", "VERB.plain", *_object(rng)]
    elif draw < 0.75:
        kinds += ["ADJ"]
    if rng.random() < 0.35:
        kinds += _prepositional(rng)
    return kinds + ["ADV"] * int(rng.random() < 0.2)


def _object(rng: np.random.Generator) -> list[str]:
    draw = rng.random()
    if draw < 0.15:
        return ["PRON.object"]
    if draw < 0.25:
        return ["PROPN"]
    return _noun_phrase("plural" if rng.random() < 0.4 else "singular", rng)


def _prepositional(rng: np.random.Generator) -> list[str]:
    return ["ADP", *_object(rng)]


def _noun_phrase(number: str, rng: np.random.Generator) -> list[str]:
    determiner = [f"DET.{number}"] * int(number == "singular" or rng.random() < 0.6)
    adjectives = ["ADJ"] * int(rng.choice(3, p=[0.6, 0.32, 0.08]))
    compound = ["NOUN.singular"] * int(rng.random() < 0.08)
    tail = _prepositional(rng) if rng.random() < 0.12 else []
    return [*determiner, *adjectives, *compound, f"NOUN.{number}", *tail]
