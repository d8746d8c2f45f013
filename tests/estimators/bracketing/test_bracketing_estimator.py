"""BracketingModel: what it learns, predicts, saves and refuses."""

import json
import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from spectrem import BracketingModel, E, part
from spectrem.corpus import Local, Spilled
from spectrem.datasets import make_bracketed_corpus
from spectrem.exceptions import InvalidInputError, NotFittedError
from spectrem.learning import Anneal, FitStatus
from spectrem.models import bracketing
from spectrem.models.bracketing import (
    ConstituentContextModel,
    SpanParameters,
    SpanVocabulary,
    build_shards,
    start_from,
)
from spectrem.structures import Parts

CORPUS = make_bracketed_corpus(60, seed=4)
SENTENCES = CORPUS.sentences
CONSTITUENT = part("constituent")
RULE = (E[CONSTITUENT & (part("last") == "IN") & (part("span_length") > 1)] <= 0).per("sentence")


def make(**options):
    return BracketingModel(**{"n_threads": 1, "max_iter": 8, "tol": 0.0, **options})


def spans_ending_in(model, tag):
    return [
        (start, end)
        for sentence, brackets in zip(SENTENCES, model.predict(SENTENCES), strict=True)
        for start, end in brackets
        if sentence[end - 1] == tag and end - start < len(sentence)
    ]


