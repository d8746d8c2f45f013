"""How well brackets of sentences agree with gold ones: PARSEVAL, crossing brackets, and what simple trees reach."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from spectrem._validate import as_bool, as_lengths
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.metrics._labels import check_same_length
from spectrem.metrics.chunks import ChunkCounts
from spectrem.metrics.significance import SignTest, sign_test

Brackets: TypeAlias = Sequence[Sequence[tuple[int, int]]]
"""Spans (start, end) of every sentence, counted from 0; end is the position behind the last word."""


@dataclass(frozen=True)
class BracketScores(ChunkCounts):
    """Unlabelled PARSEVAL over all brackets of a text, and crossing brackets.

    Attributes
    ----------
    n_crossing : int
        Predicted brackets that cross a gold one: they overlap, and neither holds the other.
    n_sentences : int
    crossing : float
        Crossing brackets per sentence; NaN without sentences.
    """

    n_crossing: int = 0
    n_sentences: int = 0

    @property
    def crossing(self) -> float:
        return self.n_crossing / self.n_sentences if self.n_sentences else math.nan


@dataclass(frozen=True)
class BracketingComparison:
    """Sign tests between two bracketings of one text, by sentence.

    Attributes
    ----------
    matches : SignTest
        Sentences in which the first, or the second, has more brackets right.
    crossing : SignTest
        Sentences in which the first, or the second, has fewer crossing brackets.
    """

    matches: SignTest
    crossing: SignTest


def bracket_scores(predicted: Brackets, gold: Brackets, lengths: ArrayLike, *, whole: bool = False) -> BracketScores:
    """Compare brackets without labels, by bracket rather than by sentence ([SmithEisner2004] §6.2).

    Single words count for nothing, nor do whole sentences, which every tree has, unless ``whole`` is true.

    Parameters
    ----------
    predicted, gold : sequence of sequences of (start, end)
        The brackets of every sentence; repeated ones count once.
    lengths : array-like of shape (n_sentences,), int
        Words of every sentence.
    whole : bool
        Whether brackets around whole sentences count, as in [KleinManning2002], whose scores are higher by it.

    Raises
    ------
    InvalidInputError
        If numbers of sentences differ, or a bracket does not lie inside its sentence.

    Examples
    --------
    >>> scores = bracket_scores([[(0, 4), (0, 3), (1, 3)]], [[(0, 4), (2, 4), (1, 3)]], [4])
    >>> scores.precision, scores.recall, scores.n_crossing
    (0.5, 0.5, 2)
    """
    correct = n_predicted = n_gold = crossing = n_sentences = 0
    for guess, truth in _pairs(predicted, gold, lengths, as_bool(whole, "whole")):
        correct += len(guess & truth)
        n_predicted += len(guess)
        n_gold += len(truth)
        crossing += _count_crossing(guess, truth)
        n_sentences += 1
    return BracketScores(correct, n_predicted, n_gold, crossing, n_sentences)


def compare_bracketings(first: Brackets, second: Brackets, gold: Brackets, lengths: ArrayLike) -> BracketingComparison:
    """Sign tests between two bracketings, by sentence ([SmithEisner2004] §6.2).

    Parameters
    ----------
    first, second, gold : sequence of sequences of (start, end)
    lengths : array-like of shape (n_sentences,), int
        Words of every sentence.

    Raises
    ------
    InvalidInputError
        As `bracket_scores`.

    Examples
    --------
    >>> right, left = branching([4, 4], "right"), branching([4, 4], "left")
    >>> compare_bracketings(right, left, [[(1, 4)], [(2, 4)]], [4, 4])  # doctest: +NORMALIZE_WHITESPACE
    BracketingComparison(matches=SignTest(n_first=2, n_second=0, p_value=0.5),
                         crossing=SignTest(n_first=2, n_second=0, p_value=0.5))
    """
    matches, crossing = [], []
    for predicted in (first, second):
        pairs = list(_pairs(predicted, gold, lengths, False))
        matches.append([len(guess & truth) for guess, truth in pairs])
        crossing.append([-_count_crossing(guess, truth) for guess, truth in pairs])
    return BracketingComparison(sign_test(*matches), sign_test(*crossing))


def branching(lengths: ArrayLike, direction: str = "right") -> list[list[tuple[int, int]]]:
    """The trees of which every constituent ends (or begins) where its sentence does: a baseline for languages.

    Parameters
    ----------
    lengths : array-like of shape (n_sentences,), int
    direction : {"right", "left"}
        "right": all constituents end with the sentence, which suits English; "left": all begin with it.

    Raises
    ------
    InvalidInputError
        If ``direction`` is another.

    Examples
    --------
    >>> branching([4, 1]), branching([3], "left")
    ([[(0, 4), (1, 4), (2, 4)], []], [[(0, 2), (0, 3)]])
    """
    if direction not in ("right", "left"):
        raise InvalidInputError(f"direction must be right or left, got {quoted(direction)}; for English take right")
    sizes = as_lengths(lengths, "lengths").tolist()
    if direction == "right":
        return [[(start, n) for start in range(n - 1)] for n in sizes]
    return [[(0, end) for end in range(2, n + 1)] for n in sizes]


def binary_ceiling(gold: Brackets, lengths: ArrayLike) -> list[list[tuple[int, int]]]:
    """Binary trees that have every gold bracket: no bracketing by binary trees scores higher than theirs.

    Parameters
    ----------
    gold : sequence of sequences of (start, end)
    lengths : array-like of shape (n_sentences,), int

    Raises
    ------
    InvalidInputError
        As `bracket_scores`, and if gold brackets cross each other, so that no tree has them all.

    Examples
    --------
    >>> binary_ceiling([[(1, 3)]], [4])
    [[(0, 4), (1, 3), (1, 4)]]
    """
    trees = []
    for number, (truth, n) in enumerate(zip(_checked("gold", gold, lengths), _sizes(lengths), strict=True)):
        tree: set[tuple[int, int]] = set()
        # from short to long: the parts of a span are the longest brackets inside, and single words
        part_at = {start: start + 1 for start in range(n)}
        for start, end in sorted({*truth, *([(0, n)] if n else [])}, key=lambda span: span[1] - span[0]):
            cuts = [start]
            while cuts[-1] < end:
                cuts.append(part_at.get(cuts[-1], n + 1))
            if cuts[-1] != end:
                raise InvalidInputError(
                    f"gold must hold brackets that do not cross each other, got {(start, end)} across another one in "
                    f"sentence {number}; no tree has both"
                )
            tree.update((cut, end) for cut in cuts[:-2])
            for cut in cuts[1:-1]:
                del part_at[cut]
            part_at[start] = end
        trees.append(sorted(tree | {span for span in truth if span[1] - span[0] > 1}))
    return trees


def _pairs(
    predicted: Brackets, gold: Brackets, lengths: ArrayLike, whole: bool
) -> Iterator[tuple[set[tuple[int, int]], set[tuple[int, int]]]]:
    """The brackets of every sentence that count, predicted and gold."""
    check_same_length("predicted", len(predicted), "gold", len(gold))
    both = zip(_checked("predicted", predicted, lengths), _checked("gold", gold, lengths), strict=True)
    for pair, n in zip(both, _sizes(lengths), strict=True):
        left, right = ({span for span in own if 1 < span[1] - span[0] < n + whole} for own in pair)
        yield left, right


def _checked(name: str, brackets: Brackets, lengths: ArrayLike) -> Iterator[set[tuple[int, int]]]:
    sizes = _sizes(lengths)
    if len(brackets) != len(sizes):
        raise InvalidInputError(
            f"lengths must have one number for each of the {len(brackets)} sentences of {name}, got {len(sizes)}; give "
            "the words of every sentence"
        )
    for number, (own, n) in enumerate(zip(brackets, sizes, strict=True)):
        spans = {_span(name, span, number) for span in (own if hasattr(own, "__iter__") else [own])}
        outside = next((span for span in sorted(spans) if not 0 <= span[0] < span[1] <= n), None)
        if outside is not None:
            raise InvalidInputError(
                f"{name} must hold brackets (start, end) with 0 <= start < end <= {n} in sentence {number} of {n} "
                f"words, got {outside}; count from 0, and give the position behind the last word as end"
            )
        yield spans


def _span(name: str, span: Any, sentence: int) -> tuple[int, int]:
    listed = span.tolist() if isinstance(span, np.ndarray) else span
    whole = isinstance(listed, tuple | list) and all(isinstance(end, int | np.integer) for end in listed)
    if not whole or len(listed) != 2:
        raise InvalidInputError(
            f"{name} must hold brackets (start, end) of whole numbers, got {quoted(span)} in sentence {sentence}; "
            "leave labels out"
        )
    return int(listed[0]), int(listed[1])


def _sizes(lengths: ArrayLike) -> list[int]:
    return as_lengths(np.asarray(lengths), "lengths").tolist()


def _count_crossing(guess: set[tuple[int, int]], truth: set[tuple[int, int]]) -> int:
    """Brackets of the first set that cross one of the second."""
    return sum(any(a < c < b < d or c < a < d < b for c, d in truth) for a, b in guess)
