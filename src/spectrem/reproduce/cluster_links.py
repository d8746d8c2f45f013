"""Mixtures under links between rows: agreement with the classes of real data by number of links and gamma."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Reference

from spectrem.constraints import cannot_link, must_link
from spectrem.estimators import GaussianMixture
from spectrem.exceptions import InvalidInputError
from spectrem.plotting.curves import Line, Panel, draw_panels
from spectrem.reproduce.linked_data import DATA_SETS, DataSet, draw_links, read_data_set
from spectrem.reproduce.report import Claim, Report, Table

COUNTS = (0, 25, 50, 100, 200, 400, 800)
GAMMAS = (1.0, 0.75, 0.5, 0.25, 0.0, float("-inf"))
COVARIANCES = ("diag", "tied", "full")
DRAWS = 3
REG_COVAR = 1e-3
MAX_ITER = 300
SCIKIT, EM = "scikit-learn", "EM"
PR = "PR (1)"
OWN_START = "PR (1), own start"


class Fit(NamedTuple):
    """One training; ari is of all rows, ari_unlinked of those that no link may name."""

    data: str
    covariance: str
    links: int
    draw: int
    method: str
    ari: float
    ari_unlinked: float
    objective: float
    iterations: int
    seconds: float


def cluster_links(
    names: Sequence[str] = tuple(DATA_SETS),
    *,
    counts: Sequence[int] = COUNTS,
    gammas: Sequence[float] = GAMMAS,
    draws: int = DRAWS,
    seed: int = 0,
    log: Callable[[str], None] = lambda line: None,
) -> Report:
    """Cluster data sets whose classes are known under links drawn from these classes.

    Parameters
    ----------
    names : sequence of str
        Among `DATA_SETS`.
    counts : sequence of int
        Links, half of them must-links and half cannot-links. 0 is always among them.
    gammas : sequence of float
        1 must be among them.
    draws : int
        Of links and of the start, for each data set.
    seed : int
    log : callable
        Told of every data set and draw.
    """
    if 1.0 not in gammas:
        raise InvalidInputError(f"gammas must hold 1, with which others are compared, got {list(gammas)}")
    sets = [read_data_set(name) for name in names]
    fits: list[Fit] = []
    chosen = {}
    for data in sets:
        bics = {covariance: _bic(data, covariance, seed) for covariance in COVARIANCES}
        chosen[data.name] = min(bics, key=bics.__getitem__)
        for draw in range(draws):
            found = _train(data, chosen[data.name], sorted({*counts} - {0}), gammas, (seed, draw))
            log(f"{data.name}, {chosen[data.name]}, draw {draw}: {sum(fit.seconds for fit in found):.1f} s")
            fits += found
    return Report(
        name="cluster-links",
        title=f"Mixtures under links: adjusted Rand index (ARI) by number of links and gamma, mean of {draws} draws",
        tables=[*(_table(fits, data, chosen[data.name]) for data in sets), _time(fits)],
        numbers=Table("all trainings", Fit._fields, [tuple(fit) for fit in fits]),
        figure=_figure(fits),
        claims=claims(fits),
        notes=[
            "No paper prints these numbers; [Graca2007] names cannot-links, [Basu2004] and [Wagstaff2001] cluster so.",
            "Links lie within a half of the rows, drawn anew each time. ARI is of the other half, whose rows no link "
            "names, though all rows are clustered together; ARI of all rows is among the numbers written.",
            "Covariances are of the type whose BIC is lowest without links, so classes have no part in the choice.",
            *(
                f"{data.name}: {len(data.rows):,} rows, {data.n_classes} classes, {data.about}; "
                f"{chosen[data.name]} covariances."
                for data in sets
            ),
            "All methods of a draw start from the same run of k-means, knowing nothing of links, but for the last: its "
            "start is that of GaussianMixture, the best of several runs of k-means on rows that links tie together.",
            "Gamma 0 and -inf are hard EM under the linear relaxation and under the integer program.",
        ],
        headings=("What one would expect", "How it was measured"),
    )


def _bic(data: DataSet, covariance: Any, seed: int) -> float:
    mixture = _mixture(data, covariance, seed).fit(data.rows)
    return mixture.bic(data.rows)


def _mixture(data: DataSet, covariance: Any, seed: int, max_iter: int = MAX_ITER, **settings: Any) -> GaussianMixture:
    return GaussianMixture(
        data.n_classes,
        covariance_type=covariance,
        reg_covar=REG_COVAR,
        max_iter=max_iter,
        random_state=seed,
        n_threads=1,
        **settings,
    )


def _train(
    data: DataSet, covariance: Any, counts: Sequence[int], gammas: Sequence[float], draw: tuple[int, int]
) -> list[Fit]:
    rng = np.random.default_rng(draw)
    start = int(rng.integers(2**31))
    order = rng.permutation(len(data.rows))
    half = len(order) // 2
    linkable, unlinked = order[:half], order[half:]
    found = []

    def add(method: str, links: int, mixture: Any) -> None:
        began = time.perf_counter()
        labels = mixture.fit_predict(data.rows)
        seconds = time.perf_counter() - began
        found.append(
            Fit(
                data.name,
                covariance,
                links,
                draw[1],
                method,
                float(adjusted_rand_score(data.classes, labels)),
                float(adjusted_rand_score(data.classes[unlinked], labels[unlinked])),
                float(mixture.lower_bound_),
                mixture.n_iter_,
                round(seconds, 3),
            )
        )

    first = _mixture(data, covariance, start, max_iter=0).fit(data.rows)
    common: dict[str, Any] = {
        "weights_init": first.weights_,
        "means_init": first.means_,
        "precisions_init": first.precisions_,
    }
    settings: dict[str, Any] = {"covariance_type": covariance, "reg_covar": REG_COVAR, "max_iter": MAX_ITER}
    add(SCIKIT, 0, Reference(data.n_classes, **settings, **common))
    add(EM, 0, _mixture(data, covariance, start, **common))
    for count in counts:
        must, cannot = draw_links(data.classes, linkable, count, rng)
        links = [must_link(must), cannot_link(cannot)]
        for gamma in gammas:
            add(_method(gamma), count, _mixture(data, covariance, start, gamma=gamma, constraints=links, **common))
        add(OWN_START, count, _mixture(data, covariance, start, constraints=links))
    return found


def _method(gamma: float) -> str:
    return {1.0: PR, 0.0: "CoDL (0)", float("-inf"): "CoDL (-inf)"}.get(gamma, f"{gamma:g}")


class Cell(NamedTuple):
    """Of one method at one number of links: mean and standard deviation over draws."""

    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ±{self.deviation:.3f}"


def cell(fits: Sequence[Fit], data: str, links: int, method: str, measure: str = "ari_unlinked") -> Cell | None:
    """None where there are no such fits."""
    own = [getattr(fit, measure) for fit in fits if (fit.data, fit.links, fit.method) == (data, links, method)]
    return Cell(float(np.mean(own)), float(np.std(own))) if own else None


def _methods(fits: Sequence[Fit]) -> list[str]:
    return list(dict.fromkeys(fit.method for fit in fits))


def _gammas(fits: Sequence[Fit]) -> list[str]:
    """Methods under links from the common start."""
    return [method for method in _methods(fits) if method not in (SCIKIT, EM, OWN_START)]


def _table(fits: Sequence[Fit], data: DataSet, covariance: str) -> Table:
    methods = _methods(fits)
    rows = []
    for links in sorted({fit.links for fit in fits if fit.data == data.name}):
        cells = (cell(fits, data.name, links, method) for method in methods)
        rows.append((links, *("" if own is None else str(own) for own in cells)))
    return Table(f"{data.name}, {covariance}: ARI of the rows without links", ("links", *methods), rows)


def _time(fits: Sequence[Fit]) -> Table:
    methods = _methods(fits)
    rows = []
    for data in dict.fromkeys(fit.data for fit in fits):
        own = [[fit for fit in fits if (fit.data, fit.method) == (data, method)] for method in methods]
        rows.append((data, "seconds", *(round(float(np.median([fit.seconds for fit in each])), 3) for each in own)))
        rows.append((data, "iterations", *(float(np.median([fit.iterations for fit in each])) for each in own)))
    return Table("One training, median", ("", "", *methods), rows)


def claims(fits: Sequence[Fit]) -> list[Claim]:
    """What one would expect of links and of gamma, each with the numbers that decide."""
    names = list(dict.fromkeys(fit.data for fit in fits))
    counts = sorted({fit.links for fit in fits} - {0})
    methods = _gammas(fits)
    mean = {
        (data, links, method): each.mean
        for data in names
        for links in (0, *counts)
        for method in _methods(fits)
        if (each := cell(fits, data, links, method)) is not None
    }
    alike = max(abs(mean[data, 0, SCIKIT] - mean[data, 0, EM]) for data in names)
    most = counts[-1]
    gains = {data: mean[data, most, PR] - mean[data, 0, EM] for data in names}
    few = {data: mean[data, counts[0], PR] - mean[data, 0, EM] for data in names}
    grid = [(data, links) for data in names for links in counts]
    best = [max(methods, key=lambda method: mean[data, links, method]) for data, links in grid]
    wins = ", ".join(f"{method} {best.count(method)}" for method in methods)
    average = {method: float(np.mean([mean[data, links, method] for data, links in grid])) for method in methods}
    spelled = ", ".join(f"{method} {value:.3f}" for method, value in average.items())
    first = max(average, key=average.__getitem__)
    between = [method for method in methods if method not in (PR, "CoDL (0)", "CoDL (-inf)")]
    spread = max(average.values()) - min(average.values())
    own = {data: float(np.mean([mean[data, n, OWN_START] - mean[data, n, PR] for n in counts])) for data in names}
    noise = float(np.mean([each.deviation for data, links in grid if (each := cell(fits, data, links, first))]))
    return [
        Claim(f"Without links ours and scikit-learn's agree (ARI, largest difference {alike:.3f})", alike < 0.01),
        Claim(f"{most} links help rows that no link names, at gamma 1 ({_signed(gains)})", min(gains.values()) > 0),
        Claim(f"{counts[0]} links help already ({_signed(few)})", min(few.values()) > 0),
        Claim(f"Best on average over sets and links is a gamma between 0 and 1 ({spelled})", first in between),
        Claim(f"PR (1) is best in most of the {len(grid)} places (best in: {wins})", 2 * best.count(PR) > len(grid)),
        Claim(
            f"Gammas differ by more (means from best to worst: {spread:.3f}) than draws do (deviation of {first}: "
            f"{noise:.3f})",
            spread > noise,
        ),
        Claim(f"A start that knows the must-links is better, at gamma 1 ({_signed(own)})", min(own.values()) > 0),
    ]


def _signed(gains: dict[str, float]) -> str:
    return ", ".join(f"{data} {gain:+.3f}" for data, gain in gains.items())


def _figure(fits: Sequence[Fit]) -> Any:
    panels = []
    for data in dict.fromkeys(fit.data for fit in fits):
        own = [fit for fit in fits if fit.data == data]
        counts = sorted({fit.links for fit in own})
        base = cell(own, data, 0, EM)
        lines = []
        for k, method in enumerate(_methods(fits)[2:]):
            found = [cell(own, data, links, method) if links else base for links in counts]
            lines.append(Line(method, range(len(counts)), [one.mean for one in found if one], colour=k, style=k))
        panels.append(Panel(data, "links", "ARI of the rows without links", lines))
    figure = draw_panels(panels, title="Mixtures under links, by gamma")
    for axes, data in zip(figure.axes, dict.fromkeys(fit.data for fit in fits), strict=True):
        counts = sorted({fit.links for fit in fits if fit.data == data})
        axes.set_xticks(range(len(counts)), [str(count) for count in counts])
    return figure
