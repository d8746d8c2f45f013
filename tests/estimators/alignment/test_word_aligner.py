"""WordAligner: what it accepts, what it returns, and that its options do what they say."""

import itertools
from functools import partial

import numpy as np
import pandas
import pytest
from aligner_helpers import clone_fitted, make, same_params

from spectrem import WordAligner
from spectrem.data import encode_bitext, symmetrize
from spectrem.datasets import make_bitext
from spectrem.estimators.alignment.text import TrainingText, read_anchors, select_pairs
from spectrem.learning import Anneal, Constant, Quench
from spectrem.metrics import alignment_scores
from spectrem.models.alignment import build_shards, pairs

BITEXT = make_bitext(250, seed=1)
SMALL = make_bitext(12, seed=2)


@pytest.fixture(scope="module")
def fitted():
    return make().fit(BITEXT.source, BITEXT.target)


def test_aligns_a_generated_bitext(fitted):
    assert fitted.score(BITEXT.source, BITEXT.target, BITEXT.links) > 0.9
    assert fitted.score(BITEXT.source, BITEXT.target, BITEXT.links) == pytest.approx(
        1 - alignment_scores(fitted.predict(BITEXT.source, BITEXT.target), BITEXT.links).aer
    )


def test_constraints_beat_em():
    aer = {
        constraints: 1
        - make(constraints=constraints, stem_strength=0, cognate_strength=0)
        .fit(BITEXT.source, BITEXT.target)
        .score(BITEXT.source, BITEXT.target, BITEXT.links)
        for constraints in ((), ("agreement",))
    }
    assert aer["agreement",] < aer[()] - 0.01


def test_history_tells_the_stages():
    heard = []
    aligner = make(model1_iterations=2, max_iter=3, gamma=0.5, on_iteration=heard.append).fit(
        SMALL.source, SMALL.target
    )
    assert [record.gamma for record in aligner.history_] == [1.0, 1.0, 0.5, 0.5, 0.5]
    assert heard == aligner.history_


def test_annealing():
    aligner = make(model="ibm1", schedule=Anneal(0.5), max_iter=2).fit(SMALL.source, SMALL.target)
    betas = [1 / record.gamma for record in aligner.history_]
    assert betas[0] == betas[1] == 0.5
    assert betas[-1] == 1.0
    assert len(betas) == 2 * len(set(betas)) > 4


def test_what_is_told_of_training():
    aligner = make().fit(SMALL.source, SMALL.target)
    assert aligner.n_iter_ == len(aligner.history_) == 8
    assert aligner.objective_ == aligner.history_[-1].objective
    assert (aligner.status_.name, aligner.converged_) == ("FIXED_ITERATIONS", False)
    told = aligner.report_.summary().splitlines()
    assert told[0] == f"WordAligner on {len(SMALL.source)} sentence pairs: ran the iterations asked for"
    assert told[1] == "gamma 1, model hmm, constraints agreement"
    annealed = make(schedule=Anneal(0.7), max_iter=1, constraints=[], max_length=6).fit(SMALL.source, SMALL.target)
    told = annealed.report_.summary().splitlines()
    assert told[1] == "gamma 1.43 to 1 in 3 stages, model hmm, constraints none"
    assert told[-1] == f"{annealed.n_skipped_} sentence pairs too long, not trained on"


def test_the_last_stage_stops_where_it_gains_little():
    aligner = make(max_iter=50, tol=1e-3).fit(SMALL.source, SMALL.target)
    assert aligner.converged_
    values = [record.objective for record in aligner.history_[5:]]
    gains = np.abs(np.diff(values) / values[:-1])
    assert 1 < len(values) < 50
    assert (gains[:-1] > 1e-3).all()
    assert gains[-1] <= 1e-3
    same = make(max_iter=len(values)).fit(SMALL.source, SMALL.target)
    assert same_params(aligner, same)


def test_a_schedule_decides_which_gamma_decodes():
    aligner = make(schedule=Quench(Constant(0.5), 0.25), max_iter=1).fit(SMALL.source, SMALL.target)
    assert aligner.gamma_ == 0.25
    assert [record.gamma for record in aligner.history_[5:]] == [0.5, 0.25]
    plain = clone_fitted(aligner)
    plain.gamma_ = 1.0
    first, second = (a.predict_proba(SMALL.source, SMALL.target).average[0] for a in (aligner, plain))
    assert np.abs(first - second).max() > 0.01


