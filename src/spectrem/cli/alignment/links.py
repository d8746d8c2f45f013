"""The commands `spectrem evaluate`, `symmetrize` and `lexicon`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

from spectrem.cli.declare import argument, option, takes
from spectrem.cli.ending import STANDARD_OUTPUT
from spectrem.cli.evaluation import print_result, print_table
from spectrem.cli.files import command_files
from spectrem.cli.options import LEAST_PROBABILITY, Json, MinProbability, Output

if TYPE_CHECKING:
    from spectrem.metrics import AlignmentScores


@dataclass(frozen=True)
class EvaluationOptions:
    """Arguments and options of `spectrem evaluate`.

    Parameters
    ----------
    align
        Alignment to judge, as written by spectrem align; - is standard input.
    gold
        Alignment made by hand, in one of the formats below.
    alpha
        Weight of precision in F, the rest is recall's; 0.5 is balanced.
    """

    align: str = argument("ALIGN")
    gold: str = argument("GOLD")
    alpha: float = option(0.5, min=0.0, max=1.0)
    as_json: Json = False


@takes()
def evaluate(options: EvaluationOptions) -> None:
    """Compare an alignment with one made by hand.

    Example: **spectrem evaluate links.txt gold.wa**

    AER, the alignment error rate, is 0 at best and 1 at worst. Precision is the
    share of predicted links that are right, recall the share of sure gold links
    that were found. Gold links are sure (S) or only possible (P): to predict a
    possible link, or to leave it out, costs nothing.

    Formats, recognised by their first line: Pharaoh, a line per sentence pair of
    i-j (sure) and i?j (possible), words counted from 0; or that of the 2003 and
    2005 shared tasks (.wa), a line per link of 'sentence source target S|P', all
    counted from 1; or JSON as of spectrem align --output-format json.
    """
    with command_files({"ALIGN": options.align, "GOLD": options.gold}, {STANDARD_OUTPUT: "-"}):
        from spectrem.data import read_both_links
        from spectrem.metrics import alignment_scores

        scores = alignment_scores(*read_both_links(options.align, options.gold), alpha=options.alpha)
        result = asdict(scores) | {"alpha": options.alpha}
        print_result(result, options.as_json, lambda: _print_table(scores, options.alpha))


def _print_table(scores: AlignmentScores, alpha: float) -> None:
    from rich.table import Table

    table = Table("AER", "precision", "recall", f"F({alpha:g})", "predicted", "sure", "possible")
    shares = (scores.aer, scores.precision, scores.recall, scores.f_measure)
    counts = (scores.n_predicted, scores.n_sure, scores.n_possible)
    table.add_row(*(f"{share:.4f}" for share in shares), *map(str, counts))
    print_table(table)


@dataclass(frozen=True)
class SymmetrizeOptions:
    """Arguments and options of `spectrem symmetrize`.

    Parameters
    ----------
    forward
        Links where every target word chose a source word.
    backward
        Links where every source word chose a target word.
    method
        One of intersection, union, grow-diag, grow-diag-final, grow-diag-final-and.
    """

    forward: str = argument("FORWARD")
    backward: str = argument("BACKWARD")
    method: Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"] = option(
        "grow-diag-final-and", metavar="NAME"
    )
    output: Output = "-"


@takes()
def symmetrize(options: SymmetrizeOptions) -> None:
    """Merge the alignments of two directions into one.

    Example: **spectrem symmetrize forward.txt backward.txt -o links.txt**

    Both files hold one line per sentence pair, links written source-target in
    both, or JSON as of spectrem align --output-format json. intersection keeps the links
    of both (precise), union those of either (complete). The grow methods start from
    the intersection and add links of the union next to those already there; final
    then adds links of words that have none yet, final-and only links of two such
    words.
    """
    with command_files({"FORWARD": options.forward, "BACKWARD": options.backward}, {"--output": options.output}):
        from spectrem.data import read_links, write_pharaoh
        from spectrem.data import symmetrize as merge

        forward = read_links(options.forward)
        write_pharaoh(options.output, merge(forward, read_links(options.backward, forward.n_sentences), options.method))


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
    min_probability: MinProbability = LEAST_PROBABILITY
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
        with open_output(options.output) as lines:
            if options.output_format == "eflomal":
                from spectrem.estimators.alignment.file import list_priors

                lines.writelines(f"{line}\n" for line in list_priors(aligner, options.min_probability))
                return
            entries = aligner.lexicon(options.min_probability)
            lines.write("source\ttarget\tp(target|source)\tp(source|target)\n")
            for _, group in groupby(entries, key=itemgetter(0)):
                for source, target, forward, backward in sorted(group, key=lambda entry: (-entry[2], -entry[3])):
                    lines.write(f"{source}\t{target}\t{forward:.4g}\t{backward:.4g}\n")
