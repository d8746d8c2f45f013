"""Known links of some words of a sentence pair: every path against the alignments that have them, one by one."""

import itertools

import numpy as np
import pytest
from bitext_oracles import KINDS, literal, make_bitext, make_model, random_parameters, sentences
from esteps import by_kernel, in_general

from spectrem.constraints import agreement, fertility
from spectrem.data import Links
from spectrem.exceptions import InfeasibleConstraintError
from spectrem.inference import FixedStep
from spectrem.models.alignment import Anchors, CoupledKernel, build_shards
from spectrem.structures import Parts

LENGTHS = [(3, 3), (2, 3), (3, 2), (3, 3), (1, 2), (0, 2), (2, 2)]
LINKS = [[(0, 2)], [], [(0, 0), (2, 0)], [(0, 1), (1, 0), (1, 1)], [(0, 1)], [], [(0, 0), (1, 1)]]


def make_problem(kind, links=LINKS, seed=0, complete=()):
    rng = np.random.default_rng(seed)
    bitext = make_bitext(LENGTHS, rng)
    mask = np.isin(np.arange(len(LENGTHS)), complete)
    anchors = Anchors(Links.from_pairs(links), mask)
    table, (shard,) = build_shards(bitext, weights=rng.uniform(0.5, 2.0, len(LENGTHS)), anchors=anchors)
    return make_model(kind, table), shard, random_parameters(kind, table, rng)


def is_consistent(choices, links, backward, complete=False):
    """Whether every anchored word chooses one of its anchors, and no other word an anchored one."""
    own = [(j, i) if not backward else (i, j) for i, j in links]
    chosen_by, taken = {k for k, _ in own}, {c for _, c in own}
    for k, choice in enumerate(choices):
        if k in chosen_by:
            if (k, choice) not in own:
                return False
        elif choice != -1 and (choice in taken or complete):
            return False
    return True


def conditioned(kind, model, shard, params, gamma, complete=()):
    """Posteriors of every cell given the anchors, by enumeration, and the smoothed maxima of both directions."""
    masses, values = [[], []], []
    for n, (source, target) in enumerate(sentences(shard)):
        value = 0.0
        for backward, side in enumerate(literal(kind, model.table, params)):
            states, steps = (target, source) if backward else (source, target)
            every = [
                choices
                for choices in side.alignments(states, steps)
                if is_consistent(choices, LINKS[n], backward, n in complete)
            ]
            scores = np.array([side.log_probability(states, steps, choices) for choices in every])
            top = scores.max()
            raw = np.exp((scores - top) / gamma)
            value += top + gamma * np.log(raw.sum())
            mass = np.zeros((len(source), len(target)))
            for choices, q in zip(every, raw / raw.sum(), strict=True):
                for k, choice in enumerate(choices):
                    if choice >= 0:
                        mass[(k, choice) if backward else (choice, k)] += q
            masses[backward].append(mass.ravel())
        values.append(value)
    return [np.concatenate(side) for side in masses], np.array(values)


