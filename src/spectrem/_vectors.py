"""Vectors of LANES numbers as values in kernels: what a kernel does to one it does to LANES instances side by side.

Numba's loops over lanes do not become vector instructions where a kernel writes to what it reads, since arrays may
overlap as far as the compiler knows. A vector is loaded from and stored to a flat array, at a place that counts numbers
and is not checked; between, it is in registers. Vectors know ``+``, ``-``, ``*`` and ``/`` with each other. Lanes never
meet, but where a function here says so; products that are added are fused with the sum.

A *dual number* is a vector of values with a vector of slopes, the derivatives of the values along some direction;
``+``, ``-``, ``*`` and ``/`` carry them. A pair of arrays, of values and of slopes, has dual numbers where an array has
vectors: `load` and `store` tell them apart, so that Numba makes of one kernel a pass for values and one for derivatives
as well. A vector that meets a dual number, or is stored to a pair of arrays, is constant: its slopes are zero.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_cast, models, overload, register_model

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


class _Dual(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"vector of {LANES} numbers with slopes")

    def unify(self, typing: Any, other: Any) -> Any:
        """The type of a variable that is a vector in some places, and a dual number in others."""
        return self if isinstance(other, _Vector) else None


_VECTOR, _DUAL = _Vector(), _Dual()


@register_model(_Dual)
class _DualModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("value", _VECTOR), ("slope", _VECTOR)])


def _pair(context: Any, builder: Any, value: Any, slope: Any) -> Any:
    pair = ir.Constant(context.get_value_type(_DUAL), ir.Undefined)
    return builder.insert_value(builder.insert_value(pair, value, 0), slope, 1)


@lower_cast(_Vector, _Dual)
def _as_dual(context: Any, builder: Any, _: Any, __: Any, vector: Any) -> Any:
    return _pair(context, builder, vector, _constant(0.0))


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_DOUBLES, [value] * LANES)


def _integers(value: int) -> ir.Constant:
    return ir.Constant(_INTEGERS, [value] * LANES)


def _operation(n_vectors: int, result: Any, generate: Callable[..., Any]) -> Any:
    """A function of so many vectors, from ``generate(builder, *vectors)``."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return generate(builder, *arguments)

    def of_one(typing: Any, a: Any) -> Any:
        return result(_VECTOR), lower

    def of_two(typing: Any, a: Any, b: Any) -> Any:
        return result(_VECTOR, _VECTOR), lower

    def of_three(typing: Any, a: Any, b: Any, c: Any) -> Any:
        return result(_VECTOR, _VECTOR, _VECTOR), lower

    return intrinsic((of_one, of_two, of_three)[n_vectors - 1])


def _value(typing: Any, a: Any) -> Any:
    """The values of a dual number; a vector itself."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _values(builder, a, arguments[0])

    return _VECTOR(a), generate


def _slope(typing: Any, a: Any) -> Any:
    """The slopes of a dual number; zeros of a vector."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_value(arguments[0], 1) if isinstance(a, _Dual) else _constant(0.0)

    return _VECTOR(a), generate


def _dual(typing: Any, value: Any, slope: Any) -> Any:
    """The dual number of a vector of values and one of slopes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _pair(context, builder, *arguments)

    return _DUAL(_VECTOR, _VECTOR), generate


def _select(context: Any, builder: Any, kind: Any, condition: Any, one: Any, other: Any) -> Any:
    if kind is _VECTOR:
        return builder.select(condition, one, other)
    rows = ((builder.extract_value(one, row), builder.extract_value(other, row)) for row in range(2))
    return _pair(context, builder, *(builder.select(condition, *row) for row in rows))


def _values(builder: Any, kind: Any, number: Any) -> Any:
    return number if isinstance(kind, _Vector) else builder.extract_value(number, 0)


def _where_zero(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Vectors or dual numbers: b where the value of a is zero, else c."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = builder.fcmp_ordered("==", _values(builder, a, arguments[0]), _constant(0.0))
        return _select(context, builder, kind, zero, *arguments[1:])

    kind = _DUAL if _DUAL in (b, c) else _VECTOR
    return kind(a, kind, kind), generate


def _larger(typing: Any, a: Any, b: Any) -> Any:
    """Vectors or dual numbers: b where its value is larger, else a."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other = (_values(builder, kind, number) for number in arguments)
        return _select(context, builder, kind, builder.fcmp_ordered(">", other, one), arguments[1], arguments[0])

    kind = _DUAL if _DUAL in (a, b) else _VECTOR
    return kind(kind, kind), generate


