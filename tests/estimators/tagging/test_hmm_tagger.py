"""HMMTagger: what it accepts, what it returns, and that its numbers are those of all tag sequences."""

import itertools

import numpy as np
import pytest
from tagger_helpers import (
    DICTIONARY,
    SENTENCES,
    WORDS,
    Tables,
    compare,
    em_step,
    make,
    posteriors,
    same_params,
    sequences,
    tables_of,
)

from spectrem import HMMTagger
from spectrem.data import Vocabulary
from spectrem.exceptions import InvalidInputError
from spectrem.models import tagging as shards

TAGS = ("DT", "NN", "VB")


def allowed_of(words, labels=None, dictionary=DICTIONARY, every=TAGS):
    """Tags that each token may have, from dictionary and labels."""
    own = []
    for t, word in enumerate(words):
        tags = dictionary.get(word, every)
        label = None if labels is None else labels[t]
        if label is not None:
            tags = [tag for tag in tags if tag in ({label} if isinstance(label, str) else set(label))]
        own.append(sorted(tags))
    return own


@pytest.fixture(scope="module")
def fitted():
    return make(dictionary=DICTIONARY, smoothing=0.1).fit(SENTENCES)


@pytest.fixture(scope="module")
def fitted_trigram():
    return make(2, dictionary=DICTIONARY, smoothing=0.1, max_iter=3).fit(SENTENCES)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("gamma", [1.0, 0.6, 2.0])
def test_em_is_that_over_all_tag_sequences(order, gamma):
    labels = [None, ["DT", None, None, {"DT", "NN"}, "NN"], None, [None, None, None], None, None]
    weights = [1.0, 2.0, 0.5, 0.0, 1.0, 3.0]
    options = {"dictionary": DICTIONARY, "smoothing": 0.2, "gamma": gamma, "perturbation": 0.5}
    tables = tables_of(make(order, **options, max_iter=1).fit(SENTENCES, labels, weights))
    tagger = make(order, **options, max_iter=3).fit(SENTENCES, labels, weights)
    allowed = [allowed_of(words, own) for words, own in zip(WORDS, labels, strict=True)]
    cells = [(tag, word) for word, tags in DICTIONARY.items() for tag in tags]
    cells = [cell for cell in cells if cell[1] in tagger.vocabulary_.index]
    for record in tagger.history_[1:]:
        objective, tables = em_step(tables, WORDS, allowed, weights, 0.2, cells, gamma)
        assert record.free_objective == pytest.approx(objective, abs=1e-9)
    compare(tagger, tables)


@pytest.mark.parametrize("order", [1, 2])
def test_posteriors_best_sequences_and_likelihoods_are_those_of_all_tag_sequences(order, fitted, fitted_trigram):
    tagger = fitted if order == 1 else fitted_trigram
    tables = tables_of(tagger)
    new = [*WORDS, ["the"], ["walk", "run", "barks", "run"], ["the", "blorp", "run"], []]
    found = tagger.predict_proba(new)
    tags = tagger.predict(new)
    best = HMMTagger.predict(tagger_with(tagger, decode="viterbi"), new)
    total = 0.0
    for words, matrix, own, path in zip(new, found, tags, best, strict=True):
        if not words:
            assert matrix.shape == (0, 3)
            assert own == path == []
            continue
        possible = sequences(tables, words, allowed_of(words), neutral=("blorp",))
        np.testing.assert_allclose(matrix, posteriors(tables, words, allowed_of(words), TAGS, ("blorp",)), atol=1e-12)
        assert own == [TAGS[k] for k in matrix.argmax(axis=1)]
        assert possible[tuple(path)] == pytest.approx(max(possible.values()), rel=1e-12)
        total += np.log(sum(possible.values()))
    assert tagger.score_samples(new).sum() == pytest.approx(total, rel=1e-12)
    unseen = sum(words.count("blorp") for words in new)
    total -= unseen * np.log(len(tagger.vocabulary_.words) + 1)
    assert tagger.score(new) == pytest.approx(total / sum(map(len, new)), rel=1e-12)


def tagger_with(fitted, **options):
    """The same fitted tagger with other options for tagging."""
    other = make(**options)
    for name, value in vars(fitted).items():
        if name.endswith("_"):
            setattr(other, name, value)
    return other


