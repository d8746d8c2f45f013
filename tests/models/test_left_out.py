"""The last M-step of aligners, against its definition in plain loops, and where it takes place."""

import numpy as np
import pytest

from spectrem import WordAligner
from spectrem.data import Links, encode_bitext
from spectrem.datasets import make_bitext
from spectrem.estimators.alignment.text import read_anchors
from spectrem.models.alignment import PseudoCounts, build_shards, left_out_priors, lexical_priors

SOURCE = ["government governs nation", "nations a 1995", "a government nation", "1996 a nation natural", "a member"]
TARGET = [
    "gouvernement gouverne nation",
    "nations un 1995",
    "un gouvernement",
    "1996 un café nation naturel",
    "un miembros",
]
STEMS, COGNATES, FREQUENCIES = 10.0, 5.0, 10.0


@pytest.fixture
def bitext():
    return encode_bitext(SOURCE, TARGET)


def make(bitext, discount, weights=None, anchors=None, given=None):
    """The table, the priors of all M-steps but the last, and those of the last."""
    table, _ = build_shards(bitext)
    words = bitext.source_vocabulary.words, bitext.target_vocabulary.words
    counts = np.bincount(bitext.source_tokens), np.bincount(bitext.target_tokens)
    lexical = lexical_priors(table, *words, *counts, stem_strength=STEMS, cognate_strength=COGNATES)
    weights = np.ones(bitext.n_pairs) if weights is None else weights
    given = PseudoCounts.of(table, [], [], []) if given is None else given(table)
    return table, lexical, left_out_priors(lexical, bitext, weights, anchors, given, discount)


def sizes_of(table, backward):
    return (table.targets, table.target_sizes) if backward else (table.sources, np.diff(table.row_offsets))


def oracle(bitext, table, lexical, counts, backward, discount, most=1.0, sure=None, weights=None):
    """Probabilities and totals, word by word; ``sure`` is what nothing is left out of, by entry."""
    own = lexical[backward]
    sides = (bitext.source_tokens, bitext.target_tokens)
    tokens = [np.bincount(sides[n]) for n in ((1, 0) if backward else (0, 1))]  # conditioning, produced
    pairs = list(zip(table.sources.tolist(), table.targets.tolist(), strict=True))
    given = [(f, e) if backward else (e, f) for e, f in pairs]
    words = bitext.source_vocabulary.words, bitext.target_vocabulary.words
    names = words[::-1] if backward else words
    stems = [[w if w[0].isdigit() else w[:4] for w in side] for side in names]
    lengths = bitext.source_lengths, bitext.target_lengths
    weights = np.ones(bitext.n_pairs) if weights is None else weights
    weighed = [np.bincount(sides[n], np.repeat(weights, lengths[n])) for n in ((1, 0) if backward else (0, 1))]
    band = [[int(np.log2(max(n, 1))) for n in side] for side in weighed]
    sure = np.zeros(len(pairs)) if sure is None else sure
    alike = dict(zip(own.alike.tolist(), own.likeness.tolist(), strict=True))
    out, pseudo = np.empty(len(pairs)), np.zeros(len(pairs))
    for k, (c, p) in enumerate(given):
        others = sum(counts[m] for m, (d, _) in enumerate(given) if stems[0][d] == stems[0][c] and d != c)
        hits = sum(
            counts[m]
            for m, (d, q) in enumerate(given)
            if stems[0][d] == stems[0][c] and stems[1][q] == stems[1][p] and m != k
        )
        in_stem = sum(n for q, n in enumerate(tokens[1]) if stems[1][q] == stems[1][p])
        if others > 0:
            pseudo[k] = STEMS * min(hits / others, 1.0) * tokens[1][p] / in_stem
        pseudo[k] += COGNATES * alike.get(k, 0.0)
        whole = sum(counts[m] for m, (d, _) in enumerate(given) if band[0][d] == band[0][c])
        into = sum(counts[m] for m, (d, q) in enumerate(given) if band[0][d] == band[0][c] and band[1][q] == band[1][p])
        in_band = sum(n for q, n in enumerate(weighed[1]) if band[1][q] == band[1][p])
        left = counts[k] - discount * min(max(counts[k] - sure[k], 0.0), most)
        out[k] = (
            left
            + pseudo[k]
            + FREQUENCIES * (into / whole if whole else 0.0) * (weighed[1][p] / in_band if in_band else 0.0)
        )
    totals = np.full(len(tokens[0]), FREQUENCIES)
    for k, (c, _) in enumerate(given):
        totals[c] += counts[k] + pseudo[k]
    return out / totals[[c for c, _ in given]], totals


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.75])
def test_probabilities_are_the_definition(bitext, backward, discount):
    table, lexical, last = make(bitext, discount)
    counts = 2 * np.random.default_rng(0).random(table.n_pairs)
    row, sizes = sizes_of(table, backward)
    totals = np.empty(len(sizes))
    found = last[backward].normalise(counts.copy(), row, sizes, totals=totals)
    expected, sums = oracle(bitext, table, lexical, counts, backward, discount)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(totals, sums, rtol=1e-12)
    assert np.bincount(row, found).max() < 1  # the rest belongs to pairs that never meet
    own = counts.copy()
    assert last[backward].normalise(own, row, sizes, out=own) is own
    np.testing.assert_array_equal(own, found)


