"""What CRFTagger refuses, in words that say what to do."""

import numpy as np
import pytest
import scipy.sparse as sp

from spectrem import CRFTagger, E, part
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError, NotFittedError
from spectrem.learning import FitStatus

X = [[["a"], ["b"]], [["b", "c"]]]
Y = [["N", "V"], ["V"]]
MATRICES = [np.eye(2), np.ones((1, 2))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"edge_features": "pos"},
            "edge_features must begin the name of some feature, got pos; names are such as a, b, c",
        ),
        ({"edge_features": [1]}, r"edge_features must be beginnings of names of features, got \[1\]; give text"),
        ({"C": 0}, "C must be finite and above 0, got 0"),
        ({"l1_ratio": 2}, r"l1_ratio must lie in \[0, 1\], got 2"),
        ({"features": "chunk"}, "features must be one of tokens, words, chunking, words.tags, got 'chunk'"),
        ({"pairs": "some"}, "pairs must be one of observed, all, got 'some'"),
        ({"decode": "best"}, "decode must be one of viterbi, posterior, got 'best'"),
        ({"min_count": 0}, "min_count must be at least 1, got 0"),
        ({"m_steps": 0}, "m_steps must be at least 1, got 0"),
        ({"unlabelled_weight": -1}, "unlabelled_weight must be finite and at least 0, got -1"),
        ({"gamma": -1}, "gamma must be"),
        ({"tags": "NV"}, "tags must be a sequence of tags, got the string 'NV'; put it in a list"),
        ({"tags": ["N", "N"]}, "tags must be distinct and at least one, got 'N' twice"),
        ({"tags": ["N"]}, r"y must hold tags of the tag set \(N\), got 'V' in sentence 0, token 1; add it to tags"),
        ({"constraints": ["E[tag == 'VB'] <= 1"]}, "there is no tag 'VB'"),
        ({"constraints": ["E[(tag == 'N') & (previous == 'VB')] <= 0"]}, "there is no previous 'VB'"),
        ({"features": "words"}, r"every token must be a word for the templates 'words', got \['a'\] in sentence 0"),
    ],
)
def test_parameters(options, message):
    with pytest.raises(InvalidInputError, match=message):
        CRFTagger(n_threads=1, **options).fit(X, Y)


@pytest.mark.parametrize(
    ("sentences", "y", "message"),
    [
        (X, None, "tags must be given where y holds no labels, got none; list them in tags"),
        (X, Y[:1], r"y must have one entry per sentence \(2\), got 1; use None for sentences without labels"),
        (X, [["N"], ["V"]], r"y must have a label per token of sentence 0 \(2\), got 1; use None for tokens"),
        (X, [{"N", "V"}, ["V"]], "y must have a label per token of sentence 0"),
        (X, ["NV", ["V"]], "y must have a label per token of sentence 0"),
        (X, [["N", set()], ["V"]], "y must allow a tag, got an empty collection for sentence 0, token 1"),
        (X, [["N", 1.5], ["V"]], r"y \(sentence 0, token 1\) must hold tags \(text or whole numbers\), got 1.5"),
        (
            X,
            [["N", {"N": 0.5}], ["V"]],
            "distributions of probabilities that add up to 1, got {'N': 0.5} in sentence 0",
        ),
        (X, [["N", {"N": np.nan, "V": 1}], ["V"]], "distributions of probabilities that add up to 1"),
        (X, [["N", {"N": -0.5, "V": 1.5}], ["V"]], "distributions of probabilities that add up to 1"),
        (X, [[None, {"N": 0.5, "V": 0.5}], ["V"]], "neither for sentence 0, token 0; give it a distribution, or leave"),
        (
            X,
            [np.ones((2, 2)) / 2, ["V"]],
            "tags must name the columns of distributions in y, got none for the 2 columns",
        ),
        ("a b", Y, "X must be a sequence of sentences, got 'a b'; put a single sentence in a list"),
        ([], [], "X must hold a token to train on, got 0 sentences without any"),
        ([[], []], [[], []], "X must hold a token to train on, got 2 sentences without any"),
        ([[{"a": np.nan}]], [["N"]], "the value of the feature 'a' must be finite, got nan in sentence 0, token 0"),
        ([[{"a": -np.inf}]], [["N"]], "the value of the feature 'a' must be finite, got -inf in sentence 0, token 0"),
        ([np.ones((1, 1)), np.array([[1.0], [np.inf]])], [["N"], None], "must be finite, got inf in row 2, column 0"),
        ([["a", "b"]], [["N", "V"]], "every token must be a list of features, .* got 'a' in sentence 0, token 0"),
        ([np.array([[np.nan]])], [["N"]], "features must be finite, got nan in row 0, column 0"),
        (
            [np.eye(2), np.eye(3)],
            [["N", "V"], None],
            "X must have as many features in every sentence, got 2 in sentence 0",
        ),
        ([np.eye(2), [["a"]]], [["N", "V"], None], "X must hold one matrix of shape .* for sentence 1"),
        (np.eye(2), [["N", "V"]], "lengths must say where sentences end in a single matrix, got none for X of shape"),
    ],
)
def test_training_data(sentences, y, message):
    with pytest.raises(InvalidInputError, match=message):
        CRFTagger(n_threads=1).fit(sentences, y)


