"""Order, exceptions, back pressure and linear algebra of shards in memory; tasks wait for each other, not a clock."""

import operator
import os
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest
from threadpoolctl import ThreadpoolController

from spectrem.corpus import Local
from spectrem.corpus.local import stream
from spectrem.exceptions import InvalidInputError, setting, spelled

WIDTHS = [1, 2, 3, 7]


@pytest.mark.parametrize("width", WIDTHS)
def test_results_come_in_the_order_of_the_shards(width):
    """Of every group that runs at the same time the last task ends first, as each waits for the one after it."""
    ended, order = [threading.Event() for _ in range(3 * width)], []

    def f(shard, factor):
        if shard % width < width - 1:
            ended[shard + 1].wait()
        order.append(shard)
        ended[shard].set()
        return shard * factor

    assert list(Local(range(3 * width), width).collect(f, 10)) == [10 * k for k in range(3 * width)]
    assert order[:width] == list(range(width))[::-1]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_corpus_without_shards(width):
    corpus = Local([], width)
    assert len(corpus) == len(corpus.derive(str)) == 0
    assert list(corpus.collect(str)) == []
    for call in (lambda: corpus.sum(len), lambda: corpus.advance(divmod, 2)):
        with pytest.raises(InvalidInputError, match="a corpus without shards has no sum"):
            call()


def test_threads_run_at_the_same_time():
    barrier = threading.Barrier(3)
    assert list(Local([1, 2, 3], 3).collect(lambda shard: barrier.wait() * 0 + shard)) == [1, 2, 3]


def test_none_is_one_thread_per_processor(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    barrier = threading.Barrier(3)
    assert list(Local([1, 2, 3], None).collect(lambda shard: barrier.wait() * 0 + shard)) == [1, 2, 3]


@pytest.mark.parametrize("width", WIDTHS)
def test_an_error_surfaces_at_its_place_and_stops_the_rest(width):
    started = []

    def f(shard):
        started.append(shard)
        if shard == 3:
            raise KeyError("shard three")
        return shard

    results = Local(range(200), width).collect(f)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="shard three"):
        next(results)
    assert set(range(4)) <= set(started)
    assert max(started) <= 3 + width + 1
    n_started = len(started)
    assert list(Local(range(200), width).collect(operator.neg)) == [-k for k in range(200)]
    assert len(started) == n_started  # nothing was left that could start another


def test_threads_are_kept_for_the_next_sum_and_work_inside_work_has_its_own():
    def inside(shard):
        return Local([shard] * 4, 2).sum(operator.pos)

    def one(shard):
        threads.add(threading.get_ident())
        return 1

    threads = set()
    for _ in range(5):
        assert Local(range(8), 2).sum(one) == 8
    assert len(threads) <= 2
    assert Local(range(8), 2).sum(inside) == 4 * 28


def test_what_waits_is_cancelled_after_an_error(monkeypatch):
    started, asked, three_asked = [], [], threading.Event()
    cancel = Future.cancel

    def recorded(future):
        asked.append(cancel(future))
        if len(asked) == 3:
            three_asked.set()
        return asked[-1]

    def f(shard):
        started.append(shard)
        if shard == 0:
            raise KeyError(shard)
        three_asked.wait()  # a thread may take another one before it is cancelled, but then no third

    monkeypatch.setattr(Future, "cancel", recorded)
    with pytest.raises(KeyError):
        list(Local(range(4), 2).collect(f))
    assert len(started) <= 3
    assert asked.count(True) == 4 - len(started)


def test_only_a_few_results_wait():
    taken = []

    class Shards:
        def __len__(self):
            return 100

        def __getitem__(self, k):
            taken.append(k)
            return k

    results = Local(Shards(), 2).collect(operator.neg)
    assert next(results) == 0
    assert next(results) == -1
    results.close()
    assert sorted(taken) in ([0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4])


def test_every_shard_has_its_own_argument():
    derived = Local([1, 2, 3], 2).derive(lambda shard, own, all_: (shard, own, all_), "x", each="abc")
    assert list(derived.collect(tuple)) == [(1, "a", "x"), (2, "b", "x"), (3, "c", "x")]
    assert derived.n_threads == 2
    with pytest.raises(InvalidInputError) as error:
        derived.derive(print, each="ab")
    expected = "each must have one value per shard, 3, got 2; give one for every shard, in their order"
    assert str(error.value) == expected


def test_n_threads_is_checked():
    with pytest.raises(InvalidInputError) as error:
        Local([], 0)
    assert str(error.value) == "n_threads must be at least 1, got 0; use 1 for a serial run"


def test_a_corpus_is_shown_without_its_shards():
    assert repr(Local([1, 2], 3)) == "Local(n_threads=3)"


def blas_threads(_=None):
    return [library.num_threads for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


@pytest.mark.parametrize("width", WIDTHS)
def test_linear_algebra_runs_on_one_thread_while_shards_do(width):
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        assert set(before) == {2}
        for count in Local(range(9), width).collect(blas_threads):
            assert set(count) == {1}
        assert blas_threads() == before
        with pytest.raises(ZeroDivisionError):
            Local(range(9), width).sum(lambda shard: 1 // (shard - 4))
        assert blas_threads() == before
        assert list(Local([0], width).collect(blas_threads)) == [before]  # one shard may use them all


def test_two_corpora_at_once_leave_the_number_of_threads_as_it_was():
    """The first to enter is the first to leave, while the second is at work."""
    inside, left = threading.Event(), threading.Event()

    def first(shard):
        inside.wait()

    def second(shard):
        inside.set()
        left.wait()
        return blas_threads()

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = blas_threads()
        counts = []
        other = threading.Thread(target=lambda: counts.extend(Local(range(2)).collect(second)))
        start = threading.Thread(target=lambda: list(Local(range(2)).collect(first)))
        start.start()
        other.start()
        start.join()
        left.set()
        other.join()
        assert [set(count) for count in counts] == [{1}, {1}]
        assert blas_threads() == before


def test_the_package_is_quick_to_import():
    code = "import sys, spectrem.corpus; print(sorted({name.split('.')[0] for name in sys.modules}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("sklearn", "scipy", "numba", "distributed", "dask"):
        assert f"'{heavy}'" not in out


def test_errors_of_threads_name_options_as_the_caller_does():
    with spelled({"infeasible": "--infeasible"}):
        found = list(stream(lambda name: setting(name, "skip"), ["infeasible"] * 3, n_threads=2))
    assert found == ["--infeasible skip"] * 3
