"""One engine for structures that are put together step by step: sums, maxima, samples, n best, covariances, entropy.

A structure is derived as a parser does it [Goodman1999]. A *step* makes one *item* of two smaller ones, and every
structure has exactly one derivation of the goal, the last item. Parts are items that are there from the beginning. With
numbers x(part) = exp(score / gamma),

    x(item) = x(factor) * sum of x(left) * x(right) over the steps that make it
    p(step | item) = x(left) * x(right) / sum of x(left') * x(right')

and gamma log x(goal) is the smoothed maximum. Downwards, the probability that an item is made is divided among its
steps, in proportion; what comes to the parts are their marginals. At gamma = 0 sums are maxima.

Steps come in *runs*, whose left items stand in a row, and whose right items do, too. So there are as many runs as
items, some n² for trees over n words, although there are n³ steps; and sums run along memory. An item that is on the
left in some runs and on the right in others has two places. Numbers are those of ``_wide``: of any size.

An item that is made of others in one way only may be used many times in a derivation, like a part; no other may.
"""

import math
from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit
from spectrem._logs import choose
from spectrem._vectors import LANES, load, load_some, spread, store, total
from spectrem._wide import MARGIN, add, fill_terms, nats, number_of, share, sum_products, unit_of

# Covariances of instances of up to so many steps remember all their shares: 32 MB.
_MOST_SHARES = 1 << 22
ONE = 0
"""The place of the number one: the other side of steps that use one item, the factor of items that have none."""


class Steps(NamedTuple):
    """All steps of one shape, item by item; items stand behind those that they are made of, the goal is the last.

    Attributes
    ----------
    place, copy : ndarray of shape (n_items,), int64
        Where the number of every item stands; ``copy`` is the same where it stands in one place.
    factor : ndarray of shape (n_items,), int64
        The part that every step of the item takes besides, or ONE.
    first : ndarray of shape (n_items + 1,), int64
        Runs ``first[v]:first[v + 1]`` make item v.
    left, right, count : ndarray of shape (n_runs,), int64
        Steps k < count use the items at the places left + k and right + k.
    part_place, part : ndarray of int64
        Places of parts and the parts that stand there, -1 for the number one.
    n_places, most : int
        Number of places, and of the steps of the item that has most.
    """

    place: np.ndarray
    copy: np.ndarray
    factor: np.ndarray
    first: np.ndarray
    left: np.ndarray
    right: np.ndarray
    count: np.ndarray  # type: ignore[assignment]
    part_place: np.ndarray
    part: np.ndarray
    n_places: int
    most: int


@njit(cache=True, nogil=True, error_model="numpy")
def inside(steps, scores, offsets, uses, gamma):
    """Numbers by place, (2, n_places), the value of the goal, and the unit of exponents, nats.

    A derivation takes ``uses[g]`` of the parts ``offsets[g]:offsets[g + 1]``, whose largest score is taken off their
    numbers; 0 where this differs from one to another. At gamma = 0 exponents are the scores, and mantissas 1.
    """
    place, copy, factor, first, left, right, count, part_place, part, n_places, _ = steps
    hard = gamma == 0.0
    unit, tops = 1.0 if hard else unit_of(scores, gamma), 0.0
    numbers, of_parts = np.empty((2, n_places + MARGIN)), np.empty((2, len(scores)))
    numbers[0], numbers[1] = 1.0, -np.inf
    for group in range(len(uses)):
        top = 0.0
        if not hard and uses[group] > 0:
            top = -np.inf
            for k in range(offsets[group], offsets[group + 1]):
                top = max(top, scores[k])
            tops += uses[group] * top
        for k in range(offsets[group], offsets[group + 1]):
            of_parts[0, k], of_parts[1, k] = number_of(scores[k], top, unit, hard)
    for k in range(len(part_place)):
        numbers[0, part_place[k]] = 1.0 if part[k] < 0 else of_parts[0, part[k]]
        numbers[1, part_place[k]] = 0.0 if part[k] < 0 else of_parts[1, part[k]]
    for v in range(len(place)):
        mantissa, exponent = 1.0, -np.inf
        for r in range(first[v], first[v + 1]):
            one = _run(hard, numbers, left[r], right[r], count[r])
            mantissa, exponent = one if r == first[v] else add(hard, (mantissa, exponent), one)
        if factor[v] != ONE:
            mantissa, exponent = mantissa * numbers[0, factor[v]], exponent + numbers[1, factor[v]]
        numbers[1, place[v]], numbers[1, copy[v]] = exponent, exponent
        if not hard:  # else all mantissas are one
            numbers[0, place[v]], numbers[0, copy[v]] = mantissa, mantissa
    goal = place[len(place) - 1]
    value = numbers[1, goal] if hard else nats((numbers[0, goal], numbers[1, goal]), unit, tops)
    return numbers, value


