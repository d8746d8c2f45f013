"""The arithmetic of a spectral gradient step, in one loop over the rows each.

There may be millions of rows, for which NumPy would write and read an array for every operation.
"""

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
