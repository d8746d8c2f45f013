"""What other devices than the CPU compute, tensor operations, beside the compiled kernels: on the CPU, and on a GPU."""

import math

import pytest

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

LENGTHS = [3, 1, 0, 2]
GAPS = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]], dtype=torch.bool)
CASES = {
    "chain": (
        lambda s, t, b, e, **kw: LinearChain(s, t, begin=b, end=e, mask=GAPS, **kw),
        [(4, 4, 3), (3, 3), (3,), (3,)],
    ),
    "places": (lambda s, t, **kw: LinearChain(s, t, lengths=LENGTHS, **kw), [(4, 4, 2), (4, 3, 2, 2)]),
    "second order": (lambda s, t, u, **kw: LinearChain(s, t, second=u, **kw), [(4, 3, 2), (2, 2, 2), (2, 2)]),
    "projective": (lambda s, **kw: ProjectiveTrees(s, mask=GAPS, **kw), [(4, 4, 4)]),
    "crossing": (lambda s, **kw: NonProjectiveTrees(s, lengths=LENGTHS, single_root=False, **kw), [(4, 3, 3)]),
    "segments": (lambda s, t, **kw: Segmentations(s, t, lengths=LENGTHS, **kw), [(4, 3, 2, 2), (2, 2)]),
    "brackets": (lambda s, d, **kw: Bracketings(s, d, lengths=[4, 3, 0, 1], **kw), [(4, 4, 4), (4, 4, 4)]),
    "segments, gaps": (lambda s, t, **kw: Segmentations(s, t, mask=GAPS, **kw), [(4, 4, 2, 2), (2, 2)]),
    "brackets, gaps": (lambda s, d, **kw: Bracketings(s, d, mask=GAPS, **kw), [(4, 4, 4), (4, 4, 4)]),
    "alignment, gaps": (
        lambda s, j, **kw: Alignment(s, j, source_mask=GAPS.flip(0)[:, 1:], target_mask=GAPS, **kw),
        [(4, 4, 4), (3,)],
    ),
    "alignment": (lambda s, j, **kw: Alignment(s, j, target_lengths=LENGTHS, **kw), [(4, 3, 3), (3,)]),
}


def results(family, device="cpu"):
    make, shapes = CASES[family]
    draw = torch.Generator().manual_seed(0)
    scores = [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]
    scores[0].ravel()[3] = -math.inf
    scores = [one.to(device).requires_grad_() for one in scores]
    there = make(*scores, gamma=0.8)
    other = make(*(one.detach().flip(0) for one in scores[:1]), *(one.detach() for one in scores[1:]))
    numbers = [there.log_partition, there.entropy(), there.log_prob(there.mode), there.kl_divergence(other)]
    numbers += [there.log_prob(torch.ones_like(scores[0], dtype=torch.bool)), *there.expected_parts]
    numbers.append(there.log_prob(there.marginals))
    weights = torch.tensor([1.0, -2.0, 0.5, 0.3], dtype=torch.float64, device=device)
    finite = there.log_partition + there.entropy() + there.log_prob(there.mode)
    slopes = torch.autograd.grad((finite * weights).sum() + there.marginals.square().sum(), scores)
    return [one.detach().cpu() for one in (*numbers, *slopes, there.mode)]


@pytest.mark.parametrize("family", CASES)
def test_tensor_operations_equal_kernels(family, monkeypatch):
    by_kernels = results(family)
    monkeypatch.setattr(StructuredDistribution, "_on_kernels", property(lambda self: False))
    for one, other in zip(results(family), by_kernels, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here")
@pytest.mark.parametrize("family", CASES)
def test_a_gpu_computes_the_same(family):
    for one, other in zip(results(family, "cuda"), results(family), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)