def test_score_with_labels_is_that_of_words_and_labels(fitted):
    tables = tables_of(fitted)
    words, labels = WORDS[4], ["DT", "NN"]
    assert fitted.score([words], [labels]) == pytest.approx(np.log(tables.probability(words, labels)) / 2)
    assert fitted.score([words, words], sample_weight=[1.0, 3.0]) == pytest.approx(fitted.score([words]))
    with_weights = fitted.score(WORDS[:2], sample_weight=[2.0, 1.0])
    assert with_weights == pytest.approx(
        (2 * 3 * fitted.score(WORDS[:1]) + 5 * fitted.score(WORDS[1:2])) / (2 * 3 + 5), rel=1e-12
    )


def test_an_impossible_sentence_is_scored_and_tagged_all_the_same():
    tagger = HMMTagger.from_parameters(
        [1.0, 0.0, 0.0],
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
        [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.4, 0.3, 0.3]],
        n_threads=1,
    )
    assert tagger.score([[0, 1, 1]]) == pytest.approx(np.log(0.5 * 0.5 * 0.3) / 3)
    assert tagger.score_samples([[0, 1, 1], [2]]).tolist() == [pytest.approx(np.log(0.5 * 0.5 * 0.3)), -np.inf]
    assert np.isfinite(tagger.score([[0, 1, 1], [2]]))
    assert tagger.score([[0, 1, 1], [2]]) < tagger.score([[0, 1, 1], [2]], sample_weight=[1, 0])
    floored = tables_of(tagger)
    for table in (floored.initial, floored.transition, floored.emission):
        table.update({key: max(p, 1e-100) for key, p in table.items()})
    sentences = [[0, 1, 1], [0, 0, 1], [2, 2], [0, 1, 1]]
    best = []
    for words in sentences:
        found = sequences(floored, words, [(0, 1, 2)] * len(words))
        best.append(list(max(found, key=found.get)))
    tags = tagger.predict(sentences)
    for words, own, matrix in zip(sentences, tags, tagger.predict_proba(sentences), strict=True):
        expected = posteriors(floored, words, [(0, 1, 2)] * len(words), (0, 1, 2))
        np.testing.assert_allclose(matrix, expected, atol=1e-9)
        assert own == expected.argmax(axis=1).tolist()
    assert tagger.set_params(decode="viterbi").predict(sentences) == best


def test_attributes(fitted, fitted_trigram):
    assert fitted.tags_ == TAGS
    assert fitted.vocabulary_.words == tuple(dict.fromkeys(itertools.chain(*WORDS)))
    assert (fitted.initial_.shape, fitted.transition_.shape, fitted.emission_.shape) == ((3,), (3, 3), (3, 8))
    assert fitted_trigram.transition_.shape == (3, 3, 3)
    for tagger in (fitted, fitted_trigram):
        for table in (tagger.initial_, tagger.transition_, tagger.emission_):
            np.testing.assert_allclose(table.sum(axis=-1), 1.0)
    assert fitted.n_iter_ == len(fitted.history_) == 5
    assert fitted.status_.name == "FIXED_ITERATIONS"
    assert fitted.gamma_ == 1.0
    forbidden = [(TAGS.index(tag), fitted.vocabulary_.index["dog"]) for tag in ("DT", "VB")]
    assert all(fitted.emission_[cell] == 0 for cell in forbidden)


def test_the_log_likelihood_is_that_of_the_last_parameters(fitted):
    n_tokens = sum(map(len, WORDS))
    assert fitted.log_likelihood_ == pytest.approx(n_tokens * fitted.score(SENTENCES), rel=1e-12)
    again = make(dictionary=DICTIONARY, smoothing=0.1, init=fitted, max_iter=1).fit(SENTENCES)
    assert again.history_[0].free_objective == pytest.approx(fitted.log_likelihood_, rel=1e-12)


def test_strings_lists_and_arrays_of_words_are_the_same(fitted):
    for sentences in (WORDS, tuple(map(tuple, WORDS)), [np.array(words) for words in WORDS], iter(SENTENCES)):
        assert same_params(make(dictionary=DICTIONARY, smoothing=0.1).fit(sentences), fitted)
    assert fitted.predict(WORDS) == fitted.predict(SENTENCES)


def test_words_may_be_numbers():
    rng = np.random.default_rng(3)
    sentences = [rng.integers(0, 6, n) for n in (4, 7, 1, 5)]
    tagger = make(n_states=3).fit(sentences)
    assert tagger.tags_ == (0, 1, 2)
    assert set(tagger.vocabulary_.words) <= set(range(6))
    text = make(n_states=3).fit([[str(word) for word in sentence] for sentence in sentences])
    assert same_params(tagger, text)
    assert tagger.predict(sentences) == text.predict([[str(word) for word in sentence] for sentence in sentences])


