"""WordAligner on sentences that it was not trained on, and the threshold that training chooses."""

from functools import partial

import numpy as np
import pytest
from aligner_helpers import clone_fitted, make

from spectrem import WordAligner
from spectrem.data import encode_bitext
from spectrem.datasets import make_bitext
from spectrem.estimators.alignment import decoding
from spectrem.metrics import expected_f1_threshold

BITEXT = make_bitext(400, seed=1)
TRAIN, NEW = slice(0, 300), slice(300, 400)


@pytest.fixture(scope="module")
def fitted():
    return make().fit(BITEXT.source[TRAIN], BITEXT.target[TRAIN])


def words_of(fitted, links, source, target):
    return {(source.split()[i], target.split()[j]) for i, j in links.pairs(0)}


def test_new_names_and_numbers_are_linked_where_they_look_alike(fitted):
    """By position alone 1997 would go to paris."""
    source, target = "1997 paris 2003 london", "paris 1997 london 2003"
    found = words_of(fitted, fitted.predict([source], [target]), source, target)
    assert found == {(word, word) for word in source.split()}


def test_new_forms_of_known_words_are_linked_like_these(fitted):
    """Two nouns that training saw often, with new endings, in crossed order beside known words."""
    lexicon = sorted(fitted.lexicon(0.5), key=lambda entry: -min(entry[2:]))
    counts = dict(zip(fitted.source_vocabulary_.words, fitted.source_counts_, strict=True))
    frequent = [(s, t) for s, t, *_ in lexicon if min(len(s), len(t)) >= 4 and counts[s] >= 8]
    (a, b), (c, d) = frequent[:2]
    source, target = f"{a}zz {c}zz", f"{d}qq {b}qq"
    assert a[:4] != c[:4]
    assert b[:4] != d[:4]
    assert words_of(fitted, fitted.predict([source], [target]), source, target) == {
        (f"{a}zz", f"{b}qq"),
        (f"{c}zz", f"{d}qq"),
    }


def test_new_words_are_linked_to_rare_ones_before_frequent_ones(fitted):
    """A new word and a frequent one face a frequent one and a new one."""
    counts = dict(zip(fitted.source_vocabulary_.words, fitted.source_counts_, strict=True))
    frequent = [(s, t) for s, t, f, b in fitted.lexicon(0.3) if min(f, b) > 0.3 and counts[s] >= 40]
    assert frequent
    for s, t in frequent[:5]:
        for source, target in ((f"{s} wwwww", f"hhhhh {t}"), (f"wwwww {s}", f"{t} hhhhh")):
            found = words_of(fitted, fitted.predict([source], [target]), source, target)
            assert found == {(s, t), ("wwwww", "hhhhh")}


@pytest.mark.parametrize("decode", ["posterior", "union"])
def test_a_sentence_is_aligned_alike_whatever_is_aligned_beside_it(fitted, decode):
    aligner = clone_fitted(fitted, decode=decode)
    source, target = BITEXT.source[NEW], BITEXT.target[NEW]
    together, backwards = aligner.predict(source, target), aligner.predict(source[::-1], target[::-1])
    for n in range(100):
        alone = aligner.predict(source[n : n + 1], target[n : n + 1])
        assert together.pairs(n) == alone.pairs(0) == backwards.pairs(99 - n)
    posteriors = aligner.predict_proba(source, target).average
    for n in range(0, 100, 10):
        alone = aligner.predict_proba(source[n : n + 1], target[n : n + 1]).average[0]
        np.testing.assert_allclose(posteriors[n], alone, rtol=1e-9, atol=1e-12)


def test_new_text_is_the_same_as_lines_and_coded_beside_other_text(fitted):
    expected = fitted.predict(BITEXT.source[NEW], BITEXT.target[NEW])
    for bitext in (
        encode_bitext(BITEXT.source[NEW], BITEXT.target[NEW]),
        encode_bitext(BITEXT.source[::-1], BITEXT.target[::-1]).take(np.arange(99, -1, -1)),
    ):
        assert np.array_equal(fitted.predict(bitext).keys, expected.keys)


def test_a_loaded_model_aligns_new_text_alike(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = WordAligner.load(tmp_path / "model")
    assert loaded.threshold_ == fitted.threshold_
    ours, theirs = (aligner.predict_proba(BITEXT.source[NEW], BITEXT.target[NEW]) for aligner in (loaded, fitted))
    assert all(np.array_equal(a, b) for a, b in zip(ours.forward, theirs.forward, strict=True))


def test_the_general_path_and_the_compiled_one_read_new_pairs_alike(fitted):
    compiled, general = clone_fitted(fitted), clone_fitted(fitted)
    general.alpha = 0.5  # decodes as alpha = 1, on the other path
    a, b = (aligner.predict_proba(BITEXT.source[NEW], BITEXT.target[NEW]) for aligner in (compiled, general))
    for one, other in zip(a.backward, b.backward, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_shares_of_unknown_words(fitted):
    known = fitted.source_vocabulary_.words[0]
    assert fitted.unknown_shares([f"{known} never seen", ""], ["nie", "gesehen"]) == (2 / 3, 1.0)
    assert fitted.unknown_shares(BITEXT.source[TRAIN], BITEXT.target[TRAIN]) == (0.0, 0.0)
    assert fitted.unknown_shares([], []) == (0.0, 0.0)


def test_a_model_of_nothing_aligns_nothing_in_particular():
    for source, target in (([], []), ([""], ["a b"])):
        aligner = make().fit(source, target)
        assert aligner.threshold_ == 0.5
        assert np.isfinite(aligner.predict_proba(["x y"], ["y z"]).average[0]).all()


def test_the_automatic_threshold_weighs_pairs():
    plain = partial(make, discount=0, rare_discount=0)
    source, target = BITEXT.source[:60], BITEXT.target[:60]
    weights = np.arange(60) % 3
    doubled = [n for n in range(60) for _ in range(weights[n])]
    weighted = plain().fit(source, target, sample_weight=weights).threshold_
    assert weighted != plain().fit(source, target).threshold_
    repeated = plain().fit([source[n] for n in doubled], [target[n] for n in doubled]).threshold_
    assert weighted == pytest.approx(repeated, abs=1e-4)


def test_the_automatic_threshold_reads_a_sample_of_large_text(monkeypatch):
    monkeypatch.setattr(decoding, "SAMPLE", 50)
    aligner = make(rare_discount=0).fit(BITEXT.source[TRAIN], BITEXT.target[TRAIN])
    chosen = decoding.sample_pairs(np.ones(300))
    assert len(chosen) == 50
    assert (chosen[0], chosen[-1]) == (0, 299)
    assert np.ptp(np.diff(chosen)) <= 1
    found = aligner.predict_proba(*([lines[n] for n in chosen] for lines in (BITEXT.source, BITEXT.target)))
    forward, backward = (np.concatenate([m.ravel() for m in side]) for side in (found.forward, found.backward))
    threshold = expected_f1_threshold((forward + backward) / 2, right=np.minimum(forward, backward))
    assert aligner.threshold_ == pytest.approx(threshold, abs=5e-5)
    assert decoding.sample_pairs(np.array([0.0, 2.0, 0.0, 1.0])).tolist() == [1, 3]
    assert decoding.sample_pairs(np.zeros(3)).tolist() == []


def test_a_threshold_that_is_given_is_kept():
    assert make(threshold=0.3).fit(BITEXT.source[:20], BITEXT.target[:20]).threshold_ == 0.3
