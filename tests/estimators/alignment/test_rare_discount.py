"""Links of rare words must be surer than others."""

import numpy as np
import pytest
from aligner_helpers import clone_fitted, make, shares_of_rare_words

from spectrem import WordAligner
from spectrem.data import encode_bitext
from spectrem.datasets import make_bitext
from spectrem.estimators import storage
from spectrem.estimators.alignment.decoding import align_pairs, masses
from spectrem.estimators.alignment.text import read_anchors
from spectrem.models.alignment import iter_shards

BITEXT = make_bitext(80, seed=4)
# Text that was trained on, with new words on either side.
SOURCE = [*BITEXT.source[:10], f"unheard {BITEXT.source[3]}", BITEXT.source[5]]
TARGET = [*BITEXT.target[:10], BITEXT.target[3], f"{BITEXT.target[5]} neu"]


@pytest.fixture(scope="module")
def fitted():
    return make().fit(BITEXT.source[:40], BITEXT.target[:40])


@pytest.mark.parametrize("discount", [0, 0.5, 3])
@pytest.mark.parametrize("threshold", [0.2, 0.45, 0.7])
def test_links_need_more_the_rarer_their_words(fitted, discount, threshold):
    aligner = clone_fitted(fitted, rare_discount=discount, threshold=threshold)
    posteriors = aligner.predict_proba(SOURCE, TARGET).average
    links = aligner.predict(SOURCE, TARGET)
    shares = shares_of_rare_words(aligner, SOURCE, TARGET)
    for n, (matrix, share) in enumerate(zip(posteriors, shares, strict=True)):
        assert links.pairs(n) == [tuple(cell) for cell in np.argwhere(matrix * share > threshold).tolist()]
    assert aligner.source_counts_.min() == 1
    bitext = encode_bitext(SOURCE, TARGET, vocabularies=(aligner.source_vocabulary_, aligner.target_vocabulary_))
    (part,) = align_pairs(aligner, bitext)
    assert [part.links.pairs(n) for n in range(12)] == [links.pairs(n) for n in range(12)]
    for found, mean in zip(part.posteriors.average, posteriors, strict=True):
        np.testing.assert_array_equal(found, mean)


def test_posteriors_and_scores_do_not_change(fitted):
    plain, strict = (clone_fitted(fitted, rare_discount=discount) for discount in (0, 2))
    np.testing.assert_array_equal(plain.score_pairs(SOURCE, TARGET), strict.score_pairs(SOURCE, TARGET))
    for one, other in zip(*(a.predict_proba(SOURCE, TARGET).average for a in (plain, strict)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_new_words_are_not_rare_ones(fitted):
    aligner = clone_fitted(fitted, rare_discount=1000, threshold=0.01)
    links = aligner.predict(["unheard"], ["neu"])
    assert aligner.predict_proba(["unheard"], ["neu"]).average[0][0, 0] > 0.01
    assert links.pairs(0) == [(0, 0)]


def test_tuning_holds_the_same_masses_against_thresholds():
    aligner = make(rare_discount=3).fit(BITEXT.source, BITEXT.target)
    aligner.tune(BITEXT.source, BITEXT.target, BITEXT.links)
    chosen = aligner.threshold_
    errors = {}
    for aligner.threshold_ in np.round(np.arange(0.05, 0.96, 0.025), 3).tolist():
        errors[aligner.threshold_] = 1 - aligner.score(BITEXT.source, BITEXT.target, BITEXT.links)
    assert errors[chosen] == pytest.approx(min(errors.values()), abs=1e-12)


def test_known_links_are_believed():
    source, target = ["a b c", "a b", "only b"], ["x y z", "x y", "einmal y"]
    anchors = [None, None, [(0, 0)]]
    aligner = WordAligner(n_threads=1, rare_discount=1000).fit(source, target, anchors=anchors)
    bitext = encode_bitext(source, target)
    (shard,) = iter_shards(bitext, aligner.table_, anchors=read_anchors(bitext, None, anchors))
    last = masses(aligner, shard, 1.0)[-4:]
    assert last[0] == pytest.approx(1, abs=1e-9)
    assert last[3] < 0.01


def test_saved_models_keep_it_and_earlier_ones_had_none(fitted, tmp_path, monkeypatch):
    aligner = clone_fitted(fitted, rare_discount=2)
    aligner.save(tmp_path / "model")
    assert WordAligner.load(tmp_path / "model").rare_discount == 2

    settings_of = storage.settings_of

    def of_earlier_versions(estimator, leave):
        settings = settings_of(estimator, leave)
        del settings["parameters"]["rare_discount"]
        return settings

    monkeypatch.setattr(storage, "settings_of", of_earlier_versions)
    aligner.save(tmp_path / "earlier")
    assert WordAligner.load(tmp_path / "earlier").rare_discount == 0
