"""Spectral gradient steps, and projections onto weighted l1 and l2 balls, in one loop over the rows each.

There may be millions of rows, for which NumPy would write and read an array for every operation.
"""

import numpy as np

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def forward_step(x, gradient, length, scale, out):
    """``out = x - length * scale * gradient``."""
    for r in range(x.shape[0]):
        out[r] = x[r] - length * scale[r] * gradient[r]


@njit(cache=True, nogil=True, error_model="numpy")
def measure_move(before, after, gradient, scale, size):
    """``sum move^2 / scale``, ``sum gradient * move`` and ``max |move| / (scale * size)`` of ``after - before``."""
    stride, slope, largest = 0.0, 0.0, 0.0
    for r in range(before.shape[0]):
        move = after[r] - before[r]
        stride += move * move / scale[r]
        slope += gradient[r] * move
        relative = abs(move) / (scale[r] * size[r])
        if relative > largest:
            largest = relative
    return stride, slope, largest


@njit(cache=True, nogil=True, error_model="numpy")
def slope_along(before, after, gradient):
    """``sum gradient * (after - before)``."""
    slope = 0.0
    for r in range(before.shape[0]):
        slope += gradient[r] * (after[r] - before[r])
    return slope


_MOST_STEPS = 100  # of Newton's method, which takes a handful unless rounding makes it circle


@njit(cache=True, nogil=True, error_model="numpy")
def project_l1_balls(values, length, step, offsets, radius, out):
    """The x with ``sum length |x| <= radius`` that is nearest to the values.

    Distance is ``sum (length / step) (x - value)^2``, so that what shrinks is ``|x| = max(|value| - mu step, 0)``;
    Michelot's iteration finds mu: solve for mu as if the current support were that of the solution, drop entries that
    this mu would make 0, and repeat. ``length`` and ``step`` are positive.
    """
    for g in range(offsets.shape[0] - 1):
        start, stop = offsets[g], offsets[g + 1]
        total = 0.0
        width = 0.0
        for k in range(start, stop):
            total += length[k] * abs(values[k])
            width += length[k] * step[k]
        if total <= radius[g]:
            for k in range(start, stop):
                out[k] = values[k]
            continue
        count = stop - start
        threshold = (total - radius[g]) / width
        while True:
            kept = 0
            total = 0.0
            width = 0.0
            for k in range(start, stop):
                if abs(values[k]) > threshold * step[k]:
                    kept += 1
                    total += length[k] * abs(values[k])
                    width += length[k] * step[k]
            # Not "== count": rounding may add an entry to the support and drop it again for ever.
            if kept == 0 or kept >= count:
                break
            count = kept
            threshold = (total - radius[g]) / width
        for k in range(start, stop):
            size = abs(values[k]) - threshold * step[k]
            out[k] = np.sign(values[k]) * size if size > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def project_l2_balls(values, length, step, offsets, radius, out):
    """The x with ``sqrt(sum (length x)^2) <= radius`` that is nearest to the values.

    Distance is ``sum (length^2 / step) (x - value)^2``, so that what shrinks is ``x = value / (1 + mu step)``. Newton's
    method on the inverse norm, which is concave in mu, finds it from below; where all steps are equal the first
    iteration is exact. Norms are taken relative to the largest entry, so that squares do not overflow.
    """
    for g in range(offsets.shape[0] - 1):
        start, stop = offsets[g], offsets[g + 1]
        largest = 0.0
        for k in range(start, stop):
            largest = max(largest, length[k] * abs(values[k]))
        mu = 0.0
        for _ in range(_MOST_STEPS):
            if largest == 0.0 or radius[g] == 0.0:
                break
            square = 0.0
            slope = 0.0
            for k in range(start, stop):
                size = length[k] * abs(values[k]) / largest / (1.0 + mu * step[k])
                square += size * size
                slope += size * size * step[k] / (1.0 + mu * step[k])
            norm = largest * np.sqrt(square)
            # Up to a few units in the last place; the slope is 0 if all squares underflow.
            if norm <= radius[g] * (1.0 + 1e-15) or slope == 0.0:
                break
            further = mu + (norm / radius[g] - 1.0) * square / slope
            if further <= mu:
                break
            mu = further
        for k in range(start, stop):
            out[k] = values[k] / (1.0 + mu * step[k]) if radius[g] > 0.0 else 0.0
