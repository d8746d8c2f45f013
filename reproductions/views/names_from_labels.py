"""The second half of `pr_table5`: classes of WikiGold's names from a few that are labelled."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reproductions.records import spread, where
from reproductions.report import percent, tell
from reproductions.views.encoding import Encoder
from reproductions.views.wikigold import Name, views_of
from spectrem import MaxEntClassifier, Views
from spectrem.exceptions import ConvergenceWarning, InvalidInputError

MAXENT, POOLED, AGREED, SHARPER = "mx-ent", "agree0", "PR", "PR, gamma 1/2"
METHODS = (MAXENT, POOLED, AGREED, SHARPER)
GRID: dict[str, tuple[tuple[float, float], ...]] = {
    MAXENT: ((1.0, 0.0), (10.0, 0.0)),
    POOLED: ((1.0, 0.0), (10.0, 0.0)),
    AGREED: ((3.0, 0.3), (3.0, 1.0), (10.0, 1.0)),
    SHARPER: ((3.0, 0.3), (3.0, 1.0), (10.0, 1.0)),
}
"""Variance of the weights' prior, and weight of names without a label beside those with one."""
PUBLISHED = {500: (74.0, 74.4, 76.4, 9.2), 1000: (80.0, 80.0, 81.7, 8.5), 2000: (83.4, 83.4, 84.8, 8.4)}
"""[Ganchev2010] table 5: percent right of MAXENT, POOLED and AGREED, and by how many percent PR's errors are fewer."""
TOL, M_STEPS = 1e-4, 15
"""With M-steps to the end, training takes ten times as long and is as often right."""


class Trial(NamedTuple):
    """One training: percent right of development or test names."""

    part: str
    labelled: int
    draw: int
    method: str
    C: float | None
    unlabelled_weight: float | None
    right: float
    iterations: int | None
    seconds: float | None


class NamesFromLabels:
    """Names in parts: for development, and for draws of names to test on and to label.

    Parameters
    ----------
    names : sequence of Name
    sizes : sequence of int
        How many names are labelled.
    seed : int
    threads : int, optional
    max_iter : int

    Raises
    ------
    InvalidInputError
        If a size exceeds the names that are neither for development nor to test on.
    """

    def __init__(
        self, names: Sequence[Name], sizes: Sequence[int], seed: int, threads: int | None, max_iter: int
    ) -> None:
        self.sizes, self.seed, self.threads, self.max_iter = sizes, seed, threads, max_iter
        self.labels = np.array([name.label for name in names])
        self.sentences = np.array([name.sentence for name in names])
        listed = views_of(names)
        self.X = Encoder(listed)(listed)
        self.together = sp.hstack([*self.X.values()]).tocsr()
        sentences = np.unique(self.sentences)
        self.chance = np.random.default_rng(seed)
        self.dev, self.rest = self._part(sentences, len(sentences) // 5)

    def choose(self, draws: int) -> tuple[dict[str, tuple[float, float]], list[Trial]]:
        """The settings of each method that label most development names right, over all sizes and draws."""
        trials = [
            trial
            for draw in range(draws)
            for method in METHODS
            for setting in GRID[method]
            for trial in self._trials("dev", draw, self.dev, self.rest, method, setting)
        ]
        best = {
            method: max(GRID[method], key=lambda own: spread(_of(trials, method, own), "right").mean)
            for method in METHODS
        }
        return best, trials

    def compare(self, chosen: dict[str, tuple[float, float]], draws: int) -> list[Trial]:
        """Methods with the settings chosen, on names of draws of a quarter of the sentences not for development."""
        found: list[Trial] = []
        for draw in range(draws):
            sentences = np.unique(self.sentences[self.rest])
            test, rest = self._part(sentences, len(sentences) // 4)
            for method in METHODS:
                found += self._trials("test", draw, test, rest, method, chosen[method])
        return found

    def _part(self, sentences: NDArray, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The names of so many of the sentences, and those of the other sentences, both shuffled."""
        drawn = self.chance.permutation(sentences)
        both = [np.flatnonzero(np.isin(self.sentences, own)) for own in (drawn[:n], drawn[n:])]
        first, second = (self.chance.permutation(own) for own in both)
        if len(second) < max(self.sizes):
            raise InvalidInputError(
                f"labelled must not exceed the {len(second):,} names that are left when some are put aside to test on, "
                f"got {max(self.sizes):,}; label fewer"
            )
        return first, second

    def _trials(
        self, part: str, draw: int, held: NDArray, rest: NDArray, method: str, setting: tuple[float, float]
    ) -> Iterator[Trial]:
        """A training for every size; the names of a size are among those of the next one."""
        pool = np.random.default_rng((self.seed, draw)).permutation(rest)
        for size in self.sizes:
            started = time.perf_counter()
            found, iterations = self._labels(method, setting, pool[:size])
            right = percent(float(np.mean(found[held] == self.labels[held])))
            seconds = round(time.perf_counter() - started, 2)
            tell(f"labels, {part}, draw {draw}, {size} names, {method}, {setting}: {right:.2f} %, {seconds:.1f} s")
            yield Trial(part, size, draw, method, *setting, right, iterations, seconds)

    def _labels(self, method: str, setting: tuple[float, float], labelled: NDArray) -> tuple[Any, int]:
        C, unlabelled_weight = setting
        if method == MAXENT:
            single = MaxEntClassifier(C=C).fit(self.together[labelled], self.labels[labelled])
            return single.predict(self.together), 1
        y = np.full(len(self.labels), None, object)
        y[labelled] = self.labels[labelled]
        views = Views(
            [(view, MaxEntClassifier(C=C, m_steps=M_STEPS)) for view in self.X],
            gamma=0.5 if method == SHARPER else 1.0,
            unlabelled_weight=unlabelled_weight,
            max_iter=self.max_iter,
            tol=TOL,
            n_threads=self.threads,
        )
        with warnings.catch_warnings():
            # Few iterations may be meant; how many there were is reported.
            warnings.simplefilter("ignore", ConvergenceWarning)
            views.fit(self.X, y)
        return views.predict(self.X), views.n_iter_


def _of(trials: Sequence[Trial], method: str, setting: tuple[float, float]) -> list[Trial]:
    return where(trials, method=method, C=setting[0], unlabelled_weight=setting[1])


def development(trials: Sequence[Trial], sizes: Sequence[int]) -> list[tuple[Any, ...]]:
    """Mean percent right of development names by method and setting, a column per size."""
    return [
        (method, *setting, *(spread(where(_of(trials, method, setting), labelled=n), "right").mean for n in sizes))
        for method in METHODS
        for setting in GRID[method]
    ]


def means(trials: Sequence[Trial], sizes: Sequence[int]) -> list[tuple[Any, ...]]:
    """Rows of size, "ours", mean percent right of all methods, and by how many percent errors are fewer.

    Errors are those of the two kinds of agreement, relative to those of MaxEnt.
    """
    rows = []
    for size in sizes:
        right = {method: spread(where(trials, labelled=size, method=method), "right").mean for method in METHODS}
        errors = 100 - right[MAXENT]
        fewer = [100 * (right[own] - right[MAXENT]) / errors if errors else 0.0 for own in (AGREED, SHARPER)]
        rows.append((size, "ours", *(right[method] for method in METHODS[:3]), fewer[0], right[SHARPER], fewer[1]))
    return rows
