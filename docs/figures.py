"""The figures of the guide, computed by the library when the site is built.

``draw_all(folder)`` writes every figure twice, ``NAME_light.svg`` and ``NAME_dark.svg``, for pages of either colour.
A function here is a figure, its name is that of the file, and what it computes is kept between the two.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from spectrem import CRFTagger, E, GaussianMixture, MaxEntClassifier, WordAligner, part, project
from spectrem.constraints import compile_constraints, label_proportions, must_link
from spectrem.datasets import make_bitext, make_tagged_corpus
from spectrem.inference import project_batch
from spectrem.plotting import COLOURS, Line, Panel, draw_panels, plot_clusters
from spectrem.plotting.curves import make_figure
from spectrem.structures import Chain, Parts

WORDS, TAGS = ("the", "dog", "barks", "often"), ("noun", "verb", "other")
GAMMAS = (-np.inf, 0.0, 0.5, 1.0, 3.0)


def draw_all(folder: str | Path) -> list[Path]:
    """Draw all figures into a folder, which is made if it is missing; returns the files."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    files = []
    for name, ink in (("light", "#222832"), ("dark", "#ced6dd")):
        inks = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
        clear = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none")
        style = {**dict.fromkeys(inks, ink), **clear, "svg.hashsalt": "spectrem", "legend.framealpha": 0.0}
        for figure in FIGURES:
            files.append(Path(folder) / f"{figure.__name__}_{name}.svg")
            with matplotlib.rc_context(style):
                figure().savefig(files[-1], metadata={"Date": None})
    return files


def sentence() -> tuple[Chain, Parts]:
    """A sentence of four words under a weak tagger that prefers nouns, and its scores, nats."""
    emission = np.log([[0.2, 0.1, 0.7], [0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.1, 0.7]])
    transition = np.log([[0.4, 0.3, 0.3], [0.4, 0.1, 0.5], [0.5, 0.3, 0.2]])
    return Chain([4], n_states=3), Parts(emission.ravel(), (transition,))


def one_posterior() -> Any:
    """Posteriors of the tags of one sentence at five gammas, without and with a constraint."""
    chain, scores = sentence()
    one_verb = compile_constraints((E[part("tag") == 1] >= 1).per("sentence"), chain)
    figure = make_figure(10.4, 4.6)
    names = {
        0: ("hard EM", "hard EM", "tempered EM", "EM", "annealing"),
        1: ("CoDL", "linear relaxation", "UEM", "PR", "annealing"),
    }
    for row, axes_of_row in enumerate(figure.subplots(2, 5)):
        for gamma, name, axes in zip(GAMMAS, names[row], axes_of_row, strict=True):
            if row == 0:  # without constraints all gammas up to 0 are the best sequence
                marginals = chain.smoothed_max(scores, max(gamma, 0.0))[1]
                if gamma > 0:
                    marginals = project_batch(chain, scores, gamma=gamma).marginals
            else:
                marginals = project_batch(chain, scores, one_verb, gamma).marginals
            table = marginals.unary.reshape(4, 3)
            axes.imshow(table, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
            for (word, tag), value in np.ndenumerate(table):
                text = f"{value:.2f}" if 0.005 < value < 0.995 else f"{value:.0f}"
                axes.text(tag, word, text, ha="center", va="center", fontsize=8, color="black" if value < 0.7 else "w")
            shown = "\N{MINUS SIGN}∞" if np.isinf(gamma) else f"{gamma:g}"
            axes.set_title(f"{name}, γ = {shown}", fontsize=9)  # noqa: RUF001 -- not a y
            axes.set_xticks(range(3), TAGS, fontsize=8)
            axes.set_yticks(range(4), WORDS if gamma == -np.inf else [""] * 4, fontsize=8)
            axes.tick_params(length=0)
        axes_of_row[0].set_ylabel(("no constraint", "one verb at least")[row])
    return figure


def triangle() -> Any:
    """The path of one distribution over three labels as gamma changes, without and with a constraint."""
    figure = make_figure(5.6, 4.6)
    axes = figure.add_subplot()
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    axes.fill(*corners.T, fill=False, color="0.5", linewidth=1)
    bound = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]] @ corners
    axes.fill(*np.vstack([bound[0], corners[1], bound[1]]).T, color=COLOURS[2], alpha=0.15, linewidth=0)
    axes.plot(*bound.T, color=COLOURS[2], linewidth=1.2, linestyle="--", label="b has at least one half")
    proba = [[0.55, 0.3, 0.15]]
    for number, (rules, label) in enumerate(
        ((["E[label == 'b'] >= 0"], "no constraint"), (["E[label == 'b'] >= 0.5"], "under the constraint"))
    ):

        def at(gamma: float, rules: list[str] = rules) -> Any:
            return project(proba, rules, gamma, labels=["a", "b", "c"]).proba @ corners

        path = np.vstack([at(gamma) for gamma in np.geomspace(0.02, 60, 60)])
        axes.plot(*path.T, color=COLOURS[number], linewidth=1.8, label=label)
        for gamma in (0.0, 0.5, 1.0, 3.0):
            (x, y) = at(gamma)[0]
            axes.plot(x, y, "os^D"[number], color=COLOURS[number], markersize=5)
            axes.annotate(
                f"{gamma:g}", (x, y), xytext=(5, 4 if number else -12), textcoords="offset points", fontsize=8
            )
    axes.plot(*corners[1], marker="*", color=COLOURS[1], markersize=11, linestyle="", label="integer program, γ = −∞")  # noqa: RUF001
    for corner, name, shift in zip(corners, "abc", ((-10, -6), (6, -6), (-3, 6)), strict=True):
        axes.annotate(name, corner, xytext=shift, textcoords="offset points", fontsize=11)
    axes.set_aspect("equal")
    axes.axis("off")
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


