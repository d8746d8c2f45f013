"""Inputs of wrong lengths and kinds are errors that name them, whatever estimator over sentences they are given to."""

import io

import numpy as np
import pytest

from spectrem import (
    BracketingModel,
    CRFTagger,
    DependencyModel,
    E,
    EdgeFactoredParser,
    GaussianHMM,
    GaussianMixture,
    HMMTagger,
    RelationExtractor,
    WordAligner,
    datasets,
    part,
)
from spectrem.data import ParsedSentence, RelationSentence, write_conllu
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import attachment_scores, tagging_accuracy

QUICK = {"max_iter": 2, "tol": 1e6, "n_threads": 1}
X = ["a b", "a"]
TAGS, HEADS = [["A", "B"], ["A"]], [[1, -1], [-1]]
ROWS = np.arange(6.0)[:, None]
ONE = ParsedSentence(("a", "b"), ("A", "B"), ("_", "_"), np.array([1, -1]), ("x", "root"))
OTHER = ParsedSentence(("a",), ("A",), ("_",), np.array([-1]), ("root",))
RELATED = [RelationSentence(["a", "b"], [(0, 1), (1, 2)], ["P", "Q"], {(0, 1): "K"})] * 2
SHIFTED = [ONE._replace(relations=("x",)), OTHER._replace(relations=("root", "root"))]
SHORT = {"sample_weight": [1.0]}
SENTENCES = r"must have shape \(2,\), one per sentence, got \(1,\)"


def hmm():
    return HMMTagger(**QUICK)


def series(**options):
    return GaussianHMM(2, random_state=0, init="clusters", n_init=1, **QUICK, **options)


def crf(**options):
    return CRFTagger(features="words", **QUICK, **options)


