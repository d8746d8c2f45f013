"""`spectrem evaluate`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from spectrem.cli.declare import argument, option, takes
from spectrem.cli.ending import STANDARD_OUTPUT
from spectrem.cli.evaluation import print_result, print_table
from spectrem.cli.files import command_files
from spectrem.cli.options import Json

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
