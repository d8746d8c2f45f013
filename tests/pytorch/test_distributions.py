"""What distributions of all families promise: probabilities, gradients, soft structures, draws, types of numbers."""

import copy
import gc
import io
import math
import weakref

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.structures import Parts
from spectrem.structures._ragged import no_parts

torch = pytest.importorskip("torch", reason="PyTorch, which the extra 'torch' brings, is not installed")

from spectrem.torch import (  # noqa: E402
    Alignment,
    Bracketings,
    LinearChain,
    NonProjectiveTrees,
    ProjectiveTrees,
    Segmentations,
)

LENGTHS = torch.tensor([4, 1, 0, 3])
# What makes a distribution of scores, of which the first are those of the batch; and the shapes of one instance.
FAMILIES = {
    "chain": (lambda s, t, n, **kw: LinearChain(s, t, lengths=n, **kw), [(4, 2)], [(2, 2)]),
    "projective": (lambda s, n, **kw: ProjectiveTrees(s, lengths=n, **kw), [(4, 4)], []),
    "several roots": (lambda s, n, **kw: ProjectiveTrees(s, lengths=n, single_root=False, **kw), [(4, 4)], []),
    "crossing": (lambda s, n, **kw: NonProjectiveTrees(s, lengths=n, **kw), [(4, 4)], []),
    "segments": (lambda s, t, n, **kw: Segmentations(s, t, lengths=n, **kw), [(4, 2, 2)], [(2, 2)]),
    "brackets": (lambda s, d, n, **kw: Bracketings(s, d, lengths=n, **kw), [(4, 4), (4, 4)], []),
    "brackets alone": (lambda s, n, **kw: Bracketings(s, lengths=n, **kw), [(4, 4)], []),
    "alignment": (lambda s, j, n, **kw: Alignment(s, j, target_lengths=n, **kw), [(4, 3)], [(3,)]),
    "independent links": (lambda s, n, **kw: Alignment(s, target_lengths=n, **kw), [(4, 3)], []),
}
families = pytest.mark.parametrize("family", FAMILIES)


def scores_of(family, lengths=LENGTHS, seed=0):
    draw = torch.Generator().manual_seed(seed)
    _, own, shared = FAMILIES[family]
    shapes = [*((len(lengths), *shape) for shape in own), *shared]
    return [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]


def distribution(family, scores=None, lengths=LENGTHS, **options):
    return FAMILIES[family][0](*(scores_of(family, lengths) if scores is None else scores), lengths, **options)


@families
def test_probabilities_of_all_structures_sum_to_one(family):
    scores = scores_of(family)
    scores[0].ravel()[1] = -math.inf
    there = distribution(family, scores, gamma=0.7)
    structure = there._layout.structure
    for n in range(len(LENGTHS)):
        total, seen = 0.0, set()
        for one in structure.enumerate(n):
            free = (one.unary > 0.0) | (structure.instance != n)
            only = structure.decode(Parts(np.where(free, 0.0, -np.inf), no_parts(structure).factors))
            value = there._tensor_of(only)
            total += float(there.log_prob(value)[n].exp())
            seen.add(tuple(value[n].ravel().tolist()))
        assert total == pytest.approx(1.0, abs=1e-12)
        assert len(seen) == len(list(structure.enumerate(n)))


@families
def test_a_sentence_has_the_same_bits_in_any_batch(family):
    lengths = torch.arange(20) % 5
    scores, n_own = scores_of(family, lengths), len(FAMILIES[family][1])
    every = distribution(family, scores, lengths)
    for rows in ([3], [19, 2, 5], list(range(10, 20))):
        some = distribution(family, [*(one[rows] for one in scores[:n_own]), *scores[n_own:]], lengths[rows])
        assert torch.equal(some.log_partition, every.log_partition[rows])
        assert torch.equal(some.marginals, every.marginals[rows])
        assert torch.equal(some.mode, every.mode[rows])


