import gzip
import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import Vocabulary, files, read_bitext, read_bytes
from spectrem.data.bitext import new_folder
from spectrem.exceptions import InvalidInputError


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def sentences(bitext):
    source = [bitext.source_vocabulary.words[token] for token in bitext.source_tokens]
    target = [bitext.target_vocabulary.words[token] for token in bitext.target_tokens]
    return (
        [source[a:b] for a, b in zip(bitext.source_offsets, bitext.source_offsets[1:], strict=False)],
        [target[a:b] for a, b in zip(bitext.target_offsets, bitext.target_offsets[1:], strict=False)],
    )


EXPECTED = ([["the", "house"], [], ["a", "é"]], [["das", "haus"], [], ["ein"]])


def test_two_plain_files(write):
    assert sentences(read_bitext(write("s", "the house\n\na é\n"), write("t", "das haus\r\n\r\nein"))) == EXPECTED


def test_two_gzipped_files_whatever_their_names(write):
    source = write("s.gz", gzip.compress(b"the house\n\n") + gzip.compress("a é\n".encode()))
    target = write("t", gzip.compress(b"das haus\n\nein\n"))
    assert sentences(read_bitext(source, target)) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "the house ||| das haus\n\na é ||| ein\n",
        "the house\tdas haus\n\na é\tein\n",
        " the  house \t das haus \n  \na é\t ein\n",
        "the house\t|||\tdas haus\n\t\na é ||| ein",
    ],
)
def test_one_file_of_two_columns(write, text):
    assert sentences(read_bitext(write("pairs", text))) == EXPECTED


def test_one_side_may_be_empty(write):
    assert sentences(read_bitext(write("p", "||| x\ny |||\n|||\n"))) == ([[], ["y"], []], [["x"], [], []])
    assert sentences(read_bitext(write("p", "\tx\ny\t\n\t\n"))) == ([[], ["y"], []], [["x"], [], []])


def test_separators_are_told_by_the_first_line_that_is_not_blank(write):
    assert sentences(read_bitext(write("p", "\na\tb\nc |||\td\n"))) == ([[], ["a"], ["c", "|||"]], [[], ["b"], ["d"]])


def test_words_of_columns_are_numbered_by_first_appearance_on_their_side(write):
    bitext = read_bitext(write("p", "a ||| x a\nb a ||| y\n"))
    assert bitext.source_vocabulary.words == ("a", "b")
    assert bitext.target_vocabulary.words == ("x", "a", "y")


def test_blank_file_keeps_its_lines(write):
    assert sentences(read_bitext(write("p", "\n \n"))) == ([[], []], [[], []])


def test_standard_input(write, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the house ||| das haus\n")))
    assert sentences(read_bitext("-")) == ([["the", "house"]], [["das", "haus"]])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"the house\n"))))
    assert sentences(read_bitext("-", write("t", "das haus\n"))) == ([["the", "house"]], [["das", "haus"]])


def test_byte_order_mark_is_dropped(write):
    assert read_bytes(write("s", b"\xef\xbb\xbfa\n")) == b"a\n"


def test_options_reach_the_encoder(write):
    known = Vocabulary(("the",)), Vocabulary(("das",))
    bitext = read_bitext(write("p", "The house ||| DAS\n"), vocabularies=known, lowercase=True)
    assert (bitext.source_tokens.tolist(), bitext.target_tokens.tolist()) == ([0, -1], [0])


def test_limit_reads_the_first_pairs_only(write):
    two = write("s", "a\nb\nc\n"), write("t", "x\ny\nz")
    assert sentences(read_bitext(*two, limit=2)) == ([["a"], ["b"]], [["x"], ["y"]])
    assert (
        sentences(read_bitext(*two, limit=3)) == sentences(read_bitext(*two, limit=9)) == sentences(read_bitext(*two))
    )
    # a bad line beyond the limit is not looked at
    assert read_bitext(write("p", "a ||| x\nb\n"), limit=1).source_vocabulary.words == ("a",)


