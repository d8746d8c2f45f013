"""Sums and maxima over chains of segments whose scores are those of their tokens, their state and their length.

Numbers are those of ``_wide``, of any size. With Q[t, y] the product of the potentials of a state at the tokens up to
t, the segments of state y that end at t sum to

    done[t, y] = Q[t, y] * sum over s of entered[s, y] * length[t - s + 1, y]
    entered[s, y] = begun[s, y] / Q[s - 1, y]
    begun[t, y] = sum over x of done[t - 1, x] * move[x, y], begun[0, y] = 1

so that a token costs every state one row of products, along the starts s that it may have. A quotient of products
rounds no more often than the tokens between them, since mantissas are rounded alike up to there and exponents are whole
numbers. Rows end behind the last token that a state cannot take, where Q starts again. Backwards, the probability of
``done`` is divided among the starts in proportion, and that of ``begun`` among the states before; a token is in a state
with the sum of the probabilities of the segments that began and have not ended. Nothing is subtracted, and what cannot
be has probability 0.

Rows are summed as doubles: those of ``near`` are numbers of a row over 2**level, and those of ``plain`` are scores
over the largest of their row, both without what is far less. That changes nothing while a sum is above TINY, since a
number near is at most some 2**HEADROOM and a plain one at most 1. Where a sum is less, the row is brought to another
level, and its numbers of any size are summed. Of all states of a token, rows have a width of whole vectors.

Scores of moves and lengths stand in one flat table: moves [to, from], a row of zeros, and lengths [first segment, last
segment, state, from the longest to the shortest], in the order of the starts of the segments that end at a token. The
maximum needs no quotients: all segments that are open take the score of a token.
"""

import math
from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit
from spectrem._vectors import LANES, exponent, larger, largest, load, load_some, power_of_two, spread, store, total
from spectrem._wide import MARGIN, add, nats, number_of, share, sum_products, unit_of
from spectrem.kernels.chains.chain import longest_of

TINY, HEADROOM = 1e-42, 200.0
# Less than 2**-500 and 2**-400 becomes 0, so that no product is a subnormal number, which would take far longer.
_NEAR, _PLAIN = 2.0**-448, 2.0**-348
_LOWEST = -1e300  # the level of a row without numbers


