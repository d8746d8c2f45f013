"""What travels on a cluster, what its scheduler keeps, and what happens when a worker dies."""

import itertools
import pickle
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from mortal import Dying, Parting

from spectrem.corpus import Local, OnDask, connect
from spectrem.corpus.on_dask import Box
from spectrem.exceptions import InvalidInputError

pytest.importorskip("distributed", reason="needs the extra `dask`")

from distributed import Client, wait
from distributed.comm.tcp import TCP


@pytest.fixture
def sent(monkeypatch):
    """Bytes of the messages of this process, in which driver and scheduler run: all that passes between machines."""
    sizes = []
    write = TCP.write

    async def counted(comm, *message, **settings):
        sizes.append(await write(comm, *message, **settings))
        return sizes[-1]

    monkeypatch.setattr(TCP, "write", counted)
    return sizes


class Counted:
    """An argument that counts how often this process pickles it."""

    def __init__(self, array):
        self.array, self.n_pickled = array, 0

    def __getstate__(self):
        self.n_pickled += 1
        return {"array": self.array, "n_pickled": 0}


def shard_sum(shard, counted):
    return shard.sum(keepdims=True) * counted.array[0]


def shard_scaled(shard, own, counted):
    return shard * counted.array[0] + own


def shard_step(shard, counted):
    return shard_sum(shard, counted), shard + counted.array[0]


@pytest.mark.parametrize("verb", ["derive", "sum", "collect", "advance"])
def test_broadcast_arguments_travel_once_per_call(client, sent, verb):
    """To the scheduler and to one worker: twice, however many shards there are."""
    shards = [np.arange(10.0) + k for k in range(40)]
    argument = Counted(np.ones(250_000))  # 2 MB
    corpus = OnDask(shards, client)
    calls = {
        "derive": lambda: corpus.derive(shard_scaled, argument, each=range(40)),
        "sum": lambda: corpus.sum(shard_sum, argument),
        "collect": lambda: list(corpus.collect(shard_sum, argument)),
        "advance": lambda: corpus.advance(shard_step, argument),
    }
    corpus.sum(len)
    sent.clear()
    calls[verb]()
    assert argument.n_pickled == 1
    assert 4_000_000 <= sum(sent) < 4_500_000


class Own(Sequence):
    """Arrays that are made when they are asked for; keeps the numbers of those that were."""

    def __init__(self, n_shards, size):
        self.n_shards, self.size, self.asked = n_shards, size, []

    def __len__(self):
        return self.n_shards

    def __getitem__(self, k):
        if k >= self.n_shards:
            raise IndexError(k)
        self.asked.append(k)
        return np.full(self.size, float(k))


def first_product(shard, own):
    return float(shard[0] * own[0] + len(own))


def test_values_of_shards_are_made_and_sent_a_few_at_a_time(cluster, client, sent):
    """Four per thread, each once to the scheduler and once to a worker; then nobody keeps them."""
    corpus, own = OnDask([np.arange(10.0) + k for k in range(40)], client), Own(40, 12_500)  # 100 kB each
    corpus.sum(len)
    n_tasks = len(cluster.scheduler.tasks)
    sent.clear()
    ahead, tasks = [], []
    for k, found in enumerate(corpus.collect(first_product, each=own)):
        assert found == k * k + 12_500
        ahead.append(len(own.asked) - k)
        tasks.append(len(cluster.scheduler.tasks))
    assert own.asked == list(range(40))
    assert max(ahead) == 8
    assert max(tasks) <= n_tasks + 12 + 1  # what is under way, what is given up next, and the call
    assert 8_000_000 <= sum(sent) < 8_500_000


def test_a_value_aside_lies_in_the_folder(client, tmp_path):
    value = {"table": np.arange(10.0)}
    assert OnDask([1], client).aside(value) is value
    corpus = OnDask([1], client, tmp_path)
    found = corpus.aside(value)["table"]
    assert np.array_equal(found, value["table"])
    assert not found.flags.owndata
    del corpus
    assert np.array_equal(found, value["table"])
    assert not list(tmp_path.iterdir())


def test_of_shards_in_files_only_names_travel(client, sent, tmp_path):
    shards = [np.full(250_000, float(k)) for k in range(6)]  # 2 MB each
    corpus = OnDask(iter(shards), client, tmp_path)
    assert corpus.sum(shard_sum, Counted(np.ones(1))).tolist() == [250_000.0 * 15]
    part = corpus.part([4, 1])
    derived = part.derive(shard_scaled, Counted(np.ones(1)), each=[1, 2])
    assert [float(shard[0]) for shard in derived.collect(head)] == [5.0, 3.0]
    del derived
    assert sum(sent) < 200_000
    del corpus
    assert [float(shard[0]) for shard in part.collect(head)] == [4.0, 1.0]
    del part
    assert not list(tmp_path.iterdir())


