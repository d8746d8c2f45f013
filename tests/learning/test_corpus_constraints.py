"""Constraints over shards with a model's columns: few steps, kept multipliers, skew, and what cannot hold."""

import itertools
import warnings

import numpy as np
import pytest
from estep_helpers import of_corpus, of_shards
from toy_models import Tagger, TaggerParams, join, random_params, random_shards

from spectrem.constraints import E, at_least, compile_constraints, label_proportions, part, sparsity
from spectrem.corpus import Local
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Accelerated, Spectral, project_batch
from spectrem.learning import Anneal, Constant, EStep, Quench, Step, Stopping, pose, run_em
from spectrem.structures import Parts

SPARSE = sparsity(0.8, min_count=5)
SHARES = label_proportions({"one": (0.1, 0.2), "two": 0.3})


class Named(Tagger):
    """Tags and words with names; counts how often it is asked for them."""

    asked = 0

    def columns(self, shard):
        Named.asked += 1
        tags = np.array(["zero", "one", "two"])[: self.n_states]
        return {
            "tag": np.tile(tags, len(shard.tokens)),
            "word": np.array(["la", "si", "do"])[shard.tokens],
        }


MODEL = Named(n_states=3)


def problem(seed=0, n_shards=3, n_sentences=4):
    rng = np.random.default_rng(seed)
    shards = random_shards(rng, n_shards, n_sentences)
    return random_params(rng, 3), [shard._replace(weights=np.ones(n_sentences)) for shard in shards]


def run(params, shards, constraints, *, iterations=4, gamma=1.0, **options):
    estep = EStep(constraints, **options)
    result = run_em(MODEL, shards, params, estep, schedule=Constant(gamma), stopping=Stopping(iterations))
    return result, [r.objective for r in result.history]


def whole(params, shards, constraints, gamma=1.0):
    """The projection of all shards as one batch."""
    one = join(shards)
    structure, scores = MODEL.structure(one), MODEL.scores(params, one)
    rows = compile_constraints(constraints, structure, MODEL.columns(one))
    return project_batch(structure, scores, rows, gamma, weights=one.weights)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    "constraints", [SPARSE, SHARES, [SPARSE, *SHARES], [SPARSE, at_least(0.4, "one")]],
    ids=["sparse", "shares", "both", "inside"],
)  # fmt: skip
def test_shards_solve_what_one_batch_solves(constraints, gamma):
    params, shards = problem()
    total = of_corpus(MODEL, EStep(constraints), shards, params, gamma)
    oracle = whole(params, shards, constraints, gamma)
    assert total.objective == pytest.approx(oracle.dual_value, abs=1e-5)
    emission, free = (
        MODEL.gather(params, join(shards), projection.marginals).emission
        for projection in (oracle, whole(params, shards, [], gamma))
    )
    np.testing.assert_allclose(total.stats.emission, emission, atol=1e-4)
    assert np.abs(emission - free).max() > 0.01


FREQUENT = part("word_frequency") >= 8
BY_SHARD = {
    "frequency inside": [(E[FREQUENT & (part("tag") == "one")] <= 0.2).per("sentence")],
    "frequency": [E[FREQUENT & (part("tag") == "one")] <= 0.5],
    "document": [(E[part("tag") == "one"] >= 2).per("document")],
    "both": [(E[part("tag") == "one"] >= 2).per("document"), E[part("tag") == "two"] == 5],
}


class WithDocuments(Named):
    """Sentences have documents, marked by their weights, which are 1 but for a trace."""

    def columns(self, shard):
        return {**super().columns(shard), "document": np.round((shard.weights - 1) * 1e12).astype(int)}


