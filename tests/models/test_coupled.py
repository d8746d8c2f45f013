"""The compiled E-step against the generic path, and against the papers' algorithm by enumeration."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from bitext_oracles import (
    KINDS,
    NULL,
    assert_same_counts,
    corpus_counts,
    dense,
    literal,
    make_bitext,
    make_model,
    make_problem,
    random_parameters,
    sentences,
)

from spectrem.constraints import agreement, compile_constraints, fertility
from spectrem.data import Links
from spectrem.inference import FixedStep, project_batch
from spectrem.models.alignment import Anchors, CoupledKernel, build_shards, coupled

CONSTRAINTS = {
    "none": {},
    "agreement": {"agreement": True},
    "fertility": {"max_fertility": 0.8},
    "both": {"agreement": True, "max_fertility": 0.8},
}
GAMMAS = (0.3, 1.0, 2.5)


def rows_of(kernel, structure):
    made = ([agreement()] if kernel.agreement else []) + (
        [fertility(kernel.max_fertility)] if kernel.max_fertility < np.inf else []
    )
    return compile_constraints(made, structure) if made else None


def generic(kernel, params, shard, gamma):
    """Statistics, objective, free objective, violation and posteriors by ``project``."""
    model = kernel.model
    structure, scores = model.structure(shard), model.scores(params, shard)
    weights = shard.weights
    projection = project_batch(
        structure, scores, rows_of(kernel, structure), gamma, solver=FixedStep(kernel.steps, kernel.step_size),
        weights=weights,
    )  # fmt: skip
    free, _ = structure.smoothed_max(scores, gamma)
    return (
        corpus_counts(model.gather(params, shard, projection.marginals), model.table),
        weights @ projection.objectives,
        weights @ free,
        projection.violation,
        model.cell_masses(shard, projection.marginals),
    )


def assert_equal_paths(kernel, params, shard, gamma, rtol=1e-8):
    result = kernel.prepare(params, gamma)(shard)
    counts, objective, free, violation, masses = generic(kernel, params, shard, gamma)
    assert_same_counts(corpus_counts(result.stats, kernel.model.table), counts, rtol=rtol, atol=1e-10)
    assert result.objective == pytest.approx(objective, rel=1e-9, abs=1e-9)
    assert result.free_objective == pytest.approx(free, rel=1e-9, abs=1e-9)
    assert result.violation == pytest.approx(violation, rel=1e-7, abs=1e-9)
    for got, expected in zip(kernel.posteriors(params, shard, gamma), masses, strict=True):
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-10)
    return result


def random_lengths(rng, n_pairs):
    lengths = rng.integers(1, 9, (n_pairs, 2))
    lengths[rng.random(n_pairs) < 0.25, 0] = 1
    lengths[rng.random(n_pairs) < 0.25, 1] = 1
    return [tuple(pair) for pair in lengths.tolist()]


@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_generic_path(kind, gamma, constraints):
    rng = np.random.default_rng(17)
    for n_pairs in (1, 3, 8, 9, 20):
        model, shard, params = make_problem(
            kind, random_lengths(rng, n_pairs), seed=n_pairs, max_jump=int(rng.integers(1, 6))
        )
        result = assert_equal_paths(CoupledKernel(model, **CONSTRAINTS[constraints]), params, shard, gamma)
    if constraints == "none":
        assert result.violation == 0.0
        assert result.objective == result.free_objective
    else:
        assert result.objective < result.free_objective


@pytest.mark.parametrize("max_jump", [1, 2, 5])
def test_sentences_much_longer_than_the_widest_jump(max_jump):
    """Jumps that share a potential are summed up, which groups of short sentences are not worth."""
    model, shard, params = make_problem("hmm", [(30, 19), (17, 31), (24, 24), (2, 33)], seed=4, max_jump=max_jump)
    assert_equal_paths(CoupledKernel(model, agreement=True), params, shard, 1.0)


@pytest.mark.parametrize("steps", [0, 1, 2, 30])
@pytest.mark.parametrize("step_size", [0.1, 1.0])
def test_every_number_of_steps_and_step_size(steps, step_size):
    rng = np.random.default_rng(steps)
    model, shard, params = make_problem("hmm", random_lengths(rng, 6), seed=3)
    kernel = CoupledKernel(model, agreement=True, max_fertility=1.0, steps=steps, step_size=step_size)
    assert_equal_paths(kernel, params, shard, 1.0)


def literal_estep(sides, source, target, *, gamma, steps, step_size, agree, most):
    """[Samdani2012] algorithm 3, with fertility rows beside those of agreement, by enumeration."""
    price = np.zeros((len(source), len(target)))
    limit = [np.zeros(len(source)), np.zeros(len(target))]
    for step in range(steps + 1):
        paid = (price.T + limit[0], -price + limit[1])  # by step (word produced) and state (word chosen)
        found = [
            side.distribution(states, steps_, gamma, price=p)
            for side, (states, steps_), p in zip(sides, ((source, target), (target, source)), paid, strict=True)
        ]
        links = np.zeros((2, len(source), len(target)))
        for direction, (every, q, _) in enumerate(found):
            for choices, probability in zip(every, q, strict=True):
                for s, i in enumerate(choices):
                    if i != NULL:
                        links[(direction, s, i) if direction else (direction, i, s)] += probability
        chosen = links[0].sum(axis=1), links[1].sum(axis=0)
        dual = found[0][2] + found[1][2] + sum(bound.sum() * most for bound in limit if bound.any())
        if step < steps:
            if agree:
                price += step_size * (links[0] - links[1])
            if most < np.inf:
                limit = [np.maximum(0, b + step_size * (c - most)) for b, c in zip(limit, chosen, strict=True)]
    gaps = ([np.abs(links[0] - links[1]).max()] if agree else []) + (
        [max(c.max() for c in chosen) - most] if most < np.inf else []
    )
    return found, links, dual, max([0.0, *gaps])


@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_algorithm_of_the_paper(kind, gamma, constraints):
    model, shard, params = make_problem(kind, [(2, 3), (1, 1), (3, 2), (1, 3)], seed=5)
    options = CONSTRAINTS[constraints]
    kernel = CoupledKernel(model, steps=4, step_size=0.7, **options)
    table, sides = model.table, literal(kind, model.table, params)
    counts = [{name: {} for name in ("links", "null", "jumps", "departures", "ends")} for _ in range(2)]
    masses, objective, violation = [], 0.0, 0.0
    for (source, target), weight in zip(sentences(shard), shard.pairs.weights, strict=True):
        found, links, dual, gap = literal_estep(
            sides, source, target, gamma=gamma, steps=4 if options else 0, step_size=0.7,
            agree=kernel.agreement, most=kernel.max_fertility,
        )  # fmt: skip
        for k, (states, steps) in enumerate(((source, target), (target, source))):
            every, q, _ = found[k]
            sides[k].add_counts(states, steps, zip(every, weight * q, strict=True), counts[k])
        masses.append(links.reshape(2, -1))
        objective += weight * dual
        violation = max(violation, gap)
    result = kernel.prepare(params, gamma)(shard)
    pairs = list(zip(table.sources.tolist(), table.targets.tolist(), strict=True))
    expected = [
        dense(counts[0], sides[0], table.n_target_words, 3, pairs),
        dense(counts[1], sides[1], table.n_source_words, 3, [(f, e) for e, f in pairs]),
    ]
    assert_same_counts(corpus_counts(result.stats, table), expected, rtol=1e-8, atol=1e-11)
    assert result.objective == pytest.approx(objective, rel=1e-9)
    assert result.violation == pytest.approx(violation, abs=1e-9)
    for got, literal_masses in zip(
        kernel.posteriors(params, shard, gamma), np.concatenate(masses, axis=1), strict=True
    ):
        np.testing.assert_allclose(got, literal_masses, rtol=1e-8, atol=1e-11)


def test_many_steps_reach_agreement():
    model, shard, params = make_problem("hmm", [(3, 3), (2, 4)], seed=6)
    few, many = (
        CoupledKernel(model, agreement=True, steps=steps, step_size=1.0).prepare(params, 1.0)(shard)
        for steps in (2, 2000)
    )
    assert many.violation < 1e-6 < few.violation
    structure, scores = model.structure(shard), model.scores(params, shard)
    exact = project_batch(structure, scores, compile_constraints([agreement()], structure))
    assert many.objective == pytest.approx(shard.weights @ exact.objectives, rel=1e-9)


def test_the_order_of_pairs_in_groups_does_not_matter():
    """A pair padded by its group has the posteriors that it has alone."""
    rng = np.random.default_rng(8)
    model, shard, params = make_problem("hmm", random_lengths(rng, 13), seed=8)
    kernel = CoupledKernel(model, agreement=True, max_fertility=0.9)
    together = kernel.posteriors(params, shard, 1.0)
    for n in range(13):
        alone = kernel.posteriors(params, shard.select(np.array([n])), 1.0)
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[slice(*shard.pairs.cell_offsets[n : n + 2])], b, rtol=1e-10, atol=1e-14)


def record_pairs_alone(monkeypatch):
    """Source lengths of the pairs that are solved without a group, call by call."""
    calls, take_steps = [], CoupledKernel._take_steps

    def recorded(self, params, shard, gamma, weights):
        calls.append(shard.source_lengths.tolist())
        return take_steps(self, params, shard, gamma, weights)

    monkeypatch.setattr(CoupledKernel, "_take_steps", recorded)
    return calls


@pytest.mark.parametrize("kind", KINDS)
def test_long_pairs_are_solved_without_a_group(kind, monkeypatch):
    rng = np.random.default_rng(9)
    model, shard, params = make_problem(kind, random_lengths(rng, 12), seed=9)
    kernel = CoupledKernel(model, agreement=True, max_fertility=0.9)
    before = kernel.prepare(params, 1.0)(shard)
    posteriors = kernel.posteriors(params, shard, 1.0)
    calls = record_pairs_alone(monkeypatch)
    for limit in (0, 9):
        monkeypatch.setattr(coupled, "_MOST_CELLS", limit)
        calls.clear()
        after = kernel.prepare(params, 1.0)(shard)
        assert calls == [shard.source_lengths[shard.source_lengths * shard.target_lengths > limit].tolist()]
        assert_same_counts(corpus_counts(after.stats, model.table), corpus_counts(before.stats, model.table), rtol=1e-8)
        assert after.objective == pytest.approx(before.objective, rel=1e-10)
        assert after.violation == pytest.approx(before.violation, rel=1e-8)
        for a, b in zip(kernel.posteriors(params, shard, 1.0), posteriors, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


def extreme(params, **changes):
    return replace(params, forward=replace(params.forward, **changes))


@pytest.mark.parametrize("constraints", CONSTRAINTS)
def test_totals_that_underflow_are_solved_without_a_group(constraints, monkeypatch):
    """One pair of a group has a total that no double holds; the others do not notice."""
    model, shard, params = make_problem("hmm", [(4, 4), (1, 1), (3, 4), (4, 3)], seed=10, max_jump=2)
    params = extreme(params, end=np.array([1e-200, 1e-200, 1.0]))
    assert_equal_paths(CoupledKernel(model, **CONSTRAINTS[constraints]), params, shard, 0.3)
    calls = record_pairs_alone(monkeypatch)
    CoupledKernel(model).prepare(params, 0.3)(shard)
    assert calls == [[1]]


@pytest.mark.parametrize("kind", ["ibm2", "hmm"])
def test_potentials_that_overflow_are_solved_without_a_group(kind):
    """Jumps that are never made have departures so large that a power of them is not finite."""
    model, shard, params = make_problem(kind, [(4, 4), (1, 1), (3, 4), (2, 2), (4, 3)], seed=10, max_jump=2)
    tiny = np.array([1e-120, 1e-120, 1e-120, 1.0, 1e-120])
    params = extreme(params, jump=tiny / tiny.sum(), null=params.forward.null * 1e-9)
    assert_equal_paths(CoupledKernel(model, agreement=True), params, shard, 0.3)


def test_very_small_gammas_are_solved_without_groups():
    model, shard, params = make_problem("hmm", [(4, 4), (1, 1), (3, 4)], seed=11)
    assert_equal_paths(CoupledKernel(model, agreement=True), params, shard, 0.02, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_with_an_empty_side(kind):
    lengths = [(0, 0), (3, 0), (0, 3), (2, 2), (0, 1), (1, 0)]
    model, shard, params = make_problem(kind, lengths, seed=12)
    for options in CONSTRAINTS.values():
        assert_equal_paths(CoupledKernel(model, **options), params, shard, 1.0)


def test_a_shard_of_empty_pairs_only():
    rng = np.random.default_rng(13)
    table, _ = build_shards(make_bitext([(2, 2)], rng))
    _, (shard,) = build_shards(make_bitext([(0, 0), (0, 0)], rng), table)
    model, params = make_model("hmm", table), random_parameters("hmm", table, rng)
    result = CoupledKernel(model, agreement=True).prepare(params, 1.0)(shard)
    assert (result.objective, result.free_objective, result.violation) == (0.0, 0.0, 0.0)


def test_weight_zero_counts_nothing():
    weights = np.array([1.0, 0.0, 2.0, 0.0])
    model, shard, params = make_problem("hmm", [(2, 3), (3, 3), (1, 2), (4, 1)], seed=14, weights=weights)
    kernel = CoupledKernel(model, agreement=True)
    with_zeros, without = (kernel.prepare(params, 1.0)(part) for part in (shard, shard.select(np.array([0, 2]))))
    counts = [corpus_counts(result.stats, model.table) for result in (with_zeros, without)]
    for side, other in zip(*counts, strict=True):
        for a, b in zip(side, other, strict=True):
            np.testing.assert_allclose(a.sum(), b.sum(), rtol=1e-10)
    assert with_zeros.objective == pytest.approx(without.objective, rel=1e-12)


def test_known_pairs_stand():
    rng = np.random.default_rng(16)
    bitext = make_bitext([(2, 2)], rng)
    table, (shard,) = build_shards(bitext, anchors=Anchors(Links.from_pairs([[(0, 1)]]), np.array([True])))
    model, params = make_model("hmm", table), random_parameters("hmm", table, rng)
    result = CoupledKernel(model, agreement=True, max_fertility=0.5).prepare(params, 1.0)(shard)
    assert result.stats.forward.links.sum() == pytest.approx(1.0)
    assert result.stats.forward.null.sum() == pytest.approx(1.0)
    assert result.violation == 0.0


def test_every_combination_of_short_lengths():
    lengths = list(itertools.product([1, 2, 3], repeat=2))
    model, shard, params = make_problem("hmm", lengths, seed=18, max_jump=1)
    assert_equal_paths(CoupledKernel(model, agreement=True, max_fertility=1.0), params, shard, 1.0)
