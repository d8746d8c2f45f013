"""Structured layers for PyTorch: exact chains, trees and constrained posteriors inside any network.

Nothing else of Spectrem imports PyTorch, which comes with the extra ``torch``.
"""

from spectrem.torch.chains import LinearChain
from spectrem.torch.constrained import Constrained, PosteriorRegularisation, constrained, posterior_regularisation
from spectrem.torch.crf import CRF, bio
from spectrem.torch.distribution import StructuredDistribution

__all__ = [
    "CRF",
    "Constrained",
    "LinearChain",
    "PosteriorRegularisation",
    "StructuredDistribution",
    "bio",
    "constrained",
    "posterior_regularisation",
]
