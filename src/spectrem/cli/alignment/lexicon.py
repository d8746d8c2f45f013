"""`spectrem lexicon`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Literal

from spectrem.cli.declare import argument, option, takes
from spectrem.cli.files import command_files
from spectrem.cli.options import LEAST_PROBABILITY, MinProbability, Output


@dataclass(frozen=True)
class LexiconOptions:
    """Arguments and options of `spectrem lexicon`.

    Parameters
    ----------
    model
        A model written by spectrem align --save.
    output_format
        tsv: probabilities. eflomal: expected counts of links and jumps, which eflomal-align and spectrem align read
        as --priors.
    """

    model: str = argument("MODEL")
    output: Output = "-"
    min_probability: MinProbability = None
    output_format: Literal["tsv", "eflomal"] = option("tsv")


@takes()
def lexicon(options: LexiconOptions) -> None:
    """Write the translation table of a saved model as tab-separated values, or as priors for other text.

    Example: **spectrem lexicon model.npz -o lexicon.tsv**

    Columns: source word, target word, p(target|source), p(source|target); the
    best translations of every source word come first. An entry is written if
    either probability reaches --min-probability.
    """
    with command_files({"MODEL": options.model}, {"--output": options.output}):
        from spectrem.data import open_output
        from spectrem.estimators import WordAligner

        aligner = WordAligner.load(options.model)
        least = LEAST_PROBABILITY if options.min_probability is None else options.min_probability
        with open_output(options.output) as lines:
            if options.output_format == "eflomal":
                from spectrem.estimators.alignment.file import list_priors

                lines.writelines(f"{line}\n" for line in list_priors(aligner, least))
                return
            entries = aligner.lexicon(least)
            lines.write("source\ttarget\tp(target|source)\tp(source|target)\n")
            for _, group in groupby(entries, key=itemgetter(0)):
                for source, target, forward, backward in sorted(group, key=lambda entry: (-entry[2], -entry[3])):
                    lines.write(f"{source}\t{target}\t{forward:.4g}\t{backward:.4g}\n")
