"""HMMTagger under constraints, at other gammas, and on schedules."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from tagger_helpers import DICTIONARY, SENTENCES, WORDS, make, posteriors, same_params, sequences, start_of, tables_of

from spectrem import E, HMMTagger, part
from spectrem.constraints import at_least, at_most, dictionary_in_expectation, label_proportions, sparsity
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.learning import Anneal, Constant, Quench
from spectrem.models import tagging as shards

TAGS = ("DT", "NN", "VB")
VERB = at_least(1, "VB")
OPEN = [word for word in DICTIONARY if len(DICTIONARY[word]) > 1]


def expected_verbs(tagger, sentences):
    return [matrix[:, 2].sum() for matrix in tagger.predict_proba(sentences)]


def projected_by_enumeration(tables, words, least, gamma=1.0):
    """The q nearest to the posterior with ``least`` verbs: tilted by exp(price * verbs)."""
    found = sequences(tables, words, [DICTIONARY[word] for word in words], gamma)
    p = np.array(list(found.values()))
    p /= p.sum()
    verbs = np.array([tags.count("VB") for tags in found])
    if p @ verbs >= least:
        return dict(zip(found, p, strict=True))
    price = minimize(
        lambda x: np.log((p * np.exp(x[0] * verbs)).sum()) - x[0] * least, [0.0], method="BFGS", options={"gtol": 1e-10}
    ).x[0]
    q = p * np.exp(price * verbs)
    return dict(zip(found, q / q.sum(), strict=True))


def test_every_sentence_has_a_verb():
    sentences = ["the dog", "a cat", "the walk", "a run", "the cat barks"]
    labels = [["DT", "NN"], ["DT", "NN"], None, None, None]
    options = {"dictionary": DICTIONARY, "smoothing": 0.1, "perturbation": 0.0, "max_iter": 10}
    free = make(**options).fit(sentences, labels)
    held = make(**options, constraints=[VERB]).fit(sentences, labels)
    assert held.history_[-1].violation < 1e-6
    assert held.history_[0].objective < held.history_[0].free_objective
    assert max(expected_verbs(free, sentences[2:4])) < 0.1
    assert min(expected_verbs(held, sentences[2:])) > 0.85


@pytest.mark.parametrize("decode", ["posterior", "viterbi"])
def test_new_sentences_are_projected_when_asked(decode):
    tagger = make(
        dictionary=DICTIONARY, smoothing=0.1, constraints=[VERB], project_at_predict=True, decode=decode, max_iter=2
    ).fit(SENTENCES)
    new = ["the walk", "a run barks", "the dog sees the walk"]
    tables = tables_of(tagger)
    for words, matrix, tags in zip(map(str.split, new), tagger.predict_proba(new), tagger.predict(new), strict=True):
        q = projected_by_enumeration(tables, words, 1.0)
        expected = np.zeros((len(words), 3))
        for own, p in q.items():
            for t, tag in enumerate(own):
                expected[t, TAGS.index(tag)] += p
        np.testing.assert_allclose(matrix, expected, atol=1e-5)
        assert tagger.predict([]) == []
        assert tagger.predict([""]) == [[]]
        if decode == "viterbi":
            found = sequences(tables, words, [DICTIONARY[word] for word in words])
            assert tuple(tags) == max((own for own in found if "VB" in own), key=found.get)
    free = tagger.set_params(project_at_predict=False)
    np.testing.assert_allclose(
        free.predict_proba(new)[0],
        posteriors(tables, new[0].split(), [DICTIONARY[word] for word in new[0].split()], TAGS),
        atol=1e-12,
    )


def test_the_best_sequences_meet_constraints_that_no_token_by_itself_would():
    """Four tokens share one expected B; none of them is more likely B than A."""
    flat = HMMTagger.from_parameters(
        [0.9, 0.1],
        [[0.9, 0.1], [0.9, 0.1]],
        [[0.5, 0.5], [0.45, 0.55]],
        tags=["A", "B"],
        vocabulary=["x", "y"],
        constraints=[at_least(1, "B")],
        project_at_predict=True,
        n_threads=1,
    )
    assert flat.predict(["x y x x"]) == [["A"] * 4]
    assert flat.predict_proba(["x y x x"])[0][:, 1].sum() == pytest.approx(1.0, abs=1e-6)
    assert flat.set_params(decode="viterbi").predict(["x y x x"]) == [["A", "B", "A", "A"]]


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_projection_of_new_sentences_is_at_the_gamma_of_training(gamma):
    tagger = make(
        dictionary=DICTIONARY, smoothing=0.1, constraints=[VERB], project_at_predict=True, gamma=gamma, max_iter=2
    ).fit(SENTENCES)  # fmt: skip
    words = ["the", "walk", "run"]
    q = projected_by_enumeration(tables_of(tagger), words, 1.0, gamma)
    verbs = sum(p * np.array([tag == "VB" for tag in tags]) for tags, p in q.items())
    np.testing.assert_allclose(tagger.predict_proba([words])[0][:, 2], verbs, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "gamma"),
    [({"gamma": 0.2}, 0.2), ({"schedule": Anneal(0.25, 0.5, alpha=2.0)}, 2.0), ({}, 1.0)],
    ids=["gamma", "schedule", "default"],
)
def test_known_tables_are_projected_at_the_gamma_asked_for(options, gamma):
    tagger = HMMTagger.from_parameters(
        [0.6, 0.4], [[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.9]],
        tags=["A", "B"], vocabulary=["x", "y"], constraints=[at_least(1, "B")], project_at_predict=True, n_threads=1,
        **options,
    )  # fmt: skip
    assert tagger.gamma_ == gamma
    emission, move, start = [[0.5, 0.5], [0.1, 0.9]], [[0.7, 0.3], [0.2, 0.8]], [0.6, 0.4]
    joint = np.array([[start[a] * emission[a][0] * move[a][b] * emission[b][0] for b in (0, 1)] for a in (0, 1)])

    def expected_b(price):
        q = (joint * np.exp(price * np.add.outer([0, 1], [0, 1]))) ** (1 / gamma)
        q /= q.sum()
        return q, q[1].sum() + q[:, 1].sum()

    low, high = 0.0, 20.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_b(middle)[1] < 1.0 else (low, middle)
    q, _ = expected_b(high)
    np.testing.assert_allclose(tagger.predict_proba(["x x"])[0][:, 1], [q[1].sum(), q[:, 1].sum()], atol=1e-6)


def test_a_constraint_that_a_sentence_cannot_meet():
    dictionary = {**DICTIONARY, "one": ["DT", "NN"]}
    sentences = [*SENTENCES, "one dog"]
    with pytest.raises(InfeasibleConstraintError) as error:
        make(dictionary=dictionary, smoothing=0.1, constraints=[VERB]).fit(sentences)
    assert "at least 1 VB per sentence" in str(error.value)
    with pytest.warns(UserWarning, match="at least 1 VB per sentence' in 1 of the instances"):
        skipped = make(dictionary=dictionary, smoothing=0.1, constraints=[VERB], infeasible="skip").fit(sentences)
    assert np.isfinite(skipped.log_likelihood_)
    relaxed = make(dictionary=dictionary, smoothing=0.1, constraints=[VERB.slack(penalty=5.0)]).fit(sentences)
    assert np.isfinite(relaxed.log_likelihood_)
    skipped.set_params(project_at_predict=True)
    assert skipped.predict(["one cat"])[0][1] == "NN"
    with pytest.raises(InfeasibleConstraintError):
        skipped.set_params(infeasible="raise").predict(["one cat"])


def test_labelled_sentences_are_left_alone():
    """Labels are data; a dictionary may be wrong."""
    tagger = make(dictionary=DICTIONARY, smoothing=0.1, constraints=[VERB])
    tagger.fit([*SENTENCES, "the walk"], [*[None] * 6, ["DT", "NN"]])
    assert tagger.history_[-1].violation < 1e-6
    with pytest.raises(InfeasibleConstraintError, match=r"no feasible q in sentence 7"):
        tagger.fit([*SENTENCES, "the walk", "the cat"], [*[None] * 6, ["DT", "NN"], None])


def test_a_tag_that_does_not_exist():
    with pytest.raises(InvalidInputError) as error:
        make(dictionary=DICTIONARY, constraints=[at_least(1, "VERB")]).fit(SENTENCES)
    told = "there is no label 'VERB'; did you mean 'VB'? the labels are 'DT', 'NN', 'VB'"
    assert str(error.value) == f"'at least 1 VERB per sentence': {told}"


def test_constraints_name_tags_that_are_numbers():
    held = make(n_states=3, init="random", constraints=[at_most(1, 2)], max_iter=4).fit(SENTENCES)
    assert held.history_[-1].violation < 1e-6
    shifted = make(tags=[5, 6, 7], init="random", constraints=[at_most(1, "7")], max_iter=4).fit(SENTENCES)
    assert same_params(held, shifted)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_proportions_over_the_corpus(n_threads, monkeypatch):
    monkeypatch.setattr(shards, "_LEAST_PARTS", 20)
    options = {"dictionary": DICTIONARY, "smoothing": 0.1, "max_iter": 6, "n_threads": n_threads}
    n_tokens = sum(map(len, WORDS))
    tagger = make(**options, constraints=[label_proportions({"VB": 0.3})], project_at_predict=True).fit(SENTENCES)
    assert sum(expected_verbs(tagger, SENTENCES)) == pytest.approx(0.3 * n_tokens, abs=1e-5)
    few = SENTENCES[1:3]
    assert sum(expected_verbs(tagger, few)) == pytest.approx(0.3 * 10, abs=1e-5)
    assert tagger.predict(few)[0][:2] == ["DT", "NN"]
    with pytest.raises(InvalidInputError) as error:
        tagger.set_params(decode="viterbi").predict(few)
    assert str(error.value) == (
        "decode must be posterior where project_at_predict meets constraints over the corpus ('proportion of VB'), got "
        'viterbi: the best sequences that meet them cannot be found sentence by sentence; set decode="posterior"'
    )


def test_threads_do_not_change_constrained_training(monkeypatch):
    monkeypatch.setattr(shards, "_LEAST_PARTS", 30)
    for constraints in ([VERB], [label_proportions({"VB": 0.3}), at_most(2, "NN")], [sparsity(1.0, min_count=2)]):
        taggers = [
            make(dictionary=DICTIONARY, smoothing=0.1, max_iter=3, constraints=constraints, n_threads=n).fit(SENTENCES)
            for n in (1, 2)
        ]
        assert same_params(*taggers)


def test_sparsity_lowers_the_number_of_tags_per_word():
    def spread(tagger):
        rows = list(itertools.chain(*tagger.predict_proba(SENTENCES)))
        words = list(itertools.chain(*WORDS))
        return sum(
            np.max([row for row, own in zip(rows, words, strict=True) if own == w], axis=0).sum() for w in set(words)
        )

    options = {"n_states": 3, "init": "random", "max_iter": 8}
    free = make(**options).fit(SENTENCES)
    sparse = make(**options, constraints=[sparsity(3.0, min_count=2)], project_at_predict=True).fit(SENTENCES)
    assert spread(sparse) < spread(free) - 0.3
    steps = make(**options, constraints=[sparsity(3.0, min_count=2)], dual_steps=20).fit(SENTENCES)
    assert steps.history_[-1].objective == pytest.approx(sparse.history_[-1].objective, rel=0.1)


def test_a_dictionary_in_expectation():
    wrong = {**DICTIONARY, "dog": ["VB"]}
    verbs = []
    for strength in (0.01, 50.0):
        constraint = dictionary_in_expectation(wrong, strength)
        tagger = make(tags=TAGS, init="random", constraints=[constraint], project_at_predict=True).fit(SENTENCES)
        verbs.append(tagger.predict_proba(["the dog barks"])[0][1, 2])
    assert verbs[0] < 0.7 < 0.99 < verbs[1]


def test_gamma_0_is_viterbi_training():
    tagger = make(dictionary=DICTIONARY, smoothing=0.1, gamma=0.0, decode="viterbi", perturbation=0.3).fit(SENTENCES)
    one_more = make(dictionary=DICTIONARY, smoothing=0.1, init=tagger, gamma=0.0, max_iter=1).fit(SENTENCES)
    best = tagger.predict(SENTENCES)
    labelled = make(dictionary=DICTIONARY, smoothing=0.1, max_iter=1).fit(SENTENCES, best)
    np.testing.assert_allclose(one_more.transition_, labelled.transition_)
    assert (np.diff([record.objective for record in make(
        dictionary=DICTIONARY, gamma=0.0, perturbation=0.3).fit(SENTENCES).history_]) > -1e-9).all()  # fmt: skip


@pytest.mark.parametrize("gamma", [0.0, -np.inf, 0.5, 2.0])
def test_constraints_at_every_gamma(gamma):
    tagger = make(dictionary=DICTIONARY, smoothing=0.1, gamma=gamma, constraints=[VERB], max_iter=3).fit(SENTENCES)
    assert tagger.history_[-1].violation < 1e-6
    assert tagger.gamma_ == gamma
    with_projection = tagger.set_params(project_at_predict=True)
    assert min(expected_verbs(with_projection, SENTENCES)) > 1 - 1e-6


def test_schedules():
    tagger = make(dictionary=DICTIONARY, smoothing=0.1, schedule=Quench(Anneal(0.25, alpha=2.0)), max_iter=2).fit(
        SENTENCES
    )
    assert [record.gamma for record in tagger.history_] == [4.0, 4.0, 2.0, 2.0, 1.0, 1.0, 0.0, 0.0]
    assert tagger.gamma_ == 0.0
    constant = make(dictionary=DICTIONARY, smoothing=0.1, schedule=Constant(0.5)).fit(SENTENCES)
    assert same_params(constant, make(dictionary=DICTIONARY, smoothing=0.1, gamma=0.5).fit(SENTENCES))


def test_stages_converge_on_their_own():
    tagger = make(
        dictionary=DICTIONARY, smoothing=0.1, schedule=Anneal(0.5, alpha=2.0), tol=1e-3, max_iter=200
    ).fit(SENTENCES)  # fmt: skip
    assert tagger.status_.name == "CONVERGED"
    gammas = [record.gamma for record in tagger.history_]
    assert gammas.count(2.0) > 1
    assert gammas.count(1.0) > 1
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        short = make(dictionary=DICTIONARY, smoothing=0.1, tol=1e-9, max_iter=2).fit(SENTENCES)
    assert short.status_.name == "MAX_ITERATIONS"


@pytest.mark.parametrize("order", [1, 2])
def test_skewed_annealing_stays_near_the_reference(order):
    reference = make(order, dictionary=DICTIONARY, smoothing=0.1, init="unambiguous").fit(SENTENCES)
    options = {"dictionary": DICTIONARY, "smoothing": 0.1, "max_iter": 1, "gamma": 3.0, "perturbation": 0.3}
    by_tagger = make(order, **options, reference=reference).fit(SENTENCES)
    assert same_params(by_tagger, make(order, **options, reference=reference.params_).fit(SENTENCES))
    # the posterior behind the M-step: p^(1/3) r^(2/3), by enumeration
    start = make(order, dictionary=DICTIONARY, smoothing=0.1, max_iter=1, perturbation=0.3)
    p = tables_of(start_tables(start))
    r = tables_of(reference)
    initial = np.zeros(3)
    for words in WORDS:
        own = [DICTIONARY[word] for word in words]
        skewed = {
            tags: p.probability(words, tags) ** (1 / 3) * r.probability(words, tags) ** (2 / 3)
            for tags in itertools.product(*own)
        }
        total = sum(skewed.values())
        for tags, weight in skewed.items():
            initial[TAGS.index(tags[0])] += weight / total
    np.testing.assert_allclose(by_tagger.initial_, (initial + 0.1) / (initial + 0.1).sum(), atol=1e-9)


def start_tables(tagger):
    """The start of a tagger as a fitted tagger."""
    params = start_of(tagger.order, dictionary=DICTIONARY, perturbation=0.3)
    fitted = tagger.fit(SENTENCES)
    fitted._take(fitted.coding_, params)
    return fitted


def test_skewed_annealing_from_posteriors():
    reference = make(dictionary=DICTIONARY, smoothing=0.1).fit(SENTENCES)
    options = {"dictionary": DICTIONARY, "smoothing": 0.1, "gamma": 2.0, "max_iter": 2}
    given = make(**options, reference=reference.predict_proba(SENTENCES)).fit(SENTENCES)
    uniform = [np.full((len(words), 3), 1 / 3) for words in WORDS]
    assert not same_params(given, make(**options, reference=uniform).fit(SENTENCES))
    np.testing.assert_allclose(
        make(**options, reference=uniform).fit(SENTENCES).transition_, make(**options).fit(SENTENCES).transition_
    )
    constrained = make(**options, reference=reference, constraints=[VERB]).fit(SENTENCES)
    assert constrained.history_[-1].violation < 1e-6
    for wrong, message in (
        (uniform[:2], "got 2 entries; predict_proba makes such posteriors"),
        ([*uniform[:5], uniform[0][:, :2]], r"got shape \(3, 2\) for sentence 5; predict_proba makes such posteriors"),
        ([np.log(matrix) for matrix in uniform], r"reference must hold probabilities in \[0, 1\]"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            make(**options, reference=wrong).fit(SENTENCES)


def test_annealing_ends_in_plain_em():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger = make(
            dictionary=DICTIONARY, smoothing=0.1, schedule=Anneal(0.2), tol=1e-8, max_iter=2000
        ).fit(SENTENCES)  # fmt: skip
    onward = make(dictionary=DICTIONARY, smoothing=0.1, init=tagger, max_iter=5).fit(SENTENCES)
    np.testing.assert_allclose(onward.transition_, tagger.transition_, atol=1e-2)


def test_constraints_can_be_about_words():
    constraint = (E[(part("word") == "run") & (part("tag") == "VB")] >= 0.9).named("run is a verb")
    tagger = make(dictionary=DICTIONARY, smoothing=0.1, constraints=[constraint.per("sentence").slack(penalty=100.0)])
    tagger.set_params(project_at_predict=True).fit(SENTENCES)
    assert tagger.predict_proba(["the run"])[0][1, 2] == pytest.approx(0.9, abs=1e-5)


def test_constraints_name_columns_of_sentences_and_of_words():
    """A column that is the words, spelled otherwise, says what they say."""
    text = [sentence.split() for sentence in SENTENCES]
    upper, numbers = [[word.upper() for word in sentence] for sentence in text], list(range(len(text)))
    number, word = next((n, word) for n, sentence in enumerate(text) for word in sentence if word in OPEN)
    rules = [
        (E[(part("tag") == DICTIONARY[word][0]) & (part(name) == value) & (part("number") == number)] <= 0.3).per(
            "sentence"
        )
        for name, value in (("word", word), ("shape", word.upper()))
    ]
    columns = {"shape": upper, "number": numbers}
    one, two = (
        make(1, dictionary=DICTIONARY, constraints=[rule], project_at_predict=True).fit(SENTENCES, columns=columns)
        for rule in rules
    )
    assert one.objective_ == two.objective_
    assert one.objective_ < make(1, dictionary=DICTIONARY).fit(SENTENCES).objective_
    found = (tagger.predict_proba(SENTENCES, columns=columns) for tagger in (one, two))
    assert all(np.array_equal(*pair) for pair in zip(*found, strict=True))
    assert two.predict(SENTENCES, columns=columns) == one.predict(SENTENCES, columns=columns)
    for wrong, message in [({"word": upper}, "must not be called 'word'"), ({"a": [1]}, "one entry per sentence")]:
        with pytest.raises(InvalidInputError, match=message):
            make(1, dictionary=DICTIONARY).fit(SENTENCES, columns=wrong)
