"""Saved self-trainers: classifiers come back as they were, and nothing is run that is not trusted."""

import random
import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spectrem
from spectrem import GaussianMixture, SelfTrainer
from spectrem.constraints import label_proportions
from spectrem.exceptions import InvalidInputError, NotFittedError
from spectrem.learning import Anneal

X = np.random.default_rng(0).normal(size=(60, 2)) + 2.0 * np.eye(2)[(np.arange(60) % 3 == 0).astype(int)]
Y = np.where(np.arange(60) < 18, (np.arange(60) % 3 == 0).astype(int), -1)
THIRD = label_proportions({1: 1 / 3})
LEARNED = ("gamma_", "n_iter_", "history_", "objective_", "converged_", "status_", "n_features_in_")


def refusal(call):
    with pytest.raises(InvalidInputError) as error:
        call()
    return str(error.value)


class Mine(GaussianNB):
    pass


@pytest.fixture
def skops():
    return pytest.importorskip("skops")


@pytest.mark.usefixtures("skops")
@pytest.mark.parametrize("classifier", [LogisticRegression(), make_pipeline(StandardScaler(), GaussianNB())])
def test_a_trainer_comes_back(classifier, tmp_path):
    wide = np.column_stack([np.arange(60) // 3, X])
    trainer = SelfTrainer(classifier, THIRD, gamma=0.5, columns={"triple": 0}, max_iter=4, tol=0).fit(wide, Y)
    trainer.save(tmp_path / "trainer")
    loaded = SelfTrainer.load(tmp_path / "trainer")
    assert (loaded.predict_proba(wide) == trainer.predict_proba(wide)).all()
    assert loaded.score(wide, Y) == trainer.score(wide, Y)
    assert loaded.classes_.tolist() == [0, 1]
    for name in LEARNED:
        assert getattr(loaded, name) == getattr(trainer, name)
    assert repr(loaded) == repr(trainer.set_params(constraints=tuple(THIRD)))
    assert not hasattr(loaded, "label_distributions_")


@pytest.mark.usefixtures("skops")
def test_labels_that_are_text(tmp_path):
    named = np.array(["no", "yes", None], object)[Y]
    trainer = SelfTrainer(LogisticRegression(), schedule=Anneal(0.5), classes=["no", "yes"], max_iter=2, tol=0)
    trainer.fit(X, named).save(tmp_path / "trainer")
    loaded = SelfTrainer.load(tmp_path / "trainer")
    assert (loaded.predict(X) == trainer.predict(X)).all()
    assert (loaded.schedule, loaded.classes) == (None, ["no", "yes"])


@pytest.mark.usefixtures("skops")
@pytest.mark.parametrize(
    ("classifier", "name"), [(Mine(), f"{__name__}.Mine"), (RandomForestClassifier(3, random_state=0), "Tree")]
)
def test_types_that_may_do_harm_are_refused(classifier, name, tmp_path):
    trainer = SelfTrainer(classifier, max_iter=1, tol=0).fit(X, Y)
    trainer.save(tmp_path / "trainer")
    message = refusal(lambda: SelfTrainer.load(tmp_path / "trainer"))
    assert message.startswith(f"{tmp_path / 'trainer'}: holds objects of types that may do harm, ")
    assert name in message
    listed = message.rpartition("load it with trusted=")[2].strip("[]").replace("'", "").split(", ")
    loaded = spectrem.load(tmp_path / "trainer", trusted=listed)
    assert type(loaded) is SelfTrainer
    assert (loaded.predict_proba(X) == trainer.predict_proba(X)).all()


@pytest.mark.usefixtures("skops")
def test_what_cannot_be_read(tmp_path):
    missing = refusal(lambda: SelfTrainer.load(tmp_path / "none"))
    assert missing == f"{tmp_path / 'none'}: no such model file; train one and save it first"
    (tmp_path / "text").write_text("no archive")
    GaussianMixture(2, random_state=0).fit(X).save(tmp_path / "mixture")
    for name in ("text", "mixture"):
        assert refusal(lambda name=name: SelfTrainer.load(tmp_path / name)) == (
            f"{tmp_path / name}: not a saved SelfTrainer, or damaged; save the model again"
        )
    with pytest.raises(NotFittedError, match="call fit, or load a saved one"):
        SelfTrainer(GaussianNB()).save(tmp_path / "trainer")
    assert not (tmp_path / "trainer").exists()


@pytest.mark.usefixtures("skops")
def test_altered_bytes(tmp_path):
    trainer = SelfTrainer(LogisticRegression(), max_iter=1, tol=0).fit(X, Y)
    trainer.save(tmp_path / "trainer")
    rng = random.Random(0)
    for _ in range(60):
        data = bytearray((tmp_path / "trainer").read_bytes())
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        (tmp_path / "altered").write_bytes(data if rng.random() < 0.7 else data[: rng.randrange(len(data))])
        try:
            loaded = SelfTrainer.load(tmp_path / "altered")
        except InvalidInputError:
            continue
        assert (loaded.predict_proba(X) == trainer.predict_proba(X)).all()


@pytest.mark.usefixtures("skops")
def test_files_of_skops_that_are_no_trainer(skops, tmp_path):
    import skops.io

    for content in (LogisticRegression(), {"kind": "SelfTrainer"}, {"kind": "Other", "version": 1}):
        skops.io.dump(content, tmp_path / "file")
        message = refusal(lambda: SelfTrainer.load(tmp_path / "file"))
        assert message.startswith(f"{tmp_path / 'file'}: a damaged SelfTrainer (")


def test_without_skops_it_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "skops", None)
    trainer = SelfTrainer(GaussianNB(), max_iter=1, tol=0).fit(X, Y)
    for call in (lambda: trainer.save(tmp_path / "trainer"), lambda: SelfTrainer.load(tmp_path / "trainer")):
        assert refusal(call) == (
            "saving a classifier needs skops, which is not installed; pip install 'spectrem[skops]'"
        )
