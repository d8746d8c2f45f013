"""What HMMTagger refuses and with which words, and how it keeps the conventions of estimators."""

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tagger_helpers import DICTIONARY, SENTENCES, make, same_params

from spectrem import HMMTagger
from spectrem.exceptions import InvalidInputError, NotFittedError
from spectrem.learning import Anneal, Constant, Quench
from spectrem.models.priors import MeanFieldPrior

GAMMA_RULE = (
    "; between -inf and 0 the E-step is not convex, and without constraints every gamma <= 0 is hard EM: use 0 "
    "(linear relaxation) or -inf (integer program)"
)


def error_of(call, kind=InvalidInputError):
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def test_not_fitted():
    for call in (
        lambda tagger: tagger.predict(["a"]),
        lambda tagger: tagger.predict_proba(["a"]),
        lambda tagger: tagger.score(["a"]),
        lambda tagger: tagger.score_samples(["a"]),
        lambda tagger: tagger.sample(),
        lambda tagger: tagger.save("nowhere"),
        lambda tagger: tagger.emission_,
    ):
        message = error_of(lambda call=call: call(HMMTagger()), NotFittedError)
        assert message == "this HMMTagger is not fitted yet; call fit, or load a saved one"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 3}, "order must be 1 or 2, got 3; 2 is a trigram tagger"),
        ({"order": True}, "order must be 1 or 2, got True; 2 is a trigram tagger"),
        ({"n_states": 0}, "n_states must be at least 1, got 0"),
        ({"n_states": 2.0}, "n_states must be an integer, got 2.0"),
        ({"min_count": 0}, "min_count must be at least 1, got 0"),
        ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"n_init": 0}, "n_init must be at least 1, got 0"),
        ({"n_threads": 0}, "n_threads must be at least 1, got 0"),
        ({"dual_steps": -1}, "dual_steps must be at least 0, got -1"),
        ({"gamma": -0.5}, "gamma must be -inf or at least 0 and finite, got -0.5" + GAMMA_RULE),
        ({"gamma": math.nan}, "gamma must be -inf or at least 0 and finite, got nan" + GAMMA_RULE),
        ({"gamma": "1"}, "gamma must be a number, got '1'"),
        ({"tol": -1.0}, "tol must be finite and at least 0, got -1.0"),
        ({"perturbation": -1.0}, "perturbation must be finite and at least 0, got -1.0"),
        ({"smoothing": -0.1}, "smoothing must be finite and at least 0, got -0.1"),
        ({"smoothing": {"emission": math.nan}}, "smoothing['emission'] must be finite and at least 0, got nan"),
        ({"smoothing": {"words": 1}}, "smoothing must name tables among initial, transition, emission, got 'words'"),
        (
            {"init_smoothing": 0.0},
            "init_smoothing must be positive for every table, got 0.0; what the counts lack would be impossible",
        ),
        (
            {"init_smoothing": {"emission": 1.0}},
            "init_smoothing must be positive for every table, got {'emission': 1.0}; what the counts lack would be "
            "impossible",
        ),
        (
            {"schedule": 0.5},
            "schedule must yield gammas, such as Anneal(beta_min=0.1), got 0.5; for one, give gamma",
        ),
        (
            {"schedule": Constant(0.5), "gamma": 0.5},
            "gamma and schedule must not both be given, got gamma 0.5; put it into the schedule, as in "
            "Anneal(beta_min, "
            "1 / gamma)",
        ),
        (
            {"prior": {"words": MeanFieldPrior()}},
            "prior must name tables among initial, transition, emission, got 'words'",
        ),
        (
            {"prior": 0.5},
            "prior must be DirichletPrior or MeanFieldPrior, or map tables to them, got 0.5; for a pseudo-count use "
            "smoothing",
        ),
        (
            {"prior": MeanFieldPrior(), "smoothing": {"emission": 0.1}},
            "prior and smoothing must not be given for one table, got both for emission; smoothing is the prior "
            "DirichletPrior(smoothing)",
        ),
        ({"constraints": 3}, "constraints must be made with E or shortcuts, got 3; see spectrem.constraints"),
        (
            {"constraints": [3]},
            "constraints must be made with E or shortcuts, got 3; see spectrem.constraints",
        ),
        (
            {"dictionary": ["the"]},
            "dictionary must map words to their tags, got ['the']; read such a mapping with read_tag_dictionary",
        ),
        (
            {"vocabulary": "the dog"},
            "vocabulary must be a sequence of words, got 'the dog'; put it in a list",
        ),
        (
            {"init": "zeros"},
            "init must be one of uniform, posterior-uniform, random, unambiguous, supervised, HMMParameters or a "
            "fitted "
            "HMMTagger, got 'zeros'",
        ),
        ({"decode": "best"}, "decode must be one of viterbi, posterior, got 'best'"),
        ({"infeasible": "relax"}, "infeasible must be one of raise, skip, got 'relax'"),
        ({"unknown": ""}, "unknown must be the spelling of the unknown word, got ''; try '<unk>'"),
        ({"tags": "NN"}, "tags must be a sequence of tags, got the string 'NN'; put it in a list"),
        ({"tags": ["A", "B", "A"]}, "tags must be distinct and at least one, got 'A' twice; list every tag once"),
        ({"tags": []}, "tags must be distinct and at least one, got none; list every tag once"),
        ({"tags": [0.5]}, "tags must hold tags (text or whole numbers), got 0.5; name the tag"),
        (
            {"tags": ["A", "B"], "n_states": 3},
            "n_states must be the number of tags, 2 in tags, got 3; leave it out, or list all tags in tags",
        ),
        (
            {"dictionary": {"a": ["A", "B"]}, "n_states": 3},
            "n_states must be the number of tags, 2 in the dictionary and y, got 3; leave it out, or list all tags "
            "in tags",
        ),
        (
            {"dictionary": {"the": []}},
            "dictionary must allow every word in it a tag, got an empty entry for 'the'; add its tags, or leave the "
            "word "
            "out: it may then be any",
        ),
        (
            {"dictionary": {"the": "DT"}},
            "dictionary must list the tags of every word, got 'DT' for 'the'; write ['DT']",
        ),
        (
            {"dictionary": {"the": [None]}},
            "dictionary ('the') must hold tags (text or whole numbers), got None; name the tag",
        ),
        (
            {"dictionary": {"the": ["DT"], "dog": ["NNP"]}, "tags": ["DT", "NN"]},
            "dictionary must name tags of the tag set (DT, NN), got 'NNP' for 'dog'; add it to tags or correct the "
            "entry",
        ),
        (
            {"n_states": 2, "vocabulary": ["a", "b", "a"]},
            "words must be distinct, but 'a' occurs at 0 and 2; use Vocabulary.from_words to drop repetitions",
        ),
        (
            {},
            "n_states must be given when there are neither tags nor a dictionary nor labels; how many tags are there "
            "to "
            "find?",
        ),
        (
            {"n_states": 2, "init": "supervised"},
            "init='supervised' must find a sentence whose every token has a single label in y, got none; label some, "
            "or "
            "start from another init",
        ),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_parameters_are_checked(options, message):
    assert error_of(lambda: make(**options).fit(["a b"])) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("the dog",),
            "sentences must be a sequence of sentences, got the string 'the dog'; put it in a list",
        ),
        ((5,), "sentences must be a sequence of sentences, got int 5; put it in a list"),
        (
            ([1, 2],),
            "every sentence must be a sequence of words or a string, got 1 for sentence 0; for a single sentence, "
            "put it "
            "in a list",
        ),
        (
            ([["the", None]],),
            "words must be text or whole numbers, got None in sentence 0, token 1; turn tokens into strings",
        ),
        (
            ([["a"], [True]],),
            "words must be text or whole numbers, got True in sentence 1, token 0; turn tokens into strings",
        ),
        (([],), "sentences must hold at least one word to train on, got 0 sentences without any"),
        ((["", []],), "sentences must hold at least one word to train on, got 2 sentences without any"),
        (
            (["the dog"], [["DT", "NN"], None]),
            "y must have one entry per sentence (1), got 2; use None for sentences without labels",
        ),
        ((["the dog"], "DT NN"), "y must be a sequence of sentences, got the string 'DT NN'; put it in a list"),
        (
            (["the dog"], [["DT"]]),
            "y must have a label per token of sentence 0 (2), got 1; use None for tokens without label",
        ),
        (
            (["the dog"], [{"DT", "NN"}]),
            "y must have a label per token of sentence 0 (2), got 2; use None for tokens without label",
        ),
        (
            (["the dog", "the cat"], [None, ["DT", "XX"]]),
            "y must hold tags of the tag set (DT, NN, VB), got 'XX' in sentence 1, token 1; add it to tags or "
            "correct the "
            "label",
        ),
        (
            (["the dog"], [["DT", []]]),
            "y must allow a tag, got an empty collection for sentence 0, token 1; use None to allow all tags",
        ),
        (
            (["the dog"], [["DT", 0.5]]),
            "y (sentence 0, token 1) must hold tags (text or whole numbers), got 0.5; name the tag",
        ),
        (
            (["the dog", "the cat"], [None, ["NN", None]]),
            "labels must agree with the dictionary, got NN for 'the' in sentence 1, token 0, which may be DT; add "
            "the tag "
            "to the word's entry or correct the label",
        ),
        (
            (["the dog"], None, [-1.0]),
            "sample_weight must be finite and at least 0, got -1.0 in sentence 0; 0 leaves a sentence out",
        ),
        (
            (["the dog"], None, [math.nan]),
            "sample_weight must be finite and at least 0, got nan in sentence 0; 0 leaves a sentence out",
        ),
        (
            (["the dog"], None, [1.0, 1.0]),
            "sample_weight must have shape (1,), one per sentence, got (2,); leave it out for ones",
        ),
    ],
)
def test_input_is_checked(arguments, message):
    tagger = make(dictionary=DICTIONARY, tags=["DT", "NN", "VB"])
    assert error_of(lambda: tagger.fit(*arguments)) == message


