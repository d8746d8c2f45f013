"""Hidden Markov models of order 1 and 2 over the cells of a lexicon: tables, model, where they start, and samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_lengths
from spectrem.constraints.compilation.groups import Key
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.inference.dual import refuse_impossible, sum_by
from spectrem.models.estep import EStepResult, Statistics
from spectrem.models.priors import DirichletPrior, Multinomials, Prior, Tables
from spectrem.models.shards import count_known
from spectrem.models.tagging.lexicon import Lexicon, TagShard
from spectrem.structures import Chain, Chain2, Parts, TiedChain, TiedChain2, TiedCounts2
from spectrem.structures._ragged import offsets_of, ranges_of, rows_of

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
    known = np.where(fixed, _values(restriction.values, fixed, rows.shape, name), 0.0)
    clash = impossible & fixed & (known > 0)
    if clash.any():
        at = int(np.argmax(clash))
        raise InvalidInputError(
            f"restrictions.{name}: an impossible entry must not be fixed above 0; got {known[at]:g} at "
            f"{_entry_name(rows, name, at)}; drop one of the two"
        )
    free = ~(impossible | fixed)
    n_rows = len(rows.row_sizes)
    sizes = np.bincount(rows.row[free], minlength=n_rows)
    total = np.bincount(rows.row, known, n_rows)
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
    return Multinomials(rows.shape, rows.row[free], sizes, np.flatnonzero(free), known, share)


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
    tags : sequence of n_states str or int, optional
    words : sequence of n_words str, optional
    unknown : str
        Spelling of words never seen.
    """

    tags: Sequence[str | int] | None = None
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
    restrictions: Restrictions = Restrictions()
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
            columns["tag"] = np.array(names.tags)[self.layout(shard).states]
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
            table, rows = getattr(params, name), self._tables.rows.get(name)
            shape = None if rows is None else rows.shape
            own_shape = None if table is None else np.shape(table)
            if own_shape != shape:
                raise InvalidInputError(
                    f"params.{name} must have shape {shape}; got {own_shape}; make it for this order and this lexicon "
                    "(emission by cell)"
                )
            if table is not None and not ((table >= 0) & (table < np.inf)).all():
                bad = np.asarray(table)[~((table >= 0) & (table < np.inf))][0]
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


@dataclass(frozen=True, eq=False)
class TagKernel:
    """Expected counts of an HMM without constraints on its posteriors, at any gamma.

    For gamma > 0 all tokens of one lexicon entry share their potentials, so that memory does not grow with the
    corpus; at gamma <= 0 it is Viterbi. Results equal those of the general E-step.

    Use when there are no constraints.

    Parameters
    ----------
    model : HMMModel
    reference : HMMParameters, optional
        Skewed annealing: at gamma = 1 / beta > 1 the posterior is in proportion to ``p**beta * r**(1 - beta)``, with
        r the posterior of the reference instead of the uniform one ([SmithEisner2004] §5). What is impossible under
        the reference stays so until gamma = 1.
    """

    model: HMMModel
    reference: HMMParameters | None = None

    def prepare(self, params: HMMParameters, gamma: float) -> Callable[[TagShard], EStepResult[Statistics]]:
        """The E-step of a shard; the table of potentials that all shards share is computed here."""
        if gamma <= 0:
            return partial(_best_paths, self.model, params)
        lexicon = self.model.lexicon
        # Entries that restrict a word to some states share the cells of the word.
        cells = lexicon.entry_cells if lexicon.n_entries > lexicon.n_words else None
        return partial(_count, self.table(params, gamma), cells, lexicon.n_cells)

    def table(self, params: HMMParameters, gamma: float) -> TiedChain | TiedChain2:
        """Potentials of the model at gamma > 0, skewed toward the reference if there is one."""
        lexicon = self.model.lexicon
        scores = [log(table) for table in _tables(params)]
        if self.reference is not None and gamma > 1:
            scores = [s + (gamma - 1) * log(r) for s, r in zip(scores, _tables(self.reference), strict=True)]
        emission, initial, *factors = scores
        states = None if lexicon.dense else lexicon.entry_states
        rows = (lexicon.entry_offsets, states, lexicon.n_states, np.append(emission, 0.0)[lexicon.entry_cells])
        if params.second is None:
            return TiedChain(*rows, initial, factors[0], gamma)
        return TiedChain2(*rows, initial, factors[0], factors[1], gamma)


