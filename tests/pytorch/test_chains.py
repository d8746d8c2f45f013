"""Linear chains in PyTorch against enumeration, differences, and each other."""

import copy
import io
import itertools
import math

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError

torch = pytest.importorskip("torch", reason="PyTorch, which the extra 'torch' brings, is not installed")

from spectrem.torch import LinearChain  # noqa: E402 - after it is known that PyTorch is there

N, LENGTH, K = 4, 4, 3
MASKS = {
    "all": None,
    "lengths": [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
    "gaps": [[1, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1], [1, 1, 1, 1]],
}
KINDS = ("shared", "places", "second order")


def random_scores(kind, seed=0, n=N, k=K, dtype=None):
    """Emissions, transitions, begin and end, and of second order the scores of the first two tags."""
    draw = torch.Generator().manual_seed(seed)
    shapes = {"shared": (k, k), "places": (n, LENGTH - 1, k, k), "second order": (k, k, k)}
    sizes = [(n, LENGTH, k), shapes[kind], (k,), (k,), *([(k, k)] if kind == "second order" else [])]
    return [torch.randn(size, generator=draw, dtype=dtype or torch.float64) for size in sizes]


def chain_of(scores, mask=None, gamma=1.0):
    emissions, transitions, begin, end, *second = scores
    mask = None if mask is None else torch.tensor(mask, dtype=torch.bool)[: len(emissions)]
    more = {"second": second[0]} if second else {}
    return LinearChain(emissions, transitions, begin=begin, end=end, mask=mask, gamma=gamma, **more)


def every_sequence(scores, mask, n):
    """Places of the tokens of a sentence, and all sequences of tags with their scores."""
    emissions, transitions, begin, end, *second = scores
    at = list(range(LENGTH)) if mask is None else np.flatnonzero(mask[n]).tolist()
    found = []
    for tags in itertools.product(range(emissions.shape[2]), repeat=len(at)):
        total = sum(float(emissions[n, t, tag]) for t, tag in zip(at, tags, strict=True))
        total += float(begin[tags[0]] + end[tags[-1]]) if tags else 0.0
        for j in range(1, len(tags)):
            if transitions.ndim == 4:
                total += float(transitions[n, at[j] - 1, tags[j - 1], tags[j]])
            elif transitions.ndim == 2:
                total += float(transitions[tags[j - 1], tags[j]])
            else:
                total += float(
                    second[0][tags[0], tags[1]] if j == 1 else transitions[tags[j - 2], tags[j - 1], tags[j]]
                )
        found.append((tags, total))
    return at, found


@pytest.mark.parametrize("gamma", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_as_enumerated(kind, mask, gamma):
    scores = random_scores(kind)
    scores[0][0, 2, 1] = scores[2][0] = -math.inf
    chain = chain_of(scores, mask, gamma)
    values, mode, entropies = chain.log_partition, chain.mode, chain.entropy()
    best, tags_of_best = chain.n_best(3)
    expected = torch.zeros(N, LENGTH, K, dtype=torch.float64)
    for n in range(N):
        at, found = every_sequence(scores, mask, n)
        totals = np.array([total for _, total in found])
        value = gamma * np.logaddexp.reduce(totals / gamma)
        p = np.exp((totals - value) / gamma)
        assert float(values[n]) == pytest.approx(value, abs=1e-12)
        assert float(entropies[n]) == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), abs=1e-9)
        for (tags, total), share in zip(found, p, strict=True):
            for t, tag in zip(at, tags, strict=True):
                expected[n, t, tag] += share
            whole = torch.zeros(N, LENGTH, dtype=torch.long)
            whole[n, at] = torch.tensor(tags, dtype=torch.long)
            log_p = float(chain.log_prob(whole)[n])
            assert log_p == pytest.approx((total - value) / gamma, abs=1e-12)
        order = sorted(found, key=lambda one: -one[1])
        assert mode[n, at].tolist() == list(order[0][0])
        assert (mode[n] >= 0).sum() == len(at)
        np.testing.assert_allclose(best[: len(found), n], [total for _, total in order[:3]], atol=1e-12)
        assert tags_of_best[0, n].tolist() == mode[n].tolist()
    np.testing.assert_allclose(chain.marginals, expected, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_those_of_differences(kind, mask):
    scores = [one.requires_grad_() for one in random_scores(kind, n=4, k=2)]
    weights = torch.tensor([1.0, -2.0, 0.5, 0.0], dtype=torch.float64)
    tags = torch.tensor([[0, 1, 1, 0]]).expand(4, LENGTH)
    soft = torch.rand(4, LENGTH, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    other = random_scores(kind, seed=5, n=4, k=2)

    def forbidden(scores):
        never = torch.zeros(4, LENGTH, 2, dtype=torch.bool)
        never[:, 1, 0] = True
        return [scores[0].masked_fill(never, -math.inf), *scores[1:]]

    functions = {
        "log_partition": lambda *scores: chain_of(scores, mask, 0.7).log_partition * weights,
        "forbidden": lambda *scores: chain_of(forbidden(scores), mask).log_partition * weights,
        "log_prob": lambda *scores: chain_of(scores, mask, 0.7).log_prob(tags) * weights,
        "soft": lambda *scores: chain_of(scores, mask).log_prob(soft),
        "entropy": lambda *scores: chain_of(forbidden(scores), mask, 0.7).entropy() * weights,
        "kl": lambda *scores: chain_of(scores, mask).kl_divergence(chain_of(other, mask, 2.0)) * weights,
        "cross entropy": lambda *scores: chain_of(other, mask).cross_entropy(chain_of(scores, mask)) * weights,
        "marginals": lambda *scores: chain_of(scores, mask, 0.7).marginals,
    }
    for name, function in functions.items():
        assert torch.autograd.gradcheck(function, scores), name
        if name in ("log_partition", "forbidden", "log_prob", "entropy"):
            assert torch.autograd.gradgradcheck(function, scores), name


def test_parts_of_neighbours_and_partial_labels():
    scores = random_scores("shared")
    mask = MASKS["gaps"]
    chain = chain_of(scores, mask)
    at_places = chain_of([scores[0], scores[1].expand(N, LENGTH - 1, K, K), *scores[2:]], mask)
    torch.testing.assert_close(chain.log_partition, at_places.log_partition)
    torch.testing.assert_close(chain.marginals, at_places.marginals)
    torch.testing.assert_close(chain.pair_marginals, at_places.expected_parts[1])
    torch.testing.assert_close(chain.expected_parts[1], chain.pair_marginals.sum(dim=(0, 1)))
    tags = torch.zeros(N, LENGTH, dtype=torch.long)
    sets = torch.nn.functional.one_hot(tags, K).bool()
    torch.testing.assert_close(chain.log_prob(sets), chain.log_prob(tags))
    tags[:, 2] = -1
    sets[:, 2] = True
    torch.testing.assert_close(chain.log_prob(sets), chain.log_prob(tags))
    each = [chain.log_prob(tags.masked_fill(tags < 0, tag)).exp() for tag in range(K)]
    lacking = torch.tensor([not row[2] for row in mask])  # the token is not there, so all are the same
    torch.testing.assert_close(chain.log_prob(tags).exp(), torch.where(lacking, each[0], torch.stack(each).sum(dim=0)))


def test_impossible_and_empty_sentences():
    emissions = torch.zeros(3, 2, 2)
    emissions[1, 1] = -math.inf
    emissions.requires_grad_()
    transitions = torch.zeros(2, 2, requires_grad=True)
    chain = LinearChain(emissions, transitions, lengths=[2, 2, 0])
    assert chain.log_partition.tolist() == pytest.approx([math.log(4), -math.inf, 0.0])
    chain.log_partition[[0, 2]].sum().backward()
    assert torch.isfinite(emissions.grad).all()
    assert torch.isfinite(transitions.grad).all()
    assert emissions.grad[1:].abs().sum() == 0
    assert chain.mode.tolist() == [[0, 0], [-1, -1], [-1, -1]]
    assert chain.entropy().tolist() == pytest.approx([math.log(4), 0.0, 0.0])
    assert chain.log_prob(torch.zeros(3, 2, dtype=torch.long)).tolist() == pytest.approx([-math.log(4), -math.inf, 0.0])
    even = LinearChain(torch.zeros(3, 2, 2), transitions, lengths=[2, 2, 0])
    assert chain.kl_divergence(even).tolist() == [0.0, 0.0, 0.0]
    assert even.kl_divergence(chain).tolist() == [0.0, math.inf, 0.0]
    emissions.grad = None
    (chain.entropy() + even.kl_divergence(chain)).nan_to_num(posinf=0.0).sum().backward()
    assert torch.isfinite(emissions.grad).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_has_the_same_bits_in_any_batch(kind):
    n = 40
    scores = random_scores(kind, n=n, k=5)
    lengths = torch.arange(n) % (LENGTH + 1)
    mask = (torch.arange(LENGTH) < lengths[:, None]).tolist()

    def of(rows):
        some = [one[rows] if one.shape[0] == n else one for one in scores]
        chain = chain_of(some, [mask[row] for row in rows])
        return chain.log_partition, chain.marginals, chain.mode

    rows = torch.randperm(n, generator=torch.Generator().manual_seed(0)).tolist()
    whole = of(list(range(n)))
    for part in (rows, rows[:7], rows[5:6]):
        for one, other in zip(of(part), whole, strict=True):
            assert torch.equal(one, other[part])


def test_types_of_numbers():
    emissions, transitions, *_ = random_scores("shared")
    exact = LinearChain(emissions, transitions)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 5e-2), (torch.float16, 1e-2)):
        low = emissions.to(dtype).requires_grad_()
        chain = LinearChain(low, transitions.to(dtype))
        assert chain.log_partition.dtype == torch.float32
        torch.testing.assert_close(chain.log_partition.double(), exact.log_partition, rtol=tolerance, atol=tolerance)
        chain.log_partition.sum().backward()
        assert low.grad.dtype == dtype
    with torch.autocast("cpu", torch.bfloat16):
        network = torch.nn.Linear(K, K)
        low = network(emissions.float())
        assert low.dtype == torch.bfloat16
        LinearChain(low, transitions.float()).log_partition.sum().backward()
    assert torch.isfinite(network.weight.grad).all()


