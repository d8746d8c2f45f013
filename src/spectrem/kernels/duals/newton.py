"""Newton's method on the duals of categorical instances, many problems of few rows one after the other.

The smoothed maximum of an instance is a log-sum-exp. Its gradient in the multipliers is the expectation of the rows,
its Hessian their covariance over gamma, both from one walk over the labels: problems are small enough that the
factorisation of the Hessian costs less than this walk. Scores are less their maximum, so that nothing overflows, and an
exponential that underflows belongs to a label without influence. Sums run over the sparse rows of each label in plain
loops: a label is in few rows. The curvature is that of rows off their bounds alone, which have a *slot* each: many rows
of a problem may rest at their bounds, and cost nothing there.
"""

import math
from typing import NamedTuple

import numpy as np

from spectrem._compiled import njit
from spectrem.kernels.duals.extrapolation import solve_cholesky

# Up to this many rows the curvature of all is computed; of more, only that of rows off their bounds.
_FEW = 8
# A problem with more rows than this off their bounds is given up.
_MOST_SLOTS = 400


class Problems(NamedTuple):
    """Problem p owns ``rows[row_offsets[p]:row_offsets[p + 1]]``, and instances likewise."""

    row_offsets: np.ndarray
    rows: np.ndarray
    instance_offsets: np.ndarray
    instances: np.ndarray


class Instances(NamedTuple):
    """Instance i has the labels ``offsets[i]:offsets[i + 1]``, of scores ``unary``, and counts ``weight[i]`` times.

    ``indptr, indices, data`` hold, for every label, the rows that it takes part in; ``place[r]`` is a row's number
    inside its problem.
    """

    offsets: np.ndarray
    unary: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    place: np.ndarray
    weight: np.ndarray
    gamma: float


class Rows(NamedTuple):
    """Bounds with the kinks of the slack, those of multipliers, and units.

    ``scale`` is what a multiplier moves per unit of slope, ``size`` the unit of a row's expectation, ``lever`` how far
    one unit of the multiplier moves a score.
    """

    bounds: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    scale: np.ndarray
    size: np.ndarray
    lever: np.ndarray


