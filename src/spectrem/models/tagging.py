"""Hidden Markov models of order 1 and 2 over tagged, partly tagged or untagged sentences.

A `Lexicon` says which states may emit each word, and holds what tokens refer to; `build_shards` cuts a corpus of such
tokens. `HMMModel` has its tables over the cells of a lexicon; then come the compiled E-step, samples, and parameters to
start from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._validate import as_count, as_integers, as_lengths, as_offsets, as_weights
from spectrem.constraints.compilation.groups import Key
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.inference.dual import refuse_impossible, sum_by
from spectrem.models.estep import EStepResult, Statistics
from spectrem.models.priors import DirichletPrior, Multinomials, Prior, Tables
from spectrem.models.shards import Columns, check_numbers, check_total, count_known, cut
from spectrem.structures import Chain, Chain2, Parts, TiedChain, TiedChain2, TiedCounts2
from spectrem.structures._ragged import offsets_of, ranges_of, rows_of
from spectrem.structures.chains._tokens import check_states

_NOISE = 1e-9
# Pairs of a token and a state in a shard.
_LEAST_PARTS, _MOST_PARTS = 1 << 14, 1 << 21


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Cells, the (word, state) pairs that have an emission probability, and entries, to which tokens refer.

    An entry is a word with the states that the token may be in. Entry w < n_words is word w in any state that can emit
    it; `with_entries` adds words in fewer states (labels, sets of labels) and words never seen, whose emissions do not
    depend on the state.

    Attributes
    ----------
    n_states : int
    cell_offsets : ndarray of shape (n_words + 1,), int64
        Cells of word w are ``cell_offsets[w]:cell_offsets[w + 1]``.
    cell_states : ndarray of shape (n_cells,), int64
        State of every cell, increasing within a word.
    entry_offsets : ndarray of shape (n_entries + 1,), int64
    entry_states : ndarray of shape (n_entry_parts,), int64
        States of every entry, increasing within an entry.
    entry_cells : ndarray of shape (n_entry_parts,), int64
        Emission cell of each, or ``n_cells`` for a word never seen, whose score is 0 nats in every state.

    Examples
    --------
    >>> lexicon = Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2)  # word 0: state 0; word 1: both
    >>> lexicon, entries = lexicon.with_entries([1, -1], [(1,), (0, 1)])  # word 1 labelled 1; a word never seen
    >>> entries.tolist(), lexicon.entry_states.tolist(), lexicon.entry_cells.tolist()
    ([2, 3], [0, 0, 1, 1, 0, 1], [0, 1, 2, 2, 3, 3])
    """

    n_states: int
    cell_offsets: Ints
    cell_states: Ints
    entry_offsets: Ints
    entry_states: Ints
    entry_cells: Ints

    @classmethod
    def full(cls, n_words: int, n_states: int) -> Lexicon:
        """Every state emits every word.

        Raises
        ------
        InvalidInputError
            If ``n_words`` < 0 or ``n_states`` < 1.
        """
        n_words, n_states = as_count(n_words, "n_words", minimum=0), as_count(n_states, "n_states", minimum=1)
        return cls.from_allowed(np.arange(n_words + 1) * n_states, np.tile(np.arange(n_states), n_words), n_states)

    @classmethod
    def from_allowed(cls, offsets: ArrayLike, states: ArrayLike, n_states: int) -> Lexicon:
        """The states ``states[offsets[w]:offsets[w + 1]]`` emit word w.

        Raises
        ------
        InvalidInputError
            If a word has no state, or its states are out of range or do not increase.
        """
        n_states = as_count(n_states, "n_states", minimum=1)
        offsets = as_integers(offsets, "offsets")
        offsets = as_offsets(offsets, "offsets", max(len(offsets) - 1, 0))
        states = check_states(offsets, states, n_states, "states", "word")
        empty = np.diff(offsets) == 0
        if empty.any():
            raise InvalidInputError(
                f"every word needs a state that can emit it; word {int(np.argmax(empty))} has none; give it every "
                "state to leave it free"
            )
        return cls(n_states, offsets, states, offsets, states, np.arange(len(states)))

    @property
    def n_words(self) -> int:
        return len(self.cell_offsets) - 1

    @property
    def n_cells(self) -> int:
        return len(self.cell_states)

    @property
    def n_entries(self) -> int:
        return len(self.entry_offsets) - 1

    @cached_property
    def dense(self) -> bool:
        """Whether every entry has all states."""
        return bool((np.diff(self.entry_offsets) == self.n_states).all())

    @cached_property
    def cell_words(self) -> Ints:
        """Word of every cell, shape (n_cells,)."""
        return np.repeat(np.arange(self.n_words), np.diff(self.cell_offsets))

    @cached_property
    def entry_words(self) -> Ints:
        """Word of every entry, shape (n_entries,); -1 for words never seen."""
        return np.append(self.cell_words, -1)[self.entry_cells[self.entry_offsets[:-1]]]

    @cached_property
    def state_sizes(self) -> Ints:
        """Number of words that each state can emit, shape (n_states,)."""
        return np.bincount(self.cell_states, minlength=self.n_states)

    def table(self, values: Floats) -> Floats:
        """Values by cell as a matrix of shape (n_states, n_words), zero where there is no cell."""
        table = np.zeros((self.n_states, self.n_words))
        table[self.cell_states, self.cell_words] = values
        return table

    def with_entries(self, words: ArrayLike, allowed: Sequence[Sequence[int]]) -> tuple[Lexicon, Ints]:
        """A lexicon in which words may also be restricted to some states, and where to find them.

        Parameters
        ----------
        words : array-like of shape (k,), int
            -1 stands for a word never seen: its entry says nothing about the states it may take.
        allowed : sequence of k sequences of int
            The states of each, increasing; all of a word's states give the word's own entry.

        Returns
        -------
        lexicon : Lexicon
            It has the same cells. Existing entries keep their numbers, each new one is stored once.
        entries : ndarray of shape (k,), int64

        Raises
        ------
        InvalidInputError
            If a word is out of range, or its states are none, out of range, falling or ones that cannot emit it.
        """
        words = as_integers(words, "words")
        if len(words) != len(allowed):
            raise InvalidInputError(
                f"words and allowed must be of one length, got {len(words)} and {len(allowed)}; give every word its "
                "states"
            )
        entry_of: dict[tuple[int, tuple[int, ...]], int] = {}
        for entry in range(self.n_words, self.n_entries):
            word_states = self.entry_states[self.entry_offsets[entry] : self.entry_offsets[entry + 1]]
            entry_of[int(self.entry_words[entry]), tuple(word_states.tolist())] = entry
        states: list[tuple[int, ...]] = []
        cells: list[Ints] = []
        entries = np.empty(len(words), np.int64)
        for k, key in enumerate(zip(words.tolist(), map(tuple, allowed), strict=True)):
            if key not in entry_of:
                word_cells = self._cells_of(*key)
                whole = key[0] >= 0 and len(word_cells) == self.cell_offsets[key[0] + 1] - self.cell_offsets[key[0]]
                entry_of[key] = key[0] if whole else self.n_entries + len(states)
                if not whole:
                    states.append(key[1])
                    cells.append(word_cells)
            entries[k] = entry_of[key]
        if not states:
            return self, entries
        sizes = np.cumsum([len(word_states) for word_states in states])
        return replace(
            self,
            entry_offsets=np.concatenate([self.entry_offsets, self.entry_offsets[-1] + sizes]),
            entry_states=np.append(self.entry_states, [state for word_states in states for state in word_states]),
            entry_cells=np.concatenate([self.entry_cells, *cells]),
        ), entries

    def _cells_of(self, word: int, states: tuple[int, ...]) -> Ints:
        """Cells of a word in some states, n_cells for a word never seen."""
        if not -1 <= word < self.n_words:
            raise InvalidInputError(
                f"words must be in 0..{self.n_words - 1}, or -1 for a word never seen; got {word}; number the words as "
                "the lexicon does"
            )
        rising = all(a < b for a, b in pairwise(states))
        if not states or not rising or states[0] < 0 or states[-1] >= self.n_states:
            raise InvalidInputError(
                f"allowed must hold increasing states in 0..{self.n_states - 1}, at least one for each word; got "
                f"{list(states)} for word {word}; sort them, or give every state to leave the word free"
            )
        if word < 0:
            return np.full(len(states), self.n_cells)
        start = self.cell_offsets[word]
        possible = self.cell_states[start : self.cell_offsets[word + 1]]
        at = np.searchsorted(possible, states)
        missing = np.append(possible, -1)[at] != states
        if missing.any():
            raise InvalidInputError(
                f"allowed must hold states that can emit their word; state {states[int(np.argmax(missing))]} cannot "
                f"emit word {word}, which has {possible.tolist()}; add the state to the word's in the lexicon or drop "
                "it here"
            )
        return start + at


