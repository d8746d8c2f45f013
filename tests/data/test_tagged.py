import gzip
import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrem.data import TaggedCorpus, read_sentences, read_tagged, write_tagged
from spectrem.exceptions import InvalidInputError


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


CONLLU = """# sent_id = 1
# text = Vámonos al mar .
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tvmm\t_\t0\troot\t_\t_
2\tnos\tyo\tPRON\t_\t_\t1\tobj\t_\t_
3\ta\ta\tADP\tin\t_\t5\tcase\t_\tSpaceAfter=No
4\tmar\tmar\t_\tnn\t_\t1\tobl\t_\t_
4.1\tdicho\t_\tVERB\tvb\t_\t_\t_\t_\t_

1\t# #\t#\tSYM\t#\t_\t0\troot\t_\t_
"""
CONLLU_WORDS = [["Vamos", "nos", "a", "mar"], ["# #"]]


def test_slashes(write):
    corpus = read_tagged(write("a", "The/DT 1/2/CD //SYM\n\n  it/_  a\\/b/JJ \n"))
    assert corpus == TaggedCorpus([["The", "1/2", "/"], [], ["it", "a\\/b"]], [["DT", "CD", "SYM"], [], [None, "JJ"]])


def test_names_before_slashes_are_left_out(write):
    corpus = read_tagged(write("a.gz", gzip.compress(b"wsj/0001 x\tThe/DT cat/NN\r\n\ta/b/NN\r\nempty\t\r\n")))
    assert corpus == TaggedCorpus([["The", "cat"], ["a/b"], []], [["DT", "NN"], ["NN"], []])


@pytest.mark.parametrize("separator", ["\t", " ", "   "])
def test_columns(write, separator):
    text = "\n\nThe DT B\ncat _ I\n \n\nIt PRP B\n\n".replace(" ", separator)
    expected = [["The", "cat"], ["It"]]
    assert read_tagged(write("a", text)) == TaggedCorpus(expected, [["DT", None], ["PRP"]])
    assert read_tagged(write("a", text), columns=(0, -1)) == TaggedCorpus(expected, [["B", "I"], ["B"]])
    assert read_tagged(write("a", text), "columns", columns=(2, 1)).words == [["B", "I"], ["B"]]


def test_probabilities_of_tags_are_read_where_they_are_asked_for(write):
    path = write("a", "1/2\tB-A:b:0.75\tO:0.15\nin\tO:1\n\n\nAda\tI/X:9e-05\n")
    corpus = read_tagged(path, soft=True)
    assert corpus.words == [["1/2", "in"], ["Ada"]]
    assert corpus.tags == [[{"B-A:b": pytest.approx(5 / 6), "O": pytest.approx(1 / 6)}, {"O": 1.0}], [{"I/X": 1.0}]]
    assert corpus.place(1) == "line 5"
    with pytest.raises(InvalidInputError, match=r"a, line 2: has 2 columns, but line 1 has 3"):
        read_tagged(path)
    other = write("b", "Ada\tPERSON:1\nran\tV:x\n")
    assert read_tagged(other, soft=True).tags == [["PERSON:1", "V:x"]]  # tags that look like probabilities
    assert read_tagged(write("c", "\n\n"), soft=True) == read_tagged(write("c", "\n\n"))


@pytest.mark.parametrize("line", ["Ada\tO:0.7\tB:0.4", "Ada", "\tO:1", "Ada\tO:0", "Ada\tO:0.5\tO:0.5", "Ada\tO"])
def test_other_lines_than_probabilities_are_named(write, line):
    with pytest.raises(
        InvalidInputError, match=r"a, line 3: must have a word and its tags with their probabilities, whi"
    ):
        read_tagged(write("a", f"in\tO:1\n\n{line}\n"), soft=True)


def test_columns_between_tabs_may_hold_spaces(write):
    corpus = read_tagged(write("a", "10 000\tNUM\n#\t#\n\xa0\tSYM\n"))
    assert corpus == TaggedCorpus([["10 000", "#", "\xa0"]], [["NUM", "#", "SYM"]])


