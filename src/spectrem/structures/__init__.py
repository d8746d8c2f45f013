"""Families of latent structures: each a smoothed max over scores on its parts."""

from spectrem.structures.agreement import full_agreement
from spectrem.structures.alignment import NULL, Alignment
from spectrem.structures.categorical import Categorical
from spectrem.structures.chain import Chain
from spectrem.structures.entropy import entropy
from spectrem.structures.parts import Parts
from spectrem.structures.product import Product
from spectrem.structures.structure import Polytope, Structure

__all__ = [
    "NULL",
    "Alignment",
    "Categorical",
    "Chain",
    "Parts",
    "Polytope",
    "Product",
    "Structure",
    "entropy",
    "full_agreement",
]