@pytest.mark.parametrize("by_length", [False, True])
def test_it_is_em_of_the_model(by_length):
    found = make(by_length=by_length, smoothing=(1.0, 2.0), max_iter=3).fit(SENTENCES)
    tags = sorted({tag for sentence in SENTENCES for tag in sentence})
    lengths = np.array(list(map(len, SENTENCES)))
    flat = np.array([tags.index(tag) for sentence in SENTENCES for tag in sentence])
    vocabulary, numbers = SpanVocabulary.learn(lengths, flat, len(tags))
    model = ConstituentContextModel(vocabulary, by_length, (1.0, 2.0))
    [shard] = build_shards(lengths, flat, numbers)
    params = start_from(model, Local([shard]), "split")
    for _ in range(3):
        values, marginals = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
        objective = values.sum() + model.log_prior(params)
        params = model.m_step(params, model.gather(params, shard, marginals))
    assert found.tags_ == tuple(tags)
    np.testing.assert_allclose(found.params_.yields, params.yields, rtol=1e-12)
    np.testing.assert_allclose(found.params_.contexts, params.contexts, rtol=1e-12)
    assert found.objective_ == pytest.approx(objective, rel=1e-12)
    values, marginals = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
    assert found.log_likelihood_ == pytest.approx(values.sum(), rel=1e-12)
    np.testing.assert_allclose(found.score_samples(SENTENCES), values, rtol=1e-12)
    assert found.score(SENTENCES) == pytest.approx(values.sum() / lengths.sum(), rel=1e-12)
    table = found.predict_proba(SENTENCES[:2])[1]
    assert table.shape == (lengths[1], lengths[1] + 1)
    start, end = (own[lengths[0] * (lengths[0] + 1) // 2 :] for own in model.structure(shard).spans)
    own = marginals.unary[::2][lengths[0] * (lengths[0] + 1) // 2 :]
    for k in range(lengths[1] * (lengths[1] + 1) // 2):
        assert table[start[k], end[k]] == pytest.approx(own[k], abs=1e-12)
    assert not np.tril(table[:, :-1]).any()


def test_predicted_brackets_are_binary_trees():
    for decode in ("viterbi", "posterior"):
        model = make(decode=decode).fit(SENTENCES)
        found = model.predict([*SENTENCES[:5], "", "DT", "NN WORD", ["DT", "NN", "VBD"]])
        assert found[5:8] == [[], [], [(0, 2)]]
        for sentence, brackets in zip(SENTENCES, found[:5], strict=False):
            assert len(brackets) == len(sentence) - 1
            assert brackets == sorted(brackets)
            assert not any(a < c < b < d for a, b in brackets for c, d in brackets)


def test_posterior_decoding_expects_most_brackets():
    model = make(max_iter=2).fit(SENTENCES)
    expected = {}
    for decode in ("viterbi", "posterior"):
        trees = model.set_params(decode=decode).predict(SENTENCES)
        tables = model.predict_proba(SENTENCES)
        expected[decode] = sum(
            table[start, end] for table, tree in zip(tables, trees, strict=True) for start, end in tree
        )
    assert expected["posterior"] > expected["viterbi"]


def test_smoothing_of_one_number_is_that_of_both():
    one, two = (make(smoothing=smoothing).fit(SENTENCES) for smoothing in (0.5, [0.5, 0.5]))
    assert np.array_equal(one.params_.yields, two.params_.yields)


@pytest.mark.parametrize("gamma", [-math.inf, 0.0, 0.5, 2.0])
def test_gamma_reaches_training(gamma):
    model = make(gamma=gamma).fit(SENTENCES)
    values = [record.objective for record in model.history_]
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(values))
    assert model.gamma_ == gamma
    assert not np.array_equal(model.params_.yields, make().fit(SENTENCES).params_.yields)


def test_annealing_is_skewed_towards_random_splits():
    cold = Anneal(0.01, 0.02, 2.0)
    start = make(max_iter=1).fit(SENTENCES)
    plain, skewed = (
        make(schedule=cold, reference=reference, max_iter=1).fit(SENTENCES) for reference in (None, "split")
    )
    uniform = make(init="uniform", max_iter=1).fit(SENTENCES)

    def distance(model, init):
        first = make(schedule=cold, init=init, max_iter=1)
        return float(np.abs(model.params_.contexts - start_of(first)).max())

    def start_of(model):
        lengths = np.array(list(map(len, SENTENCES)))
        tags = sorted({tag for sentence in SENTENCES for tag in sentence})
        flat = np.array([tags.index(tag) for sentence in SENTENCES for tag in sentence])
        vocabulary, numbers = SpanVocabulary.learn(lengths, flat, len(tags))
        own = ConstituentContextModel(vocabulary, True)
        return start_from(own, Local(build_shards(lengths, flat, numbers)), model.init).contexts

    assert distance(skewed, "split") < 0.1 * distance(skewed, "uniform")
    assert distance(plain, "uniform") < 0.1 * distance(plain, "split")
    assert uniform.n_iter_ == start.n_iter_ == 1
    ends_in_em = make(schedule=Anneal(0.5, 1.0, 2.0), reference="split").fit(SENTENCES)
    assert ends_in_em.gamma_ == 1.0
    assert ends_in_em.n_iter_ == 16


def test_constraints_hold_in_training_and_bracketing():
    free = make(smoothing=0.5).fit(SENTENCES)
    assert spans_ending_in(free, "IN")
    ruled = make(smoothing=0.5, constraints=[RULE], project_at_predict=True).fit(SENTENCES)
    assert not spans_ending_in(ruled, "IN")
    assert not spans_ending_in(ruled.set_params(decode="posterior"), "IN")
    for sentence, table in zip(SENTENCES, ruled.predict_proba(SENTENCES), strict=True):
        for end in range(2, len(sentence) + 1):
            if sentence[end - 1] == "IN":
                assert table[: end - 1, end].sum() < 1e-6
    assert "constraint" in str(ruled.report_.summary())


def test_the_best_trees_that_meet_constraints():
    model = make(max_iter=1).fit(SENTENCES).set_params(constraints=[RULE], project_at_predict=True)
    short = [sentence for sentence in SENTENCES if "IN" in sentence and len(sentence) < 8][:12]
    new = model._encoded(short)
    [shard] = new.shards
    trees, scores = new.model.structure(shard), new.model.scores(model.params_, shard)
    start, end = trees.spans
    best = []
    for n, sentence in enumerate(short):
        allowed = []
        for tree in trees.enumerate(n):
            taken = np.flatnonzero((tree.unary[::2] > 0) & (end - start > 1))
            brackets = list(zip(start[taken].tolist(), end[taken].tolist(), strict=True))
            if all(sentence[stop - 1] != "IN" for _, stop in brackets):
                allowed.append((scores.dot(Parts(np.where(trees.instance == n, tree.unary, 0.0))), brackets))
        best.append(max(allowed)[1])
    assert model.predict(short) == best
    assert model.set_params(project_at_predict=False).predict(short) != best
    model.set_params(project_at_predict=True, decode="posterior")
    assert model.predict(short) != best


def test_a_bound_over_the_corpus_is_met():
    modal = CONSTITUENT & (part("last") == "MD") & (part("span_length") > 1)
    model = make(constraints=[E[modal] <= 2.0], dual_steps=0).fit(SENTENCES)
    [report] = model.report_.constraints
    assert report.before[0] > 2.1
    assert report.after[0] <= 2.0 + 1e-3
    with pytest.raises(InvalidInputError, match="decode must be posterior where project_at_predict meets constraints"):
        model.set_params(project_at_predict=True).predict(SENTENCES)
    tables = model.set_params(decode="posterior").predict_proba(SENTENCES)
    expected = sum(
        table[: end - 1, end].sum()
        for sentence, table in zip(SENTENCES, tables, strict=True)
        for end in range(2, len(sentence) + 1)
        if sentence[end - 1] == "MD"
    )
    assert expected <= 2.0 + 1e-3
    assert len(model.predict(SENTENCES)) == len(SENTENCES)


def test_weights_are_repetitions():
    weights = np.ones(len(SENTENCES))
    weights[3], weights[5] = 2.0, 0.0
    weighed = make().fit(SENTENCES, sample_weight=weights)
    repeated = make().fit([*SENTENCES[:5], *SENTENCES[6:], SENTENCES[3]])
    assert weighed.log_likelihood_ == pytest.approx(repeated.log_likelihood_, rel=1e-9)
    assert weighed.tags_ == repeated.tags_


def test_results_do_not_depend_on_threads_or_shards():
    many = SENTENCES * 30
    one, two = (BracketingModel(max_iter=2, tol=0.0, n_threads=n).fit(many) for n in (1, 2))
    assert np.array_equal(one.params_.yields, two.params_.yields)
    assert one.predict(SENTENCES) == two.predict(SENTENCES)


MODALS = E[CONSTITUENT & (part("last") == "MD") & (part("span_length") > 1)] <= 2.0


@pytest.mark.parametrize(
    ("gamma", "constraints"), [(1.0, []), (0.5, [RULE]), (0.0, [MODALS]), (1.0, [RULE, MODALS]), (-math.inf, [RULE])]
)
def test_results_do_not_depend_on_where_shards_live(gamma, constraints, tmp_path, monkeypatch):
    monkeypatch.setattr(bracketing, "_LEAST_SPANS", 400)
    options = {"gamma": gamma, "constraints": constraints, "max_iter": 2, "dual_steps": 0}
    one = make(**options).fit(SENTENCES)
    assert len(one._encoded(SENTENCES).shards) > 2
    other = make(corpus=partial(Spilled, folder=tmp_path), **options).fit(SENTENCES)
    assert np.array_equal(one.params_.yields, other.params_.yields)
    assert one.predict(SENTENCES) == other.predict(SENTENCES)
    monkeypatch.undo()
    whole = make(**options).fit(SENTENCES)
    np.testing.assert_allclose(whole.params_.yields, one.params_.yields, rtol=0, atol=1e-5)


def test_impossible_sentences_have_brackets_and_a_score():
    model = make(smoothing=0.0, gamma=0.0).fit([["A", "B", "C"]] * 3)
    assert (model.params_.yields == 0.0).any()
    new = ["B C A B", "X Y", "A B C"]
    assert [len(tree) for tree in model.predict(new)] == [3, 1, 2]
    assert np.isfinite(model.score_samples(new)).all()
    assert model.score(["A B C"]) > model.score(["X Y Z"])


def test_training_goes_on_from_a_fitted_model():
    whole, half = make(max_iter=6).fit(SENTENCES), make(max_iter=3).fit(SENTENCES)
    for init in (half, half.params_):
        again = make(max_iter=3, init=init).fit(SENTENCES)
        np.testing.assert_allclose(again.params_.yields, whole.params_.yields, rtol=1e-12)
    with pytest.raises(InvalidInputError, match="give a model that was fitted to the same sentences"):
        make(init=half).fit(SENTENCES[:-5])
    with pytest.raises(InvalidInputError, match="of other spans"):
        make(init=make().fit(["A B"])).fit(["A C"])


def test_checkpoint_and_callback(tmp_path):
    seen = []
    whole = make(max_iter=4).fit(SENTENCES)
    make(max_iter=2, checkpoint=tmp_path).fit(SENTENCES)
    with pytest.raises(InvalidInputError, match="checkpoint"):
        make(max_iter=2, checkpoint=tmp_path, smoothing=1.0).fit(SENTENCES)
    model = make(max_iter=4, on_iteration=seen.append).fit(SENTENCES)
    assert len(seen) == 4
    assert np.array_equal(model.params_.yields, whole.params_.yields)


def test_files_keep_everything(tmp_path):
    path = tmp_path / "model"
    model = make(constraints=[RULE], smoothing=0.5, decode="posterior", project_at_predict=True).fit(SENTENCES)
    model.save(path)
    loaded = BracketingModel.load(path)
    assert loaded.get_params() == {**model.get_params(), "constraints": (RULE,), "on_iteration": None}
    assert loaded.predict(SENTENCES) == model.predict(SENTENCES)
    assert (loaded.log_likelihood_, loaded.gamma_) == (model.log_likelihood_, model.gamma_)
    assert loaded.history_ == model.history_
    assert loaded.status_ is FitStatus.FIXED_ITERATIONS
    numbers = make().fit([[3, 1], [1, 3, 3]])
    numbers.save(path)
    assert BracketingModel.load(path).tags_ == (1, 3)
    assert BracketingModel.load(path).get_params() == numbers.get_params()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("yields", lambda a: a[:, :-1], "yields must have shape"),
        ("contexts", lambda a: 2.0 - a, "contexts must hold probabilities"),
        ("yield_keys", lambda a: a[::-1], "must increase"),
        ("yield_keys", lambda a: np.arange(len(a)), "do not fit the tags"),
        ("context_keys", lambda a: a + 10_000, "do not fit the tags"),
        ("yield_offsets", lambda a: a - 1, "must end at the number of yields"),
        ("yield_offsets", lambda a: a[:0], "damaged"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, change, message):
    path = tmp_path / "model"
    make().fit(SENTENCES[:5]).save(path)
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive.files}
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    with path.open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(InvalidInputError, match=f"a damaged BracketingModel.*{message}|{message}"):
        BracketingModel.load(path)


def test_foreign_files_are_named(tmp_path):
    (tmp_path / "text").write_text(json.dumps({}))
    with pytest.raises(InvalidInputError, match="not a model saved by spectrem"):
        BracketingModel.load(tmp_path / "text")
    with pytest.raises(NotFittedError, match="this BracketingModel is not fitted yet"):
        BracketingModel().save(tmp_path / "model")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smoothing": -1.0}, "smoothing must be finite and at least 0, got -1.0"),
        ({"smoothing": (1.0, -1.0)}, "smoothing of distituents must be finite and at least 0, got -1.0"),
        (
            {"smoothing": (1.0,)},
            r"smoothing must be one number, or two: of constituents and of distituents, got \(1.0,\)",
        ),
        ({"smoothing": "two"}, "smoothing must be a number, got 'two'; give one for all spans, or two"),
        (
            {"init": "random"},
            "init must be one of split, uniform, SpanParameters or a fitted BracketingModel, got 'ran",
        ),
        (
            {"init": BracketingModel()},
            "init must be a fitted BracketingModel, got one that is not fitted; fit it first",
        ),
        ({"reference": "uniform"}, "reference must be one of split, got 'uniform'"),
        ({"decode": "best"}, "decode must be one of viterbi, posterior, got 'best'"),
        ({"gamma": 0.5, "schedule": Anneal(0.1)}, "gamma and schedule must not both be given"),
        ({"constraints": ['E[last == "XX"] <= 1']}, "there is no last 'XX'"),
        ({"init": SpanParameters(np.ones((2, 1)), np.ones((2, 1)))}, "init must have a probability for each yield"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(InvalidInputError, match=message):
        make(**options).fit(SENTENCES)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([], "sentences must hold at least one word to train on, got 0 sentences"),
        (["", ""], "got 2 sentences without any"),
        ("DT NN", "sentences must be a sequence of sentences, got the string"),
        (5, "sentences must be a sequence of sentences, got int 5"),
        ([["DT", 1.5]], "words must be text or whole numbers"),
        (
            [["DT"] * 20_000],
            r"200,010,000 spans, which would take about 19 GiB, .* in sentence 0 of 20,000 words; leave",
        ),
    ],
)
def test_bad_sentences(sentences, message):
    with pytest.raises(InvalidInputError, match=message):
        make().fit(sentences)


def test_scikit_learn_takes_it():
    model = make(smoothing=1.0)
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == "BracketingModel(max_iter=8, n_threads=1, smoothing=1.0, tol=0.0)"
    assert np.isfinite(cross_val_score(model, np.array([" ".join(s) for s in SENTENCES], object), cv=3)).all()
    with pytest.raises(InvalidInputError, match="at least one word to be scored"):
        model.fit(SENTENCES).score([""])


@pytest.mark.parametrize("corpus", [None, Spilled])
def test_columns_of_words_are_those_of_the_ends_of_spans_and_of_the_words_beside_them(corpus, tmp_path):
    """A column that is the tags, spelled otherwise, says what they say; sentences of weight 0 keep their values."""
    other = {tag: f"{tag}-{k}" for k, tag in enumerate(sorted({tag for one in SENTENCES for tag in one}))}
    case = [[other[tag] for tag in sentence] for sentence in SENTENCES]
    weights = np.ones(len(SENTENCES))
    weights[::3] = 0
    if corpus is not None:
        corpus = partial(corpus, folder=tmp_path)
    for place in ("first", "last", "before", "after"):
        few = CONSTITUENT & (part("span_length") > 1)
        rules = [(E[few & (part(name) == tag)] <= 0.2).per("sentence") for name, tag in
                 ((place, "IN"), (f"{place}_case", other["IN"]))]  # fmt: skip
        one, two = (
            make(constraints=[rule], max_iter=2, project_at_predict=True, corpus=corpus).fit(
                SENTENCES, None, weights, columns={"case": case}
            )
            for rule in rules
        )
        assert one.objective_ == two.objective_
        assert two.predict(SENTENCES[:9], columns={"case": case[:9]}) == one.predict(SENTENCES[:9])


def test_columns_that_break_their_rule():
    for columns, message in [
        ({"first": [1] * len(SENTENCES)}, "columns must not be called 'first', which constraints have already"),
        ({"case": SENTENCES[:3]}, r"columns\['case'\] must have one entry per sentence"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            make().fit(SENTENCES, columns=columns)
    rule = E[part("after_case") == "acc"] <= 3
    with pytest.raises(InvalidInputError, match="there is no after_case 'acc'"):
        make(constraints=[rule]).fit(SENTENCES, columns={"case": SENTENCES})
