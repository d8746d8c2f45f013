"""The prior from spelling, against its definition in plain loops."""

import numpy as np
import pytest

from spectrem.data import encode_bitext
from spectrem.models.alignment import build_shards, lexical_priors
from spectrem.models.alignment import priors as module
from spectrem.models.priors import DirichletPrior

SOURCE = ["government governs nation", "nations a 1995", "a government nation", "1996 a nation natural", "a member"]
TARGET = [
    "gouvernement gouverne nation",
    "nations un 1995",
    "un gouvernement",
    "1996 un café nation naturel",
    "un miembros",
]


@pytest.fixture
def bitext():
    return encode_bitext(SOURCE, TARGET)


def priors(bitext, **options):
    table, _ = build_shards(bitext)
    counts = [
        np.bincount(tokens, minlength=len(vocabulary))
        for tokens, vocabulary in (
            (bitext.source_tokens, bitext.source_vocabulary),
            (bitext.target_tokens, bitext.target_vocabulary),
        )
    ]
    words = bitext.source_vocabulary.words, bitext.target_vocabulary.words
    return table, counts, words, lexical_priors(table, *words, *counts, **options)


def stem(word, length=4):
    return word if word[0].isdigit() else word[:length]


def common(a, b):
    """Length of the longest common subsequence, by trying both ways."""
    if not a or not b:
        return 0
    return common(a[1:], b[1:]) + 1 if a[0] == b[0] else max(common(a[1:], b), common(a, b[1:]))


def likeness(a, b):
    a, b = a.replace("é", "e"), b.replace("é", "e")
    if a == b or min(len(a), len(b)) < 4:
        return float(a == b)
    similarity = 100 * common(a, b) // max(len(a), len(b))
    return min(1.0, (similarity - 50) / 20) if similarity >= 60 else 0.0


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("stem_strength", "cognate_strength"), [(10.0, 2.0), (0.0, 2.0), (5.0, 0.0)])
def test_normalise_is_the_definition(bitext, backward, stem_strength, cognate_strength):
    table, tokens, words, both = priors(bitext, stem_strength=stem_strength, cognate_strength=cognate_strength)
    pairs = [(words[0][e], words[1][f]) for e, f in zip(table.sources, table.targets, strict=True)]
    given = [(f, e) if backward else (e, f) for e, f in pairs]  # (conditioning word, produced word)
    n_tokens = dict(zip(words[1 - backward], tokens[1 - backward], strict=True))
    counts = np.random.default_rng(0).random(len(pairs))
    row = table.targets if backward else table.sources
    sizes = table.target_sizes if backward else np.diff(table.row_offsets)
    probability = both[backward].normalise(counts, row, sizes)

    def pseudo(k):
        condition, produced = given[k]
        same_row = [m for m, (c, _) in enumerate(given) if stem(c) == stem(condition)]
        hits = sum(counts[m] for m in same_row if stem(given[m][1]) == stem(produced))
        share = n_tokens[produced] / sum(n for w, n in n_tokens.items() if stem(w) == stem(produced))
        # "member" and "miembros" look alike by 0.6.
        cognate = cognate_strength * likeness(*pairs[k])
        return stem_strength * hits / sum(counts[m] for m in same_row) * share + cognate

    smoothed = [counts[k] + pseudo(k) for k in range(len(pairs))]
    for k in range(len(pairs)):
        total = sum(smoothed[m] for m in range(len(pairs)) if given[m][0] == given[k][0])
        assert probability[k] == pytest.approx(smoothed[k] / total, rel=1e-10), pairs[k]


def test_without_strength_it_is_maximum_likelihood(bitext):
    table, _, _, both = priors(bitext, stem_strength=0.0, cognate_strength=0.0)
    counts = np.random.default_rng(1).random(table.n_pairs)
    sizes = np.diff(table.row_offsets)
    np.testing.assert_array_equal(
        both[0].normalise(counts, table.sources, sizes), DirichletPrior().normalise(counts, table.sources, sizes)
    )


def test_a_row_without_counts_falls_back_to_what_looks_alike(bitext):
    table, _, words, both = priors(bitext)
    sizes = np.diff(table.row_offsets)
    probability = both[0].normalise(np.zeros(table.n_pairs), table.sources, sizes)
    np.testing.assert_allclose(np.bincount(table.sources, probability), 1.0)
    found = {(words[0][e], words[1][f]): p for e, f, p in zip(table.sources, table.targets, probability, strict=True)}
    assert found["government", "gouvernement"] == found["government", "gouverne"] == 0.5
    assert found["1995", "1995"] == 1.0
    assert found["a", "un"] == found["a", "1995"] > 0  # nothing looks alike: uniform


def test_an_empty_table_has_empty_priors():
    table, _, _, both = priors(encode_bitext(["a", ""], ["", "b"]))
    assert table.n_pairs == 0
    assert both[0].normalise(np.zeros(0), table.sources, np.diff(table.row_offsets)).shape == (0,)


def test_probabilities_may_take_the_place_of_the_counts(bitext):
    table, _, _, both = priors(bitext)
    counts = np.random.default_rng(2).random(table.n_pairs)
    for prior, row, sizes in (
        (both[0], table.sources, np.diff(table.row_offsets)),
        (both[1], table.targets, table.target_sizes),
    ):
        own = counts.copy()
        assert prior.normalise(own, row, sizes, out=own) is own
        np.testing.assert_array_equal(own, prior.normalise(counts, row, sizes))


def test_many_stems_have_longer_numbers(bitext, monkeypatch):
    table, _, _, short = priors(bitext)
    monkeypatch.setattr(module, "_MOST_SHORT", 2)
    long = priors(bitext)[-1]
    assert (short[0].stem_place.dtype, long[0].stem_place.dtype) == (np.uint16, np.uint32)
    counts = np.random.default_rng(3).random(table.n_pairs)
    for prior, other, row, sizes in (
        (short[0], long[0], table.sources, np.diff(table.row_offsets)),
        (short[1], long[1], table.targets, table.target_sizes),
    ):
        np.testing.assert_array_equal(prior.normalise(counts, row, sizes), other.normalise(counts, row, sizes))


def test_classes_take_the_place_of_stems(bitext, monkeypatch):
    """Words without a class keep their stems."""
    classes = tuple({word: word[-1] for word in words if word != "nation"} for words in priors(bitext)[2])
    table, _, _, given = priors(bitext, classes=classes)
    monkeypatch.setattr(module, "stem", lambda word: word[:4] if word == "nation" else word[-1])
    _, _, _, expected = priors(bitext)
    counts = np.random.default_rng(1).random(table.n_pairs)
    for own, other, row, sizes in zip(
        given, expected, (table.sources, table.targets), (np.diff(table.row_offsets), table.target_sizes), strict=True
    ):
        assert np.array_equal(own.normalise(counts, row, sizes), other.normalise(counts, row, sizes))
    monkeypatch.undo()
    plain = priors(bitext)[3][0]
    assert not np.allclose(
        plain.normalise(counts, table.sources, np.diff(table.row_offsets)),
        given[0].normalise(counts, table.sources, np.diff(table.row_offsets)),
    )
