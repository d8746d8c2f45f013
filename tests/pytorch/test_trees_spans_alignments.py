"""Trees, spans and alignments in PyTorch against enumeration and differences."""

import itertools
import math

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError

torch = pytest.importorskip("torch", reason="PyTorch, which the extra 'torch' brings, is not installed")

from spectrem.torch import Alignment, Bracketings, NonProjectiveTrees, ProjectiveTrees, Segmentations  # noqa: E402

LENGTHS = [3, 1, 0, 2]
GAPS = [[1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]


def cases():
    """Families: what makes a distribution of scores, and the shapes of these."""
    mask = torch.tensor(GAPS, dtype=torch.bool)
    return {
        "projective": (lambda s, **kw: ProjectiveTrees(s, lengths=LENGTHS, **kw), [(4, 3, 3)]),
        "projective, several roots": (
            lambda s, **kw: ProjectiveTrees(s, mask=mask, single_root=False, **kw),
            [(4, 4, 4)],
        ),
        "crossing": (lambda s, **kw: NonProjectiveTrees(s, mask=mask, **kw), [(4, 4, 4)]),
        "crossing, several roots": (
            lambda s, **kw: NonProjectiveTrees(s, lengths=LENGTHS, single_root=False, **kw),
            [(4, 3, 3)],
        ),
        "segments": (lambda s, t, **kw: Segmentations(s, t, lengths=LENGTHS, **kw), [(4, 3, 2, 2), (2, 2)]),
        "brackets": (lambda s, d, **kw: Bracketings(s, d, lengths=[4, 3, 0, 1], **kw), [(4, 4, 4), (4, 4, 4)]),
        "brackets alone": (lambda s, **kw: Bracketings(s, lengths=[4, 3, 0, 1], **kw), [(4, 4, 4)]),
        "alignment": (
            lambda s, j, **kw: Alignment(s, j, source_lengths=[2, 0, 1, 2], target_lengths=LENGTHS, **kw),
            [(4, 3, 3), (3,)],
        ),
        "segments, gaps": (lambda s, t, **kw: Segmentations(s, t, mask=mask, **kw), [(4, 4, 3, 2), (2, 2)]),
        "brackets, gaps": (lambda s, d, **kw: Bracketings(s, d, mask=mask, **kw), [(4, 4, 4), (4, 4, 4)]),
        "alignment, gaps": (
            lambda s, j, **kw: Alignment(s, j, source_mask=mask.flip(0)[:, 1:], target_mask=mask, **kw),
            [(4, 4, 4), (5,)],
        ),
        "independent links": (lambda s, **kw: Alignment(s, target_lengths=LENGTHS, **kw), [(4, 3, 3)]),
    }


CASES = cases()
families = pytest.mark.parametrize("family", CASES)


def scores_of(family, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in CASES[family][1]]


@families
@pytest.mark.parametrize("gamma", [1.0, 0.6])
def test_everything_is_as_enumerated(family, gamma):
    make, scores = CASES[family][0], scores_of(family)
    scores[0].ravel()[4] = -math.inf
    there = make(*scores, gamma=gamma)
    layout = there._layout
    packed = layout.pack([one.numpy() for one in there._scores])
    values, entropies, mode = there.log_partition, there.entropy(), there.mode
    expected = [torch.zeros_like(one) for one in there._scores]
    for n in range(layout.structure.n_instances):
        listed = list(layout.structure.enumerate(n))
        totals = np.array([packed.dot(one) for one in listed])
        value = gamma * np.logaddexp.reduce(totals / gamma)
        p = np.exp((totals - value) / gamma)
        assert float(values[n]) == pytest.approx(value, abs=1e-12)
        assert float(entropies[n]) == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), abs=1e-9)
        assert float(there.log_prob(mode)[n]) == pytest.approx((totals.max() - value) / gamma, abs=1e-9)
        for share, one in zip(p, listed, strict=True):
            for total, part in zip(expected, layout.unpack(one), strict=True):
                total += share * torch.from_numpy(part)
    for found, plain in zip(there.expected_parts, expected, strict=True):
        torch.testing.assert_close(found, plain, atol=1e-11, rtol=0)


