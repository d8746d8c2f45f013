"""Word pairs of a trained table that are worth keeping."""

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def mark_expected(row_offsets, targets, forward, backward, source_totals, target_totals, least, kept, sizes):
    """Mark in ``kept`` the entries that have at least ``least`` expected links in either direction.

    These are an entry's probability times the total of the word it is given: the source word (forward), or the target
    word (backward). Fills ``sizes``, the number of such entries of every row. Returns the links of the other entries
    and those of all, forward, then backward.
    """
    sizes[:] = 0
    lost_forward, all_forward, lost_backward, all_backward = 0.0, 0.0, 0.0, 0.0
    for word in range(len(row_offsets) - 1):
        for k in range(row_offsets[word], row_offsets[word + 1]):
            one = forward[k] * source_totals[word]
            other = backward[k] * target_totals[targets[k]]
            all_forward += one
            all_backward += other
            kept[k] = max(one, other) >= least
            if kept[k]:
                sizes[word] += 1
            else:
                lost_forward += one
                lost_backward += other
    return lost_forward, all_forward, lost_backward, all_backward