WORDS = st.lists(st.text("ab|é\xa0", min_size=1, max_size=3).filter(lambda word: word != "|||"), max_size=3)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5).filter(lambda pairs: any(a or b for a, b in pairs)))
def test_every_form_reads_alike(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("forms")
    sides = [" ".join(s) for s, _ in pairs], [" ".join(t) for _, t in pairs]
    for name, side in zip("st", sides, strict=True):
        (folder / name).write_bytes("".join(f"{line}\n" for line in side).encode())
    for name, separator in (("bars", " ||| "), ("tabs", "\t")):
        lines = [separator.join(line) if any(line) else "" for line in zip(*sides, strict=True)]
        (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    expected = [s for s, _ in pairs], [t for _, t in pairs]
    for inputs in [("s", "t"), ("bars",), ("tabs",)]:
        bitext = read_bitext(*(folder / name for name in inputs))
        assert sentences(bitext) == expected
        assert bitext.source_vocabulary.words == tuple(dict.fromkeys(word for s, _ in pairs for word in s))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a ||| b\n\nc\n",
            "line 3: must have ` ||| ` once between source and target, but has it 0 times; repair or remove the line",
        ),
        (
            "a ||| b\nc ||| d ||| e\n",
            "line 2: must have ` ||| ` once between source and target, but has it 2 times; repair or remove the line",
        ),
        (
            "a\tb\nc d\n",
            "line 2: must have a tab once between source and target, but has it 0 times; repair or remove the line",
        ),
        (
            "a\tb\t0.5\n",
            "line 1: must have a tab once between source and target, but has it 2 times; repair or remove the line",
        ),
        (
            "\na b\nc ||| d\n",
            "line 2: has neither ` ||| ` nor a tab between source and target; "
            "give two files, lines of `source ||| target`, or, if it is a table, --columns",
        ),
    ],
)
def test_broken_columns_name_the_line(write, text, message):
    path = write("pairs.txt", text)
    with pytest.raises(InvalidInputError, match=f"^{re.escape(f'{path}, {message}')}$"):
        read_bitext(path)


def test_line_counts_that_differ_are_both_said(write):
    source, target = write("s", "a\nb\n"), write("t", "a\nb\nc")
    message = (
        f"{source} has 2 lines, but {target} has 3: line n of one must translate line n of the other; "
        "find the line that was lost or split"
    )
    for limit in (None, 1):
        with pytest.raises(InvalidInputError, match=re.escape(message)):
            read_bitext(source, target, limit=limit)


def test_undecodable_bytes_name_file_and_line(write):
    target = write("t", b"ok\ncaf\xe9\n")
    with pytest.raises(InvalidInputError, match=re.escape(f"{target}, line 2: byte 4 of the line (0xe9) is not UTF-8")):
        read_bitext(write("s", "a\nb\n"), target)


def test_files_that_cannot_be_read(write, tmp_path):
    good = write("good", "a\n")
    with pytest.raises(InvalidInputError, match=re.escape(f"{tmp_path / 'none'}: no such file; check the path")):
        read_bitext(good, tmp_path / "none")
    with pytest.raises(
        InvalidInputError,
        match=re.escape(f"{tmp_path}: cannot be read: Is a directory; give a readable file"),
    ):
        read_bitext(good, tmp_path)
    empty = write("empty", "")
    with pytest.raises(InvalidInputError, match=re.escape(f"{empty} is empty; give a file of at least one line")):
        read_bitext(good, empty)
    whole = gzip.compress(b"a\n" * 1000)
    for name, data in (("cut", whole[:-9]), ("bent", whole[:12] + b"\0\0\0" + whole[15:]), ("head", whole[:2])):
        damaged = write(name, data)
        with pytest.raises(
            InvalidInputError, match=f"{re.escape(str(damaged))}: damaged gzip file: .*; fetch or write"
        ):
            read_bitext(good, damaged)


def test_arguments_that_make_no_sense(write, monkeypatch):
    message = "source and target cannot both be standard input; give one input of `source ||| target` lines instead"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        read_bitext("-", "-")
    with pytest.raises(
        InvalidInputError, match=re.escape("limit must be at least 1, but is 0; leave it out to read every pair")
    ):
        read_bitext(write("s", "a\n"), write("t", "a\n"), limit=0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InvalidInputError, match=re.escape("standard input is empty; give a file of at least one line")):
        read_bitext("-")


def equal(one, other):
    arrays = ("source_tokens", "source_offsets", "target_tokens", "target_offsets")
    return all(
        getattr(one, name).tolist() == getattr(other, name).tolist()
        and getattr(one, name).dtype == getattr(other, name).dtype
        for name in arrays
    ) and (one.source_vocabulary, one.target_vocabulary) == (other.source_vocabulary, other.target_vocabulary)