def test_a_sentence_is_tagged_alike_whatever_else_is(fitted):
    together = fitted.predict(SENTENCES)
    assert [fitted.predict([sentence])[0] for sentence in SENTENCES] == together
    matrices = fitted.predict_proba(SENTENCES)
    for sentence, matrix in zip(SENTENCES, matrices, strict=True):
        np.testing.assert_array_equal(fitted.predict_proba([sentence])[0], matrix)


def test_nothing_to_tag(fitted):
    assert fitted.predict([]) == []
    assert fitted.predict(["", []]) == [[], []]
    assert [matrix.shape for matrix in fitted.predict_proba(["", "dog"])] == [(0, 3), (1, 3)]
    assert fitted.predict_proba([]) == []
    assert fitted.score_samples([]).shape == (0,)
    assert fitted.score_samples(["", "dog"])[0] == 0.0
    assert fitted.score(iter(["dog"])) == fitted.score(["dog"])


def test_sentences_of_length_0_and_1():
    tagger = make(dictionary=DICTIONARY, smoothing=0.1).fit(["", "dog", "walk", "", "run"])
    assert tagger.predict(["", "dog", "walk run"])[:2] == [[], ["NN"]]
    np.testing.assert_allclose(tagger.transition_, 1 / 3)  # never seen: smoothing alone
    assert np.isfinite(tagger.log_likelihood_)


@pytest.mark.parametrize("order", [1, 2])
def test_n_states_of_1(order):
    tagger = make(order, n_states=1).fit(SENTENCES)
    counts = np.bincount(tagger.vocabulary_.lookup(itertools.chain(*WORDS)))
    np.testing.assert_allclose(tagger.emission_[0], counts / counts.sum())
    assert tagger.predict(["the dog"]) == [[0, 0]]
    assert tagger.log_likelihood_ == pytest.approx((counts * np.log(counts / counts.sum())).sum())


def test_more_states_than_words():
    tagger = make(n_states=7, smoothing=0.1).fit(["a b", "b a b"])
    assert tagger.emission_.shape == (7, 2)
    assert set(itertools.chain(*tagger.predict(["a b"]))) <= set(range(7))
    assert np.isfinite(tagger.log_likelihood_)


def test_all_sentences_identical():
    once = make(dictionary=DICTIONARY, smoothing=0.0).fit(["the walk barks"])
    tagger = make(dictionary=DICTIONARY, smoothing=0.0).fit(["the walk barks"] * 20)
    for name in ("initial", "transition", "emission"):
        np.testing.assert_allclose(getattr(tagger.params_, name), getattr(once.params_, name), atol=1e-9)
    assert tagger.log_likelihood_ == pytest.approx(20 * once.log_likelihood_)


def test_weights_repeat_sentences():
    weights = [1, 2, 3, 1, 2, 1]
    repeated = [sentence for sentence, n in zip(SENTENCES, weights, strict=True) for _ in range(n)]
    weighed = make(dictionary=DICTIONARY, smoothing=0.1, perturbation=0.0).fit(SENTENCES, sample_weight=weights)
    longer = make(dictionary=DICTIONARY, smoothing=0.1, perturbation=0.0).fit(repeated)
    assert weighed.log_likelihood_ == pytest.approx(longer.log_likelihood_, rel=1e-12)
    compare(weighed, tables_of(longer))


def test_the_same_bits_for_every_number_of_threads(monkeypatch):
    monkeypatch.setattr(shards, "_LEAST_PARTS", 50)
    sentences = WORDS * 20
    first = None
    for n_threads in (1, 2, 5):
        tagger = make(dictionary=DICTIONARY, smoothing=0.1, n_threads=n_threads, max_iter=3).fit(sentences)
        result = (
            [record.objective for record in tagger.history_],
            tagger.log_likelihood_,
            [matrix.tolist() for matrix in tagger.predict_proba(sentences)],
            tagger.predict(sentences),
        )
        if first is None:
            first = tagger, result
        assert same_params(tagger, first[0])
        assert result == first[1]


def test_shards_do_not_change_the_result(monkeypatch):
    labels = [["DT", "NN", "VB"] if n % 3 == 0 else None for n in range(60)]
    sentences = [WORDS[0] if n % 3 == 0 else WORDS[n % 6] for n in range(60)]
    whole = make(dictionary=DICTIONARY, smoothing=0.1).fit(sentences, labels)
    monkeypatch.setattr(shards, "_LEAST_PARTS", 20)
    cut = make(dictionary=DICTIONARY, smoothing=0.1).fit(sentences, labels)
    compare(cut, tables_of(whole))
    assert cut.predict(sentences) == whole.predict(sentences)


