"""Generated data sets with known structure, from seeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._reprs import briefly_shown
from spectrem._validate import as_count, as_generator
from spectrem.data import ROOT, Links, ParsedSentence
from spectrem.exceptions import InvalidInputError

__all__ = [
    "GeneratedBitext",
    "GeneratedBrackets",
    "GeneratedTagging",
    "make_bitext",
    "make_bracketed_corpus",
    "make_tagged_corpus",
    "make_treebank",
]

_CLASSES = ("determiner", "preposition", "adjective", "verb", "noun", "name")
_SHARES = (0.03, 0.04, 0.15, 0.20, 0.33, 0.25)  # of the vocabulary
_AMBIGUITY = (0.6, 0.25, 0.15)  # probabilities of a word's translations, best first
_ENDINGS = {"adjective": "y", "verb": "en", "noun": "o"}
# Consonants and vowels of each language.
_SOURCE = ("bdfgklmnprstvz", "aeiou")
_TARGET = ("cdghjlmqrstwx", "aeiouy")


@briefly_shown
class GeneratedBitext(NamedTuple):
    """Source lines, target lines and the links (all sure) between their words.

    Attributes
    ----------
    source, target : list of str
    links : Links

    Examples
    --------
    >>> source, target, links = make_bitext(n_pairs=2, seed=0)
    >>> len(source), len(target), links.n_sentences
    (2, 2, 2)
    """

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
        name = _new_word(rng, 2, _SOURCE, self.taken).capitalize()
        self.translations[name] = [(_new_word(rng, 2, _TARGET, self.taken),)]
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
        phrases = _bitext_sentence(rng)
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
        words[kind] = [_new_word(rng, syllables, _SOURCE, taken, _ENDINGS.get(kind, "")) for _ in range(count)]
        if kind == "name":
            words[kind] = [word.capitalize() for word in words[kind]]
        targets = [_new_word(rng, syllables, _TARGET, taken) for _ in range(count)]
        for number, word in enumerate(words[kind]):
            translations[word] = _translations_of(kind, targets[number], targets, taken, rng)
    particles = [_new_word(rng, 1, _TARGET, taken) for _ in range(3)]
    return _Lexicon(words, translations, particles, taken)


def _translations_of(
    kind: str, translation: str, others: list[str], taken: set[str], rng: np.random.Generator
) -> list[tuple[str, ...]]:
    """A word's own translation, then a synonym, then the translation of another word."""
    if kind == "name":
        return [(translation,)]
    best = (translation, _new_word(rng, 1, _TARGET, taken)) if rng.random() < 0.08 else (translation,)
    synonym = _new_word(rng, 2, _TARGET, taken)
    return [best, (synonym,), (_choose(others, rng),)]


def _new_word(
    rng: np.random.Generator, syllables: int, letters: tuple[str, str], taken: set[str], ending: str = ""
) -> str:
    """A new pronounceable word, which is longer when the short ones are used up."""
    for attempt in range(10_000):
        length = syllables + attempt // 20
        word = "".join(choices[rng.integers(len(choices))] for _ in range(length) for choices in letters)
        if word + ending not in taken:
            taken.add(word + ending)
            return word + ending
    raise AssertionError("words grow with every twentieth attempt, so one must be new")


def _choose(words: list[str], rng: np.random.Generator) -> str:
    """A word, drawn by Zipf's law: with a probability in inverse proportion to its rank."""
    weights = 1.0 / np.arange(1, len(words) + 1)
    return words[int(rng.choice(len(words), p=weights / weights.sum()))]


def _bitext_phrase(rng: np.random.Generator) -> list[str]:
    if rng.random() < 0.25:
        return ["name"]
    n_adjectives = int(rng.choice(3, p=[0.5, 0.35, 0.15]))
    return ["determiner"] * int(rng.random() < 0.85) + ["adjective"] * n_adjectives + ["noun"]


def _bitext_sentence(rng: np.random.Generator) -> list[list[str]]:
    """Classes of the words, phrase by phrase: subject, verb, object, then prepositional phrases; 3 to 20 words."""
    phrases = [_bitext_phrase(rng), ["verb"], _bitext_phrase(rng)]
    for _ in range(int(rng.choice(4, p=[0.3, 0.35, 0.2, 0.15]))):
        phrase = ["preposition", *_bitext_phrase(rng)]
        if sum(map(len, phrases)) + len(phrase) <= 20:
            phrases.append(phrase)
    return phrases


def _reorder(phrases: list[list[str]], rng: np.random.Generator) -> Ints:
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
    source: list[str], order: Ints, lexicon: _Lexicon, rng: np.random.Generator
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


