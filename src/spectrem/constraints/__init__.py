"""The constraint language and the sparse rows it compiles to."""

from spectrem.constraints.clusters import at_least_one_per, cannot_link, cluster_size, must_link
from spectrem.constraints.columns import Column, part
from spectrem.constraints.compile import compile_constraints, compile_shard, corpus_rows, facts_of
from spectrem.constraints.constraint import Constraint, CustomConstraint, LinearConstraint, MaxOver, linear, max_over
from spectrem.constraints.expectation import E, Expectation
from spectrem.constraints.facts import CorpusFacts
from spectrem.constraints.file_nodes import ConstraintFileError
from spectrem.constraints.files import read_constraints, write_constraints
from spectrem.constraints.proportions import label_proportions, tag_proportions
from spectrem.constraints.rows import Block, CorpusRows, Norm, Rows, ShardRows, Slack
from spectrem.constraints.shortcuts import agreement, fertility
from spectrem.constraints.tags import at_least, at_most, dictionary_in_expectation, sparsity
from spectrem.constraints.text import row_text
from spectrem.constraints.values import check_columns, check_values

__all__ = [
    "Block",
    "Column",
    "Constraint",
    "ConstraintFileError",
    "CorpusFacts",
    "CorpusRows",
    "CustomConstraint",
    "E",
    "Expectation",
    "LinearConstraint",
    "MaxOver",
    "Norm",
    "Rows",
    "ShardRows",
    "Slack",
    "agreement",
    "at_least",
    "at_least_one_per",
    "at_most",
    "cannot_link",
    "check_columns",
    "check_values",
    "cluster_size",
    "compile_constraints",
    "compile_shard",
    "corpus_rows",
    "dictionary_in_expectation",
    "facts_of",
    "fertility",
    "label_proportions",
    "linear",
    "max_over",
    "must_link",
    "part",
    "read_constraints",
    "row_text",
    "sparsity",
    "tag_proportions",
    "write_constraints",
]
