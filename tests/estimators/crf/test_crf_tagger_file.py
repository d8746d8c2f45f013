"""Saved conditional random fields."""

import io
import json

import numpy as np
import pytest

from spectrem import CRFTagger
from spectrem.exceptions import InvalidInputError

X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
Y = [["DT", "NN", "VB"], ["DT", "NN", "VB"], ["DT", "NN", "VB"]]


@pytest.mark.parametrize(
    "options",
    [{}, {"pairs": "all"}, {"edge_features": "suffix="}, {"decode": "posterior", "C": 0.5, "tags": ["VB", "NN", "DT"]}],
)
def test_a_saved_tagger_predicts_the_same(tmp_path, options):
    tagger = CRFTagger("words", n_threads=1, **options).fit(X, Y)
    tagger.save(tmp_path / "model.npz")
    again = CRFTagger.load(tmp_path / "model.npz")
    new = [["a", "dog", "sleeps", "loudly"], []]
    assert again.predict(new) == tagger.predict(new)
    for one, other in zip(again.predict_proba(new), tagger.predict_proba(new), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.n_best(new, 3) == tagger.n_best(new, 3)
    assert again.tags_ == tagger.tags_
    assert again.history_ == tagger.history_
    assert again.top_features() == tagger.top_features()
    assert again.features == "words"
    assert again.fit(X, Y).objective_ == tagger.objective_


def test_tokens_as_rows_of_numbers(tmp_path):
    tagger = CRFTagger(n_threads=1).fit([np.eye(3)], [[1, 2, 2]])
    tagger.save(tmp_path / "model.npz")
    again = CRFTagger.load(tmp_path / "model.npz")
    assert again.predict([np.eye(3)]) == [[1, 2, 2]]
    assert again.features_ is None


def test_constraints_that_prediction_needs_cannot_be_saved(tmp_path):
    tagger = CRFTagger("words", n_threads=1, constraints=["at_least(1, 'VB')"], project_at_predict=True).fit(X, Y)
    with pytest.raises(InvalidInputError, match="constraints cannot be saved, and project_at_predict needs them"):
        tagger.save(tmp_path / "model.npz")


def shorter(arrays, settings):
    arrays["theta"] = arrays["theta"][1:]


def infinite(arrays, settings):
    arrays["theta"][0] = np.inf


def falling(arrays, settings):
    arrays["pair_features"] = arrays["pair_features"][::-1].copy()


def outside(arrays, settings):
    arrays["pair_tags"][-1] = 7


def negative(arrays, settings):
    arrays["transitions"][0] = -3


def fewer_names(arrays, settings):
    names = json.loads(arrays["features"].tobytes())[1:]
    arrays["features"] = np.frombuffer(json.dumps(names).encode(), np.uint8)


def repeated_tags(arrays, settings):
    settings["tags"] = ["NN", "NN", "VB"]


def no_gamma(arrays, settings):
    settings["gamma"] = None


@pytest.mark.parametrize(
    "damage", [shorter, infinite, falling, outside, negative, fewer_names, repeated_tags, no_gamma]
)
def test_damage_is_named(tmp_path, damage):
    CRFTagger("words", n_threads=1).fit(X, Y).save(tmp_path / "model.npz")
    with np.load(io.BytesIO((tmp_path / "model.npz").read_bytes())) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    damage(arrays, header["settings"])
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with (tmp_path / "model.npz").open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(InvalidInputError, match=r"a damaged CRFTagger .*; save the model again"):
        CRFTagger.load(tmp_path / "model.npz")


def test_a_foreign_file(tmp_path):
    with pytest.raises(InvalidInputError, match="no such model file"):
        CRFTagger.load(tmp_path / "none.npz")
