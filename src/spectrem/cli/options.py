"""Arguments and options that several commands share, and the choices some of them offer."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

import typer


class ModelName(StrEnum):
    IBM1 = "ibm1"
    IBM2 = "ibm2"
    HMM = "hmm"


class ConstraintName(StrEnum):
    NONE = "none"
    AGREEMENT = "agreement"
    FERTILITY = "fertility"


class DecodeName(StrEnum):
    POSTERIOR = "posterior"
    VITERBI = "viterbi"
    FORWARD = "forward"
    BACKWARD = "backward"
    INTERSECTION = "intersection"
    UNION = "union"
    GROW_DIAG_FINAL_AND = "grow-diag-final-and"


class MethodName(StrEnum):
    INTERSECTION = "intersection"
    UNION = "union"
    GROW_DIAG = "grow-diag"
    GROW_DIAG_FINAL = "grow-diag-final"
    GROW_DIAG_FINAL_AND = "grow-diag-final-and"


def as_threshold(text: str) -> float | Literal["auto"]:
    """The value of --threshold: auto, or a probability."""
    if text == "auto":
        return "auto"
    try:
        threshold = float(text)
    except ValueError:
        threshold = math.nan
    if not 0 <= threshold <= 1:
        raise typer.BadParameter(f"{text!r} is neither auto nor a number in [0, 1]", param_hint="'--threshold'")
    return threshold


Output: TypeAlias = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write; gzipped if the name ends in .gz, - is standard output. The file appears once complete.",
    ),
]
MinProbability: TypeAlias = Annotated[
    float,
    typer.Option("--min-probability", min=0.0, max=1.0, metavar="P", help="Leave out entries below this probability."),
]
Seed: TypeAlias = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same bitext.")]