class Scratch(NamedTuple):
    """Space for one instance: exponentials by label, expectations by slot (zero between calls), slots met."""

    shifted: np.ndarray
    mean: np.ndarray
    touched: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate(chosen, instances, x, slot, n_slots, scratch, mass, slope, bend):
    """Weighted sum of smoothed maxima at ``x``; fills expectations, those of absolute values, and covariances.

    ``slope[a] = E[U_a h]``, ``mass[a] = E[|U_a| h]``, ``bend`` (lower triangle) the covariances over gamma of the rows
    that have a slot, by slots; ``slot[a]`` is -1 for the others.
    """
    offsets, unary, indptr, indices, data, place, weight, gamma = instances
    shifted, mean, touched = scratch
    slope[:] = 0.0
    mass[:] = 0.0
    bend[:n_slots, :n_slots] = 0.0
    value = 0.0
    for i in chosen:
        if weight[i] == 0.0:
            continue
        start, stop = offsets[i], offsets[i + 1]
        top = -np.inf
        for k in range(stop - start):
            s = unary[start + k]
            for e in range(indptr[start + k], indptr[start + k + 1]):
                s -= data[e] * x[place[indices[e]]]
            shifted[k] = s
            top = max(top, s)
        if not abs(top) < np.inf:
            return np.nan
        total = 0.0
        for k in range(stop - start):
            shifted[k] = math.exp((shifted[k] - top) / gamma)
            total += shifted[k]
        value += weight[i] * (top + gamma * math.log(total))
        n_touched = 0
        share = weight[i] / total
        for k in range(stop - start):
            q = shifted[k]
            if q == 0.0:
                continue
            q *= share
            for e in range(indptr[start + k], indptr[start + k + 1]):
                a = place[indices[e]]
                c = data[e] * q
                slope[a] += c
                mass[a] += abs(c)
                a = slot[a]
                if a < 0:
                    continue
                if mean[a] == 0.0:
                    touched[n_touched] = a
                    n_touched += 1
                    mean[a] = 1e-300  # not 0, which marks a row that the instance has not met yet
                mean[a] += c
                for f in range(indptr[start + k], e + 1):
                    b = slot[place[indices[f]]]
                    if b < 0:
                        continue
                    if a >= b:
                        bend[a, b] += c * data[f] / gamma
                    else:
                        bend[b, a] += c * data[f] / gamma
        # The second moments are in ``bend``; less the products of means they are covariances. Where most rows were met,
        # a plain loop over all of them is faster than one over a list.
        divisor = gamma * weight[i]
        if 2 * n_touched > n_slots:
            for a in range(n_slots):
                c = mean[a] / divisor
                for b in range(a + 1):
                    bend[a, b] -= c * mean[b]
        else:
            for u in range(n_touched):
                a = touched[u]
                c = mean[a] / divisor
                for v in range(n_touched):
                    if touched[v] <= a:
                        bend[a, touched[v]] -= c * mean[touched[v]]
        for u in range(n_touched):
            mean[touched[u]] = 0.0
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def longest_range(chosen, instances, d):
    """The largest range, over instances, of the changes of the scores of possible labels along a step ``d``."""
    offsets, unary, indptr, indices, data, place, _, _ = instances
    longest = 0.0
    for i in chosen:
        low, high = np.inf, -np.inf
        for k in range(offsets[i], offsets[i + 1]):
            if unary[k] == -np.inf:
                continue
            s = 0.0
            for e in range(indptr[k], indptr[k + 1]):
                s += data[e] * d[place[indices[e]]]
            low, high = min(low, s), max(high, s)
        longest = max(longest, high - low)
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def newton_step(bend, slope, least, slot, free, chol, d, chosen, z):
    """Solve ``bend d = -slope`` over the ``free`` rows, which all have slots, by Cholesky's method.

    ``chosen`` and ``z`` are space for as many rows as there are slots.

    Diagonals below ``least`` are rounding errors, as where probabilities are almost 0 or 1, and are raised to it. A
    pivot below 1e-13 of its diagonal means that the row depends on earlier ones: it becomes 1e-11 of the diagonal,
    which gives a long step in that direction, for the line search to cut.
    """
    n = np.int64(0)
    for r in range(slope.shape[0]):
        d[r] = 0.0
        if free[r]:
            chosen[n] = r
            n += 1
    for a in range(n):
        r = chosen[a]
        row = slot[r]
        for b in range(a):
            chol[a, b] = bend[row, slot[chosen[b]]]
        chol[a, a] = max(bend[row, row], least[r])
        z[a] = -slope[r]
    solve_cholesky(chol, z, n, 1e-13, 1e-11)
    for a in range(n):
        d[chosen[a]] = z[a]


@njit(cache=True, nogil=True, error_model="numpy")
def give_slots(wanted, slot):
    """Number the rows that are wanted; their number, or -1 if there are more than slots."""
    n = 0
    for a in range(wanted.shape[0]):
        slot[a] = -1
        if wanted[a]:
            slot[a] = n
            n += 1
    return n if n <= _MOST_SLOTS else -1


@njit(cache=True, nogil=True, error_model="numpy")
def leave_bounds(rows, at, slope, lower, upper, lever, near, free, wanted):
    """Find the rows that do not rest at a bound; those become wanted. Whether one of them has not been before."""
    missing = False
    for a in range(rows.shape[0]):
        r = rows[a]
        low = (at[a] - lower[r]) * lever[r] <= near and slope[a] > 0.0
        high = (upper[r] - at[a]) * lever[r] <= near and slope[a] < 0.0
        free[a] = not (low or high)
        missing |= free[a] and not wanted[a]
        wanted[a] |= free[a]
    return missing


