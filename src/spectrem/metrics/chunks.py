"""Chunks, brackets and relations against gold ones: precision, recall and F1."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from spectrem._reprs import brief_dataclass, briefly_shown
from spectrem._validate import as_bool, as_lengths
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.metrics.tagging import SignTest, check_same_length, sign_test

__all__ = [
    "BracketScores",
    "BracketingComparison",
    "Chunk",
    "ChunkCounts",
    "ChunkScores",
    "LabelScores",
    "RelationScores",
    "binary_ceiling",
    "bracket_scores",
    "branching",
    "chunk_scores",
    "compare_bracketings",
    "find_chunks",
    "relation_scores",
]


class Chunk(NamedTuple):
    """Tokens ``start`` to ``stop - 1`` of a sentence, of a type such as NP.

    Attributes
    ----------
    type : str
    start, stop : int
        Tokens from 0; ``stop`` is the position behind the last.

    Examples
    --------
    >>> from spectrem.metrics import find_chunks
    >>> find_chunks(["B-NP", "I-NP", "O"])
    [Chunk(type='NP', start=0, stop=2)]
    """

    type: str
    start: int
    stop: int


@brief_dataclass(frozen=True)
class ChunkCounts:
    """Chunks that were predicted, those that should have been, and those in both.

    Attributes
    ----------
    n_correct, n_predicted, n_gold : int
    precision, recall, f1 : float
        In [0, 1]; NaN where there is nothing to be counted: precision without predicted chunks, recall without gold
        ones, and F1 without either.

    Examples
    --------
    >>> counts = ChunkCounts(n_correct=3, n_predicted=4, n_gold=6)
    >>> counts.precision, counts.recall, round(counts.f1, 3)
    (0.75, 0.5, 0.6)
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


@brief_dataclass(frozen=True)
class ChunkScores(ChunkCounts):
    """`ChunkCounts` of all types together, and of each.

    Attributes
    ----------
    n_correct, n_predicted, n_gold : int
    by_type : dict of str -> ChunkCounts
        Sorted by type.
    accuracy : float
        Share of tokens whose tag is right, in [0, 1]; NaN without tokens.

    Examples
    --------
    >>> scores = chunk_scores([["B-NP", "I-NP", "O"]], [["B-NP", "I-NP", "B-VP"]])
    >>> scores.precision, scores.recall, sorted(scores.by_type)
    (1.0, 0.5, ['NP', 'VP'])
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

    Returns
    -------
    list of Chunk
        From left to right.

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
    chunks: list[Chunk] = []
    start, letter_before, type_before = -1, "O", ""
    for t, tag in enumerate(tags):
        if not isinstance(tag, str):
            raise InvalidInputError(f"tags of chunks must be text such as B-NP, got {quoted(tag)} at token {t}")
        letter, _, kind = tag.partition("-")
        outside = letter in ("O", ".")
        begins = letter in ("B", "S") or letter_before in ("O", ".", "E", "S") or kind != type_before
        if start >= 0 and (outside or begins):
            chunks.append(Chunk(type_before, start, t))
            start = -1
        if not outside and start < 0:
            start = t
        letter_before, type_before = letter, kind
    if start >= 0:
        chunks.append(Chunk(type_before, start, len(tags)))
    return chunks


def are_chunk_tags(tags: Iterable[object]) -> bool:
    """Whether tags mark chunks: all are O, or B, I, E or S and a type behind a hyphen, or all are B, I and O alone.

    Examples
    --------
    >>> are_chunk_tags(["O", "B-NP", "I-NP"]), are_chunk_tags(["B", "I", "O"]), are_chunk_tags(["O", "NOUN"])
    (True, True, False)
    """
    kinds = set(tags) - {"O"}
    return bool(kinds) and (
        kinds == {"B", "I"} or all(isinstance(tag, str) and re.fullmatch("[BIES]-.+", tag) for tag in kinds)
    )


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
    return total, {name: ChunkCounts(n_correct[name], n_predicted[name], n_gold[name]) for name in types}


def _sentences(tags: Sequence[Sequence[str]], name: str) -> list[list[str]]:
    listed = [sentence if isinstance(sentence, str) else list(sentence) for sentence in tags]
    if isinstance(tags, str) or any(isinstance(sentence, str) for sentence in listed):
        raise InvalidInputError(
            f"{name} must hold the tags of every sentence in a sequence of its own, got text; put them in a list"
        )
    return listed  # type: ignore[return-value]


Brackets: TypeAlias = Sequence[Sequence[tuple[int, int]]]
"""Spans (start, end) of every sentence, counted from 0; end is the position behind the last word."""


@brief_dataclass(frozen=True)
class BracketScores(ChunkCounts):
    """Unlabelled PARSEVAL over all brackets of a text, and crossing brackets.

    Attributes
    ----------
    n_correct, n_predicted, n_gold : int
    n_crossing : int
        Predicted brackets that cross a gold one: they overlap, and neither holds the other.
    n_sentences : int
    crossing : float
        Crossing brackets per sentence; NaN without sentences.

    Examples
    --------
    >>> scores = bracket_scores([[(0, 4), (0, 2), (2, 4)]], [[(0, 4), (0, 2)]], [4])
    >>> scores.precision, scores.recall, scores.n_crossing
    (0.5, 1.0, 0)
    """

    n_crossing: int = 0
    n_sentences: int = 0

    @property
    def crossing(self) -> float:
        return self.n_crossing / self.n_sentences if self.n_sentences else math.nan


@brief_dataclass(frozen=True)
class BracketingComparison:
    """Sign tests between two bracketings of one text, by sentence.

    Attributes
    ----------
    matches : SignTest
        Sentences in which the first, or the second, has more brackets right.
    crossing : SignTest
        Sentences in which the first, or the second, has fewer crossing brackets.

    Examples
    --------
    >>> first, second, gold = [[(0, 3), (1, 3)]], [[(0, 3), (0, 2)]], [[(0, 3), (1, 3)]]
    >>> compare_bracketings(first, second, gold, [3]).matches
    SignTest(n_first=1, n_second=0, p_value=1.0)
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

    Returns
    -------
    BracketScores
        Numbers of brackets, from which it takes precision, recall and F1.

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

    Returns
    -------
    BracketingComparison
        A sign test of matching brackets, and one of crossing brackets.

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

    Returns
    -------
    list of lists of (int, int)
        The brackets of every sentence.

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

    Returns
    -------
    list of lists of (int, int)
        The brackets of every sentence.

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
        left, right = ({span for span in spans if 1 < span[1] - span[0] < n + whole} for spans in pair)
        yield left, right