def test_arrays_may_be_changed_once_they_are_shards(client):
    shards = [np.full(1_000_000, float(k)) for k in range(4)]
    corpus = OnDask(shards, client)
    for shard in shards:
        shard[:] = np.nan
    assert corpus.sum(np.sum) == 6_000_000


def head(shard):
    return shard[:1].copy()


def test_a_folder_that_is_missing_is_named(client, tmp_path):
    with pytest.raises(InvalidInputError, match="none: shards cannot be kept there: No such file or directory; make"):
        OnDask([1], client, tmp_path / "none")


def test_dask_is_told_the_size_of_shards_and_that_calls_move_to_them():
    """Else Dask takes what it does not know for small, and moves shards to where the parameters are."""
    from dask.sizeof import sizeof

    shards = [{"a": np.zeros(1000)}, {"b": np.zeros(500, np.int32)}]
    assert 10_000 <= sizeof(Box(shards)) < 11_000
    assert sizeof(pickle.loads(pickle.dumps(Box(np.zeros(1000), 0)))) < 100


def test_arrays_stay_aligned_where_they_travel():
    """Dask packs arrays of any length one after the other; these are in no such pack."""
    shard = {f"{k}": np.arange(k, dtype=dtype) for k, dtype in enumerate([np.int8, np.float64] * 10)}
    buffers = []
    head = pickle.dumps(Box(shard), protocol=5, buffer_callback=buffers.append)
    assert buffers == []
    for name, array in pickle.loads(head).value.items():
        assert array.flags.aligned
        assert array.flags.writeable
        assert np.array_equal(array, shard[name])


def layout(shard, broadcast):
    """Arrays as a function finds them, and some that it returns."""
    found = [
        [(a.ctypes.data % 8, a.flags.aligned, a.flags.writeable) for a in own.values()] for own in (shard, broadcast)
    ]
    return np.array(found), {name: a + 1 for name, a in shard.items()}


def test_large_arrays_stay_aligned_through_a_cluster(client, cluster):
    """They leave the pickle, and what comes first Dask packs with it; through the scheduler and past it."""
    shard = {f"{k}": np.arange(k, dtype=np.float64) for k in (1, 8192, 3, 20_000)}
    with Client(cluster, direct_to_workers=True) as direct:
        for own in (client, direct):
            found, arrays = next(OnDask([shard, shard], own).collect(layout, shard))
            assert np.array_equal(found, np.broadcast_to([0, 1, 1], (2, 4, 3)))
            for name, array in arrays.items():
                assert array.flags.aligned
                assert array.flags.writeable
                assert np.array_equal(array, shard[name] + 1)


def test_large_arrays_are_not_copied_into_the_pickle():
    box, buffers = Box({"small": np.zeros(10), "large": np.arange(10_000.0)}), []
    head = pickle.dumps(box, protocol=5, buffer_callback=buffers.append)
    assert len(head) < 2000
    assert np.shares_memory(np.frombuffer(buffers[-1]), box.value["large"])
    for again in (pickle.loads(head, buffers=buffers), pickle.loads(pickle.dumps(box, protocol=4))):
        assert np.array_equal(again.value["large"], box.value["large"])


def test_neighbours_lie_together(client):
    """So that their sums are added where they are made."""
    for n in (4, 8, 21):
        corpus = OnDask(range(n), client)
        holders = [client.who_has(future)[future.key] for future in _waited(corpus._futures)]
        assert sum(a != b for a, b in itertools.pairwise(holders)) == 1


def test_one_block_per_thread_where_all_are_alike(client):
    sizes = {n: len(OnDask(range(n), client)._futures) for n in (1, 2, 4, 5, 8, 16, 21, 100)}
    assert sizes == {1: 1, 2: 2, 4: 2, 5: 5, 8: 2, 16: 2, 21: 6, 100: 7}


def _waited(futures):
    wait(futures)
    return futures


def posed(shard, scale):
    return shard[0], np.sin(shard) * scale, np.zeros(3)


def expected_counts(shard, params):
    return np.exp(shard[1] * params)


def kept(shard, params):
    number, values, prices = shard
    prices = prices + np.cos(values * params).mean()
    return values * prices.sum(), (number, values, prices)


