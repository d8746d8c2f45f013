"""The parameters of HMM and of its thin names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from spectrem.estimators.declare import choice, count, given, number, rule
from spectrem.estimators.shared_parameters import (
    MODEL,
    TRAINING,
    CorpusParameters,
    SentenceParameters,
    StartingParameters,
    check_column_names,
    labels_of,
)
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from spectrem.estimators.sentences import Tag
    from spectrem.models.durations import Durations
    from spectrem.models.emissions import Emission
    from spectrem.models.mixture import CovarianceType
    from spectrem.models.series import SeriesParameters

_name_of_column = rule(
    "be the name of a column of X", lambda name: name is None or isinstance(name, str), "; arrays go to fit"
)


_COLUMN: Any = {"convert": str, "option": "", "group": "Columns", "metavar": "COLUMN"}
_GROUP = "The column that says what sequence a row belongs to. By default all rows are one."
_TIME = "The column of numbers or dates by which rows are sorted. By default they stand in the order of time."


def _emissions_of(text: str) -> Any:
    """A family such as ``poisson``, or families by column, as in ``visits=poisson,room=categorical``."""
    if "=" not in text:
        return text
    pairs = [one.rpartition("=") for one in text.split(",")]
    return {column.strip(): family.strip() for column, _, family in pairs}


FAMILIES = ("histogram", "poisson", "negative-binomial", "geometric")
"""Names of families of durations."""


STARTS = ("auto", "clusters", "segments", "quantiles")
"""Names of ways to start."""


def _check_start(name: str, value: Any) -> None:
    if not hasattr(value, "emission") and (not isinstance(value, str) or value not in STARTS):
        raise InvalidInputError(
            f"{name} must be one of {', '.join(STARTS)}, or params_ of a fitted model, got {quoted(value)}"
        )


def _check_durations(name: str, value: Any) -> None:
    if value is not None and value not in FAMILIES and not hasattr(value, "log_probabilities"):
        raise InvalidInputError(
            f"{name} must be one of {', '.join(FAMILIES)} or a family of spectrem.durations, got {quoted(value)}"
        )


def _check_fixed(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, Mapping) and set(value) <= {"startprob", "transmat"}):
        raise InvalidInputError(
            f"{name} must be a mapping of 'startprob', 'transmat' or both to arrays, got {quoted(value)}; what "
            "emissions keep, their fixed says"
        )


def _check_amounts(name: str, value: Any) -> None:
    import numpy as np

    try:
        amounts = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        amounts = np.array(np.nan)
    if not ((amounts >= 1) & (amounts < np.inf)).all():
        raise InvalidInputError(
            f"{name} must be a parameter of a Dirichlet prior of at least 1, or an array of them, got {quoted(value)}; "
            "1 is no prior, and each more counts as an event"
        )


@dataclass(eq=False, repr=False)
class StatesParameters(SentenceParameters, CorpusParameters, StartingParameters):
    """The parameters of `spectrem.HMM` and of `spectrem.GaussianHMM` and its like.

    Parameters
    ----------
    n_components : int, optional
        Number of states. By default as many as ``states`` or labels name, else 2.
    states : sequence of str or int, optional
        Names of the states. By default the labels in ``y``, sorted, then whole numbers from 0.
    startprob_prior, transmat_prior : float or array-like
        Parameters of the Dirichlet priors of first states and of the rows of transitions, at least 1, as of hmmlearn:
        1 is no prior, and each more counts as an event that was seen. A larger diagonal makes states sticky.
    fixed : mapping of {"startprob", "transmat"} -> array, optional
        Probabilities that training keeps, NaN where they are free. Zeros make transitions impossible: an upper
        triangle, with zeros below, lets states be passed from left to right only.
    durations : {"histogram", "poisson", "negative-binomial", "geometric"} or Durations, optional
        How long states last, by families of `spectrem.durations`, in place of what transitions to themselves
        make of it; transitions then lead to other states.
    longest : int
        The most rows that a state lasts, where there are durations.
    censored : {"right", "left", "both", "none"}
        Which ends of sequences may cut off a state that lasted longer.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        In the language of `spectrem.E` over the columns state, previous (the state before), change (whether they
        differ), sequence, time (position in the sequence, from 0) and ``columns``; of a frame, also its columns by
        name, ``group`` and ``time`` among them, and with a ``time`` of dates hour, weekday (0 is Monday) and date, as
        text, which come before a ``time`` of such a name. Sequences whose states are all known are left alone by
        constraints inside sequences.
    columns : sequence of names, or mapping of name -> name or position in X, optional
        Columns of X that only constraints read.
    group : str, optional
        The column of a frame X that says what sequence a row belongs to; by default all rows are one.
    time : str, optional
        The column of a frame X with numbers or dates by which rows are sorted; by default they stand in the order of
        time.
    init : {"auto", "clusters", "segments", "quantiles"} or SeriesParameters
        Where training starts: with rows that k-means puts together, with pieces of the series cut at random, or with
        rows that have the same rank by the sum of their standardised columns. "auto" takes these in turn, then more
        pieces; where there are few rows, the ``n_init`` best of up to 100 short runs. Labelled rows start with their
        labels. Given parameters, ``params_`` of another model or those of ``from_parameters``, are the only start.
    n_init : int
        Starts, of which the one with the largest objective at the end is kept.
    max_iter : int
        Iterations of EM at most, for every gamma.
    tol : float
        Relative gain of the objective below which EM stops at a gamma; 0 runs all iterations.
    """

    n_components: int | None = count(None, short="-k", group=MODEL)
    _: KW_ONLY
    states: Sequence[Tag] | None = given(None, convert=labels_of, option="", group=MODEL, metavar="A,B,C")
    startprob_prior: ArrayLike = given(1.0, _check_amounts)
    transmat_prior: ArrayLike = given(1.0, _check_amounts)
    fixed: Mapping[str, ArrayLike] | None = given(None, _check_fixed)
    durations: str | Durations | None = given(
        None, _check_durations, convert=str, option="", group=MODEL, metavar="FAMILY"
    )
    longest: int = count(100, group=MODEL)
    censored: Literal["right", "left", "both", "none"] = choice("right", "right", "left", "both", "none", group=MODEL)
    columns: Any = given((), check_column_names)
    group: str | None = given(None, _name_of_column, help=_GROUP, **_COLUMN)
    time: str | None = given(None, _name_of_column, help=_TIME, **_COLUMN)
    init: str | SeriesParameters = given(
        "auto", _check_start, convert=str, choices=STARTS, option="", group=TRAINING, metavar="NAME"
    )
    n_init: int = count(4, group=TRAINING)
    dual_steps: int = count(0, 0, group=TRAINING)
    max_iter: int = count(1000, group=TRAINING)
    tol: float = number(1e-8, group=TRAINING, metavar="GAIN")


@dataclass(eq=False, repr=False)
class HMMParameters(StatesParameters):
    """The parameters of `spectrem.HMM`.

    Parameters
    ----------
    emissions : str, Emission, or mapping of column or columns -> str or Emission
        What states emit: "gaussian", "poisson", "categorical" and the like, or values of `spectrem.emissions`
        with settings and priors; for columns of several kinds, a mapping of their names, or positions in an array.
    """

    emissions: str | Emission | Mapping[Any, str | Emission] = given(
        "gaussian",
        convert=_emissions_of,
        option="",
        several=True,
        group=MODEL,
        metavar="[COLUMN=]FAMILY",
        help="What states emit: gaussian, or the name of another family; COLUMN=FAMILY, once for each such column, for "
        "some columns, beside which the others are Gaussian.",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianParameters:
    """The parameters of the priors of Gaussians.

    Parameters
    ----------
    covariance_type : {"diag", "full", "tied", "spherical"}
        "full": any ellipse for each state; "tied": the same for all; "diag": along the axes; "spherical": a ball.
    means_prior, means_weight : float or array-like, and float
        The mean of the prior of means, and how many rows it counts.
    covars_prior : float or array-like, optional
        Added to sums of squares, in squared units of the data; by default what a hundredth of a row with the variance
        of each column adds.
    covars_weight : float
        Degrees of freedom of the prior of covariances, see `spectrem.emissions.Gaussian`.
    """

    covariance_type: CovarianceType = choice("diag", "diag", "full", "tied", "spherical", group=MODEL)
    means_prior: ArrayLike = given(0.0)
    means_weight: float = number(0.0, group=MODEL)
    covars_prior: ArrayLike | None = given(None)
    covars_weight: float = number(1.0, group=MODEL)


@dataclass(eq=False, repr=False)
class GaussianHMMParameters(GaussianParameters, StatesParameters):
    """The parameters of `spectrem.GaussianHMM`.

    Parameters
    ----------
    tied : sequence of sequences of int
        Groups of states, by number, that share one covariance.
    """

    tied: Sequence[Sequence[int]] = given(())


@dataclass(eq=False, repr=False)
class GaussianMixtureHMMParameters(GaussianParameters, StatesParameters):
    """The parameters of `spectrem.GaussianMixtureHMM`.

    Parameters
    ----------
    n_mix : int
        Gaussians of every state.
    weights_prior : float or array-like
        Parameters of the Dirichlet prior of their shares, at least 1.
    """

    n_mix: int = count(2, group=MODEL)
    weights_prior: ArrayLike = given(1.0, _check_amounts)


@dataclass(eq=False, repr=False)
class PoissonHMMParameters(StatesParameters):
    """The parameters of `spectrem.PoissonHMM`.

    Parameters
    ----------
    lambdas_prior, lambdas_weight : array-like, optional, and array-like
        Events and rows that the prior of rates counts, at least 0; by default a thousandth of a row at the mean of each
        column.
    """

    lambdas_prior: ArrayLike | None = given(None)
    lambdas_weight: ArrayLike = given(0.001)


@dataclass(eq=False, repr=False)
class CategoricalHMMParameters(StatesParameters):
    """The parameters of `spectrem.CategoricalHMM`.

    Parameters
    ----------
    emissionprob_prior : float or array-like
        Parameters of the Dirichlet prior of probabilities, at least 1: 1 is no prior.
    n_features : int, or sequence of int, optional
        How many values there are, from 0; of every column, where there are several. By default those of training.
    """

    emissionprob_prior: ArrayLike = given(1.0, _check_amounts)
    n_features: int | Sequence[int] | None = given(None)


@dataclass(eq=False, repr=False)
class MultinomialHMMParameters(StatesParameters):
    """The parameters of `spectrem.MultinomialHMM`.

    Parameters
    ----------
    emissionprob_prior : float or array-like
        Parameters of the Dirichlet prior of shares, at least 1: 1 is no prior.
    n_trials : int, optional
        What the counts of every row sum to; by default anything.
    """

    emissionprob_prior: ArrayLike = given(1.0, _check_amounts)
    n_trials: int | None = count(None, group=MODEL)
