"""What killed processes leave of their outputs, and who removes it."""

import fcntl
import os
import subprocess
import sys
from errno import ENOLCK

import pytest

from spectrem import _outputs
from spectrem._outputs import Outputs, make_folder, open_bytes, outputs_together, remove, temporary_folder

# Stages an output and makes a folder with a file in it, says so, and waits to be killed.
HOLDER = """
import os, sys
from spectrem._outputs import Outputs, make_folder
Outputs().stage(os.path.join(sys.argv[1], "out"))
open(os.path.join(make_folder(sys.argv[1]), "shard"), "w").close()
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process with a temporary file and a temporary folder; its end is that of a lost one."""
    command = [sys.executable, "-c", HOLDER, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def found_anew(monkeypatch):
    """This process looks again whether there is something to sweep."""
    monkeypatch.setattr(_outputs, "_sweep", _outputs._sweep.__wrapped__)


def write(folder):
    with open_bytes(folder / "out") as stream:
        stream.write(b"new")


@pytest.mark.usefixtures("found_anew")
@pytest.mark.parametrize("sweep", [write, lambda folder: remove(make_folder(folder))], ids=["output", "folder"])
def test_what_a_killed_process_left_is_swept_and_what_a_living_one_has_is_not(tmp_path, holder, sweep):
    before = sorted(tmp_path.iterdir())
    assert [path.is_dir() for path in before] == [False, True]
    sweep(tmp_path)
    assert set(before) <= set(tmp_path.iterdir())
    holder.kill()
    holder.wait()
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name != "out"] == []


@pytest.mark.usefixtures("found_anew")
def test_what_this_process_writes_is_not_swept(tmp_path):
    with outputs_together(), temporary_folder(tmp_path) as folder:
        write(tmp_path)
        Outputs().stage(tmp_path / "other")
        assert os.path.isdir(folder)
    assert (tmp_path / "out").read_bytes() == b"new"


@pytest.mark.usefixtures("found_anew")
def test_what_others_may_own_stays(tmp_path, holder, monkeypatch):
    """Files of another machine on a network's file system, and of other programs."""
    holder.kill()
    holder.wait()
    (tmp_path / ".spectrem-notes.tmp").touch()
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(_outputs, "_kernel", lambda: "another")
    write(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "out"])


@pytest.mark.usefixtures("found_anew")
def test_a_file_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, swept = fcntl.flock, []

    def late(descriptor, how):
        if not swept:
            swept.extend(tmp_path.iterdir())
            swept[0].unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    write(tmp_path)
    assert len(swept) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def without_locks(monkeypatch):
    def fail(descriptor, how):
        raise OSError(ENOLCK, os.strerror(ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)


def as_on_windows(monkeypatch):
    monkeypatch.setattr(_outputs, "fcntl", None)


@pytest.mark.usefixtures("found_anew")
@pytest.mark.parametrize("lose_locks", [without_locks, as_on_windows])
def test_where_there_are_no_locks_nothing_is_swept(tmp_path, holder, monkeypatch, lose_locks):
    lose_locks(monkeypatch)
    before = sorted(tmp_path.iterdir())
    write(tmp_path)
    write(tmp_path)
    with temporary_folder(tmp_path):
        pass
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "out"])


def test_an_output_that_is_opened_again_is_written_anew(tmp_path):
    with outputs_together() as outputs:
        for content in (b"a long one", b"short"):
            with outputs.open(tmp_path / "out") as stream:
                stream.write(content)
    assert (tmp_path / "out").read_bytes() == b"short"


def test_the_name_of_the_kernel_is_that_of_the_machine_where_the_system_does_not_say(monkeypatch):
    def missing(path):
        raise FileNotFoundError

    assert len(_outputs._kernel()) == 8
    monkeypatch.setattr(_outputs.Path, "read_text", missing)
    monkeypatch.setattr("platform.node", lambda: "host.example")
    assert _outputs._kernel.__wrapped__() == "host"
