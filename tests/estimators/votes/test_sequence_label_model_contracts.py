"""What holds of every estimator, of label models of sentences: homes, checkpoints, saved constraints, damaged files."""

from functools import partial

import numpy as np
import pytest
from vote_contracts import check_damage, check_homes_and_threads, check_interrupted

from spectrem import E, SequenceLabelModel, part
from spectrem.learning import Anneal
from spectrem.models import vote_sequences as model

RNG = np.random.default_rng(5)
TAGS = np.array(["O", "B-A", "I-A", "B-B"], object)
SIZES = RNG.integers(1, 7, 40)
WORDS = [[f"w{number}" for number in RNG.integers(0, 6, size)] for size in SIZES]
VOTES = [RNG.choice(TAGS, (size, 3), p=[0.7, 0.1, 0.1, 0.1]) for size in SIZES]
RIGHT = E[(part("source") == 0) & (part("vote") == part("tag"))] >= 0.6 * E.count(part("source") == 0)
SETTINGS = {
    "free": {},
    "over the corpus": {"constraints": [RIGHT]},
    "in sentences": {"constraints": ['(E[tag == "B-A"] <= 0.7).per("sentence")'], "gamma": 0.5},
    "annealing": {"schedule": Anneal(0.5, 1.0, 1.5)},
}
pytestmark = pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def several_shards(monkeypatch):
    monkeypatch.setattr(model, "_LEAST_PARTS", 300)
    monkeypatch.setattr(model, "_MOST_PARTS", 300)


def fit(**settings):
    return SequenceLabelModel(**({"max_iter": 3} | settings)).fit(WORDS, VOTES)


def outcome(fitted):
    course = str([(record.gamma, record.objective, record.violation) for record in fitted.history_])
    return course, [table.tobytes() for table in [*vars(fitted.params_).values(), *fitted.label_distributions_]]


@pytest.mark.parametrize("name", SETTINGS)
def test_homes_and_threads_change_no_bit(name, tmp_path, client):
    check_homes_and_threads(partial(fit, **SETTINGS[name]), outcome, tmp_path, client)


@pytest.mark.parametrize("name", SETTINGS)
def test_interrupted_training_goes_on_to_the_same_bits(name, tmp_path):
    check_interrupted(partial(fit, **SETTINGS[name]), outcome, tmp_path)


@pytest.mark.parametrize("rules", [RIGHT, repr(RIGHT), {"right": RIGHT}, (RIGHT,)])
def test_one_constraint_is_as_good_as_a_list_and_is_saved(rules, tmp_path):
    fitted = fit(constraints=rules, project_at_predict=True, decode="posterior")
    for one, other in zip(fitted.label_distributions_, fit(constraints=[RIGHT]).label_distributions_, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    fitted.save(tmp_path / "model")
    loaded = SequenceLabelModel.load(tmp_path / "model")
    assert loaded.predict(WORDS, VOTES) == fitted.predict(WORDS, VOTES)
    assert all(map(np.array_equal, loaded.predict_proba(WORDS, VOTES), fitted.predict_proba(WORDS, VOTES)))


def test_predictions_read_what_was_fitted_and_decode_as_it_is_now():
    fitted = fit()
    tables, paths = fitted.predict_proba(WORDS, VOTES), fitted.predict(WORDS, VOTES)
    fitted.set_params(silence_cost=0.0, end_cost=0.0, span_types=["C"], source_names=["x"])
    assert all(map(np.array_equal, tables, fitted.predict_proba(WORDS, VOTES)))
    assert fitted.predict(WORDS, VOTES) == paths
    fitted.set_params(decode="posterior")
    best = [[fitted.tags_[k] for k in table.argmax(axis=1)] for table in tables]
    assert fitted.predict(WORDS, VOTES) == best


def test_its_representation_and_report():
    assert repr(SequenceLabelModel(end_cost=2.0)) == "SequenceLabelModel(end_cost=2.0)"
    fitted = fit(constraints={"right": RIGHT})
    assert "right" in fitted.report_.summary()
    assert "40 sentences" in fitted.report_.summary()
    assert "B-A" in fitted.predict_proba(WORDS, VOTES)._repr_html_()


@pytest.mark.parametrize(("name", "change", "message"), [
    ("word", lambda table: table[:2], "word must have shape (6, 5), got (2, 5)"),
    ("word", lambda table: table * 2, "word must hold probabilities"),
    ("source", lambda table: -table, "source must hold probabilities"),
    ("source", lambda table: table[:5], "source must have shape (15, 5), got (5, 5)"),
    ("initial", lambda table: table * 0.5, "initial must sum to 1"),
    ("shares", lambda table: np.eye(5)[0], "shares must be above 0, and every source similar to itself"),
    ("similarity", lambda table: table * 0.0, "shares must be above 0, and every source similar to itself"),
    ("similarity", lambda table: table * np.nan, "similarity must hold probabilities"),
    ("fitted_tags", lambda names: names[:4], "fitted_tags must be O, and B and I of every type"),
    ("fitted_tags", lambda names: ["O", "X", "Y", "B-B", "I-B"], "fitted_tags must be O, and B and I of every type"),
    ("fitted_sources", lambda names: [0, 0, 1], "sources must be distinct texts or numbers"),
])  # fmt: skip
def test_damaged_files_are_refused(name, change, message, tmp_path):
    check_damage(fit(), name, change, message, tmp_path)
