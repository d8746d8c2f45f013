"""Shards in files: what comes back, what is written, and that nothing is left."""

import gc
import mmap
import pickle
import resource
import subprocess
import sys
import weakref
from operator import itemgetter

import numpy as np
import pytest

from spectrem.corpus import Local, Spilled
from spectrem.exceptions import InvalidInputError


def same(shard, *_):
    return shard


def doubled(shard):
    return {**shard, "b": shard["b"] * 2}


def stepped(shard, step):
    return float(shard["b"].sum()), {**shard, "b": shard["b"] + step}


def failing(shard, at):
    if shard == at:
        raise KeyError(f"shard {shard}")
    return shard


def folders(parent):
    return list(parent.glob("spectrem-*"))


def sizes(parent):
    return sorted(path.stat().st_size for folder in folders(parent) for path in folder.iterdir())


def base_of(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


@pytest.fixture
def shards():
    return [{"a": np.arange(1000.0), "b": np.full(10, float(k)), "name": f"shard {k}"} for k in range(5)]


def test_arrays_come_back_as_they_were(tmp_path):
    fixed = np.arange(4)
    fixed.flags.writeable = False
    arrays = {
        "one": np.arange(7, dtype=np.int32),
        "rows": np.ones((3, 4)),
        "columns": np.asfortranarray(np.ones((3, 4), np.float32)),
        "empty": np.zeros((0, 3)),
        "number": np.array(3.0),
        "truth": np.array([True, False]),
        "fixed": fixed,
    }
    with Spilled([arrays], tmp_path) as corpus:
        (loaded,) = corpus.collect(same)
        for name, array in arrays.items():
            found = loaded[name]
            assert np.array_equal(found, array), name
            assert found.dtype == array.dtype, name
            for flag in ("WRITEABLE", "ALIGNED", "C_CONTIGUOUS", "F_CONTIGUOUS"):
                assert found.flags[flag] == array.flags[flag], (name, flag)
            assert found.ctypes.data % 64 == 0, name
            assert isinstance(base_of(found), mmap.mmap) or not found.size, name  # not read until it is touched
        loaded["one"][0] = -1  # a copy of the page changes, and no file
        (again,) = corpus.collect(same)
        assert again["one"][0] == 0


def test_other_values_come_back(tmp_path):
    value = (["x", None], np.array(["a", 2], dtype=object), np.arange(10)[::3])
    with Spilled([value, 7], tmp_path) as corpus:
        first, second = corpus.collect(same)
    assert first[0] == value[0]
    assert first[1].tolist() == ["a", 2]
    assert first[2].tolist() == [0, 3, 6, 9]
    assert second == 7


def test_shards_are_taken_one_at_a_time(tmp_path):
    made = []

    def shards():
        for k in range(5):
            assert all(shard() is None for shard in made)
            shard = np.arange(100.0) + k
            made.append(weakref.ref(shard))
            yield shard
            del shard

    with Spilled(shards(), tmp_path) as corpus:
        assert len(corpus) == len(made) == 5
        assert corpus.sum(np.max) == 99 * 5 + 10


@pytest.mark.parametrize("n_threads", [1, 2])
def test_what_is_shared_with_the_old_shard_is_not_written_again(tmp_path, shards, n_threads):
    corpus = Spilled(shards, tmp_path, n_threads)
    large = sizes(tmp_path)
    assert min(large) > 8000
    derived = corpus.derive(doubled)
    small = sizes(tmp_path)[:5]
    assert max(small) < 1000
    del corpus  # its arrays are still wanted
    total, derived = derived.advance(stepped, 1.0)
    assert sizes(tmp_path) == sorted(small + large)  # and what it kept before is gone
    assert total == 2 * 10 * (0 + 1 + 2 + 3 + 4)
    for k, shard in enumerate(derived.collect(same)):
        assert shard["b"].tolist() == [2.0 * k + 1] * 10
        assert shard["a"].tolist() == shards[k]["a"].tolist()
        assert shard["a"].ctypes.data % 64 == shard["b"].ctypes.data % 64 == 0
    del derived, shard
    gc.collect()
    assert folders(tmp_path) == []


def test_parts_of_old_arrays_are_found_in_their_file(tmp_path):
    with Spilled([np.arange(100_000.0)], tmp_path) as corpus:
        (part,) = corpus.derive(itemgetter(slice(7, None))).collect(same)
        assert part.tolist() == list(range(7, 100_000))
        assert len(sizes(tmp_path)) == 1  # the derived corpus is gone, and the part lies in the first one's file


def test_the_folder_disappears_with_the_last_corpus(tmp_path, shards):
    corpus = Spilled(shards, tmp_path)
    derived = corpus.derive(doubled)
    assert len(folders(tmp_path)) == 1
    results = Spilled(shards, tmp_path).collect(itemgetter("name"))  # keeps its corpus alive
    assert next(results) == "shard 0"
    assert len(folders(tmp_path)) == 2
    assert list(results) == [f"shard {k}" for k in range(1, 5)]
    del corpus, results
    gc.collect()
    assert len(folders(tmp_path)) == 1
    assert derived.sum(lambda shard: shard["b"].sum()) == 200
    del derived
    gc.collect()
    assert folders(tmp_path) == []


def test_the_folder_disappears_when_it_is_closed(tmp_path, shards):
    with Spilled(shards, tmp_path) as corpus:
        (folder,) = folders(tmp_path)
        derived = corpus.derive(doubled)
    assert folders(tmp_path) == []
    corpus.close()  # once more does nothing
    with pytest.raises(InvalidInputError) as error:
        derived.sum(len)
    expected = (
        "the files of this corpus are gone, as it was closed or its folder was removed, or cannot be seen from "
        "here; make the corpus again, in a folder that every machine sees"
    )
    assert str(error.value) == f"{folder}: {expected}"


PROGRAM = """
import os, sys
from spectrem.corpus import Local, Spilled
corpus = Spilled([1, 2, 3], sys.argv[1])
corpus.other = corpus  # a cycle, so that it lives until the end
derived = corpus.derive(str)
print(os.listdir(sys.argv[1]), flush=True)
"""
FORK = """
if os.fork() == 0:
    sys.exit()
os.wait()
assert corpus.sum(int) == 6  # the forked process left the folder to its parent
"""


@pytest.mark.parametrize(("end", "status"), [("", 0), ("1 / 0", 1), (FORK, 0)])
def test_the_folder_disappears_when_the_interpreter_ends(tmp_path, end, status):
    command = [sys.executable, "-c", PROGRAM + end, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("['spectrem-")
    assert done.returncode == status, done.stderr
    assert folders(tmp_path) == []


def test_nothing_is_left_when_a_shard_cannot_be_made(tmp_path):
    def shards():
        yield 1
        raise KeyError("no second shard")

    with pytest.raises(KeyError, match="no second shard"):
        Spilled(shards(), tmp_path)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        Spilled([1, lambda: None], tmp_path)
    assert folders(tmp_path) == []


@pytest.mark.parametrize("n_threads", [1, 3])
def test_nothing_is_left_when_a_function_fails(tmp_path, n_threads):
    with Spilled(range(9), tmp_path, n_threads) as corpus:
        for call in (corpus.derive, corpus.sum, corpus.advance):
            with pytest.raises(KeyError, match="shard 0"):
                call(failing, 0)
        with pytest.raises((AttributeError, pickle.PicklingError)):
            corpus.derive(lambda shard: lambda: shard)
        gc.collect()
        assert len(sizes(tmp_path)) == 9


@pytest.fixture
def files_at_most():
    """Limit the size of the files that this process may write; the system then answers as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_and_nothing_half_written_is_left(tmp_path, files_at_most):
    corpus = Spilled([np.zeros(10), np.zeros(20)], tmp_path)
    (folder,) = folders(tmp_path)
    files_at_most(1 << 20)
    with pytest.raises(OSError, match="the shards do not fit or cannot be written") as error:
        corpus.derive(np.resize, (1 << 18,))
    with pytest.raises(OSError, match="the shards do not fit"):
        Spilled([np.zeros(1 << 18)], tmp_path)
    assert error.value.filename == str(folder)
    assert error.value.strerror == (
        "File too large: the shards do not fit or cannot be written; make room, or choose another folder"
    )
    gc.collect()
    assert folders(tmp_path) == [folder]
    assert len(sizes(tmp_path)) == 2


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(InvalidInputError) as error:
        Spilled([1], tmp_path / "none")
    expected = "shards cannot be kept there: No such file or directory; make the folder first, or choose another"
    assert str(error.value) == f"{tmp_path / 'none'}: {expected}"


def test_n_threads_is_checked_first(tmp_path):
    with pytest.raises(InvalidInputError, match="n_threads must be at least 1, got 0; use 1 for a serial run"):
        Spilled(iter(int, 1), tmp_path, 0)
    assert folders(tmp_path) == []


@pytest.mark.parametrize("n", [1, 15, 16, 17, 32, 71])
def test_sums_of_many_shards_wait_on_disk(tmp_path, n):
    rng = np.random.default_rng(n)
    values = [rng.normal(size=300) * 10.0 ** rng.integers(-8, 8) for _ in range(n)]
    more = []

    def copied(value):
        more.append(len(sizes(tmp_path)) - n)
        return value.copy()

    with Spilled(values, tmp_path) as corpus:
        total = corpus.sum(copied)
        assert len(sizes(tmp_path)) == n
    total += 1.0  # it is the caller's, whether or not it has waited
    assert np.array_equal(total, Local(values).sum(np.copy) + 1.0)
    assert more == [(k // 16).bit_count() for k in range(n)]  # one file for every sum of 16, 32, ... that waits


def test_what_lies_aside_is_the_same_and_takes_no_memory_while_shards_are_worked_on(tmp_path):
    value = {"table": np.arange(1 << 20, dtype=np.int32), "words": ["a", "b"]}

    def resident(array):
        """Bytes of its pages that this process holds."""
        address, found, inside = array.ctypes.data, 0, False
        with open("/proc/self/smaps") as lines:
            for line in lines:
                name, *rest = line.split()
                if "-" in name and not name.endswith(":"):
                    first, last = (int(end, 16) for end in name.split("-"))
                    inside = first <= address < last
                elif inside and name == "Rss:":
                    found = 1024 * int(rest[0])
        return found

    with Spilled(range(4), tmp_path) as corpus:
        again = corpus.aside(value)
        assert again["words"] == ["a", "b"]
        assert again["table"].flags.writeable
        for _ in range(2):
            assert np.array_equal(again["table"], value["table"])
            if sys.platform == "linux":
                assert resident(again["table"]) >= value["table"].nbytes
            assert corpus.sum(abs) == 6
            if sys.platform == "linux":
                assert resident(again["table"]) < 1 << 19
    assert np.array_equal(again["table"], value["table"])
    assert not folders(tmp_path)
