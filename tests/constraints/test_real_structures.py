import numpy as np
import pytest

from spectrem.constraints import E, agreement, fertility, max_over, part
from spectrem.structures import NULL, Alignment, Categorical, Chain, Product
from spectrem.testing.check_constraint import check_constraint


def test_categorical():
    labels = Categorical([3, 2, 3])
    for constraint in (
        (E[...] >= 0.5).per("label"),
        (E[part("label") == 1] <= 1).per("document"),
        (E[part("label") == 2] >= 0.25).per("instance"),
        E[part("label") == 0].between(1, 0.5 * E.count(...)),
    ):
        check_constraint(constraint, labels, {"document": ["x", "y", "x"]})


@pytest.mark.parametrize("dictionary", [False, True])
def test_chain(dictionary):
    allowed = (np.array([0, 2, 3, 6, 7]), np.array([0, 2, 1, 0, 1, 2, 2])) if dictionary else None
    chain = Chain([3, 0, 1], 3, allowed)
    words = np.array(["a", "b", "a", "c"])
    for constraint in (
        (E[part("tag") == 1] >= 1).per("sentence"),
        (E[part("tag").isin([0, 2])] <= 0.5 * E.count(...)).per("word"),
        max_over("occurrence", E[...].per("word", "tag")).penalty(32),
        (E[part("source")] <= 1).slack(penalty=1, norm="l1"),
    ):
        rows = check_constraint(constraint, chain, {"word": words, "source": [0.5, 1, 2]})
        assert rows.matrix.nnz > 0


SOURCE, TARGET = [2, 1, 3, 0], [1, 2, 2, 1]
N_LINKS = sum(i * j for i, j in zip(SOURCE, TARGET, strict=True))


@pytest.fixture(params=[None, 2])
def alignments(request):
    forward = Alignment(SOURCE, TARGET, max_jump=request.param)
    backward = Alignment(TARGET, SOURCE, max_jump=request.param, reverse=True)
    return forward, backward, Product({"forward": forward, "backward": backward}, name="direction")


def test_agreement_of_a_product_of_alignments(alignments):
    forward, _, both = alignments
    check_constraint((E[part("source") != NULL] <= 1).per("sentence", "source"), forward)
    assert check_constraint(agreement(), both).matrix.shape[0] == N_LINKS
    assert (
        check_constraint(agreement().slack(bound=1), both).blocks[0].slack_group.tolist() == [0] * 2 + [1] * 2 + [2] * 6
    )


def test_fertility_of_alignments_and_their_product(alignments):
    forward, backward, both = alignments
    if "state" not in forward.columns or "direction" not in forward.columns:
        pytest.skip("Alignment has no columns state and direction yet")
    rows = check_constraint(fertility(1), both)
    assert rows.matrix.shape[0] == sum(i for i, j in zip(SOURCE, TARGET, strict=True) if j) + sum(TARGET) - 1
    assert rows.matrix.nnz == 2 * N_LINKS
    for one in (forward, backward):
        assert check_constraint(fertility(2, 0.5), one).matrix.nnz == 2 * N_LINKS