@pytest.mark.parametrize("gamma", [0.05, 0.4, 1.0, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_posteriors_are_those_of_the_alignments_that_have_the_anchors(kind, gamma):
    complete = (6,)
    model, shard, params = make_problem(kind, complete=complete)
    expected, values = conditioned(kind, model, shard, params, gamma, complete)
    structure, scores = model.structure(shard), model.scores(params, shard)
    found, marginals = structure.smoothed_max(scores, gamma)
    np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-9)
    for got, wanted in zip(model.cell_masses(shard, marginals), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
    for got, wanted in zip(CoupledKernel(model).posteriors(params, shard, gamma), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-12)
    (result,) = by_kernel(CoupledKernel(model), params, gamma, [shard])
    assert result.free_objective == pytest.approx(shard.pairs.weights @ values, rel=1e-9)


def test_the_structure_enumerates_the_same_alignments():
    model, shard, _ = make_problem("hmm")
    allowed = Parts(np.where(shard.anchors.allowed(shard.pairs), 0.0, -np.inf))
    structure = model.structure(shard)
    for member, unary, backward in zip(
        structure.members.values(), np.split(allowed.unary, [structure.members["forward"].n_unary]), (0, 1), strict=True
    ):
        for n, (source, target) in enumerate(sentences(shard)):
            states, steps = (target, source) if backward else (source, target)
            every = itertools.product([*range(len(states)), -1], repeat=len(steps))
            for indicator, choices in zip(member.enumerate(n), every, strict=True):
                possible = bool((unary[indicator.unary > 0] == 0.0).all())
                assert possible == is_consistent(choices, LINKS[n], backward)


@pytest.mark.parametrize("constraints", [(True, np.inf), (False, 1.0), (True, 1.0)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_compiled_e_step_is_the_general_one(kind, constraints):
    """Anchored pairs take part in constraints; pairs of which all links are given do not."""
    agree, most = constraints
    single = [[] if n in (2, 3) else own for n, own in enumerate(LINKS)]  # several anchors cannot agree
    model, shard, params = make_problem(kind, single, complete=(6,))
    kernel = CoupledKernel(model, agreement=agree, max_fertility=most)
    rows = [agreement()] * agree + ([fertility(most)] if most < np.inf else [])
    (fast,) = by_kernel(kernel, params, 1.0, [shard])
    (slow,) = in_general(model, params, 1.0, [shard], *rows, solver=FixedStep(5, 1.0), infeasible="skip")
    assert fast.objective == pytest.approx(slow.objective, rel=1e-8)
    assert fast.free_objective == pytest.approx(slow.free_objective, rel=1e-9)
    for side in ("forward", "backward"):
        for name in ("links", "null", "jumps", "ends"):
            got, wanted = (getattr(getattr(result.stats, side), name) for result in (fast, slow))
            np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9, err_msg=f"{side} {name}")


def test_pairs_that_no_group_can_hold_are_held_to_their_anchors_too(monkeypatch):
    model, shard, params = make_problem("hmm", complete=(6,))
    kernel = CoupledKernel(model, agreement=True)
    together = kernel.posteriors(params, shard, 1.0)
    monkeypatch.setattr("spectrem.models.alignment.coupled._MOST_CELLS", 5)
    for a, b in zip(together, kernel.posteriors(params, shard, 1.0), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


def test_a_word_with_several_anchors_shares_its_mass():
    model, shard, params = make_problem("hmm")
    forward, backward = CoupledKernel(model, agreement=True).posteriors(params, shard, 1.0)
    own = slice(*shard.pairs.cell_offsets[2:4])
    forward, backward = forward[own].reshape(3, 2), backward[own].reshape(3, 2)
    assert forward[[0, 2], 0].sum() == pytest.approx(1.0)  # target word 0 chooses one of both
    np.testing.assert_allclose(backward[[0, 2], 0], 1.0, rtol=1e-9)
    assert forward[1, 0] == backward[1, 0] == forward[0, 1] == backward[0, 1] == 0.0


def test_exact_agreement_cannot_hold_for_a_word_with_several_anchors():
    model, shard, params = make_problem("hmm")
    with pytest.raises(InfeasibleConstraintError, match="agreement"):
        in_general(model, params, 1.0, [shard], agreement())
    (found,) = in_general(model, params, 1.0, [shard], agreement(), infeasible="skip")
    assert found.skipped


def test_links_of_anchored_words_give_way():
    anchors = Anchors(Links.from_pairs([[(0, 1)], []]), np.zeros(2, np.bool_))
    links = Links.from_pairs([[(0, 0), (1, 1), (2, 2)], [(0, 1)]])
    held = anchors.impose(links, 0)
    assert [held.pairs(n) for n in range(2)] == [[(0, 1), (2, 2)], [(0, 1)]]


def test_masses_of_a_single_pair():
    rng = np.random.default_rng(3)
    forward, backward = rng.uniform(0.1, 0.5, (2, 3, 4))
    free = forward[2, 3]
    anchors = Anchors(Links.from_pairs([[(0, 0), (0, 1), (1, 1)]]), np.zeros(1, np.bool_))
    anchors.impose_on_masses(forward, backward)
    assert forward.tolist() == [[1.0, 0.5, 0.0, 0.0], [0.0, 0.5, 0.0, 0.0], [0.0, 0.0, *forward[2, 2:]]]
    assert backward[:2].tolist() == [[0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    assert forward[2, 3] == free
