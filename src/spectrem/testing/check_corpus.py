"""Check that a corpus does what the protocol `spectrem.corpus.Corpus` promises."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from spectrem._arrays import Floats, Ints
from spectrem.corpus import Corpus
from spectrem.exceptions import InvalidInputError
from spectrem.testing.check import are_same, require

_COUNTS = (1, 7, 21)
_STEPS = 20


def check_corpus(make: Callable[[Sequence[Any]], Corpus]) -> None:
    """Check that a corpus does what `spectrem.corpus.Corpus` promises.

    Results come in the order of the shards and arrays as they were: dtype, layout, and whether they may be changed.
    Sums are made in the tree of `spectrem.corpus.fold`, to the bit. Arguments reach ``f`` as they are, whatever their
    type, and ``each`` the shard that it is for, in ``derive`` and in ``collect``. A part holds some of the shards, in
    any order. Old corpora stay as they were when new ones are derived, and a long
    chain of steps comes to the same as in a loop. What ``f`` raises arrives with its type, arguments and attributes,
    of several that of the first shard. A corpus without shards is allowed, and its sum is refused. Linear algebra runs
    on one thread while several shards are worked on.

    Parameters
    ----------
    make : callable
        From a sequence of shards to the corpus that holds them. It is called with up to 21 small shards.

    Raises
    ------
    AssertionError
        Naming the promise that is broken.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> check_corpus(lambda shards: Local(shards, n_threads=2))
    """
    for n_shards in _COUNTS:
        shards = [_shard(k) for k in range(n_shards)]
        corpus = make(shards)
        _require(len(corpus) == n_shards, "its length must be the number of shards")
        _check_order(corpus, shards)
        _check_sums(corpus, shards)
        _check_derived(corpus, shards)
        _check_steps(corpus, shards, _STEPS if n_shards == 7 else 1)
        _check_parts(corpus, shards)
        kept = list(corpus.collect(_copied))
        _require(are_same(kept, shards), "no method may change the corpus that it is called on")
    _check_arguments(make([_shard(k) for k in range(3)]))
    _check_threads(make([_shard(k) for k in range(3)]))
    _check_errors(make(range(7)))
    _check_empty(make([]))


def _check_order(corpus: Corpus, shards: list[Any]) -> None:
    results = corpus.collect(_named)
    _require(iter(results) is results, "collect must return an iterator")
    _require(list(results) == [_named(shard) for shard in shards], "collect must follow the order of the shards")
    layouts = list(corpus.derive(_same).collect(_layouts))
    _require(layouts == [_layouts(shard) for shard in shards], "arrays must keep dtype, layout and writability")


def _check_sums(corpus: Corpus, shards: list[Any]) -> None:
    text, expected = corpus.sum(_term).text, _tree([_term(shard) for shard in shards]).text
    _require(text == expected, f"sum must add neighbours first, {expected}, not {text}")
    for _ in range(2):
        total = corpus.sum(_scaled, 1.1)
        same = np.array_equal(total, _tree([_scaled(shard, 1.1) for shard in shards]))
        _require(same, "sum must have the bits of a sum in that order, whenever it is called")


def _check_derived(corpus: Corpus, shards: list[Any]) -> None:
    names = [f"own {k}" for k in range(len(shards))]
    derived = corpus.derive(_joined, 5, each=names)
    _require(len(derived) == len(shards), "derive must keep the number of shards")
    expected = [_joined(shard, name, 5) for shard, name in zip(shards, names, strict=True)]
    _require(list(derived.collect(_same)) == expected, "each must give every shard its own value, before the others")
    _refuse(partial(corpus.derive, _joined, 5, each=[*names, ""]), "each of the wrong length")
    collected = list(corpus.collect(_joined, 5, each=names))
    _require(collected == expected, "each must give every shard its own value in collect, before the others")
    _refuse(lambda: list(corpus.collect(_joined, 5, each=[*names, ""])), "each of the wrong length in collect")


def _check_steps(corpus: Corpus, shards: list[Any], n_steps: int) -> None:
    now, expected = corpus, shards
    for step in range(n_steps):
        total, now = now.advance(_stepped, float(step))
        pairs = [_stepped(shard, float(step)) for shard in expected]
        expected = [shard for _, shard in pairs]
        same = np.array_equal(total, _tree([value for value, _ in pairs]))
        _require(same, f"advance must sum the values of the shards as they are after {step} steps")
    _require(are_same(list(now.collect(_same)), expected), f"advance must keep the shards of {n_steps} steps")


def _check_parts(corpus: Corpus, shards: list[Any]) -> None:
    n_shards = len(shards)
    for numbers in ([n_shards - 1], list(range(n_shards))[::-2], list(range(n_shards))):
        part, chosen = corpus.part(numbers), [shards[k] for k in numbers]
        _require(len(part) == len(chosen), "a part must have as many shards as numbers were given")
        _require(list(part.collect(_named)) == list(map(_named, chosen)), "a part must hold its shards in their order")
        text, expected = part.sum(_term).text, _tree(list(map(_term, chosen))).text
        _require(text == expected, f"the sum of a part must be that of its shards, {expected}, not {text}")
        _check_derived(part, chosen)
        _check_steps(part, chosen, 2)
    _require(len(corpus.part([])) == 0, "a part of no shards must have length 0")
    _refuse(partial(corpus.part, [n_shards]), "a number without a shard")
    _refuse(partial(corpus.part, [0, 0]), "a number given twice")


def _check_arguments(corpus: Corpus) -> None:
    for argument in (None, "key", ("a", 1), (_named, "key"), [[1], {"b": (2, 3)}], operator.neg, _Scaled(2.0)):
        for arrived in corpus.collect(_second, argument):
            _require(
                arrived == argument, f"broadcast arguments must arrive as they are, not {argument!r} as {arrived!r}"
            )
    values = list(corpus.collect(_Scaled(2.0), np.arange(4)))
    _require(
        all(value.tolist() == [2.0 * k * j for j in range(4)] for k, value in enumerate(values)),
        "a callable value must do as a function",
    )


def _check_threads(corpus: Corpus) -> None:
    counts = [*corpus.collect(_n_threads), *corpus.derive(_n_threads).collect(_same)]
    _require(
        max(counts) == 1, f"linear algebra must run on one thread while shards are worked on, not on {max(counts)}"
    )


def _check_errors(corpus: Corpus) -> None:
    calls: list[Callable[[], Any]] = [
        partial(corpus.derive, _failing, 3),
        partial(corpus.sum, _failing, 3),
        partial(corpus.advance, _failing_step, 3),
        lambda: list(corpus.collect(_failing, 3)),
    ]
    for call in calls:
        try:
            call()
        except InvalidInputError as error:
            raised = (str(error), dict(error.keys))
            expected = ("shard 3 fails", {"shard": 3})
            _require(raised == expected, f"an exception must arrive as it was, the first shard's, not {raised}")
        else:
            _require(False, "what f raises must be raised")
    _require(corpus.sum(_same) == sum(range(7)), "a corpus must be of use after an exception")


def _check_empty(corpus: Corpus) -> None:
    _require(len(corpus) == 0 and len(corpus.derive(_same)) == 0, "a corpus without shards must have length 0")
    _require(list(corpus.collect(_same)) == [], "a corpus without shards must yield nothing")
    _refuse(partial(corpus.sum, _term), "the sum of no shards")
    _refuse(partial(corpus.advance, _stepped, 0.0), "a step of no shards")


def _refuse(call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except InvalidInputError:
        return
    _require(False, f"{what} must raise InvalidInputError")


def _require(condition: bool, promise: str) -> None:
    require("the corpus breaks a promise", promise, condition)


def _tree(values: list[Any]) -> Any:
    while len(values) > 1:
        pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
        values = [pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


@dataclass(frozen=True)
class _Term:
    """A value that remembers how it was added."""

    text: str

    def __add__(self, other: _Term) -> _Term:
        return _Term(f"({self.text} + {other.text})")


@dataclass(frozen=True)
class _Scaled:
    """A function that is a value."""

    scale: float

    def __call__(self, shard: Any, argument: Ints) -> Any:
        return self.scale * shard["number"] * argument


def _shard(k: int) -> dict[str, Any]:
    fixed = np.arange(k + 1)
    fixed.flags.writeable = False
    values = np.random.default_rng(k).normal(size=30) * 10.0 ** (k % 5)
    return {
        "number": k,
        "values": values,
        "fixed": fixed,
        "empty": np.zeros((0, 2), np.float32),
        "columns": np.asfortranarray(np.full((2, 3), k, np.int32)),
    }


def _same(shard: Any) -> Any:
    return shard


def _copied(shard: Any) -> Any:
    return {key: np.array(value) for key, value in shard.items()}


def _second(shard: Any, argument: Any) -> Any:
    return argument


def _named(shard: Any) -> str:
    return f"shard {shard['number']}"


def _term(shard: Any) -> _Term:
    return _Term(str(shard["number"]))


def _n_threads(shard: Any) -> int:
    """Threads that linear algebra would take here."""
    return max((library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"), default=1)


def _scaled(shard: Any, scale: float) -> Floats:
    return shard["values"] * scale


def _joined(shard: Any, name: str, number: int) -> tuple[str, int]:
    return f"{_named(shard)}, {name}", number


def _stepped(shard: Any, step: float) -> tuple[Floats, Any]:
    return shard["values"] * step, {**shard, "values": np.sqrt(np.abs(shard["values"]) + step)}


def _failing(shard: int, at: int) -> int:
    if shard >= at:
        error = InvalidInputError(f"shard {shard} fails")
        error.keys = {"shard": shard}
        raise error
    return shard


def _failing_step(shard: int, at: int) -> tuple[int, int]:
    return _failing(shard, at), shard


def _layouts(shard: Any) -> list[Any]:
    arrays = [value for value in shard.values() if isinstance(value, np.ndarray)]
    names = ("writeable", "aligned", "c_contiguous", "f_contiguous")
    return [(array.dtype.str, array.shape, *(getattr(array.flags, name) for name in names)) for array in arrays]
