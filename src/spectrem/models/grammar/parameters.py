"""Parameters and expected counts of the dependency model with valence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectrem._arrays import Floats

TABLES = ("root", "choose", "stop")


@dataclass(frozen=True, eq=False)
class GrammarParameters:
    """Probabilities (or, under a mean-field prior, weights); every row, along the last axis, is a distribution.

    Attributes
    ----------
    root : ndarray of shape (n_tags,)
        Probability of the tag of a word that hangs on the root.
    choose : ndarray of shape (n_tags, 2, n_tags) or (n_tags, 2, 2, n_tags)
        Probability of the tag of a child: [tag of the head, 0: left / 1: right, child], or with the position among the
        children of that side, 0: first / 1: later, before the last axis.
    stop : ndarray of shape (n_tags, 2, 2, 2)
        [tag of the head, 0: left / 1: right, 0: without / 1: with a child there, 0: take another child / 1: stop].
    log_prior : float or None
        Log-density under the model's priors, nats, if an M-step made the parameters: that of a mean-field prior cannot
        be computed from the weights alone.
    """

    root: Floats
    choose: Floats
    stop: Floats
    log_prior: float | None = None


@dataclass(frozen=True, eq=False)
class GrammarCounts:
    """Expected counts behind the arrays of `GrammarParameters`, in their shapes.

    Values with ``a + b`` and ``factor * a``; ``a += b`` changes the arrays of a.
    """

    root: Floats
    choose: Floats
    stop: Floats

    def __iadd__(self, other: GrammarCounts) -> GrammarCounts:
        for name in TABLES:
            own = getattr(self, name)
            np.add(own, getattr(other, name), out=own)
        return self

    def __add__(self, other: GrammarCounts) -> GrammarCounts:
        return GrammarCounts(self.root + other.root, self.choose + other.choose, self.stop + other.stop)

    def __rmul__(self, factor: float) -> GrammarCounts:
        return GrammarCounts(factor * self.root, factor * self.choose, factor * self.stop)
