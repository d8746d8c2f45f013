"""Posteriors of layers under constraints against projections, enumeration, and differences."""

import io

import numpy as np
import pytest
from scipy.optimize import minimize

from spectrem import E, part
from spectrem.constraints import compile_constraints
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError
from spectrem.inference import project_batch
from spectrem.structures import NULL, Chain, Parts

torch = pytest.importorskip("torch", reason="PyTorch, which the extra 'torch' brings, is not installed")

from spectrem.torch import (  # noqa: E402 - after it is known that PyTorch is there
    Alignment,
    Bracketings,
    LinearChain,
    NonProjectiveTrees,
    PosteriorRegularisation,
    ProjectiveTrees,
    Segmentations,
    constrained,
    posterior_regularisation,
)

N, LENGTH, K = 3, 4, 3
TAG, TOKEN = part("tag"), part("token")
INSIDE = [
    (E[TAG == 1] >= 1.5).per("sentence"),
    (E[TAG == 0] <= 1.2).per("sentence"),
    (E[(TAG == 2) & (TOKEN < 2)] == 0.7).per("sentence"),
]
TOGETHER = [E[TAG == 0] <= 3.0, E[(TAG == 1) & (TOKEN == 0)] == 1.4]
ALL = [*INSIDE, *TOGETHER]
EACH = E[...] <= 1.35  # of four tokens and three tags, so that 0.05 is left


def scores_of(seed=0, kind="shared", n=N):
    draw = torch.Generator().manual_seed(seed)
    shape = {"shared": (K, K), "places": (n, LENGTH - 1, K, K), "second order": (K, K, K)}[kind]
    sizes = [(n, LENGTH, K), shape, (K,)]
    return [torch.randn(size, generator=draw, dtype=torch.float64).requires_grad_() for size in sizes]


def chain_of(emissions, transitions, begin, **options):
    return LinearChain(emissions, transitions, begin=begin, **options)


def check_gradients(scores, constraints, gamma=1.0, **options):
    """Differences of the marginals, multipliers and values; returns the multipliers."""

    def found(*given):
        q = constrained(chain_of(*given, **options), constraints, gamma, tol=1e-12)
        return (q.multipliers, *q.expected_parts, q.value, q.kl)

    q = constrained(chain_of(*scores, **options), constraints, gamma, tol=1e-12)
    assert q.violation <= 1e-7
    assert torch.autograd.gradcheck(found, scores, eps=1e-4, atol=3e-6, rtol=1e-5)
    return q.multipliers.detach().numpy()