@njit(cache=True, nogil=True, error_model="numpy")
def _run(hard, numbers, left, right, count):
    """Mantissa and exponent of the sum of the products of a run."""
    if count != 1:
        return sum_products(hard, numbers, left, numbers, right, count)
    exponent = numbers[1, left] + numbers[1, right]
    if hard or exponent == -np.inf:
        return 1.0, exponent
    mantissa, power = math.frexp(numbers[0, left] * numbers[0, right])
    return mantissa, exponent + power


@njit(cache=True, nogil=True, error_model="numpy")
def _shares(hard, numbers, left, right, count, begin, end, shares, at=0):
    """Probabilities of the steps of the runs that make an item, given it; at gamma = 0 the first of the best has all.

    They stand in ``shares`` from ``at`` on; all are zero where the item is impossible. Returns the number of steps.
    """
    n, best, top, total = at, at, -np.inf, 0.0
    if end == begin + 1 and count[begin] == 1:
        shares[at] = 1.0 if numbers[1, left[begin]] + numbers[1, right[begin]] > -np.inf else 0.0
        return 1
    for r in range(begin, end):
        if hard:
            for k in range(count[r]):
                shares[n + k] = 0.0
                exponent = numbers[1, left[r] + k] + numbers[1, right[r] + k]
                if exponent > top:
                    best, top = n + k, exponent
        else:
            one, exponent = fill_terms(numbers, left[r], numbers, right[r], count[r], shares, n)
            if n > at:  # what came before and this run over one power of two, the larger of theirs
                less = np.exp2(max(-abs(top - exponent), -1e4)) if top != exponent else 1.0
                if exponent > top:
                    total *= less
                    for k in range(at, n):
                        shares[k] *= less
                else:
                    one *= less
                    for k in range(n, n + count[r]):
                        shares[k] *= less
            total, top = total + one, max(top, exponent)
        n += count[r]
    if hard and top > -np.inf:
        shares[best] = 1.0
    for k in range(at, at if hard or top == -np.inf else n):
        shares[k] /= total
    return n - at


@njit(cache=True, nogil=True, error_model="numpy")
def outside(steps, numbers, n_parts):
    """Probabilities of items by place, those of both places of an item together, and marginals of parts; gamma > 0."""
    place, copy, factor, first, left, right, count, part_place, part, n_places, most = steps
    mass, terms, marginals = np.zeros(n_places + MARGIN), np.empty(most + MARGIN), np.zeros(n_parts)
    mass[place[len(place) - 1]] = 1.0
    for v in range(len(place) - 1, -1, -1):
        probability = mass[place[v]]
        if copy[v] != place[v]:
            probability += mass[copy[v]]
            mass[place[v]] = probability
        if probability == 0.0:
            continue
        mass[factor[v]] += probability
        r = first[v]
        if first[v + 1] == r + 1 and count[r] == 1:
            mass[left[r]] += probability
            mass[right[r]] += probability
        elif first[v + 1] == r + 1:
            share(probability, numbers, left[r], numbers, right[r], count[r], terms, mass, left[r], mass, right[r])
        else:
            _shares(False, numbers, left, right, count, first[v], first[v + 1], terms)
            n = 0
            for q in range(r, first[v + 1]):
                for k in range(count[q]):
                    mass[left[q] + k] += probability * terms[n + k]
                    mass[right[q] + k] += probability * terms[n + k]
                n += count[q]
    for k in range(len(part)):
        if part[k] >= 0:
            marginals[part[k]] += mass[part_place[k]]
    return mass, marginals


