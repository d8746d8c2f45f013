"""Which sentence pairs a report of word alignment shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING

import numpy as np

from spectrem import reports
from spectrem._arrays import Floats
from spectrem._reprs import brief_dataclass
from spectrem.estimators.alignment.decoding import AlignedPairs
from spectrem.reports.links import LinkedPair, LinkedPairs

if TYPE_CHECKING:
    from spectrem.estimators.alignment.word_aligner import WordAligner

_QUANTILES = {"1 % of the scores are below": 0.01, "5 % below": 0.05, "25 % below": 0.25, "half below": 0.5}


@brief_dataclass()
class Gallery:
    """The first sentence pairs of a text, those of the lowest scores and those of the highest, as they are aligned.

    Attributes
    ----------
    words : callable
        From the number of a pair to its source words and target words.
    n_shown : int
        How many pairs of each kind.
    """

    words: Callable[[int], tuple[list[str], list[str]]]
    n_shown: int = 10
    _first: list[LinkedPair] = field(default_factory=list)
    _ends: tuple[list[tuple[float, int, LinkedPair]], ...] = field(default_factory=lambda: ([], []))
    _scores: list[Floats] = field(default_factory=list)
    _n_pairs: int = 0

    def add(self, part: AlignedPairs) -> None:
        """Look at the next pairs."""
        for k, score in enumerate(part.scores.tolist()):
            number = self._n_pairs + k
            if len(self._first) < self.n_shown:
                self._first.append(self._pair(part, k))
            if math.isnan(score):
                continue
            for end, sign in zip(self._ends, (-1.0, 1.0), strict=True):
                key = sign * score, -number
                if len(end) < self.n_shown:
                    heappush(end, (*key, self._pair(part, k)))
                elif key > end[0][:2]:
                    heappushpop(end, (*key, self._pair(part, k)))
        self._scores.append(part.scores)
        self._n_pairs += len(part.scores)

    def _pair(self, part: AlignedPairs, k: int) -> LinkedPair:
        number, posteriors = self._n_pairs + k, part.posteriors
        both = (posteriors.forward[k] + posteriors.backward[k]) / 2
        links = [(i, j, float(both[i, j]) if both.size else 1.0) for i, j in part.links.pairs(k)]
        return LinkedPair(number, *self.words(number), links, float(part.scores[k]))

    def section(self) -> LinkedPairs:
        """The section of the report."""
        scores = np.concatenate([np.zeros(0), *self._scores])
        scored = scores[~np.isnan(scores)]
        shares = zip(_QUANTILES, np.quantile(scored, list(_QUANTILES.values())) if len(scored) else (), strict=False)
        numbers: dict[str, object] = {name: f"{value:.3g}" for name, value in shares}
        if len(scored) < len(scores):
            numbers["without a score"] = len(scores) - len(scored)
        worst, best = ([pair for *_, pair in sorted(end, reverse=True)] for end in self._ends)
        groups = {"The first pairs": self._first, "The lowest scores": worst, "The highest scores": best}
        return LinkedPairs(groups, numbers)

    def report(self, aligner: WordAligner) -> reports.FitReport:
        """The report of how an aligner was trained, with these pairs."""
        known = getattr(aligner, "report_", None)
        report = known or reports.report_training(
            aligner, self._n_pairs, {"model": aligner.model, "gamma": aligner.gamma_}, unit="sentence pairs"
        )
        return replace(report, sections=(*report.sections, self.section()))
