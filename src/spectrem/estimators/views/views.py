"""Views: classifiers or taggers of several views of the same data, which agree on what is not labelled."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from spectrem._arrays import Bools, Floats
from spectrem._validate import as_integers
from spectrem.constraints import E, check_columns, check_values, part
from spectrem.constraints.text import flatten
from spectrem.corpus import Corpus
from spectrem.data.frames import as_frame
from spectrem.estimators import engine
from spectrem.estimators.classification.maxent_classifier import (
    MaxEntClassifier,
    coefficients_of,
    fitted_model,
    make_model,
    merge_proportional,
)
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, row_weights, take_course
from spectrem.estimators.crf.crf_tagger import CRFTagger, best_states, read_sentences, with_pairs
from spectrem.estimators.declare import check_parameters, documented, parameters_of
from spectrem.estimators.labelled import fit_members
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentences import read_labels
from spectrem.estimators.shared_parameters import as_sequence
from spectrem.estimators.storage import Codec, Saved, read_constraints, write_texts
from spectrem.estimators.table_input import UNLABELLED, read_targets, row_columns, score_rows, take_columns
from spectrem.estimators.views.parameters import ViewsParameters
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.learning import EStep, Step, Stopping, pose
from spectrem.models import loglinear
from spectrem.models.loglinear import LogLinearShard, Merged

_PRIOR = frozenset({"C", "l1_ratio", "m_steps", "m_tol"})
USED = {
    MaxEntClassifier: _PRIOR | {"fit_intercept", "classes"},
    CRFTagger: _PRIOR | {"features", "tags", "pairs", "edge_features", "scheme", "min_count"},
}
"""The estimators that can be views, and the parameters that count when they are."""

_MOST_VIEWS = 64
_CLASSES: dict[str, Any] = {kind.__name__: kind for kind in USED}
# The group of the labels that some view has no counterpart of.
_REST = "the rest"


def _write(views: Views) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    inside, arrays = list[dict[str, Any]](), dict[str, NDArray[Any]]()
    for number, (name, view) in enumerate(views.views_.items()):
        settings, members = view._codec.content(view)
        inside.append({"name": name, "kind": view._codec.kind, "settings": settings})
        arrays |= {f"{number}_{key}": array for key, array in members.items()}
    return {"views": inside, "agreement": _write_agreement(as_fitted(views).agreement)}, arrays


def _read(views: Views, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    views.views_ = {}
    for number, saved in enumerate(values["views"]):
        start = f"{number}_"
        members = {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}
        view = views.views_[saved["name"]] = _CLASSES[saved["kind"]]()
        view._codec.restore(view, saved["settings"], members)
    views.views = [(name, clone(view)) for name, view in views.views_.items()]
    agreement = values["agreement"]
    if isinstance(agreement, dict):
        if "groups" in agreement:
            agreement = {view: dict(map(tuple, groups)) for view, groups in agreement["groups"]}
        else:
            agreement = read_constraints(agreement["ties"])
    views.agreement = agreement
    check_parameters(views)
    check_views(views)
    views._whole()  # views that do not fit each other are damage, too


def _write_agreement(agreement: Any) -> Any:
    """An agreement as JSON can hold it."""
    if isinstance(agreement, Mapping):
        return {"groups": [[view, list(groups.items())] for view, groups in agreement.items()]}
    if agreement == "full":
        return agreement
    left_out: list[str] = []
    written = write_texts(agreement, left_out)
    if left_out:
        raise InvalidInputError(
            f"agreement must be texts, or made with E or shortcuts, to be saved, got {', '.join(left_out)}; keep the "
            "Views in memory"
        )
    return {"ties": written}


_CODEC = Codec(
    kind="Views",
    members={
        f"{number}_{name}": shape
        for number in range(_MOST_VIEWS)
        for cls in _CLASSES.values()
        for name, shape in cls._codec.members.items()
    },
    write=_write,
    read=_read,
    numbers=("gamma", "bhattacharyya"),
    apart=("views", "agreement"),
    check=lambda views: None,  # when its views are read
    blank=lambda cls: cls([]),
)


@documented
@dataclass(eq=False, repr=False)
class Views(Saved, ViewsParameters, Estimator):
    """Train models of several views of the same rows or sentences so that they agree where labels are missing.

    By turns, the distributions of missing labels become those nearest to all views on which the views agree, and every
    view is fitted to labels and distributions ([Ganchev2010] §6). That is maximum likelihood of each view with a
    penalty on how far apart they are: at gamma = 1, of two views, twice their Bhattacharyya distance (eq. 47, whose
    losses are sums here). Full agreement has a closed form, the mean of the views' scores (props 6.1, 6.2); groups of
    labels and other ties are equality rows (eq. 54).

    Use when few labels are known, most rows are not labelled, and the features fall into two or more sets of which
    each would nearly be enough: spelling and context of a name, text and links of a page, content and context of a
    token; or when models of different labels must fit each other.

    Attributes
    ----------
    views_ : dict of str -> estimator
        The views as fitted estimators, which predict by themselves.
    classes_, tags_ : ndarray or tuple
        In full agreement, the labels of all classifiers, or of all taggers.
    label_distributions_ : ndarray of shape (n_rows, n_classes), or dict of view -> ndarray
        Of the training data (of taggers, a row per token), under agreement and constraints: one table in full
        agreement, else one for every view.
    bhattacharyya_ : float
        How far apart the views are at the end, nats per instance that is not labelled: of two views that agree fully,
        the mean of ``-log sum_y sqrt(p_1(y) p_2(y))``; in general the Kullback-Leibler divergence from the nearest
        distributions that agree, over the number of views. The report has the value before training together, too.
    history_ : list of Record
        Per iteration ``objective``, nats: that of `MaxEntClassifier` of all views (their mean in full agreement, else
        their sum) with the distributions that agree. It never falls.
    objective_ : float
        Of the last iteration, nats.
    converged_ : bool
    status_ : FitStatus
    n_iter_ : int
    gamma_ : float
    report_ : FitReport
        The course of training, how far apart the views are, and the constraints.

    Examples
    --------
    Two rows are labelled; of the others, some have both views in common with rows seen so far:

    >>> import numpy as np
    >>> from spectrem import MaxEntClassifier, Views
    >>> spelling = np.array([[1, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    >>> context = np.array([[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]])
    >>> y = ["place", "person", None, None, None, None]
    >>> views = Views([("spelling", MaxEntClassifier()), ("context", MaxEntClassifier())])
    >>> X = {"spelling": spelling, "context": context}
    >>> views.fit(X, y).predict(X).tolist()
    ['place', 'person', 'place', 'place', 'place', 'person']
    """

    _codec = _CODEC

    @shows_progress
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Any = None,
        owners: Mapping[str, ArrayLike] | None = None,
    ) -> Views:
        """Train on rows, sentences, or both, whose labels are known, in part, or not.

        Parameters
        ----------
        X : mapping of view -> what its estimator takes, or matrix or frame
            Of every view the same rows, in the same order, or the same sentences, or for each row a sentence. With
            ``feature_groups`` one matrix or frame of all features.
        y : what the estimators take, or mapping of view -> that
            In full agreement the labels that all views share. Otherwise views may have labels of their own; those that
            are left out have none.
        sample_weight : array-like of shape (n_instances,), optional
            At least 0.
        columns : mapping of name -> array-like, optional
            What constraints name beside the columns that there are anyway: a value per instance, of taggers in full
            agreement also a sequence per sentence.
        owners : mapping of view -> array-like of int, optional
            Without full agreement, of views whose rows or sentences are parts of the instances of the others: the
            number of the instance, from 0, that each belongs to, such as the document of every sentence. Also where
            views have labelled rows of their own, which the others lack.

        Returns
        -------
        Views
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule, or the views share no row that is not labelled.
        InfeasibleConstraintError
            If agreement and constraints cannot hold, with each other or with the labels.

        Warns
        -----
        ConvergenceWarning
            If training ran out of iterations or steps.
        """
        check_parameters(self)
        views, data = read_training(self, X, y, columns, owners)
        weights = row_weights(sample_weight, data.n, "instance")
        posed = _pose(self, views, data, weights)
        trained = engine.train(self, posed.task)
        if trained.shards is not None:
            pieces = engine.learnt_posteriors(trained)
        else:
            pieces = engine.projected(self, posed.task.model, trained.params, posed.task.corpus, posed.ties, 1.0)
        tables = _tables(posed.shards, data, pieces)
        before, after = (_distance_per_instance(self, posed, theta) for theta in (posed.start, trained.params))
        note = (
            f"views apart by {before:.3g} nats per instance without all labels before they were trained together, by "
            f"{after:.3g} at the end (Bhattacharyya distance)"
        )
        engine.record(self, trained, data.n, {"views": ", ".join(views)}, unit="instances", notes=(note,))
        for name, theta in posed.task.model.split(trained.params).items():
            estimator, view = views[name].estimator, views[name]
            if view.merged is None:
                estimator.theta_ = theta
            else:
                estimator.coef_, estimator.intercept_ = coefficients_of(view.model, theta, view.merged)
            take_course(estimator, trained.history, trained.status)
            estimator.gamma_ = self.gamma_
        self.views_ = {name: view.estimator for name, view in views.items()}
        self.label_distributions_ = next(iter(tables.values())) if self.agreement == "full" else tables
        self.bhattacharyya_ = after
        return self

    def predict_proba(self, X: Any, *, columns: Any = None, owners: Mapping[str, ArrayLike] | None = None) -> Any:
        """Distributions of the labels on which the views agree.

        Parameters
        ----------
        X, columns, owners
            As in `fit`; ``columns`` for ``project_at_predict``.

        Returns
        -------
        ndarray of shape (n_rows, n_classes), or list of ndarrays of shape (tokens, n_tags), or dict of view -> these
            In full agreement those that all views share; otherwise a mapping.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted = self._as_fitted()
        data = read_more(fitted, X, columns, owners)
        model, theta, ties = fitted._whole()
        shards = _cut(model, data)
        constraints, gamma = (fitted.constraints, fitted.gamma_) if engine.projects(fitted) else ((), 1.0)
        corpus = engine.make_corpus(fitted, shards)
        tables: dict[str, Any] = _tables(
            shards, data, engine.projected(fitted, model, theta, corpus, [*ties, constraints], gamma)
        )
        for name, member in data.members.items():
            if member.lengths is not None:
                tables[name] = list(PerSentence.cut(tables[name], member.lengths))
        return next(iter(tables.values())) if fitted.agreement == "full" else tables

    def predict(self, X: Any, *, columns: Any = None, owners: Mapping[str, ArrayLike] | None = None) -> Any:
        """The labels on which the views agree.

        Arrays of classifiers, lists of lists of taggers; without full agreement, a mapping of views to these.
        Taggers in full agreement decode as ``decode`` says; otherwise every token has its most probable tag.
        Parameters as of `predict_proba`.

        Parameters
        ----------
        X, columns, owners
            As in `predict_proba`.

        Returns
        -------
        ndarray of shape (n_rows,), list of list of tags, or dict of view -> these

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted = self._as_fitted()
        first = next(iter(fitted.views_.values()))
        if fitted.agreement == "full" and isinstance(first, CRFTagger):
            data = read_more(fitted, X, columns, owners)
            member = next(iter(data.members.values()))
            corpus = engine.make_corpus(fitted, _cut(fitted.model_, data))
            states = np.concatenate(list(best_states(fitted, corpus)))
            return PerSentence.cut(np.array(first.tags_, object)[states].tolist(), member.sizes)
        tables = self.predict_proba(X, columns=columns, owners=owners)
        if fitted.agreement == "full":
            return _best(tables, first)
        return {name: _best(table, fitted.views_[name]) for name, table in tables.items()}

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Any = None,
        owners: Mapping[str, ArrayLike] | None = None,
    ) -> float:
        """The share of rows, or of tokens, with a label in y whose label `predict` finds, from 0 to 1.

        Rows, or tokens, without a label are left out; a set counts as right where it holds the label that is found, a
        distribution by the probability that it gives it. Of tags that mark chunks or names it counts O, too:
        `spectrem.metrics.chunk_scores` gives precision, recall and F1 of chunks.
        Other parameters as of `predict`.

        Parameters
        ----------
        X, columns, owners
            As in `predict`.
        y
            Labels as in `fit`.
        sample_weight : array-like of shape (n_rows,), optional
            At least 0.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        InvalidInputError
            Without full agreement, and if nothing has a label.
        """
        if as_fitted(self).agreement != "full":
            raise InvalidInputError(
                'agreement must be "full" for one score, got other ties; compare predict(X)[view] with the labels of '
                "every view"
            )
        predicted = self.predict(X, columns=columns, owners=owners)
        if isinstance(predicted, np.ndarray):
            return score_rows(self._agreed, y, predicted, sample_weight)
        lengths = np.array([len(tags) for tags in predicted], np.int64)
        return read_labels(y, lengths, self.tags_).score(predicted, sample_weight, self.tags_)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        if self.agreement == "full" and not any(isinstance(view, CRFTagger) for _, view in self.views):
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name.

        Parameters
        ----------
        deep : bool
            Also the views by their names, and their parameters as ``<view>__<parameter>``.

        Returns
        -------
        dict of str -> value
        """
        params = super().get_params(deep)
        for name, estimator in self.views if deep else ():
            params[name] = estimator
            params |= {f"{name}__{inner}": value for inner, value in estimator.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, views by theirs, and parameters of views as ``<view>__<parameter>``.

        Parameters
        ----------
        **params
            New values by the names of parameters.

        Returns
        -------
        Views
            Itself.

        Raises
        ------
        InvalidInputError
            If there is no such parameter.
        """
        if "views" in params:
            self.views = params.pop("views")
        named = dict(self.views)
        for key in [key for key in params if key.partition("__")[0] in named]:
            name, _, inner = key.partition("__")
            value = params.pop(key)
            if inner:
                named[name].set_params(**{inner: value})
            else:
                named[name] = value
                self.views = [(one, named[one]) for one, _ in self.views]
        return super().set_params(**params)

    @property
    def classes_(self) -> NDArray:
        """Labels of classifiers in full agreement, in increasing order."""
        first: NDArray = self._agreed.classes_
        return first

    @property
    def tags_(self) -> tuple[Any, ...]:
        """Tags of taggers in full agreement."""
        first: tuple[Any, ...] = self._agreed.tags_
        return first

    @property
    def model_(self) -> Any:
        """The model of all views, an ``AgreedModel`` or a ``JointModel``."""
        return self._as_fitted()._whole()[0]

    @property
    def theta_(self) -> Floats:
        """The weights of ``model_``, view after view."""
        return self._as_fitted()._whole()[1]

    @property
    def _agreed(self) -> Any:
        """The first of the views that agree fully."""
        if as_fitted(self).agreement != "full":
            raise AttributeError("without full agreement every view has labels of its own, see views_")
        return next(iter(self.views_.values()))

    def _as_fitted(self) -> Views:
        """With the parameters of training, also those of every view; see `as_fitted`."""
        fitted = as_fitted(self)
        fitted.views_ = {name: as_fitted(view) for name, view in self.views_.items()}
        return fitted

    def _whole(self) -> tuple[loglinear.AgreedModel | loglinear.JointModel, Floats, list[Any]]:
        """One model of all fitted views, its weights, and the constraints that tie views which do not agree fully."""
        fitted = {
            name: (view.model_, view.theta_) if isinstance(view, CRFTagger) else fitted_model(view)
            for name, view in self.views_.items()
        }
        model, ties = _together(self, {name: model for name, (model, _) in fitted.items()}, self.views_)
        return model, np.concatenate([theta for _, theta in fitted.values()]), ties


class _Posed(NamedTuple):
    """A task, and what tells how far apart the views are before and after it.

    Attributes
    ----------
    task : Task
    ties : list of constraints
        Those that tie views which do not agree fully.
    shards : list of JointShard
    start : ndarray of shape (n_weights,)
        The weights of the views that are trained on their labels alone.
    mass : float
        The weight of the instances that are not labelled in all views.
    """

    task: engine.Task
    ties: list[Any]
    shards: list[loglinear.JointShard]
    start: Floats
    mass: float


def _pose(settings: ViewsParameters, views: Mapping[str, View], data: Instances, weights: Floats) -> _Posed:
    """The task of Views, whose settings have been checked; ``weights`` are those of instances.

    Raises
    ------
    InvalidInputError
        If no view has a label, or all have them all.
    """
    n, members = data.n, data.members
    place = {name: np.arange(n) if member.owners is None else member.owners for name, member in members.items()}

    def in_all(masks: Mapping[str, Bools]) -> Bools:
        """Instances where a mask of every view is true throughout, shape (n,)."""
        return np.asarray(sum(np.bincount(place[name], ~mask, n) for name, mask in masks.items()) == 0)

    known = in_all({name: view.known for name, view in views.items()})
    soft = {name: view.known & _several(members[name]) for name, view in views.items()}
    if not as_sequence(settings.constraints) and not any(view.known.any() for view in views.values()):
        raise InvalidInputError(
            "y must label some row, got none; without labels or constraints nothing says what labels mean"
        )
    present, learns = ~known & (weights > 0), settings.unlabelled_weight > 0
    if learns and not present.any():
        raise InvalidInputError(
            f"views must share some row that is not labelled in all of them, got {n} that are; add rows without a "
            "label, or set unlabelled_weight=0 to train the views by themselves"
        )
    for name, mask in soft.items():
        mixed = mask & present[place[name]]
        if mixed.any():
            raise InvalidInputError(
                f"y[{name!r}] must have labels and no distributions where another view has no label, got a "
                f"distribution in row {int(np.argmax(mixed))}; give the most probable label, or none"
            )
    models = {name: view.model for name, view in views.items()}
    model, ties = _together(settings, models, {name: view.estimator for name, view in views.items()})
    corpora: list[tuple[Any, Corpus | None]] = []
    for name, view in views.items():
        labelled = loglinear.build_shards(
            members[name].features, members[name].lengths, members[name].labels, view.known, weights[place[name]],
            n_weights=view.model.n_weights, n_labels=view.model.n_labels,
        )  # fmt: skip
        corpus = engine.make_corpus(settings, [shard for shard in labelled if shard.known]) if view.complete else None
        corpora.append((view.model, corpus))
    divisor = len(views) if isinstance(model, loglinear.AgreedModel) else 1
    first = fit_members(settings, model, corpora, goes_on=learns, divisor=divisor)
    # Labelled rows stay with those that constraints tie them to; distributions are kept apart, as they cannot move.
    tied = np.zeros(n, np.bool_)
    if learns and as_sequence(settings.constraints) and not any(one.chain for one in models.values()):
        tied = known & in_all({name: ~mask for name, mask in soft.items()})
    weighed = weights * np.where(known, 1.0, settings.unlabelled_weight or 1.0)
    shards = _cut(
        model, data, known=known & ~tied, weights=weighed, given=tied, counts=weights, n_weights=model.n_weights
    )
    task = engine.Task(
        model,
        engine.make_corpus(settings, shards),
        model.initial,
        engine.estep_of(settings, [*ties, settings.constraints]),
        labelled=lambda: first,
        learns=learns,
        unused=() if settings.project_at_predict else settings.constraints,
        stopping=Stopping(settings.max_iter, settings.tol, scale=float(weighed.sum())),
    )
    return _Posed(task, ties, shards, first.params, float(weights[~known].sum()))


def _several(member: LogLinearShard) -> Bools:
    """Instances of which some choice may have several labels, or has them in shares, shape (n_instances,)."""
    assert member.labels is not None
    instance = np.repeat(np.arange(member.n_instances), member.sizes)
    return np.bincount(instance, np.diff(member.labels.offsets) > 1, member.n_instances) > 0


def _together(
    settings: ViewsParameters, models: Mapping[str, Any], views: Mapping[str, Any]
) -> tuple[loglinear.AgreedModel | loglinear.JointModel, list[Any]]:
    """One model of several views, as ``settings.agreement`` says, and the constraints that tie them."""
    if settings.agreement == "full":
        if any(isinstance(model, loglinear.PairModel) for model in models.values()):
            models = {
                name: model if isinstance(model, loglinear.PairModel) else loglinear.PairModel(model)
                for name, model in models.items()
            }
        return with_pairs(loglinear.AgreedModel(models), settings.constraints), []
    columns = {name: label_column(name, chain=model.chain) for name, model in models.items()}
    ties = settings.agreement
    if isinstance(ties, Mapping):
        per = ["row", "token"] if all(model.chain for model in models.values()) else ["row"]
        labels = {name: labels_of(view) for name, view in views.items()}
        ties = tie_groups(ties, labels, columns, per, settings.agreement_penalty)
    return loglinear.JointModel(models, labels=columns), list(flatten(ties))


def tie_groups(
    groups: Mapping[str, Mapping[Any, Any]],
    labels: Mapping[str, Sequence[Any]],
    columns: Mapping[str, str],
    per: Sequence[str],
    penalty: float | None,
) -> list[Any]:
    """Equality rows that make views expect every group of labels alike, [Ganchev2010] eqs 52 and 54.

    Parameters
    ----------
    groups : mapping of view -> mapping of label -> group
    labels : mapping of view -> sequence
        All labels of every view.
    columns : mapping of view -> str
        What constraints call them.
    per : sequence of str
        Columns of the instances, or choices, at which the views agree.
    penalty : float or None
        Of a difference of 1, nats; None where there must be none.

    Raises
    ------
    InvalidInputError
        If a view or a label does not exist, or the views have no group in common.

    Examples
    --------
    >>> labels = {"fine": ["cat", "dog", "van"], "coarse": ["animal", "van"]}
    >>> tied = tie_groups({"fine": {"cat": "animal", "dog": "animal"}}, labels,
    ...     {"fine": "fine_label", "coarse": "coarse_label"}, ["row"], None)
    >>> print(tied[0])  # doctest: +NORMALIZE_WHITESPACE
    (E[part("fine_label").isin(["cat", "dog"])] == E[part("coarse_label").isin(["animal"])]).per("row").named("fine and
    coarse agree on 'animal'")
    """
    for view, group_of in groups.items():
        if view not in labels:
            raise InvalidInputError(f"agreement must name views, {', '.join(labels)}, got {quoted(view)}; correct it")
        unknown = [label for label in group_of if label not in labels[view]]
        if unknown:
            raise InvalidInputError(
                f"agreement[{view!r}] must group labels of that view, {labels[view]!r:.200}, got "
                f"{quoted(unknown[0])}; leave it out, or list it in classes or tags"
            )
    group_of = {view: {one: groups.get(view, {}).get(one, one) for one in listed} for view, listed in labels.items()}
    shared = set.intersection(*(set(by_label.values()) for by_label in group_of.values()))
    if not shared:
        got = "; ".join(f"{view}: {sorted(map(str, set(by_label.values())))}" for view, by_label in group_of.items())
        raise InvalidInputError(
            f"agreement must give the views some group in common, got {got:.300}; map labels of each view to the same "
            "groups"
        )
    members: dict[str, dict[Any, list[Any]]] = {view: {} for view in labels}
    for view, by_label in group_of.items():
        for label, group in by_label.items():
            members[view].setdefault(group if group in shared else _REST, []).append(label)
    first, *others = labels
    ties = []
    for other in others:
        listed = [group for group in members[first] if group in members[other]]
        alone = {group for view in (first, other) for group in members[view]} - set(listed)
        # Expectations of all groups add up to 1: one row follows from the others.
        for group in listed if alone else listed[:-1]:
            left, right = (E[part(columns[view]).isin(members[view][group])] for view in (first, other))
            tied = (left == right).per(*per).named(f"{first} and {other} agree on {group!r}")
            ties.append(tied if penalty is None else tied.slack(penalty=penalty, norm="l1"))
    return ties


def _cut(model: Any, data: Instances, **more: Any) -> list[loglinear.JointShard]:
    """Shards of all instances, for the model of all views; ``more`` says what `build_joint_shards` is to know."""
    n_labels = {name: member.n_labels for name, member in model.members.items()}
    return loglinear.build_joint_shards(data.members, n_labels, columns=data.columns, n_instances=data.n, **more)


def _tables(shards: Sequence[loglinear.JointShard], data: Instances, tables: Iterable[Any]) -> dict[str, Floats]:
    """Distributions of the labels of all choices of every view; in full agreement all have the same."""
    each = [table if isinstance(table, dict) else dict.fromkeys(data.members, table) for table in tables]
    return loglinear.member_tables(shards, data.members, each)


def _distance_per_instance(settings: ViewsParameters, posed: _Posed, theta: Floats) -> float:
    """How far apart the distributions of the views are at gamma = 1, nats per instance that is not labelled.

    The Kullback-Leibler divergence from the nearest distributions that agree, over the number of views: with two, the
    Bhattacharyya distance ([Ganchev2010] props 6.1 to 6.3).
    """
    model, corpus = posed.task.model, posed.task.corpus
    if not posed.mass:
        return 0.0
    if isinstance(model, loglinear.AgreedModel):
        total = float(corpus.sum(_distance, model, theta))
    else:
        estep = EStep(posed.ties, infeasible=settings.infeasible)
        evaluated, _ = pose(model, corpus, estep).expect(Step(model, theta, 1.0, estep))
        total = float(evaluated.free_objective - evaluated.objective) / len(model.members)
    return total / posed.mass


def _distance(shard: loglinear.JointShard, model: loglinear.AgreedModel, theta: Floats) -> float:
    """The sum over instances of how far apart the views are, as the instances count, nats."""
    if shard.known:
        return 0.0
    agreed, _ = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0)
    weights, total, counts = model.split(theta), 0.0, shard.weights if shard.counts is None else shard.counts
    for name, view in model.members.items():
        member = shard.members[name]
        values, _ = view.structure(member).smoothed_max(view.scores(weights[name], member), 1.0)
        total += float(counts @ (values - agreed))
    return total / len(model.members)


def _best(table: NDArray | list[Floats], view: Any) -> Any:
    """The most probable label of every row, or tags of every sentence."""
    if isinstance(table, np.ndarray):
        return view.classes_[table.argmax(axis=1)]
    tags = np.array(view.tags_, object)
    return [tags[sentence.argmax(axis=1)].tolist() for sentence in table]


# ---- the data of every view -----------------------------------------------------------------------------------------


class View(NamedTuple):
    """An estimator to be fitted, and the labels that it learns from.

    Attributes
    ----------
    estimator : MaxEntClassifier or CRFTagger
        With all fitted attributes but its weights and the course of training.
    known : ndarray of shape (n_own_instances,), bool
        Rows with a label or a distribution, sentences where all tokens have one.
    complete : bool
        Whether the known instances have every label, so that the view can start from them.
    model : LogLinearModel or PairModel
    merged : Merged or None
        The features of a classifier.
    """

    estimator: Any
    known: Bools
    complete: bool
    model: Any
    merged: Merged | None = None


class Instances(NamedTuple):
    """The same instances as all views see them.

    Attributes
    ----------
    members : dict of view -> LogLinearShard
    n : int
    columns : dict of name -> ndarray of shape (n,)
        For constraints, beside those of the members.
    """

    members: dict[str, LogLinearShard]
    n: int
    columns: dict[str, NDArray]


def label_column(name: str, *, chain: bool) -> str:
    """The name of the labels of one view in constraints over several."""
    return f"{name}_{'tag' if chain else 'label'}"


def labels_of(view: MaxEntClassifier | CRFTagger) -> list[Any]:
    """The labels of a view by their numbers."""
    return list(view.tags_) if isinstance(view, CRFTagger) else view.classes_.tolist()


def check_views(settings: ViewsParameters) -> None:
    """Raise `InvalidInputError` if estimators cannot be views together, or have parameters that `Views` has for all."""
    for name, estimator in settings.views:
        used = next((names for cls, names in USED.items() if isinstance(estimator, cls)), None)
        if used is None:
            raise InvalidInputError(
                f"views[{name!r}] must be a MaxEntClassifier or a CRFTagger, got {quoted(estimator)}; other "
                "classifiers can be trained on agreed labels by SelfTrainer"
            )
        for parameter, (default, _) in parameters_of(estimator).items():
            value = getattr(estimator, parameter)
            if parameter not in used and not (value is default or value == default):
                raise InvalidInputError(
                    f"views[{name!r}] must leave {parameter} at {default!r}, got {quoted(value)}; give it to Views, "
                    "for all views together"
                )
    chains = {name: isinstance(estimator, CRFTagger) for name, estimator in settings.views}
    if settings.agreement == "full" and len(set(chains.values())) > 1:
        listed = ", ".join(label_column(name, chain=chain) for name, chain in chains.items())
        raise InvalidInputError(
            f'agreement must not be "full" between classifiers and taggers, got both; tie them by constraints over '
            f"{listed}"
        )


def read_training(
    settings: ViewsParameters, X: Any, y: Any, columns: Any, owners: Mapping[str, ArrayLike] | None
) -> tuple[dict[str, View], Instances]:
    """Read what `Views.fit` takes.

    Raises
    ------
    InvalidInputError
        If something breaks its rule, or views do not fit each other.
    """
    check_views(settings)
    parts, labels = _split(settings, X), _targets(settings, y)
    # In full agreement, constraints and columns are those of the instances as the first view sees them.
    constraints, of_view = (settings.constraints, columns) if settings.agreement == "full" else ((), None)
    views: dict[str, View] = {}
    members: dict[str, LogLinearShard] = {}
    for name, estimator in settings.views:
        views[name], members[name] = _read_view(clone(estimator), parts[name], labels.get(name), constraints, of_view)
        of_view = None
    instances = _join(settings, members, columns, owners)
    _check_constraints(settings, views, instances)
    return views, instances


def read_more(settings: Views, X: Any, columns: Any, owners: Mapping[str, ArrayLike] | None) -> Instances:
    """Read what `Views.predict` takes; see `read_training`."""
    parts, members = _split(settings, X), dict[str, LogLinearShard]()
    constraints, of_view = (settings.constraints, columns) if settings.agreement == "full" else ((), None)
    for name, view in settings.views_.items():
        if isinstance(view, CRFTagger):
            text = _under(view, constraints)._read(parts[name], None, of_view)
            members[name] = LogLinearShard.whole(text.features, text.lengths, None, text.columns)
        else:
            features, _ = view._read(parts[name], None)
            members[name] = LogLinearShard.whole(features, columns=row_columns((of_view,), features.n_choices, "Views"))
        of_view = None
    return _join(settings, members, columns, owners)


def _read_view(estimator: Any, X: Any, y: Any, constraints: Any, columns: Any) -> tuple[View, LogLinearShard]:
    """Read the training data of a view, and set all fitted attributes of its estimator but the weights."""
    check_parameters(estimator)
    if isinstance(estimator, CRFTagger):
        read = read_sentences(_under(estimator, constraints), X, y, None, columns)
        estimator.features_, estimator.tags_, estimator.model_ = read.features, read.tags, read.model
        estimator.n_features_in_, estimator.n_steps_ = read.model.support.n_features, 0
        return View(estimator, read.known, bool(read.known.any()), read.model), read.data
    features, _ = estimator._read(X, None, reset=True)
    if y is None:
        y = np.full(features.n_choices, UNLABELLED)
    targets = read_targets(y, estimator.classes, features.n_choices)
    merged = merge_proportional(estimator, features)
    model = make_model(estimator, merged.features.n_features, targets.classes)
    complete = bool((targets.allowed[targets.known] > 0).any(axis=0).all())
    estimator.classes_ = targets.classes
    named = row_columns((columns,), features.n_choices, "Views")
    member = LogLinearShard.whole(merged.features, None, targets.labels, named)
    return View(estimator, targets.known, complete, model, merged), member


def _under(tagger: CRFTagger, constraints: Any) -> CRFTagger:
    """The same tagger, which also reads what constraints need, such as words."""
    constrained = copy.copy(tagger)
    constrained.constraints = constraints
    return constrained


def _split(settings: ViewsParameters, X: Any) -> dict[str, Any]:
    """The data of every view."""
    names, groups = [name for name, _ in settings.views], settings.feature_groups
    grouped = groups is not None and not isinstance(X, Mapping)
    of_views: Any = groups if grouped else X
    if not isinstance(of_views, Mapping) or set(of_views) != set(names):
        got = ", ".join(map(str, of_views)) if isinstance(of_views, Mapping) else quoted(of_views)
        raise InvalidInputError(
            f"{'feature_groups' if grouped else 'X'} must map every view, {', '.join(names)}, to what it sees, got "
            f"{got}; of one matrix, feature_groups says which columns a view sees"
        )
    return {name: _some_columns(X, of_views[name], name) if grouped else X[name] for name in names}


def _some_columns(X: Any, listed: Any, view: str) -> Any:
    """Columns of a matrix by number, or of a frame by name."""
    frame = as_frame(X, "X")
    known: list[Any] = frame.columns if frame is not None else list(range(X.shape[1]))
    wanted = np.asarray(listed).tolist()
    unknown = set(wanted) - set(known)
    if unknown:
        raise InvalidInputError(
            f"feature_groups[{view!r}] must list columns of X, got {sorted(unknown, key=repr)[0]!r}, and X has "
            f"{', '.join(map(repr, known[:5]))}, ...; give numbers of columns, or names of a frame"
        )
    return take_columns(X, wanted)


def _targets(settings: ViewsParameters, y: Any) -> dict[str, Any]:
    """The labels of every view, as far as they are known."""
    names = [name for name, _ in settings.views]
    if not isinstance(y, Mapping):
        return dict.fromkeys(names, y)
    unknown = [name for name in y if name not in names]
    if settings.agreement == "full" or unknown:
        raise InvalidInputError(
            "y must be the labels that all views share in full agreement, and otherwise may map views "
            f"({', '.join(names)}) to theirs, got {quoted(unknown[0]) if unknown else 'a mapping'}; correct it"
        )
    return dict(y)


def _join(
    settings: ViewsParameters,
    members: Mapping[str, LogLinearShard],
    columns: Any,
    owners: Mapping[str, ArrayLike] | None,
) -> Instances:
    """Members with their owners, of the same instances."""
    owned = {name: as_integers(numbers, f"owners[{name!r}]") for name, numbers in (owners or {}).items()}
    strange = [name for name in owned if name not in members or settings.agreement == "full"]
    if strange:
        raise InvalidInputError(
            f"owners must be of views ({', '.join(members)}) that do not agree fully, got {strange[0]!r}; leave it out"
        )
    sizes = {name: member.n_instances for name, member in members.items() if name not in owned}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{n} of {name!r}" for name, n in sizes.items())
        raise InvalidInputError(
            f"X must have the same rows or sentences in every view, got {listed}; leave out those that a view lacks, "
            "or say by owners what they are parts of"
        )
    taggers = [(name, member) for name, member in members.items() if member.lengths is not None]
    if isinstance(settings.agreement, str | Mapping) and len(taggers) == len(members) and not owned:
        (first, one), *others = taggers
        for name, member in others:
            if not np.array_equal(member.sizes, one.sizes):
                bad = int(np.argmax(member.sizes != one.sizes))
                raise InvalidInputError(
                    f"X must have the same tokens in every view, got {member.sizes[bad]} of {name!r} and "
                    f"{one.sizes[bad]} of {first!r} in sentence {bad}; give the same sentences"
                )
    largest = max((int(numbers.max(initial=-1)) for numbers in owned.values()), default=-1)
    n = next(iter(sizes.values()), largest + 1)
    named = {} if settings.agreement == "full" else row_columns((columns,), n, "Views")
    return Instances({name: replace(one, owners=owned.get(name)) for name, one in members.items()}, n, named)


def _check_constraints(settings: ViewsParameters, views: Mapping[str, View], instances: Instances) -> None:
    """Hold constraints, and views that agree fully, against the labels there are."""
    names = {name: labels_of(view.estimator) for name, view in views.items()}
    if settings.agreement != "full":
        listed = [settings.constraints, [] if isinstance(settings.agreement, Mapping) else settings.agreement]
        for name, view in views.items():
            check_values(listed, label_column(name, chain=view.model.chain), names[name])
        check_values(listed, "view", list(views))
        check_columns(listed, instances.columns)
        return
    first, *others = names
    for name in others:
        if names[name] != names[first]:
            raise InvalidInputError(
                f"views must have the same labels in full agreement, got {names[first]!r:.100} of {first!r} and "
                f"{names[name]!r:.100} of {name!r}; give them the same classes or tags, or map labels to groups by "
                "agreement"
            )
    for label in ("tag", "label", "previous"):
        check_values(settings.constraints, label, names[first])
    check_columns(settings.constraints, instances.members[first].columns)
