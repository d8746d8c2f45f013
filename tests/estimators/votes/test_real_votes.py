"""Public crowds and rules: the default settings stay well above majority vote."""

import gzip
import json

import numpy as np
import polars as pl
import pytest

from spectrem import LabelModel


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
