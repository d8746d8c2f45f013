"""Order, exceptions and back pressure of the executors; tasks wait for each other, never for a clock."""

import threading
from concurrent.futures import Future

import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.execution import Serial, Threads

EXECUTORS = [Serial(), Threads(1), Threads(2), Threads(3), Threads(7)]


def width_of(executor):
    """How many tasks run at the same time."""
    return executor.n_threads if isinstance(executor, Threads) else 1


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_results_come_in_the_order_of_the_shards(executor):
    """Of every group that runs at the same time the last task ends first, as each waits for the one after it."""
    width = width_of(executor)
    ended, order = [threading.Event() for _ in range(3 * width)], []

    def task(shard):
        if shard % width < width - 1:
            ended[shard + 1].wait()
        order.append(shard)
        ended[shard].set()
        return shard * 10

    assert list(executor.map(task, range(3 * width))) == [10 * k for k in range(3 * width)]
    assert order[:width] == list(range(width))[::-1]


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_no_shards_no_results(executor):
    assert list(executor.map(lambda shard: shard, [])) == []


def test_threads_run_at_the_same_time():
    barrier = threading.Barrier(3)
    assert list(Threads(3).map(lambda shard: barrier.wait() * 0 + shard, [1, 2, 3])) == [1, 2, 3]


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_an_error_surfaces_at_its_place_and_stops_the_rest(executor):
    started, before = [], set(threading.enumerate())

    def task(shard):
        started.append(shard)
        if shard == 3:
            raise KeyError("shard three")
        return shard

    results = executor.map(task, range(200))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="shard three"):
        next(results)
    assert set(range(4)) <= set(started)
    assert max(started) <= 3 + width_of(executor) + 1
    assert set(threading.enumerate()) <= before  # nothing is left that could start another


def test_what_waits_is_cancelled_after_an_error(monkeypatch):
    started, asked, both_asked = [], [], threading.Event()
    cancel = Future.cancel

    def recorded(future):
        asked.append(cancel(future))
        if len(asked) == 2:
            both_asked.set()
        return asked[-1]

    def task(shard):
        started.append(shard)
        if shard == 0:
            raise KeyError(shard)
        both_asked.wait()  # the thread may take another one before it is cancelled, but then no third

    monkeypatch.setattr(Future, "cancel", recorded)
    with pytest.raises(KeyError):
        list(Threads(1).map(task, range(3)))
    assert started[0] == 0
    assert len(started) <= 2
    assert asked.count(True) == 3 - len(started)


def test_only_a_few_results_wait():
    taken, done = [], []

    def shards():
        for shard in range(100):
            taken.append(shard)
            yield shard

    results = Threads(2).map(lambda shard: done.append(shard) or shard, shards())
    assert next(results) == 0
    assert taken == [0, 1, 2, 3]
    assert next(results) == 1
    assert taken == [0, 1, 2, 3, 4]
    results.close()
    assert taken == [0, 1, 2, 3, 4]
    assert set(done) <= set(taken)


def test_n_threads_is_checked():
    with pytest.raises(InvalidInputError) as error:
        Threads(0)
    assert str(error.value) == "n_threads must be at least 1, got 0; use 1 for a serial run"
