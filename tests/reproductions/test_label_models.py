"""Label models beside other packages: generated votes in the layout of the public ones, and the command."""

import gzip
import json
import sys

import numpy as np
import pytest

from reproductions.votes import label_models, peers
from reproductions.votes.label_models import (
    MAJORITY,
    OURS,
    OURS_LOGISTIC,
    TIES_TO_B,
    TIES_TO_I,
    decode,
    encode,
    run_peers,
)
from reproductions.votes.methods import classify, label_sentences, majority, majority_tags, posteriors
from reproductions.votes.sets import read_crowd, read_rules, read_sentences
from spectrem.data import WeakSentences
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import chunk_scores

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
    for part, size in (("train", 120), ("valid", 30), ("test", 40)):
        write(root / "weak" / "LaptopReview" / f"{part}.json.gz", json.dumps(reviews(rng, size)))
    write(root / "weak" / "LaptopReview" / "meta.json.gz", json.dumps({"lf": ["exact", "phrases", "guesses"]}))
    return root


def reviews(rng, size):
    """Sentences with a term of two words or one, of which a source marks the second only; another one guesses."""
    records = {}
    for sentence in range(size):
        words = [str(rng.choice(["the", "is", "very", "nice"])) for _ in range(6)]
        start, length = int(rng.integers(0, 4)), int(rng.integers(1, 3))
        words[start : start + length] = ["hard", "drive"][-length:]
        term, guess = [start, start + length, "TERM"], int(rng.integers(0, 6))
        votes = [
            [term] if rng.random() < 0.8 else [],
            [[start + length - 1, start + length, "TERM"]] if rng.random() < 0.7 else [],
            [[guess, guess + 1, "TERM"]] if rng.random() < 0.3 else [],
        ]
        records[str(sentence)] = {"label": [term], "weak_labels": votes, "data": {"text": words}}
    return records


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


def test_a_label_model_that_has_collapsed_gives_all_texts_its_class(data):
    rules = read_rules(data, "youtube")
    table = np.tile([0.0, 1.0], (len(rules.votes), 1))
    assert (classify(rules, table, hard=False) == np.ones(len(rules.votes))).all()


def test_ties_of_tags_go_to_a_letter_and_then_to_the_first_type():
    votes = [
        [("B-PER", "I-LOC"), ("I-PER", "B-PER"), ("O", None)],
        [("I-PER", "I-LOC"), ("I-LOC", "I-LOC"), ("B-PER", "B-LOC")],
    ]
    sentences = WeakSentences(["0", "1"], [["a"] * 3] * 2, [np.array(table) for table in votes], [None] * 2, ["x", "y"])
    tags = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert majority_tags(sentences, tags, "B") == [["B-PER", "B-PER", "O"], ["B-LOC", "I-LOC", "B-LOC"]]
    assert majority_tags(sentences, tags, "I") == [["B-LOC", "B-PER", "O"], ["B-LOC", "I-LOC", "B-LOC"]]


def test_our_spans_are_better_than_the_majority(data):
    reviews = read_sentences(data, "LaptopReview")
    assert reviews.tags == ("O", "B-TERM", "I-TERM")
    test, model = reviews.parts["test"], label_sentences(reviews)
    assert model.sources_ == ("exact", "phrases", "guesses")
    ours, *others = (
        chunk_scores(tags, test.tags).f1
        for tags in (
            model.predict(test.words, test.votes),
            *(majority_tags(test, reviews.tags, letter) for letter in "BI"),
        )
    )
    assert ours > max(others)


