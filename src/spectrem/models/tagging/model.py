"""Hidden Markov models of order 1 and 2 over the cells of a lexicon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem.constraints.compilation.groups import Key
from spectrem.exceptions import InvalidInputError
from spectrem.inference.segments import sum_by
from spectrem.models.estep import Statistics
from spectrem.models.multinomials import Tables
from spectrem.models.priors import DirichletPrior, Prior
from spectrem.models.tagging.lexicon import Lexicon
from spectrem.models.tagging.restrictions import Restrictions, dense_rows, emission_rows
from spectrem.models.tagging.shards import TagShard
from spectrem.structures import Chain, Chain2, Parts
from spectrem.structures._ragged import offsets_of, ranges_of, rows_of

_TABLES = ("initial", "transition", "second", "emission")


@dataclass(frozen=True, eq=False)
class HMMParameters:
    """Probabilities (or, under a mean-field prior, weights) of an HMM; every row of a distribution is one state's.

    Attributes
    ----------
    initial : ndarray of shape (n_states,)
        Probability of the first state of a sentence.
    transition : ndarray of shape (n_states, n_states) or (n_states, n_states, n_states)
        Probability of the next state: [from, to], or at order 2 [two back, one back, to].
    second : ndarray of shape (n_states, n_states), or None
        Order 2 only: probability of the second state of a sentence, [first, second].
    emission : ndarray of shape (n_cells,)
        Probability of the cell's word given its state, by cell of the `Lexicon`.
    log_prior : float or None
        Log-density under the model's priors, nats, if an M-step made the parameters: that of a mean-field prior cannot
        be computed from the weights alone.
    """

    initial: Floats
    transition: Floats
    second: Floats | None
    emission: Floats
    log_prior: float | None = None

    @property
    def order(self) -> int:
        """States that the next one depends on: 1 or 2."""
        return self.transition.ndim - 1


@dataclass(frozen=True, eq=False)
class Names:
    """Names of states and words in constraints.

    Attributes
    ----------
    tags : sequence of n_states str, optional
    words : sequence of n_words str, optional
    unknown : str
        Spelling of words never seen.
    """

    tags: Sequence[str] | None = None
    words: Sequence[str] | None = None
    unknown: str = "<unk>"


@dataclass(frozen=True, eq=False)
class HMMModel:
    """Sentences of words emitted by states, each state drawn after the last one or two [Rabiner1989].

    There is no event for the end of a sentence: p(x, h) is over sentences of given lengths.

    Use when tokens need labels and a dictionary, some labels or constraints say what the labels mean.

    Parameters
    ----------
    lexicon : Lexicon
    order : int
        1, or 2 for trigrams of states.
    initial_prior, transition_prior, emission_prior : Prior
        On the rows of each table; that of transitions also serves ``second``.
    restrictions : Restrictions
        Entries that are impossible or given; see `restrict` for start parameters.
    names : Names
        For the columns ``tag`` and ``word`` of constraints.

    Raises
    ------
    InvalidInputError
        If the order is neither 1 nor 2, ``names`` do not fit the lexicon, or a restriction leaves some row without a
        distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.tagging import build_shards
    >>> lexicon = Lexicon.full(n_words=2, n_states=2)
    >>> model = HMMModel(lexicon, order=1)
    >>> params = HMMParameters(
    ...     np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]]), None, np.array([0.8, 0.3, 0.2, 0.7])
    ... )
    >>> shard = build_shards(lexicon, [2], [0, 1])[0]  # one sentence: word 0, word 1
    >>> values, marginals = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
    >>> float(np.exp(values[0]).round(6))
    0.1975
    >>> model.gather(params, shard, marginals).initial.round(3).tolist()
    [0.506, 0.494]
    """

    lexicon: Lexicon
    order: int
    initial_prior: Prior = DirichletPrior()  # noqa: RUF009
    transition_prior: Prior = DirichletPrior()  # noqa: RUF009
    emission_prior: Prior = DirichletPrior()  # noqa: RUF009
    restrictions: Restrictions = Restrictions()  # noqa: RUF009
    names: Names = Names()

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise InvalidInputError(f"order must be 1 or 2, got {self.order!r}; use 1 for bigrams of states")
        for name, given, size in (
            ("tags", self.names.tags, self.lexicon.n_states),
            ("words", self.names.words, self.lexicon.n_words),
        ):
            if given is not None and len(given) != size:
                raise InvalidInputError(
                    f"names.{name} must hold {size} names, as the lexicon does; got {len(given)}; name every one "
                    "or none"
                )
        if self.order == 1 and self.restrictions.second is not None:
            raise InvalidInputError(
                "restrictions.second must be None at order 1, which has no such table; restrict transition"
            )
        _ = self._tables  # validates the restrictions

    @property
    def n_states(self) -> int:
        return self.lexicon.n_states

    def structure(self, shard: TagShard) -> Chain | Chain2:
        """A chain of states per sentence, each token's among those that the lexicon allows."""
        allowed = None if self.lexicon.dense else self.layout(shard)[:2]
        return (Chain if self.order == 1 else Chain2)(shard.lengths, self.n_states, allowed)

    def scores(self, params: HMMParameters, shard: TagShard) -> Parts:
        """Log-probabilities (nats) of the states of every token, with the initial ones in the first token's."""
        layout = self.layout(shard)
        unary = np.append(log(params.emission), 0.0)[layout.cells]
        unary[layout.first] += log(params.initial)[layout.states[layout.first]]
        second = () if params.second is None else (log(params.second),)
        return Parts(unary, (*second, log(params.transition)))

    def gather(self, params: HMMParameters, shard: TagShard, marginals: Parts) -> Statistics:
        """Expected counts of a shard, times the sentences' weights, from the marginals of `scores`."""
        layout = self.layout(shard)
        weighted = np.repeat(np.repeat(shard.weights, shard.lengths), np.diff(layout.offsets)) * marginals.unary
        first = layout.first
        return Statistics(
            initial=sum_by(layout.states[first], weighted[first], self.n_states),
            transition=marginals.factors[-1].copy(),
            second=marginals.factors[0].copy() if self.order == 2 else None,
            emission=sum_by(layout.cells, weighted, self.lexicon.n_cells + 1)[:-1],
        )

    def distributions(self, shard: TagShard, marginals: Parts) -> Floats:
        """Posteriors of the states of every token, shape (n_tokens, n_states); 0 where the lexicon forbids a state."""
        layout, table = self.layout(shard), np.zeros((shard.n_tokens, self.n_states))
        table[rows_of(np.diff(layout.offsets)), layout.states] = marginals.unary
        return table

    def columns(self, shard: TagShard) -> Mapping[str, Key]:
        """Columns for constraints beside the structure's own.

        ``sentence`` as numbers in the corpus, shape (n_sentences,); ``tag`` as names, shape (n_unary,), if the states
        have names; ``word``, shape (n_tokens,), as spelling if the words have spellings, else as numbers; and those
        that the shard holds.
        """
        lexicon, names = self.lexicon, self.names
        words = lexicon.entry_words[shard.entries]
        columns: dict[str, NDArray] = {
            "sentence": shard.instances,
            "word": words if names.words is None else np.array([*names.words, names.unknown], np.str_)[words],
        }
        if names.tags is not None:
            columns["tag"] = np.array(names.tags, np.str_)[self.layout(shard).states]
        return {**columns, **shard.columns.of_sentences, **shard.columns.of_words}

    def m_step(self, params: HMMParameters, stats: Statistics, corpus: object = None) -> HMMParameters:
        """Parameters that maximise the expected log-probability plus the log-prior, within the restrictions.

        ``corpus`` is not read: the maximum is in closed form.
        """
        return _parameters(self._tables.m_step(stats))

    def initial_stats(self, params: HMMParameters) -> Statistics:
        """One count for every state, shared out as in the parameters.

        Stepwise EM begins with them, so that words that the first sentences lack are not impossible afterwards.
        """
        return 1.0 * Statistics(**{name: getattr(params, name) for name in _TABLES})

    def log_prior(self, params: HMMParameters) -> float:
        """Log-density of the parameters, nats, up to a constant; the M-step adds it to the expected log-probability.

        Under a mean-field prior it is minus the divergence of the posterior over parameters from it, and -inf for
        parameters that no M-step made.
        """
        return self._tables.log_density(params) if params.log_prior is None else params.log_prior

    def normalise(self, counts: Statistics | HMMParameters, prior: Prior | None = None) -> HMMParameters:
        """Distributions in proportion to counts; ``prior``, if given, stands in for those of the model."""
        return _parameters(self._tables.normalise(counts, prior))

    def restrict(self, params: HMMParameters) -> HMMParameters:
        """Start parameters with every row a distribution and the restrictions applied.

        Free entries keep their proportions; a row whose free entries are all 0 becomes uniform over them.

        Raises
        ------
        InvalidInputError
            If the arrays do not have the shapes of the model, or hold NaN, infinite or negative numbers.
        """
        for name in _TABLES:
            given, rows = getattr(params, name), self._tables.rows.get(name)
            shape = None if rows is None else rows.shape
            found = None if given is None else np.shape(given)
            if found != shape:
                raise InvalidInputError(
                    f"params.{name} must have shape {shape}; got {found}; make it for this order and this lexicon "
                    "(emission by cell)"
                )
            if given is not None and not ((given >= 0) & (given < np.inf)).all():
                bad = np.asarray(given)[~((given >= 0) & (given < np.inf))][0]
                raise InvalidInputError(
                    f"params.{name} must hold finite probabilities >= 0; got {bad}; look for 0 / 0 or logarithms"
                )
        return self.normalise(params, DirichletPrior(0.0))

    @cached_property
    def _tables(self) -> Tables:
        n, rules = self.n_states, self.restrictions
        shapes: dict[str, tuple[int, ...]] = {"initial": (n,), "transition": (n,) * (self.order + 1)}
        if self.order == 2:
            shapes["second"] = (n, n)
        rows = {name: dense_rows(shape, getattr(rules, name), name) for name, shape in shapes.items()}
        rows["emission"] = emission_rows(self.lexicon, rules.emission)
        priors = self.initial_prior, self.transition_prior, self.transition_prior, self.emission_prior
        return Tables(rows, dict(zip(_TABLES, priors, strict=True)))

    def layout(self, shard: TagShard) -> Layout:
        """The unary parts of the shard's structures: their tokens, states and cells."""
        lexicon = self.lexicon
        starts = lexicon.entry_offsets[shard.entries]
        widths = lexicon.entry_offsets[shard.entries + 1] - starts
        offsets, parts = offsets_of(widths), ranges_of(starts, widths)
        heads = offsets_of(shard.lengths)[:-1][shard.lengths > 0]
        first = ranges_of(offsets[heads], widths[heads])
        return Layout(offsets, lexicon.entry_states[parts], lexicon.entry_cells[parts], first)


def _parameters(tables: dict[str, Any]) -> HMMParameters:
    return HMMParameters(**{"second": None, **tables})


class Layout(NamedTuple):
    """The unary parts of a shard: boundaries of tokens, state and cell of every part, parts of the first tokens."""

    offsets: Ints
    states: Ints
    cells: Ints
    first: Ints


def log(probability: Floats) -> Floats:
    """Nats; -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(probability)
