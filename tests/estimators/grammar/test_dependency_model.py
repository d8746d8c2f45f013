import warnings
from functools import partial

import numpy as np
import pytest

from spectrem import DependencyModel, E, part
from spectrem.constraints import tag_rules
from spectrem.corpus import Spilled
from spectrem.datasets import make_treebank
from spectrem.exceptions import ConvergenceWarning, InvalidInputError, NotFittedError
from spectrem.learning import Anneal, Constant, Quench
from spectrem.metrics import attachment_scores
from spectrem.models import grammar as shards
from spectrem.models.priors import DirichletPrior, MeanFieldPrior

TREES = make_treebank(80)
X, Y = [tree.upos for tree in TREES], [tree.heads.tolist() for tree in TREES]
N_WORDS = sum(map(len, X))
RULES = {
    "VERB": ["NOUN", "PROPN", "PRON", "ADV", "AUX"],
    "NOUN": ["DET", "ADJ", "ADP", "NOUN", "PROPN", "PRON"],
    "PROPN": ["ADP"],
    "PRON": ["ADP"],
}
FIXED = {"n_threads": 1, "tol": 0.0, "max_iter": 8}


def rules(share=0.9, **options):
    return tag_rules(RULES, share, roots="VERB", **options)


def accuracy(predicted, gold):
    return attachment_scores(gold, predicted).uas


def fit(y=None, text=None, columns=None, **options):
    return DependencyModel(**{**FIXED, **options}).fit(X if text is None else text, y, columns=columns)


def test_trees_teach_the_grammar():
    model = fit(Y, max_iter=1, smoothing=0.1)
    assert accuracy(model.predict(X), Y) > 0.95
    root = dict(zip(model.tags_, model.root_, strict=True))
    assert root["VERB"] > 0.99
    assert model.choose_.shape == (9, 2, 9)
    assert model.score(X, Y) < model.score(X) < 0
    assert model.score_samples(X[:3]).shape == (3,)
    np.testing.assert_allclose(model.stop_.sum(axis=-1), 1.0)


def test_rules_lead_where_plain_em_does_not():
    plain, led = fit(smoothing=0.1), fit(smoothing=0.1, constraints=[rules(0.99)])
    assert accuracy(led.predict(X), Y) > 0.93
    assert accuracy(led.predict(X), Y) > accuracy(plain.predict(X), Y) + 0.05
    assert led.history_[-1].violation < 1e-3
    assert "tag rules" in led.report_.summary()


@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.5, 1.0, 2.0])
def test_every_gamma_under_a_rule(gamma):
    per = "sentence" if gamma == -np.inf else None
    model = fit(text=X[:12], gamma=gamma, constraints=[rules(0.7, per=per)], max_iter=2, smoothing=0.1)
    assert model.gamma_ == gamma
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("schedule", [Anneal(0.3, alpha=2.0), Quench(Constant(1.0), 0.0), Quench(Constant(1.5), 1.0)])
def test_schedules(schedule):
    model = fit(schedule=schedule, prior=MeanFieldPrior(0.25), max_iter=3)
    assert [record.gamma for record in model.history_[::3]] == list(schedule.gammas())


def test_skewed_annealing_stays_near_its_reference():
    reference = fit(Y[:40], text=X[:40], max_iter=1, smoothing=0.1)
    schedule = Anneal(0.1, alpha=10.0)
    skewed, plain = (
        fit(schedule=schedule, init="uniform", reference=own, smoothing=0.1, max_iter=5) for own in (reference, None)
    )
    assert accuracy(skewed.predict(X), Y) > accuracy(plain.predict(X), Y)


def test_some_heads_known_in_part():
    partial_heads = [
        [head if tag == "VERB" else None for head, tag in zip(heads, tags, strict=True)]
        for heads, tags in zip(Y, X, strict=True)
    ]
    model = fit(partial_heads, smoothing=0.1)
    assert all(heads[tags.index("VERB")] == -1 for heads, tags in zip(model.predict(X), X, strict=True))
    some = [heads if n < 30 else None for n, heads in enumerate(Y)]
    assert accuracy(fit(some, smoothing=0.1).predict(X), Y) > 0.9


def test_starts():
    found = {}
    for init in ("harmonic", "uniform", "random", {"VERB": ["NOUN"], None: "VERB", "NOUN": ["DET", "ADJ"]}):
        model = fit(init=init, max_iter=1, random_state=0)
        found[str(init)] = model.objective_
    assert len(set(found.values())) == 4
    one = fit(init="random", max_iter=2, random_state=1)
    other = fit(init=one, max_iter=1)
    assert other.objective_ >= one.objective_
    again = fit(init=one.params_, max_iter=1)
    assert again.objective_ == other.objective_
    best = fit(init="random", n_init=3, max_iter=2, random_state=1)
    assert best.objective_ >= one.objective_


