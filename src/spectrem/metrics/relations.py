"""How well predicted types of mentions, and relations between them, agree with gold ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from spectrem.exceptions import InvalidInputError, quoted
from spectrem.metrics._labels import check_same_length
from spectrem.metrics.chunks import ChunkCounts, count_by_type


@dataclass(frozen=True)
class LabelScores:
    """Precision, recall and F1 of labels, each and together.

    Attributes
    ----------
    total : ChunkCounts
        Of all labels together.
    by_label : dict of str -> ChunkCounts
        Sorted by label.
    """

    total: ChunkCounts
    by_label: dict[str, ChunkCounts]

    @property
    def macro_f1(self) -> float:
        """The mean of the F1 of all labels that some gold label is; NaN without any."""
        found = [own.f1 for own in self.by_label.values() if own.n_gold]
        return sum(found) / len(found) if found else math.nan


class RelationScores(NamedTuple):
    """Scores of the types of mentions, and of the relations of ordered pairs of them."""

    types: LabelScores
    relations: LabelScores


def relation_scores(predicted: Sequence[Any], gold: Sequence[Any]) -> RelationScores:
    """Scores of types and relations, mentions being given; a relation counts whatever types its mentions have.

    Gold labels that are not known do not count.

    Parameters
    ----------
    predicted, gold : sequence of RelationSentence
        With the same mentions.

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
            found = guess.relations or {}
            unknown = {pair for pair, relation in truth.relations.items() if relation is None}
            both = sorted((found.keys() | truth.relations.keys()) - unknown)
            relations += [(found.get(pair), truth.relations.get(pair)) for pair in both]
    return RelationScores(_count(types), _count(relations))


def _count(pairs: Iterable[tuple[Any, Any]]) -> LabelScores:
    """Scores of predicted labels with gold ones; None is none."""
    n_correct, n_predicted, n_gold = Counter[str](), Counter[str](), Counter[str]()
    for guess, truth in pairs:
        n_predicted.update([guess] if guess is not None else [])
        n_gold.update([truth] if truth is not None else [])
        n_correct.update([guess] if guess is not None and guess == truth else [])
    return LabelScores(*count_by_type(n_correct, n_predicted, n_gold))