TEXTS = {
    "plain": ("the House\n\na é the\nhouse c\r\nd d\n", "das haus\n\nein\r\nhaus\nq"),
    "blank": ("\n\n\n", "\n\n\n"),
    "marked": ("\ufeffa b\nc\n", "\ufeffd\ne f\n"),
    "long line": ("a " * 40 + "\nb\n", "c\nd\n"),
}


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("options", [{}, {"lowercase": True}, {"limit": 2}])
def test_pieces_read_as_the_whole(write, tmp_path, monkeypatch, size, text, options):
    monkeypatch.setattr(files, "PIECE", size)
    source, target = write("s", TEXTS[text][0]), write("t", gzip.compress(TEXTS[text][1].encode()))
    assert equal(read_bitext(source, target, folder=tmp_path, **options), read_bitext(source, target, **options))
    known = (Vocabulary(("a", "the")), Vocabulary(("das",)))
    found = read_bitext(source, target, folder=tmp_path, vocabularies=known)
    assert equal(found, read_bitext(source, target, vocabularies=known))


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    "text", ["\n\na b ||| c\n\n||| d\nb ||| a\n", "a b\tc\n\n\td\nb\t|||\n", " ||| x\ny |||\n|||\n", "\n\n"]
)
@pytest.mark.parametrize("options", [{}, {"limit": 2}])
def test_pieces_of_columns_read_as_the_whole(write, tmp_path, monkeypatch, size, text, options):
    monkeypatch.setattr(files, "PIECE", size)
    path = write("pairs", text)
    assert equal(read_bitext(path, folder=tmp_path, **options), read_bitext(path, **options))


def test_pieces_of_standard_input(monkeypatch, tmp_path):
    for data in (b"the house ||| das haus\n", gzip.compress(b"the house ||| das haus\n")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert read_bitext("-", folder=tmp_path).source_vocabulary.words == ("the", "house")
        assert not sys.stdin.buffer.closed


@pytest.mark.parametrize("size", [2, 1000])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("a ||| b\n\nc ||| d\ne f\n", None),
        ("a\tb\n\nc d\n", None),
        ("a\tb\n\nc\td\te\n", None),
        ("\na b\nc ||| d\n", None),
        ("a\nb\n", "a\nb\nc"),
        ("a\nb\n", b"ok\ncaf\xe9\n"),
        ("a\n", ""),
        ("a\n", b"\xef\xbb\xbf"),
        ("a\n", gzip.compress(b"a\n" * 1000, mtime=0)[:-9]),
        ("a\n", b"\xff\xfea\0\n\0"),
    ],
)
def test_pieces_refuse_what_the_whole_refuses_and_leave_nothing(write, tmp_path, monkeypatch, size, source, target):
    monkeypatch.setattr(files, "PIECE", size)
    paths = [write("s", source)] + ([] if target is None else [write("t", target)])
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(InvalidInputError) as expected:
        read_bitext(*paths)
    with pytest.raises(InvalidInputError, match=f"^{re.escape(str(expected.value))}$"):
        read_bitext(*paths, folder=folder)
    assert not list(folder.iterdir())


def test_a_folder_that_is_missing_is_named(write, tmp_path):
    with pytest.raises(InvalidInputError, match="none: the text cannot be kept there: No such file or directory; make"):
        read_bitext(write("s", "a\n"), write("t", "a\n"), folder=tmp_path / "none")


def test_a_folder_that_is_full_is_named_with_what_numpy_says(tmp_path):
    said = "the text cannot be kept there: 20 requested and 0 written; make room"
    with pytest.raises(InvalidInputError, match=said), new_folder(tmp_path):
        raise OSError("20 requested and 0 written")


def test_mapped_text_can_be_changed_without_changing_its_file(write, tmp_path):
    bitext = read_bitext(write("s", "a b\n"), write("t", "a\n"), folder=tmp_path)
    bitext.source_tokens[0] = 1
    (tokens,) = tmp_path.glob("bitext-*/source.tokens")
    assert tokens.read_bytes() == bytes([0, 0, 0, 0, 1, 0, 0, 0])
