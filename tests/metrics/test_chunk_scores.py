"""Chunk scores against conlleval's own state machine, and against cases made by hand."""

import math
import random

import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.metrics import Chunk, chunk_scores, find_chunks


def ends(before, tag, type_before, kind):
    """Conlleval's rule for the end of a chunk between two tags, with those for E and S."""
    return (
        before in ("E", "S")
        or (before in ("B", "I") and tag in ("B", "S", "O"))
        or (before not in ("O", ".") and type_before != kind)
    )


def starts(before, tag, type_before, kind):
    """Conlleval's rule for the start of a chunk."""
    return (
        tag in ("B", "S")
        or (before in ("E", "S", "O") and tag in ("E", "I"))
        or (tag not in ("O", ".") and type_before != kind)
    )


def counts_of_conlleval(predicted, gold):
    """Correct, predicted and gold chunks by type: one pass over all tokens, O between sentences."""
    correct, guessed, true = {}, {}, {}
    inside, before = False, (("O", ""), ("O", ""))
    for sentence in zip(predicted, gold, strict=True):
        for pair in [*zip(*sentence, strict=True), ("O", "O")]:
            now = tuple((tag.partition("-")[0], tag.partition("-")[2]) for tag in pair)
            end = [ends(b[0], n[0], b[1], n[1]) for b, n in zip(before, now, strict=True)]
            start = [starts(b[0], n[0], b[1], n[1]) for b, n in zip(before, now, strict=True)]
            if inside and end[0] and end[1] and before[0][1] == before[1][1]:
                inside = False
                correct[before[1][1]] = correct.get(before[1][1], 0) + 1
            elif inside and (end[0] != end[1] or now[0][1] != now[1][1]):
                inside = False
            if start[0] and start[1] and now[0][1] == now[1][1]:
                inside = True
            for found, begun, tag in zip((guessed, true), start, now, strict=True):
                if begun:
                    found[tag[1]] = found.get(tag[1], 0) + 1
            before = now
    return correct, guessed, true


@pytest.mark.parametrize("letters", ["BIO", "IO", "BIOES", "BIES"])
@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_conlleval(letters, seed):
    rng = random.Random(seed)
    tags = ["O" if letter == "O" else f"{letter}-{kind}" for letter in letters for kind in ("NP", "VP")]
    texts = [[[rng.choice(tags) for _ in range(size)] for size in (0, 1, 2, 5, 30)] for _ in range(2)]
    texts[0] = [
        [t if rng.random() < 0.6 else g for g, t in zip(*pair, strict=True)] for pair in zip(*texts, strict=True)
    ]
    found = chunk_scores(*texts)
    correct, guessed, true = counts_of_conlleval(*texts)
    for name, expected in (("n_correct", correct), ("n_predicted", guessed), ("n_gold", true)):
        assert getattr(found, name) == sum(expected.values())
        assert {k: getattr(v, name) for k, v in found.by_type.items() if getattr(v, name)} == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-NP I-NP O", [("NP", 0, 2)]),
        ("B-NP B-NP", [("NP", 0, 1), ("NP", 1, 2)]),
        ("I-NP I-NP B-NP I-NP", [("NP", 0, 2), ("NP", 2, 4)]),  # IOB1
        ("O I-NP I-VP", [("NP", 1, 2), ("VP", 2, 3)]),
        ("B-NP I-VP I-NP", [("NP", 0, 1), ("VP", 1, 2), ("NP", 2, 3)]),
        ("S-NP S-NP B-VP E-VP O", [("NP", 0, 1), ("NP", 1, 2), ("VP", 2, 4)]),
        ("B-VP E-VP I-VP", [("VP", 0, 2), ("VP", 2, 3)]),
        ("S-NP I-NP", [("NP", 0, 1), ("NP", 1, 2)]),
        ("B I O I", [("", 0, 2), ("", 3, 4)]),
        ("B-A-B I-A-B", [("A-B", 0, 2)]),
    ],
)
def test_chunks_by_hand(tags, expected):
    assert find_chunks(tags.split()) == [Chunk(*chunk) for chunk in expected]


def test_scores_by_hand():
    gold = [["B-NP", "I-NP", "O"], ["B-NP", "B-VP"], ["I-NP"]]
    predicted = [["B-NP", "I-NP", "B-PP"], ["B-NP", "I-NP"], ["B-NP"]]
    found = chunk_scores(predicted, gold)
    assert (found.n_correct, found.n_predicted, found.n_gold) == (2, 4, 4)
    assert (found.precision, found.recall, found.f1) == (0.5, 0.5, 0.5)
    assert found.accuracy == 3 / 6
    assert found.by_type["NP"].f1 == 2 * 2 / 6
    assert math.isnan(found.by_type["PP"].recall)
    assert found.by_type["PP"].precision == 0.0
    assert math.isnan(found.by_type["VP"].precision)


def test_chunks_end_with_their_sentence():
    found = chunk_scores([["B-NP"], ["I-NP"]], [["B-NP"], ["I-NP"]])
    assert found.n_correct == 2


def test_nothing_to_count():
    found = chunk_scores([[]], [[]])
    assert math.isnan(found.f1)
    assert math.isnan(found.accuracy)


@pytest.mark.parametrize(
    ("predicted", "gold", "message"),
    [
        ([["O"]], [["O", "O"]], "must have a tag for the same tokens, got 1 and 2 in sentence 0"),
        ([["O"]], [["O"], ["O"]], "predicted"),
        (["O O"], ["O O"], "predicted must hold the tags of every sentence in a sequence of its own, got text"),
        ([[None]], [["O"]], "tags of chunks must be text such as B-NP, got None at token 0"),
    ],
)
def test_bad_input(predicted, gold, message):
    with pytest.raises(InvalidInputError, match=message):
        chunk_scores(predicted, gold)
