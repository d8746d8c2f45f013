"""Parameters that estimators have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spectrem.estimators.declare import check_number, check_size, choice, count, given, number, seed, switch
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import numpy as np

    from spectrem.constraints.text import Constraints
    from spectrem.corpus import Corpus
    from spectrem.inference.result import Infeasible
    from spectrem.learning import Expectations, Posteriors, Record, Schedule
    from spectrem.models.priors import Prior

MODEL, TRAINING, CONSTRAINTS, COMPUTING = "Model", "Training", "Constraints", "Computing"
"""Headings of ``--help``."""

CROSSING = ("lift", "skip", "raise")
"""What may be done about heads that only trees with crossing arcs have; see `sentences.Crossing`."""

NOT_SAVED = ("corpus", "checkpoint", "on_iteration", "verbose")
"""Parameters that belong to a run on a machine, and not to the model that it leaves behind."""

AT_PREDICT = (
    "constraints",
    "infeasible",
    "project_at_predict",
    "decode",
    "n_threads",
    # of aligners, and of extractors
    *("alpha", "dual_steps", "max_fertility", "rare_discount", "step_size"),
    "relation_bonus",
)
"""Parameters whose present values predictions of a fitted estimator read; of all others they read those of training."""


def check_gamma(name: str, value: Any) -> None:
    """A temperature: a number of at least 0, or minus infinity."""
    from spectrem.learning.schedule import check_gamma

    check_gamma(value, name)
    check_size(name, float(value))


def check_schedule(name: str, value: Any) -> None:
    """A schedule that yields at least one gamma, or None."""
    from spectrem.learning.schedule import check_gamma

    if value is None:
        return
    if not hasattr(value, "gammas"):
        raise InvalidInputError(
            f"{name} must yield gammas, such as Anneal(beta_min=0.1), got {quoted(value)}; for one, give gamma"
        )
    gammas = list(value.gammas())
    if not gammas:
        raise InvalidInputError(f"{name} must yield at least one gamma, got none")
    for gamma in gammas:
        check_gamma(gamma)


def check_constraints(name: str, value: Any) -> None:
    """One constraint, a text, or a mapping of names or a sequence, which can be gone through again, of all of these."""
    from spectrem.constraints.constraint import Constraint, LinearConstraint, MaxOver
    from spectrem.constraints.text import flatten

    if isinstance(value, Iterable) and not isinstance(value, Sequence | Mapping):
        raise InvalidInputError(f"{name} must be a sequence of constraints, got {quoted(value)}; put them in a list")
    for constraint in flatten(value):
        if not hasattr(constraint, "rows") and not isinstance(constraint, Constraint | LinearConstraint | MaxOver):
            raise InvalidInputError(
                f"{name} must be made with E or shortcuts, got {quoted(constraint)}; see spectrem.constraints"
            )


def as_sequence(constraints: Any) -> Sequence[Any]:
    """The constraints of an estimator as a sequence, empty if there are none: one that stands alone is its only member.

    Examples
    --------
    >>> as_sequence("agreement"), as_sequence({"few": "fertility(1)"}), as_sequence({})
    (['agreement'], [{'few': 'fertility(1)'}], [])
    """
    if isinstance(constraints, Mapping):
        return [{name: held} for name, held in constraints.items()]
    return constraints if isinstance(constraints, Sequence) and not isinstance(constraints, str) else [constraints]


def constraint_names(constraints: Any) -> str:
    """The names of the constraints of an estimator, as reports give them.

    Examples
    --------
    >>> constraint_names(["agreement", {"few": "E[label == 1] <= 3"}]), constraint_names([])
    ('agreement, few', 'none')
    """
    from spectrem.constraints.text import flatten

    return ", ".join(getattr(one, "name", type(one).__name__) for one in flatten(constraints)) or "none"


def labels_of(text: str) -> list[Any]:
    """Labels between commas, as numbers if all are whole ones: the value of an option."""
    from spectrem.data.table_file import as_label_names

    return as_label_names([name.strip() for name in text.split(",")])


def check_column_names(name: str, value: Any) -> None:
    """Names of columns of X, or a mapping to them."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidInputError(
            f"{name} must list or map names of columns of X, got {quoted(value)}; arrays go to fit(columns=...)"
        )


