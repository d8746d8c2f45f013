"""`spectrem extract evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectrem.cli.ending import STANDARD_OUTPUT
from spectrem.cli.evaluation import check_same_text, json_number, print_table
from spectrem.cli.files import command_files

if TYPE_CHECKING:
    from spectrem.metrics import LabelScores

_NAMES = ("precision", "recall", "f1")


def evaluate(
    gold: Annotated[
        str,
        typer.Argument(
            metavar="GOLD", help="Sentences labelled by hand, in the format of CoNLL04; labels _ do not count."
        ),
    ],
    predicted: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTED",
            help="The same sentences as labelled by spectrem extract predict; - is standard input.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Compare types and relations with those given by hand: precision, recall and F1 of each.

    Example: **spectrem extract evaluate gold.corp found.corp**

    A relation is right if both mentions and their order are, whatever their types.
    """
    with command_files({"GOLD": gold, "PREDICTED": predicted}, {STANDARD_OUTPUT: "-"}):
        from spectrem.data import read_relations
        from spectrem.metrics import relation_scores

        truth, guess = read_relations(gold), read_relations(predicted)
        check_same_text((gold, predicted), ([one.words for one in truth], [one.words for one in guess]))
        scores = relation_scores(guess, truth)
        if as_json:
            import json

            typer.echo(json.dumps({kind: _as_json(own) for kind, own in scores._asdict().items()}))
        else:
            _print_table(scores._asdict())


def _as_json(scores: LabelScores) -> dict[str, Any]:
    total = {name: json_number(getattr(scores.total, name)) for name in _NAMES}
    by_label = {
        label: {"n": own.n_gold, **{name: json_number(getattr(own, name)) for name in _NAMES}}
        for label, own in scores.by_label.items()
    }
    return {"n": scores.total.n_gold, **total, "macro_f1": json_number(scores.macro_f1), "by_label": by_label}


def _print_table(scores: dict[str, LabelScores]) -> None:
    from rich.table import Table

    table = Table("", "gold", *_NAMES)
    for column in table.columns[1:]:
        column.justify = "right"
    for kind, own in scores.items():
        table.add_row(f"{kind}, mean of labels", "", "", "", _cell(own.macro_f1))
        for label, counts in [("all", own.total), *own.by_label.items()]:
            table.add_row(f"  {label}", str(counts.n_gold), *(_cell(getattr(counts, name)) for name in _NAMES))
    print_table(table)


def _cell(value: float) -> str:
    return "–" if value != value else f"{value:.4f}"  # noqa: RUF001 -- a dash
