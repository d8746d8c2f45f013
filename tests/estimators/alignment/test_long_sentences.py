"""Sentences of thousands of words are aligned in bounded memory, or named; no other pair notices them."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from aligner_helpers import clone_fitted, shares_of_rare_words

from spectrem import WordAligner
from spectrem.data import encode_bitext
from spectrem.datasets import make_bitext
from spectrem.estimators.alignment.decoding import long_links, viterbi_links
from spectrem.models.alignment import CoupledKernel, build_shards, coupled, diagonal_posteriors

BITEXT = make_bitext(200, seed=4)
SOURCE, TARGET = (" ".join(lines).split() * 60 for lines in (BITEXT.source, BITEXT.target))
SHORT = [list(BITEXT.source[:5]), list(BITEXT.target[:5])]


def words(n_source, n_target):
    return " ".join(SOURCE[:n_source]), " ".join(TARGET[:n_target])


def among_short_ones(*pairs):
    """Two short pairs, the long ones, three short pairs."""
    return tuple([*short[:2], *(pair[side] for pair in pairs), *short[2:]] for side, short in enumerate(SHORT))


@pytest.fixture(scope="module")
def fitted():
    # Without discounts, so that words at random have links at all.
    return WordAligner(n_threads=1, discount=0, rare_discount=0).fit(BITEXT.source, BITEXT.target)


@pytest.fixture
def solved(monkeypatch):
    """Cells of every pair that the model's own E-step solves when decoding."""
    cells, posteriors = [], CoupledKernel.posteriors

    def recorded(self, params, shard, gamma):
        cells.extend((shard.source_lengths * shard.target_lengths).tolist())
        return posteriors(self, params, shard, gamma)

    monkeypatch.setattr(CoupledKernel, "posteriors", recorded)
    return cells


def peak_of(call):
    """Result, and megabytes allocated by NumPy at the worst moment."""
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return result, peak


@pytest.mark.parametrize(("n_source", "n_target"), [(1000, 30), (30, 1000), (300, 300), (1000, 1000)])
def test_one_long_sentence_among_short_ones(fitted, solved, n_source, n_target):
    source, target = among_short_ones(words(n_source, n_target))
    links, peak = peak_of(lambda: fitted.predict(source, target))
    assert links.n_sentences == 6
    assert len(links.pairs(2)) > 10
    alone = fitted.predict(*SHORT)
    assert [links.pairs(n) for n in (0, 1, 3, 4, 5)] == [alone.pairs(n) for n in range(5)]
    assert n_source * n_target in solved
    assert peak < 200


def test_a_long_sentence_in_training():
    long = words(1000, 25)
    source, target = [*BITEXT.source, long[0]], [*BITEXT.target, long[1]]
    aligner, peak = peak_of(lambda: WordAligner(n_threads=1, max_iter=2).fit(source, target))
    assert np.isfinite(aligner.history_[-1].objective)
    assert aligner.score(BITEXT.source, BITEXT.target, BITEXT.links) > 0.85
    assert aligner.n_skipped_ == 0
    assert peak < 300


@pytest.mark.parametrize("model", ["ibm1", "ibm2"])
def test_a_thousand_words_on_both_sides_without_a_chain(model):
    aligner = WordAligner(model, max_iter=1, n_threads=1, discount=0).fit(BITEXT.source, BITEXT.target)
    links, peak = peak_of(lambda: aligner.predict(*([line] for line in words(1000, 1000))))
    assert links.n_links > 0
    assert peak < 200


def test_beyond_a_size_position_decides_and_beyond_a_length_nothing_is_linked(fitted, solved):
    source, target = among_short_ones(words(1100, 1000), words(20, 2001), words(5001, 3), words(3, 100_000))
    found = fitted.long_pairs(source, target)
    assert found.by_position.tolist() == [2, 3]
    assert found.unaligned.tolist() == [4, 5]
    with pytest.warns(UserWarning, match="sentence pairs") as caught:
        links, peak = peak_of(lambda: fitted.predict(source, target))
    assert [str(warning.message) for warning in caught] == [
        "too long for the model, aligned by translation and position alone: sentence pairs 3, 4, counted from 1; split "
        "long lines into sentences",
        "more than 5,000 words on a side, left without links: sentence pairs 5, 6, counted from 1; split long lines "
        "into sentences",
    ]
    alone = fitted.predict(*SHORT)
    assert [links.pairs(n) for n in (0, 1, 6, 7, 8)] == [alone.pairs(n) for n in range(5)]
    assert [len(links.pairs(n)) for n in (4, 5)] == [0, 0]
    assert len(links.pairs(2)) > 490
    assert max(solved) < 1000
    assert peak < 100


