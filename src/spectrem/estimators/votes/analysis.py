"""The analysis of votes under a fitted label model: of sources and of items, as tables and as a page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, logit

from spectrem._arrays import Bools, Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem._html import document
from spectrem._reprs import brief_dataclass
from spectrem.constraints.compilation.rows import Block
from spectrem.data.files import write_texts
from spectrem.data.frames import make_frame
from spectrem.estimators import engine
from spectrem.estimators.votes.analysis_page import analysis_page
from spectrem.estimators.votes.input import KnownLabels, Votes
from spectrem.exceptions import InvalidInputError, counted, quoted
from spectrem.learning import EStep, Step, pose
from spectrem.learning.estep import posed_of, posterior
from spectrem.models.votes import VoteModel, VoteShard
from spectrem.structures._ragged import rows_of

_TABLES = ("sources", "dependent_sources", "classes", "disagreements", "to_label")
_WIDTH = 1.959964  # standard errors on either side of an interval that holds with 95 %
# Above this many, the accuracies of other sources count as known in what is said about one.
_MOST_SOURCES = 2_000
_AT_ONCE = 1 << 22  # entries of a dense table of items and sources
_BY_CHANCE = 0.01
_MOST_NAMES = 5  # in a warning


class Evidence(NamedTuple):
    """Votes, and all that the posteriors of items are made of.

    Attributes
    ----------
    items : ndarray of shape (n_items,)
    sources : ndarray of shape (n_sources,)
    classes : ndarray of shape (n_classes,)
    offsets : ndarray of shape (n_items + 1,), int64
        Where the votes of an item begin.
    source, vote : ndarray of shape (n_votes,), int
        Numbers of the source and of the class of every vote.
    strengths : ndarray of shape (n_votes,)
        How much every vote counts.
    nats : ndarray of shape (n_votes, n_classes)
        What a vote adds to the score of each class.
    shares : ndarray of shape (n_items, n_classes)
        Their logarithms, nats.
    prices : mapping of constraint -> ndarray of shape (n_items, n_classes)
        What constraints add to the score, nats.
    posteriors : ndarray of shape (n_items, n_classes)
    gamma : float
        Above 0; posteriors are in proportion to ``exp(score / gamma)``.
    """

    items: NDArray
    sources: NDArray
    classes: NDArray
    offsets: Ints
    source: Ints
    vote: Ints
    strengths: Floats
    nats: Floats
    shares: Floats
    prices: Mapping[str, Floats]
    posteriors: Floats
    gamma: float

    def by_source(self, values: Floats) -> Any:
        """Numbers of votes as a sparse table of items and sources."""
        shape = len(self.items), len(self.sources)
        table = sp.csr_array((values, self.source, self.offsets), shape=shape, copy=True)
        table.sum_duplicates()
        return table


@brief_dataclass(frozen=True, eq=False)
class VoteAnalysis:
    """Votes under a fitted `LabelModel`: the sources, where model and majority differ and why, what to label next.

    Posteriors are those of the votes under the constraints of the model, at its gamma (at 1 where that is 0 or less);
    labels that are known are no part of them. Tables are mappings of columns, of which `to_frame` makes data frames.

    Attributes
    ----------
    summary : mapping of name -> number
        ``items``, ``votes``; the shares of items with a vote (``coverage``), with votes of two sources (``overlap``),
        with votes for two classes (``conflict``); ``ties``, items where several classes have the most votes;
        ``disagreements``. Where labels are known ``accuracy`` and ``majority_accuracy``, a tie counting by its share.
    sources : mapping of column -> ndarray of shape (n_sources,)
        ``source``; ``votes``; of all items, the shares that it votes on (``coverage``), that another votes on, too
        (``overlap``), and where another votes otherwise (``conflict``); ``labels`` that it used; ``accuracy``, the mean
        posterior of its votes, and its 95 % interval ``accuracy_low`` to ``accuracy_high``; ``decides``, items whose
        most probable class would be another without it. Where labels are known ``known``, its votes there,
        and the share of these that is right, ``known_accuracy``, with its 95 % interval [Wilson1927]
        ``known_accuracy_low`` to ``known_accuracy_high``.
    dependent_sources : mapping of column -> ndarray of shape (n_pairs,)
        Pairs that vote alike, as `LabelModel.dependent_sources` finds them, strongest first: the attributes of
        `SourcePair`.
    classes : mapping of column -> ndarray of shape (n_classes,)
        ``class``; the ``posterior`` share of it among items; its share in the ``majority`` of items with votes, where
        a tie is divided.
    disagreements : mapping of column -> ndarray
        Items whose most probable class is not among those with the most votes, strongest first: ``item``, ``label``,
        its ``probability``, ``majority`` (of several classes with the most votes the most probable), and ``log_odds``
        of the label against the majority, nats.
    to_label : mapping of column -> ndarray
        Items whose label is not known, most informative first: ``item``, ``label``, ``probability``, ``information``
        and ``entropy`` in nats. See Notes.
    warnings : tuple of str

    Notes
    -----
    The interval of an accuracy a is symmetric in log(a / (1 - a)), with the inverse of the information that the votes
    have about the accuracies of all sources together [Louis1982]. It is as right as the model: sources err
    independently, and the prior of the shares fits. Half a vote that is right and half a vote that is wrong count
    beside those that there are.

    The information of an item is by how much its label is expected to lower the entropies of all labels: its own, plus
    ``tr(C V A V) / 2`` of others through the accuracies of sources that they share, to second order. C is the
    covariance, under the posterior of the item, of which of its votes are right; A the sum of these over items; V the
    covariance of the accuracies above.

    Examples
    --------
    >>> from spectrem import LabelModel
    >>> votes = [["ham", "ham", None], ["spam", "spam", "ham"], ["spam", None, "ham"], ["ham", "ham", "spam"]]
    >>> analysis = LabelModel(n_threads=1).fit(votes).analyse(votes)
    >>> analysis.summary["conflict"], analysis.sources["votes"].tolist()
    (0.75, [4, 3, 3])
    """

    summary: Mapping[str, float]
    sources: Mapping[str, NDArray]
    dependent_sources: Mapping[str, NDArray]
    classes: Mapping[str, NDArray]
    disagreements: Mapping[str, NDArray]
    to_label: Mapping[str, NDArray]
    warnings: tuple[str, ...]
    _evidence: Evidence = field(repr=False)
    _like: Any = field(repr=False)

    def why(self, item: Any, label: Any = None, other: Any = None) -> dict[str, list[Any]]:
        """The reasons for one label of an item against another: shares of the classes, votes, and constraints.

        Parameters
        ----------
        item
            Its name, or number.
        label : label, optional
            By default the most probable one.
        other : label, optional
            By default the majority where that is another label, else the next probable one.

        Returns
        -------
        mapping of column -> list
            ``item``, ``label``, ``other``; ``reason``: "shares", "vote" or "constraint"; ``name`` of the source or the
            constraint; ``vote``; ``nats``, which add up to the log-odds of the posterior probabilities.

        Raises
        ------
        InvalidInputError
            If there is no such item or label.

        Examples
        --------
        >>> from spectrem import LabelModel
        >>> votes = [["ham", "ham", None], ["spam", "spam", "ham"], ["spam", None, "ham"], ["ham", "ham", "spam"]]
        >>> analysis = LabelModel(n_threads=1).fit(votes).analyse(votes)
        >>> [(name, round(nats, 1)) for name, nats in zip(*map(analysis.why(2).get, ("name", "nats")))]
        [(None, -0.1), (0, 1.9), (2, 0.0)]
        """
        evidence, classes = self._evidence, self._evidence.classes
        row = _place("item", item, evidence.items)
        of_item, q = slice(*evidence.offsets[row : row + 2]), evidence.posteriors[row]
        first = int(q.argmax()) if label is None else _place("label", label, classes)
        # rank by votes where these favour another label, else by probability
        n_votes = np.bincount(evidence.vote[of_item], minlength=len(classes))
        rest = np.where(n_votes == n_votes.max(), q + 1, q) if n_votes[first] < n_votes.max() else q
        rest = np.where(np.arange(len(classes)) == first, -1.0, rest)
        against = int(rest.argmax()) if other is None else _place("other", other, classes)

        def difference(nats: Floats) -> Any:
            return ((nats[..., first] - nats[..., against]) / evidence.gamma).tolist()

        names, said = evidence.sources[evidence.source[of_item]].tolist(), classes[evidence.vote[of_item]].tolist()
        votes = zip(repeat("vote"), names, said, difference(evidence.nats[of_item]), strict=False)
        prices = (("constraint", name, None, difference(nats[row])) for name, nats in evidence.prices.items())
        rows: list[tuple[Any, ...]] = [("shares", None, None, difference(evidence.shares[row]))]
        rows += [*sorted(votes, key=lambda one: -abs(one[3])), *sorted(prices, key=lambda one: -abs(one[3]))]
        heads, both = ("item", "label", "other", "reason", "name", "vote", "nats"), classes[[first, against]].tolist()
        return {head: list(column) for head, *column in zip(heads, *((item, *both, *one) for one in rows), strict=True)}

    def to_frame(self, table: str = "sources") -> Any:
        """A table as a data frame: of the library of the votes where they were a frame, else of one that is installed.

        Parameters
        ----------
        table : {"sources", "dependent_sources", "classes", "disagreements", "to_label"}

        Returns
        -------
        data frame

        Raises
        ------
        InvalidInputError
            If there is no such table, or the votes were no frame and neither polars nor pandas is installed.

        Examples
        --------
        >>> from spectrem import LabelModel
        >>> votes = [["ham", "ham", None], ["spam", "spam", "ham"], ["spam", None, "ham"]]
        >>> LabelModel(n_threads=1).fit(votes).analyse(votes).to_frame("classes").columns
        ['class', 'posterior', 'majority']
        """
        if table not in _TABLES:
            raise InvalidInputError(f"table must be one of {', '.join(_TABLES)}, got {quoted(table)}")
        return make_frame(getattr(self, table), self._like)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the analysis to a file, as a page of HTML that needs nothing else.

        Parameters
        ----------
        path : path
            Such as ``"votes.html"``.

        Raises
        ------
        InvalidInputError
            If the folder does not exist or the file cannot be written.
        """
        write_texts(path, [self.to_html()])

    def to_html(self, command: str | None = None) -> str:
        """The page that `save` writes; the command line, if there was one, stands at its end.

        Parameters
        ----------
        command : str, optional

        Returns
        -------
        str
            A whole page of HTML.
        """
        return document("Analysis of votes", self._repr_html_(), command)

    def _repr_html_(self) -> str:
        tables = {name: getattr(self, name) for name in _TABLES}
        return analysis_page(self.summary, self.warnings, tables, self.why)