@pytest.mark.parametrize("name", ["a.conllu", "a.conllu.gz", "a.txt"])
def test_conllu(write, name):
    path = write(name, gzip.compress(CONLLU.encode()) if name.endswith("gz") else CONLLU)
    assert read_tagged(path) == TaggedCorpus(CONLLU_WORDS, [["VERB", "PRON", "ADP", None], ["SYM"]])
    assert read_tagged(path, field="xpos") == TaggedCorpus(CONLLU_WORDS, [["vmm", None, "in", "nn"], ["#"]])
    assert read_sentences(path) == CONLLU_WORDS


def test_the_name_tells_conllu(write):
    text = "# text = a\n1\ta\t_\tX" + "\t_" * 6 + "\n"
    assert read_tagged(write("a.conllu.gz", gzip.compress(text.encode()))) == TaggedCorpus([["a"]], [["X"]])


def test_conllu_as_written(tmp_path):
    write_tagged(tmp_path / "a", [["the", "cat"]], [["DT", None]], "conllu", field="xpos")
    rest = "\t_" * 5
    assert (tmp_path / "a").read_text() == f"1\tthe\t_\t_\tDT{rest}\n2\tcat\t_\t_\t_{rest}\n\n"


def test_conllu_plus(write):
    text = "# global.columns = ID UPOS FORM\n1\tDET\tthe\n\n1\tNOUN\tcat\n"
    assert read_tagged(write("a", text)) == TaggedCorpus([["the"], ["cat"]], [["DET"], ["NOUN"]])
    # the number need not stand first, and spaces are no borders of cells
    text = "#global.columns=UPOS FORM ID\nNOUN\tmar  del sur\t1\n\n\nDET\tthe\t1\n"
    assert read_sentences(write("a", text)) == [["mar  del sur"], ["the"]]
    assert read_tagged(write("a", text)).place(1) == "line 5"


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the/DT\n")))
    assert read_tagged("-") == TaggedCorpus([["the"]], [["DT"]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the  cat\tsat\n\nwell\r\n", None),
        ("and/or the 1/2\n", [["and/or", "the", "1/2"]]),
        ("the/DT cat/NN\n", [["the", "cat"]]),
        ("name\tthe/DT\n", [["the"]]),
        ("the\tDT\ncat\tNN\n", [["the", "cat"]]),
        ("the cat\n\u2028 x\n", [["the", "cat"], ["\u2028", "x"]]),
    ],
)
def test_sentences_of_any_format(write, text, expected):
    if expected is None:
        assert read_sentences(write("a", text), "text") == [["the", "cat", "sat"], [], ["well"]]
    else:
        assert read_sentences(write("a", text)) == expected


def test_sentences_of_columns_need_no_tags(write):
    assert read_sentences(write("a", "x y\nz w\n"), "columns", column=1) == [["y", "w"]]
    assert read_sentences(write("a", "x\n\ny\n"), "columns") == [["x"], ["y"]]


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" /"), min_size=1, max_size=3)
WORDS = NAMES | st.sampled_from(["a/b", "/", "//", "#", "_", "1/2"])
TAGS = st.none() | NAMES.filter(lambda tag: tag != "_")


@given(st.lists(st.lists(st.tuples(WORDS, TAGS), max_size=4), min_size=1, max_size=4))
@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_what_is_written_is_read_again(tmp_path_factory, name, sentences):
    path = tmp_path_factory.mktemp("written") / name
    words, tags = ([[pair[k] for pair in sentence] for sentence in sentences] for k in (0, 1))
    write_tagged(path, words, tags)
    assert read_tagged(path, "slash") == TaggedCorpus(words, tags)
    full = [k for k, sentence in enumerate(words) if sentence]
    if full:
        words, tags = ([side[k] for k in full] for side in (words, tags))
        for format in ("columns", "conllu"):
            write_tagged(path, words, tags, format)
            assert read_tagged(path, format) == TaggedCorpus(words, tags)
        write_tagged(path, words, tags, "conllu", field="xpos")
        assert read_tagged(path, "conllu", field="xpos") == TaggedCorpus(words, tags)


