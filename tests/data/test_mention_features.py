"""Features of mentions and of pairs of them."""

from spectrem.data import RelationSentence, mention_features, pair_features

WORDS = ["In", "1969", ",", "James", "Ray", "fled", "from", "Memphis", ",", "Tenn."]
TAGS = ["IN", "CD", ",", "NNP", "NNP", "VBD", "IN", "NNP", ",", "NNP"]
SENTENCE = RelationSentence(WORDS, [(3, 5), (7, 8), (9, 10)], tags=TAGS)


def test_mentions_are_described_by_themselves_and_their_surroundings():
    first, _, last = mention_features(SENTENCE)
    expected = ["phrase=james_ray", "w=ray", "tags=NNP_NNP", "last-suffix=ay", "w-1=,", "tag+1=VBD", "before=1969_,"]
    assert set(expected) <= set(first)
    assert "__EOS__" in last
    assert not any(feature.startswith(("w+", "behind=")) for feature in last)
    assert all(len(set(own)) == len(own) for own in mention_features(SENTENCE))


def test_pairs_are_described_in_both_orders():
    found = dict(zip(SENTENCE.pairs, pair_features(SENTENCE), strict=True))
    assert {">b=fled_from", ">pattern=VB_from", ">distance=3", "1w=ray", "2last=memphis", ">r1=,"} <= set(found[0, 1])
    assert {"<b=fled_from", "<pattern=VB_from", "2w=ray", "1last=memphis"} <= set(found[1, 0])
    assert ">pattern=VB_from_M_," in found[0, 2]
    assert ">mentions=1" in found[0, 2]
    assert ">between=," in found[1, 2]


def test_no_parts_of_speech_are_needed():
    bare = SENTENCE.unlabelled()
    bare = RelationSentence(bare.words, bare.mentions)
    for make in (mention_features, pair_features):
        own = [feature for one in make(bare) for feature in one]
        assert own
        assert not any(feature.lstrip("<>12").startswith("tag") for feature in own)


def test_mentions_may_overlap():
    overlapping = RelationSentence(["a", "b"], [(0, 2), (1, 2)])
    first, second = pair_features(overlapping)
    assert {">", ">distance=1", ">mentions=0"} <= set(first)
    assert {"<", "<distance=1", "<mentions=0"} <= set(second)
