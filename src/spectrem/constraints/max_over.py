"""The largest expectation over a column, and the penalty on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spectrem.constraints.columns import quote
from spectrem.constraints.constraint import Constraint, make_slack
from spectrem.constraints.expectation import Expectation
from spectrem.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False)
class MaxOver:
    """The largest expectation over a column, waiting for its :meth:`penalty`; see :func:`max_over`."""

    column: str
    expression: Expectation

    def penalty(self, strength: float) -> Constraint:
        """Pay ``strength`` nats per unit of the maximum, added over groups."""
        return Constraint(
            replace(self.expression, groups=None),
            None,
            Expectation(()),
            self.expression.groups or (),
            make_slack(strength, None, "linf"),
            over=self.column,
        )

    def __repr__(self) -> str:
        return f"max_over({quote(self.column)}, {self.expression!r})"


def max_over(column: str, expression: Expectation) -> MaxOver:
    """The ℓ1/ℓ∞ penalty: per group, the largest expectation over the values of ``column``.

    Minimises ``strength * sum over groups of max over column of expression``, [Ganchev2010] §8: few groups
    are used at all. Use when few tags per word, or few relations per pattern, are expected.

    Parameters
    ----------
    column : str
        For example ``"occurrence"``: the tokens of each word.
    expression : Expectation
        Grouped by ``.per``, for example ``E[...].per("word", "tag")``.

    Returns
    -------
    MaxOver
        Call its ``penalty(strength)``.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> max_over("occurrence", E[part("frequency") >= 10].per("word", "tag")).penalty(32)
    max_over("occurrence", E[part("frequency") >= 10].per("word", "tag")).penalty(32)
    """
    if not isinstance(column, str) or not isinstance(expression, Expectation):
        raise InvalidInputError(
            'max_over takes the name of a column and an expectation, as max_over("occurrence", E[...].per("word")), '
            f"got {column!r} and {expression!r}"
        )
    if column in (expression.groups or ()):
        raise InvalidInputError(f"max_over: {quote(column)} must not be among the groups of {expression!r}; drop it")
    if not any(term.kind == "expectation" for term in expression.terms):
        raise InvalidInputError(f"max_over needs an expectation E[...], got the constant {expression!r}")
    return MaxOver(column, expression)
