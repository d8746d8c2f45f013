"""Taggings against gold ones: accuracy, comparisons, states without names, posteriors of tags."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import check_same_index
from spectrem.exceptions import InvalidInputError, quoted

__all__ = [
    "SignTest",
    "StateMapping",
    "TaggingComparison",
    "ambiguous_tokens",
    "average_l1_linf",
    "compare_taggings",
    "correct_tokens",
    "cross_entropy",
    "many_to_one",
    "mutual_information",
    "one_to_one",
    "posterior_entropy",
    "sign_test",
    "tag_entropy",
    "tagging_accuracy",
    "v_measure",
]

Labels: TypeAlias = Sequence[Hashable] | NDArray[Any]


def flat_labels(labels: Labels, name: str) -> list[Any]:
    """The labels as plain Python values."""
    single = isinstance(labels, str) or not hasattr(labels, "__iter__")
    listed: list[Any] = [] if single else labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if single or any(isinstance(label, list | np.ndarray) for label in listed[:1]):
        got = "a string" if isinstance(labels, str) else quoted(labels) if single else f"{len(listed)} sequences"
        raise InvalidInputError(
            f"{name} must hold one tag per token, all sentences in one flat sequence; got {got}; "
            f"try list(itertools.chain.from_iterable({name}))"
        )
    return listed


def paired_labels(first: Labels, second: Labels, names: tuple[str, str]) -> tuple[list[Any], list[Any]]:
    """Two flat lists of labels of the same tokens."""
    check_same_index(**dict(zip(names, (first, second), strict=True)))
    left, right = flat_labels(first, names[0]), flat_labels(second, names[1])
    check_same_length(names[0], len(left), names[1], len(right))
    return left, right


def encode(labels: list[Any]) -> tuple[list[Any], Ints]:
    """The distinct labels by first appearance, and the number of each token's."""
    numbers: dict[Any, int] = {}
    codes = np.fromiter((numbers.setdefault(label, len(numbers)) for label in labels), np.int64, len(labels))
    return list(numbers), codes


def as_mask(mask: object, n_tokens: int) -> Bools:
    """Which tokens count; None means all."""
    if mask is None:
        return np.ones(n_tokens, dtype=np.bool_)
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (n_tokens,):
        raise InvalidInputError(
            f"mask must be boolean of shape ({n_tokens},), one per token; got dtype {array.dtype}, shape "
            f"{array.shape}; turn indices into a mask first"
        )
    return array


def check_same_length(name: str, size: int, other: str, other_size: int) -> None:
    """Raise an error unless two inputs have the same number of tokens."""
    if size != other_size:
        raise InvalidInputError(
            f"{name} and {other} must be of the same tokens; got {size} and {other_size}; "
            "drop or keep the same sentences in both"
        )


def tagging_accuracy(predicted: Labels, gold: Labels, *, mask: ArrayLike | None = None) -> float:
    """Share of tokens whose predicted tag is the gold one.

    Parameters
    ----------
    predicted, gold : sequence of hashable, length n_tokens
        Tags of all sentences one after another.
    mask : array-like of bool of shape (n_tokens,), optional
        Which tokens count, for example those that `ambiguous_tokens` marks.

    Returns
    -------
    float
        In [0, 1]; NaN where no token counts.

    Raises
    ------
    InvalidInputError
        If the lengths differ, or labels are nested by sentence.

    Examples
    --------
    >>> tagging_accuracy(["DT", "NN", "VB"], ["DT", "NN", "NN"], mask=[False, True, True])
    0.5
    """
    right = correct_tokens(predicted, gold)
    chosen = right[as_mask(mask, right.size)]
    return float(chosen.mean()) if chosen.size else math.nan


def correct_tokens(predicted: Labels, gold: Labels) -> Bools:
    """Whether each token's predicted tag is the gold one, shape (n_tokens,).

    Parameters
    ----------
    predicted, gold : sequence of hashable, length n_tokens
        Tags of all sentences, one after another.

    Returns
    -------
    ndarray of shape (n_tokens,), bool
        True where both are alike.

    Examples
    --------
    >>> correct_tokens(["DT", "NN"], ["DT", "VB"]).tolist()
    [True, False]
    """
    left, right = paired_labels(predicted, gold, ("predicted", "gold"))
    return np.fromiter(map(operator.eq, left, right), np.bool_, len(left))


