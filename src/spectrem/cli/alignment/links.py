"""The commands `spectrem evaluate`, `symmetrize` and `lexicon`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from spectrem.cli.declare import Given, argument, files_of, option, takes
from spectrem.cli.ending import say
from spectrem.cli.evaluation import print_result, print_table
from spectrem.cli.files import command_files
from spectrem.cli.options import JsonOption, LoadOption, OutputOption, ProbabilityOptions
from spectrem.cli.rules import check_rules, excludes

if TYPE_CHECKING:
    from spectrem.estimators.alignment.file import LexiconEntry
    from spectrem.metrics import AlignmentScores


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(JsonOption):
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
    with command_files(*files_of(options)):
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


@dataclass(frozen=True, kw_only=True)
class SymmetrizeOptions(OutputOption):
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
        "grow-diag-final-and"
    )


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
    with command_files(*files_of(options)):
        from spectrem.data import read_links, write_pharaoh
        from spectrem.data import symmetrize as merge

        forward = read_links(options.forward)
        write_pharaoh(options.output, merge(forward, read_links(options.backward, forward.n_sentences), options.method))


@dataclass(frozen=True, kw_only=True)
class LexiconOptions(ProbabilityOptions, OutputOption, LoadOption):
    """Arguments and options of `spectrem lexicon`.

    Parameters
    ----------
    min_count
        Leave out entries of fewer expected links. Pairs that met once or twice are often no translations, whatever
        their probability: 2 or 3 leaves most of these out.
    sort
        source: by source words, in the order of the text, the best translations of each first. count: by expected
        links, most first. probability: by the product of both probabilities, largest first.
    output_format
        tsv: probabilities and counts. eflomal: expected counts of links and jumps, which eflomal-align and spectrem
        align read as --priors.
    """

    min_count: float = option(0.0, metavar="N", min=0.0)
    sort: Literal["source", "count", "probability"] = option("source")
    output_format: Literal["tsv", "eflomal"] = option("tsv")


_ORDERS: dict[str, Callable[[LexiconEntry], tuple[float, ...]]] = {
    "count": lambda entry: (-entry.links, -entry.forward * entry.backward),
    "probability": lambda entry: (-entry.forward * entry.backward, -entry.links),
}


@takes(leave=["probabilities"])
def lexicon(options: LexiconOptions, given: Given) -> None:
    """Write the translation table of a saved model as tab-separated values, or as priors for other text.

    Example: **spectrem lexicon --load model.npz --min-count 2 --sort count -o lexicon.tsv**

    Columns: source word, target word, p(target|source), p(source|target), and how
    many links of the pair are expected in the training text. An entry is written
    if either probability reaches --min-probability. Models saved before counts
    were kept have no last column.
    """
    check_rules(_RULES_OF_LEXICON, given)
    with command_files(*files_of(options)):
        from spectrem.data import open_output
        from spectrem.estimators import WordAligner
        from spectrem.estimators.alignment import file

        aligner, least = WordAligner.load(options.load), (options.min_probability, options.min_count)
        with open_output(options.output) as lines:
            if options.output_format == "eflomal":
                lines.writelines(f"{line}\n" for line in file.list_priors(aligner, *least))
                return
            has_counts = aligner.params_.forward.totals is not None
            if has_counts or options.sort == "count" or options.min_count > 0:
                entries: Iterable[LexiconEntry] = file.list_entries(aligner, *least)
            else:
                say("the model was saved before expected links were kept, so the column count is left out")
                entries = (file.LexiconEntry(*entry, 0.0) for entry in aligner.lexicon(options.min_probability))
            if options.sort != "source":
                entries = sorted(entries, key=_ORDERS[options.sort])
            else:
                groups = (group for _, group in groupby(entries, key=attrgetter("source")))
                entries = chain.from_iterable(
                    sorted(group, key=lambda entry: (-entry.forward, -entry.backward)) for group in groups
                )
            lines.write("source\ttarget\tp(target|source)\tp(source|target)" + "\tcount" * has_counts + "\n")
            for source, target, forward, backward, links in entries:
                count = f"\t{links:.4g}" if links < 1000 else f"\t{links:.0f}"
                lines.write(f"{source}\t{target}\t{forward:.4g}\t{backward:.4g}{count * has_counts}\n")


_RULES_OF_LEXICON = (
    excludes(
        "--sort", "--output-format eflomal", "{--sort} changes nothing of priors, whose lines have no order; drop it"
    ),
)