def check_slopes(scores, constraints, step=1e-4, of_multipliers=True):
    """Differences of a sum of marginals and multipliers along directions at random."""
    draw = torch.Generator().manual_seed(0)

    def total(given):
        q = constrained(chain_of(*given), constraints, tol=1e-12)
        parts = torch.cat([one.flatten() for one in ([q.multipliers] * of_multipliers + [*q.expected_parts])])
        return parts @ torch.linspace(-1, 1, len(parts), dtype=torch.float64)

    slopes = torch.autograd.grad(total(scores), scores)
    for _ in range(4):
        along = [torch.randn(one.shape, generator=draw, dtype=torch.float64) for one in scores]
        ends = [
            total([one.detach() + sign * step * move for one, move in zip(scores, along, strict=True)])
            for sign in (1, -1)
        ]
        slope = sum((one * move).sum() for one, move in zip(slopes, along, strict=True))
        torch.testing.assert_close(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("constraints", [INSIDE, TOGETHER, ALL])
def test_it_is_the_projection(constraints):
    emissions, transitions, begin = scores_of()
    chain = chain_of(emissions, transitions, begin, gamma=0.7)
    structure = Chain([LENGTH] * N, K)
    unary = emissions.detach().numpy().copy()
    unary[:, 0] += begin.detach().numpy()
    scores = Parts(unary.ravel(), (transitions.detach().numpy(),))
    rows = compile_constraints(constraints, structure)
    expected = project_batch(structure, scores, rows, 0.7, tol=1e-9)
    q = constrained(chain, constraints)
    assert q.violation <= 1e-7
    np.testing.assert_array_equal(q.marginals.detach().numpy().ravel(), expected.marginals.unary)
    np.testing.assert_array_equal(q.expected_parts[1].detach().numpy(), expected.marginals.factors[0])
    np.testing.assert_array_equal(q.multipliers.detach().numpy(), expected.multipliers)
    assert q.value.item() == expected.dual_value
    assert q.kl.item() == pytest.approx(expected.kl, rel=1e-12)


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_against_listed_sequences(gamma):
    """The dual of a batch whose sequences are listed, minimised by SciPy, and its derivative by differences."""
    scores = [one.detach() for one in scores_of(1, n=2)]
    structure = Chain([LENGTH] * 2, K)
    constraints = [(E[TAG == 1] >= 1.5).per("sentence"), (E[TAG == 0] <= 1.2).per("sentence"), E[TAG == 2] == 3.0]
    rows = compile_constraints(constraints, structure)
    listed = [[one.unary for one in structure.enumerate(n)] for n in range(2)]
    moves = [[one.factors[0].ravel() for one in structure.enumerate(n)] for n in range(2)]
    direction = [torch.randn(one.shape, generator=torch.Generator().manual_seed(5)).double() for one in scores]

    def solve(step):
        emissions, transitions, begin = (
            (one + step * move).numpy() for one, move in zip(scores, direction, strict=True)
        )
        unary = emissions.copy()
        unary[:, 0] += begin

        def dual(prices):
            total, mean = rows.bounds @ prices, 0.0
            for parts, pairs in zip(listed, moves, strict=True):
                value = (
                    np.array(parts) @ (unary.ravel() - rows.matrix.T @ prices) + np.array(pairs) @ transitions.ravel()
                )
                top = value.max()
                weight = np.exp((value - top) / gamma)
                total += top + gamma * np.log(weight.sum())
                mean = mean + weight / weight.sum() @ np.array(parts)
            return total, rows.bounds - rows.matrix @ mean, mean

        limits = [(0, None)] * 4 + [(None, None)]
        options = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 2000}
        solution = minimize(lambda x: dual(x)[:2], np.zeros(5), jac=True, bounds=limits, options=options)
        return solution.fun, dual(solution.x)[2]

    value, marginals = solve(0.0)
    leaves = [one.clone().requires_grad_() for one in scores]
    q = constrained(chain_of(*leaves, gamma=gamma), constraints, tol=1e-11)
    assert q.value.item() == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(q.marginals.detach().numpy().ravel(), marginals, atol=1e-6)
    target = torch.linspace(-1, 1, q.marginals.numel(), dtype=torch.float64).reshape(q.marginals.shape)
    (q.marginals * target).sum().backward()
    slope = sum(float((one.grad * move).sum()) for one, move in zip(leaves, direction, strict=True))
    ahead, behind = (solve(step)[1] @ target.numpy().ravel() for step in (1e-3, -1e-3))
    assert slope == pytest.approx((ahead - behind) / 2e-3, abs=2e-4)


@pytest.mark.parametrize("constraints", [INSIDE, TOGETHER, ALL])
@pytest.mark.parametrize("lengths", [None, [4, 4, 3]])
def test_gradients_of_rows_at_and_off_their_bounds(constraints, lengths):
    multipliers = check_gradients(scores_of(2), constraints, lengths=lengths)
    if constraints is ALL:
        assert {-1, 0, 1} == set(np.sign(multipliers))


@pytest.mark.parametrize("kind", ["places", "second order"])
def test_gradients_of_other_chains(kind):
    check_gradients(scores_of(3, kind, n=2), [E[TAG == 0] <= 2.0, (E[TAG == 1] >= 1.2).per("sentence")])


