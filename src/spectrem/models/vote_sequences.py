"""Label models of sentences: hidden tags that mark spans, and votes of sources for the tags of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.groups import Coded, Key, Repeats
from spectrem.kernels import votes as kernel
from spectrem.models.estep import Statistics
from spectrem.models.priors import DirichletPrior, Multinomials, Tables
from spectrem.models.shards import Columns, cut
from spectrem.models.tag_schemes import possible_moves
from spectrem.models.tagging import log, restrict_rows
from spectrem.models.votes import scale_of, whole_logs
from spectrem.structures import Chain, EdgeChain, Parts
from spectrem.structures._ragged import offsets_of, ranges_of, rows_of

# Pairs of neighbouring tags in a shard.
_LEAST_PARTS, _MOST_PARTS = 1 << 16, 1 << 20
# The least share of a tag, and tokens of every tag that are added: precisions are compared with shares.
_FLOOR, _ADDED = 1e-4, 1.0
# Of a vote, beside which a label counts alone; and by how much of a vote I goes before B.
_FAINT, _INSIDE = 1e-9, 0.1


@dataclass(frozen=True, eq=False)
class VoteSequenceParameters:
    """Probabilities of tags.

    Attributes
    ----------
    initial : ndarray of shape (n_tags,)
    transition : ndarray of shape (n_tags, n_tags), [from, to]
    source : ndarray of shape (n_sources * n_tags, n_tags)
        P(tag | the source votes for this tag).
    word : ndarray of shape (n_words, n_tags)
        P(tag | word).
    """

    initial: Floats
    transition: Floats
    source: Floats
    word: Floats


@dataclass(frozen=True, eq=False)
class VoteSequenceShard:
    """Some sentences.

    Attributes
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    offsets : ndarray of shape (n_tokens + 1,), int64
        Where the cells of a token begin.
    cells : ndarray of shape (n_cells,), int32
        What speaks for or against its tags: first votes, then what `VoteSequenceModel` says; see `token_cells`.
    strengths : ndarray of shape (n_cells,)
        How much each counts.
    weights : ndarray of shape (n_sentences,)
    known : bool
        Whether the tag of every token is given; constraints inside sentences then do not apply.
    instances : ndarray of shape (n_sentences,), int64
        Numbers of the sentences.
    evidence : ndarray of shape (n_tokens, n_tags), or None
        What labels say, nats: 0 and -inf for a tag or a set of tags, logs of probabilities for a distribution.
    words : Coded or ndarray of shape (n_tokens,)
    columns : Columns
        More columns for constraints.
    """

    lengths: Ints
    offsets: Ints
    cells: NDArray[np.int32]
    strengths: Floats
    weights: Floats
    known: bool
    instances: Ints
    evidence: Floats | None
    words: Key
    columns: Columns


def similarities(token: Ints, source: Ints, tag: Ints, weights: Floats, n_sources: int) -> Floats:
    """The tokens where two sources vote alike, over those where either votes; shape (n_sources, n_sources).

    Parameters
    ----------
    token, source, tag : ndarrays of shape (n_votes,), int
        Tokens do not decrease.
    weights : ndarray of shape (n_votes,)
        Of the sentences of the votes.
    n_sources : int

    Examples
    --------
    >>> token, source, tag = np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([2, 2, 1])
    >>> similarities(token, source, tag, np.ones(3), 2).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    left, right = _together(token)
    cell, n = source[left] * n_sources + source[right], n_sources**2
    same, both = (
        np.bincount(cell, weights[left] * counted, n).astype(np.float64).reshape(n_sources, n_sources)
        for counted in (tag[left] == tag[right], 1.0)
    )
    either = np.diag(both)[:, None] + np.diag(both) - both
    table: Floats = same / np.where(either > 0, either, 1.0)
    np.fill_diagonal(table, 1.0)
    return table


def strengths(token: Ints, source: Ints, similarity: Floats) -> Floats:
    """1 over the sum of the similarities of a vote's source to all that vote on the token, shape (n_votes,)."""
    left, right = _together(token)
    whole = np.rint(similarity / kernel.UNIT)  # sums of whole numbers are the same in any order
    total = np.bincount(left, whole[source[left], source[right]], len(token))
    shares: Floats = np.reciprocal(total * kernel.UNIT)
    return shares


