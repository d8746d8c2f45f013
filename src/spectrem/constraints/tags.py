"""Constraints on the tags of sentences that have a name in the papers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spectrem.constraints.columns import Column, Scalar, part
from spectrem.constraints.constraint import Constraint, max_over
from spectrem.constraints.expectation import E
from spectrem.exceptions import InvalidInputError

Tags = Scalar | Iterable[Scalar]


def at_least(n: float, tags: Tags, per: str = "sentence") -> Constraint:
    """At least ``n`` expected tokens with one of the tags in every sentence: the running example of [Ganchev2010] §2.

    Use when it is known that every sentence has such a word, such as a verb.

    Parameters
    ----------
    n : float
        Positive.
    tags : str, int or collection of them
        As in the column ``"tag"``: names, or states counted from 0.
    per : str
        Column whose every value counts on its own; ``"sentence"``, or one given to the tagger, such as a document's.

    Raises
    ------
    InvalidInputError
        If ``n`` is not positive or there are no tags.

    Examples
    --------
    >>> at_least(1, "VERB")
    (E[part("tag") == "VERB"] >= 1).per("sentence").named("at least 1 VERB per sentence")
    >>> at_least(1, ["VERB", "AUX"]).name
    'at least 1 VERB or AUX per sentence'
    """
    if not n > 0:
        raise InvalidInputError(f"at_least: n must be positive, got {n!r}; at_least(0, ...) holds anyway")
    chosen, text = _tagged(tags, "at_least")
    return (E[chosen] >= n).per(per).named(f"at least {n:g} {text} per {per}")


def at_most(n: float, tags: Tags, per: str = "sentence") -> Constraint:
    """At most ``n`` expected tokens with one of the tags in every sentence.

    Use when such a word is rare within a sentence, such as a second finite verb.

    Parameters
    ----------
    n : float
        At least 0.
    tags, per
        As in :func:`at_least`.

    Raises
    ------
    InvalidInputError
        If ``n`` is negative or there are no tags.

    Examples
    --------
    >>> at_most(3, "VERB")
    (E[part("tag") == "VERB"] <= 3).per("sentence").named("at most 3 VERB per sentence")
    """
    if not n >= 0:
        raise InvalidInputError(f"at_most: n must be at least 0, got {n!r}; expected numbers of words are never below")
    chosen, text = _tagged(tags, "at_most")
    return (E[chosen] <= n).per(per).named(f"at most {n:g} {text} per {per}")


def dictionary_in_expectation(
    dictionary: Mapping[Scalar, Iterable[Scalar]], strength: float, *, share: float = 0.0
) -> Constraint:
    """Per word, the expected tokens with a tag that the dictionary does not list are few, at a price beyond a share.

    ``E[unlisted tags] <= share * E[tokens]`` for every word of the dictionary over the corpus, with an l1 penalty:
    every further token costs ``strength`` nats. These are the constraints on single words of [MannMcCallum2007] and
    [Ganchev2010] §4; with ``share=0`` it is a prior of ``exp(-strength)`` on every unlisted use. Words that are no
    entry are free.

    Use when a dictionary is not to be trusted altogether; one that is belongs to the tagger's ``dictionary``, which
    also makes it faster.

    Parameters
    ----------
    dictionary : mapping of word -> tags
        In the values of the columns ``"word"`` and ``"tag"``.
    strength : float
        Nats per expected token; positive.
    share : float
        In [0, 1).

    Raises
    ------
    InvalidInputError
        If ``share`` or ``strength`` is out of range or the dictionary is empty.

    Examples
    --------
    >>> dictionary_in_expectation({"run": ["VERB", "NOUN"]}, 5)  # doctest: +NORMALIZE_WHITESPACE
    (E[~part("tag").allowed_by(part("word"), {"run": ["NOUN", "VERB"]})] <= 0).per("word").slack(penalty=5,
    norm="l1").named("dictionary in expectation")
    """
    if not dictionary:
        raise InvalidInputError("dictionary_in_expectation: the dictionary is empty; leave the constraint out")
    if not 0 <= share < 1:
        raise InvalidInputError(f"dictionary_in_expectation: share must be in [0, 1), got {share!r}; 0.1 is a tenth")
    outside = E[~part("tag").allowed_by(part("word"), dictionary)]
    room = share * E[part("word").isin(list(dictionary))] if share else 0
    return (outside <= room).per("word").slack(penalty=strength, norm="l1").named("dictionary in expectation")


def sparsity(strength: float, min_count: int = 10) -> Constraint:
    """Few tags per word: the l1/linf penalty of [Ganchev2010] §8.

    Subtracts ``strength * sum over words and tags of max over the word's tokens of q(tag)`` from the objective. The sum
    of the largest probabilities is the number of tags that a word uses at all, which is not the same as few tags on
    average. Scope is the corpus.

    Use when states are induced without a dictionary, or with one that lists too much.

    Parameters
    ----------
    strength : float
        sigma, nats per tag of a word; the paper used 10, 32 and 100.
    min_count : int
        Only words with at least so many tokens in the corpus; rarer ones give no evidence of their tags.

    Raises
    ------
    InvalidInputError
        If ``strength`` is not positive or ``min_count`` is below 1.

    Examples
    --------
    >>> sparsity(32)  # doctest: +NORMALIZE_WHITESPACE
    max_over("occurrence", E[part("word_frequency") >= 10].per("word",
    "tag")).penalty(32).named("few tags per word")
    """
    if not min_count >= 1:
        raise InvalidInputError(f"sparsity: min_count must be at least 1, got {min_count!r}; 1 takes every word")
    frequent = E[part("word_frequency") >= min_count] if min_count > 1 else E[...]
    return max_over("occurrence", frequent.per("word", "tag")).penalty(strength).named("few tags per word")


def _tagged(tags: Tags, name: str) -> tuple[Column, str]:
    """The condition "has one of the tags", and the tags in words."""
    listed = [tags] if isinstance(tags, str) or not isinstance(tags, Iterable) else list(tags)
    if not listed:
        raise InvalidInputError(f"{name}: tags is empty; name one tag or more")
    text = " or ".join(str(tag) for tag in listed)
    return (part("tag") == listed[0] if len(listed) == 1 else part("tag").isin(listed)), text
