"""Posterior regularisation beside its relatives: tasks, choices and the command, on generated data."""

import gzip

import numpy as np
import pytest

from reproductions.relatives.ge_compare import Fit, choose
from reproductions.relatives.tasks import GOOD, POOR, chunk_task, presence_of, read_chunks, review_task
from reproductions.views.sentiment import read_reviews
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Expectations

PATTERNS = [
    [("the", "DT", "B-NP"), ("old", "JJ", "I-NP"), ("dog", "NN", "I-NP"), ("sees", "VBZ", "B-VP"), (".", ".", "O")],
    [("Ann", "NNP", "B-NP"), ("eats", "VBZ", "B-VP"), ("red", "JJ", "B-NP"), ("plums", "NNS", "I-NP"), (".", ".", "O")],
    [
        ("he", "PRP", "B-NP"),
        ("runs", "VBZ", "B-VP"),
        ("in", "IN", "B-PP"),
        ("the", "DT", "B-NP"),
        ("rain", "NN", "I-NP"),
    ],
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("relatives"), np.random.default_rng(0)
    for domain in ("kitchen", "books"):
        (root / "sentiment" / domain).mkdir(parents=True)
        for name, own, other in (("positive", GOOD, POOR), ("negative", POOR, GOOD)):
            lines = []
            for _ in range(1000):
                words = {rng.choice(own if rng.random() < 0.8 else other), *(f"w{k}" for k in rng.integers(0, 300, 6))}
                words.add(f"{name}_{rng.integers(0, 20)}")
                lines.append(" ".join(f"{word}:1" for word in sorted(words)) + f" #label#:{name}\n")
            (root / "sentiment" / domain / f"{name}.review.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (root / "chunk").mkdir()
    for name, size in (("train", 400), ("test", 60)):
        drawn = (PATTERNS[k] for k in rng.integers(0, 3, size))
        text = "\n\n".join("\n".join(" ".join(token) for token in one) for one in drawn)
        (root / "chunk" / f"conll2000-{name}.txt.gz").write_bytes(gzip.compress(text.encode()))
    return root


def test_reviews_are_what_they_were_written_as(data):
    reviews = presence_of(read_reviews(data, ["kitchen"])["kitchen"])
    assert reviews.matrix.shape == (2000, len(reviews.vocabulary))
    assert reviews.positive.sum() == 1000
    assert not any(word.startswith("#") for word in reviews.vocabulary)
    told = reviews.matrix[:, [reviews.vocabulary["positive_3"]]].toarray().ravel() > 0
    assert (reviews.positive[told] == 1).all()


def test_rules_are_about_what_has_no_label(data):
    task = review_task(presence_of(read_reviews(data, ["kitchen"])["kitchen"]), 40, 1000, (0, 0))
    assert (task.y >= 0).sum() == 40
    assert not any(column[:40].any() for column in task.columns.values())
    assert [rule.size for rule in task.rules[:20]] == [column.sum() for column in task.columns.values()]
    assert len(task.rules) == 22
    model = task.make(constraints=[r.constraint for r in task.rules], criterion=Expectations(1.0, "divergence"))
    assert task.score(model.fit(task.X, task.y, columns=task.columns)) > 75


def test_sentences_have_kinds_and_tags_of_noun_phrases_only(data):
    train, test = read_chunks(data)
    assert (len(train), len(test)) == (400, 60)
    first = next(one for one in train if one.tokens[0][0] == "the")
    assert first.tags == ["B-NP", "I-NP", "I-NP", "O", "O"]
    assert first.kinds == ["determiner", "noun within", "noun within", "between", "between"]
    oracle = chunk_task(train[:40], 10, test, words=3)
    assert len(oracle.rules) == 6
    assert sum(tags is not None for tags in oracle.y) == 10
    model = oracle.make(constraints=[rule.constraint for rule in oracle.rules])
    fitted = model.fit(oracle.X, oracle.y, columns=oracle.columns)
    assert fitted.history_[-1].violation < 1e-2
    assert oracle.score(fitted) > 95


def test_the_best_mean_over_all_numbers_of_labels_is_chosen():
    def fit(strength, score, labelled, draw=-1):
        return Fit("reviews", "kitchen", labelled, draw, "PR", strength, 1, score, 1.0, 1, 0.0)

    fits = [fit(0.1, 70, 0), fit(0.1, 80, 40), fit(1.0, 90, 0), fit(1.0, 50, 40), fit(10.0, 99, 0, draw=0)]
    assert choose(fits) == {"reviews": {"PR": 0.1}}


def test_the_command(reproduce, data):
    printed, rows = reproduce("ge-compare", None, "--data", str(data))
    assert {row["method"] for row in rows} >= {"PR", "measurements", "GE, squares", "GE, divergence"}
    assert "Chosen for reviews, accuracy: PR " in printed
    assert "one training, median" in printed.lower()


def test_a_missing_corpus_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="kitchen/negative"):
        read_reviews(tmp_path, ["kitchen"])
