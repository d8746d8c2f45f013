"""Smoothed maxima of batches of structures in plain tensor operations, on any device.

Every function takes padded scores of a batch, in nats, and returns a number per instance, shape (batch,): ``gamma``
times the logarithm of the sum of exp(score / gamma) over its structures, and at ``gamma == 0`` the score of the best
one. Compiled kernels compute the same for `spectrem.structures`. PyTorch differentiates the functions any number of
times: first derivatives are marginals, at ``gamma == 0`` the indicators of one best structure; second derivatives are
covariances over gamma.

Scores may be -inf, which forbids a part: it has derivatives of 0, as has an instance without any possible structure,
whose value is -inf. An instance of length 0 has the value 0. Padding may hold anything, even NaN. Sums are of the
widest type of the scores, at least float32. Arguments are not checked.
"""

from spectrem.torch.tensors.alignments import alignments
from spectrem.torch.tensors.chains import linear_chain, second_order_chain
from spectrem.torch.tensors.spans import bracketings, segmentations
from spectrem.torch.tensors.trees import nonprojective_trees, projective_trees

__all__ = [
    "alignments",
    "bracketings",
    "linear_chain",
    "nonprojective_trees",
    "projective_trees",
    "second_order_chain",
    "segmentations",
]