def _together(token: Ints) -> tuple[Ints, Ints]:
    """All pairs of votes on one token."""
    _, first, sizes = np.unique(token, return_index=True, return_counts=True)
    of_vote = np.repeat(sizes, sizes)
    return rows_of(of_vote), ranges_of(np.repeat(first, sizes), of_vote)


def token_cells(
    lengths: Ints, token: Ints, source: Ints, tag: Ints, word: Ints, similarity: Floats, n_tags: int
) -> tuple[Ints, NDArray[np.int32], Floats]:
    """Offsets, cells and strengths of all that speaks for or against the tags of tokens; see `VoteSequenceShard`.

    Parameters
    ----------
    lengths : ndarray of shape (n_sentences,), int64
    token, source, tag : ndarrays of shape (n_votes,), int
        Tokens do not decrease, nor sources within a token.
    word : ndarray of shape (n_tokens,), int
        -1 for those that training did not see.
    similarity : ndarray of shape (n_sources, n_sources)
    n_tags : int
    """
    n, n_sources = int(lengths.sum()), len(similarity)
    strength, silent = strengths(token, source, similarity), np.bincount(token, minlength=n) == 0
    goes_on = np.zeros(n + 1, np.bool_)
    goes_on[:n] = ~silent
    goes_on[offsets_of(lengths)[:-1]] = False
    key = token * n_sources + source
    ends = goes_on[token + 1] & ~np.isin(key + n_sources, key)
    ended = np.bincount(token[ends] + 1, np.rint(strength[ends] / kernel.UNIT), n) * kernel.UNIT
    first, end, known = n_sources * n_tags, np.flatnonzero(ended), np.flatnonzero(word >= 0)
    where = np.concatenate([token, np.flatnonzero(silent), end, known])
    cells = np.concatenate([
        source * n_tags + tag, np.full(silent.sum(), first), np.full(len(end), first + 1), first + 2 + word[known]
    ])  # fmt: skip
    counted = np.concatenate([strength, np.ones(silent.sum()), ended[end], np.ones(len(known))])
    order = np.lexsort((cells, where))
    return offsets_of(np.bincount(where, minlength=n)), cells[order].astype(np.int32), counted[order]


def build_shards(
    lengths: Ints,
    cells: tuple[Ints, NDArray[np.int32], Floats],
    words: Key,
    n_tags: int,
    weights: Floats | None = None,
    known: Bools | None = None,
    evidence: Floats | None = None,
    columns: Columns = Columns(),  # noqa: B008
) -> list[VoteSequenceShard]:
    """Cut sentences into shards, at least one: first those with unknown tags, then those whose tags are given.

    Sentences of length or weight 0 are in none. See `VoteSequenceShard` for the arguments; ``cells`` are those of
    `token_cells`.
    """
    n, tokens_from, (starts, cell, strength) = len(lengths), offsets_of(lengths), cells
    weights = np.ones(n) if weights is None else weights
    known = np.zeros(n, np.bool_) if known is None else known
    counted, shards = weights > 0, []
    groups = [~known & counted, known & counted]
    for run, is_known in cut(lengths * n_tags**2, groups, _LEAST_PARTS, _MOST_PARTS):
        tokens = ranges_of(tokens_from[run], lengths[run])
        sizes = np.diff(starts)[tokens]
        places = ranges_of(starts[tokens], sizes)
        labels = None if evidence is None or not evidence[tokens].any() else evidence[tokens]
        of_tokens = (offsets_of(sizes), cell[places], strength[places])
        of_sentences = (weights[run], bool(is_known), run)
        shards.append(
            VoteSequenceShard(
                lengths[run], *of_tokens, *of_sentences, labels, words[tokens], columns.take(run, lengths)
            )
        )
    return shards


