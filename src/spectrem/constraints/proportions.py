"""Known shares of labels, in expectation ([MannMcCallum2007], label regularisation), and equal ones of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spectrem.constraints.all_of import AllOf, join
from spectrem.constraints.columns import Column, Scalar, part
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.expectation import E, Expectation, as_share
from spectrem.exceptions import InvalidInputError

Share = float | str | tuple[float | str, float | str]
_ROUNDING = 1e-9


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
    proportions = _by_name(proportions)
    if isinstance(proportions, Mapping):
        return _shares(proportions, per)
    if isinstance(proportions, str) or not hasattr(proportions, "__len__"):
        raise InvalidInputError(
            f"label_proportions takes a mapping or a sequence of shares, got {proportions!r}; write {{'spam': 0.1}}"
        )
    made = _shares(dict(enumerate(proportions)), per)
    most = sum(_ends(share)[1] for share in proportions)
    if most < 1 - _ROUNDING:
        raise InvalidInputError(
            f"label_proportions: the shares of all labels add up to {most:g}, less than 1; raise some, or write "
            "{label: share} for a few labels only"
        )
    return made


def _by_name(proportions: Any) -> Any:
    """A series of pandas, such as value_counts(normalize=True), as a mapping."""
    return proportions.to_dict() if hasattr(proportions, "to_dict") else proportions


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
    first, *others = (_share_of(part("label") == label, part(column) == value) for value in listed)
    made = []
    for value, share in zip(listed[1:], others, strict=True):
        difference = share - first
        bounded = difference.between(-margin, margin) if margin else share == first
        named = bounded.named(f"parity of {label} between {column} {listed[0]} and {value}")
        made.append(named if per is None else named.per(per))
    return join(*made)


def _share_of(chosen: Column, group: Column) -> Expectation:
    return E[chosen & group] / E.count(group)


def _shares(proportions: Mapping[Scalar, Share], per: str | Sequence[str] | None) -> AllOf:
    if not proportions:
        raise InvalidInputError("label_proportions: there are no shares; leave the constraint out")
    total = E.count(...)
    made: list[Constraint] = []
    least = 0.0
    for value, share in proportions.items():
        low, high = _ends(share)
        if not 0 <= low <= high <= 1:
            raise InvalidInputError(
                f"label_proportions: the share of {value!r} must be in [0, 1], or a pair low <= high in it; got "
                f"{share!r}"
            )
        least += low
        one = E[part("label") == value]
        if low == high:
            constraint = one == low * total
        elif low == 0:
            constraint = one <= high * total
        else:
            constraint = one.between(low * total, high * total) if high < 1 else one >= low * total
        constraint = constraint if per is None else constraint.per(per)
        made.append(constraint.named(f"proportion of {value}"))
    if least > 1 + _ROUNDING:
        raise InvalidInputError(f"label_proportions: the lowest shares add up to {least:g}, more than 1; lower some")
    return join(*made)


def _ends(share: Share) -> tuple[float, float]:
    """Lowest and highest share; NaN, which fails every comparison, for what is not a share or a pair of them."""
    try:
        low, high = share if isinstance(share, (tuple, list)) else (share, share)
        return _number(low), _number(high)
    except (TypeError, ValueError):
        return float("nan"), float("nan")


def _number(share: float | str) -> float:
    return as_share(share) if isinstance(share, str) else float(share)
