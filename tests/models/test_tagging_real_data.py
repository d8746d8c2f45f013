"""Public data: the log-likelihoods of another implementation, and a dictionary tagger on newspaper text."""

import gzip
import runpy

import numpy as np
import pytest

from spectrem.corpus import Local
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.shards import in_corpus_order
from spectrem.models.tagging import (
    HMMModel,
    HMMParameters,
    Lexicon,
    TagKernel,
    build_shards,
    unambiguous,
    uniform,
)


@pytest.mark.parametrize(
    ("n_states", "expected"),
    [
        (12, [-8918390.523053933, -6430186.420658945]),
        pytest.param(12, [-8918390.523053933, -6430186.420658945, -6429546.016986755], marks=pytest.mark.slow),
        pytest.param(17, [-8895244.47295521, -6430376.7043062905, -6429734.975851244], marks=pytest.mark.slow),
        pytest.param(45, [-8885369.468230832, -6430005.50148318, -6429230.634040311], marks=pytest.mark.slow),
    ],
)
def test_log_likelihoods_of_hmmlearn(shared, n_states, expected):
    """Against CategoricalHMM of hmmlearn 0.3.3: the value before each M-step."""
    generator = runpy.run_path(str(shared / "bench" / "gen.py"))
    corpus, (initial, transition, emission) = generator["hmm_corpus"](), generator["hmm_init"](n_states)
    lexicon = Lexicon.full(10_000, n_states)
    model = HMMModel(lexicon, 1)
    shards = build_shards(lexicon, corpus["lengths"], corpus["tokens"])
    start = HMMParameters(initial, transition, None, np.ascontiguousarray(emission.T).ravel())
    stopping = Stopping(len(expected), tol=0.0)
    result = run_em(model, Local(shards, 2), start, EStep(kernel=TagKernel(model)), stopping=stopping)
    assert [record.objective for record in result.history] == pytest.approx(expected, rel=1e-10)


def penn_sample(shared, n_tokens):
    """Words and tags of the first tokens, the last sentence cut; the dictionary."""
    folder, sentences = shared / "data" / "tag", []
    with gzip.open(folder / "wsj_sample.pos.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            sentence = [token.rsplit("/", 1) for token in line.rstrip("\n").split("\t")[1].split()]
            sentences.append(sentence[: n_tokens - sum(map(len, sentences))])
            if sum(map(len, sentences)) == n_tokens:
                break
    with gzip.open(folder / "tagdict_sample_conll2000_ewt3.tsv.gz", "rt", encoding="utf-8") as lines:
        entries = (line.rstrip("\n").split("\t") for line in lines)
        return sentences, {word: tags.split() for word, tags in entries}


@pytest.fixture(scope="module")
def penn(shared):
    """A bigram model over the dictionary, the shards of the first 24,115 tokens, and their tags."""
    sentences, dictionary = penn_sample(shared, 24_115)
    tags = sorted({tag for allowed in dictionary.values() for tag in allowed})
    words = sorted({word for sentence in sentences for word, _ in sentence})
    number = {word: k for k, word in enumerate(words)}
    allowed = [sorted(tags.index(tag) for tag in dictionary.get(word, tags)) for word in words]
    lexicon = Lexicon.from_allowed(np.cumsum([0, *map(len, allowed)]), np.concatenate(allowed), len(tags))
    entries = [number[word] for sentence in sentences for word, _ in sentence]
    assert len(entries) == 24_115
    shards = build_shards(lexicon, [len(sentence) for sentence in sentences], entries)
    return HMMModel(lexicon, 1), shards, np.array([tags.index(tag) for sentence in sentences for _, tag in sentence])


def viterbi_accuracy(model, params, shards, gold):
    decoded = []
    for shard in shards:
        structure, scores = model.structure(shard), model.scores(params, shard)
        decoded.append(structure.decode(scores))
    order = np.argsort(np.concatenate([shard.instances for shard in shards]))
    lengths = np.concatenate([shard.lengths for shard in shards])[order]
    return (in_corpus_order(shards, decoded, lengths) == gold).mean()


def test_em_with_a_dictionary_from_the_uniform_start(penn):
    model, shards, gold = penn
    result = run_em(model, shards, uniform(model), EStep(kernel=TagKernel(model)), stopping=Stopping(400, tol=1e-9))
    values = [record.objective for record in result.history]
    assert (np.diff(values) > -1e-6).all()
    # another implementation of the same run, by dense sums per sentence
    assert values[-1] == pytest.approx(-144719.2694, abs=1e-3)
    assert viterbi_accuracy(model, result.params, shards, gold) == pytest.approx(0.8473, abs=1e-3)


def test_unambiguous_tokens_are_a_good_start(penn):
    model, shards, gold = penn
    start = unambiguous(model, Local(shards), smoothing={"initial": 0.1, "transition": 0.1, "emission": 1.0})
    result = run_em(model, shards, start, EStep(kernel=TagKernel(model)), stopping=Stopping(200, tol=1e-6))
    assert viterbi_accuracy(model, result.params, shards, gold) == pytest.approx(0.922, abs=3e-3)
