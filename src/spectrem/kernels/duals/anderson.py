"""Anderson extrapolation of many small problems side by side."""

import numpy as np

from spectrem._compiled import njit


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
        # Cholesky from the newest step on. A step whose pivot keeps less than 1e-10 of its squared norm depends, to the
        # accuracy of squares, on newer ones and gets no weight.
        used = np.zeros(m, np.bool_)
        for i in range(m):
            whole = gram[i, i]
            for j in range(i):
                if not used[j]:
                    gram[i, j] = 0.0
                    continue
                for q in range(j):
                    gram[i, j] -= gram[i, q] * gram[j, q]
                gram[i, j] /= gram[j, j]
                gram[i, i] -= gram[i, j] * gram[i, j]
            if gram[i, i] > 1e-10 * whole and whole > 0.0:
                used[i] = True
                gram[i, i] = np.sqrt(gram[i, i])
                for q in range(i):
                    right[i] -= gram[i, q] * right[q]
                right[i] /= gram[i, i]
            else:
                right[i] = 0.0
        # Back substitution; ``right`` then holds the weights.
        for i in range(m - 1, -1, -1):
            if not used[i]:
                right[i] = 0.0
                continue
            for q in range(i + 1, m):
                if used[q]:
                    right[i] -= gram[q, i] * right[q]
            right[i] /= gram[i, i]
        for i in range(m):
            slot = (newest[p] - i) % memory
            for k in range(start, stop):
                r = order[k]
                point[r] += right[i] * steps[slot, r]
                gradient[r] += right[i] * gradient_changes[slot, r]
