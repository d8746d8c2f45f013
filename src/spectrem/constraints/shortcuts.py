"""Constraints that have a name of their own: one line each in the language of ``E``.

All functions that ``__all__`` lists can be called in the text of a constraint; a new one is written here and listed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real

from spectrem.constraints.all_of import AllOf, join
from spectrem.constraints.columns import Column, Scalar, part
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.expectation import E, Expectation, as_share
from spectrem.constraints.links import cannot_link, must_link
from spectrem.constraints.max_over import max_over
from spectrem.constraints.proportions import label_proportions, parity
from spectrem.constraints.tag_rules import tag_rules
from spectrem.exceptions import InvalidInputError
from spectrem.structures.alignment import NULL

__all__ = [
    "agreement",
    "argument_types",
    "at_least",
    "at_least_one_per",
    "at_most",
    "cannot_link",
    "cluster_size",
    "dictionary_in_expectation",
    "fertility",
    "label_proportions",
    "max_over",
    "must_link",
    "parity",
    "sparsity",
    "tag_rules",
]

Labels = Scalar | Iterable[Scalar]


def agreement(
    per: tuple[str, ...] = ("sentence", "source", "target"), names: tuple[str, str] = ("forward", "backward")
) -> Constraint:
    """Both directions of an alignment expect each link alike, [Ganchev2010] §5.3, [Graca2007] §4.1.2.

    For a product of two alignments, the second one reversed. Links to NULL have no counterpart and belong to no
    group, so they stay free. Use when two directional models of one bitext are trained or applied together.

    Parameters
    ----------
    per : tuple of str
        Columns that tell which parts of the two correspond.
    names : pair of str
        The product's names of its two structures.

    Examples
    --------
    >>> agreement()  # doctest: +NORMALIZE_WHITESPACE
    (E[part("direction") == "forward"] == E[part("direction") == "backward"]).per("sentence", "source",
    "target").named("agreement")
    """
    left, right = names
    both = E[part("direction") == left] == E[part("direction") == right]
    return both.per(*per).named("agreement")


def argument_types(
    types: Mapping[Scalar, Sequence[Labels | None]],
    label: str = "relation",
    arguments: Sequence[str] = ("first", "second"),
    of: tuple[str, str] = ("mention", "type"),
    per: str | Sequence[str] = ("sentence", "pair"),
) -> AllOf:
    """A relation implies types of its arguments: the type rules of [RothYih2004] and [Samdani2012] §5.

    For every pair, argument and set of types: the expected relations that want one of these types there are at most
    the probability that the argument has one. Relations that want the same are one row, which holds them tighter than
    a row for each.

    Parameters
    ----------
    types : mapping of relation -> (types of the first argument, types of the second)
        Each one type, or several of which the argument must have one, or None for any. Relations that are not named are
        free.
    label : str
        The column of relations.
    arguments : sequence of str
        Columns of a pair that tell which mention each argument is.
    of : (str, str)
        The columns of mentions, and of their types.
    per : str or sequence of str
        The columns that tell pairs apart, the instance among them.

    Raises
    ------
    InvalidInputError
        If nothing is demanded, or a relation has not as many arguments as there are columns of them.

    Examples
    --------
    >>> for rule in argument_types({"Live_In": ("Peop", "Loc"), "Kill": ("Peop", "Peop")}):
    ...     print(rule.name)
    first argument of Kill, Live_In: Peop
    second argument of Live_In: Loc
    second argument of Kill: Peop
    """
    wanted: dict[tuple[str, tuple[Scalar, ...]], list[Scalar]] = {}
    for relation, own in types.items():
        if isinstance(own, str) or len(own) != len(arguments):
            raise InvalidInputError(
                f"argument_types: {relation!r} needs types for {len(arguments)} arguments, {', '.join(arguments)}, got "
                f'{own!r}; write {{"Live_In": ("Peop", "Loc")}}, None for any type'
            )
        for argument, kinds in zip(arguments, own, strict=True):
            if kinds is not None:
                wanted.setdefault((argument, tuple(_listed(kinds, "argument_types"))), []).append(relation)
    if not wanted:
        raise InvalidInputError(f"argument_types: nothing is demanded, got {types!r}; leave the constraint out")
    mention, kind = of
    rules = []
    for argument, kinds in sorted(wanted, key=lambda key: (arguments.index(key[0]), list(map(str, key[1])))):
        relations = sorted(wanted[argument, kinds], key=str)
        rule = E[_is_one(label, relations)] <= E[_is_one(kind, kinds)].at(mention, argument)
        name = f"{argument} argument of {', '.join(map(str, relations))}: {' or '.join(map(str, kinds))}"
        rules.append(rule.per(per).named(name))
    return join(*rules)


def fertility(max: float | None = 1, min: float = 0) -> Constraint:
    """Bounds on how many words align to each word, [Graca2007] §4.1.1, [Ganchev2010] §5.2.

    Per sentence, direction and word of the side that is chosen from (the source in the forward direction, the
    target in the backward one): the expected number of links to it. NULL may be chosen any number of times. Use when
    words should align one to one, and rare words should not gather everything ("garbage collectors").

    Parameters
    ----------
    max : float or None
        Largest expected number of links of a word; None for no bound.
    min : float
        Smallest one; 0 for no bound.

    Raises
    ------
    InvalidInputError
        If no bound is given, or not ``0 <= min <= max``.

    Examples
    --------
    >>> fertility(1)
    (E[part("state") != -1] <= 1).per("sentence", "direction", "state").named("fertility")
    >>> fertility(max=3, min=0.5)
    E[part("state") != -1].between(0.5, 3).per("sentence", "direction", "state").named("fertility")
    """
    bounded = _limited("fertility", E[part("state") != NULL], min, max)
    return bounded.per("sentence", "direction", "state").named("fertility")


def cluster_size(min: float | str = 0, max: float | str | None = None) -> Constraint:
    """Bounds on the expected number of rows of every cluster.

    Use when clusters should be of similar size, or none may be empty.

    Parameters
    ----------
    min : float or str
        In rows, 0 for no bound; or a share of the rows, ``"20%"``, which refers to whatever rows are fitted, as the
        folds of a cross-validation.
    max : float or str, optional
        None for no bound.

    Raises
    ------
    InvalidInputError
        If no bound is given, not ``0 <= min <= max``, a share is not in 0 % to 100 %, or one bound is a share and the
        other is not.

    Examples
    --------
    >>> cluster_size(min=10, max=20)
    E[...].between(10, 20).per("label").named("cluster size")
    >>> cluster_size(min="20%")
    (E[...] >= 0.2 * E.count(...)).per("label").named("cluster size")
    """
    return _limited("cluster_size", E[...], min, max).per("label").named("cluster size")


def at_least_one_per(group: str, label: Scalar | None = None) -> Constraint:
    """In every group, at least one row is expected to belong to the cluster, or to each ([Graca2007] §3).

    Use when groups (documents, images, bags of instances) are known to hold such rows.

    Parameters
    ----------
    group : str
        A column given with the data.
    label : int, or a label of a table, optional
        Clusters count from 0. Without it, all clusters.

    Examples
    --------
    >>> at_least_one_per("bag", 0)
    (E[part("label") == 0] >= 1).per("bag").named("at least one 0 per bag")
    >>> at_least_one_per("image")
    (E[...] >= 1).per("image", "label").named("at least one of each per image")
    """
    if label is None:
        return (E[...] >= 1).per(group, "label").named(f"at least one of each per {group}")
    return (E[part("label") == label] >= 1).per(group).named(f"at least one {label} per {group}")


def at_least(n: float | str, labels: Labels, per: str | Sequence[str] = "sentence") -> Constraint:
    """At least ``n`` expected rows or tokens with one of the labels in every group: [Ganchev2010] §2, every sentence.

    Use when it is known that every sentence has a verb, or every document an author.

    Parameters
    ----------
    n : float or str
        Positive; a share as ``"20%"`` is one of the rows or tokens of the group.
    labels : str, int or collection of them
        Labels of a table, tags of a tagger, by name or counted from 0.
    per : str or sequence of str
        Column whose every value counts on its own; ``"sentence"``, or a column of the data, such as the document.

    Raises
    ------
    InvalidInputError
        If ``n`` is not positive or there are no labels.

    Examples
    --------
    >>> at_least(1, "VERB")
    (E[part("label") == "VERB"] >= 1).per("sentence").named("at least 1 VERB per sentence")
    >>> at_least("10%", ["VERB", "AUX"], per="document").name
    'at least 10% VERB or AUX per document'
    """
    if not _amount(n, "at_least") > 0:
        raise InvalidInputError(f"at_least: n must be positive, got {n!r}; at_least(0, ...) holds anyway")
    chosen, text = _labelled(labels, per, "at_least")
    return (E[chosen] >= n).per(per).named(f"at least {_short(n)} {text}")


def at_most(n: float | str, labels: Labels, per: str | Sequence[str] = "sentence") -> Constraint:
    """At most ``n`` expected rows or tokens with one of the labels in every group.

    Use when such a label is rare within a group, such as the title in a document.

    Parameters
    ----------
    n : float or str
        At least 0; a share as ``"20%"`` is one of the rows or tokens of the group.
    labels, per
        As in :func:`at_least`.

    Raises
    ------
    InvalidInputError
        If ``n`` is negative or there are no labels.

    Examples
    --------
    >>> at_most(1, "title", per="document")
    (E[part("label") == "title"] <= 1).per("document").named("at most 1 title per document")
    """
    if not _amount(n, "at_most") >= 0:
        raise InvalidInputError(f"at_most: n must be at least 0, got {n!r}; expected numbers are never below")
    chosen, text = _labelled(labels, per, "at_most")
    return (E[chosen] <= n).per(per).named(f"at most {_short(n)} {text}")


def dictionary_in_expectation(
    dictionary: Mapping[Scalar, Iterable[Scalar]], strength: float, *, share: float | str = 0.0
) -> Constraint:
    """Per word, the expected tokens with a tag that the dictionary does not list are few, at a price beyond a share.

    ``E[unlisted tags] <= share * E[tokens]`` for every word of the dictionary over the corpus, with an l1 penalty:
    every further token costs ``strength`` nats. These are the constraints on single words of [MannMcCallum2007] and
    [Ganchev2010] §4; with ``share=0`` it is a prior of ``exp(-strength)`` on every unlisted use. Words that the
    dictionary does not list are free.

    Use when a dictionary is not to be trusted altogether; one that is belongs to the tagger's ``dictionary``, which
    also makes it faster.

    Parameters
    ----------
    dictionary : mapping of word -> tags
        In the values of the column ``"word"`` and labels.
    strength : float
        Nats per expected token; positive.
    share : float
        In [0, 1), or as ``"10%"``.

    Raises
    ------
    InvalidInputError
        If ``share`` or ``strength`` is out of range or the dictionary is empty.

    Examples
    --------
    >>> dictionary_in_expectation({"run": ["VERB", "NOUN"]}, 5)  # doctest: +NORMALIZE_WHITESPACE
    (E[~part("label").allowed_by(part("word"), {"run": ["NOUN", "VERB"]})] <= 0).per("word").slack(penalty=5,
    norm="l1").named("dictionary in expectation")
    """
    if not dictionary:
        raise InvalidInputError("dictionary_in_expectation: the dictionary is empty; leave the constraint out")
    part_of = _amount(share, "dictionary_in_expectation")
    if not 0 <= part_of < 1:
        raise InvalidInputError(f"dictionary_in_expectation: share must be in [0, 1), got {share!r}; 0.1 is a tenth")
    outside = E[~part("label").allowed_by(part("word"), dictionary)]
    room = part_of * E[part("word").isin(list(dictionary))] if part_of else 0
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
    "label")).penalty(32).named("few tags per word")
    """
    if not min_count >= 1:
        raise InvalidInputError(f"sparsity: min_count must be at least 1, got {min_count!r}; 1 takes every word")
    frequent = E[part("word_frequency") >= min_count] if min_count > 1 else E[...]
    return max_over("occurrence", frequent.per("word", "label")).penalty(strength).named("few tags per word")


