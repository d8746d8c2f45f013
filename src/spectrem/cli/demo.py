"""`spectrem demo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from spectrem.cli.declare import option, takes
from spectrem.cli.ending import STANDARD_OUTPUT
from spectrem.cli.evaluation import print_table
from spectrem.cli.files import command_files
from spectrem.exceptions import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spectrem.datasets import GeneratedBitext
    from spectrem.metrics import AlignmentScores

# Title, what it does, and the parameters of WordAligner that make it.
_METHODS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("EM", "no constraints", {"constraints": (), "gamma": 1.0}),
    ("PR", "agreement", {"constraints": ("agreement",), "gamma": 1.0}),
    ("UEM", "agreement", {"constraints": ("agreement",), "gamma": 0.5}),
)
_GAMMA = "γ"  # noqa: RUF001 -- not a y
_LONGEST = 8  # words of the sentence shown, so that three matrices stand side by side


@dataclass(frozen=True)
class _Outcome:
    title: str
    constraints: str
    gamma: float
    scores: AlignmentScores
    posteriors: list[NDArray[np.float64]]


@dataclass(frozen=True)
class DemoOptions:
    """Options of `spectrem demo`.

    Parameters
    ----------
    random_state
        The same number gives the same bitext.
    n_pairs
        Sentence pairs to generate; with more, all methods get better.
    plot
        Draw the matrices there too, as .png, .svg or .pdf; needs matplotlib (pip install 'spectrem[plot]').
    """

    random_state: int = option(0, min=0, max=2**32 - 1, metavar="N")
    n_pairs: int = option(300, min=50, metavar="N")
    plot: str | None = option(None, metavar="FILE")


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


def _compare(random_state: int, pairs: int, plot: str | None) -> None:
    from spectrem.datasets import make_bitext

    bitext = make_bitext(pairs, seed=random_state)
    outcomes = [_align(bitext, *method) for method in _METHODS]
    _print_table(outcomes, pairs)
    number = _telling_sentence(bitext, outcomes)
    matrices = {f"{outcome.title} ({_GAMMA} = {outcome.gamma:g})": outcome.posteriors[number] for outcome in outcomes}
    sentence = bitext.source[number].split(), bitext.target[number].split(), bitext.links.pairs(number)
    from spectrem.cli.drawing import draw_matrices

    typer.echo(
        f"\nLink probabilities of sentence pair {number + 1}, mean of both directions; [ ] marks the true links:\n"
    )
    typer.echo(draw_matrices(matrices, *sentence))
    if plot is not None:
        from spectrem.plotting.posteriors import plot_posteriors, save_figure

        save_figure(plot_posteriors(matrices, *sentence), plot)
        typer.echo(f"\ndrawn to {printable(plot)}")


def _align(bitext: GeneratedBitext, title: str, constraints: str, settings: dict[str, Any]) -> _Outcome:
    from spectrem.estimators import WordAligner
    from spectrem.metrics import alignment_scores

    aligner = WordAligner(**settings).fit(bitext.source, bitext.target)
    scores = alignment_scores(aligner.predict(bitext.source, bitext.target), bitext.links)
    posteriors = aligner.predict_proba(bitext.source, bitext.target).average
    return _Outcome(title, constraints, settings["gamma"], scores, posteriors)


def _print_table(outcomes: list[_Outcome], n_pairs: int) -> None:
    from rich.table import Table

    table = Table(title=f"{n_pairs} generated sentence pairs, HMM alignment", title_justify="left")
    for column in ("method", "constraints", _GAMMA, "AER", "precision", "recall"):
        table.add_column(column, justify="left" if column in ("method", "constraints") else "right")
    for one in outcomes:
        scores = (one.scores.aer, one.scores.precision, one.scores.recall)
        table.add_row(one.title, one.constraints, f"{one.gamma:g}", *(f"{score:.3f}" for score in scores))
    print_table(table)


def _telling_sentence(bitext: GeneratedBitext, outcomes: list[_Outcome]) -> int:
    """A short sentence pair where EM is far from the true links, UEM near, and PR between them."""
    import numpy as np

    def errors(number: int) -> tuple[float, float, float]:
        gold = np.zeros_like(outcomes[0].posteriors[number])
        for link in bitext.links.pairs(number):
            gold[link] = 1.0
        em, pr, uem = (float(np.abs(outcome.posteriors[number] - gold).sum()) for outcome in outcomes)
        return em, pr, uem

    def gain(number: int) -> float:
        em, pr, uem = errors(number)
        return min(em - pr, 2 * (pr - uem)) - 0.5 * uem

    short = [
        number
        for number, posterior in enumerate(outcomes[0].posteriors)
        if min(posterior.shape) >= 4 and max(posterior.shape) <= _LONGEST
    ]
    return max(short, key=gain)
