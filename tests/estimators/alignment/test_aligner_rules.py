"""What WordAligner refuses and with which words, and how it keeps the conventions of estimators."""

import math

import numpy as np
import pandas
import pytest
from aligner_helpers import make
from sklearn.base import clone

from spectrem import WordAligner
from spectrem.constraints import shortcuts
from spectrem.data import Bitext, encode_bitext
from spectrem.datasets import make_bitext
from spectrem.exceptions import InvalidInputError, NotFittedError
from spectrem.learning import Anneal

SMALL = make_bitext(12, seed=2)
GAMMA_RULE = (
    "; between -inf and 0 the E-step is not convex, and without constraints every gamma <= 0 is hard EM: use 0 "
    "(linear relaxation) or -inf (integer program)"
)


@pytest.mark.parametrize(
    ("source", "target"),
    [([], []), (["", ""], ["", ""]), (["a", ""], ["", "b"]), (["a"], ["b"])],
    ids=["nothing", "blank", "never met", "one word"],
)
def test_very_little_text(source, target):
    aligner = make().fit(source, target)
    assert np.isfinite([record.objective for record in aligner.history_]).all()
    links = aligner.predict(source, target)
    assert links.n_sentences == len(source)
    assert all(i == j == 0 for n in range(len(source)) for i, j in links.pairs(n))


def test_a_text_of_which_every_pair_is_too_long():
    assert make(max_length=1).fit(["a b"], ["x y"]).predict(["a b"], ["x y"]).n_sentences == 1


