"""Views: classifiers or taggers of several views of the same data, which agree on what is not labelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, row_weights, take_course
from spectrem.estimators.crf.crf_tagger import best_states
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.sentences import read_labels
from spectrem.estimators.shared_parameters import check_one_gamma, constraint_names
from spectrem.estimators.storage import Saved
from spectrem.estimators.table_input import score_rows
from spectrem.estimators.views import file
from spectrem.estimators.views.input import kinds_of, read_more, read_training
from spectrem.estimators.views.parameters import ViewsParameters
from spectrem.estimators.views.training import Together, infer, new_corpus, put_together, train
from spectrem.exceptions import InvalidInputError
from spectrem.models.loglinear import Member
from spectrem.reports import report_training


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

    _codec = file.CODEC

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
        check_one_gamma(self)
        read = read_training(self, X, y, columns, owners)
        n = read.n_instances
        found = train(self, read, row_weights(sample_weight, n, "instance"))
        take_course(self, found.history, found.status)
        self.gamma_ = found.history[-1].gamma
        for name, own in read.estimators.items():
            read.seen[name].fill(own, found.weights[name])
            take_course(own, found.history, found.status)
            own.gamma_ = self.gamma_
        self.views_ = read.estimators
        tables = found.tables
        self.label_distributions_ = next(iter(tables.values())) if self.agreement == "full" else tables
        before, self.bhattacharyya_ = found.distances
        settings = {"views": ", ".join(read.seen), "constraints": constraint_names(self.constraints)}
        note = (
            f"views apart by {before:.3g} nats per instance without all labels before they were trained together, by "
            f"{self.bhattacharyya_:.3g} at the end (Bhattacharyya distance)"
        )
        self.report_ = report_training(
            self, n, settings, found.constraints, summaries=found.summaries, unit="instances", notes=(note,)
        )
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
        read = read_more(fitted, X, columns, owners)
        tables = infer(fitted, *fitted._whole(), read)
        if fitted.agreement == "full":
            name = next(iter(self.views_))
            return _by_instance(tables[name], read.members[name])
        return {name: _by_instance(table, read.members[name]) for name, table in tables.items()}

    def predict(self, X: Any, *, columns: Any = None, owners: Mapping[str, ArrayLike] | None = None) -> Any:
        """The labels on which the views agree: arrays of classifiers, lists of lists of taggers; a mapping of views to
        these without full agreement.

        Taggers in full agreement decode as ``decode`` says; otherwise every token has its most probable tag.
        Parameters as of `predict_proba`.
        """
        fitted = self._as_fitted()
        kinds = kinds_of(fitted)
        if fitted.agreement != "full":
            found = self.predict_proba(X, columns=columns, owners=owners)
            return {name: _best(table, kinds[name].names(self.views_[name])) for name, table in found.items()}
        if not next(iter(kinds.values())).chain:
            return self.classes_[self.predict_proba(X, columns=columns).argmax(axis=1)]
        read = read_more(fitted, X, columns, owners)
        member = next(iter(read.members.values()))
        states = np.zeros(member.features.n_choices, np.int64)
        if len(states):
            states = np.concatenate(list(best_states(fitted, new_corpus(self, self.model_, read))))
        tags = np.array(self.tags_, object)[states].tolist()
        return PerSentence.cut(tags, member.sizes)

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
        lengths = np.array([len(own) for own in predicted], np.int64)
        return read_labels(y, lengths, self.tags_).score(predicted, sample_weight, self.tags_)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        if self.agreement == "full" and not any(kind.chain for kind in kinds_of(self).values()):
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
        if deep:
            for name, estimator in self.views:
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
        for key in list(params):
            name, _, inner = key.partition("__")
            if name in named:
                value = params.pop(key)
                if inner:
                    named[name].set_params(**{inner: value})
                else:
                    self.views = [(own, value if own == name else estimator) for own, estimator in self.views]
                    named = dict(self.views)
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
        return self._as_fitted()._whole()[0].model

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
        found = as_fitted(self)
        found.views_ = {name: as_fitted(own) for name, own in self.views_.items()}
        return found

    def _whole(self) -> tuple[Together, Floats]:
        """One model of all views, and its weights."""
        kinds = kinds_of(self)
        found = {name: kind.model(self.views_[name]) for name, kind in kinds.items()}
        names = {name: kind.names(self.views_[name]) for name, kind in kinds.items()}
        together = put_together(self, {name: model for name, (model, _) in found.items()}, names)
        return together, np.concatenate([theta for _, theta in found.values()])


def _by_instance(table: Floats, member: Member) -> Any:
    """A table of all rows as it is, one of all tokens as a list with one table per sentence."""
    return table if member.lengths is None else list(PerSentence.cut(table, member.lengths))


def _best(table: Any, names: Sequence[Any]) -> Any:
    """The most probable label of every row, or tags of every sentence."""
    if isinstance(table, np.ndarray):
        return np.array(names)[table.argmax(axis=1)]
    return [np.array(names, object)[own.argmax(axis=1)].tolist() for own in table]
