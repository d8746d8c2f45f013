"""HMMTagger on the Penn sample, and its memory."""

import itertools
import sys
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from tagger_helpers import make, same_params

from spectrem.data import read_tag_dictionary, read_tagged
from spectrem.learning import Anneal


@pytest.fixture(scope="module")
def penn(shared):
    """The first 24,115 tokens and the dictionary."""
    folder = shared / "data" / "tag"
    corpus = read_tagged(folder / "wsj_sample.pos.gz", format="slash")
    words, tags, left = [], [], 24_115
    for own_words, own_tags in zip(*corpus, strict=True):
        if left > 0:
            words.append(own_words[:left])
            tags.append(own_tags[:left])
            left -= len(words[-1])
    return words, tags, read_tag_dictionary(folder / "tagdict_sample_conll2000_ewt3.tsv.gz")


def accuracy(found, gold):
    pairs = zip(itertools.chain(*found), itertools.chain(*gold), strict=True)
    return 100 * np.mean([a == b for a, b in pairs])


def test_em_from_the_uniform_start(penn):
    words, tags, dictionary = penn
    assert sum(map(len, words)) == 24_115
    tagger = make(dictionary=dictionary, perturbation=0.0, tol=1e-7, max_iter=300, decode="viterbi").fit(words)
    assert len(tagger.tags_) == 45
    assert accuracy(tagger.predict(words), tags) == pytest.approx(84.5, abs=0.3)
    assert tagger.log_likelihood_ == pytest.approx(-144_720, abs=2)
    assert accuracy(tagger.set_params(decode="posterior").predict(words), tags) == pytest.approx(84.7, abs=0.3)


def test_certain_tokens_are_a_better_start(penn):
    words, tags, dictionary = penn
    tagger = make(dictionary=dictionary, init="unambiguous", max_iter=10, decode="viterbi").fit(words)
    assert accuracy(tagger.predict(words), tags) > 88


def test_threads_do_not_change_it(penn):
    words, _, dictionary = penn
    taggers = [make(dictionary=dictionary, max_iter=2, n_threads=n).fit(words) for n in (1, 2)]
    assert same_params(*taggers)
    assert taggers[0].predict(words) == taggers[1].predict(words)


@pytest.mark.slow
def test_annealing(penn):
    words, tags, dictionary = penn
    tagger = make(
        dictionary=dictionary, perturbation=0.0, schedule=Anneal(0.05), tol=1e-6, max_iter=300, decode="viterbi"
    ).fit(words)  # fmt: skip
    assert accuracy(tagger.predict(words), tags) > 84.5


class Peak:
    """Largest memory of an iteration beyond what was there before it, bytes."""

    def __init__(self):
        self.found = []

    def __call__(self, record):
        now, peak = tracemalloc.get_traced_memory()
        if self.found is not None:
            self.found.append(peak - now)
        tracemalloc.reset_peak()


def peak_of(sentences, **options):
    heard = Peak()
    tracemalloc.start()
    try:
        make(**options, max_iter=3, on_iteration=heard).fit(sentences)
    finally:
        tracemalloc.stop()
    return max(heard.found[1:])


def peaks_of(**options):
    """Peaks of a corpus and of one four times as large."""
    rng = np.random.default_rng(0)
    sentences = [rng.integers(0, 500, 25) for _ in range(12_000)]
    return peak_of(sentences[:3_000], **options), peak_of(sentences, **options)


@pytest.mark.parametrize("options", [{"n_states": 12, "init": "random"}, {"n_states": 4, "init": "random", "order": 2}])
def test_memory_of_an_iteration_does_not_grow_with_the_corpus(options):
    # In a process of its own: what threads of other tests allocate meanwhile would count.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        small, large = pool.submit(peaks_of, **options).result()
    assert large < 1.2 * small + 200_000
    assert large < 60e6


@pytest.mark.slow
def test_memory_of_the_full_workload(shared):
    sys.path.insert(0, str(shared / "bench"))
    try:
        import gen
    finally:
        sys.path.pop(0)
    data = gen.hmm_corpus()
    sentences = np.split(data["tokens"], np.cumsum(data["lengths"])[:-1])
    assert len(sentences) == 40_000
    assert peak_of(sentences, n_states=12, init="random") < 100e6


def test_hmmlearn_log_likelihoods(shared):
    """The common start of the benchmark, on its first sentences: values by an independent forward pass."""
    rng = np.random.default_rng(0)
    initial, transition, emission = (
        rng.dirichlet(np.ones(5)),
        rng.dirichlet(np.ones(5), 5),
        rng.dirichlet(np.ones(40), 5),
    )
    sentences = [rng.integers(0, 40, n) for n in rng.integers(1, 60, 50)]
    expected = 0.0
    for sentence in sentences:
        alpha = initial * emission[:, sentence[0]]
        for word in sentence[1:]:
            expected += np.log(alpha.sum())
            alpha = (alpha / alpha.sum()) @ transition * emission[:, word]
        expected += np.log(alpha.sum())
    tagger = make(n_states=5).from_parameters(initial, transition, emission, n_threads=1)
    assert tagger.score_samples(sentences).sum() == pytest.approx(expected, rel=1e-12)
