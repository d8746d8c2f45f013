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
    from spectrem.structures.chains.tied import TiedChain, TiedChain2, TiedCounts, TiedCounts2
    from spectrem.structures.draws import n_best, sample
    from spectrem.structures.known import Known
    from spectrem.structures.parts import Parts
    from spectrem.structures.product import Product
    from spectrem.structures.segmentations import Segmentations
    from spectrem.structures.structure import Polytope, Structure
    from spectrem.structures.trees.nonprojective import NonProjectiveTrees
    from spectrem.structures.trees.projective import ProjectiveTrees, ValenceTrees

# Loaded on first use: an aligner needs no trees. (The module of `entropy` has its name.)
_HOMES = {
    "Alignment": "alignment",
    "Bracketings": "bracketings",
    "Categorical": "categorical",
    "Chain": "chains.chain",
    "Chain2": "chains.chain",
    "EdgeChain": "chains.edge_chain",
    "Known": "known",
    "NULL": "alignment",
    "NonProjectiveTrees": "trees.nonprojective",
    "Parts": "parts",
    "Polytope": "structure",
    "Product": "product",
    "ProjectiveTrees": "trees.projective",
    "Segmentations": "segmentations",
    "Structure": "structure",
    "TiedChain": "chains.tied",
    "TiedChain2": "chains.tied",
    "TiedCounts": "chains.tied",
    "TiedCounts2": "chains.tied",
    "ValenceTrees": "trees.projective",
    "full_agreement": "agreement",
    "n_best": "draws",
    "sample": "draws",
}

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
    "Segmentations",
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

__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
