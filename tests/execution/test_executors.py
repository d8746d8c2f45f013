"""Order, exceptions and back pressure of the executors."""

import threading
import time

import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.execution import Serial, Threads

EXECUTORS = [Serial(), Threads(1), Threads(2), Threads(3), Threads(7)]


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_results_come_in_the_order_of_the_shards(executor):
    def task(shard):
        time.sleep(0.002 * (5 - shard % 5))
        return shard * 10

    assert list(executor.map(task, range(20))) == [10 * k for k in range(20)]


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_no_shards_no_results(executor):
    assert list(executor.map(lambda shard: shard, [])) == []


def test_threads_run_at_the_same_time():
    barrier = threading.Barrier(3, timeout=10)
    assert list(Threads(3).map(lambda shard: barrier.wait() * 0 + shard, [1, 2, 3])) == [1, 2, 3]


@pytest.mark.parametrize("executor", EXECUTORS, ids=repr)
def test_an_error_surfaces_at_its_place_and_stops_the_rest(executor):
    started = []

    def task(shard):
        started.append(shard)
        time.sleep(0.005)
        if shard == 3:
            raise KeyError("shard three")
        return shard

    results = executor.map(task, range(200))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="shard three"):
        next(results)
    assert len(started) < 30
    seen = len(started)
    time.sleep(0.03)
    assert len(started) == seen


def test_what_waits_is_cancelled_after_an_error():
    started = []

    def task(shard):
        started.append(shard)
        time.sleep(0.1)
        if shard == 0:
            raise KeyError(shard)

    with pytest.raises(KeyError):
        list(Threads(1).map(task, range(3)))
    assert started == [0, 1]


def test_only_a_few_results_wait():
    done = []
    results = Threads(2).map(lambda shard: done.append(shard) or shard, range(100))
    assert next(results) == 0
    time.sleep(0.05)
    assert len(done) <= 5
    results.close()
    assert len(done) <= 6


def test_n_threads_is_checked():
    with pytest.raises(InvalidInputError) as error:
        Threads(0)
    assert str(error.value) == "n_threads must be at least 1, got 0; use 1 for a serial run"
