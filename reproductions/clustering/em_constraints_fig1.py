"""[Graca2007] figure 1: nine points in three columns, by EM and by EM with every cluster in each column.

* The paper shows a picture and no numbers: neither the coordinates, nor the form of the covariances, nor the start
  are told. The points here were placed by the picture's description; the columns lie 2 apart, the points of a column
  1.
* The constraint: in each column every cluster expects at least one of the three points, hence exactly one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from reproductions.records import group, where
from reproductions.report import Report, Table, bullets, listing, percent, tell
from spectrem.constraints import at_least_one_per
from spectrem.estimators import GaussianMixture
from spectrem.plotting import plot_clusters

POINTS = np.array([
    [0.0, 0.1], [0.1, 1.0], [-0.1, 2.1],
    [2.1, 0.0], [1.9, 1.1], [2.0, 1.9],
    [4.0, -0.1], [3.9, 0.9], [4.1, 2.0],
])  # fmt: skip
COLUMN, ROW = np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3)
COVARIANCES = ("diag", "spherical", "tied", "full")
QUICK = {"starts": 20, "covariances": COVARIANCES[:1]}
BEST_OF = 10
REG_COVAR = 0.01
EM, CONSTRAINED = "EM", "constrained EM"
WANTED = {EM: "columns", CONSTRAINED: "rows"}
"""How the paper's trainings group the points."""
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

    @property
    def is_published(self) -> bool:
        """Whether the points are grouped as in the paper."""
        return self.groups == WANTED[self.training]


def run(starts: int = 200, *, covariances: Sequence[str] = COVARIANCES, seed: int = 0) -> Report:
    """Train a mixture of three Gaussians with and without the constraint from the same random starts.

    Parameters
    ----------
    starts : int
    covariances : sequence of str
        Types of covariance; the figure shows the first.
    seed : int
        Of the starts.
    """
    fits: list[Fit] = []
    for covariance in covariances:
        own = [_fit(covariance, training, seed, start) for start in range(starts) for training in WANTED]
        shares = (f"{name} {_published(each):.1f} % {WANTED[name]}" for name, each in group(own, "training").items())
        tell(f"{covariance}: {', '.join(shares)}")
        fits += own
    first = group(where(fits, covariance=covariances[0]), "start")
    published = [start for start, own in first.items() if all(fit.is_published for fit in own)]
    pictured = published[0] if published else 0
    return Report(
        title=f"[Graca2007] figure 1: nine points in three columns, three clusters, {starts} random starts",
        tables=[_shares(fits), _best(fits)],
        numbers=listing(fits),
        figure=_figure(covariances[0], seed, pictured),
        claims=claims(fits),
        notes=[
            *bullets(__doc__),
            f"Undecided: some point has no cluster of probability {SURE:g}. Posteriors of a third each meet the "
            "constraint too, and spherical clusters, which cannot be wide and flat, meet it so from every start.",
            "Starts: equal weights, means drawn evenly from the box around the points, the variances of all points. "
            f"{REG_COVAR:g} is added to variances, without which a cluster of one point has infinite likelihood.",
            f"Best of {BEST_OF}: the starts in groups of {BEST_OF}, of each the one with the largest objective, as "
            f"GaussianMixture(n_init={BEST_OF}) keeps it.",
            f"Pictured: start {pictured}, the first from which both trainings end as in the paper."
            if published
            else f"Pictured: start {pictured}, the first; from none do both trainings end as in the paper.",
        ],
    )


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


def _fit(covariance: str, training: str, seed: int, start: int) -> Fit:
    mixture = _train(covariance, training, _start(covariance, seed, start))
    posteriors = mixture.posteriors_ if training == CONSTRAINED else mixture.predict_proba(POINTS)
    ended = (float(mixture.lower_bound_), float(mixture.score(POINTS)), mixture.n_iter_)
    return Fit(covariance, training, start, groups(posteriors), *ended)


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
        tol=1e-6,
        n_threads=1,
        **start,
    ).fit(POINTS, columns={"column": COLUMN})


def _share(fits: Sequence[Fit], *names: str) -> float:
    return percent(sum(fit.groups in names for fit in fits) / len(fits))


def _published(fits: Sequence[Fit]) -> float:
    """Of one training, the share that groups the points as in the paper."""
    return _share(fits, WANTED[fits[0].training])


def _best_of(fits: Sequence[Fit]) -> Fit:
    return max(fits, key=lambda fit: fit.objective)


def _shares(fits: Sequence[Fit]) -> Table:
    rows = []
    for key, own in group(fits, "covariance", "training").items():
        shares = (_share(own, name) for name in ("columns", "rows", "across", "mixed", "undecided"))
        best = [_best_of(own[n : n + BEST_OF]) for n in range(0, len(own), BEST_OF)]
        rows.append((*key, *shares, _published(best)))
    kinds = ("columns", "rows", "across otherwise", "mixed", "undecided")
    columns = ("covariance", "", *kinds, f"as the paper's, best of {BEST_OF}")
    return Table("What the clusters are, in % of the starts", columns, rows)


def _best(fits: Sequence[Fit]) -> Table:
    rows = []
    for key, own in group(fits, "covariance", "training").items():
        best = _best_of(own)
        cost = round(max(best.log_likelihood - best.objective, 0.0), 6)
        steps = float(np.mean([fit.iterations for fit in own]))
        rows.append((*key, best.groups, best.objective, best.log_likelihood, cost, steps))
    columns = ("covariance", "", "clusters", "objective", "log-likelihood", "KL", "iterations, mean")
    return Table("The start with the largest objective: nats per point", columns, rows)


def claims(fits: Sequence[Fit]) -> dict[str, bool]:
    """What the paper says of its figure, of the first type of covariance."""
    first = fits[0].covariance
    em, constrained = (where(fits, covariance=first, training=training) for training in WANTED)
    largest = f"{first}, where the objective is largest"
    return {
        f"EM clusters each column together ({largest}; {_published(em):.1f} % of the starts)": (
            _best_of(em).is_published
        ),
        f"Under the constraint the clusters run across the columns, as the rows do ({largest}; "
        f"{_published(constrained):.1f} % of the starts)": _best_of(constrained).is_published,
        f"Under the constraint no training ends in the columns ({first}; {_share(constrained, 'rows', 'across'):.1f} % "
        "surely have every cluster in each column)": not where(constrained, groups="columns"),
    }


def _figure(covariance: str, seed: int, number: int) -> Figure:
    start = _start(covariance, seed, number)
    em, constrained = (_train(covariance, training, start) for training in WANTED)
    initial = _train(covariance, EM, start, max_iter=0)
    panels = (
        ("initial configuration", initial, np.full(len(POINTS), -1)),
        ("EM", em, em.labels_),
        ("EM with every cluster in each column", constrained, constrained.labels_),
    )
    figure = Figure(figsize=(13.0, 3.4), layout="constrained")
    for axes, (title, mixture, labels) in zip(figure.subplots(1, 3), panels, strict=True):
        plot_clusters(POINTS, labels, mixture, title=title, axes=axes)
        axes.set(xlim=(-3.5, 7.5), ylim=(-2, 4))
        axes.get_legend().remove()
    return figure
