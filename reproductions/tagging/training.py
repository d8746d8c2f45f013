"""Training taggers step by step, to see how accuracy goes along, and scoring them on a text."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.tagging.corpora import flat
from spectrem.data import TaggedCorpus
from spectrem.estimators import HMMTagger
from spectrem.exceptions import ConvergenceWarning
from spectrem.learning import Anneal
from spectrem.metrics import ambiguous_tokens, correct_tokens, cross_entropy, posterior_entropy


class Accuracy(NamedTuple):
    """Percent right of all tokens, and of those that the dictionary leaves in doubt."""

    accuracy: float
    ambiguous: float


class Text(NamedTuple):
    """Sentences with what scores need of them."""

    words: list[list[str]]
    gold: list[str | None]
    lengths: list[int]
    ambiguous: NDArray[np.bool_]

    @property
    def n_tokens(self) -> int:
        """Words."""
        return len(self.gold)

    def accuracy(self, tagged: Iterable[Sequence[Any]]) -> Accuracy:
        """Of a tagging of the sentences."""
        right = correct_tokens(flat(tagged), self.gold)
        return Accuracy(100 * float(right.mean()), 100 * float(right[self.ambiguous].mean()))


@dataclass(frozen=True, eq=False)
class Scores:
    """One tagger on one text.

    Attributes
    ----------
    bits : float
        Cross-entropy per word.
    accuracy : Accuracy
    predicted : list of str
        Best tag sequences, one sentence after another.
    entropies : ndarray of shape (n_tokens,)
        Of each token's posterior, bits.
    log_likelihoods : ndarray of shape (n_sentences,)
        Nats; sentences without words are left out.
    """

    bits: float
    accuracy: Accuracy
    predicted: list[str]
    entropies: NDArray[np.float64]
    log_likelihoods: NDArray[np.float64]


class Stage(NamedTuple):
    """A tagger on its way: after so many E-steps, the last of them at beta = 1 / gamma."""

    tagger: HMMTagger
    n_steps: int
    beta: float


def as_text(corpus: TaggedCorpus, dictionary: Mapping[Any, Any]) -> Text:
    """The corpus, flat where scores are."""
    words = flat(corpus.words)
    return Text(corpus.words, flat(corpus.tags), list(map(len, corpus.words)), ambiguous_tokens(words, dictionary))


def all_tags(dictionary: Mapping[str, Iterable[str]]) -> list[str]:
    """The tags of a dictionary, sorted."""
    return sorted(set(flat(dictionary.values())))


def run_stages(
    settings: Mapping[str, Any], words: Sequence[Sequence[str]], plan: Iterable[tuple[float, int]], **start: Any
) -> Iterator[Stage]:
    """Train through (gamma, iterations at most), each stage from where the one before ended.

    Ends early where gamma is 1 and the stopping rule was met.

    Parameters
    ----------
    settings : mapping
        Of `HMMTagger`.
    words : sentences
    plan : iterable of (float, int)
    **start
        More settings, for the first stage only.
    """
    n_steps = 0
    for gamma, max_iter in plan:
        with warnings.catch_warnings():
            # Stages are cut short on purpose.
            warnings.simplefilter("ignore", ConvergenceWarning)
            tagger = HMMTagger(**{**settings, **start}, gamma=gamma, max_iter=max_iter).fit(words)
        start = {"init": tagger}
        n_steps += tagger.n_iter_
        yield Stage(tagger, n_steps, 1.0 / gamma)
        if gamma == 1.0 and tagger.n_iter_ < max_iter:
            return


def plain_plan(max_iter: int) -> Iterator[tuple[float, int]]:
    """EM in stretches of 1, 1, 2, 4, ... 64, 64, ... iterations."""
    done = 0
    while done < max_iter:
        stretch = min(max(done, 1), 64, max_iter - done)
        yield 1.0, stretch
        done += stretch


def annealing_plan(schedule: Anneal, max_iter: int) -> Iterator[tuple[float, int]]:
    """Every gamma of the schedule until it has converged, or ``max_iter`` iterations."""
    return ((gamma, max_iter) for gamma in schedule.gammas())


def score(tagger: HMMTagger, text: Text) -> Scores:
    """Cross-entropy, accuracy of the best sequences, and entropy of the posteriors."""
    tagged = tagger.predict(text.words)
    log_likelihoods = tagger.score_samples([sentence for sentence in text.words if sentence])
    return Scores(
        bits=cross_entropy(float(log_likelihoods.sum()), text.n_tokens),
        accuracy=text.accuracy(tagged),
        predicted=flat(tagged),
        entropies=posterior_entropy(tagger.predict_proba(text.words)),
        log_likelihoods=log_likelihoods,
    )