@pytest.mark.parametrize("model", ["ibm1", "ibm2", "hmm"])
def test_models(model):
    aligner = make(model=model, max_iter=2, max_jump=7).fit(SMALL.source, SMALL.target)
    assert aligner.model_.chain == (model == "hmm")
    assert len(aligner.history_) == (2 if model == "ibm1" else 7)
    uniform = np.ptp(aligner.params_.forward.jump) < 1e-12
    assert uniform == (model == "ibm1")
    assert len(aligner.params_.forward.jump) == 15


@pytest.mark.parametrize("options", [{}, {"gamma": 0.5, "constraints": ("agreement", "fertility")}, {"alpha": 0.5}])
def test_the_same_bits_for_every_number_of_threads(monkeypatch, options):
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 1500)
    bitext = SMALL if "alpha" in options else BITEXT
    assert bitext is SMALL or len(build_shards(encode_bitext(bitext.source, bitext.target))[1]) > 7
    first = None
    for n_threads in (1, 2, 3, 7):
        aligner = make(n_threads=n_threads, max_iter=2, **options).fit(bitext.source, bitext.target)
        posteriors = aligner.predict_proba(bitext.source, bitext.target)
        links = aligner.predict(bitext.source, bitext.target)
        objectives = [(record.objective, record.violation) for record in aligner.history_]
        if first is None:
            first = aligner, posteriors, links, objectives
            continue
        assert same_params(aligner, first[0])
        assert objectives == first[3]
        assert np.array_equal(links.keys, first[2].keys)
        for mine, theirs in ((posteriors.forward, first[1].forward), (posteriors.backward, first[1].backward)):
            assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_shards_do_not_change_the_result(monkeypatch):
    whole = make(max_iter=2).fit(SMALL.source, SMALL.target)
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 100)
    assert len(build_shards(encode_bitext(SMALL.source, SMALL.target))[1]) > 3
    same_params(whole, make(max_iter=2).fit(SMALL.source, SMALL.target), rtol=1e-7)


def test_lines_and_bitext_are_the_same(fitted):
    bitext = encode_bitext(BITEXT.source, BITEXT.target)
    assert same_params(make().fit(bitext), fitted)
    assert np.array_equal(fitted.predict(bitext).keys, fitted.predict(BITEXT.source, BITEXT.target).keys)


def test_a_bitext_with_other_numbers_is_recoded(fitted):
    other = encode_bitext([*BITEXT.source[::-1], "quite new words"], [*BITEXT.target[::-1], "more of them"])
    lines = fitted.predict([*BITEXT.source[::-1], "quite new words"], [*BITEXT.target[::-1], "more of them"])
    assert np.array_equal(fitted.predict(other).keys, lines.keys)


def test_prediction_of_one_pair_does_not_depend_on_the_others(fitted):
    together = fitted.predict(BITEXT.source[:20], BITEXT.target[:20])
    for n in range(20):
        assert fitted.predict(BITEXT.source[n : n + 1], BITEXT.target[n : n + 1]).pairs(0) == together.pairs(n)


def test_one_line_of_links_per_pair(fitted):
    source = ["", BITEXT.source[0], "", "unseen", BITEXT.source[1].split()[0], "never met", ""]
    target = ["", BITEXT.target[0], "alone", "", BITEXT.target[1].split()[0], "nor this", "x y z"]
    for decode in ("posterior", "viterbi", "backward", "intersection", "grow-diag-final-and"):
        links = clone_fitted(fitted, decode=decode).predict(source, target)
        assert links.n_sentences == 7
        assert [links.pairs(n) for n in (0, 2, 3, 6)] == [[]] * 4
    posteriors = fitted.predict_proba(source, target)
    assert [matrix.shape for matrix in posteriors.forward] == [
        (len(s.split()), len(t.split())) for s, t in zip(source, target, strict=True)
    ]
    assert fitted.predict([], []).n_sentences == 0
    assert fitted.predict_proba([], []).forward == []


def test_unknown_words_leave_position_to_decide(fitted):
    source, target = "q1 q2 q3 q4", "r1 r2 r3 r4"
    posteriors = fitted.predict_proba([source], [target]).average[0]
    assert np.isfinite(posteriors).all()
    assert ((posteriors >= 0) & (posteriors <= 1 + 1e-9)).all()


