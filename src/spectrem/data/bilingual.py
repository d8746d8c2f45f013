"""Knowledge of words of two languages: dictionaries of word pairs, priors of other aligners, factors of tokens."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spectrem._reprs import brief_dataclass
from spectrem._validate import as_bool
from spectrem.data.bitext import Bitext, Side
from spectrem.data.files import read_lines
from spectrem.data.text import Vocabulary
from spectrem.exceptions import InvalidInputError, quoted

_PAIR_FORMAT = "write source, a tab, target, and if you like a tab and a weight"


def read_dictionary(path: str | os.PathLike[str], *, lowercase: bool = False) -> dict[str, dict[str, float]]:
    r"""Read lines of a source word, a tab and a target word, and perhaps another tab and a weight.

    A word may have any number of translations, a line each. Of a pair that is given several times the largest weight
    counts, so that dictionaries may be concatenated. Blank lines are skipped; there are no comments.

    Parameters
    ----------
    path : path or "-"
        UTF-8, plain or gzipped; ``-`` is standard input.
    lowercase : bool
        Lower-case all words (``str.lower``).

    Returns
    -------
    dict of source word -> dict of target word -> float
        The weights, above 0; 1 where the file says none.

    Raises
    ------
    InvalidInputError
        Naming file and line: a line of fewer than two or more than three fields, an empty word, or a weight that is
        not a finite number above 0.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/words.tsv", ["house\tmaison", "house\tchambre\t0.5", "tree\tarbre"])
    ...     read_dictionary(f"{folder}/words.tsv")
    {'house': {'maison': 1.0, 'chambre': 0.5}, 'tree': {'arbre': 1.0}}
    """
    as_bool(lowercase, "lowercase")
    lines = read_lines(path)
    dictionary: dict[str, dict[str, float]] = {}
    for number, line in lines.filled():
        fields = line.split("\t")
        if not 2 <= len(fields) <= 3:
            lines.refuse(number, f"{quoted(line)} has {len(fields)} fields between tabs; {_PAIR_FORMAT}")
        source, target = (field.strip(" ") for field in fields[:2])
        if not source or not target:
            lines.refuse(number, f"{quoted(line)} has no {'target' if source else 'source'} word; {_PAIR_FORMAT}")
        weight = positive_number(fields[2]) if len(fields) == 3 else 1.0
        if weight is None:
            lines.refuse(number, f"the weight {quoted(fields[2])} must be a finite number above 0; leave it out for 1")
        if lowercase:
            source, target = source.lower(), target.lower()
        entry = dictionary.setdefault(source, {})
        entry[target] = max(weight, entry.get(target, 0.0))
    return dictionary


def positive_number(text: str) -> float | None:
    """The number that a field holds; None if it is not a finite one above 0."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


_NULL = "<NULL>"
# What stands between the kind of a line and its number, and the kinds.
_PRIOR_FIELDS = {"LEX": 2, "FERF": 2, "FERR": 2, "HMMF": 1, "HMMR": 1}
_PRIORS = "write LEX, source word, target word and a number, or FERF, FERR, HMMF or HMMR, as eflomal-makepriors does"


def read_priors(path: str | os.PathLike[str], *, lowercase: bool = False) -> dict[str, dict[str, float]]:
    r"""Read the lexical priors of a file that eflomal-makepriors wrote: lines of LEX, source word, target word, number.

    Lines of jumps and fertilities, and of NULL, are checked and left out. Numbers of a pair that is given several times
    are added up.

    Parameters
    ----------
    path : path or "-"
        UTF-8, plain or gzipped; ``-`` is standard input.
    lowercase : bool
        Lower-case all words (``str.lower``).

    Returns
    -------
    dict of source word -> dict of target word -> float
        How often each pair was linked. With ``dictionary_strength=1`` it is a ``dictionary`` of `spectrem.WordAligner`.

    Raises
    ------
    InvalidInputError
        Naming file and line: an unknown kind, another number of fields, or a number that is not finite and above 0.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/priors", ["LEX\thouse\tmaison\t12", "FERF\thouse\t1\t9", "HMMF\t1\t80"])
    ...     read_priors(f"{folder}/priors")
    {'house': {'maison': 12.0}}
    """
    as_bool(lowercase, "lowercase")
    lines = read_lines(path)
    priors: dict[str, dict[str, float]] = {}
    for number, line in enumerate(lines.lines):
        if not line:
            continue
        kind, *between, last = line.split("\t") if "\t" in line else (line, "")
        if kind not in _PRIOR_FIELDS or len(between) != _PRIOR_FIELDS[kind]:
            lines.refuse(number, f"{quoted(line)} is not a prior; {_PRIORS}")
        count = positive_number(last)
        if count is None:
            lines.refuse(number, f"{quoted(last)} must be a finite number above 0; {_PRIORS}")
        if kind == "LEX" and _NULL not in between:
            source, target = (word.lower() for word in between) if lowercase else between
            entry = priors.setdefault(source, {})
            entry[target] = entry.get(target, 0.0) + count
    return priors


