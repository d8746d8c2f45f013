"""Known shares of tags and labels, in expectation ([MannMcCallum2007], label regularisation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spectrem.constraints.columns import Scalar, part
from spectrem.constraints.constraint import Constraint
from spectrem.constraints.expectation import E, Expectation
from spectrem.exceptions import InvalidInputError

Share = float | tuple[float, float]
_ROUNDING = 1e-9


def tag_proportions(proportions: Mapping[Scalar, Share]) -> tuple[Constraint, ...]:
    """Shares of the tokens of the corpus that have each tag, in expectation ([MannMcCallum2007], label regularisation).

    Sentences count by their weight. Use when rough frequencies of tags are known from a grammar or another corpus.

    Parameters
    ----------
    proportions : mapping of tag -> share, or (lowest share, highest share)
        In [0, 1]; a single number is met exactly. Tags that are not named are free.

    Returns
    -------
    tuple of Constraint
        One per tag; give slack to each with :meth:`Constraint.slack`.

    Raises
    ------
    InvalidInputError
        If a share lies outside [0, 1], low exceeds high, or the lowest shares add up to more than 1.

    Examples
    --------
    >>> for constraint in tag_proportions({"VERB": (0.1, 0.2), "DET": 0.1}):
    ...     print(constraint)  # doctest: +NORMALIZE_WHITESPACE
    E[part("tag") == "VERB"].between(0.1 * E.count(..., each="occurrence"),
    0.2 * E.count(..., each="occurrence")).named("proportion of VERB")
    (E[part("tag") == "DET"] == 0.1 * E.count(..., each="occurrence")).named("proportion of DET")
    """
    return _shares(_by_name(proportions), "tag", "occurrence", "tag_proportions")


def label_proportions(proportions: Mapping[Scalar, Share] | Sequence[Share], of: str = "row") -> tuple[Constraint, ...]:
    """Shares of the rows that have each label, or belong to each cluster, in expectation ([MannMcCallum2007]).

    Rows count by their weight. Use when it is known, as from a survey or an audit, how frequent labels are, but not
    which rows have them; for `spectrem.project`, `SelfTrainer` and `GaussianMixture`.

    Parameters
    ----------
    proportions : mapping of label -> share, or (lowest share, highest share); or sequence of shares
        In [0, 1]; a single number is met exactly. Labels that a mapping, or the index of a pandas series, does not name
        are free. A sequence has a share for every label, which are then numbers from 0.
    of : str
        Column whose values are counted: ``"occurrence"`` for shares of the tokens of a `Lattice`.

    Returns
    -------
    tuple of Constraint
        One per label; give slack to each with :meth:`Constraint.slack`.

    Raises
    ------
    InvalidInputError
        If there are none, a share lies outside [0, 1], low exceeds high, the lowest shares add up to more than 1, or
        the highest of a sequence to less.

    Examples
    --------
    >>> for constraint in label_proportions({"spam": (0.1, 0.2), "ham": 0.7}):
    ...     print(constraint)  # doctest: +NORMALIZE_WHITESPACE
    E[part("label") == "spam"].between(0.1 * E.count(..., each="row"),
    0.2 * E.count(..., each="row")).named("proportion of spam")
    (E[part("label") == "ham"] == 0.7 * E.count(..., each="row")).named("proportion of ham")

    Rough shares, at a price of 5 nats per row beyond them:

    >>> rough = [share.slack(penalty=5, norm="l1") for share in label_proportions([0.2, 0.3, 0.5])]
    >>> [share.name for share in rough]
    ['proportion of 0', 'proportion of 1', 'proportion of 2']
    """
    proportions = _by_name(proportions)
    if isinstance(proportions, Mapping):
        return _shares(proportions, "label", of, "label_proportions")
    if isinstance(proportions, str) or not hasattr(proportions, "__len__"):
        raise InvalidInputError(
            f"label_proportions takes a mapping or a sequence of shares, got {proportions!r}; write {{'spam': 0.1}}"
        )
    made = _shares(dict(enumerate(proportions)), "label", of, "label_proportions")
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


def _shares(proportions: Mapping[Scalar, Share], column: str, each: str, function: str) -> tuple[Constraint, ...]:
    if not proportions:
        raise InvalidInputError(f"{function}: there are no shares; leave the constraint out")
    total = E.count(..., each=each)
    made, least = [], 0.0
    for value, share in proportions.items():
        low, high = _ends(share)
        if not 0 <= low <= high <= 1:
            raise InvalidInputError(
                f"{function}: the share of {value!r} must be in [0, 1], or a pair low <= high in it; got {share!r}"
            )
        least += low
        one: Expectation = E[part(column) == value]
        if low == high:
            constraint = one == low * total
        elif low == 0:
            constraint = one <= high * total
        else:
            constraint = one.between(low * total, high * total) if high < 1 else one >= low * total
        made.append(constraint.named(f"proportion of {value}"))
    if least > 1 + _ROUNDING:
        raise InvalidInputError(f"{function}: the lowest shares add up to {least:g}, more than 1; lower some")
    return tuple(made)


def _ends(share: Share) -> tuple[float, float]:
    """Lowest and highest share; a pair that is none, as NaN, which fails every comparison."""
    try:
        low, high = share if isinstance(share, (tuple, list)) else (share, share)
        return float(low), float(high)
    except (TypeError, ValueError):
        return float("nan"), float("nan")
