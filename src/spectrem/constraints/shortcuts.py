"""Constraints that have a name of their own: one line each in the language of ``E``.

All functions that ``__all__`` lists can be called in the text of a constraint; a new one is written here and listed.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spectrem.constraints.columns import Column, Scalar, part
from spectrem.constraints.constraint import AllOf, Constraint, E, Expectation, as_share, join, max_over
from spectrem.constraints.links import cannot_link, must_link
from spectrem.exceptions import InvalidInputError, quoted
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
    "universal_rules",
]

Labels = Scalar | Iterable[Scalar]
Share = float | str | tuple[float | str, float | str]
_ROUNDING = 1e-9

UNIVERSAL_RULES: Mapping[str | None, Sequence[str]] = {
    None: ("VERB",),
    "VERB": ("NOUN", "PROPN", "PRON", "ADV", "VERB", "ADJ", "AUX", "SCONJ", "PART", "CCONJ", "INTJ"),
    "NOUN": ("DET", "ADJ", "NUM", "ADP", "NOUN", "PROPN", "PRON", "CCONJ", "AUX"),
    "PROPN": ("PROPN", "ADP", "DET", "CCONJ"),
    "PRON": ("ADP",),
    "ADJ": ("ADV", "AUX", "PRON", "NOUN"),
    "NUM": ("NUM",),
}
"""31 rules of grammar of `universal_rules`: from tags of heads, None for the root, to tags of children.

