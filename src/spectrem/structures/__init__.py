"""Families of latent structures: each a smoothed max over scores on its parts."""

from spectrem._heads import ROOT
from spectrem.structures.agreement import full_agreement
from spectrem.structures.alignment import NULL, Alignment
from spectrem.structures.bracketings import Bracketings
from spectrem.structures.categorical import Categorical
from spectrem.structures.chains.chain import Chain
from spectrem.structures.chains.chain2 import Chain2
from spectrem.structures.chains.edge_chain import EdgeChain
from spectrem.structures.chains.tied_chain import TiedChain, TiedCounts
from spectrem.structures.chains.tied_chain2 import TiedChain2, TiedCounts2
from spectrem.structures.entropy import entropy
from spectrem.structures.known import Known
from spectrem.structures.parts import Parts
from spectrem.structures.product import Product
from spectrem.structures.structure import Polytope, Structure
from spectrem.structures.trees.nonprojective import NonProjectiveTrees
from spectrem.structures.trees.projective import ProjectiveTrees
from spectrem.structures.trees.valence import ValenceTrees

__all__ = [
    "NULL",
    "ROOT",
    "Alignment",
    "Bracketings",
    "Categorical",
    "Chain",
    "Chain2",
    "EdgeChain",
    "Known",
    "NonProjectiveTrees",
    "Parts",
    "Polytope",
    "Product",
    "ProjectiveTrees",
    "Structure",
    "TiedChain",
    "TiedChain2",
    "TiedCounts",
    "TiedCounts2",
    "ValenceTrees",
    "entropy",
    "full_agreement",
]
