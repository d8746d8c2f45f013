"""The protocol of a corpus, wherever its shards live, and the tree in which results are added."""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

from threadpoolctl import OpenBLASController, ThreadpoolController

from spectrem.exceptions import InvalidInputError


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """The loaded libraries of linear algebra; the search takes milliseconds and is repeated after further imports."""
    return ThreadpoolController()


def limit_this_thread() -> Any:
    """Let linear algebra run on one thread, and return an object that restores the former number of threads.

    Some libraries keep one number for the process, others one for every thread.
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


class _OneThread:
    """A context in which linear algebra runs on one thread; the last thread that leaves it restores the former number.

    The last bits of products and sums depend on a library's number of threads, and its threads would compete with those
    that work on shards. Entering takes some microseconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                _let_this_thread_set()
                self._limiter = limit_this_thread()
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                _let_this_thread_set()
                self._limiter.restore_original_limits()


def _let_this_thread_set() -> None:
    """Let this thread set OpenBLAS, which newer releases of threadpoolctl reserve for the first thread that did so."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


ONE_BLAS_THREAD = _OneThread()


class Corpus(Protocol):
    """Shards, and five methods that bring work to where the shards live.

    Every method takes a function ``f`` of a shard and of arguments that are the same for all shards (``broadcast``:
    a model, parameters, a temperature). They travel once per call, however many shards there are.

    * ``f`` is pure: what it returns depends on its arguments alone, and it changes none of them. It may be called in
      any order, at the same time on several shards, and again for the same shard (when a machine was lost). It is a
      module-level function or a frozen value with ``__call__``, so that it can be pickled.
    * What ``f`` returns belongs to the corpus. A new shard may share arrays with the old one. A value that will be
      added must be fresh, as sums are made in place: ``f`` makes it in the call and keeps no reference to it. The
      values of one call have one type, and arrays one shape and dtype.
    * Results are added in the tree of `fold`, which the number of shards alone determines, or as they come where they
      say (``in_any_order``) that their sums are exact. While a corpus of several shards works, linear algebra runs on
      one thread per shard. So sums have the same bits in every home.
    * An exception that ``f`` raises reaches the caller as it is; of several, that of the first shard.
    * A shard is picklable, and its arrays are contiguous and do not hold Python objects.
    * A corpus may also have ``aside(value)``, as `Spilled` does: an equal value that takes no memory between sums; and
      ``is_remote``, true where shards live in other processes, to which all that they are to read has to travel.

    Examples
    --------
    >>> from spectrem.corpus import Local
    >>> corpus = Local([[3, 1], [2]])
    >>> corpus.sum(len), list(corpus.derive(sorted).collect(min))
    (3, [1, 2])
    """

    def __len__(self) -> int:
        """The number of shards."""
        ...

    def derive(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Corpus:
        """The corpus of ``f(shard, *broadcast)``, kept where the shards live.

        Parameters
        ----------
        f : callable
        *broadcast
            The same for every shard.
        each : sequence, optional
            One value per shard, in their order: then the new shards are ``f(shard, own, *broadcast)``.

        Returns
        -------
        Corpus
            With as many shards, in the same order.

        Raises
        ------
        InvalidInputError
            If ``each`` has not one value per shard.
        """
        ...

    def part(self, numbers: Sequence[int]) -> Corpus:
        """The corpus of some of the shards, in the order given; they stay where they live, and nothing is copied.

        Parameters
        ----------
        numbers : sequence of int
            Numbers of shards, from 0, each at most once.

        Returns
        -------
        Corpus
            With a shard for every number.

        Raises
        ------
        InvalidInputError
            If a number is not that of a shard, or stands there twice.
        """
        ...

    def sum(self, f: Callable[..., Any], *broadcast: Any) -> Any:
        """The sum of ``f(shard, *broadcast)`` over all shards.

        Parameters
        ----------
        f : callable
            What it returns can be added by ``+=``.
        *broadcast
            The same for every shard.

        Returns
        -------
        object
            Of the type of the values.

        Raises
        ------
        InvalidInputError
            If there are no shards: nothing says what the zero would be.
        """
        ...

    def collect(self, f: Callable[..., Any], *broadcast: Any, each: Sequence[Any] | None = None) -> Iterator[Any]:
        """Yield ``f(shard, *broadcast)`` in the order of the shards; only a few results wait at a time.

        Parameters
        ----------
        f : callable
        *broadcast
            The same for every shard.
        each : sequence, optional
            One value per shard, as for `derive`. It may make them as they are asked for: each is asked for once, a few
            before the result that is yielded, perhaps by several threads at a time, and not kept afterwards.

        Returns
        -------
        iterator
            One result per shard.

        Raises
        ------
        InvalidInputError
            If ``each`` has not one value per shard.
        """
        ...

    def advance(self, f: Callable[..., Any], *broadcast: Any) -> tuple[Any, Corpus]:
        """Let every shard give a value and take its next state: ``f(shard, *broadcast)`` is ``(value, shard)``.

        Use for what a step keeps for the next one, such as the multipliers of a dual.

        Parameters
        ----------
        f : callable
            Returns a value, which can be added by ``+=``, and a shard.
        *broadcast
            The same for every shard.

        Returns
        -------
        total
            The sum of the values, as `sum`.
        corpus : Corpus
            The corpus of the new shards; the old one is not changed.

        Raises
        ------
        InvalidInputError
            If there are no shards.
        """
        ...


def _wait_in_memory(total: Any, size: int) -> Callable[[], Any]:
    return lambda: total


def fold(
    values: Iterable[Any],
    add: Callable[[Any, Any], Any] = operator.iadd,
    wait: Callable[[Any, int], Callable[[], Any]] = _wait_in_memory,
) -> Any:
    """Add values in a fixed tree: neighbours first, then neighbours of those; one left over moves up unchanged.

    Only one partial sum per level of the tree is held. As subtrees of 2^k neighbours are sums of their own, a cluster
    that adds them in parallel makes the same additions. Values with an attribute ``in_any_order`` that is true, whose
    sums are exact and hence the same in any order, are added one after another: one sum is held.

    Parameters
    ----------
    values : iterable
        At least one. Of every two, the left one is changed in place where its type allows it.
    add : callable, optional
        `operator.add` for values that must not be changed.
    wait : callable, optional
        From a partial sum that has to wait for others, and the number of values in it, to what gives it back when its
        turn comes; by default it stays in memory.

    Returns
    -------
    object
        The sum, of the type of the values.

    Raises
    ------
    InvalidInputError
        If there are no values.

    Examples
    --------
    >>> fold("abcdefg", lambda a, b: f"({a}{b})")
    '(((ab)(cd))((ef)g))'
    """
    partial: list[tuple[int, Callable[[], Any]]] = []  # number of values in a sum, decreasing, and the sum
    for total in values:
        size = 1
        while partial and partial[-1][0] == size:
            total, size = add(partial.pop()[1](), total), 2 * size
            if getattr(total, "in_any_order", False):
                size = 1
        partial.append((size, wait(total, size)))
        del total  # it need not stay in memory if ``wait`` has stored it elsewhere
    if not partial:
        raise InvalidInputError("a corpus without shards has no sum; make it of at least one shard")
    total = partial.pop()[1]()
    while partial:
        total = add(partial.pop()[1](), total)
    return total


def sums_of_neighbours(values: Iterator[Any], size: int) -> Iterator[Any]:
    """Yield the sums of ``size`` values after one another, a power of two: their `fold` is that of all values."""
    while neighbours := list(islice(values, size)):
        yield fold(neighbours)


def check_numbers(numbers: Sequence[int], n_shards: int) -> list[int]:
    """Numbers of shards, each once.

    Raises
    ------
    InvalidInputError
        As `Corpus.part`.
    """
    checked = list(map(int, numbers))
    wrong = [number for number in checked if not 0 <= number < n_shards]
    if wrong:
        raise InvalidInputError(
            f"numbers must lie between 0 and {n_shards - 1}, as there are {n_shards} shards, but {wrong[0]} was given; "
            "count shards from 0"
        )
    if len(set(checked)) < len(checked):
        twice = next(number for k, number in enumerate(checked) if number in checked[:k])
        raise InvalidInputError(f"numbers must be distinct, but {twice} was given twice; leave it out once")
    return checked


def check_each(each: Sequence[Any] | None, n_shards: int) -> None:
    """Raise `InvalidInputError` unless there is one value per shard, or none at all."""
    if each is not None and len(each) != n_shards:
        raise InvalidInputError(
            f"each must have one value per shard, {n_shards}, got {len(each)}; give one for every shard, in their order"
        )
