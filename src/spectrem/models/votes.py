"""Label models: a hidden label of every item, and votes for it by sources that err in ways of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.compilation.groups import Coded, Key, Repeats
from spectrem.exceptions import InvalidInputError
from spectrem.kernels import votes as kernel
from spectrem.models.estep import EStepResult, Statistics
from spectrem.models.joint_votes import JointTables
from spectrem.structures import Categorical, Parts
from spectrem.structures._ragged import offsets_of, ranges_of, rows_of

# Votes and classes of items in a shard, which is closed after an eighth of all, within bounds.
_SHARDS = 8
_LEAST_WORK, _MOST_WORK = 1 << 15, 1 << 17
# Of a vote, beside which a label counts alone.
_FAINT = 1e-9
# Precisions are no nearer to 0 and to 1.
_LEAST_PRECISION = 1e-3
# Bits of expected counts and of values, which are whole numbers of units of size 2**-bits times the total.
_BITS_OF_COUNTS, _BITS_OF_VALUES = 61, 52
# Totals below this count as this, so that their scale is a number.
_LEAST_TOTAL = 1e-200

Confusion = Literal["full", "class", "source"]


@dataclass(frozen=True, eq=False)
class VoteParameters:
    """Shares of the classes, and factors of votes.

    Attributes
    ----------
    shares : ndarray of shape (n_item_groups, n_classes)
        Rows sum to 1.
    table : ndarray of shape (n_source_groups, n_classes, n_classes), [source, class, vote]
        By what a vote multiplies the probability of a class: of `Answers` probabilities of votes given the class.
    """

    shares: Floats
    table: Floats


class Sources(Protocol):
    """How sources err: a frozen value."""

    def m_step(self, counts: Floats, shares: Floats) -> Floats:
        """The table that maximises the expected log-probability of votes plus `log_prior`.

        Parameters
        ----------
        counts : ndarray of shape (n_source_groups, n_classes, n_classes), [source, class, vote]
            Expected counts.
        shares : ndarray of shape (n_classes,)
            Of the classes, over all items.
        """
        ...

    def log_prior(self, table: Floats) -> float:
        """Log-density of a table, nats, up to a constant."""
        ...


@dataclass(frozen=True, eq=False)
class Answers:
    """Sources that answer for every class, such as annotators: P(answer | class) [DawidSkene1979].

    Parameters
    ----------
    confusion : {"full", "class", "source"}
        A probability for every pair of class and answer; one number for each class, and errors uniform; one number.
    strength : float
        Answers for every class that the prior counts, for every class that there is.
    accuracy : float
        The share of these that are right, in (0, 1).
    joint : JointTables, or None
        Groups of sources whose last tables are those of combinations of votes.
    """

    confusion: Confusion = "full"
    strength: float = 1.0
    accuracy: float = 0.8
    joint: JointTables | None = None

    def _pseudo_counts(self, n: int, k: int) -> Floats:
        wrong = (1.0 - self.accuracy) / (k - 1)
        counts: Floats = self.strength * k * np.where(np.eye(k, dtype=bool), self.accuracy, wrong)
        if self.joint is None:
            return counts
        further = self.joint.pseudo_counts(counts)
        return np.concatenate([np.tile(counts, (n - len(further), 1, 1)), further])

    def m_step(self, counts: Floats, shares: Floats) -> Floats:
        k = counts.shape[-1]
        counts = counts + self._pseudo_counts(len(counts), k)
        if self.confusion != "full":
            same = np.eye(k, dtype=bool)
            right, wrong = (np.where(mask, counts, 0.0).sum(axis=2) for mask in (same, ~same))
            if self.confusion == "source":
                right, wrong = right.sum(axis=1, keepdims=True), wrong.sum(axis=1, keepdims=True)
            counts = np.where(same, right[:, :, None], wrong[:, :, None] / (k - 1))
        whole = counts.sum(axis=2, keepdims=True)
        return np.where(whole > 0, counts / np.where(whole > 0, whole, 1.0), 1.0 / k)

    def log_prior(self, table: Floats) -> float:
        if self.strength == 0:
            return 0.0
        with np.errstate(divide="ignore"):
            return math.fsum((self._pseudo_counts(*table.shape[:2]) * np.log(table)).ravel())


@dataclass(frozen=True, eq=False)
class Rules:
    """Sources that speak where they apply and are silent elsewhere, such as patterns: P(class | vote), their precision.

    A vote multiplies the probability of each class by ``P(class | vote) / P(class)``, where what is left by the
    precision is spread over the other classes in proportion to ``reference``. Silence says nothing. A source cannot be
    right on more items than its class has, so that its precision is at most the share of the class divided by the
    share of the items on which the source votes for it.

    Parameters
    ----------
    n_votes : ndarray of shape (n_source_groups, n_classes)
        How often a source votes for each class, by weight.
    coverage : ndarray of shape (n_source_groups, n_classes)
        On which share of the items it does.
    reference : ndarray of shape (n_classes,), or None
        Shares of the classes, all above 0, that the precision is compared with; None for those of every M-step, with
        which EM finds them but does not climb its objective.
    strength, per_vote : float
        Votes that the prior of a precision counts, and more for every vote of the source.
    precision : float
        The share of these that are right, in (0, 1).
    """

    n_votes: Floats
    coverage: Floats
    reference: Floats | None = None
    strength: float = 10.0
    per_vote: float = 0.7
    precision: float = 0.85

    def m_step(self, counts: Floats, shares: Floats) -> Floats:
        k, reference = counts.shape[-1], as_reference(shares) if self.reference is None else self.reference
        prior = self.strength + self.per_vote * self.n_votes
        right, whole = np.diagonal(counts, axis1=1, axis2=2), counts.sum(axis=1)
        precision = (self.precision * prior + right) / (prior + whole)
        # The score is concave in each precision, so that its maximum inside bounds is the bound that is nearer.
        precision = np.minimum(precision, reference / np.maximum(self.coverage, 1e-12))
        precision = np.clip(precision, _LEAST_PRECISION, 1.0 - _LEAST_PRECISION)
        wrong = (1.0 - precision) / (1.0 - reference)
        return np.where(np.eye(k, dtype=bool), (precision / reference)[:, None, :], wrong[:, None, :])

    def log_prior(self, table: Floats) -> float:
        if self.reference is None:
            return 0.0
        p, prior = precisions(table, self.reference), self.strength + self.per_vote * self.n_votes
        return math.fsum((prior * (self.precision * np.log(p) + (1 - self.precision) * np.log1p(-p))).ravel())


def as_reference(shares: Floats) -> Floats:
    """Shares of classes, shape (n_classes,), none of which is 0."""
    shares = np.maximum(shares, 1e-6)
    return shares / shares.sum()


def precisions(table: Floats, reference: Floats) -> Floats:
    """P(class | vote) of the class voted for, by the factors of `Rules`, shape (n_source_groups, n_classes)."""
    of_right: Floats = np.diagonal(table, axis1=1, axis2=2)
    return of_right * reference


@dataclass(frozen=True, eq=False)
class VoteShard:
    """Some items.

    Attributes
    ----------
    sizes : ndarray of shape (n_items,), int
        How many votes every item has.
    cells : ndarray of shape (n_votes,), int
        ``source * n_classes + vote``, item after item.
    weights : ndarray of shape (n_items,)
    instances : ndarray of shape (n_items,), int32
        Numbers of the items.
    strengths : ndarray of shape (n_votes,) or (0,)
        How much every vote counts; 1 where there are none.
    group : ndarray of shape (n_items,) or (0,), int64
        The row of the shares.
    evidence : ndarray of shape (n_items, n_classes) or (0, n_classes)
        What labels say, nats: 0 and -inf for a class or a set, logs of probabilities for a distribution.
    given : ndarray of shape (n_items,), bool, or None
        Items whose label is given.
    columns : mapping of name -> ndarray of shape (n_items,)
        More columns for constraints.
    """

    sizes: NDArray[np.integer]
    cells: NDArray[np.integer]
    weights: Floats
    instances: NDArray[np.int32]
    strengths: Floats
    group: Ints
    evidence: Floats
    given: Bools | None = None
    columns: Mapping[str, Key] = field(default_factory=dict)


def narrow(n: int) -> type[np.integer]:
    """The type of arrays of numbers from 0 to ``n`` - 1; kernels are compiled for these two."""
    return np.uint8 if n < 256 else np.int32


def build_shards(
    sizes: NDArray[np.integer],
    cells: NDArray[np.integer],
    n_classes: int,
    weights: Floats | None = None,
    strengths: Floats | None = None,
    group: Ints | None = None,
    evidence: Floats | None = None,
    given: Bools | None = None,
    columns: Mapping[str, Key] | None = None,
) -> list[VoteShard]:
    """Cut items into shards, at least one; items of weight 0 are in none. See `VoteShard` for the arguments.

    Examples
    --------
    >>> shards = build_shards(np.array([2, 1]), np.array([0, 3, 1]), n_classes=2)
    >>> shards[0].instances.tolist(), shards[0].cells.tolist()
    ([0, 1], [0, 3, 1])
    """
    n = len(sizes)
    weights = np.broadcast_to(1.0, n) if weights is None else weights
    work = len(cells) + n * n_classes
    step = max(n * int(np.clip(-(-work // _SHARDS), _LEAST_WORK, _MOST_WORK)) // max(work, 1), 1)
    ones, shards, end = np.ones(min(step, n)), list[VoteShard](), 0  # all shards share the ones
    for start in range(0, max(n, 1), step):
        first, end = end, end + int(sizes[start : start + step].sum(dtype=np.int64))
        at: Any = slice(start, start + step)
        votes: Any = slice(first, end)  # arrays are parts of those of all items, unless items are left out
        run = start + np.flatnonzero(weights[at] > 0)
        if len(run) < len(weights[at]):
            starts = first + offsets_of(sizes[at])
            at, votes = run, ranges_of(starts[run - start], sizes[run])
        if not len(run) and (shards or start + step < n):
            continue
        shards.append(
            VoteShard(
                sizes[at],
                cells[votes],
                ones[: len(run)] if (weights[at] == 1.0).all() else np.array(weights[at]),
                run.astype(np.int32),
                np.zeros(0) if strengths is None else strengths[votes],
                np.zeros(0, np.int64) if group is None else group[at],
                np.zeros((0, n_classes)) if evidence is None else evidence[at],
                None if given is None else given[at],
                {name: column[at] for name, column in (columns or {}).items()},
            )
        )
    return shards


def vote_shares(
    sizes: NDArray[np.integer],
    cells: NDArray[np.integer],
    n_classes: int,
    strengths: Floats | None = None,
    evidence: Floats | None = None,
) -> Floats:
    """The shares of an item's votes that each class has, uniform without votes; see `VoteShard` for the arguments.

    Examples
    --------
    >>> vote_shares(np.array([3, 0]), np.array([0, 3, 4]), n_classes=2).round(2).tolist()
    [[0.67, 0.33], [0.5, 0.5]]
    """
    n = len(sizes)
    place = rows_of(sizes) * n_classes + cells % n_classes
    table: Floats = np.bincount(place, strengths, n * n_classes).astype(np.float64).reshape(n, n_classes)
    if evidence is not None and len(evidence):  # where votes are against a label, the label stands
        table = (table + _FAINT) * np.exp(evidence)
    whole = table.sum(axis=1, keepdims=True)
    return np.where(whole > 0, table / np.where(whole > 0, whole, 1.0), 1.0 / n_classes)


@dataclass(frozen=True, eq=False)
class VoteModel:
    """Items whose label is hidden and whose votes are drawn independently given it [DawidSkene1979].

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Names of the labels.
    names : ndarray of shape (n_sources,)
        Names of the sources.
    sources : Sources
        How they err.
    source_group : ndarray of shape (n_sources,), int64
        The row of the table of every source; sources with the same row share it.
    total : float
        The sum of the weights of items times their votes and one more, which expected counts are no larger than.
    share_counts : ndarray of shape (n_item_groups, n_classes)
        Items of every class that the prior of shares counts.
    fixed_shares : ndarray of shape (n_item_groups, n_classes), or None
        Shares that are not learnt.
    """

    classes: NDArray
    names: NDArray
    sources: Sources
    source_group: Ints
    total: float = 1.0
    share_counts: Floats = field(default_factory=lambda: np.zeros((1, 1)))
    fixed_shares: Floats | None = None

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def _scale(self) -> float:
        return scale_of(self.total)

    def structure(self, shard: VoteShard) -> Categorical:
        """One of the classes for every item."""
        return Categorical(np.full(len(shard.weights), self.n_classes), "row")

    def scores(self, params: VoteParameters, shard: VoteShard) -> Parts:
        """Log joint probabilities of classes and votes, nats."""
        out = np.empty((len(shard.weights), self.n_classes))
        table, shares = self._logs(params)
        kernel.score(shard.sizes, shard.cells, shard.strengths, table, shares, shard.group, out)
        if len(shard.evidence):
            out += shard.evidence
        return Parts(out.ravel())

    def distributions(self, shard: VoteShard, marginals: Parts) -> Floats:
        """Posteriors of the classes of every item, shape (n_items, n_classes)."""
        return marginals.unary.reshape(len(shard.weights), self.n_classes)

    def gather(self, params: VoteParameters, shard: VoteShard, marginals: Parts) -> Statistics:
        """Expected counts of votes by class, and of classes, in units of 1 / scale; ``params`` are not read."""
        return self._gathered(shard, self.distributions(shard, marginals))

    def _gathered(self, shard: VoteShard, posteriors: Floats) -> Statistics:
        stats, weighted = self._no_counts(), posteriors * shard.weights[:, None]
        where = (shard.sizes, shard.cells, shard.strengths, shard.group)
        kernel.gather(*where, weighted, self._scale, stats.cells, stats.shares)
        return stats

    def m_step(self, params: VoteParameters | None, stats: Statistics, corpus: object = None) -> VoteParameters:
        """Parameters that maximise the expected log-probability plus the log-prior, whatever those before were."""
        counts, sizes = self.expected_votes(stats)
        shares = self.fixed_shares
        if shares is None:
            sizes = sizes + self.share_counts
            sizes = np.where(sizes.sum(axis=1, keepdims=True) > 0, sizes, 1.0)
            shares = sizes / sizes.sum(axis=1, keepdims=True)
        return VoteParameters(shares, self.sources.m_step(counts, sizes.sum(axis=0) / sizes.sum()))

    def expected_votes(self, stats: Statistics) -> tuple[Floats, Floats]:
        """Expected counts as numbers, [source group, class, vote], and of classes by group of items."""
        k = self.n_classes
        counts = np.zeros((int(self.source_group.max(initial=-1)) + 1, k, k), stats.cells.dtype)
        np.add.at(counts, self.source_group, stats.cells.reshape(-1, k, k).transpose(0, 2, 1))
        return counts / self._scale, stats.shares / self._scale

    def log_prior(self, params: VoteParameters) -> float:
        """Log-density of the parameters, nats, up to a constant."""
        of_shares = 0.0
        if self.fixed_shares is None and self.share_counts.any():
            with np.errstate(divide="ignore"):
                of_shares = math.fsum((self.share_counts * np.log(params.shares)).ravel())
        return self.sources.log_prior(params.table) + of_shares

    def columns(self, shard: VoteShard) -> Mapping[str, Any]:
        """Columns for constraints: ``row``, whether it is ``silent``, ``label``; of votes ``source`` and ``vote``."""
        n, k = len(shard.weights), self.n_classes
        item, source, vote = rows_of(shard.sizes), shard.cells // k, shard.cells % k
        return {
            "row": shard.instances,
            "label": Coded.of(self.classes, np.tile(np.arange(k), n)),
            "silent": shard.sizes == 0,
            "source": Repeats(item, Coded.of(self.names, source)),
            "vote": Repeats(item, Coded.of(self.classes, vote)),
            **shard.columns,
        }

    def start(self, shard: VoteShard) -> Statistics:
        """Expected counts where every item is of the classes that its votes name, each vote with the same share.

        Votes of a group with joint tables that agree on an item are one vote.
        """
        strengths = shard.strengths if len(shard.strengths) else None
        joint = self.sources.joint if isinstance(self.sources, Answers) else None
        if joint is not None:
            strengths = joint.once(shard.sizes, shard.cells) * (1.0 if strengths is None else strengths)
        return self._gathered(shard, vote_shares(shard.sizes, shard.cells, self.n_classes, strengths, shard.evidence))

    def prepare(self, params: VoteParameters, gamma: float) -> Callable[[VoteShard], EStepResult[Statistics]]:
        """The compiled E-step of a shard without constraints, for `EStep.kernel`; equal to the general one."""
        logs = self._logs(params)
        largest = max(float(np.abs(np.where(one > kernel.IMPOSSIBLE, one, 0)).max(initial=0)) for one in logs)
        unit = scale_of(self.total * (largest * kernel.UNIT + 1.0), _BITS_OF_VALUES)
        return partial(self._expect, logs, gamma, unit)

    def _expect(self, logs: tuple[Ints, Ints], gamma: float, unit: float, shard: VoteShard) -> EStepResult[Statistics]:
        stats = self._no_counts()
        where = (shard.sizes, shard.cells, shard.strengths, *logs, shard.group, shard.evidence, shard.weights)
        value, impossible = kernel.expect(*where, float(gamma), self._scale, unit, stats.cells, stats.shares)
        if impossible >= 0:
            raise InvalidInputError(
                f"votes of row {shard.instances[impossible]} must be possible for some class, got none; give the prior "
                "of sources a strength above 0"
            )
        return EStepResult(stats, value / unit, value / unit)

    def _no_counts(self) -> Statistics:
        k = self.n_classes
        cells, shares = np.zeros((len(self.names) * k, k), np.int64), np.zeros((len(self.share_counts), k), np.int64)
        return Statistics(cells=cells, shares=shares)

    def _logs(self, params: VoteParameters) -> tuple[Ints, Ints]:
        """Logarithms of factors, a row for every cell, and of shares, in units of the kernel."""
        table = params.table[self.source_group].transpose(0, 2, 1).reshape(-1, self.n_classes)
        return whole_logs(np.ascontiguousarray(table)), whole_logs(params.shares)


def scale_of(total: float, bits: int = _BITS_OF_COUNTS) -> float:
    """A power of two that numbers no larger than ``total`` are multiplied by to be whole ones of so many bits."""
    return math.ldexp(1.0, bits - math.frexp(max(total, _LEAST_TOTAL))[1])


def whole_logs(probabilities: Floats) -> Ints:
    """Logarithms in units of the kernel."""
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities)
    whole = np.full(logs.shape, kernel.IMPOSSIBLE)
    whole[logs > -np.inf] = np.rint(logs[logs > -np.inf] / kernel.UNIT).astype(np.int64)
    return whole