def test_posteriors_and_decoding():
    model = fit(Y, max_iter=1, smoothing=0.1)
    text = [*X[:3], [], ["NOUN"]]
    posteriors = model.predict_proba(text)
    assert [matrix.shape for matrix in posteriors] == [(len(tags),) * 2 for tags in text]
    for matrix in posteriors:
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-9)
        assert np.trace(matrix) == pytest.approx(1.0 if len(matrix) else 0.0)
    assert [len(heads) for heads in model.predict(text)] == [len(tags) for tags in text]
    assert model.predict([["NOUN"]])[0].tolist() == [-1]
    model.set_params(decode="posterior")
    assert accuracy(model.predict(X), Y) > 0.95


def test_constraints_hold_at_predict_if_asked_for():
    model = fit(smoothing=0.1, max_iter=1, constraints=[rules(0.8, per="sentence")], infeasible="skip")
    text = ["DET NOUN VERB DET NOUN"]
    assert model.predict_proba(text)[0][2, 2] > 0.9
    model.set_params(project_at_predict=True, decode="posterior")
    [expected] = model.predict_proba(text)
    follows = expected[0, 1] + expected[1, 2] + expected[2, 2] + expected[3, 4] + expected[4, 2]
    assert follows >= 4.0 - 1e-4
    model.set_params(decode="viterbi")
    assert accuracy(model.predict(text), [[1, 2, -1, 4, 2]]) >= 0.8
    over_corpus = fit(smoothing=0.1, max_iter=1, constraints=[rules(0.8)], project_at_predict=True, dual_steps=0)
    with pytest.raises(InvalidInputError, match="decode must be posterior where project_at_predict meets constraints"):
        over_corpus.predict(text)


def test_columns_of_words_and_of_arcs():
    words = [[f"w{n}" for n in range(len(tags))] for tags in X]
    gold = []
    for heads in Y:
        matrix = np.zeros((len(heads), len(heads)), bool)
        for word, head in enumerate(heads):
            matrix[word, word if head < 0 else head] = True
        gold.append(matrix)
    conserved = (E[part("conserved")] >= 0.9 * E.count(part("conserved"))).per("sentence").named("conserved")
    model = fit(columns={"conserved": gold, "word": words}, constraints=[conserved], smoothing=0.1)
    assert accuracy(model.predict(X), Y) > 0.8
    first = E[part("root") & (part("dependent_word") == "w0")] <= 0.2 * E.count(..., each="sentence")
    model = fit(columns={"word": words}, constraints=[first], max_iter=1)
    assert model.history_[-1].violation < 1e-3


def test_tags_that_training_did_not_see():
    model = fit(Y, max_iter=1, smoothing=0.1)
    text = ["DET X NOUN VERB"]
    assert model.predict(text)[0][3] == -1
    assert np.isfinite(model.score(text))
    assert np.isneginf(fit(Y, max_iter=1).score_samples(["VERB VERB VERB"])).all()
    assert np.isfinite(fit(Y, max_iter=1).score(["VERB VERB VERB"]))
    assert sorted(fit(Y, max_iter=1).predict(["VERB VERB"])[0].tolist()) in ([-1, 0], [-1, 1])


def test_several_roots():
    heads = [[-1, 0, -1], [-1, 0, -1]]
    text = [["A", "B", "A"], ["A", "B", "C"]]
    model = fit(heads, text=text, single_root=False, smoothing=0.1, max_iter=1)
    assert [own.tolist() for own in model.predict(text)] == heads
    with pytest.raises(InvalidInputError, match="heads of sentence 0 must have one word under the root, got 2"):
        fit(heads, text=text)


def test_saved_and_loaded(tmp_path):
    model = fit(smoothing=0.1, constraints=[rules()], adjacency=True)
    model.save(tmp_path / "grammar")
    loaded = DependencyModel.load(tmp_path / "grammar")
    for own, other in zip(model.predict_proba(X[:5]), loaded.predict_proba(X[:5]), strict=True):
        np.testing.assert_array_equal(own, other)
    assert loaded.constraints == (rules(),)
    assert loaded.log_likelihood_ == model.log_likelihood_
    assert loaded.history_[-1].objective == model.history_[-1].objective
    with pytest.raises(InvalidInputError, match="no such model file"):
        DependencyModel.load(tmp_path / "other")


def test_the_same_wherever_shards_live(tmp_path):
    first = fit(smoothing=0.1, constraints=[rules()], max_iter=3)
    for options in ({"n_threads": 2}, {"corpus": partial(Spilled, folder=tmp_path)}):
        other = fit(smoothing=0.1, constraints=[rules()], max_iter=3, **options)
        np.testing.assert_array_equal(other.params_.choose, first.params_.choose)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_same_however_shards_are_cut(monkeypatch, gamma):
    words = [[f"w{n}" for n in range(len(tags))] for tags in X]
    first = E[part("root") & (part("dependent_word") == "w1")] >= 30
    some = [heads if n % 3 == 0 else None for n, heads in enumerate(Y)]
    settings = {"smoothing": 0.1, "max_iter": 2, "gamma": gamma, "constraints": [rules(0.8), first], "dual_steps": 0}

    def learn():
        model = DependencyModel(**{**FIXED, **settings}).fit(X, some, columns={"word": words})
        return model, model.predict_proba(X)

    (one, posteriors), before = learn(), len(shards.build_shards([len(tags) for tags in X], [0] * N_WORDS, 1))
    monkeypatch.setattr(shards, "_LEAST_PARTS", 500)
    assert len(shards.build_shards([len(tags) for tags in X], [0] * N_WORDS, 1)) > before
    many, others = learn()
    assert many.objective_ == pytest.approx(one.objective_, rel=1e-6)
    np.testing.assert_allclose(
        np.concatenate(list(map(np.ravel, others))), np.concatenate(list(map(np.ravel, posteriors))), atol=1e-3
    )


