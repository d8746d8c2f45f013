"""Polytopes of instances: products of simplexes, and several polytopes side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._first_use import sparse as sp
from spectrem.exceptions import InvalidInputError
from spectrem.structures.structure import Polytope

# A sentence may need so many variables; each takes so many bytes in the solver, as measured on integer programs over
# projective trees of 20 to 40 words, which took seconds to many minutes; linear programs take a sixth of that.
_MOST = 1 << 18
_BYTES = 15_000


def check_tree_program(n_words: int, n_variables: int) -> None:
    """Raise `InvalidInputError` if the program of a sentence would be too large, before anything is built."""
    if n_variables > _MOST:
        raise InvalidInputError(
            f"sentences must be shorter for a program over trees: {n_words} words need {n_variables:,} variables, "
            f"about {n_variables * _BYTES / 1e9:.1f} GB with the solver, and the most is {_MOST:,}; leave the sentence "
            "out, or use gamma > 0, which needs no program"
        )


def simplex_polytope(unary: Floats, start: int, sizes: Ints) -> Polytope:
    """One simplex per position; the instance owns ``unary[start:start + sizes.sum()]``."""
    n_variables = int(sizes.sum())
    rows = np.repeat(np.arange(len(sizes)), sizes)
    return Polytope(
        equalities=_ones(rows, np.arange(n_variables), (len(sizes), n_variables)),
        right_hand_side=np.ones(len(sizes)),
        objective=unary[start : start + n_variables].copy(),
        unary_index=np.arange(start, start + n_variables),
        unary=_ones(np.arange(n_variables), np.arange(n_variables), (n_variables, n_variables)),
        factors=(),
    )


def join_polytopes(polytopes: Sequence[Polytope], factor_sizes: Sequence[int]) -> Polytope:
    """Independent polytopes as one: variables and parts one after the other, factors of ``factor_sizes`` in common."""
    return Polytope(
        equalities=_diagonal([p.equalities for p in polytopes]),
        right_hand_side=np.concatenate([np.zeros(0), *(p.right_hand_side for p in polytopes)]),
        objective=np.concatenate([np.zeros(0), *(p.objective for p in polytopes)]),
        unary_index=np.concatenate([np.zeros(0, np.int64), *(p.unary_index for p in polytopes)]),
        unary=_diagonal([p.unary for p in polytopes]),
        factors=tuple(
            sp.csr_array(sp.hstack([sp.csr_array((n_cells, 0)), *(p.factors[k] for p in polytopes)], format="csr"))
            for k, n_cells in enumerate(factor_sizes)
        ),
    )


def _diagonal(blocks: list[sp.csr_array]) -> sp.csr_array:
    return sp.csr_array(sp.block_diag([sp.csr_array((0, 0)), *blocks], format="csr"))


def _ones(rows: Ints, columns: Ints, shape: tuple[int, int]) -> sp.csr_array:
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
