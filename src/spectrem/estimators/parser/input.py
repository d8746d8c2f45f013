"""What EdgeFactoredParser accepts as sentences, heads and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_array
from spectrem.data import UNKNOWN_HEAD, ParsedSentence, projectivise
from spectrem.data.treebank import check_texts, describe_problem, is_projective
from spectrem.estimators.sentence_columns import read_sentence_columns
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.parsing import FREE, GIVEN, SHARED
from spectrem.models.shards import Columns
from spectrem.structures import ProjectiveTrees

# How far the probabilities of the heads of a word may be from 1 together.
_ROUNDING = 1e-6


class Heads(NamedTuple):
    """What is known of the heads of all sentences.

    Attributes
    ----------
    heads : ndarray of shape (n_tokens,), int64
        -2 where not known.
    kinds : ndarray of shape (n_sentences,), int
        FREE, GIVEN or SHARED.
    shares : dict of int -> ndarray of shape (length, length)
    n_lifted : int
        Heads that were changed to make trees projective.
    """

    heads: Ints
    kinds: Ints
    shares: dict[int, Floats]
    n_lifted: int


def read_sentences(sentences: Any) -> list[ParsedSentence]:
    """A list of sentences with as many tags as words.

    Raises
    ------
    InvalidInputError
        If something else was given; names the sentence.
    """
    if isinstance(sentences, ParsedSentence | str) or not isinstance(sentences, Iterable):
        raise InvalidInputError(
            f"sentences must be an iterable of ParsedSentence, got {quoted(sentences)}; read_conllu gives a list"
        )
    found = list(sentences)
    for number, sentence in enumerate(found):
        if not isinstance(sentence, ParsedSentence):
            raise InvalidInputError(
                f"sentences must be ParsedSentences, got {quoted(sentence)} for sentence {number}; make one as "
                "ParsedSentence(forms, upos, xpos), with '_' where there is no tag"
            )
        check_texts(sentence, number)
        sizes = {len(sentence.forms), len(sentence.upos), len(sentence.xpos)}
        if len(sizes) > 1:
            raise InvalidInputError(
                f"sentence {number} must have one upos and one xpos per word, got {len(sentence.forms)} words, "
                f"{len(sentence.upos)} and {len(sentence.xpos)}; write '_' where there is no tag"
            )
    return found


def read_heads(sentences: Sequence[ParsedSentence], heads: Any, projective: bool) -> Heads:
    """What is known of the heads of sentences; those of complete trees are made projective where asked.

    Parameters
    ----------
    sentences : sequence of ParsedSentence
    heads : sequence or None
        Per sentence None, heads, or a matrix of probabilities; by default those of the sentences.
    projective : bool

    Raises
    ------
    InvalidInputError
        Naming the sentence and what is wrong.
    """
    if isinstance(heads, str | Mapping) or not (heads is None or hasattr(heads, "__len__")):
        raise InvalidInputError(f"heads must be a list, one entry per sentence, got {quoted(heads)}; put it in one")
    given = [sentence.heads for sentence in sentences] if heads is None else list(heads)
    if len(given) != len(sentences):
        raise InvalidInputError(
            f"heads must be given for every sentence, got {len(given)} for {len(sentences)}; give None for a sentence "
            "without heads"
        )
    numbers, kinds, shares, n_lifted = [], np.zeros(len(sentences), np.int64), {}, 0
    for number, (sentence, own) in enumerate(zip(sentences, given, strict=True)):
        n = len(sentence.forms)
        found = np.full(n, UNKNOWN_HEAD)
        array = None if own is None else as_array(own, f"heads of sentence {number}")
        if array is not None and array.ndim == 2:
            shares[number], kinds[number] = _read_shares(number, array, n), SHARED
        elif array is not None:
            found = _read_numbers(number, array, n)
            kinds[number] = FREE if (found == UNKNOWN_HEAD).any() else GIVEN
            if projective and kinds[number] == GIVEN and not is_projective(found):
                lifted = projectivise(found)
                n_lifted += int((lifted != found).sum())
                found = lifted
        numbers.append(found)
    return Heads(np.concatenate([np.zeros(0, np.int64), *numbers]), kinds, shares, n_lifted)


TAGS = ("upos", "xpos", "tag")
"""Columns of words that hold tags."""
_WORDS = ("form", *TAGS)
_TAKEN = ("labelled", *_WORDS, *(f"{end}_{name}" for end in ("head", "dependent") for name in _WORDS))


def read_columns(sentences: Sequence[ParsedSentence], columns: Any, tags: str | None) -> Columns:
    """Columns for constraints: those given, and the words and tags of the sentences.

    Parameters
    ----------
    sentences : sequence of ParsedSentence
    columns : mapping of name -> sequence, or None
        As `read_sentence_columns` takes them.
    tags : {"upos", "xpos"} or None
        Which tags are ``tag``. None: only the columns given are made.
    """
    lengths = np.array([len(sentence.forms) for sentence in sentences], np.int64)
    found = read_sentence_columns(columns, lengths, (*_TAKEN, *ProjectiveTrees([0]).columns))
    if tags is None:
        return found
    words = {
        name: np.array([value for one in sentences for value in getattr(one, field)], np.str_)
        for name, field in zip(_WORDS, ("forms", "upos", "xpos", tags), strict=True)
    }
    return found._replace(of_words={**words, **found.of_words})


def _read_numbers(number: int, array: NDArray, n: int) -> Ints:
    if array.shape != (n,) or (n and array.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"heads of sentence {number} must be {n} integers, one per word, or a matrix of probabilities of shape "
            f"({n}, {n}), got shape {array.shape} of {array.dtype}"
        )
    found = array.astype(np.int64)
    problem = describe_problem(found)
    if problem is not None:
        raise InvalidInputError(
            f"heads of sentence {number} must fit a tree, but {problem[1]}; heads count from 0, -1 is the root, -2 is "
            "not known"
        )
    return found


def _read_shares(number: int, own: NDArray, n: int) -> Floats:
    if own.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"heads of sentence {number} must be numbers, or a matrix of probabilities, got {own.dtype}; give numbers"
        )
    array = own.astype(np.float64)
    if array.shape != (n, n) or not ((array >= 0) & (array <= 1 + _ROUNDING)).all():
        raise InvalidInputError(
            f"heads of sentence {number} must be probabilities of shape ({n}, {n}), [dependent, head], got shape "
            f"{array.shape} with values from {array.min(initial=0)} to {array.max(initial=0)}"
        )
    off = np.abs(array.sum(axis=1) - 1.0)
    if n and off.max() > _ROUNDING:
        word = int(np.argmax(off))
        raise InvalidInputError(
            f"heads of sentence {number} must be probabilities that add up to 1 for every word, but add up to "
            f"{array[word].sum():.6g} for word {word}; the arc from the root stands on the diagonal"
        )
    return array
