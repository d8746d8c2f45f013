"""CoNLL-U with trees: what is read, what is refused with the line named, and that what is written is read back."""

import io

import numpy as np
import pytest

from spectrem.data import ParsedSentence, read_conllu, write_conllu, write_lines
from spectrem.exceptions import InvalidInputError


def row(number, form, head="_", relation="_", upos="NOUN"):
    return f"{number}\t{form}\t_\t{upos}\tX\t_\t{head}\t{relation}\t_\t_"


def read(tmp_path, *rows):
    write_lines(tmp_path / "a.conllu", rows)
    return read_conllu(tmp_path / "a.conllu")


def test_words_alone_make_the_tree(tmp_path):
    first, second = read(
        tmp_path,
        "# text = al mar",
        "1-2\tal" + "\t_" * 8,
        row(1, "a", 3, "case"),
        row(2, "el", 3, "det"),
        "2.1\tgran" + "\t_" * 8,
        row(3, "mar del sur", 0, "root"),
        "",
        row(1, "sí"),
    )
    assert first.forms == ("a", "el", "mar del sur")
    assert first.heads.tolist() == [2, 2, -1]
    assert first.relations == ("case", "det", "root")
    assert (second.heads, second.relations) == (None, None)


def test_heads_known_in_part(tmp_path):
    (sentence,) = read(tmp_path, row(1, "a", 2), row(2, "b"), row(3, "_", 0, upos="_"))
    assert sentence.heads.tolist() == [1, -2, -1]
    assert sentence.upos == ("NOUN", "NOUN", "_")
    assert sentence.forms[2] == "_"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(1, "a", 2), row(2, "b", 1)], "line 2: words 1 and 2 are heads of each other in a cycle"),
        (["#", row(1, "a", 2), row(2, "b", 3), row(3, "c", 2)], "line 4: words 2 and 3 are heads of each other"),
        ([row(1, "a", 2), row(2, "b", 3), row(3, "c", 1)], "line 2: words 1, 2 and 3 are heads of one another"),
        ([row(1, "a", 1)], "line 2: word 1 is its own head"),
        ([row(1, "a", 0), row(2, "b", 3)], "line 3: has the head 3, but the sentence has the words 1 to 2; write 0"),
        (
            [row(1, "a", 0), row(2, "b", "up")],
            "line 3: has the head up, but the sentence has the words 1 to 2; write 0",
        ),
        ([row(1, "a", 0), row(3, "b", 1)], "line 3: must have the number 2, but is '3"),
        ([row("_", "a", 0)], "line 2: must have the number 1"),
        ([row(1, "", 0)], "line 2: has no form"),
        ([row(1, "a", "1" * 5000)], "line 2: has the head 1+... .5000 characters.,"),
        ([row("1" * 5000, "a", 0)], "line 2: is not a line of CoNLL-U: "),
        ([row(1, "a", upos="")], "line 2: has no upos in '1.*'; write _"),
        (["1\ta"], "line 2: must have the 10 columns ID FORM .* MISC with tabs between, but has 2; write _"),
        ([row(1, "a", 0).removesuffix("\t_")], "line 2: must have the 10 columns .*, but has 9;"),
        ([row(1, "a", 0), row("1.1", "b") + "\t_"], "line 3: must have the 10 columns .*, but has 11;"),
    ],
)
def test_lines_that_are_not_a_tree_are_named(tmp_path, rows, message):
    with pytest.raises(InvalidInputError, match=f"a.conllu, {message}"):
        read(tmp_path, "# of one sentence", *rows)


def test_what_is_written_is_read_back(tmp_path):
    sentences = [
        ParsedSentence(("New York", "ran"), ("PROPN", "VERB"), ("_", "V"), np.array([1, -1]), ("nsubj", "root")),
        ParsedSentence(("x",), ("X",), ("_",)),
        ParsedSentence(("x", "y"), ("X", "X"), ("_", "_"), np.array([-2, 0]), None),
    ]
    write_conllu(tmp_path / "a.conllu.gz", iter(sentences))
    found = read_conllu(tmp_path / "a.conllu.gz")
    assert [(s[:3], s.relations) for s in found] == [(s[:3], s.relations) for s in sentences]
    assert [None if s.heads is None else s.heads.tolist() for s in found] == [[1, -1], None, [-2, 0]]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (ParsedSentence((), (), ()), "sentence 0 is empty"),
        (ParsedSentence(("a",), ("X",), ()), "sentence 0: xpos must be one per word, got 0 for 1 words"),
        (
            ParsedSentence(("a",), ("X",), ("_",), np.array([0])),
            "heads of sentence 0 must fit a tree, but word 0 is its own head",
        ),
        (ParsedSentence(("a",), ("X",), ("_",), np.array([1])), "word 0 has the head 1"),
        (ParsedSentence(("a",), ("X",), ("_",), np.array([-3])), "word 0 has the head -3"),
        (ParsedSentence(("a\tb",), ("X",), ("_",)), "cannot be written"),
        (ParsedSentence(("a",), ("",), ("_",)), "'' cannot be written; forms, tags and relations are str, not empty"),
    ],
)
def test_what_cannot_be_written_is_refused(sentence, message):
    with pytest.raises(InvalidInputError, match=message):
        write_conllu(io.StringIO(), [sentence])
