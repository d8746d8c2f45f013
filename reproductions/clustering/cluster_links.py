"""Mixtures under links between rows: agreement with the classes of real data by number of links and gamma.

* No paper prints these numbers; [Graca2007] names cannot-links, [Basu2004] and [Wagstaff2001] cluster so.
* Links lie within a half of the rows, drawn anew each time. ARI is of the other half, whose rows no link names,
  though all rows are clustered together; ARI of all rows is among the numbers written.
* Covariances are of the type whose BIC is lowest without links, so classes have no part in the choice.
* All methods of a draw start from the same run of k-means, knowing nothing of links, but for the last: its start is
  that of GaussianMixture, the best of several runs of k-means on rows that links tie together.
* Gamma 0 and -inf are hard EM under the linear relaxation and under the integer program.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Reference

from reproductions.clustering.linked_data import DATA_SETS, DataSet, draw_links, read_data_set
from reproductions.records import Spread, group, spread, where
from reproductions.report import Report, Table, bullets, listing, pivot, tell
from spectrem.constraints import cannot_link, must_link
from spectrem.estimators import GaussianMixture
from spectrem.exceptions import InvalidInputError
from spectrem.plotting import Line, Panel, draw_panels

QUICK = {"names": ("wine",), "counts": (50, 400), "gammas": (1.0, 0.5, 0.0), "draws": 2}
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


def run(
    names: Sequence[str] = tuple(DATA_SETS),
    *,
    counts: Sequence[int] = (0, 25, 50, 100, 200, 400, 800),
    gammas: Sequence[float] = (1.0, 0.75, 0.5, 0.25, 0.0, float("-inf")),
    draws: int = 3,
    seed: int = 0,
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
    """
    if 1.0 not in gammas:
        raise InvalidInputError(f"gammas must hold 1, with which others are compared, got {list(gammas)}")
    sets = [read_data_set(name) for name in names]
    fits: list[Fit] = []
    chosen = {}
    for data in sets:
        mixtures = (_mixture(data, covariance, seed).fit(data.rows) for covariance in ("diag", "tied", "full"))
        bics = {mixture.covariance_type: mixture.bic(data.rows) for mixture in mixtures}
        chosen[data.name] = min(bics, key=bics.__getitem__)
        for draw in range(draws):
            found = _train(data, chosen[data.name], sorted({*counts} - {0}), gammas, (seed, draw))
            tell(f"{data.name}, {chosen[data.name]}, draw {draw}: {sum(fit.seconds for fit in found):.1f} s")
            fits += found
    return Report(
        title=f"Mixtures under links: adjusted Rand index (ARI) by number of links and gamma, mean of {draws} draws",
        tables=[*(_table(own) for own in group(fits, "data").values()), _time(fits)],
        numbers=listing(fits),
        figure=_figure(fits),
        claims=claims(fits),
        notes=[
            *bullets(__doc__),
            *(
                f"{data.name}: {len(data.rows):,} rows, {data.n_classes} classes, {data.about}; "
                f"{chosen[data.name]} covariances."
                for data in sets
            ),
        ],
        headings=("What one would expect", "How it was measured"),
    )


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
        seconds = round(time.perf_counter() - began, 3)
        ari = float(adjusted_rand_score(data.classes, labels))
        ari_unlinked = float(adjusted_rand_score(data.classes[unlinked], labels[unlinked]))
        ended = (float(mixture.lower_bound_), mixture.n_iter_, seconds)
        found.append(Fit(data.name, covariance, links, draw[1], method, ari, ari_unlinked, *ended))

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


def cells(fits: Sequence[Fit]) -> dict[tuple[str, int, str], Spread]:
    """ARI of the rows without links, by data set, number of links and method, over draws."""
    return {key: spread(own, "ari_unlinked") for key, own in group(fits, "data", "links", "method").items()}


