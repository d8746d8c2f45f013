"""Training that goes on from a trained model, against EM with explicit pseudo-counts in dictionaries."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from spectrem.data import encode_bitext
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.alignment import (
    AlignmentModel,
    AlignmentParameters,
    Continuation,
    Language,
    PseudoCounts,
    Totals,
    UnseenPairs,
    iter_shards,
    splice,
    tabulate_pairs,
)

OLD = (
    ["the house the houses", "a house", "red the a", "red house"],
    ["das haus das hauser", "ein haus", "rot das ein", "rot haus"],
)
NEW = ["the houses 1998", "household the red", "blue the"], ["das hauser 1998", "haushalt das rot", "azul das das"]
STEMS, ALIKE, FREQUENCY = 7.0, 3.0, 10.0
P0 = 0.2


def stem(word):
    return word if word[0].isdigit() else word[:4]


def band(count):
    return count.bit_length() - 1


def trained(seed=0):
    """A model of the old text whose probabilities and totals are at random, and its pairs that were not seen."""
    rng = np.random.default_rng(seed)
    bitext = encode_bitext(*OLD)
    table = tabulate_pairs(bitext)
    vocabularies = bitext.source_vocabulary, bitext.target_vocabulary
    params = AlignmentModel(table, 4, chain=True, learn_positions=True).initial(P0)

    def side(direction, row, n_chosen):
        translation = rng.random(table.n_pairs)
        translation /= np.bincount(row, translation)[row]
        null = rng.dirichlet(np.ones(len(direction.null) - 1))
        return replace(
            direction,
            translation=np.append(translation, 1e-12),
            null=np.append(null, 0.07),
            jump=np.full(9, 1 / 9),
            end=rng.dirichlet(np.ones(5)),
            totals=Totals(rng.uniform(1, 9, n_chosen), 3.0, 11.0, 5.0),
        )

    params = AlignmentParameters(
        side(params.forward, table.sources, table.n_source_words),
        side(params.backward, table.targets, table.n_target_words),
    )
    languages = [
        Language.of(vocabulary, np.bincount(tokens))
        for vocabulary, tokens in zip(vocabularies, (bitext.source_tokens, bitext.target_tokens), strict=True)
    ]
    unseen = UnseenPairs.of(table, params, *languages, stem_strength=STEMS, cognate_strength=ALIKE)
    return table, params, vocabularies, unseen


def named(table, vocabularies, values, backward):
    """Values of word pairs by (chosen word, produced word)."""
    pairs = [
        (vocabularies[0].words[s], vocabularies[1].words[t]) for s, t in zip(table.sources, table.targets, strict=True)
    ]
    return {(t, s) if backward else (s, t): float(v) for (s, t), v in zip(pairs, values, strict=False)}


class Literal:
    """EM of IBM Model 1 in one direction, with the counts of a trained model beside those of the new text."""

    def __init__(self, old, totals, texts, strength):
        self.old, self.strength = old, strength
        (old_chosen, old_produced), (self.chosen, self.produced) = texts
        self.counts = [
            Counter(" ".join(lines).split()) for lines in (old_chosen, old_produced, self.chosen, self.produced)
        ]
        self.totals = defaultdict(float, totals)
        self.meetings = Counter(
            pair for a, b in zip(self.chosen, self.produced, strict=True) for pair in product(a.split(), b.split())
        )
        self.pairs = set(self.meetings)
        self.stems, self.bands = Counter(), Counter()
        for (given, made), probability in old.items():
            self.stems[stem(given), stem(made)] += probability * self.counts[0][given]
            self.bands[band(self.counts[0][given]), band(self.counts[1][made])] += probability * self.counts[0][given]

    def besides(self, given, made):
        """Pseudo-counts of a new pair from frequencies and spelling."""
        bands = [
            band(counts[word]) if counts[word] else min(map(band, counts.values()))
            for word, counts in zip((given, made), self.counts, strict=False)
        ]
        total = sum(mass for (g, _), mass in self.bands.items() if g == bands[0])
        tokens = sum(count for count in self.counts[1].values() if band(count) == bands[1])
        share = self.bands[tuple(bands)] / total * max(self.counts[1][made], 1) / tokens
        return FREQUENCY * share + ALIKE * (given == made)

    def m_step(self, expected):
        """Probabilities of the pairs of the new text, and the totals of their words."""
        shares = {pair: expected[pair] * (1 - 0.75 / self.meetings[pair]) for pair in self.pairs}
        stems = Counter()
        for pair, mass in self.stems.items():
            stems[pair] += self.strength * mass
        for (given, made), count in shares.items():
            stems[stem(given), stem(made)] += count
        smoothed, totals = {}, {}
        old_tokens, new_tokens = self.counts[1], self.counts[3]
        for given in {given for given, _ in self.pairs}:
            pseudo = {}
            for made in {made for g, made in self.pairs if g == given}:
                if (given, made) in self.old:
                    pseudo[made] = self.strength * self.totals[given] * self.old[given, made]
                    continue
                mass = sum(count for (g, _), count in stems.items() if g == stem(given))
                own = new_tokens[made] + self.strength * old_tokens[made]
                whole = sum(
                    new_tokens[word] + self.strength * old_tokens[word]
                    for word in {*old_tokens, *new_tokens}
                    if stem(word) == stem(made)
                )
                pseudo[made] = self.besides(given, made)
                if mass:
                    pseudo[made] += STEMS * stems[stem(given), stem(made)] / mass * own / whole
            unlisted = (
                self.strength
                * self.totals[given]
                * sum(p for (g, made), p in self.old.items() if g == given and made not in pseudo)
            )
            total = sum(pseudo.values()) + unlisted
            if not self.strength * self.totals[given]:
                total = max(total, STEMS + ALIKE + FREQUENCY)
            totals[given] = total + sum(expected[given, made] for made in pseudo)
            for made, count in pseudo.items():
                smoothed[given, made] = (shares[given, made] + count) / totals[given]
        return smoothed, totals


def expected_links(translation, null, chosen, produced):
    """Expected links and words of NULL under IBM Model 1."""
    links, nothing = Counter(), Counter()
    for a, b in zip(chosen, produced, strict=True):
        for made in b.split():
            masses = [(1 - P0) / len(a.split()) * translation[given, made] for given in a.split()]
            total = sum(masses) + P0 * null[made]
            for given, mass in zip(a.split(), masses, strict=True):
                links[given, made] += mass / total
            nothing[made] += P0 * null[made] / total
    return links, nothing


@pytest.mark.parametrize("strength", [1.0, 0.4, 0.0, 2.5])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.usefixtures("doubles")
def test_translations_are_those_of_em_with_explicit_pseudo_counts(strength, backward):
    table, params, vocabularies, unseen = trained()
    bitext = encode_bitext(*NEW)
    own = tabulate_pairs(bitext)
    new = Continuation.of(unseen, params, bitext, own, np.ones(3), strength)
    model = AlignmentModel(own, 4, False, False, *new.priors, kept=new.kept)
    found = run_em(model, list(iter_shards(bitext, own)), new.params, EStep(), stopping=Stopping(3)).params

    words = bitext.source_vocabulary, bitext.target_vocabulary
    side = "backward" if backward else "forward"
    old, start, end = (getattr(one, side) for one in (params, new.params, found))
    chosen = vocabularies[backward].words
    literal = Literal(
        named(table, vocabularies, old.translation, backward),
        dict(zip(chosen, old.totals.words.tolist(), strict=True)),
        [(text[backward], text[not backward]) for text in (OLD, NEW)],
        strength,
    )
    made = words[not backward].words
    translation = named(own, words, start.translation, backward)
    null = dict(zip(made, start.null.tolist(), strict=False))
    old_null = defaultdict(float, zip(vocabularies[not backward].words, old.null.tolist(), strict=False))
    for _ in range(3):
        links, nothing = expected_links(translation, null, literal.chosen, literal.produced)
        translation, totals = literal.m_step(links)
        whole = sum(nothing.values()) + strength * old.totals.null
        null = {word: (nothing[word] + strength * old.totals.null * old_null[word]) / whole for word in made}
    result = named(own, words, end.translation, backward)
    assert result == pytest.approx(translation, rel=1e-9)
    assert dict(zip(made, end.null.tolist(), strict=False)) == pytest.approx(null, rel=1e-9, abs=1e-12)
    assert dict(zip(words[backward].words, end.totals.words.tolist(), strict=True)) == pytest.approx(totals, rel=1e-9)
    assert end.totals.null == pytest.approx(whole)


def continued(text, strength=1.0, seed=0, weights=None, listed=None, iterations=1, chain=True):
    table, params, vocabularies, unseen = trained(seed)
    bitext = encode_bitext(*text)
    own = tabulate_pairs(bitext)
    weights = np.ones(bitext.n_pairs) if weights is None else weights
    new = Continuation.of(unseen, params, bitext, own, weights, strength, listed and listed(own, bitext))
    model = AlignmentModel(own, 4, chain, True, *new.priors, kept=new.kept)
    shards = list(iter_shards(bitext, own, weights))
    found = run_em(model, shards, new.params, EStep(), stopping=Stopping(iterations)).params
    return (table, params, vocabularies), new, found, splice(table, params, vocabularies, new, found)


def by_name(table, params, vocabularies):
    return [
        named(table, vocabularies, getattr(params, side).translation, side == "backward")
        for side in ("forward", "backward")
    ]


@pytest.mark.usefixtures("doubles")
def test_a_model_and_what_it_learned_are_one_model():
    """Pairs of the new text as learned there; others keep their counts, and words that are not in it all they had."""
    (table, params, vocabularies), new, found, (whole, spliced, merged) = continued(NEW, strength=0.5)
    assert merged[0].words[: len(vocabularies[0])] == vocabularies[0].words
    assert set(merged[0].words) == set(" ".join([*OLD[0], *NEW[0]]).split())
    own_words = new.bitext.source_vocabulary, new.bitext.target_vocabulary
    before, learned, after = (
        by_name(*one)
        for one in ((table, params, vocabularies), (new.table, found, own_words), (whole, spliced, merged))
    )
    for way, side in enumerate(("forward", "backward")):
        old, now, both = (getattr(one, side) for one in (params, found, spliced))
        totals = dict(zip(merged[way].words, both.totals.words.tolist(), strict=True))
        old_totals = dict(zip(vocabularies[way].words, old.totals.words.tolist(), strict=True))
        for pair, probability in after[way].items():
            if pair in learned[way]:
                assert probability == learned[way][pair]
            elif pair[0] in own_words[way].words:
                assert probability * totals[pair[0]] == pytest.approx(0.5 * before[way][pair] * old_totals[pair[0]])
            else:
                assert probability == before[way][pair]
                assert totals[pair[0]] == 0.5 * old_totals[pair[0]]
        assert after[way].keys() == before[way].keys() | learned[way].keys()
        assert both.null[:-1].sum() == pytest.approx(1)
        assert both.totals.null == now.totals.null > 0.5 * old.totals.null
        assert both.totals.jumps > 0.5 * old.totals.jumps
        pseudo_counts = 0.5 * len(old.end)  # half of what the earlier text began with
        assert both.totals.ends == pytest.approx(0.5 * (old.totals.ends + pseudo_counts) + 3)
        assert both.end == pytest.approx((now.totals.ends * now.end) / both.totals.ends)


@pytest.mark.parametrize("text", [([], []), ([""], [""])])
@pytest.mark.usefixtures("doubles")
def test_text_without_links_changes_nothing(text):
    (_, params, _), _, _, (_, spliced, _) = continued(text)
    for side in ("forward", "backward"):
        old, new = getattr(params, side), getattr(spliced, side)
        for name in ("translation", "jump", "end"):
            np.testing.assert_allclose(getattr(new, name), getattr(old, name), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(new.totals.words[: len(old.totals.words)], old.totals.words)


def test_jumps_and_ends_start_from_those_of_the_model():
    """With enough earlier text the new one moves nothing."""
    (_, params, _), new, _, _ = continued(NEW, strength=1e9)
    found = continued(NEW, strength=1e9)[2]
    for side in ("forward", "backward"):
        old, now = getattr(params, side), getattr(found, side)
        np.testing.assert_allclose(now.jump, old.jump, rtol=1e-6)
        np.testing.assert_allclose(now.end, old.end, rtol=1e-6)
    assert new.kept[0].null_rest > 0


def test_the_objective_rises_where_nothing_is_new():
    """All pairs known, and those of the new text whole: EM with Dirichlet pseudo-counts, but for the discount."""
    rng = np.random.default_rng(0)
    choice = rng.integers(0, len(OLD[0]), 40)
    text = [OLD[0][k] for k in choice], [OLD[1][k] for k in choice]
    _, params, _, unseen = trained()
    bitext = encode_bitext(*text)
    own = tabulate_pairs(bitext)
    new = Continuation.of(unseen, params, bitext, own, np.ones(40), 1.0)
    priors = [replace(prior, shares=np.ones(own.n_pairs)) for prior in new.priors]
    model = AlignmentModel(own, 4, True, True, *priors, kept=new.kept)
    assert not any(prior.new.any() for prior in priors)
    history = run_em(model, list(iter_shards(bitext, own)), new.params, EStep(), stopping=Stopping(12)).history
    objectives = np.array([record.objective for record in history])
    assert (np.diff(objectives) > -1e-9 * np.abs(objectives[1:])).all()
    assert objectives[-1] > objectives[0] + 0.1


def test_a_weight_of_two_is_two_pairs():
    weights = np.array([2.0, 1.0, 3.0])
    repeated = [[line for line, n in zip(lines, (2, 1, 3), strict=True) for _ in range(n)] for lines in NEW]
    (_, _, _), _, _, one = continued(NEW, weights=weights)
    other = continued(repeated)[3]
    names = [by_name(*result) for result in (one, other)]
    for way in (0, 1):
        # stems and shares of tokens count the lines, not their weights
        old = {pair for pair in names[0][way] if pair in by_name(*trained()[:3])[way]}
        assert {pair: names[0][way][pair] for pair in old} == pytest.approx(
            {pair: names[1][way][pair] for pair in old}, rel=0.02
        )


def test_given_counts_are_those_of_pairs_that_the_model_lacks():
    def listed(table, bitext):
        s, t = (v.index for v in (bitext.source_vocabulary, bitext.target_vocabulary))
        return PseudoCounts.of(table, [s["blue"], s["the"]], [t["azul"], t["das"]], np.array([50.0, 50.0]))

    plain, given = (by_name(*continued(NEW, listed=one)[3])[0] for one in (None, listed))
    assert given["blue", "azul"] > plain["blue", "azul"] + 0.2
    assert given["the", "das"] == pytest.approx(plain["the", "das"], abs=0.02)


def test_rows_stay_in_increasing_order():
    """Words that the old text had in another order, and pairs of old words that only the new text has."""
    text = ["red the house", "blue red"], ["rot haus das", "azul haus rot"]
    whole = continued(text)[3][0]
    for word in range(whole.n_source_words):
        row = whole.targets[whole.row_offsets[word] : whole.row_offsets[word + 1]]
        assert (np.diff(row) > 0).all()
