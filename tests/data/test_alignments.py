import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import Links, pharaoh_lines, read_links, write_pharaoh, write_shared_task
from spectrem.exceptions import InvalidInputError

PAIR = st.tuples(st.integers(0, 99), st.integers(0, 99))
SENTENCE = st.tuples(st.lists(PAIR, max_size=4), st.lists(PAIR, max_size=4))
LINKS = st.lists(SENTENCE, min_size=1, max_size=5).map(
    lambda sentences: Links.from_pairs([s for s, _ in sentences], [p for _, p in sentences])
)


def same(a: Links, b: Links) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("offsets", "source", "target", "sure"))


@given(LINKS)
def test_pharaoh_round_trip(tmp_path_factory, links):
    folder = tmp_path_factory.mktemp("pharaoh")
    for name in ("gold", "gold.gz"):
        write_pharaoh(folder / name, links)
        assert same(read_links(folder / name, n_sentences=links.n_sentences), links)
    assert len((folder / "gold").read_text().splitlines()) == links.n_sentences


@given(LINKS.filter(lambda links: links.n_links > 0))
def test_shared_task_round_trip(tmp_path_factory, links):
    path = tmp_path_factory.mktemp("shared_task") / "gold.wa"
    write_shared_task(path, links)
    assert same(read_links(path, n_sentences=links.n_sentences), links)
    assert read_links(path).n_sentences == links.sentence[-1] + 1


@pytest.fixture
def written(tmp_path):
    def written(text):
        path = tmp_path / "gold"
        path.write_text(text)
        return path

    return written


def test_pharaoh_lines_are_spelled_in_order():
    links = Links.from_pairs([[(1, 0), (0, 10)], [], [(0, 0)]], possible=[[(0, 2)], [], []])
    assert pharaoh_lines(links) == ["0?2 0-10 1-0", "", "0-0"]


def test_pharaoh_is_read_leniently_in_space_and_repetition(written):
    links = read_links(written("\n 2-0\t0?1  0-1 0?1\r\n\n"))
    assert [links.pairs(n) for n in range(3)] == [[], [(0, 1), (2, 0)], []]
    assert links.sure.tolist() == [True, True]


def test_pharaoh_file_without_links(written):
    assert read_links(written("\n\n")).offsets.tolist() == [0, 0, 0]


def test_shared_task_fields(written):
    links = read_links(
        written("0001 1 2\n0001 3 1 P\n1 2 2 0.5\n0003 1 1 P 0.25\n3 1 1 S\n0003 0 4 S\n0002 4 0\n\n3 2 7 S 1e-3\n")
    )
    assert [links.pairs(n) for n in range(3)] == [[(0, 1), (1, 1), (2, 0)], [], [(0, 0), (1, 6)]]
    assert links.sure.tolist() == [True, True, False, True, True]
    assert read_links(written("2 1 1\n"), n_sentences=4).offsets.tolist() == [0, 0, 1, 1, 1]


def test_shared_task_writes_numbers_from_one(tmp_path):
    write_shared_task(tmp_path / "wa", Links.from_pairs([[], [(0, 3)]], possible=[[], [(2, 0)]]))
    assert (tmp_path / "wa").read_text() == "0002 1 4 S\n0002 3 1 P\n"


NOT_A_LINK = "is not a link; write i-j (sure) or i?j (possible), positions counted from 0"


@pytest.mark.parametrize(
    ("text", "n_sentences", "message"),
    [
        (
            "0-0\n",
            2,
            " has 1 lines, but the bitext has 2 sentence pairs; give the alignment of the same file, one line per pair",
        ),
        ("0-0\n1-1 a-b 0-0\n", None, f", line 2: 'a-b' {NOT_A_LINK}"),
        ("\n0-0\n-1-0\n", None, f", line 3: '-1-0' {NOT_A_LINK}"),
        ("0-0 1\n", None, f", line 1: '1' {NOT_A_LINK}"),
        ("0-0:0.5\n", None, f", line 1: '0-0:0.5' {NOT_A_LINK}"),
        ("٣-0\n", None, f", line 1: '٣-0' {NOT_A_LINK}"),
        ("0-12345678\n", None, f", line 1: '0-12345678' {NOT_A_LINK}"),
        ("0-0 0-262144\n", None, ", line 1: '0-262144' is not a position below 262144; check the file"),
        ("1 1 1\n\n1 2\n", None, ", line 3: has 2 fields; write `sentence source target [S|P] [confidence]`"),
        ("1 1 1 S 1 1\n", None, ", line 1: has 6 fields; write `sentence source target [S|P] [confidence]`"),
        ("1 1 1\n0 1 1\n", None, ", line 2: '0' is not a sentence number; count from 1 (0 is NULL)"),
        ("1 x 1\n", None, ", line 1: 'x' is not a source position; count from 1 (0 is NULL)"),
        ("1 1 1-1\n", None, ", line 1: '1-1' is not a target position; count from 1 (0 is NULL)"),
        ("1 1 1 Q\n", None, ", line 1: 'Q' is not S, P or a confidence; write S for sure, P for possible"),
        ("1 1 1 1 S\n", None, ", line 1: '1' is not S or P; write `sentence source target [S|P] [confidence]`"),
        ("1 1 1 S nan\n", None, ", line 1: 'nan' is not a confidence; write a number such as 0.9"),
        ("1 1 1\n1 1 2000000\n", None, ", line 2: '2000000' is not a position below 262144; check the file"),
        (
            "1 1 1\n4 1 1\n",
            3,
            ", line 2: sentence 4 lies beyond the 3 sentence pairs of the bitext; give the alignment of the same file",
        ),
        ("", None, " is empty; give a file of at least one line"),
    ],
)
def test_error_messages(written, text, n_sentences, message):
    path = written(text)
    with pytest.raises(InvalidInputError, match=f"^{re.escape(f'{path}{message}')}$"):
        read_links(path, n_sentences=n_sentences)


def test_numbers_of_sentences_have_a_bound(tmp_path):
    """One byte more in a number must not ask for gigabytes."""
    (tmp_path / "x.wa").write_text("1 1 1\n999999999 1 1\n")
    with pytest.raises(InvalidInputError, match="line 2: sentence 999999999 lies beyond the 8388607 sentence pairs"):
        read_links(tmp_path / "x.wa")
    nothing, offsets = np.zeros(0, np.int32), np.broadcast_to(np.int64(0), (1 << 27) + 1)
    with pytest.raises(InvalidInputError, match="at most 134217727 sentences, got 134217728; cut the text"):
        Links(offsets, nothing, nothing, nothing.astype(bool))


def test_long_words_are_quoted_by_their_beginning(tmp_path):
    (tmp_path / "x").write_text("0-0\n0-" + "9" * 5000 + "\n")
    with pytest.raises(InvalidInputError, match=r"line 2: '0-9{77}\.\.\. \(5004 characters\) is not a link; write i-j"):
        read_links(tmp_path / "x")
