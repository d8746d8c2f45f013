"""`spectrem extract train`, `predict` and `evaluate`."""

from __future__ import annotations

import typer

from spectrem.cli.extraction.evaluate import evaluate
from spectrem.cli.extraction.predict import predict
from spectrem.cli.extraction.train import train

app = typer.Typer(
    help="Find types of mentions of entities and relations between them: learn both together, apply them, judge them.",
    no_args_is_help=True,
)
app.command()(train)
app.command()(predict)
app.command()(evaluate)
