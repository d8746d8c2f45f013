import gzip
import os
import re
import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import open_output, write_lines
from spectrem.exceptions import InvalidInputError


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
    long = tmp_path / ("x" * 250)
    message = f"{long}: cannot be written: File name too long; choose another place"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        write_lines(long, [])
