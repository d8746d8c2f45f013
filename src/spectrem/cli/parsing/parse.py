"""`spectrem parse train`, `predict` and `evaluate`."""

from __future__ import annotations

import typer

from spectrem.cli.parsing.evaluate import evaluate
from spectrem.cli.parsing.predict import predict
from spectrem.cli.parsing.train import train

app = typer.Typer(
    help="Find the heads of words: learn a parser from trees, or a grammar from tags alone, apply it, judge it.",
    no_args_is_help=True,
)
app.command()(train)
app.command()(predict)
app.command()(evaluate)
