"""Structured layers for PyTorch: exact chains, trees and constrained posteriors inside any network.

Nothing else of Spectrem imports PyTorch, which comes with the extra ``torch``.
"""

from spectrem.torch.alignments import Alignment
from spectrem.torch.chains import LinearChain
from spectrem.torch.constrained import Constrained, PosteriorRegularisation, constrained, posterior_regularisation
from spectrem.torch.crf import CRF, bio
from spectrem.torch.distribution import StructuredDistribution
from spectrem.torch.spans import Bracketings, Segmentations
from spectrem.torch.trees import NonProjectiveTrees, ProjectiveTrees

__all__ = [
    "CRF",
    "Alignment",
    "Bracketings",
    "Constrained",
    "LinearChain",
    "NonProjectiveTrees",
    "PosteriorRegularisation",
    "ProjectiveTrees",
    "Segmentations",
    "StructuredDistribution",
    "bio",
    "constrained",
    "posterior_regularisation",
]