@families
def test_gradients_add_up_over_backward_passes(family):
    scores = [one.requires_grad_() for one in scores_of(family)]
    once = torch.autograd.grad(distribution(family, scores).log_partition.sum(), scores)
    total = distribution(family, scores).log_partition.sum()
    for _ in range(3):  # gradients are added in place
        total.backward(retain_graph=True)
    for one, slope in zip(scores, once, strict=True):
        torch.testing.assert_close(one.grad, 3.0 * slope)


@families
def test_layers_keep_no_graph_and_are_copied(family):
    scores = [one.requires_grad_() for one in scores_of(family)]
    there = distribution(family, scores)
    values, layout = there.log_partition, weakref.ref(there._layout)
    values.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        values.sum().backward()
    with torch.no_grad():
        assert there.log_partition.grad_fn is None
        assert there.marginals.grad_fn is None
    copied = copy.deepcopy(distribution(family, [one.detach() for one in scores]))
    buffer = io.BytesIO()
    torch.save(copied, buffer)
    buffer.seek(0)
    for one in (copied, torch.load(buffer, weights_only=False)):
        assert torch.equal(one.log_partition, values)
    del there, values
    gc.collect()
    assert layout() is None


@families
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_types_of_numbers(family, dtype):
    scores = [one.to(dtype).requires_grad_() for one in scores_of(family)]
    exact = distribution(family, [one.detach().double() for one in scores])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        there = distribution(family, scores)
        values = there.log_partition
        values.sum().backward()
        assert there.log_prob(there.mode).dtype == torch.float32
        assert there.entropy().dtype == torch.float32
    assert values.dtype == torch.float32
    torch.testing.assert_close(values.double(), exact.log_partition, rtol=1e-6, atol=1e-6)
    assert torch.equal(scores[0].grad, exact.marginals.to(dtype))


@families
def test_soft_structures_have_their_expected_log_probability(family):
    own = len(FAMILIES[family][1])  # without scores of neighbours, these are independent
    here, there = (scores_of(family, seed=seed) for seed in (1, 2))
    here = distribution(family, [*here[:own], *map(torch.zeros_like, here[own:])])
    there = distribution(family, there)
    soft = here.marginals
    outside = here._layout.unpack(no_parts(here._layout.structure).map(np.ones_like))[0] == 0.0
    soft = torch.where(torch.from_numpy(outside), 0.9, soft)  # which is not read
    torch.testing.assert_close(there.log_prob(soft), -here.cross_entropy(there))
    torch.testing.assert_close(there.log_prob(there._sets_of(there.mode).double()), there.log_prob(there.mode))


@pytest.mark.parametrize("family", ["chain", "projective", "brackets"])
def test_what_is_impossible_and_weighs_nothing_has_no_slope(family):
    scores = scores_of(family)
    scores[0][0, 0, 1] = -math.inf
    there = distribution(family, scores)
    soft = there.marginals.requires_grad_()
    (slopes,) = torch.autograd.grad(there.log_prob(soft).sum(), soft)
    assert slopes.isfinite().all()
    if family != "chain":  # whose neighbours have slopes
        assert float(slopes[0, 0, 1]) == (-float(scores[1][0, 0, 1]) if family == "brackets" else 0.0)


@families
def test_draws_and_n_best_have_the_form_of_the_mode(family):
    there = distribution(family)
    shape = there.mode.shape
    assert there.sample().shape == shape
    assert there.sample(0).shape == (0, *shape)
    torch.manual_seed(1)
    drawn = there.sample((2, 3))
    assert drawn.shape == (2, 3, *shape)
    torch.manual_seed(1)
    assert torch.equal(there.sample((2, 3)), drawn)
    scores, structures = there.n_best(2)
    assert scores.shape == (2, len(LENGTHS))
    assert structures.shape == (2, *shape)
    assert torch.equal(structures[0], there.mode)
    assert scores[:, 2].tolist() == [0.0, -math.inf]  # the empty sentence has one structure


