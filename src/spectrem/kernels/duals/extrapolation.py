"""Steps from remembered ones, of many small problems side by side: L-BFGS directions and Anderson's points."""

import math

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def solve_cholesky(matrix, right, n, smallest, replaced):
    """Solve n equations in place by Cholesky's method; of the matrix, which is overwritten, the lower triangle is read.

    A pivot of at most ``smallest`` times its diagonal becomes ``replaced`` times the diagonal. Unknowns whose pivot is
    0 are 0.
    """
    for a in range(n):
        whole = matrix[a, a]
        pivot, total = whole, right[a]
        for b in range(a):
            if matrix[b, b] == 0.0:
                matrix[a, b] = 0.0
                continue
            s = matrix[a, b]
            for c in range(b):
                s -= matrix[a, c] * matrix[b, c]
            matrix[a, b] = s / matrix[b, b]
            pivot -= matrix[a, b] * matrix[a, b]
            total -= matrix[a, b] * right[b]
        if not pivot > smallest * whole:
            pivot = replaced * whole if replaced > 0.0 else 0.0
        matrix[a, a] = math.sqrt(pivot)
        right[a] = total / matrix[a, a] if pivot != 0.0 else 0.0
    for a in range(n - 1, -1, -1):
        if matrix[a, a] != 0.0:
            for b in range(a + 1, n):
                right[a] -= matrix[b, a] * right[b]
            right[a] /= matrix[a, a]


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


@njit(cache=True, nogil=True, error_model="numpy")
def anderson_points(
    offsets, order, wanted, residual, scale, steps, residual_changes, gradient_changes, newest, stored, point, gradient
):
    """Move ``point`` and its ``gradient`` along past steps so that the predicted residual is least.

    Problem p owns rows ``order[offsets[p]:offsets[p + 1]]``; its last ``stored[p]`` entries of the three histories
    (each of shape (memory, n_rows)) end at slot ``newest[p]``. Norms are weighted by ``1 / scale``.

    The weights of the past steps solve the normal equations of a least-squares problem of at most ``memory`` unknowns,
    by Cholesky's method. Problems are so small that loops over their rows cost less than calls of BLAS would.
    """
    memory = steps.shape[0]
    for p in range(offsets.shape[0] - 1):
        m = stored[p]
        if not wanted[p] or m == 0:
            continue
        start, stop = offsets[p], offsets[p + 1]
        gram = np.zeros((m, m))
        right = np.zeros(m)
        for i in range(m):
            a = (newest[p] - i) % memory
            for k in range(start, stop):
                r = order[k]
                right[i] -= residual_changes[a, r] * residual[r] / scale[r]
            for j in range(i + 1):
                b = (newest[p] - j) % memory
                total = 0.0
                for k in range(start, stop):
                    r = order[k]
                    total += residual_changes[a, r] * residual_changes[b, r] / scale[r]
                gram[i, j] = total
        # From the newest step on. A step whose pivot keeps less than 1e-10 of its squared norm depends, to the accuracy
        # of squares, on newer ones and gets no weight.
        solve_cholesky(gram, right, m, 1e-10, 0.0)
        for i in range(m):
            slot = (newest[p] - i) % memory
            for k in range(start, stop):
                r = order[k]
                point[r] += right[i] * steps[slot, r]
                gradient[r] += right[i] * gradient_changes[slot, r]