@dataclass(frozen=True, eq=False)
class VoteSequenceModel:
    """Spans whose tags are hidden, as in a hidden Markov model, and votes with a precision each.

    A vote multiplies the probability of every tag by ``(P(tag | vote) / P(tag)) ** strength``, and so does a word.
    Silence says nothing where other sources vote, but that a source that voted before has come to the end of a span;
    where all sources are silent, there is hardly a span.

    Parameters
    ----------
    tags : sequence of str
        O first, then B and I of every type.
    names : ndarray of shape (n_sources,)
        Of the sources.
    shares : ndarray of shape (n_tags,)
        P(tag), all above 0, with which precisions are compared.
    tables : Tables
        Of the parameters, with their priors.
    silence_cost : float
        Nats that a tag but O costs where all sources are silent.
    end_cost : float
        Nats that I costs where a source that voted on the token before is silent, times the strength of its vote.
    total : float
        Which expected counts are no larger than.

    Notes
    -----
    Numbers of cells: first ``source * n_tags + tag`` of votes, then one where all are silent, one where spans end, and
    those of words.
    """

    tags: tuple[str, ...]
    names: NDArray
    shares: Floats
    tables: Tables
    silence_cost: float
    end_cost: float
    total: float = 1.0

    @property
    def n_tags(self) -> int:
        return len(self.tags)

    @property
    def inside(self) -> Bools:
        """Tags that go on with a span."""
        return inside_of(self.tags)

    def structure(self, shard: VoteSequenceShard) -> EdgeChain:
        """A chain of tags per sentence, with a part for every pair of neighbours."""
        return EdgeChain(shard.lengths, self.n_tags)

    def scores(self, params: VoteSequenceParameters, shard: VoteSequenceShard) -> Parts:
        """Logs of what tags are multiplied by, nats."""
        k, first = self.n_tags, self._first(shard)
        costs = np.zeros((2, k))
        costs[0, 1:], costs[1, self.inside] = -self.silence_cost, -self.end_cost
        logs = np.concatenate([params.source / self.shares, np.exp(costs), params.word / self.shares])
        table = np.empty((len(first), k))
        none = np.zeros((1, k), np.int64)
        kernel.score(np.diff(shard.offsets), shard.cells, shard.strengths, whole_logs(logs), none, none[0, :0], table)
        if shard.evidence is not None:
            table += shard.evidence
        table[first] += log(params.initial)
        later = np.broadcast_to(table[~first][:, None, :], (int((~first).sum()), k, k))
        unary, at_first = np.empty(first.sum() * k + later.size), self._first_parts(first)
        unary[at_first], unary[~at_first] = table[first].ravel(), later.ravel()
        return Parts(unary, (log(params.transition),))

    def distributions(self, shard: VoteSequenceShard, marginals: Parts) -> Floats:
        """Posteriors of the tags of every token, shape (n_tokens, n_tags)."""
        k, first = self.n_tags, self._first(shard)
        table, at_first = np.empty((len(first), k)), self._first_parts(first)
        table[first] = marginals.unary[at_first].reshape(-1, k)
        table[~first] = marginals.unary[~at_first].reshape(-1, k, k).sum(axis=1)
        return table

    def gather(self, params: VoteSequenceParameters, shard: VoteSequenceShard, marginals: Parts) -> Statistics:
        """Expected counts as whole numbers, which are the same in any order; ``params`` are not read."""
        first = self._first(shard)
        pairs = marginals.unary[~self._first_parts(first)].reshape(-1, self.n_tags, self.n_tags)
        return self._gathered(shard, self.distributions(shard, marginals), pairs)

    def _gathered(self, shard: VoteSequenceShard, table: Floats, pairs: Floats) -> Statistics:
        first, scale, k = self._first(shard), scale_of(self.total), self.n_tags
        weights, size = np.repeat(shard.weights, shard.lengths), len(self.names) * k + 2
        n_cells = size + self.tables.rows["word"].shape[0]
        cells, sizes = np.zeros((n_cells, k), np.int64), np.zeros((1, k), np.int64)
        weighted = table * weights[:, None]
        none = sizes[0, :0]
        kernel.gather(np.diff(shard.offsets), shard.cells, shard.strengths, none, weighted, scale, cells, sizes)
        moves = np.rint(pairs * (weights[~first] * scale)[:, None, None]).astype(np.int64).sum(axis=0)
        starts = np.rint(weighted[first] * scale).astype(np.int64).sum(axis=0)
        return Statistics(initial=starts, transition=moves, source=cells[: size - 2], word=cells[size:], tags=sizes[0])

    def m_step(
        self, params: VoteSequenceParameters | None, stats: Statistics, corpus: object = None
    ) -> VoteSequenceParameters:
        """Parameters that maximise the expected log-probability plus the log-prior, whatever those before were."""
        counts = {name: getattr(stats, name) / scale_of(self.total) for name in self.tables.rows}
        return VoteSequenceParameters(**self.tables.m_step(Statistics(**counts)))

    def log_prior(self, params: VoteSequenceParameters) -> float:
        """Log-density of the parameters, nats, up to a constant."""
        return self.tables.log_density(params)

    def columns(self, shard: VoteSequenceShard) -> Mapping[str, Any]:
        """Columns for constraints beside those of the structure: of tokens, and of votes ``source`` and ``vote``."""
        k, own, names = self.n_tags, self.structure(shard).columns, np.array(self.tags)
        token, before = own["occurrence"].astype(np.int64), own["previous"]
        cast = shard.cells < len(self.names) * k
        voted, cells = rows_of(np.diff(shard.offsets))[cast], shard.cells[cast]
        return {
            "sentence": shard.instances,
            "tag": Coded.of(names, own["tag"].astype(np.int64)),
            "previous": Coded.of(names, np.where(np.isnan(before), -1, before).astype(np.int64)),
            "word": shard.words[token],
            "silent": (np.bincount(voted, minlength=len(shard.words)) == 0)[token],
            "source": Repeats(voted, Coded.of(self.names, cells // k)),
            "vote": Repeats(voted, Coded.of(names, cells % k)),
            **shard.columns.of_sentences,
            **{name: column[token] for name, column in shard.columns.of_words.items()},
        }

    def start(self, shard: VoteSequenceShard) -> Statistics:
        """Counts where every token has the tag that most of its votes name; among equals I, then the first type."""
        k, first = self.n_tags, self._first(shard)
        cast = shard.cells < len(self.names) * k
        token, tag = rows_of(np.diff(shard.offsets))[cast], shard.cells[cast] % k
        table = majority_scores(token, tag, len(first), self.tags)
        if shard.evidence is not None:  # where votes are against a label, the label stands
            table = (np.maximum(table, 0.0) + _FAINT) * np.exp(shard.evidence)
        best = table.argmax(axis=1)
        chosen = np.eye(k)[best]
        before, after = chosen[np.flatnonzero(~first) - 1], chosen[~first]
        pairs = before[:, :, None] * after[:, None, :]
        stray = pairs * ~_moves(self.tags)[:-1]  # I where no span goes on counts as B
        pairs -= stray
        pairs[:, :, np.flatnonzero(self.inside) - 1] += stray[:, :, self.inside]
        return self._gathered(shard, chosen, pairs)

    def _first(self, shard: VoteSequenceShard) -> Bools:
        """The first tokens of sentences."""
        first = np.zeros(len(shard.words), np.bool_)
        first[offsets_of(shard.lengths)[:-1][shard.lengths > 0]] = True
        return first

    def _first_parts(self, first: Bools) -> Bools:
        return np.repeat(first, np.where(first, self.n_tags, self.n_tags**2))


def majority_scores(token: Ints, tag: NDArray[Any], n_tokens: int, tags: Sequence[str]) -> Floats:
    """How many votes every tag has, where the largest is the majority: O where there are none, I before B of equals.

    Parameters
    ----------
    token, tag : ndarrays of shape (n_votes,), int
    n_tokens : int
    tags : sequence of str
        O first, then B and I of every type.

    Returns
    -------
    ndarray of shape (n_tokens, n_tags)

    Examples
    --------
    >>> majority_scores(np.array([0, 0]), np.array([1, 2]), 2, ["O", "B", "I"]).argmax(axis=1).tolist()
    [2, 0]
    """
    k, inside = len(tags), inside_of(tags)
    table: Floats = np.bincount(token * k + tag, minlength=n_tokens * k).astype(np.float64).reshape(-1, k)
    table[:, 0] = np.where(table.any(axis=1), -1.0, 1.0)
    table[:, inside] += _INSIDE * (table[:, inside] > 0)
    return table


def inside_of(tags: Sequence[str]) -> Bools:
    """Which tags go on with a span."""
    return np.array([tag.startswith("I") for tag in tags], np.bool_)


def _moves(tags: tuple[str, ...]) -> Bools:
    """Which tags may follow each tag and, in the last row, be the first of a sentence; shape (n_tags + 1, n_tags)."""
    possible = possible_moves("bio", tags)
    assert possible is not None  # as it is where all moves are
    return possible[:, :-1]


def likely_tags(tags: tuple[str, ...], distributions: Sequence[Floats]) -> list[list[str]]:
    """The tags of sentences, possible ones after each other, of which most are expected to be right.

    Parameters
    ----------
    tags : tuple of str
    distributions : sequence of ndarray of shape (n_tokens, n_tags)
        Posteriors of every sentence.

    Examples
    --------
    >>> likely_tags(("O", "B", "I"), [np.array([[0.4, 0.3, 0.3], [0.2, 0.1, 0.7]])])
    [['B', 'I']]
    """
    chain, moves = Chain([len(one) for one in distributions], len(tags)), _moves(tags)
    states = np.concatenate([np.zeros((0, len(tags))), *distributions])
    states[chain.token_offsets[:-1][chain.lengths > 0]] += np.where(moves[-1], 0.0, -np.inf)
    best = chain.decode(Parts(states.ravel(), (np.where(moves[:-1], 0.0, -np.inf),))).tolist()
    return [[tags[tag] for tag in best[start:end]] for start, end in pairwise(chain.token_offsets.tolist())]


def shares_of(sizes: Floats) -> Floats:
    """Shares of tags from numbers of tokens, all above 0."""
    added = sizes + _ADDED
    floored = np.maximum(added / added.sum(), _FLOOR)
    shares: Floats = floored / floored.sum()
    return shares


def tables_of(
    tags: tuple[str, ...],
    shares: Floats,
    n_votes: Floats,
    n_words: int,
    precision: float,
    pseudo_votes: tuple[float, float],
    word_pseudo_count: float,
    transition_pseudo_count: float,
) -> Tables:
    """The tables of a `VoteSequenceModel` with their priors.

    Parameters
    ----------
    tags, shares
        As of the model.
    n_votes : ndarray of shape (n_sources * n_tags,)
        How often every source votes for every tag.
    n_words : int
    precision : float
        The share of the pseudo-votes that are right; the others are spread over the other tags by ``shares``.
    pseudo_votes : (float, float)
        Their number, and how many more there are for every vote.
    word_pseudo_count : float
        Of tokens of a word, with tags by ``shares``.
    transition_pseudo_count : float
        Of transitions from a tag, evenly divided, and of first tags: one part in ``n_tags`` for each.
    """
    k, moves = len(tags), _moves(tags)
    possible, first = moves[:-1], moves[-1]
    wrong = (1.0 - precision) * shares / (1.0 - shares)[:, None]
    base = np.where(np.eye(k, dtype=bool), precision, wrong)
    prior = (pseudo_votes[0] + pseudo_votes[1] * n_votes).reshape(-1, k, 1) * base
    evenly = transition_pseudo_count * possible / possible.sum(axis=1, keepdims=True)
    rows, priors = {}, {}
    for name, kept in (("initial", first), ("transition", possible)):
        rows[name] = restrict_rows(Multinomials.dense(kept.shape), np.where(kept, np.nan, 0.0), name)
    priors["initial"] = DirichletPrior(np.full(first.sum(), transition_pseudo_count / k))
    priors["transition"] = DirichletPrior(evenly[possible])
    rows["source"] = Multinomials.dense((n_votes.size, k))
    priors["source"] = DirichletPrior(prior.ravel())
    rows["word"] = Multinomials.dense((n_words, k))
    priors["word"] = DirichletPrior(np.tile(word_pseudo_count * shares, n_words))
    return Tables(rows, priors)
