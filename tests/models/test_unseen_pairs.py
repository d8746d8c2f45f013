"""Probabilities of word pairs that training never saw, against their definition word by word."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from spectrem.data import Vocabulary, encode_bitext
from spectrem.models.alignment import (
    AlignmentModel,
    Language,
    NewText,
    UnseenPairs,
    build_shards,
    expect_new_words,
)

SOURCE = ["the house the houses", "a house the the a", "housing 1997 a", "red a the", "reddish red 1997 x"]
TARGET = ["das haus die hauser", "ein haus das das", "hausbau 1997 ein", "rot ein das das", "rotlich rot 1997"]
NEW_SOURCE = ["household the 1998 paris", "redder a house", "", "x 1997 reddish zz"]
NEW_TARGET = ["haushalt das 1998 paris zzz", "roter haus", "das", "1997 haus ein"]
STEMS, ALIKE, FREQUENCY = 7.0, 3.0, 10.0


def stem(word):
    return word if word[0].isdigit() else word[:4]


def band(count):
    return count.bit_length() - 1


class Literal:
    """p(produced | given) of one direction, from dictionaries."""

    def __init__(self, links, given_counts, produced_counts):
        self.given, self.produced = given_counts, produced_counts
        self.stems, self.bands = Counter(), Counter()
        for (given, produced), probability in links.items():
            expected = probability * given_counts[given]
            self.stems[stem(given), stem(produced)] += expected
            self.bands[band(given_counts[given]), band(produced_counts[produced])] += expected

    def band_of(self, word, counts):
        return band(counts[word]) if counts[word] else min(map(band, counts.values()))

    def share(self, word, same_class):
        """Of a word among the tokens of its class; a new one counts 1."""
        tokens = sum(count for other, count in self.produced.items() if same_class(other))
        return max(self.produced[word], 1), tokens

    def probability(self, given, produced):
        total = sum(mass for (g, _), mass in self.stems.items() if g == stem(given))
        mass = self.stems[stem(given), stem(produced)] / total if total else 0.0
        own, tokens = self.share(produced, lambda other: stem(other) == stem(produced))
        counts = STEMS * mass * own / (tokens + (self.produced[produced] == 0)) if mass else 0.0
        bands = self.band_of(given, self.given), self.band_of(produced, self.produced)
        total = sum(mass for (g, _), mass in self.bands.items() if g == bands[0])
        own, tokens = self.share(produced, lambda other: band(self.produced[other]) == bands[1])
        counts += FREQUENCY * (self.bands[bands] / total if total else 0.0) * own / tokens
        counts += ALIKE * (given == produced)  # no others look alike here
        return max(counts / (self.given[given] + STEMS + ALIKE + FREQUENCY), 1e-12)


@pytest.fixture(scope="module")
def trained():
    """A table with random probabilities, as a model and as dictionaries."""
    bitext = encode_bitext(SOURCE, TARGET)
    table, _ = build_shards(bitext)
    rng = np.random.default_rng(0)
    params = AlignmentModel(table, 5, chain=False, learn_positions=False).initial(0.1)
    forward, backward = (np.append(rng.random(table.n_pairs), 1e-12) for _ in range(2))
    params = replace(
        params,
        forward=replace(params.forward, translation=forward),
        backward=replace(params.backward, translation=backward),
    )
    sources, targets = bitext.source_vocabulary, bitext.target_vocabulary
    counts = [Counter(" ".join(lines).split()) for lines in (SOURCE, TARGET)]
    languages = [
        Language.of(vocabulary, np.array([own[word] for word in vocabulary.words]))
        for vocabulary, own in zip((sources, targets), counts, strict=True)
    ]
    unseen = UnseenPairs.of(table, params, *languages, stem_strength=STEMS, cognate_strength=ALIKE)
    pairs = [(sources.words[s], targets.words[t]) for s, t in zip(table.sources, table.targets, strict=True)]
    literal = (
        Literal(dict(zip(pairs, forward, strict=False)), *counts),
        Literal({(t, s): p for (s, t), p in zip(pairs, backward, strict=False)}, *reversed(counts)),
    )
    return table, params, unseen, literal, (sources, targets)


def new_shard(trained, source, target):
    """The shard of a new text, its words, and the shard completed."""
    table, _, unseen, _, vocabularies = trained
    known = encode_bitext(source, target, vocabularies=vocabularies)
    shard = build_shards(known, table)[1][0]
    return shard, NewText.of(unseen, encode_bitext(source, target)).complete(shard)


def test_every_unseen_pair_is_the_mean_under_its_prior(trained):
    table, params, _, literal, (sources, targets) = trained
    _, shard = new_shard(trained, NEW_SOURCE, NEW_TARGET)
    seen = {(sources.words[s], targets.words[t]) for s, t in zip(table.sources, table.targets, strict=True)}
    values = [
        shard.of_entries(params.forward.translation, backward=False),
        shard.of_entries(params.backward.translation, backward=True),
    ]
    n_unseen = 0
    for n, (source, target) in enumerate(zip(NEW_SOURCE, NEW_TARGET, strict=True)):
        cells = shard.pairs.cells[shard.pairs.cell_offsets[n] : shard.pairs.cell_offsets[n + 1]]
        for cell, (s, t) in zip(cells, itertools.product(source.split(), target.split()), strict=True):
            if (s, t) in seen:
                assert shard.pair_ids[cell] < table.n_pairs
                continue
            n_unseen += 1
            expected = literal[0].probability(s, t), literal[1].probability(t, s)
            assert (values[0][cell], values[1][cell]) == pytest.approx(expected, rel=1e-12), (s, t)
    assert n_unseen > 20


def test_the_prior_by_hand():
    """One source word seen 3 times, one target word seen 3 times, linked for certain; then new words."""
    bitext = encode_bitext(["walk walk", "walk"], ["geht geht", "geht"])
    table, _ = build_shards(bitext)
    params = AlignmentModel(table, 5, chain=False, learn_positions=False).initial(0.1)
    languages = [Language.of(v, np.array([3])) for v in (bitext.source_vocabulary, bitext.target_vocabulary)]
    unseen = UnseenPairs.of(table, params, *languages, stem_strength=4.0, cognate_strength=2.0)
    source, target = languages[0].describe(["walk", "walking", "run"]), languages[1].describe(["gehtest", "run"])
    forward, backward = unseen.probabilities(source, target, np.array([0, 1, 2, 2]), np.array([0, 0, 0, 1]))
    # the stem of "gehtest" has 3 tokens and one to come; its band, the only one, has 3
    stems, band = 4.0 * 1 / 4, 10.0 * 1 / 3
    np.testing.assert_allclose(forward, [(stems + band) / (3 + 16), (stems + band) / 16, band / 16, (band + 2.0) / 16])
    # backward "walk" is 3 of the 3 tokens of its stem and of its band
    np.testing.assert_allclose(backward, [(4.0 + 10.0) / 16, (stems + band) / 16, band / 16, (band + 2.0) / 16])


def test_the_training_text_is_left_as_it_is(trained):
    shard, completed = new_shard(trained, SOURCE, TARGET)
    assert completed is shard


def test_a_pair_is_as_probable_whatever_stands_beside_it(trained):
    _, params, *_ = trained
    _, together = new_shard(trained, NEW_SOURCE, NEW_TARGET)
    whole = together.of_entries(params.forward.translation, backward=False)[together.pairs.cells]
    offsets = together.pairs.cell_offsets
    for n in (0, 1, 3):
        _, alone = new_shard(trained, NEW_SOURCE[n : n + 1], NEW_TARGET[n : n + 1])
        own = alone.of_entries(params.forward.translation, backward=False)[alone.pairs.cells]
        assert np.array_equal(own, whole[offsets[n] : offsets[n + 1]])


def test_a_selection_keeps_the_unseen(trained):
    _, params, *_ = trained
    _, shard = new_shard(trained, NEW_SOURCE, NEW_TARGET)
    part = shard.select(np.array([3, 1]))
    whole = shard.of_entries(params.backward.translation, backward=True)[shard.pairs.cells]
    offsets = shard.pairs.cell_offsets
    chosen = np.concatenate([whole[offsets[n] : offsets[n + 1]] for n in (3, 1)])
    assert np.array_equal(part.of_entries(params.backward.translation, backward=True)[part.pairs.cells], chosen)


def test_unknown_words_without_a_spelling(trained):
    """A text coded by the model's own vocabularies has lost them; they are in the band of the rarest, no more."""
    table, params, unseen, _, vocabularies = trained
    known = encode_bitext(["paris"], ["paris"], vocabularies=vocabularies)
    assert known.source_tokens.tolist() == known.target_tokens.tolist() == [-1]
    shard = NewText.of(unseen, known).complete(build_shards(known, table)[1][0])
    unspelled = shard.of_entries(params.forward.translation, backward=False)[shard.pairs.cells][0]
    _, spelled = new_shard(trained, ["paris"], ["other"])
    assert unspelled == spelled.of_entries(params.forward.translation, backward=False)[spelled.pairs.cells][0]
    _, alike = new_shard(trained, ["paris"], ["paris"])
    gain = alike.of_entries(params.forward.translation, backward=False)[alike.pairs.cells][0] - unspelled
    assert gain == pytest.approx(ALIKE / (STEMS + ALIKE + FREQUENCY))


def test_words_of_the_vocabulary_that_never_occur_are_new():
    language = Language.of(Vocabulary(("a", "bb", "c")), np.array([0, 4, 6]))
    words = language.describe(["a", "new", "c"])
    assert words.counts.tolist() == [0, 0, 6]
    assert words.band.tolist() == [2, 2, 2]
    assert words.band_share.tolist() == [0.1, 0.1, 0.6]
    assert words.stem.tolist() == [0, -1, 2]
    assert words.stem_share.tolist() == [1.0, 1.0, 1.0]


def test_null_produces_new_words_like_the_rarest(trained):
    _, params, *_ = trained
    counts = np.array([5, 2, 0, 2])
    null = np.array([0.4, 0.3, 0.2, 0.1, 1e-12])
    other = replace(params, forward=replace(params.forward, null=null))
    changed = expect_new_words(other, np.zeros(len(params.backward.null) - 1, np.int64), counts)
    np.testing.assert_allclose(changed.forward.null, [0.4, 0.3, 0.2, 0.1, 0.2])
    assert np.array_equal(null, [0.4, 0.3, 0.2, 0.1, 1e-12])
    assert changed.backward is params.backward
