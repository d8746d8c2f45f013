"""Scores, counts and M-steps of the aligners against their definitions, alignment by alignment."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from bitext_oracles import (
    KINDS,
    assert_same_counts,
    corpus_counts,
    literal,
    literal_counts,
    make_bitext,
    make_model,
    make_problem,
    random_parameters,
    sentences,
    with_weights,
)
from esteps import by_kernel, in_general

from spectrem.constraints import fertility
from spectrem.data import Links
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.alignment import Anchors, CoupledKernel, build_shards, lexical_priors
from spectrem.structures import Alignment
from spectrem.testing import check_model, enumerate_structures

LENGTHS = [(2, 3), (1, 1), (3, 2), (1, 3), (3, 1), (0, 2), (2, 0)]


def choices_in_order(n_states, n_steps):
    """Alignments as ``enumerate_structures`` lists them: NULL comes last."""
    return [
        tuple(-1 if i == n_states else i for i in a) for a in itertools.product(range(n_states + 1), repeat=n_steps)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_jump", [1, 2, 5])
def test_scores_are_log_probabilities_of_every_alignment(kind, max_jump):
    model, shard, params = make_problem(kind, LENGTHS, seed=0, max_jump=max_jump)
    structure, scores = model.structure(shard), model.scores(params, shard)
    for side, part, part_scores, backward in zip(
        literal(kind, model.table, params),
        structure.members.values(),
        structure.split(scores),
        (False, True),
        strict=True,
    ):
        assert isinstance(part, Alignment)
        assert part.reverse == backward
        for n, (source, target) in enumerate(sentences(shard)):
            states, steps = (target, source) if backward else (source, target)
            for indicator, choices in zip(
                enumerate_structures(part, n), choices_in_order(len(states), len(steps)), strict=True
            ):
                expected = side.log_probability(states, steps, choices)
                assert part_scores.dot(indicator) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_model_1_has_uniform_positions_whatever_the_sentence():
    model, shard, _ = make_problem("ibm1", LENGTHS, seed=1)
    start = model.initial(null_probability=0.2)
    assert np.ptp(start.forward.jump) == 0.0
    structure, scores = model.structure(shard), model.scores(start, shard)
    total = model.gather(start, shard, structure.smoothed_max(scores, 1.0)[1])
    assert np.array_equal(model.m_step(start, total, None).forward.jump, start.forward.jump)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("max_jump", [1, 4])
def test_gather_is_expected_counts(kind, gamma, max_jump):
    model, shard, params = make_problem(kind, LENGTHS, seed=2, max_jump=max_jump)
    structure, scores = model.structure(shard), model.scores(params, shard)
    values, marginals = structure.smoothed_max(scores, gamma, weights=shard.weights)
    expected, value = literal_counts(kind, model, params, shard, gamma)
    assert_same_counts(corpus_counts(model.gather(params, shard, marginals), model.table), expected)
    assert shard.weights @ values == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_words_never_met_have_the_floor_probability(kind):
    rng = np.random.default_rng(3)
    old = make_bitext([(2, 2), (1, 2)], rng, 3, 3)
    table, _ = build_shards(old)
    model, params = make_model(kind, table), random_parameters(kind, table, rng)
    new = replace(
        make_bitext([(2, 2)], rng, 3, 3),
        source_tokens=np.array([-1, 0], np.int32),
        target_tokens=np.array([-1, 1], np.int32),
    )
    _, (shard,) = build_shards(new, table)
    structure, scores = model.structure(shard), model.scores(params, shard)
    side = literal(kind, table, params)[0]
    part, forward = structure.members["forward"], structure.split(scores)[0]
    assert side.null[-1] == 1e-12  # of unknown words, number -1
    for indicator, choices in zip(enumerate_structures(part, 0), choices_in_order(2, 2), strict=True):
        assert forward.dot(indicator) == pytest.approx(side.log_probability([-1, 0], [-1, 1], choices), rel=1e-12)


def perturbed(side, row, rng, *, jumps):
    """One direction's parameters, all a little different and normalised."""

    def noisy(values):
        return values * rng.uniform(0.8, 1.25, len(values))

    translation, null = noisy(side.translation[:-1]), noisy(side.null[:-1])
    jump, end = noisy(side.jump) if jumps else side.jump, noisy(side.end)
    return replace(
        side,
        translation=np.append(translation / np.bincount(row, translation)[row], side.translation[-1]),
        null=np.append(null / null.sum(), side.null[-1]),
        jump=jump / jump.sum(),
        end=end / end.sum(),
    )


