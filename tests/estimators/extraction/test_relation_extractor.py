"""RelationExtractor learns from labels and constraints, and decodes types and relations together."""

import itertools

import numpy as np
import pytest
from extraction_data import RULES, make_sentences

from spectrem import RelationExtractor
from spectrem.constraints import E, part
from spectrem.constraints.text import flatten
from spectrem.data import RelationSentence
from spectrem.exceptions import InvalidInputError, NotFittedError

LABELLED, FREE, TEST = make_sentences(12), make_sentences(40, 1), make_sentences(25, 2)
BARE = [one.unlabelled() for one in FREE]


@pytest.fixture(scope="module")
def supervised():
    return RelationExtractor([RULES], n_threads=1).fit(LABELLED)


@pytest.fixture(scope="module")
def learnt():
    return RelationExtractor([RULES], n_threads=1, max_iter=6, tol=0.0, count_margin=0.2).fit([*LABELLED, *BARE])


def test_labelled_sentences_are_enough(supervised):
    assert supervised.types_ == ("Loc", "Org", "Peop")
    assert supervised.relations_ == ("none", "Kill", "Live_In", "Work_For")
    assert supervised.predict(LABELLED) == LABELLED
    assert supervised.n_iter_ == 1
    assert "12 sentences" in supervised.report_.summary()


def test_labels_of_sentences_to_predict_have_no_part(supervised):
    assert supervised.predict([one.unlabelled() for one in TEST]) == supervised.predict(TEST)


def test_without_other_sentences_the_models_are_maximum_entropy_classifiers():
    """Weights of types are those of logistic regression on the same features."""
    from spectrem import MaxEntClassifier
    from spectrem.data import FeatureIndex, mention_features

    extractor = RelationExtractor(m_tol=1e-12, type_features=False).fit(LABELLED)
    index, tokens = FeatureIndex.learn(map(mention_features, LABELLED))
    X = np.zeros((len(tokens.indptr) - 1, len(index)))
    X[np.repeat(np.arange(len(X)), np.diff(tokens.indptr)), tokens.indices] = 1
    y = [kind for one in LABELLED for kind in one.types]
    other = MaxEntClassifier(fit_intercept=False, m_tol=1e-12).fit(X, y)
    weights = extractor.model_.split(extractor.theta_)["mention"].reshape(-1, 3)
    assert np.allclose(weights, other.coef_.T, atol=1e-4)


def test_copies_of_a_sentence_share_its_weight():
    """Types that are inferred for pairs are those without copies: by weight, and from other sentences."""
    once = RelationExtractor(m_tol=1e-12).fit(LABELLED)
    copies = [copy for one in LABELLED for copy in (one, one, one)]
    thrice = RelationExtractor(m_tol=1e-12).fit(copies, sample_weight=np.full(len(copies), 1 / 3))
    np.testing.assert_allclose(thrice.first_classifiers_.theta, once.first_classifiers_.theta, atol=1e-5)
    assert np.isin(
        once.first_classifiers_.contexts, thrice.first_classifiers_.contexts
    ).all()  # which are counted, not weighed


def slow_related(pairs, probabilities):
    """What `related_features` adds to the features of the pairs of one sentence."""
    rows = []
    for one, (first, second) in enumerate(pairs):
        others = [number for number in range(len(pairs)) if number != one]
        chosen = [
            [number for number in others if pairs[number] == (second, first)],
            [number for number in others if pairs[number][0] == first],
            [number for number in others if pairs[number][1] == second],
            [number for number in others if first in pairs[number]],
            [number for number in others if second in pairs[number]],
        ]
        row = []
        for r in range(1, probabilities.shape[1]):
            row.append(np.log(probabilities[one, r] / probabilities[one, 0]) / 3)
            row += [max([probabilities[number, r] for number in numbers], default=0.0) for numbers in chosen]
        rows.append(row)
    return np.array(rows)


def test_relations_of_other_pairs_are_features():
    """Those of every sentence are its own, here of two, three and one mention."""
    from spectrem.models.extraction import encode_sentences, related_features

    rng = np.random.default_rng(0)
    words = ["Ann", "Ben", "Cid"]
    made = [RelationSentence(words[:n], [(k, k + 1) for k in range(n)]) for n in (2, 3, 1)]
    extractor = RelationExtractor().fit(LABELLED)
    data, _ = encode_sentences(made, extractor.indexes_)
    probabilities = rng.dirichlet(np.ones(4), size=8)
    pair = data.members["pair"].features
    found = related_features(data, pair, probabilities).matrix.toarray()
    own = found[:, pair.n_features :]
    np.testing.assert_allclose(own[:2], slow_related(made[0].pairs, probabilities[:2]))
    np.testing.assert_allclose(own[2:], slow_related(made[1].pairs, probabilities[2:]))
    assert (found[:, : pair.n_features] == pair.matrix.toarray()).all()


