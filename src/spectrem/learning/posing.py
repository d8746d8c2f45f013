"""A shard posed as a problem, once per fit: its structure, its weights and the rows of constraints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from spectrem.constraints.compile import Constraints, compile_shard, facts_of
from spectrem.constraints.facts import CorpusFacts
from spectrem.constraints.rows import Rows
from spectrem.learning.estep import Posed, Step, expect
from spectrem.learning.model import columns_of, is_known, weights_of
from spectrem.models.estep import EStepResult


class Numbered(NamedTuple):
    """A shard and its number in the corpus, from 0."""

    shard: Any
    number: int


def number_shard(shard: Any, number: int) -> Numbered:
    """The shard with its number."""
    return Numbered(shard, number)


def pose_shard(numbered: Numbered, model: Any) -> Posed:
    """A shard's structure and weights."""
    shard, number = numbered
    structure = model.structure(shard)
    return Posed(shard, number, structure, weights_of(model, shard, structure))


def count_parts(posed: Posed) -> int:
    """Of a shard."""
    return posed.structure.n_unary


def expect_anew(numbered: Numbered, step: Step, facts: CorpusFacts) -> EStepResult[Any]:
    """The E-step of a shard that is posed for it and forgotten."""
    posed = with_rows(pose_shard(numbered, step.model), step.model, step.estep.constraints, facts, 0)
    return expect(posed, step)[0]


def pose_compiled(shard: Any, model: Any, rows: Rows) -> Posed:
    """The only shard of a corpus with its rows."""
    return replace(pose_shard(Numbered(shard, 0), model), inside=rows if len(rows.bounds) else None)


def find_facts(posed: Posed, model: Any, constraints: Constraints, before: CorpusFacts | None = None) -> CorpusFacts:
    """What the rows of other shards need to know of this one."""
    columns = columns_of(model, posed.shard)
    return facts_of(constraints, posed.structure, columns, posed.weights, before, posed.number)


def with_rows(posed: Posed, model: Any, constraints: Constraints, facts: CorpusFacts, n_rows: int) -> Posed:
    """A shard with its own rows and its part of those over the corpus."""
    columns = columns_of(model, posed.shard)
    rows = compile_shard(constraints, facts, posed.number, posed.structure, columns, posed.weights)
    inside = None if is_known(model, posed.shard) or not len(rows.inside.bounds) else rows.inside
    alone = len(facts.n_instances) == 1 or posed.structure.instance_name in columns
    where = "" if alone else f" (instances are counted from 0 in shard {posed.number})"
    posed = replace(posed, inside=inside, where=where)
    if not n_rows:
        return posed
    flipped = sp.csr_array(rows.matrix.T)
    index = np.int32 if n_rows < 2**31 else np.int64
    columns_over_corpus = rows.present[flipped.indices].astype(index)
    transpose = sp.csr_array(
        (flipped.data, columns_over_corpus, flipped.indptr.astype(index)), shape=(posed.structure.n_unary, n_rows)
    )
    return replace(posed, across=rows.matrix, present=rows.present, transpose=transpose)
