"""The constraint language and the sparse rows it compiles to."""

# ruff: noqa: F401 - `__all__` is what is public; the other names are for the library itself

from spectrem.constraints import shortcuts
from spectrem.constraints.columns import Column, part
from spectrem.constraints.compilation.compile import compile_constraints, compile_shard, corpus_rows, facts_of
from spectrem.constraints.compilation.facts import CorpusFacts
from spectrem.constraints.compilation.rows import Block, CorpusRows, Norm, Rows, ShardRows, Slack, row_text
from spectrem.constraints.constraint import (
    AllOf,
    Constraint,
    CustomConstraint,
    E,
    Expectation,
    LinearConstraint,
    MaxOver,
    linear,
)
from spectrem.constraints.shortcuts import *  # noqa: F403 - a new shortcut is named in its own file only
from spectrem.constraints.shortcuts import UNIVERSAL_RULES
from spectrem.constraints.text import ConstraintTextError, parse_constraint, read_constraints, write_constraints
from spectrem.constraints.values import check_columns, check_values

__all__ = [
    "UNIVERSAL_RULES",
    "AllOf",
    "Block",
    "Column",
    "Constraint",
    "ConstraintTextError",
    "CustomConstraint",
    "E",
    "Expectation",
    "LinearConstraint",
    "MaxOver",
    "Norm",
    "Rows",
    "Slack",
    "compile_constraints",
    "linear",
    "parse_constraint",
    "part",
    "read_constraints",
    "write_constraints",
]
__all__ += shortcuts.__all__
