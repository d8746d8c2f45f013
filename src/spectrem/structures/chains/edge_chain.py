"""First-order chains whose neighbouring pairs are parts: every token takes a state after a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_gamma
from spectrem.kernels.chains import edge_chain as kernel
from spectrem.kernels.derivations import ONE, Steps
from spectrem.structures._ragged import (
    check_direction,
    check_inputs,
    no_parts,
    offsets_of,
    positions_of,
    ranges_of,
    rows_of,
    runs_at_once,
)
from spectrem.structures.chains._tokens import TokenStructure
from spectrem.structures.chains.tied import potentials_of
from spectrem.structures.derivations import NO_STEPS, Derivations, keep_steps, places_of, steps_of
from spectrem.structures.parts import Parts

# Parts whose potentials are held at once: a megabyte.
_AT_ONCE = 1 << 17


@brief_dataclass(frozen=True, eq=False, init=False)
class EdgeChain(TokenStructure):
    """Sentences whose tokens each take a state, with a part for every pair of neighbouring states at every place.

    A token takes exactly one part, which says its state and, but for the first token of a sentence, the state before:
    the same sequences as those of a `Chain`, whose parts say the state only. So every pair at every place has a score
    of its own, constraints can name both its states, and whatever counts tokens by state counts each of them once.

    Use when features or constraints look at two neighbouring labels: linear-chain CRFs, and rules such as no B right
    after B, or I only after B or I. Constraints on labels alone are cheaper on a `Chain`.

    Parameters
    ----------
    lengths : array-like of shape (n_instances,), int
        Tokens of every sentence, >= 0.
    n_states : int
        Number of states, >= 1.
    allowed : tuple of (offsets, states), optional
        States a token may take: ``states[offsets[t]:offsets[t + 1]]``, increasing, for token t of the batch (flat,
        sentence after sentence). There are parts between allowed states only. Default: all.
    instance_name, label_name : str
        What the columns of the sentences and of the states are called.

    Raises
    ------
    InvalidInputError
        If lengths are negative, ``n_states`` < 1, or allowed states are out of range or not increasing.

    Notes
    -----
    ``Parts.unary`` holds, token after token, one entry per (allowed) state of a first token, else a block of shape
    (states before, states), row-major. The one shared factor is a transition matrix as in `Chain`, which is added to
    the scores of all pairs; leave it at zero where they say all. Columns: ``sentence``, ``token`` (position in the
    sentence), ``occurrence`` (token of the batch), ``tag`` (state) and ``previous`` (state before; missing, so NaN, at
    first tokens).

    Examples
    --------
    Labels O, B and I; B never follows B, and I only B or I (a first token follows neither):

    >>> import numpy as np
    >>> from spectrem.constraints import E, compile_constraints, part
    >>> from spectrem.inference import project_batch
    >>> from spectrem.structures import EdgeChain, Parts
    >>> chain, tag, previous = EdgeChain([3], n_states=3), part("tag"), part("previous")
    >>> rules = [E[(tag == 1) & (previous == 1)] <= 0, E[(tag == 2) & ~previous.isin([1, 2])] <= 0]
    >>> states = np.log([[0.1, 0.4, 0.5], [0.2, 0.5, 0.3], [0.5, 0.2, 0.3]])
    >>> scores = Parts(states.ravel()[chain.state_part], (np.zeros((3, 3)),))
    >>> rows = compile_constraints([rule.per("sentence") for rule in rules], chain)
    >>> best = project_batch(chain, scores, rows, gamma=-np.inf).marginals
    >>> np.bincount(chain.state_part, best.unary).reshape(3, 3).argmax(axis=1).tolist()
    [1, 2, 0]
    """

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of the states and of those before."""
        return self.label_name, "previous"

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The transition matrix."""
        return ((self.n_states, self.n_states),)

    @cached_property
    def offsets(self) -> Ints:
        """Boundaries of the tokens in ``Parts.unary``, shape (n_tokens + 1,)."""
        return offsets_of(self._n_before * self._widths)

    @cached_property
    def state_part(self) -> Ints:
        """The token and state of every part as a part of the `Chain` of the same shape, shape (n_unary,).

        Scores of states are spread by ``scores[state_part]``, marginals summed by ``np.bincount(state_part,
        marginals)``.
        """
        row = rows_of(self._n_before)
        return ranges_of(self._state_offsets[row], self._widths[row])

    @cached_property
    def part_before(self) -> Ints:
        """The token and state before every part as a part of the `Chain` of the same shape; -1 at first tokens."""
        return np.repeat(self._rows_before, self._widths[rows_of(self._n_before)])

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The five columns of the class notes, each of shape (n_unary,); built anew at every call."""
        before = self.part_before
        previous = np.full(self.n_unary, np.nan)
        previous[before >= 0] = self._all_states[before[before >= 0]]
        return {**super().columns, "previous": previous}

    def smoothed_max(
        self,
        scores: Parts,
        gamma: float,
        *,
        active: Bools | None = None,
        weights: Floats | None = None,
    ) -> tuple[Floats, Parts]:
        """Values, shape (n_instances,) in nats, and marginals with expected transitions; see `Structure.smoothed_max`.

        Among equals at ``gamma == 0``, the lowest last state wins, and before it the lowest predecessor.
        """
        gamma = as_gamma(gamma)
        given = check_inputs(self, scores, active, weights)
        total = self._with_transitions(given.unary, given.factors[0])
        values, marginals = np.zeros(self.n_instances), np.zeros(self.n_unary)
        layout = (self.token_offsets, self._widths, self.offsets)
        if gamma == 0.0:
            choices = np.full(self.n_tokens, -1)
            kernel.max_pass(*layout, total, given.active, values, choices)
            marginals[choices[choices >= 0]] = 1.0
        else:
            status = given.active.astype(np.int8)
            for own in self._runs:  # their potentials stay in the processor's cache, and in memory already taken
                tokens = slice(self.token_offsets[own.start], self.token_offsets[own.stop])
                parts = slice(self.offsets[tokens.start], self.offsets[tokens.stop])
                starts = self.offsets[tokens.start : tokens.stop + 1] - parts.start
                few = (self.token_offsets[own.start : own.stop + 1] - tokens.start, self._widths[tokens], starts)
                found = (values[own], marginals[parts], status[own])
                kernel.sum_pass(*few, *potentials_of(total[parts], starts, gamma), gamma, *found)
            for n in np.flatnonzero(status).tolist():
                derivations = self.derivations(n)
                parts = derivations.entries
                values[n], marginals[parts] = derivations.smoothed_max(total[parts], gamma)
                np.minimum(marginals[parts], 1.0, out=marginals[parts])
        return values, self._with_counts(marginals, None if weights is None else given.weights)

    def covariances(self, scores: Parts, along: Parts, weights: Floats | None = None) -> tuple[Floats, Parts]:
        """Means of a sum over parts taken, and covariances of all parts with it; see `Differentiable.covariances`.

        Notes
        -----
        By the expectation semiring [LiEisner2009], on marginals: given the states of a token, the expected sums before
        and after it.
        """
        along, weights = check_direction(self, along, weights)
        marginals = self.smoothed_max(scores, 1.0)[1].unary
        means, products = np.zeros(self.n_instances), np.zeros(self.n_unary)
        by_part = self._with_transitions(along.unary, along.factors[0])
        kernel.covary(self.token_offsets, self._widths, self.offsets, marginals, by_part, means, products)
        return means, self._with_counts(products, weights)

    def decode(self, scores: Parts) -> Ints:
        """Best state of every token, shape (n_tokens,); -1 throughout an impossible sentence."""
        given = check_inputs(self, scores)
        total, choices = self._with_transitions(given.unary, given.factors[0]), np.full(self.n_tokens, -1)
        layout = (self.token_offsets, self._widths, self.offsets)
        kernel.max_pass(*layout, total, given.active, np.zeros(self.n_instances), choices)
        made = choices >= 0
        choices[made] = self._all_states[self.state_part[choices[made]]]
        return choices

    def derivations(self, instance: int) -> Derivations:
        """The steps that derive the sequences of one sentence, from left to right.

        An item is a state of a token, with what stands before it; a step joins it with the part of the next token that
        follows it.
        """
        tokens, own = self._tokens_and_parts(instance)
        widths = self._widths[tokens]
        cells = np.where(self._cells[own] < self.n_states**2, self._cells[own], -1)
        steps = keep_steps(_steps, tuple(widths.tolist())) if len(widths) else NO_STEPS
        offsets = self.offsets[tokens.start : tokens.stop + 1] - own.start
        return Derivations(steps, np.arange(own.start, own.stop), own, (cells,), offsets, np.ones_like(widths))

    def enumerate(self, instance: int) -> Iterator[Parts]:
        """Every state sequence of one sentence as indicators over the batch, with its transitions.

        Parameters
        ----------
        instance : int
            From 0; a small one, as there may be very many structures.

        Yields
        ------
        Parts
            Indicators, 0 or 1.
        """
        tokens, _ = self._tokens_and_parts(instance)
        starts, widths = self._state_offsets[tokens], self._widths[tokens]
        for path in self._paths(instance):
            indicator, place = no_parts(self), path - starts
            place[1:] += (path - starts)[:-1] * widths[1:]
            parts = self.offsets[tokens] + place
            indicator.unary[parts] = 1.0
            np.add.at(indicator.factors[0].reshape(-1), self._cells[parts[1:]], 1.0)
            yield indicator

    @property
    def _tags(self) -> Ints:
        """State of every unary part."""
        return self._all_states[self.state_part]

    @property
    def _widths(self) -> Ints:
        """Number of states of every token."""
        return np.diff(self._state_offsets)

    @property
    def _first_tokens(self) -> Ints:
        """First tokens of all sentences."""
        return self.token_offsets[:-1][self.lengths > 0]

    @property
    def _n_before(self) -> Ints:
        """Number of states before every token, 1 at first tokens: that of rows of its parts."""
        numbers = np.append(1, self._widths[:-1])[: self.n_tokens]
        numbers[self._first_tokens] = 1
        return numbers

    @property
    def _rows_before(self) -> Ints:
        """The token and state before every row of parts, as a part of a `Chain`; -1 at first tokens."""
        starts = np.append(-1, self._state_offsets[:-2])[: self.n_tokens]
        starts[self._first_tokens] = -1
        return ranges_of(starts, self._n_before)

    @cached_property
    def _cells(self) -> Ints:
        """The raveled transition of every part; one past the last at first tokens."""
        before, after_last = self._rows_before, self.n_states**2
        rows = np.where(before >= 0, self._all_states[before] * self.n_states, after_last)
        return np.minimum(np.repeat(rows, self._widths[rows_of(self._n_before)]) + self._tags, after_last)

    def _with_counts(self, marginals: Floats, weights: Floats | None) -> Parts:
        """Numbers of parts, and their sums by transition, sentences times weights."""
        counts, own = np.zeros(self.factor_shapes[0]), np.ones(self.n_instances) if weights is None else weights
        layout = (self.token_offsets, self._widths, self.offsets, *self._kernel_states)
        kernel.add_transitions(*layout, own, marginals, counts)
        return Parts(marginals, (counts,))

    @cached_property
    def _runs(self) -> list[slice]:
        """Sentences that are worked on at once."""
        return runs_at_once(self.offsets[self.token_offsets], _AT_ONCE)

    def _with_transitions(self, unary: Floats, transition: Floats) -> Floats:
        """Scores of all parts, those of transitions included."""
        return unary + np.append(transition, 0.0)[self._cells] if transition.any() else unary


def _steps(n_states: tuple[int, ...]) -> Steps:
    """The steps of a sentence whose tokens have so many states each."""
    widths = np.array(n_states)
    before = np.append(1, widths[:-1])
    offsets, start = offsets_of(before * widths), offsets_of(widths)
    token, state = rows_of(widths), positions_of(widths)
    parts, states, goal, ones = places_of(int(offsets[-1]), len(token), 1, int(widths[-1]))
    item = states + np.arange(len(token))
    left = np.where(token > 0, states + start[token - 1], ONE)
    # the parts of a token stand state by state, those of one state by the state before it
    block, place = rows_of(before * widths), positions_of(before * widths)
    part = offsets[block] + place % before[block] * widths[block] + place // before[block]
    return steps_of(
        [(item, item, ONE, left, parts + offsets[token] + state * before[token], before[token])],
        [(np.array([goal]), goal, ONE, states + start[-2], ones, widths[-1])],
        parts=(parts + np.arange(len(part)), part),
        ones=ones + np.arange(widths[-1]),
    )
