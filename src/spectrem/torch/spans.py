"""Spans of sentences: cuts into segments, and brackets of binary trees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from spectrem import structures
from spectrem._arrays import Ints
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import rows_of
from spectrem.torch.distribution import StructuredDistribution, weighted
from spectrem.torch.places import Placed
from spectrem.torch.tensors.semirings import sum_dtype
from spectrem.torch.tensors.spans import bracketings, by_last, segmentations
from spectrem.torch.tokens import Tokens


def _sums_of_segments(tokens: Tokens, gamma: float, scores: torch.Tensor, transitions: torch.Tensor) -> torch.Tensor:
    lengths = torch.from_numpy(tokens.lengths).to(scores.device)
    return segmentations(tokens.compact(scores, 1), transitions, lengths, gamma)


def _sums_of_brackets(
    words: Tokens, gamma: float, scores: torch.Tensor, distituents: torch.Tensor | None = None
) -> torch.Tensor:
    lengths = torch.from_numpy(words.lengths).to(scores.device)
    distituents = None if distituents is None else words.compact(distituents, 1, 2)
    return bracketings(words.compact(scores, 1, 2), lengths, gamma, distituents)


class Segmentations(StructuredDistribution):
    """Sentences cut into segments with states, each with a score of its own: a semi-Markov CRF [SarawagiCohen2004].

    Parameters
    ----------
    scores : Tensor of shape (batch, length, longest, n_states)
        Of segments, [first token, number of tokens - 1, state], nats; -inf forbids one. The first token is its place,
        and the number counts tokens of the sentence. Those that end behind their sentence are not read.
    transitions : Tensor of shape (n_states, n_states), optional
        Scores of neighbouring segments, [from, to]; by default 0.
    lengths : Tensor of shape (batch,), int, optional
        Tokens of every sentence, which may be 0; by default all.
    mask : Tensor of shape (batch, length), bool, optional
        In place of lengths: where the tokens are. There may be gaps, over which segments reach without counting them.
    gamma : float, default 1.0
        Temperature.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, or scores are NaN or +inf.

    Notes
    -----
    Values are integers of shape (batch, length, 2): of every token the place of the first token of its segment, and the
    state; -1 where no token is. `log_prob` also takes sets of possible segments (bool) and soft segments (float), both
    in the shape of the scores.
    Soft segments are probabilities of segments, as marginals are. Where segments meet, their states count as
    independent: those that end before a token with state i and start there with state j, of probabilities e and s, are
    neighbours with probability e s / b, where b is the probability that any end and start there. So the expected
    log-probability is exact for whole segmentations and for the marginals of a distribution without transitions. If as
    many segments do not end as start, b is the mean of both.

    Examples
    --------
    >>> import torch
    >>> from spectrem.torch import Segmentations
    >>> scores = torch.zeros(1, 3, 2, 1)
    >>> scores[0, 1, 1] = 3.0  # tokens 1 and 2 as one segment
    >>> Segmentations(scores).mode.tolist()
    [[[0, 0], [1, 0], [1, 0]]]
    """

    def __init__(
        self,
        scores: torch.Tensor,
        transitions: torch.Tensor | None = None,
        *,
        lengths: torch.Tensor | Sequence[int] | None = None,
        mask: torch.Tensor | None = None,
        gamma: float = 1.0,
    ) -> None:
        if scores.ndim != 4 or not scores.shape[2] or not scores.shape[3]:
            raise InvalidInputError(
                f"scores must have shape (batch, length, longest, n_states), got {tuple(scores.shape)}"
            )
        batch, length, longest, k = (int(size) for size in scores.shape)
        transitions = scores.new_zeros(k, k) if transitions is None else transitions
        if tuple(transitions.shape) != (k, k):
            raise InvalidInputError(f"transitions must have shape {(k, k)}, got {tuple(transitions.shape)}")
        tokens = Tokens.of((batch, length), lengths, mask)
        structure = structures.Segmentations(tokens.lengths, k, longest)
        left = tokens.put(np.repeat(tokens.lengths, tokens.lengths) - tokens.position)
        fits = np.arange(longest) < left[:, :, None]
        places = np.flatnonzero(np.repeat(fits[..., None], k, axis=3))

        self._tokens = tokens
        sums = partial(_sums_of_segments, tokens)
        layout = Placed(structure, ((batch, length, longest, k),), (places,), (slice(None),), sums)
        super().__init__(layout, (scores, transitions), gamma, torch.Size([length, 2]))

    def _as_values(self, structures: Ints) -> Ints:
        first = self._tokens.places_of(rows_of(self._tokens.lengths), structures[:, 0])
        return self._tokens.put(np.stack([first, structures[:, 1]], axis=1), -1)

    def _sets_of(self, value: torch.Tensor) -> torch.Tensor:
        longest, k = self._scores[0].shape[2:]
        if value.shape != (*self._tokens.shape, 2):
            raise InvalidInputError(
                f"value, first tokens and states, must have shape {(*self._tokens.shape, 2)}, got {tuple(value.shape)}"
            )
        given = self._tokens.take(value.cpu().numpy())
        place, sentence = self._tokens.kept % max(value.shape[1], 1), rows_of(self._tokens.lengths)
        start, state = given[:, 0], given[:, 1]
        wrong = (start < 0) | (start > place) | (state < 0) | (state >= k)
        # The token at the start of the segment, -1 where none is.
        segment = self._tokens.put(np.arange(len(given)), -1)[sentence, np.where(wrong, place, start)]
        wrong |= segment < 0
        size = np.bincount(np.where(wrong, 0, segment), minlength=len(given))
        if wrong.any():
            raise InvalidInputError(
                f"value must say of every token the first token of its segment, not behind it, and a state below {k}, "
                f"got {given[wrong][0].tolist()}"
            )
        first = np.flatnonzero(size)
        # Every token of a segment says the same as the first one, and segments are runs of tokens.
        same = (given == given[segment]).all() and (place[first] == start[first]).all()
        follows = np.append(first[1:], len(given)) - first == size[first]
        if not same or not follows.all() or (size > longest).any():
            raise InvalidInputError(
                f"value must cut sentences into segments of at most {longest} tokens that agree on their state"
            )
        sets = np.zeros(tuple(self._scores[0].shape), np.bool_)
        sets[sentence[first], place[first], size[first] - 1, state[first]] = True
        return torch.from_numpy(sets).to(value.device)

    def _expected_score(self, value: torch.Tensor) -> torch.Tensor:
        total = super()._expected_score(value)
        lengths = torch.from_numpy(self._tokens.lengths).to(value.device)
        segments = self._tokens.compact(self._of_parts(value), 1).to(sum_dtype(*self._scores, value))
        ends, starts = by_last(segments, lengths, 0.0).sum(dim=2)[:, :-1], segments.sum(dim=2)[:, 1:]
        meet = (ends + starts).sum(dim=2, keepdim=True) / 2
        after = starts / meet.masked_fill(meet == 0.0, 1.0)
        neighbours = (ends[..., None] * after[:, :, None]).sum(dim=1)
        return total + weighted(self._scores[1], neighbours).flatten(1).sum(dim=1)

    def _where(self, value: torch.Tensor) -> Segmentations:
        scores, transitions = self._scores
        mask = torch.from_numpy(self._tokens.is_token)
        return Segmentations(scores.masked_fill(~value, -torch.inf), transitions, mask=mask, gamma=self.gamma)


class Bracketings(StructuredDistribution):
    """Binary trees over the words of sentences, from scores of spans [KleinManning2002].

    Parameters
    ----------
    scores : Tensor of shape (batch, n_words, n_words)
        Of spans as constituents, [first word, last word], nats; -inf forbids one. Those below the diagonal are not
        read.
    distituents : Tensor of the same shape, optional
        Scores of spans that are no constituents; those of words and whole sentences are not read. By default 0.
    lengths : Tensor of shape (batch,), int, optional
        Words of every sentence, which may be 0; by default all.
    mask : Tensor of shape (batch, n_words), bool, optional
        In place of lengths: where the words are, with any gaps. The first and last words of spans are their places.
    gamma : float, default 1.0
        Temperature.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, or scores are NaN or +inf.

    Notes
    -----
    Values are 1 at constituents and 0 elsewhere, integers in the shape of the scores, all 0 where no tree is possible.
    `log_prob` also takes sets of possible constituents (bool), so that a few known brackets are those spans that cross
    none of them, and soft brackets (float).

    Examples
    --------
    >>> import torch
    >>> from spectrem.torch import Bracketings
    >>> scores = torch.zeros(1, 3, 3)
    >>> scores[0, 0, 1] = 1.0
    >>> Bracketings(scores).mode.tolist()
    [[[1, 1, 1], [0, 1, 0], [0, 0, 1]]]
    """

    def __init__(
        self,
        scores: torch.Tensor,
        distituents: torch.Tensor | None = None,
        *,
        lengths: torch.Tensor | Sequence[int] | None = None,
        mask: torch.Tensor | None = None,
        gamma: float = 1.0,
    ) -> None:
        if scores.ndim != 3 or scores.shape[1] != scores.shape[2]:
            raise InvalidInputError(
                f"scores must have shape (batch, n_words, n_words), [first word, last word], got {tuple(scores.shape)}"
            )
        if distituents is not None and distituents.shape != scores.shape:
            raise InvalidInputError(
                f"distituents must have shape {tuple(scores.shape)}, got {tuple(distituents.shape)}"
            )
        batch, n = (int(size) for size in scores.shape[:2])
        words = Tokens.of((batch, n), lengths, mask)
        structure = structures.Bracketings(words.lengths)
        places = np.flatnonzero(np.triu(words.is_token[:, :, None] & words.is_token[:, None]))
        each = (scores,) if distituents is None else (scores, distituents)

        self._tokens = words
        sides = (slice(0, None, 2), slice(1, None, 2))[: len(each)]
        layout = Placed(
            structure, ((batch, n, n),) * len(each), (places,) * len(each), sides, partial(_sums_of_brackets, words)
        )
        super().__init__(layout, each, gamma, scores.shape[1:])

    def _as_values(self, structures: Ints) -> Ints:
        words, n = self._tokens, self._tokens.shape[1]
        values = np.zeros((*words.shape, n), np.int64)
        sentence = rows_of(np.diff(self._layout.structure.bracket_offsets))
        possible = structures[:, 0] >= 0
        first, last = (words.order[sentence[possible], ends] for ends in (structures[possible] - [0, 1]).T)
        values[sentence[possible], first, last] = 1
        impossible = np.zeros(len(values), np.bool_)
        impossible[sentence[~possible]] = True
        word = np.arange(n)
        values[:, word, word] = words.is_token & ~impossible[:, None]
        return values

    def _sets_of(self, value: torch.Tensor) -> torch.Tensor:
        return value > 0

    def _expected_score(self, value: torch.Tensor) -> torch.Tensor:
        total = super()._expected_score(value)
        if len(self._scores) == 1:
            return total
        is_free = np.triu(np.ones(value.shape, np.bool_), 1)  # neither a word nor a whole sentence
        first, last = (self._tokens.kept[at] % value.shape[1] for at in self._tokens.ends)
        is_free[self._tokens.lengths > 0, first, last] = False
        rest = torch.where(torch.from_numpy(is_free).to(value.device), 1.0 - value, 0.0)
        return total + self._sum(self._scores[1], rest)

    def _where(self, value: torch.Tensor) -> Bracketings:
        scores, *others = self._scores
        mask = torch.from_numpy(self._tokens.is_token)
        return Bracketings(scores.masked_fill(~value, -torch.inf), *others, mask=mask, gamma=self.gamma)