def others(scores, jumps):
    """Distributions of other families, and constraints on them."""
    square = scores[:, :, 0]
    alignment = Alignment(square, jumps, target_lengths=[4, 3])
    return {
        "projective trees": (ProjectiveTrees(square, lengths=[4, 3]), [LEFT.per("sentence") >= 1.6, LONG <= 1.5]),
        "trees": (NonProjectiveTrees(square, lengths=[4, 3]), [LEFT.per("sentence") >= 1.6, LONG <= 1.5]),
        "bracketings": (Bracketings(square), [(PAIRS == 1.3).per("sentence")]),
        "segmentations": (Segmentations(scores[..., :2]), [E[part("state") == 0] >= 3.5, (SHORT <= 1).per("sentence")]),
        "alignments": (alignment, [(E[part("source") != NULL] <= 0.9).per("sentence", "source"), UNLINKED >= 1.5]),
    }


LEFT, LONG = E[part("direction") == "left"], E[part("length") >= 2]
PAIRS, SHORT = E[part("constituent") & (part("span_length") == 2)], E[part("length") == 1]
UNLINKED = E[part("source") == NULL]


@pytest.mark.parametrize("name", ["projective trees", "trees", "bracketings", "segmentations", "alignments"])
def test_gradients_of_other_families(name):
    draw = torch.Generator().manual_seed(0)
    leaves = [torch.randn(size, generator=draw, dtype=torch.float64) for size in ((2, 4, 3, 4), (5,))]

    def found(*given):
        q = constrained(*others(*given)[name], tol=1e-12)
        return (q.multipliers, *q.expected_parts[: 1 + (name == "alignments")], q.value, q.kl)

    q = constrained(*others(*leaves)[name])
    assert q.violation <= 1e-7
    assert (q.multipliers != 0).sum() > 1
    leaves = [leaves[0].requires_grad_(), leaves[1].requires_grad_(name == "alignments")]
    assert torch.autograd.gradcheck(found, leaves, eps=1e-4, atol=3e-6, rtol=1e-5)


def test_gradients_at_another_gamma_than_that_of_the_distribution():
    check_gradients(scores_of(4), ALL, gamma=0.6)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("slack", [{"penalty": 0.4}, {"penalty": 3.0}, {"bound": 0.3}], ids=str)
def test_gradients_with_slack(slack, norm):
    check_slopes(scores_of(5), [EACH.per("sentence", "tag").slack(**slack, norm=norm), E[TAG == 2] >= 4.2])
    check_slopes(scores_of(5), (E[...] == 3.95).per("tag").slack(**slack, norm=norm))


def test_gradients_where_rows_repeat_each_other():
    scores, twice = scores_of(6), [E[TAG == 0] <= 2.0, 2 * E[TAG == 0] <= 4.0, (E[TAG == 0] <= 0.8).per("sentence")]

    def marginals(*given):
        return constrained(chain_of(*given), twice, tol=1e-12).expected_parts

    assert torch.autograd.gradcheck(marginals, scores, eps=1e-4, atol=3e-6, rtol=1e-5)


@pytest.mark.parametrize("scale", [10.0, 80.0])
def test_gradients_of_saturated_probabilities_are_not_those_of_rounding(scale):
    twice = [E[TAG == 0] <= 2.0, 2 * E[TAG == 0] <= 4.0, (E[TAG == 0] <= 0.8).per("sentence")]
    scores = [(scale * one.detach()).requires_grad_() for one in scores_of(0)]
    check_slopes(scores, [*twice, (E[TAG == 1] >= 1).per("sentence")], of_multipliers=False)


def test_gradients_where_parts_are_impossible():
    emissions, transitions, begin = scores_of(7)
    forbidden = torch.zeros(N, LENGTH, K, dtype=torch.bool)
    forbidden[0, 1, 0] = forbidden[1, 2, 2] = True

    def found(emissions, transitions):
        moves = transitions.masked_fill(torch.eye(K, dtype=torch.bool).roll(1, 0), -torch.inf)
        chain = chain_of(emissions.masked_fill(forbidden, -torch.inf), moves, begin)
        q = constrained(chain, TOGETHER, tol=1e-12)
        return (*q.expected_parts, q.value, q.kl)

    assert torch.autograd.gradcheck(found, (emissions, transitions), eps=1e-4, atol=3e-6, rtol=1e-5)
    sum(one.sum() for one in found(emissions, transitions)[2:]).backward()
    assert torch.cat([emissions.grad.flatten(), transitions.grad.flatten()]).isfinite().all()
    assert emissions.grad[forbidden].tolist() == [0.0, 0.0]


