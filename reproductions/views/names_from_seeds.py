"""The first half of `pr_table5`: classes of Collins and Singer's names from seven seed rules."""

from __future__ import annotations

import calendar
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.stats import entropy

from reproductions.report import percent, tell
from reproductions.views.collins_singer import CLASSES, CollinsSinger, distinct, views_of
from reproductions.views.decision_lists import cotrain, rounds
from reproductions.views.encoding import Encoder
from spectrem import MaxEntClassifier, Views
from spectrem.constraints import label_proportions
from spectrem.exceptions import ConvergenceWarning

M_STEPS = 30
NOISE = "?"
TIMES = frozenset(calendar.month_name[1:]) | frozenset(calendar.day_name)
PUBLISHED = {"DL-CoTrain": (91.3, 83.3), "CoBoost": (91.1, 83.1), "EM, naive Bayes": (83.1, 75.8)}
"""Of [CollinsSinger1999]: percent right of clean names, and of all names but months and weekdays."""


class Setting(NamedTuple):
    """How the two views are trained.

    Attributes
    ----------
    name : str
    gamma : float
        1 as in [Ganchev2010]; at 1/2 the posterior is the product of the views' distributions.
    C : float
        Variance of the weights' prior.
    shares : bool
        Whether classes have the shares that they have among the lines with a seed label.
    intercept : bool
    repeated : bool
        Whether a line counts as often as it is repeated.
    together : bool
        Whether the views are trained together, or on the seed labels alone.
    """

    name: str
    gamma: float = 0.5
    C: float = 1.0
    shares: bool = True
    intercept: bool = False
    repeated: bool = False
    together: bool = True


DECLARED = Setting("declared")
EXPLORED = (
    Setting("views trained on seeds only", gamma=1.0, shares=False, together=False),
    Setting("as in the paper: gamma 1, no shares", gamma=1.0, shares=False),
    Setting("gamma 1", gamma=1.0),
    Setting("gamma 3/4", gamma=0.75),
    Setting("gamma 1/4", gamma=0.25),
    Setting("no shares", shares=False),
    Setting("C 0.3", C=0.3),
    Setting("C 3", C=3.0),
    Setting("with intercepts", intercept=True),
    Setting("repeated lines count", repeated=True),
)
"""Each but the first two differs from `DECLARED` in what its name says."""


class Outcome(NamedTuple):
    """One training; percent right of names labelled by hand, and of how many names without seeds the views say alike.

    Of names without seeds, ``organisations`` is the expected share of the class in percent, and ``undecided`` the mean
    entropy of the distribution on which the views agree, in nats, at most log 3 = 1.1.
    """

    setting: str
    hand: float
    alike: float | None
    organisations: float | None
    undecided: float | None
    iterations: int
    seconds: float


class Scores(NamedTuple):
    """Names to test on: percent right of clean ones, and of all but months and weekdays."""

    method: str
    clean: float
    with_noise: float


class NamesFromSeeds:
    """Names, the labels that seed rules give them, and what is trained on them."""

    def __init__(self, data: CollinsSinger, max_iter: int, threads: int | None) -> None:
        self.data, self.max_iter, self.threads = data, max_iter, threads
        self.names, self.place = distinct(data.train)
        self.encoder = Encoder(views_of(self.names))
        self.X = self.encoder(views_of(self.names))
        self.y = [data.seed_label(name) for name in self.names]
        self.unlabelled = np.array([label is None for label in self.y])
        self.counts = np.bincount(self.place).astype(np.float64)

    def train(self, setting: Setting) -> tuple[Outcome, Views]:
        """Train both views, and compare with the names labelled by hand."""
        started = time.perf_counter()
        views = Views(
            [
                (view, MaxEntClassifier(C=setting.C, fit_intercept=setting.intercept, m_steps=M_STEPS))
                for view in self.X
            ],
            constraints=label_proportions(self.data.seed_shares()) if setting.shares else (),
            gamma=setting.gamma,
            unlabelled_weight=1.0 if setting.together else 0.0,
            max_iter=self.max_iter,
            n_threads=self.threads,
        )
        with warnings.catch_warnings():
            # Few iterations may be meant; how many there were is reported.
            warnings.simplefilter("ignore", ConvergenceWarning)
            views.fit(self.X, self.y, self.counts if setting.repeated else None)
        distributions: Any = views.label_distributions_
        expected = distributions[self.unlabelled]
        weights = self.counts[self.unlabelled] if setting.repeated else None
        single = [own.predict(self.X[view])[self.unlabelled] for view, own in views.views_.items()]
        found = views.predict(self.X)[self.place[[*self.data.hand]]]
        outcome = Outcome(
            setting.name,
            percent(float(np.mean(found == [*self.data.hand.values()]))),
            percent(float(np.average(single[0] == single[1], weights=weights))),
            percent(float(np.average(expected[:, list(views.classes_).index("O")], weights=weights))),
            round(float(np.average(entropy(expected, axis=1), weights=weights)), 3),
            views.n_iter_,
            round(time.perf_counter() - started, 1),
        )
        tell(f"seeds, {setting.name}: {outcome.hand:.2f} % of names labelled by hand, {outcome.seconds:.1f} s")
        return outcome, views

    def test(self, method: str, views: Views) -> list[Scores]:
        """What trained views, and each of them alone, get right of the names to test on."""
        X = self.encoder(views_of(self.data.test))
        alone = [self._score(f"{method}, {view} alone", own.predict(X[view])) for view, own in views.views_.items()]
        return [self._score(method, views.predict(X)), *alone]

    def cotrain(self, most: int) -> tuple[Outcome, Scores]:
        """DL-CoTrain as published, on all lines."""
        started = time.perf_counter()
        codes = sorted(CLASSES)
        numbers = self.encoder.counters["spelling"].vocabulary_
        rules = {numbers[rule]: codes.index(label) for rule, label in self.data.rules.items() if rule in numbers}
        hand = [self.data.train[line] for line in self.data.hand]
        found = cotrain(
            [rows[self.place] for rows in self.X.values()],
            np.array([*rules]),
            np.array([*rules.values()]),
            [sp.vstack(pair) for pair in zip(*(self._rows(names) for names in (hand, self.data.test)), strict=True)],
            most,
        )
        labels = np.array(codes)[found]
        right = percent(float(np.mean(labels[: len(hand)] == [*self.data.hand.values()])))
        seconds = round(time.perf_counter() - started, 1)
        tell(f"seeds, DL-CoTrain: {right:.2f} % of names labelled by hand, {seconds:.1f} s")
        outcome = Outcome("DL-CoTrain", right, None, None, None, rounds(most), seconds)
        return outcome, self._score("DL-CoTrain, ours", labels[len(hand) :])

    def _rows(self, names: Sequence[tuple[str, ...]]) -> Iterable[Any]:
        return self.encoder(views_of(names)).values()

    def _score(self, method: str, labels: Any) -> Scores:
        gold = self.data.gold
        right = [found == label for found, label in zip(labels, gold, strict=True)]
        clean = sum(label != NOISE for label in gold)
        timed = sum(
            label == NOISE and not TIMES.isdisjoint(name[0].removeprefix("X0_").split("-"))
            for name, label in zip(self.data.test, gold, strict=True)
        )
        return Scores(method, percent(sum(right) / clean), percent(sum(right) / (len(gold) - timed)))