@cache
def errors_by_gamma() -> dict[str, list[float]]:
    """Alignment error of aligners on a generated bitext, per cent, by constraint and gamma."""
    source, target, gold = make_bitext(n_pairs=300, seed=0)
    return {
        name: [
            100 * (1 - WordAligner(constraints=rules, gamma=gamma).fit(source, target).score(source, target, gold))
            for gamma in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
        ]
        for name, rules in (("no constraint", ()), ("agreement", ("agreement",)))
    }


@cache
def accuracy_by_gamma() -> dict[str, list[float]]:
    """Accuracy of classifiers that know few labels, per cent, by what else they know, and by gamma."""
    x, y, labels = reviews()
    shares = label_proportions([0.3, 0.7])
    return {
        name: [
            100
            * np.mean(
                MaxEntClassifier(constraints=rules, gamma=gamma, max_iter=300, tol=1e-3).fit(x, labels).predict(x) == y
            )
            for gamma in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
        ]
        for name, rules in (("no constraint", ()), ("shares of labels", (shares,)))
    }


@cache
def reviews() -> tuple[Any, Any, list[int | None]]:
    """Rows of two overlapping classes, a third of them of class 0, and the labels of six of them."""
    rng = np.random.default_rng(3)
    y = (rng.random(400) < 0.7).astype(int)
    x = rng.normal(size=(400, 5)) + np.where(y[:, None] == 1, 0.55, -0.55)
    known = np.r_[np.flatnonzero(y == 0)[:3], np.flatnonzero(y == 1)[:3]]
    return x, y, [int(y[row]) if row in known else None for row in range(400)]


def gamma_curves() -> Any:
    """What gamma does to the error where a constraint is right, and where there is none."""
    gammas = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
    panels = []
    for title, y_label, found in (
        ("word alignment, 300 pairs", "error, %", errors_by_gamma()),
        ("six labels among 400 rows", "right, %", accuracy_by_gamma()),
    ):
        names = ("no constraint", "agreement", "shares of labels")
        lines = [Line(name, gammas, found[name], names.index(name), k) for k, name in enumerate(found)]
        panels.append(Panel(title, "gamma", y_label, lines))
    return draw_panels(panels)


@cache
def costs_by_bound() -> tuple[Any, list[float], float]:
    """Cost of "so many rows are spam" by the number, and the price at 6."""
    rng = np.random.default_rng(1)
    spam = np.round(rng.beta(2, 4, 12), 2)
    proba = np.stack([1 - spam, spam], axis=1)
    bounds = np.linspace(2.0, 9.0, 29)
    tables = [project(proba, E[part("label") == 1] >= bound) for bound in bounds]
    price = project(proba, E[part("label") == 1] >= 6).constraints[0].price[0]
    return bounds, [table.kl for table in tables], float(price)


