"""[Samdani2012] figure 1: the best gamma of unified EM by the quality of its start, tagging with a dictionary.

* The curves stand in the paper's figure only, so none of their numbers stand beside ours.
* Gamma 0 is hard EM: ties go to the lowest tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.records import group, where
from reproductions.report import Report, Table, bullets, listing, tell
from reproductions.tagging.corpora import first_tokens, flat, read_penn, read_penn_dictionary, take
from reproductions.tagging.training import all_tags, as_text
from spectrem.data import TaggedCorpus
from spectrem.estimators import HMMTagger
from spectrem.exceptions import InvalidInputError
from spectrem.plotting import Line, Panel, draw_panels

QUICK = {"n_tokens": 2_000, "gammas": (0.0, 0.5, 1.0), "labelled": (5, 20), "draws": 2}
SMOOTHING = 0.1
POSTERIOR_UNIFORM = "posterior-uniform"
PUBLISHED = (84.9, 72.3)
"""Percent right of all and of ambiguous tokens: EM from the posterior-uniform start."""


class Point(NamedTuple):
    """One training by one gamma from one start; draw is None where the start has no labelled sentences."""

    labelled: int
    draw: int | None
    gamma: float
    accuracy: float
    ambiguous: float
    start_ambiguous: float | None
    e_steps: int


def run(
    data: Path | None = None,
    *,
    n_tokens: int = 24_115,
    gammas: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    labelled: Sequence[int] = (5, 10, 20, 40, 80),
    draws: int = 5,
    max_iter: int = 300,
    threads: int | None = None,
) -> Report:
    """Train a bigram tagger by every gamma from the posterior-uniform start and from few labelled sentences.

    Parameters
    ----------
    data : path, optional
        See `read_penn`.
    n_tokens : int
        Unlabelled, from the start of the Penn sample; labelled sentences come from the rest.
    gammas : sequence of float
        1 must be among them.
    labelled : sequence of int
        Numbers of labelled sentences, increasing.
    draws : int
        Of labelled sentences, for each number.
    max_iter : int
        At most, for each training.
    threads : int, optional
    """
    if 1.0 not in gammas:
        raise InvalidInputError(f"gammas must hold 1, with which others are compared, got {list(gammas)}")
    corpus, dictionary = read_penn(data), read_penn_dictionary(data)
    text = as_text(first_tokens(corpus, n_tokens), dictionary)
    held_out = take(corpus, range(len(text.words), len(corpus.words)))
    if not labelled or max(labelled) > len(held_out.words):
        raise InvalidInputError(
            f"labelled must not exceed the {len(held_out.words):,} sentences after the first {n_tokens:,} tokens, got "
            f"{list(labelled)}; ask for fewer labelled sentences, or fewer tokens"
        )
    settings: dict[str, Any] = {
        "dictionary": dictionary,
        "tags": all_tags(dictionary),
        "vocabulary": sorted(set(flat(text.words))),
        "decode": "viterbi",
        "n_threads": threads,
    }
    starts: list[tuple[int, int | None, Any]] = [(0, None, POSTERIOR_UNIFORM)]
    starts += [(k, draw, _labelled_start(held_out, k, draw, settings)) for k in labelled for draw in range(draws)]
    points: list[Point] = []
    for k, draw, start in starts:
        before = None if draw is None else text.accuracy(start.predict(text.words)).ambiguous
        own = []
        for gamma in gammas:
            tagger = HMMTagger(**settings, init=start, gamma=gamma, max_iter=max_iter).fit(text.words)
            right = text.accuracy(tagger.predict(text.words))
            own.append(Point(k, draw, gamma, *right, before, tagger.n_iter_))
        tell(_spelled(own))
        points += own
    found = curves(points)
    return Report(
        title=f"[Samdani2012] figure 1: unified EM by gamma and start, bigram tagger, first {text.n_tokens:,} words of "
        f"the Penn sample, mean of {draws} draws",
        tables=[_em(points), _relative(found), _best(found)],
        numbers=listing(points),
        figure=_figure(found),
        claims=claims(found),
        notes=[
            *bullets(__doc__),
            f"Text: {text.n_tokens:,} words of the public tenth of the treebank, as many as the paper's but not the "
            f"same; dictionary of the sample, CoNLL-2000 and EWT ({100 * text.ambiguous.mean():.1f} % of the words "
            "ambiguous); the paper's is of all of the treebank.",
            f"Labelled sentences: drawn from the {len(held_out.words):,} that follow the text. Add-{SMOOTHING:g} "
            "smoothing in the start alone; the paper does not say which, nor when it stops (here: relative gain 1e-6) "
            "nor how often it drew. Tags are those of the best sequence.",
        ],
    )


def _labelled_start(held_out: TaggedCorpus, size: int, draw: int, settings: dict[str, Any]) -> HMMTagger:
    """The tagger of some labelled sentences, drawn without replacement."""
    picked = np.random.default_rng([draw, size]).choice(len(held_out.words), size, replace=False)
    # All tokens are labelled: one iteration counts them.
    return HMMTagger(**settings, smoothing=SMOOTHING, max_iter=1, tol=0.0).fit(*take(held_out, picked.tolist()))


def _spelled(points: Sequence[Point]) -> str:
    best, em = max(points, key=lambda point: point.ambiguous), where(points, gamma=1.0)[0]
    start = POSTERIOR_UNIFORM if best.draw is None else f"{best.labelled} labelled sentences, draw {best.draw}"
    return f"{start}: best gamma {best.gamma:g}, {best.ambiguous:.2f} % of ambiguous words; EM {em.ambiguous:.2f} %"


class Curve(NamedTuple):
    """All trainings from starts of one kind; arrays are by draw and gamma, in percent."""

    labelled: int
    gammas: tuple[float, ...]
    ambiguous: NDArray[np.float64]
    start: float | None

    @property
    def name(self) -> str:
        """Of the start."""
        return f"{self.labelled} labelled" if self.labelled else POSTERIOR_UNIFORM

    @property
    def relative(self) -> NDArray[np.float64]:
        """Accuracy relative to EM's, eq. 16."""
        em = self.ambiguous[:, [self.gammas.index(1.0)]]
        return 100 * (self.ambiguous - em) / em

    @property
    def best(self) -> float:
        """Gamma of the best mean accuracy."""
        return self.gammas[int(self.relative.mean(axis=0).argmax())]

    @property
    def best_by_draw(self) -> list[float]:
        """Of each draw; among equals the smallest."""
        return [self.gammas[k] for k in self.ambiguous.argmax(axis=1)]


