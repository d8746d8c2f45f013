"""WordAligner with known links of some words."""

import numpy as np
import pytest
from aligner_helpers import make

from spectrem.data import Links, encode_bitext
from spectrem.datasets import make_bitext
from spectrem.estimators.alignment import text as aligner_text
from spectrem.estimators.alignment.decoding import expected_threshold
from spectrem.estimators.alignment.text import read_anchors
from spectrem.models.alignment import CoupledKernel, iter_shards

BITEXT = make_bitext(60, seed=4)
WAYS = ("posterior", "viterbi", "backward", "intersection", "union", "grow-diag-final-and")


def every_third_link():
    """A third of the true links, and those of which both words have no other, which anchors say to be all."""
    links = BITEXT.links
    return links.where(np.arange(links.n_links) % 3 == 0)


def keys(links, positions):
    return links.sentence * 1000 + getattr(links, positions)


def assert_kept(links, anchors):
    """All anchors are there, and their words have no other links."""
    assert np.isin(anchors.keys, links.keys).all()
    others = links.where(~np.isin(links.keys, anchors.keys))
    for positions in ("source", "target"):
        assert not np.isin(keys(others, positions), keys(anchors, positions)).any()


@pytest.mark.parametrize("decode", WAYS)
def test_links_contain_the_anchors_however_they_are_decoded(decode):
    anchors = every_third_link()
    aligner = make(decode=decode).fit(BITEXT.source, BITEXT.target, anchors=anchors)
    assert_kept(aligner.predict(BITEXT.source, BITEXT.target, anchors=anchors), anchors)


@pytest.mark.parametrize("options", [{}, {"gamma": 0.0}, {"constraints": ["agreement", "fertility"]}], ids=str)
def test_anchors_in_training_and_decoding(options):
    anchors = every_third_link()
    aligner = make(**options).fit(BITEXT.source[:30], BITEXT.target[:30], anchors=anchors.take(np.arange(30)))
    proba = aligner.predict_proba(BITEXT.source, BITEXT.target, anchors=anchors)
    for n in range(60):
        own = anchors.pairs(n)
        for i, j in own:
            for masses, axis, here in ((proba.forward[n], 0, j), (proba.backward[n], 1, i)):
                several = [pair for pair in own if pair[1 - axis] == here]
                assert masses.take(here, 1 - axis).sum() == pytest.approx(1.0)
                if len(several) == 1:
                    assert masses[i, j] == pytest.approx(1.0)


def test_the_links_of_other_words_follow():
    """Words that always occur together cannot be told apart, until one link is known."""
    source, target = ["a b c"] * 4, ["x y z"] * 4
    aligner = make(model="ibm1", stem_strength=0, cognate_strength=0, discount=0)
    aligner.fit(source, target, anchors=[[(0, 2), (1, 0)], [], None, []])
    assert aligner.predict(source[3:], target[3:]).pairs(0) == [(0, 2), (1, 0), (2, 1)]


def test_links_and_lists_say_the_same():
    anchors = every_third_link()
    listed = [anchors.pairs(n) or None for n in range(60)]
    one = make(max_iter=1).fit(BITEXT.source, BITEXT.target, anchors=anchors)
    other = make(max_iter=1).fit(BITEXT.source, BITEXT.target, anchors=listed)
    assert one.objective_ == other.objective_
    possible = Links(anchors.offsets, anchors.source, anchors.target, np.zeros(anchors.n_links, np.bool_))
    without = make(max_iter=1).fit(BITEXT.source, BITEXT.target, anchors=possible)
    assert without.objective_ == make(max_iter=1).fit(BITEXT.source, BITEXT.target).objective_


def test_anchors_that_are_all_links_are_known_links_but_for_null():
    """Without words of NULL, and of one link each, it makes no difference whether some or all are given."""
    source, target = ["a b", "b c a"], ["x y", "y z x"]
    links = [[(0, 1), (1, 0)], [(0, 0), (1, 2), (2, 1)]]
    options = {"max_iter": 2, "constraints": ()}
    one = make(**options).fit(source, target, known=links)
    other = make(**options).fit(source, target, anchors=links)
    np.testing.assert_allclose(one.params_.forward.translation, other.params_.forward.translation, rtol=1e-9)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-12)


def test_the_threshold_and_the_report_read_the_anchors():
    anchors = every_third_link()
    aligner = make(constraints=(), rare_discount=0).fit(BITEXT.source, BITEXT.target, anchors=anchors)
    bitext, expected = encode_bitext(BITEXT.source, BITEXT.target), []
    for known in (anchors, None):
        shards = list(iter_shards(bitext, aligner.table_, anchors=read_anchors(bitext, None, known)))
        posteriors = [CoupledKernel(aligner.model_).posteriors(aligner.params_, shard, 1.0) for shard in shards]
        expected.append(expected_threshold(shards, posteriors))
    assert aligner.threshold_ == expected[0] != expected[1]
    aligner, free = (make().fit(BITEXT.source, BITEXT.target, anchors=known) for known in (anchors, None))
    assert aligner.report_.summaries[0].n_rows == free.report_.summaries[0].n_rows


@pytest.mark.filterwarnings("ignore:too long:UserWarning", "ignore:more than 16 words:UserWarning")
@pytest.mark.parametrize("decode", ["posterior", "union"])
def test_anchors_of_pairs_that_are_too_long(monkeypatch, decode):
    monkeypatch.setattr(aligner_text, "_MOST_CELLS", 80)
    monkeypatch.setattr(aligner_text, "_LONGEST", 16)
    anchors = every_third_link()
    aligner = make(decode=decode).fit(BITEXT.source, BITEXT.target, anchors=anchors)
    assert_kept(aligner.predict(BITEXT.source, BITEXT.target, anchors=anchors), anchors)
    proba = aligner.predict_proba(BITEXT.source, BITEXT.target, anchors=anchors)
    long = aligner.long_pairs(BITEXT.source, BITEXT.target)
    assert len(long.unaligned)
    assert len(long.by_position)
    for n in long.by_position.tolist():
        for _, j in anchors.pairs(n):
            assert proba.forward[n][:, j].sum() == pytest.approx(1.0)


def test_an_update_learns_from_anchors():
    source, target = ["a b"] * 3, ["x y"] * 3
    found = {}
    for name, anchors in (("free", None), ("straight", [[(0, 0)]] * 3), ("crossed", [[(0, 1)]] * 3)):
        aligner = make(stem_strength=0, cognate_strength=0).fit(["a b", "c"], ["x y", "z"])
        aligner.update(source, target, anchors=anchors)
        found[name] = {(s, t): p for s, t, p, _ in aligner.lexicon(0.0)}
    for target, one, other in (("x", "straight", "crossed"), ("y", "crossed", "straight")):
        assert found[one]["a", target] > found["free"]["a", target] + 0.05 > found[other]["a", target] + 0.1
