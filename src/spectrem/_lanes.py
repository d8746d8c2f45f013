"""Sums of products, and largest sums, of several instances side by side: the inner loops of kernels over trees.

A *lane* is one instance of a group of LANES. A table of a group is flat, and holds the numbers of one entry together,
one per lane: entry k of lane l stands at ``k * LANES + l``. What a kernel does to an entry it does to all lanes at
once, with vector instructions and the sums in registers. Numba's loops do not come to that, since arrays may overlap as
far as the compiler knows: every step would go through memory. So these functions are written in the compiler's own
terms, vectors of LANES numbers, which it splits where registers are smaller.

Places and steps count numbers, so that those of entries are multiples of LANES. A sum of one product multiplies.
Lanes never meet: what a lane gets does not depend on the others, nor on its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spectrem._compiled import njit

LANES = 16

_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_PLACE = ir.IntType(64)


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_DOUBLES, [value] * LANES)


def _fold(start: float | None, step: Callable[[Any, Any, Any, Any], Any]) -> Any:
    """The function that folds ``step(builder, so_far, left, right)`` over entries; from ``start`` or what is there."""

    def declare(
        typing: Any,
        out: Any,
        at: Any,
        left: Any,
        l_at: Any,
        l_step: Any,
        right: Any,
        r_at: Any,
        r_step: Any,
        count: Any,
    ) -> Any:
        places = types.int64
        signature = types.void(out, places, left, places, places, right, places, places, places)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _, at, _, l_at, l_step, _, r_at, r_step, count = arguments

            def entry(array: int, place: Any) -> Any:
                data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
                return builder.bitcast(builder.gep(data, [place]), _DOUBLES.as_pointer())

            def load(array: int, place: Any) -> Any:
                loaded = builder.load(entry(array, place))
                loaded.align = 8
                return loaded

            first = load(0, at) if start is None else _constant(start)
            before = builder.block
            loop, after = builder.append_basic_block("lanes.loop"), builder.append_basic_block("lanes.after")
            builder.cbranch(builder.icmp_signed(">", count, _PLACE(0)), loop, after)
            builder.position_at_end(loop)
            k, l_now, r_now, so_far = (builder.phi(kind) for kind in (_PLACE, _PLACE, _PLACE, _DOUBLES))
            folded = step(builder, so_far, load(2, l_now), load(5, r_now))
            k_next = builder.add(k, _PLACE(1))
            l_next, r_next = builder.add(l_now, l_step), builder.add(r_now, r_step)
            for phi, initial, following in (
                (k, _PLACE(0), k_next),
                (l_now, l_at, l_next),
                (r_now, r_at, r_next),
                (so_far, first, folded),
            ):
                phi.add_incoming(initial, before)
                phi.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", k_next, count), loop, after)
            builder.position_at_end(after)
            result = builder.phi(_DOUBLES)
            result.add_incoming(first, before)
            result.add_incoming(folded, loop)
            builder.store(result, entry(0, at)).align = 8
            return context.get_dummy_value()

        return signature, generate

    return intrinsic(declare)


def _add_product(builder: Any, so_far: Any, left: Any, right: Any) -> Any:
    product = builder.fmul(left, right, flags=("contract",))
    return builder.fadd(so_far, product, flags=("contract",))


def _larger_sum(builder: Any, so_far: Any, left: Any, right: Any) -> Any:
    total = builder.fadd(left, right)
    return builder.select(builder.fcmp_ordered(">", total, so_far), total, so_far)


# sum_products(out, at, left, l_at, l_step, right, r_at, r_step, count), and the others alike:
# out[at] = sum over k < count of left[l_at + k * l_step] * right[r_at + k * r_step], in every lane
sum_products = _fold(0.0, _add_product)
# the same, added to what is there
add_products = _fold(None, _add_product)
# out[at] = max over k < count of left[l_at + k * l_step] + right[r_at + k * r_step]; -inf of none
largest_sum = _fold(-np.inf, _larger_sum)
# the same, or what is there if that is larger
raise_to_sum = _fold(None, _larger_sum)


@njit(cache=True, nogil=True, error_model="numpy")
def longest_of(members, lengths):  # type: ignore[no-untyped-def]
    """The length of the longest of some sentences, 0 without any."""
    longest = 0
    for member in members:
        longest = max(longest, lengths[member])
    return longest


@njit(cache=True, nogil=True, error_model="numpy")
def empty_table(n_entries):  # type: ignore[no-untyped-def]
    """An array of ``n_entries * LANES`` numbers that starts where a cache line does, so that no entry takes two."""
    numbers = np.empty((n_entries + 1) * LANES)
    start = -(numbers.ctypes.data // 8) % LANES
    return numbers[start : start + n_entries * LANES]


@njit(cache=True, nogil=True, error_model="numpy")
def load_arcs(members, lengths, offsets, values, never, always, n, stride, table):  # type: ignore[no-untyped-def]
    """Put values of the arcs of some sentences, at most LANES, into a table indexed [dependent, head].

    Sentence m has ``values[offsets[m]:offsets[m + 1]]``; the longest has n words, and rows are ``stride`` apart. Words
    beyond the end of a shorter one hang one on the other, the first of them on the last word: these arcs have the value
    ``always``, all others of such words ``never``. So they change no sum of products, and no largest sum.
    """
    table[: n * stride] = never
    for lane in range(LANES):
        size = 0
        if lane < len(members):
            size = lengths[members[lane]]
            own = values[offsets[members[lane]] : offsets[members[lane] + 1]]
            for d in range(size):
                row = table[d * stride : d * stride + size * LANES]
                for h in range(size):
                    row[h * LANES + lane] = own[d * size + h]
        for d in range(size, n):
            table[d * stride + max(d - 1, 0) * LANES + lane] = always


@njit(cache=True, nogil=True, error_model="numpy")
def load_valence(members, lengths, offsets, values, never, n, stride, first, later, stops):  # type: ignore[no-untyped-def]
    """Put values of the parts of some trees with valence, at most LANES, into tables.

    Sentence m has ``values[offsets[m]:offsets[m + 1]]``: arcs [dependent, head, first or later child], then stops, four
    for every word. Of n words, those beyond the end of a sentence have the value ``never``.
    """
    first[: n * stride], later[: n * stride], stops[: 4 * n * LANES] = never, never, never
    for lane in range(len(members)):
        size = lengths[members[lane]]
        own = values[offsets[members[lane]] : offsets[members[lane] + 1]]
        for d in range(size):
            row, other = first[d * stride : (d + 1) * stride], later[d * stride : (d + 1) * stride]
            for h in range(size):
                row[h * LANES + lane] = own[2 * (d * size + h)]
                other[h * LANES + lane] = own[2 * (d * size + h) + 1]
        for k in range(4 * size):
            stops[k * LANES + lane] = own[2 * size * size + k]