def test_full_supervision_counts():
    labels = [["DT", "NN", "VB"], "DT NN VB DT NN", ["DT", "NN", "VB", "DT", "NN"], ["VB", "DT", "NN"], ["DT", "NN"],
              ["DT", "NN", "VB"]]  # fmt: skip
    tagger = make(smoothing=0.5, max_iter=1).fit(SENTENCES, labels)
    assert tagger.tags_ == TAGS
    assert tagger.initial_.tolist() == pytest.approx([5.5 / 7.5, 0.5 / 7.5, 1.5 / 7.5])
    to_noun = tagger.transition_[0, 1]
    assert to_noun == pytest.approx(8.5 / 9.5)
    the = tagger.vocabulary_.index["the"]
    assert tagger.emission_[0, the] == pytest.approx(5.5 / (8 + 0.5 * 8))
    assert tagger.predict(["a dog sees the cat"]) == [["DT", "NN", "VB", "DT", "NN"]]


def test_labels_hold_in_training_and_sets_restrict():
    free = make(dictionary=DICTIONARY, smoothing=0.0, perturbation=0.0, max_iter=30).fit(SENTENCES)
    labels = [None] * 4 + [[None, {"NN", "DT"}], None]
    held = make(dictionary=DICTIONARY, smoothing=0.0, perturbation=0.0, max_iter=30).fit(SENTENCES, labels)
    assert held.log_likelihood_ <= free.log_likelihood_ + 1e-9
    run = held.vocabulary_.index["run"]
    assert held.emission_[1, run] > 0


def test_label_forms_are_the_same():
    forms = [
        [None, [{"DT"}, ["NN"], ("VB",), "DT", np.array(["NN"])], None, None, None, None],
        [[None] * 3, "DT NN VB DT NN", None, None, None, None],
        [None, np.array(["DT", "NN", "VB", "DT", "NN"]), None, None, [None, None], None],
    ]
    taggers = [make(dictionary=DICTIONARY).fit(SENTENCES, labels) for labels in forms]
    assert same_params(taggers[0], taggers[1])
    assert same_params(taggers[0], taggers[2])


def test_rare_words_become_unknown_but_keep_their_entry():
    tagger = make(dictionary=DICTIONARY, min_count=3, smoothing=0.01).fit(SENTENCES)
    counts = {word: sum(words.count(word) for words in WORDS) for word in DICTIONARY}
    assert set(tagger.vocabulary_.words) == {word for word in counts if counts[word] >= 3} | {"<unk>"}
    assert counts["sees"] == 2
    assert tagger.predict(["the dog sees", "the unseen"])[0] == ["DT", "NN", "VB"]
    assert make(dictionary=DICTIONARY, min_count=2).fit(SENTENCES).vocabulary_.index.keys() == counts.keys()
    named = make(dictionary=DICTIONARY, min_count=2, smoothing=0.01, unknown="RARE").fit(["a b", "a c"])
    assert set(named.vocabulary_.words) == {"a", "RARE"}


def test_unseen_words_without_an_unknown_word_leave_it_to_their_neighbours(fitted):
    assert "<unk>" not in fitted.vocabulary_.index
    tables = tables_of(fitted)
    expected = posteriors(tables, ["the", "blorp"], [["DT"], TAGS], TAGS, neutral=("blorp",))
    np.testing.assert_allclose(fitted.predict_proba(["the blorp"])[0], expected, atol=1e-12)


def test_unseen_words_keep_their_entry_in_the_dictionary():
    dictionary = {**DICTIONARY, "fly": ["VB"], "<unk>": ["NN", "VB"]}
    tagger = make(dictionary=dictionary, smoothing=0.1).fit(SENTENCES)
    assert tagger.predict_proba(["the fly"])[0][1].tolist() == [0.0, 0.0, 1.0]
    assert tagger.predict_proba(["the blorp"])[0][1, 0] == 0.0
    closed = make(dictionary=dictionary, smoothing=0.1).fit([*SENTENCES, "the snark"])
    assert closed.emission_[0, closed.vocabulary_.index["snark"]] == 0.0
    assert (closed.emission_[1:, closed.vocabulary_.index["snark"]] > 0).all()


def test_a_text_that_spells_out_its_unknown_words():
    dictionary = {**DICTIONARY, "<unk>": ["NN", "VB"]}
    sentences = [*SENTENCES, "the <unk> barks", "the <unk> sees rare"]
    tagger = make(dictionary=dictionary, smoothing=0.1, min_count=2).fit(sentences)
    assert "<unk>" in tagger.vocabulary_.index
    spelled, unseen = tagger.predict_proba(["the <unk>", "the blorp"])
    assert spelled[1, 0] == 0.0
    assert spelled.tolist() == unseen.tolist()


