"""WordAligner with a dictionary and with tokens that translate as themselves."""

import itertools

import numpy as np
import pytest
from aligner_helpers import make, same_params

from spectrem import WordAligner
from spectrem.data import encode_bitext
from spectrem.estimators.alignment.text import kind_of
from spectrem.exceptions import InvalidInputError
from spectrem.models.alignment import iter_shards

SOURCE = ["the house is 5", "a house", "the tree"]
TARGET = ["la maison est 5", "une maison", "l' arbre"]
PLAIN = {
    "discount": 0.0,
    "model": "ibm1",
    "constraints": (),
    "stem_strength": 0.0,
    "cognate_strength": 0.0,
    "max_iter": 4,
}


def model_1(source, target, given, p0, iterations):
    """EM of IBM Model 1 with pseudo-counts, word by word: p(target | source)."""
    pairs = [(s.split(), t.split()) for s, t in zip(source, target, strict=True)]
    beside = {}
    for s, t in pairs:
        for e in s:
            beside.setdefault(e, set()).update(t)
    table = {(e, f): 1 / len(fs) for e, fs in beside.items() for f in fs}
    words = {f for _, t in pairs for f in t}
    null = dict.fromkeys(words, 1 / len(words))
    for _ in range(iterations):
        counts, null_counts = dict.fromkeys(table, 0.0), dict.fromkeys(words, 0.0)
        for s, t in pairs:
            for f in t:
                shares = [(1 - p0) / len(s) * table[e, f] for e in s]
                total = sum(shares) + p0 * null[f]
                null_counts[f] += p0 * null[f] / total
                for e, share in zip(s, shares, strict=True):
                    counts[e, f] += share / total
        for pair, count in given.items():
            if pair in counts:
                counts[pair] += count
        sums = {e: sum(counts[e, f] for f in fs) for e, fs in beside.items()}
        table = {(e, f): count / sums[e] for (e, f), count in counts.items()}
        null = {f: count / sum(null_counts.values()) for f, count in null_counts.items()}
    return table


def test_a_dictionary_adds_its_counts_to_both_tables():
    dictionary = {"the": {"la": 1.0, "l'": 0.5, "nothing": 3.0}, "absent": {"maison": 1.0}}
    own = {**PLAIN, "dictionary": dictionary, "dictionary_strength": 4.0, "same": ["numbers"], "same_strength": 3.0}
    aligner = make(**own).fit(SOURCE, TARGET)
    given = {("the", "la"): 4.0, ("the", "l'"): 2.0, ("5", "5"): 3.0}
    forward = model_1(SOURCE, TARGET, given, 0.1, 4)
    backward = model_1(TARGET, SOURCE, {(f, e): count for (e, f), count in given.items()}, 0.1, 4)
    found = {(s, t): (p, q) for s, t, p, q in aligner.lexicon(0.0)}
    assert found.keys() == forward.keys()
    for (s, t), (p, q) in found.items():
        assert p == pytest.approx(forward[s, t], rel=1e-6, abs=1e-11)
        assert q == pytest.approx(backward[t, s], rel=1e-6, abs=1e-11)


def test_words_that_never_meet_cost_nothing():
    plain = make().fit(SOURCE, TARGET)
    other = make(dictionary={"tree": {"maison": 9.0}, "cat": {"chat": 9.0}}, same=["urls"]).fit(SOURCE, TARGET)
    assert same_params(plain, other)


def test_a_dictionary_decides_between_words_that_always_meet():
    source, target = ["red house", "red house"], ["x y", "x y"]
    for best, other in (("x", "y"), ("y", "x")):
        aligner = make(dictionary={"red": {best: 1.0}}, decode="intersection").fit(source, target)
        probabilities = {(s, t): p for s, t, p, _ in aligner.lexicon(0.0)}
        assert probabilities["red", best] > probabilities["red", other]
        assert probabilities["house", other] > probabilities["house", best]


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        *[(token, "urls") for token in ("https://example.org/a?b=1", "www.example.org", "ftp://x", "me@example.org")],
        *[(token, "numbers") for token in ("5", "1,000.50", "12:30", "50%", "$5", "٣", "½", "1998-2000")],
        *[(token, "punctuation") for token in (".", "...", "«", "$", "@", "--", "。")],
        *[(token, "words") for token in ("x", "B2", "1990s", "don't", "@me", "मैं", "�x", "a.b")],
    ],
)
def test_kinds_of_tokens(token, kind):
    assert kind_of(token) == kind


