"""`spectrem parse train`, `predict`, `evaluate` and `transfer`."""

from __future__ import annotations

import typer

from spectrem.cli.parsing.evaluate import evaluate
from spectrem.cli.parsing.predict import predict
from spectrem.cli.parsing.train import train
from spectrem.cli.parsing.transfer import transfer

app = typer.Typer(
    help="Find the heads of words: learn a parser from trees, or a grammar from tags alone, apply it, judge it.",
    no_args_is_help=True,
)
app.command()(train)
app.command()(predict)
app.command()(evaluate)
app.command()(transfer)
