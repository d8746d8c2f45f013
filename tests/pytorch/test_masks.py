"""Sentences with gaps between their tokens beside the same sentences without gaps, in every family."""

import math

import pytest

from spectrem.exceptions import InvalidInputError

torch = pytest.importorskip("torch", reason="PyTorch, which the extra 'torch' brings, is not installed")

from spectrem.torch import (  # noqa: E402
    Alignment,
    Bracketings,
    LinearChain,
    NonProjectiveTrees,
    ProjectiveTrees,
    Segmentations,
    StructuredDistribution,
)

N = 5
MASK = torch.tensor(
    [[1, 0, 1, 1, 0], [0, 0, 1, 0, 0], [0] * 5, [1, 0, 0, 0, 1], [0, 1, 1, 1, 1]], dtype=torch.bool
)  # of tokens; and of source words
SOURCE = torch.tensor([[0, 1, 1, 0, 1], [1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0] * 5, [0, 1, 0, 1, 1]], dtype=torch.bool)


def alignment(scores, jumps, mask=None, lengths=None, **options):
    if mask is not None:
        return Alignment(scores, jumps, source_mask=SOURCE, target_mask=mask, **options)
    return Alignment(scores, jumps, source_lengths=SOURCE.sum(dim=1), target_lengths=lengths, **options)


# What makes a distribution, the shapes of scores of the batch, in which N is an axis of places, and of others.
FAMILIES = {
    "chain": (LinearChain, [(N, 2)], [(2, 2)]),
    "projective": (ProjectiveTrees, [(N, N)], []),
    "crossing": (NonProjectiveTrees, [(N, N)], []),
    "segments": (Segmentations, [(N, 3, 2)], [(2, 2)]),
    "brackets": (Bracketings, [(N, N), (N, N)], []),
    "brackets alone": (Bracketings, [(N, N)], []),
    "alignment": (alignment, [(N, N + 1)], [(3,)]),
    "independent links": (lambda s, **options: alignment(s, None, **options), [(N, N + 1)], []),
}
families = pytest.mark.parametrize("family", FAMILIES)


def spread(tensor, empty):
    """What stands at the first places of sentences, in their places in the mask; a column of NULL stays where it is."""
    padded = torch.full_like(tensor, empty)
    for n in range(len(MASK)):
        at = [torch.nonzero(MASK[n])[:, 0] if size == N else torch.arange(size) for size in tensor.shape[1:]]
        first = [torch.arange(len(one)) for one in at]
        if tensor.shape[2:] == (N + 1,):
            source = torch.nonzero(SOURCE[n])[:, 0]
            at[1], first[1] = torch.cat([source, torch.tensor([N])]), torch.cat([first[0][:0], torch.tensor([N])])
            first[1] = torch.cat([torch.arange(len(source)), first[1]])
        padded[n][torch.meshgrid(*at, indexing="ij")] = tensor[n][torch.meshgrid(*first, indexing="ij")]
    return padded


def placed(values, family):
    """Values of sentences without gaps as those of the same sentences with gaps."""
    if family.startswith("brackets"):
        return spread(values, 0)
    values = values.clone()
    for n in range(len(values)):
        at = torch.nonzero((SOURCE if family in ("alignment", "independent links") else MASK)[n])[:, 0]
        places = values[n, :, 0] if family == "segments" else values[n]
        if family != "chain" and (places >= 0).any():
            places[places >= 0] = at[places[places >= 0]]
    return spread(values, -2 if family in ("projective", "crossing") else -1)


def both(family, seed=0, gamma=0.8):
    """A batch with gaps, in which NaN stands, the same sentences without gaps, and the scores of both."""
    make, own, shared = FAMILIES[family]
    draw = torch.Generator().manual_seed(seed)
    numbers = [torch.randn((len(MASK), *shape), generator=draw, dtype=torch.float64) for shape in own]
    numbers[0].ravel()[3] = -math.inf
    others = [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shared]
    padded = [*(spread(one, math.nan) for one in numbers), *others]
    gaps, none = ([one.clone().requires_grad_() for one in each] for each in (padded, [*numbers, *others]))
    lengths = MASK.sum(dim=1)
    return make(*gaps, mask=MASK, gamma=gamma), make(*none, lengths=lengths, gamma=gamma), gaps, none


