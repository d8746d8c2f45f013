import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import read_tag_dictionary, read_tagged, write_tag_dictionary
from spectrem.exceptions import InvalidInputError


def test_entries_are_merged_in_order(tmp_path):
    path = tmp_path / "tags.tsv"
    path.write_text("run\tNN VB\n\nNew York\tNNP\r\nrun\tVBN\tVB\n#\t#  # $\n")
    assert read_tag_dictionary(path) == {"run": ("NN", "VB", "VBN"), "New York": ("NNP",), "#": ("#", "$")}


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" "), min_size=1, max_size=3)


@given(
    st.dictionaries(NAMES | st.just("a b"), st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple), min_size=1)
)
@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_what_is_written_is_read_again(tmp_path_factory, name, dictionary):
    path = tmp_path_factory.mktemp("dictionary") / name
    write_tag_dictionary(path, dictionary)
    assert read_tag_dictionary(path) == dictionary


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tX\nb\t \n", "line 2: the entry of 'b' has no tags; add some, or leave the word out: it may be any"),
        ("a X\n", "line 1: 'a X' has no tab between word and tags; write the word, a tab, and its tags"),
        ("a\tX\n\n\tX\n", "line 3: '\\tX' has no word before the tab; write the word, a tab, and its tags"),
    ],
)
def test_broken_lines_are_named(tmp_path, text, message):
    path = tmp_path / "tags.tsv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=f"^{re.escape(f'{path}, {message}')}$"):
        read_tag_dictionary(path)


@pytest.mark.parametrize(
    ("dictionary", "message"),
    [
        ({"a": ("X",), "b": ()}, "the entry of 'b' has no tags; add some, or leave the word out"),
        ({"a": ("X Y",)}, "the entry of 'a' cannot be written: the tag 'X Y' is empty or has a tab, line end or space"),
        ({"a\tb": ("X",)}, "the entry of 'a\\tb' cannot be written: the word 'a\\tb' is empty or has a tab, line end;"),
        ({"": ("X",)}, "the entry of '' cannot be written: the word '' is empty"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, dictionary, message):
    with pytest.raises(InvalidInputError, match=f"^{re.escape(message)}"):
        write_tag_dictionary(tmp_path / "out", dictionary)
    assert list(tmp_path.iterdir()) == []


def test_public_dictionary_is_that_of_its_corpus(shared):
    folder = shared / "data" / "tag"
    listed = read_tag_dictionary(folder / "tagdict_sample.tsv.gz")
    seen = read_tagged(folder / "wsj_sample.pos.gz").dictionary()
    assert {word: set(tags) for word, tags in listed.items()} == {word: set(tags) for word, tags in seen.items()}
