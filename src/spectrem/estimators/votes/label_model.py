"""LabelModel: one answer from many weak votes and some knowledge."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Bools, Floats, Ints
from spectrem._damage import DamageError
from spectrem._reprs import briefly_shown
from spectrem.constraints import check_columns, check_values
from spectrem.constraints.columns import read_columns
from spectrem.data.frames import Columns, as_frame
from spectrem.estimators import engine
from spectrem.estimators.conventions import Estimator, as_fitted, number_groups, row_weights
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.selftraining.self_trainer import weight_names
from spectrem.estimators.shared_parameters import as_sequence
from spectrem.estimators.storage import Codec, Member, Saved, distributions, finite
from spectrem.estimators.table_input import score_rows
from spectrem.estimators.votes.dependence import find_dependent
from spectrem.estimators.votes.input import KnownLabels, Votes, read_features, read_known, read_votes
from spectrem.estimators.votes.parameters import LabelModelParameters, default_classifier
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.learning import Constant, EStep, Stopping, run_em
from spectrem.models.classifier import ClassifierModel, Fitted, Sample, class_probabilities, log_probabilities
from spectrem.models.estep import Statistics
from spectrem.models.joint_votes import JointTables, joined
from spectrem.models.shards import in_corpus_order
from spectrem.models.vote_dependence import Agreement, vote_weights
from spectrem.models.votes import (
    Answers,
    Rules,
    VoteModel,
    VoteParameters,
    VoteShard,
    as_reference,
    build_shards,
    narrow,
    precisions,
)
from spectrem.structures._ragged import rows_of

# Iterations in which rules learn the shares of classes, which then stay.
_STEPS_OF_SHARES = 20


@briefly_shown
class SourcePair(NamedTuple):
    """Two sources that vote alike.

    Attributes
    ----------
    first, second
        Their names.
    n_agreements, n_expected : float
        Items on which both give the same vote, and how many were expected of independent sources.
    z : float
        The difference in standard deviations.
    similarity : float
        The share of the further possible agreements that is there, from one half to 1, a copy.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> votes = np.where(rng.random((200, 4)) < 0.8, rng.integers(0, 2, (200, 1)), rng.integers(0, 2, (200, 4)))
    >>> votes[:, 3] = np.where(rng.random(200) < 0.95, votes[:, 2], votes[:, 3])
    >>> [pair] = LabelModel(n_threads=1).fit(votes).dependent_sources(votes)
    >>> pair.first, pair.second, pair.n_agreements > pair.n_expected
    (2, 3, True)
    """

    first: Any
    second: Any
    n_agreements: float
    n_expected: float
    z: float
    similarity: float


if TYPE_CHECKING:
    from spectrem.estimators.votes.analysis import VoteAnalysis


def _write(model: LabelModel) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    values = {
        **{"class_names": model.classes_.tolist(), "source_names": model.sources_.tolist(), "kind": model.kind_},
        "group_names": None if model.groups_ is None else model.groups_.tolist(),
    }
    pairs, similarity = model._similar
    arrays = {"shares": model.shares_, "table": model.params_.table, "source_group": model._source_group}
    arrays |= {"pairs": pairs, "similarity": similarity}
    if model.confusion_ is not None and (model._joint.group >= 0).any():
        arrays |= {"joint_group": model._joint.group, "confusion": model.confusion_}
    return values, arrays if model._reference is None else {**arrays, "reference": model._reference}


def _read(model: LabelModel, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    classes, sources = np.array(values["class_names"]), np.array(values["source_names"])
    groups, k, source_group = values["group_names"], len(classes), arrays["source_group"]
    joint_group = arrays.get("joint_group", np.full(len(sources), -1))
    if len(joint_group) != len(sources) or not set(joint_group.tolist()) <= set(range(-1, len(sources))):
        raise DamageError("joint_group must number the groups of sources from 0")
    joint = JointTables(joint_group, k, sources)
    n_rows = int(_rows(joint, source_group).max(initial=-1)) + 1
    shapes = {"shares": (1 if groups is None else len(groups), k), "table": (n_rows, k, k)}
    shapes |= {"pairs": (len(arrays["similarity"]), 2), "similarity": (len(arrays["similarity"]),)}
    shapes |= {"source_group": (len(sources),), **({"reference": (k,)} if "reference" in arrays else {})}
    shapes |= {"joint_group": (len(sources),), "confusion": (len(sources), k, k)} if "joint_group" in arrays else {}
    _CODEC.check_arrays(arrays, shapes)
    if values["kind"] not in ("answers", "rules") or (values["kind"] == "rules") != ("reference" in arrays):
        raise DamageError("kind must be answers or rules, which have a reference")
    if (arrays["table"] < 0).any() or source_group.min(initial=0) < 0:
        raise DamageError("source_group must be at least 0, and factors of votes at least 0")
    pairs, similarity = arrays["pairs"], arrays["similarity"]
    if not ((pairs >= 0) & (pairs < len(sources))).all() or not ((similarity >= 0) & (similarity <= 1)).all():
        raise DamageError("pairs must be of sources, and their similarity must lie in [0, 1]")
    params = VoteParameters(arrays["shares"], arrays["table"])
    groups = None if groups is None else np.array(groups)
    model.classifier_ = None
    of_file = arrays.get("reference"), groups, pairs, similarity, joint, arrays.get("confusion")
    model._take(params, classes, sources, source_group, *of_file)


_CODEC = Codec(
    kind="LabelModel",
    members={
        **{"shares": Member("f8", 2, distributions), "table": Member("f8", 3, finite)},
        **{"source_group": Member("i8", 1), "reference": Member("f8", 1, distributions)},
        **{"pairs": Member("i8", 2), "similarity": Member("f8", 1, finite)},
        **{"joint_group": Member("i8", 1), "confusion": Member("f8", 3, distributions)},
    },
    write=_write,
    read=_read,
)


@documented
@dataclass(eq=False, repr=False)
class LabelModel(Saved, LabelModelParameters, Estimator):
    """Labels of items from votes of sources that err, are silent, or are known to be right so often.

    Every item has a hidden label, and every source a table of how it errs ([DawidSkene1979]), or a precision; EM learns
    both from the votes alone, from labels of some items, and under constraints, at any gamma.

    Use when several annotators, patterns, dictionaries or judges have voted and no vote can be trusted alone.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        In increasing order.
    sources_ : ndarray of shape (n_sources,)
    kind_ : {"answers", "rules"}
    shares_ : ndarray of shape (n_item_groups, n_classes)
        Of the classes, one row unless there are groups.
    groups_ : ndarray of shape (n_item_groups,), or None
    confusion_ : ndarray of shape (n_sources, n_classes, n_classes), [source, class, answer], or None
        Probabilities of answers given the class, whatever other sources answer; None for rules.
    precision_ : ndarray of shape (n_sources, n_classes), or None
        Of rules, P(class | vote for it), that of the prior for votes that a source did not cast; None for answers.
    label_distributions_ : ndarray of shape (n_items, n_classes)
        Of the training items, which meet the constraints. Items that are left out by a weight of 0 have zeros.
    items_ : ndarray of shape (n_items,)
        Their names, or numbers.
    classifier_ : classifier, or None
        Trained on features; a saved model is without it.
    report_ : FitReport

    Examples
    --------
    >>> votes = [["ham", "ham", None], ["spam", "spam", "ham"], ["spam", None, "ham"], ["ham", "ham", "spam"]]
    >>> model = LabelModel(n_threads=1).fit(votes)
    >>> model.predict(votes).tolist()
    ['ham', 'spam', 'spam', 'ham']

    With features, a classifier learns from the result and labels items on which nobody votes:

    >>> X = [[0.0, 1.0], [1.0, 0.1], [0.9, 0.0], [0.2, 1.0]]
    >>> LabelModel(n_threads=1).fit(votes, X=X).predict(X=[[1.0, 0.0], [0.1, 0.9]]).tolist()
    ['spam', 'ham']
    """

    _codec = _CODEC

    @shows_progress
    def fit(
        self,
        votes: Any,
        y: Any = None,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        columns: Columns = None,
    ) -> LabelModel:
        """Learn from votes, and from labels of items that are known; with features, train a classifier on the result.

        Parameters
        ----------
        votes : array-like or frame of shape (n_items, n_sources), or frame with a row for every vote
            Labels; -1, None, NaN or another missing value where a source is silent. A frame with the columns
            ``table_columns`` has a row for every vote.
        y : array-like of shape (n_items,), or mapping of item -> label, optional
            For each item its label, a set of labels, a mapping of labels to probabilities, or None.
        X : array-like, sparse matrix or frame of shape (n_items, n_features), optional
            Features of the items, in their order, for the ``classifier``. It learns from the items with votes or
            labels, each repeated for every class with its posterior as the weight; a class whose posteriors are more
            or fewer than its share counts less or more, by the square root of their ratio.
        sample_weight : array-like of shape (n_items,), optional
            At least 0.
        groups : array-like of shape (n_items,), optional
            Items of a group have shares of classes of their own.
        columns : mapping of name -> array-like of shape (n_items,), or frame, optional
            For constraints, beside row, label, silent, source and vote.

        Returns
        -------
        LabelModel
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.
        InfeasibleConstraintError
            If the constraints cannot hold.

        Warns
        -----
        ConvergenceWarning
            If training ran out of iterations.
        """
        check_parameters(self)
        read = read_votes(votes, self.table_columns, repeated=self.repeated)
        if not read.n_items:
            raise InvalidInputError("votes must hold at least one item, got none")
        listed = list(self.shares) if self.classes is None and self.shares is not None else self.classes
        known = read_known(y, read, listed)
        check_values(self.constraints, "label", known.classes.tolist())
        more = _columns_of(columns, read)
        check_columns(self.constraints, {"source": read.sources, "vote": known.classes, **more})
        weights = np.broadcast_to(1.0, read.n_items)  # which takes no memory
        if sample_weight is not None:
            weights = row_weights(sample_weight, read.n_items, "item")
        kind = self.sources
        if kind == "auto":
            used = np.zeros((len(read.sources), len(read.labels)), np.int64)
            for part in np.array_split(read.cells, len(read.cells) >> 16 or 1):  # which are counted as 8 bytes each
                used += np.bincount(part, minlength=used.size).reshape(used.shape)
            of_one_label = used[(used > 0).sum(axis=1) == 1].sum()
            kind = "rules" if of_one_label > len(read.cells) / 2 else "answers"
        source_group = self._grouped("source_groups", read.sources)
        group = None if groups is None else _numbers_of(groups, read.n_items)
        votes_of_items = self._cells(read, read.sources, known.classes)
        pairs: Ints = np.zeros((0, 2), np.int64)
        similarity: Floats = np.zeros(0)
        if self.dependence != "ignore" and self.joint_groups is None:
            agreement = self._find_dependent(kind, read.sources, source_group, votes_of_items, known, weights)
            alike = agreement.dependent
            pairs = np.column_stack([agreement.first[alike], agreement.second[alike]])
            similarity = agreement.similarity[alike]
        joint = self._joint_tables(kind, read.sources, len(known.classes), pairs)
        similar = (pairs, similarity) if self.dependence == "weigh" else (pairs[:0], similarity[:0])
        _weigh(votes_of_items, len(read.sources), *similar)
        plain = votes_of_items["cells"]
        votes_of_items["cells"] = joint.recode(votes_of_items["sizes"], plain)
        shards = build_shards(**votes_of_items, weights=weights, **_of_items(known, group, more))
        corpus = engine.make_corpus(self, shards)
        model = self._model(known, read.sources[joint.source], _rows(joint, source_group), shards, group)
        model = model if (joint.group < 0).all() else replace(model, sources=Answers(joint=joint))
        counted = corpus.sum(model.start)
        how = self._how(kind, model, counted, read, weights)
        model = replace(model, sources=how)
        start = model.m_step(None, counted)
        if isinstance(how, Rules) and how.reference is None:
            # Precisions are compared with shares of classes; these are learnt first and stay then, so that EM climbs.
            settings = engine.run_settings(
                self,
                "shares",
                schedule=Constant(engine.asked_gamma(self)),
                stopping=Stopping(_STEPS_OF_SHARES, 0.0),
                on_iteration=lambda record: None,
            )
            start = run_em(model, corpus, start, self._estep(model), **settings).params
            of_groups = None if group is None else np.bincount(group.codes, weights, len(group.names))
            how = replace(how, reference=as_reference(np.average(start.shares, axis=0, weights=of_groups)))
            model = replace(model, sources=how, fixed_shares=start.shares)
        all_known = known.given is not None and bool(known.given[weights > 0].all())
        task = engine.Task(model, corpus, lambda: start, self._estep(model), all_known=all_known)
        trained, self.label_distributions_ = self._learn(task, shards, read.n_items)
        params, self.classifier_ = trained.params, None
        if X is not None:
            features = read_features(X, read.n_items)
            speaks = np.where(_speaks(read, known.evidence), weights, 0.0)
            classifier = self._train_classifier(features, known.classes, speaks, params.shares)
            for step in range(self.joint_steps):  # items have the classifier's shares in place of common ones
                guessed = known.beside(log_probabilities(classifier, features, known.classes))
                of_items = _of_items(guessed, None, more)
                shards = build_shards(**votes_of_items, weights=weights, **of_items)
                even = np.full((1, len(known.classes)), 1.0 / len(known.classes))
                model = replace(model, fixed_shares=even, share_counts=even)
                go_on = partial(VoteParameters, even, trained.params.table)
                corpus, stage = engine.make_corpus(self, shards), f"joint-{step + 1}"
                task = engine.Task(model, corpus, go_on, self._estep(model), n_starts=1, stage=stage)
                trained, self.label_distributions_ = self._learn(task, shards, read.n_items)
                classifier = self._train_classifier(features, known.classes, weights, None)
            params = replace(params, table=trained.params.table)
            self.classifier_ = classifier
        reference = how.reference if isinstance(how, Rules) else None
        group_names = None if group is None else group.names
        confusion = None
        if (joint.group >= 0).any():  # sources of groups have tables of their own, too, whatever the others vote
            item, k = rows_of(read.sizes), len(known.classes)
            counts = np.zeros((len(read.sources) * k, k))
            np.add.at(counts, plain, (self.label_distributions_ * weights[:, None])[item])
            apart = self._answers().m_step(counts.reshape(-1, k, k).transpose(0, 2, 1), params.shares)
            confusion = np.where(joint.group[:, None, None] < 0, params.table[source_group], apart)
        self._take(
            *(params, known.classes, read.sources, source_group, reference, group_names, *similar, joint, confusion)
        )
        self.items_ = read.items
        sizes = {"sources": len(read.sources), "votes": len(read.cells), "classes": len(known.classes), "kind": kind}
        engine.record(self, trained, read.n_items, sizes, unit="items")
        return self

    def predict_proba(
        self,
        votes: Any = None,
        y: Any = None,
        X: Any = None,
        groups: ArrayLike | None = None,
        columns: Columns = None,
    ) -> Floats:
        """Probabilities of the classes of every item, by its votes or, by the classifier, from its features.

        Parameters
        ----------
        votes, y, groups, columns
            As in `fit`, of sources that voted there. Posteriors meet the constraints if ``project_at_predict``.
        X : array-like, sparse matrix or frame of shape (n_items, n_features), optional
            In place of votes; beside them where training was joint.

        Returns
        -------
        ndarray of shape (n_items, n_classes)
            In the order of ``classes_``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If the input breaks its rule, or there is no classifier for X.
        """
        fitted = as_fitted(self)
        if votes is None and X is None:
            raise InvalidInputError("votes must be there, or X, got neither; give the votes of items or their features")
        if X is not None:
            if fitted.classifier_ is None:
                raise InvalidInputError(
                    "X needs the classifier that fit trains on features, got none; fit with X, and after load set "
                    "classifier_ to the classifier that was saved beside the model"
                )
            if votes is None:
                return class_probabilities(fitted.classifier_, X, fitted.classes_)
            if not fitted.joint_steps:
                raise InvalidInputError(
                    "votes and X together need a classifier that was trained jointly, got joint_steps=0; give one of "
                    "them: the classifier has learnt from votes already, and would count them twice"
                )
        params = fitted.params_
        if X is not None:
            params = VoteParameters(np.full_like(params.shares, 1.0 / len(fitted.classes_)), params.table)
        return fitted._posteriors(fitted._read_new(votes, y, X, groups, columns), params)

    def predict(
        self,
        votes: Any = None,
        y: Any = None,
        X: Any = None,
        groups: ArrayLike | None = None,
        columns: Columns = None,
    ) -> NDArray[Any]:
        """The most probable class of every item; the first in ``classes_`` among equals.

        Parameters
        ----------
        votes, y, X, groups, columns
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (n_items,)

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        best = self.predict_proba(votes, y, X, groups, columns).argmax(axis=1)
        return self.classes_[best]

    def score(
        self,
        votes: Any = None,
        y: Any = None,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        columns: Columns = None,
    ) -> float:
        """The share of the items with a label in y, by weight, whose label `predict` finds, from 0 to 1.

        Parameters
        ----------
        votes, X, groups, columns
            As in `predict_proba`.
        y : array-like of shape (n_items,)
            As in `fit`; items without a label are left out.
        sample_weight : array-like of shape (n_items,), optional
            At least 0.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        InvalidInputError
            If no item has a label.
        """
        return score_rows(self, y, self.predict(votes, None, X, groups, columns), sample_weight)

    def analyse(
        self, votes: Any, y: Any = None, groups: ArrayLike | None = None, columns: Columns = None
    ) -> VoteAnalysis:
        """Say how sources and items are under the model, where it differs from the majority, and what to label next.

        Parameters
        ----------
        votes, groups, columns
            As in `predict_proba`; as a rule those of training. Posteriors meet the constraints.
        y : array-like of shape (n_items,), or mapping of item -> label, optional
            Labels that are known, which sources and the model are measured by; posteriors do not depend on them.

        Returns
        -------
        VoteAnalysis

        Raises
        ------
        NotFittedError
            Before `fit`.
        InfeasibleConstraintError
            If the constraints cannot hold for these items.

        Examples
        --------
        >>> votes = [["ham", "ham", None], ["spam", "spam", "ham"], ["spam", None, "ham"], ["ham", "ham", "spam"]]
        >>> LabelModel(n_threads=1).fit(votes).analyse(votes).to_label["item"].tolist()
        [2, 1, 3, 0]
        """
        from spectrem.estimators.votes.analysis import analyse_votes

        fitted = as_fitted(self)
        new = fitted._read_new(votes, None, None, groups, columns)
        known = read_known(y, new.read, fitted.classes_)
        alike = fitted._dependent_pairs(new.read, known._replace(evidence=None, given=None))
        pairs = {name: np.array([getattr(pair, name) for pair in alike]) for name in SourcePair._fields}
        return analyse_votes(fitted, new.model, new.shards, new.read, known, pairs, as_frame(votes, "votes"))

    def dependent_sources(self, votes: Any, y: Any = None) -> list[SourcePair]:
        """Pairs of sources that agree more often than labels explain, nearly copies, strongest first.

        Agreements are held against those that are expected of sources that vote independently given the label. Labels
        are, for rules, those that most votes name, and for answers those of one step of EM from there; of a group that
        agrees beyond these, votes also have to be more probable as copies of the best source of the group. Where a
        model takes copies for independent they outvote the others; with ``dependence="weigh"`` they count once.

        Parameters
        ----------
        votes, y
            As in `fit`, of sources that voted there.

        Returns
        -------
        list of SourcePair
            Those with z above 3 and a similarity of at least one half.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> votes = np.where(rng.random((200, 4)) < 0.8, rng.integers(0, 2, (200, 1)), rng.integers(0, 2, (200, 4)))
        >>> votes = np.column_stack([votes, votes[:, 3]])
        >>> [(pair.first, pair.second) for pair in LabelModel(n_threads=1).fit(votes).dependent_sources(votes)]
        [(3, 4)]
        """
        fitted = as_fitted(self)
        read = read_votes(votes, fitted.table_columns, repeated=fitted.repeated)
        return fitted._dependent_pairs(read, read_known(y, read, fitted.classes_))

    # ---- the model --------------------------------------------------------------------------------------------------

    def _read_new(self, votes: Any, y: Any, X: Any, groups: ArrayLike | None, columns: Columns) -> _NewItems:
        """Votes on new items, and the model of these."""
        read = read_votes(votes, self.table_columns, repeated=self.repeated)
        known = read_known(y, read, self.classes_)
        if X is not None:
            known = known.beside(log_probabilities(self.classifier_, read_features(X, read.n_items), self.classes_))
        cells = self._cells(read, self.sources_, self.classes_)
        _weigh(cells, len(self.sources_), *self._similar)
        cells["cells"] = self._joint.recode(cells["sizes"], cells["cells"])
        group = self._known_groups(groups, read.n_items)
        rows = _rows(self._joint, self._source_group)
        model = VoteModel(self.classes_, self.sources_[self._joint.source], Answers(), rows)
        shards = build_shards(**cells, **_of_items(known, group, _columns_of(columns, read)))
        return _NewItems(read, model, shards)

    def _posteriors(self, new: _NewItems, params: VoteParameters) -> Floats:
        """Posteriors of new items, in their order."""
        tables = engine.posteriors(self, new.model, params, engine.make_corpus(self, new.shards))
        return in_corpus_order(new.shards, tables, new.read.n_items)

    def _dependent_pairs(self, read: Votes, known: KnownLabels) -> list[SourcePair]:
        """See `dependent_sources`."""
        votes, weights = self._cells(read, self.sources_, self.classes_), np.ones(read.n_items)
        pairs = self._find_dependent(self.kind_, self.sources_, self._source_group, votes, known, weights)
        names = self.sources_.tolist()
        rows = zip(*(values[pairs.dependent].tolist() for values in pairs[:-1]), strict=True)
        listed = [SourcePair(names[first], names[second], *numbers) for first, second, *numbers in rows]
        return sorted(listed, key=lambda pair: (-pair.z, pair.first, pair.second))

    def _grouped(self, name: str, sources: NDArray) -> Ints:
        """The number of the group of every source by a parameter; sources that it does not name are groups."""
        names = getattr(self, name) or {}
        _check_sources(name, names, sources)
        keys = [(1, names[one]) if one in names else (0, one) for one in sources.tolist()]
        place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return np.array([place[key] for key in keys], np.int64)

    def _cells(self, read: Votes, sources: NDArray, classes: NDArray) -> dict[str, Any]:
        """The votes of known sources for known classes as keywords of `build_shards`."""
        place = {source: number for number, source in enumerate(sources.tolist())}
        unknown = [one for one in read.sources.tolist() if one not in place]
        if unknown:
            raise InvalidInputError(
                f"votes must be of the sources of training, {sources.tolist()!r:.200}, got {quoted(unknown[0])}; leave "
                "them out, or fit again"
            )
        source = np.array([place[one] for one in read.sources.tolist()], np.int64)
        label, cells, strengths = np.searchsorted(classes, read.labels).astype(np.int64), read.cells, None
        if not np.array_equal(sources, read.sources) or not np.array_equal(classes, read.labels):
            cells = source[read.source] * len(classes) + label[read.label]
            cells = cells.astype(narrow(len(sources) * len(classes)))
        if self.source_weight is not None:
            _check_sources("source_weight", self.source_weight, sources)
            of_sources = np.array([float(self.source_weight.get(one, 1.0)) for one in sources.tolist()])
            strengths = of_sources[source[read.source]]
        return {"sizes": read.sizes, "cells": cells, "n_classes": len(classes), "strengths": strengths}

    def _find_dependent(
        self,
        kind: str,
        sources: NDArray,
        source_group: Ints,
        votes: dict[str, Any],
        known: KnownLabels,
        weights: Floats,
    ) -> Agreement:
        """Which sources vote alike, by number; ``votes`` are keywords of `build_shards`."""
        shards = build_shards(**votes, weights=weights, evidence=known.evidence)
        model = replace(self._model(known, sources, source_group, shards, None), sources=self._answers())
        where = votes["sizes"], votes["cells"], votes["strengths"], known.evidence, weights
        return find_dependent(kind, model, shards, *where, self.n_threads or os.cpu_count() or 1)

    def _model(
        self, known: KnownLabels, sources: NDArray, source_group: Ints, shards: list[VoteShard], group: _Groups | None
    ) -> VoteModel:
        """The model of training but for how sources vote."""
        classes, k = known.classes, len(known.classes)
        largest = 1.0 if self.source_weight is None else max(1.0, *map(float, self.source_weight.values()))
        total = math.fsum(chain.from_iterable(one.weights * (largest * one.sizes + 1.0) for one in shards))
        # Items without votes and labels say nothing of the shares.
        speaking = (np.where(_speaks(one, one.evidence), one.weights, 0.0) for one in shards)
        if group is None:
            sizes = np.full(1, math.fsum(chain.from_iterable(speaking)))
        else:
            codes = np.concatenate([one.group for one in shards])
            sizes = np.bincount(codes, np.concatenate(list(speaking)), len(group.names))
        fixed = None
        if self.shares is not None:
            unknown = set(classes.tolist()) ^ set(self.shares)
            if unknown:
                raise InvalidInputError(
                    f"shares must name the classes {classes.tolist()!r:.200}, no more and no fewer, and "
                    f"differ in {sorted(unknown, key=str)[0]!r}; set classes if votes lack one"
                )
            fixed = np.tile([float(self.shares[one]) for one in classes.tolist()], (len(sizes), 1))
        prior = self.share_strength * np.repeat(sizes[:, None] / k, k, axis=1)
        return VoteModel(classes, sources, Answers(), source_group, total, prior, fixed)

    def _how(self, kind: str, model: VoteModel, counted: Statistics, read: Votes, weights: Floats) -> Answers | Rules:
        """How sources vote; ``counted`` are expected counts of the classes that votes name."""
        if kind == "answers":
            return replace(self._answers(), joint=model.sources.joint if isinstance(model.sources, Answers) else None)
        n_votes = model.expected_votes(counted)[0].sum(axis=1)
        whole = math.fsum(weights) * np.bincount(model.source_group, minlength=len(n_votes))[:, None]
        reference = None if model.fixed_shares is None else as_reference(model.fixed_shares[0])
        strength = {} if self.strength is None else {"strength": self.strength}
        precision = {} if self.accuracy is None else {"precision": self.accuracy}
        return Rules(n_votes, n_votes / whole, reference, **strength, **precision)

    def _joint_tables(self, kind: str, sources: NDArray, n_classes: int, pairs: Ints) -> JointTables:
        """The groups of sources that have joint tables, those that are known and, if they are to, dependent ones."""
        group = joined(self._grouped("joint_groups", sources), pairs if self.dependence == "joint" else pairs[:0])
        asked = self.dependence == "joint" or self.joint_groups is not None
        if asked and (kind == "rules" or self.confusion != "full" or self.repeated):
            raise InvalidInputError(
                "joint tables must be of answers, with confusion='full' and one vote of a source on an item, got "
                f"{kind}, confusion={self.confusion!r}, repeated={self.repeated}; set dependence='weigh', and leave "
                "joint_groups out"
            )
        return JointTables(group, n_classes, sources)

    def _answers(self) -> Answers:
        how = Answers(self.confusion)
        how = how if self.strength is None else replace(how, strength=self.strength)
        return how if self.accuracy is None else replace(how, accuracy=self.accuracy)

    def _estep(self, model: VoteModel) -> EStep:
        """The E-step of training: without constraints the compiled one."""
        return engine.estep_of(self) if as_sequence(self.constraints) else EStep(kernel=model)

    def _learn(self, task: engine.Task, shards: list[VoteShard], n_items: int) -> tuple[engine.Trained, Floats]:
        """Train, and the posteriors of all items."""
        trained = engine.train(self, task)
        if as_sequence(self.constraints):
            tables = engine.learnt_posteriors(trained)
        else:
            gamma = engine.asked_gamma(self)
            tables = task.corpus.collect(engine.free_posteriors, task.model, trained.params, engine.table, gamma)
        return trained, in_corpus_order(shards, tables, n_items)

    def _train_classifier(self, features: Any, classes: NDArray, weights: Floats, shares: Floats | None) -> Any:
        """The classifier of the posteriors of items, which count by weights, their classes as their shares say."""
        targets = self.label_distributions_
        if shares is not None:
            expected = weights @ targets / max(math.fsum(weights), 1e-300)
            ratio = np.divide(shares.mean(axis=0), expected, out=np.zeros_like(expected), where=expected > 0)
            targets = targets * np.sqrt(ratio)
        classifier = default_classifier() if self.classifier is None else self.classifier
        model = ClassifierModel(classifier, 1.0, False, weight_names(classifier))
        sample = Sample(features, np.full(len(targets), -1), classes, weights, {})
        return model.classifier(Fitted(targets), sample)

    def _known_groups(self, groups: ArrayLike | None, n: int) -> Any:
        if (groups is None) != (self.groups_ is None):
            raise InvalidInputError(
                f"groups must be {'left out' if self.groups_ is None else 'given'}, as in fit; the shares of classes "
                f"were learnt {'for all items together' if self.groups_ is None else 'for each group'}"
            )
        return None if groups is None else _numbers_of(groups, n, self.groups_)

    def _take(
        self,
        params: VoteParameters,
        classes: NDArray,
        sources: NDArray,
        source_group: Ints,
        reference: Floats | None,
        groups: NDArray | None,
        pairs: Ints,
        similarity: Floats,
        joint: JointTables,
        confusion: Floats | None,
    ) -> None:
        """Set the attributes that predictions need, from training or a file."""
        self.params_, self.classes_, self.sources_, self.groups_ = params, classes, sources, groups
        self._source_group, self._reference, self.shares_ = source_group, reference, params.shares
        self.kind_, self._similar = "answers" if reference is None else "rules", (pairs, similarity)
        self._joint = joint
        table = params.table[source_group]
        self.confusion_ = None if reference is not None else table if confusion is None else confusion
        self.precision_ = None if reference is None else precisions(table, reference)


