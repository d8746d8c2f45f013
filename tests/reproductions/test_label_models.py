"""Label models beside other packages: generated votes in the layout of the public ones, and the command."""

import gzip
import json
import sys

import numpy as np
import pytest

from reproductions.votes import label_models, peers
from reproductions.votes.label_models import MAJORITY, OURS, OURS_LOGISTIC, classify, majority, posteriors, run_peers
from reproductions.votes.sets import read_crowd, read_rules
from spectrem.exceptions import InvalidInputError

WORDS = (["buy", "click", "subscribe"], ["lovely", "song", "voice"])


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("votes"), np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    votes, truth = ["item,worker,label"], ["item,truth"]
    for item, label in enumerate(y):
        truth += [f"{item},{label}"] if item % 4 else []  # the truth of some is not known
        for worker, accuracy in enumerate((0.95, 0.9, 0.55, 0.5, 0.5)):
            votes.append(f"{item},{worker},{label if rng.random() < accuracy else 1 - label}")
    write(root / "weak" / "crowd-bluebird" / "label.csv.gz", "\n".join(votes))
    write(root / "weak" / "crowd-bluebird" / "truth.csv.gz", "\n".join(truth))
    for part, size in (("train", 300), ("valid", 40), ("test", 60)):
        rows = {}
        for item in range(size):
            label = int(rng.integers(0, 2))
            text = [rng.choice(WORDS[label if rng.random() < 0.9 else 1 - label]) for _ in range(4)]
            heard = [label if rng.random() < 0.8 else 1 - label for _ in range(4)]
            said = [source % 2 if heard[source] == source % 2 and rng.random() < 0.7 else -1 for source in range(4)]
            rows[str(item)] = {"label": label, "weak_labels": said, "data": {"text": " ".join(text)}}
        write(root / "weak" / "youtube" / f"{part}.json.gz", json.dumps(rows))
    write(root / "weak" / "youtube" / "label.json.gz", json.dumps({"0": "SPAM", "1": "HAM"}))
    return root


def test_crowds_are_what_they_were_written_as(data):
    crowd = read_crowd(data, "crowd-bluebird")
    assert crowd.n_classes == 2
    assert crowd.votes.shape == (80, 5)
    assert (crowd.fitted.y < 0).sum() == 20
    known = crowd.fitted.y >= 0
    assert (crowd.votes[known, 0] == crowd.fitted.y[known]).mean() > 0.85


def test_our_labels_are_better_than_the_majority_and_than_chance(data):
    crowd, rules = read_crowd(data, "crowd-bluebird"), read_rules(data, "youtube")
    known = crowd.fitted.y >= 0
    right = [
        (table.argmax(axis=1) == crowd.fitted.y)[known].mean()
        for table in (posteriors(crowd), majority(crowd.votes, 2))
    ]
    assert right[0] > right[1]
    y = np.concatenate([items.y for items in rules.parts.values()])
    for hard, table in ((False, posteriors(rules)), (True, majority(rules.votes, 2))):
        assert (classify(rules, table, hard=hard) == y).mean() > 0.85


def test_the_command_without_other_packages(reproduce, data, monkeypatch):
    monkeypatch.delenv("SPECTREM_PEERS", raising=False)
    printed, rows = reproduce("label-models", data)
    assert {(row["set"], row["part"], row["by"], row["method"]) for row in rows} == {
        (name, part, by, method)
        for name, part, by in [
            ("crowd-bluebird", "all", "votes"),
            *(("youtube", part, by) for part in ("valid", "test") for by in ("votes", "features")),
        ]
        for method in (MAJORITY, OURS, *([OURS_LOGISTIC] if by == "features" else []))
    }
    assert "Votes alone: accuracy, %" in printed
    assert "Other packages" not in printed


def test_other_packages_are_run_in_their_environment(data, monkeypatch, tmp_path):
    """The environment of the tests has none of them, so that their absence is what is reported."""
    crowd = read_crowd(data, "crowd-bluebird")
    tables, about = run_peers([crowd], tmp_path.__class__(sys.executable), 1)
    if not about["versions"]:
        assert about["failures"] == {"crowd-kit": "not installed", "snorkel": "not installed"}
        assert tables == {}
    with pytest.raises(InvalidInputError, match="peers must be the Python of an environment with other packages"):
        run_peers([crowd], tmp_path / "python", 1)


def test_seeds_and_failures_of_other_packages(data, monkeypatch, tmp_path, capsys):
    def shifted(votes, n_fit, seed):
        table = majority(votes, 2)
        table[:n_fit] += 0.1 * seed
        table[0] = np.nan
        return table

    def fails(votes, n_fit, seed):
        raise ValueError("no votes")

    monkeypatch.setattr(peers, "METHODS", {"numpy shifted": shifted, "numpy fails": fails})
    monkeypatch.setattr(peers, "RANDOM", ("numpy shifted",))
    crowd = read_crowd(data, "crowd-bluebird")
    np.savez(tmp_path / "votes.npz", **{"crowd/votes": crowd.votes, "crowd/n_fit": np.array(10)})
    peers.main(str(tmp_path / "votes.npz"), str(tmp_path / "found.npz"), 3)
    about, tables = json.loads(capsys.readouterr().out), dict(np.load(tmp_path / "found.npz"))
    assert list(tables) == [f"crowd/numpy shifted/{seed}" for seed in range(3)]
    assert about["versions"] == {"numpy": np.__version__}
    assert about["failures"] == {"crowd, numpy fails": "ValueError: no votes"}
    named = {("crowd-bluebird", "numpy shifted", seed): tables[f"crowd/numpy shifted/{seed}"] for seed in range(3)}
    monkeypatch.setattr(label_models, "run_peers", lambda sets, python, seeds: (named, about))
    report = label_models.run(data, crowds=["crowd-bluebird"], rules=[], seeds=3, peers="python")
    printed = str(report)
    assert len([row for row in report.numbers.rows if row.method == "numpy shifted"]) == 3
    assert " ± 0.0" in printed
    assert "ValueError: no votes" in printed


def test_a_missing_set_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match=r"crowd-x/label\.csv\.gz"):
        read_crowd(tmp_path, "crowd-x")
    with pytest.raises(InvalidInputError, match=r"y/train\.json\.gz"):
        read_rules(tmp_path, "y")