def test_labels_outside_a_given_tag_set():
    message = error_of(lambda: make(tags=["A", "B"]).fit(["x"], [["C"]]))
    assert (
        message
        == "y must hold tags of the tag set (A, B), got 'C' in sentence 0, token 0; add it to tags or correct the label"
    )
    assert make().fit(["x y"], [["C", None]]).tags_ == ("C",)


def test_long_tag_sets_are_cut_short_in_messages():
    message = error_of(lambda: make(tags=list(range(100))).fit(["x"], [["C"]]))
    assert "(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 88 more)" in message


def test_new_sentences_are_checked_too():
    tagger = make(dictionary=DICTIONARY, smoothing=0.1).fit(SENTENCES)
    assert error_of(lambda: tagger.predict("the dog")).startswith("sentences must be a sequence of sentences")
    assert error_of(lambda: tagger.score(["the dog"], [["NN", None]])).startswith(
        "labels must agree with the dictionary"
    )
    nothing = "sentences must hold at least one word to be scored, got none with weight above 0"
    assert error_of(lambda: tagger.score([""])) == nothing
    zeros = "sample_weight must be positive for some sentence, got zeros only; leave it out for ones"
    assert error_of(lambda: tagger.score(["dog"], sample_weight=[0.0])) == zeros
    assert error_of(lambda: tagger.score(["", "dog"], sample_weight=[1.0, 0.0])) == nothing


