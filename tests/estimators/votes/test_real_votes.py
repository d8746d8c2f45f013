"""Public crowds, rules and taggers of spans: the default settings stay well above majority vote."""

import gzip
import json

import numpy as np
import polars as pl
import pytest

from spectrem import LabelModel, SequenceLabelModel


@pytest.mark.parametrize(("name", "least"), [("bluebird", 0.889), ("rte", 0.928), ("dog", 0.84), ("trec", 0.704)])
def test_crowds(name, least, shared):
    folder = shared / "data" / "weak" / f"crowd-{name}"
    votes = pl.read_csv(folder / "label.csv.gz", new_columns=["item", "source", "label"], infer_schema_length=0)
    truth = dict(pl.read_csv(folder / "truth.csv.gz", infer_schema_length=0).rows())
    model = LabelModel(n_threads=1).fit(votes)
    assert model.kind_ == "answers"
    assert model.score(votes, [truth.get(item) for item in model.items_.tolist()]) >= least


@pytest.mark.parametrize(("name", "least"), [("youtube", 0.84), ("trec", 0.54)])
def test_rules_on_validation_parts(name, least, shared):
    """Of labelling functions; majority vote has .817 and .506 there."""
    parts = {}
    for part in ("train", "valid"):
        rows = json.loads(gzip.decompress((shared / "data" / "weak" / name / f"{part}.json.gz").read_bytes())).values()
        parts[part] = np.array([row["weak_labels"] for row in rows]), np.array([row["label"] for row in rows])
    for n_steps in (2, 15, 100):
        model = LabelModel(n_threads=1, max_iter=n_steps, tol=0.0).fit(parts["train"][0])
        assert model.kind_ == "rules"
        assert model.score(*parts["valid"]) >= least


def spans_of(shared, name, name_of_part):
    """Words, votes and tags of the sentences of a part."""
    folder = shared / "data" / "weak" / name
    rows = json.loads(gzip.decompress((folder / f"{name_of_part}.json.gz").read_bytes()))
    rows = [rows[key] for key in sorted(rows, key=int) if rows[key]["data"]["text"]]
    words = [row["data"]["text"] for row in rows]
    if isinstance(rows[0]["label"][0], str):  # tags of tokens in place of spans
        return words, [row["weak_labels"] for row in rows], [row["label"] for row in rows]
    gold = [["O"] * len(sentence) for sentence in words]
    for tags, row in zip(gold, rows, strict=True):
        for start, stop, kind in row["label"]:
            tags[start:stop] = [f"{'B' if token == start else 'I'}-{kind}" for token in range(start, stop)]
    return words, [dict(enumerate(row["weak_labels"])) for row in rows], gold


@pytest.mark.parametrize(("name", "least"), [("wikigold", 0.57), ("LaptopReview", 0.725), ("NCBI-Disease", 0.77)])
def test_spans(name, least, shared):
    """F1 of spans of test parts after 2, 5 and 15 iterations; the better of two majority votes has .550, .722, .756."""
    words, votes, _ = spans_of(shared, name, "train")
    new = spans_of(shared, name, "test")
    scores = [SequenceLabelModel(n_threads=1, max_iter=n).fit(words, votes).score(*new) for n in (2, 5, 15)]
    assert min(scores) >= least
    assert max(scores) - min(scores) < 0.01
