"""Priors, masks and fixed entries of HMMTagger, and known tables."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import psi
from tagger_helpers import DICTIONARY, SENTENCES, WORDS, compare, make, same_params, tables_of

from spectrem import HMMTagger
from spectrem.exceptions import InvalidInputError
from spectrem.models.priors import DirichletPrior, MeanFieldPrior
from spectrem.models.tagging import HMMParameters

TAGS = ("DT", "NN", "VB")


def test_smoothing_by_table():
    tagger = make(dictionary=DICTIONARY, smoothing={"transition": 1000.0}, max_iter=2).fit(SENTENCES)
    np.testing.assert_allclose(tagger.transition_, 1 / 3, atol=0.01)
    assert tagger.initial_.max() > 0.7
    same = make(dictionary=DICTIONARY, prior={"transition": DirichletPrior(1000.0)}, max_iter=2).fit(SENTENCES)
    assert same_params(tagger, same)
    assert same_params(
        make(dictionary=DICTIONARY, prior=DirichletPrior(0.3)).fit(SENTENCES),
        make(dictionary=DICTIONARY, smoothing=0.3).fit(SENTENCES),
    )


def test_mean_field_prior_by_table():
    tagger = make(n_states=1, prior={"emission": MeanFieldPrior(0.1)}, smoothing={"transition": 1.0}).fit(SENTENCES)
    counts = np.bincount(tagger.vocabulary_.lookup(itertools.chain(*WORDS)))
    expected = np.exp(psi(counts + 0.1) - psi(counts.sum() + 0.1 * len(counts)))
    np.testing.assert_allclose(tagger.emission_[0], expected)
    assert tagger.transition_.tolist() == [[1.0]]


def test_a_transition_mask_survives_training():
    names = make(dictionary=DICTIONARY, smoothing=0.5, transition_mask={"DT": ["NN"], "VB": ["DT", "NN"]}).fit(
        SENTENCES
    )
    assert names.transition_[0].tolist() == [0.0, 1.0, 0.0]
    assert names.transition_[2, 2] == 0.0
    assert (names.transition_[1] > 0).all()
    mask = np.ones((3, 3), bool)
    mask[0, [0, 2]] = mask[2, 2] = False
    assert same_params(make(dictionary=DICTIONARY, smoothing=0.5, transition_mask=mask).fit(SENTENCES), names)


def test_a_transition_mask_at_order_2():
    mask = {"DT": ["NN"]}
    tagger = make(2, dictionary=DICTIONARY, smoothing=0.5, transition_mask=mask).fit(SENTENCES)
    assert (tagger.transition_[:, 0, [0, 2]] == 0).all()
    assert tagger.params_.second[0].tolist() == [0.0, 1.0, 0.0]
    full = np.ones((3, 3, 3), bool)
    full[0, 1, 1] = False
    other = make(2, dictionary=DICTIONARY, smoothing=0.5, transition_mask=full).fit(SENTENCES)
    assert np.argwhere(other.transition_ == 0).tolist() == [[0, 1, 1]]
    assert (other.params_.second > 0).all()


def test_a_left_to_right_chain():
    """What users of HMM libraries ask for: states in order, each entered once."""
    mask = np.triu(np.ones((4, 4), bool)) & ~np.triu(np.ones((4, 4), bool), 2)
    fixed = {"initial": [1.0, 0.0, 0.0, 0.0]}
    tagger = make(n_states=4, init="random", transition_mask=mask, fixed=fixed, max_iter=20).fit(
        [[0, 0, 1, 1, 2, 3, 3]] * 3 + [[0, 1, 2, 2, 3]] * 3
    )
    assert (tagger.transition_[~mask] == 0).all()
    assert tagger.initial_.tolist() == [1.0, 0.0, 0.0, 0.0]
    states = tagger.predict([[0, 0, 1, 2, 3]])[0]
    assert states == sorted(states)


def test_fixed_entries_survive_training():
    nan = math.nan
    fixed = {
        "initial": {"VB": 0.25},
        "transition": [[nan, 0.5, nan], [nan, nan, nan], [0.2, 0.3, 0.5]],
        "emission": {("DT", "the"): 0.6, ("VB", "run"): 0.0, ("VB", "the"): 0.0},
    }
    tagger = make(dictionary=DICTIONARY, smoothing=0.1, fixed=fixed).fit(SENTENCES)
    assert tagger.initial_[2] == 0.25
    assert tagger.initial_[:2].sum() == pytest.approx(0.75)
    assert tagger.transition_[0, 1] == 0.5
    np.testing.assert_allclose(tagger.transition_[2], [0.2, 0.3, 0.5])
    np.testing.assert_allclose(tagger.transition_.sum(axis=1), 1.0)
    index = tagger.vocabulary_.index
    assert tagger.emission_[0, index["the"]] == 0.6
    assert tagger.emission_[2, index["run"]] == 0.0
    assert tagger.emission_[0].sum() == pytest.approx(1.0)
    table = np.full((3, len(index)), nan)
    table[0, index["the"]], table[2, index["run"]] = 0.6, 0.0
    arrays = {**fixed, "initial": [nan, nan, 0.25], "emission": table}
    again = make(
        dictionary=DICTIONARY, smoothing=0.1, fixed=arrays, vocabulary=tagger.vocabulary_.words
    ).fit(SENTENCES)  # fmt: skip
    assert same_params(again, tagger)


def test_a_mask_and_fixed_entries_of_one_table():
    fixed = {"transition": {("NN", "VB"): 0.5}}
    tagger = make(dictionary=DICTIONARY, smoothing=0.5, fixed=fixed, transition_mask={"NN": ["NN", "VB"]}).fit(
        SENTENCES
    )
    assert tagger.transition_[1].tolist() == [0.0, 0.5, 0.5]


def test_fixed_entries_at_order_2():
    fixed = {"second": {("DT", "NN"): 0.9}, "transition": {("DT", "NN", "VB"): 0.7}}
    tagger = make(2, dictionary=DICTIONARY, smoothing=0.1, fixed=fixed).fit(SENTENCES)
    assert tagger.params_.second[0, 1] == 0.9
    assert tagger.transition_[0, 1, 2] == 0.7
    np.testing.assert_allclose(tagger.transition_.sum(axis=2), 1.0)


def test_all_fixed_is_no_training():
    known = HMMTagger.from_parameters([0.6, 0.4], [[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.9]])
    fixed = {"initial": known.initial_, "transition": known.transition_, "emission": known.emission_}
    tagger = make(n_states=2, vocabulary=[0, 1], fixed=fixed).fit([[0, 1, 1, 0], [1, 1]])
    compare(tagger, tables_of(known), atol=1e-15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"fixed": [0.5]},
            "fixed must map tables (initial, transition, second, emission) to their fixed entries, got list; write "
            'fixed={"transition": array with NaN where free}',
        ),
        ({"fixed": {"second": {}}}, "fixed must name tables among initial, transition, emission, got 'second'"),
        (
            {"fixed": {"initial": [0.5]}},
            "fixed['initial'] must have shape (3,), NaN where free, or map tags to probabilities, got shape (1,)",
        ),
        (
            {"fixed": {"transition": {"DT": 0.5}}},
            "fixed['transition'] must have keys of 2 tags, got 'DT'; write them as a tuple",
        ),
        (
            {"fixed": {"transition": {("DT", "XX"): 0.5}}},
            "fixed['transition'] must name tags of the tag set, got 'XX'; see tags_ for those there are",
        ),
        (
            {"fixed": {"emission": {("DT", "xx"): 0.5}}},
            "fixed['emission'] must name words of the vocabulary, got 'xx'; rare words are '<unk>'",
        ),
        (
            {"fixed": {"emission": {"DT": 0.5}}},
            "fixed['emission'] must have keys (tag, word), got 'DT'; write them as a tuple",
        ),
        (
            {"fixed": {"emission": {("VB", "the"): 0.5}}},
            "fixed['emission'] must keep to the dictionary, got 0.5 for ('VB', 'the'), which it forbids; add the tag "
            "to "
            "the word's entry",
        ),
        (
            {"transition_mask": np.ones((2, 2), bool)},
            "transition_mask must be a boolean array of shape (3, 3), True where a tag may follow, or a mapping of "
            "tags to "
            "their followers, got dtype bool, shape (2, 2)",
        ),
        (
            {"transition_mask": np.ones((3, 3))},
            "transition_mask must be a boolean array of shape (3, 3), True where a tag may follow, or a mapping of "
            "tags to "
            "their followers, got dtype float64, shape (3, 3)",
        ),
        (
            {"transition_mask": {"DT": "NN"}},
            "transition_mask must list the tags that may follow a tag, got 'NN' for 'DT'; write ['NN']",
        ),
        (
            {"transition_mask": {"DT": ["XX"]}},
            "transition_mask must name tags of the tag set, got 'XX'; see tags_ for those there are",
        ),
        (
            {"transition_mask": {"DT": []}},
            "restrictions.transition.impossible must leave an entry in every row; row [0] has none left; leave at "
            "least "
            "one, or drop the state",
        ),
        (
            {"transition_mask": {"DT": ["NN"]}, "fixed": {"transition": {("DT", "VB"): 0.5}}},
            "restrictions.transition: an impossible entry must not be fixed above 0; got 0.5 at index (0, 2); drop one "
            "of the two",
        ),
        (
            {"fixed": {"initial": {"DT": 0.8, "NN": 0.7}}},
            "restrictions.initial.values must sum to at most 1 in every row; got 1.5 in the only row; scale them down",
        ),
    ],
)
def test_masks_and_fixed_entries_are_checked(options, message):
    with pytest.raises(InvalidInputError) as error:
        make(dictionary=DICTIONARY, **options).fit(SENTENCES)
    assert str(error.value) == message


def test_a_mask_that_forbids_a_sentence():
    with pytest.raises(InvalidInputError, match="sentence 0 must have some possible sequence of states"):
        make(dictionary=DICTIONARY, transition_mask={"DT": ["VB"]}).fit(["the dog"])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            ([0.5, 0.6], np.full((2, 2), 0.5), np.full((2, 2), 0.5)),
            "initial must have rows that sum to 1, got sums from 1.1 to 1.1; give probabilities [from, to], not "
            "logarithms "
            "or counts",
        ),
        (
            ([0.5, 0.5], np.full((3, 3), 1 / 3), np.full((2, 2), 0.5)),
            "tables must fit each other: transition must have shape (2, 2), got (3, 3)",
        ),
        (
            ([0.5, 0.5], np.full((2, 2), 0.5), [[1.5, -0.5], [0.5, 0.5]]),
            "tables must fit each other: emission must hold probabilities, got values from -0.5 to 1.5",
        ),
        (
            ([0.5, 0.5], np.full((2, 2), 0.5), [0.5, 0.5]),
            "emission must have shape (2, 0), as tags and vocabulary say, got (2,); name all of them or none",
        ),
    ],
)
def test_known_tables_are_checked(tables, message):
    with pytest.raises(InvalidInputError) as error:
        HMMTagger.from_parameters(*tables)
    assert str(error.value) == message


def test_training_goes_on_from_known_tables():
    known = HMMTagger.from_parameters(
        [0.6, 0.4], [[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.9]], tol=0.0, max_iter=3, n_threads=1
    )
    sentences, score = [[0, 1, 1, 0], [1, 1]], known.score([[0, 1, 1, 0], [1, 1]])
    start = HMMParameters(known.initial_, known.transition_, None, known.emission_)
    trained = known.fit(sentences)
    assert trained.history_[0].objective == pytest.approx(6 * score)
    assert same_params(trained, make(n_states=2, vocabulary=[0, 1], init=start, max_iter=3).fit(sentences))


def test_known_tables_of_order_2():
    rng = np.random.default_rng(0)
    second, third = rng.dirichlet([1, 1], 2), rng.dirichlet([1, 1], (2, 2))
    tagger = HMMTagger.from_parameters(
        [0.5, 0.5],
        third,
        [[0.9, 0.1], [0.2, 0.8]],
        second=second,
        tags=["A", "B"],
        vocabulary=["x", "y"],
        decode="viterbi",
    )
    assert tagger.order == 2
    assert tagger.predict(["x x y"])[0][0] in ("A", "B")
    tables = tables_of(tagger)
    total = sum(tables.probability(["x", "x", "y"], own) for own in itertools.product("AB", repeat=3))
    assert tagger.score(["x x y"]) == pytest.approx(np.log(total) / 3)