def test_a_checkpoint_goes_on(tmp_path):
    whole = fit(smoothing=0.1, max_iter=4)
    fit(smoothing=0.1, max_iter=2, checkpoint=tmp_path)
    assert fit(smoothing=0.1, max_iter=2, checkpoint=tmp_path).objective_ == whole.history_[1].objective


def test_what_does_not_converge_is_said():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        fit(max_iter=2, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(Y, max_iter=20, tol=1e-6, smoothing=0.1).converged_


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[1, 2]], r"heads must have one entry per sentence \(2\), got 1"),
        ([[1], None], r"heads of sentence 0 must be 3 integers, one per word, got shape \(1,\)"),
        (
            [[1, 0, -1], None],
            "heads of sentence 0 must fit a tree, but words 0 and 1 are heads of each",
        ),
        ([[0, -1, 1], None], "heads of sentence 0 must fit a tree, but word 0 is its own head"),
        (
            [[3, -1, 1], None],
            "heads of sentence 0 must fit a tree, but word 0 has the head 3, but the sentence",
        ),
        ([[1.5, -1, 1], None], "heads of sentence 0 must be 3 integers, one per word, got .* of float64"),
        ([None, [-1, -1, 0, 0]], "heads of sentence 1 must have one word under the root, got 2; repair them, or set s"),
    ],
)
def test_heads_that_do_not_fit_are_named(y, message):
    with pytest.raises(InvalidInputError, match=message):
        fit(y, text=["A B C", "A B C D"])


def test_parts_of_trees_that_cross_are_lifted_or_left_out():
    text = ["A B C D", "A B C"]
    lifted = fit([[2, 3, None, 2], None], text=text, smoothing=0.1)
    expected = fit([[2, 2, None, 2], None], text=text, smoothing=0.1)
    assert (lifted.n_lifted_, lifted.n_skipped_) == (1, 0)
    np.testing.assert_array_equal(lifted.choose_, expected.choose_)
    skipped = fit([[2, 3, None, 2], None], text=text, smoothing=0.1, crossing="skip", tags=[*"ABCD"])
    alone = fit([None], text=text[1:], smoothing=0.1, tags=[*"ABCD"])
    assert (skipped.n_lifted_, skipped.n_skipped_) == (0, 1)
    np.testing.assert_allclose(skipped.choose_, alone.choose_)
    with pytest.raises(InvalidInputError, match="heads of sentence 0 must fit a tree without crossing arcs, but fit n"):
        fit([[2, 3, None, 2], None], text=text, crossing="raise")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smoothing": {"stop": 1.0}, "prior": DirichletPrior(1.0)}, "prior and smoothing must not be given for one"),
        ({"smoothing": {"emission": 1.0}}, "smoothing must name tables among root, choose, stop, got 'emission'"),
        ({"prior": 3}, "prior must be DirichletPrior or MeanFieldPrior"),
        ({"init": "best"}, "init must be one of harmonic, uniform, random, supervised, a mapping"),
        ({"init": "supervised"}, "init='supervised' must find a sentence with the heads of all words in y, got none"),
        ({"reference": 3}, "reference must be a fitted DependencyModel or GrammarParameters, got 3"),
        ({"tags": ["A", "B"]}, "X must hold the tags of tags only, got 'C'; add it to tags"),
        ({"constraints": [E[part("head_tag") == "Q"] <= 1]}, "there is no head_tag 'Q'"),
    ],
)
def test_settings_that_break_a_rule_are_named(options, message):
    with pytest.raises(InvalidInputError, match=message):
        fit(text=["A B C", "A B C D"], **options)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"head": [1, 2]}, "columns must not be called 'head'"),
        ({"word": [["a"]]}, r"columns\['word'\] must have one entry per sentence \(2\), got 1"),
        ({"word": [["a"], ["a"]]}, r"columns\['word'\] must have shape \(3,\) for sentence 0, got \(1,\)"),
        ({"word": [["a"] * 3, 1]}, r"columns\['word'\] must have entries of one kind, got arrays of \[0, 1\] axes"),
        ([1, 2], "columns must map names to values"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns, message):
    with pytest.raises(InvalidInputError, match=message):
        fit(text=["A B C", "A B C D"], columns=columns)


def test_empty_input():
    with pytest.raises(InvalidInputError, match="X must hold at least one word to train on, got 1 sentences"):
        fit(text=[[]])
    with pytest.raises(NotFittedError):
        DependencyModel().predict(X)
    other = fit(text=["A B"])
    with pytest.raises(InvalidInputError, match="init must be a model of the same tags, got 2 tags, of which 0"):
        fit(init=other)
