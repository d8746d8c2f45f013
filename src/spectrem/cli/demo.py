"""`spectrem demo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from spectrem.cli.declare import option, takes
from spectrem.cli.ending import STANDARD_OUTPUT, progress_bar
from spectrem.cli.evaluation import print_table
from spectrem.cli.files import command_files
from spectrem.cli.options import PlotOption
from spectrem.exceptions import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spectrem._arrays import Floats
    from spectrem.data import Links
    from spectrem.metrics import AlignmentScores

# Title, what it does, and the parameters of WordAligner that make it.
_METHODS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("EM", "no constraints", {"constraints": (), "gamma": 1.0}),
    ("PR", "agreement", {"constraints": ("agreement",), "gamma": 1.0}),
    ("UEM", "agreement", {"constraints": ("agreement",), "gamma": 0.5}),
)
_GAMMA = "γ"  # noqa: RUF001 -- not a y
_LONGEST = 8  # words of the sentence shown, so that three matrices stand side by side


@dataclass(frozen=True, kw_only=True)
class DemoOptions(PlotOption):
    """Options of `spectrem demo`.

    Parameters
    ----------
    random_state
        The same number gives the same result.
    n_pairs
        Sentence pairs to generate; with more, all methods get better.
    plot
        It shows the matrices that are printed.
    """

    random_state: int = option(0, min=0, max=2**32 - 1, metavar="N")
    n_pairs: int = option(300, min=50, metavar="N")


@takes()
def demo(options: DemoOptions) -> None:
    """Compare EM, posterior regularisation and unified EM on a generated bitext.

    Example: **spectrem demo --plot demo.png**

    The bitext is made up, so its true links are known: the table shows how far
    each method is from them. Then the link probabilities of one sentence pair
    are drawn, one where the difference is plain to see. EM trains each direction
    alone; PR makes both directions agree on every link; UEM does so with sharper
    posteriors (gamma below 1).
    """
    with command_files({}, {STANDARD_OUTPUT: "-", "--plot": options.plot}):
        _compare(options.random_state, options.n_pairs, options.plot)


def _compare(random_state: int, n_pairs: int, plot: str | None) -> None:
    from spectrem.cli.drawing import draw_matrices
    from spectrem.datasets import make_bitext
    from spectrem.estimators import WordAligner
    from spectrem.metrics import alignment_scores

    bitext = make_bitext(n_pairs, seed=random_state)
    aligners = []
    with progress_bar(len(_METHODS), shown=True) as bar:
        for title, _, settings in _METHODS:
            bar(title)
            aligners.append(WordAligner(**settings).fit(bitext.source, bitext.target))
            bar(title, 1.0)
    predictions = [aligner.predict(bitext.source, bitext.target) for aligner in aligners]
    _print_table([alignment_scores(predicted, bitext.links) for predicted in predictions], n_pairs)
    posteriors = [aligner.predict_proba(bitext.source, bitext.target).average for aligner in aligners]
    number = _telling_sentence(bitext.links, posteriors)
    titles = [f"{title} ({_GAMMA} = {settings['gamma']:g})" for title, _, settings in _METHODS]
    matrices = {title: tables[number] for title, tables in zip(titles, posteriors, strict=True)}
    sentence = bitext.source[number].split(), bitext.target[number].split(), bitext.links.pairs(number)
    typer.echo(
        f"\nLink probabilities of sentence pair {number + 1}, mean of both directions; [ ] marks the true links:\n"
    )
    typer.echo(draw_matrices(matrices, *sentence))
    if plot is not None:
        from spectrem.plotting.posteriors import plot_posteriors, save_figure

        save_figure(plot_posteriors(matrices, *sentence), plot)
        typer.echo(f"\ndrawn to {printable(plot)}")


def _print_table(scores: Sequence[AlignmentScores], n_pairs: int) -> None:
    from rich.table import Table

    table = Table(title=f"{n_pairs} generated sentence pairs, HMM alignment", title_justify="left")
    for column in ("method", "constraints", _GAMMA, "AER", "precision", "recall"):
        table.add_column(column, justify="left" if column in ("method", "constraints") else "right")
    for (title, constraints, settings), one in zip(_METHODS, scores, strict=True):
        numbers = (f"{score:.3f}" for score in (one.aer, one.precision, one.recall))
        table.add_row(title, constraints, f"{settings['gamma']:g}", *numbers)
    print_table(table)


def _telling_sentence(links: Links, posteriors: Sequence[Sequence[Floats]]) -> int:
    """A short sentence pair where EM is far from the true links, UEM near, and PR between them."""
    import numpy as np

    def gain(number: int) -> float:
        gold = np.zeros_like(posteriors[0][number])
        for link in links.pairs(number):
            gold[link] = 1.0
        em, pr, uem = (float(np.abs(tables[number] - gold).sum()) for tables in posteriors)
        return min(em - pr, 2 * (pr - uem)) - 0.5 * uem

    shapes = [table.shape for table in posteriors[0]]
    return max((k for k, shape in enumerate(shapes) if min(shape) >= 4 and max(shape) <= _LONGEST), key=gain)
