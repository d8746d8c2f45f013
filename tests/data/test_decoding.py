"""What readers of text say about bytes that are something else."""

import bz2
import gzip
import io
import lzma
import random

import numpy as np
import pytest

from spectrem.data import (
    read_bitext,
    read_links,
    read_sentences,
    read_table,
    read_tag_dictionary,
    read_tagged,
)
from spectrem.data.files import decode
from spectrem.exceptions import InvalidInputError


def archive():
    out = io.BytesIO()
    np.savez(out, a=np.arange(3))
    return out.getvalue()


READERS = [read_bitext, read_links, read_sentences, read_tag_dictionary, read_tagged, read_table]
ADVICE = [
    ("a b ||| c\n".encode("utf-16"), "line 1: this is UTF-16, not UTF-8; convert the text with `iconv -f utf-16 -t "),
    (
        b"\xfe\xff" + "a b\n".encode("utf-16-be"),
        "line 1: this is UTF-16, not UTF-8; convert the text with `iconv -f ut",
    ),
    (
        "a b ||| c\n".encode("utf-32"),
        "line 1: this is UTF-32, not UTF-8; convert the text with `iconv -f utf-32 -t utf",
    ),
    (
        "a b ||| c\n".encode("utf-16-le"),
        "holds many zero bytes, as UTF-16 text and binary files do, and UTF-8 text is ",
    ),
    ("нет ||| да, нет\n".encode("utf-16-be"), "if it is text, convert it with `iconv -f utf-16 -t utf-8`"),
    (bytes(1000), "holds many zero bytes"),
    (
        archive(),
        "this is a zip archive, as .zip, .npz and .xlsx files are, and UTF-8 text is needed; unpack it, or export ",
    ),
    (
        gzip.compress(gzip.compress(b"a ||| b\n")),
        "this is gzip data inside gzip data, and UTF-8 text is needed; unpack it",
    ),
    (
        bz2.compress(b"a ||| b\n"),
        "this is bzip2 data, and UTF-8 text is needed; unpack it by bunzip2, or compress it by ",
    ),
    (
        lzma.compress(b"a ||| b\n"),
        "this is xz data, and UTF-8 text is needed; unpack it by unxz, or compress it by gzip",
    ),
    (b"PAR1\x00\x00\x15\xff\xfe", "this is Parquet, and UTF-8 text is needed; write its contents as text"),
    (random.Random(0).randbytes(5000), "this is binary, and UTF-8 text is needed; check which file it is"),
    (
        "é ||| e\n".encode("latin1"),
        "line 1: byte 1 of the line (0xe9) is not UTF-8; convert the text, for example with ",
    ),
]


@pytest.mark.parametrize(
    "read", [read_bitext, read_links, read_sentences, read_tag_dictionary, read_tagged, read_table]
)
@pytest.mark.parametrize(("data", "message"), ADVICE, ids=[message[:30] for _, message in ADVICE])
def test_readers_say_what_a_file_is(tmp_path, read, data, message):
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError) as error:
        read(path)
    if not (read is read_table and data.startswith(b"PAR1")):  # which it reads, whatever the name
        assert message in str(error.value)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("text", ["BZh is a word", "PAR1 is a word", "a\x00b", "\x00", "a\x1bb \x01 c", "%PDF-1"])
def test_text_that_only_begins_like_another_file_is_read(text):
    assert decode(text.encode(), "x") == text