def analyse_votes(
    fitted: Any,
    model: VoteModel,
    shards: Sequence[VoteShard],
    votes: Votes,
    known: KnownLabels,
    dependent: Mapping[str, NDArray],
    like: Any,
) -> VoteAnalysis:
    """The analysis of votes by a fitted `LabelModel`.

    Parameters
    ----------
    fitted : LabelModel
    model : VoteModel
    shards : sequence of VoteShard
        All items, in order, without labels.
    votes : Votes
    known : KnownLabels
        Labels to measure by.
    dependent : mapping of column -> ndarray of shape (n_pairs,)
        Of dependent sources.
    like : frame or None
        Whose kind frames are to be.
    """
    if not votes.n_items:
        raise InvalidInputError("votes must hold at least one item, got none")
    gamma, params = fitted.gamma_ if fitted.gamma_ > 0 else 1.0, engine.floored(fitted.params_)
    estep = EStep(fitted.constraints, infeasible=fitted.infeasible)
    posed = pose(model, engine.make_corpus(fitted, shards), estep)
    corpus, step = posed.at_prices(Step(model, params, gamma, estep))
    blocks, k = () if posed.rows is None else posed.rows.blocks, model.n_classes
    pieces = list(corpus.collect(explained, step, posed.facts, blocks))
    cells = np.concatenate([shard.cells for shard in shards]).astype(np.int64)
    strengths = np.concatenate([_or_all(shard.strengths, np.ones(len(shard.cells))) for shard in shards])
    group = np.concatenate([_or_all(shard.group, np.zeros(len(shard.weights), np.int64)) for shard in shards])
    factors = np.log(params.table)[model.source_group].transpose(0, 2, 1).reshape(-1, k)
    names = dict.fromkeys(name for _, prices in pieces for name in prices)
    evidence = Evidence(
        *(votes.items, fitted.sources_, model.classes, votes.offsets),
        *(fitted._joint.source[cells // k], cells % k, strengths),
        strengths[:, None] * factors[cells],
        np.log(params.shares)[group],
        {name: np.concatenate([prices.get(name, 0 * table) for table, prices in pieces]) for name in names},
        np.concatenate([table for table, _ in pieces]),
        gamma,
    )
    certain = None
    if known.evidence is not None:
        certain = (known.evidence > -np.inf).astype(np.float64)
        certain[certain.sum(axis=1) != 1] = 0.0
    return analyse_evidence(evidence, fitted.kind_, certain, dependent, like)


def _or_all(values: NDArray, default: NDArray) -> NDArray:
    return values if len(values) else default


def explained(shard: Any, step: Step, facts: Any, blocks: Sequence[Block]) -> tuple[Floats, dict[str, Floats]]:
    """Posteriors of a shard, and what every constraint adds to the scores; ``blocks`` are those over the corpus."""
    posed = posed_of(shard, step, facts)
    projected = posterior(posed, step)
    posteriors = step.model.distributions(posed.shard, projected.marginals)
    parts: list[tuple[str, Any, Floats]] = []
    if posed.inside is not None and projected.multipliers is not None:
        spans = ((block.name, slice(block.start, block.stop)) for block in posed.inside.blocks)
        matrix = posed.inside.whole.matrix
        parts += [(name, matrix[span], projected.multipliers[span]) for name, span in spans]
    if posed.across is not None and posed.present is not None and step.prices is not None:
        for block in blocks:
            rows = (posed.present >= block.start) & (posed.present < block.stop)
            parts.append((block.name, posed.across[rows], step.prices[posed.present[rows]]))
    prices: dict[str, Floats] = {}
    for name, matrix, multipliers in parts:
        nats = -(matrix.T @ multipliers).reshape(posteriors.shape)
        prices[name] = prices[name] + nats if name in prices else nats
    return posteriors, prices


def analyse_evidence(
    evidence: Evidence, kind: str, known: Floats | None, dependent: Mapping[str, NDArray], like: Any
) -> VoteAnalysis:
    """The analysis of votes.

    Parameters
    ----------
    evidence : Evidence
    kind : {"answers", "rules"}
        How sources vote.
    known : ndarray of shape (n_items, n_classes), or None
        1 for the label of items of which it is known; rows of 0 elsewhere.
    dependent : mapping of column -> ndarray of shape (n_pairs,)
        Of dependent sources.
    like : frame or None
        Whose kind frames are to be.
    """
    (n, k), s, q = evidence.posteriors.shape, len(evidence.sources), evidence.posteriors
    row, per_item, best = rows_of(np.diff(evidence.offsets)), np.diff(evidence.offsets), q.argmax(axis=1)
    counts = np.bincount(row * k + evidence.vote, minlength=n * k).reshape(n, k)
    top = (counts == counts.max(axis=1, keepdims=True)) & (counts > 0)
    shared = top / np.maximum(top.sum(axis=1, keepdims=True), 1)
    # all votes of a source on an item go together
    pairs, pair = np.unique(row * s + evidence.source, return_inverse=True)
    item, source, of_pair = pairs // s, pairs % s, np.bincount(pair)
    alike = np.bincount(pair * k + evidence.vote, minlength=len(pairs) * k)[pair * k + evidence.vote]
    otherwise = per_item[row] - counts[row, evidence.vote] > of_pair[pair] - alike
    scores = evidence.shares + sum(evidence.prices.values()) + _summed(row, evidence.nats, n)
    decides = (scores[item] - _summed(pair, evidence.nats, len(pairs))).argmax(axis=1) != best[item]
    decided = np.bincount(source[decides] * k + best[item[decides]], minlength=s * k).reshape(s, k)
    used = np.bincount(evidence.source * k + evidence.vote, minlength=s * k).reshape(s, k) > 0
    votes = np.bincount(evidence.source, minlength=s)
    accuracy, errors, information = _accuracies(evidence, row, votes)
    low, high = expit(logit(accuracy) + np.array([[-1], [1]]) * _WIDTH * errors)
    sources: dict[str, NDArray] = {
        "source": evidence.sources,
        "votes": votes,
        "coverage": np.bincount(source, minlength=s) / n,
        "overlap": np.bincount(source, per_item[item] > of_pair, s) / n,
        "conflict": np.bincount(source, np.bincount(pair, otherwise) > 0, s) / n,
        "labels": np.array([", ".join(map(str, evidence.classes[some].tolist())) for some in used], object),
        **{"accuracy": accuracy, "accuracy_low": low, "accuracy_high": high, "decides": decided.sum(axis=1)},
    }
    differs = np.flatnonzero((per_item > 0) & ~top[np.arange(n), best])
    majority = np.where(top, q, -1.0).argmax(axis=1)[differs]
    odds = (scores[differs, best[differs]] - scores[differs, majority]) / evidence.gamma
    order = np.argsort(-odds, kind="stable")
    differs, majority, odds = differs[order], majority[order], odds[order]
    summary: dict[str, float] = {
        **{"items": n, "votes": len(evidence.vote), "coverage": float((per_item > 0).mean())},
        "overlap": float((np.bincount(item, minlength=n) > 1).mean()),
        "conflict": float(((counts > 0).sum(axis=1) > 1).mean()),
        **{"ties": int((top.sum(axis=1) > 1).sum()), "disagreements": len(differs)},
    }
    labelled: Bools = np.zeros(n, np.bool_) if known is None else known.max(axis=1) > 0
    if known is not None:
        right = np.bincount(evidence.source, known[row, evidence.vote], s)
        sources |= _measured(right, np.bincount(evidence.source, labelled[row], s))
    if known is not None and labelled.any():
        by_votes = np.where(per_item[:, None] > 0, shared, 1 / k)
        summary["accuracy"] = float(known[np.arange(n), best][labelled].mean())
        summary["majority_accuracy"] = float((known * by_votes).sum(axis=1)[labelled].mean())
    open_items = np.argsort(-information, kind="stable")
    open_items = open_items[~labelled[open_items]]

    def of_items(rows: Ints, **more: NDArray) -> dict[str, NDArray]:
        label, probability = evidence.classes[best[rows]], q[rows, best[rows]]
        return {"item": evidence.items[rows], "label": label, "probability": probability, **more}

    return VoteAnalysis(
        summary,
        sources,
        dependent,
        {
            "class": evidence.classes,
            "posterior": q.mean(axis=0),
            "majority": shared.sum(axis=0) / max((per_item > 0).sum(), 1),
        },
        of_items(differs, majority=evidence.classes[majority], log_odds=odds),
        of_items(open_items, information=information[open_items], entropy=entr(q[open_items]).sum(axis=1)),
        tuple(_warnings(evidence, kind, sources, used, decided)),
        evidence,
        like,
    )


def _accuracies(evidence: Evidence, row: Ints, votes: Ints) -> tuple[Floats, Floats, Floats]:
    """Accuracies of the sources, their standard errors as log-odds, and the information of every item, nats."""
    s, q, strengths = len(evidence.sources), evidence.posteriors, evidence.strengths
    right = q[row, evidence.vote]
    n_right = np.bincount(evidence.source, right, s)
    plain, accuracy = np.where(votes > 0, n_right / np.maximum(votes, 1), 0.5), (n_right + 0.5) / (votes + 1)
    # What half a vote right and half a vote wrong add to the information, which is that of votes whose labels are known
    # less that of labels that are not: the sum of the products of slopes.
    prior = (votes + 1) * accuracy * (1 - accuracy) - votes * plain * (1 - plain)
    slopes, expected = (evidence.by_source(strengths * one) for one in (right - plain[evidence.source], right))
    spoken = [evidence.by_source(strengths * (evidence.vote == label)) for label in range(q.shape[1])]
    tables = [*((table, share) for table, share in zip(spoken, q.T, strict=True)), (expected, -np.ones(len(q)))]
    if s <= _MOST_SOURCES:
        covariance: Any = np.linalg.inv((slopes.T @ slopes).toarray() + np.diag(prior))
        hidden = sum((table.T @ table.multiply(share[:, None])).toarray() for table, share in tables)
        errors = np.sqrt(np.diag(covariance))
    else:
        covariance = sp.diags_array(1 / (slopes.power(2).sum(axis=0) + prior)).tocsr()
        hidden = sp.diags_array(sum(table.power(2).T @ share for table, share in tables)).tocsr()
        errors = np.sqrt(covariance.diagonal())
    taught = covariance @ hidden @ covariance
    gain = sum(share * _squares(table, taught) for table, share in tables)
    return np.where(votes > 0, accuracy, np.nan), errors, entr(q).sum(axis=1) + np.maximum(gain, 0.0) / 2


def _squares(table: Any, matrix: Any) -> Floats:
    """``x @ matrix @ x`` of every row x of a sparse table."""
    step = max(_AT_ONCE // max(table.shape[1], 1), 1)
    pieces = (table[start : start + step] for start in range(0, table.shape[0], step))
    return np.concatenate([piece.multiply(piece @ matrix).sum(axis=1) for piece in pieces])


def _measured(right: NDArray, known: NDArray) -> dict[str, NDArray]:
    """Votes whose label is known, the share that is right, and its interval [Wilson1927]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share, z = right / known, _WIDTH**2 / known
        middle, half = (share + z / 2) / (1 + z), np.sqrt(z * share * (1 - share) + z**2 / 4) / (1 + z)
    names = ("known", "known_accuracy", "known_accuracy_low", "known_accuracy_high")
    return dict(zip(names, (known.astype(np.int64), share, middle - half, middle + half), strict=True))


def _warnings(
    evidence: Evidence, kind: str, sources: Mapping[str, NDArray], used: Bools, decided: Ints
) -> Iterator[str]:
    """A sentence for each kind of thing that is wrong."""
    low, high, votes = sources["accuracy_low"], sources["accuracy_high"], sources["votes"]
    shares, answered = (
        evidence.posteriors.mean(axis=0),
        np.bincount(evidence.posteriors.argmax(axis=1), minlength=used.shape[1]),
    )
    by_chance = votes * np.log(np.maximum(shares[used.argmax(axis=1)], 1e-300))
    wrong = {
        "Sources that never vote": votes == 0,
        "Sources that answer for one class only, which would hardly happen by chance": (used.sum(axis=1) == 1)
        & (by_chance < np.log(_BY_CHANCE))
        & (kind == "answers"),
        f"Sources that are right less often than by chance, 1 in {len(shares)}": high < 1 / len(shares),
    }
    if "known" in sources:
        outside = (sources["known_accuracy_low"] > high) | (sources["known_accuracy_high"] < low)
        wrong["Sources whose accuracy by known labels contradicts the one that the model expects"] = outside
    yield from (f"{what}: {_listed(evidence.sources[which])}" for what, which in wrong.items() if which.any())
    for source, label in np.argwhere(2 * decided > answered).tolist():
        yield (
            f"Source {evidence.sources[source]} alone decides most items of class {evidence.classes[label]}: without "
            f"it, {decided[source, label]:,} of {answered[label]:,} would have another label"
        )
    if silent := int((np.diff(evidence.offsets) == 0).sum()):
        yield f"{counted(silent, 'item')} without votes, which the model labels by what else it knows"


def _listed(names: NDArray) -> str:
    first = ", ".join(map(str, names[:_MOST_NAMES].tolist()))
    return f"{first} and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else first


def _place(name: str, value: Any, values: NDArray) -> int:
    listed = values.tolist()
    if value not in listed:
        raise InvalidInputError(f"{name} must be one of {listed!r:.200}, got {quoted(value)}; take one of those")
    return listed.index(value)


def _summed(rows: Ints, values: Floats, n: int) -> Floats:
    """The sums of rows of values, shape (n, n_classes)."""
    return np.stack([np.bincount(rows, column, n) for column in values.T], axis=1)
