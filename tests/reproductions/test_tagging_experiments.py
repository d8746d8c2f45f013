"""The tagging experiments run on generated text, set the published numbers beside ours and leave their figure."""

import math

import numpy as np
import pytest

from reproductions.tagging import da_table1 as da
from reproductions.tagging import pr_fig12 as pr
from reproductions.tagging.corpora import PENN, read_penn, read_penn_dictionary
from reproductions.tagging.da_mixed import Ends, Point, ends, mixed_claims, mixed_table
from reproductions.tagging.training import (
    Accuracy,
    Scores,
    Text,
    annealing_plan,
    as_text,
    plain_plan,
    run_stages,
    score,
)
from spectrem.data import TaggedCorpus
from spectrem.estimators import HMMTagger
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal, FitStatus


def settings(root):
    return {"order": 2, "smoothing": 0.1, "dictionary": read_penn_dictionary(root), "n_threads": 1, "tol": 1e-6}


def test_da_table1(tagged, reproduce):
    out, rows = reproduce("da-table1", tagged)
    lines = [line.split() for line in out.splitlines()]
    assert ["EM", "paper", "279", "9.136", "9.321", "82.04", "66.61", "82.08", "66.63", "0.057"] in lines
    assert ["DA", "paper", "1200", "9.138", "9.325", "83.85", "70.02", "84.00", "70.25", "0.082"] in lines
    assert {(row["labelled"], row["method"]) for row in rows} == {
        ("0", "EM"), ("0", "DA"), ("20", "EM"), ("20", "DA"), ("20", "SDA"),
    }  # fmt: skip
    starts = [row for row in rows if row["labelled"] == "20" and row["e_steps"] == "0"]
    assert len({(row["train_accuracy"], row["test_accuracy"]) for row in starts}) == 1
    for method in ("EM", "DA"):
        steps = [int(row["e_steps"]) for row in rows if row["labelled"] == "0" and row["method"] == method]
        assert steps == sorted(set(steps))
    betas = [float(row["beta"]) for row in rows if row["labelled"] == "0" and row["method"] == "DA"]
    assert betas == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0])


def test_published_numbers_are_the_papers():
    assert da.PUBLISHED["EM"] == (279, 9.136, 9.321, 82.04, 66.61, 82.08, 66.63, 0.057)
    assert da.PUBLISHED["DA"] == (1200, 9.138, 9.325, 83.85, 70.02, 84.00, 70.25, 0.082)
    assert pr.PUBLISHED_CORPORA["English"] == (23_768, 950_028, 2.0, 17, 3.22, 1.23)
    assert pr.PUBLISHED_CORPORA["Portuguese"] == (11_293, 206_678, 8.5, 22, 3.49, 1.14)


def test_stages_add_up_to_one_run(tagged):
    corpus = read_penn(tagged)
    words = corpus.words[:60]
    start = {"init": "uniform", "perturbation": 0.01, "random_state": 0}
    *_, last = run_stages({**settings(tagged), "tol": 0.0}, words, plain_plan(7), **start)
    whole = HMMTagger(**{**settings(tagged), "tol": 0.0, "max_iter": 7}, **start).fit(words)
    assert last.n_steps == 7
    assert last.tagger.score(words) == pytest.approx(whole.score(words), rel=1e-12)
    schedule = Anneal(0.25, 1.0, 2.0)
    *_, last = run_stages({**settings(tagged), "tol": 1e-4}, words, annealing_plan(schedule, 50), **start)
    whole = HMMTagger(**{**settings(tagged), "tol": 1e-4, "max_iter": 50}, schedule=schedule, **start).fit(words)
    assert last.n_steps == len(whole.history_)
    assert last.tagger.score(words) == pytest.approx(whole.score(words), rel=1e-12)


def test_plain_plan_doubles_and_ends():
    assert [k for _, k in plain_plan(10)] == [1, 1, 2, 4, 2]
    assert sum(k for _, k in plain_plan(500)) == 500
    assert max(k for _, k in plain_plan(500)) == 64
    assert list(annealing_plan(Anneal(0.5, 1.0, 2.0), 9)) == [(2.0, 9), (1.0, 9)]


