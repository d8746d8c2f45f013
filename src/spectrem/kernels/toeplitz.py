"""Sums over moves whose potential depends on the clipped jump width alone, in time linear in that width.

A move leads from k to o with jump width ``d = 1 + step * (o - k)``; ``moves[clip(d, -W, W) + W]`` is its potential.
Widths below W are summed one by one. All wider ones share a potential, so running sums of positive terms cover them:
every entry keeps its relative accuracy, which a fast Fourier transform would lose.
"""

from spectrem._compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def tails(width, step):
    """Both ends of the band: k <= o - before and k >= o + after are clipped; the entries of ``moves`` they share."""
    if step > 0:
        return width - 1, 2 * width, width + 1, 0
    return width + 1, 0, width - 1, 2 * width


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_four(n, m0, m1, m2, m3, source, at, out, first):
    """out += four neighbouring moves at a time; the loop becomes vector instructions."""
    s0, s1, s2, s3 = (
        source[at : at + n],
        source[at - 1 : at - 1 + n],
        source[at - 2 : at - 2 + n],
        source[at - 3 : at - 3 + n],
    )
    part = out[first : first + n]
    for k in range(n):
        part[k] += (m0 * s0[k] + m1 * s1[k]) + (m2 * s2[k] + m3 * s3[k])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_one(n, m, source, at, out, first):
    s, part = source[at : at + n], out[first : first + n]
    for k in range(n):
        part[k] += m * s[k]


@njit(cache=True, nogil=True, error_model="numpy")
def spread(source, moves, step, out):
    """out[o] = sum_k source[k] * moves[clip(1 + step * (o - k), -W, W) + W]."""
    n_in, n_out, width = len(source), len(out), len(moves) // 2
    before, low, after, high = tails(width, step)
    out[:] = 0.0
    shift, last = max(1 - after, 1 - n_in), min(before - 1, n_out - 1)
    while shift <= last:
        at = width + 1 + step * shift
        # Four shifts share the range in which all of them stay inside ``source``; its ends are added one by one.
        first, stop = max(0, shift + 3), min(n_out, n_in + shift)
        if shift + 3 <= last and stop > first:
            _add_four(
                stop - first, moves[at], moves[at + step], moves[at + 2 * step], moves[at + 3 * step],
                source, first - shift, out, first,
            )  # fmt: skip
            for extra in range(4):
                m = moves[at + step * extra]
                for o in range(max(0, shift + extra), first):
                    out[o] += m * source[o - shift - extra]
                for o in range(stop, min(n_out, n_in + shift + extra)):
                    out[o] += m * source[o - shift - extra]
            shift += 4
        else:
            first, stop = max(0, shift), min(n_out, n_in + shift)
            _add_one(max(0, stop - first), moves[at], source, first - shift, out, first)
            shift += 1
    mass = 0.0
    for o in range(before, n_out):
        if o - before < n_in:
            mass += source[o - before]
        out[o] += moves[low] * mass
    mass = 0.0
    for k in range(n_in - 1, after - 1, -1):
        mass += source[k]
        if k - after < n_out:
            out[k - after] += moves[high] * mass


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _dot(n, a, b):
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def count_moves(weight, source, target, moves, counts):
    """Add ``weight * source[k] * moves[...] * target[o]`` of every move (``step`` 1) to the count of its width."""
    n_in, n_out, width = len(source), len(target), len(moves) // 2
    before, low, after, high = tails(width, 1)
    for shift in range(max(1 - after, 1 - n_in), min(before, n_out)):
        first, stop = max(0, shift), min(n_out, n_in + shift)
        at = width + 1 + shift
        if stop > first:
            counts[at] += weight * moves[at] * _dot(stop - first, source[first - shift :], target[first:])
    mass, total = 0.0, 0.0
    for o in range(before, n_out):
        if o - before < n_in:
            mass += source[o - before]
        total += mass * target[o]
    counts[low] += weight * moves[low] * total
    mass, total = 0.0, 0.0
    for k in range(n_in - 1, after - 1, -1):
        mass += source[k]
        if k - after < n_out:
            total += mass * target[k - after]
    counts[high] += weight * moves[high] * total
