"""Constraints on the predictions of any model: tables of probabilities, projected and decided."""

from spectrem.reports import ConstraintReport
from spectrem.structures.table import TableStructure
from spectrem.tables.decision import Decision
from spectrem.tables.lattice import Lattice
from spectrem.tables.project import project
from spectrem.tables.result import ProjectedTable
from spectrem.tables.scores import ScoreError
from spectrem.tables.targets import ConstrainedTargets

__all__ = [
    "ConstrainedTargets",
    "ConstraintReport",
    "Decision",
    "Lattice",
    "ProjectedTable",
    "ScoreError",
    "TableStructure",
    "project",
]
