"""Training constituent-context models as [SmithEisner2004] §6 does, and their scores."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from reproductions.treebanks import read_wsj
from spectrem.corpus import Local
from spectrem.estimators import BracketingModel
from spectrem.exceptions import ConvergenceWarning
from spectrem.learning import Anneal, Stopping, run_em
from spectrem.metrics import bracket_scores
from spectrem.models.bracketing import ConstituentContextModel, SpanNumbers, SpanVocabulary, build_shards, start_from

PUBLISHED_SMOOTHING = (2.0, 8.0)
N_PUBLISHED = 7_519
"""Sentences for which these pseudo-counts were published."""

SCHEDULE = Anneal(0.01, 1.0, 1.5)
METHODS: dict[str, dict[str, Any]] = {
    "EM (uniform)": {"init": "uniform"},
    "DA": {"init": "uniform", "anneal": True},
    "EM (split)": {"init": "split"},
    "SDA (split)": {"init": "split", "reference": "split", "anneal": True},
}

Brackets = list[list[tuple[int, int]]]


class Sample(NamedTuple):
    """Sentences of tags with their gold brackets."""

    tags: list[list[str]]
    gold: Brackets

    @property
    def lengths(self) -> list[int]:
        """Words of every sentence."""
        return list(map(len, self.tags))

    def pick(self, sentences: Sequence[int]) -> Sample:
        """Some of the sentences."""
        return Sample([self.tags[n] for n in sentences], [self.gold[n] for n in sentences])


class Scores(NamedTuple):
    """Of brackets, in percent: recall, precision and F; crossing brackets per sentence; F with whole sentences."""

    recall: float
    precision: float
    f: float
    crossing: float
    f_whole: float


class Trained(NamedTuple):
    """A model, and its brackets of the sentences that it was trained on."""

    model: BracketingModel
    predicted: Brackets
    bits: float
    scores: Scores


def read_sample(data: str | os.PathLike[str] | None, n_sentences: int | None = None) -> Sample:
    """Tags and gold constituents of the first sentences of at most ten words; ``data`` as `read_wsj` takes it."""
    sentences = read_wsj(data, 10)[:n_sentences]
    return Sample([list(own.parsed.xpos) for own in sentences], [list(own.spans) for own in sentences])


def proportional(n_sentences: int) -> tuple[float, float]:
    """The published pseudo-counts in proportion to the number of sentences, as in the paper's footnote 9."""
    share = n_sentences / N_PUBLISHED
    return PUBLISHED_SMOOTHING[0] * share, PUBLISHED_SMOOTHING[1] * share


def score(predicted: Brackets, sample: Sample) -> Scores:
    """Scores of brackets as the paper counts them and, last, as [KleinManning2002]."""
    own, whole = (bracket_scores(predicted, sample.gold, sample.lengths, whole=whole) for whole in (False, True))
    recall, precision, f, f_whole = (round(100 * share, 2) for share in (own.recall, own.precision, own.f1, whole.f1))
    return Scores(recall, precision, f, round(own.crossing, 2), f_whole)


def train(number: int, sample: Sample, **settings: Any) -> Trained:
    """Model 1 or 2 with these settings of `BracketingModel`, on the sentences of the sample."""
    with warnings.catch_warnings():
        # An end at max_iter shows in the number of E-steps.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BracketingModel(by_length=number == 2, **settings).fit(sample.tags)
    predicted = model.predict(sample.tags)
    bits = -model.log_likelihood_ / math.log(2) / sum(sample.lengths)
    return Trained(model, predicted, bits, score(predicted, sample))


def train_by(method: str, number: int, sample: Sample, schedule: Anneal, **settings: Any) -> Trained:
    """The same by one of the ``METHODS`` of the paper's table 2."""
    own = dict(METHODS[method])
    if own.pop("anneal", False):
        own["schedule"] = schedule
    return train(number, sample, **own, **settings)


def held_out(
    number: int, sample: Sample, smoothing: tuple[float, float], iterations: int, *, folds: int = 5, seed: int = 0
) -> float:
    """Mean log-likelihood per tag of sentences that were left out, nats, by cross-validation; it sees no trees.

    The distributions are over the yields and contexts of all sentences: those of the sentences left out alone have
    pseudo-counts and no counts, so that likelihoods under different pseudo-counts can be compared.
    """
    names = sorted({tag for sentence in sample.tags for tag in sentence})
    lengths = np.array(sample.lengths)
    tags = np.array([names.index(tag) for sentence in sample.tags for tag in sentence])
    vocabulary, numbers = SpanVocabulary.learn(lengths, tags, len(names))
    model = ConstituentContextModel(vocabulary, number == 2, smoothing)
    fold = np.random.default_rng(seed).permutation(np.arange(len(lengths)) % folds)

    def shards(chosen: Any) -> list[Any]:
        spans = np.repeat(chosen, lengths * (lengths + 1) // 2)
        own = SpanNumbers(numbers.yields[spans], numbers.contexts[spans])
        return build_shards(lengths[chosen], tags[np.repeat(chosen, lengths)], own)

    total = 0.0
    for left_out in range(folds):
        known = shards(fold != left_out)
        start = start_from(model, Local(known), "split")
        params = run_em(model, known, start, stopping=Stopping(iterations)).params
        for shard in shards(fold == left_out):
            total += float(model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)[0].sum())
    return total / len(tags)
