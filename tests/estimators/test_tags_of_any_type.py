"""Constraints may write a tag or label as a number or as text, whichever the data have."""

import numpy as np
import pytest

import spectrem
from spectrem import (
    BracketingModel,
    CRFTagger,
    DependencyModel,
    E,
    EdgeFactoredParser,
    HMMTagger,
    MaxEntClassifier,
    part,
)
from spectrem.data import ParsedSentence

pytestmark = pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
FIVES = pytest.mark.parametrize("five", [5, "5"])
TYPES = pytest.mark.parametrize("type_", [int, str])
QUIET = {"n_threads": 1, "project_at_predict": True}


def tagged(type_):
    """Sentences of tags 4 and 5."""
    return [[type_(tag) for tag in tags] for tags in ([4, 5, 4], [5, 4], [4, 4, 5, 4], [5, 5, 4])]


def half(column, five, per="sentence"):
    """Half of the parts or so have the tag."""
    return (E[part(column) == five] >= 0.6 * E.count(..., each="occurrence")).per(per)


def check(make, new, tmp_path, expected):
    """A model and what it predicts, before and after it is saved, are those of constraints in the type of the data."""
    models = [make(five) for five in (expected, 5, "5")]
    for model in models[1:]:
        path = tmp_path / f"model-{len(models)}.zip"
        model.save(path)
        models.append(spectrem.load(path))
    tables = [model.predict_proba(new) for model in models]
    for table in tables[1:]:
        for one, other in zip(tables[0], table, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)  # saved weights have single precision
    assert len({model.objective_ for model in models[:3]}) == 1


@TYPES
def test_hmm_tagger(type_, tmp_path):
    words = [["a", "b", "c"], ["b", "a"], ["c", "c", "b", "a"]]

    def make(five):
        tags = [type_(4), type_(5)]
        return HMMTagger(tags=tags, constraints=[half("tag", five)], max_iter=3, random_state=0, **QUIET).fit(words)

    check(make, [["a", "b"]], tmp_path, "5")


@TYPES
def test_crf_tagger(type_, tmp_path):
    words = [["a", "b", "c"], ["b", "a"], ["c", "c", "b", "a"], ["b", "c", "a"]]
    y = [*tagged(type_)[:2], None, None]

    def make(five):
        rules = [half("label", five), E[(part("previous") == five) & (part("tag") == five)] <= 1]
        return CRFTagger(features="words", constraints=rules, max_iter=2, **QUIET).fit(words, y)

    check(make, [["a", "b"]], tmp_path, "5")


@TYPES
def test_bracketing_model(type_, tmp_path):
    def make(five):
        rule = (E[(part("first") == five) & (part("constituent") == 1)] <= 1).per("sentence").slack(penalty=2)
        return BracketingModel(constraints=[rule], max_iter=2, **QUIET).fit(tagged(type_))

    check(make, tagged(type_)[:2], tmp_path, type_(5))


@TYPES
def test_dependency_model(type_, tmp_path):
    def make(five):
        rule = (E[part("head_tag") == five] >= 1).per("sentence")
        return DependencyModel(constraints=[rule], max_iter=2, **QUIET).fit(tagged(type_))

    check(make, tagged(type_)[:2], tmp_path, type_(5))


def test_edge_factored_parser(tmp_path):
    def sentence(tags, heads):
        return ParsedSentence([f"w{tag}" for tag in tags], tags, tags, heads, ["x"] * len(tags))

    heads = [[1, -1, 1], [-1, 0], [2, 2, -1, 2], [-1, 0, 0]]
    known = [sentence(tags, own) for tags, own in zip(tagged(str), heads, strict=True)]

    def make(five):
        rule = (E[part("head_tag") == five] >= 1).per("sentence")
        parser = EdgeFactoredParser(bits=8, constraints=[rule], learner="batch", max_iter=2, **QUIET)
        return parser.fit([*known, *known[:2]], [*heads, None, None])

    check(make, known[:2], tmp_path, "5")


@TYPES
def test_maxent_classifier(type_, tmp_path):
    X, y = np.arange(6.0)[:, None], [type_(4), None, None, None, None, type_(5)]

    def make(five):
        return MaxEntClassifier([E[part("label") == five] >= 4], project_at_predict=True).fit(X, y)

    check(make, X, tmp_path, type_(5))


@FIVES
def test_rules_of_numbered_tags(five):
    rule = spectrem.constraints.tag_rules({five: [4, "5"], "4": five}, 0.9, roots=five)
    models = [DependencyModel(constraints=[rule], max_iter=2, n_threads=1).fit(tagged(type_)) for type_ in (int, str)]
    assert models[0].objective_ == models[1].objective_
