"""What the tests of WordAligner share."""

import numpy as np

from spectrem import WordAligner


def make(**options):
    """An aligner on one thread."""
    return WordAligner(**{"n_threads": 1, **options})


def same_params(a, b, rtol=0.0):
    """Whether all parameters are equal; with ``rtol`` an assertion that they are close."""
    for side in ("forward", "backward"):
        for name in ("translation", "null", "jump", "end"):
            one, other = (getattr(getattr(aligner.params_, side), name) for aligner in (a, b))
            if rtol:
                np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-10, err_msg=name)
            elif not np.array_equal(one, other):
                return False
    return True


def clone_fitted(fitted, **options):
    """The same fitted aligner with other options for decoding."""
    other = make(**options)
    for name, value in vars(fitted).items():
        if name.endswith("_"):
            setattr(other, name, value)
    other.gamma_ = other.gamma
    if other.threshold != "auto":
        other.threshold_ = other.threshold
    return other