def test_not_fitted():
    for call in (
        lambda aligner: aligner.predict(["a"], ["b"]),
        lambda aligner: aligner.predict_proba(["a"], ["b"]),
        lambda aligner: list(aligner.lexicon()),
        lambda aligner: aligner.save("nowhere"),
    ):
        with pytest.raises(NotFittedError) as error:
            call(make())
        assert str(error.value) == "this WordAligner is not fitted yet; call fit, or load a saved one"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "ibm4"}, "model must be one of hmm, ibm2, ibm1, got 'ibm4'"),
        (
            {"constraints": ["agrement"]},
            "constraint 'agrement', character 1: there is no shortcut 'agrement'; did you mean 'agreement'? they are "
            f"{', '.join(shortcuts.__all__)}; or write a bound on an expectation, such as E[label == 'spam'] <= 3",
        ),
        ({"constraints": [3]}, "constraints must be made with E or shortcuts, got 3; see spectrem.constraints"),
        ({"gamma": -0.5}, "gamma must be -inf or at least 0 and finite, got -0.5" + GAMMA_RULE),
        ({"gamma": math.nan}, "gamma must be -inf or at least 0 and finite, got nan" + GAMMA_RULE),
        ({"gamma": math.inf}, "gamma must be -inf or at least 0 and finite, got inf" + GAMMA_RULE),
        ({"gamma": "1"}, "gamma must be a number, got '1'"),
        (
            {"decode": "best"},
            "decode must be one of posterior, viterbi, forward, backward, intersection, union, grow-diag, "
            "grow-diag-final, grow-diag-final-and, "
            "got 'best'",
        ),
        (
            {"schedule": Anneal(0.5), "gamma": 0.0},
            "gamma and schedule must not both be given, got gamma 0.0; put it into the schedule, as in "
            "Anneal(beta_min, 1 / gamma)",
        ),
        ({"schedule": 0.5}, "schedule must yield gammas, such as Anneal(beta_min=0.1), got 0.5; for one, give gamma"),
        ({"tol": -1.0}, "tol must be finite and at least 0, got -1.0"),
        ({"infeasible": "relax"}, "infeasible must be one of raise, skip, got 'relax'"),
        ({"null_probability": 0.0}, "null_probability must lie between 0 and 1, got 0.0; try 0.1"),
        ({"null_probability": 1.0}, "null_probability must lie between 0 and 1, got 1.0; try 0.1"),
        ({"threshold": 1.5}, 'threshold must be "auto" or a number in [0, 1], got 1.5'),
        ({"threshold": -0.1}, 'threshold must be "auto" or a number in [0, 1], got -0.1'),
        ({"threshold": "best"}, "threshold must be \"auto\" or a number in [0, 1], got 'best'"),
        ({"alpha": math.nan}, "alpha must lie in [0, 1], got nan"),
        ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"max_iter": 2.5}, "max_iter must be an integer, got 2.5"),
        ({"model1_iterations": -1}, "model1_iterations must be at least 0, got -1"),
        ({"max_jump": 0}, "max_jump must be at least 1, got 0"),
        ({"dual_steps": -1}, "dual_steps must be at least 0, got -1"),
        ({"stem_strength": -1.0}, "stem_strength must be finite and at least 0, got -1.0"),
        ({"cognate_strength": math.nan}, "cognate_strength must be finite and at least 0, got nan"),
        ({"dictionary_strength": -1.0}, "dictionary_strength must be finite and at least 0, got -1.0"),
        ({"same_strength": math.inf}, "same_strength must be finite and at least 0, got inf"),
        *[
            (
                {"dictionary": wrong},
                "dictionary must map source words to mappings from target words to weights above 0, got "
                f"{wrong!r}; read such a mapping with read_dictionary",
            )
            for wrong in (["a"], {"a": ["b"]}, {"a": {"b": 0.0}}, {"a": {"b": "1"}})
        ],
        *[
            (
                {"same": wrong},
                f"same must be some of numbers, urls, punctuation, words, got {wrong!r}; separate several by commas "
                "on the command line, leave it out for none",
            )
            for wrong in ("numbers", ["names"])
        ],
        ({"step_size": 0.0}, "step_size must be finite and above 0, got 0.0"),
        ({"max_fertility": -1.0}, "max_fertility must be finite and above 0, got -1.0"),
        ({"max_length": 0}, "max_length must be at least 1, got 0; None sets no limit"),
        ({"n_threads": 0}, "n_threads must be at least 1, got 0"),
        ({"n_threads": 1.5}, "n_threads must be an integer, got 1.5"),
        ({"max_iter": True}, "max_iter must be an integer, got True"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_parameters_are_checked(options, message):
    with pytest.raises(InvalidInputError) as error:
        make(**options).fit(["a"], ["b"])
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda aligner: aligner.fit(["a"]),
            "target must be given when source is a sequence of lines; or pass one Bitext, or a list of (source, "
            "target) pairs",
        ),
        (
            lambda aligner: aligner.fit([("a", "b"), ("a", "b", "c")]),
            "source[1] must be a pair of source and target sentence where target is left out, got ('a', 'b', 'c'); "
            "give a list of pairs, or two lists, as in fit(source, target)",
        ),
        (
            lambda aligner: aligner.fit(pandas.DataFrame({"en": ["a"], "de": ["b"]})),
            "source must be the column of source sentences, got a table of 'en', 'de'; give two of its columns, as in "
            "fit(table['en'], table['de'])",
        ),
        (
            lambda aligner: aligner.fit([["a"], "b"], ["c", "d"]),
            "source[1] must be a list of words as source[0] is, got 'b'; give lines or lists of words, not both",
        ),
        (
            lambda aligner: aligner.fit(["a"], [["b", 3]]),
            "target[0] must hold words, which are texts of at least one letter and without line ends, got 3; correct "
            "or drop it",
        ),
        (
            lambda aligner: aligner.fit(["a", "b"], ["c"]),
            "source and target must pair up, but have 2 and 1 lines; check which line was lost",
        ),
        (
            lambda aligner: aligner.fit(["a"], ["b"], sample_weight=[1.0, 2.0]),
            "sample_weight must have shape (1,), one per sentence pair, got (2,); leave it out for ones",
        ),
        (
            lambda aligner: aligner.fit(["a"], ["b"], sample_weight=[-1.0]),
            "sample_weight must be finite and at least 0, got -1.0 in sentence pair 0; 0 leaves a sentence pair out",
        ),
        (
            lambda aligner: aligner.fit(["a"], ["b"], known=[]),
            "known must have one entry per sentence pair (1), got 0; use None where unknown",
        ),
        (
            lambda aligner: aligner.fit(["a"], ["b c"], known=[[(0, 2)]]),
            "known: link 0-2 of sentence pair 1 (counted from 1) lies outside its 1 source and 2 target words; count "
            "words from 0",
        ),
        (
            lambda aligner: aligner.fit(["a"] * 3, ["b"] * 3, anchors=[None, [(0, 0)], [(0, 0), (1, 0)]]),
            "anchors: link 1-0 of sentence pair 3 (counted from 1) lies outside its 1 source and 1 target words; count "
            "words from 0",
        ),
        (
            lambda aligner: aligner.fit(["a"], ["b"]).predict(["a", "a"], ["b", "b"], anchors=[None]),
            "anchors must have one entry per sentence pair (2), got 1; use None where unknown",
        ),
        (
            lambda aligner: aligner.fit(["a"] * 2, ["b"] * 2, known=[None, []], anchors=[None, [(0, 0)]]),
            "anchors are for pairs of which not all links are known, got both for sentence pair 2 (counted from 1); "
            "drop one of them",
        ),
        (
            lambda aligner: aligner.fit(_with_unknown_words()),
            "source must be a Bitext without unknown words to be trained on, got one with 3 of them; encode it without "
            "vocabularies",
        ),
    ],
)
def test_input_is_checked(call, message):
    with pytest.raises(InvalidInputError) as error:
        call(make())
    assert str(error.value) == message


def _with_unknown_words() -> Bitext:
    known = encode_bitext(["a b"], ["x y"])
    return encode_bitext(["a q"], ["z z"], vocabularies=(known.source_vocabulary, known.target_vocabulary))


def test_scikit_learn_conventions():
    aligner = WordAligner(model="ibm2", gamma=0.5, constraints=["fertility"])
    assert aligner.get_params()["gamma"] == 0.5
    copy = clone(aligner)
    assert copy.get_params() == aligner.get_params()
    assert copy.constraints == ["fertility"]
    assert copy.set_params(gamma=2.0).gamma == 2.0
    given = {"threshold": 0.123, "max_iter": 1, "n_threads": 1}
    fitted = WordAligner(**given).fit(["a"], ["b"])
    assert {name: fitted.get_params()[name] for name in given} == given
    assert not hasattr(clone(fitted), "params_")


def test_fitting_twice_is_fitting_once():
    aligner = make(max_iter=1)
    first = aligner.fit(SMALL.source, SMALL.target).params_
    again = aligner.fit(SMALL.source, SMALL.target).params_
    assert np.array_equal(first.forward.translation, again.forward.translation)
    assert len(aligner.history_) == 6