@dataclass(frozen=True, eq=False)
class TagShard:
    """Some sentences of a corpus.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
        Tokens of every sentence.
    entries : ndarray of shape (n_tokens,), int64
        Entry of the lexicon of every token.
    weights : ndarray of shape (n_sentences,), float64
    known : bool
        Whether the states are given; constraints inside instances then do not apply.
    instances : ndarray of shape (n_sentences,), int64
        Numbers of the sentences in the corpus.
    columns : Columns
        More columns for constraints.
    """

    lengths: Ints
    entries: Ints
    weights: Floats
    known: bool
    instances: Ints
    columns: Columns = Columns()  # noqa: RUF009

    @property
    def n_tokens(self) -> int:
        return len(self.entries)


def build_shards(
    lexicon: Lexicon,
    lengths: ArrayLike,
    entries: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    known: ArrayLike | None = None,
    columns: Columns = Columns(),  # noqa: B008
) -> list[TagShard]:
    """Cut a corpus into shards: first sentences with unknown states, then those whose states are given.

    Within each of the two kinds sentences keep their order; `spectrem.models.shards.in_corpus_order` puts results back.
    Sentences of length 0, or of weight 0, are in no shard.

    Parameters
    ----------
    lexicon : Lexicon
    lengths : array-like of shape (n_sentences,), int
        Tokens of every sentence, >= 0.
    entries : array-like of shape (n_tokens,), int
        Entries of the lexicon, sentence after sentence.
    weights : array-like of shape (n_sentences,), optional
        Weight of every sentence, >= 0; default 1.
    known : array-like of shape (n_sentences,), bool, optional
        Sentences whose states are given; default those with a single state at every token.
    columns : Columns, optional
        More columns for constraints.

    Returns
    -------
    list of TagShard
        At least one, the same for every number of workers.

    Raises
    ------
    InvalidInputError
        If lengths do not add up to the number of entries, or an entry is not in the lexicon.

    Examples
    --------
    >>> lexicon = Lexicon.from_allowed([0, 1, 3], [0, 0, 1], n_states=2)
    >>> shards = build_shards(lexicon, [1, 2, 1], [0, 0, 1, 0])
    >>> [(shard.known, shard.instances.tolist(), shard.entries.tolist()) for shard in shards]
    [(False, [1], [0, 1]), (True, [0, 2], [0, 0])]
    """
    lengths, entries = as_lengths(lengths, "lengths"), as_integers(entries, "entries")
    check_total(lengths, len(entries), "entries", "give one entry per token")
    advice = "use those that Lexicon.with_entries returned with this lexicon"
    check_numbers(entries, lexicon.n_entries, "entries", advice)
    weights = as_weights(weights, len(lengths))
    offsets, widths = offsets_of(lengths), np.diff(lexicon.entry_offsets)[entries]
    part_offsets, open_offsets = offsets_of(widths)[offsets], offsets_of(widths > 1)[offsets]
    known = np.diff(open_offsets) == 0 if known is None else np.asarray(known, np.bool_)
    counted = weights > 0
    shards = []
    for run, is_known in cut(np.diff(part_offsets), [~known & counted, known & counted], _LEAST_PARTS, _MOST_PARTS):
        tokens, named = ranges_of(offsets[run], lengths[run]), columns.take(run, lengths)
        shards.append(TagShard(lengths[run], entries[tokens], weights[run], bool(is_known), run, named))
    return shards


