"""scikit-learn's conventions for estimators that are used without scikit-learn, which takes half a second to load."""

from __future__ import annotations

import math
import sys
from functools import cache, partial
from inspect import Parameter, getattr_static, signature
from reprlib import Repr
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from spectrem._validate import as_array, as_sample_weight
from spectrem.estimators.declare import parameters_of
from spectrem.estimators.shared_parameters import AT_PREDICT, NOT_SAVED
from spectrem.exceptions import InvalidInputError, NotFittedError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from spectrem._arrays import Floats, Ints
    from spectrem.learning import FitStatus, Record
    from spectrem.reports import FitReport

T = TypeVar("T")
_SHOWN = Repr()
for _limit in ("maxlist", "maxtuple", "maxset", "maxfrozenset", "maxdict", "maxdeque"):
    setattr(_SHOWN, _limit, 30)
_SHOWN.maxstring = _SHOWN.maxother = 700
# Names that only scikit-learn provides: requests for metadata, and the diagrams of notebooks.
_OF_SKLEARN = ("_repr_", "get_metadata_", "set_")


class Estimator:
    """Parameters that are read, set, cloned and shown as those of `sklearn.base.BaseEstimator`.

    A subclass is a data class whose fields are the parameters, stored unchanged under their names. All else that
    `BaseEstimator` gives (requests for metadata, diagrams in notebooks) is looked up there when asked for.

    Examples
    --------
    >>> from spectrem import WordAligner
    >>> aligner = WordAligner(gamma=0.5)
    >>> aligner.set_params(max_iter=4)
    WordAligner(gamma=0.5, max_iter=4)
    >>> aligner.get_params()["gamma"]
    0.5
    """

    history_: list[Record]
    n_iter_: int
    objective_: float
    status_: FitStatus
    converged_: bool
    gamma_: float
    report_: FitReport

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(_parameters(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name.

        Parameters
        ----------
        deep : bool
            Also those of parameters that are estimators, as ``<parameter>__<parameter of it>``.
        """
        params = {}
        for name in self._get_param_names():
            value = params[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{inner}": of_it for inner, of_it in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``<parameter>__<parameter of it>`` is set on a parameter that is an estimator.

        Parameters
        ----------
        **params
            New values by the names of parameters.

        Returns
        -------
        Estimator
            Itself.

        Raises
        ------
        InvalidInputError
            If there is no such parameter.
        """
        for key, value in sorted(params.items(), key=lambda item: "__" in item[0]):  # parameters of parameters last
            name, inside, inner = key.partition("__")
            if name not in _parameters(type(self)):
                raise InvalidInputError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                    f"{self._get_param_names()!r}."
                )
            owner = getattr(self, name)
            if not inside:
                setattr(self, name, value)
            elif hasattr(owner, "set_params"):
                owner.set_params(**{inner: value})
            else:
                raise InvalidInputError(
                    f"{name} must be an estimator to have {inner!r} set, got {quoted(owner)}; give {name} one first"
                )
        return self

    def __repr__(self) -> str:
        cls = type(self)
        changed = {
            name: shown
            for name, parameter in _parameters(cls).items()
            if (shown := _SHOWN.repr(getattr(self, name))) != _SHOWN.repr(parameter.default)
        }
        return f"{cls.__name__}({', '.join(f'{name}={changed[name]}' for name in sorted(changed))})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        tags: Any = BaseEstimator.__sklearn_tags__
        return tags(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith(_OF_SKLEARN) or ("sklearn.base" in sys.modules and not name.startswith("__")):
                twin = _twin(type(self))
                attribute = getattr_static(twin, name, None)
                if isinstance(attribute, classmethod | staticmethod):
                    return getattr(twin, name)
                if attribute is not None:
                    value = attribute.__get__(self, type(self)) if hasattr(attribute, "__get__") else attribute
                    return partial(_with_report, self, value) if name.startswith("_repr_") else value
            return object.__getattribute__(self, name)  # raises the AttributeError


def _with_report(estimator: Estimator, diagram: Callable[..., Any], **kwargs: Any) -> Any:
    """scikit-learn's diagram of an estimator in a notebook, and below it the report of its training."""
    from spectrem.reports import add_report

    return add_report(diagram(**kwargs), vars(estimator).get("report_"))


def row_weights(sample_weight: ArrayLike | None, n_rows: int, unit: str) -> Floats:
    """The weights of all rows, shape (n_rows,), as they were given for each ``unit``, such as "row of X"; else 1."""
    weights = as_sample_weight(sample_weight, n_rows, unit)
    return np.ones(n_rows) if weights is None else weights


def number_groups(groups: Any, n_instances: int, rule: str) -> tuple[NDArray[Any], Ints]:
    """Distinct groups in increasing order, and the number of that of every instance, shape (n_instances,).

    Raises
    ------
    InvalidInputError
        If there is no value for every instance, which breaks the ``rule``, or values cannot be compared.
    """
    values = as_array(groups, "groups")
    if values.shape != (n_instances,):
        raise InvalidInputError(f"groups must {rule}, got shape {values.shape}; give every one a value")
    try:
        distinct, numbers = np.unique(values, return_inverse=True)
    except TypeError:
        raise InvalidInputError(
            f"groups must be numbers, texts or dates, all of one type, got {quoted(values.tolist())}; convert them"
        ) from None
    return distinct, numbers


class PerSentence(list[Any]):
    """A list with an entry per sentence, of which NumPy makes an array of one axis, whatever the entries are.

    So scikit-learn's ``cross_val_predict`` can put the predictions of folds together.
    """

    @classmethod
    def cut(cls, values: Any, lengths: Ints) -> Self:
        """Cut the rows of all sentences into those of each, as copies: to keep one does not keep all in memory."""
        ends = np.cumsum(lengths).tolist()
        return cls(values[end - size : end].copy() for size, end in zip(lengths.tolist(), ends, strict=True))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = np.empty(len(self), object)
        array[:] = self[:]
        return array


class FittedWith(NamedTuple):
    """The parameters that an estimator was fitted with, and what is made of its fitted attributes when first needed."""

    params: dict[str, Any]
    made: dict[str, Any]


def check_fitted(estimator: Any) -> None:
    """Raise `NotFittedError` before `fit`."""
    if "fitted_with_" not in vars(estimator):
        raise not_fitted(estimator)


def as_fitted(estimator: T) -> T:
    """A fitted estimator with the parameters of its training, but for those that predictions and runs read anew.

    Raises
    ------
    NotFittedError
        Before `fit`.
    """
    check_fitted(estimator)
    fitted = object.__new__(type(estimator))
    vars(fitted).update(vars(estimator) | vars(estimator)["fitted_with_"].params)
    return fitted


def check_words_to_learn(name: str, lengths: Ints, weights: Floats) -> None:
    """Raise `InvalidInputError` if no sentence with a weight above 0 has a word."""
    if not lengths[weights > 0].any():
        left_out = " among those of weight above 0" if lengths.any() else ""
        raise InvalidInputError(
            f"{name} must hold at least one word to train on, got {len(lengths)} sentences without any{left_out}"
        )


def take_course(estimator: Any, history: Sequence[Record], status: FitStatus) -> None:
    """Set the attributes that describe the course of training, from ``history_`` to ``converged_``.

    From now on the estimator counts as fitted, with the parameters that it has, see `as_fitted`.
    """
    names = [name for name in parameters_of(estimator) if name not in (*AT_PREDICT, *NOT_SAVED)]
    estimator.fitted_with_ = FittedWith({name: getattr(estimator, name) for name in names}, {})
    estimator.history_, estimator.n_iter_ = list(history), len(history)
    estimator.objective_ = history[-1].objective if history else -math.inf
    estimator.status_, estimator.converged_ = status, status.name == "CONVERGED"


def not_fitted(estimator: Any) -> NotFittedError:
    """The error of an estimator that is not fitted: where scikit-learn is loaded, its own of that name, too.

    Examples
    --------
    >>> from spectrem import WordAligner
    >>> not_fitted(WordAligner())
    NotFittedError('this WordAligner is not fitted yet; call fit, or load a saved one')
    """
    kind = _both_errors() if "sklearn.exceptions" in sys.modules else NotFittedError
    loaded = ", or load a saved one" if hasattr(type(estimator), "load") else ""
    return kind(f"this {type(estimator).__name__} is not fitted yet; call fit{loaded}")


@cache
def _both_errors() -> type[NotFittedError]:
    from sklearn.exceptions import NotFittedError as OfSklearn

    return type("NotFittedError", (NotFittedError, OfSklearn), {})


def _parameters(cls: type) -> dict[str, Parameter]:
    return {name: p for name, p in signature(cls).parameters.items() if p.kind != Parameter.VAR_KEYWORD}


@cache
def _twin(cls: type) -> type:
    """A class with the methods of ``cls`` that derives from scikit-learn's, to look up there what that one adds."""
    from sklearn.base import BaseEstimator

    return type(cls.__name__, (BaseEstimator,), {name: value for name, value in vars(cls).items() if callable(value)})