def test_beta_min_above_beta_max():
    message = error_of(lambda: make(dictionary=DICTIONARY, schedule=Anneal(2.0, 1.0)))
    assert message.startswith("beta_min and beta_max must satisfy 0 < beta_min <= beta_max, got 2.0 and 1.0")


def test_a_schedule_without_gammas():
    class Never:
        def gammas(self):
            return iter(())

    assert (
        error_of(lambda: make(n_states=2, schedule=Never()).fit(["a"]))
        == "schedule must yield at least one gamma, got none"
    )


@pytest.mark.parametrize("gamma", [0.0, -math.inf])
def test_viterbi_training_with_a_mean_field_prior(gamma):
    tagger = make(dictionary=DICTIONARY, gamma=gamma, prior=MeanFieldPrior(0.5), max_iter=10).fit(SENTENCES)
    assert np.isfinite([record.objective for record in tagger.history_[1:]]).all()  # a start is no posterior
    assert tagger.predict(["the dog barks"])[0][:2] == ["DT", "NN"]
    assert (tagger.transition_.sum(axis=1) < 1).all()


def test_parameters_can_be_read_set_and_cloned():
    tagger = make(2, dictionary=DICTIONARY, smoothing={"emission": 0.1}, schedule=Quench(Anneal(0.5)), max_iter=2)
    params = tagger.get_params()
    assert params["order"] == 2
    assert params["smoothing"] == {"emission": 0.1}
    again = clone(tagger)
    assert again is not tagger
    assert again.get_params() == params
    assert same_params(tagger.fit(SENTENCES), again.fit(SENTENCES))
    assert tagger.set_params(order=1).fit(SENTENCES).transition_.shape == (3, 3)
    assert repr(HMMTagger(n_states=3)) == "HMMTagger(n_states=3)"


def test_fitting_again_forgets():
    tagger = make(dictionary=DICTIONARY).fit(["the dog"])
    assert same_params(tagger.fit(SENTENCES), make(dictionary=DICTIONARY).fit(SENTENCES))


def test_fit_leaves_its_arguments_alone():
    dictionary, labels, weights = dict(DICTIONARY), [["DT", "NN", None], *[None] * 5], np.ones(6)
    copies = pickle.loads(pickle.dumps((dictionary, labels, weights)))
    make(dictionary=dictionary).fit(SENTENCES, labels, weights)
    assert (dictionary, labels) == copies[:2]
    assert weights.tolist() == copies[2].tolist()


def test_pickles():
    tagger = make(dictionary=DICTIONARY, smoothing=0.1).fit(SENTENCES)
    again = pickle.loads(pickle.dumps(tagger))
    assert same_params(tagger, again)
    assert again.predict(SENTENCES) == tagger.predict(SENTENCES)


def test_model_selection_by_likelihood():
    search = GridSearchCV(make(dictionary=DICTIONARY, smoothing=0.1), {"smoothing": [0.01, 1.0]}, cv=2)
    search.fit(np.array(SENTENCES, dtype=object))
    assert search.best_params_["smoothing"] in (0.01, 1.0)
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize("name", ["init", "reference"])
def test_taggers_given_as_parameters_are_fitted(name):
    fitted = make(n_states=2).fit(["a b"])
    cloned = clone(make(n_states=2, **{name: fitted}))
    assert error_of(lambda: cloned.fit(["a"])) == (
        f"{name} must be a fitted tagger, got one that is not fitted (scikit-learn's clone makes such ones); fit it, "
        "or give its params_ and its vocabulary"
    )
