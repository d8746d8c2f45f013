"""Chunks that tags such as B-NP and I-NP mark, and how well predicted ones agree with gold ones: conlleval's counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spectrem.exceptions import InvalidInputError, quoted
from spectrem.metrics._labels import check_same_length


class Chunk(NamedTuple):
    """Tokens ``start`` to ``stop - 1`` of a sentence, of a type such as NP."""

    type: str
    start: int
    stop: int


@dataclass(frozen=True)
class ChunkCounts:
    """Chunks that were predicted, those that should have been, and those in both.

    Attributes
    ----------
    n_correct, n_predicted, n_gold : int
    precision, recall, f1 : float
        In [0, 1]; NaN where there is nothing to be counted: precision without predicted chunks, recall without gold
        ones, and F1 without either.
    """

    n_correct: int
    n_predicted: int
    n_gold: int

    @property
    def precision(self) -> float:
        return self.n_correct / self.n_predicted if self.n_predicted else math.nan

    @property
    def recall(self) -> float:
        return self.n_correct / self.n_gold if self.n_gold else math.nan

    @property
    def f1(self) -> float:
        both = self.n_predicted + self.n_gold
        return 2 * self.n_correct / both if both else math.nan


@dataclass(frozen=True)
class ChunkScores(ChunkCounts):
    """`ChunkCounts` of all types together, and of each.

    Attributes
    ----------
    by_type : dict of str -> ChunkCounts
        Sorted by type.
    accuracy : float
        Share of tokens whose tag is right, in [0, 1]; NaN without tokens.
    """

    by_type: dict[str, ChunkCounts] = field(default_factory=dict)
    accuracy: float = math.nan


def find_chunks(tags: Sequence[str]) -> list[Chunk]:
    """The chunks of a sentence in the schemes BIO, IOB1 and BIOES, read as conlleval reads them.

    A tag is O, or a letter and, behind a hyphen, a type. A chunk begins at B and S, after E and S, where the type
    changes, and at any other tag after O. So IOB1, which has B only between neighbours of one type, and sequences that
    break the rules of a scheme have chunks, too.

    Parameters
    ----------
    tags : sequence of str

    Raises
    ------
    InvalidInputError
        If a tag is not text.

    Examples
    --------
    >>> find_chunks(["B-NP", "I-NP", "B-NP", "O", "I-VP", "I-NP"])  # doctest: +NORMALIZE_WHITESPACE
    [Chunk(type='NP', start=0, stop=2), Chunk(type='NP', start=2, stop=3), Chunk(type='VP', start=4, stop=5),
     Chunk(type='NP', start=5, stop=6)]
    """
    found: list[Chunk] = []
    start, letter_before, type_before = -1, "O", ""
    for t, tag in enumerate(tags):
        if not isinstance(tag, str):
            raise InvalidInputError(f"tags of chunks must be text such as B-NP, got {quoted(tag)} at token {t}")
        letter, _, kind = tag.partition("-")
        outside = letter in ("O", ".")
        begins = letter in ("B", "S") or letter_before in ("O", ".", "E", "S") or kind != type_before
        if start >= 0 and (outside or begins):
            found.append(Chunk(type_before, start, t))
            start = -1
        if not outside and start < 0:
            start = t
        letter_before, type_before = letter, kind
    if start >= 0:
        found.append(Chunk(type_before, start, len(tags)))
    return found


def chunk_scores(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> ChunkScores:
    """Precision, recall and F1 of chunks, as conlleval counts them.

    A predicted chunk is right if a gold chunk has the same tokens and the same type.

    Parameters
    ----------
    predicted, gold : sequence of sequences of str
        Tags, sentence by sentence, as `find_chunks` reads them: no chunk goes on from one sentence to the next.

    Returns
    -------
    ChunkScores

    Raises
    ------
    InvalidInputError
        If numbers of sentences or tokens differ, or a tag is not text.

    Examples
    --------
    >>> scores = chunk_scores([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "I-NP", "O", "B-NP"]])
    >>> scores.f1, scores.by_type["NP"].recall, scores.accuracy
    (0.5, 0.5, 0.75)
    """
    sentences = _sentences(predicted, "predicted"), _sentences(gold, "gold")
    check_same_length("predicted", len(sentences[0]), "gold", len(sentences[1]))
    n_correct, n_predicted, n_gold = Counter[str](), Counter[str](), Counter[str]()
    n_tokens = n_right = 0
    for number, (guess, truth) in enumerate(zip(*sentences, strict=True)):
        if len(guess) != len(truth):
            raise InvalidInputError(
                f"predicted and gold must have a tag for the same tokens, got {len(guess)} and {len(truth)} in "
                f"sentence {number}; give taggings of one text"
            )
        guessed, true = find_chunks(guess), find_chunks(truth)
        n_predicted.update(chunk.type for chunk in guessed)
        n_gold.update(chunk.type for chunk in true)
        n_correct.update(chunk.type for chunk in set(guessed) & set(true))
        n_tokens += len(truth)
        n_right += sum(map(str.__eq__, guess, truth))
    total, by_type = count_by_type(n_correct, n_predicted, n_gold)
    accuracy = n_right / n_tokens if n_tokens else math.nan
    return ChunkScores(total.n_correct, total.n_predicted, total.n_gold, by_type, accuracy)


def count_by_type(
    n_correct: Counter[str], n_predicted: Counter[str], n_gold: Counter[str]
) -> tuple[ChunkCounts, dict[str, ChunkCounts]]:
    """Counts of all types together, and of each, sorted by type."""
    types = sorted(n_predicted.keys() | n_gold.keys())
    total = ChunkCounts(n_correct.total(), n_predicted.total(), n_gold.total())
    return total, {kind: ChunkCounts(n_correct[kind], n_predicted[kind], n_gold[kind]) for kind in types}


def _sentences(tags: Sequence[Sequence[str]], name: str) -> list[list[str]]:
    listed = [sentence if isinstance(sentence, str) else list(sentence) for sentence in tags]
    if isinstance(tags, str) or any(isinstance(sentence, str) for sentence in listed):
        raise InvalidInputError(
            f"{name} must hold the tags of every sentence in a sequence of its own, got text; put them in a list"
        )
    return listed  # type: ignore[return-value]