def _limited(name: str, expression: Expectation, low: float | str, high: float | str | None) -> Constraint:
    """``low <= expression <= high``, in numbers or in shares; 0 and None bound nothing."""
    given = f"got min={low!r} and max={high!r}"
    least, most = _amount(low, name), math.inf if high is None else _amount(high, name)
    if least and high is not None and isinstance(low, str) != isinstance(high, str):
        raise InvalidInputError(f"{name} takes shares such as '20%', or numbers, {given}; write both in one way")
    if not 0 <= least <= most:
        raise InvalidInputError(f"{name} needs 0 <= min <= max, {given}; change either")
    if isinstance(high, str) and most == 1:
        high = None
    if least == 0 and high is None:
        raise InvalidInputError(f"{name} bounds nothing, {given}; give max or a min above 0")
    if high is None:
        return expression >= low
    return expression <= high if least == 0 else expression.between(low, high)


def _amount(value: object, name: str) -> float:
    """A number, or that of a share; NaN, which fails every comparison, for anything else."""
    if isinstance(value, str):
        return as_share(value, name)
    return float(value) if isinstance(value, Real) else math.nan


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _labelled(labels: Labels, per: str | Sequence[str], name: str) -> tuple[Column, str]:
    """The condition "has one of the labels", and labels and groups in words."""
    listed = _listed(labels, name)
    groups = per if isinstance(per, str) else " and ".join(map(str, per))
    text = f"{' or '.join(map(str, listed))} per {groups}"
    return _is_one("label", listed), text


def _listed(labels: Labels, name: str) -> list[Scalar]:
    listed = [labels] if isinstance(labels, str) or not isinstance(labels, Iterable) else list(labels)
    if not listed:
        raise InvalidInputError(f"{name}: labels is empty; name one label or more")
    return listed


def _is_one(column: str, values: Sequence[Scalar]) -> Column:
    """The condition that a column has one of some values."""
    return part(column) == values[0] if len(values) == 1 else part(column).isin(values)
