"""What holds of every estimator, of label models: homes, checkpoints, saved constraints, damaged files."""

from functools import partial

import numpy as np
import pytest
from vote_contracts import check_damage, check_homes_and_threads, check_interrupted

from spectrem import E, LabelModel, part
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal
from spectrem.models import votes as model

VOTES = np.random.default_rng(5).integers(-1, 2, (90, 4))
RIGHT = E[(part("source") == 0) & (part("vote") == part("label"))] >= 0.9 * E.count(part("source") == 0)
SETTINGS = {
    "free": {},
    "rules": {"sources": "rules"},
    "joint tables": {"joint_groups": {0: "x", 1: "x", 3: "x"}},
    "over the corpus": {"constraints": [RIGHT]},
    "in items": {"constraints": ['(E[label == 0] <= 0.7).per("row")'], "gamma": 0.5},
    "annealing": {"schedule": Anneal(0.5, 1.0, 1.5)},
}
pytestmark = pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def several_shards(monkeypatch):
    monkeypatch.setattr(model, "_LEAST_WORK", 100)
    monkeypatch.setattr(model, "_MOST_WORK", 100)


def fit(**settings):
    return LabelModel(**({"tol": 0.0, "max_iter": 3} | settings)).fit(VOTES)


def outcome(fitted):
    course = str([(record.gamma, record.objective, record.violation) for record in fitted.history_])
    return course, fitted.shares_.tobytes(), fitted.params_.table.tobytes(), fitted.label_distributions_.tobytes()


@pytest.mark.parametrize("name", SETTINGS)
def test_homes_and_threads_change_no_bit(name, tmp_path, client):
    check_homes_and_threads(partial(fit, **SETTINGS[name]), outcome, tmp_path, client)


@pytest.mark.parametrize("name", SETTINGS)
def test_interrupted_training_goes_on_to_the_same_bits(name, tmp_path):
    check_interrupted(partial(fit, **SETTINGS[name]), outcome, tmp_path)


@pytest.mark.parametrize("rules", [RIGHT, repr(RIGHT), {"right": RIGHT}, (RIGHT,)])
def test_one_constraint_is_as_good_as_a_list_and_is_saved(rules, tmp_path):
    fitted = fit(constraints=rules, project_at_predict=True)
    np.testing.assert_allclose(fitted.label_distributions_, fit(constraints=[RIGHT]).label_distributions_, atol=1e-9)
    fitted.save(tmp_path / "model")
    loaded = LabelModel.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(VOTES), fitted.predict_proba(VOTES))
    assert repr(RIGHT) in repr(loaded.constraints) or repr(loaded.constraints) == repr(rules)


@pytest.mark.parametrize(("name", "change", "message"), [
    ("table", lambda table: -table, "factors of votes at least 0"),
    ("table", lambda table: table * np.nan, "table must be finite"),
    ("table", lambda table: table[:2], "table must have shape (4, 2, 2), got (2, 2, 2)"),
    ("shares", lambda shares: shares + 0.5, "shares must hold probabilities"),
    ("source_group", lambda group: group + 3, "table must have shape"),
    ("source_group", lambda group: group[:1], "table must have shape (1, 2, 2), got (4, 2, 2)"),
    ("kind", lambda kind: "guesses", "kind must be answers or rules"),
    ("class_names", lambda names: ["a"], "shares must have shape (1, 1), got (1, 2)"),
])  # fmt: skip
def test_damaged_files_are_refused(name, change, message, tmp_path):
    check_damage(fit(), name, change, message, tmp_path)


@pytest.mark.parametrize(("name", "change", "message"), [
    ("joint_group", lambda group: group + 4, "joint_group must number the groups of sources from 0"),
    ("joint_group", lambda group: group[:2], "joint_group must number the groups of sources from 0"),
    ("joint_group", lambda group: 0 * group - 1, "table must have shape (4, 2, 2), got (14, 2, 2)"),
    ("confusion", lambda table: table[:2], "confusion must have shape (4, 2, 2), got (2, 2, 2)"),
])  # fmt: skip
def test_damaged_joint_tables_are_refused(name, change, message, tmp_path):
    check_damage(fit(joint_groups={0: "x", 1: "x", 3: "x"}), name, change, message, tmp_path)


@pytest.mark.parametrize(("votes", "settings", "message"), [
    ([["a", {"b"}]], {}, "votes must hold labels of one kind"),
    (np.array([[0, np.inf]]), {}, "votes must hold labels, got inf; write None for silence"),
    ([["a", "b"]], {"sample_weight": [-1]}, "got -1.0 in item 0; 0 leaves an item out"),
    ([["a", "b"]], {"sample_weight": [1, 1]}, "sample_weight must have shape (1,), one per item, got (2,)"),
])  # fmt: skip
def test_wrong_inputs_are_named(votes, settings, message):
    with pytest.raises(InvalidInputError) as error:
        LabelModel().fit(votes, **settings)
    assert message in str(error.value)
