"""The CRF layer: pytorch-crf's calls, forbidden moves, and what it has beside them."""

import io
import itertools

import pytest

from spectrem.exceptions import InvalidInputError

torch = pytest.importorskip("torch", reason="PyTorch, which the extra 'torch' brings, is not installed")

from spectrem.torch import CRF, bio  # noqa: E402

TAGS = ["O", "B", "I"]


def batch(length=4, n=3, seed=0):
    draw = torch.Generator().manual_seed(seed)
    emissions = torch.randn(length, n, 3, generator=draw)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0]], dtype=torch.uint8)
    return emissions, torch.randint(0, 3, (length, n), generator=draw), mask


def score(crf, emissions, tags):
    total = crf.start_transitions[tags[0]] + crf.end_transitions[tags[-1]]
    total = total + sum(emissions[t, tag] for t, tag in enumerate(tags))
    return total + sum(crf.transitions[one, two] for one, two in itertools.pairwise(tags))


@pytest.mark.parametrize("batch_first", [False, True])
def test_likelihood_and_best_tags_are_as_enumerated(batch_first):
    torch.manual_seed(0)
    crf, (emissions, tags, mask) = CRF(3, batch_first=batch_first), batch()
    expected, best = [], []
    for n in range(3):
        size = int(mask[:, n].sum())
        scores = {one: score(crf, emissions[:size, n], one) for one in itertools.product(range(3), repeat=size)}
        expected.append(scores[tuple(tags[:size, n].tolist())] - torch.logsumexp(torch.stack(list(scores.values())), 0))
        best.append(list(max(scores, key=scores.get)))
    turned = [one.transpose(0, 1) if batch_first else one for one in (emissions, tags, mask)]
    likelihoods = crf(*turned, reduction="none")
    torch.testing.assert_close(likelihoods, torch.stack(expected))
    torch.testing.assert_close(crf(*turned), likelihoods.sum())
    torch.testing.assert_close(crf(*turned, reduction="mean"), likelihoods.mean())
    torch.testing.assert_close(crf(*turned, reduction="token_mean"), likelihoods.sum() / mask.sum())
    assert crf.decode(turned[0], turned[2]) == best
    listed = crf.n_best(turned[0], 2, turned[2])
    assert [one[0][1] for one in listed] == best
    assert [len(one) for one in listed] == [2, 2, 2]
    marginals = crf.marginals(turned[0], turned[2])
    torch.testing.assert_close(marginals.sum(dim=-1), turned[2].float())


def test_moves_that_are_not_allowed_are_never_made():
    crf, (emissions, *_) = CRF(3, batch_first=True, allowed=bio(TAGS)), batch(6, 40)
    emissions = emissions.transpose(0, 1)
    for tags in crf.decode(emissions):
        assert all(tag != 2 or before in (1, 2) for before, tag in itertools.pairwise([0, *tags]))
    with torch.no_grad():
        broken = crf(emissions, torch.full((40, 6), 2), reduction="none")
    assert (broken == -torch.inf).all()
    crf(emissions, torch.ones(40, 6, dtype=torch.long)).backward()
    assert crf.transitions.grad[0, 2] == crf.start_transitions.grad[2] == 0.0
    assert torch.isfinite(crf.transitions.grad).all()


def test_layers_are_saved_with_networks():
    crf, (emissions, tags, _) = CRF(3, allowed=bio(TAGS)), batch()
    buffer = io.BytesIO()
    torch.save(crf.state_dict(), buffer)
    buffer.seek(0)
    other = CRF(3, allowed=bio(TAGS))
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(crf(emissions, tags), other(emissions, tags))
    assert sorted(crf.state_dict()) == ["end_transitions", "start_transitions", "transitions"]  # as of pytorch-crf
    tensors = torch.utils.data.TensorDataset(emissions.transpose(0, 1), tags.transpose(0, 1))
    [(some, known)] = torch.utils.data.DataLoader(tensors, batch_size=3)
    torch.testing.assert_close(other(some.transpose(0, 1), known.transpose(0, 1)), crf(emissions, tags))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: CRF(0), "num_tags must be at least 1"),
        (lambda: CRF(3, batch_first="no"), "batch_first must be True or False"),
        (lambda: CRF(3, allowed=torch.ones(3, 3)), "allowed must have shape (4, 4)"),
        (lambda: CRF(3)(*batch()[:2], reduction="all"), "reduction must be none, sum, mean or token_mean"),
        (lambda: CRF(3).decode(torch.zeros(2, 3)), "emissions must have dimension of 3, got 2"),
        (lambda: CRF(3).decode(torch.zeros(2, 1, 3), torch.zeros(2, 1)), "mask of the first timestep must all be on"),
        (lambda: bio(TAGS, "iob"), "scheme must be bio or bioes, got 'iob'"),
        (lambda: bio(["X"]), "needs tags that are O or one of"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(InvalidInputError) as error:
        call()
    assert says in str(error.value)