@briefly_shown
class GeneratedTagging(NamedTuple):
    """Words and gold tags, sentence by sentence, and the tags that each word of the vocabulary may have.

    Attributes
    ----------
    words, tags : list of list of str
    dictionary : dict of str -> tuple of str

    Examples
    --------
    >>> words, tags, dictionary = make_tagged_corpus(2, seed=0)
    >>> tags[0][0] in dictionary[words[0][0]]
    True
    """

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
        classes = _sentence(rng)
        words.append([_draw(kind, rng) for kind in classes])
        tags.append([_tag(kind) for kind in classes])
    allowed: dict[str, dict[str, None]] = {}
    for kind, listed in _vocabulary().items():
        for word in listed:
            allowed.setdefault(word, {})[_tag(kind)] = None
    return GeneratedTagging(words, tags, {word: tuple(tags_of) for word, tags_of in allowed.items()})


def _tag(kind: str) -> str:
    return kind.partition(".")[0]


@cache
def _vocabulary() -> dict[str, list[str]]:
    """Words of every kind by falling frequency."""
    classes: dict[str, list[str]] = {
        kind: [] for kind in ("NOUN.singular", "NOUN.plural", "VERB.plain", "VERB.third", "VERB.past")
    }
    for noun in _NOUNS.split():
        singular, _, plural = noun.partition("/")
        classes["NOUN.singular"].append(singular)
        classes["NOUN.plural"].append(plural or _with_s(singular))
    for verb in _VERBS.split():
        plain, _, others = verb.partition("/")
        third, _, past = others.partition("/")
        classes["VERB.plain"].append(plain)
        classes["VERB.third"].append(third or _with_s(plain))
        classes["VERB.past"].append(past or _with_ed(plain))
    return classes | {kind: listed.split() for kind, listed in _OTHERS.items()}


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeo":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


def _with_ed(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeo":
        return f"{word[:-1]}ied"
    return f"{word}d" if word.endswith("e") else f"{word}ed"


@cache
def _shares(n_words: int) -> Floats:
    """Probabilities of words by rank: Zipf's law, flattened so that the first word is not far more frequent."""
    weights = 1.0 / (2.0 + np.arange(n_words))
    return weights / weights.sum()


def _draw(kind: str, rng: np.random.Generator) -> str:
    listed = _vocabulary()[kind]
    return listed[int(rng.choice(len(listed), p=_shares(len(listed))))]


def _sentence(rng: np.random.Generator) -> list[str]:
    classes = [*_prepositional(rng), "PUNCT.comma"] if rng.random() < 0.08 else []
    classes += _clause(rng)
    if rng.random() < 0.25:
        classes += ["PUNCT.comma"] * int(rng.random() < 0.5) + ["CCONJ", *_clause(rng)]
    return [*classes, "PUNCT.stop"]


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
        classes = ["AUX"] + ["PART.not"] * int(rng.random() < 0.2) + adverb + ["VERB.plain"]
    elif draw < 0.65:
        classes = [*adverb, "VERB.past"]
    else:
        classes = [*adverb, "VERB.plain" if number == "plural" else "VERB.third"]
    draw = rng.random()
    if draw < 0.55:
        classes += _object(rng)
    elif draw < 0.67:
        classes += ["PART.to", "VERB.plain", *_object(rng)]
    elif draw < 0.75:
        classes += ["ADJ"]
    if rng.random() < 0.35:
        classes += _prepositional(rng)
    return classes + ["ADV"] * int(rng.random() < 0.2)


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


_TREEBANK_WORDS = {
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

    Returns
    -------
    list of ParsedSentence
        As many as were asked for.

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
        sentence = _Sentence(rng)
        sentence.clause()
        forms = tuple(str(rng.choice(_TREEBANK_WORDS[tag])) for tag in sentence.tags)
        relations = tuple("root" if head == ROOT else "dep" for head in sentence.heads)
        drawn.append(
            ParsedSentence(forms, tuple(sentence.tags), ("_",) * len(forms), np.array(sentence.heads), relations)
        )
    return drawn


# Left side -> right sides with their weights; what has no rule is a tag.
_RULES: dict[str, list[tuple[float, tuple[str, ...]]]] = {
    "S": [(0.85, ("NP", "VP")), (0.15, ("RB", "S"))],
    "NP": [(0.35, ("DT", "N")), (0.2, ("PRP",)), (0.15, ("NNP",)), (0.1, ("NNS",)), (0.2, ("NP", "PP"))],
    "N": [(0.7, ("NN",)), (0.2, ("JJ", "N")), (0.1, ("NN", "NN"))],
    "VP": [(0.45, ("V", "NP")), (0.2, ("V",)), (0.2, ("VP", "PP")), (0.1, ("MD", "VP")), (0.05, ("V", "S"))],
    "V": [(0.6, ("VBD",)), (0.4, ("VBZ",))],
    "PP": [(1.0, ("IN", "NP"))],
}


@briefly_shown
class GeneratedBrackets(NamedTuple):
    """Sentences of tags and, sentence by sentence, their constituents of two words and more, by start and end.

    Attributes
    ----------
    sentences : list of list of str
    brackets : list of list of (start, end)
        Positions from 0; ``end`` is that behind the last word.

    Examples
    --------
    >>> sentences, brackets = make_bracketed_corpus(2, seed=0)
    >>> (0, len(sentences[0])) in brackets[0]
    True
    """

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
