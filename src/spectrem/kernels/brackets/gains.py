"""From scores of spans to what a span adds to a tree, and from posteriors of spans back to those of their parts.

Spans stand by start, then by end; the parts of span s are 2 s, constituent, and 2 s + 1, distituent. A tree scores the
sum over all spans as if none were a constituent, and for every constituent its gain, the difference of its two scores.
Single words and the whole sentence are always constituents. Where a span cannot be a distituent, spans that cross it
cannot be constituents, and a binary tree without any of those has it: such a span gains nothing, and its score as a
constituent belongs to every tree. So all gains are finite, or -inf for what no tree may have.
"""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _first(n, start):
    """The place of the span of the one word at ``start``, among those of a sentence of n words."""
    return start * n - start * (start - 1) // 2


@njit(cache=True, nogil=True, error_model="numpy")
def _close(n, start, end, gains):
    """No span that crosses ``start:end`` may be a constituent."""
    for i in range(start):
        row = _first(n, i) - i - 1
        for j in range(start + 1, end):
            gains[row + j] = -np.inf
    for i in range(start + 1, end):
        row = _first(n, i) - i - 1
        for j in range(end + 1, n + 1):
            gains[row + j] = -np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def find_gains(lengths, offsets, unary, gamma, active, gains, exponents, base, tops):
    """Fill gains of all spans (nats) and, by sentence, the score of no constituent and the largest gain.

    ``exponents`` of spans between words and the whole sentence become (gain - largest) / gamma, at most 0. ``base`` is
    -inf for a sentence without any possible tree that shows here already, in which case gains are not to be read.
    Inactive sentences are left alone.
    """
    for n in range(len(lengths)):
        if not active[n]:
            continue
        size = lengths[n]
        scores = unary[2 * offsets[n] : 2 * offsets[n + 1]]
        own, scaled = gains[offsets[n] : offsets[n + 1]], exponents[offsets[n] : offsets[n + 1]]
        total, s, n_forced = 0.0, 0, 0
        for start in range(size):
            for end in range(start + 1, size + 1):
                as_one, apart = scores[2 * s], scores[2 * s + 1]
                if end - start == 1 or end - start == size:
                    total += as_one
                    own[s] = 0.0
                elif apart == -np.inf:
                    total += as_one
                    own[s] = 0.0
                    n_forced += 1
                else:
                    total += apart
                    own[s] = as_one - apart
                s += 1
        if n_forced > 0:
            s = 0
            for start in range(size):
                for end in range(start + 1, size + 1):
                    if 1 < end - start < size and scores[2 * s + 1] == -np.inf:
                        _close(size, start, end, own)
                    s += 1
        top, s = -np.inf, 0
        for start in range(size):
            for end in range(start + 1, size + 1):
                if 1 < end - start < size:
                    top = max(top, own[s])
                s += 1
        if size > 2 and top == -np.inf:
            total = -np.inf
        base[n], tops[n] = total, top
        if total > -np.inf:
            s = 0
            for start in range(size):
                for end in range(start + 1, size + 1):
                    if 1 < end - start < size:
                        scaled[s] = (own[s] - top) / gamma
                    s += 1


@njit(cache=True, nogil=True, error_model="numpy")
def fill_parts(lengths, offsets, unary, possible, shares, marginals):
    """Posteriors of the parts of all possible sentences from those of their spans, which may be wrong by rounding."""
    for n in range(len(lengths)):
        if not possible[n]:
            continue
        size, s = lengths[n], offsets[n]
        for start in range(size):
            for end in range(start + 1, size + 1):
                always = end - start == 1 or end - start == size or unary[2 * s + 1] == -np.inf
                share = 1.0 if always else min(max(shares[s], 0.0), 1.0)
                marginals[2 * s] = share
                marginals[2 * s + 1] = 1.0 - share
                s += 1