def parser():
    return EdgeFactoredParser(bits=6, passes=1, n_threads=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hmm().fit(X, TAGS[:1]), r"y must have one entry per sentence \(2\), got 1"),
        (lambda: hmm().fit(X, TAGS[::-1]), r"y must have a label per token of sentence 0 \(2\), got 1"),
        (lambda: hmm().fit(X, TAGS, **SHORT), f"sample_weight {SENTENCES}"),
        (lambda: hmm().fit(X, TAGS).score(X, TAGS[::-1]), "y must have a label per token of sentence 0"),
        (lambda: hmm().fit(X, TAGS).score_samples(X, TAGS[:1]), "y must have one entry per sentence"),
        (lambda: series().fit(ROWS, ["a"]), "y must have a label, or None, for each of 6 rows"),
        (lambda: series().fit([ROWS, ROWS], [["a"] * 6]), "y must have a label, or None, for each of"),
        (lambda: series().fit([ROWS, ROWS], [["a"] * 6, ["a"]]), "y must have a label, or None, for each of 6 rows"),
        (lambda: series().fit(ROWS, "abcdef"), "y must have a label, or None, for each of 6 rows, got 'abcdef'"),
        (lambda: series().fit(ROWS, 3), "y must have a label, or None, for each of 6 rows, got 3"),
        (lambda: series().fit([ROWS, ROWS], 3), "y must have a label, or None, for each of 12 rows, got 3"),
        (lambda: series().fit([ROWS, ROWS], [3, None]), "y must have a label, or None, for each of 6 rows, got 3"),
        (
            lambda: series().fit(ROWS, lengths=[2, 2, 2], **SHORT),
            r"must have shape \(3,\), one per sequence, got \(1,\)",
        ),
        (lambda: series().fit(ROWS, lengths=[2, 2]), "lengths must add up to the 6 rows of X, got 4"),
        (lambda: series().fit(ROWS, lengths=[7, -1]), "lengths must"),
        (lambda: series().fit(ROWS, lengths=3), "lengths must"),
        (lambda: series().fit(ROWS, lengths="ab"), "lengths must"),
        (
            lambda: series().fit(ROWS, groups=[0, 1]),
            r"groups must have a value for each of the 6 rows of X, got shape \(2,",
        ),
        (lambda: series().fit(ROWS, groups=3), r"groups must have a value for each of the 6 rows of X, got shape \(\)"),
        (
            lambda: series().fit(ROWS, groups=[0, "a", None, 1, 2, 3]),
            "groups must be numbers, texts or dates",
        ),
        (lambda: series().fit([ROWS, ROWS], lengths=[6, 6]), "lengths and groups must be None where X is a list"),
        (lambda: series().fit([ROWS, np.eye(2)]), r"X must hold arrays with one number of columns, got \[1, 2\]"),
        (lambda: series().fit(3), "X must have rows and columns"),
        (lambda: series().fit(None), "X must "),
        (lambda: series().fit("ab"), "X must "),
        (lambda: series().fit([]), "X must have at least one row and one column"),
        (lambda: series().fit([[1.0, 2.0], [3.0]]), "X must be an array, got"),
        (lambda: series().fit(ROWS[None]), r"X must have rows and columns, got an array of shape \(1, 6, 1\)"),
        (lambda: series().fit([["a", "b"]]), "X must hold numbers"),
        (lambda: series().fit(ROWS + 1j), "X must hold numbers"),
        (lambda: series(columns=[3]).fit(ROWS), "columns"),
        (lambda: series().fit(ROWS).predict(np.eye(6)), "X must have the 1 columns of training, 0; got 6"),
        (lambda: series().fit(ROWS).predict_proba(ROWS, [5]), "lengths must add up to the 6 rows of X, got 5"),
        (lambda: series().fit(ROWS).filter(np.full((6, 1), np.inf)), "column 0 must hold finite numbers"),
        (lambda: series().fit(ROWS).score_samples(ROWS, ["a"]), "y must have a label, or None, for each of 6 rows"),
        (lambda: series().fit(ROWS).score(ROWS, [2] * 6), "states must name the 2 states of the model"),
        (lambda: series().fit(ROWS).score(ROWS, **SHORT, lengths=[3, 3]), r"sample_weight must have shape \(2,\)"),
        (lambda: series().fit(ROWS).forecast(ROWS, h=0), "h must be "),
        (lambda: series().fit(ROWS).forecast(ROWS, h=1.5), "h must be "),
        (lambda: series().fit(ROWS).sample(-1), "n_rows must be "),
        (lambda: series().fit(ROWS).sample("a"), "n_rows must be "),
        (
            lambda: series().fit(ROWS).online_filter().update([1.0, 2.0]),
            "row must be 1 numbers, NaN",
        ),
        (lambda: series().fit(ROWS).online_filter().update(["a"]), "row must be 1 numbers"),
        (lambda: crf().fit(X, TAGS[:1]), r"y must have one entry per sentence \(2\), got 1"),
        (lambda: crf().fit(X, TAGS[::-1]), r"y must have a label per token of sentence 0 \(2\), got 1"),
        (lambda: crf().fit(X, TAGS, **SHORT), f"sample_weight {SENTENCES}"),
        (lambda: crf().fit(X, TAGS, columns={"c": ["x"]}), r"columns\['c'\] must have one entry per sentence \(2\)"),
        (lambda: crf().fit(X, TAGS, columns={"c": [["x"], ["x", "y"]]}), "a value per token of sentence 0"),
        (lambda: crf().fit(X, TAGS, columns={"c": "xy"}), r"one entry per sentence \(2\), got 'xy'"),
        (lambda: crf().fit(X, TAGS, columns={"c": {0: "x", 1: "y"}}), r"one entry per sentence \(2\), got {0: 'x'"),
        (lambda: CRFTagger(**QUICK).fit(np.eye(3), TAGS, lengths=[2, 2]), "lengths must add up to the rows of X"),
        (lambda: DependencyModel(**QUICK).fit(X, HEADS[:1]), r"heads must have one entry per sentence \(2\), got 1"),
        (lambda: DependencyModel(**QUICK).fit(X, HEADS[::-1]), "heads of sentence 0 must be 2 integers, one per word"),
        (
            lambda: DependencyModel(**QUICK).fit(X, [[[1, -1], [0, 1]], None]),
            r"sentence 0 must be 2 integers, .* \(2, 2\)",
        ),
        (lambda: DependencyModel(**QUICK).fit(X, [[[1], [1, 2]], None]), "heads of sentence 0 must be an array, got"),
        (lambda: DependencyModel(**QUICK).fit(X, **SHORT), f"sample_weight {SENTENCES}"),
        (lambda: DependencyModel(**QUICK).fit(X, columns={"c": [1]}), r"columns\['c'\] must have one entry per sent"),
        (lambda: parser().fit([ONE, OTHER], HEADS[:1]), r"heads must have one entry per sentence \(2\), got 1"),
        (lambda: parser().fit([ONE, OTHER], HEADS[::-1]), "heads of sentence 0 must be 2 integers, one per word"),
        (lambda: parser().fit([ONE, OTHER], 3), r"heads must have one entry per sentence \(2\), got 3"),
        (lambda: parser().fit([ONE, OTHER], [[[1], [1, 2]], None]), "heads of sentence 0 must be an array"),
        (lambda: parser().fit([ONE, OTHER], [[["a", "b"]] * 2, None]), "heads of sentence 0 must be numbers"),
        (lambda: parser().fit(SHIFTED), "sentence 0: relations must be one per word, got 1 for 2 words"),
        (lambda: parser().fit([ONE, OTHER]).parse(SHIFTED), "sentence 0: relations must be one per word"),
        (lambda: parser().fit([ONE, OTHER], **SHORT), f"sample_weight {SENTENCES}"),
        (lambda: parser().fit([ONE, OTHER], columns={"c": [1]}), r"columns\['c'\] must have one entry per sentence"),
        (lambda: parser().fit([ONE, OTHER], columns={"tag": [1, 2]}), "columns must not be called 'tag'"),
        (lambda: parser().fit([ONE, OTHER], columns={"head_upos": [1, 2]}), "columns must not be called 'head_upos'"),
        (lambda: BracketingModel(**QUICK).fit(X, **SHORT), f"sample_weight {SENTENCES}"),
        (lambda: RelationExtractor().fit(RELATED, sample_weight=[1.0]), f"sample_weight {SENTENCES}"),
        (lambda: RelationExtractor().fit(RELATED, columns={"c": [1]}), r"columns: 'c' has shape \(1,\)"),
        (lambda: RelationExtractor().fit(3), "sentences must be RelationSentence, got 3"),
        (lambda: WordAligner().fit(["a", "b"], ["x"]), "source and target must pair up, but have 2 and 1"),
        (lambda: WordAligner().fit(["a", "b"], ["x", "y"], **SHORT), "sample_weight must have shape"),
        (
            lambda: WordAligner().fit(["a", "b"], ["x", "y"], known=[None]),
            "known must have one entry per sentence pair",
        ),
        (lambda: WordAligner().fit([1, "b"], ["x", "y"]), r"source\[0\] must be text, got 1"),
        (lambda: WordAligner().fit(3, ["x", "y"]), "source must be a sequence of lines, got 3"),
        (lambda: attachment_scores(3, [[1, -1]]), "gold must hold the heads of every sentence, got 3"),
        (lambda: attachment_scores([[[1], [1, 2]]], [[1, -1]]), "gold must be an array, got"),
        (lambda: tagging_accuracy(3, ["A"]), "predicted must hold one tag per token.*; got 3"),
    ],
)
def test_side_inputs_that_do_not_fit(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forms": None}, "sentence 1: forms must be a sequence of texts, got None; write '_' where there is none"),
        ({"forms": (1, 2)}, "sentence 1: forms must be a sequence of texts, got 1"),
        ({"forms": "ab"}, "sentence 1: forms must be a sequence of texts, got 'ab'"),
        ({"upos": None}, "sentence 1: upos must be a sequence of texts, got None"),
        ({"xpos": ("_", None)}, "sentence 1: xpos must be a sequence of texts, got None"),
        ({"relations": ("x", None)}, "sentence 1: relations must be a sequence of texts, got None"),
        ({"relations": "xy"}, "sentence 1: relations must be a sequence of texts, got 'xy'"),
        ({"relations": ("x", "y", "z")}, "sentence 1: relations must be one per word, got 3 for 2 words"),
    ],
)
def test_words_tags_and_relations_are_texts(change, message):
    wrong, model = [OTHER, ONE._replace(**change)], parser().fit([ONE, OTHER])
    calls = [parser().fit, model.predict, model.score, model.parse, lambda own: write_conllu(io.StringIO(), own)]
    for call in calls:
        with pytest.raises(InvalidInputError, match=message):
            call(wrong)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (2 * np.eye(2), r"heads of sentence 1 must be 2 integers, one per word, got shape \(2, 2\) of float64"),
        (np.array([[1, -1], [0, 1]]), r"heads of sentence 1 must be 2 integers, one per word, got shape \(2, 2\)"),
        ([1, None], "heads of sentence 1 must be 2 integers, one per word"),
        ([[1], [1, 2]], "heads of sentence 1 must be an array, got"),
        ("ab", "heads of sentence 1 must be 2 integers"),
        (1, "heads of sentence 1 must be 2 integers"),
    ],
)
def test_a_matrix_of_heads_is_not_a_tree(heads, message):
    wrong, model = [OTHER, ONE._replace(heads=heads)], parser().fit([ONE, OTHER])
    with pytest.raises(InvalidInputError, match=message):
        write_conllu(io.StringIO(), wrong)
    with pytest.raises(InvalidInputError, match="sentence 1 must"):
        model.score(wrong)