def test_streams_are_left_open():
    stream = io.StringIO()
    write_tagged(stream, [["a b", "c"]], [["X", None]], "columns")
    assert stream.getvalue() == "a b\tX\nc\t_\n\n"


def test_dictionary_of_a_corpus():
    corpus = TaggedCorpus([["run", "the", "run"], ["run", "so"]], [["VB", "DT", "NN"], ["NN", None]])
    assert corpus.dictionary() == {"run": ("NN", "VB"), "the": ("DT",)}


@pytest.mark.parametrize(
    ("text", "format", "message"),
    [
        ("a/X\n\nb/X c\n", "auto", "line 3: 'c' has no tag; write word/TAG, or word/_ if it is missing"),
        ("a/X b/X c\n", "auto", "line 1: 'c' has no tag; write word/TAG, or word/_ if it is missing"),
        ("a/X b/\n", "slash", "line 1: 'b/' has no tag; write word/TAG, or word/_ without a tag"),
        ("a/X /Y\n", "slash", "line 1: '/Y' has no word; write word/TAG, or word/_ without a tag"),
        ("n\ta/X\tb/Y\n", "slash", "line 1: has several tabs; write words with spaces between, at most one tab"),
        (
            "the cat\nand so it goes\n",
            "auto",
            "line 2: has 4 columns, but line 1 has 2; columns are separated by spaces here; repair the line or name",
        ),
        ("a\tX\n\nb\n", "auto", "line 3: has 1 columns, but line 1 has 2; columns are separated by tabs here; repair"),
        ("a\tX\nb\t\n", "auto", "line 2: has no tag in 'b\\t'; write _ for a missing tag"),
        ("a\tX\n\tX\n", "auto", "line 2: has no word in '\\tX'; write _ for a missing tag"),
        ("word\n", "columns", "line 1: has 1 column, but column 1 was asked for; columns count from 0 and end at tabs"),
        (
            "1\ta\t_\tX\t_\t_\t_\t_\t_\t_\nb\n",
            "conllu",
            "line 2: must have the 10 columns ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC with tabs between, "
            "but has 1; if it is text, `spectrem tag predict --output-format conllu` tags it and writes CoNLL-U",
        ),
        ("x\ta" + "\t_" * 8, "conllu", "line 1: is not a line of CoNLL-U: 'x' is not a valid ID; number"),
        ("1\ta" + "\t_" * 7, "auto", "line 1: must have the 10 columns ID FORM"),
        ("1\ta" + "\t_" * 9, "auto", "line 1: must have the 10 columns ID FORM"),
        ("1\ta" + "\t_" * 7, "conllu", "line 1: must have the 10 columns ID FORM"),
        ("1-2\ta" + "\t_" * 9, "conllu", "line 1: must have the 10 columns ID FORM"),
        ("_\ta" + "\t_" * 8, "conllu", "line 1: must have a number, a form and upos, but is '_\\ta"),
        ("# global.columns = ID FORM\n1\ta\n", "auto", "line 2: must have a number, a form and upos, but is '1\\ta'"),
        ("# global.columns = ID FORM\n1\ta\tX\n", "auto", "line 2: must have the 2 columns ID FORM with tabs between"),
        (
            "# global.columns = FORM UPOS\na\tX\n",
            "auto",
            "line 1: must declare columns, ID and FORM among them, each once, but declares 'FORM UPOS'",
        ),
        ("#global.columns=ID FORM ID\n1\ta\t1\n", "auto", "line 1: must declare columns, ID and FORM among them, each"),
        (b"a/X\n\xe9/X\n", "auto", "line 2: byte 1 of the line (0xe9) is not UTF-8; convert the text"),
    ],
)
def test_broken_lines_are_named(write, text, format, message):
    path = write("tagged.txt", text)
    with pytest.raises(InvalidInputError, match=f"^{re.escape(f'{path}, {message}')}"):
        read_tagged(path, format)