def _rows(joint: JointTables, source_group: Ints) -> Ints:
    """The row of the table of every source, and of every combination of votes after them."""
    n_combinations = len(joint.source) - len(joint.group)
    return np.append(source_group, source_group.max(initial=-1) + 1 + np.arange(n_combinations))


def _check_sources(name: str, mapping: Mapping[Any, Any], sources: NDArray) -> None:
    """Raise `InvalidInputError` unless the keys of a parameter are sources."""
    unknown = [one for one in mapping if one not in set(sources.tolist())]
    if unknown:
        raise InvalidInputError(
            f"{name} must name sources of votes, got {unknown[0]!r}; they are {sources.tolist()!r:.200}"
        )


def _speaks(items: Votes | VoteShard, evidence: Floats | None) -> Bools:
    """Whether an item has votes, or a label of which something is known."""
    speaks: Bools = items.sizes > 0
    return speaks if evidence is None or not len(evidence) else speaks | evidence.any(axis=1)


def _weigh(votes: dict[str, Any], n_sources: int, pairs: Ints, similarity: Floats) -> None:
    """Let votes, keywords of `build_shards`, of dependent sources count less where they agree."""
    if len(pairs):
        of_pairs = vote_weights(votes["sizes"], votes["cells"], n_sources, votes["n_classes"], pairs, similarity)
        strengths = votes["strengths"]
        votes["strengths"] = of_pairs if strengths is None else strengths * of_pairs


