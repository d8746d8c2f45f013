"""EdgeFactoredParser on a small generated language: all kinds of supervision, what comes back, files, rules."""

import warnings

import numpy as np
import pytest

from spectrem import CRFTagger, E, EdgeFactoredParser, part
from spectrem.data import ROOT, ParsedSentence, is_projective
from spectrem.exceptions import InvalidInputError, NotFittedError
from spectrem.learning import Anneal, Expectations, Posteriors

NOUNS, VERBS, ADJECTIVES = ("dog", "cat", "bird"), ("sees", "likes"), ("old", "small")


def phrase(rng, words, heads, tags):
    """A noun phrase; the place of its noun."""
    n_adjectives = int(rng.integers(0, 3))
    noun = len(words) + 1 + n_adjectives
    words += ["the", *rng.choice(ADJECTIVES, n_adjectives), rng.choice(NOUNS)]
    tags += ["DET", *["ADJ"] * n_adjectives, "NOUN"]
    heads += [noun] * (1 + n_adjectives) + [None]
    return noun


def make_treebank(n, seed=0):
    """Sentences of subject, verb, object and full stop; the verb is the root."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        words, heads, tags = [], [], []
        subject = phrase(rng, words, heads, tags)
        verb = len(words)
        words.append(rng.choice(VERBS))
        heads.append(ROOT)
        tags.append("VERB")
        heads[subject] = verb
        if rng.random() < 0.7:
            heads_of_object = phrase(rng, words, heads, tags)
            heads[heads_of_object] = verb
        words.append(".")
        heads.append(verb)
        tags.append("PUNCT")
        fine = tuple(tag[:2] for tag in tags)
        found.append(ParsedSentence(tuple(map(str, words)), tuple(tags), fine, np.array(heads)))
    return found


TRAIN, TEST = make_treebank(60), make_treebank(20, seed=1)
ROOT_IS_VERB = (E[part("root") & (part("dependent_tag") == "VERB")] >= 0.9).per("sentence")
SMALL = {"bits": 10, "n_threads": 1}


def bare(sentences):
    return [one._replace(heads=None) for one in sentences]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"learner": "batch"},
        {"decode": "viterbi", "single_root": False},
        {"projective": False, "single_root": False},
    ],
)
def test_full_supervision(settings):
    parser = EdgeFactoredParser(**SMALL, **settings).fit(TRAIN)
    assert parser.score(TEST) == 1.0
    for heads, sentence in zip(parser.predict(bare(TEST)), TEST, strict=True):
        assert heads.tolist() == sentence.heads.tolist()
        assert heads.dtype == np.int64
    assert parser.objective_ < 0
    assert "60 sentences" in parser.report_.summary()


def test_probabilities_are_those_of_trees():
    parser = EdgeFactoredParser(**SMALL, passes=1, rate=0.001).fit(TRAIN)
    (matrix,) = parser.predict_proba(TEST[:1])
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    assert np.trace(matrix) == pytest.approx(1.0)  # one root
    n = len(TEST[0].forms)
    values = parser.score_samples([TEST[0], TEST[0]._replace(heads=np.full(n, -2)), TEST[0]])
    assert values[1] == pytest.approx(0.0, abs=1e-9)
    assert values[0] == values[2] < 0
    some = TEST[0].heads.copy()
    some[1:] = -2
    assert np.exp(parser.score_samples([TEST[0]], [some])[0]) == pytest.approx(matrix[0, TEST[0].heads[0]], rel=1e-6)


@pytest.mark.parametrize("learner", ["online", "batch"])
def test_partial_heads(learner):
    partial = []
    rng = np.random.default_rng(3)
    for one in TRAIN:
        heads = one.heads.copy()
        heads[rng.random(len(heads)) < 0.5] = -2
        partial.append(heads)
    parser = EdgeFactoredParser(**SMALL, learner=learner, max_iter=5, tol=0).fit(TRAIN, partial)
    assert parser.score(TEST) > 0.95


@pytest.mark.parametrize(
    "settings",
    [
        {"gamma": 0.0},
        {"gamma": 2.5},
        {"gamma": -np.inf, "learner": "batch"},
        {"schedule": Anneal(0.5, 1.0, 2.0), "learner": "batch"},
        {"criterion": Posteriors(), "learner": "batch"},
        {"criterion": Expectations(1.0), "learner": "batch", "constraints": [ROOT_IS_VERB], "m_tol": 0.05},
        {"constraints": [ROOT_IS_VERB], "gamma": 0.0},
        {"constraints": [E[part("root") & (part("dependent_tag") == "VERB")] >= 5], "learner": "batch"},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_some_trees_and_raw_sentences(settings):
    raw = [one if n < 3 else one._replace(heads=None) for n, one in enumerate(TRAIN[:12])]
    settings = {**SMALL, "max_iter": 2, "tol": 0, "passes": 2, "m_tol": 1e-2, **settings}
    if settings.get("criterion") is not None:
        settings |= {"max_iter": 100, "tol": 1e-6}
    parser = EdgeFactoredParser(**settings).fit(raw)
    assert parser.score(TEST) > 0.7
    assert np.isfinite(parser.objective_)


def test_soft_heads_are_as_hard_ones_where_they_are_certain():
    soft = []
    for one in TRAIN:
        n = len(one.forms)
        matrix = np.zeros((n, n))
        matrix[np.arange(n), np.where(one.heads == ROOT, np.arange(n), one.heads)] = 1.0
        soft.append(matrix)
    first, second = (EdgeFactoredParser(**SMALL).fit(TRAIN, heads) for heads in (None, soft))
    assert np.array_equal(first.theta_, second.theta_)


@pytest.mark.parametrize("learner", ["online", "batch"])
def test_constraints_teach_what_no_tree_shows(learner):
    rules = {
        "verbs": (E[part("root") & (part("dependent_tag") == "VERB")] >= 0.9).per("sentence"),
        "nouns": (
            E[(part("head_tag") == "VERB") & (part("dependent_tag").isin(["NOUN", "PUNCT"]))]
            >= 0.9 * E.count(part("dependent_tag").isin(["NOUN", "PUNCT"]))
        ).per("sentence"),
        "near": (
            E[(part("head_tag") == "NOUN") & part("dependent_tag").isin(["DET", "ADJ"]) & (part("direction") == "left")]
            >= 0.9 * E.count(part("dependent_tag").isin(["DET", "ADJ"]))
        ).per("sentence"),
    }
    parser = EdgeFactoredParser(**SMALL, constraints=rules, learner=learner, max_iter=4, tol=0, passes=4)
    parser.fit(bare(TRAIN[:30]))
    assert parser.score(TEST) > 0.8
    assert {report.name for report in parser.report_.constraints} >= {"verbs"} or parser.report_.summaries


def test_columns_of_sentences_words_and_arcs():
    sentences = bare(TRAIN[:6])
    sizes = [len(one.forms) for one in sentences]
    columns = {
        "genre": ["news"] * 6,
        "aligned": [np.arange(n) % 2 == 0 for n in sizes],
        "conserved": [np.eye(n, dtype=bool) for n in sizes],
    }
    rule = (E[part("conserved") & ~part("dependent_aligned") & (part("genre") == "news")] <= 0.1).per("sentence")
    parser = EdgeFactoredParser(**SMALL, constraints=[rule], project_at_predict=True).fit(sentences, columns=columns)
    for matrix in parser.predict_proba(sentences, columns=columns):
        assert np.diag(matrix)[1::2].sum() < 0.1 + 1e-6
    for heads in parser.predict(sentences, columns=columns):
        assert is_projective(heads)


def test_crossing_arcs_are_lifted_and_counted():
    crossing = ParsedSentence(("a", "b", "c", "d"), ("X",) * 4, ("_",) * 4, np.array([2, 3, 3, ROOT]))
    parser = EdgeFactoredParser(**SMALL).fit([*TRAIN, crossing])
    assert parser.n_lifted_ == 1
    assert parser.report_.settings["heads lifted"] == 1


def test_crossing_arcs_are_learned_where_trees_may_cross():
    crossing = ParsedSentence(("a", "b", "c", "d"), ("W", "X", "Y", "Z"), ("_",) * 4, np.array([2, 3, 3, ROOT]))
    assert not is_projective(crossing.heads)
    parser = EdgeFactoredParser(False, **SMALL, min_count=1).fit([crossing] * 20)
    assert parser.n_lifted_ == 0
    assert parser.predict([crossing])[0].tolist() == [2, 3, 3, ROOT]


def test_save_and_load(tmp_path):
    parser = EdgeFactoredParser(**SMALL, single_root=False).fit(TRAIN)
    parser.save(tmp_path / "parser.npz")
    again = EdgeFactoredParser.load(tmp_path / "parser.npz")
    assert [h.tolist() for h in again.predict(TEST)] == [h.tolist() for h in parser.predict(TEST)]
    assert np.array_equal(again.theta_, parser.theta_)
    assert repr(again) == repr(parser)
    assert again.model_.single_root is False
    assert again.objective_ == parser.objective_
    with pytest.raises(InvalidInputError, match="expected a saved CRFTagger, found 'EdgeFactoredParser'"):
        CRFTagger.load(tmp_path / "parser.npz")


def test_nothing_and_empty_sentences():
    empty = ParsedSentence((), (), ())
    parser = EdgeFactoredParser(**SMALL).fit([*TRAIN[:5], empty])
    assert parser.predict([]) == []
    assert [h.tolist() for h in parser.predict([empty, TEST[0], empty])][::2] == [[], []]
    assert [m.shape for m in parser.predict_proba([empty])] == [(0, 0)]
    assert parser.score_samples([empty]).tolist() == [0.0]
    one = ParsedSentence(("dog",), ("NOUN",), ("NO",))
    assert parser.parse([one])[0].heads.tolist() == [ROOT]


def test_the_same_numbers_give_the_same_parser():
    first, second = (EdgeFactoredParser(**SMALL, random_state=3).fit(TRAIN).theta_ for _ in range(2))
    assert np.array_equal(first, second)


def test_weights_of_sentences():
    settings = {**SMALL, "learner": "batch", "m_tol": 1e-12, "C": 1.0, "min_count": 1}
    doubled = EdgeFactoredParser(**settings).fit(TRAIN[:4], sample_weight=[2, 0, 1, 1])
    twice = EdgeFactoredParser(**settings).fit([TRAIN[0], TRAIN[0], TRAIN[2], TRAIN[3]])
    np.testing.assert_allclose(doubled.theta_, twice.theta_, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "sentences", "heads", "message"),
    [
        ({"bits": 40}, TRAIN, None, "bits must be at most 27, got 40"),
        ({"rate": 0}, TRAIN, None, "rate must be finite and above 0, got 0"),
        ({"checkpoint": "x"}, TRAIN, None, "checkpoint must be None to learn in small steps, got 'x'; set learner"),
        ({}, "the dog", None, "sentences must be an iterable of ParsedSentence, got 'the dog'"),
        ({}, [("the", "dog")], None, "sentences must be ParsedSentences, got .* for sentence 0"),
        ({}, [TRAIN[0]._replace(upos=())], None, "sentence 0 must have one upos and one xpos per word, got"),
        ({}, bare(TRAIN), None, "heads must be known of some word, got none"),
        ({"unlabelled_weight": 0}, bare(TRAIN), None, "unlabelled_weight must be above 0 where no sentence has all"),
        ({}, TRAIN[:2], [None], r"heads must have one entry per sentence \(2\), got 1"),
        ({}, TRAIN[:1], [[0, 1]], "heads of sentence 0 must be . integers, one per word"),
        ({}, [TRAIN[0]._replace(heads=np.zeros(len(TRAIN[0].forms), int))], None, "must fit a tree, but word 0 is its"),
        ({}, TRAIN[:1], [np.zeros((len(TRAIN[0].forms),) * 2)], "add up to 1 for every word, but add up to 0 for word"),
        ({}, TRAIN[:1], [np.zeros((2, 3))], "must be probabilities of shape"),
    ],
)
def test_bad_input(settings, sentences, heads, message):
    with pytest.raises(InvalidInputError, match=message):
        EdgeFactoredParser(**{**SMALL, **settings}).fit(sentences, heads)


def test_heads_that_fit_no_tree_of_the_model():
    two_roots = ParsedSentence(("a", "b"), ("X", "X"), ("_", "_"), np.array([ROOT, ROOT]))
    with pytest.raises(InvalidInputError, match="heads of sentence 60 must have one word under the root, got 2"):
        EdgeFactoredParser(**SMALL).fit([*TRAIN, two_roots])
    EdgeFactoredParser(**SMALL, single_root=False).fit([*TRAIN, two_roots])
    EdgeFactoredParser(**SMALL).fit([*TRAIN, two_roots], sample_weight=[*[1] * len(TRAIN), 0])


# Two arcs that cross; the first word is below the third, so the second would have to be the root, under an arc.
@pytest.mark.parametrize(("heads", "settled"), [([2, 3, -2, -2], [-2, 3, -2, -2]), ([2, -2, 1], [1, -2, 1])])
@pytest.mark.parametrize("learner", ["online", "batch"])
def test_parts_of_trees_that_cross_are_lifted_or_left_out(heads, settled, learner):
    own = ParsedSentence(("a", "b", "c", "d")[: len(heads)], ("X",) * len(heads), ("_",) * len(heads))
    settings = {**SMALL, "learner": learner, "max_iter": 2}

    def fit(crossing, *last):
        known = [*(one.heads for one in TRAIN), *last]
        return EdgeFactoredParser(**settings, crossing=crossing).fit([*TRAIN, own][: len(known)], known)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lifted, expected = fit("lift", heads), fit("lift", settled)
        left_out, without = fit("skip", heads), fit("lift")
    forgotten = [str(one.message) for one in caught if str(one.message).startswith("1 heads count as not known")]
    assert [message.endswith('; crossing="skip" leaves such sentences out') for message in forgotten] == [True] * (
        len(heads) == 4
    )
    assert (lifted.theta_ == expected.theta_).all()
    assert (lifted.n_lifted_, lifted.n_skipped_, left_out.n_lifted_, left_out.n_skipped_) == (1, 0, 0, 1)
    for one, other in zip(left_out.predict_proba(TEST), without.predict_proba(TEST), strict=True):
        np.testing.assert_allclose(one, other, atol=0.05)  # words of what is left out are known
    with pytest.raises(InvalidInputError, match=f"^heads of sentence {len(TRAIN)} must fit a tree without crossing"):
        fit("raise", heads)


def test_before_fit():
    with pytest.raises(NotFittedError):
        EdgeFactoredParser().predict(TEST)


def test_scoring_needs_heads():
    parser = EdgeFactoredParser(**SMALL).fit(TRAIN)
    bare_ones = [one._replace(heads=None) for one in TEST]
    assert parser.score([TEST[0], bare_ones[1]]) == parser.score(TEST[:1])
    with pytest.raises(InvalidInputError, match="heads must be known of some word other than punctuation, of weight"):
        parser.score(bare_ones)


def with_relations(sentences):
    """The relation of a word is a matter of its tag, its head's, and the side it stands on."""
    found = []
    for one in sentences:
        names = []
        for word, head in enumerate(one.heads.tolist()):
            tag = one.upos[word]
            side = "subject" if word < head else "object"
            names.append("root" if head == ROOT else side if tag == "NOUN" else tag.lower())
        found.append(one._replace(relations=tuple(names)))
    return found