def test_a_pair_seen_once_gets_nothing_from_itself(bitext):
    table, _, last = make(bitext, 1.0)
    words = bitext.source_vocabulary.words, bitext.target_vocabulary.words
    entry = {(words[0][e], words[1][f]): k for k, (e, f) in enumerate(zip(table.sources, table.targets, strict=True))}
    row, sizes = sizes_of(table, False)

    def probability(count):
        counts = np.full(table.n_pairs, 0.5)
        counts[entry["natural", "café"]] = count
        counts[entry["natural", "nation"]] = 1.0 - count  # the same word, seen once
        return last[0].normalise(counts, row, sizes)[entry["natural", "café"]]

    assert probability(0.9) < 0.1
    assert probability(0.9) == pytest.approx(probability(0.1), rel=0.5)  # by frequency alone, not by ninefold evidence


@pytest.mark.parametrize(("backward", "scale"), [(False, 1.0), (True, 1.0), (False, 6.0), (True, 6.0)])
def test_nothing_is_left_out_of_what_is_given(bitext, backward, scale):
    anchors = read_anchors(bitext, None, [[(0, 0)], None, [(1, 1), (2, 1)], None, None])
    weights = np.array([2.0, 1.0, 3.0, 0.0, 2.0]) / scale

    def given(table):
        return PseudoCounts.of(table, [0, 2], [0, 2], [4.0, 0.25], [3.0, 0.5])

    table, lexical, last = make(bitext, 1.0, weights, anchors, given)
    counts = np.random.default_rng(1).random(table.n_pairs) + 1.0
    row, sizes = sizes_of(table, backward)
    s, t = bitext.source_tokens, bitext.target_tokens
    pairs = list(zip(table.sources.tolist(), table.targets.tolist(), strict=True))
    added, sure = np.zeros(table.n_pairs), np.zeros(table.n_pairs)
    for e, f, forward, other in ((0, 0, 4.0, 3.0), (2, 2, 0.25, 0.5)):
        added[pairs.index((e, f))] += other if backward else forward
    # government - gouvernement of weights 2 and 3, nation - gouvernement 3; the target word has both of the latter.
    third, first = bitext.source_offsets[2], bitext.target_offsets[2] + 1
    sure += added
    sure[pairs.index((s[0], t[0]))] += 2.0 / scale
    for i in (1, 2):
        sure[pairs.index((s[third + i], t[first]))] += (3.0 if backward else 1.5) / scale
    expected, _ = oracle(
        bitext, table, lexical, counts + added, backward, 1.0, most=min(3.0 / scale, 1.0), sure=sure, weights=weights
    )
    np.testing.assert_allclose(last[backward].normalise(counts, row, sizes), expected, rtol=1e-12)


@pytest.fixture(scope="module")
def text():
    made = make_bitext(150, seed=3)
    return made.source, made.target


@pytest.mark.parametrize("settings", [{}, {"model": "ibm1"}, {"tol": 0.5, "max_iter": 4}])
def test_only_the_last_m_step_leaves_out(text, settings):
    plain, left = (WordAligner(n_threads=1, discount=discount, **settings).fit(*text) for discount in (0.0, 1.0))
    assert [own.objective for own in plain.history_] == [own.objective for own in left.history_]
    assert np.abs(plain.params_.forward.translation - left.params_.forward.translation).max() > 0.01
    np.testing.assert_array_equal(plain.params_.forward.null, left.params_.forward.null)


def test_known_links_of_rare_words_are_learnt(text):
    links = [None] * len(text[0])
    source, target = [*text[0], "rareone x0"], [*text[1], "seltener y0"]
    links.append([(0, 0), (1, 1)])
    aligner = WordAligner(n_threads=1).fit(source, target, known=links)
    pair = next(own for own in aligner.lexicon() if own[:2] == ("rareone", "seltener"))
    assert pair[2] > 0.08  # a count of 1 beside 10 pseudo-counts
    assert aligner.predict(["rareone"], ["seltener"]) == Links.from_pairs([[(0, 0)]])