def test_missing_and_empty_files(write, tmp_path):
    with pytest.raises(InvalidInputError, match=re.escape(f"{tmp_path / 'none'}: no such file; check the path")):
        read_tagged(tmp_path / "none")
    path = write("empty", "")
    with pytest.raises(InvalidInputError, match=re.escape(f"{path} is empty; give a file of at least one line")):
        read_sentences(path)


def test_options_that_make_no_sense(write):
    path = write("a", "a/X\n")
    with pytest.raises(InvalidInputError, match=r"^format must be one of auto, slash, columns, conllu, got 'text'$"):
        read_tagged(path, "text")
    with pytest.raises(InvalidInputError, match=r"^format must be one of auto, text, slash, columns, conllu, got 'x'$"):
        read_sentences(path, "x")
    with pytest.raises(InvalidInputError, match=r"^format must be one of slash, columns, conllu, got 'auto'$"):
        write_tagged(path, [], [], "auto")
    with pytest.raises(InvalidInputError, match=r"^field must be upos or xpos, got 'lemma'; these are the two tags"):
        read_tagged(path, field="lemma")


@pytest.mark.parametrize(
    ("words", "tags", "format", "message"),
    [
        ([["a"], ["b"]], [["X"]], "slash", "words and tags must have as many sentences as each other, but one ends"),
        ([["a"], ["b"]], [["X"], []], "slash", "sentence 1 must have a tag per word, but has 1 words and 0 tags"),
        ([["a b"]], [["X"]], "slash", "sentence 0: the word 'a b' cannot be written; here a word is a str, not empty"),
        ([["a"]], [["X/Y"]], "slash", "sentence 0: the tag 'X/Y' cannot be written; here a tag is a str, not empty"),
        ([["a\tb"]], [["X"]], "columns", "sentence 0: the word 'a\\tb' cannot be written"),
        ([["a"]], [["X\n"]], "columns", "sentence 0: the tag 'X\\n' cannot be written"),
        ([["a"], [""]], [["X"], ["X"]], "conllu", "sentence 1: the word '' cannot be written"),
        ([["a"]], [[3]], "slash", "sentence 0: the tag 3 cannot be written; here a tag is a str"),
        ([["a"]], [["_"]], "conllu", "sentence 0: the tag '_' would be read as missing; rename it, or give None"),
        ([["a"], []], [["X"], []], "columns", "sentence 1 is empty, which the format columns cannot say; drop it"),
        ([[]], [[]], "conllu", "sentence 0 is empty, which the format conllu cannot say; drop it"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, words, tags, format, message):
    with pytest.raises(InvalidInputError, match=f"^{re.escape(message)}"):
        write_tagged(tmp_path / "out", words, tags, format)
    assert list(tmp_path.iterdir()) == []


def test_public_corpora(shared):
    """Sizes as their SOURCES.md has them."""
    data = shared / "data"
    penn = read_tagged(data / "tag" / "wsj_sample.pos.gz")
    assert (len(penn.words), sum(map(len, penn.words))) == (3_914, 94_084)
    assert penn.words[0][:3] == ["Pierre", "Vinken", ","]
    assert {"1\\/2", "%", "$"} <= {word for sentence in penn.words for word in sentence}
    for name, columns, n_sentences, tag in (
        ("ud/en_ewt-ud-dev", (0, 2), 2_001, "NNP"),
        ("ud/pt_bosque-ud-dev", (0, 1), 1_172, "PROPN"),
    ):
        corpus = read_tagged(data / f"{name}.tsv.gz", columns=columns)
        assert len(corpus.words) == n_sentences
        assert any(tag in tags for tags in corpus.tags)
    assert len(read_tagged(data / "chunk" / "conll2000-test.txt.gz").words) == 2_012