def curves(points: Sequence[Point]) -> list[Curve]:
    """One for each number of labelled sentences."""
    found = []
    for labelled, own in group(points, "labelled").items():
        gammas = tuple(group(own, "gamma"))
        starts = [point.start_ambiguous for point in own if point.start_ambiguous is not None]
        ambiguous = np.array([point.ambiguous for point in own]).reshape(-1, len(gammas))
        found.append(Curve(labelled, gammas, ambiguous, float(np.mean(starts)) if starts else None))
    return found


def _em(points: Sequence[Point]) -> Table:
    ours = where(points, labelled=0, gamma=1.0)[0]
    rows = [("paper", *PUBLISHED), ("ours", round(ours.accuracy, 2), round(ours.ambiguous, 2))]
    return Table("EM from the posterior-uniform start: tags right", ("", "all words %", "ambiguous words %"), rows)


def _relative(found: Sequence[Curve]) -> Table:
    rows = []
    for k, gamma in enumerate(found[0].gammas):
        values = [own.relative[:, k] for own in found]
        uniform = f"{values[0].mean():+.2f}"
        rows.append((f"{gamma:g}", uniform, *(f"{each.mean():+.2f} ± {each.std():.2f}" for each in values[1:])))
    return Table(
        "Accuracy on ambiguous words relative to EM (eq. 16, %), ± standard deviation over draws",
        ("gamma", *(own.name for own in found)),
        rows,
    )


def _best(found: Sequence[Curve]) -> Table:
    rows = []
    for own in found:
        means = own.ambiguous.mean(axis=0).tolist()
        at = {gamma: round(mean, 2) for gamma, mean in zip(own.gammas, means, strict=True)}
        start = None if own.start is None else round(own.start, 2)
        by_draw = ", ".join(f"{gamma:g}" for gamma in own.best_by_draw)
        rows.append((own.name, start, at.get(0.0), at[1.0], at[own.best], own.best, by_draw))
    return Table(
        "Ambiguous words right (%), mean over draws",
        ("start", "the start", "hard EM", "EM", "best gamma's", "best gamma", "best gamma by draw"),
        rows,
    )


def claims(found: Sequence[Curve]) -> dict[str, bool]:
    """What the paper says of its figure; the first curve is of the posterior-uniform start."""
    uniform, *labelled = found
    few = [own for own in labelled if own.labelled <= 10] or labelled[:1]
    inside = [own for own in labelled if 0 < own.best < 1]
    fewest, most = (float(np.mean(own.best_by_draw)) for own in (labelled[0], labelled[-1]))
    listed = ", ".join(f"{own.labelled}: {own.best:g}" for own in labelled)
    return {
        "From the posterior-uniform start EM is best": uniform.best == 1.0,
        "From 5 or 10 labelled sentences EM is no longer the best": all(own.best != 1.0 for own in few),
        f"For most labelled starts the best gamma lies strictly between 0 and 1 (here, by sentences: {listed})": (
            2 * len(inside) > len(labelled)
        ),
        f"The better the start, the harder the best EM (best gamma, mean over draws: {fewest:.2f} from "
        f"{labelled[0].labelled} sentences, {most:.2f} from {labelled[-1].labelled})": most < fewest,
    }


def _figure(found: Sequence[Curve]) -> Any:
    panels = []
    for title, label, measure in (
        ("relative to EM (eq. 16)", "relative accuracy (%)", "relative"),
        ("absolute", "ambiguous words right (%)", "ambiguous"),
    ):
        lines = [
            Line(own.name, own.gammas, getattr(own, measure).mean(axis=0), colour=k, style=k)
            for k, own in enumerate(found)
        ]
        panels.append(Panel(title, "gamma (0 hard EM, 1 EM)", label, lines))
    return draw_panels(panels, title="Unified EM from starts of increasing quality", width=4.8)
