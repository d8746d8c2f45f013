"""Sentences with mentions and relations, and their files."""

import gzip

import pytest

from spectrem.data import RelationSentence, read_relations, write_relations
from spectrem.exceptions import InvalidInputError

LINES = [
    "7\tO\t0\tO\tIN\tIn\tO\tO\tO",
    "7\tLoc\t1\tO\tNNP/,/NNP\tMemphis/COMMA/Tenn.\tO\tO\tO",
    "7\t_\t2\tO\tNNP\tNEAR/EAST\tO\tO\tO",
    "7\tO\t3\tO\tCD\t1/2\tO\tO\tO",
    "",
    "2\t1\tLocated_In",
    "1\t2\t_",
    "",
    "8\tPeop\t0\tO\tNNP\tRay\tO\tO\tO",
    "",
]
SENTENCES = [
    RelationSentence(
        ["In", "Memphis", ",", "Tenn.", "NEAR/EAST", "1/2"],
        [(1, 4), (4, 5)],
        ["Loc", None],
        {(1, 0): "Located_In", (0, 1): None},
        ["IN", "NNP", ",", "NNP", "NNP", "CD"],
        "7",
    ),
    RelationSentence(["Ray"], [(0, 1)], ["Peop"], {}, ["NNP"], "8"),
]


@pytest.fixture
def read(tmp_path):
    def read(lines):
        (tmp_path / "a.corp").write_bytes("".join(f"{line}\n" for line in lines).encode())
        return read_relations(tmp_path / "a.corp")

    return read


def test_files_are_read_and_written(read, tmp_path):
    assert read(LINES) == SENTENCES
    write_relations(tmp_path / "b.corp.gz", SENTENCES)
    assert read_relations(tmp_path / "b.corp.gz") == SENTENCES
    text = gzip.decompress((tmp_path / "b.corp.gz").read_bytes()).decode()
    assert text.splitlines()[4:7] == ["", "1\t2\t_", "2\t1\tLocated_In"]


def test_sentences_without_labels_are_written(tmp_path):
    bare = RelationSentence(["Ray", "ran"], [(0, 1)])
    write_relations(tmp_path / "b", [bare])
    [again] = read_relations(tmp_path / "b")
    assert (again.types, again.relations, again.tags, again.name) == ((None,), {}, ("_", "_"), "0")
    assert SENTENCES[0].unlabelled().relations is None
    assert SENTENCES[0].unlabelled().types == (None, None)


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (
            1,
            "7\tLoc\t1\tO\tNNP",
            "line 2: has 5 columns; a word has 9, a relation, which stands behind a blank line, 3",
        ),
        (1, "7\tLoc\t1\tO\tNNP\t\tO\tO\tO", "line 2: has no word"),
        (1, "9\tLoc\t1\tO\tNNP\tRome\tO\tO\tO", "line 2: is of sentence '9' in sentence '7'"),
        (6, "7\tLoc\t1\tO\tNNP\tRome\tO\tO\tO", "line 7: has 9 columns among relations, which have 3"),
        (
            5,
            "0\t1\tKill",
            "line 6: has a relation between '0' and '1', which must be the lines, from 0, of two mentions",
        ),
        (5, "x\t1\tKill", "line 6: has a relation between 'x' and '1'"),
        (5, "1\t1\tKill", "line 6: has a relation between '1' and '1'"),
        (5, "1\t2\tKill", "line 7: repeats a pair"),
        (5, "1\t2\t", "line 6: has no relation"),
        (7, "\n1\t2\tKill", "line 9: has a relation that stands behind no sentence"),
    ],
)
def test_damaged_lines_are_named(read, number, line, message):
    with pytest.raises(InvalidInputError, match=r"a\.corp, line") as error:
        read([*LINES[:number], line, *LINES[number + 1 :]])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mentions": [(0, 0)]}, r"mentions must be \(start, stop\) with 0 <= start < stop <= 2"),
        ({"mentions": [(0, 3)]}, "the number of words, got"),
        ({"types": ["Peop"]}, "types must be one per mention, got 1 for 2"),
        ({"tags": ["NN"]}, "tags must be one per word, got 1 for 2"),
        ({"relations": {(0, 0): "Kill"}}, "relations must be between two of 2 mentions, got"),
        ({"relations": {(0, 2): "Kill"}}, "count mentions from 0"),
        ({"words": None}, "words must be a sequence of texts, got None"),
        ({"words": [1, 2]}, "words must be a sequence of texts, got 1"),
        ({"words": "ab"}, "words must be a sequence of texts, got 'ab'"),
        ({"mentions": None}, "mentions must be pairs of whole numbers, got None"),
        ({"mentions": [(0, 1, 2)]}, "mentions must be pairs of whole numbers, got"),
        ({"mentions": [("x", 1)]}, "mentions must be pairs of whole numbers, got"),
        ({"types": ["Peop", 3]}, "types must be a sequence of texts, got 3"),
        ({"types": "ab"}, "types must be a sequence of texts, got 'ab'"),
        ({"tags": ["NN", None]}, "tags must be a sequence of texts, got None"),
        ({"tags": 3}, "tags must be a sequence of texts, got 3"),
        ({"relations": [(0, 1)]}, "relations must map pairs of mentions to relations, got"),
        ({"relations": {0: "Kill"}}, "relations must be pairs of whole numbers, got"),
        ({"relations": {(0, 1): 3}}, "relations must be a sequence of texts, got 3"),
    ],
)
def test_sentences_that_do_not_fit_are_refused(arguments, message):
    given = {"words": ["Ray", "King"], "mentions": [(0, 1), (1, 2)], **arguments}
    with pytest.raises(InvalidInputError, match=message):
        RelationSentence(**given)


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (RelationSentence(["a", "b"], [(0, 2), (1, 2)]), "mentions must not overlap"),
        (RelationSentence(["a/b", "c"], [(0, 2)]), "words of a mention of several must not hold slashes"),
        (RelationSentence(["a\tb"], []), "the word 'a.tb' cannot be written"),
    ],
)
def test_what_cannot_be_written_is_refused(sentence, message, tmp_path):
    with pytest.raises(InvalidInputError, match=message):
        write_relations(tmp_path / "a", [sentence])
    assert not (tmp_path / "a").exists()


def test_conll04(shared):
    sentences = read_relations(shared / "data" / "relations" / "conll04.corp.gz")
    related = [one for one in sentences if one.relations]
    assert (len(sentences), len(related), len({one.words for one in related})) == (5516, 1441, 1388)
    assert sum(len(one.mentions) for one in sentences) == 14_177
    assert sum(len(one.relations) for one in sentences) == 2048
    rules = {"Kill": "Peop Peop", "Live_In": "Peop Loc", "Located_In": "Loc Loc", "OrgBased_In": "Org Loc"}
    rules["Work_For"] = "Peop Org"
    for one in related:
        for pair, relation in one.relations.items():
            assert " ".join(one.types[argument] for argument in pair) == rules[relation]
