"""Files of CoNLL-U with other trees: what is kept, what is replaced, and texts that do not fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import copy_with_trees, read_conllu
from spectrem.data.files import Lines
from spectrem.exceptions import InvalidInputError

TEXT = (
    "# 1\n1\ta\ta\tX\tx\tF=1\t2\tdep\t2:dep\tM=1\n2\tb\tb\tX\tx\t_\t0\troot\t_\t_\n\n"
    "# 2\n1\tc\t_\tX\t_\t_\t_\t_\t_\t_\n"
)


@pytest.fixture
def path(tmp_path):
    name = tmp_path / "a.conllu"
    name.write_text(TEXT)
    return name


def test_heads_and_relations_are_replaced_and_all_else_is_kept(path):
    first, second = read_conllu(path)
    others = [first._replace(heads=np.array([-1, 0]), relations=("root", "new")), second]
    assert "".join(copy_with_trees(path, others)) == (
        "# 1\n1\ta\ta\tX\tx\tF=1\t0\troot\t_\tM=1\n2\tb\tb\tX\tx\t_\t1\tnew\t_\t_\n\n"
        "# 2\n1\tc\t_\tX\t_\t_\t_\t_\t_\t_\n\n"
    )


CELL = st.text("aé_#=|· \u00a0\u2028\U0001f600", min_size=1, max_size=4)


@st.composite
def treebanks(draw):
    """Lines of CoNLL-U with comments, multiword ranges and empty nodes, and what a parser may change."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        lines += [f"# {comment}" for comment in draw(st.lists(CELL, max_size=2))]
        for word in range(1, draw(st.integers(1, 3)) + 1):
            if draw(st.booleans()):
                lines.append("\t".join([f"{word}-{word + 1}", draw(CELL), *["_"] * 7, draw(CELL)]))
            cells = [draw(CELL) for _ in range(6)]
            lines.append("\t".join([str(word), *cells[:5], str(word - 1), "dep", "_", cells[5]]))
            if draw(st.booleans()):
                lines.append("\t".join([f"{word}.1", draw(CELL), *["_"] * 6, draw(CELL), "_"]))
        lines += [""] * draw(st.integers(1, 2))
    return lines


@given(treebanks())
def test_what_is_read_and_written_is_the_same_but_for_trees(texts):
    lines = Lines("text", texts)
    sentences = read_conllu(lines)
    assert "".join(copy_with_trees(lines, sentences)) == "".join(text + "\n" for text in texts)
    others = [
        one._replace(heads=np.full(len(one.forms), -1), relations=None) for one in read_conllu(lines, trees=False)
    ]
    changed = [line.rstrip("\n").split("\t") for line in copy_with_trees(lines, others)]
    for cells, text in zip(changed, texts, strict=True):
        expected = text.split("\t")
        expected[6:8] = ["0", "_"] if expected[0].isdigit() else expected[6:8]
        assert cells == expected
    assert [texts[start - 1].split("\t")[:2] for start in sentences.starts] == [
        ["1", one.forms[0]] for one in sentences
    ]


def test_sentences_of_another_file_are_refused(path):
    first, second = read_conllu(path)
    for sentences, message in (
        ([second, first], "a.conllu, line 2: has the word 'a', the sentences 'c'; give those of the file"),
        ([first], "a.conllu, line 6: has the word 'c', the sentences None"),
        ([first, second, second], "a.conllu: has no word 'c' at its end; give its own sentences"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            list(copy_with_trees(path, sentences))


PLUS = "# global.columns = DEPREL HEAD FORM ID EXTRA\nold\t2\ta\t1\tM\nroot\t0\tb  c\t2\t_\n"


def test_declared_columns_are_those_that_are_written(tmp_path):
    name = tmp_path / "a.conllup"
    name.write_text(PLUS)
    (one,) = read_conllu(name)
    assert (one.forms, one.upos, one.heads.tolist(), one.relations) == (
        ("a", "b  c"),
        ("_", "_"),
        [1, -1],
        ("old", "root"),
    )
    other = one._replace(heads=np.array([-1, 0]), relations=None)
    assert "".join(copy_with_trees(name, [other])) == PLUS.replace("old\t2", "_\t0").replace("root\t0", "_\t1") + "\n"


@pytest.mark.parametrize(("column", "cell"), [("HEAD", "'2'"), ("DEPREL", "'old'")])
def test_a_column_that_is_not_declared_is_named_before_anything_is_written(tmp_path, column, cell):
    name = tmp_path / "a.conllup"
    name.write_text(PLUS)
    sentences = read_conllu(name)
    name.write_text(PLUS.replace(column, "OTHER"))
    with pytest.raises(
        InvalidInputError, match=f"line 2: has no column {column}, which {cell} belongs into; declare it"
    ):
        next(copy_with_trees(name, sentences))