def test_relation_features_predict_and_are_saved(tmp_path):
    extractor = RelationExtractor([RULES], relation_features=True).fit(LABELLED)
    assert extractor.predict(LABELLED) == LABELLED
    extractor.save(tmp_path / "model")
    again = RelationExtractor.load(tmp_path / "model")
    found = zip(extractor.predict_proba(TEST), again.predict_proba(TEST), strict=True)
    assert all(np.array_equal(a.relations, b.relations) for a, b in found)
    assert again.first_classifiers_.bonus == extractor.first_classifiers_.bonus > 0
    plain = again.predict(TEST)
    assert plain != again.set_params(relation_bonus=-20.0).predict(TEST)
    assert plain == again.set_params(relation_bonus=extractor.first_classifiers_.bonus).predict(TEST)
    assert again.predict([RelationSentence(["Ohio"], [(0, 1)])])[0].relations == {}
    with pytest.raises(InvalidInputError, match="relation_features must be False without type_features, got True; "):
        RelationExtractor(relation_features=True, type_features=False).fit(LABELLED)


def brute_force(extractor, sentence):
    """The best labels that meet the rules, of all combinations."""
    found = extractor.set_params(project_at_predict=False).predict_proba([sentence])[0]
    extractor.set_params(project_at_predict=True)
    allowed = {"none": None, "Kill": ("Peop", "Peop"), "Live_In": ("Peop", "Loc"), "Work_For": ("Peop", "Org")}
    best, value = None, -np.inf
    for types in itertools.product(range(3), repeat=len(sentence.mentions)):
        total, relations = sum(np.log(found.types[n, kind]) for n, kind in enumerate(types)), []
        for own, pair in zip(found.relations, sentence.pairs, strict=True):
            names = tuple(extractor.types_[types[one]] for one in pair)
            scores = [
                np.log(p) if allowed[name] in (None, names) else -np.inf
                for name, p in zip(extractor.relations_, own, strict=True)
            ]
            relations.append(int(np.argmax(scores)))
            total += max(scores)
        if total > value:
            best, value = (types, relations), total
    return best


@pytest.mark.parametrize("seed", range(4))
def test_joint_decoding_equals_brute_force(supervised, seed):
    rng = np.random.default_rng(seed)
    extractor = RelationExtractor([RULES], n_threads=1).fit(LABELLED)
    extractor.theta_ = extractor.theta_ + rng.normal(size=len(extractor.theta_))  # so that types and relations clash
    clashes = 0
    for sentence, found in zip(TEST[:10], extractor.predict(TEST[:10]), strict=True):
        types, relations = brute_force(extractor, sentence)
        assert found.types == tuple(extractor.types_[kind] for kind in types)
        expected = {pair: extractor.relations_[n] for pair, n in zip(sentence.pairs, relations, strict=True) if n}
        assert found.relations == expected
        extractor.set_params(project_at_predict=False)
        clashes += extractor.predict([sentence]) != [found]
        extractor.set_params(project_at_predict=True)
    assert clashes


def test_posteriors_meet_the_rules(supervised):
    for sentence, found in zip(TEST, supervised.predict_proba(TEST), strict=True):
        assert np.allclose(found.types.sum(axis=1), 1)
        assert np.allclose(found.relations.sum(axis=1), 1)
        peop, loc = supervised.types_.index("Peop"), supervised.types_.index("Loc")
        for (first, second), own in zip(sentence.pairs, found.relations, strict=True):
            assert own[1:].sum() <= found.types[first, peop] + 1e-6
            assert own[2] <= found.types[second, loc] + 1e-6


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.0, -np.inf])
def test_other_sentences_are_learnt_from(gamma):
    extractor = RelationExtractor([RULES], gamma=gamma, n_threads=1, max_iter=4, tol=0.0, dual_steps=0)
    extractor.fit([*LABELLED, *BARE])
    objectives = np.array([record.objective for record in extractor.history_])
    if gamma >= 0:
        assert (np.diff(objectives) >= -1e-6 * np.abs(objectives[1:])).all()
    right = [found.types == one.types for found, one in zip(extractor.predict(TEST), TEST, strict=True)]
    assert np.mean(right) > 0.7


