"""Constraints on q, which comparisons of expectations make, with slack and a name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from spectrem.constraints.all_of import AllOf, join
from spectrem.constraints.columns import quote
from spectrem.constraints.compilation.rows import Norm, Slack
from spectrem.constraints.expectation import Expectation, check_groups, groups_text, merge_groups
from spectrem.constraints.terms import Term
from spectrem.exceptions import InvalidInputError
from spectrem.structures.structure import Structure

Sense = Literal["<=", ">=", "=="]


@dataclass(frozen=True, eq=False, repr=False)
class Constraint:
    """``lower <= expression <= upper`` on expectations under q, once per group of parts.

    Made by comparing expectations. Immutable; its ``repr`` is source text that evaluates back to an equal
    constraint, and constraints with the same text are equal.

    Attributes
    ----------
    expression : Expectation
    lower, upper : Expectation or None
        Equal texts for an equality; None for no bound on that side.
    groups : tuple of str
        Columns of ``.per``; empty for one row over the whole corpus.
    allowance : Slack or None
        How far it may be violated; None for not at all.
    label : str or None
        Name given with :meth:`named`.
    over : str or None
        Column of `max_over`.
    may_be_empty : bool
        Set by :meth:`allow_empty`.

    Notes
    -----
    Groups are the distinct values of the group columns among *all* parts, so that a sentence in which no part
    meets the condition still has to meet ``>= 1`` (and is reported, since it cannot). A part whose
    value in one of the structure's own columns is NULL (-1), or missing in a user's column, belongs to no group.
    Rows that hold whatever q is (``0 <= 1``) are left out.

    Scope: a constraint whose groups name the structure's instance column (its first) stays inside instances. One with
    a group column that is constant inside every instance, such as its document, is as many small problems as there are
    groups, unless the norm of its slack ties them. Every other one holds over the corpus.

    Examples
    --------
    >>> from spectrem.constraints import E, part
    >>> (E[part("tag") == "VERB"] >= 1).per("sentence").named("one verb per sentence")
    (E[part("tag") == "VERB"] >= 1).per("sentence").named("one verb per sentence")
    """

    expression: Expectation
    lower: Expectation | None
    upper: Expectation | None
    groups: tuple[str, ...] = ()
    allowance: Slack | None = None
    label: str | None = None
    over: str | None = None
    may_be_empty: bool = False

    @property
    def name(self) -> str:
        """The name in errors and reports: the given one, else the text of the constraint."""
        return self.label if self.label is not None else repr(self)

    @property
    def equality(self) -> bool:
        """Whether both bounds are the same expression."""
        return self.lower is not None and self.upper is not None and repr(self.lower) == repr(self.upper)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the expression and of its bounds."""
        sides = (self.expression, self.lower, self.upper)
        return tuple(term for side in sides if side is not None for term in side.terms)

    @property
    def quantities(self) -> tuple[Term, ...]:
        """Its terms, and the counts by which they are divided."""
        return (*self.terms, *(term.over for term in self.terms if term.over is not None))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns whose values tell its rows apart: those of `per`, and that of `max_over`."""
        return self.groups if self.over is None else (*self.groups, self.over)

    @property
    def sides(self) -> list[Expectation]:
        """Expressions that must be at most 0, or equal to 0: first for the upper bound, then for the lower one."""
        upper = [] if self.upper is None else [self.expression - self.upper]
        return upper if self.lower is None or self.equality else [*upper, self.lower - self.expression]

    def per(self, *columns: str | Sequence[str]) -> Constraint:
        """Demand it once per group: per distinct value of ``columns`` among the parts.

        Parameters
        ----------
        *columns : str, or one sequence of str
            Names of columns; of several, every combination of values that some part has is a group.

        Raises
        ------
        InvalidInputError
            If no column is named, a name is not text, or it is grouped already by other columns.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> ((E[part("tag") == "VERB"] >= 1).per("sentence")
        ...     == (E[part("tag") == "VERB"].per("sentence") >= 1))
        True
        """
        if self.over is not None:
            raise InvalidInputError("max_over is grouped inside: write max_over(column, E[...].per(...)).penalty(...)")
        return replace(self, groups=merge_groups(self.groups, check_groups(columns)) or ())

    def slack(self, *, penalty: float | None = None, bound: float | None = None, norm: Norm = "l2") -> Constraint:
        """Allow violations, at a price or up to a bound.

        Parameters
        ----------
        penalty : float, optional
            Nats per unit of ``norm`` of the violations ([Ganchev2010] eq. 22); positive.
        bound : float, optional
            Largest ``norm`` of the violations ([Ganchev2010] eq. 6); positive. Exactly one of both is given.
        norm : {"l1", "l2", "linf"}
            Over the rows of each instance, or over all rows where they are not inside instances.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> (E[part("tag") == "VERB"] >= 1).per("sentence").slack(penalty=10, norm="l2")
        (E[part("tag") == "VERB"] >= 1).per("sentence").slack(penalty=10, norm="l2")
        """
        if self.over is not None:
            raise InvalidInputError("max_over(...).penalty(...) is slack already; leave .slack(...) out")
        return replace(self, allowance=make_slack(penalty, bound, norm))

    def named(self, name: str) -> Constraint:
        """Give the name that errors and reports use.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> (E[part("tag") == "VERB"] <= 9).named("few verbs").name
        'few verbs'
        """
        return replace(self, label=check_name(name))

    def allow_empty(self) -> Constraint:
        """Let it name values that the data do not have, in which case it may bind nothing.

        Without it, `spectrem.project` and ``fit`` refuse a value that no row has, since that is mostly a slip. Use when
        a table is one of many and a kind of rows may be absent from it.

        Examples
        --------
        >>> from spectrem.constraints import E, part
        >>> (E[part("kind") == "invoice"] <= 3).allow_empty()
        (E[part("kind") == "invoice"] <= 3).allow_empty()
        """
        return replace(self, may_be_empty=True)

    def __and__(self, other: object) -> AllOf:
        """Both constraints, as one."""
        return join(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constraint) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __bool__(self) -> bool:
        raise InvalidInputError(
            f"{self!r} is a constraint, neither true nor false; for two bounds write E[...].between(low, high) "
            "in place of low <= E[...] <= high"
        )

    def __repr__(self) -> str:
        groups = groups_text(self.groups) if self.groups else ""
        last = (".allow_empty()" if self.may_be_empty else "") + _name_text(self.label)
        if self.over is not None:
            assert self.allowance is not None
            inner = repr(replace(self.expression, groups=self.groups or None))
            text = f"max_over({quote(self.over)}, {inner}).penalty({self.allowance.strength!r})"
            return text + last
        rest = groups + _slack_text(self.allowance) + last
        if self.lower is not None and self.upper is not None and not self.equality:
            left = repr(self.expression) if self.expression.is_single else f"({self.expression!r})"
            return f"{left}.between({self.lower!r}, {self.upper!r}){rest}"
        sign, bound = ("==" if self.equality else "<=", self.upper) if self.upper is not None else (">=", self.lower)
        text = f"{self.expression!r} {sign} {bound!r}"
        return f"({text}){rest}" if rest else text

    @property
    def is_comparison(self) -> bool:
        """Whether its text is a bare comparison, which stands in parentheses beside operators."""
        one_bound = self.over is None and (self.equality or self.lower is None or self.upper is None)
        return one_bound and not (self.groups or self.allowance or self.may_be_empty or self.label is not None)


@dataclass(frozen=True, eq=False, repr=False)
class LinearConstraint:
    """Rows given as a sparse matrix over the parts of one batch; see :func:`linear`.

    A constraint of one's own may also tell what its rows are called in errors and reports (``keys``, a value per row
    under each name), and that instances count once in them whatever they weigh (``weighted=False``).
    """

    matrix: sp.csr_array
    bounds: NDArray[np.float64]
    sense: Sense
    label: str
    scope: Literal["instance", "corpus"]
    allowance: Slack | None = field(default=None)
    keys: Mapping[str, NDArray] = field(default_factory=dict)
    weighted: bool = True

    @property
    def name(self) -> str:
        return self.label

    def slack(self, *, penalty: float | None = None, bound: float | None = None, norm: Norm = "l2") -> LinearConstraint:
        """As :meth:`Constraint.slack`."""
        return replace(self, allowance=make_slack(penalty, bound, norm))

    def named(self, name: str) -> LinearConstraint:
        """As :meth:`Constraint.named`."""
        return replace(self, label=check_name(name))

    def __and__(self, other: object) -> AllOf:
        """Both constraints, as one."""
        return join(self, other)

    def __repr__(self) -> str:
        rows, parts = self.matrix.shape
        text = f"<{rows} x {parts} matrix, {self.matrix.nnz} stored>"
        return f"linear({text}, b, {quote(self.sense)}, name={quote(self.label)}, scope={quote(self.scope)})" + (
            _slack_text(self.allowance)
        )


class CustomConstraint(Protocol):
    """A user's own constraint: any object with this one method."""

    def rows(self, structure: Structure) -> Constraint | LinearConstraint:
        """The constraint on one batch.

        For every shard of a corpus it must be the same constraint, or a matrix whose rows over the corpus have the same
        bounds in every shard: those of the whole corpus.
        """
        ...