def test_a_given_vocabulary_fixes_the_order_of_words():
    words = ["the", "dog", "never", "<unk>"]
    for vocabulary in (words, tuple(words), Vocabulary(tuple(words))):
        tagger = make(dictionary=DICTIONARY, vocabulary=vocabulary, smoothing=0.1).fit(SENTENCES)
        assert tagger.vocabulary_.words == tuple(words)
    assert tagger.emission_[1, 3] > tagger.emission_[1, 2]
    without = make(dictionary=DICTIONARY, vocabulary=words[:3], smoothing=0.1).fit(SENTENCES)
    assert without.vocabulary_.words == tuple(words[:3])
    assert np.isfinite(without.log_likelihood_)


def test_sample_draws_from_the_tables():
    tagger = HMMTagger.from_parameters(
        [0.3, 0.7], [[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]], vocabulary=["x", "y", "z"]
    )
    words, tags = tagger.sample(4000, 3, random_state=1)
    assert [len(sentence) for sentence in words] == [3] * 4000
    first = np.mean([own[0] == 1 for own in tags])
    assert first == pytest.approx(0.7, abs=0.03)
    pairs = [(a, b) for own in tags for a, b in itertools.pairwise(own)]
    assert np.mean([b for a, b in pairs if a == 0]) == pytest.approx(0.1, abs=0.02)
    flat = [(t, w) for own, sentence in zip(tags, words, strict=True) for t, w in zip(own, sentence, strict=True)]
    assert {w for t, w in flat if t == 0} == {"x", "y"}
    assert np.mean([w == "z" for t, w in flat if t == 1]) == pytest.approx(0.7, abs=0.03)
    assert tagger.sample(2, [1, 4], random_state=1) == tagger.sample(2, [1, 4], random_state=1)
    assert [len(own) for own in tagger.sample(2, [1, 4]).words] == [1, 4]
    with pytest.raises(InvalidInputError) as error:
        tagger.sample(3, [1, 4])
    assert str(error.value) == ("length must be one number or 3, one per sentence, got shape (2,); set n_sentences")
    assert tagger.sample(0).words == []


def test_a_learned_tagger_recovers_the_one_that_made_the_text():
    truth = HMMTagger.from_parameters(
        [0.6, 0.4], [[0.2, 0.8], [0.7, 0.3]], [[0.5, 0.4, 0.1, 0.0], [0.0, 0.1, 0.3, 0.6]], vocabulary=list("abcd")
    )
    words, tags = truth.sample(400, 12, random_state=0)
    tagger = make(dictionary={"a": [0], "d": [1]}, max_iter=60).fit(words)
    np.testing.assert_allclose(tagger.transition_, truth.transition_, atol=0.06)
    right = np.mean(
        [a == b for p, g in zip(tagger.predict(words), tags, strict=True) for a, b in zip(p, g, strict=True)]
    )
    assert right > 0.85


def test_what_is_told_of_training():
    tagger = make(dictionary=DICTIONARY, tol=1e-3, max_iter=50).fit(SENTENCES)
    assert tagger.converged_
    assert tagger.objective_ == tagger.history_[-1].objective
    told = tagger.report_.summary().splitlines()
    assert told[0] == f"HMMTagger on {len(SENTENCES)} sentences: converged"
    assert told[1] == "gamma 1, order 1, tags 3, constraints none"
    assert not make(dictionary=DICTIONARY, max_iter=2).fit(SENTENCES).converged_


def test_history_and_callback():
    heard = []
    tagger = make(dictionary=DICTIONARY, max_iter=3, on_iteration=heard.append).fit(SENTENCES)
    assert heard == tagger.history_
    gains = np.diff([record.objective for record in tagger.history_])
    assert (gains > -1e-9).all()


def test_oracle_tables_are_distributions():
    """The enumeration itself: probabilities of all sentences of one length sum to 1."""
    rng = np.random.default_rng(0)
    tags, words = ("A", "B"), ("x", "y")
    rows = {tag: rng.dirichlet([1, 1]) for tag in tags}
    emission = {
        (tag, word): rng_row for tag in tags for word, rng_row in zip(words, rng.dirichlet([1, 1]), strict=True)
    }
    tables = Tables(
        dict(zip(tags, rng.dirichlet([1, 1]), strict=True)),
        {(a, b): rows[a][k] for a in tags for k, b in enumerate(tags)},
        emission,
    )
    total = sum(
        tables.probability(sentence, own)
        for sentence in itertools.product(words, repeat=3)
        for own in itertools.product(tags, repeat=3)
    )
    assert total == pytest.approx(1.0)
