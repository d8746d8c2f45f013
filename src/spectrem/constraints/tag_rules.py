"""Rules of grammar from tags of heads to tags of children, as a constraint on the share of arcs that follow them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from spectrem.constraints.columns import Column, Scalar, part
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.expectation import E, as_share
from spectrem.exceptions import InvalidInputError, quoted


def tag_rules(
    rules: Mapping[Any, Scalar | Iterable[Scalar]],
    share: float | str = 0.8,
    *,
    roots: Scalar | Iterable[Scalar] = (),
    per: str | Sequence[str] | None = None,
) -> Constraint:
    """At least a share of all arcs is expected to follow rules from tags of heads to tags of children [Naseem2010].

    Use when hardly more is known of a language than that verbs head sentences and nouns take determiners. Rules that
    are only a start are soon forgotten by EM, those in a constraint are not.

    Parameters
    ----------
    rules : mapping of tag of the head -> tag or tags of children
        Tags that the text does not have may be among them, but none that is spelt almost like one of the text, unless
        it is a tag of Universal Dependencies or of the Penn Treebank.
    share : float or str
        Of the words; in (0, 1], or as ``"80%"``.
    roots : tag or tags
        Tags whose words may hang on the root; such arcs follow the rules, too.
    per : str or sequence of str, optional
        ``"sentence"`` for that share of every sentence; by default it is one of all words of the corpus.

    Raises
    ------
    InvalidInputError
        If rules are no mapping or empty, or ``share`` is out of range.

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
    clauses = [_has_tag("dependent_tag", children, part("head_tag") == head) for head, children in rules.items()]
    if isinstance(roots, str) or not isinstance(roots, Iterable) or list(roots):
        clauses.insert(0, _has_tag("dependent_tag", roots, part("root")))
    if not clauses:
        raise InvalidInputError("tag_rules: rules is empty; name a head with its children, or roots")
    least = as_share(share, "tag_rules") if isinstance(share, str) else share
    if not isinstance(least, Real) or not 0 < least <= 1:
        raise InvalidInputError(f"tag_rules: share must be in (0, 1], got {share!r}; 0.8 is four of five words")
    follows = E[functools.reduce(operator.or_, clauses)] >= float(least) * E.count(..., each="occurrence")
    return (follows if per is None else follows.per(per)).allow_empty().named("tag rules")


def _has_tag(column: str, tags: Scalar | Iterable[Scalar], of: Column) -> Column:
    """Arcs that meet a condition, with one of some tags."""
    listed = [tags] if isinstance(tags, str) or not isinstance(tags, Iterable) else list(tags)
    if not listed:
        raise InvalidInputError(f"tag_rules: no tags are given where {of!r}; name one or leave the rule out")
    return of & (part(column) == listed[0] if len(listed) == 1 else part(column).isin(listed))