def test_only_equal_tokens_of_the_kinds_that_are_named():
    source, target = ["x 5 .", "y 6 !"], ["5 x .", "! 6 y"]
    for same in (["words"], ["numbers"], ["punctuation"], ["words", "numbers"], []):
        aligner = make(**PLAIN, same=same, same_strength=100.0).fit(source, target)
        given = {(w, w): 100.0 for w in "x5.y6!" if kind_of(w) in same}
        expected = model_1(source, target, given, 0.1, 4)
        for s, t, p, _ in aligner.lexicon(0.0):
            assert p == pytest.approx(expected[s, t], rel=1e-6, abs=1e-11)


def test_a_saved_aligner_keeps_what_it_was_told(tmp_path):
    dictionary = {"the": {"la": 1.0, "l'": 0.5}}
    make(dictionary=dictionary, same=("numbers",)).fit(SOURCE, TARGET).save(tmp_path / "model")
    loaded = WordAligner.load(tmp_path / "model")
    assert loaded.dictionary == dictionary
    assert list(loaded.same) == ["numbers"]


def test_it_changes_nothing_how_the_text_is_cut(monkeypatch):
    own = {"dictionary": {"the": {"la": 1.0}}, "same": ["numbers"]}
    once = make(**own).fit(SOURCE * 3, TARGET * 3)
    from spectrem.models.alignment import pairs

    monkeypatch.setattr(pairs, "_LEAST_CELLS", 8)
    same_params(once, make(**own, n_threads=2).fit(SOURCE * 3, TARGET * 3), rtol=1e-9)
    assert np.isfinite(once.objective_)


MOST = "(E[listed] >= 0.9 * E.count(listed)).per('sentence')"
RED = {"source": ["red house", "red house", "big house", "a b"], "target": ["x y", "x y", "z y", "c d"]}


def listed_mass(aligner, source, target):
    """The expected number of links between listed words, and of words with such a partner, of one sentence pair."""
    proba = aligner.predict_proba([source], [target])
    mass, words = 0.0, set()
    for (i, s), (j, t) in itertools.product(enumerate(source.split()), enumerate(target.split())):
        if t in aligner.dictionary.get(s, ()):
            mass += proba.forward[0][i, j] + proba.backward[0][i, j]
            words |= {("source", i), ("target", j)}
    return mass, len(words)


@pytest.mark.parametrize("constraints", [[MOST], [MOST, "agreement"]])
def test_most_of_the_listed_words_link_to_listed_ones(constraints, tmp_path):
    told = {"dictionary": {"red": {"y": 1.0}}, "dictionary_strength": 0.0}
    aligner = make(**told, constraints=constraints, dual_steps=0).fit(RED["source"], RED["target"])
    mass, n_words = listed_mass(aligner, "red house", "x y")
    assert n_words == 2
    assert mass >= 0.9 * n_words - 1e-4
    free = make(**told, constraints=constraints[1:]).fit(RED["source"], RED["target"])
    assert listed_mass(free, "red house", "x y")[0] < 0.5
    aligner.save(tmp_path / "model")
    assert listed_mass(WordAligner.load(tmp_path / "model"), "red house", "x y")[0] == pytest.approx(mass, rel=1e-12)


def test_listed_words_over_the_corpus():
    told = {"dictionary": {"red": {"y": 1.0}}, "dictionary_strength": 0.0, "project_at_predict": False}
    aligner = make(**told, constraints=["E[listed] >= 0.9 * E.count(listed)"]).fit(RED["source"], RED["target"])
    (found,) = aligner.report_.constraints
    assert found.after[0] >= found.bound[0] - 1e-4
    assert listed_mass(aligner, "red house", "x y")[0] > 1.5


def test_only_a_dictionary_gives_the_column():
    with pytest.raises(InvalidInputError, match="listed"):
        make(constraints=[MOST]).fit(RED["source"], RED["target"])


def test_listed_words_follow_an_update():
    told = {"dictionary": {"red": {"y": 1.0}, "new": {"neu": 1.0}}, "dictionary_strength": 0.0, "constraints": [MOST]}
    aligner = make(**told, dual_steps=0).fit(RED["source"], RED["target"])
    aligner.update(["new house", "new house", "a b"], ["x neu", "x neu", "c d"])
    mass, n_words = listed_mass(aligner, "new house", "x neu")
    assert mass >= 0.9 * n_words - 1e-4
    assert listed_mass(aligner, "red house", "x y")[0] >= 0.9 * 2 - 1e-4
    vocabularies = aligner.source_vocabulary_, aligner.target_vocabulary_
    (shard,) = iter_shards(encode_bitext(["new house red"], ["neu y"], vocabularies=vocabularies), aligner.table_)
    assert aligner.model_.columns(shard)["listed"].sum() == 4  # two links, in both directions
