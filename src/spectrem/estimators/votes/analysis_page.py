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
"""Items that are shown of each list."""

_MOST_OPEN = 3
_SOURCES = (
    "<p><strong>Sources</strong></p><p>Coverage, overlap and conflict: the shares of all items on which a source "
    "votes, others vote, too, and others vote otherwise. Accuracy is what the model expects, with a 95 % interval that "
    "is as right as the model. A source decides an item whose label would be another without it.</p>"
)
_PAIRS = (
    "<p><strong>Dependent sources</strong></p><p>Pairs that agree more often than the labels explain: on how many "
    "items, on how many independent sources would, the difference in standard deviations, and from one half to 1 for "
    "copies what share of further agreements is there.</p>"
)
_CLASSES = "<p><strong>Classes</strong></p><p>Shares by the posteriors, and by the majority of items with votes.</p>"
_DISAGREEMENTS = (
    "<p><strong>Where the model differs from the majority</strong></p><p>Items whose most probable label is not among "
    "those with the most votes, strongest first, and what speaks for it against the majority: nats, which add up to "
    "the log-odds. Where several labels have the most votes and one of them is the most probable, the two agree.</p>"
)
_TO_LABEL = (
    "<p><strong>What to label next</strong></p><p>By how many nats the label of an item is expected to lower the "
    "entropies of all labels: its own, and others through the accuracies of sources that they share.</p>"
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
    most = np.argsort(-tables["sources"]["votes"], kind="stable")[:MOST_LINES]
    sources = {name: values[most].tolist() for name, values in tables["sources"].items()}
    first, pairs = (
        {name: values[:MOST_ITEMS].tolist() for name, values in tables[one].items()}
        for one in ("to_label", "dependent_sources")
    )
    classes = {name: values.tolist() for name, values in tables["classes"].items()}
    known = {}
    if "known" in sources:
        known = {
            "accuracy, known labels": _intervals(sources, "known_accuracy", "known"),
            "known labels": _texts(sources["known"], ","),
        }
    return page(
        "Analysis of votes",
        facts({name: f"{value:,}" for name, value in summary.items() if not isinstance(value, float)}),
        facts(shares),
        "".join(f'<p class="broken">{escape(warning)}</p>' for warning in warnings),
        _SOURCES,
        _listing({
            **{"": _names(sources["source"]), "votes": _texts(sources["votes"], ",")},
            **{name: _texts(sources[name], ".1%") for name in ("coverage", "overlap", "conflict")},
            **{"labels": _names(sources["labels"]), "accuracy": _intervals(sources, "accuracy", "accuracy")},
            **{**known, "decides": _texts(sources["decides"], ",")},
        }),
        _left_out(len(tables["sources"]["votes"]) - MOST_LINES, "source"),
        _PAIRS,
        _listing({
            **{"": _names(pairs["first"]), "and": _names(pairs["second"])},
            **{"agree": _texts(pairs["n_agreements"], ",.0f"), "expected": _texts(pairs["n_expected"], ",.1f")},
            **{"z": _texts(pairs["z"], ".1f"), "similarity": _barred(pairs["similarity"], ".2f", 1.0)},
        }),
        _left_out(len(tables["dependent_sources"]["z"]) - MOST_ITEMS, "pair"),
        _CLASSES,
        _listing({
            "": _names(classes["class"]),
            **{name: _barred(classes[name], ".1%", 1.0) for name in ("posterior", "majority")},
        }),
        _DISAGREEMENTS,
        *_disagreements(tables["disagreements"], why),
        _TO_LABEL,
        _listing({
            "": _names(first["item"]),
            "information, nats": _barred(first["information"], ".3f", max(first["information"], default=0.0)),
            **{"its own entropy": _texts(first["entropy"], ".3f"), "most probable label": _names(first["label"])},
            "probability": _texts(first["probability"], ".1%"),
        }),
        _left_out(len(tables["to_label"]["item"]) - MOST_ITEMS, "item"),
    )  # fmt: skip


def _listing(columns: Mapping[str, list[str]]) -> str:
    rows = list(zip(*columns.values(), strict=True))
    return table(list(columns), rows) if rows else paragraphs(["There are none."])


def _texts(values: Sequence[Any], form: str) -> list[str]:
    return [format(value, form) for value in values]


def _names(values: Sequence[Any]) -> list[str]:
    return ["" if value is None else escape(shorten(str(value), 60)) for value in values]


def _barred(values: Sequence[float], form: str, most: float) -> list[str]:
    """Numbers, and bars of them, those below 0 in another colour."""
    shares = (abs(value) / most if most else 0.0 for value in values)
    colours = (BLUE if value >= 0 else ORANGE for value in values)
    return [with_bar(*one) for one in zip(_texts(values, form), colours, shares, strict=True)]


def _intervals(sources: Mapping[str, list[float]], name: str, limits: str) -> list[str]:
    """Shares with their intervals; nothing where there are no votes."""
    three = zip(sources[name], sources[f"{limits}_low"], sources[f"{limits}_high"], strict=True)
    return [
        "" if np.isnan(share) else with_bar(f"{share:.1%} ({100 * low:.0f} to {100 * high:.0f})", BLUE, share)
        for share, low, high in three
    ]


def _left_out(more: int, noun: str) -> str:
    return paragraphs([f"and {counted(more, noun)} more"]) if more > 0 else ""


def _disagreements(disagreements: Table, why: Callable[[Any], Mapping[str, list[Any]]]) -> Iterator[str]:
    shown = {name: values[:MOST_ITEMS].tolist() for name, values in disagreements.items()}
    if not shown["item"]:
        yield paragraphs(["There are none."])
    for number, (item, label, probability, majority, odds) in enumerate(zip(*shown.values(), strict=True)):
        whole = why(item)
        reasons = {name: values[:MOST_LINES] for name, values in whole.items()}
        name, label, majority = _names([item, label, majority])
        title = (
            f"<strong>{name}</strong>: {label}, majority {majority}; probability {probability:.1%}, log-odds {odds:.2f}"
        )
        yield f"<details{' open' * (number < _MOST_OPEN)}><summary>{title}</summary>"
        yield _listing({
            "": ["shares of the classes", *_names(reasons["name"][1:])],
            "vote": _names(reasons["vote"]),
            "nats": _barred(reasons["nats"], "+.2f", max(map(abs, reasons["nats"]))),
        })  # fmt: skip
        yield f"{_left_out(len(whole['nats']) - MOST_LINES, 'reason')}</details>"
    yield _left_out(len(disagreements["item"]) - MOST_ITEMS, "item")
