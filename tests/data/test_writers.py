import gzip
import os
import re
import stat
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem._outputs import outputs_together, sent_directly
from spectrem.constraints import E, part, write_constraints
from spectrem.data import TableFile, open_output, open_table, write_lines
from spectrem.estimators.storage import load_arrays, save_arrays
from spectrem.exceptions import InvalidInputError
from spectrem.plotting import save_figure


@given(st.lists(st.text("a é|\t\xa0\r\u2028")))
def test_lines_come_back_whole(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("lines")
    write_lines(folder / "plain", lines)
    write_lines(folder / "zipped.gz", iter(lines))
    expected = "".join(f"{line}\n" for line in lines).encode()
    assert (folder / "plain").read_bytes() == expected
    assert gzip.decompress((folder / "zipped.gz").read_bytes()) == expected
    assert sorted(os.listdir(folder)) == ["plain", "zipped.gz"]


def test_the_same_lines_give_the_same_gzip_file(tmp_path):
    write_lines(tmp_path / "a.gz", ["x"])
    write_lines(tmp_path / "b.gz", ["x"])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert (tmp_path / "a.gz").read_bytes()[4:8] == bytes(4)  # no time stamp


@pytest.mark.parametrize("name", ["out", "out.gz"])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError])
def test_nothing_is_left_of_an_interrupted_write(tmp_path, name, interruption):
    def lines():
        yield "half"
        raise interruption

    with pytest.raises(interruption):
        write_lines(tmp_path / name, lines())
    assert os.listdir(tmp_path) == []

    (tmp_path / name).write_text("old")
    with pytest.raises(interruption):
        write_lines(tmp_path / name, lines())
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "old"


def test_the_name_appears_when_the_block_ends(tmp_path):
    with open_output(tmp_path / "out") as lines:
        lines.write("a\n")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out").read_text() == "a\n"


def test_an_existing_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(0o640)
    (tmp_path / "link").symlink_to("out")
    write_lines(tmp_path / "link", ["new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out").read_text() == "new\n"
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_devices_and_pipes_are_written_directly(tmp_path):
    write_lines(os.devnull, ["gone"])
    assert not os.path.isfile(os.devnull)
    os.mkfifo(tmp_path / "pipe")
    seen = []
    reader = threading.Thread(target=lambda: seen.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_lines(tmp_path / "pipe", ["a", "b"])
    reader.join()
    assert seen == ["a\nb\n"]
    assert os.listdir(tmp_path) == ["pipe"]


def test_standard_output(capsys):
    write_lines("-", ["a", "", "b"])
    assert capsys.readouterr().out == "a\n\nb\n"


def test_places_that_cannot_be_written(tmp_path):
    missing = tmp_path / "none" / "out"
    message = f"{missing}: the folder {tmp_path.resolve() / 'none'} does not exist; make it first"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        write_lines(missing, [])
    with pytest.raises(InvalidInputError, match=re.escape(f"{tmp_path} is a folder; name a file in it")):
        write_lines(tmp_path, [])
    long = tmp_path / ("x" * 256)
    message = f"{long}: cannot be written: File name too long; choose another place"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        write_lines(long, [])
    write_lines(tmp_path / ("x" * 255), ["every name that can be"])
    with pytest.raises(InvalidInputError, match=re.escape("'' names no file; give its path")):
        write_lines("", [])


def write_table(path):
    polars = pytest.importorskip("polars")
    with open_table(path) as write:
        write(TableFile("t", polars.LazyFrame({"a": np.arange(3.0)})))


WRITERS = {
    "text": lambda path: write_lines(path, ["a"]),
    "model": lambda path: save_arrays(path, "Kind", 1, {}, {"a": np.arange(3)}),
    "figure": lambda path: save_figure(pytest.importorskip("matplotlib.figure").Figure(), path),
    "table": write_table,
    "constraints": lambda path: write_constraints((E[part("label") == "a"] <= 1).per("row"), path),
}


ENDINGS = {"figure": ".png", "table": ".csv", "constraints": ".json"}


@pytest.mark.parametrize("kind", WRITERS)
def test_everything_is_written_carefully(tmp_path, kind):
    """A mode and a link stay, a new file gets the mode of others, a pipe and a device are not replaced."""
    ending = ENDINGS.get(kind, "")
    old, link, new, pipe = (tmp_path / f"{name}{ending}" for name in ("old", "link", "new", "pipe"))
    old.write_text("old")
    old.chmod(0o600)
    link.symlink_to(old.name)
    before = os.umask(0o027)
    try:
        WRITERS[kind](link)
        WRITERS[kind](new)
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert stat.S_IMODE(new.stat().st_mode) == 0o640
    assert old.read_bytes()[:4] == new.read_bytes()[:4] != b"old"
    os.mkfifo(pipe)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()))
    reader.start()
    WRITERS[kind](pipe)
    reader.join()
    assert pipe.is_fifo()
    assert seen[0][:4] == new.read_bytes()[:4]
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in (old, link, new, pipe))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_names_the_file(tmp_path, kind):
    path = tmp_path / f"full{ENDINGS.get(kind, '')}"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as raised:
        WRITERS[kind](path)
    assert raised.value.filename == str(path)
    assert path.is_symlink()


def test_a_model_through_a_pipe_can_be_read(tmp_path):
    arrays = {"a": np.arange(100_000), "b": np.ones(3)}
    pipe, copy = tmp_path / "pipe", tmp_path / "copy"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: copy.write_bytes(pipe.read_bytes()))
    reader.start()
    save_arrays(pipe, "Kind", 1, {"x": 1}, arrays)
    reader.join()
    settings, found = load_arrays(copy, "Kind", 1, {"a": ("i8", 1), "b": ("f8", 1)})
    assert settings == {"x": 1}
    assert {name: array.tolist() for name, array in found.items()} == {k: v.tolist() for k, v in arrays.items()}


def failing(line):
    yield line
    raise ValueError(line)


def write_all(paths, rest):
    for path in paths:
        write_lines(path, ["2"])
    list(rest)


def test_outputs_appear_together(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with outputs_together():
        write_lines(first, ["1"])
        assert not first.exists()
        save_arrays(second, "Kind", 1, {}, {})
        with pytest.raises(ValueError, match="half"):
            write_lines(tmp_path / "third", failing("half"))
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]
    first.write_text("old")
    with pytest.raises(ValueError, match="after"), outputs_together():
        write_all([first, tmp_path / "new"], failing("after"))
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]
    assert first.read_text() == "old"


def test_what_went_out_at_once_is_known(tmp_path):
    write_lines(tmp_path / "file", ["a"])
    write_lines(os.devnull, ["a"])
    assert not {os.devnull, str(tmp_path / "file")} & set(sent_directly())
    read, write = os.pipe()
    write_lines(f"/dev/fd/{write}", ["a"])
    assert f"/dev/fd/{write}" in sent_directly()
    os.close(write)
    with open(read) as stream:
        assert stream.read() == "a\n"


def test_a_pipe_whose_reader_has_gone_is_named(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    message = re.escape(f"{pipe}: its reader stopped before the end")

    def lines():
        os.close(reader)
        yield "a"

    with pytest.raises(OSError, match=message):
        write_lines(pipe, lines())