def test_relations_of_words_keep_their_places():
    """As many relations as words in all, of which one sentence has too few and the other too many."""
    assert sum(len(one.relations) for one in SHIFTED) == sum(len(one.forms) for one in SHIFTED)
    with pytest.raises(InvalidInputError, match="sentence 0: relations must be one per word, got 1 for 2 words"):
        parser().fit(SHIFTED)
    heavy = parser().fit([ONE, OTHER._replace(relations=("odd",))] * 3, sample_weight=[1, 0] * 3)
    assert heavy.relations_.names == ("root", "x")  # those of sentences of weight 0 are not learned


def test_columns_of_words_belong_to_their_sentences():
    """Also where there are as many words as sentences, since some have none."""
    text, tags = ["", "a b"], [None, None]
    rule = (E[(part("kind") == "x") & (part("tag") == "A")] <= 0.2).per("sentence")
    other = (E[(part("kind") == "y") & (part("tag") == "A")] >= 0.7).per("sentence")
    tagger = crf(tags=["A", "B"], constraints=[rule, other], project_at_predict=True, dual_steps=0)
    columns = {"kind": [[], ["x", "y"]]}
    tagger.fit([*text, "a b"], [*tags, ["A", "B"]], columns={"kind": [*columns["kind"], [None, None]]})
    _, table = tagger.predict_proba(text, columns=columns)
    assert table[0, 0] <= 0.2 + 1e-6
    assert table[1, 0] >= 0.7 - 1e-6


