"""`spectrem tag train`, `predict` and `evaluate`."""

from __future__ import annotations

import typer

from spectrem.cli.tagging.evaluate import evaluate
from spectrem.cli.tagging.predict import predict
from spectrem.cli.tagging.train import train

app = typer.Typer(
    help="Tag words, with parts of speech or chunks: learn a hidden Markov model or a conditional random field, apply "
    "it, judge it.",
    no_args_is_help=True,
)
app.command()(train)
app.command()(predict)
app.command()(evaluate)