@pytest.mark.parametrize("rules", BY_SHARD.values(), ids=list(BY_SHARD))
@pytest.mark.parametrize("document", [np.arange(12) // 3, np.arange(12) // 5, np.arange(12) % 4], ids=str)
def test_what_constraints_mean_does_not_depend_on_how_data_are_cut(rules, document):
    params, shards = problem(n_shards=12, n_sentences=1)
    shards = [s._replace(weights=np.array([1 + 1e-12 * d])) for s, d in zip(shards, document, strict=True)]
    model, found = WithDocuments(n_states=3), []
    for size in (12, 4, 1):
        cut = [join(shards[start : start + size]) for start in range(0, 12, size)]
        total = of_corpus(model, EStep(rules, tol=1e-9), cut, params)
        found.append((total.objective, total.stats.emission))
    for objective, emission in found[1:]:
        assert objective == pytest.approx(found[0][0], abs=1e-6)
        np.testing.assert_allclose(emission, found[0][1], atol=1e-4)


def test_many_steps_solve_and_few_steps_fall_toward_it():
    params, shards = problem()
    exact = whole(params, shards, SPARSE).dual_value
    values = [run(params, shards, SPARSE, iterations=1, dual_steps=steps)[1][0] for steps in (0, 1, 2, 4, 8, 60)]
    assert values[0] == pytest.approx(whole(params, shards, []).dual_value)
    assert (np.diff(values) < 0).all()
    assert values[-1] == pytest.approx(exact, abs=1e-6)
    assert values[3] - exact < 0.2 * (values[0] - exact)


def test_multipliers_are_kept_between_iterations():
    """Steps add up over iterations whose parameters stay where they are."""
    params, shards = problem()
    exact = whole(params, shards, SPARSE).dual_value
    estep = EStep(SPARSE, dual_steps=2)
    posed, values = pose(MODEL, Local(shards), estep), []
    for _ in range(12):
        found, posed = posed.expect(Step(MODEL, params, 1.0, estep))
        values.append(found.objective)
    assert (np.diff(values) <= 1e-12).all()
    assert values[0] - exact > 1e-3
    assert values[-1] == pytest.approx(exact, abs=1e-5)


def test_few_steps_end_where_exact_ones_do():
    params, shards = problem(5)
    exact, _ = run(params, shards, SPARSE, iterations=12, warm_start=True)
    rough, _ = run(params, shards, SPARSE, iterations=12, dual_steps=3)
    assert rough.history[-1].objective == pytest.approx(exact.history[-1].objective, rel=1e-3)


def test_violation_of_corpus_rows_is_recorded():
    params, shards = problem()
    with pytest.warns(ConvergenceWarning, match="still missed by"):
        rough, _ = run(params, shards, SHARES, iterations=1, dual_steps=0)
    exact, _ = run(params, shards, SHARES, iterations=1)
    assert rough.history[0].violation > 0.05
    assert exact.history[0].violation < 1e-6


def test_constraints_are_compiled_once():
    params, shards = problem()
    for constraints in (SPARSE, at_least(0.3, "one")):
        posed, estep = pose(MODEL, Local(shards), EStep(constraints)), EStep(constraints, dual_steps=1)
        before = Named.asked
        for _ in range(3):
            _, posed = posed.expect(Step(MODEL, params, 1.0, estep))
        assert Named.asked == before


def test_threads_give_the_same_bits():
    params, shards = problem(n_shards=5)
    one, values = run(params, shards, [SPARSE, *SHARES], dual_steps=3)
    other, also = run(params, Local(shards, 3), [SPARSE, *SHARES], dual_steps=3)
    assert values == also
    assert all(np.array_equal(a, b) for a, b in zip(one.params, other.params, strict=True))


def test_spectral_wants_one_problem():
    params, shards = problem(n_shards=1)
    structure, scores = MODEL.structure(shards[0]), MODEL.scores(params, shards[0])
    rows = compile_constraints(at_least(0.3, "one"), structure, MODEL.columns(shards[0]))
    with pytest.raises(InvalidInputError, match="Spectral solves one problem with rows over the corpus; got 4 sep"):
        project_batch(structure, scores, rows, solver=Spectral(3))
    with pytest.raises(InvalidInputError, match="steps must be at least 0; got -1; 5 to 10 are usual"):
        Spectral(-1)
    with pytest.raises(InvalidInputError, match="dual_steps must be at least 0, got -1; None solves to tol"):
        EStep(SPARSE, dual_steps=-1)


def test_spectral_is_an_exact_solver_too():
    params, shards = problem(2, n_shards=1)
    structure, scores = MODEL.structure(shards[0]), MODEL.scores(params, shards[0])
    rows = compile_constraints([SPARSE, *SHARES], structure, MODEL.columns(shards[0]))
    ours = project_batch(structure, scores, rows, solver=Spectral(2000))
    other = project_batch(structure, scores, rows, solver=Accelerated(tol=1e-10))
    assert ours.dual_value == pytest.approx(other.dual_value, abs=1e-7)


def skewed_by_enumeration(params, reference, shard, gamma):
    """Posterior of every token under q in proportion to p^beta r^(1 - beta), sequence by sequence."""
    out, begin, beta = [], 0, 1.0 / gamma
    for length in shard.lengths:
        tokens = shard.tokens[begin : begin + length]
        begin += length
        mass = np.zeros((length, 3))
        for states in itertools.product(range(3), repeat=int(length)):
            q = 1.0
            for p, power in ((params, beta), (reference, 1.0 - beta)):
                joint = p.start[states[0]] * np.prod([p.transition[a, b] for a, b in itertools.pairwise(states)])
                joint *= np.prod([p.emission[s, w] for s, w in zip(states, tokens, strict=True)])
                q *= joint**power
            mass[np.arange(length), states] += q
        out.append(mass / mass.sum(axis=1, keepdims=True))
    return np.concatenate(out)


class Marginals(Named):
    def gather(self, params, shard, marginals):
        return marginals.unary.reshape(-1, self.n_states)


def posterior(params, shard, gamma, reference, constraints=()):
    return of_corpus(Marginals(n_states=3), EStep(constraints, reference=reference), [shard], params, gamma).stats


@pytest.mark.parametrize("gamma", [1.5, 4.0, 50.0])
@pytest.mark.parametrize("zero", [False, True])
def test_skewed_annealing(gamma, zero):
    params, (shard,) = problem(3, n_shards=1)
    reference, _ = problem(4)
    if zero:
        emission = reference.emission.copy()
        emission[1, 0] = 0.0
        reference = TaggerParams(reference.start, reference.transition, emission)
    found = posterior(params, shard, gamma, lambda s: MODEL.scores(reference, s))
    np.testing.assert_allclose(found, skewed_by_enumeration(params, reference, shard, gamma), atol=1e-10)
    assert not zero or not found[shard.tokens == 0, 1].any()


def test_a_given_posterior_is_a_reference_without_factors():
    params, (shard,) = problem(3, n_shards=1)
    given = np.random.default_rng(0).dirichlet(np.ones(3), len(shard.tokens))
    found = posterior(params, shard, 1e6, lambda s: Parts(np.log(given).ravel()))
    np.testing.assert_allclose(found, given, atol=1e-4)


@pytest.mark.parametrize("gamma", [-np.inf, 0.0, 0.5, 1.0])
def test_at_gamma_one_and_below_a_reference_has_no_effect(gamma):
    params, (shard,) = problem(3, n_shards=1)
    forbids = Parts(np.full(3 * len(shard.tokens), -np.inf))
    np.testing.assert_array_equal(
        posterior(params, shard, gamma, lambda s: forbids), posterior(params, shard, gamma, None)
    )


def test_skewed_annealing_under_constraints_ends_in_plain_ones():
    params, shards = problem(3)
    reference, _ = problem(4)
    estep = EStep([at_least(0.3, "one"), *SHARES], reference=lambda s: MODEL.scores(reference, s), warm_start=True)
    schedule = Quench(Anneal(0.25, 1.0, 2.0), 0.5)
    result = run_em(MODEL, shards, params, estep, schedule=schedule, stopping=Stopping(3))
    assert [r.gamma for r in result.history[::3]] == [4.0, 2.0, 1.0, 0.5]
    assert max(r.violation for r in result.history) < 1e-5
    for stage in range(4):
        values = [r.objective for r in result.history[3 * stage : 3 * stage + 3]]
        assert (np.diff(values) >= -1e-7).all()


@pytest.mark.parametrize("bad", [Parts(np.zeros(2)), Parts(np.full(3, np.nan)), Parts(np.zeros(3), (np.zeros(1),))])
def test_a_reference_that_does_not_fit_is_refused(bad):
    params, (shard,) = problem(3, n_shards=1)
    shard = shard._replace(tokens=shard.tokens[:1], lengths=np.array([1]), weights=np.ones(1))
    with pytest.raises(InvalidInputError, match=r"reference: (unary|factors\[0\]) must be .* logarithms of probabilit"):
        posterior(params, shard, 2.0, lambda s: bad)


class Restricted(Named):
    """Word 0 may not have tag "one"."""

    def scores(self, params, shard):
        scores = super().scores(params, shard)
        unary = scores.unary.copy().reshape(-1, self.n_states)
        unary[shard.tokens == 0, 1] = -np.inf
        return Parts(unary.ravel(), scores.factors)


VERB = at_least(0.5, "one")


def sentences_without():
    """Two shards; sentence 1 of the first and sentences 0 and 2 of the second have word 0 alone."""
    params, shards = problem(1, n_shards=2, n_sentences=3)
    for shard, bad in zip(shards, ([1], [0, 2]), strict=True):
        shard.tokens[:] = 1
        shard.tokens[np.isin(np.repeat(np.arange(3), shard.lengths), bad)] = 0
    return params, shards


def test_a_constraint_that_cannot_hold_is_named():
    params, shards = sentences_without()
    model = Restricted(n_states=3)
    with pytest.raises(InfeasibleConstraintError) as error:
        run_em(model, shards, params, EStep(VERB))
    assert str(error.value) == (
        "'at least 0.5 one per sentence': no feasible q in sentence 1: its possible parts reach 0 to 0, and the row "
        "demands >= 0.5; relax the bound, give the constraint slack (a penalty or a bound), drop the instance, or "
        'leave the constraint out there with infeasible="skip" (instances are counted from 0 in shard 0)'
    )

    class Numbered(Restricted):
        def columns(self, shard):
            first = 10 if shard is shards[0] else 20
            return super().columns(shard) | {"sentence": first + np.arange(3)}

    model = Numbered(n_states=3)
    with pytest.raises(InfeasibleConstraintError, match=r'no feasible q in sentence 11: .*infeasible="skip"$'):
        run_em(model, shards, params, EStep(VERB))


@pytest.mark.filterwarnings("ignore:whole structures that meet the constraints")  # they may miss some of the objective
@pytest.mark.parametrize(
    ("extra", "gamma"),
    [([], 0.0), ([], 1.0), ([E[part("tag") == "two"] <= 3.0], 1.0), ([E[part("tag") == "two"] <= 3.0], -np.inf)],
    ids=["zero", "one", "corpus", "corpus, whole"],
)
def test_sentences_that_cannot_meet_a_constraint_are_left_free_of_it(extra, gamma):
    params, shards = sentences_without()
    model = Restricted(n_states=3)
    estep = EStep([VERB, *extra], infeasible="skip")
    with pytest.warns(UserWarning, match="left out") as caught:
        result = run_em(model, shards, params, estep, schedule=Constant(gamma), stopping=Stopping(3))
    told = [str(w.message) for w in caught if "left out" in str(w.message)]
    assert told == ["constraints that cannot hold were left out: 'at least 0.5 one per sentence' in 3 of the instances"]
    assert gamma == 0 or result.history[0].violation < 1e-6
    if not extra:
        found = of_shards(Reader(n_states=3), EStep(VERB, infeasible="skip"), shards, params, gamma)
        for shard, own, bad in zip(shards, found, ([1], [0, 2]), strict=True):
            sentence = np.repeat(np.arange(3), shard.lengths)
            mass = np.bincount(sentence, own.stats[:, 1])
            assert (mass[bad] == 0).all()
            assert (np.delete(mass, bad) >= 0.5 - 1e-6).all()


class Reader(Restricted):
    def gather(self, params, shard, marginals):
        return marginals.unary.reshape(-1, self.n_states)


def test_constraints_that_only_clash_together_are_left_out_together():
    params, (shard,) = problem(1, n_shards=1, n_sentences=3)
    structure, scores = MODEL.structure(shard), MODEL.scores(params, shard)
    many, few = at_least(0.7, "one"), (E[part("tag") == "one"] <= 0.6).per("sentence").named("few")
    mild = (E[part("tag") == "two"] >= 0.1).per("sentence").named("mild")
    columns = MODEL.columns(shard)
    rows = compile_constraints([many, few, mild], structure, columns)
    result = project_batch(structure, scores, rows, infeasible="skip")
    assert result.skipped.tolist() == [0, 1, 2, 3, 4, 5]
    assert not result.multipliers[:6].any()
    alone = project_batch(structure, scores, compile_constraints(mild, structure, columns))
    np.testing.assert_allclose(result.marginals.unary, alone.marginals.unary, atol=1e-6)
    with pytest.raises(InfeasibleConstraintError):
        project_batch(structure, scores, rows)


def test_a_transition_that_cannot_be_is_seen():
    """Each tag is possible alone; only the forbidden transition keeps the second sentence from having both."""
    params, (shard,) = problem(1, n_shards=1, n_sentences=2)
    shard = shard._replace(tokens=np.zeros(3, np.int64), lengths=np.array([1, 2]))
    transition = np.where(np.eye(3) > 0, 1.0, 0.0)
    params = TaggerParams(params.start, transition, params.emission)
    structure, scores = MODEL.structure(shard), MODEL.scores(params, shard)
    both = [at_least(1, "one"), at_least(1, "two")]
    rows = compile_constraints(both, structure, MODEL.columns(shard))
    result = project_batch(structure, scores, rows, infeasible="skip")
    # One token cannot be both; two tokens that must be alike can be either, one each in expectation.
    assert result.skipped.tolist() == [0, 2]
    assert result.marginals.unary[3:].reshape(2, 3)[:, 1:].sum(axis=0) == pytest.approx([1, 1], abs=1e-6)


def test_rows_over_the_corpus_are_never_left_out():
    params, shards = sentences_without()
    model = Restricted(n_states=3)
    corpus = E[part("tag") == "one"] >= 100.0
    with pytest.raises(InfeasibleConstraintError, match="no feasible q over the corpus"):
        run_em(model, shards, params, EStep(corpus, infeasible="skip"))


def test_unknown_options_are_refused():
    with pytest.raises(InvalidInputError, match='infeasible must be "raise" or "skip", got \'drop\'; "raise" names'):
        EStep(VERB, infeasible="drop")


def test_nothing_to_skip_nothing_to_say():
    params, shards = problem(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        skipping, values = run(params, shards, VERB, infeasible="skip")
    assert values == run(params, shards, VERB)[1]
    assert skipping.history[0].violation < 1e-6


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_hard_em_takes_a_fixed_number_of_steps_too(gamma):
    params, shards = problem(2)
    estep = EStep([SPARSE], dual_steps=3)
    result = run_em(MODEL, shards, params, estep, schedule=Quench(Constant(1.0), gamma), stopping=Stopping(2))
    assert [r.gamma for r in result.history] == [1.0, 1.0, gamma, gamma]
    assert all(r.objective < r.free_objective for r in result.history)
    assert all(np.isfinite(array).all() for array in result.params)


def test_a_constraint_is_left_out_of_an_instance_as_a_whole():
    params, (shard, _) = sentences_without()
    model = Restricted(n_states=3)
    structure, scores = model.structure(shard), model.scores(params, shard)
    each = (E[...] >= 0.2).per("sentence", "tag")
    rows = compile_constraints(each, structure, model.columns(shard))
    result = project_batch(structure, scores, rows, infeasible="skip")
    assert result.skipped.tolist() == [3, 4, 5]  # of the second sentence, all tags


@pytest.mark.parametrize("length", [1e-3, 1.0, 1e4])
def test_no_step_raises_the_dual(length):
    params, shards = problem(2, n_shards=1)
    structure, scores = MODEL.structure(shards[0]), MODEL.scores(params, shards[0])
    rows = compile_constraints(sparsity(30, 2), structure, MODEL.columns(shards[0]))
    values = [project_batch(structure, scores, rows, solver=Spectral(steps, length)).dual_value for steps in range(12)]
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] < values[0] - 0.5