def test_numbers_of_relations_are_kept(learnt):
    labelled = [one.relations.get(pair, "none") for one in LABELLED for pair in one.pairs]
    share = labelled.count("Kill") / len(labelled)
    names = [report.name for report in learnt.report_.constraints]
    assert names == [f"number of {name}" for name in learnt.relations_[1:]]
    pairs = sum(len(one.pairs) for one in [*LABELLED, *BARE])
    [row] = [report for report in learnt.report_.constraints if report.name == "number of Kill"]
    assert np.allclose(row.bound, [1.2 * share * pairs, 0.8 * share * pairs])


def test_a_bonus_finds_more_relations(supervised):
    more = RelationExtractor([RULES], n_threads=1, relation_bonus=3.0).fit(LABELLED)
    assert np.array_equal(more.theta_, supervised.theta_)
    found, others = more.predict(TEST), supervised.predict(TEST)
    assert sum(len(one.relations) for one in found) > sum(len(one.relations) for one in others)
    all_of_them = supervised.predict_proba(TEST)
    assert all(np.array_equal(a.types, b.types) for a, b in zip(more.predict_proba(TEST), all_of_them, strict=True))


@pytest.mark.parametrize("options", [{"n_threads": 2}, {"corpus": "spilled"}])
def test_results_do_not_depend_on_where_sentences_are(learnt, options, tmp_path):
    if "corpus" in options:
        from functools import partial

        from spectrem.corpus import Spilled

        options = {"corpus": partial(Spilled, folder=tmp_path)}
    again = RelationExtractor([RULES], max_iter=6, tol=0.0, count_margin=0.2, **options).fit([*LABELLED, *BARE])
    assert np.array_equal(again.theta_, learnt.theta_)


def test_one_shard_or_several(monkeypatch):
    from spectrem.models.loglinear import features as shards

    found = []
    for least in (1 << 16, 50):
        monkeypatch.setattr(shards, "_LEAST_WORK", least)
        monkeypatch.setattr(shards, "_PER_WEIGHT", 0)
        extractor = RelationExtractor([RULES], max_iter=3, count_margin=0.2, dual_steps=0, m_tol=1e-10, tol=0.0)
        found.append(extractor.fit([*LABELLED, *BARE]))
    assert np.allclose([own.objective_ for own in found[:1]], found[1].objective_, rtol=1e-6)
    assert found[0].predict(TEST) == found[1].predict(TEST)


def test_partial_labels():
    """A type that is given stays; what is not known is inferred."""
    partly = [RelationSentence(one.words, one.mentions, one.types) for one in FREE]
    extractor = RelationExtractor([RULES], max_iter=3, tol=0.0).fit([*LABELLED, *partly])
    assert np.mean([found == one for found, one in zip(extractor.predict(TEST), TEST, strict=True)]) > 0.7


def test_sentences_without_pairs_or_mentions(supervised):
    odd = [RelationSentence(["It", "rains"], []), RelationSentence(["Ray", "ran"], [(0, 1)])]
    nothing, one = supervised.predict(odd)
    assert (nothing.types, nothing.relations) == ((), {})
    assert (len(one.types), one.relations) == (1, {})
    assert supervised.predict([]) == []
    assert [own.relations.shape for own in supervised.predict_proba(odd)] == [(0, 4), (0, 4)]
    again = RelationExtractor([RULES]).fit([*LABELLED, *odd])
    assert again.report_.n_rows == 14


def test_columns_of_sentences(supervised):
    rule = (E[(part("type") == "Org") & part("sport")] <= 0).per("sentence").named("no companies in sport")
    with pytest.raises(InvalidInputError, match="there is no column 'sport'"):
        RelationExtractor([rule]).fit([*LABELLED, *BARE])
    sport = np.zeros(52, bool)
    sport[12:] = True
    extractor = RelationExtractor([rule], max_iter=2, tol=0.0).fit([*LABELLED, *BARE], columns={"sport": sport})
    found = extractor.predict(TEST, columns={"sport": np.ones(25, bool)})
    assert not any("Org" in one.types for one in found)


def test_saved_extractors(learnt, supervised, tmp_path):
    for extractor in (learnt, supervised, RelationExtractor(type_features=False).fit(LABELLED)):
        extractor.save(tmp_path / "model")
        again = RelationExtractor.load(tmp_path / "model")
        assert again.predict(TEST) == extractor.predict(TEST)
        assert again.history_ == extractor.history_
        assert flatten(again.constraints) == flatten(extractor.constraints)


