"""Scores of sentence pairs against the definition, and what they rank."""

import numpy as np
import pytest

from spectrem import WordAligner
from spectrem.data import encode_bitext
from spectrem.datasets import make_bitext
from spectrem.estimators.alignment import text as aligner_text
from spectrem.estimators.alignment.decoding import align_pairs
from spectrem.models.alignment import iter_shards

N_PAIRS = 150


@pytest.fixture(scope="module")
def bitext():
    return make_bitext(N_PAIRS, seed=4)


@pytest.fixture(scope="module")
def aligner(bitext):
    return WordAligner(n_threads=1).fit(bitext.source, bitext.target)


def slow_score(aligner, source, target):
    """The definition word by word, of a pair whose words are all known."""
    bitext = encode_bitext([source], [target], vocabularies=(aligner.source_vocabulary_, aligner.target_vocabulary_))
    (shard,) = iter_shards(bitext, aligner.table_)
    matrix = aligner.predict_proba(bitext).average[0]
    entries = shard.pairs.cells.reshape(matrix.shape)
    nats = []
    for counts, tokens in (
        (aligner.source_counts_, bitext.source_tokens),
        (aligner.target_counts_, bitext.target_tokens),
    ):
        total = sum(count + 0.5 for count in [*counts, 0])
        nats.append([-np.log((counts[token] + 0.5) / total) for token in tokens])
    forward = shard.of_entries(aligner.params_.forward.translation, backward=False)
    backward = shard.of_entries(aligner.params_.backward.translation, backward=True)
    n_source, n_target = matrix.shape
    explained = [0.0, 0.0]
    for i in range(n_source):
        explained[0] += max(
            0, *(matrix[i, j] * (np.log(backward[entries[i, j]]) + nats[0][i]) for j in range(n_target))
        )
    for j in range(n_target):
        explained[1] += max(0, *(matrix[i, j] * (np.log(forward[entries[i, j]]) + nats[1][j]) for i in range(n_source)))
    share = min(explained[0] / sum(nats[0]), explained[1] / sum(nats[1]))
    share *= (matrix.max(axis=1).mean() + matrix.max(axis=0).mean()) / 2
    structure, scores = aligner.model_.structure(shard), aligner.model_.scores(aligner.params_, shard)
    likelihood = np.exp(structure.smoothed_max(scores, 1.0)[0][0] / (n_source + n_target))
    ratio = n_target / n_source / (aligner.target_counts_.sum() / aligner.source_counts_.sum())
    return (share * likelihood * min(ratio, 1 / ratio) ** 2) ** (1 / 4)


def test_scores_are_those_of_the_definition(aligner, bitext):
    scores = aligner.score_pairs(bitext.source, bitext.target)
    assert scores.shape == (N_PAIRS,)
    for n in range(0, N_PAIRS, 10):
        assert scores[n] == pytest.approx(slow_score(aligner, bitext.source[n], bitext.target[n]), rel=1e-9)


def test_scores_lie_between_0_and_1_and_rank_bad_pairs_lower(aligner, bitext):
    good = aligner.score_pairs(bitext.source, bitext.target)
    shuffled = aligner.score_pairs(bitext.source, bitext.target[1:] + bitext.target[:1])
    halves = [" ".join(line.split()[: len(line.split()) // 2 + 1]) for line in bitext.target]
    cut = aligner.score_pairs(bitext.source, halves)
    for scores in (good, shuffled, cut):
        assert ((scores >= 0) & (scores <= 1)).all()
    assert np.mean(good[:, None] > shuffled) > 0.95
    assert np.mean(good[:, None] > cut) > 0.8


def test_swapped_words_rank_lower(aligner, bitext):
    swapped = [" ".join(line.split()[::-1]) for line in bitext.target]
    good, bad = (aligner.score_pairs(bitext.source, lines) for lines in (bitext.target, swapped))
    several = [n for n, line in enumerate(bitext.target) if len(line.split()) > 3]
    assert np.mean(good[several] > bad[several]) > 0.9


@pytest.mark.parametrize("settings", [{"gamma": 0.0, "max_iter": 1}, {"model": "ibm1"}, {"constraints": ()}])
def test_every_aligner_has_scores(bitext, settings):
    few = bitext.source[:20], bitext.target[:20]
    aligner = WordAligner(n_threads=1, **settings).fit(*few)
    scores = aligner.score_pairs(*few)
    assert ((scores > 0) & (scores <= 1)).all()


@pytest.mark.filterwarnings("ignore:too long")
def test_pairs_aligned_by_position_have_scores(aligner, bitext, monkeypatch):
    monkeypatch.setattr(aligner_text, "_MOST_WORDS", 5)
    long = aligner.long_pairs(bitext.source, bitext.target).by_position
    assert len(long) > N_PAIRS / 2
    good = aligner.score_pairs(bitext.source, bitext.target)[long]
    bad = aligner.score_pairs(bitext.source, bitext.target[1:] + bitext.target[:1])[long]
    assert ((good > 0) & (good <= 1)).all()
    assert np.mean(good > bad) > 0.95


def test_pairs_without_words_have_no_score(aligner, bitext):
    scores = aligner.score_pairs(["", "", bitext.source[0], bitext.source[0]], ["", "a", "", bitext.target[0]])
    assert np.isnan(scores[:3]).all()
    assert scores[3] > 0
    assert aligner.score_pairs([], []).shape == (0,)


def test_unknown_words_have_scores(aligner):
    (score,) = aligner.score_pairs(["no such words"], ["rien de tel ici"])
    assert 0 <= score < 0.5


def test_one_pass_gives_links_probabilities_and_scores(aligner, bitext):
    encoded = encode_bitext(bitext.source, bitext.target)
    parts = list(align_pairs(aligner, encoded))
    assert [pairs for part in parts for pairs in map(part.links.pairs, range(part.links.n_sentences))] == [
        *map(aligner.predict(encoded).pairs, range(N_PAIRS))
    ]
    expected = aligner.predict_proba(encoded)
    found = [matrix for part in parts for matrix in part.posteriors.forward]
    assert all(np.array_equal(one, other) for one, other in zip(found, expected.forward, strict=True))
    assert np.array_equal(np.concatenate([part.scores for part in parts]), aligner.score_pairs(encoded))


def test_one_pass_decodes_as_the_aligner_does(bitext):
    aligner = WordAligner(decode="intersection", n_threads=1).fit(bitext.source, bitext.target)
    encoded = encode_bitext(bitext.source, bitext.target)
    links = [part.links for part in align_pairs(aligner, encoded)]
    assert sum(one.n_links for one in links) == aligner.predict(encoded).n_links
