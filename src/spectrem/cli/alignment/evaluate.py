"""`spectrem evaluate`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from spectrem.cli.ending import STANDARD_OUTPUT
from spectrem.cli.evaluation import print_table
from spectrem.cli.files import command_files

if TYPE_CHECKING:
    from spectrem.metrics import AlignmentScores


def evaluate(
    align: Annotated[
        str,
        typer.Argument(metavar="ALIGN", help="Alignment to judge, as written by spectrem align; - is standard input."),
    ],
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Alignment made by hand, in one of the formats below.")],
    alpha: Annotated[
        float,
        typer.Option(
            "--alpha", min=0.0, max=1.0, help="Weight of precision in F, the rest is recall's; 0.5 is balanced."
        ),
    ] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Compare an alignment with one made by hand.

    Example: **spectrem evaluate links.txt gold.wa**

    AER, the alignment error rate, is 0 at best and 1 at worst. Precision is the
    share of predicted links that are right, recall the share of sure gold links
    that were found. Gold links are sure (S) or only possible (P): to predict a
    possible link, or to leave it out, costs nothing.

    Formats, recognised by their first line: Pharaoh, a line per sentence pair of
    i-j (sure) and i?j (possible), words counted from 0; or that of the 2003 and
    2005 shared tasks (.wa), a line per link of 'sentence source target S|P', all
    counted from 1; or JSON as of spectrem align --format json.
    """
    with command_files({"ALIGN": align, "GOLD": gold}, {STANDARD_OUTPUT: "-"}):
        from spectrem.data import read_both_links
        from spectrem.metrics import alignment_scores

        scores = alignment_scores(*read_both_links(align, gold), alpha=alpha)
        if as_json:
            import json

            typer.echo(json.dumps(asdict(scores) | {"alpha": alpha}))
        else:
            _print_table(scores, alpha)


def _print_table(scores: AlignmentScores, alpha: float) -> None:
    from rich.table import Table

    table = Table("AER", "precision", "recall", f"F({alpha:g})", "predicted", "sure", "possible")
    table.add_row(
        f"{scores.aer:.4f}",
        f"{scores.precision:.4f}",
        f"{scores.recall:.4f}",
        f"{scores.f_measure:.4f}",
        f"{scores.n_predicted}",
        f"{scores.n_sure}",
        f"{scores.n_possible}",
    )
    print_table(table)
