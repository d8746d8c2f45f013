"""The rows of a table as a structure with the columns that users know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spectrem.structures.categorical import Categorical
from spectrem.structures.chains.chain import Chain
from spectrem.structures.chains.edge_chain import EdgeChain
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Polytope, has_one_label

_NAMES = {"instance": "row", "sentence": "row", "tag": "label"}


@dataclass(frozen=True, eq=False)
class TableStructure:
    """A `Categorical` or chain whose columns are called ``row`` and ``label`` (and ``token``, ``occurrence``).

    Parameters
    ----------
    inner : Categorical, Chain or EdgeChain
        One instance per row of the table.
    ragged : bool
        Whether rows have their own length, and the user is handed back a list of them.

    Examples
    --------
    >>> from spectrem.structures import Categorical
    >>> dict(TableStructure(Categorical([2, 2])).columns)
    {'row': array([0, 0, 1, 1]), 'label': array([0, 1, 0, 1])}
    """

    inner: Categorical | Chain | EdgeChain
    ragged: bool = False

    @property
    def n_instances(self) -> int:
        """Rows of the table."""
        return self.inner.n_instances

    @property
    def n_unary(self) -> int:
        """Cells of the table."""
        return self.inner.n_unary

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the transitions of a lattice; empty elsewhere."""
        return self.inner.factor_shapes

    @property
    def instance_name(self) -> str:
        """Rows are numbered by the column ``row``."""
        return "row"

    @property
    def instance(self) -> NDArray[np.int64]:
        """Row of every cell, shape (n_unary,)."""
        return self.inner.instance

    @property
    def choice(self) -> NDArray[np.int64]:
        """Row of every cell, or token of a lattice, shape (n_unary,)."""
        return self.inner.choice

    @property
    def is_lattice(self) -> bool:
        """Whether a row is a sequence of tokens with a label each."""
        return not has_one_label(self.inner)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Boundaries of the parts to choose among: of the rows, or of the tokens of a lattice."""
        return self.inner.offsets

    @property
    def state_part(self) -> NDArray[np.int64] | None:
        """Token and label of every part of a lattice whose parts are pairs of labels; None elsewhere."""
        return self.inner.state_part if isinstance(self.inner, EdgeChain) else None

    @cached_property
    def columns(self) -> Mapping[str, NDArray]:
        """``row``, of a lattice ``token``, ``occurrence`` and perhaps ``previous``, and ``label``; shape (n_unary,)."""
        if isinstance(self.inner, Categorical):
            return _RowAndLabel(self.inner)
        return {_NAMES.get(name, name): values for name, values in self.inner.columns.items()}

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], Parts]:
        """The same method of ``inner``."""
        return self.inner.smoothed_max(scores, gamma, active=active, weights=weights)

    def decode(self, scores: Parts) -> NDArray[np.int64]:
        """Positions of the best labels."""
        return self.inner.decode(scores)

    def polytope(self, scores: Parts, instance: int) -> Polytope:
        """The same method of ``inner``."""
        return self.inner.polytope(scores, instance)

    def positions(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which of the labels to choose among one cell of each is."""
        if isinstance(self.inner, EdgeChain):
            return self.inner.state_part[cells] % self.inner.n_states
        return cells - self.offsets[:-1]

    def cut(self, values: NDArray) -> NDArray | list[NDArray]:
        """Values of the cells as the user gave them.

        An array of shape (n_rows, n_labels); of a ragged table a list of rows, of a lattice one of arrays of shape
        (n_tokens, n_labels).
        """
        if not isinstance(self.inner, Categorical):
            if isinstance(self.inner, EdgeChain):
                values = np.bincount(self.inner.state_part, values, self.inner.n_tokens * self.inner.n_states)
            tokens = values.reshape(-1, self.inner.n_states)
            return np.split(tokens, self.inner.token_offsets[1:-1])
        if self.ragged:
            return [values[start:stop] for start, stop in pairwise(self.offsets)]
        return values.reshape(self.n_instances, -1)


@dataclass(frozen=True)
class _RowAndLabel(Mapping[str, NDArray]):
    """The columns of a table without tokens; those that nobody asks for take no memory."""

    inner: Categorical

    def __getitem__(self, name: str) -> NDArray:
        if name not in self:
            raise KeyError(name)
        return self.inner.instance if name == "row" else self._label

    @cached_property
    def _label(self) -> NDArray:
        return self.inner.columns["label"]

    def __iter__(self) -> Iterator[str]:
        yield from ("row", "label")

    def __len__(self) -> int:
        return 2

    def __contains__(self, name: object) -> bool:
        return name in ("row", "label")
