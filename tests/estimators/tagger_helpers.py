"""What the tests of HMMTagger share: a small text, and EM over all tag sequences, one by one."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

from spectrem import HMMTagger
from spectrem.estimators import engine

DICTIONARY = {
    "the": ["DT"],
    "a": ["DT"],
    "dog": ["NN"],
    "cat": ["NN"],
    "walk": ["NN", "VB"],
    "run": ["VB", "NN"],
    "barks": ["VB", "NN"],
    "sees": ["VB"],
}
SENTENCES = [
    "the dog barks",
    "a cat sees the walk",
    "the cat sees a dog",
    "run the dog",
    "the run",
    "a walk barks",
]
WORDS = [sentence.split() for sentence in SENTENCES]


def make(*args, **options):
    """A tagger on one thread with a start of its own."""
    defaults = {"n_threads": 1, "random_state": 0, "tol": 0.0, "max_iter": 5, "init": "uniform"}
    return HMMTagger(*args, **(defaults | options))


def same_params(a, b):
    """Whether all parameters are equal, bit for bit."""
    return all(
        np.array_equal(getattr(a.params_, name), getattr(b.params_, name))
        for name in ("initial", "transition", "emission")
    ) and (a.params_.second is None or np.array_equal(a.params_.second, b.params_.second))


def start_of(*args, y=None, **options):
    """The parameters that training begins with."""
    seen = {}

    class StopError(Exception):
        pass

    def spy(model, corpus, params, estep, **rest):
        seen["params"] = params
        raise StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "run_em", spy)
        with pytest.raises(StopError):
            make(*args, **options).fit(SENTENCES, y)
    return seen["params"]


class Tables:
    """Probabilities by name, order 1 or 2; ``emission`` by (tag, word)."""

    def __init__(self, initial, transition, emission, second=None):
        self.initial, self.transition, self.emission, self.second = initial, transition, emission, second

    def probability(self, words, tags, neutral=()):
        p = 1.0
        for t, (word, tag) in enumerate(zip(words, tags, strict=True)):
            if t == 0:
                p *= self.initial[tag]
            elif self.second is None:
                p *= self.transition[tags[t - 1], tag]
            else:
                p *= self.second[tags[0], tag] if t == 1 else self.transition[tags[t - 2], tags[t - 1], tag]
            p *= 1.0 if word in neutral else self.emission.get((tag, word), 0.0)
        return p


def tables_of(tagger):
    """The tables of a fitted tagger, by name."""
    tags, words = tagger.tags_, tagger.vocabulary_.words
    names = tuple(itertools.product(tags, repeat=tagger.params_.transition.ndim))
    second = tagger.params_.second
    return Tables(
        dict(zip(tags, tagger.initial_.tolist(), strict=True)),
        dict(zip(names, tagger.transition_.ravel().tolist(), strict=True)),
        dict(zip(itertools.product(tags, words), tagger.emission_.ravel().tolist(), strict=True)),
        None if second is None else dict(zip(itertools.product(tags, repeat=2), second.ravel().tolist(), strict=True)),
    )


def sequences(tables, words, allowed, gamma=1.0, neutral=()):
    """All tag sequences with ``p^(1 / gamma)``, those of probability 0 left out."""
    found = {}
    for tags in itertools.product(*allowed):
        p = tables.probability(words, tags, neutral)
        if p > 0:
            found[tags] = p ** (1 / gamma)
    return found


def posteriors(tables, words, allowed, tag_names, neutral=()):
    """Posterior of every token and tag, by enumeration."""
    found = sequences(tables, words, allowed, neutral=neutral)
    matrix = np.zeros((len(words), len(tag_names)))
    for tags, p in found.items():
        for t, tag in enumerate(tags):
            matrix[t, tag_names.index(tag)] += p
    return matrix / sum(found.values())


def em_step(tables, texts, allowed, weights, smoothing=0.0, cells=None, gamma=1.0):
    """One EM iteration by enumeration: the objective before it, and the tables after it."""
    order = 1 if tables.second is None else 2
    counts = {name: defaultdict(float) for name in ("initial", "transition", "emission", "second")}
    objective = 0.0
    for words, own, weight in zip(texts, allowed, weights, strict=True):
        found = sequences(tables, words, own, gamma)
        total = sum(found.values())
        objective += weight * gamma * np.log(total)
        for tags, p in found.items():
            share = weight * p / total
            for t, (word, tag) in enumerate(zip(words, tags, strict=True)):
                counts["emission"][tag, word] += share
                if t == 0:
                    counts["initial"][tag,] += share
                elif order == 1 or t > 1:
                    counts["transition"][tags[t - order : t + 1]] += share
                else:
                    counts["second"][tags[:2]] += share
    tags = list(tables.initial)
    emission = dict.fromkeys(cells or tables.emission, 0.0)
    new = Tables(
        {key[0]: value for key, value in normalise(counts["initial"], [(t,) for t in tags], smoothing).items()},
        normalise(counts["transition"], list(itertools.product(tags, repeat=order + 1)), smoothing),
        normalise(counts["emission"], list(emission), smoothing),
        None if order == 1 else normalise(counts["second"], list(itertools.product(tags, repeat=2)), smoothing),
    )
    return objective, new


def normalise(counts, keys, smoothing):
    """Distributions over the last element of the keys; rows without counts are uniform."""
    totals, sizes = defaultdict(float), defaultdict(int)
    for key in keys:
        totals[key[:-1]] += counts[key] + smoothing
        sizes[key[:-1]] += 1
    return {
        key: (counts[key] + smoothing) / totals[key[:-1]] if totals[key[:-1]] > 0 else 1 / sizes[key[:-1]]
        for key in keys
    }


def compare(tagger, tables, atol=1e-9):
    """Assert that a tagger has these tables."""
    own = tables_of(tagger)
    for name in ("initial", "transition", "second", "emission"):
        given, wanted = getattr(own, name), getattr(tables, name)
        if wanted is None:
            assert given is None
            continue
        assert all(abs(given[key] - value) < atol for key, value in wanted.items()), name