def ambiguous_tokens(words: Labels, dictionary: Mapping[Any, Collection[Any]]) -> Bools:
    """Which tokens are ambiguous by a dictionary: those of words with two tags or more, and of words not listed.

    Parameters
    ----------
    words : sequence of hashable, length n_tokens
    dictionary : mapping from word to tags

    Returns
    -------
    ndarray of bool of shape (n_tokens,)

    Examples
    --------
    >>> ambiguous_tokens(["the", "run", "xyzzy"], {"the": ("DT",), "run": ("NN", "VB")}).tolist()
    [False, True, True]
    """
    listed = flat_labels(words, "words")
    in_doubt = {word: len(set(dictionary.get(word, ()))) != 1 for word in dict.fromkeys(listed)}
    return np.fromiter((in_doubt[word] for word in listed), np.bool_, len(listed))


def cross_entropy(log_likelihood: float, n_tokens: int) -> float:
    """Bits per word that a model needs for a text: ``-log2 p(text) / n_tokens`` ([SmithEisner2004] table 1).

    Parameters
    ----------
    log_likelihood : float
        The log-likelihood of the whole text in nats, not the mean per token.
    n_tokens : int
        At least 1.

    Returns
    -------
    float
        Lower is better; infinite where the text is impossible.

    Raises
    ------
    InvalidInputError
        If ``n_tokens`` is below 1 or ``log_likelihood`` NaN.

    Examples
    --------
    >>> cross_entropy(math.log(1 / 8), 3)
    1.0
    """
    if n_tokens < 1:
        raise InvalidInputError(f"n_tokens must be at least 1, got {n_tokens}; count the words of the scored text")
    if math.isnan(log_likelihood):
        raise InvalidInputError(
            "log_likelihood must be a number of nats, got NaN; look for 0/0 in the model's probabilities"
        )
    return -float(log_likelihood) / (n_tokens * math.log(2.0)) + 0.0


@brief_dataclass(frozen=True)
class SignTest:
    """Outcome of a two-sided binomial sign test.

    Attributes
    ----------
    n_first, n_second : int
        In how many pairs the first, or the second, has the higher value; ties count for neither.
    p_value : float
        Probability of a split as uneven as this or more, were both equally likely to win; 1 without a winner.

    Examples
    --------
    >>> sign_test([1, 1, 0, 1, 1], [0, 0, 1, 0, 0])
    SignTest(n_first=4, n_second=1, p_value=0.375)
    """

    n_first: int
    n_second: int
    p_value: float


@brief_dataclass(frozen=True)
class TaggingComparison:
    """Sign tests between two taggings of one text.

    Attributes
    ----------
    words : SignTest
        Tokens that only the first, or only the second, has right.
    sentences : SignTest
        Sentences in which the first, or the second, has more tokens right.

    Examples
    --------
    >>> compare_taggings(["DT", "NN", "NN"], ["DT", "VB", "VB"], ["DT", "NN", "NN"], [2, 1]).words
    SignTest(n_first=2, n_second=0, p_value=0.5)
    """

    words: SignTest
    sentences: SignTest


def sign_test(first: ArrayLike, second: ArrayLike) -> SignTest:
    """Compare paired values; use when nothing is known of how differences are distributed.

    Parameters
    ----------
    first, second : array-like of shape (n_pairs,)
        The values of each pair, of which the larger one is better.

    Returns
    -------
    SignTest
        How often either is better, and the p-value.

    Raises
    ------
    InvalidInputError
        If the shapes differ, or a value is NaN.

    Examples
    --------
    >>> sign_test([1, 1, 1, 1, 0], [0, 0, 0, 0, 0])
    SignTest(n_first=4, n_second=0, p_value=0.125)
    """
    check_same_index(first=first, second=second)
    left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if left.ndim != 1 or left.shape != right.shape:
        raise InvalidInputError(
            f"first and second must be one-dimensional and of one length; got shapes {left.shape} and {right.shape}; "
            "give one value per pair in both"
        )
    if np.isnan(left).any() or np.isnan(right).any():
        raise InvalidInputError("first and second must be numbers, got NaN; leave out the pairs that have no value")
    n_first, n_second = int((left > right).sum()), int((left < right).sum())
    if n_first + n_second == 0:
        return SignTest(0, 0, 1.0)
    from scipy.stats import binomtest

    return SignTest(n_first, n_second, float(binomtest(n_first, n_first + n_second).pvalue))


