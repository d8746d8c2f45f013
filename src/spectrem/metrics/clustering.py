"""How well states without names, such as those of an induced tagger, match gold tags."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spectrem.exceptions import InvalidInputError
from spectrem.metrics._labels import Labels, encode, flat_labels, paired_labels


@dataclass(frozen=True)
class StateMapping:
    """A gold tag for every state, and the accuracy that results.

    Attributes
    ----------
    tags : dict from state to tag
        None where a state has no tag, which only happens one to one with more states than tags.
    accuracy : float
        Share of tokens whose state's tag is the gold one, in [0, 1].
    """

    tags: dict[Any, Any]
    accuracy: float


def many_to_one(states: Labels, gold: Labels) -> StateMapping:
    """Give every state the tag that it occurs with most ([Ganchev2010] §8.2, "1-Many").

    Use when states may split a tag; it never falls as states are added, so compare equal numbers of states only.

    Parameters
    ----------
    states, gold : sequence of hashable, length n_tokens
        Not empty. Of tags equally frequent the one that the text shows first is taken.

    Raises
    ------
    InvalidInputError
        If the lengths differ, or there are no tokens.

    Examples
    --------
    >>> many_to_one([0, 0, 1, 2, 2], ["DT", "DT", "NN", "NN", "VB"])
    StateMapping(tags={0: 'DT', 1: 'NN', 2: 'NN'}, accuracy=0.8)
    """
    names, tags, counts = _contingency(states, gold)
    best = counts.argmax(axis=1)
    return _mapping(names, tags, counts, list(range(len(names))), best.tolist())


def one_to_one(states: Labels, gold: Labels, *, method: Literal["greedy", "optimal"] = "greedy") -> StateMapping:
    """Give every state a tag of its own.

    ``greedy`` takes the pair that occurs most, then the most frequent of the states and tags that remain, and so on
    ([HaghighiKlein2006]); ``optimal`` is the assignment of highest accuracy. Use when a state should stand for a whole
    tag; a tag that is split costs all its states but one.

    Parameters
    ----------
    states, gold : sequence of hashable, length n_tokens
        Not empty. Of pairs equally frequent the one whose state, then tag, the text shows first is taken.
    method : {"greedy", "optimal"}

    Raises
    ------
    InvalidInputError
        If the lengths differ, there are no tokens, or the method is unknown.

    Examples
    --------
    >>> states, gold = [0] * 5 + [1] * 4, ["NN"] * 3 + ["VB"] * 2 + ["NN"] * 3 + ["DT"]
    >>> one_to_one(states, gold).accuracy * 9, one_to_one(states, gold, method="optimal").accuracy * 9
    (4.0, 5.0)
    """
    names, tags, counts = _contingency(states, gold)
    if method == "greedy":
        rows, columns = _greedy(counts)
    elif method == "optimal":
        from scipy.optimize import linear_sum_assignment

        rows, columns = (chosen.tolist() for chosen in linear_sum_assignment(counts, maximize=True))
    else:
        raise InvalidInputError(f"method must be 'greedy' or 'optimal', got {method!r}; 'greedy' is the papers'")
    return _mapping(names, tags, counts, rows, columns)


def v_measure(states: Labels, gold: Labels) -> float:
    """Harmonic mean of homogeneity and completeness, in [0, 1] ([RosenbergHirschberg2007]).

    Use when the numbers of states differ between the taggings compared.

    Raises
    ------
    InvalidInputError
        If the lengths differ, or there are no tokens.

    Examples
    --------
    >>> v_measure([0, 0, 1, 1], ["NN", "NN", "VB", "VB"])
    1.0
    """
    from sklearn.metrics import v_measure_score

    return float(v_measure_score(*_codes(gold, states, ("gold", "states"))))


def mutual_information(states: Labels, gold: Labels) -> float:
    """Mutual information of states and tags in bits, from 0 to the entropy of either ([Ganchev2010] fig. 12).

    Raises
    ------
    InvalidInputError
        If the lengths differ, or there are no tokens.

    Examples
    --------
    >>> mutual_information([0, 0, 1, 1], ["NN", "NN", "VB", "VB"])
    1.0
    """
    from sklearn.metrics import mutual_info_score

    return float(mutual_info_score(*_codes(states, gold, ("states", "gold")))) / math.log(2.0)


def tag_entropy(tags: Labels) -> float:
    """Entropy of the distribution of tags over tokens, bits.

    Raises
    ------
    InvalidInputError
        If there are no tokens.

    Examples
    --------
    >>> tag_entropy(["NN", "VB", "NN", "DT"])
    1.5
    """
    from scipy.stats import entropy

    return float(entropy(np.bincount(encode(_not_empty(flat_labels(tags, "tags"), "tags"))[1]), base=2)) + 0.0


def _codes(first: Labels, second: Labels, names: tuple[str, str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    left, right = paired_labels(first, second, names)
    return encode(_not_empty(left, names[0]))[1], encode(right)[1]


def _contingency(states: Labels, gold: Labels) -> tuple[list[Any], list[Any], NDArray[np.int64]]:
    """The distinct states and tags, and how often each pair occurs: shape (n_states, n_tags)."""
    left, right = paired_labels(states, gold, ("states", "gold"))
    rows, row = encode(_not_empty(left, "states"))
    columns, column = encode(right)
    counts = np.bincount(row * len(columns) + column, minlength=len(rows) * len(columns))
    return rows, columns, counts.reshape(len(rows), len(columns))


def _not_empty(labels: list[Any], name: str) -> list[Any]:
    if not labels:
        raise InvalidInputError(f"{name} must hold at least one token, got none; check that the text was read")
    return labels


def _greedy(counts: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    order = np.argsort(-counts, axis=None, kind="stable")
    rows: list[int] = []
    columns: list[int] = []
    for row, column in zip(*(part.tolist() for part in np.unravel_index(order, counts.shape)), strict=True):
        if row not in rows and column not in columns:
            rows.append(row)
            columns.append(column)
    return rows, columns


def _mapping(
    states: list[Any], tags: list[Any], counts: NDArray[np.int64], rows: list[int], columns: list[int]
) -> StateMapping:
    chosen = {states[row]: tags[column] for row, column in zip(rows, columns, strict=True)}
    return StateMapping(
        {state: chosen.get(state) for state in states}, float(counts[rows, columns].sum() / counts.sum())
    )
