"""Masked and fixed entries survive fitting exactly, and the rest of their rows is learnt right."""

import numpy as np
import pytest
from tagging_oracles import make_problem, no_counts

from spectrem.corpus import Local
from spectrem.exceptions import InvalidInputError
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.priors import DirichletPrior, MeanFieldPrior
from spectrem.models.tagging import (
    HMMModel,
    Lexicon,
    TagKernel,
    build_shards,
    posterior_uniform,
    random_counts,
    supervised,
    unambiguous,
    uniform,
)

SHAPES = {"initial": (3,), "transition": (3, 3), "second": (3, 3), "emission": (12,)}


def kept(shape, entries):
    """What a table keeps, by entry."""
    table = np.full(shape, np.nan)
    for at, value in entries.items():
        table[at] = value
    return table


def restricted_problem(order, prior=None):
    """Impossible and fixed entries in every table; every word keeps a possible state."""
    rules = {
        "initial": kept((3,), {1: 0.0, 2: 0.25}),
        "transition": kept((3,) * (order + 1), {(0,) * order + (2,): 0.0, (1,) * order + (0,): 0.3}),
        # cells of the dictionary: 0 | 0 1 2 | 0 2 | 1 | 1 2
        "emission": kept((9,), {2: 0.0, 1: 0.2}),
    }
    if order == 2:
        rules["second"] = kept((3, 3), {(2, 2): 0.0, (0, 0): 0.125})
    prior = prior or DirichletPrior(0.01)
    lengths = (4, 2, 5, 1, 3, 6)
    return make_problem(
        order,
        11,
        lengths=lengths,
        restrictions=rules,
        initial_prior=prior,
        transition_prior=prior,
        emission_prior=prior,
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("prior", [DirichletPrior(0.5), MeanFieldPrior(0.4)], ids=["map", "mean field"])
def test_restrictions_survive_em_exactly(order, compiled, prior):
    model, shards, params = restricted_problem(order, prior)
    # the lexicon's labels may need what is impossible now: keep the sentences that stay possible
    params = model.restrict(params)
    possible = []
    for shard in shards:
        structure, scores = model.structure(shard), model.scores(params, shard)
        keep = np.isfinite(structure.smoothed_max(scores, 1.0)[0])
        tokens = np.repeat(keep, shard.lengths)
        possible += build_shards(model.lexicon, shard.lengths[keep], shard.entries[tokens])
    estep = EStep(kernel=TagKernel(model) if compiled else None)
    result = run_em(model, possible, params, estep, stopping=Stopping(5, tol=0.0))
    for fitted in (params, result.params):
        assert fitted.initial[1] == 0.0
        assert fitted.initial[2] == 0.25
        assert fitted.transition[(0,) * order + (2,)] == 0.0
        assert fitted.transition[(1,) * order + (0,)] == 0.3
        assert (fitted.emission[2], fitted.emission[1]) == (0.0, 0.2)
        if order == 2:
            assert (fitted.second[2, 2], fitted.second[0, 0]) == (0.0, 0.125)
    assert not np.array_equal(result.params.transition, params.transition)
    if isinstance(prior, DirichletPrior):
        np.testing.assert_allclose(result.params.transition.sum(axis=-1), 1.0)
        np.testing.assert_allclose(np.bincount(model.lexicon.cell_states, result.params.emission), 1.0)
        np.testing.assert_allclose(result.params.initial.sum(), 1.0)


def test_free_entries_share_what_is_left_in_proportion_without_pseudo_counts_for_the_impossible():
    rule = np.array([[0.0, np.nan, np.nan], [np.nan, 0.4, np.nan], [0.5, 0.25, 0.25]])
    model = HMMModel(Lexicon.full(2, 3), 1, transition_prior=DirichletPrior(1.0), restrictions={"transition": rule})
    counts = no_counts(model)
    counts.transition[:] = [[7, 1, 3], [2, 9, 0], [5, 5, 5]]
    found = model.m_step(None, counts, None).transition
    np.testing.assert_allclose(found, [[0, 2 / 6, 4 / 6], [0.6 * 3 / 4, 0.4, 0.6 * 1 / 4], [0.5, 0.25, 0.25]])
    counts.transition[:] = 0
    model = HMMModel(Lexicon.full(2, 3), 1, restrictions={"transition": rule})
    np.testing.assert_allclose(
        model.m_step(None, counts, None).transition, [[0, 0.5, 0.5], [0.3, 0.4, 0.3], [0.5, 0.25, 0.25]]
    )


def test_starts_respect_restrictions():
    model, _, params = restricted_problem(1)
    lexicon, entries = model.lexicon.with_entries([0, 1], [(0,), (1,)])
    labelled = Local(build_shards(lexicon, [2], entries))
    model = HMMModel(lexicon, 1, restrictions=model.restrictions)
    starts = [
        model.restrict(params),
        uniform(model),
        uniform(model, perturbation=0.1, rng=np.random.default_rng(0)),
        random_counts(model, np.random.default_rng(1)),
        supervised(model, labelled, smoothing=0.1),
        posterior_uniform(model, labelled),
        unambiguous(model, labelled, smoothing=0.1),
    ]
    for start in starts:
        assert (start.transition[0, 2], start.transition[1, 0]) == (0.0, 0.3)
        assert (start.initial[1], start.initial[2]) == (0.0, 0.25)
        assert (start.emission[2], start.emission[1]) == (0.0, 0.2)
        np.testing.assert_allclose(start.transition.sum(axis=1), 1.0)
    assert starts[1].transition.tolist() == [[0.5, 0.5, 0.0], [0.3, 0.35, 0.35], [1 / 3] * 3]


def test_a_fixed_row_leaves_nothing_to_free_entries():
    model = HMMModel(Lexicon.full(2, 2), 1, restrictions={"initial": np.array([1.0, np.nan])})
    assert uniform(model).initial.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "rule", "message"),
    [
        ("initial", np.zeros(3), r"initial.impossible must leave an entry.*the only row has none"),
        (
            "transition",
            kept((3, 3), {1: 0.0}),
            r"transition.impossible must leave an entry in every row; row \[1\] has none left; leave at least one",
        ),
        (
            "emission",
            np.where(np.arange(12) % 3 == 2, 0.0, np.nan),
            r"emission.impossible must leave an entry in every row; state 2 has none left",
        ),
        (
            "initial",
            kept(3, {1: -0.1}),
            r"initial.values must be probabilities in \[0, 1\] where fixed; got -0.1 at flat index 1",
        ),
        ("initial", kept(3, {1: np.inf}), r"where fixed; got inf at flat index 1"),
        (
            "transition",
            kept((3, 3), {(2, 0): 0.6, (2, 1): 0.6}),
            r"transition.values must sum to at most 1 in every row; got 1.2 in row \[2\]; scale them down",
        ),
        (
            "initial",
            np.full(3, 0.3),
            r"initial.values must sum to 1 in a row without free entries; got 0.9 in the only row; raise them",
        ),
    ],
)
def test_bad_restrictions(name, rule, message):
    with pytest.raises(InvalidInputError, match=message):
        HMMModel(Lexicon.full(4, 3), 1, restrictions={name: rule})


def test_a_row_of_order_2_is_named_by_both_states():
    rule = kept((3, 3, 3), {(2, 1): 0.0})
    with pytest.raises(InvalidInputError, match=r"row \[2, 1\] has none left"):
        HMMModel(Lexicon.full(4, 3), 2, restrictions={"transition": rule})


def test_states_without_words_have_no_emission_row_to_restrict():
    lexicon = Lexicon.from_allowed([0, 1], [1], n_states=2)
    model = HMMModel(lexicon, 1, restrictions={"emission": np.array([np.nan])})
    assert uniform(model).emission.tolist() == [1.0]