def _count(table: TiedChain | TiedChain2, cells: Ints | None, n_cells: int, shard: TagShard) -> EStepResult[Statistics]:
    values, counts = table.expected_counts(shard.lengths, shard.entries, shard.weights)
    possible = np.isfinite(values)
    if not possible.all():
        raise InvalidInputError(
            f"sentence {shard.instances[int(np.argmin(possible))]} must have some possible sequence of states under "
            "the parameters; every one has probability 0; smooth the start parameters, or loosen masks, fixed entries "
            "and the dictionary"
        )
    value = float(shard.weights @ values)
    emission = counts.rows if cells is None else sum_by(cells, counts.rows, n_cells + 1)[:-1]
    second = counts.second if isinstance(counts, TiedCounts2) else None
    stats = Statistics(initial=counts.initial, transition=counts.transition, second=second, emission=emission)
    return EStepResult(stats, value, value)


def _best_paths(model: HMMModel, params: HMMParameters, shard: TagShard) -> EStepResult[Statistics]:
    structure, scores = model.structure(shard), model.scores(params, shard)
    values, marginals = structure.smoothed_max(scores, 0.0, weights=shard.weights)
    refuse_impossible(values)
    value = float(shard.weights @ values)
    return EStepResult(model.gather(params, shard, marginals), value, value)


def _tables(params: HMMParameters) -> list[Floats]:
    factors = [params.transition] if params.second is None else [params.second, params.transition]
    return [params.emission, params.initial, *factors]