def test_other_packages_get_votes_on_tokens_and_give_their_tags(data, monkeypatch, tmp_path, capsys):
    """The aggregator takes the first source of all, so that what comes back is what that source has said."""
    reviews = read_sentences(data, "LaptopReview")

    def first_source(votes, n_fit, seed, lengths, tags, sources):
        assert n_fit == 120
        assert sources.tolist() == ["exact", "phrases", "guesses"]
        assert lengths.tolist() == [6] * 190
        return np.maximum(votes[:, 0], 0)

    monkeypatch.setattr(peers, "SENTENCE_METHODS", {"numpy first": first_source})
    monkeypatch.setattr(peers, "METHODS", {})
    arrays = {f"reviews/{name}": np.array(value) for name, value in encode(reviews).items()}
    np.savez(tmp_path / "votes.npz", **arrays)
    peers.main(str(tmp_path / "votes.npz"), str(tmp_path / "found.npz"), 1)
    about = json.loads(capsys.readouterr().out)
    assert about["failures"] == {}
    (numbers,) = np.load(tmp_path / "found.npz").values()
    taggings = decode(reviews, numbers)
    said = {part: [table[:, 0].tolist() for table in some.votes] for part, some in reviews.parts.items()}
    assert taggings == said
    answers = {("LaptopReview", "numpy first", 0): taggings}
    monkeypatch.setattr(label_models, "run_peers", lambda sets, python, seeds: (answers, about))
    report = label_models.run(data, sets=["LaptopReview"], peers="python", threads=1)
    exact = chunk_scores(said["test"], reviews.parts["test"].tags).f1
    figures = {(row.part, row.by, row.method): row.figure for row in report.numbers.rows}
    assert figures["test", "votes for spans", "numpy first"] == pytest.approx(100 * exact, abs=0.01)
    assert ("test", "CRF", "numpy first") in figures


def test_spans_of_tags():
    tags = ["I-A", "I-A", "B-A", "O", "I-B", "I-A", "B-A", "I-A"]
    assert peers.spans_of(tags) == [(0, 2, "A"), (2, 3, "A"), (4, 5, "B"), (5, 6, "A"), (6, 8, "A")]


def test_the_command_without_other_packages(reproduce, data, monkeypatch):
    monkeypatch.delenv("SPECTREM_PEERS", raising=False)
    printed, rows = reproduce("label-models", data)
    marked = [(row["part"], row["by"], row["method"]) for row in rows if row["set"] == "LaptopReview"]
    spans = [TIES_TO_I, TIES_TO_B, OURS, f"{OURS}, 2 steps", f"{OURS}, 15 steps"]
    assert sorted(marked) == sorted(
        (part, by, method)
        for part in ("valid", "test")
        for by, methods in (("votes for spans", spans), ("CRF", spans[:3]))
        for method in methods
    )
    rows = [row for row in rows if row["set"] != "LaptopReview"]
    assert {(row["set"], row["part"], row["by"], row["method"]) for row in rows} == {
        (name, part, by, method)
        for name, part, by in [
            ("crowd-bluebird", "all", "votes"),
            *(("youtube", part, by) for part in ("valid", "test") for by in ("votes", "features")),
        ]
        for method in (MAJORITY, OURS, *([OURS_LOGISTIC] if by == "features" else []))
    }
    assert "Votes alone: accuracy, %" in printed
    assert "Votes for spans alone: F1, %" in printed
    assert "Other packages" not in printed


def test_other_packages_are_run_in_their_environment(data, monkeypatch, tmp_path):
    """The environment of the tests has none of them, so that their absence is what is reported."""
    crowd = read_crowd(data, "crowd-bluebird")
    tables, about = run_peers([crowd], tmp_path.__class__(sys.executable), 1)
    if not about["versions"]:
        assert about["failures"] == dict.fromkeys(("crowd-kit", "snorkel", "skweak"), "not installed")
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
    monkeypatch.setattr(peers, "SENTENCE_METHODS", {})
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
    report = label_models.run(data, sets=["crowd-bluebird"], seeds=3, peers="python")
    printed = str(report)
    assert len([row for row in report.numbers.rows if row.method == "numpy shifted"]) == 3
    assert " ± 0.0" in printed
    assert "ValueError: no votes" in printed


def test_a_missing_set_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match=r"crowd-x/label\.csv\.gz"):
        read_crowd(tmp_path, "crowd-x")
    with pytest.raises(InvalidInputError, match=r"y/train\.json\.gz"):
        read_rules(tmp_path, "y")
    with pytest.raises(InvalidInputError, match=r"z/valid\.json\.gz"):
        read_sentences(tmp_path, "z")


def test_sets_that_are_not_known_are_refused(data):
    with pytest.raises(InvalidInputError, match=r"sets must be among crowd-bluebird, .*, NCBI-Disease, got conll, x"):
        label_models.run(data, sets=["conll", "youtube", "x"])