def test_stages_end_when_converged(tagged):
    words = read_penn(tagged).words[:60]
    stages = list(run_stages({**settings(tagged), "tol": 1e-3}, words, plain_plan(2_000), random_state=0))
    assert stages[-1].n_steps < 200
    assert [s.tagger.status_ is FitStatus.CONVERGED for s in stages] == [False] * (len(stages) - 1) + [True]
    assert [stage.n_steps for stage in stages[:3]] == [1, 2, 4]


def test_scores_are_those_of_their_definitions(tagged):
    corpus = read_penn(tagged)
    text = as_text(TaggedCorpus(corpus.words[:40], corpus.tags[:40]), read_penn_dictionary(tagged))
    tagger = HMMTagger(**{**settings(tagged), "tol": 0.0}, decode="viterbi", random_state=0, max_iter=3).fit(text.words)
    found = score(tagger, text)
    assert found.bits == pytest.approx(-tagger.score(text.words) / math.log(2))
    assert found.log_likelihoods.sum() == pytest.approx(tagger.score(text.words) * text.n_tokens)
    right = [a == b for a, b in zip(found.predicted, text.gold, strict=True)]
    assert found.accuracy.accuracy == pytest.approx(100 * np.mean(right))
    assert found.accuracy.ambiguous == pytest.approx(100 * np.mean(np.array(right)[text.ambiguous]))
    assert found.accuracy.accuracy > found.accuracy.ambiguous
    assert found.entropies.shape == (text.n_tokens,)
    assert np.all(found.entropies[~text.ambiguous] < 1e-9)


def fake_run(method, tags, *, bits=9.0, steps=100, entropy=0.1, curve=(80.0, 81.0)):
    entropies = np.full(30, entropy)
    right = 100 * tags.count("A") / 30
    scores = Scores(bits, Accuracy(right, right), tags, entropies, -np.ones(30))
    points = [Point(0, method, k, 1.0, percent) for k, percent in zip((1, steps), curve, strict=True)]
    return da.Run(points, scores, scores)


def held(runs, text):
    return list(da._claims(runs, dict(da._sign_tests(runs, text, text))).values())


def test_claims_of_table_1_follow_the_numbers():
    text = Text([["a"]] * 30, ["A"] * 30, [1] * 30, np.ones(30, dtype=bool))
    right, wrong = ["A"] * 30, ["B"] * 30
    good = {"EM": fake_run("EM", wrong), "DA": fake_run("DA", right, bits=9.01, steps=300, entropy=0.2)}
    assert held(good, text) == [True] * 7
    few = right[:10] + wrong[10:]  # ten wins are not significant
    mostly = np.where(np.arange(30) > 0, 0.31, 0.0)  # more than 0.3 by word, less in the mean
    bad = {
        "EM": fake_run("EM", wrong, entropy=0.3),
        "DA": fake_run("DA", few, bits=8.9, steps=299, entropy=mostly, curve=(82.0, 81.0)),
    }
    assert held(bad, text) == [True] + [False] * 6
    worse = {"EM": fake_run("EM", right), "DA": fake_run("DA", wrong)}
    assert held(worse, text)[:2] == [False, False]
    table = da._table_of_tests(dict(da._sign_tests(good, text, text)))
    assert [row[3:5] for row in table.rows if row[:3] == ("tags, test", "words", "ours")] == [(30, 0)]


def mixed(labelled, **lasts):
    return [
        Point(labelled, method, *point)
        for method, last in lasts.items()
        for point in ((0, 0.0, 80.0, 81.0), (1, 0.5, 82.0, 83.0), (9, 1.0, last - 1, last))
    ]


def test_mixed_condition_is_summed_up():
    falling = [Point(9, "EM", 0, 0.0, 90.0, 91.0), Point(9, "EM", 1, 1.0, 82.0, 83.0)]
    assert ends(falling, "test_accuracy") == {(9, "EM"): Ends(91.0, 83.0, 83.0)}  # the highest after the start
    rows = mixed_table(mixed(100, EM=75.0)).rows
    assert rows == [(100, "EM", 9, 80.0, 82.0, 74.0, 81.0, 83.0, 75.0)]
    claims = mixed_claims(mixed(100, EM=75.0, DA=70.0, SDA=76.0) + mixed(1000, EM=80.0, DA=72.0, SDA=79.8))
    assert list(claims.values()) == [True] * 5
    claims = mixed_claims(mixed(100, EM=75.0, DA=70.0, SDA=76.0) + mixed(1000, EM=82.0, DA=83.0, SDA=79.8))
    assert list(claims.values()) == [True, False, False, False, False]