@pytest.mark.filterwarnings("ignore:.*sentence pairs")
def test_posteriors_of_pairs_that_are_too_long(fitted):
    source, target = among_short_ones(words(20, 2001), words(2002, 10), words(5001, 3), words(3, 5001))
    posteriors = fitted.predict_proba(source, target)
    shapes = [matrix.shape for matrix in posteriors.average]
    assert shapes[2:6] == [(20, 2001), (2002, 10), (0, 0), (0, 0)]
    sizes = []
    for discount in (0, 10):
        aligner = clone_fitted(fitted, rare_discount=discount, threshold=0.02)
        links, shares = aligner.predict(source, target), shares_of_rare_words(aligner, source, target)
        for n in (2, 3):
            chosen = np.argwhere(posteriors.average[n] * shares[n] > aligner.threshold_)
            assert links.pairs(n) == [tuple(link) for link in chosen.tolist()]
            sizes.append(len(chosen))
    assert sizes[0] > sizes[2] > 0
    assert sizes[1] > sizes[3] > 0
    alone = fitted.predict_proba(*SHORT)
    np.testing.assert_array_equal(posteriors.forward[6], alone.forward[2])


def test_pairs_too_long_to_be_trained_on_are_skipped_and_named():
    # The longer ones would need 80 GB for a table of the square of their length.
    source, target = [*BITEXT.source], [*BITEXT.target]
    for place, pair in ((3, words(100_000, 4)), (9, words(1100, 1000)), (12, words(2, 2001))):
        source.insert(place, pair[0])
        target.insert(place, pair[1])
    with pytest.warns(UserWarning, match="too long to be trained on, skipped: sentence pairs 4, 10, 13, counted"):
        aligner, peak = peak_of(lambda: WordAligner(n_threads=1).fit(source, target))
    assert aligner.n_skipped_ == 3
    assert peak < 100
    plain = WordAligner(n_threads=1).fit(BITEXT.source, BITEXT.target)
    np.testing.assert_allclose(aligner.history_[-1].objective, plain.history_[-1].objective, rtol=1e-12)


def test_known_links_of_a_pair_that_is_too_long():
    source, target = ["a b", words(2001, 1)[0], "b"], ["x y", "x", "y"]
    with pytest.warns(UserWarning, match="sentence pair 2, counted from 1"):
        aligner = WordAligner(n_threads=1, max_iter=1).fit(source, target, known=[None, [(0, 0)], [(0, 0)]])
    assert aligner.n_skipped_ == 1


@pytest.mark.parametrize(
    ("changes", "n_words"),
    [
        ({"gamma": 0.05}, 600),
        ({"gamma": 0.0}, 600),
        ({"gamma": 0.5, "dual_steps": 0}, 150),
        ({"gamma": 0.0, "dual_steps": 0}, 100),
        ({"gamma": -np.inf}, 100),
        ({"alpha": 0.5}, 600),
    ],
)
def test_slower_ways_to_solve_have_lower_limits(fitted, changes, n_words):
    """A hundred words on both sides would be a program of two million variables."""
    aligner = clone_fitted(fitted, **changes)
    source, target = ([line] for line in words(n_words, n_words))
    with pytest.warns(UserWarning, match="by translation and position alone: sentence pair 1, counted"):
        links, peak = peak_of(lambda: aligner.predict(source, target))
    assert len(links.pairs(0)) > n_words / 4
    assert peak < 100


def equivalent(fitted, source, target):
    """The pair as a shard, and Model 2 with jumps of the same weights as the distances from the diagonal."""
    bitext = encode_bitext([source], [target], vocabularies=(fitted.source_vocabulary_, fitted.target_vocabulary_))
    (shard,) = build_shards(bitext, fitted.table_)[1]
    width = int(max(bitext.source_lengths[0], bitext.target_lengths[0]))
    jump = np.exp(-np.abs(np.arange(-width, width + 1)) / 10) + 1e-5
    params = replace(
        fitted.params_,
        forward=replace(fitted.params_.forward, jump=jump / jump.sum()),
        backward=replace(fitted.params_.backward, jump=jump / jump.sum()),
    )
    return shard, params, replace(fitted.model_, chain=False)


@pytest.mark.parametrize("agreement", [False, True])
@pytest.mark.parametrize("gamma", [0.1, 0.3, 1.0, 3.0])
@pytest.mark.parametrize(("n_source", "n_target"), [(1, 1), (1, 9), (40, 60), (70, 31)])
def test_posteriors_by_position_are_those_of_model_2(fitted, monkeypatch, n_source, n_target, gamma, agreement):
    shard, params, model = equivalent(fitted, *words(n_source, n_target))
    kernel = CoupledKernel(model, agreement=agreement, step_size=0.8)
    expected = kernel.posteriors(params, shard, gamma)
    monkeypatch.setattr(coupled, "_BLOCK_CELLS", 7 * n_target)
    blocks = list(diagonal_posteriors(params, shard, gamma, 5 if agreement else 0, 0.8))
    assert len(blocks) == -(-n_source // 7)
    for got, wanted in zip(zip(*blocks, strict=True), expected, strict=True):
        np.testing.assert_allclose(np.concatenate(got).ravel(), wanted, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("decode", ["viterbi", "backward", "intersection", "grow-diag-final-and"])
def test_the_best_alignment_by_position_is_that_of_model_2(fitted, monkeypatch, decode):
    monkeypatch.setattr(coupled, "_BLOCK_CELLS", 500)
    shard, params, model = equivalent(fitted, *words(70, 50))
    aligner = WordAligner(decode=decode)
    aligner.params_ = params
    got = long_links(aligner, replace(shard, by_position=True))
    assert got.pairs(0) == viterbi_links(model, params, shard, decode).pairs(0)