@families
def test_derivatives_are_those_of_differences(family):
    make, scores = CASES[family][0], [one.requires_grad_() for one in scores_of(family)]
    weights, other = torch.tensor([1.0, -2.0, 0.5, 0.3], dtype=torch.float64), make(*scores_of(family, 1))
    never = torch.zeros(scores[0].shape, dtype=torch.bool)
    never.ravel()[4] = True
    mode = make(*scores).mode
    soft = other.marginals.requires_grad_()
    functions = {
        "log_partition": lambda *s: make(s[0].masked_fill(never, -math.inf), *s[1:], gamma=0.7).log_partition * weights,
        "entropy": lambda *s: make(*s, gamma=0.7).entropy() * weights,
        "kl": lambda *s: make(*s).kl_divergence(other) * weights,
        "log_prob": lambda *s: make(*s, gamma=0.7).log_prob(mode) * weights,
        "sets": lambda *s: make(*s, gamma=0.7).log_prob(~never) * weights,
        "soft": lambda *s: make(*s, gamma=0.7).log_prob(soft) * weights,
    }
    for name, function in functions.items():
        assert torch.autograd.gradcheck(function, scores), name
        if name in ("log_partition", "entropy", "soft"):
            assert torch.autograd.gradgradcheck(function, scores), name
    assert torch.autograd.gradcheck(lambda one: make(*scores).log_prob(one) * weights, soft)
    assert torch.autograd.gradgradcheck(lambda one: make(*scores).log_prob(one) * weights, soft)


@families
def test_log_probabilities_of_draws_and_n_best(family):
    make, scores = CASES[family][0], scores_of(family)
    there = make(*scores)
    best, structures = there.n_best(2)
    torch.testing.assert_close(there.log_prob(structures[0]), best[0] - there.log_partition)
    several = best[1] > -math.inf
    torch.testing.assert_close(there.log_prob(structures[1])[several], (best[1] - there.log_partition)[several])
    torch.manual_seed(0)
    drawn = there.sample(5)
    assert drawn.shape == (5, *there.mode.shape)
    assert (there.log_prob(drawn[0]) <= 1e-12).all()


@families
def test_a_sentence_has_the_same_bits_in_any_batch(family):
    make, scores = CASES[family][0], scores_of(family)
    whole = make(*scores)
    again = make(*(one.clone() for one in scores))
    assert torch.equal(whole.log_partition, again.log_partition)
    if family.startswith(("projective", "crossing")) and "several" not in family:
        kind = ProjectiveTrees if family == "projective" else NonProjectiveTrees
        draw = torch.Generator().manual_seed(2)
        many = torch.randn(20, 6, 6, generator=draw)
        lengths = torch.arange(20) % 7
        every = kind(many, lengths=lengths)
        for rows in ([3], [19, 2, 5], list(range(10, 20))):
            some = kind(many[rows], lengths=lengths[rows])
            assert torch.equal(some.log_partition, every.log_partition[rows])
            assert torch.equal(some.marginals, every.marginals[rows])


def test_partial_trees_and_trees_that_are_none():
    scores = scores_of("projective")[0]
    trees = ProjectiveTrees(scores, lengths=LENGTHS)
    heads = torch.tensor([[-1, 0, 1], [-1, -2, -2], [-2] * 3, [1, -1, -2]])
    unknown = heads.clone()
    unknown[0, 2] = -2
    ways = [heads.clone() for _ in range(2)]
    ways[1][0, 2] = 0
    both = torch.logsumexp(torch.stack([trees.log_prob(one) for one in ways]), dim=0)
    assert float(trees.log_prob(unknown)[0]) == pytest.approx(float(both[0]))
    cycle = torch.tensor([[1, 0, -1], [0, -2, -2], [-2] * 3, [-1, -1, -2]])
    assert trees.log_prob(cycle).tolist() == [-math.inf, -math.inf, 0.0, -math.inf]
    rooted = torch.zeros(4, 4, 4, dtype=torch.float64)
    rooted[:, 1:, 1:] = scores
    rooted[:, 1:, 0] = scores.diagonal(0, 1, 2)
    torch.testing.assert_close(ProjectiveTrees.from_rooted(rooted, lengths=LENGTHS).log_partition, trees.log_partition)