def test_pr_fig12(tagged, reproduce):
    out, rows = reproduce("pr-fig12", tagged, "--seeds", "2", "--languages", "English")
    assert ["English", "paper", "23,768", "950,028", "2.00", "17", "3.22", "1.23"] in [
        line.split() for line in out.splitlines()
    ]
    assert "English: mean and standard deviation over seeds" in out
    methods = ("EM", "VEM 0.1", "VEM 0.0001", "Sparse 32")
    assert [(row["language"], row["seed"], row["method"]) for row in rows] == [
        ("English", seed, method) for seed in "01" for method in methods
    ]
    norm = {m: np.mean([float(row["l1_linf"]) for row in rows if row["method"] == m]) for m in methods}
    assert norm["Sparse 32"] < norm["EM"]
    assert "[holds] English: Sparse lowers the average l1/linf against EM, whatever sigma" in out
    seeds = [row["mutual_information"] for row in rows if row["method"] == "EM"]
    assert len(set(seeds)) == len(seeds)


def test_languages_are_reported_side_by_side(tagged):
    report = pr.run(tagged, seeds=1, iterations=4, strengths=[32.0], n_tokens=500, threads=1)
    assert [table.title.partition(":")[0] for table in report.tables[1:]] == ["English", "Portuguese"]
    assert [row[:2] for row in report.tables[0].rows] == [
        (language, who) for language in ("English", "Portuguese") for who in ("paper", "ours")
    ]
    assert len(report.figure.axes) == 4
    assert len(report.claims) == 2 * 9


def test_languages_must_be_known(tagged):
    with pytest.raises(InvalidInputError, match="languages must be among English, Portuguese, got English, Danish"):
        pr.run(tagged, languages=["English", "Danish"])


def test_sparse_starts_from_em():
    assert [pr._warm_up(iterations) for iterations in (4, 20, 200, 1000)] == [1, 3, 30, 30]


def test_claims_follow_the_numbers():
    def runs(**values):
        return [pr.Run("English", name.replace("_", " "), 0, *four, 1.0) for name, four in values.items()]

    good = {
        "EM": (1.0, 3.0, 50.0, 30.0), "VEM 0.1": (0.9, 1.1, 45.0, 45.0), "VEM 0.0001": (1.1, 1.2, 52.0, 40.0),
        "Sparse 10": (1.4, 2.0, 55.0, 35.0), "Sparse 32": (1.5, 1.5, 60.0, 42.0),
    }  # fmt: skip
    assert list(pr._claims(runs(**good)).values()) == [True] * 9
    bad = {**good, "Sparse 10": (0.99, 3.1, 51.0, 20.0), "Sparse 32": (1.09, 2.0, 51.5, 25.0),
           "VEM 0.1": (1.05, 3.5, 45.0, 20.0)}  # fmt: skip
    held = list(pr._claims(runs(**bad)).values())
    assert held == [False] * 8 + [True]


@pytest.mark.slow
def test_sparse_on_real_text(shared):
    claims = pr.run(shared / "data", languages=["English"], seeds=1, strengths=[32.0]).claims
    assert claims["English: Sparse lowers the average l1/linf against EM, whatever sigma"]
    assert claims["English: Sparse raises mutual information over EM, whatever sigma"]


@pytest.mark.slow
def test_annealing_on_real_text(shared):
    report = da.run(shared / "data", n_tokens=24_115, n_test=200, labelled=[], schedule=Anneal(0.01, 1.0, 1.5))
    assert (shared / "data" / PENN).is_file()
    em, annealed = (row for row in report.tables[0].rows if row[1] == "ours")
    assert em[5] > 80
    assert annealed[5] > 80