@pytest.mark.parametrize("value", ["a", -1, 1.5, [0, "x"], {}], ids=repr)
def test_a_random_state_is_a_number_or_a_generator(value):
    grid = np.array([[0.0], [1.0]])
    calls = [
        lambda: HMMTagger(random_state=value, **QUICK).fit(X, TAGS),
        lambda: HMMTagger(**QUICK).fit(X, TAGS).sample(2, random_state=value),
        lambda: DependencyModel(random_state=value, **QUICK).fit(X),
        lambda: EdgeFactoredParser(random_state=value).fit([ONE]),
        lambda: series().set_params(random_state=value).fit(grid),
        lambda: series().fit(grid).sample(2, random_state=value),
        lambda: GaussianMixture(random_state=value).fit(grid),
        lambda: GaussianMixture(random_state=0).fit(grid).set_params(random_state=value).sample(2),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError, match=r"^random_state must be "):
            call()
    for name in ("make_bitext", "make_tagged_corpus", "make_treebank", "make_bracketed_corpus"):
        with pytest.raises(InvalidInputError, match=r"^seed must be "):
            getattr(datasets, name)(3, seed=value)


def test_generators_of_numpy_are_random_states():
    for make in (np.random.default_rng, np.random.RandomState):
        one, other = (GaussianMixture(2, random_state=make(0)).fit(np.arange(9.0)[:, None] ** 2) for _ in range(2))
        np.testing.assert_array_equal(one.means_, other.means_)
        HMMTagger(random_state=make(0), **QUICK).fit(X, TAGS)