def test_damaged_files_are_named(supervised, tmp_path):
    supervised.save(tmp_path / "model")
    data = dict(np.load(tmp_path / "model"))
    for name, value in (("theta", data["theta"][:-1]), ("contexts", data["contexts"] + 10**6)):
        with (tmp_path / "bad").open("wb") as file:
            np.savez(file, **{**data, name: value})
        with pytest.raises(InvalidInputError, match="a damaged RelationExtractor"):
            RelationExtractor.load(tmp_path / "bad")


@pytest.mark.parametrize(
    ("options", "sentences", "message"),
    [
        ({}, BARE, "sentences must hold a type and a relation, got"),
        (
            {"types": ["Peop"], "relations": ["Kill"]},
            BARE,
            "one with two mentions whose types and relations are all known",
        ),
        ({}, ["text"], "sentences must be RelationSentence, got 'text' for sentence 0"),
        ({"types": ["Peop"]}, LABELLED, "types must be those of all labels, Peop, got '(Loc|Org)'; list it in types"),
        ({"types": []}, LABELLED, "types must list different names"),
        ({"relations": "Kill"}, LABELLED, "relations must list different names"),
        ({"C": 0.0}, LABELLED, "C must be finite and above 0"),
        ({"decode": "greedy"}, LABELLED, "decode must be one of viterbi, posterior"),
        ({"count_margin": 2.0}, LABELLED, r"count_margin must lie in \[0, 1\]"),
        ({"constraints": ["E[type == 'Pepo'] <= 3"]}, LABELLED, "there is no type 'Pepo'; did you mean 'Peop'"),
        ({"constraints": ["E[relation == 'Kil'] <= 3"]}, LABELLED, "there is no relation 'Kil'; did you mean 'Kill'"),
    ],
)
def test_bad_input_is_named(options, sentences, message):
    with pytest.raises(InvalidInputError, match=message):
        RelationExtractor(**options).fit(sentences)


def test_relations_may_be_given_beside_the_sentences(supervised):
    relations = [one.relations for one in LABELLED]
    typed = [RelationSentence(one.words, one.mentions, one.types) for one in LABELLED]
    bare = [one.unlabelled() for one in LABELLED]
    for X, y in ((typed, relations), (bare, LABELLED), (LABELLED, LABELLED)):
        again = RelationExtractor([RULES], n_threads=1).fit(X, y)
        assert np.array_equal(again.theta_, supervised.theta_)
    assert supervised.score(typed, relations) == supervised.score(bare, LABELLED) == supervised.score(LABELLED) == 1.0
    wrong = [{} for _ in LABELLED]
    assert supervised.score(LABELLED, wrong) == 0.0
    half = [None if number % 4 == 3 else own for number, own in enumerate(relations)]
    free = RelationExtractor([RULES], n_threads=1, max_iter=2, tol=0.0).fit(LABELLED, half)
    partly = [typed[number] if number % 4 == 3 else one for number, one in enumerate(LABELLED)]
    same = RelationExtractor([RULES], n_threads=1, max_iter=2, tol=0.0).fit(partly)
    assert np.array_equal(free.theta_, same.theta_)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            [{}],
            r"y must have one entry per sentence \(12\), got 1; use None for sentences whose relations are not known",
        ),
        (1.0, r"y must have one entry per sentence \(12\), got 1"),
        (
            np.ones(12),
            "y must hold a mapping of pairs .* got .*1.0.* for sentence 0; weights of sentences are samp",
        ),
        (
            [*LABELLED[:11], TEST[4]],
            "y must have the mentions of X, got others for sentence 11; give the same sentences",
        ),
        ([{(0, 5): "Kill"}] * 12, "relations must be between two of 3 mentions"),
    ],
)
def test_labels_that_do_not_fit_the_sentences_are_named(y, message):
    with pytest.raises(InvalidInputError, match=message):
        RelationExtractor().fit(LABELLED, y)


def test_rules_that_labels_contradict_are_named():
    never = (E[part("type") == "Peop"] <= 0).per("sentence").named("no people")
    told = [RelationSentence(one.words, one.mentions, one.types) for one in FREE]
    with pytest.raises(Exception, match="'no people': no feasible q in sentence"):
        RelationExtractor([never]).fit([*LABELLED, *told])


def test_before_fit():
    with pytest.raises(NotFittedError, match="this RelationExtractor is not fitted yet; call fit, or load a saved one"):
        RelationExtractor().predict(TEST)