def sample_sentences(
    params: HMMParameters, lexicon: Lexicon, lengths: ArrayLike, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw states and words of sentences of given lengths.

    Rows that do not sum to 1 (mean-field weights) are scaled; states that emit no word are left out.

    Parameters
    ----------
    params : HMMParameters
    lexicon : Lexicon
        Whose cells ``params.emission`` refers to.
    lengths : array-like of shape (n_sentences,), int
        Tokens of every sentence, >= 0.
    rng : numpy.random.Generator

    Returns
    -------
    words, states : ndarrays of shape (n_tokens,), int64
        Sentence after sentence.

    Raises
    ------
    InvalidInputError
        If a state is reached from which no state that emits words can follow.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.tagging import HMMParameters, Lexicon
    >>> params = HMMParameters(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]), None, np.ones(2))
    >>> lexicon = Lexicon.from_allowed([0, 1, 2], [0, 1], n_states=2)
    >>> sample_sentences(params, lexicon, [3, 2], np.random.default_rng(0))
    (array([0, 1, 0, 0, 1]), array([0, 1, 0, 0, 1]))
    """
    lengths = as_lengths(lengths, "lengths")
    starts = np.cumsum(lengths) - lengths
    emitting = np.bincount(lexicon.cell_states, params.emission, lexicon.n_states) > 0
    initial, transition = _cumulative(params.initial, emitting), _cumulative(params.transition, emitting)
    second = None if params.second is None else _cumulative(params.second, emitting)
    states = np.empty(int(lengths.sum()), np.int64)
    for t in range(int(lengths.max(initial=0))):
        at = starts[lengths > t] + t
        if t == 0:
            table = np.broadcast_to(initial, (len(at), lexicon.n_states))
        elif second is None:
            table = transition[states[at - 1]]
        elif t == 1:
            table = second[states[at - 1]]
        else:
            table = transition[states[at - 2], states[at - 1]]
        states[at] = _draw(table, rng)
    return _emit(params.emission, lexicon, states, rng), states


def _cumulative(table: Floats, emitting: Bools) -> Floats:
    """Cumulative probabilities along the last axis, of the states that emit words; NaN where there are none."""
    sums = np.cumsum(np.where(emitting, table, 0.0), axis=-1)
    with np.errstate(invalid="ignore"):
        return sums / sums[..., -1:]


def _draw(cumulative: Floats, rng: np.random.Generator) -> Ints:
    if np.isnan(cumulative[:, -1:]).any():
        raise InvalidInputError(
            "params must let every state be followed by one that emits words; got a row without any; add words to the "
            "lexicon or probability to the row"
        )
    # strictly below 1, so that an entry of probability 0 at the end is never drawn
    return (cumulative <= rng.random(len(cumulative))[:, None]).sum(axis=1)


def _emit(emission: Floats, lexicon: Lexicon, states: Ints, rng: np.random.Generator) -> Ints:
    words = np.empty(len(states), np.int64)
    for state in np.unique(states):
        cells = np.flatnonzero(lexicon.cell_states == state)
        sums = np.cumsum(emission[cells])
        tokens = np.flatnonzero(states == state)
        drawn = np.searchsorted(sums / sums[-1], rng.random(len(tokens)), side="right")
        words[tokens] = lexicon.cell_words[cells[drawn]]
    return words


_SMOOTHED = ("initial", "transition", "emission")


def uniform(model: HMMModel, *, perturbation: float = 0.0, rng: np.random.Generator | None = None) -> HMMParameters:
    """Every row uniform over what masks and the lexicon allow: a state emits its words with equal probability.

    Use when a dictionary breaks the symmetry of the states; without one, give a ``perturbation``.

    Parameters
    ----------
    model : HMMModel
    perturbation : float
        Each probability is multiplied by a factor drawn from [1, 1 + perturbation) before rows are normalised.
    rng : numpy.random.Generator, optional
        Needed if ``perturbation`` > 0.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        If ``perturbation`` is negative, or positive without ``rng``.

    Examples
    --------
    >>> from spectrem.models.tagging import Lexicon
    >>> model = HMMModel(Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2), order=1)
    >>> uniform(model).emission.tolist()  # state 0 emits both words, state 1 word 1 alone
    [0.5, 0.5, 1.0]
    """
    _check_perturbation(perturbation, rng)
    counts = _ones(model)
    return model.normalise(counts if rng is None else _noisy(counts, perturbation, rng), DirichletPrior(0.0))


def random_counts(model: HMMModel, rng: np.random.Generator, *, spread: float = 1.0) -> HMMParameters:
    """The M-step of counts ``1 + spread * U(0, 1)``, a pseudo E-step ([Ganchev2010] §8.2: 1 for EM, 1e-4 for VEM).

    Use when there is no dictionary and several runs are to have different starts.

    Parameters
    ----------
    model : HMMModel
    rng : numpy.random.Generator
    spread : float
        X of the paper, at least 0.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        If ``spread`` is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.models.tagging import Lexicon
    >>> start = random_counts(HMMModel(Lexicon.full(5, 2), order=1), np.random.default_rng(0), spread=1.0)
    >>> start.initial.round(3).tolist()
    [0.563, 0.437]
    """
    if not 0 <= spread < np.inf:
        raise InvalidInputError(f"spread must be finite and at least 0, got {spread}; 1 makes starts clearly differ")
    return model.normalise(_noisy(_ones(model), spread, rng))


def posterior_uniform(
    model: HMMModel, corpus: Corpus, *, perturbation: float = 0.0, rng: np.random.Generator | None = None
) -> HMMParameters:
    """The M-step of posteriors that are uniform over every token's states, independently of its neighbours.

    Use when words differ in how many states they may have; a token counts the more for a state the fewer it has
    ([Samdani2012] §5).

    Parameters
    ----------
    model : HMMModel
    corpus : Corpus
        Its shards are `TagShard`.
    perturbation, rng
        As in `uniform`.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        As `uniform`.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.tagging import Lexicon, build_shards
    >>> lexicon = Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2)
    >>> corpus = Local(build_shards(lexicon, [2], [0, 1]))
    >>> start = posterior_uniform(HMMModel(lexicon, order=1), corpus)
    >>> start.transition.tolist(), start.emission.round(3).tolist()
    ([[0.5, 0.5], [0.5, 0.5]], [0.667, 0.333, 1.0])
    """
    _check_perturbation(perturbation, rng)
    # Where all scores are 0 the posterior is uniform over sequences, a product over the tokens.
    start = model.normalise(_expected(model, corpus))
    return start if rng is None or perturbation == 0 else model.restrict(_noisy(start, perturbation, rng))


def unambiguous(model: HMMModel, corpus: Corpus, *, smoothing: float | Mapping[str, float]) -> HMMParameters:
    """Transitions as between tokens that can be in one state only; emissions as in `posterior_uniform`.

    First states are counted on those tokens, transitions where both neighbours are such tokens; every token is divided
    equally among its states for the emissions. At order 2 the transitions do not depend on the state two back: there
    are too few triples of such tokens.

    Use when a dictionary leaves many words a single tag: what may follow what is then known before EM starts.

    Parameters
    ----------
    model : HMMModel
    corpus : Corpus
        Its shards are `TagShard`.
    smoothing : float or mapping of {"initial", "transition", "emission"} -> float
        Positive, so that all that the lexicon and the restrictions allow is possible; "transition" also serves the
        second states of order 2.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        If ``smoothing`` lacks a table or is not positive.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.tagging import Lexicon, build_shards
    >>> lexicon = Lexicon.from_allowed([0, 1, 2, 4], [0, 1, 0, 1], n_states=2)  # word 2 may be in both states
    >>> corpus = Local(build_shards(lexicon, [3, 3], [0, 1, 2, 0, 1, 0]))
    >>> start = unambiguous(HMMModel(lexicon, order=1), corpus, smoothing=1.0)
    >>> start.transition.round(3).tolist(), start.emission.round(3).tolist()
    ([[0.25, 0.75], [0.667, 0.333]], [0.727, 0.667, 0.273, 0.333])
    """
    counts = corpus.sum(_certain, model)
    counts.emission = _expected(model, corpus).emission
    return _smoothed(model, counts, smoothing)


def supervised(model: HMMModel, corpus: Corpus, *, smoothing: float | Mapping[str, float] = 0.1) -> HMMParameters:
    """Relative frequencies in labelled sentences, with ``smoothing`` added to every count.

    Use when a few sentences are labelled and the rest is not.

    Parameters
    ----------
    model : HMMModel
    corpus : Corpus
        Its shards are `TagShard`; only those with ``known`` are counted.
    smoothing : float or mapping of {"initial", "transition", "emission"} -> float
        As in `unambiguous`.

    Returns
    -------
    HMMParameters

    Raises
    ------
    InvalidInputError
        If no sentence is labelled throughout, or ``smoothing`` lacks a table or is not positive.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> from spectrem.models.tagging import Lexicon, build_shards
    >>> lexicon, labelled = Lexicon.full(2, 2).with_entries([0, 1], [(0,), (1,)])
    >>> model = HMMModel(lexicon, order=1)
    >>> start = supervised(model, Local(build_shards(lexicon, [2], labelled)), smoothing=0.5)
    >>> start.initial.tolist(), start.emission.tolist()
    ([0.75, 0.25], [0.75, 0.25, 0.25, 0.75])
    """
    if not corpus.sum(count_known):
        raise InvalidInputError(
            "shards must hold sentences labelled throughout to start from them; got none; label some, or choose "
            "another start"
        )
    counts = corpus.sum(_labelled_counts, TagKernel(model).prepare(_ones(model), 1.0), _ones(model))
    return _smoothed(model, counts, smoothing)


def _check_perturbation(perturbation: float, rng: np.random.Generator | None) -> None:
    if not 0 <= perturbation < np.inf:
        raise InvalidInputError(f"perturbation must be finite and at least 0, got {perturbation}; 0 is exactly uniform")
    if perturbation > 0 and rng is None:
        raise InvalidInputError(
            f"rng must be a generator where perturbation is {perturbation}; pass np.random.default_rng(seed)"
        )


def _smoothed(model: HMMModel, counts: Statistics, smoothing: float | Mapping[str, float]) -> HMMParameters:
    """Distributions in proportion to counts plus pseudo-counts of their tables."""
    added = smoothing if isinstance(smoothing, Mapping) else dict.fromkeys(_SMOOTHED, smoothing)
    for table in _SMOOTHED:
        if not 0 < added.get(table, 0.0) < np.inf:
            raise InvalidInputError(
                f"smoothing must be positive and finite for each of {', '.join(_SMOOTHED)}; got {added.get(table)} "
                f"for {table}; without it words and transitions that were not counted would be impossible"
            )
    priors: dict[str, Any] = {f"{table}_prior": DirichletPrior(added[table]) for table in _SMOOTHED}
    return replace(model, **priors).normalise(counts)


def _certain(shard: TagShard, model: HMMModel) -> Statistics:
    """Weighted counts of first states and transitions of a shard among tokens that have a single state."""
    lexicon, n = model.lexicon, model.n_states
    first_part = lexicon.entry_offsets[shard.entries]
    single = lexicon.entry_offsets[shard.entries + 1] - first_part == 1
    states = lexicon.entry_states[first_part]
    weights = np.repeat(shard.weights, shard.lengths)
    is_first = np.zeros(len(states), np.bool_)
    is_first[offsets_of(shard.lengths)[:-1][shard.lengths > 0]] = True
    first = np.flatnonzero(is_first & single)
    later = np.flatnonzero(~is_first & single)
    later = later[single[later - 1]]
    pairs = sum_by(states[later - 1] * n + states[later], weights[later], n * n).reshape(n, n)
    initial = sum_by(states[first], weights[first], n)
    if model.order == 1:
        return Statistics(initial=initial, transition=pairs, second=None)
    return Statistics(initial=initial, transition=np.tile(pairs, (n, 1, 1)), second=pairs)


def _ones(model: HMMModel) -> HMMParameters:
    n, order = model.n_states, model.order
    second = np.ones((n, n)) if order == 2 else None
    return HMMParameters(np.ones(n), np.ones((n,) * (order + 1)), second, np.ones(model.lexicon.n_cells))


def _noisy(params: HMMParameters, spread: float, rng: np.random.Generator) -> HMMParameters:
    def noise(table: Floats) -> Floats:
        return table * (1.0 + spread * rng.random(table.shape))

    second = None if params.second is None else noise(params.second)
    return HMMParameters(noise(params.initial), noise(params.transition), second, noise(params.emission))


def _expected(model: HMMModel, corpus: Corpus) -> Statistics:
    """Counts under posteriors that are uniform over the sequences of states that the lexicon allows."""
    total: EStepResult[Statistics] = corpus.sum(TagKernel(model).prepare(_ones(model), 1.0))
    return total.stats


def _labelled_counts(
    shard: TagShard, expect: Callable[[TagShard], EStepResult[Statistics]], like: HMMParameters
) -> Statistics:
    """Counts of a shard whose states are given; zeros for other shards."""
    if shard.known:
        return expect(shard).stats
    return 0.0 * Statistics(
        initial=like.initial, transition=like.transition, second=like.second, emission=like.emission
    )