@families
def test_gaps_change_no_bit(family):
    gaps, none, *_ = both(family)
    other_gaps, other_none, *_ = both(family, seed=1, gamma=1.0)
    draw = torch.Generator().manual_seed(2)
    soft = torch.rand(none.marginals.shape, generator=draw, dtype=torch.float64)
    sets = torch.rand(soft.shape, generator=draw) < 0.8
    mode = none.mode
    assert torch.equal(gaps.mode, placed(mode, family))
    assert torch.equal(gaps.marginals, spread(none.marginals, 0.0))
    for one, two in (
        (gaps.log_partition, none.log_partition),
        (gaps.entropy(), none.entropy()),
        (gaps.cross_entropy(other_gaps), none.cross_entropy(other_none)),
        (other_gaps.kl_divergence(gaps), other_none.kl_divergence(none)),
        (gaps.log_prob(placed(mode, family)), none.log_prob(mode)),
        (gaps.log_prob(spread(sets, True)), none.log_prob(sets)),
        (gaps.log_prob(spread(sets, False)), none.log_prob(sets)),
        *zip(gaps.expected_parts[1:], none.expected_parts[1:], strict=True),
    ):
        assert torch.equal(one, spread(two, 0.0) if one.shape[1:] == (N, N) else two)
    torch.testing.assert_close(gaps.log_prob(spread(soft, math.nan)), none.log_prob(soft), rtol=1e-14, atol=1e-14)
    assert not gaps.log_prob(spread(soft, math.nan)).isnan().any()
    if family == "crossing":  # of which there are no draws
        return
    numbers, structures = gaps.n_best(3)
    assert torch.equal(numbers, none.n_best(3)[0])
    drawn = []
    for one in (gaps, none):
        torch.manual_seed(4)
        drawn.append(one.sample(3))
    for one, two in (*zip(structures, none.n_best(3)[1], strict=True), *zip(*drawn, strict=True)):
        assert torch.equal(one, placed(two, family))


@families
@pytest.mark.parametrize("on_kernels", [True, False])
def test_gaps_change_no_derivative(family, on_kernels, monkeypatch):
    monkeypatch.setattr(StructuredDistribution, "_on_kernels", property(lambda self: on_kernels))
    *there, of_gaps, of_none = both(family)
    soft = torch.rand(of_none[0].shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    slopes = []
    for one, scores, labels in zip(there, (of_gaps, of_none), (spread(soft, math.nan), soft), strict=True):
        known = one.log_prob(one.marginals.detach() > 0.1).masked_fill(one.log_partition == -math.inf, 0.0)
        total = one.log_partition + one.entropy() + known + one.log_prob(labels.nan_to_num(0.0)).nan_to_num(neginf=0.0)
        weights = torch.tensor([1.0, -2.0, 0.5, 0.3, 1.0], dtype=torch.float64)
        slopes.append(torch.autograd.grad((total * weights).sum() + one.marginals.square().sum(), scores))
    for one, two in zip(*slopes, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, spread(two, 0.0) if len(two) == len(MASK) and two.ndim > 1 else two)


@pytest.mark.parametrize("family", ["segments", "brackets", "alignment"])
def test_divergences_are_between_sentences_with_the_same_gaps(family):
    gaps, _, scores, _ = both(family)
    other = FAMILIES[family][0](*scores, mask=MASK.flip(1), gamma=0.8)
    with pytest.raises(InvalidInputError, match="other must have the mask of this distribution"):
        gaps.kl_divergence(other)


def test_divergences_are_between_pairs_with_the_same_source_words():
    scores, mask = torch.zeros(1, 2, 4), torch.tensor([[True, False, True]])
    here, there = (Alignment(scores, source_mask=one) for one in (mask, torch.tensor([[True, True, False]])))
    with pytest.raises(InvalidInputError, match="other must have the source_mask of this distribution"):
        here.cross_entropy(there)


@families
def test_whole_batches_without_tokens(family):
    make, own, shared = FAMILIES[family]
    if "alignment" in family or "links" in family:
        make = lambda s, *more, lengths: Alignment(s, *more, target_lengths=lengths)  # noqa: E731
    for size in (N, 0):
        shapes = [[size if axis == N else axis for axis in shape] for shape in own]
        scores = [torch.zeros(2, *shape) for shape in shapes] + [torch.zeros(shape) for shape in shared]
        there = make(*scores, lengths=[0, 0])
        for value in (there.mode, scores[0] > 0, scores[0]):
            assert there.log_prob(value).tolist() == [0.0, 0.0]
