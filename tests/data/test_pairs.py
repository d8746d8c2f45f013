"""Sentence pairs from files of any kind."""

import re

import numpy as np
import pytest

from spectrem.data import pairs, read_bitext, read_pairs, segmented, write_lines
from spectrem.exceptions import InvalidInputError

SOURCE, TARGET = ["the house", "", "a tree", "It is"], ["das Haus", "Baum", "ein Baum", ""]


@pytest.fixture
def places(tmp_path):
    """The same pairs in every kind of file."""
    units = (
        f"<tu><tuv xml:lang='en'><seg>{s or '!'}</seg></tuv><tuv xml:lang='de'><seg>{t or '?'}</seg></tuv></tu>"
        for s, t in zip(SOURCE, TARGET, strict=True)
    )
    write_lines(tmp_path / "p.tmx", ["<tmx><body>", *units, "<tu/></body></tmx>"])
    write_lines(tmp_path / "en", SOURCE)
    write_lines(tmp_path / "de", TARGET)
    write_lines(tmp_path / "bars", [f"{s} ||| {t}" for s, t in zip(SOURCE, TARGET, strict=True)])
    write_lines(tmp_path / "tabs", [f"{s}\t{t}" for s, t in zip(SOURCE, TARGET, strict=True)])
    write_lines(
        tmp_path / "p.jsonl", [f'{{"source": "{s}", "target": "{t}"}}' for s, t in zip(SOURCE, TARGET, strict=True)]
    )
    return tmp_path


def same(one, other):
    return all(np.array_equal(own, its) for own, its in zip(vars(one).values(), vars(other).values(), strict=True))


def refuses(message, *arguments, **options):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        read_pairs(*arguments, **options)


@pytest.mark.parametrize("lowercase", [False, True])
def test_all_kinds_give_the_same_bitext(places, tmp_path, lowercase):
    expected = read_bitext(places / "en", places / "de", lowercase=lowercase)
    for names in (("en", "de"), ("bars",), ("tabs",), ("p.jsonl",)):
        found = read_pairs(*(places / name for name in names), lowercase=lowercase)
        assert same(found.bitext, expected)
        assert (found.segmented, found.n_skipped) == (None, 0)
    mapped = read_pairs(places / "p.jsonl", lowercase=lowercase, folder=tmp_path)
    assert same(mapped.bitext, expected)
    memory = read_pairs(places / "p.tmx", lowercase=lowercase)
    assert memory.n_skipped == 1
    assert memory.bitext.source_lengths.tolist() == [2, 1, 2, 2]
    assert memory.bitext.source_vocabulary.words[:2] == expected.source_vocabulary.words[:2]


def test_all_kinds_are_tokenised_alike(places, tmp_path):
    pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")
    expected = read_bitext(places / "en", places / "de", lowercase=True)
    for names in (("en", "de"), ("bars",), ("tabs",), ("p.jsonl",)):
        for folder in (None, tmp_path):
            found = read_pairs(*(places / name for name in names), tokenize=True, lowercase=True, folder=folder)
            assert same(found.bitext, expected)  # these texts have no punctuation
            assert [found.segmented[0].tokens(n) for n in range(4)] == [line.split() for line in SOURCE]
    found = read_pairs(places / "p.tmx", tokenize=True, languages=["de", "en"])
    assert found.segmented[0].spans(0) == [(0, 3), (4, 8)]
    assert found.segmented[0].tokens(3) == ["?"]


def test_tokens_of_a_large_text_and_their_places_are_in_the_folder(places, tmp_path, monkeypatch):
    """Block by block and token by token they are what they are in memory."""
    pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")
    expected = read_pairs(places / "en", places / "de", tokenize=True)
    monkeypatch.setattr(pairs, "_LINES_AT_ONCE", 1)
    monkeypatch.setattr(segmented, "_TOKENS_AT_ONCE", 1)
    found = read_pairs(places / "en", places / "de", tokenize=True, folder=tmp_path)
    assert same(found.bitext, expected.bitext)
    bitext, sides = found.bitext, found.segmented
    arrays = [bitext.source_tokens, bitext.source_offsets, bitext.target_tokens, bitext.target_offsets]
    for ours, its in zip(sides, expected.segmented, strict=True):
        assert same(ours.text, its.text)
        for name in ("starts", "stops", "places"):
            assert np.array_equal(getattr(ours, name), getattr(its, name))
            arrays.append(getattr(ours, name))
        arrays.append(ours.text.tokens)
    assert all(isinstance(numbers.base, np.memmap) for numbers in arrays)
    before = set(tmp_path.iterdir())
    write_lines(tmp_path / "x", ["a ||| b ||| c"])
    refuses("x, line 1: must have ` ||| ` once", tmp_path / "x", tokenize=True, folder=tmp_path)
    assert set(tmp_path.iterdir()) == before | {tmp_path / "x"}


