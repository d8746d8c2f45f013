"""Sentences with dependency trees: CoNLL-U in and out, checks of heads, and projective trees from others."""

from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem.data.treebank.conllu_trees import read_conllu, write_conllu
from spectrem.data.treebank.copying import copy_with_trees
from spectrem.data.treebank.heads import describe_problem, is_projective, projectivise
from spectrem.data.treebank.sentence import ParsedSentence

__all__ = [
    "ROOT",
    "UNKNOWN_HEAD",
    "ParsedSentence",
    "copy_with_trees",
    "describe_problem",
    "is_projective",
    "projectivise",
    "read_conllu",
    "write_conllu",
]
