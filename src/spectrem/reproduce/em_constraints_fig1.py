"""[Graca2007] figure 1: nine points in three columns, by EM and by EM with every cluster in each column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from spectrem.constraints import at_least_one_per
from spectrem.estimators import GaussianMixture
from spectrem.plotting.clusters import plot_clusters
from spectrem.plotting.curves import make_figure
from spectrem.reproduce.report import Claim, Report, Table, percent

POINTS = np.array([
    [0.0, 0.1], [0.1, 1.0], [-0.1, 2.1],
    [2.1, 0.0], [1.9, 1.1], [2.0, 1.9],
    [4.0, -0.1], [3.9, 0.9], [4.1, 2.0],
])  # fmt: skip
COLUMN, ROW = np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3)
COVARIANCES = ("diag", "spherical", "tied", "full")
STARTS = 200
BEST_OF = 10
REG_COVAR = 0.01
TOL = 1e-6
EM, CONSTRAINED = "EM", "constrained EM"
SURE = 0.9
"""A clustering is decided if no point's most probable cluster is less probable."""


class Fit(NamedTuple):
    """One training from one start; nats are per point."""

    covariance: str
    training: str
    start: int
    groups: str
    objective: float
    log_likelihood: float
    iterations: int


def em_constraints_fig1(
    starts: int = STARTS,
    *,
    covariances: Sequence[str] = COVARIANCES,
    seed: int = 0,
    log: Callable[[str], None] = lambda line: None,
) -> Report:
    """Train a mixture of three Gaussians with and without the constraint from the same random starts.

    Parameters
    ----------
    starts : int
    covariances : sequence of str
        Types of covariance; the figure shows the first.
    seed : int
        Of the starts.
    log : callable
        Told of every type.
    """
    fits: list[Fit] = []
    for covariance in covariances:
        for start in range(starts):
            for training in (EM, CONSTRAINED):
                mixture = _train(covariance, training, _start(covariance, seed, start))
                posteriors = mixture.posteriors_ if training == CONSTRAINED else mixture.predict_proba(POINTS)
                fits.append(
                    Fit(
                        covariance,
                        training,
                        start,
                        groups(posteriors),
                        float(mixture.lower_bound_),
                        float(mixture.score(POINTS)),
                        mixture.n_iter_,
                    )
                )
        own = [fit for fit in fits if fit.covariance == covariance]
        log(f"{covariance}: " + ", ".join(f"{t} {_share(own, t, g):.1f} % {g}" for t, g in _WANTED.items()))
    pictured = _pictured(fits, covariances[0])
    return Report(
        name="em-constraints-fig1",
        title=f"[Graca2007] figure 1: nine points in three columns, three clusters, {starts} random starts",
        tables=[_shares(fits), _best(fits)],
        numbers=Table("all trainings", Fit._fields, [tuple(fit) for fit in fits]),
        figure=_figure(covariances[0], seed, pictured),
        claims=claims(fits),
        notes=[
            "The paper shows a picture and no numbers: neither the coordinates, nor the form of the covariances, nor "
            "the start are told. The points here were placed by the picture's description; the columns lie 2 apart, "
            "the points of a column 1.",
            "The constraint: in each column every cluster expects at least one of the three points, hence exactly one.",
            f"Undecided: some point has no cluster of probability {SURE:g}. Posteriors of a third each meet the "
            "constraint too, and spherical clusters, which cannot be wide and flat, meet it so from every start.",
            "Starts: equal weights, means drawn evenly from the box around the points, the variances of all points. "
            f"{REG_COVAR:g} is added to variances, without which a cluster of one point has infinite likelihood.",
            f"Best of {BEST_OF}: the starts in groups of {BEST_OF}, of each the one with the largest objective, as "
            f"GaussianMixture(n_init={BEST_OF}) keeps it.",
            f"Pictured: start {pictured}, "
            + (
                "the first from which both trainings end as in the paper."
                if _as_published(fits, covariances[0], pictured)
                else "the first; from none do both trainings end as in the paper."
            ),
        ],
    )


_WANTED = {EM: "columns", CONSTRAINED: "rows"}


def groups(posteriors: NDArray[np.float64]) -> str:
    """What posteriors of the nine points, shape (9, 3), make of them.

    Examples
    --------
    >>> groups(np.eye(3)[[2, 2, 2, 0, 0, 0, 1, 1, 1]]), groups(np.eye(3)[[0, 1, 2, 1, 2, 0, 0, 1, 2]])
    ('columns', 'across')
    >>> groups(np.full((9, 3), 1 / 3))
    'undecided'
    """
    if posteriors.max(axis=1).min() < SURE:
        return "undecided"
    labels = posteriors.argmax(axis=1)
    for name, gold in (("columns", COLUMN), ("rows", ROW)):
        if adjusted_rand_score(gold, labels) == 1.0:
            return name
    across = all(len(set(labels[column == COLUMN])) == 3 for column in range(3))
    return "across" if across else "mixed"