As [Naseem2010] writes such rules for tags of its own, these are written for the universal tags (UPOS) of Universal
Dependencies, where nouns head their prepositions and predicates their copulas.
"""


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

    Returns
    -------
    Constraint
        Rows inside each sentence pair.

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

    Returns
    -------
    AllOf
        A constraint for each argument that some relation restricts.

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
    for relation, wanted_types in types.items():
        if isinstance(wanted_types, str) or len(wanted_types) != len(arguments):
            raise InvalidInputError(
                f"argument_types: {relation!r} needs types for {len(arguments)} arguments, {', '.join(arguments)}, got "
                f'{wanted_types!r}; write {{"Live_In": ("Peop", "Loc")}}, None for any type'
            )
        for argument, kinds in zip(arguments, wanted_types, strict=True):
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

    Returns
    -------
    Constraint
        The bounds of every word, inside each sentence pair.

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

    Returns
    -------
    Constraint
        A lower and an upper bound per cluster, where each is given.

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

    Returns
    -------
    Constraint
        One row per group, or per group and cluster.

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

    Returns
    -------
    Constraint
        One row per group.

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

    Returns
    -------
    Constraint
        One row per group.

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

    Returns
    -------
    Constraint
        One row, with its penalty, per word of the dictionary.

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

    Returns
    -------
    Constraint
        A penalty per word and tag over the corpus.

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


def label_proportions(
    proportions: Mapping[Scalar, Share] | Sequence[Share], per: str | Sequence[str] | None = None
) -> AllOf:
    """Shares of the rows or tokens that have each label, tag or cluster, in expectation ([MannMcCallum2007]).

    Rows and sentences count by their weight. Use when it is known, as from a survey, an audit or a grammar, how
    frequent labels are, but not which rows have them.

    Parameters
    ----------
    proportions : mapping of label -> share, or (lowest share, highest share); or sequence of shares
        In [0, 1] or as ``"20%"``; a single share is met exactly. Labels that a mapping, or the index of a pandas
        series, does not name are free. A sequence has a share for every label, which are then numbers from 0.
    per : str or sequence of str, optional
        Columns whose every value has these shares on its own, such as a domain.

    Returns
    -------
    AllOf
        One constraint per label; ``.slack(...)`` gives slack to each.

    Raises
    ------
    InvalidInputError
        If there are none, a share lies outside [0, 1], low exceeds high, the lowest shares add up to more than 1, or
        the highest of a sequence to less.

    Examples
    --------
    >>> for constraint in label_proportions({"spam": (0.1, 0.2), "ham": "70%"}):
    ...     print(constraint)  # doctest: +NORMALIZE_WHITESPACE
    E[part("label") == "spam"].between(0.1 * E.count(...), 0.2 * E.count(...)).named("proportion of spam")
    (E[part("label") == "ham"] == 0.7 * E.count(...)).named("proportion of ham")

    Rough shares, at a price of 5 nats per row beyond them:

    >>> rough = label_proportions([0.2, 0.3, 0.5]).slack(penalty=5, norm="l1")
    >>> [share.name for share in rough]
    ['proportion of 0', 'proportion of 1', 'proportion of 2']
    """
    if hasattr(proportions, "to_dict"):  # a series of pandas, such as value_counts(normalize=True)
        proportions = proportions.to_dict()
    if isinstance(proportions, Mapping):
        return _shares(proportions, per)
    if isinstance(proportions, str) or not hasattr(proportions, "__len__"):
        raise InvalidInputError(
            f"label_proportions takes a mapping or a sequence of shares, got {proportions!r}; write {{'spam': 0.1}}"
        )
    constraints = _shares(dict(enumerate(proportions)), per)
    most = sum(_ends(share)[1] for share in proportions)
    if most < 1 - _ROUNDING:
        raise InvalidInputError(
            f"label_proportions: the shares of all labels add up to {most:g}, less than 1; raise some, or write "
            "{label: share} for a few labels only"
        )
    return constraints


def parity(
    label: Scalar,
    column: str,
    values: Sequence[Scalar],
    within: float | str = 0.0,
    per: str | Sequence[str] | None = None,
) -> AllOf:
    """Groups of rows or tokens have the same expected share of a label: demographic parity.

    For every value after the first, ``E[label, value] / E.count(value)`` equals that of the first.

    Parameters
    ----------
    label : str or int
    column : str
        The column whose values are the groups.
    values : sequence of str or int
        Two groups or more.
    within : float or str
        How far a share may be from that of the first group, in [0, 1) or as ``"5%"``; 0 for equal shares.
    per : str or sequence of str, optional
        Columns for whose every value the shares are compared on their own; where a group does not occur, nothing is
        demanded.

    Returns
    -------
    AllOf

    Raises
    ------
    InvalidInputError
        If there are fewer than two groups, or ``within`` is out of range.

    Examples
    --------
    >>> from spectrem import project
    >>> table = project([[0.9, 0.1], [0.4, 0.6]], parity(1, "group", ["a", "b"]), columns={"group": ["a", "b"]})
    >>> table.proba.round(2).tolist()
    [[0.71, 0.29], [0.71, 0.29]]
    """
    listed = list(values)
    margin, same = _ends(within)
    if len(listed) < 2 or isinstance(values, str) or not 0 <= margin == same < 1:
        raise InvalidInputError(
            f"parity needs two groups or more and within in [0, 1), got {values!r} and {within!r}; write "
            'parity("hired", "group", ["a", "b"], within="5%")'
        )
    groups = [part(column) == value for value in listed]
    first, *others = (E[(part("label") == label) & group] / E.count(group) for group in groups)
    constraints = []
    for value, share in zip(listed[1:], others, strict=True):
        difference = share - first
        bounded = difference.between(-margin, margin) if margin else share == first
        named = bounded.named(f"parity of {label} between {column} {listed[0]} and {value}")
        constraints.append(named if per is None else named.per(per))
    return join(*constraints)


def tag_rules(
    rules: Mapping[Any, Labels],
    share: float | str = 0.8,
    *,
    roots: Labels = (),
    per: str | Sequence[str] | None = None,
) -> Constraint:
    """At least a share of all arcs is expected to follow rules from tags of heads to tags of children [Naseem2010].

    Use when hardly more is known of a language than that verbs head sentences and nouns take determiners. Rules that
    are only a start are soon forgotten by EM, those in a constraint are not.

    Parameters
    ----------
    rules : mapping of tag of the head -> tag or tags of children
        None is the root, an empty list says that such a head has no children. Tags that the text does not have may be
        among them, but none that is spelt almost like one of the text, unless it is a tag of Universal Dependencies or
        of the Penn Treebank.
    share : float or str
        Of the words; in (0, 1], or as ``"80%"``.
    roots : tag or tags
        Tags whose words may hang on the root; such arcs follow the rules, too.
    per : str or sequence of str, optional
        ``"sentence"`` for that share of every sentence; by default it is one of all words of the corpus.

    Returns
    -------
    Constraint
        One row over the corpus, or one per group.

    Raises
    ------
    InvalidInputError
        If rules are no mapping or allow no arc, or ``share`` is out of range.

    Examples
    --------
    >>> tag_rules({"VERB": ["NOUN", "ADV"], "NOUN": "DET"}, roots="VERB")  # doctest: +NORMALIZE_WHITESPACE
    (E[part("root") & (part("dependent_tag") == "VERB") | (part("head_tag") == "VERB") &
    part("dependent_tag").isin(["NOUN", "ADV"]) | (part("head_tag") == "NOUN") & (part("dependent_tag") == "DET")] >=
    0.8 * E.count(..., each="occurrence")).allow_empty().named("tag rules")
    """
    if not isinstance(rules, Mapping):
        raise InvalidInputError(
            f"tag_rules: rules must map tags of heads to tags of children, got {quoted(rules)}; "
            "try {'VERB': ['NOUN']}"
        )
    below_root = [*_as_list(rules.get(None) or ()), *_as_list(roots)]
    allowed = [(part("head_tag") == head, _as_list(tags or ())) for head, tags in rules.items() if head is not None]
    allowed.insert(0, (part("root"), below_root))
    clauses = [of & _is_one("dependent_tag", tags) for of, tags in allowed if tags]
    if not clauses:
        raise InvalidInputError("tag_rules: rules allow no arc; name a head with its children, or roots")
    least = _amount(share, "tag_rules")
    if not 0 < least <= 1:
        raise InvalidInputError(f"tag_rules: share must be in (0, 1], got {share!r}; 0.8 is four of five words")
    follows = E[functools.reduce(operator.or_, clauses)] >= least * E.count(..., each="occurrence")
    return (follows if per is None else follows.per(per)).allow_empty().named("tag rules")


def universal_rules(
    share: float | str = 1.0, *, penalty: float | None = 4.0, per: str | Sequence[str] | None = None
) -> Constraint:
    """All arcs, or a share of them, are expected to follow 31 rules that hold in most languages [Naseem2010].

    Verbs head sentences, nouns take determiners, and so on: `UNIVERSAL_RULES`, for texts with universal tags (UPOS).
    What does not follow them has a price, since how much that is differs by language. They are `tag_rules`, to which
    `UNIVERSAL_RULES` with other rules added may be given, too.

    Use when a grammar is learned from tags alone, without punctuation.

    Parameters
    ----------
    share : float or str
        Of the words; in (0, 1], or as ``"80%"``.
    penalty : float, optional
        Nats for every expected arc that is missing in the share. None: the share is reached, or training stops because
        the text allows no such trees.
    per : str or sequence of str, optional
        As of `tag_rules`.

    Returns
    -------
    Constraint
        One row over the corpus, or one per group, with its penalty.

    Raises
    ------
    InvalidInputError
        If ``share`` or ``penalty`` is out of range.

    Examples
    --------
    >>> from spectrem import DependencyModel
    >>> grammar = DependencyModel(constraints=[universal_rules()]).fit(["DET NOUN VERB", "PRON VERB ADP DET NOUN"])
    >>> grammar.predict(["PRON VERB DET ADJ NOUN"])[0].tolist()
    [1, -1, 4, 4, 1]
    """
    rules = tag_rules(UNIVERSAL_RULES, share, per=per)
    return (rules if penalty is None else rules.slack(penalty=penalty, norm="l1")).named("universal rules")


def _limited(name: str, expression: Expectation, low: float | str, high: float | str | None) -> Constraint:
    """``low <= expression <= high``, in numbers or in shares; 0 and None bound nothing."""
    bounds = f"got min={low!r} and max={high!r}"
    least, most = _amount(low, name), math.inf if high is None else _amount(high, name)
    if least and high is not None and isinstance(low, str) != isinstance(high, str):
        raise InvalidInputError(f"{name} takes shares such as '20%', or numbers, {bounds}; write both in one way")
    if not 0 <= least <= most:
        raise InvalidInputError(f"{name} needs 0 <= min <= max, {bounds}; change either")
    if isinstance(high, str) and most == 1:
        high = None
    if least == 0 and high is None:
        raise InvalidInputError(f"{name} bounds nothing, {bounds}; give max or a min above 0")
    return _within(expression, low if least else None, high)


def _within(expression: Expectation, low: Any, high: Any) -> Constraint:
    """``low <= expression <= high``, of which one may be None, which bounds nothing."""
    if high is None:
        return expression >= low
    return expression <= high if low is None else expression.between(low, high)


def _amount(value: Any, name: str) -> float:
    """A number, or that of a share; NaN, which fails every comparison, for anything else."""
    if isinstance(value, str):
        return as_share(value, name)
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _labelled(labels: Labels, per: str | Sequence[str], name: str) -> tuple[Column, str]:
    """The condition "has one of the labels", and labels and groups in words."""
    listed = _listed(labels, name)
    groups = per if isinstance(per, str) else " and ".join(map(str, per))
    text = f"{' or '.join(map(str, listed))} per {groups}"
    return _is_one("label", listed), text


def _as_list(labels: Labels) -> list[Scalar]:
    return [labels] if isinstance(labels, str) or not isinstance(labels, Iterable) else list(labels)


def _listed(labels: Labels, name: str) -> list[Scalar]:
    listed = _as_list(labels)
    if not listed:
        raise InvalidInputError(f"{name}: labels is empty; name one label or more")
    return listed


def _is_one(column: str, values: Sequence[Scalar]) -> Column:
    """The condition that a column has one of some values."""
    return part(column) == values[0] if len(values) == 1 else part(column).isin(values)


def _shares(proportions: Mapping[Scalar, Share], per: str | Sequence[str] | None) -> AllOf:
    if not proportions:
        raise InvalidInputError("label_proportions: there are no shares; leave the constraint out")
    total = E.count(...)
    constraints: list[Constraint] = []
    least = 0.0
    for value, share in proportions.items():
        low, high = _ends(share)
        if not 0 <= low <= high <= 1:
            raise InvalidInputError(
                f"label_proportions: the share of {quoted(value)} must be in [0, 1], or a pair low <= high in it; got "
                f"{quoted(share)}"
            )
        least += low
        one = E[part("label") == value]
        if low == high:
            constraint = one == low * total
        else:
            constraint = _within(one, low * total if low else None, high * total if high < 1 or not low else None)
        constraint = constraint if per is None else constraint.per(per)
        constraints.append(constraint.named(f"proportion of {value}"))
    if least > 1 + _ROUNDING:
        raise InvalidInputError(f"label_proportions: the lowest shares add up to {least:g}, more than 1; lower some")
    return join(*constraints)


def _ends(share: Share) -> tuple[float, float]:
    """Lowest and highest share; NaN, which fails every comparison, for what is not a share or a pair of them."""
    try:
        low, high = share if isinstance(share, (tuple, list)) else (share, share)
        return _amount(low, ""), _amount(high, "")
    except (TypeError, ValueError):
        return math.nan, math.nan