@families
def test_the_mode_at_no_temperature(family):
    there, warm = distribution(family, gamma=0.0), distribution(family)
    torch.testing.assert_close(there.log_partition, warm.log_prob(warm.mode) + warm.log_partition)
    assert set(there.marginals.unique().tolist()) == {0.0, 1.0}
    with pytest.raises(InvalidInputError, match="gamma must be above 0 for log_prob"):
        there.log_prob(there.mode)


@families
def test_divergences_are_over_the_same_structures(family):
    with pytest.raises(InvalidInputError, match=r"other must have the (target_)?lengths of this distribution"):
        distribution(family).kl_divergence(distribution(family, lengths=LENGTHS.flip(0)))


def test_divergences_name_other_structures():
    scores, moves, ends = torch.zeros(1, 3, 3), torch.zeros(3, 3), torch.zeros(3)
    gaps = torch.tensor([[True, False, True]])
    with pytest.raises(InvalidInputError, match="other must have the single_root of this distribution, False, got T"):
        ProjectiveTrees(scores, single_root=False).cross_entropy(ProjectiveTrees(scores))
    with pytest.raises(InvalidInputError, match="other must have the mask of this distribution"):
        ProjectiveTrees(scores, lengths=[2]).kl_divergence(ProjectiveTrees(scores, mask=gaps))
    with pytest.raises(InvalidInputError, match=r"other must have the begin and end of .*\['begin'\], got \['end'\]"):
        LinearChain(scores, moves, begin=ends).kl_divergence(LinearChain(scores, moves, end=ends))


@pytest.mark.parametrize("shape", [(1, 3, 4), (3, 3), (1, 0, 0)])
def test_scores_with_a_root_have_a_row_and_a_column_for_it(shape):
    with pytest.raises(InvalidInputError, match=r"scores must have shape \(batch, n_words \+ 1, n_words \+ 1\)"):
        NonProjectiveTrees.from_rooted(torch.zeros(shape))


@families
def test_relaxed_draws_are_near_one_structure_and_have_gradients(family):
    scores = scores_of(family)
    scores[0].ravel()[1] = -math.inf
    there = distribution(family, scores, gamma=0.7)
    torch.manual_seed(3)
    drawn = there.relaxed_sample(1e-4, 2)
    assert drawn.shape == (2, *there.marginals.shape)
    assert float((drawn * (1.0 - drawn)).abs().max()) < 1e-6
    assert not torch.equal(drawn[0], drawn[1])
    torch.manual_seed(3)
    assert torch.equal(there.relaxed_sample(1e-4, (2,)), drawn)
    assert there.relaxed_sample(1.0, 0).shape == (0, *there.marginals.shape)

    def draw_from(*leaves):
        torch.manual_seed(4)
        return distribution(family, list(leaves)).relaxed_sample(0.8)

    assert torch.autograd.gradcheck(draw_from, [one.requires_grad_() for one in scores_of(family)])
    with pytest.raises(InvalidInputError, match="temperature must be a finite number above 0, got 0"):
        there.relaxed_sample(0)


def test_relaxed_draws_of_independent_choices_are_distributed_as_draws():
    scores = scores_of("independent links")[0]
    there = Alignment(scores, gamma=1.5)
    torch.manual_seed(5)
    frequencies = there.relaxed_sample(0.01, 3000).round().mean(dim=0)
    errors = (there.marginals * (1.0 - there.marginals) / 3000).sqrt()
    assert bool(((frequencies - there.marginals).abs() < 5.0 * errors).all())


def test_a_distribution_shows_its_shapes():
    there = LinearChain(torch.zeros(3, 5, 2), torch.zeros(2, 2), gamma=0.5)
    assert repr(there) == "LinearChain(batch_shape=(3,), event_shape=(5,), gamma=0.5)"