def test_nothing_to_learn_from():
    with pytest.raises(InvalidInputError, match="y must label some token, got none; without labels or constraints"):
        CRFTagger(tags=["N", "V"], n_threads=1).fit(X)


def test_lengths_must_fit():
    with pytest.raises(InvalidInputError, match="lengths must add up to the rows of X, got 3 and 2"):
        CRFTagger(n_threads=1).fit(np.eye(2), ["N", "V"], lengths=[3])
    with pytest.raises(InvalidInputError, match="features must be 'tokens' for matrices of numbers, got 'words'"):
        CRFTagger("words", n_threads=1).fit(np.eye(2), ["N", "V"], lengths=[2])
    with pytest.raises(InvalidInputError, match="X must be a matrix of numbers where lengths are given"):
        CRFTagger(n_threads=1).fit([["a"], ["b"]], ["N", "V"], lengths=[2])


def test_columns_of_matrices_have_no_names():
    with pytest.raises(InvalidInputError, match=r"edge_features must be \(\) where tokens are rows of a matrix"):
        CRFTagger(n_threads=1, edge_features="x").fit(MATRICES, Y)


def test_new_sentences_must_be_like_those_of_training():
    tagger = CRFTagger(n_threads=1).fit(MATRICES, Y)
    assert len(tagger.predict([sp.csr_array(np.eye(2))])[0]) == 2
    with pytest.raises(InvalidInputError, match="X must be a matrix of numbers, as in fit, got"):
        tagger.predict(X)
    with pytest.raises(InvalidInputError, match="X must have 2 features, as in fit, got 3; give the same columns"):
        tagger.predict([np.eye(3)])
    by_name = CRFTagger(n_threads=1).fit(X, Y)
    with pytest.raises(InvalidInputError, match="X must be sentences of tokens with features, as in fit, got"):
        by_name.predict(MATRICES)
    with pytest.raises(InvalidInputError, match="n must be an integer >= 1; got 0"):
        by_name.n_best(X, 0)
    with pytest.raises(InvalidInputError, match="y must label some token of weight above 0 to be scored, got none"):
        by_name.score(X, [None, None])


@pytest.mark.parametrize("call", ["predict", "predict_proba", "n_best"])
def test_before_fit(call):
    with pytest.raises(NotFittedError, match="this CRFTagger is not fitted yet; call fit, or load a saved one"):
        getattr(CRFTagger(), call)(X)


def test_a_partial_label_that_contradicts_a_constraint():
    rule = (E[part("tag") == "N"] >= 1).per("sentence").named("an N")
    with pytest.raises(InfeasibleConstraintError, match="'an N': no feasible q in sentence 1") as error:
        CRFTagger(n_threads=1, constraints=[rule]).fit([*X, [["a"]]], [["N", "V"], [{"V", "O"}], ["N"]])
    assert error.value.keys["sentence"] == 1
    with pytest.warns(UserWarning, match="an N"):
        CRFTagger(n_threads=1, constraints=[rule], infeasible="skip", max_iter=1, tol=0.0).fit(
            [*X, [["a"]]], [["N", "V"], [{"V", "O"}], ["N"]]
        )


