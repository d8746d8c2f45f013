"""Transportation: one label per row with the largest sum of scores, and bounds on how often each label is chosen.

Successive shortest paths on the graph of labels. An edge u -> v costs what the best row moved from u to v loses; the
last node, the hub, stands for the room between the bounds of labels. Prices keep all costs from below zero, so that
paths are found by Dijkstra; they come from every 16th row, solved the same way, and are nearly right.

For every pair of labels [u, v], some rows that lose least when they move from u to v are remembered:
``best[u, v, head[u, v]:tail[u, v]]``, by increasing ``loss``. Rows that have left u since are skipped when met. All
other rows of u lose ``beyond[u, v]`` or more, infinity if there are none.
"""

import numpy as np

from spectrem._compiled import njit

SOLVED, INFEASIBLE = 0, 1
# Prices start from those of every 16th row as long as at least 512 rows remain.
_FEWEST, _SHARE = 512, 16


@njit(cache=True, nogil=True, error_model="numpy")
def solve_groups(scores, rows, offsets, low, high, capacity, labels, price, status):
    """Labels of the rows of every group, each with bounds for itself, and prices of labels that prove them best.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, k)
        Nats, -inf where impossible; every row has a label that is possible.
    rows : ndarray of int64
        Rows, group after group.
    offsets : ndarray of shape (n_groups + 1,)
    low, high : ndarray of shape (n_groups, k), int64
        ``0 <= low <= high``; sums allow the size of the group.
    capacity : int
        Rows remembered for each pair of labels.
    labels : ndarray of shape (n_rows,), int64, filled
        Each with the largest ``score - price`` of its row.
    price : ndarray of shape (n_groups, k), filled
        Prices in nats: above 0 only for labels chosen ``high`` times, below 0 only for those chosen ``low`` times.
    status : ndarray of shape (n_groups,), int8, filled
        ``SOLVED`` or ``INFEASIBLE``.
    """
    k = scores.shape[1]
    best, loss, beyond = np.empty((k, k, capacity), np.int64), np.empty((k, k, capacity)), np.empty((k, k))
    head, tail, prices = np.empty((k, k), np.int64), np.empty((k, k), np.int64), np.empty(k + 1)
    least, most = np.empty(k, np.int64), np.empty(k, np.int64)
    for g in range(len(offsets) - 1):
        group = rows[offsets[g] : offsets[g + 1]]
        prices[:] = 0.0
        # From few rows to all of them: the prices of a sample start the next larger one.
        step = 1
        while len(group) // (step * _SHARE) >= _FEWEST:
            step *= _SHARE
        while True:
            sample = group[::step]
            for v in range(k):
                least[v], most[v] = low[g, v] // step, (high[g, v] + step - 1) // step
            status[g] = _solve(scores, sample, least, most, prices, labels, best, loss, head, tail, beyond)
            if step == 1:
                break
            step //= _SHARE
        for v in range(k):
            price[g, v] = prices[v]


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(scores, rows, low, high, prices, labels, best, loss, head, tail, beyond):
    """One group from given prices, which are changed into those that prove its labels best."""
    k = scores.shape[1]
    flow, surplus = np.zeros(k, np.int64), np.zeros(k + 1, np.int64)
    # A price from a sample that differs from the hub's by rounding alone means that no bound is met.
    farthest = 0.0
    for v in range(k + 1):
        farthest = max(farthest, abs(prices[v]))
    near = 1e-9 * (farthest + 1e-300)
    for v in range(k):
        if abs(prices[v] - prices[k]) <= near:
            prices[v] = prices[k]
    for i in rows:
        choice, largest = -1, -np.inf
        for v in range(k):
            value = scores[i, v] - prices[v]
            if value > largest:
                choice, largest = v, value
        labels[i] = choice
        surplus[choice] += 1
    for v in range(k):
        # A price above or below that of the hub shows which bound is met.
        if prices[v] > prices[k]:
            flow[v] = high[v]
        elif prices[v] < prices[k]:
            flow[v] = low[v]
        else:
            flow[v] = min(max(surplus[v], low[v]), high[v])
        surplus[v] -= flow[v]
        surplus[k] += flow[v]
    surplus[k] -= len(rows)
    head[:] = 0
    tail[:] = 0
    beyond[:] = np.inf
    for i in rows:
        _enter(scores, i, labels[i], best, loss, head, tail, beyond)
    distance, before = np.empty(k + 1), np.empty(k + 1, np.int64)
    done = np.empty(k + 1, np.bool_)
    while True:
        reached = _shortest(
            scores, rows, labels, low, high, flow, surplus, prices,
            best, loss, head, tail, beyond, distance, before, done,
        )  # fmt: skip
        if reached == -1:
            for v in range(k + 1):
                if surplus[v] != 0:
                    return INFEASIBLE
            _level(low, high, flow, prices)
            return SOLVED
        for v in range(k + 1):
            # Nodes farther than the one reached move by its distance, which keeps reduced costs at least 0.
            prices[v] -= min(distance[v], distance[reached])
        surplus[reached] += 1
        v = reached
        while before[v] != -1:
            u = before[v]
            if v == k:
                flow[u] += 1
            elif u == k:
                flow[v] -= 1
            else:
                i = best[u, v, head[u, v]]
                labels[i] = v
                _enter(scores, i, v, best, loss, head, tail, beyond)
            v = u
        surplus[v] -= 1