def test_posteriors_are_distributions(fitted):
    posteriors = clone_fitted(fitted, project_at_predict=False).predict_proba(BITEXT.source[:9], BITEXT.target[:9])
    for forward, backward in zip(posteriors.forward, posteriors.backward, strict=True):
        for sums in (forward.sum(axis=0), backward.sum(axis=1)):
            assert (sums <= 1 + 1e-9).all()
    for mean, forward, backward in zip(posteriors.average, posteriors.forward, posteriors.backward, strict=True):
        np.testing.assert_allclose(mean, (forward + backward) / 2)


def test_projection_at_decode_brings_the_directions_together(fitted):
    def gap(aligner):
        posteriors = aligner.predict_proba(BITEXT.source[:30], BITEXT.target[:30])
        return max(np.abs(f - b).max() for f, b in zip(posteriors.forward, posteriors.backward, strict=True))

    free, projected = (clone_fitted(fitted, project_at_predict=project) for project in (False, True))
    assert gap(projected) < gap(free)
    exact = clone_fitted(fitted, dual_steps=200, step_size=1.0)
    assert gap(exact) < 0.05 < gap(projected)


def test_the_threshold_keeps_likelier_links(fitted):
    posteriors = fitted.predict_proba(BITEXT.source[:20], BITEXT.target[:20]).average
    for threshold in (0.1, 0.5, 0.9):
        links = clone_fitted(fitted, threshold=threshold, rare_discount=0).predict(
            BITEXT.source[:20], BITEXT.target[:20]
        )
        for n, matrix in enumerate(posteriors):
            assert links.pairs(n) == [tuple(cell) for cell in np.argwhere(matrix > threshold).tolist()]


def test_viterbi_is_the_best_alignment_of_each_direction(fitted):
    source, target = BITEXT.source[:25], BITEXT.target[:25]
    found = {
        decode: clone_fitted(fitted, decode=decode).predict(source, target)
        for decode in ("viterbi", "forward", "backward", "intersection", "union", "grow-diag-final-and")
    }
    _, (shard,) = build_shards(
        encode_bitext(source, target, vocabularies=(fitted.source_vocabulary_, fitted.target_vocabulary_)),
        fitted.table_,
    )
    structure, scores = fitted.model_.structure(shard), fitted.model_.scores(fitted.params_, shard)
    choices = structure.decode(scores)
    forward, backward = np.split(choices, [shard.target_lengths.sum()])
    for n, (n_source, n_target) in enumerate(zip(shard.source_lengths, shard.target_lengths, strict=True)):
        own, forward = forward[:n_target], forward[n_target:]
        assert found["forward"].pairs(n) == sorted((i, j) for j, i in enumerate(own.tolist()) if i >= 0)
        own, backward = backward[:n_source], backward[n_source:]
        assert found["backward"].pairs(n) == sorted((i, j) for i, j in enumerate(own.tolist()) if j >= 0)
        f, b = set(found["forward"].pairs(n)), set(found["backward"].pairs(n))
        assert set(found["intersection"].pairs(n)) == f & b
        assert set(found["union"].pairs(n)) == f | b
    assert np.array_equal(found["viterbi"].keys, found["forward"].keys)
    merged = symmetrize(found["forward"], found["backward"], "grow-diag-final-and")
    assert np.array_equal(found["grow-diag-final-and"].keys, merged.keys)


def test_weights_repeat_pairs():
    weights = np.array([1, 2, 3] * 4)
    repeated = np.repeat(np.arange(12), weights)
    weighed = make(stem_strength=0, cognate_strength=0).fit(SMALL.source, SMALL.target, sample_weight=weights)
    longer = make(stem_strength=0, cognate_strength=0).fit(
        [SMALL.source[n] for n in repeated], [SMALL.target[n] for n in repeated]
    )
    assert weighed.history_[-1].objective == pytest.approx(longer.history_[-1].objective, rel=1e-8)
    assert same_entries(weighed, longer, rtol=1e-6)


def entries(aligner):
    """Translation probabilities by words, both directions."""
    return {(s, t): (f, b) for s, t, f, b in aligner.lexicon(min_probability=0.0)}


def same_entries(a, b, rtol):
    one, other = entries(a), entries(b)
    assert one.keys() == other.keys()
    return all(np.allclose(one[key], other[key], rtol=rtol, atol=1e-9) for key in one)


