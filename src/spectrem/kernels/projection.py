"""Projections onto l1 balls, group by group."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def project_l1_balls(values, offsets, radius, out):
    """Nearest point with ``sum |out| <= radius`` in each group; Michelot's shrinking-support iteration."""
    for g in range(offsets.shape[0] - 1):
        start, stop = offsets[g], offsets[g + 1]
        total = 0.0
        for k in range(start, stop):
            total += abs(values[k])
        if total <= radius[g]:
            for k in range(start, stop):
                out[k] = values[k]
            continue
        count = stop - start
        threshold = (total - radius[g]) / count
        while True:
            kept = 0
            kept_total = 0.0
            for k in range(start, stop):
                if abs(values[k]) > threshold:
                    kept += 1
                    kept_total += abs(values[k])
            # Not "== count": where rounding decides, the support may also grow by one and shrink again for ever.
            if kept == 0 or kept >= count:
                break
            count = kept
            threshold = (kept_total - radius[g]) / count
        for k in range(start, stop):
            size = abs(values[k]) - threshold
            out[k] = np.sign(values[k]) * size if size > 0.0 else 0.0
