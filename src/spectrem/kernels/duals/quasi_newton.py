"""Limited-memory quasi-Newton directions of many small problems side by side."""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def quasi_newton_directions(
    offsets, order, wanted, free, gradient, scale, lever, steps, changes, newest, stored, direction
):  # fmt: skip
    """Fill ``direction`` (zero outside ``free``) with minus the inverse Hessian estimate times ``gradient``.

    Problem p owns rows ``order[offsets[p]:offsets[p + 1]]``; its last ``stored[p]`` pairs of ``steps`` and
    ``changes`` (each of shape (memory, n_rows)) end at slot ``newest[p]``. The first step moves no score by more than
    1 nat. This is the two-loop recursion of L-BFGS (Nocedal 1980) restricted to the free rows: free rows change from
    step to step, so that inner products are taken anew each time.
    """
    memory = steps.shape[0]
    along = np.empty(memory)
    curvature = np.empty(memory)
    for p in range(offsets.shape[0] - 1):
        if not wanted[p]:
            continue
        start, stop = offsets[p], offsets[p + 1]
        for k in range(start, stop):
            r = order[k]
            direction[r] = -gradient[r] if free[r] else 0.0
        factor = 0.0
        for m in range(stored[p]):
            slot = (newest[p] - m) % memory
            sy = 0.0
            ss = 0.0
            yy = 0.0
            sd = 0.0
            for k in range(start, stop):
                r = order[k]
                if free[r]:
                    sy += steps[slot, r] * changes[slot, r]
                    ss += steps[slot, r] * steps[slot, r] / scale[r]
                    yy += changes[slot, r] * changes[slot, r] * scale[r]
                    sd += steps[slot, r] * direction[r]
            # A step whose curvature on the free rows is not positive, or lost in rounding, is left out.
            if sy <= 1e-12 * np.sqrt(ss * yy) or yy == 0.0:
                curvature[m] = 0.0
                continue
            if factor == 0.0:
                factor = sy / yy  # of the newest step: the inverse Hessian to begin with is this times ``scale``
            curvature[m] = sy
            along[m] = sd / sy
            for k in range(start, stop):
                r = order[k]
                if free[r]:
                    direction[r] -= along[m] * changes[slot, r]
        if factor == 0.0:
            longest = 0.0
            for k in range(start, stop):
                longest = max(longest, abs(direction[order[k]]) * scale[order[k]] * lever[order[k]])
            factor = 1.0 / max(longest, 1.0)
        for k in range(start, stop):
            direction[order[k]] *= factor * scale[order[k]]
        for m in range(stored[p] - 1, -1, -1):
            if curvature[m] == 0.0:
                continue
            slot = (newest[p] - m) % memory
            yd = 0.0
            for k in range(start, stop):
                if free[order[k]]:
                    yd += changes[slot, order[k]] * direction[order[k]]
            shift = along[m] - yd / curvature[m]
            for k in range(start, stop):
                r = order[k]
                if free[r]:
                    direction[r] += shift * steps[slot, r]