AnyConstraint = Constraint | LinearConstraint | CustomConstraint


def linear(
    U: sp.sparray | sp.spmatrix | ArrayLike,
    b: ArrayLike,
    sense: Sense = "<=",
    *,
    name: str = "linear",
    scope: Literal["instance", "corpus"] = "corpus",
) -> LinearConstraint:
    """Constraints ``U @ mu <= b`` (or ``>=``, ``==``) on the unary marginals of one batch, given as they are.

    Parameters
    ----------
    U : sparse array or array of shape (n_rows, n_unary)
        Finite coefficients.
    b : float or array of shape (n_rows,)
        Finite bounds.
    sense : {"<=", ">=", "=="}
    name : str
        How errors and reports call it.
    scope : {"instance", "corpus"}
        ``"instance"`` if every row stays inside one instance.

    Returns
    -------
    LinearConstraint

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a number is not finite, or an option is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> linear(np.array([[1.0, 0.0, 1.0]]), 1.0, "==", name="both or none")
    linear(<1 x 3 matrix, 2 stored>, b, "==", name="both or none", scope="corpus")
    """
    if sense not in ("<=", ">=", "=="):
        raise InvalidInputError(f'linear: sense must be "<=", ">=" or "==", got {sense!r}')
    if scope not in ("instance", "corpus"):
        raise InvalidInputError(f'linear: scope must be "instance" or "corpus", got {scope!r}')
    matrix = sp.csr_array(U if sp.issparse(U) else np.atleast_2d(np.asarray(U)), dtype=np.float64, copy=True)
    bounds = np.asarray(b, dtype=np.float64)
    if bounds.ndim > 1 or (bounds.ndim == 1 and len(bounds) != matrix.shape[0]):
        raise InvalidInputError(
            f"linear: b needs one number or one per row of U, got shape {bounds.shape} for {matrix.shape[0]} rows"
        )
    if not np.isfinite(matrix.data).all() or not np.isfinite(bounds).all():
        raise InvalidInputError("linear: U and b must be finite, got NaN or infinity; leave rows without a bound out")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return LinearConstraint(matrix, np.broadcast_to(bounds, matrix.shape[0]).copy(), sense, check_name(name), scope)