def test_layers_keep_no_graph_and_are_copied_and_saved():
    scores = [one.requires_grad_() for one in random_scores("shared")]
    chain = chain_of(scores)
    chain.log_partition.sum().backward()
    first = scores[0].grad.clone()
    chain.log_partition.sum().backward()  # nothing of the first graph is needed
    torch.testing.assert_close(scores[0].grad, 2 * first)
    with torch.no_grad():
        assert not chain.log_partition.requires_grad
        assert not chain.entropy().requires_grad
    again = copy.deepcopy(chain_of([one.detach() for one in scores]))
    buffer = io.BytesIO()
    torch.save(again, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    for one in (again, loaded):
        torch.testing.assert_close(one.log_partition, chain.log_partition.detach())


def test_nested_batches_and_samples():
    emissions, transitions, *_ = random_scores("shared")
    lengths = [4, 2, 1, 3]
    short = [one[:size] for one, size in zip(emissions, lengths, strict=True)]
    nested = torch.nested.nested_tensor(short, layout=torch.jagged)
    chain = LinearChain(nested, transitions)
    torch.testing.assert_close(chain.log_partition, LinearChain(emissions, transitions, lengths=lengths).log_partition)
    torch.manual_seed(3)
    drawn = chain.sample(4000)
    torch.manual_seed(3)
    assert torch.equal(drawn, chain.sample((4000,)))
    assert chain.sample().shape == (N, LENGTH)
    shares = torch.stack([(drawn == tag).double().mean(dim=0) for tag in range(K)], dim=-1)
    assert float((shares - chain.marginals).abs().max()) < 0.05
    assert (chain.log_prob(drawn[0]) <= 0).all()


def test_divergences_meet_what_is_impossible():
    one, two = torch.zeros(2, 1, 2), torch.zeros(2, 1, 2)
    two[0, 0, 1] = -math.inf
    p, q = (LinearChain(each, torch.zeros(2, 2)) for each in (one, two))
    assert p.kl_divergence(q).tolist() == [math.inf, 0.0]
    assert torch.distributions.kl_divergence(q, p).tolist() == pytest.approx([math.log(2), 0.0])
    assert p.cross_entropy(q).tolist() == pytest.approx([math.inf, math.log(2)])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"emissions": torch.zeros(2, 3)}, "emissions must have shape (batch, length, n_tags), got (2, 3)"),
        ({"transitions": torch.zeros(3, 3)}, "transitions must have shape (2, 2), (1, 1, 2, 2) or (2, 2, 2)"),
        ({"begin": torch.zeros(3)}, "begin must have shape (2,), got (3,)"),
        ({"second": torch.zeros(2, 2)}, "second goes with transitions of three neighbours"),
        ({"lengths": [3]}, "lengths must be 1 whole numbers from 0 to 2"),
        ({"mask": torch.ones(1, 3)}, "mask must have shape (1, 2), one value per token, got (1, 3)"),
        ({"mask": torch.ones(1, 2), "lengths": [2]}, "lengths and mask say the same"),
        ({"gamma": -1.0}, "gamma must be a finite number, at least 0, got -1.0"),
    ],
)
def test_bad_input_is_named(change, says):
    arguments = {"emissions": torch.zeros(1, 2, 2), "transitions": torch.zeros(2, 2), **change}
    with pytest.raises(InvalidInputError) as error:
        LinearChain(**arguments)
    assert says in str(error.value)


def test_bad_values_are_named():
    chain = LinearChain(torch.zeros(1, 2, 2), torch.zeros(2, 2))
    for value, says in (
        (torch.tensor([[0, 2]]), "value must hold tags below 2, got 2"),
        (torch.tensor([[0]]), "value, tags, must have shape (1, 2), got (1, 1)"),
        (torch.ones(1, 2, dtype=torch.bool), "value, sets of parts, must have shape (1, 2, 2), got (1, 2)"),
        (torch.ones(1, 2), "value, soft labels, must have shape (1, 2, 2), got (1, 2)"),
    ):
        with pytest.raises(InvalidInputError) as error:
            chain.log_prob(value)
        assert says in str(error.value)
    with pytest.raises(InvalidInputError, match="NaN"):
        _ = LinearChain(torch.full((1, 2, 2), math.nan), torch.zeros(2, 2)).log_partition
    with pytest.raises(InvalidInputError, match="gamma must be above 0 for entropy"):
        LinearChain(torch.zeros(1, 2, 2), torch.zeros(2, 2), gamma=0.0).entropy()
