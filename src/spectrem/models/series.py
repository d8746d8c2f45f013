"""Hidden Markov models of series: rows of numbers, counts or categories, each emitted by the state of its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.groups import Key
from spectrem.inference.dual import sum_by
from spectrem.models.durations import Durations, duration_scores
from spectrem.models.emissions.emission import Emission
from spectrem.models.estep import Statistics
from spectrem.models.priors import Tables
from spectrem.models.shards import Columns, cut
from spectrem.models.tagging import log
from spectrem.structures import Chain, EdgeChain, Parts, SemiMarkovChain
from spectrem.structures._ragged import offsets_of, ranges_of

# Pairs of a row and a state in a shard.
_LEAST_PARTS, _MOST_PARTS = 1 << 14, 1 << 18


@dataclass(frozen=True, eq=False)
class SeriesParameters:
    """Probabilities of states, and the parameters of what they emit.

    Attributes
    ----------
    initial : ndarray of shape (n_states,)
    transition : ndarray of shape (n_states, n_states), [from, to]
    emission : parameters of the `Emission`
    durations : ndarray of shape (n_parameters, n_states), or None
        Parameters of how long states last, where `SeriesModel` has them.
    """

    initial: Floats
    transition: Floats
    emission: Any
    durations: Floats | None = None


@dataclass(frozen=True, eq=False)
class Sojourns:
    """How long states last, where that is not geometric, as it is by transitions alone.

    Attributes
    ----------
    family : Durations
        Of `spectrem.models.durations`.
    longest : int
        The most rows of a segment.
    left, right : bool
        Whether first segments may have begun before the first row, and last ones go on behind the last.
    """

    family: Durations
    longest: int
    left: bool = False
    right: bool = True

    def scores(self, parameters: Floats) -> Floats:
        """The table of `SemiMarkovChain`."""
        of_family = self.family.log_probabilities(parameters, self.longest)
        return duration_scores(of_family, left=self.left, right=self.right)

    def hazards(self, parameters: Floats) -> Floats:
        """Probabilities that a segment that has lasted d rows ends there, of first segments and of later ones.

        The shape is (2, longest, n_states).
        """
        p = np.exp(self.family.log_probabilities(parameters, self.longest))
        survival = np.cumsum(p[::-1], axis=0)[::-1]
        first = survival / survival.sum(axis=0) if self.left else p
        left_over = np.cumsum(first[::-1], axis=0)[::-1]
        both = np.stack([first, p]), np.stack([left_over, survival])
        hazards = np.divide(*both, out=np.ones_like(both[0]), where=both[1] > 0)
        hazards[:, -1] = 1.0
        return hazards


@dataclass(frozen=True, eq=False)
class SeriesShard:
    """Some sequences.

    Attributes
    ----------
    lengths : ndarray of shape (n_sequences,), int64
    x : ndarray of shape (n_rows, n_columns)
    weights : ndarray of shape (n_sequences,)
    known : bool
        Whether the state of every row is given; constraints inside sequences then do not apply.
    instances : ndarray of shape (n_sequences,), int64
        Numbers of the sequences.
    evidence : ndarray of shape (n_rows, n_states), or None
        What labels say, nats: 0 and -inf for a state or a set of states, logs of probabilities for a distribution.
    columns : Columns
        More columns for constraints.
    """

    lengths: Ints
    x: Floats
    weights: Floats
    known: bool
    instances: Ints
    evidence: Floats | None = None
    columns: Columns = Columns()  # noqa: RUF009


def build_shards(
    x: Floats,
    lengths: Ints,
    n_states: int,
    weights: Floats | None = None,
    known: Bools | None = None,
    evidence: Floats | None = None,
    columns: Columns = Columns(),  # noqa: B008
) -> list[SeriesShard]:
    """Cut sequences into shards: first those with unknown states, then those whose states are given.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_columns)
        NaN where a cell is missing.
    lengths : ndarray of shape (n_sequences,), int64
    n_states : int
    weights : ndarray of shape (n_sequences,), optional
    known : ndarray of shape (n_sequences,), bool, optional
    evidence : ndarray of shape (n_rows, n_states), optional
    columns : Columns, optional

    Returns
    -------
    list of SeriesShard
        At least one, the same for every number of workers. Sequences of length or weight 0 are in none.

    Examples
    --------
    >>> import numpy as np
    >>> shards = build_shards(np.arange(3.0)[:, None], np.array([2, 1]), n_states=2)
    >>> shards[0].instances.tolist(), shards[0].x.ravel().tolist()
    ([0, 1], [0.0, 1.0, 2.0])
    """
    n, offsets = len(lengths), offsets_of(lengths)
    weights = np.ones(n) if weights is None else weights
    known = np.zeros(n, np.bool_) if known is None else known
    counted, shards = weights > 0, []
    for run, is_known in cut(lengths * n_states, [~known & counted, known & counted], _LEAST_PARTS, _MOST_PARTS):
        rows = ranges_of(offsets[run], lengths[run])
        labels = None if evidence is None or not evidence[rows].any() else evidence[rows]
        named = columns.take(run, lengths)
        shards.append(SeriesShard(lengths[run], x[rows], weights[run], bool(is_known), run, labels, named))
    return shards


@dataclass(frozen=True, eq=False)
class SeriesModel:
    """Rows emitted by states, each state drawn after the one before it [Rabiner1989].

    Use when a series switches between a few regimes.

    Parameters
    ----------
    states : sequence of str or int
        Names of the states.
    emission : Emission
    tables : Tables
        Of "initial" and "transition", with their priors.
    sojourns : Sojourns, optional
        How long states last. Transitions then lead to other states only: "transition" has zeros on its diagonal.
    edges : bool
        Whether constraints name the state before, ``previous``; pairs of states then have parts of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.emissions import Gaussian
    >>> from spectrem.models.priors import DirichletPrior, Multinomials, Tables
    >>> rows = {"initial": Multinomials.dense((2,)), "transition": Multinomials.dense((2, 2))}
    >>> tables = Tables(rows, dict.fromkeys(rows, DirichletPrior()))
    >>> model = SeriesModel((0, 1), Gaussian("diag", covars_prior=0.0), tables)
    >>> shard = build_shards(np.array([[0.0], [0.2], [4.0], [4.1]]), np.array([4]), 2)[0]
    >>> emission = model.emission.of_arrays({"means": np.array([[0.0], [4.0]]), "covars": np.ones((2, 1))})
    >>> params = SeriesParameters(np.full(2, 0.5), np.array([[0.9, 0.1], [0.1, 0.9]]), emission)
    >>> model.structure(shard).decode(model.scores(params, shard)).tolist()
    [0, 0, 1, 1]
    """

    states: Sequence[Any]
    emission: Emission
    tables: Tables
    edges: bool = False
    sojourns: Sojourns | None = None

    @property
    def n_states(self) -> int:
        return len(self.states)

    def structure(self, shard: SeriesShard) -> Chain | EdgeChain | SemiMarkovChain:
        """A chain of states per sequence."""
        if self.sojourns is not None:
            return SemiMarkovChain(shard.lengths, self.n_states, self.sojourns.longest, "sequence", "state")
        return (EdgeChain if self.edges else Chain)(shard.lengths, self.n_states, None, "sequence", "state")

    def scores(self, params: SeriesParameters, shard: SeriesShard) -> Parts:
        """Log-densities (nats) of the rows in all states, with the initial ones in the first row's."""
        table = self.emission.scores(params.emission, shard.x)
        if shard.evidence is not None:
            table += shard.evidence
        table[offsets_of(shard.lengths)[:-1][shard.lengths > 0]] += log(params.initial)
        unary, structure = table.ravel(), self.structure(shard)
        if isinstance(structure, EdgeChain):
            unary = unary[structure.state_part]
        factors: tuple[Floats, ...] = (log(params.transition),)
        if self.sojourns is not None:
            assert params.durations is not None
            factors += (self.sojourns.scores(params.durations),)
        return Parts(unary, factors)

    def distributions(self, shard: SeriesShard, marginals: Parts) -> Floats:
        """Posteriors of the states of every row, shape (n_rows, n_states)."""
        unary, structure = marginals.unary, self.structure(shard)
        if isinstance(structure, EdgeChain):
            unary = sum_by(structure.state_part, unary, len(shard.x) * self.n_states)
        return unary.reshape(len(shard.x), self.n_states)

    def gather(self, params: SeriesParameters, shard: SeriesShard, marginals: Parts) -> Statistics:
        """Expected counts and statistics of the emission, times the weights of the sequences."""
        shares = self.distributions(shard, marginals) * np.repeat(shard.weights, shard.lengths)[:, None]
        first = offsets_of(shard.lengths)[:-1][shard.lengths > 0]
        return Statistics(
            initial=shares[first].sum(axis=0),
            transition=marginals.factors[0].copy(),
            emission=self.emission.gather(params.emission, shard.x, shares),
            durations=marginals.factors[1].copy() if self.sojourns is not None else None,
        )

    def m_step(self, params: SeriesParameters, stats: Statistics, corpus: object = None) -> SeriesParameters:
        """Parameters that maximise the expected log-probability plus the log-prior; ``corpus`` is not read."""
        tables = self.tables.m_step(stats)
        if self.sojourns is not None:
            ends = {"left": self.sojourns.left, "right": self.sojourns.right}
            tables["durations"] = self.sojourns.family.fit(stats.durations, **ends, previous=params.durations)
        return replace(params, **tables, emission=self.emission.m_step(params.emission, stats.emission))

    def log_prior(self, params: SeriesParameters) -> float:
        """Log-density of the parameters, nats, up to a constant."""
        of_durations = 0.0
        if self.sojourns is not None:
            assert params.durations is not None
            of_durations = self.sojourns.family.log_density(params.durations)
        return self.tables.log_density(params) + self.emission.log_prior(params.emission) + of_durations

    def columns(self, shard: SeriesShard) -> Mapping[str, Key]:
        """Columns for constraints.

        ``sequence`` by number, ``state`` and ``previous`` by name, whether states ``change``, and those of the shard.
        """
        names, own = np.array(self.states), self.structure(shard).columns
        named: dict[str, Any] = {"sequence": shard.instances, "state": names[own["state"].astype(np.int64)]}
        if self.edges:
            before = own["previous"]
            missing = np.isnan(before)
            if names.dtype.kind == "U":
                named["previous"] = np.array([*names.tolist(), None], object)[np.where(missing, -1, before).astype(int)]
            else:
                named["previous"] = np.where(missing, np.nan, names[np.where(missing, 0, before).astype(int)])
            named["change"] = ~missing & (before != own["state"])  # the columns of rows, by the parts of this structure
            row = own["occurrence"].astype(np.int64)
            return {**named, **shard.columns.of_sentences, **{n: c[row] for n, c in shard.columns.of_words.items()}}
        return {**named, **shard.columns.of_sentences, **shard.columns.of_words}
