"""Polytopes of structures that are put together step by step, as parsers do: a flow through the items of a grammar."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from spectrem.structures.structure import Polytope


@dataclass(frozen=True)
class Derivations:
    """Steps that each make one item of some smaller ones, and may take a part.

    Where no two items of a step can be made of the same words, as with spans, the flows of one unit into the goal have
    whole derivations as vertices [Martin1990].

    Attributes
    ----------
    items : dict of item -> int
        Numbers of the items made so far; the goal is 0.
    made, parts : list of int
        The item that each step makes, and the part that it takes, -1 for none.
    used : list of tuple of int
        The items that each step uses.

    Examples
    --------
    >>> steps = Derivations()
    >>> steps.add("half", (), 0)
    >>> steps.add("half", (), 1)
    >>> steps.add(steps.goal, ("half",))
    >>> steps.polytope(np.log([0.2, 0.8]), 0, 2).equalities.toarray().tolist()
    [[0.0, 0.0, 1.0], [1.0, 1.0, -1.0]]
    """

    goal: ClassVar[str] = "goal"

    items: dict[Hashable, int] = field(default_factory=lambda: {"goal": 0})
    made: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    used: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, item: Hashable, of: tuple[Hashable, ...], part: int = -1) -> None:
        """Add the step that makes ``item`` of others and takes a part, numbered within the instance."""
        self.made.append(self._number(item))
        self.used.append(tuple(self._number(one) for one in of))
        self.parts.append(part)

    def _number(self, item: Hashable) -> int:
        return self.items.setdefault(item, len(self.items))

    def polytope(self, unary: NDArray[np.float64], start: int, n_parts: int) -> Polytope:
        """One unit of flow into the goal; a variable per step.

        Parameters
        ----------
        unary : ndarray of shape (n_unary,)
            Scores of the batch, nats.
        start, n_parts : int
            The parts of the instance are ``unary[start : start + n_parts]``.
        """
        n_steps = len(self.made)
        if not n_steps:
            none = sp.csr_array((n_parts, 0))
            return Polytope(sp.csr_array((0, 0)), np.zeros(0), np.zeros(0), np.arange(start, start + n_parts), none, ())
        steps = np.arange(n_steps)
        leaving = np.repeat(steps, [len(own) for own in self.used])
        uses = np.array([item for own in self.used for item in own], np.int64)
        entries = np.concatenate([np.ones(n_steps), -np.ones(len(uses))])
        places = (np.concatenate([np.array(self.made), uses]), np.concatenate([steps, leaving]))
        right_hand_side = np.zeros(len(self.items))
        right_hand_side[0] = 1.0
        part = np.array(self.parts)
        takes = part >= 0
        objective = np.zeros(n_steps)
        objective[takes] = unary[start + part[takes]]
        return Polytope(
            equalities=sp.csr_array((entries, places), shape=(len(self.items), n_steps)),
            right_hand_side=right_hand_side,
            objective=objective,
            unary_index=np.arange(start, start + n_parts),
            unary=sp.csr_array((np.ones(takes.sum()), (part[takes], steps[takes])), shape=(n_parts, n_steps)),
            factors=(),
        )