def test_weight_zero_leaves_a_pair_out():
    plain = partial(make, stem_strength=0, cognate_strength=0, discount=0)
    weights = np.array([1.0] * 8 + [0.0] * 4)
    weighed = plain().fit(SMALL.source, SMALL.target, sample_weight=weights)
    without = plain().fit(SMALL.source[:8], SMALL.target[:8])
    one, other = entries(weighed), entries(without)
    left_out = [key for key in one if key not in other and key[0] in {source for source, _ in other}]
    assert len(left_out) > 20
    assert max(one[key][0] for key in left_out) < 1e-6
    turned = [[" ".join(line.split()[::-1]) for line in lines[8:]] for lines in (SMALL.source, SMALL.target)]
    again = plain().fit(SMALL.source[:8] + turned[0], SMALL.target[:8] + turned[1], sample_weight=weights)
    assert same_entries(weighed, again, rtol=1e-9)


def test_known_links_are_learned_from():
    source, target = ["a b", "a b", "c"], ["x y", "x y", "z"]
    crossed = [[(0, 1), (1, 0)], None, None]
    guided = make(stem_strength=0, cognate_strength=0, discount=0).fit(
        source, target, known=crossed, sample_weight=[9, 1, 1]
    )
    assert guided.predict(["a b"], ["x y"]).pairs(0) == [(0, 1), (1, 0)]
    straight = make(stem_strength=0, cognate_strength=0, discount=0).fit(
        source, target, known=[[(0, 0), (1, 1)], None, None], sample_weight=[9, 1, 1]
    )
    assert straight.predict(["a b"], ["x y"]).pairs(0) == [(0, 0), (1, 1)]
    learned = entries(guided)
    assert learned["a", "y"][0] > 0.8 > 0.2 > learned["a", "x"][0]


def test_known_order_does_not_matter():
    known = [SMALL.links.pairs(n) if n % 3 == 0 else None for n in range(12)]
    one = make(max_iter=1).fit(SMALL.source, SMALL.target, known=known)
    order = [n for n in range(12) if n % 3] + [n for n in range(12) if n % 3 == 0]
    other = make(max_iter=1).fit(
        [SMALL.source[n] for n in order], [SMALL.target[n] for n in order], known=[known[n] for n in order]
    )
    assert same_entries(one, other, rtol=1e-6)


def test_pairs_are_selected_with_what_is_known_of_them():
    bitext = encode_bitext(["a", "b b", "c c c", "d d d", "e"], ["x", "y", "z", "w", "v"])
    known = [None, [(1, 0)], None, [(2, 0)], [(0, 0)]]
    held = read_anchors(bitext, known, [[(0, 0)], None, [(2, 0)], None, None])
    taken, weights, left = select_pairs(TrainingText(bitext, np.arange(5.0), held), 2, np.array([4]))
    assert [bitext.source_vocabulary.words[k] for k in taken.source_tokens] == ["a", "b", "b", "d", "d", "d"]
    assert weights.tolist() == [0.0, 1.0, 3.0]
    assert [left.links.pairs(n) for n in range(3)] == [[(0, 0)], [(1, 0)], [(2, 0)]]
    assert left.complete.tolist() == [False, True, True]


def test_long_pairs_are_left_out_of_training_but_aligned():
    lengths = [max(len(s.split()), len(t.split())) for s, t in zip(SMALL.source, SMALL.target, strict=True)]
    limit = sorted(lengths)[6]
    short = [n for n in range(12) if lengths[n] <= limit]
    limited = make(max_length=limit, stem_strength=0, cognate_strength=0).fit(SMALL.source, SMALL.target)
    alone = make(stem_strength=0, cognate_strength=0).fit(
        [SMALL.source[n] for n in short], [SMALL.target[n] for n in short]
    )
    assert entries(limited).keys() == entries(alone).keys()
    assert 0 < len(short) < 12
    assert limited.predict(SMALL.source, SMALL.target).n_sentences == 12
    assert limited.predict(SMALL.source, SMALL.target).pairs(int(np.argmax(lengths)))


def test_tune_finds_the_best_threshold(fitted):
    aligner = clone_fitted(fitted)
    source, target = BITEXT.source[:40], BITEXT.target[:40]
    gold = type(BITEXT.links).from_pairs([BITEXT.links.pairs(n) for n in range(40)])
    aligner.tune(source, target, gold)
    tuned = aligner.score(source, target, gold)
    for threshold in np.arange(0.05, 0.96, 0.05):
        aligner.threshold_ = threshold
        assert aligner.score(source, target, gold) <= tuned + 1e-12