def test_viterbi_is_out_of_reach_of_constraints_over_the_corpus():
    tagger = CRFTagger(n_threads=1, constraints=["E[tag == 'N'] <= '30%'"], project_at_predict=True).fit(X, Y)
    with pytest.raises(
        InvalidInputError, match=r'decode must be posterior where project_at_predict meets .* set decode="posterior"'
    ):
        tagger.predict(X)
    tables = tagger.set_params(decode="posterior").predict_proba(X)
    assert sum(table[:, 0].sum() for table in tables) <= 0.9 + 1e-4


def test_columns_must_fit():
    tagger = CRFTagger(n_threads=1)
    with pytest.raises(InvalidInputError, match=r"columns\['kind'\] must have one entry per sentence \(2\), got 1"):
        tagger.fit(X, Y, columns={"kind": ["x"]})
    with pytest.raises(
        InvalidInputError, match=r"columns\['kind'\] must have a value per token of sentence 0 \(2\), got 1"
    ):
        tagger.fit(X, Y, columns={"kind": [["x"], ["y"]]})
    with pytest.raises(InvalidInputError, match="columns must not be called 'tag', which constraints have already"):
        tagger.fit(X, Y, columns={"tag": [1, 2]})
    with pytest.raises(InvalidInputError, match="columns must map names to values"):
        tagger.fit(X, Y, columns=[1, 2])


def test_columns_of_tokens_and_sentences_are_for_constraints():
    sentences = [[["a"], ["b"]], [["b"], ["a"]], [["a"], ["a"]]]
    words = [["x", "y"], ["y", "x"], ["x", "x"]]
    rule = (E[(part("word") == "x") & (part("tag") == "V")] <= 0).per("sentence").named("x is no V")
    tagger = CRFTagger(n_threads=1, constraints=[rule], project_at_predict=True, tags=["N", "V"], max_iter=2, tol=0.0)
    tagger.fit(sentences, [["V", "N"], None, None], columns={"word": words, "file": [0, 1, 1]})
    assert tagger.predict(sentences[1:], columns={"word": words[1:]})[1] == ["N", "N"]
    with pytest.raises(InvalidInputError, match="there is no column 'word'"):
        tagger.predict(sentences)


def test_running_out_of_steps_is_said_once(recwarn):
    with pytest.warns(
        ConvergenceWarning, match=r"not within m_tol of its maximum .* \(after 1 steps\): raise m_steps or m_tol"
    ) as caught:
        tagger = CRFTagger(n_threads=1, m_steps=1).fit(X, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert (tagger.status_, tagger.n_steps_, tagger.converged_) == (FitStatus.MAX_STEPS, 1, False)
    assert "still gaining after m_steps" in tagger.report_.summary()
    fixed = CRFTagger(n_threads=1, m_steps=1, m_tol=0.0).fit(X, Y)
    assert fixed.status_ is FitStatus.FIXED_ITERATIONS
    assert not recwarn.list
    np.testing.assert_array_equal(fixed.theta_, tagger.theta_)


def test_the_start_from_labelled_sentences_is_solved_whatever_m_steps_says(recwarn):
    whole = CRFTagger(n_threads=1).fit(X, Y)
    tagger = CRFTagger(n_threads=1, m_steps=1, max_iter=1, tol=0.0).fit([*X, [["a"]]], [*Y, None])
    assert tagger.n_steps_ == whole.n_steps_ > 1
    assert not recwarn.list


def test_labels_that_were_never_seen():
    tagger = CRFTagger(n_threads=1).fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"y must hold tags of the tag set \(N, V\), got 'X' in sentence 1"):
        tagger.score_samples(X, [["N", "V"], ["X"]])
    with pytest.warns(UserWarning, match="y has labels that training did not have, such as 'X'"):
        assert tagger.score(X, [["N", "V"], ["X"]]) == pytest.approx(2 / 3)  # a tag that nobody could find is missed