def test_gradients_of_values_are_marginals():
    scores = scores_of(8)
    chain = chain_of(*scores)
    q = constrained(chain, ALL)
    of_value = torch.autograd.grad(q.value, scores)
    of_kl = torch.autograd.grad(q.kl, scores)
    for value, kl, free, parts in zip(of_value, of_kl, chain.expected_parts, q.expected_parts, strict=True):
        torch.testing.assert_close(value, parts)
        torch.testing.assert_close(kl, free - parts)


def test_rows_of_padded_columns():
    chain = chain_of(*scores_of(9), lengths=[4, 2, 3])
    verbs = torch.tensor([[1, 0, 0, 1], [0, 1, 9, 9], [0, 0, 1, 9]])
    q = constrained(chain, E[(part("verb") == 1) & (TAG == 2)] == 3.5, columns={"verb": verbs})
    assert q.marginals[..., 2][verbs == 1].sum().item() == pytest.approx(3.5)


def test_rows_of_padded_columns_of_words():
    trees = ProjectiveTrees(torch.zeros(2, 4, 4, dtype=torch.float64), lengths=[4, 3])
    verbs = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 7]])
    q = constrained(trees, (E[part("root") & (part("verb") == 1)] >= 0.9).per("sentence"), columns={"verb": verbs})
    assert q.marginals[[0, 1], [1, 2], [1, 2]].tolist() == pytest.approx([0.9, 0.9])


def test_single_precision_and_no_active_rows():
    scores = [one.detach().float().requires_grad_() for one in scores_of(10)]
    chain = chain_of(*scores)
    q = constrained(chain, E[TAG == 0] <= 100.0)
    assert q.marginals.dtype == q.multipliers.dtype == q.kl.dtype == torch.float32
    assert (q.kl.item(), q.multipliers.tolist()) == (0.0, [0.0])
    ours, free = (torch.autograd.grad(one.square().sum(), scores) for one in (q.marginals, chain.marginals))
    for one, other in zip(ours, free, strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_refused():
    chain = chain_of(*scores_of())
    with pytest.raises(InvalidInputError, match=r"gamma must be above 0 for constrained posteriors.*got 0"):
        constrained(chain, ALL, 0.0)
    with pytest.raises(InfeasibleConstraintError, match=">= 5"):
        constrained(chain, (E[TAG == 1] >= 5).per("sentence"))
    with pytest.raises(InvalidInputError, match="gamma must be above 0, got 0"):
        PosteriorRegularisation(ALL, n_rows=10, gamma=0.0)
    with pytest.raises(InvalidInputError, match=r"distribution must have the gamma of this loss, 1\.0, got 0\.5"):
        PosteriorRegularisation(INSIDE)(chain_of(*scores_of(), gamma=0.5))
    with pytest.raises(InvalidInputError, match="n_rows must be given"):
        PosteriorRegularisation(TOGETHER)(chain)


# ---- the loss ------------------------------------------------------------------------------------------------------


def network(seed=0):
    torch.manual_seed(seed)
    layers = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, K)).double()
    return torch.nn.ParameterDict({"layers": layers, "moves": torch.nn.Parameter(torch.zeros(K, K).double())})


def predict(net, inputs):
    return LinearChain(net["layers"](inputs), net["moves"])


def inputs_of(n, seed=1):
    return torch.randn(n, LENGTH, 5, generator=torch.Generator().manual_seed(seed)).double()