@pytest.mark.usefixtures("process_kept")
@pytest.mark.parametrize("kind", KINDS)
def test_check_model(kind):
    model, shard, params = make_problem(kind, LENGTHS, seed=4)
    sources, targets = model.table.sources, model.table.targets

    def perturb(params, rng):
        return replace(
            params,
            forward=perturbed(params.forward, sources, rng, jumps=kind != "ibm1"),
            backward=perturbed(params.backward, targets, rng, jumps=kind != "ibm1"),
        )

    check_model(model, params, [shard], np.random.default_rng(5), perturb=perturb, reweigh=with_weights, iterations=4)


def log_likelihood(kind, model, params, shards):
    return sum(literal_counts(kind, model, params, shard)[1] for shard in shards)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fused", [False, True], ids=["generic", "fused"])
def test_em_never_lowers_the_likelihood(kind, fused):
    model, shard, params = make_problem(kind, LENGTHS, seed=6)
    estep = EStep(kernel=CoupledKernel(model) if fused else None)
    values = []
    for _ in range(8):
        values.append(log_likelihood(kind, model, params, [shard]))
        result = run_em(model, [shard], params, estep, stopping=Stopping(1))
        assert result.history[0].free_objective == pytest.approx(values[-1], rel=1e-12)
        params = result.params
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    assert values[-1] > values[0] + 1.0


def test_model_1_reaches_the_same_likelihood_from_any_start():
    model, shard, _ = make_problem("ibm1", [(2, 3), (3, 2), (1, 2), (2, 1)], seed=7)
    ends = []
    for seed in range(3):
        start = random_parameters("ibm1", model.table, np.random.default_rng(seed))
        result = run_em(model, [shard], start, EStep(kernel=CoupledKernel(model)), stopping=Stopping(3000))
        ends.append(result.history[-1].objective)
    assert np.ptp(ends) < 1e-3
    assert ends[0] > result.history[0].objective + 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_m_step_normalises(kind):
    model, shard, params = make_problem(kind, LENGTHS, seed=8, jump_pseudo_count=1.0, end_pseudo_count=0.5)
    result = run_em(model, [shard], params, stopping=Stopping(1))
    for side, row, n_rows in (
        (result.params.forward, model.table.sources, model.table.n_source_words),
        (result.params.backward, model.table.targets, model.table.n_target_words),
    ):
        sums = np.bincount(row, side.translation[:-1], n_rows)
        np.testing.assert_allclose(sums[np.bincount(row, minlength=n_rows) > 0], 1.0, atol=1e-10)
        for distribution in (side.null[:-1], side.jump, side.end):
            assert distribution.sum() == pytest.approx(1.0, abs=1e-10)
            assert (distribution > 0).all()
        assert side.null_probability == 0.3


def test_pseudo_counts_of_ends():
    model, shard, params = make_problem("hmm", LENGTHS, seed=8, end_pseudo_count=0.5)
    expected, _ = literal_counts("hmm", model, params, shard)
    result = run_em(model, [shard], params, stopping=Stopping(1))
    for side, (*_, ends) in zip((result.params.forward, result.params.backward), expected, strict=True):
        np.testing.assert_allclose(side.end, (ends + 0.5) / (ends + 0.5).sum(), rtol=1e-9)


def test_counts_of_shards_add_up(monkeypatch):
    from spectrem.models.alignment import pairs

    rng = np.random.default_rng(9)
    bitext = make_bitext(LENGTHS * 2, rng)
    table, (one,) = build_shards(bitext)
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 6)
    monkeypatch.setattr(pairs, "_MOST_CELLS", 6)
    several = build_shards(bitext)[1]
    assert len(several) > 4
    model, params = make_model("hmm", table), random_parameters("hmm", table, rng)
    alone, together = (
        run_em(model, shards, params, EStep(kernel=CoupledKernel(model)), stopping=Stopping(3))
        for shards in ([one], several)
    )
    for name in ("forward", "backward"):
        sides = [getattr(result.params, name) for result in (alone, together)]
        for owners in (sides, [side.totals for side in sides]):
            for field in fields(owners[0]):
                if field.name != "totals":
                    a, b = (getattr(owner, field.name) for owner in owners)
                    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


def complete(links):
    return Anchors(Links.from_pairs(links), np.ones(len(links), np.bool_))


