"""Vectors of LANES numbers as values in kernels: what a kernel does to one it does to LANES instances side by side.

Numba's loops over lanes do not become vector instructions where a kernel writes to what it reads, since arrays may
overlap as far as the compiler knows. A vector is loaded from and stored to a flat array, at a place that counts numbers
and is not checked; between, it is in registers. Vectors know ``+``, ``-``, ``*`` and ``/`` with each other. Lanes never
meet, but where a function here says so; products that are added are fused with the sum.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

LANES = 8

_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(64), LANES)
# A double is (-1)**sign * 1.fraction * 2**(bits of exponent - _BIAS), with so many bits of fraction.
_FRACTION, _BIAS = 52, 1023
_WHOLE = 1.5 * 2.0**_FRACTION  # a double so large that numbers that are added to it are rounded to whole ones


class _Vector(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"vector of {LANES} numbers")


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)


_VECTOR = _Vector()


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_DOUBLES, [value] * LANES)


def _integers(value: int) -> ir.Constant:
    return ir.Constant(_INTEGERS, [value] * LANES)


def _operation(n_vectors: int, result: Any, generate: Callable[..., Any]) -> Any:
    """A function of so many vectors, from ``generate(builder, *vectors)``."""

    def of_one(typing: Any, a: Any) -> Any:
        return result(_VECTOR), lambda context, builder, signature, arguments: generate(builder, *arguments)

    def of_two(typing: Any, a: Any, b: Any) -> Any:
        return result(_VECTOR, _VECTOR), lambda context, builder, signature, arguments: generate(builder, *arguments)

    return intrinsic(of_one if n_vectors == 1 else of_two)


def _operator(symbol: Any, instruction: str) -> None:
    """Let two vectors be joined by a symbol."""

    def generate(builder: Any, a: Any, b: Any) -> Any:
        return getattr(builder, instruction)(a, b, flags=("contract",))

    joined = _operation(2, _VECTOR, generate)

    @overload(symbol)
    def choose(a, b):  # type: ignore[no-untyped-def]
        if isinstance(a, _Vector) and isinstance(b, _Vector):
            return lambda a, b: joined(a, b)
        return None


_operator(operator.add, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")


def _entry(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(data, [arguments[1]]), _DOUBLES.as_pointer())


def _load(typing: Any, array: Any, place: Any) -> Any:
    """The vector ``array[place : place + LANES]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = builder.load(_entry(context, builder, signature, arguments))
        loaded.align = 8
        return loaded

    return _VECTOR(array, types.int64), generate


def _store(typing: Any, array: Any, place: Any, vector: Any) -> Any:
    """Put a vector into ``array[place : place + LANES]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _entry(context, builder, signature, arguments)).align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, _VECTOR), generate


def _spread(typing: Any, number: Any) -> Any:
    """The vector of one number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _everywhere(builder, arguments[0])

    return _VECTOR(types.float64), generate


def _load_one(typing: Any, array: Any, place: Any) -> Any:
    """The vector of ``array[place]`` in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return _everywhere(builder, builder.load(builder.gep(data, [arguments[1]])))

    return _VECTOR(array, types.int64), generate


def _load_some(typing: Any, array: Any, place: Any, count: Any, rest: Any) -> Any:
    """The vector of ``array[place : place + count]``, and of ``rest`` in lanes from ``count`` on.

    All LANES numbers are read, so that the array must hold them.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = builder.load(_entry(context, builder, signature, arguments))
        loaded.align = 8
        lanes = ir.Constant(_INTEGERS, list(range(LANES)))
        some = builder.icmp_signed("<", lanes, _everywhere(builder, arguments[2], _INTEGERS))
        return builder.select(some, loaded, _everywhere(builder, arguments[3]))

    return _VECTOR(array, types.int64, types.int64, types.float64), generate


def _everywhere(builder: Any, number: Any, kind: Any = _DOUBLES) -> Any:
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.IntType(32)(0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, first, lanes)


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", b, a), b, a)


