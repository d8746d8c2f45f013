"""Entries of a model's tables that are impossible or given, and M-steps that respect them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Bools, Floats
from spectrem.exceptions import InvalidInputError
from spectrem.models.multinomials import Multinomials
from spectrem.models.tagging.lexicon import Lexicon

_NOISE = 1e-9


@dataclass(frozen=True, eq=False)
class Restriction:
    """Entries of one table that are not learned; arrays have the table's shape.

    Use when the grammar of states is known in part: a left-to-right chain, a state that must be followed by another,
    an emission measured elsewhere.

    Attributes
    ----------
    impossible : ndarray of bool, optional
        True where the probability is 0 and stays 0; such entries get no pseudo-count.
    fixed : ndarray of bool, optional
        True where the probability is ``values`` and stays so; the other entries of the row share what is left.
    values : ndarray of float64, optional
        Probabilities, read where ``fixed`` is True.
    """

    impossible: Bools | None = None
    fixed: Bools | None = None
    values: Floats | None = None


@dataclass(frozen=True, eq=False)
class Restrictions:
    """Restrictions of the tables of `HMMParameters`, each in the shape of its table (emission by cell)."""

    initial: Restriction | None = None
    transition: Restriction | None = None
    second: Restriction | None = None
    emission: Restriction | None = None


def dense_rows(shape: tuple[int, ...], restriction: Restriction | None, name: str) -> Multinomials:
    """A table whose last axis holds the events of a row.

    Raises
    ------
    InvalidInputError
        If the restriction has another shape, contradicts itself or leaves a row without a distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.priors import DirichletPrior
    >>> rule = Restriction(impossible=np.array([[True, False, False], [False] * 3]))
    >>> rows = dense_rows((2, 3), rule, "transition")
    >>> rows.normalise(np.array([[5.0, 1.0, 3.0], [1.0, 1.0, 2.0]]), DirichletPrior(0.0)).tolist()
    [[0.0, 0.25, 0.75], [0.25, 0.25, 0.5]]
    """
    return _restrict(Multinomials.dense(shape), restriction, name)


def emission_rows(lexicon: Lexicon, restriction: Restriction | None) -> Multinomials:
    """Emissions by cell; the row of a cell is its state. A state that emits no word has an empty row."""
    rows = Multinomials((lexicon.n_cells,), lexicon.cell_states, lexicon.state_sizes)
    return _restrict(rows, restriction, "emission")


def _restrict(rows: Multinomials, restriction: Restriction | None, name: str) -> Multinomials:
    if restriction is None or (restriction.impossible is None and restriction.fixed is None):
        return rows
    impossible = _mask(restriction.impossible, rows.shape, f"restrictions.{name}.impossible")
    fixed = _mask(restriction.fixed, rows.shape, f"restrictions.{name}.fixed")
    given = np.where(fixed, _values(restriction.values, fixed, rows.shape, name), 0.0)
    clash = impossible & fixed & (given > 0)
    if clash.any():
        at = int(np.argmax(clash))
        raise InvalidInputError(
            f"restrictions.{name}: an impossible entry must not be fixed above 0; got {given[at]:g} at "
            f"{_entry_name(rows, name, at)}; drop one of the two"
        )
    free = ~(impossible | fixed)
    n_rows = len(rows.row_sizes)
    sizes = np.bincount(rows.row[free], minlength=n_rows)
    total = np.bincount(rows.row, given, n_rows)
    n_fixed = np.bincount(rows.row[fixed], minlength=n_rows)
    empty = (rows.row_sizes > 0) & (sizes == 0) & (n_fixed == 0)
    if empty.any():
        raise InvalidInputError(
            f"restrictions.{name}.impossible must leave an entry in every row; "
            f"{_row_name(rows, name, int(np.argmax(empty)))} has none left; leave at least one, or drop the state"
        )
    above = total > 1 + _NOISE
    if above.any():
        at = int(np.argmax(above))
        raise InvalidInputError(
            f"restrictions.{name}.values must sum to at most 1 in every row; got {total[at]:.12g} in "
            f"{_row_name(rows, name, at)}; scale them down"
        )
    short = (n_fixed > 0) & (sizes == 0) & (total < 1 - _NOISE)
    if short.any():
        at = int(np.argmax(short))
        raise InvalidInputError(
            f"restrictions.{name}.values must sum to 1 in a row without free entries; got {total[at]:.12g} in "
            f"{_row_name(rows, name, at)}; raise them, or leave an entry free to take the rest"
        )
    share = np.clip(1.0 - total, 0.0, None)
    return Multinomials(rows.shape, rows.row[free], sizes, np.flatnonzero(free), given, share)


def _entry_name(rows: Multinomials, table: str, entry: int) -> str:
    """The name of an entry of a table in messages."""
    if table == "emission":
        return f"cell {entry} (state {rows.row[entry]})"
    return f"index {tuple(int(i) for i in np.unravel_index(entry, rows.shape))}"


def _row_name(rows: Multinomials, table: str, row: int) -> str:
    """The name of a row of a table in messages."""
    if table == "emission":
        return f"state {row}"
    place = ", ".join(str(int(i)) for i in np.unravel_index(row, rows.shape[:-1] or (1,)))
    return f"row [{place}]" if len(rows.shape) > 1 else "the only row"


def _mask(mask: Bools | None, shape: tuple[int, ...], name: str) -> Bools:
    if mask is None:
        return np.zeros(int(np.prod(shape)), np.bool_)
    array = np.asarray(mask)
    if array.shape != shape or array.dtype != np.bool_:
        raise InvalidInputError(
            f"{name} must be a boolean array of shape {shape}; got dtype {array.dtype}, shape {array.shape}; mark the "
            "entries with True"
        )
    return array.ravel()


def _values(values: Floats | None, fixed: Bools, shape: tuple[int, ...], name: str) -> Floats:
    if values is None:
        if fixed.any():
            raise InvalidInputError(
                f"restrictions.{name}.values must hold the fixed probabilities; got None; give an array of shape "
                f"{shape}"
            )
        return np.zeros(len(fixed))
    array = np.asarray(values, np.float64)
    if array.shape != shape:
        raise InvalidInputError(
            f"restrictions.{name}.values must have shape {shape}; got {array.shape}; fill what is not fixed with 0"
        )
    flat = array.ravel()
    outside = fixed & ~((flat >= 0) & (flat <= 1))
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidInputError(
            f"restrictions.{name}.values must be probabilities in [0, 1] where fixed; got {flat[at]} at flat index "
            f"{at}; give probabilities, not logarithms or counts"
        )
    return flat