def test_relations(tmp_path):
    gold = with_relations(TEST)
    parser = EdgeFactoredParser(**SMALL).fit(with_relations(TRAIN))
    assert [one.relations for one in parser.parse(bare(TEST))] == [one.relations for one in gold]
    assert parser.predict_relations(TEST) == [one.relations for one in gold]
    parser.save(tmp_path / "parser.npz")
    again = EdgeFactoredParser.load(tmp_path / "parser.npz")
    assert again.predict_relations(TEST) == [one.relations for one in gold]
    unknown = np.full(len(TEST[0].forms), -2)
    assert parser.predict_relations(TEST[:1], [unknown]) == [("_",) * len(unknown)]


def test_relations_are_learned_where_they_are_known():
    some = [one if n % 2 else one._replace(relations=None) for n, one in enumerate(with_relations(TRAIN))]
    assert EdgeFactoredParser(**SMALL).fit(some).parse(TEST[:1])[0].relations == with_relations(TEST[:1])[0].relations
    for settings, sentences in (({}, TRAIN), ({"relations": False}, some)):
        parser = EdgeFactoredParser(**SMALL, **settings).fit(sentences)
        assert parser.relations_ is None
        assert parser.parse(TEST[:1])[0].relations is None
        assert parser.predict_relations([ParsedSentence((), (), ())]) == [()]
