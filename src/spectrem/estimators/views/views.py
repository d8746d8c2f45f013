"""Views: classifiers or taggers of several views of the same data, which agree on what is not labelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from spectrem._arrays import Bools, Floats
from spectrem.constraints import E, part
from spectrem.constraints.text import flatten
from spectrem.corpus import Corpus
from spectrem.estimators import engine
from spectrem.estimators.classification.maxent_classifier import coefficients_of, fitted_model
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, row_weights, take_course
from spectrem.estimators.crf.crf_tagger import CRFTagger, best_states, with_pairs
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.labelled import fit_members
from spectrem.estimators.sentences import read_labels
from spectrem.estimators.storage import Codec, Saved, read_constraints, write_texts
from spectrem.estimators.table_input import score_rows
from spectrem.estimators.views import reading
from spectrem.estimators.views.parameters import ViewsParameters
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.learning import EStep, Step, Stopping, pose
from spectrem.models import loglinear

_MOST_VIEWS = 64
_CLASSES: dict[str, Any] = {kind.__name__: kind for kind in reading.USED}
# The group of the labels that some view has no counterpart of.
_REST = "the rest"


def _write(views: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    inside, arrays = list[dict[str, Any]](), dict[str, NDArray[Any]]()
    for number, (name, view) in enumerate(views.views_.items()):
        settings, members = view._codec.content(view)
        inside.append({"name": name, "kind": view._codec.kind, "settings": settings})
        arrays |= {f"{number}_{key}": array for key, array in members.items()}
    return {"views": inside, "agreement": _write_agreement(as_fitted(views).agreement)}, arrays


def _read(views: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
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
    reading.check_views(views)
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
    classes_ : ndarray, or tags_ : tuple
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
        views, data = reading.read_training(self, X, y, columns, owners)
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
        data = reading.read_more(fitted, X, columns, owners)
        model, theta, ties = fitted._whole()
        shards = _cut(model, data)
        constraints, gamma = (fitted.constraints, fitted.gamma_) if engine.projects(fitted) else ((), 1.0)
        corpus = engine.make_corpus(fitted, shards)
        tables: dict[str, Any] = _tables(
            shards, data, engine.projected(fitted, model, theta, corpus, [*ties, *constraints], gamma)
        )
        for name, member in data.members.items():
            if member.lengths is not None:
                tables[name] = list(PerSentence.cut(tables[name], member.lengths))
        return next(iter(tables.values())) if fitted.agreement == "full" else tables

    def predict(self, X: Any, *, columns: Any = None, owners: Mapping[str, ArrayLike] | None = None) -> Any:
        """The labels on which the views agree: arrays of classifiers, lists of lists of taggers; a mapping of views to
        these without full agreement.

        Taggers in full agreement decode as ``decode`` says; otherwise every token has its most probable tag.
        Parameters as of `predict_proba`.
        """
        fitted = self._as_fitted()
        first = next(iter(fitted.views_.values()))
        if fitted.agreement == "full" and isinstance(first, CRFTagger):
            data = reading.read_more(fitted, X, columns, owners)
            member = next(iter(data.members.values()))
            corpus = engine.make_corpus(fitted, _cut(fitted.model_, data))
            states = np.concatenate(list(best_states(fitted, corpus)))
            return PerSentence.cut(np.array(first.tags_, object)[states].tolist(), member.sizes)
        tables = self.predict_proba(X, columns=columns, owners=owners)
        if fitted.agreement == "full":
            return _best(tables, first)
        return {name: _best(table, fitted.views_[name]) for name, table in tables.items()}

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The share of rows, or of tokens, with a label in y whose label `predict` finds, from 0 to 1.

        Rows, or tokens, without a label are left out; a set counts as right where it holds the label that is found, a
        distribution by the probability that it gives it.

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
        predicted = self.predict(X)
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
        """
        params = super().get_params(deep)
        for name, estimator in self.views if deep else ():
            params[name] = estimator
            params |= {f"{name}__{inner}": value for inner, value in estimator.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, views by theirs, and parameters of views as ``<view>__<parameter>``.

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
        """The model of all views, an `AgreedModel` or a `JointModel`."""
        return self._as_fitted()._whole().model

    @property
    def theta_(self) -> Floats:
        """The weights of ``model_``, view after view."""
        return self._as_fitted()._whole().theta

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

    def _whole(self) -> _Whole:
        """One model of all fitted views."""
        fitted = {
            name: (view.model_, view.theta_) if isinstance(view, CRFTagger) else fitted_model(view)
            for name, view in self.views_.items()
        }
        model, ties = _together(self, {name: model for name, (model, _) in fitted.items()}, self.views_)
        return _Whole(model, np.concatenate([theta for _, theta in fitted.values()]), ties)


class _Whole(NamedTuple):
    """One model of several views, its weights, and the constraints that tie views which do not agree fully."""

    model: loglinear.AgreedModel | loglinear.JointModel
    theta: Floats
    ties: list[Any]


class _Posed(NamedTuple):
    """What there is to learn.

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


def _pose(settings: Any, views: Mapping[str, reading.View], data: reading.Instances, weights: Floats) -> _Posed:
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
    if not settings.constraints and not any(view.known.any() for view in views.values()):
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
    if learns and settings.constraints and not any(one.chain for one in models.values()):
        tied = known & in_all({name: ~mask for name, mask in soft.items()})
    weighed = weights * np.where(known, 1.0, settings.unlabelled_weight or 1.0)
    shards = _cut(
        model, data, known=known & ~tied, weights=weighed, given=tied, counts=weights, n_weights=model.n_weights
    )
    task = engine.Task(
        model,
        engine.make_corpus(settings, shards),
        model.initial,
        engine.estep_of(settings, [*ties, *settings.constraints]),
        labelled=lambda: first,
        learns=learns,
        unused=() if settings.project_at_predict else settings.constraints,
        stopping=Stopping(settings.max_iter, settings.tol, scale=float(weighed.sum())),
    )
    return _Posed(task, ties, shards, first.theta, float(weights[~known].sum()))


def _several(member: loglinear.LogLinearShard) -> Bools:
    """Instances of which some choice may have several labels, or has them in shares, shape (n_instances,)."""
    assert member.labels is not None
    instance = np.repeat(np.arange(member.n_instances), member.sizes)
    return np.bincount(instance, np.diff(member.labels.offsets) > 1, member.n_instances) > 0


def _together(
    settings: Any, models: Mapping[str, Any], views: Mapping[str, Any]
) -> tuple[loglinear.AgreedModel | loglinear.JointModel, list[Any]]:
    """One model of several views, as ``settings.agreement`` says, and the constraints that tie them."""
    if settings.agreement == "full":
        if any(isinstance(model, loglinear.PairModel) for model in models.values()):
            models = {
                name: model if isinstance(model, loglinear.PairModel) else loglinear.PairModel(model)
                for name, model in models.items()
            }
        return with_pairs(loglinear.AgreedModel(models), settings.constraints), []
    columns = {name: reading.label_column(name, chain=model.chain) for name, model in models.items()}
    ties = settings.agreement
    if isinstance(ties, Mapping):
        per = ["row", "token"] if all(model.chain for model in models.values()) else ["row"]
        labels = {name: reading.labels_of(view) for name, view in views.items()}
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


def _cut(model: Any, data: reading.Instances, **more: Any) -> list[loglinear.JointShard]:
    """Shards of all instances, for the model of all views; ``more`` says what `build_joint_shards` is to know."""
    n_labels = {name: member.n_labels for name, member in model.members.items()}
    return loglinear.build_joint_shards(data.members, n_labels, columns=data.columns, n_instances=data.n, **more)


def _tables(
    shards: Sequence[loglinear.JointShard], data: reading.Instances, tables: Iterable[Any]
) -> dict[str, Floats]:
    """Distributions of the labels of all choices of every view; in full agreement all have the same."""
    each = [table if isinstance(table, dict) else dict.fromkeys(data.members, table) for table in tables]
    return loglinear.member_tables(shards, data.members, each)


def _distance_per_instance(settings: Any, posed: _Posed, theta: Floats) -> float:
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


def _best(table: Any, view: Any) -> Any:
    """The most probable label of every row, or tags of every sentence."""
    if isinstance(table, np.ndarray):
        return view.classes_[table.argmax(axis=1)]
    tags = np.array(view.tags_, object)
    return [tags[sentence.argmax(axis=1)].tolist() for sentence in table]