def make_slack(penalty: float | None, bound: float | None, norm: Norm) -> Slack:
    """A validated :class:`Slack`."""
    if (penalty is None) == (bound is None):
        raise InvalidInputError(
            f"slack takes exactly one of penalty= and bound=, got penalty={penalty!r} and bound={bound!r}"
        )
    if norm not in ("l1", "l2", "linf"):
        raise InvalidInputError(f'slack: norm must be "l1", "l2" or "linf", got {norm!r}')
    strength = penalty if penalty is not None else bound
    if not isinstance(strength, (int, float, np.integer, np.floating)) or not (0 < strength < math.inf):
        which = "penalty" if penalty is not None else "bound"
        raise InvalidInputError(
            f"slack: {which} must be a positive finite number, got {strength!r}; for no slack leave slack out"
        )
    value = float(strength)
    return Slack("penalty" if penalty is not None else "bound", norm, int(value) if value.is_integer() else value)


def check_name(name: str) -> str:
    """A name for errors and reports: a text that is not empty."""
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"a constraint's name must be a text that is not empty, got {name!r}")
    return name


def _slack_text(slack: Slack | None) -> str:
    return "" if slack is None else f".slack({slack.kind}={slack.strength!r}, norm={quote(slack.norm)})"


def _name_text(name: str | None) -> str:
    return "" if name is None else f".named({quote(name)})"