def _table(fits: Sequence[Fit]) -> Table:
    """Of one data set."""

    def cell(own: Sequence[Fit]) -> str:
        mean, deviation = spread(own, "ari_unlinked")
        return f"{mean:.3f} ±{deviation:.3f}"

    title = f"{fits[0].data}, {fits[0].covariance}: ARI of the rows without links"
    return pivot(title, fits, "links", "method", cell)


def _time(fits: Sequence[Fit]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for data, own in group(fits, "data").items():
        by_method = group(own, "method").values()
        seconds = (round(float(np.median([fit.seconds for fit in each])), 3) for each in by_method)
        rows.append((data, "seconds", *seconds))
        rows.append((data, "iterations", *(float(np.median([fit.iterations for fit in each])) for each in by_method)))
    return Table("One training, median", ("", "", *group(fits, "method")), rows)


def claims(fits: Sequence[Fit]) -> dict[str, bool]:
    """What one would expect of links and of gamma, each with the numbers that decide."""
    found = cells(fits)
    mean = {key: own.mean for key, own in found.items()}
    names, counts = list(group(fits, "data")), sorted({fit.links for fit in fits} - {0})
    methods = [method for method in group(fits, "method") if method not in (SCIKIT, EM, OWN_START)]
    grid = [(data, links) for data in names for links in counts]
    alike = max(abs(mean[data, 0, SCIKIT] - mean[data, 0, EM]) for data in names)
    many, few = (
        {data: mean[data, links, PR] - mean[data, 0, EM] for data in names} for links in (counts[-1], counts[0])
    )
    best = [max(methods, key=lambda method: mean[data, links, method]) for data, links in grid]
    wins = ", ".join(f"{method} {best.count(method)}" for method in methods)
    average = {method: float(np.mean([mean[data, links, method] for data, links in grid])) for method in methods}
    spelled = ", ".join(f"{method} {value:.3f}" for method, value in average.items())
    first = max(average, key=average.__getitem__)
    apart = max(average.values()) - min(average.values())
    noise = float(np.mean([found[data, links, first].deviation for data, links in grid]))
    own = {data: float(np.mean([mean[data, n, OWN_START] - mean[data, n, PR] for n in counts])) for data in names}
    return {
        f"Without links ours and scikit-learn's agree (ARI, largest difference {alike:.3f})": alike < 0.01,
        f"{counts[-1]} links help rows that no link names, at gamma 1 ({_signed(many)})": min(many.values()) > 0,
        f"{counts[0]} links help already ({_signed(few)})": min(few.values()) > 0,
        f"Best on average over sets and links is a gamma between 0 and 1 ({spelled})": (
            first not in (PR, "CoDL (0)", "CoDL (-inf)")
        ),
        f"PR (1) is best in most of the {len(grid)} places (best in: {wins})": 2 * best.count(PR) > len(grid),
        f"Gammas differ by more (means from best to worst: {apart:.3f}) than draws do (deviation of {first}: "
        f"{noise:.3f})": apart > noise,
        f"A start that knows the must-links is better, at gamma 1 ({_signed(own)})": min(own.values()) > 0,
    }


def _signed(gains: Mapping[str, float]) -> str:
    return ", ".join(f"{data} {gain:+.3f}" for data, gain in gains.items())


def _figure(fits: Sequence[Fit]) -> Any:
    found, methods = cells(fits), list(group(fits, "method"))[2:]
    panels = []
    for data, own in group(fits, "data").items():
        counts = sorted(group(own, "links"))
        lines = []
        for k, method in enumerate(methods):
            means = [found[data, links, method if links else EM].mean for links in counts]
            lines.append(Line(method, range(len(counts)), means, colour=k, style=k))
        panels.append(Panel(data, "links", "ARI of the rows without links", lines))
    figure = draw_panels(panels, title="Mixtures under links, by gamma")
    for axes, panel in zip(figure.axes, panels, strict=True):
        counts = sorted(group(where(fits, data=panel.title), "links"))
        axes.set_xticks(range(len(counts)), [str(count) for count in counts])
    return figure