def test_sides_of_a_line_are_split_before_their_tokens(places, tmp_path):
    pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")
    write_lines(tmp_path / "x", ["", " a|||b, c ||| d\te. ", "||| f", "g |||"])
    source, target = read_pairs(tmp_path / "x", tokenize=True).segmented
    assert [source.tokens(n) for n in range(4)] == [[], ["a", "|||", "b", ",", "c"], [], ["g"]]
    assert [target.tokens(n) for n in range(4)] == [[], ["d", "e", "."], ["f"], []]
    assert source.spans(1)[0] == (0, 1)  # without the space in front
    write_lines(tmp_path / "x", ["a\tb", "c ||| d"])
    refuses(
        "x, line 2: must have a tab once between source and target, but has it 0 times", tmp_path / "x", tokenize=True
    )
    write_lines(tmp_path / "x", ["a ||| b ||| c"])
    refuses("x, line 1: must have ` ||| ` once between source and target, but has it 2", tmp_path / "x", tokenize=True)
    write_lines(tmp_path / "x", ["", "a b"])
    refuses("x, line 2: has neither ` ||| ` nor a tab between", tmp_path / "x", tokenize=True)
    write_lines(tmp_path / "x", ["a"])
    refuses(f"{tmp_path / 'x'} has 1 lines, but {places / 'de'} has 4", tmp_path / "x", places / "de", tokenize=True)
    refuses(f"{places / 'en'} has 4 lines, but {tmp_path / 'x'} has 1", places / "en", tmp_path / "x", tokenize=True)


def test_text_with_odd_ends_is_split_as_the_reader_does(tmp_path):
    pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")
    for content in (b"a b\r\n\r\nc\r", b"\xef\xbb\xbfa b\n\nc\n", b"a b\n\nc"):
        (tmp_path / "x").write_bytes(content)
        split = read_pairs(tmp_path / "x", tmp_path / "x", tokenize=True).bitext
        assert same(split, read_bitext(tmp_path / "x", tmp_path / "x"))
    (tmp_path / "x").write_bytes(b"a\nb\xe9\n")
    refuses("x, line 2: byte 2 of the line (0xe9) is not UTF-8", tmp_path / "x", tmp_path / "x", tokenize=True)
    (tmp_path / "x").write_bytes(b"")
    refuses("x is empty; give a file of at least one line", tmp_path / "x", tokenize=True)


def test_files_and_options_that_do_not_fit_are_refused(places):
    said = (
        "p.tmx: by its name this is a translation memory, which holds both sides; give it alone, without a second file"
    )
    refuses(said, places / "p.tmx", places / "de")
    refuses("p.jsonl: by its name this is a table, which holds both", places / "en", places / "p.jsonl")
    refuses("--columns en,de: ", places / "bars", columns=["en", "de"])
    refuses("--columns en,de: ", places / "p.tmx", columns=["en", "de"])
    refuses(
        "has no columns with names; name the file .parquet, .jsonl, .csv or .tsv", places / "bars", columns=["a", "b"]
    )
    refuses("is not a translation memory; name the file .tmx if it is one", places / "bars", languages=["en", "de"])
    write_lines(places / "s.jsonl", ['{"source": "\\ud800", "target": "a"}'])
    refuses("holds an unpaired surrogate", places / "s.jsonl")


def test_csv_without_columns_is_text_as_before(tmp_path):
    write_lines(tmp_path / "x.tsv", ["a b\tc"])
    assert read_pairs(tmp_path / "x.tsv").bitext.source_vocabulary.words == ("a", "b")
