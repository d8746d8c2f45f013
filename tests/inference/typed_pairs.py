"""Sentences of mentions with types and pairs with relations, tied by rules of types."""

import numpy as np

from spectrem.constraints import argument_types, compile_constraints
from spectrem.structures import Categorical, Parts, Product

TYPES, RELATIONS = ("Loc", "Org", "Peop"), ("none", "Kill", "Live_In", "Work_For")
RULES = argument_types({"Kill": ("Peop", "Peop"), "Live_In": ("Peop", "Loc"), "Work_For": ("Peop", "Org")})


def sentences(sizes, types=TYPES, relations=RELATIONS):
    """The structure of sentences of so many mentions and all their pairs, and its columns."""
    pairs = np.array([(n, a, b) for n, m in enumerate(sizes) for a in range(m) for b in range(m) if a != b])
    k, r = len(types), len(relations)
    structure = Product(
        {"mention": Categorical(np.full(sum(sizes), k)), "pair": Categorical(np.full(len(pairs), r))},
        owners={"mention": np.repeat(np.arange(len(sizes)), sizes), "pair": pairs[:, 0]},
        n_instances=len(sizes),
        instance_name="sentence",
    )
    lacking = [np.nan] * (k * sum(sizes))
    return structure, {
        "type": [*types * sum(sizes), *[None] * (r * len(pairs))],
        "relation": [*[None] * (k * sum(sizes)), *relations * len(pairs)],
        "first": [*lacking, *np.repeat(pairs[:, 1].astype(float), r)],
        "second": [*lacking, *np.repeat(pairs[:, 2].astype(float), r)],
    }


def case(sizes, seed, sharp=2.0):
    """Random scores, some of them impossible, under the rules."""
    structure, columns = sentences(sizes)
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=structure.n_unary) * sharp
    impossible = np.array([kind == "Org" for kind in columns["type"]]) & (rng.random(structure.n_unary) < 0.2)
    scores[impossible] = -np.inf
    return structure, Parts(scores), compile_constraints(RULES, structure, columns)