@njit(cache=True, nogil=True, error_model="numpy")
def entropy(steps, numbers, mass):
    """Entropy in nats: the sum of p(item) times that of its steps, each term at least 0, so that no digits cancel."""
    place, first, left, right, count = steps.place, steps.first, steps.left, steps.right, steps.count
    shares, total = np.empty(steps.most + MARGIN), 0.0
    for v in range(len(place)):
        if mass[place[v]] > 0.0:
            for k in range(_shares(False, numbers, left, right, count, first[v], first[v + 1], shares)):
                if shares[k] > 0.0:
                    total -= mass[place[v]] * shares[k] * math.log(shares[k])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _mean(means, left, right, count, shares, at):
    """The sum over the steps of a run of their shares times the expected sums of what they join."""
    so_far = spread(0.0)
    for k in range(0, count, LANES):
        some = load_some(shares, at + k, count - k, 0.0)
        so_far = so_far + some * (load(means, left + k) + load(means, right + k))
    return total(so_far)


@njit(cache=True, nogil=True, error_model="numpy")
def _pass_on(mass, gain, mean, means, left, right, count, shares, at, masses, gains):
    """Divide the probability of an item, and its derivative, among the steps of a run."""
    for k in range(0, count, LANES):
        some = load_some(shares, at + k, count - k, 0.0)
        parts = some * spread(mass)
        store(masses, left + k, load(masses, left + k) + parts)
        store(masses, right + k, load(masses, right + k) + parts)
        more = some * spread(gain) + parts * (load(means, left + k) + load(means, right + k) - spread(mean))
        store(gains, left + k, load(gains, left + k) + more)
        store(gains, right + k, load(gains, right + k) + more)


@njit(cache=True, nogil=True, error_model="numpy")
def covary(steps, numbers, along):
    """The mean of the sum of ``along`` over the parts taken, and its covariances with all parts [LiEisner2009].

    Upwards, the expected sum of every item; downwards, probabilities and their derivatives as scores move along
    ``along``: a step gains as much as its own expected sum lies above that of its item.
    """
    place, copy, factor, first, left, right, count, part_place, part, n_places, most = steps
    masses, means, gains = np.zeros((3, n_places + MARGIN))
    n_steps = count.sum()
    kept = n_steps <= _MOST_SHARES
    products, shares, at = np.zeros(len(along)), np.empty((n_steps if kept else most) + MARGIN), 0
    for k in range(len(part)):
        means[part_place[k]] = along[part[k]] if part[k] >= 0 else 0.0
    for v in range(len(place)):
        _shares(False, numbers, left, right, count, first[v], first[v + 1], shares, at)
        n, mean = at, 0.0
        for r in range(first[v], first[v + 1]):
            mean += _mean(means, left[r], right[r], count[r], shares, n)
            n += count[r]
        means[place[v]] = means[copy[v]] = mean + means[factor[v]]
        at = n if kept else 0
    masses[place[len(place) - 1]] = 1.0
    for v in range(len(place) - 1, -1, -1):
        mass, gain = masses[place[v]], gains[place[v]]
        if copy[v] != place[v]:
            mass, gain = mass + masses[copy[v]], gain + gains[copy[v]]
        masses[factor[v]] += mass
        gains[factor[v]] += gain
        for r in range(first[v], first[v + 1] if kept else first[v]):
            at -= count[r]
        if mass == 0.0:
            continue
        if not kept:
            _shares(False, numbers, left, right, count, first[v], first[v + 1], shares, 0)
        n, mean = at, means[place[v]] - means[factor[v]]
        for r in range(first[v], first[v + 1]):
            _pass_on(mass, gain, mean, means, left[r], right[r], count[r], shares, n, masses, gains)
            n += count[r]
    for k in range(len(part)):
        if part[k] >= 0:
            products[part[k]] += gains[part_place[k]]
    return means[place[len(place) - 1]], products