class _NewItems(NamedTuple):
    """Votes on new items as they were read, their model, and all items, in order, in shards."""

    read: Votes
    model: VoteModel
    shards: list[VoteShard]


class _Groups(NamedTuple):
    """Groups of items: their names, and the number of each item's."""

    names: NDArray
    codes: Ints


def _numbers_of(groups: ArrayLike, n: int, names: NDArray | None = None) -> _Groups:
    distinct, codes = number_groups(groups, n, f"name the group of each of {n} items")
    if names is None:
        return _Groups(distinct, codes)
    unknown = np.setdiff1d(distinct, names)
    if len(unknown):
        raise InvalidInputError(
            f"groups must be those of training, {names.tolist()!r:.200}, got {unknown.tolist()[0]!r}; fit again with it"
        )
    return _Groups(names, np.searchsorted(names, distinct)[codes])


def _columns_of(columns: Columns, read: Votes) -> dict[str, NDArray[Any]]:
    """A user's columns for constraints as arrays of shape (n_items,)."""
    taken = ("row", "label", "silent", "source", "vote")
    named = read_columns(columns, {"items": read.n_items}, taken=taken)
    return {name: np.asarray(named[name]) for name in named}


def _of_items(known: KnownLabels, group: _Groups | None, columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Keywords of `build_shards`."""
    codes = None if group is None else group.codes
    return {"group": codes, "evidence": known.evidence, "given": known.given, "columns": columns}
