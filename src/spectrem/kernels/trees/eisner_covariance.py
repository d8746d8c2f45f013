"""Covariances of the arcs of a projective tree with a sum over the arcs that it takes, from its tables in log space.

``eisner_wide`` says what the tables are. Upwards, ``sums`` of a span is the expected sum of the values inside it, the
mean over the ways to make it. Downwards, spans pass on their probabilities and the derivatives of these as scores move
along the values: a way to make a span gains as much as its own expected sum lies above that of the span. All numbers
are probabilities, or means of sums, which neither over- nor underflow.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.trees.eisner_wide import empty_tables, inside


@njit(cache=True, nogil=True, error_model="numpy")
def _share(way, whole):
    """The probability of one way to make a span, given the span; 0 where the span is not made at all."""
    return math.exp(way - whole) if way > -np.inf and whole > -np.inf else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _means(n, values, complete, incomplete, joint, sums, open_sums, joint_sums):
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            mean, right, left = 0.0, 0.0, 0.0
            for k in range(i, j):
                share = _share(complete[i, k] + complete[j, k + 1], joint[i, j])
                mean += share * (sums[i, k] + sums[j, k + 1])
            joint_sums[i, j] = mean
            open_sums[i, j], open_sums[j, i] = mean + values[j, i], mean + values[i, j]
            for d in range(i + 1, j + 1):
                right += _share(incomplete[i, d] + complete[d, j], complete[i, j]) * (open_sums[i, d] + sums[d, j])
            for d in range(i, j):
                left += _share(incomplete[j, d] + complete[d, i], complete[j, i]) * (open_sums[j, d] + sums[d, i])
            sums[i, j], sums[j, i] = right, left


@njit(cache=True, nogil=True, error_model="numpy")
def _means_root(n, values, scores, complete, prefix, rooted, sums, prefix_sums, rooted_sums):
    for d in range(n):
        for k in range(d + 1):
            share = _share(prefix[k] + complete[d, k] + scores[d, d], rooted[d])
            rooted_sums[d] += share * (prefix_sums[k] + sums[d, k])
        rooted_sums[d] += values[d, d]
        for k in range(d + 1):
            share = _share(rooted[k] + complete[k, d], prefix[d + 1])
            prefix_sums[d + 1] += share * (rooted_sums[k] + sums[k, d])


@njit(cache=True, nogil=True, error_model="numpy")
def _pass_on(mass, gain, share, more, to, i, j):
    """Add a share of a span's probability, and its derivative, to one of the spans that it is made of."""
    to[0, i, j] += mass * share
    to[1, i, j] += (gain + mass * more) * share


@njit(cache=True, nogil=True, error_model="numpy")
def _down_root(n, values, scores, complete, prefix, rooted, sums, prefix_sums, rooted_sums, spans, out):
    """``spans[0]`` takes probabilities of complete spans, ``spans[1]`` their derivatives."""
    prefixes, roots = np.zeros((2, 1, n + 1)), np.zeros((2, 1, n))
    prefixes[0, 0, n] = 1.0
    for d in range(n - 1, -1, -1):
        mass, gain = prefixes[0, 0, d + 1], prefixes[1, 0, d + 1]
        if mass > 0.0:
            for k in range(d + 1):
                share = _share(rooted[k] + complete[k, d], prefix[d + 1])
                more = rooted_sums[k] + sums[k, d] - prefix_sums[d + 1]
                _pass_on(mass, gain, share, more, roots, 0, k)
                _pass_on(mass, gain, share, more, spans, k, d)
        mass, gain = roots[0, 0, d], roots[1, 0, d]
        out[d, d] = gain
        if mass > 0.0:
            for k in range(d + 1):
                share = _share(prefix[k] + complete[d, k] + scores[d, d], rooted[d])
                more = prefix_sums[k] + sums[d, k] + values[d, d] - rooted_sums[d]
                _pass_on(mass, gain, share, more, prefixes, 0, k)
                _pass_on(mass, gain, share, more, spans, d, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _down(n, complete, incomplete, joint, sums, open_sums, joint_sums, spans, arcs):
    for width in range(n - 1, 0, -1):
        for i in range(n - width):
            j = i + width
            for h, e in ((i, j), (j, i)):
                mass, gain = spans[0, h, e], spans[1, h, e]
                if mass > 0.0:
                    for d in range(min(h + 1, e), max(h, e + 1)):
                        share = _share(incomplete[h, d] + complete[d, e], complete[h, e])
                        more = open_sums[h, d] + sums[d, e] - sums[h, e]
                        _pass_on(mass, gain, share, more, arcs, h, d)
                        _pass_on(mass, gain, share, more, spans, d, e)
            mass, gain = arcs[0, i, j] + arcs[0, j, i], arcs[1, i, j] + arcs[1, j, i]
            if mass > 0.0:
                for k in range(i, j):
                    share = _share(complete[i, k] + complete[j, k + 1], joint[i, j])
                    more = sums[i, k] + sums[j, k + 1] - joint_sums[i, j]
                    _pass_on(mass, gain, share, more, spans, i, k)
                    _pass_on(mass, gain, share, more, spans, j, k + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _logs(table):
    return np.log(table[0]) + table[1] * math.log(2.0)


@njit(cache=True, nogil=True, error_model="numpy")
def covary(scores, single_root, values, out):
    """out = cov(whether an arc is taken, sum of ``values`` of the arcs taken), of one sentence at gamma = 1.

    ``scores``, ``values`` and ``out`` are indexed [dependent, head]; ``out`` of an impossible sentence stays.
    """
    n = len(scores)
    tables = empty_tables(n)
    inside(n, scores, 1.0, False, single_root, *tables)
    arcs, complete, incomplete = _logs(tables[0]), _logs(tables[1]), _logs(tables[3])
    prefix, rooted = _logs(tables[4])[0], _logs(tables[5])[0]
    if prefix[n] == -np.inf:
        return
    joint = np.full((n, n), -np.inf)
    for h in range(n):
        for d in range(n):
            if h != d and arcs[d, h] > -np.inf:
                joint[min(h, d), max(h, d)] = incomplete[h, d] - arcs[d, h]
    sums, open_sums, joint_sums = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    prefix_sums, rooted_sums = np.zeros(n + 1), np.zeros(n)
    _means(n, values, complete, incomplete, joint, sums, open_sums, joint_sums)
    _means_root(n, values, arcs, complete, prefix, rooted, sums, prefix_sums, rooted_sums)
    spans, taken = np.zeros((2, n, n)), np.zeros((2, n, n))
    _down_root(n, values, arcs, complete, prefix, rooted, sums, prefix_sums, rooted_sums, spans, out)
    _down(n, complete, incomplete, joint, sums, open_sums, joint_sums, spans, taken)
    for d in range(n):
        for h in range(n):
            if h != d:
                out[d, h] = taken[1, h, d]