def kept_and_own(shard, own):
    return shard[2] + own


def fit(corpus, wrap=lambda f, name: f):
    """A fit in small; ``wrap`` says which functions end a process."""
    derived = corpus.derive(wrap(posed, "derive"), 0.7).derive(wrap(tuple, "derive again"))
    numbers, params = [], np.ones(200)
    for step in range(18):
        params = params + 1e-3 * value_of(derived.sum(wrap(expected_counts, f"sum {step}"), params))
        total, derived = derived.advance(wrap(kept, f"advance {step}"), params)
        numbers.append(value_of(total))
    numbers += map(value_of, derived.collect(wrap(kept_and_own, "collect each"), each=Own(len(corpus), 3)))
    numbers += (prices for _, _, prices in derived.collect(wrap(tuple, "collect")))
    return np.concatenate([params, *numbers])


def value_of(total):
    return total.value if isinstance(total, Parting) else total


def shards_of_a_fit():
    return [np.concatenate([[k], np.random.default_rng(k).normal(size=199)]) for k in range(12)]


# When a worker dies in which call, and at which shard: a call is sent on by it (at first, as others have shards, too),
# comes to it, or is at work; a result is sent by it. After step 15 workers look at what the steps have changed.
DEATHS = {
    "derive": ("leaves", None),
    "derive again": ("works", 3.0),
    "sum 0": ("arrives", None),
    "sum 2": ("works", 7.0),
    "sum 3": ("returns", None),
    "advance 4": ("arrives", None),
    "advance 5": ("works", 11.0),
    "advance 6": ("returns", None),
    "advance 15": ("stays", None),
    "advance 17": ("works", 0.0),
    "collect each": ("returns", None),
    "collect": ("works", 5.0),
}


def test_a_killed_worker_changes_no_bit(client, restock, tmp_path):
    """Wherever workers die, and whatever dies with them: calls, shards, sums, or results on their way home."""
    shards = shards_of_a_fit()

    def wrap(f, name):
        if name not in DEATHS:
            return f
        restock()
        moment, at = DEATHS[name]
        return Dying(f, tmp_path / name, moment, at)

    found = fit(OnDask(shards, client), wrap)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(DEATHS)
    assert np.array_equal(found, fit(Local(shards)))


def test_a_worker_that_is_gone_before_it_is_sent_anything_is_not_waited_for(client, monkeypatch):
    """The scheduler may count a worker that died a moment ago."""
    monkeypatch.setattr(client, "nthreads", lambda: {"tcp://127.0.0.1:9": 1, "tcp://127.0.0.1:10": 1})
    assert OnDask(range(8), client).sum(abs) == 28


def test_the_scheduler_forgets_old_steps(cluster, client):
    """Calls of former steps and what they kept are forgotten, so that a long fit needs no more than a short one."""
    shards = shards_of_a_fit()
    corpus, tasks = OnDask(shards, client).derive(posed, 0.7), []
    for _ in range(50):
        _, corpus = corpus.advance(kept, np.ones(200))
        tasks.append(len(cluster.scheduler.tasks))
    assert max(tasks) < 1.5 * max(tasks[:16])


def fails_at(shard, at):
    if shard in at:
        raise ZeroDivisionError("shard", shard)
    return shard


def test_the_first_of_several_exceptions_arrives(client):
    corpus = OnDask(range(30), client)
    for call in (corpus.derive, corpus.sum, corpus.advance, lambda *given: list(corpus.collect(*given))):
        with pytest.raises(ZeroDivisionError) as error:
            call(fails_at, {29, 4, 5, 17})
        assert error.value.args == ("shard", 4)


def test_results_before_the_one_that_fails_are_yielded(client):
    results = OnDask(range(30), client).collect(fails_at, {2})
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_functions_of_a_script_are_sent(client):
    assert OnDask([1, 2, 3], client).sum(lambda shard, k: shard * k, 2) == 12


def test_a_scheduler_that_does_not_answer_is_told():
    with pytest.raises(InvalidInputError, match="no scheme://1: no Dask scheduler answers there"):
        connect("no scheme://1")


def test_connect_finds_a_cluster(cluster, client):
    with connect(cluster.scheduler_address) as other:
        assert OnDask([1, 2, 3], other).sum(abs) == 6


def test_a_missing_extra_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidInputError) as error:
        connect("tcp://127.0.0.1:8786")
    assert str(error.value) == (
        "a corpus on a cluster needs Dask, which is not installed; install the extra `dask`: "
        "pip install 'spectrem[dask]'"
    )