@pytest.mark.parametrize("family", ["alignment", "alignment, gaps"])
def test_soft_links_are_independent_of_each_other(family):
    (scores, jumps), draw = scores_of(family), torch.Generator().manual_seed(3)
    there = CASES[family][0](scores, jumps, gamma=0.5)
    soft = torch.rand(scores.shape, generator=draw, dtype=torch.float64)
    sources, targets = (one.is_token for one in (there._sources, there._tokens))
    n_links, width = scores.shape[2], len(jumps) // 2
    for n in range(4):
        at, words = [np.flatnonzero(one[n]).tolist() for one in (targets, sources)]
        possible = [*words, n_links - 1]
        total = torch.zeros(len(at), n_links, dtype=torch.float64)
        total[:, possible] = soft[n][at][:, possible]
        total /= total.sum(dim=1, keepdim=True)
        soft[n] = math.nan
        soft[n, at] = total.where(torch.isin(torch.arange(n_links), torch.tensor(possible)), math.nan)
        expected = 0.0
        for links in itertools.product(possible, repeat=len(at)):
            share, score, last = 1.0, 0.0, -1
            for j, i in zip(at, links, strict=True):
                share, score = share * float(soft[n, j, i]), score + float(scores[n, j, i])
                if i < n_links - 1:
                    score += float(jumps[min(max(words.index(i) - last, -width), width) + width])
                    last = words.index(i)
            expected += share * score
        found = there.log_prob(soft.nan_to_num(0.0))[n] * 0.5 + there.log_partition[n]
        assert float(found) == pytest.approx(expected, abs=1e-12)
    torch.testing.assert_close(there.log_prob(soft), there.log_prob(soft.nan_to_num(0.0)))