class _Tables(NamedTuple):
    """Scores of moves and lengths as numbers of any size, and as doubles over the largest of their row, 2**level."""

    numbers: np.ndarray
    plain: np.ndarray
    levels: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def _over(numbers, at, level, least):
    """A vector of numbers over 2**level, 0 below 2**-52 of the least."""
    exponents = load(numbers, at + numbers.strides[0] // 8)
    power = power_of_two(larger(exponents - spread(level), spread(-1023.0)))
    return load(numbers, at) * (power + spread(least) - spread(least))


@njit(cache=True, nogil=True, error_model="numpy")
def _bring_near(numbers, at, count, near, least=_NEAR):
    """Fill a row of ``near``, up to a whole vector, with numbers over the largest of their powers of two, the level."""
    exponents, whole = at + numbers.strides[0] // 8, count // LANES * LANES
    top = load_some(numbers, exponents + whole, count - whole, _LOWEST)
    for k in range(0, whole, LANES):
        top = larger(top, load(numbers, exponents + k))
    level = max(largest(top), _LOWEST)
    for k in range(0, count, LANES):
        store(near, at + k, _over(numbers, at + k, level, least))
    return level


@njit(cache=True, nogil=True, error_model="numpy")
def _normalise(numbers, at, mantissas):
    """Put mantissas into a vector of numbers, without their powers of two, which go to the exponents."""
    powers, exponents = exponent(mantissas), at + numbers.strides[0] // 8
    store(numbers, at, mantissas * power_of_two(spread(0.0) - powers))
    store(numbers, exponents, load(numbers, exponents) + powers)


@njit(cache=True, nogil=True, error_model="numpy")
def _dot(left, l_at, right, r_at, count):
    """The sum over k < count, at least 1, of left[l_at + k] * right[r_at + k]."""
    whole = (count - 1) // LANES * LANES
    so_far = load_some(left, l_at + whole, count - whole, 0.0) * load(right, r_at + whole)
    for k in range(0, whole, LANES):
        so_far = so_far + load(left, l_at + k) * load(right, r_at + k)
    return total(so_far)


@njit(cache=True, nogil=True, error_model="numpy")
def _share_near(unit, left, l_at, right, r_at, count, to_left, tl_at, to_right, tr_at):
    """Add the products of two rows times a number to the masses of both factors; return the sum of the left masses."""
    factor, so_far, whole = spread(unit), spread(0.0), (count - 1) // LANES * LANES
    for k in range(0, whole, LANES):
        part = load(left, l_at + k) * load(right, r_at + k) * factor
        mass = load(to_left, tl_at + k) + part
        so_far = so_far + mass
        store(to_left, tl_at + k, mass)
        store(to_right, tr_at + k, load(to_right, tr_at + k) + part)
    part = load_some(left, l_at + whole, count - whole, 0.0) * load(right, r_at + whole) * factor
    store(to_left, tl_at + whole, load(to_left, tl_at + whole) + part)
    store(to_right, tr_at + whole, load(to_right, tr_at + whole) + part)
    return total(so_far + load_some(to_left, tl_at + whole, count - whole, 0.0))


@njit(cache=True, nogil=True, error_model="numpy")
def _first_segment(entered, start, shared, length):
    """The number of a segment from the first token of a sentence on, but for the potentials of its tokens."""
    return entered[0, start] * shared[0, length], entered[1, start] + shared[1, length]


@njit(cache=True, nogil=True, error_model="numpy")
def _enter(entered, near, row, place, begin, end, level):
    """Bring near the number at a place of a row, and return the level of the row, whose window goes to ``end``."""
    power = entered[1, row + place] - level
    if power > HEADROOM:
        return _bring_near(entered, row + begin, end - begin, near)
    near[row + place] = math.ldexp(entered[0, row + place], int(power)) if power >= -500.0 else 0.0
    return level


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(scores, tables, longest, unit, entered, done, starts, near, near_done, product, begun):
    """Fill ``entered``, ``done`` and the first start of the segments that end at a token; return the value."""
    shared, plain, row_levels = tables
    n_tokens, n_states = scores.shape
    goal, size, stride, tops = n_states * n_states, n_states * longest, len(starts), 0.0
    width, levels, done_level = product.shape[1] - MARGIN, np.full(n_states, _LOWEST), 0.0
    for y in range(width):
        product[0, y], product[1, y], begun[0, y], begun[1, y] = 1.0, 0.0, 1.0, 0.0
    for t in range(n_tokens):
        top, at, ends = -np.inf, t * width, n_states if t == n_tokens - 1 else 0
        for y in range(n_states):
            top = max(top, scores[t, y])
        if top == -np.inf:
            return -np.inf
        tops += top
        for y in range(n_states if t > 0 else 0):
            of_doubles = _dot(near_done, at - width, plain, y * n_states, n_states)
            begun[0, y], begun[1, y] = of_doubles, done_level + row_levels[y]
            if of_doubles < TINY:
                begun[0, y], begun[1, y] = sum_products(False, done, at - width, shared, y * n_states, n_states)
        for y in range(n_states):
            # the potentials stand in the place of ``done`` until that is known
            done[0, at + y], done[1, at + y] = number_of(scores[t, y], top, unit, False)
            if scores[t, y] == -np.inf:
                done[1, at + y] = 0.0
        for y in range(n_states, width):
            done[0, at + y], done[1, at + y] = 1.0, 0.0
        for y in range(0, width, LANES):
            before, exponents = load(product, y), y + width + MARGIN
            store(begun, exponents, load(begun, exponents) - load(product, exponents))
            _normalise(begun, y, load(begun, y) / before)
            store(product, exponents, load(product, exponents) + load(done, at + y + done.shape[1]))
            _normalise(product, y, before * load(done, at + y))
        for y in range(n_states):
            row, start = y * stride, max(starts[t - 1, y], t - longest + 1) if t > 0 else 0
            done[0, at + y], done[1, at + y] = 1.0, -np.inf
            if scores[t, y] == -np.inf:
                entered[0, row + t], entered[1, row + t] = 1.0, -np.inf
                starts[t, y], product[0, y], product[1, y] = t + 1, 1.0, 0.0
                continue
            entered[0, row + t], entered[1, row + t], starts[t, y] = begun[0, y], begun[1, y], start
            begin, end = max(start, 1), goal + n_states + (ends + y + 1) * longest
            count = t - begin + 1
            if count > 0:
                levels[y] = _enter(entered, near, row, t, begin, t + 1, levels[y])
                of_doubles = _dot(near, row + begin, plain, end - count, count)
                done[0, at + y], done[1, at + y] = of_doubles, levels[y] + row_levels[n_states + 1 + ends + y]
                if of_doubles < TINY:
                    levels[y] = _bring_near(entered, row + begin, count, near)
                    so_far = sum_products(False, entered, row + begin, shared, end - count, count)
                    done[0, at + y], done[1, at + y] = so_far
            if start == 0:
                first = _first_segment(entered, row, shared, end + 2 * size - t - 1)
                so_far = add(False, (done[0, at + y], done[1, at + y]), first)
                done[0, at + y], done[1, at + y] = so_far
        for y in range(0, width, LANES):
            exponents = at + y + done.shape[1]
            store(done, exponents, load(done, exponents) + load(product, y + width + MARGIN))
            _normalise(done, at + y, load(done, at + y) * load(product, y))
        done_level = _bring_near(done, at, n_states, near_done)
    so_far = sum_products(False, done, (n_tokens - 1) * width, shared, goal, n_states)
    return nats(so_far, unit, tops) if so_far[1] > -np.inf else -np.inf


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def _sum(values):
    so_far = 0.0
    for k in range(len(values)):
        so_far += values[k]
    return so_far


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(
    tables, longest, entered, done, starts, near, near_done, began, ending, terms, marginals, counts
):  # fmt: skip
    """Fill the marginals of tokens, and add to the counts of what is shared."""
    shared, plain, row_levels = tables
    n_tokens, n_states = marginals.shape
    goal, size, stride, width = n_states * n_states, n_states * longest, len(starts), len(ending) - MARGIN
    levels, lowest = np.zeros(n_states), np.full(n_states, n_tokens)
    began[:] = 0.0
    ending[:] = 0.0
    share(1.0, done, (n_tokens - 1) * width, shared, goal, n_states, terms, ending, 0, counts, goal)
    for t in range(n_tokens - 1, -1, -1):
        ends, before = n_states if t == n_tokens - 1 else 0, (t - 1) * width
        for y in range(n_states):
            mass, start, row = ending[y], starts[t, y], y * stride
            end = goal + n_states + (ends + y + 1) * longest
            ending[y] = 0.0
            begin = max(start, 1)
            count = t - begin + 1
            left, right, of_doubles = row + begin, end - count, 0.0
            if mass > 0.0 and count > 0:
                if begin == lowest[y] - 1:
                    levels[y] = _enter(entered, near, row, begin, begin, t + 1, levels[y])
                elif begin < lowest[y]:
                    levels[y] = _bring_near(entered, left, count, near)
                lowest[y] = begin
                of_doubles = _dot(near, left, plain, right, count)
                if of_doubles < TINY:
                    levels[y] = _bring_near(entered, left, count, near)
            if mass > 0.0 and start == 0:
                length = end + 2 * size - t - 1
                first, later = _first_segment(entered, row, shared, length), (1.0, -np.inf)
                if of_doubles < TINY:
                    later = sum_products(False, entered, left, shared, right, count)
                else:
                    later = of_doubles, levels[y] + row_levels[n_states + 1 + ends + y]
                both, part = add(False, later, first), mass
                if later[1] > -np.inf:
                    part *= min(first[0] / both[0] * np.exp2(max(first[1] - both[1], -1100.0)), 1.0)
                began[row] += part
                counts[length] += part
                mass -= part
            if of_doubles < TINY:
                share(mass, entered, left, shared, right, count, terms, began, left, counts, right)
                here = _sum(began[left : row + t + 1])
            else:
                here = _share_near(mass / of_doubles, near, left, plain, right, count, began, left, counts, right)
            marginals[t, y] = min(here + began[row] if start == 0 else here, 1.0)
        for y in range(n_states if t > 0 else 0):
            place, mass = y * n_states, began[y * stride + t]
            of_doubles = _dot(near_done, before, plain, place, n_states)
            if of_doubles < TINY:
                share(mass, done, before, shared, place, n_states, terms, ending, 0, counts, place)
            else:
                unit = mass / of_doubles
                _share_near(unit, near_done, before, plain, place, n_states, ending, 0, counts, place)


@njit(cache=True, nogil=True, error_model="numpy")
def _tables_of(factors, n_states, longest, unit):
    """The scores of moves and lengths as numbers and doubles."""
    n_rows = 5 * n_states + 1
    numbers, plain, levels = np.zeros((2, len(factors) + MARGIN)), np.zeros(len(factors) + MARGIN), np.zeros(n_rows)
    for k in range(len(factors)):
        numbers[0, k], numbers[1, k] = number_of(factors[k], 0.0, unit, False)
    for row in range(n_rows):
        moves = min(row, n_states + 1)
        count = n_states if row < n_states + 1 else longest
        levels[row] = _bring_near(numbers, moves * n_states + (row - moves) * longest, count, plain, _PLAIN)
    return _Tables(numbers, plain, levels)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, active, unary, factors, longest, gamma, weights, values, marginals, counts):
    """Smoothed maxima and marginals [token, state] of the active sentences.

    ``factors`` are scores of moves and lengths in one table; their expected counts, times weights, are added to
    ``counts``.
    """
    n_states, stride = unary.shape[1], longest_of(token_offsets) + MARGIN
    width = -(-n_states // LANES) * LANES  # of a row of all states, whole vectors
    unit, rows = max(unit_of(unary, gamma), unit_of(factors, gamma)), n_states * stride + MARGIN
    tables, n_shared = _tables_of(factors, n_states, longest, unit), np.zeros(len(factors) + MARGIN)
    entered, near, began = np.zeros((2, rows)), np.zeros(rows), np.zeros(rows)
    done, near_done = np.zeros((2, width * stride)), np.zeros(width * stride)
    starts = np.empty((stride, n_states), np.int64)
    ending, terms = np.zeros(width + MARGIN), np.zeros(longest + width + MARGIN)
    product, begun = np.ones((2, width + MARGIN)), np.ones((2, width + MARGIN))
    for n in range(len(values)):
        first, last = token_offsets[n], token_offsets[n + 1]
        if not active[n] or first == last:
            continue
        spaces = entered, done, starts, near, near_done
        values[n] = _forward(unary[first:last], tables, longest, unit, *spaces, product, begun)
        if values[n] > -np.inf:
            _backward(tables, longest, *spaces, began, ending, terms, marginals[first:last], n_shared)
            for k in range(len(counts)):
                counts[k] += weights[n] * n_shared[k]
                n_shared[k] = 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
def _continue(tokens, score, lengths):
    """Add the score of a token to those of open segments; return the largest score of those that end here."""
    top = -np.inf
    for k in range(len(tokens)):
        tokens[k] += score
        whole = tokens[k] + lengths[k]
        top = whole if whole > top else top
    return top


@njit(cache=True, nogil=True, error_model="numpy")
def max_pass(token_offsets, active, unary, factors, longest, weights, values, states, counts):
    """The best segments of every active sentence; ``states`` of tokens stay as they are where there are none.

    Of equals, the lowest last state wins, then the longest last segment, then the lowest state before it.
    """
    n_states, stride = unary.shape[1], longest_of(token_offsets)
    opened, done = np.empty((n_states, stride)), np.empty((stride, n_states))
    starts, size = np.empty((stride, n_states), np.int64), n_states * longest
    for n in range(len(values)):
        begin, n_tokens = token_offsets[n], token_offsets[n + 1] - token_offsets[n]
        if not active[n] or n_tokens == 0:
            continue
        for t in range(n_tokens):
            end = n_states * (n_states + 1) + (size if t == n_tokens - 1 else 0)
            for y in range(n_states):
                end += longest
                row, score, start, length = opened[y], unary[begin + t, y], max(t - longest + 1, 0), end - t - 1
                row[t] = 0.0 if t == 0 else -np.inf
                for x in range(n_states if t > 0 else 0):
                    row[t] = max(row[t], done[t - 1, x] + factors[y * n_states + x])
                inner = max(start, 1)
                top = _continue(row[inner : t + 1], score, factors[length + inner : end])
                if start == 0:
                    row[0] += score
                    first = row[0] + factors[length + 2 * size]
                    top, inner = (first, 0) if first >= top else (top, inner)
                while inner > 0 and row[inner] + factors[length + inner] < top:
                    inner += 1
                done[t, y], starts[t, y] = top, inner
        best = 0
        for y in range(n_states):
            best = y if done[n_tokens - 1, y] > done[n_tokens - 1, best] else best
        values[n] = done[n_tokens - 1, best]
        t = n_tokens if values[n] > -np.inf else 0
        while t > 0:
            start, y, block = starts[t - 1, best], best, (2 * size if starts[t - 1, best] == 0 else 0)
            for k in range(start, t):
                states[begin + k] = y
            end = n_states * (n_states + 1) + block + (size if t == n_tokens else 0) + (y + 1) * longest
            counts[end - t + start] += weights[n]
            if start > 0:
                row = factors[y * n_states : (y + 1) * n_states]
                for x in range(n_states - 1, -1, -1):
                    best = x if done[start - 1, x] + row[x] >= done[start - 1, best] + row[best] else best
                counts[y * n_states + best] += weights[n]
            t = start