@pytest.mark.parametrize("kind", KINDS)
def test_known_links_are_the_posteriors(kind):
    rng = np.random.default_rng(10)
    bitext = make_bitext([(2, 2), (3, 2), (2, 3)], rng)
    links = [[(0, 1), (2, 0)], [(0, 0), (0, 1), (1, 2)]]
    table, shards = build_shards(bitext, anchors=Anchors(Links.from_pairs([[], *links]), np.array([False, True, True])))
    model, params = make_model(kind, table), random_parameters(kind, table, rng)
    (known,) = shards
    assert model.given(known).tolist() == [False, True, True]
    known = known.select(np.array([1, 2]))
    structure, scores = model.structure(known), model.scores(params, known)
    _, marginals = structure.smoothed_max(scores, 1.0)
    forward, backward = model.cell_masses(known, marginals)
    for n, pairs_of in enumerate(links):
        shape = known.source_lengths[n], known.target_lengths[n]
        own = slice(*known.pairs.cell_offsets[n : n + 2])
        for j in range(shape[1]):
            partners = [i for i, jj in pairs_of if jj == j]
            column = forward[own].reshape(shape)[:, j]
            assert set(np.flatnonzero(column > 1e-12)) == set(partners)
            assert column.sum() == pytest.approx(1.0 if partners else 0.0)
        for i in range(shape[0]):
            partners = [j for ii, j in pairs_of if ii == i]
            row = backward[own].reshape(shape)[i]
            assert set(np.flatnonzero(row > 1e-12)) == set(partners)
            assert row.sum() == pytest.approx(1.0 if partners else 0.0)


@pytest.mark.parametrize("fused", [False, True], ids=["generic", "fused"])
def test_constraints_skip_known_pairs(fused):
    rng = np.random.default_rng(11)
    bitext = make_bitext([(2, 3)], rng)
    table, (shard,) = build_shards(bitext, anchors=complete([[(0, 0), (0, 1), (0, 2)]]))  # fertility 3
    model, params = make_model("hmm", table), random_parameters("hmm", table, rng)
    if fused:
        (result,) = by_kernel(CoupledKernel(model, max_fertility=1.0), params, 1.0, [shard])
    else:
        (result,) = in_general(model, params, 1.0, [shard], fertility(1))
    assert result.violation == 0.0
    links = np.zeros(table.n_pairs)
    links[result.stats.pair_ids] = result.stats.forward.links
    assert links.sum() == pytest.approx(3.0)
    assert result.objective == pytest.approx(result.free_objective, rel=1e-12)


def test_cell_masses_are_link_marginals():
    model, shard, params = make_problem("hmm", LENGTHS, seed=12)
    structure, scores = model.structure(shard), model.scores(params, shard)
    _, marginals = structure.smoothed_max(scores, 1.0)
    forward, backward = model.cell_masses(shard, marginals)
    columns = structure.columns
    for part in range(structure.n_unary):
        n, i, j = (columns[name][part] for name in ("sentence", "source", "target"))
        if min(i, j) < 0:
            continue
        cell = shard.pairs.cell_offsets[n] + i * shard.target_lengths[n] + j
        masses = forward if columns["direction"][part] == "forward" else backward
        assert masses[cell] == marginals.unary[part]


@pytest.mark.usefixtures("doubles")
def test_the_lexical_prior_enters_the_m_step():
    rng = np.random.default_rng(13)
    bitext = make_bitext(LENGTHS, rng)
    table, (shard,) = build_shards(bitext)
    counts = [np.bincount(t, minlength=n) for t, n in ((bitext.source_tokens, 4), (bitext.target_tokens, 5))]
    priors = lexical_priors(
        table, bitext.source_vocabulary.words, bitext.target_vocabulary.words, *counts, stem_strength=3.0
    )
    model = make_model("ibm1", table, forward_prior=priors[0], backward_prior=priors[1])
    params = random_parameters("ibm1", table, rng)
    expected, _ = literal_counts("ibm1", model, params, shard)
    result = run_em(model, [shard], params, stopping=Stopping(1))
    np.testing.assert_allclose(
        result.params.forward.translation[:-1],
        priors[0].normalise(expected[0][0], table.sources, np.diff(table.row_offsets)),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        result.params.backward.translation[:-1],
        priors[1].normalise(expected[1][0], table.targets, table.target_sizes),
        rtol=1e-9,
    )