def compare_taggings(
    first: Labels, second: Labels, gold: Labels, lengths: ArrayLike, *, mask: ArrayLike | None = None
) -> TaggingComparison:
    """Sign tests between two taggings, by token and by sentence ([SmithEisner2004] table 1).

    Parameters
    ----------
    first, second, gold : sequence of hashable, length n_tokens
    lengths : array-like of int of shape (n_sentences,)
        Tokens of each sentence.
    mask : array-like of bool of shape (n_tokens,), optional
        Which tokens count.

    Returns
    -------
    TaggingComparison
        A sign test over tokens, and one over sentences.

    Raises
    ------
    InvalidInputError
        If the lengths do not fit.

    Examples
    --------
    >>> compare_taggings(["A", "B", "A"], ["A", "A", "B"], ["A", "B", "B"], [2, 1])
    TaggingComparison(words=SignTest(n_first=1, n_second=1, p_value=1.0), \
sentences=SignTest(n_first=1, n_second=1, p_value=1.0))
    """
    won, lost = correct_tokens(first, gold), correct_tokens(second, gold)
    check_same_length("first", won.size, "second", lost.size)
    counted = as_mask(mask, won.size)
    sizes = _sentence_lengths(lengths, won.size)
    sentence = np.repeat(np.arange(sizes.size), sizes)
    by_sentence = (np.bincount(sentence, right & counted, sizes.size) for right in (won, lost))
    return TaggingComparison(sign_test(won[counted], lost[counted]), sign_test(*by_sentence))


def _sentence_lengths(lengths: ArrayLike, n_tokens: int) -> Ints:
    sizes = np.asarray(lengths)
    whole = sizes.size == 0 or (sizes.dtype.kind in "iu" and sizes.min() >= 0)
    if sizes.ndim != 1 or not whole or sizes.sum() != n_tokens:
        total = f"{sizes.sum():g} in all" if sizes.dtype.kind in "iuf" else f"dtype {sizes.dtype}"
        raise InvalidInputError(
            f"lengths must be whole numbers that add up to the number of tokens, {n_tokens}; got shape {sizes.shape}, "
            f"{total}; give the number of tokens of every sentence"
        )
    return sizes.astype(np.int64)


@brief_dataclass(frozen=True)
class StateMapping:
    """A gold tag for every state, and the accuracy that results.

    Attributes
    ----------
    tags : dict from state to tag
        None where a state has no tag, which only happens one to one with more states than tags.
    accuracy : float
        Share of tokens whose state's tag is the gold one, in [0, 1].

    Examples
    --------
    >>> many_to_one([0, 0, 1], ["DT", "DT", "NN"])
    StateMapping(tags={0: 'DT', 1: 'NN'}, accuracy=1.0)
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

    Returns
    -------
    StateMapping
        The tag of every state, and the accuracy that results.

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

    Returns
    -------
    StateMapping
        The tag of every state, and the accuracy that results.

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
        rows, columns = [], []
        order = np.argsort(-counts, axis=None, kind="stable")
        for row, column in zip(*(part.tolist() for part in np.unravel_index(order, counts.shape)), strict=True):
            if row not in rows and column not in columns:
                rows.append(row)
                columns.append(column)
    elif method == "optimal":
        from scipy.optimize import linear_sum_assignment

        rows, columns = (chosen.tolist() for chosen in linear_sum_assignment(counts, maximize=True))
    else:
        raise InvalidInputError(f"method must be 'greedy' or 'optimal', got {method!r}; 'greedy' is the papers'")
    return _mapping(names, tags, counts, rows, columns)


def v_measure(states: Labels, gold: Labels) -> float:
    """Harmonic mean of homogeneity and completeness, in [0, 1] ([RosenbergHirschberg2007]).

    Use when the numbers of states differ between the taggings compared.

    Parameters
    ----------
    states, gold : sequence of hashable, length n_tokens
        Not empty.

    Returns
    -------
    float
        1 if states and tags say the same.

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

    Parameters
    ----------
    states, gold : sequence of hashable, length n_tokens
        Not empty.

    Returns
    -------
    float
        Bits.

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

    Parameters
    ----------
    tags : sequence of hashable, length n_tokens
        Not empty.

    Returns
    -------
    float
        Bits.

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


def _codes(first: Labels, second: Labels, names: tuple[str, str]) -> tuple[Ints, Ints]:
    left, right = paired_labels(first, second, names)
    return encode(_not_empty(left, names[0]))[1], encode(right)[1]