def prior_lines(
    links: Iterable[tuple[str, str, float]], jumps: Mapping[int, float], other_jumps: Mapping[int, float]
) -> Iterator[str]:
    r"""Lines of expected links and jumps that eflomal-align reads as ``--priors``.

    Parameters
    ----------
    links : iterable of (source word, target word, count)
    jumps, other_jumps : mapping of width -> count
        Moves over source words from one target word to the next, and over target words; from before the first word,
        and to behind the last one, too.

    Examples
    --------
    >>> list(prior_lines([("house", "maison", 12.5)], {1: 80.0}, {}))
    ['LEX\thouse\tmaison\t12.5', 'HMMF\t1\t80']
    """
    for source, target, count in links:
        yield f"LEX\t{source}\t{target}\t{count:g}"
    for kind, counts in (("HMMF", jumps), ("HMMR", other_jumps)):
        for width, count in sorted(counts.items()):
            yield f"{kind}\t{width}\t{count:g}"


WORD, CLASS, SEPARATOR = "word", "class", "|"


@brief_dataclass(frozen=True)
class FactoredBitext:
    """A bitext of words, and the classes that its tokens gave them.

    Attributes
    ----------
    bitext : Bitext
    source_classes, target_classes : dict of word -> class
        The class of most of the tokens of every word; empty where tokens have none.

    Examples
    --------
    >>> from spectrem.data import encode_bitext
    >>> found = split_factors(encode_bitext(["saw|see"], ["sah|sehen"]), "word|class")
    >>> found.source_classes, found.target_classes
    ({'saw': 'see'}, {'sah': 'sehen'})
    """

    bitext: Bitext
    source_classes: dict[str, str]
    target_classes: dict[str, str]


def split_factors(bitext: Bitext, factors: str) -> FactoredBitext:
    """Take tokens with several factors apart.

    Parameters
    ----------
    bitext : Bitext
        Its words are factors with ``|`` between them.
    factors : str
        What the factors of a token are, with ``|`` between them, too: one of them is ``word``, which is aligned; one
        may be ``class``, for `WordAligner.fit`; what others are called does not matter.

    Returns
    -------
    FactoredBitext
        The bitext of words, and the classes of its tokens if there are any.

    Raises
    ------
    InvalidInputError
        If no factor or several are the word, several are the class, or a token has another number of factors or
        an empty word.

    Examples
    --------
    >>> from spectrem.data import encode_bitext
    >>> tagged = encode_bitext(["the|the|DT houses|house|NNS"], ["les|le|DET maisons|maison|NC"])
    >>> factored = split_factors(tagged, "word|class|tag")
    >>> factored.bitext.target_vocabulary.words, factored.source_classes
    (('les', 'maisons'), {'the': 'the', 'houses': 'house'})
    >>> split_factors(tagged, "form|word|tag").bitext.target_vocabulary.words
    ('le', 'maison')
    """
    names = factors.split(SEPARATOR)
    if names.count(WORD) != 1 or names.count(CLASS) > 1:
        raise InvalidInputError(
            f"factors must name one {WORD} and at most one {CLASS}, got {quoted(factors)}; write {WORD}|{CLASS}|tag"
        )
    (source, source_classes), (target, target_classes) = (
        _split_side(name, side, names) for name, side in zip(("source", "target"), bitext.sides, strict=True)
    )
    return FactoredBitext(Bitext.of_sides(source, target), source_classes, target_classes)


def _split_side(name: str, side: Side, names: Sequence[str]) -> tuple[Side, dict[str, str]]:
    tokens, offsets, vocabulary = side
    split = [token.split(SEPARATOR) for token in vocabulary.words]
    place = names.index(WORD)
    wrong = np.array([len(fields) != len(names) or not fields[place] for fields in split], np.bool_)
    if wrong.any():
        at = int(np.argmax(np.append(wrong, False)[tokens])) if len(tokens) else 0
        line = int(np.searchsorted(offsets, at, side="right"))
        token = vocabulary.words[tokens[at]] if len(tokens) and wrong[tokens[at]] else vocabulary.words[wrong.argmax()]
        n_factors, wanted = token.count(SEPARATOR) + 1, quoted(SEPARATOR.join(names))
        problem = f"has {n_factors} factors, and {wanted} names {len(names)}; give every token as many"
        if n_factors == len(names):
            problem = f"has an empty word where {wanted} names it; write one, and {SEPARATOR} inside words as &#124;"
        raise InvalidInputError(f"{name} sentence {line} (counted from 1): {quoted(token)} {problem}")
    words = [fields[place] for fields in split]
    distinct = Vocabulary.from_words(words)
    numbers = np.append(distinct.lookup(words), np.int32(-1))
    return Side(numbers[tokens], offsets, distinct), _classes(tokens, split, words, names)


def _classes(
    tokens: NDArray[np.int32], split: list[list[str]], words: list[str], names: Sequence[str]
) -> dict[str, str]:
    """The class of most tokens of every word; of equally many the first."""
    if CLASS not in names:
        return {}
    counts = np.bincount(tokens[tokens >= 0], minlength=len(words)).tolist()
    sums: dict[tuple[str, str], int] = {}
    for word, fields, count in zip(words, split, counts, strict=True):
        pair = word, fields[names.index(CLASS)]
        sums[pair] = sums.get(pair, 0) + count
    classes: dict[str, str] = {}
    for (word, name), count in sums.items():
        if word not in classes or count > sums[word, classes[word]]:
            classes[word] = name
    return classes