@njit(cache=True, nogil=True, error_model="numpy")
def newton_duals(problems, instances, rows, tol, max_iter, x, first_value, residual, evaluations):
    """Projected Newton steps from ``x``, in place, on every problem.

    Fills the smooth value at the start, the residual at the end and the number of evaluations of every problem.
    """
    # Unpacked once: a field that is passed on has its references counted at every call.
    row_offsets, all_rows, instance_offsets, all_instances = problems
    bounds, lower, upper, scale, size, lever = rows
    offsets, gamma = instances.offsets, instances.gamma
    most = 1
    widest = 1
    for p in range(row_offsets.shape[0] - 1):
        most = max(most, row_offsets[p + 1] - row_offsets[p])
    for i in all_instances:
        widest = max(widest, offsets[i + 1] - offsets[i])
    wide = min(most, _MOST_SLOTS)
    scratch = Scratch(np.empty(widest), np.zeros(wide), np.empty(wide, np.int64))
    mass_all, slope_all, slope_trial_all = np.empty(most), np.empty(most), np.empty(most)
    bend, bend_trial, chol = np.empty((wide, wide)), np.empty((wide, wide)), np.empty((wide, wide))
    slot_all, order, z = np.empty(most, np.int64), np.empty(wide, np.int64), np.empty(wide)
    at_all, trial_all, d_all = np.empty(most), np.empty(most), np.empty(most)
    free_all, wanted_all = np.empty(most, np.bool_), np.empty(most, np.bool_)
    for p in range(row_offsets.shape[0] - 1):
        members = all_rows[row_offsets[p] : row_offsets[p + 1]]
        m = members.shape[0]
        chosen = all_instances[instance_offsets[p] : instance_offsets[p + 1]]
        at, trial, d, free, wanted = at_all[:m], trial_all[:m], d_all[:m], free_all[:m], wanted_all[:m]
        mass, slope, slope_trial, slot = mass_all[:m], slope_all[:m], slope_trial_all[:m], slot_all[:m]
        for a in range(m):
            at[a] = x[members[a]]
            wanted[a] = m <= _FEW or lower[members[a]] < at[a] < upper[members[a]]
        n_slots = give_slots(wanted, slot)
        if n_slots < 0:
            wanted[:] = False
            n_slots = give_slots(wanted, slot)
        value = evaluate(chosen, instances, at, slot, n_slots, scratch, mass, slope, bend)
        for a in range(m):
            value += bounds[members[a]] * at[a]
            slope[a] = bounds[members[a]] - slope[a]
        first_value[p] = value
        count = 1
        polish = 0
        while True:
            worst = 0.0
            finest = 0.0
            for a in range(m):
                r = members[a]
                moved = min(max(at[a] - scale[r] * slope[a], lower[r]), upper[r])
                # A move below the rounding error of the multiplier counts as that error.
                distance = max(abs(moved - at[a]), 2.2e-16 * abs(at[a])) / scale[r]
                worst = max(worst, distance / size[r])
                finest = max(finest, abs(moved - at[a]) / scale[r] / max(abs(bounds[r]), mass[a], 1e-300))
            residual[p] = worst
            if not worst < np.inf or count >= max_iter:
                break
            # Rows with tiny bounds are to hold relative to these bounds, too: up to six more steps are taken for that.
            if worst <= tol:
                polish += 1
                if finest <= tol or polish > 6:
                    break
            # A row rests at a bound if it is close to it, in nats of scores, and the slope points outward.
            if leave_bounds(members, at, slope, lower, upper, lever, min(1e-3, worst), free, wanted):
                # The curvature of rows at a bound is first computed when they leave it.
                n_slots = give_slots(wanted, slot)
                if n_slots < 0:
                    break
                evaluate(chosen, instances, at, slot, n_slots, scratch, mass, slope_trial, bend)
                count += 1
            # A covariance is a difference of moments, exact to rounding of ``E[|U|]``.
            for a in range(m):
                trial[a] = 1e-13 * mass[a] / gamma
            newton_step(bend, slope, trial, slot, free, chol, d, order, z)
            reach = longest_range(chosen, instances, d) / gamma
            # The third derivative along d is at most ``reach`` times the second: this damped step cannot overshoot
            # (generalised self-concordance: Sun & Tran-Dinh 2019).
            step = 1.0 if reach <= 1.0 else math.log1p(reach) / reach
            accepted = False
            shortest = 1e-9 * step
            block = np.inf  # the step at which the first free row meets a bound
            for a in range(m):
                if free[a] and d[a] != 0.0:
                    bound = upper[members[a]] if d[a] > 0.0 else lower[members[a]]
                    away = (bound - at[a]) / d[a]
                    block = min(block, away if away > 0.0 else np.inf)
            while step > min(shortest, 0.5 * block) and count < max_iter:
                expected = 0.0
                for a in range(m):
                    r = members[a]
                    if free[a]:
                        trial[a] = min(max(at[a] + step * d[a], lower[r]), upper[r])
                    else:
                        trial[a] = lower[r] if slope[a] > 0.0 else upper[r]
                    expected += slope[a] * (trial[a] - at[a])
                # A long step may run so far into bounds that it no longer descends; a shorter one does.
                if expected < 0.0:
                    value_trial = evaluate(
                        chosen, instances, trial, slot, n_slots, scratch, mass, slope_trial, bend_trial
                    )
                    count += 1
                    along = 0.0
                    for a in range(m):
                        value_trial += bounds[members[a]] * trial[a]
                        slope_trial[a] = bounds[members[a]] - slope_trial[a]
                        along += slope_trial[a] * (trial[a] - at[a])
                    # Armijo's rule; by convexity the slope at the trial proves decreases that rounding hides in the
                    # values.
                    if value_trial <= value + 1e-4 * expected or along <= 1e-4 * expected:
                        accepted = True
                        break
                # Where the first bound is met, the projected path bends: try that point before shorter steps.
                step, block = (block, np.inf) if 0.0 < block < step else (0.3 * step, block)
            if not accepted:
                break
            value = value_trial
            for a in range(m):
                at[a] = trial[a]
                slope[a] = slope_trial[a]
            for a in range(n_slots):
                for b in range(a + 1):
                    bend[a, b] = bend_trial[a, b]
        for a in range(m):
            x[members[a]] = at[a]
        evaluations[p] = count


