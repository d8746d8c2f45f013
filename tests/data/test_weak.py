"""Votes of weak sources in WRENCH's JSON."""

import gzip
import json
from pathlib import Path

import pytest

from spectrem.data import read_weak_items, read_weak_sentences
from spectrem.exceptions import InvalidInputError

PUBLIC = Path(__file__).parents[3] / "shared" / "data" / "weak"


def record(votes, text="hello", **more):
    return {"weak_labels": votes, "data": {"text": text}, **more}


@pytest.fixture
def write(tmp_path):
    def write(records, name="train.json"):
        path = tmp_path / name
        text = records if isinstance(records, str) else json.dumps(dict(enumerate(records)))
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_labels_are_numbers_unless_a_file_beside_names_them(write, ending):
    path = write([record([0, -1], label=1), record([1, 1], label=-1), record([-1, 0])], f"train.json{ending}")
    items = read_weak_items(path)
    assert items.votes.tolist() == [[0, -1], [1, 1], [-1, 0]]
    assert (items.labels, items.ids, items.texts) == ([1, None, None], ["0", "1", "2"], ["hello"] * 3)
    write(json.dumps({"0": "ham", "1": "spam"}), f"label.json{ending}")
    items = read_weak_items(path)
    assert items.votes.tolist() == [["ham", None], ["spam", "spam"], [None, "ham"]]
    assert items.labels == ["spam", None, None]


def test_tags_and_spans_are_read_alike(write):
    words = ["in", "New", "York", "Bob"]
    spans = record([[[1, 3, "LOC"]], [[3, 4, "PER"]]], words, label=[[1, 3, "LOC"], [3, 4, "PER"]])
    rows = [["O", "O"], ["B-LOC", "O"], ["I-LOC", "O"], ["O", "B-PER"]]
    tags = record(rows, words, label=["O", "B-LOC", "I-LOC", "B-PER"])
    read = read_weak_sentences(write([spans, tags, record([["O", None]], ["in"])]))
    assert [table.tolist() for table in read.votes] == [rows, rows, [["O", None]]]
    assert read.tags == [tags["label"], tags["label"], None]
    assert (read.words[0], read.sources) == (words, ["0", "1"])
    write(json.dumps({"lf": ["places", "people"]}), "meta.json")
    assert read_weak_sentences(write([spans])).sources == ["places", "people"]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ("{}", "holds no record; give at least one"),
        ("[1]", "holds a list, not a JSON object; write one object of records by their ids"),
        ("{", "is not JSON: "),
        ([3], "record '0': a record must be an object, found 3; correct it"),
        ([record(3)], "record '0': weak_labels must be a list, found 3"),
        ([{"weak_labels": [0], "data": 3}], "data must be an object, found 3"),
        (
            [record([0, 1]), record([0])],
            "record '1': weak_labels must be votes of 2 sources, as before, found '1 votes'",
        ),
        ([record(["ham"])], "a label must be a whole number, -1 for none, found 'ham'"),
        ([record([True])], "a label must be a whole number, -1 for none, found True"),
        ([record([-2])], "a label must be a whole number, -1 for none, found -2"),
        ([record([0], label=[])], "a label must be a whole number, -1 for none, found a list"),
        ([record([0]), record([0], ["a"])], "record '1': the text must be a text, found a list"),
        ([record([[]], ["a"])], "holds votes on the words of sentences, not on items; read_weak_sentences reads them"),
    ],
)
def test_records_of_items_that_cannot_be(write, records, message):
    path = write(records)
    with pytest.raises(InvalidInputError) as raised:
        read_weak_items(path)
    assert str(raised.value).startswith(str(path))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([record([0])], "holds votes on items, not on the words of sentences; read_weak_items reads them"),
        ([record([[]], [])], "the text must be a list of at least one word, found null"),
        ([record([[]], ["a", 3])], "the text must be a list of at least one word, found 3"),
        ([record([3], ["a"])], "an entry of weak_labels must be a list, found 3"),
        (
            [record([["O"], ["O"]], ["a"])],
            "weak_labels must be a list of tags, as many as there are sources, for each of 1",
        ),
        ([record([["O", 3]], ["a"])], "a vote must be a tag, or null, found 3"),
        ([record([[[0, 2, "X"]]], ["a"])], "which do not overlap, found '[0, 2, \"X\"]'"),
        ([record([[[0, 2, "X"], [1, 2, "Y"]]], ["a", "b"])], "which do not overlap, found '[1, 2, \"Y\"]'"),
        ([record([[[0, "X"]]], ["a"])], "must be a list of spans [start, stop, type] of 1 words"),
        ([record([[]], ["a"], label=["O", "O"])], "label must be a list of 1 tags, found '2 tags'"),
        ([record([[]], ["a"]), record([[], []], ["a"])], "record '1': weak_labels must be votes of 1 sources"),
    ],
)
def test_records_of_sentences_that_cannot_be(write, records, message):
    path = write(records)
    with pytest.raises(InvalidInputError) as raised:
        read_weak_sentences(path)
    assert str(raised.value).startswith(str(path))
    assert message in str(raised.value)


def test_labels_must_be_among_those_with_names(write):
    write('{"0": "ham"}', "label.json")
    with pytest.raises(InvalidInputError, match=r"a label must be one of those that label\.json names, 0, found 1"):
        read_weak_items(write([record([1])]))


@pytest.mark.parametrize(("name", "n", "n_sources"), [("youtube", 1686, 10), ("sms", 4571, 73), ("trec", 5033, 68)])
def test_public_items(name, n, n_sources):
    if not PUBLIC.is_dir():
        pytest.skip("needs the public data in shared/")
    items = read_weak_items(PUBLIC / name / "train.json.gz")
    assert items.votes.shape == (n, n_sources)
    assert set(items.labels) == set(
        json.loads(gzip.decompress((PUBLIC / name / "label.json.gz").read_bytes())).values()
    )


@pytest.mark.parametrize(
    ("name", "n", "source"), [("wikigold", 170, "BTC"), ("NCBI-Disease", 99, "tag-CoreDictionaryUncased")]
)
def test_public_sentences(name, n, source):
    if not PUBLIC.is_dir():
        pytest.skip("needs the public data in shared/")
    read = read_weak_sentences(PUBLIC / name / "test.json.gz")
    assert (len(read.votes), read.sources[0]) == (n, source)
    assert all(
        len(table) == len(tags) == len(words)
        for table, tags, words in zip(read.votes, read.tags, read.words, strict=True)
    )
