"""The page of an analysis of votes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrem._html import BLUE, MOST_LINES, ORANGE, facts, page, paragraphs, table, with_bar
from spectrem.exceptions import counted, shorten

MOST_ITEMS = 20
"""Items, and pairs of sources, that are shown."""

_MOST_OPEN = 3
_NONE = "<p>There are none.</p>"
_FORMS = {
    **dict.fromkeys(("coverage", "overlap", "conflict", "accuracy", "known_accuracy", "probability"), ".1%"),
    **dict.fromkeys(("votes", "decides", "known"), ","),
    **{"posterior": ".1%", "majority": ".1%", "similarity": ".2f", "information": ".3f", "entropy": ".3f"},
    **{"n_agreements": ",.0f", "n_expected": ",.1f", "z": ".1f"},
}
_BARRED = ("posterior", "majority", "similarity", "information")
_SOURCES = (
    "Coverage, overlap and conflict: the shares of all items on which a source votes, others vote, too, and others "
    "vote otherwise. Accuracy is what the model expects, with a 95 % interval that is as right as the model; known "
    "accuracy is by known labels. A source decides an item whose label would be another without it."
)
_PAIRS = (
    "Pairs that agree more often than the labels explain: on how many items, on how many independent sources would, "
    "the difference in standard deviations, and, from one half to 1 for copies, the share of further agreements."
)
_CLASSES = "Shares by the posteriors, and by the majority of items with votes."
_DIFFERENT = (
    "Items whose most probable label is not among those with the most votes, strongest first, and what speaks for it "
    "against the majority: nats, which add up to the log-odds. Where several labels have the most votes and one of "
    "them is the most probable, the two agree."
)
_TO_LABEL = (
    "By how many nats the label of an item is expected to lower the entropies of all labels: its own, and others "
    "through the accuracies of sources that they share."
)
Table: TypeAlias = Mapping[str, NDArray]


def analysis_page(
    summary: Mapping[str, float],
    warnings: Sequence[str],
    tables: Mapping[str, Table],
    why: Callable[[Any], Mapping[str, list[Any]]],
) -> str:
    """The tables of a `VoteAnalysis` as HTML, each under a sentence that says what it holds."""
    shares = {name.replace("_", " "): f"{value:.1%}" for name, value in summary.items() if isinstance(value, float)}
    order = np.argsort(-tables["sources"]["votes"], kind="stable")
    sources = {name: values[order] for name, values in tables["sources"].items()}
    differing = "".join(_disagreements(tables["disagreements"], why))
    return page(
        "Analysis of votes",
        facts({name: f"{value:,}" for name, value in summary.items() if not isinstance(value, float)}),
        facts(shares),
        "".join(f'<p class="broken">{escape(warning)}</p>' for warning in warnings),
        _section("Sources", _SOURCES, _listing(sources, MOST_LINES, "source")),
        _section("Dependent sources", _PAIRS, _listing(tables["dependent_sources"], MOST_ITEMS, "pair")),
        _section("Classes", _CLASSES, _listing(tables["classes"], MOST_LINES, "label")),
        _section("Where the model differs from the majority", _DIFFERENT, differing or _NONE),
        _section("What to label next", _TO_LABEL, _listing(tables["to_label"], MOST_ITEMS, "item")),
    )


def _section(title: str, sentence: str, body: str) -> str:
    return f"<p><strong>{title}</strong></p><p>{sentence}</p>{body}"


def _listing(columns: Table, most: int, noun: str) -> str:
    """The first rows of a table; shares that have an interval with it."""
    shown = {name: values[:most].tolist() for name, values in columns.items()}
    cells = {}
    for name, values in shown.items():
        if name.endswith("accuracy"):
            cells[name] = [*map(_interval, values, shown[f"{name}_low"], shown[f"{name}_high"])]
        elif name in _BARRED:
            cells[name] = _barred(values, _FORMS[name], 1.0 if name != "information" else max(values, default=0.0))
        elif not name.endswith(("_low", "_high")):
            cells[name] = [format(value, _FORMS[name]) for value in values] if name in _FORMS else _names(values)
    rows, n = list(zip(*cells.values(), strict=True)), len(next(iter(columns.values())))
    return (table([name.replace("_", " ") for name in cells], rows) if rows else _NONE) + _left_out(n - most, noun)


def _interval(share: float, low: float, high: float) -> str:
    """A share with its interval; nothing where there are no votes."""
    return "" if share != share else with_bar(f"{share:.1%} ({100 * low:.0f} to {100 * high:.0f})", BLUE, share)


def _names(values: Sequence[Any]) -> list[str]:
    return ["" if value is None else escape(shorten(str(value), 60)) for value in values]


def _barred(values: Sequence[float], form: str, most: float) -> list[str]:
    """Numbers, and bars of them, those below 0 in another colour."""
    return [with_bar(format(v, form), BLUE if v >= 0 else ORANGE, abs(v) / most if most else 0.0) for v in values]


def _left_out(more: int, noun: str) -> str:
    return paragraphs([f"and {counted(more, noun)} more"]) if more > 0 else ""


def _disagreements(disagreements: Table, why: Callable[[Any], Mapping[str, list[Any]]]) -> Iterator[str]:
    shown = {name: values[:MOST_ITEMS].tolist() for name, values in disagreements.items()}
    for number, (item, label, probability, majority, odds) in enumerate(zip(*shown.values(), strict=True)):
        whole = why(item)
        reasons = {name: values[:MOST_LINES] for name, values in whole.items()}
        name, label, majority = _names([item, label, majority])
        title = (
            f"<strong>{name}</strong>: {label}, majority {majority}; probability {probability:.1%}, log-odds {odds:.2f}"
        )
        yield f"<details{' open' * (number < _MOST_OPEN)}><summary>{title}</summary>"
        names = ["shares of the classes", *_names(reasons["name"][1:])]
        nats = _barred(reasons["nats"], "+.2f", max(map(abs, reasons["nats"])))
        yield table(("", "vote", "nats"), zip(names, _names(reasons["vote"]), nats, strict=True))
        yield f"{_left_out(len(whole['nats']) - MOST_LINES, 'reason')}</details>"
    yield _left_out(len(disagreements["item"]) - MOST_ITEMS, "item")