def check_one_gamma(estimator: Any) -> None:
    """Refuse a gamma beside a schedule, of an estimator whose parameters are checked one by one."""
    if estimator.schedule is not None and estimator.gamma != 1.0:
        raise InvalidInputError(
            f"gamma and schedule must not both be given, got gamma {estimator.gamma}; put it into the schedule, as in "
            "Anneal(beta_min, 1 / gamma)"
        )


def _check_criterion(name: str, value: Any) -> None:
    """A criterion, or None."""
    from spectrem.learning import Expectations, Posteriors

    if value is not None and not isinstance(value, Expectations | Posteriors):
        raise InvalidInputError(
            f"{name} must be None, Expectations(...) or Posteriors(...) of spectrem.learning, got {quoted(value)}"
        )


def check_criterion_alone(estimator: Any) -> None:
    """Refuse a criterion beside parameters of EM, of an estimator whose parameters are checked one by one."""
    if estimator.criterion is None:
        return
    for name, default in (("gamma", 1.0), ("schedule", None)):
        value = getattr(estimator, name)
        if value != default:
            raise InvalidInputError(
                f"criterion must be None where {name} is {quoted(value)}, which EM reads; leave one of them out"
            )


@dataclass(eq=False, repr=False, kw_only=True)
class LearningParameters:
    """The parameters of every estimator that learns by EM, but ``constraints``.

    Parameters
    ----------
    gamma : float
        How soft posteriors are, 0 or greater, or -inf: 1 is EM, between 0 and 1 unified EM, 0 hard (Viterbi) EM, where
        constraints ask for linear programs, -inf the same by integer programs, above 1 smoother posteriors.
    schedule : Schedule, optional
        Several gammas in turn, as `spectrem.learning.Anneal` or `Quench`, in place of ``gamma``; or `Stepwise`, for
        large corpora.
    infeasible : {"raise", "skip"}
        What to do about a sentence or row that cannot meet the constraints inside it: raise an error, or leave these
        constraints out there. To relax a constraint instead, give it slack.
    max_iter : int
        Iterations of EM at most, for every gamma.
    tol : float
        Relative gain of the objective below which EM stops at a gamma; 0 runs all iterations.
    on_iteration : callable, optional
        Called with the `spectrem.learning.Record` of every iteration, or, of log-linear models that labels alone are
        learned from, of every step.
    verbose : bool
        Whether `fit` shows a progress bar where standard error is a terminal, and in notebooks, where that takes
        ipywidgets.
    """

    gamma: float = given(1.0, check_gamma, convert=float, option="", group=TRAINING, metavar="GAMMA")
    schedule: Schedule | None = given(None, check_schedule, beside=check_one_gamma)
    infeasible: Infeasible = choice("raise", "raise", "skip", group=CONSTRAINTS)
    max_iter: int = count(100, group=TRAINING)
    tol: float = number(1e-6, group=TRAINING, metavar="GAIN")
    on_iteration: Callable[[Record], None] | None = given(None)
    verbose: bool = switch(False, option=None)


@dataclass(eq=False, repr=False, kw_only=True)
class StartingParameters:
    """The parameters of every estimator that may start learning at random.

    Parameters
    ----------
    n_init : int
        Starts, of which the one with the largest objective at the end is kept.
    random_state : int, RandomState, Generator or None
        The same number gives the same result.
    """

    n_init: int = count(1, group=TRAINING)
    random_state: int | np.random.RandomState | np.random.Generator | None = seed(group=TRAINING, metavar="N")


