"""What the tests of WordAligner share."""

import numpy as np

from spectrem import WordAligner
from spectrem.estimators.conventions import FittedWith


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


def shares_of_rare_words(aligner, source, target):
    """What posteriors of links are multiplied by before they are held against the threshold, word by word."""
    counted = (
        dict(zip(aligner.source_vocabulary_.words, aligner.source_counts_.tolist(), strict=True)),
        dict(zip(aligner.target_vocabulary_.words, aligner.target_counts_.tolist(), strict=True)),
    )
    shares = []
    for lines in zip(source, target, strict=True):
        shares.append(np.ones([len(line.split()) for line in lines]))
        for i, word in enumerate(lines[0].split()):
            for j, other in enumerate(lines[1].split()):
                known = [c for c in (counted[0].get(word, 0), counted[1].get(other, 0)) if c]
                if known:
                    shares[-1][i, j] = min(known) / (min(known) + aligner.rare_discount)
    return shares


def clone_fitted(fitted, **options):
    """The same fitted aligner with other options for decoding."""
    other = make(**options)
    for name, value in vars(fitted).items():
        if name.endswith("_"):
            setattr(other, name, value)
    other.gamma_ = other.gamma
    other.fitted_with_ = FittedWith(fitted.fitted_with_.params | options, {})
    if other.threshold != "auto":
        other.threshold_ = other.threshold
    return other
