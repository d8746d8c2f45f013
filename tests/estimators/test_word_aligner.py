"""WordAligner: what it accepts, what it returns, and that its options do what they say."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from spectrem import E, WordAligner, agreement, fertility, part
from spectrem.data import Bitext, encode_bitext, symmetrize
from spectrem.datasets import make_bitext
from spectrem.exceptions import InvalidInputError, NotFittedError
from spectrem.metrics import alignment_scores
from spectrem.models.alignment import build_shards, pairs

BITEXT = make_bitext(250, seed=1)
SMALL = make_bitext(12, seed=2)
TINY = SimpleNamespace(source=["a b c", "b d", "c", ""], target=["x y z", "y w", "z v", "x"])
GAMMA_RULE = (
    "; between -inf and 0 the E-step is not convex, and without constraints every gamma <= 0 is hard EM: use 0 "
    "(linear relaxation) or -inf (integer program)"
)


def make(**options):
    return WordAligner(**{"n_threads": 1, **options})


def same_params(a, b, rtol=0.0):
    for side in ("forward", "backward"):
        for name in ("translation", "null", "jump", "end"):
            one, other = (getattr(getattr(aligner.params_, side), name) for aligner in (a, b))
            if rtol:
                np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-10, err_msg=name)
            elif not np.array_equal(one, other):
                return False
    return True


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
    aligner = make(model1_iterations=2, iterations=3, gamma=0.5, on_iteration=heard.append).fit(
        SMALL.source, SMALL.target
    )
    assert [record.gamma for record in aligner.history_] == [1.0, 1.0, 0.5, 0.5, 0.5]
    assert heard == aligner.history_


def test_annealing():
    aligner = make(model="ibm1", beta_min=0.5, iterations=2).fit(SMALL.source, SMALL.target)
    betas = [1 / record.gamma for record in aligner.history_]
    assert betas[0] == betas[1] == 0.5
    assert betas[-1] == 1.0
    assert len(betas) == 2 * len(set(betas)) > 4


@pytest.mark.parametrize("model", ["ibm1", "ibm2", "hmm"])
def test_models(model):
    aligner = make(model=model, iterations=2, max_jump=7).fit(SMALL.source, SMALL.target)
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
        aligner = make(n_threads=n_threads, iterations=2, **options).fit(bitext.source, bitext.target)
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
    whole = make(iterations=2).fit(SMALL.source, SMALL.target)
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 100)
    assert len(build_shards(encode_bitext(SMALL.source, SMALL.target))[1]) > 3
    same_params(whole, make(iterations=2).fit(SMALL.source, SMALL.target), rtol=1e-7)


def test_lines_and_bitext_are_the_same(fitted):
    bitext = encode_bitext(BITEXT.source, BITEXT.target)
    assert same_params(make().fit(bitext), fitted)
    assert np.array_equal(fitted.predict(bitext).keys, fitted.predict(BITEXT.source, BITEXT.target).keys)


def test_a_bitext_with_other_numbers_is_recoded(fitted):
    other = encode_bitext(BITEXT.source[::-1] + ["quite new words"], [*BITEXT.target[::-1], "more of them"])
    lines = fitted.predict(BITEXT.source[::-1] + ["quite new words"], [*BITEXT.target[::-1], "more of them"])
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


def clone_fitted(fitted, **options):
    """The same fitted aligner with other options for decoding."""
    other = make(**options)
    for name, value in vars(fitted).items():
        if name.endswith("_"):
            setattr(other, name, value)
    other.gamma_, other.threshold_ = other.gamma, other.threshold
    return other


def test_unknown_words_leave_position_to_decide(fitted):
    source, target = "q1 q2 q3 q4", "r1 r2 r3 r4"
    posteriors = fitted.predict_proba([source], [target]).average[0]
    assert np.isfinite(posteriors).all()
    assert ((posteriors >= 0) & (posteriors <= 1 + 1e-9)).all()


def test_posteriors_are_distributions(fitted):
    posteriors = clone_fitted(fitted, project=False).predict_proba(BITEXT.source[:9], BITEXT.target[:9])
    for forward, backward in zip(posteriors.forward, posteriors.backward, strict=True):
        for sums in (forward.sum(axis=0), backward.sum(axis=1)):
            assert (sums <= 1 + 1e-9).all()
    for mean, forward, backward in zip(posteriors.average, posteriors.forward, posteriors.backward, strict=True):
        np.testing.assert_allclose(mean, (forward + backward) / 2)


def test_projection_at_decode_brings_the_directions_together(fitted):
    def gap(aligner):
        posteriors = aligner.predict_proba(BITEXT.source[:30], BITEXT.target[:30])
        return max(np.abs(f - b).max() for f, b in zip(posteriors.forward, posteriors.backward, strict=True))

    free, projected = (clone_fitted(fitted, project=project) for project in (False, True))
    assert gap(projected) < gap(free)
    exact = clone_fitted(fitted, dual_steps=200, step_size=1.0)
    assert gap(exact) < 0.05 < gap(projected)


def test_the_threshold_keeps_likelier_links(fitted):
    posteriors = fitted.predict_proba(BITEXT.source[:20], BITEXT.target[:20]).average
    for threshold in (0.1, 0.5, 0.9):
        links = clone_fitted(fitted, threshold=threshold).predict(BITEXT.source[:20], BITEXT.target[:20])
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
    structure, scores = fitted.model_.scores(fitted.params_, shard)
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
    weights = np.array([1.0] * 8 + [0.0] * 4)
    weighed = make(stem_strength=0, cognate_strength=0).fit(SMALL.source, SMALL.target, sample_weight=weights)
    without = make(stem_strength=0, cognate_strength=0).fit(SMALL.source[:8], SMALL.target[:8])
    one, other = entries(weighed), entries(without)
    left_out = [key for key in one if key not in other and key[0] in {source for source, _ in other}]
    assert len(left_out) > 20
    assert max(one[key][0] for key in left_out) < 1e-6
    turned = [[" ".join(line.split()[::-1]) for line in lines[8:]] for lines in (SMALL.source, SMALL.target)]
    again = make(stem_strength=0, cognate_strength=0).fit(
        SMALL.source[:8] + turned[0], SMALL.target[:8] + turned[1], sample_weight=weights
    )
    assert same_entries(weighed, again, rtol=1e-9)


def test_known_links_are_learned_from():
    source, target = ["a b", "a b", "c"], ["x y", "x y", "z"]
    crossed = [[(0, 1), (1, 0)], None, None]
    guided = make(stem_strength=0, cognate_strength=0).fit(source, target, known=crossed, sample_weight=[9, 1, 1])
    assert guided.predict(["a b"], ["x y"]).pairs(0) == [(0, 1), (1, 0)]
    straight = make(stem_strength=0, cognate_strength=0).fit(
        source, target, known=[[(0, 0), (1, 1)], None, None], sample_weight=[9, 1, 1]
    )
    assert straight.predict(["a b"], ["x y"]).pairs(0) == [(0, 0), (1, 1)]
    learned = entries(guided)
    assert learned["a", "y"][0] > 0.8 > 0.2 > learned["a", "x"][0]


def test_known_order_does_not_matter():
    known = [SMALL.links.pairs(n) if n % 3 == 0 else None for n in range(12)]
    one = make(iterations=1).fit(SMALL.source, SMALL.target, known=known)
    order = [n for n in range(12) if n % 3] + [n for n in range(12) if n % 3 == 0]
    other = make(iterations=1).fit(
        [SMALL.source[n] for n in order], [SMALL.target[n] for n in order], known=[known[n] for n in order]
    )
    assert same_entries(one, other, rtol=1e-6)


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
    gold = BITEXT.links.where(BITEXT.links.sentence < 40)
    gold = type(gold).from_pairs([BITEXT.links.pairs(n) for n in range(40)])
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
    for source_word in ("determiner",):
        assert source_word not in fitted.source_vocabulary_.words
    listed = list(fitted.lexicon(min_probability=0.3))
    assert listed == [
        (s, t, f, b) for s, t, f, b in fitted.lexicon(min_probability=0.0) if max(f, b) >= 0.3
    ]
    assert 0 < len(listed) < len(table)
    by_source = {}
    for (s, _), (f, _) in table.items():
        by_source[s] = by_source.get(s, 0.0) + f
    np.testing.assert_allclose(list(by_source.values()), 1.0, atol=1e-8)


def test_stems_and_cognates_help_rare_words():
    source, target = ["the house"] * 5 + ["old zagreb"], ["das haus"] * 5 + ["zagreb altes"]
    plain = make(model="ibm1", constraints=[], stem_strength=0, cognate_strength=0).fit(source, target)
    spelled = make(model="ibm1", constraints=[], stem_strength=0, cognate_strength=2.0).fit(source, target)
    assert entries(spelled)["zagreb", "zagreb"][0] > entries(plain)["zagreb", "zagreb"][0] + 0.2


@pytest.mark.parametrize("constraints", [(), ("agreement",), ("fertility",), ("agreement", "fertility")])
@pytest.mark.parametrize("gamma", [0.0, -math.inf])
def test_hard_e_steps(gamma, constraints):
    bitext = TINY
    aligner = make(gamma=gamma, constraints=constraints, iterations=2, dual_steps=0).fit(bitext.source, bitext.target)
    assert aligner.history_[-1].gamma == gamma
    assert aligner.history_[-1].violation <= 1e-6
    posteriors = aligner.predict_proba(bitext.source, bitext.target)
    for forward, backward in zip(posteriors.forward, posteriors.backward, strict=True):
        if gamma == -math.inf:
            assert set(np.unique(forward)) <= {0.0, 1.0}
        if "agreement" in constraints:
            np.testing.assert_allclose(forward, backward, atol=1e-6)
        if "fertility" in constraints:
            assert (forward.sum(axis=1) <= 1 + 1e-6).all()
            assert (backward.sum(axis=0) <= 1 + 1e-6).all()
    assert aligner.predict(bitext.source, bitext.target).n_links > 0


def test_gamma_zero_with_fixed_steps_is_the_papers_codl():
    bitext = make_bitext(10, seed=5)
    aligner = make(gamma=0.0, iterations=2).fit(bitext.source, bitext.target)
    posteriors = aligner.predict_proba(bitext.source, bitext.target)
    assert set(np.unique(np.concatenate([m.ravel() for m in posteriors.forward]))) <= {0.0, 1.0}


def test_no_projection_at_decode_for_hard_gammas():
    bitext = TINY
    for gamma in (0.0, -math.inf):
        aligner = make(gamma=gamma, project=False, iterations=1).fit(bitext.source, bitext.target)
        posteriors = aligner.predict_proba(bitext.source, bitext.target)
        best = clone_fitted(aligner, decode="forward").predict(bitext.source, bitext.target)
        for n, matrix in enumerate(posteriors.forward):
            assert best.pairs(n) == [tuple(cell) for cell in np.argwhere(matrix == 1.0).tolist()]


def test_exact_duals_are_what_many_fixed_steps_approach():
    bitext = make_bitext(8, seed=7)
    options = {"iterations": 1, "model1_iterations": 3, "model": "ibm2"}
    exact = make(dual_steps=0, **options).fit(bitext.source, bitext.target)
    many = make(dual_steps=3000, step_size=0.5, **options).fit(bitext.source, bitext.target)
    few = make(dual_steps=1, step_size=0.5, **options).fit(bitext.source, bitext.target)
    assert exact.history_[-1].violation < 1e-5
    assert many.history_[0].objective == pytest.approx(exact.history_[0].objective, rel=1e-6)
    assert few.history_[0].objective > exact.history_[0].objective + 1e-3


def test_constraints_made_with_e_are_those_with_a_name():
    bitext = make_bitext(10, seed=8)
    named, made = (
        make(constraints=constraints, iterations=2, max_fertility=0.9).fit(bitext.source, bitext.target)
        for constraints in (("agreement", "fertility"), (agreement(), fertility(0.9)))
    )
    same_params(named, made, rtol=1e-6)
    a, b = (aligner.predict_proba(bitext.source, bitext.target).average for aligner in (named, made))
    for one, other in zip(a, b, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-8)


def test_a_constraint_of_ones_own():
    bitext = make_bitext(20, seed=9)
    few_nulls = (E[(part("direction") == "forward") & (part("source") == -1)] <= 0.05).per("sentence")
    aligner = make(constraints=[few_nulls], dual_steps=0, iterations=2).fit(bitext.source, bitext.target)
    assert aligner.history_[-1].violation < 1e-6
    posteriors = aligner.predict_proba(bitext.source, bitext.target)
    for matrix in posteriors.forward:
        assert matrix.shape[1] - matrix.sum() <= 0.05 + 1e-5
    free = make(constraints=[], iterations=2).fit(bitext.source, bitext.target)
    loose = free.predict_proba(bitext.source, bitext.target).forward
    assert max(matrix.shape[1] - matrix.sum() for matrix in loose) > 0.5


def test_alpha():
    bitext = make_bitext(10, seed=10)
    free = make(constraints=[], iterations=2).fit(bitext.source, bitext.target)
    none = make(alpha=0.0, iterations=2).fit(bitext.source, bitext.target)
    same_params(free, none, rtol=1e-7)
    full, half = (make(alpha=alpha, iterations=2).fit(bitext.source, bitext.target) for alpha in (1.0, 0.5))
    assert free.history_[0].objective > half.history_[0].objective > full.history_[0].objective


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
        ({"model": "ibm4"}, "model must be one of ibm1, ibm2, hmm, got 'ibm4'"),
        ({"constraints": "agreement"}, "constraints must be a sequence, got the string 'agreement'; put it in a list"),
        (
            {"constraints": ["agree"]},
            "constraints must be agreement or fertility, or constraints made with E, got 'agree'",
        ),
        ({"gamma": -0.5}, "gamma must be -inf or at least 0 and finite, got -0.5" + GAMMA_RULE),
        ({"gamma": math.nan}, "gamma must be -inf or at least 0 and finite, got nan" + GAMMA_RULE),
        ({"gamma": math.inf}, "gamma must be -inf or at least 0 and finite, got inf" + GAMMA_RULE),
        ({"gamma": "1"}, "gamma must be a number, got '1'"),
        (
            {"decode": "best"},
            "decode must be one of posterior, viterbi, forward, backward, intersection, union, grow-diag-final-and, "
            "got 'best'",
        ),
        (
            {"beta_min": 0.5, "gamma": 0.0},
            "beta_min anneals towards a gamma above 0, got gamma 0.0; drop one of them",
        ),
        ({"beta_min": "low"}, "beta_min must be a number, got 'low'"),
        (
            {"beta_min": 2.0},
            "beta_min and beta_max must satisfy 0 < beta_min <= beta_max, got 2.0 and 1.0; beta is 1 / gamma and grows "
            "during annealing",
        ),
        ({"null_probability": 0.0}, "null_probability must lie between 0 and 1, got 0.0; try 0.1"),
        ({"null_probability": 1.0}, "null_probability must lie between 0 and 1, got 1.0; try 0.1"),
        ({"threshold": 1.5}, "threshold must lie in [0, 1], got 1.5"),
        ({"threshold": -0.1}, "threshold must lie in [0, 1], got -0.1"),
        ({"alpha": math.nan}, "alpha must lie in [0, 1], got nan"),
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"iterations": 2.5}, "iterations must be an integer, got 2.5"),
        ({"model1_iterations": -1}, "model1_iterations must be at least 0, got -1"),
        ({"max_jump": 0}, "max_jump must be at least 1, got 0"),
        ({"dual_steps": -1}, "dual_steps must be at least 0, got -1"),
        ({"stem_strength": -1.0}, "stem_strength must be at least 0, got -1.0"),
        ({"cognate_strength": math.nan}, "cognate_strength must be at least 0, got nan"),
        ({"step_size": 0.0}, "step_size must be positive, got 0.0"),
        ({"max_fertility": -1.0}, "max_fertility must be positive, got -1.0"),
        ({"max_length": 0}, "max_length must be at least 1, got 0; None sets no limit"),
        ({"n_threads": 0}, "n_threads must be at least 1, got 0; None sets no limit"),
        ({"n_threads": 1.5}, "n_threads must be an integer, got 1.5"),
        ({"iterations": True}, "iterations must be an integer, got True"),
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
            "target must be given when source is a sequence of lines; or pass one Bitext",
        ),
        (
            lambda aligner: aligner.fit(["a", "b"], ["c"]),
            "source_lines and target_lines must pair up, but have 2 and 1 lines; check which line was lost",
        ),
        (
            lambda aligner: aligner.fit(["a"], ["b"], sample_weight=[1.0, 2.0]),
            "sample_weight must hold 1 finite numbers of at least 0, one per sentence pair, got an array of shape (2,) "
            "with minimum 1",
        ),
        (
            lambda aligner: aligner.fit(["a"], ["b"], sample_weight=[-1.0]),
            "sample_weight must hold 1 finite numbers of at least 0, one per sentence pair, got an array of shape (1,) "
            "with minimum -1",
        ),
        (
            lambda aligner: aligner.fit(["a"], ["b"], known=[]),
            "known must have one entry per sentence pair (1), got 0; use None where unknown",
        ),
        (
            lambda aligner: aligner.fit(["a"], ["b c"], known=[[(0, 2)]]),
            "known links must lie inside their sentences, got 0-2 for a pair of 1 and 2 words; count words from 0",
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
    given = {"threshold": 0.123, "iterations": 1, "n_threads": 1}
    fitted = WordAligner(**given).fit(["a"], ["b"])
    assert {name: fitted.get_params()[name] for name in given} == given
    assert not hasattr(clone(fitted), "params_")


def test_fitting_twice_is_fitting_once():
    aligner = make(iterations=1)
    first = aligner.fit(SMALL.source, SMALL.target).params_
    again = aligner.fit(SMALL.source, SMALL.target).params_
    assert np.array_equal(first.forward.translation, again.forward.translation)
    assert len(aligner.history_) == 6


def test_iter_predict_gives_the_same_links_piece_by_piece(fitted, monkeypatch):
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 1500)
    parts = list(fitted.iter_predict(BITEXT.source, BITEXT.target))
    assert len(parts) > 3
    whole = fitted.predict(BITEXT.source, BITEXT.target)
    pieces = itertools.chain.from_iterable([piece.pairs(n) for n in range(piece.n_sentences)] for piece in parts)
    assert list(pieces) == [whole.pairs(n) for n in range(whole.n_sentences)]
