"""CRFTagger against enumeration of all tag sequences."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from spectrem import CRFTagger, E, part
from spectrem.estimators.sentences import read_labels
from spectrem.models.loglinear import Features, Labels, LogLinearModel, Optimiser, PairModel, Support, build_shards
from spectrem.testing import check_model

TAGS = ("A", "B", "C")


def make_text(seed, lengths=(3, 1, 4, 2, 3), n_words=5):
    rng = np.random.default_rng(seed)
    words = [[f"w{k}" for k in rng.integers(0, n_words, size)] for size in lengths]
    X = [[{f"is={word}": True, "bias": 1, "size": float(t) / 2} for t, word in enumerate(own)] for own in words]
    y = [[TAGS[(int(word[1]) + t) % 3] for t, word in enumerate(own)] for own in words]
    return X, y


def log_probabilities(tagger, sentence):
    """log p of every tag sequence of a sentence, by the definition: sums of weights in plain dictionaries."""
    weight = {}
    support, own = tagger.model_.support, tagger.model_.split(tagger.theta_)
    table = support.table(own.features)
    for f, name in enumerate(tagger.features_.names):
        for k, tag in enumerate(tagger.tags_):
            weight[name, tag] = table[f, k]
    moves = tagger.transition_
    edges = getattr(tagger.model_, "edges", None)
    edge_weights = {}
    if edges is not None:
        table = edges.table(tagger.theta_[-edges.n_weights :])
        for f, name in enumerate(tagger.features_.names):
            for cell in range(table.shape[1]):
                edge_weights[name, cell] = table[f, cell]
    number = {tag: k for k, tag in enumerate(tagger.tags_)}
    scores = {}
    for tags in itertools.product(tagger.tags_, repeat=len(sentence)):
        total = sum(
            float(value) * weight.get((name, tag), 0.0)
            for token, tag in zip(sentence, tags, strict=True)
            for name, value in token.items()
        )
        total += sum(moves[number[a], number[b]] for a, b in itertools.pairwise(tags))
        total += sum(
            float(value) * edge_weights.get((name, number[a] * len(number) + number[b]), 0.0)
            for token, a, b in zip(sentence[1:], tags, tags[1:], strict=False)
            for name, value in token.items()
        )
        scores[tags] = total
    normaliser = np.logaddexp.reduce(list(scores.values()))
    return {tags: score - normaliser for tags, score in scores.items()}


def fitted(X, y, **options):
    return CRFTagger(n_threads=1, m_tol=1e-12, **options).fit(X, y)


@pytest.mark.parametrize("edge_features", [(), ("is=w1", "size")])
@pytest.mark.parametrize("pairs", ["observed", "all"])
def test_predictions_are_those_of_enumeration(pairs, edge_features):
    X, y = make_text(0)
    tagger = fitted(X, y, pairs=pairs, C=2.0, edge_features=edge_features)
    assert hasattr(tagger.model_, "edges") == bool(edge_features)
    new, _ = make_text(1, (4, 2, 1))
    best, proba = tagger.predict(new), tagger.predict_proba(new)
    ranked = tagger.n_best(new, 5)
    for sentence, tags, table, sequences in zip(new, best, proba, ranked, strict=True):
        values = log_probabilities(tagger, sentence)
        assert values[tuple(tags)] == pytest.approx(max(values.values()))
        expected = sorted(values.values(), reverse=True)[:5]
        np.testing.assert_allclose([own.log_probability for own in sequences], expected, atol=1e-10)
        for own in sequences:
            assert values[tuple(own.tags)] == pytest.approx(own.log_probability)
        assert len({tuple(own.tags) for own in sequences}) == len(sequences)
        for t, k in np.ndindex(table.shape):
            mass = sum(np.exp(value) for tags, value in values.items() if tags[t] == TAGS[k])
            assert table[t, k] == pytest.approx(mass)
    posterior = tagger.set_params(decode="posterior").predict(new)
    assert posterior == [[TAGS[k] for k in table.argmax(axis=1)] for table in proba]


@pytest.mark.parametrize("edge_features", [(), "is="])
def test_the_log_likelihood_is_maximised(edge_features):
    X, y = make_text(0)
    tagger = fitted(X, y, pairs="all", C=0.7, edge_features=edge_features)
    values = tagger.score_samples(X, y)
    expected = [log_probabilities(tagger, x)[tuple(tags)] for x, tags in zip(X, y, strict=True)]
    np.testing.assert_allclose(values, expected)
    assert tagger.objective_ == pytest.approx(sum(expected) - (tagger.theta_**2).sum() / 1.4)

    def loss(theta):
        tagger.theta_ = theta
        return (theta**2).sum() / 1.4 - tagger.score_samples(X, y).sum()

    found = tagger.theta_.copy()
    best = minimize(loss, found, method="L-BFGS-B", options={"ftol": 1e-14, "maxfun": 3000})
    assert -tagger.objective_ <= best.fun + 1e-9
    tagger.theta_ = found


def test_labels_seen_together_alone_have_weights():
    tagger = fitted([[{"a": 1}, {"b": 1}], [{"a": 1}]], [["A", "B"], ["B"]], tags=TAGS)
    table = tagger.model_.support
    own = {tagger.features_.names[f]: table.labels[table.indptr[f] : table.indptr[f + 1]].tolist() for f in range(2)}
    assert own == {"a": [0, 1], "b": [1]}
    assert tagger.model_.transitions.tolist() == [1]
    assert np.count_nonzero(tagger.transition_) == 1


@pytest.mark.parametrize("edges", [(), "bias"])
def test_soft_labels_are_weighted_copies(edges):
    X, y = make_text(2)
    soft = [list(own) for own in y]
    soft[0][1] = {"A": 0.3, "C": 0.7}
    soft[2][0] = {"B": 0.5, "A": 0.5}
    soft[2][3] = {"B": 0.25, "C": 0.75}
    tagger = fitted(X, soft, pairs="all", edge_features=edges)
    copies, labels, weights = [], [], []
    for sentence, own in zip(X, soft, strict=True):
        choices = [list(tag.items()) if isinstance(tag, dict) else [(tag, 1.0)] for tag in own]
        for chosen in itertools.product(*choices):
            copies.append(sentence)
            labels.append([tag for tag, _ in chosen])
            weights.append(np.prod([share for _, share in chosen]))
    by_copies = CRFTagger(n_threads=1, m_tol=1e-12, pairs="all", edge_features=edges).fit(copies, labels, weights)
    assert by_copies.objective_ == pytest.approx(tagger.objective_, abs=1e-8)
    order = [by_copies.features_.names.index(name) for name in tagger.features_.names]
    tables = [t.model_.support.table(t.model_.split(t.theta_).features) for t in (tagger, by_copies)]
    np.testing.assert_allclose(tables[0], tables[1][order], atol=1e-5)
    arrays = [
        np.array(
            [[tag.get(name, 0.0) if isinstance(tag, dict) else float(tag == name) for name in TAGS] for tag in own]
        )
        for own in soft
    ]
    by_arrays = fitted(X, arrays, pairs="all", tags=TAGS, edge_features=edges)
    np.testing.assert_allclose(by_arrays.theta_, tagger.theta_, atol=1e-12)


@pytest.mark.parametrize("edge_features", [(), "is="])
def test_partial_labels_are_all_that_agree_with_them(edge_features):
    X, y = make_text(3)
    partial = [list(own) for own in y]
    partial[0][1] = {"A", "B"}
    partial[2] = [None, "A", ("B", "C"), None]
    partial[4] = None
    tagger = fitted(X, partial, max_iter=3, tol=0.0, edge_features=edge_features)
    filled = [own or [None] * len(x) for own, x in zip(partial, X, strict=True)]
    values = tagger.score_samples(X, filled)
    for sentence, own, value in zip(X, filled, values, strict=True):
        allowed = [TAGS if tag is None else (tag,) if isinstance(tag, str) else tag for tag in own]
        every = log_probabilities(tagger, sentence)
        agree = [score for tags, score in every.items() if all(map(lambda t, a: t in a, tags, allowed))]
        assert value == pytest.approx(np.logaddexp.reduce(agree), abs=1e-10)


def test_em_on_partial_labels_never_lowers_their_likelihood():
    X, y = make_text(4, (4, 3, 4, 2, 4, 3))
    partial = [own if k < 2 else [tag if t % 2 else {tag, "A"} for t, tag in enumerate(own)] for k, own in enumerate(y)]
    tagger = fitted(X, partial, max_iter=30, tol=1e-9)
    course = [record.objective for record in tagger.history_]
    assert (np.diff(course) >= -1e-9).all()
    assert course[-1] > course[0]
    prior = tagger.model_.log_prior(tagger.theta_)
    assert tagger.score_samples(X, partial).sum() + prior >= course[-1] - 1e-9


def test_sentences_without_labels_add_nothing_without_constraints():
    X, y = make_text(5)
    alone = fitted(X[:3], y[:3], pairs="all", tags=TAGS)
    weightless = fitted(X, [*y[:3], None, [None, "A", None]], pairs="all", tags=TAGS, unlabelled_weight=0.0)
    assert weightless.objective_ == pytest.approx(alone.objective_)
    assert weightless.n_iter_ == 1


def test_constraints_guide_what_has_no_labels():
    X, y = make_text(6, (4,) * 12)
    rule = (E[part("tag") == "A"] >= 3).per("sentence").named("three A")
    tagger = fitted(X, [*y[:3], *[None] * 9], constraints=[rule], pairs="all", max_iter=10, tol=0.0)
    free = fitted(X, [*y[:3], *[None] * 9], pairs="all", max_iter=10, tol=0.0)
    mass = [sum(table[:, 0].sum() for table in t.predict_proba(X[3:])) for t in (tagger, free)]
    assert mass[0] > mass[1] + 1
    tagger.set_params(project_at_predict=True)
    assert all(tags.count("A") >= 3 for tags in tagger.predict(X))
    assert all(table[:, 0].sum() >= 3 - 1e-6 for table in tagger.predict_proba(X))


def test_best_sequences_under_a_rule_of_neighbours_are_those_of_enumeration():
    X, y = make_text(7)
    rule = (E[(part("tag") == "C") & (part("previous") == "B")] <= 0).per("sentence").named("no C after B")
    once = (E[part("tag") == "C"] <= 1).per("sentence").named("one C")
    tagger = fitted(X, y, constraints=[rule, once], project_at_predict=True)
    assert tagger.n_iter_ == 1
    new, _ = make_text(8, (4, 3, 5, 1))
    for sentence, tags in zip(new, tagger.predict(new), strict=True):
        every = log_probabilities(tagger, sentence)
        meet = [o for o in every if ("B", "C") not in itertools.pairwise(o) and o.count("C") <= 1]
        assert every[tuple(tags)] == pytest.approx(max(every[own] for own in meet))
    for sentence, table in zip(new, tagger.predict_proba(new), strict=True):
        assert table.shape == (len(sentence), 3)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-9)


def test_training_under_a_rule_of_neighbours():
    X, y = make_text(9, (4,) * 8)
    rule = (E[(part("tag") == "B") & (part("previous") == "A")] <= 0).per("sentence").named("no B after A")
    tagger = fitted(X, [*y[:2], *[None] * 6], constraints=[rule], pairs="all", max_iter=4, tol=0.0)
    assert tagger.history_[-1].violation < 1e-4
    assert len(tagger.history_) > 1


def test_matrices_and_names_are_the_same_features():
    X, y = make_text(10)
    names = sorted({name for sentence in X for token in sentence for name in token})
    matrices = [np.array([[float(token.get(name, 0)) for name in names] for token in sentence]) for sentence in X]
    by_name, by_column = fitted(X, y), fitted(matrices, y)
    assert by_column.objective_ == pytest.approx(by_name.objective_)
    stacked = np.concatenate(matrices)
    lengths = [len(own) for own in y]
    flat = list(itertools.chain.from_iterable(y))
    by_stack = CRFTagger(n_threads=1, m_tol=1e-12).fit(stacked, flat, lengths=lengths)
    np.testing.assert_array_equal(by_stack.theta_, by_column.theta_)
    assert by_stack.predict(stacked, lengths=lengths) == by_column.predict(matrices)
    assert by_stack.score(stacked, flat, lengths=lengths) == by_column.score(matrices, y)
    assert by_column.top_features(1)["A"][0][0].startswith("x")


def test_results_do_not_depend_on_threads_or_chance():
    X, y = make_text(11, (4, 3, 5) * 40, n_words=40)
    one = CRFTagger(n_threads=1).fit(X, y)
    two = CRFTagger(n_threads=2).fit(iter(X), y)
    np.testing.assert_array_equal(one.theta_, two.theta_)
    assert one.predict(X[:2]) == one.predict(X)[:2]


def test_elastic_net_leaves_few_weights():
    X, y = make_text(12, (4, 3, 5) * 5)
    dense, sparse = fitted(X, y, C=0.5), fitted(X, y, C=0.5, l1_ratio=0.5)
    assert np.count_nonzero(dense.theta_) > np.count_nonzero(sparse.theta_) > 0


def test_empty_sentences_and_tokens_without_features():
    tagger = fitted([[], [{"a": 1}, {}], [[]]], [[], ["A", "B"], ["A"]])
    assert tagger.predict([[], [{}, {"a": 1}], []])[0::2] == [[], []]
    assert [table.shape for table in tagger.predict_proba([[], [{}]])] == [(0, 2), (1, 2)]
    assert tagger.predict([]) == []
    assert tagger.predict([[]]) == [[]]
    assert tagger.n_best([[]], 3)[0][0].tags == []
    assert tagger.score_samples([[], [{}]], [[], ["A"]])[0] == 0.0


def test_top_features_and_score():
    X, y = make_text(13, (4, 3, 5) * 6)
    tagger = fitted(X, y)
    top = tagger.top_features(2)
    assert set(top) == set(TAGS)
    for rows in top.values():
        weights = [weight for _, weight in rows]
        assert weights == sorted(weights, reverse=True)
        assert len(rows) <= 4
    right = [a == b for p, o in zip(tagger.predict(X), y, strict=True) for a, b in zip(p, o, strict=True)]
    assert tagger.score(X, y) == pytest.approx(np.mean(right))
    assert tagger.score(X[:1], [[None] * 3 + ["A"]][:1]) in (0.0, 1.0)


def test_rare_features_are_left_out():
    tagger = fitted([[["a", "b"], ["a"]]], [["A", "B"]], min_count=2)
    assert tagger.features_.names == ("a",)


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.NoEffectWarning")
def test_numbers_as_tags():
    tagger = fitted([[["a"], ["b"]]], [[0, 1]], constraints=[(E[part("tag") == 1] <= 1).per("sentence")])
    assert tagger.predict([[["a"], ["b"]]]) == [[0, 1]]


def test_labels_by_number():
    labels = read_labels([["B", {"C", "A"}, None]], np.array([3]))
    found = labels.numbered(TAGS)
    assert isinstance(found, Labels)
    assert found.offsets.tolist() == [0, 1, 3, 6]
    assert found.labels.tolist() == [1, 0, 2, 0, 1, 2]


@pytest.mark.usefixtures("process_kept")
@pytest.mark.parametrize("with_edges", [False, True])
def test_the_model_of_pairs_of_tags_keeps_the_promises_of_models(with_edges):
    rng = np.random.default_rng(1)
    lengths, k = np.array([3, 2, 3, 1, 2]), 3
    features = Features.of(rng.normal(size=(lengths.sum(), 4)))
    sizes = np.ones(lengths.sum(), np.int64)
    sizes[[1, 5]] = 2
    sizes[8:] = k
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = np.concatenate([np.sort(rng.choice(k, size, replace=False)) for size in sizes])
    known = [True, True, False, False, False]
    shards = build_shards(
        features, lengths, Labels(offsets, labels, 1.0 / np.repeat(sizes, sizes)), known, rng.random(5) + 0.5
    )
    inside = LogLinearModel(Support(4, k), chain=True, optimiser=Optimiser(tol=1e-14), names=["b", "a", "c"])
    edges = Support.pairs([0, 0, 2, 2, 2], [0, 7, 1, 4, 8], 4, k * k) if with_edges else None
    model = PairModel(inside, edges)
    check_model(
        model,
        rng.normal(size=model.n_weights),
        shards,
        rng,
        perturb=lambda theta, rng: theta + 0.1 * rng.normal(size=len(theta)),
        iterations=2,
    )
    for shard in shards if edges is None else ():
        theta = rng.normal(size=inside.n_weights)
        for model in (inside, PairModel(inside)):
            values, marginals = model.structure(shard).smoothed_max(model.scores(theta, shard), 1.0)
            statistics = model.gather(theta, shard, marginals)
            if model is inside:
                expected = values, statistics
        np.testing.assert_allclose(values, expected[0])
        np.testing.assert_allclose(statistics, expected[1], atol=1e-12)


def test_edges_that_were_seen_have_weights():
    X = [[{"a": 1}, {"b": 1}, {"a": 1, "b": 1}], [{"b": 1}, {"a": 1}]]
    tagger = fitted(X, [["A", "B", "A"], ["B", None]], edge_features="a", unlabelled_weight=0.0, tags=TAGS)
    edges = tagger.model_.edges
    a, b = tagger.features_.names.index("a"), tagger.features_.names.index("b")
    own = {f: edges.labels[edges.indptr[f] : edges.indptr[f + 1]].tolist() for f in (a, b)}
    assert own == {a: [3], b: []}  # B then A, before the token with a


@pytest.mark.parametrize("pairs", ["observed", "all"])
@pytest.mark.parametrize("share", [0.4, 0.6])
def test_models_depend_on_the_numbers_and_not_on_what_holds_them(share, pairs):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, 15)
    n, k = int(lengths.sum()), 6
    X = np.where(rng.random((n, k)) < share, rng.normal(size=(n, k)).round(2), 0.0)
    X[0, 0] = 0.25  # so that names are numbered in order
    y = np.array(TAGS)[(X[:, :3] + 0.5 * rng.normal(size=(n, 3))).argmax(axis=1)]
    ends = np.cumsum(lengths)[:-1]
    stored = sp.csr_array((X.ravel(), np.tile(np.arange(k), n), k * np.arange(n + 1)))
    assert stored.nnz == n * k  # zeros included
    mappings = [{f"f{f}": value for f, value in enumerate(row)} for row in X.tolist()]
    apart = [list(own) for own in np.split(np.array(mappings), ends)], [own.tolist() for own in np.split(y, ends)]
    one = {"n_threads": 1, "m_tol": 1e-12, "pairs": pairs}
    dense = CRFTagger(**one).fit(X, y, lengths=lengths)
    best, probabilities = dense.predict(X, lengths=lengths), dense.predict_proba(X, lengths=lengths)
    for matrix in (sp.csr_array(X), stored, stored.tocsc(), stored.tocoo(), np.asfortranarray(X)):
        other = CRFTagger(**one).fit(matrix, y, lengths=lengths)
        assert other.theta_.tobytes() == dense.theta_.tobytes()
        assert np.concatenate(other.predict(matrix, lengths=lengths)).tolist() == np.concatenate(best).tolist()
        for own, its in zip(other.predict_proba(matrix, lengths=lengths), probabilities, strict=True):
            assert own.tobytes() == its.tobytes()
    named = CRFTagger(**one).fit(*apart)
    one_by_one, table = (own.model_.support.table(own.model_.split(own.theta_).features) for own in (named, dense))
    order = [int(name[1:]) for name in named.features_.names]
    np.testing.assert_allclose(one_by_one, table[order], atol=1e-6)
    assert np.concatenate(named.predict(apart[0])).tolist() == np.concatenate(best).tolist()
    order = rng.permutation(len(lengths))
    X_apart = [np.split(X, ends)[s] for s in order]
    shuffled = CRFTagger(**one).fit(X_apart, [apart[1][s] for s in order])
    np.testing.assert_allclose(shuffled.theta_, dense.theta_, atol=1e-6)


def test_pairs_of_a_feature_that_is_0_are_not_observed():
    """One more zero leaves every other pair as it is."""
    X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [0.0, 0.0, 4.0]])
    sizes = []
    for matrix in (X, sp.csr_array(X), np.hstack([X, X > 9, X > 9]), np.hstack([X, X + 1, X + 1])[:, :3]):
        tagger = CRFTagger(n_threads=1).fit(matrix, ["A", "B", "A"], lengths=[3])
        table = tagger.model_.support.table(np.ones(tagger.model_.support.n_weights))
        sizes.append(table[:3].tolist())
        assert (table[3:] == 0).all()
    assert sizes == [[[1, 0], [0, 1], [1, 1]]] * 4