def _start(covariance: str, seed: int, number: int) -> dict[str, Any]:
    variances = POINTS.var(axis=0)
    precisions: dict[str, Any] = {
        "diag": np.tile(1 / variances, (3, 1)),
        "spherical": np.full(3, 1 / variances.mean()),
        "tied": np.diag(1 / variances),
        "full": np.tile(np.diag(1 / variances), (3, 1, 1)),
    }
    rng = np.random.default_rng([seed, number])
    means = rng.uniform(POINTS.min(axis=0), POINTS.max(axis=0), (3, 2))
    return {"weights_init": np.full(3, 1 / 3), "means_init": means, "precisions_init": precisions[covariance]}


def _train(covariance: Any, training: str, start: dict[str, Any], max_iter: int = 1000) -> GaussianMixture:
    every_cluster = at_least_one_per("column").named("every cluster in each column")
    return GaussianMixture(
        3,
        covariance_type=covariance,
        constraints=[every_cluster] if training == CONSTRAINED else [],
        reg_covar=REG_COVAR,
        max_iter=max_iter,
        tol=TOL,
        n_threads=1,
        **start,
    ).fit(POINTS, columns={"column": COLUMN})


def _of(fits: Sequence[Fit], training: str) -> list[Fit]:
    return [fit for fit in fits if fit.training == training]


def _share(fits: Sequence[Fit], training: str, *names: str) -> float:
    own = _of(fits, training)
    return percent(sum(fit.groups in names for fit in own) / len(own))


def _best_of(fits: Sequence[Fit], training: str) -> list[Fit]:
    own = _of(fits, training)
    blocks = [own[n : n + BEST_OF] for n in range(0, len(own), BEST_OF)]
    return [max(block, key=lambda fit: fit.objective) for block in blocks]


def _shares(fits: Sequence[Fit]) -> Table:
    rows = []
    for covariance in dict.fromkeys(fit.covariance for fit in fits):
        for training, wanted in _WANTED.items():
            own = [fit for fit in fits if fit.covariance == covariance]
            found = (_share(own, training, name) for name in ("columns", "rows", "across", "mixed", "undecided"))
            rows.append((covariance, training, *found, _share(_best_of(own, training), training, wanted)))
    kinds = ("columns", "rows", "across otherwise", "mixed", "undecided")
    columns = ("covariance", "", *kinds, f"as the paper's, best of {BEST_OF}")
    return Table("What the clusters are, in % of the starts", columns, rows)


def _best(fits: Sequence[Fit]) -> Table:
    rows = []
    for covariance in dict.fromkeys(fit.covariance for fit in fits):
        for training in _WANTED:
            own = [fit for fit in _of(fits, training) if fit.covariance == covariance]
            best = max(own, key=lambda fit: fit.objective)
            likelihood = best.log_likelihood
            cost = round(max(likelihood - best.objective, 0.0), 6)
            steps = float(np.mean([fit.iterations for fit in own]))
            rows.append((covariance, training, best.groups, best.objective, likelihood, cost, steps))
    columns = ("covariance", "", "clusters", "objective", "log-likelihood", "KL", "iterations, mean")
    return Table("The start with the largest objective: nats per point", columns, rows)


def claims(fits: Sequence[Fit]) -> list[Claim]:
    """What the paper says of its figure, of the first type of covariance."""
    first = fits[0].covariance
    own = [fit for fit in fits if fit.covariance == first]
    best = {training: max(_of(own, training), key=lambda fit: fit.objective).groups for training in _WANTED}
    em, constrained = (_share(own, training, wanted) for training, wanted in _WANTED.items())
    crossing = _share(own, CONSTRAINED, "rows", "across")
    largest = "where the objective is largest"
    return [
        Claim(
            f"EM clusters each column together ({first}, {largest}; {em:.1f} % of the starts)", best[EM] == "columns"
        ),
        Claim(
            "Under the constraint the clusters run across the columns, as the rows do "
            f"({first}, {largest}; {constrained:.1f} % of the starts)",
            best[CONSTRAINED] == "rows",
        ),
        Claim(
            f"Under the constraint no training ends in the columns ({first}; {crossing:.1f} % surely have every "
            "cluster in each column)",
            not any(fit.groups == "columns" for fit in _of(own, CONSTRAINED)),
        ),
    ]


def _as_published(fits: Sequence[Fit], covariance: str, start: int) -> bool:
    own = [fit for fit in fits if (fit.covariance, fit.start) == (covariance, start)]
    return all(fit.groups == _WANTED[fit.training] for fit in own)


def _pictured(fits: Sequence[Fit], covariance: str) -> int:
    numbers = sorted({fit.start for fit in fits})
    return next((n for n in numbers if _as_published(fits, covariance, n)), 0)


def _figure(covariance: str, seed: int, number: int) -> Any:
    start = _start(covariance, seed, number)
    em, constrained = (_train(covariance, training, start) for training in _WANTED)
    initial = _train(covariance, EM, start, max_iter=0)
    panels = (
        ("initial configuration", initial, np.full(len(POINTS), -1)),
        ("EM", em, em.labels_),
        ("EM with every cluster in each column", constrained, constrained.labels_),
    )
    figure = make_figure(13.0, 3.4)
    for axes, (title, mixture, labels) in zip(figure.subplots(1, 3), panels, strict=True):
        plot_clusters(POINTS, labels, mixture, title=title, axes=axes)
        axes.set(xlim=(-3.5, 7.5), ylim=(-2, 4))
        axes.get_legend().remove()
    return figure
