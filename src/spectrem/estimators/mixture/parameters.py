"""The parameters of GaussianMixture."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spectrem.estimators.declare import choice, count, given, number, rule, switch
from spectrem.estimators.shared_parameters import (
    TRAINING,
    ComputingParameters,
    LearningParameters,
    StartingParameters,
    check_constraints,
)
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from spectrem.constraints.text import Constraints
    from spectrem.models.mixture import CovarianceType

BoundsLike: TypeAlias = "tuple[ArrayLike | None, ArrayLike | None] | None"

BLOCKS = ("weights", "means", "covariances")
"""The blocks of the parameters of a mixture."""

_MODEL, _CONSTRAINTS = "Model", "Constraints"


def _check_fixed(name: str, value: Any) -> None:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise InvalidInputError(f"{name} must be a sequence of names, got {quoted(value)}; write {name}=['means']")
    for block in value:
        if block not in BLOCKS:
            raise InvalidInputError(f"{name} must name some of {', '.join(BLOCKS)}; got {quoted(block)}")


@dataclass(eq=False, repr=False)
class GaussianMixtureParameters(LearningParameters, StartingParameters, ComputingParameters):
    """The parameters of `spectrem.GaussianMixture`.

    Parameters
    ----------
    n_components : int
        How many components the mixture has.
    covariance_type : {"full", "tied", "diag", "spherical"}
        The shape of the components: "full" is any ellipse, "tied" the same ellipse for all, "diag" an ellipse along
        the axes, "spherical" a ball.
    reg_covar : float
        Added to variances, in squared units of the data.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        `cluster_size`, `label_proportions`, `must_link`, `cannot_link` and `at_least_one_per` of
        `spectrem.constraints`, or in the language of `spectrem.E` over the columns label (the component), row (number
        of the row in X) and those given as ``columns`` to `fit`. Constraints ``.per("row", ...)`` hold inside each
        row; rows of weight w count w times in all others but links.
    assign : {"probable", "feasible"}
        How the training rows are labelled under constraints: "probable" takes the most probable component of every
        row, so that the constraints hold in expectation; "feasible" the labels of largest total log-density for which
        they hold exactly.
    partial_labels : bool
        Whether ``y`` holds known components. By default it is ignored, as in scikit-learn, so that a mixture may stand
        in a pipeline that has targets.
    schedule : Schedule, optional
        Several gammas in turn, as `spectrem.learning.Anneal` or `Quench`, in place of ``gamma``. Annealing from high
        temperatures needs ``fixed=["covariances"]``: covariances that are learned there are alike, and components
        merge for good.
    max_iter : int
        Iterations of EM at most, for every gamma. 0 keeps the start.
    tol : float
        Change of the objective per row, in nats, below which EM stops at a gamma; 0 runs all iterations.
    init_params : {"kmeans", "k-means++", "random", "random_from_data"}
        How training starts, with the means of columns in place of missing values. Under must-links, "kmeans" is the
        best of ten runs on the means of rows that are tied together.
    weights_init, means_init, precisions_init : array-like, optional
        Where to start, in place of what ``init_params`` finds.
    fixed : sequence of {"weights", "means", "covariances"}
        The parameters that stay where they start.
    weights_bounds, means_bounds : pair (low, high), optional
        Bounds of proportions and means: numbers or arrays that broadcast to shape (n_components,) and (n_components,
        n_features); None, -inf and inf for no bound; equal ends fix an entry. A start outside is moved to the nearest
        point within.
    variances_bounds : pair (low, high), optional
        Bounds of variances, in squared units of the data: numbers or arrays that broadcast to shape (n_components,) for
        "full" and "spherical", (n_components, n_features) for "diag"; numbers for "tied". They bound every eigenvalue
        of full and tied covariances. A low end of 0 or less sets no bound.
    warm_start : bool
        Go on from the last `fit`.
    verbose, verbose_interval : int
        Print every ``verbose_interval`` iterations, with times above 1.
    """

    n_components: int = count(1, short="-k", group=_MODEL)
    _: KW_ONLY
    covariance_type: CovarianceType = choice("full", "full", "tied", "diag", "spherical", group=_MODEL)
    reg_covar: float = number(1e-6, group=_MODEL)
    constraints: Constraints = given((), check_constraints)
    assign: Literal["probable", "feasible"] = choice("probable", "probable", "feasible", group=_CONSTRAINTS)
    partial_labels: bool = switch(False, option=None)
    max_iter: int = count(100, 0, group=TRAINING)
    tol: float = number(1e-3, group=TRAINING, metavar="GAIN")
    init_params: Literal["kmeans", "k-means++", "random", "random_from_data"] = choice(
        "kmeans", "kmeans", "k-means++", "random", "random_from_data", group=TRAINING
    )
    weights_init: ArrayLike | None = given(None)
    means_init: ArrayLike | None = given(None)
    precisions_init: ArrayLike | None = given(None)
    fixed: Sequence[Literal["weights", "means", "covariances"]] = given((), _check_fixed)
    weights_bounds: BoundsLike = given(None)
    means_bounds: BoundsLike = given(None)
    variances_bounds: BoundsLike = given(None)
    warm_start: bool = switch(False, option=None)
    verbose: int = given(  # type: ignore[assignment]  # as of scikit-learn's
        0, rule("be an integer of at least 0", lambda value: isinstance(value, Integral) and int(value) >= 0)
    )
    verbose_interval: int = count(10, option=None)