def test_tune_chooses_gamma(fitted):
    source, target = BITEXT.source[:40], BITEXT.target[:40]
    gold = type(BITEXT.links).from_pairs([BITEXT.links.pairs(n) for n in range(40)])
    best = {
        gamma: clone_fitted(fitted).tune(source, target, gold, gammas=[gamma]).score(source, target, gold)
        for gamma in (0.3, 1.0, 3.0)
    }
    aligner = clone_fitted(fitted).tune(source, target, gold, gammas=[0.3, 1.0, 3.0])
    assert best[aligner.gamma_] == max(best.values())
    assert aligner.gamma == 1.0


def test_lexicon(fitted):
    table = entries(fitted)
    listed = list(fitted.lexicon(min_probability=0.3))
    assert listed == [(s, t, f, b) for s, t, f, b in fitted.lexicon(min_probability=0.0) if max(f, b) >= 0.3]
    assert 0 < len(listed) < len(table)
    by_source = {}
    for (s, _), (f, _) in table.items():
        by_source[s] = by_source.get(s, 0.0) + f
    # The rest belongs to words that were never beside them.
    assert 0.9 < max(by_source.values()) < 1.0
    plain = {}
    for (s, _), (f, _) in entries(make(discount=0).fit(SMALL.source, SMALL.target)).items():
        plain[s] = plain.get(s, 0.0) + f
    np.testing.assert_allclose(list(plain.values()), 1.0, atol=1e-8)


def test_stems_and_cognates_help_rare_words():
    source, target = ["the house"] * 5 + ["old zagreb"], ["das haus"] * 5 + ["zagreb altes"]
    settings = {"model": "ibm1", "constraints": [], "stem_strength": 0, "discount": 0}
    plain = make(**settings, cognate_strength=0).fit(source, target)
    spelled = make(**settings, cognate_strength=2.0).fit(source, target)
    assert entries(spelled)["zagreb", "zagreb"][0] > entries(plain)["zagreb", "zagreb"][0] + 0.2


def test_iter_predict_gives_the_same_links_piece_by_piece(fitted, monkeypatch):
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 1500)
    parts = list(fitted.iter_predict(BITEXT.source, BITEXT.target))
    assert len(parts) > 3
    whole = fitted.predict(BITEXT.source, BITEXT.target)
    pieces = itertools.chain.from_iterable([piece.pairs(n) for n in range(piece.n_sentences)] for piece in parts)
    assert list(pieces) == [whole.pairs(n) for n in range(whole.n_sentences)]


@pytest.mark.parametrize("name", ["fit", "update"])
def test_training_that_fails_leaves_the_model_before(fitted, name):
    def fail(record):
        raise RuntimeError("full")

    aligner = clone_fitted(fitted, max_length=11)  # some pairs are longer
    before = {key: value for key, value in vars(aligner).items() if key.endswith("_")}
    aligner.on_iteration = fail
    with pytest.raises(RuntimeError, match="full"):
        getattr(aligner, name)(SMALL.source, SMALL.target)
    assert all(getattr(aligner, key) is value for key, value in before.items())
    assert aligner.predict(SMALL.source, SMALL.target) == fitted.predict(SMALL.source, SMALL.target)


def test_sentences_in_any_form_are_the_same_text():
    source, target = ["the house", "", "a tree"] * 9, ["das haus", "ein", "ein baum"] * 9
    words, others = [line.split() for line in source], [line.split() for line in target]
    expected = WordAligner(n_threads=1).fit(source, target)
    for text in (
        (words, others),
        (words, target),
        (list(zip(source, target, strict=True)),),
        (zip(words, others, strict=True),),
        (np.array([source, target]).T,),
        (iter(source), pandas.Series(target)),
    ):
        aligner = WordAligner(n_threads=1).fit(*text)
        assert aligner.objective_ == expected.objective_
    assert aligner.predict([(["the", "house"], ["das", "haus"])]) == expected.predict(["the house"], ["das haus"])
    spaced = WordAligner(n_threads=1).fit([["New York", "is"]] * 3, [["Nueva York", "es"]] * 3)
    assert spaced.source_vocabulary_.words == ("New York", "is")