@pytest.mark.parametrize("family", ["segments", "segments, gaps"])
def test_states_of_soft_segments_are_independent_where_these_meet(family):
    scores, transitions = scores_of(family)
    there = CASES[family][0](scores, transitions)
    soft = torch.rand(scores.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    *_, longest, k = scores.shape
    expected = -there.log_partition
    for n in range(4):
        at = np.flatnonzero(there._tokens.is_token[n]).tolist()
        segments = [
            (first, first + size, state, float(soft[n, at[first], size - 1, state]))
            for first, size, state in itertools.product(range(len(at)), range(1, longest + 1), range(k))
            if first + size <= len(at)
        ]
        for first, end, state, share in segments:
            expected[n] += share * scores[n, at[first], end - first - 1, state]
        for t in range(1, len(at)):
            before, after = [one for one in segments if one[1] == t], [one for one in segments if one[0] == t]
            meet = sum(one[3] for one in before + after) / 2
            for one, other in itertools.product(before, after):
                expected[n] += one[3] * other[3] / meet * transitions[one[2], other[2]]
    kept = torch.from_numpy(there._tokens.is_token)[..., None, None]
    torch.testing.assert_close(there.log_prob(soft.where(kept, math.nan)), expected)


@pytest.mark.parametrize("family", ["brackets", "brackets, gaps"])
def test_soft_brackets_read_no_scores_of_words_and_sentences_that_are_no_constituents(family):
    make, (scores, distituents) = CASES[family][0], scores_of(family)
    there, changed = make(scores, distituents), distituents.clone()
    for n in range(4):
        words = np.flatnonzero(there._tokens.is_token[n]).tolist()
        changed[n, words, words] = 7.0
        changed[n, words[:1], words[-1:]] = 7.0
    soft = torch.rand(scores.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    torch.testing.assert_close(make(scores, changed).log_prob(soft), there.log_prob(soft))


@pytest.mark.parametrize("family", ["segments", "segments, gaps", "alignment", "alignment, gaps"])
def test_impossible_neighbours_without_weight_count_nothing(family):
    make, scores = CASES[family][0], scores_of(family)
    scores[1][(0, 1) if scores[1].ndim == 2 else len(scores[1]) // 2] = -math.inf
    scores[1].requires_grad_()
    there = make(*scores)
    soft = there._sets_of(there.mode).double().requires_grad_()
    torch.testing.assert_close(there.log_prob(soft), there.log_prob(there.mode))
    slopes = torch.autograd.grad(there.log_prob(soft).sum(), (scores[1], soft))
    assert all(one.isfinite().all() for one in slopes)
    assert make(*scores).log_prob(torch.full_like(soft, 0.1)).tolist()[2] == 0.0  # the empty sentence
    assert make(*scores).log_prob(torch.full_like(soft, 0.1))[0] == -math.inf


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ProjectiveTrees(torch.zeros(1, 2, 3)), "scores must have shape (batch, n_words, n_words)"),
        (
            lambda: ProjectiveTrees(torch.zeros(1, 2, 2)).log_prob(torch.tensor([[0, 2]])),
            "value must hold heads below 2",
        ),
        (lambda: Segmentations(torch.zeros(1, 2, 2)), "scores must have shape (batch, length, longest, n_states)"),
        (lambda: Segmentations(torch.zeros(1, 2, 2, 1), torch.zeros(2, 2)), "transitions must have shape (1, 1)"),
        (
            lambda: Segmentations(torch.zeros(1, 2, 2, 1)).log_prob(torch.tensor([[[0, 0], [2, 0]]])),
            "value must say of every token the first token of its segment",
        ),
        (
            lambda: Segmentations(torch.zeros(1, 3, 2, 1)).log_prob(torch.zeros(1, 3, 2, dtype=torch.long)),
            "value must cut sentences into segments of at most 2 tokens",
        ),
        (
            lambda: Segmentations(torch.zeros(1, 3, 2, 1), mask=torch.tensor([[1, 0, 1]])).log_prob(
                torch.tensor([[[0, 0], [-1, -1], [1, 0]]])
            ),
            "not behind it, and a state below 1, got [1, 0]",
        ),
        (lambda: Segmentations(torch.zeros(1, 2, 2, 1)).log_prob(torch.zeros(1, 2)), "soft labels, must have shape"),
        (lambda: Bracketings(torch.zeros(1, 2)), "scores must have shape (batch, n_words, n_words)"),
        (lambda: Bracketings(torch.zeros(1, 2, 2), torch.zeros(1, 3, 3)), "distituents must have shape (1, 2, 2)"),
        (lambda: Alignment(torch.zeros(1, 2)), "scores must have shape (batch, n_target, n_source + 1)"),
        (lambda: Alignment(torch.zeros(1, 2, 3), torch.zeros(4)), "jumps must have shape (2 W + 1,)"),
        (
            lambda: Alignment(torch.zeros(1, 2, 3), source_lengths=[3]),
            "source_lengths must be 1 whole numbers from 0 to 2",
        ),
        (lambda: Alignment(torch.zeros(1, 2, 3), target_mask=torch.ones(1, 3)), "target_mask must have shape (1, 2)"),
        (
            lambda: Alignment(torch.zeros(1, 2, 3), source_mask=torch.ones(1, 2), source_lengths=[1]),
            "source_lengths and source_mask say the same",
        ),
        (
            lambda: Alignment(torch.zeros(1, 2, 3)).log_prob(torch.tensor([[0, 2]])),
            "value must hold source words below 2",
        ),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(InvalidInputError) as error:
        call()
    assert says in str(error.value)