def restrict_rows(rows: Multinomials, kept: Floats | None, name: str) -> Multinomials:
    """The rows of a table whose entries have the probabilities ``kept``, but where these are NaN.

    Raises
    ------
    InvalidInputError
        If a row is left without a distribution.
    """
    if kept is None:
        return rows
    free = np.isnan(kept.ravel())
    fixed = np.where(free, 0.0, kept.ravel())
    outside = ~((fixed >= 0) & (fixed <= 1))
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidInputError(
            f"restrictions.{name}.values must be probabilities in [0, 1] where fixed; got {fixed[at]} at flat index "
            f"{at}; give probabilities, not logarithms or counts"
        )
    sizes = np.bincount(rows.row[free], minlength=len(rows.row_sizes))
    total = np.bincount(rows.row, fixed, len(rows.row_sizes))
    closed = (rows.row_sizes > 0) & (sizes == 0)
    empty, above, short = closed & (total == 0), total > 1 + _NOISE, closed & (total < 1 - _NOISE)
    if empty.any():
        raise InvalidInputError(
            f"restrictions.{name}.impossible must leave an entry in every row; "
            f"{_row_name(rows, name, int(np.argmax(empty)))} has none left; leave at least one, or drop the state"
        )
    if above.any():
        at = int(np.argmax(above))
        raise InvalidInputError(
            f"restrictions.{name}.values must sum to at most 1 in every row; got {total[at]:.12g} in "
            f"{_row_name(rows, name, at)}; scale them down"
        )
    if short.any():
        at = int(np.argmax(short))
        raise InvalidInputError(
            f"restrictions.{name}.values must sum to 1 in a row without free entries; got {total[at]:.12g} in "
            f"{_row_name(rows, name, at)}; raise them, or leave an entry free to take the rest"
        )
    share = np.clip(1.0 - total, 0.0, None)
    return Multinomials(rows.shape, rows.row[free], sizes, np.flatnonzero(free), fixed, share)


