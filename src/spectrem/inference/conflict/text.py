"""Messages that name conflicting rows as the user wrote them."""

from __future__ import annotations

from typing import Any

import numpy as np

from spectrem.constraints.compilation.rows import Block, Rows
from spectrem.exceptions import setting
from spectrem.inference.conflict.search import Conflict

_SHOWN = 3


def describe_conflict(conflict: Conflict, rows: Rows, n_problems: int = 1) -> str:
    """The message of an `InfeasibleConstraintError`: constraints, groups, bounds, how sure it is, and what to try.

    Parameters
    ----------
    conflict : Conflict
    rows : Rows
        Of the batch.
    n_problems : int
        How many separate problems are infeasible; the conflict is of one of them.

    Returns
    -------
    str
    """
    total = _sum(conflict, rows)
    sentences = []
    for block in rows.blocks:
        inside = np.flatnonzero((conflict.rows >= block.start) & (conflict.rows < block.stop))
        if not len(inside):
            continue
        shown = [_row(conflict, rows, block, int(k), bool(total)) for k in inside[:_SHOWN]]
        text = shown[0] + "".join(f", {place.removeprefix('in ')}" for place in shown[1:])
        n_more = len(inside) - len(shown)
        sentences.append((block.name, text + (f" and {n_more} more row{'s' * (n_more > 1)}" if n_more else "")))
    text = f"{sentences[0][0]!r}: no feasible q {sentences[0][1]}"
    if len(sentences) > 1:
        text += "; it conflicts with " + " and with ".join(f"{name!r} {where}" for name, where in sentences[1:])
    text += total
    if conflict.whole:
        it = "it" if len(conflict.rows) == 1 else "them"
        text += f"; expectations could meet {it}, whole structures cannot"
    if len(conflict.rows) > 1:
        if conflict.smallest:
            text += "; this is the smallest set of rows that conflict"
        elif conflict.irreducible:
            text += "; no subset of these rows conflicts"
        else:
            text += "; the conflict is among these rows, of which some may have no part in it"
    if n_problems > 1:
        text += f" ({n_problems} separate problems are infeasible)"
    return f"{text}; {_advice(conflict, rows)}"


def place_of(block: Block, k: int, instance: int) -> str:
    """The place of row ``k`` of a block, as messages name it."""
    keys = ", ".join(f"{name} {values[k]}" for name, values in block.keys.items())
    if list(block.keys) == ["row"] and block.scope == "corpus":
        return f"in {keys} of its matrix" if block.stop - block.start > 1 else "over the corpus"
    if keys:
        return f"in {keys}"
    return f"in instance {instance}" if instance >= 0 else "over the corpus"


def keys_of(rows: Rows, row: int) -> dict[str, Any]:
    """The values of the columns by which a row is named, for errors."""
    block = next(block for block in rows.blocks if block.start <= row < block.stop)
    return {name: values[row - block.start] for name, values in block.keys.items()}


def _row(conflict: Conflict, rows: Rows, block: Block, k: int, summed: bool) -> str:
    """Place, bound and what the others allow, of the k-th row of the conflict."""
    row = int(conflict.rows[k])
    place = place_of(block, row - block.start, int(rows.row_instance[row]))
    who = "the others leave" if len(conflict.rows) > 1 else "it can be"
    allowed = np.nan if summed else conflict.allowed[k]
    return f"{place} ({demand_of(block, row, rows.bounds[row], allowed, conflict.multipliers[k] >= 0, who)})"


def demand_of(block: Block, row: int, bound: float, allowed: float, from_above: bool, who: str = "it can be") -> str:
    """What a row demands as it was written, and what expectation it can have (NaN if that is not known).

    ``from_above`` says that the compiled row is ``U mu <= bound`` and ``allowed`` the least that it can be.
    """
    sense, sign = _sense(block, row)
    digits = _digits(bound, allowed)
    demand = f"{sense} {_number(sign * bound, digits)}"
    if block.slack is not None:
        demand += f" with slack {_number(block.slack.strength)}"
    if np.isnan(allowed):
        return demand
    least = from_above == (sign > 0)
    return f"{demand}, and {who} {_number(sign * allowed, digits)} at {'least' if least else 'most'}"


def _sense(block: Block, row: int) -> tuple[str, float]:
    """Comparison as it was written, and the sign that turns the compiled row into it."""
    sense = str(block.senses[row - block.start])
    return sense, -1.0 if sense == ">=" else 1.0


def _sum(conflict: Conflict, rows: Rows) -> str:
    """The sum of bounds of rows that are all least sizes, or all largest ones, and the sum that is possible."""
    if np.isnan(conflict.total):
        return ""
    pulls, demanded = set(), 0.0
    for row, multiplier in zip(conflict.rows, conflict.multipliers, strict=True):
        block = next(b for b in rows.blocks if b.start <= row < b.stop)
        pulls.add(float(np.sign(multiplier)) * _sense(block, int(row))[1])
        demanded += np.sign(multiplier) * rows.bounds[row]
    if len(pulls) > 1:
        return ""
    sign = 1.0 if pulls == {1.0} else -1.0
    digits = _digits(demanded, conflict.total)
    reach = ("reach", "most") if sign < 0 else ("come to", "least")
    return (
        f"; the bounds of these {len(conflict.rows)} rows sum to {_number(sign * demanded, digits)}, and together they "
        f"can {reach[0]} {_number(sign * conflict.total, digits)} at {reach[1]}"
    )


def _digits(left: float, right: float) -> int:
    """The number of digits in which two numbers differ."""
    return 7 if _number(left) != _number(right) else 12


def _number(value: float, digits: int = 7) -> str:
    return f"{value + 0.0:.{digits}g}"


def _advice(conflict: Conflict, rows: Rows) -> str:
    one = len(conflict.rows) == 1
    text = (
        "relax the bound, give the constraint slack (a penalty or a bound)"
        if one
        else "relax one of the bounds, give one of the constraints slack (a penalty or a bound)"
    )
    if (rows.row_instance[conflict.rows] < 0).all():
        return f"{text}, or leave {'it' if one else 'one of them'} out"
    return f"{text}, drop the instance, or leave constraints out there with {setting('infeasible', 'skip')}"
