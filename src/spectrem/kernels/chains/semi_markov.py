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

Scores of moves and lengths stand in one flat table: moves [to, from], a row of zeros, and lengths [first segment, last
segment, state, from the longest to the shortest], in the order of the starts of the segments that end at a token. The
maximum needs no quotients: all segments that are open take the score of a token.
"""

import math

import numpy as np

from spectrem._compiled import njit
from spectrem._wide import MARGIN, add, nats, number_of, share, sum_products, unit_of
from spectrem.kernels.chains.chain import longest_of


@njit(cache=True, nogil=True, error_model="numpy")
def _first_segment(entered, start, shared, length):
    """The number of a segment from the first token of a sentence on, but for the potentials of its tokens."""
    return entered[0, start] * shared[0, length], entered[1, start] + shared[1, length]


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(scores, shared, longest, unit, entered, stride, done, starts, product):
    """Fill ``entered``, ``done`` and the first start of the segments that end at a token; return the value."""
    n_tokens, n_states = scores.shape
    goal, size, tops = n_states * n_states, n_states * longest, 0.0
    for y in range(n_states):
        product[0, y], product[1, y] = 1.0, 0.0
    for t in range(n_tokens):
        top, at, end = -np.inf, t * n_states, goal + n_states + (size if t == n_tokens - 1 else 0)
        for y in range(n_states):
            top = max(top, scores[t, y])
        if top == -np.inf:
            return -np.inf
        tops += top
        for y in range(n_states):
            place, start = y * stride + t, max(starts[t - 1, y], t - longest + 1) if t > 0 else 0
            end += longest
            done[0, at + y], done[1, at + y] = 1.0, -np.inf
            entered[0, place], entered[1, place] = 1.0, -np.inf
            starts[t, y] = start
            if scores[t, y] == -np.inf:
                starts[t, y], product[0, y], product[1, y] = t + 1, 1.0, 0.0
                continue
            mantissa, exponent = 1.0, 0.0
            if t > 0:
                mantissa, exponent = sum_products(False, done, at - n_states, shared, y * n_states, n_states)
            entered[0, place], entered[1, place] = mantissa / product[0, y], exponent - product[1, y]
            mantissa, exponent = number_of(scores[t, y], top, unit, False)
            mantissa, power = math.frexp(product[0, y] * mantissa)
            product[0, y], product[1, y] = mantissa, product[1, y] + exponent + power
            begin = max(start, 1)
            count = t - begin + 1
            total = sum_products(False, entered, y * stride + begin, shared, end - count, count)
            if start == 0:
                total = add(False, total, _first_segment(entered, y * stride, shared, end + 2 * size - t - 1))
            if total[1] > -np.inf:
                mantissa, power = math.frexp(total[0] * product[0, y])
                done[0, at + y], done[1, at + y] = mantissa, total[1] + product[1, y] + power
    total = sum_products(False, done, (n_tokens - 1) * n_states, shared, goal, n_states)
    return nats(total, unit, tops) if total[1] > -np.inf else -np.inf


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def _sum(values):
    total = 0.0
    for k in range(len(values)):
        total += values[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(shared, longest, entered, stride, done, starts, began, ending, terms, marginals, counts):
    """Fill the marginals of tokens, and add to the counts of what is shared."""
    n_tokens, n_states = marginals.shape
    goal, size = n_states * n_states, n_states * longest
    began[:] = 0.0
    ending[:] = 0.0
    share(1.0, done, (n_tokens - 1) * n_states, shared, goal, n_states, terms, ending, 0, counts, goal)
    for t in range(n_tokens - 1, -1, -1):
        end = goal + n_states + (size if t == n_tokens - 1 else 0)
        for y in range(n_states):
            mass, start, row = ending[y], starts[t, y], y * stride
            ending[y] = 0.0
            end += longest
            begin = max(start, 1)
            count = t - begin + 1
            if mass > 0.0 and start == 0:
                length = end + 2 * size - t - 1
                first = _first_segment(entered, row, shared, length)
                later = sum_products(False, entered, row + begin, shared, end - count, count)
                both, part = add(False, later, first), mass
                if later[1] > -np.inf:
                    part *= min(first[0] / both[0] * np.exp2(max(first[1] - both[1], -1100.0)), 1.0)
                began[row] += part
                counts[length] += part
                mass -= part
            share(
                mass, entered, row + begin, shared, end - count, count, terms, began, row + begin, counts, end - count
            )
            marginals[t, y] = min(_sum(began[row + start : row + t + 1]), 1.0)
        for y in range(n_states if t > 0 else 0):
            place, mass = y * n_states, began[y * stride + t]
            share(mass, done, (t - 1) * n_states, shared, place, n_states, terms, ending, 0, counts, place)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_pass(token_offsets, active, unary, factors, longest, gamma, weights, values, marginals, counts):
    """Smoothed maxima and marginals [token, state] of the active sentences.

    ``factors`` are scores of moves and lengths in one table; their expected counts, times weights, are added to
    ``counts``.
    """
    n_states, stride = unary.shape[1], longest_of(token_offsets) + MARGIN
    unit = max(unit_of(unary, gamma), unit_of(factors, gamma))
    shared, n_shared = np.zeros((2, len(factors) + MARGIN)), np.zeros(len(factors) + MARGIN)
    for k in range(len(factors)):
        shared[0, k], shared[1, k] = number_of(factors[k], 0.0, unit, False)
    entered, done = np.zeros((2, n_states * stride + MARGIN)), np.zeros((2, n_states * stride + MARGIN))
    starts, product = np.empty((stride, n_states), np.int64), np.empty((2, n_states))
    began, ending = np.zeros(n_states * stride + MARGIN), np.zeros(n_states + MARGIN)
    terms = np.zeros(max(n_states, longest) + MARGIN)
    for n in range(len(values)):
        first, last = token_offsets[n], token_offsets[n + 1]
        if not active[n] or first == last:
            continue
        values[n] = _forward(unary[first:last], shared, longest, unit, entered, stride, done, starts, product)
        if values[n] > -np.inf:
            of_tokens = marginals[first:last]
            _backward(shared, longest, entered, stride, done, starts, began, ending, terms, of_tokens, n_shared)
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