@njit(cache=True, nogil=True, error_model="numpy")
def _level(low, high, flow, prices):
    """Prices relative to the hub's, without what rounding left on labels that meet no bound."""
    hub = prices[-1]
    for v in range(len(flow)):
        price = prices[v] - hub
        if flow[v] < high[v]:
            price = min(price, 0.0)
        if flow[v] > low[v]:
            price = max(price, 0.0)
        prices[v] = price
    prices[-1] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _shortest(
    scores, rows, labels, low, high, flow, surplus, prices, best, loss, head, tail, beyond, distance, before, done
):
    """Nearest label with too few rows, from all with too many; -1 if there is none."""
    k = scores.shape[1]
    for v in range(k + 1):
        distance[v] = 0.0 if surplus[v] > 0 else np.inf
        before[v] = -1
        done[v] = False
    while True:
        u = np.int64(-1)
        for v in range(k + 1):
            if not done[v] and distance[v] < np.inf and (u == -1 or distance[v] < distance[u]):
                u = v  # type: ignore[assignment]
        if u == -1:
            return -1
        done[u] = True
        if surplus[u] < 0:
            return u
        for v in range(k + 1):
            if done[v]:
                continue
            if v == k:
                cost = 0.0 if flow[u] < high[u] else np.inf
            elif u == k:
                cost = 0.0 if flow[v] > low[v] else np.inf
            else:
                cost = _least_loss(scores, rows, labels, u, v, best, loss, head, tail, beyond)
            if cost < np.inf:
                # Reduced costs are below 0 by rounding only, which would break Dijkstra's method.
                reach = distance[u] + max(cost - prices[u] + prices[v], 0.0)
                if reach < distance[v]:
                    distance[v] = reach
                    before[v] = u


@njit(cache=True, nogil=True, error_model="numpy")
def _least_loss(scores, rows, labels, u, v, best, loss, head, tail, beyond):
    """Least loss of moving a row from u to v; its row becomes the first one remembered."""
    while True:
        while head[u, v] < tail[u, v] and labels[best[u, v, head[u, v]]] != u:
            head[u, v] += 1
        if head[u, v] < tail[u, v]:
            return loss[u, v, head[u, v]]
        if beyond[u, v] == np.inf:
            return np.inf
        beyond[u, v] = np.inf
        head[u, v] = 0
        tail[u, v] = 0
        for i in rows:
            if labels[i] == u and scores[i, u] - scores[i, v] < beyond[u, v]:
                _remember(i, scores[i, u] - scores[i, v], u, v, best, loss, head, tail, beyond)


@njit(cache=True, nogil=True, error_model="numpy")
def _enter(scores, i, u, best, loss, head, tail, beyond):
    """Remember row i, which now has label u, for its moves to other labels."""
    for v in range(scores.shape[1]):
        value = scores[i, u] - scores[i, v]
        if value < beyond[u, v] and v != u:
            _remember(i, value, u, v, best, loss, head, tail, beyond)


@njit(cache=True, nogil=True, error_model="numpy")
def _remember(i, value, u, v, best, loss, head, tail, beyond):
    """Keep the rows of least loss in increasing order; all others of u lose ``beyond`` or more, unlike this one."""
    capacity = best.shape[2]
    first, last = head[u, v], tail[u, v]
    if last == capacity:
        if first > 0:
            for place in range(first, last):
                best[u, v, place - first] = best[u, v, place]
                loss[u, v, place - first] = loss[u, v, place]
            last -= first
            first = 0
            head[u, v] = 0
        else:
            if value >= loss[u, v, last - 1]:
                beyond[u, v] = value
                return
            last -= 1
            beyond[u, v] = loss[u, v, last]
    place = last
    while place > first and loss[u, v, place - 1] > value:
        best[u, v, place] = best[u, v, place - 1]
        loss[u, v, place] = loss[u, v, place - 1]
        place -= 1
    best[u, v, place] = i
    loss[u, v, place] = value
    tail[u, v] = last + 1