def _checked(name: str, brackets: Brackets, lengths: ArrayLike) -> Iterator[set[tuple[int, int]]]:
    sizes = _sizes(lengths)
    if len(brackets) != len(sizes):
        raise InvalidInputError(
            f"lengths must have one number for each of the {len(brackets)} sentences of {name}, got {len(sizes)}; give "
            "the words of every sentence"
        )
    for number, (sentence, n) in enumerate(zip(brackets, sizes, strict=True)):
        spans = {_span(name, span, number) for span in (sentence if hasattr(sentence, "__iter__") else [sentence])}
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


@brief_dataclass(frozen=True)
class LabelScores:
    """Precision, recall and F1 of labels, each and together.

    Attributes
    ----------
    total : ChunkCounts
        Of all labels together.
    by_label : dict of str -> ChunkCounts
        Sorted by label.

    Examples
    --------
    >>> one, two = ChunkCounts(1, 1, 1), ChunkCounts(0, 1, 1)
    >>> LabelScores(ChunkCounts(1, 2, 2), {"a": one, "b": two}).macro_f1
    0.5
    """

    total: ChunkCounts
    by_label: dict[str, ChunkCounts]

    @property
    def macro_f1(self) -> float:
        """The mean of the F1 of all labels that some gold label is; NaN without any."""
        scores = [counts.f1 for counts in self.by_label.values() if counts.n_gold]
        return sum(scores) / len(scores) if scores else math.nan


@briefly_shown
class RelationScores(NamedTuple):
    """Scores of the types of mentions, and of the relations of ordered pairs of them.

    Attributes
    ----------
    types : LabelScores
    relations : LabelScores

    Examples
    --------
    >>> from spectrem.data import RelationSentence
    >>> gold = [RelationSentence(["Ray", "shot", "King"], [(0, 1), (2, 3)], ["Peop", "Peop"], {(0, 1): "Kill"})]
    >>> relation_scores(gold, gold).relations.total.f1
    1.0
    """

    types: LabelScores
    relations: LabelScores


def relation_scores(predicted: Sequence[Any], gold: Sequence[Any]) -> RelationScores:
    """Scores of types and relations, mentions being given; a relation counts whatever types its mentions have.

    Gold labels that are not known do not count.

    Parameters
    ----------
    predicted, gold : sequence of RelationSentence
        With the same mentions.

    Returns
    -------
    RelationScores
        Precision, recall and F1 of types and of relations.

    Raises
    ------
    InvalidInputError
        If sentences, words or mentions differ.

    Examples
    --------
    >>> from spectrem.data import RelationSentence
    >>> words, mentions = ["Oswald", "shot", "Kennedy"], [(0, 1), (2, 3)]
    >>> gold = RelationSentence(words, mentions, ["Peop", "Peop"], {(0, 1): "Kill"})
    >>> guess = RelationSentence(words, mentions, ["Peop", "Loc"], {(0, 1): "Kill", (1, 0): "Kill"})
    >>> scores = relation_scores([guess], [gold])
    >>> scores.types.by_label["Peop"].recall, round(scores.relations.macro_f1, 3)
    (0.5, 0.667)
    """
    check_same_length("predicted", len(predicted), "gold", len(gold))
    types: list[tuple[Any, Any]] = []
    relations: list[tuple[Any, Any]] = []
    for number, (guess, truth) in enumerate(zip(predicted, gold, strict=True)):
        if guess.words != truth.words:
            raise InvalidInputError(
                f"predicted and gold must have the same words, got {quoted(guess.words)} and {quoted(truth.words)} in "
                f"sentence {number}; give labellings of one text"
            )
        if guess.mentions != truth.mentions:
            raise InvalidInputError(
                f"predicted and gold must have the same mentions, got {guess.mentions} and {truth.mentions} in "
                f"sentence {number}; give labellings of one text"
            )
        types += [pair for pair in zip(guess.types, truth.types, strict=True) if pair[1] is not None]
        if truth.relations is not None:
            guessed = guess.relations or {}
            unknown = {pair for pair, relation in truth.relations.items() if relation is None}
            both = sorted((guessed.keys() | truth.relations.keys()) - unknown)
            relations += [(guessed.get(pair), truth.relations.get(pair)) for pair in both]
    return RelationScores(_count(types), _count(relations))


def _count(pairs: Sequence[tuple[Any, Any]]) -> LabelScores:
    """Scores of pairs of a predicted and a gold label, None where there is none."""
    n_predicted = Counter(guess for guess, _ in pairs if guess is not None)
    n_gold = Counter(truth for _, truth in pairs if truth is not None)
    n_correct = Counter(guess for guess, truth in pairs if guess is not None and guess == truth)
    return LabelScores(*count_by_type(n_correct, n_predicted, n_gold))