@njit(cache=True, nogil=True, error_model="numpy")
def sample(hard, steps, numbers, rng, n, n_parts):
    """Draw n structures: numbers of their parts, (n, n_parts); of best structures the one whose steps come first."""
    place, copy, factor, first, left, right, count, part_place, part, n_places, most = steps
    taken, shares = np.zeros((n, n_parts), np.int64), np.empty(most + MARGIN)
    for row in range(n):
        needed = np.zeros(n_places, np.int64)
        needed[place[len(place) - 1]] = 1
        for v in range(len(place) - 1, -1, -1):
            times = needed[place[v]]
            if copy[v] != place[v]:
                times += needed[copy[v]]
            if times == 0:
                continue
            needed[factor[v]] += times
            n_steps = _shares(hard, numbers, left, right, count, first[v], first[v + 1], shares)
            chosen = choose(shares[:n_steps], 1.0 if hard else 1.0 - rng.random())
            r = first[v]
            while chosen >= count[r]:
                chosen, r = chosen - count[r], r + 1
            needed[left[r] + chosen] += times
            needed[right[r] + chosen] += times
        for k in range(len(part)):
            if part[k] >= 0:
                taken[row, part[k]] += needed[part_place[k]]
    return taken


@njit(cache=True, nogil=True, error_model="numpy")
def n_best(steps, scores, n):
    """The n best structures: scores (n,), decreasing, -inf where there are fewer, and numbers of their parts.

    Every item remembers its n best ways, each a step with ranks i and j of what it uses, as (step n + i) n + j. Of
    equal ways the one whose step comes first is the better one.
    """
    place, copy, factor, first, left, right, count, part_place, part, n_places, _ = steps
    values, ways = np.full((n_places, n), -np.inf), np.empty((len(place), n), np.int64)
    taken = np.zeros((n, len(scores)), np.int64)
    for k in range(len(part)):
        values[part_place[k], 0] = scores[part[k]] if part[k] >= 0 else 0.0
    for v in range(len(place)):
        best, way, step = values[place[v]], ways[v], 0
        for r in range(first[v], first[v + 1]):
            for k in range(count[r]):
                one, other, i = left[r] + k, right[r] + k, 0
                while i < n and values[one, i] + values[other, 0] > best[n - 1]:
                    j = 0
                    while j < n and values[one, i] + values[other, j] > best[n - 1]:
                        value, at = values[one, i] + values[other, j], n - 1
                        while at > 0 and value > best[at - 1]:
                            best[at], way[at] = best[at - 1], way[at - 1]
                            at -= 1
                        best[at], way[at] = value, ((step + k) * n + i) * n + j
                        j += 1
                    i += 1
            step += count[r]
        if factor[v] != ONE:
            for i in range(n):
                best[i] += values[factor[v], 0]
        if copy[v] != place[v]:
            for i in range(n):
                values[copy[v], i] = best[i]
    goal = place[len(place) - 1]
    for row in range(n):
        if values[goal, row] == -np.inf:
            break
        needed, rank = np.zeros(n_places, np.int64), np.zeros(n_places, np.int64)
        needed[goal], rank[goal] = 1, row
        for v in range(len(place) - 1, -1, -1):
            at = place[v] if needed[place[v]] > 0 else copy[v]
            times = needed[at]
            if times == 0:
                continue
            needed[factor[v]] += times
            chosen, i, j = ways[v, rank[at]] // (n * n), ways[v, rank[at]] // n % n, ways[v, rank[at]] % n
            r = first[v]
            while chosen >= count[r]:
                chosen, r = chosen - count[r], r + 1
            needed[left[r] + chosen] += times
            needed[right[r] + chosen] += times
            rank[left[r] + chosen], rank[right[r] + chosen] = i, j
        for k in range(len(part)):
            if part[k] >= 0:
                taken[row, part[k]] += needed[part_place[k]]
    return values[goal].copy(), taken