def _least_positive(builder: Any, a: Any, b: Any) -> Any:
    positive = builder.fcmp_ordered(">", b, _constant(0.0))
    return builder.select(builder.and_(positive, builder.fcmp_ordered("<", b, a)), b, a)


def _any_below(builder: Any, a: Any, b: Any) -> Any:
    bits = builder.bitcast(builder.fcmp_ordered("<", a, b), ir.IntType(LANES))
    return builder.icmp_unsigned("!=", bits, ir.IntType(LANES)(0))


def _exponent(builder: Any, a: Any) -> Any:
    bits = builder.lshr(builder.bitcast(a, _INTEGERS), _integers(_FRACTION))
    bits = builder.and_(bits, _integers(2 * _BIAS + 1))
    found = builder.sitofp(builder.sub(bits, _integers(_BIAS)), _DOUBLES)
    return builder.select(builder.icmp_unsigned("==", bits, _integers(0)), _constant(0.0), found)


def _power_of_two(builder: Any, a: Any) -> Any:
    # the last bits of a sum with _WHOLE are those of a whole number
    bits = builder.bitcast(builder.fadd(a, _constant(_WHOLE + _BIAS)), _INTEGERS)
    return builder.bitcast(builder.shl(bits, _integers(_FRACTION)), _DOUBLES)


def _add_whole(builder: Any, a: Any, b: Any) -> Any:
    whole = builder.add(builder.bitcast(a, _INTEGERS), builder.bitcast(b, _INTEGERS))
    return builder.bitcast(whole, _DOUBLES)


def _of_whole(builder: Any, a: Any) -> Any:
    return builder.sitofp(builder.bitcast(a, _INTEGERS), _DOUBLES)


def _to_whole(builder: Any, a: Any) -> Any:
    bits = builder.bitcast(builder.fadd(a, _constant(_WHOLE)), _INTEGERS)
    return builder.bitcast(builder.sub(bits, builder.bitcast(_constant(_WHOLE), _INTEGERS)), _DOUBLES)


def _across(step: Callable[[Any, Any, Any], Any]) -> Any:
    """A function that folds the lanes of a vector into one number, halves of them at a time."""

    def declare(typing: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            folded, width = arguments[0], LANES // 2
            while width:
                turned = [(lane + width) % LANES for lane in range(LANES)]
                lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), turned)
                folded = step(builder, folded, builder.shuffle_vector(folded, folded, lanes))
                width //= 2
            return builder.extract_element(folded, ir.IntType(32)(0))

        return types.float64(_VECTOR), generate

    return intrinsic(declare)


load: Any = intrinsic(_load)
load_one: Any = intrinsic(_load_one)
load_some: Any = intrinsic(_load_some)
store: Any = intrinsic(_store)
spread: Any = intrinsic(_spread)
# larger(a, b): b where it is larger, else a
larger = _operation(2, _VECTOR, _larger)
# least_positive(a, b): b where it is positive and less than a, else a
least_positive = _operation(2, _VECTOR, _least_positive)
# any_below(a, b): whether a is less than b in some lane
any_below = _operation(2, types.boolean, _any_below)
# exponent(a): the largest whole number with 2**exponent <= |a|; 0 for 0 and numbers below 2**-1022
exponent = _operation(1, _VECTOR, _exponent)
# power_of_two(a): 2**a, for whole numbers -1022 <= a <= 1023; 0 for -1023
power_of_two = _operation(1, _VECTOR, _power_of_two)
# A vector may hold the bits of 64-bit integers, as loaded from an array of these and stored to one:
# add_whole(a, b): their sums; of_whole(a): the numbers that they are; to_whole(a): numbers below 2**51, rounded to them
add_whole = _operation(2, _VECTOR, _add_whole)
of_whole = _operation(1, _VECTOR, _of_whole)
to_whole = _operation(1, _VECTOR, _to_whole)
# total(a), largest(a): the sum of all lanes, and the largest of them
total = _across(lambda builder, a, b: builder.fadd(a, b))
largest = _across(_larger)
