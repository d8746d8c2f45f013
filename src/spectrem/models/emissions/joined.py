"""Columns of several families, joined by their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import iadd
from typing import Any

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem.exceptions import InvalidInputError
from spectrem.models.emissions.emission import Emission
from spectrem.models.estep import Statistics

Numbers = int | tuple[int, ...]


@brief_dataclass(frozen=True, eq=False)
class Joined:
    """Columns, or groups of columns, that are independent given the state, each with an emission of its own.

    Parameters
    ----------
    emissions : mapping of int or tuple of int -> Emission
        By the numbers of the columns; every column belongs to one of them.
    names : sequence of str
        Names of the emissions, those of their columns joined by "_", which training fills in. They and "_" stand
        before the names of arrays and of ``fixed``.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.emissions import Gaussian, Poisson
    >>> x = np.array([[3.0, 0.1], [5.0, np.nan]])
    >>> emission = Joined({0: Poisson(), 1: Gaussian()}).learn(x, ["visits", "height"])
    >>> sorted(emission.arrays(emission.start(x, np.ones((2, 1)))))
    ['height_covars', 'height_means', 'visits_lambdas']
    """

    emissions: Mapping[Numbers, Emission]
    names: Sequence[str] = ()

    @property
    def fixed(self) -> list[str]:
        return [f"{name}_{block}" for _, one, name in self._parts for block in one.fixed]

    def learn(self, x: Floats, names: Sequence[str]) -> Joined:
        listed = [column for columns, _, _ in self._parts for column in columns]
        if sorted(listed) != list(range(x.shape[1])):
            raise InvalidInputError(
                f"emissions must name each column of 0..{x.shape[1] - 1} once, got {sorted(listed)}; give every column "
                "one emission"
            )
        joined = ["_".join(str(names[column]) for column in columns) for columns, _, _ in self._parts]
        if len(set(joined)) < len(joined):
            raise InvalidInputError(f"columns of emissions must have different names, got {joined}; rename one")
        learnt = [one.learn(x[:, columns], [names[c] for c in columns]) for columns, one, _ in self._parts]
        return replace(self, emissions=dict(zip(self.emissions, learnt, strict=True)), names=joined)

    def check(self, x: Floats, names: Sequence[str]) -> None:
        for columns, one, _ in self._parts:
            one.check(x[:, columns], [names[c] for c in columns])

    def start(self, x: Floats, shares: Floats) -> tuple[Any, ...]:
        return tuple(one.start(_take(x, columns), shares) for columns, one, _ in self._parts)

    def scores(self, params: tuple[Any, ...], x: Floats) -> Floats:
        return reduce(iadd, (one.scores(own, _take(x, columns)) for columns, one, _, own in self._with(params)))

    def gather(self, params: tuple[Any, ...], x: Floats, shares: Floats) -> Statistics:
        stats = {name: one.gather(own, _take(x, columns), shares) for columns, one, name, own in self._with(params)}
        return Statistics(**stats)

    def m_step(self, params: tuple[Any, ...], stats: Statistics) -> tuple[Any, ...]:
        return tuple(one.m_step(own, getattr(stats, name)) for _, one, name, own in self._with(params))

    def log_prior(self, params: tuple[Any, ...]) -> float:
        return sum(one.log_prior(own) for _, one, _, own in self._with(params))

    def means(self, params: tuple[Any, ...]) -> Floats:
        return self._together([one.means(own) for _, one, _, own in self._with(params)])

    def variances(self, params: tuple[Any, ...]) -> Floats:
        return self._together([one.variances(own) for _, one, _, own in self._with(params)])

    def cumulative(self, params: tuple[Any, ...], x: Floats, strictly: bool = False) -> Floats:
        parts = self._with(params)
        return self._together([one.cumulative(own, _take(x, columns), strictly) for columns, one, _, own in parts])

    def impute(self, params: tuple[Any, ...], x: Floats, posteriors: Floats) -> Floats:
        parts = self._with(params)
        return self._together([one.impute(own, _take(x, columns), posteriors) for columns, one, _, own in parts])

    def sample(self, params: tuple[Any, ...], states: Ints, rng: np.random.Generator) -> Floats:
        return self._together([one.sample(own, states, rng) for _, one, _, own in self._with(params)])

    def n_free(self, params: tuple[Any, ...]) -> int:
        return sum(one.n_free(own) for _, one, _, own in self._with(params))

    def arrays(self, params: tuple[Any, ...]) -> dict[str, Floats]:
        """The arrays of all emissions; the name of the emission and "_" stand before their names."""
        parts = self._with(params)
        return {f"{name}_{key}": a for _, one, name, own in parts for key, a in one.arrays(own).items()}

    def of_arrays(self, arrays: Mapping[str, Floats]) -> tuple[Any, ...]:
        own = [{key.removeprefix(f"{name}_"): a for key, a in arrays.items()} for _, _, name in self._parts]
        return tuple(one.of_arrays(part) for (_, one, _), part in zip(self._parts, own, strict=True))

    @property
    def _parts(self) -> list[tuple[list[int], Emission, str]]:
        """Column numbers, emission and name of each of them."""
        columns = [[key] if isinstance(key, int) else list(key) for key in self.emissions]
        names = self.names or ["_".join(map(str, group)) for group in columns]
        return list(zip(columns, self.emissions.values(), names, strict=True))

    def _with(self, params: tuple[Any, ...]) -> list[tuple[list[int], Emission, str, Any]]:
        return [(*part, own) for part, own in zip(self._parts, params, strict=True)]

    def _together(self, parts: Sequence[Any]) -> Any:
        """Arrays of some columns each, on their last axis, as one in the order of the columns."""
        order = np.argsort([column for columns, _, _ in self._parts for column in columns])
        return np.concatenate(parts, axis=-1)[..., order]


def _take(x: Floats, columns: list[int]) -> Floats:
    return np.ascontiguousarray(x[:, columns])