def _row_name(rows: Multinomials, table: str, row: int) -> str:
    """The name of a row of a table in messages."""
    if table == "emission":
        return f"state {row}"
    place = ", ".join(str(int(i)) for i in np.unravel_index(row, rows.shape[:-1] or (1,)))
    return f"row [{place}]" if len(rows.shape) > 1 else "the only row"


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
    restrictions : mapping of {"initial", "transition", "second", "emission"} -> ndarray of float64
        Probabilities that entries of a table keep, in its shape (emission: by cell), NaN where they are learned.
        Entries that keep 0 are impossible and get no pseudo-count; the others of a row share what is left. See
        `restrict` for start parameters.
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
    restrictions: Mapping[str, Floats] = field(default_factory=dict)
    names: Names = Names()

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise InvalidInputError(f"order must be 1 or 2, got {self.order!r}; use 1 for bigrams of states")
        for name, listed, size in (
            ("tags", self.names.tags, self.lexicon.n_states),
            ("words", self.names.words, self.lexicon.n_words),
        ):
            if listed is not None and len(listed) != size:
                raise InvalidInputError(
                    f"names.{name} must hold {size} names, as the lexicon does; got {len(listed)}; name every one "
                    "or none"
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
        n, lexicon = self.n_states, self.lexicon
        shapes: dict[str, tuple[int, ...]] = {"initial": (n,), "transition": (n,) * (self.order + 1)}
        if self.order == 2:
            shapes["second"] = (n, n)
        rows = {name: Multinomials.dense(shape) for name, shape in shapes.items()}
        # the row of a cell is its state; a state that emits no word has an empty one
        rows["emission"] = Multinomials((lexicon.n_cells,), lexicon.cell_states, lexicon.state_sizes)
        rows = {name: restrict_rows(table, self.restrictions.get(name), name) for name, table in rows.items()}
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
    return _parameters({name: np.ones(rows.shape) for name, rows in model._tables.rows.items()})


def _noisy(params: HMMParameters, spread: float, rng: np.random.Generator) -> HMMParameters:
    tables = {name: getattr(params, name) for name in ("second", "initial", "transition", "emission")}
    noise = {name: 1.0 + spread * rng.random(table.shape) for name, table in tables.items() if table is not None}
    return _parameters({name: tables[name] * factors for name, factors in noise.items()})


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
    return 0.0 * Statistics(**{name: getattr(like, name) for name in _TABLES})
