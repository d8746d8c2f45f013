"""Families of latent structures: each a smoothed max over scores on its parts."""

from typing import TYPE_CHECKING

from spectrem._first_use import on_first_use
from spectrem._heads import ROOT
from spectrem.structures.entropy import entropy

if TYPE_CHECKING:
    from spectrem.structures.agreement import full_agreement
    from spectrem.structures.alignment import NULL, Alignment
    from spectrem.structures.bracketings import Bracketings
    from spectrem.structures.categorical import Categorical
    from spectrem.structures.chains.chain import Chain, Chain2
    from spectrem.structures.chains.edge_chain import EdgeChain
    from spectrem.structures.chains.semi_markov import SemiMarkovChain
    from spectrem.structures.chains.tied import TiedChain, TiedChain2, TiedCounts, TiedCounts2
    from spectrem.structures.draws import n_best, sample
    from spectrem.structures.known import Known
    from spectrem.structures.parts import Parts
    from spectrem.structures.product import Product
    from spectrem.structures.segmentations import Segmentations
    from spectrem.structures.structure import Differentiable, Polytope, Structure
    from spectrem.structures.trees.nonprojective import NonProjectiveTrees
    from spectrem.structures.trees.projective import ProjectiveTrees, ValenceTrees

# Loaded on first use: an aligner needs no trees. (The module of `entropy` has its name.)
_MODULES = {
    "agreement": ["full_agreement"],
    "alignment": ["NULL", "Alignment"],
    "bracketings": ["Bracketings"],
    "categorical": ["Categorical"],
    "chains.chain": ["Chain", "Chain2"],
    "chains.edge_chain": ["EdgeChain"],
    "chains.semi_markov": ["SemiMarkovChain"],
    "chains.tied": ["TiedChain", "TiedChain2", "TiedCounts", "TiedCounts2"],
    "draws": ["n_best", "sample"],
    "known": ["Known"],
    "parts": ["Parts"],
    "product": ["Product"],
    "segmentations": ["Segmentations"],
    "structure": ["Differentiable", "Polytope", "Structure"],
    "trees.nonprojective": ["NonProjectiveTrees"],
    "trees.projective": ["ProjectiveTrees", "ValenceTrees"],
}
_HOMES = {name: home for home, names in _MODULES.items() for name in names}

__all__ = [
    "NULL",
    "ROOT",
    "Alignment",
    "Bracketings",
    "Categorical",
    "Chain",
    "Chain2",
    "Differentiable",
    "EdgeChain",
    "Known",
    "NonProjectiveTrees",
    "Parts",
    "Polytope",
    "Product",
    "ProjectiveTrees",
    "Segmentations",
    "SemiMarkovChain",
    "Structure",
    "TiedChain",
    "TiedChain2",
    "TiedCounts",
    "TiedCounts2",
    "ValenceTrees",
    "entropy",
    "full_agreement",
    "n_best",
    "sample",
]

__getattr__, __dir__ = on_first_use(__name__, _HOMES)