@dataclass(eq=False, repr=False, kw_only=True)
class ComputingParameters:
    """The parameters of every estimator whose corpus can be kept in several places.

    Parameters
    ----------
    n_threads : int, optional
        By default one per processor. Results do not depend on it.
    corpus : callable, optional
        From an iterable of shards to the `spectrem.corpus.Corpus` that keeps them, such as
        ``partial(Spilled, folder="/scratch")``, or ``OnDask`` for the cluster that was connected to last. By default
        they stay in memory. Results do not depend on it; saved models do not hold it.
    checkpoint : path, optional
        A folder that holds the state after every iteration (of log-linear models whose weights climb by gradient,
        after every tenth step): the same `fit` again, also in another process, goes on from it, with the same bits as
        one that was not interrupted. Random starts need a ``random_state`` for that.
    """

    n_threads: int | None = count(None, group=COMPUTING)
    corpus: Callable[[Iterable[Any]], Corpus] | None = given(None)
    checkpoint: str | os.PathLike[str] | None = given(
        None,
        convert=str,
        option="",
        group=COMPUTING,
        metavar="DIR",
        help="Keep the state of training in this folder after every iteration: if it is interrupted, the same command "
        "goes on from there, to the same result.",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class CorpusParameters(LearningParameters, ComputingParameters):
    """The parameters of every estimator that learns by EM from a corpus, wherever that is kept.

    Parameters
    ----------
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        In the language of `spectrem.E`.
    """

    constraints: Constraints = given((), check_constraints)


@dataclass(eq=False, repr=False, kw_only=True)
class CriterionParameters(CorpusParameters):
    """The parameters of estimators of log-linear models, whose weights can climb without EM.

    Parameters
    ----------
    criterion : spectrem.learning.Posteriors or Expectations, optional
        What the weights climb by gradient in place of EM. ``Posteriors()``: the objective of EM, of classifiers in less
        time. ``Expectations(strength)``: constraints are on what the model itself expects, which pays for breaking
        them, as in generalised expectation criteria and label regularisation. ``max_iter`` and ``tol`` are not read
        then, but ``m_steps`` and ``m_tol``, and gamma is that of the criterion. By default, weights climb the
        log-likelihood of the labels that are known, in full or in part, where ``gamma`` is 1 and there are neither
        constraints nor a ``schedule``; all else is learned by EM. ``schedule=Constant(1.0)`` asks for EM there, too,
        which needs many more passes for the same objective.
    """

    criterion: Expectations | Posteriors | None = given(None, _check_criterion, beside=check_criterion_alone)


Decode: TypeAlias = Literal["viterbi", "posterior"]


def decoding(default: Decode, **shown: Any) -> Any:
    """Declare which structure is predicted."""
    return choice(default, "viterbi", "posterior", group=MODEL, metavar="WAY", **shown)


@dataclass(eq=False, repr=False, kw_only=True)
class SentenceParameters:
    """The parameters of every estimator that predicts structures of sentences and may learn under constraints.

    Parameters
    ----------
    decode : {"viterbi", "posterior"}
        Which structures are predicted. "viterbi": the most probable one of a sentence as a whole, such as its sequence
        of tags or its tree; "posterior": the one whose parts (tags, heads, brackets) have the largest sum of
        probabilities, so that most of them are expected to be right. The default is "posterior" where parts are judged
        one by one, for tags of a hidden Markov model and heads of a parser, and "viterbi" where they are right only
        together, such as tags that mark chunks and types of the arguments of relations, and for grammars and brackets,
        as is usual.
    project_at_predict : bool
        Whether new sentences meet the constraints, too. Constraints over the corpus then span these sentences. Where
        ``decode`` is "viterbi", integer programs find the best structures that meet them, for constraints inside
        sentences only; parsers with features then take the trees of "posterior".
    dual_steps : int
        Steps per iteration on the multipliers of constraints over the corpus, from those of the iteration before; 0
        solves them every time, which takes long for `sparsity`.
    """

    decode: Decode = decoding("viterbi")
    project_at_predict: bool = switch(False, group=MODEL)
    dual_steps: int = count(8, 0, group=TRAINING)


@dataclass(eq=False, repr=False, kw_only=True)
class TreeParameters:
    """The parameters of estimators that find trees of dependencies.

    Parameters
    ----------
    single_root : bool
        Whether exactly one word of a sentence hangs on the root, or one or more.
    crossing : {"lift", "skip", "raise"}
        What to do, where trees have no crossing arcs, about sentences to learn from whose known heads fit no such tree.
        "lift": words get the heads of their heads until one fits, unknown ones where these have none, which changes
        some heads in a thousand. "skip": leave the sentence out. "raise": an error. A grammar takes whole trees as they
        are.
    """

    single_root: bool = switch(True, group=MODEL)
    crossing: Literal["lift", "skip", "raise"] = choice("lift", *CROSSING, group=TRAINING)


@dataclass(eq=False, repr=False, kw_only=True)
class VocabularyParameters:
    """The parameter of estimators that leave rare words aside.

    Parameters
    ----------
    min_count : int
        Words, or features, that occur less often in training are taken for unseen ones.
    """

    min_count: int = count(1, group=MODEL)


@dataclass(eq=False, repr=False, kw_only=True)
class WeightParameters:
    """The parameters of estimators that learn weights of features.

    Parameters
    ----------
    C : float
        Variance of the Gaussian prior of weights, above 0, as in scikit-learn: the objective is the log-likelihood less
        half their squares over C.
    unlabelled_weight : float
        How much a sentence or row counts whose labels, or heads, are missing or partial, beside those with all of them.
        At 0 they are left out.
    m_steps : int, optional
        Steps of L-BFGS at most, in an iteration of EM or where weights climb a criterion or the log-likelihood; by
        default as many as ``m_tol`` needs, 1000 at most. What is labelled throughout is first trained on by itself, to
        ``m_tol``.
    m_tol : float
        How far below its maximum, relative to its size, the objective of an M-step may end, or that which weights
        climb.
    """

    C: float = number(1.0, open=True, group=MODEL)
    unlabelled_weight: float = number(1.0, group=TRAINING)
    m_steps: int | None = count(None, group=TRAINING)
    m_tol: float = number(1e-4, group=TRAINING)


# ---- pseudo-counts and priors of the tables of a generative model, one for all tables or by their names -------------


def smoothing_of(tables: Sequence[str], **shown: Any) -> Any:
    """Declare the pseudo-counts of all tables, or by their names."""
    return given(0.0, partial(check_amounts, tables), convert=float, option="", least=0.0, metavar="COUNT", **shown)


def prior_of(tables: Sequence[str]) -> Any:
    """Declare the prior of all tables, or by their names, of those without ``smoothing``."""
    return given(None, partial(_check_priors, tables), beside=partial(_check_not_both, tables))


def table_smoothing(tables: Sequence[str], smoothing: float | Mapping[str, float]) -> dict[str, float]:
    """Pseudo-counts by table; 0 for those that a mapping leaves out."""
    if isinstance(smoothing, Mapping):
        return {name: float(smoothing.get(name, 0.0)) for name in tables}
    return dict.fromkeys(tables, float(smoothing))


def table_priors(
    tables: Sequence[str], prior: Prior | Mapping[str, Prior] | None, smoothing: float | Mapping[str, float]
) -> list[Prior]:
    """Priors in the order of the tables: those given, and add-lambda smoothing for the others."""
    from spectrem.models.priors import DirichletPrior

    priors = prior if isinstance(prior, Mapping) else {} if prior is None else dict.fromkeys(tables, prior)
    return [priors.get(name, DirichletPrior(count)) for name, count in table_smoothing(tables, smoothing).items()]


def check_amounts(tables: Sequence[str], name: str, value: Any) -> None:
    """Raise `InvalidInputError` unless ``value`` is a number of at least 0, or one per table."""
    for table, amount in _by_table(tables, name, value):
        check_number(f"{name}[{table!r}]" if table else name, amount)


def _check_priors(tables: Sequence[str], name: str, value: Any) -> None:
    """Raise `InvalidInputError` unless ``value`` is a prior, or one per table."""
    for _, prior in _by_table(tables, name, value):
        if not hasattr(prior, "normalise"):
            raise InvalidInputError(
                f"{name} must be DirichletPrior or MeanFieldPrior, or map tables to them, got {prior!r}; for a "
                "pseudo-count use smoothing"
            )


def _check_not_both(tables: Sequence[str], estimator: Any) -> None:
    """Raise `InvalidInputError` if a table has a prior and pseudo-counts, too."""
    prior, counts = estimator.prior, table_smoothing(tables, estimator.smoothing)
    with_prior = prior if isinstance(prior, Mapping) else () if prior is None else tables
    both = [name for name in with_prior if counts[name] > 0]
    if both:
        raise InvalidInputError(
            f"prior and smoothing must not be given for one table, got both for {both[0]}; smoothing is the prior "
            "DirichletPrior(smoothing)"
        )


def _by_table(tables: Sequence[str], name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        return [("", value)]
    unknown = [table for table in value if table not in tables]
    if unknown:
        raise InvalidInputError(f"{name} must name tables among {', '.join(tables)}, got {unknown[0]!r}")
    return value.items()
