"""Smoothed maxima in tensor operations equal those of the compiled kernels, and their derivatives are finite."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.structures import (
    Alignment,
    Bracketings,
    Chain,
    Chain2,
    NonProjectiveTrees,
    Parts,
    ProjectiveTrees,
    Segmentations,
)

torch = pytest.importorskip("torch", reason="needs PyTorch, an optional library")

from spectrem.torch.tensors import (  # noqa: E402
    alignments,
    bracketings,
    linear_chain,
    nonprojective_trees,
    projective_trees,
    second_order_chain,
    segmentations,
)

LENGTHS = np.array([5, 0, 1, 4, 2, 3, 5, 4, 3, 2, 5, 4, 2, 3, 4, 5])
SOURCES = np.array([4, 3, 0, 2, 1, 3, 4, 1, 2, 3, 2, 4, 0, 1, 3, 4])
BATCH, N, K = len(LENGTHS), 6, 3  # one place more than the longest sentence has


class Case(NamedTuple):
    """A structure, padded scores, which entries of the first ones are parts, and their function of tensors."""

    structure: Any
    scores: tuple[Any, ...]
    parts: Any
    value: Any  # of gamma and scores

    def pack(self, tensors):
        """Parts of padded scores, or of derivatives by them."""
        n_unary = len(tensors) - len(self.structure.factor_shapes)
        unary = torch.stack(tensors[:n_unary], -1)[self.parts].flatten()
        return Parts(unary.numpy(), tuple(one.numpy() for one in tensors[n_unary:]))


def make_case(name, seed=0, *, impossible=0.0, scale=1.0, dtype=torch.float64, lengths=LENGTHS, n=N, device="cpu"):
    """Random scores, a share of which are -inf, and NaN in padding."""
    generator = torch.Generator().manual_seed(seed)
    sizes, sources = torch.tensor(lengths), torch.tensor(SOURCES[: len(lengths)])
    place = torch.arange(n)
    token = place < sizes[:, None]
    mask = token.to(device)
    square = token[:, :, None] & token[:, None]
    n_sources, n_tokens = sources.to(device), sizes.to(device)

    def draw(*shape, there=None):
        scores = scale * torch.randn(*shape, dtype=torch.float64, generator=generator)
        scores = scores.masked_fill(torch.rand(*shape, generator=generator) < impossible, -torch.inf).to(dtype)
        if there is not None:
            scores[~there] = torch.nan
        return scores.to(device)

    def trees(structure, function, single_root):
        return Case(
            structure(lengths, single_root=single_root),
            (draw(len(lengths), n, n, there=square),),
            square,
            lambda gamma, scores: function(scores, n_tokens, gamma, single_root=single_root),
        )

    match name.split():
        case ["chain", way]:
            return Case(
                Chain(lengths, K),
                (draw(len(lengths), n, K, there=token), draw(K, K)),
                token,
                lambda gamma, *scores: linear_chain(*scores, gamma, mask, scan=way == "scanned"),
            )
        case ["chain2"]:
            return Case(
                Chain2(lengths, K),
                (draw(len(lengths), n, K, there=token), draw(K, K), draw(K, K, K)),
                token,
                lambda gamma, *scores: second_order_chain(*scores, gamma, mask),
            )
        case ["projective", roots]:
            return trees(ProjectiveTrees, projective_trees, roots == "one")
        case ["nonprojective", roots]:
            return trees(NonProjectiveTrees, nonprojective_trees, roots == "one")
        case ["segmentations", longest]:
            there = place[:, None] + torch.arange(int(longest)) < sizes[:, None, None]
            return Case(
                Segmentations(lengths, K, int(longest)),
                (draw(len(lengths), n, int(longest), K, there=there), draw(K, K)),
                there,
                lambda gamma, *scores: segmentations(*scores, n_tokens, gamma),
            )
        case ["bracketings"]:
            there = square & (place[:, None] <= place)
            scores = tuple(draw(len(lengths), n, n, there=there) for _ in range(2))
            return Case(
                Bracketings(lengths), scores, there, lambda gamma, one, two: bracketings(one, n_tokens, gamma, two)
            )
        case ["alignments", *jumps]:
            width = int(SOURCES[: len(lengths)].max(initial=0))
            source = torch.arange(width + 1)
            there = token[:, :, None] & ((source < sources[:, None]) | (source == width))[:, None]
            structure = Alignment(SOURCES[: len(lengths)], lengths, 2 if jumps else None)
            return Case(
                structure,
                (draw(len(lengths), n, width + 1, there=there), *(draw(*shape) for shape in structure.factor_shapes)),
                there,
                lambda gamma, scores, *factors: alignments(scores, n_sources, n_tokens, gamma, *factors),
            )
    raise ValueError(name)


SUMS = ["nonprojective one", "nonprojective several"]
NAMES = [
    *("chain stepped", "chain scanned", "chain2", "projective one", "projective several", "segmentations 1"),
    *("segmentations 3", "segmentations 9", "bracketings", "alignments", "alignments jumping"),
]


def with_gammas(*gammas):
    """Every family at some gammas; non-projective trees are only summed."""
    return [(name, gamma) for gamma in gammas for name in (NAMES if gamma == 0.0 else [*NAMES, *SUMS])]


def evaluate(case, gamma):
    """Values, and derivatives of the sum of values by the scores."""
    scores = tuple(one.clone().requires_grad_() for one in case.scores)
    values = case.value(gamma, *scores)
    return values, torch.autograd.grad(values.sum(), scores, create_graph=True, materialize_grads=True), scores


@pytest.mark.parametrize("impossible", [0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize(("name", "gamma"), with_gammas(0.0, 0.5, 1.0, 2.0))
def test_values_and_marginals_are_those_of_the_kernels(name, gamma, impossible):
    for seed in range(3):
        case = make_case(name, seed, impossible=impossible)
        values, marginals, _ = evaluate(case, gamma)
        expected, expected_marginals = case.structure.smoothed_max(case.pack(case.scores), gamma)
        np.testing.assert_allclose(values.detach(), expected, rtol=1e-12, atol=1e-12)
        packed = case.pack([one.detach() for one in marginals])
        np.testing.assert_allclose(packed.unary, expected_marginals.unary, rtol=1e-9, atol=1e-12)
        for one, other in zip(packed.factors, expected_marginals.factors, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        n_unary = len(marginals) - len(packed.factors)
        for one in marginals[:n_unary]:  # padding has none
            np.testing.assert_array_equal(one[~case.parts].detach(), 0.0)


@pytest.mark.parametrize(("name", "gamma"), with_gammas(0.0, 1.0))
def test_scores_of_ten_thousand_nats_in_single_precision(name, gamma):
    case = make_case(name, scale=1e4, dtype=torch.float32, impossible=0.1)
    values, marginals, _ = evaluate(case, gamma)
    assert values.dtype == torch.float32
    expected, _ = case.structure.smoothed_max(case.pack([one.double() for one in case.scores]), gamma)
    np.testing.assert_allclose(values.detach(), expected, rtol=1e-6)
    assert all(torch.isfinite(one).all() for one in marginals)


@pytest.mark.parametrize(("name", "gamma"), with_gammas(0.0, 1.0))
def test_derivatives_by_impossible_scores_are_zero_to_second_order(name, gamma):
    n_impossible = 0
    for seed in range(6):
        case = make_case(name, seed, impossible=(0.3, 0.8)[seed % 2])
        values, marginals, scores = evaluate(case, gamma)
        n_impossible += int((values == -torch.inf).sum())
        along = sum((one * torch.arange(one.numel()).reshape(one.shape)).sum() for one in marginals)
        second = torch.autograd.grad(along, scores, materialize_grads=True) if along.requires_grad else ()
        for tensor, derivative in zip(scores * 2, (*marginals, *second), strict=False):
            assert torch.isfinite(derivative).all()
            assert (derivative[tensor == -torch.inf] == 0.0).all()
    assert n_impossible > 0


@pytest.mark.parametrize("name", [*NAMES, *SUMS])
def test_first_and_second_derivatives_are_slopes(name):
    case = make_case(name, lengths=np.array([3, 0, 1]), n=3)
    scores = tuple(torch.nan_to_num(one).requires_grad_() for one in case.scores)
    assert torch.autograd.gradcheck(lambda *tensors: case.value(0.7, *tensors), scores)
    assert torch.autograd.gradgradcheck(lambda *tensors: case.value(0.7, *tensors), scores)


@pytest.mark.parametrize("name", NAMES)
def test_ties_at_gamma_0_go_to_one_structure(name):
    case = make_case(name, lengths=np.array([4, 3]), n=4)
    case = case._replace(scores=tuple(one * 0.0 for one in case.scores))
    packed = case.pack([one.detach() for one in evaluate(case, 0.0)[1]])
    flat = np.concatenate([packed.unary, *map(np.ravel, packed.factors)])
    every = [list(case.structure.enumerate(i)) for i in range(2)]
    assert any(
        np.array_equal(flat, np.concatenate([sums.unary, *map(np.ravel, sums.factors)]))
        for sums in (one.map(np.add, two) for one, two in itertools.product(*every))
    )


def sum_of_chain(emissions, transitions, begin, end, tokens):
    """Logarithm of the sum over all tag sequences of one sentence whose tokens stand at some places."""
    if not tokens:
        return 0.0
    totals = []
    for tags in itertools.product(range(emissions.shape[-1]), repeat=len(tokens)):
        score = begin[tags[0]] + end[tags[-1]] + sum(emissions[t, tag] for t, tag in zip(tokens, tags, strict=True))
        for t, one, two in zip(tokens[1:], tags, tags[1:], strict=False):
            score += transitions[one, two] if transitions.ndim == 2 else transitions[t - 1, one, two]
        totals.append(score)
    return np.logaddexp.reduce(totals)


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("per_place", [False, True])
def test_masks_leave_out_tokens_anywhere(scan, per_place):
    generator = torch.Generator().manual_seed(3)
    emissions = torch.randn(5, 5, 2, dtype=torch.float64, generator=generator)
    transitions = torch.randn(*([5, 4] if per_place else []), 2, 2, dtype=torch.float64, generator=generator)
    begin, end = torch.randn(2, 2, dtype=torch.float64, generator=generator)
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [1, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]) == 1
    padded = emissions.masked_fill(~mask[..., None], torch.nan)
    values = linear_chain(padded, transitions, 1.0, mask, begin, end, scan=scan)
    expected = [
        sum_of_chain(
            emissions[b].numpy(),
            (transitions[b] if per_place else transitions).numpy(),
            begin.numpy(),
            end.numpy(),
            mask[b].nonzero().flatten().tolist(),
        )
        for b in range(5)
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_ends_and_gaps_of_second_order_chains():
    case = make_case("chain2")
    emissions, pair, transitions = (torch.nan_to_num(one) for one in case.scores)
    begin, end = torch.tensor([0.0, 1.0, -1.0]), torch.tensor([2.0, 0.0, -torch.inf])
    mask = torch.tensor([0, 1, 0, 1, 1, 1]) == 1
    values = second_order_chain(emissions, pair, transitions, 1.0, mask.expand(BATCH, N), begin, end)
    tokens = emissions[:, mask].clone()
    tokens[:, 0] += begin
    tokens[:, -1] += end
    scores = Parts(tokens.numpy().ravel(), (pair.numpy(), transitions.numpy()))
    np.testing.assert_allclose(values, Chain2([4] * BATCH, K).smoothed_max(scores, 1.0)[0], rtol=1e-12)


def test_every_place_has_a_token_without_a_mask():
    case = make_case("chain stepped", lengths=np.array([N, N]))
    values = linear_chain(*case.scores, 1.0)
    np.testing.assert_allclose(values, case.structure.smoothed_max(case.pack(case.scores), 1.0)[0], rtol=1e-12)


def test_distituents_are_zero_by_default():
    case = make_case("bracketings")
    one, two = case.scores
    values = bracketings(one, torch.tensor(LENGTHS), 1.0)
    np.testing.assert_array_equal(values, case.value(1.0, one, torch.zeros_like(two)))


def test_distituents_of_words_and_sentences_are_not_used():
    case = make_case("bracketings")
    one, two = case.scores
    unused = two.clone().requires_grad_()
    with torch.no_grad():
        unused.diagonal(0, 1, 2)[:] = torch.nan
        unused[range(BATCH), 0, np.maximum(LENGTHS - 1, 0)] = torch.nan
    values = case.value(1.0, one, unused)
    np.testing.assert_array_equal(values.detach(), case.value(1.0, one, two))
    (derivatives,) = torch.autograd.grad(values.sum(), unused)
    assert (derivatives[unused.isnan()] == 0.0).all()


def test_non_projective_words_that_are_certain_of_each_other():
    """Two words choose each other by 40 nats: the determinant of their matrix is 0 but for rounding."""
    scores = torch.tensor([[[0.0, 40.0, -1.0], [40.0, -2.0, 0.0], [1.0, 2.0, -3.0]]], requires_grad=True)
    values = nonprojective_trees(scores, torch.tensor([3]), 1.0)
    (marginals,) = torch.autograd.grad(values.sum(), scores)
    expected = NonProjectiveTrees([3]).smoothed_max(Parts(scores.detach().double().numpy().ravel()), 1.0)
    np.testing.assert_allclose(values.detach(), expected[0], rtol=1e-6)
    np.testing.assert_allclose(marginals.flatten(), expected[1].unary, atol=1e-6)


def test_the_best_non_projective_tree_is_no_sum():
    with pytest.raises(InvalidInputError, match=r"gamma must be above 0 where non-projective trees .* got 0; use mode"):
        nonprojective_trees(torch.zeros(1, 2, 2), torch.tensor([2]), 0.0)


@pytest.mark.parametrize("name", [*NAMES, *SUMS])
def test_half_precision_is_summed_in_single_precision(name):
    case = make_case(name, dtype=torch.float16)
    with torch.no_grad():
        values = case.value(1.0, *case.scores)
    assert values.dtype == torch.float32
    assert not values.requires_grad
    torch.testing.assert_close(values, case.value(1.0, *(one.float() for one in case.scores)), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("name", [*NAMES, *SUMS])
def test_batches_without_tokens_or_sentences(name):
    for lengths, n in ((np.array([0, 0]), 0), (np.array([0]), 3), (np.array([], np.int64), 0), (LENGTHS[:0], 3)):
        case = make_case(name, lengths=lengths, n=n)
        values, marginals, _ = evaluate(case, 1.0)
        np.testing.assert_array_equal(values.detach(), np.zeros(len(lengths)))
        assert all((one == 0.0).all() for one in marginals)


@pytest.mark.parametrize("name", [*NAMES, *SUMS])
def test_batches_of_one_place(name):
    case = make_case(name, lengths=np.array([1, 0, 1]), n=1)
    expected, _ = case.structure.smoothed_max(case.pack(case.scores), 1.0)
    np.testing.assert_allclose(case.value(1.0, *case.scores), expected, rtol=1e-12)


@pytest.mark.parametrize(("name", "gamma"), with_gammas(0.0, 0.5))
def test_tensors_are_made_on_the_device_of_the_scores(name, gamma):
    """Tensors of the device "meta" have shapes only, and are refused beside those of another device."""
    values, marginals, scores = evaluate(make_case(name, device="meta"), gamma)
    assert values.shape == (BATCH,)
    assert [one.shape for one in marginals] == [one.shape for one in scores]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [*NAMES, *SUMS])
def test_a_gpu_computes_the_same(name):
    on_cpu, on_gpu = (evaluate(make_case(name, impossible=0.2, device=device), 0.5) for device in ("cpu", "cuda"))
    torch.testing.assert_close(on_gpu[0].cpu(), on_cpu[0], rtol=1e-6, atol=1e-12)
    for one, other in zip(on_gpu[1], on_cpu[1], strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-6, atol=1e-12)
