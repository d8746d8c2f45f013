"""The constraint language and the sparse rows it compiles to."""

from spectrem.constraints.columns import Column, part
from spectrem.constraints.compile import compile_constraints, compile_corpus
from spectrem.constraints.constraint import Constraint, CustomConstraint, LinearConstraint, MaxOver, linear, max_over
from spectrem.constraints.expectation import E, Expectation
from spectrem.constraints.rows import Block, Norm, Rows, Slack
from spectrem.constraints.shortcuts import agreement, fertility
from spectrem.constraints.text import row_text

__all__ = [
    "Block",
    "Column",
    "Constraint",
    "CustomConstraint",
    "E",
    "Expectation",
    "LinearConstraint",
    "MaxOver",
    "Norm",
    "Rows",
    "Slack",
    "agreement",
    "compile_constraints",
    "compile_corpus",
    "fertility",
    "linear",
    "max_over",
    "part",
    "row_text",
]