def price_as_slope() -> Any:
    """The price of a bound is the slope of the cost."""
    bounds, costs, price = costs_by_bound()
    at = float(np.interp(6.0, bounds, costs))
    tangent = [at - 1.5 * abs(price), at + 1.5 * abs(price)]
    lines = [
        Line("cost of the constraint", bounds, costs, 0, marked=False),
        Line(f"slope at 6: price {abs(price):.2f}", [4.5, 7.5], tangent, 1, 1, marked=False),
    ]
    return draw_panels(
        [Panel("at least so many spam", "bound, rows", "cost, nats", lines, None, (-0.5, max(costs)))], width=5.4
    )


@cache
def accuracy_by_claim() -> tuple[list[float], dict[str, list[float]]]:
    """Accuracy, per cent, where a share of labels is claimed that is not true."""
    x, y, labels = reviews()
    claims = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]

    def right(rules: Any) -> float:
        return float(
            100 * np.mean(MaxEntClassifier(constraints=rules, max_iter=300, tol=1e-3).fit(x, labels).predict(x) == y)
        )

    exact = [right(f"E[label == 0] == '{100 * claim:.0f}%'") for claim in claims]
    wide = [right(f"E[label == 0].between('{100 * claim - 10:.0f}%', '{100 * claim + 10:.0f}%')") for claim in claims]
    return claims, {"exactly": exact, "within 10 points": wide, "no constraint": [right(())] * len(claims)}


def wrong_shares() -> Any:
    """What a wrong share costs."""
    claims, found = accuracy_by_claim()
    lines = [Line(name, [100 * claim for claim in claims], found[name], k, k) for k, name in enumerate(found)]
    panel = Panel(
        f"{100 * np.mean(reviews()[1] == 0):.0f} % of the rows are of class 0",
        "claimed share of class 0, %",
        "right, %",
        lines,
    )
    return draw_panels([panel], width=6.0)


@cache
def growth() -> tuple[list[Line], list[Line]]:
    """Errors by size of the data: aligners by pairs, taggers by labelled sentences."""
    pairs, curves = (30, 100, 300, 1000, 3000), {"no constraint": (), "agreement": ("agreement",)}
    alignment = []
    for k, (name, rules) in enumerate(curves.items()):
        errors = []
        for n in pairs:
            text = make_bitext(n, seed=1)
            aligner = WordAligner(constraints=rules).fit(text.source, text.target)
            errors.append(100 * (1 - aligner.score(text.source, text.target, text.links)))
        alignment.append(Line(name, pairs, errors, k, k))
    train, new, sizes = make_tagged_corpus(300, seed=3), make_tagged_corpus(200, seed=4), (10, 30, 100, 300)
    found = [
        100 * (1 - CRFTagger("words").fit(train.words[:n], train.tags[:n]).score(new.words, new.tags)) for n in sizes
    ]
    return alignment, [Line("CRF, labelled sentences alone", sizes, found, 2, 2)]


def how_much_text() -> Any:
    """Learning curves."""
    alignment, tagging = growth()
    figure = draw_panels(
        [
            Panel("word alignment, generated text", "sentence pairs", "error, %", alignment),
            Panel("tagging, generated text", "labelled sentences", "wrong tags, %", tagging),
        ]
    )
    for axes in figure.axes:
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
    return figure


def linked_rows() -> Any:
    """A mixture without and with links."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal((x, 0), (0.5, 2.0), size=(60, 2)) for x in (0.0, 2.2)])
    low, high = np.argsort(X[:60, 1]), 60 + np.argsort(X[60:, 1])
    links = must_link([[low[k], low[-1 - k]] for k in range(6)] + [[high[k], high[-1 - k]] for k in range(6)])
    figure = make_figure(8.4, 4.0)
    for axes, rules, title in zip(
        figure.subplots(1, 2), ((), (links,)), ("no links", "twelve must-links"), strict=True
    ):
        mixture = GaussianMixture(2, constraints=rules, covariance_type="tied", random_state=1).fit(X)
        plot_clusters(X, mixture.labels_, mixture, links=rules, title=title, axes=axes)
    return figure


FIGURES = (one_posterior, triangle, gamma_curves, price_as_slope, wrong_shares, how_much_text, linked_rows)