value: Any = intrinsic(_value)
slope: Any = intrinsic(_slope)
dual: Any = intrinsic(_dual)
# The slope of a product is a sum of two products; in any order of sums, both may be fused with what they are added to.
_add_slopes = _operation(2, _VECTOR, lambda builder, a, b: builder.fadd(a, b, flags=("contract", "reassoc")))


def _add(a, b):  # type: ignore[no-untyped-def]
    return dual(value(a) + value(b), _add_slopes(slope(a), slope(b)))


def _subtract(a, b):  # type: ignore[no-untyped-def]
    return dual(value(a) - value(b), slope(a) - slope(b))


def _multiply(a, b):  # type: ignore[no-untyped-def]
    return dual(value(a) * value(b), slope(a) * value(b) + value(a) * slope(b))


def _divide(a, b):  # type: ignore[no-untyped-def]
    ratio = value(a) / value(b)
    return dual(ratio, (slope(a) - ratio * slope(b)) / value(b))


def _operator(symbol: Any, instruction: str, of_duals: Callable[..., Any]) -> None:
    """Let two vectors be joined by a symbol, and dual numbers by a function."""

    def generate(builder: Any, a: Any, b: Any) -> Any:
        return getattr(builder, instruction)(a, b, flags=("contract",))

    joined = _operation(2, _VECTOR, generate)

    @overload(symbol)
    def choose(a, b):  # type: ignore[no-untyped-def]
        if isinstance(a, _Vector) and isinstance(b, _Vector):
            return lambda a, b: joined(a, b)
        if isinstance(a, _Vector | _Dual) and isinstance(b, _Vector | _Dual):
            return of_duals
        return None


_operator(operator.add, "fadd", _add)
_operator(operator.sub, "fsub", _subtract)
_operator(operator.mul, "fmul", _multiply)
_operator(operator.truediv, "fdiv", _divide)


def _entries(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """Pointers to the vector, or to those of values and of slopes, at a place of an array, or of a pair of arrays."""
    kind, arrays = signature.args[0], [arguments[0]]
    if isinstance(kind, types.UniTuple):
        kind, arrays = kind.dtype, [builder.extract_value(arguments[0], row) for row in range(2)]
    numbers = (context.make_array(kind)(context, builder, array).data for array in arrays)
    return [builder.bitcast(builder.gep(data, [arguments[1]]), _DOUBLES.as_pointer()) for data in numbers]


def _in(space: Any) -> Any:
    return _DUAL if isinstance(space, types.UniTuple) else _VECTOR


def _load(typing: Any, space: Any, place: Any) -> Any:
    """The vector ``space[place : place + LANES]``, or the dual number of these of a pair of arrays."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors = [builder.load(entry) for entry in _entries(context, builder, signature, arguments)]
        for vector in vectors:
            vector.align = 8
        return vectors[0] if len(vectors) == 1 else _pair(context, builder, *vectors)

    return _in(space)(space, types.int64), generate


def _store(typing: Any, space: Any, place: Any, number: Any) -> Any:
    """Put a vector or a dual number where `load` finds it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entries = _entries(context, builder, signature, arguments)
        for row, entry in enumerate(entries):
            vector = arguments[2] if len(entries) == 1 else builder.extract_value(arguments[2], row)
            builder.store(vector, entry).align = 8
        return context.get_dummy_value()

    return types.void(space, types.int64, _in(space)), generate


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
        loaded = builder.load(*_entries(context, builder, signature, arguments))
        loaded.align = 8
        lanes = ir.Constant(_INTEGERS, list(range(LANES)))
        some = builder.icmp_signed("<", lanes, _everywhere(builder, arguments[2], _INTEGERS))
        return builder.select(some, loaded, _everywhere(builder, arguments[3]))

    return _VECTOR(array, types.int64, types.int64, types.float64), generate


def _everywhere(builder: Any, number: Any, kind: Any = _DOUBLES) -> Any:
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.IntType(32)(0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, first, lanes)


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
larger: Any = intrinsic(_larger)
# least_positive(a, b): b where it is positive and less than a, else a
least_positive = _operation(2, _VECTOR, _least_positive)
where_zero: Any = intrinsic(_where_zero)
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
largest = _across(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", b, a), b, a))