def _contingency(states: Labels, gold: Labels) -> tuple[list[Any], list[Any], Ints]:
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


def _mapping(states: list[Any], tags: list[Any], counts: Ints, rows: list[int], columns: list[int]) -> StateMapping:
    chosen = {states[row]: tags[column] for row, column in zip(rows, columns, strict=True)}
    return StateMapping(
        {state: chosen.get(state) for state in states}, float(counts[rows, columns].sum() / counts.sum())
    )


_SHAPE = (
    "posteriors must be of shape (n_tokens, n_states), or one such array per sentence; got shape {}; "
    "pass what predict_proba returns"
)


def average_l1_linf(posteriors: ArrayLike | Sequence[ArrayLike], words: Labels, *, min_count: int = 10) -> float:
    """States per word, counted softly: ``mean over words w of Σ_t max over occurrences i of w of q(t | i)``.

    Between 1 (every occurrence of a word has the same state for sure) and the number of states
    ([Ganchev2010] §8.2, "L1LMax").

    Parameters
    ----------
    posteriors : array-like of shape (n_tokens, n_states), or a sequence of one such array per sentence
        Rows sum to 1.
    words : sequence of hashable, length n_tokens
        All sentences one after another.
    min_count : int
        The mean is over words that occur more often than this, as in the paper.

    Returns
    -------
    float
        NaN where no word occurs often enough.

    Raises
    ------
    InvalidInputError
        If the number of tokens differs, or the posteriors are not two-dimensional or hold NaN.

    Examples
    --------
    >>> posteriors = [[[0.75, 0.25], [0.5, 0.5]], [[0.25, 0.75]]]  # two sentences
    >>> average_l1_linf(posteriors, ["a", "b", "a"], min_count=1)
    1.5
    """
    table = _table(posteriors)
    listed = flat_labels(words, "words")
    check_same_length("posteriors", len(table), "words", len(listed))
    distinct, word = encode(listed)
    counts = np.bincount(word, minlength=len(distinct))
    frequent = counts > min_count
    if not frequent.any():
        return float("nan")
    # The occurrences of a word stand side by side, so that one call takes the maximum of each run.
    order = np.argsort(word, kind="stable")
    highest = np.maximum.reduceat(table[order], np.cumsum(counts) - counts, axis=0)
    return float(highest[frequent].sum(axis=1).mean())


def posterior_entropy(posteriors: ArrayLike | Sequence[ArrayLike]) -> Floats:
    """Entropy of every token's posterior, bits ([SmithEisner2004] note 7).

    Parameters
    ----------
    posteriors : array-like of shape (n_tokens, n_states), or a sequence of one such array per sentence
        Rows sum to 1.

    Returns
    -------
    ndarray of shape (n_tokens,)
        Between 0 and log2(n_states).

    Raises
    ------
    InvalidInputError
        If the posteriors are not two-dimensional or hold NaN.

    Examples
    --------
    >>> posterior_entropy([[0.5, 0.5], [1.0, 0.0]]).tolist()
    [1.0, 0.0]
    """
    table = _table(posteriors)
    logs = np.log2(table, where=table > 0, out=np.zeros_like(table))
    return -(table * logs).sum(axis=1) + 0.0


def _table(posteriors: ArrayLike | Sequence[ArrayLike]) -> Floats:
    """The posteriors of all sentences as one table, shape (n_tokens, n_states)."""
    if isinstance(posteriors, np.ndarray) and posteriors.dtype != object:
        table = np.asarray(posteriors, dtype=np.float64)
    else:
        table = _stack([np.asarray(rows, dtype=np.float64) for rows in posteriors])  # type: ignore[union-attr]
    if table.ndim != 2:
        raise InvalidInputError(_SHAPE.format(table.shape))
    if not (table >= 0).all():
        at = int(np.argmax(~(table >= 0).all(axis=1)))
        raise InvalidInputError(
            f"posteriors must be probabilities, 0 or more; got {table[at].tolist()} for token {at}; "
            "look for an impossible sentence"
        )
    return table


def _stack(items: list[Floats]) -> Floats:
    """One table of all items, which are arrays of sentences or rows of tokens."""
    if not items:
        return np.zeros((0, 1))
    shapes = {(item.ndim, item.shape[-1:]) for item in items}
    if len(shapes) > 1:
        raise InvalidInputError(_SHAPE.format(" and ".join(str(item.shape) for item in items[:2])))
    return np.concatenate(items) if items[0].ndim == 2 else np.asarray(items)
