"""`spectrem lexicon`."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Annotated, Literal

import typer

from spectrem.cli.files import command_files
from spectrem.cli.options import LEAST_PROBABILITY, MinProbability, Output


def lexicon(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model written by spectrem align --save.")],
    output: Output = "-",
    min_probability: MinProbability = None,
    format: Annotated[
        Literal["tsv", "eflomal"],
        typer.Option(
            "--format",
            help="tsv: probabilities. eflomal: expected counts of links and jumps, which eflomal-align and "
            "spectrem align read as --priors.",
        ),
    ] = "tsv",
) -> None:
    """Write the translation table of a saved model as tab-separated values, or as priors for other text.

    Example: **spectrem lexicon model.npz -o lexicon.tsv**

    Columns: source word, target word, p(target|source), p(source|target); the
    best translations of every source word come first. An entry is written if
    either probability reaches --min-probability.
    """
    with command_files({"MODEL": model}, {"--output": output}):
        from spectrem.data import open_output
        from spectrem.estimators import WordAligner

        aligner = WordAligner.load(model)
        least = LEAST_PROBABILITY if min_probability is None else min_probability
        with open_output(output) as lines:
            if format == "eflomal":
                from spectrem.estimators.alignment.file import list_priors

                lines.writelines(f"{line}\n" for line in list_priors(aligner, least))
                return
            entries = aligner.lexicon(least)
            lines.write("source\ttarget\tp(target|source)\tp(source|target)\n")
            for _, group in groupby(entries, key=itemgetter(0)):
                for source, target, forward, backward in sorted(group, key=lambda entry: (-entry[2], -entry[3])):
                    lines.write(f"{source}\t{target}\t{forward:.4g}\t{backward:.4g}\n")
