"""Small batches of every family, and scores that include what goes wrong: -inf, ties, a thousand nats."""

import numpy as np
from hypothesis import strategies as st

from spectrem.structures import (
    Alignment,
    Bracketings,
    Categorical,
    Chain,
    Chain2,
    EdgeChain,
    NonProjectiveTrees,
    Parts,
    Product,
    ProjectiveTrees,
    SemiMarkovChain,
    ValenceTrees,
)

GAMMAS = (0.0, 0.3, 1.0, 2.5)


@st.composite
def categoricals(draw):
    return Categorical(draw(st.lists(st.integers(0, 4), max_size=4)))


@st.composite
def chains(draw):
    lengths = draw(st.lists(st.integers(0, 4), max_size=3))
    n_states = draw(st.integers(1, 3))
    if draw(st.booleans()):
        return Chain(lengths, n_states)
    subsets = st.sets(st.integers(0, n_states - 1), min_size=1).map(sorted)
    tokens = [draw(subsets) for _ in range(sum(lengths))]
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in tokens])]).astype(np.int64)
    return Chain(lengths, n_states, allowed=(offsets, np.array([s for t in tokens for s in t], dtype=np.int64)))


def edge_chains():
    return chains().map(lambda chain: EdgeChain(chain.lengths, chain.n_states, chain.allowed))


def chains2():
    return chains().map(lambda chain: Chain2(chain.lengths, chain.n_states, chain.allowed))


@st.composite
def semi_markov_chains(draw):
    return SemiMarkovChain(
        draw(st.lists(st.integers(0, 4), max_size=3)), draw(st.integers(1, 2)), draw(st.integers(1, 5))
    )


@st.composite
def alignments(draw):
    pairs = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=3))
    return Alignment(
        np.array([i for i, _ in pairs], dtype=np.int64),
        np.array([j for _, j in pairs], dtype=np.int64),
        max_jump=draw(st.sampled_from([None, 1, 2, 5])),
        reverse=draw(st.booleans()),
    )


def bracketings():
    return st.lists(st.integers(0, 5), max_size=3).map(Bracketings)


@st.composite
def products(draw):
    n = draw(st.integers(0, 2))
    lengths = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    left, right = draw(lengths), draw(lengths)
    width = draw(st.sampled_from([None, 2]))
    others = [
        Alignment(np.array(right, np.int64), np.array(left, np.int64), max_jump=width, reverse=True),
        Chain(np.array(left, np.int64), n_states=2),
    ]
    forward = Alignment(np.array(left, np.int64), np.array(right, np.int64), max_jump=width)
    return Product({"forward": forward, "backward": draw(st.sampled_from(others))}, name="direction")


@st.composite
def products_of_parts(draw):
    """Labels of instances, of their parts, and chains over parts that stand in any order."""
    n = draw(st.integers(1, 3))
    owners = st.lists(st.integers(0, n - 1), max_size=2)
    entities, mentions = draw(owners), draw(owners)
    label = Categorical(draw(st.lists(st.integers(1, 2), min_size=n, max_size=n)))
    entity = Categorical(draw(st.lists(st.integers(0, 3), min_size=len(entities), max_size=len(entities))))
    mention = Chain(draw(st.lists(st.integers(0, 2), min_size=len(mentions), max_size=len(mentions))), n_states=2)
    members = {"label": label, "entity": entity, "mention": mention}
    if draw(st.booleans()):
        del members["label"]
    return Product(members, owners={"entity": entities, "mention": mentions}, n_instances=n)


@st.composite
def nonprojective_trees(draw):
    return NonProjectiveTrees(draw(st.lists(st.integers(0, 4), max_size=3)), single_root=draw(st.booleans()))


@st.composite
def projective_trees(draw):
    return ProjectiveTrees(draw(st.lists(st.integers(0, 4), max_size=3)), single_root=draw(st.booleans()))


@st.composite
def valence_trees(draw):
    lengths = draw(st.lists(st.integers(0, 4), max_size=2))
    return ValenceTrees(np.array(lengths, np.int64), single_root=draw(st.booleans()))


FAMILIES = {
    "categorical": categoricals(),
    "chain": chains(),
    "chain2": chains2(),
    "chain of edges": edge_chains(),
    "alignment": alignments(),
    "bracketings": bracketings(),
    "nonprojective trees": nonprojective_trees(),
    "product": products(),
    "product of parts": products_of_parts(),
    "projective trees": projective_trees(),
    "semi-Markov chain": semi_markov_chains(),
    "trees with valence": valence_trees(),
}


def seeds():
    return st.integers(0, 2**32 - 1)


def random_scores(structure, rng, kind="normal"):
    """``normal``; ``impossible`` adds -inf; ``ties`` are few integers; ``large`` is +-1e3; ``mixed`` is all of it."""

    def draw(shape):
        values = rng.normal(size=shape)
        if kind == "ties":
            values = rng.integers(-1, 2, size=shape).astype(np.float64)
        if kind in ("large", "mixed"):
            values = np.where(rng.random(shape) < 0.5, 1e3 * rng.choice([-1.0, 1.0], size=shape), values)
        if kind in ("impossible", "mixed"):
            values = np.where(rng.random(shape) < 0.25, -np.inf, values)
        return values

    return Parts(draw(structure.n_unary), tuple(draw(shape) for shape in structure.factor_shapes))


SCORE_KINDS = ("normal", "impossible", "ties", "large", "mixed")