def test_a_network_learns_what_constraints_say():
    net, inputs = network(), inputs_of(12)
    constraints = [(E[TAG == 1] >= 2.5).per("sentence"), E[TAG == 2] <= 4.0]
    optimiser, losses = torch.optim.Adam(net.parameters(), lr=0.05), []
    for _ in range(60):
        optimiser.zero_grad()
        loss = posterior_regularisation(predict(net, inputs), constraints)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] > 5.0
    assert 0.0 <= losses[-1] < 0.05 * losses[0]
    assert predict(net, inputs).marginals[..., 1].sum(dim=1).min() > 2.3


def test_inside_a_batch_module_and_function_are_the_same():
    chain = chain_of(*scores_of(11))
    module = PosteriorRegularisation(INSIDE)
    assert module(chain).item() == pytest.approx(posterior_regularisation(chain, INSIDE).item(), rel=1e-12)
    assert module.prices == {}


def test_the_loss_of_rows_over_batches_is_the_divergence_of_its_targets():
    leaves = scores_of(12)
    module = PosteriorRegularisation([*INSIDE[:2], (E[TAG == 2] <= 4.0).named("few")], n_rows=30)
    chain = chain_of(*leaves)
    loss = module(chain)
    price = module.prices["few"][0]
    assert price > 0
    shifted = [leaves[0].detach().clone(), *leaves[1:]]
    shifted[0][..., 2] -= price
    targets = constrained(chain_of(*shifted), INSIDE[:2])
    log_ratio = targets.value + price * targets.marginals[..., 2].sum() - chain.log_partition.sum()
    assert loss.item() == pytest.approx(-log_ratio.item(), rel=1e-9)
    for gradient, free, parts in zip(
        torch.autograd.grad(loss, leaves), chain.expected_parts, targets.expected_parts, strict=True
    ):
        torch.testing.assert_close(gradient, free - parts)


@pytest.mark.parametrize("name", ["projective trees", "trees", "bracketings", "segmentations", "alignments"])
def test_prices_over_batches_of_other_families(name):
    """On one batch that is the whole set, prices are soon those of the projection."""
    draw = torch.Generator().manual_seed(0)
    distribution, constraints = others(torch.randn(2, 4, 3, 4, generator=draw), torch.randn(5, generator=draw))[name]
    module = PosteriorRegularisation(constraints, n_rows=2, across_batches=["span_length"])
    losses = [module(distribution).item() for _ in range(60)]
    expected = constrained(distribution, constraints)
    assert losses[-1] == pytest.approx(expected.kl.item(), rel=1e-4)


def train(net, module, optimiser, batches):
    losses = []
    for batch in batches:
        optimiser.zero_grad()
        loss = module(predict(net, batch)) / len(batch)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def test_prices_go_on_from_batch_to_batch_and_through_a_saved_state():
    inputs, share = inputs_of(60), (E[TAG == 1] == 0.6 * E.count(..., each="occurrence")).named("share")
    order = torch.Generator().manual_seed(3)
    batches = [inputs[torch.randperm(60, generator=order)[:15]] for _ in range(60)]

    def start():
        net, module = network(), PosteriorRegularisation([share, (E[TAG == 2] >= 0.5).per("sentence")], n_rows=60)
        return net, module, torch.optim.Adam(net.parameters(), lr=0.03)

    net, module, optimiser = start()
    first = train(net, module, optimiser, batches[:20])
    saved = io.BytesIO()
    torch.save([one.state_dict() for one in (net, module, optimiser)], saved)
    rest = train(net, module, optimiser, batches[20:])
    assert list(module.prices) == ["share"]
    assert max(rest[-5:]) < 0.1 * first[0]
    assert predict(net, inputs).marginals[..., 1].mean().item() == pytest.approx(0.6, abs=0.05)

    saved.seek(0)
    again = start()
    for one, state in zip(again, torch.load(saved, weights_only=True), strict=True):
        one.load_state_dict(state)
    assert train(*again, batches[20:]) == rest
    np.testing.assert_array_equal(again[1].prices["share"], module.prices["share"])

    before = module.prices["share"]
    module.eval()(predict(net, inputs[:15]))
    np.testing.assert_array_equal(module.prices["share"], before)
