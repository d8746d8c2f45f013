"""[Samdani2012] figure 1: the best gamma of unified EM by the quality of its start, tagging with a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spectrem.data import TaggedCorpus
from spectrem.estimators import HMMTagger
from spectrem.exceptions import InvalidInputError
from spectrem.plotting.curves import Line, Panel, draw_panels
from spectrem.reproduce.report import Claim, Report, Table
from spectrem.reproduce.tagged_corpus import read_penn, read_penn_dictionary
from spectrem.reproduce.tagger_training import Text, accuracies, as_text, flat

N_TOKENS = 24_115
GAMMAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SIZES = (5, 10, 20, 40, 80)
DRAWS = 5
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


def uem_fig1(
    root: Path,
    *,
    n_tokens: int = N_TOKENS,
    gammas: Sequence[float] = GAMMAS,
    sizes: Sequence[int] = SIZES,
    draws: int = DRAWS,
    max_iter: int = 300,
    n_threads: int | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Report:
    """Train a bigram tagger by every gamma from the posterior-uniform start and from few labelled sentences.

    Parameters
    ----------
    root : path
        See `spectrem.reproduce.tagged_corpus.find_tagged`.
    n_tokens : int
        Unlabelled, from the start of the Penn sample; labelled sentences come from the rest.
    gammas : sequence of float
        1 must be among them.
    sizes : sequence of int
        Labelled sentences, increasing.
    draws : int
        Of labelled sentences, for each size.
    max_iter : int
        At most, for each training.
    n_threads : int, optional
    log : callable
        Told of every start.
    """
    if 1.0 not in gammas:
        raise InvalidInputError(f"gammas must hold 1, with which others are compared, got {list(gammas)}")
    corpus, dictionary = read_penn(root), read_penn_dictionary(root)
    text = as_text(read_penn(root, n_tokens), dictionary)
    rest = len(text.words)
    held_out = TaggedCorpus(corpus.words[rest:], corpus.tags[rest:])
    if not sizes or max(sizes) > len(held_out.words):
        raise InvalidInputError(
            f"sizes must not exceed the {len(held_out.words):,} sentences after the first {n_tokens:,} tokens, got "
            f"{list(sizes)}; ask for fewer labelled sentences, or fewer tokens"
        )
    settings: dict[str, Any] = {
        "dictionary": dictionary,
        "tags": sorted({tag for tags in dictionary.values() for tag in tags}),
        "vocabulary": sorted(set(flat(text.words))),
        "decode": "viterbi",
        "n_threads": n_threads,
    }
    points = _train(text, settings, POSTERIOR_UNIFORM, gammas, max_iter, (0, None, None))
    log(_spelled(points))
    for size in sizes:
        for draw in range(draws):
            tagger = _labelled_start(held_out, size, draw, settings)
            start = accuracies(flat(tagger.predict(text.words)), text)["ambiguous"]
            own = _train(text, settings, tagger, gammas, max_iter, (size, draw, start))
            log(_spelled(own))
            points += own
    return _report(points, text, len(held_out.words))


def _labelled_start(held_out: TaggedCorpus, size: int, draw: int, settings: dict[str, Any]) -> HMMTagger:
    """The tagger of some labelled sentences, drawn without replacement."""
    picked = np.random.default_rng([draw, size]).choice(len(held_out.words), size, replace=False)
    words, tags = ([side[n] for n in picked] for side in held_out)
    # All tokens are labelled: one iteration counts them.
    return HMMTagger(**settings, smoothing=SMOOTHING, max_iter=1, tol=0.0).fit(words, tags)


def _train(
    text: Text,
    settings: dict[str, Any],
    start: Any,
    gammas: Sequence[float],
    max_iter: int,
    labels: tuple[int, int | None, float | None],
) -> list[Point]:
    size, draw, start_ambiguous = labels
    found = []
    for gamma in gammas:
        tagger = HMMTagger(**settings, init=start, gamma=gamma, max_iter=max_iter).fit(text.words)
        scores = accuracies(flat(tagger.predict(text.words)), text)
        found.append(Point(size, draw, gamma, scores["accuracy"], scores["ambiguous"], start_ambiguous, tagger.n_iter_))
    return found


def _spelled(points: Sequence[Point]) -> str:
    best, em = max(points, key=lambda p: p.ambiguous), next(p for p in points if p.gamma == 1.0)
    start = POSTERIOR_UNIFORM if best.draw is None else f"{best.labelled} labelled sentences, draw {best.draw}"
    return f"{start}: best gamma {best.gamma:g}, {best.ambiguous:.2f} % of ambiguous words; EM {em.ambiguous:.2f} %"


class Curve(NamedTuple):
    """All trainings from starts of one kind; arrays are by draw and gamma."""

    name: str
    labelled: int
    gammas: tuple[float, ...]
    ambiguous: np.ndarray
    relative: np.ndarray
    start: float | None

    @property
    def best(self) -> float:
        """Gamma of the best mean accuracy."""
        return self.gammas[int(self.relative.mean(axis=0).argmax())]

    @property
    def best_by_draw(self) -> list[float]:
        """Of each draw; among equals the smallest."""
        return [self.gammas[k] for k in self.ambiguous.argmax(axis=1)]


def curve(points: Sequence[Point], labelled: int) -> Curve:
    """The curve of one number of labelled sentences; relative accuracies are percent, by eq. 16."""
    own = [point for point in points if point.labelled == labelled]
    gammas = tuple(dict.fromkeys(point.gamma for point in own))
    ambiguous = np.array([point.ambiguous for point in own]).reshape(-1, len(gammas))
    em = ambiguous[:, [gammas.index(1.0)]]
    starts = [point.start_ambiguous for point in own if point.start_ambiguous is not None]
    return Curve(
        name=f"{labelled} labelled" if labelled else POSTERIOR_UNIFORM,
        labelled=labelled,
        gammas=gammas,
        ambiguous=ambiguous,
        relative=100 * (ambiguous - em) / em,
        start=float(np.mean(starts)) if starts else None,
    )


def _report(points: Sequence[Point], text: Text, n_held_out: int) -> Report:
    curves = [curve(points, size) for size in dict.fromkeys(point.labelled for point in points)]
    draws = len(curves[-1].ambiguous)
    return Report(
        name="uem-fig1",
        title=f"[Samdani2012] figure 1: unified EM by gamma and start, bigram tagger, first {text.n_tokens:,} words of "
        f"the Penn sample, mean of {draws} draws",
        tables=[_em(points), _relative(curves), _best(curves)],
        numbers=Table("all trainings", Point._fields, [tuple(point) for point in points]),
        figure=_figure(curves),
        claims=claims(curves),
        notes=[
            "The curves stand in the paper's figure only, so none of their numbers stand beside ours.",
            f"Text: {text.n_tokens:,} words of the public tenth of the treebank, as many as the paper's but not the "
            f"same; dictionary of the sample, CoNLL-2000 and EWT ({100 * text.ambiguous.mean():.1f} % of the words "
            "ambiguous); the paper's is of all of the treebank.",
            f"Labelled sentences: drawn from the {n_held_out:,} that follow the text. Add-{SMOOTHING:g} smoothing in "
            "the start alone; the paper does not say which, nor when it stops (here: relative gain 1e-6) nor how often "
            "it drew. Tags are those of the best sequence.",
            "Gamma 0 is hard EM: ties go to the lowest tag.",
        ],
    )


def _em(points: Sequence[Point]) -> Table:
    ours = next(point for point in points if not point.labelled and point.gamma == 1.0)
    rows = [("paper", *PUBLISHED), ("ours", round(ours.accuracy, 2), round(ours.ambiguous, 2))]
    return Table("EM from the posterior-uniform start: tags right", ("", "all words %", "ambiguous words %"), rows)


def _relative(curves: Sequence[Curve]) -> Table:
    rows = []
    for k, gamma in enumerate(curves[0].gammas):
        cells = []
        for own in curves:
            mean, spread = own.relative[:, k].mean(), own.relative[:, k].std()
            cells.append(f"{mean:+.2f}" if not own.labelled else f"{mean:+.2f} ± {spread:.2f}")
        rows.append((f"{gamma:g}", *cells))
    return Table(
        "Accuracy on ambiguous words relative to EM (eq. 16, %), ± standard deviation over draws",
        ("gamma", *(own.name for own in curves)),
        rows,
    )


def _best(curves: Sequence[Curve]) -> Table:
    rows = []
    for own in curves:
        mean = own.ambiguous.mean(axis=0)
        at = {gamma: round(float(mean[own.gammas.index(gamma)]), 2) for gamma in own.gammas}
        start = None if own.start is None else round(own.start, 2)
        by_draw = ", ".join(f"{gamma:g}" for gamma in own.best_by_draw)
        rows.append((own.name, start, at.get(0.0), at[1.0], at[own.best], own.best, by_draw))
    return Table(
        "Ambiguous words right (%), mean over draws",
        ("start", "the start", "hard EM", "EM", "best gamma's", "best gamma", "best gamma by draw"),
        rows,
    )


def claims(curves: Sequence[Curve]) -> list[Claim]:
    """What the paper says of its figure; the first curve is of the posterior-uniform start."""
    uniform, labelled = curves[0], curves[1:]
    few = [own for own in labelled if own.labelled <= 10] or labelled[:1]
    inside = [own for own in labelled if 0 < own.best < 1]
    fewest, most = (float(np.mean(own.best_by_draw)) for own in (labelled[0], labelled[-1]))
    listed = ", ".join(f"{own.labelled}: {own.best:g}" for own in labelled)
    return [
        Claim("From the posterior-uniform start EM is best", uniform.best == 1.0),
        Claim("From 5 or 10 labelled sentences EM is no longer the best", all(own.best != 1.0 for own in few)),
        Claim(
            f"For most labelled starts the best gamma lies strictly between 0 and 1 (here, by sentences: {listed})",
            2 * len(inside) > len(labelled),
        ),
        Claim(
            f"The better the start, the harder the best EM (best gamma, mean over draws: {fewest:.2f} from "
            f"{labelled[0].labelled} sentences, {most:.2f} from {labelled[-1].labelled})",
            most < fewest,
        ),
    ]


def _figure(curves: Sequence[Curve]) -> Any:
    panels = []
    for title, label, table in (
        ("relative to EM (eq. 16)", "relative accuracy (%)", "relative"),
        ("absolute", "ambiguous words right (%)", "ambiguous"),
    ):
        lines = [
            Line(own.name, own.gammas, getattr(own, table).mean(axis=0), colour=k, style=k)
            for k, own in enumerate(curves)
        ]
        panels.append(Panel(title, "gamma (0 hard EM, 1 EM)", label, lines))
    return draw_panels(panels, title="Unified EM from starts of increasing quality", width=4.8)