@njit(cache=True, nogil=True, error_model="numpy")
def curve_minima(problems, instances, lower, upper, n_shared, x, total):
    """Add up how the minima of all problems curve in the multipliers of rows that they share.

    ``x`` are the multipliers of the problems' own rows at the minimum. The shared rows have the first places of every
    problem, and their multipliers are in the scores already. Rows off their bounds follow a change of these: they are
    eliminated from the curvature of both (a Schur complement), last row first, in the lower triangle. A row that
    depends on others has a pivot of 0 then, and changes nothing. Whether all problems had slots enough.
    """
    row_offsets, all_rows, instance_offsets, all_instances = problems
    offsets = instances.offsets
    most, widest = 0, 1
    for p in range(row_offsets.shape[0] - 1):
        n_free = 0
        for r in all_rows[row_offsets[p] : row_offsets[p + 1]]:
            n_free += lower[r] < x[r] < upper[r]
        if n_free > _MOST_SLOTS:
            return False
        most = max(most, n_free)
    for i in all_instances:
        widest = max(widest, offsets[i + 1] - offsets[i])
    wide, longest = n_shared + most, n_shared + all_rows.shape[0]
    scratch = Scratch(np.empty(widest), np.zeros(wide), np.empty(wide, np.int64))
    at, slot, bend = np.zeros(longest), np.empty(longest, np.int64), np.empty((wide, wide))
    mass, slope, diagonal = np.empty(longest), np.empty(longest), np.empty(wide)
    for p in range(row_offsets.shape[0] - 1):
        members = all_rows[row_offsets[p] : row_offsets[p + 1]]
        chosen = all_instances[instance_offsets[p] : instance_offsets[p + 1]]
        n = n_shared
        m = n_shared + members.shape[0]
        for c in range(n_shared):
            slot[c] = c
        for a in range(members.shape[0]):
            r = members[a]
            at[n_shared + a] = x[r]
            slot[n_shared + a] = -1
            if lower[r] < x[r] < upper[r]:
                slot[n_shared + a] = n
                n += 1
        evaluate(chosen, instances, at[:m], slot[:m], n, scratch, mass[:m], slope[:m], bend)
        for a in range(n):
            diagonal[a] = bend[a, a]
        for k in range(n - 1, n_shared - 1, -1):
            if bend[k, k] <= 1e-11 * diagonal[k]:
                continue
            for a in range(k):
                f = bend[k, a] / bend[k, k]
                if f != 0.0:
                    for b in range(a + 1):
                        bend[a, b] -= f * bend[k, b]
        for c in range(n_shared):
            for b in range(c + 1):
                total[c, b] += bend[c, b]
    return True
