"""What views agree on, as constraints over the labels of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from spectrem.constraints import E, part
from spectrem.constraints.text import flatten
from spectrem.exceptions import InvalidInputError, quoted

# The group of the labels that some view has no counterpart of.
_REST = "the rest"


def tie_groups(
    groups: Mapping[str, Mapping[Any, Any]],
    names: Mapping[str, Sequence[Any]],
    columns: Mapping[str, str],
    per: Sequence[str],
    penalty: float | None,
) -> list[Any]:
    """Equality rows that make views expect every group of labels alike, [Ganchev2010] eqs 52 and 54.

    Parameters
    ----------
    groups : mapping of view -> mapping of label -> group
    names : mapping of view -> sequence
        All labels of every view.
    columns : mapping of view -> str
        What constraints call them.
    per : sequence of str
        Columns of the instances, or choices, at which the views agree.
    penalty : float or None
        Of a difference of 1, nats; None where there must be none.

    Raises
    ------
    InvalidInputError
        If a view or a label does not exist, or the views have no group in common.

    Examples
    --------
    >>> tied = tie_groups({"fine": {"cat": "animal", "dog": "animal"}}, {"fine": ["cat", "dog", "van"],
    ...     "coarse": ["animal", "van"]}, {"fine": "fine_label", "coarse": "coarse_label"}, ["row"], None)
    >>> print(tied[0])  # doctest: +NORMALIZE_WHITESPACE
    (E[(part("fine_label") == "cat") | (part("fine_label") == "dog")] == E[part("coarse_label") ==
    "animal"]).per("row").named("fine and coarse agree on 'animal'")
    """
    for view, own in groups.items():
        if view not in names:
            raise InvalidInputError(f"agreement must name views, {', '.join(names)}, got {quoted(view)}; correct it")
        unknown = [label for label in own if label not in names[view]]
        if unknown:
            raise InvalidInputError(
                f"agreement[{view!r}] must group labels of that view, {list(names[view])!r:.200}, got "
                f"{quoted(unknown[0])}; leave it out, or list it in classes or tags"
            )
    group_of = {view: {label: groups.get(view, {}).get(label, label) for label in own} for view, own in names.items()}
    shared = set.intersection(*(set(own.values()) for own in group_of.values()))
    if not shared:
        raise InvalidInputError(
            f"agreement must give the views some group in common, got "
            f"{'; '.join(f'{view}: {sorted(map(str, set(own.values())))}' for view, own in group_of.items())!s:.300}; "
            "map labels of each view to the same groups"
        )
    members = {
        view: _by_group({label: group if group in shared else _REST for label, group in own.items()})
        for view, own in group_of.items()
    }
    first, *others = names
    found = []
    for other in others:
        listed = [group for group in members[first] if group in members[other]]
        alone = {group for view in (first, other) for group in members[view]} - set(listed)
        # Expectations of all groups add up to 1: one row follows from the others.
        for group in listed if alone else listed[:-1]:
            left, right = (
                E[reduce(or_, [part(columns[v]) == label for label in members[v][group]])] for v in (first, other)
            )
            tied = (left == right).per(*per).named(f"{first} and {other} agree on {group!r}")
            found.append(tied if penalty is None else tied.slack(penalty=penalty, norm="l1"))
    return found


def _by_group(group_of: Mapping[Any, Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for label, group in group_of.items():
        found.setdefault(group, []).append(label)
    return found


def ties_of(
    settings: Any, names: Mapping[str, Sequence[Any]], columns: Mapping[str, str], per: Sequence[str]
) -> list[Any]:
    """The constraints that tie views which do not agree fully."""
    if isinstance(settings.agreement, Mapping):
        return tie_groups(settings.agreement, names, columns, per, settings.agreement_penalty)
    return list(flatten(settings.agreement))
