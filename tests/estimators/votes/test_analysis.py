"""The analysis of votes: against plain loops, planted accuracies and fits with one label more."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binomtest, spearmanr
from test_label_model import planted

from spectrem import E, LabelModel, part
from spectrem.corpus import Spilled
from spectrem.estimators.votes import analysis as module
from spectrem.exceptions import InvalidInputError

FAIR = [E[part("label") == 0].between("45%", "50%")]
RULES = [
    *FAIR,
    (E[(part("source") == 1) & (part("vote") == part("label"))] >= 0.8 * E.count(part("source") == 1)).named("one"),
    (E[(part("label") == 1) & (part("odd") == 1)] <= 0.6).per("row"),
]


def long_table(rng, n=40, n_sources=4, k=3):
    """Votes of a long table in which sources vote up to three times on an item."""
    rows = [
        (f"i{i}", f"s{j}", "abc"[rng.integers(k)])
        for i in range(n) for j in range(n_sources) for _ in range(rng.integers(0, 4) * (rng.random() < 0.5))
    ]  # fmt: skip
    return pl.DataFrame(rows, ["item", "source", "label"], orient="row")


@pytest.mark.parametrize("repeated", [False, True])
def test_counts_are_those_of_plain_loops(repeated):
    rng = np.random.default_rng(3)
    table = long_table(rng)
    if not repeated:
        table = table.unique(["item", "source"], keep="first", maintain_order=True)
    model = LabelModel("answers", repeated=repeated, n_threads=1).fit(table)
    analysis = model.analyse(table)
    q, items, classes = model.label_distributions_, model.items_.tolist(), model.classes_.tolist()
    by_item = [table.filter(pl.col("item") == one).rows() for one in items]
    n = len(items)
    for j, source in enumerate(model.sources_.tolist()):
        own = [[label for _, who, label in rows if who == source] for rows in by_item]
        rest = [[label for _, who, label in rows if who != source] for rows in by_item]
        both = list(zip(own, rest, strict=True))
        columns = {name: values[j] for name, values in analysis.sources.items()}
        assert columns["source"] == source
        assert columns["votes"] == sum(map(len, own))
        assert columns["coverage"] == sum(map(bool, own)) / n
        assert columns["overlap"] == sum(bool(mine and others) for mine, others in both) / n
        conflicts = [any(a != b for a in mine for b in others) for mine, others in both]
        assert columns["conflict"] == sum(conflicts) / n
        assert columns["labels"] == ", ".join(sorted({label for mine in own for label in mine}))
        right = sum(q[i, classes.index(label)] for i, mine in enumerate(own) for label in mine)
        assert columns["accuracy"] == pytest.approx((right + 0.5) / (sum(map(len, own)) + 1))
        without = table.filter(pl.col("source") != source)
        missing = pl.DataFrame({"item": items, "source": ["s0"] * n, "label": [None] * n}, without.schema)
        answers = model.predict_proba(pl.concat([missing, without])).argmax(axis=1)
        assert columns["decides"] == (answers != q.argmax(axis=1)).sum()
    counts = np.array([[sum(label == name for *_, label in rows) for name in classes] for rows in by_item])
    summary = analysis.summary
    assert summary["items"] == n
    assert summary["votes"] == len(table)
    assert summary["coverage"] == 1.0
    assert summary["overlap"] == sum(len({who for _, who, _ in rows}) > 1 for rows in by_item) / n
    assert summary["conflict"] == ((counts > 0).sum(axis=1) > 1).sum() / n
    tied = [np.flatnonzero(row == row.max()).tolist() for row in counts]
    assert summary["ties"] == sum(len(some) > 1 for some in tied)
    differing = [items[i] for i, some in enumerate(tied) if q[i].argmax() not in some]
    assert sorted(analysis.disagreements["item"].tolist()) == sorted(differing)
    assert summary["disagreements"] == len(differing)
    share = [sum((c in some) / len(some) for some in tied) / n for c in range(3)]
    np.testing.assert_allclose(analysis.classes["majority"], share)
    np.testing.assert_allclose(analysis.classes["posterior"], q.mean(axis=0))


@pytest.mark.parametrize("settings", [
    {}, {"gamma": 0.5}, {"gamma": 2.0}, {"confusion": "source"}, {"sources": "rules"}, {"source_weight": {0: 0.5}},
    {"constraints": RULES}, {"constraints": RULES, "gamma": 2.0}, {"constraints": RULES, "sources": "rules"},
])  # fmt: skip
@pytest.mark.parametrize("cut", [False, True])
def test_reasons_add_up_to_the_log_odds_of_the_posterior(settings, cut, monkeypatch, tmp_path):
    if cut:
        monkeypatch.setattr("spectrem.models.votes._LEAST_WORK", 50)
        settings = settings | {"corpus": lambda shards: Spilled(shards, folder=tmp_path)}
    votes, _, _ = planted(80, 4, k=3, rng=np.random.default_rng(2), coverage=0.7)
    groups, columns = np.arange(80) % 2, {"odd": np.arange(80) % 2}
    model = LabelModel(n_threads=1, max_iter=15, tol=0.0, **settings).fit(votes, groups=groups, columns=columns)
    analysis = model.analyse(votes, groups=groups, columns=columns)
    q, constraints, priced = model.label_distributions_, "constraints" in settings, set()
    for item in range(80):
        why = analysis.why(item)
        best, other = why["label"][0], why["other"][0]
        assert q[item, best] == q[item].max()
        assert sum(why["nats"]) == pytest.approx(math.log(q[item, best] / q[item, other]), abs=1e-5)
        said = {(name, vote) for reason, name, vote in zip(why["reason"], why["name"], why["vote"], strict=True)
                if reason == "vote"}  # fmt: skip
        assert said == {(source, votes[item, source]) for source in range(4) if votes[item, source] >= 0}
        assert why["reason"].count("constraint") == 3 * constraints
        priced |= {name for name, nats in zip(why["name"][-3:], why["nats"][-3:], strict=True) if abs(nats) > 1e-3}
    if constraints:
        why = analysis.why(1, 1, 2)
        assert (why["label"][0], why["other"][0], set(why["item"])) == (1, 2, {1})
        assert sum(why["nats"]) == pytest.approx(math.log(q[1, 1] / q[1, 2]), abs=1e-5)
        assert len(priced) >= 2
    odds = analysis.disagreements["log_odds"]
    assert (np.diff(odds) <= 0).all()
    for item, probability, one in zip(
        *(analysis.disagreements[n] for n in ("item", "probability", "log_odds")), strict=True
    ):
        assert probability == pytest.approx(q[item].max(), abs=1e-6)
        assert sum(analysis.why(item)["nats"]) == pytest.approx(one)


def test_the_price_of_a_share_is_the_same_for_all_items():
    votes, _, _ = planted(80, 4, k=2, rng=np.random.default_rng(2), coverage=0.7)
    share = (E[part("label") == 0] <= "30%").named("few")
    model = LabelModel("answers", constraints=[share], n_threads=1).fit(votes)
    analysis = model.analyse(votes)
    [price] = model.report_.prices["few"]
    for item in range(80):
        why = analysis.why(item, 1, 0)
        assert why["name"][-1] == "few"
        assert why["nats"][-1] == pytest.approx(price, abs=1e-4)


def test_prices_of_groups_and_of_constraints_of_one_name(monkeypatch):
    """Some shards have no item of some groups; prices of constraints of one name are added."""
    monkeypatch.setattr("spectrem.models.votes._LEAST_WORK", 50)
    votes, _, _ = planted(80, 4, k=2, rng=np.random.default_rng(2), coverage=0.7)
    columns = {"half": np.arange(80) // 60}
    bounds = [(E[part("label") == 0] <= 15).per("half").named("b"), (E[part("label") == 0] <= 20).named("b")]
    model = LabelModel("answers", constraints=bounds, n_threads=1).fit(votes, columns=columns)
    analysis, q = model.analyse(votes, columns=columns), model.label_distributions_
    of_half, [of_all] = model.report_.prices["b"], model.report_.prices["b (2)"]

    assert len(set(of_half.round(3).tolist())) == 2
    assert of_all > 0.1
    for item in range(80):
        why = analysis.why(item, 1, 0)
        assert sum(why["nats"]) == pytest.approx(math.log(q[item, 1] / q[item, 0]), abs=1e-4)
        assert why["nats"][-1] == pytest.approx(of_half[item // 60] + of_all, abs=1e-3)


def test_at_gamma_0_reasons_are_those_at_gamma_1():
    votes, _, _ = planted(80, 4, k=2, rng=np.random.default_rng(2))
    model = LabelModel(gamma=0.0, n_threads=1).fit(votes)
    q = model.predict_proba(votes)
    why = model.analyse(votes).why(3)
    assert sum(why["nats"]) == pytest.approx(math.log(q[3].max() / q[3].min()))


@pytest.mark.parametrize(("k", "n_sources", "shares", "settings"), [
    (3, 6, None, {}), (3, 6, None, {"confusion": "source"}), (2, 6, [0.6, 0.4], {"share_strength": 0.0}),
    (2, 3, None, {"max_iter": 1_000, "tol": 1e-6}),
])  # fmt: skip
def test_intervals_hold_planted_accuracies(k, n_sources, shares, settings):
    outside = beside = 0
    for seed in range(20):
        votes, _, right = planted(10_000, n_sources, k=k, rng=np.random.default_rng(seed), shares=shares)
        sources = LabelModel(n_threads=1, **settings).fit(votes).analyse(votes).sources
        low, high = sources["accuracy_low"], sources["accuracy_high"]
        # within two standard errors, which the interval has 1.96 of
        centre, half = (np.log(high / (1 - high)) + np.log(low / (1 - low))) / 2, np.log(high / (1 - high))
        outside += (np.abs(np.log(right / (1 - right)) - centre) > 2 * (half - centre) / module._WIDTH).sum()
        beside += ((high - low) > 0.4).sum()
    assert outside <= 0.1 * 20 * n_sources  # 4.6 % are expected
    assert beside == 0


def test_intervals_are_wide_where_nobody_else_votes_and_hold_few_votes():
    votes = np.full((40, 4), -1)
    votes[:20, 0] = 1  # alone
    votes[20:, 1:] = np.random.default_rng(0).integers(0, 2, (20, 1))  # always agreed
    sources = LabelModel("answers", n_threads=1).fit(votes).analyse(votes).sources
    assert sources["accuracy_high"][0] - sources["accuracy_low"][0] > 0.8
    assert (sources["accuracy_low"][1:] > 0.6).all()
    assert (sources["accuracy_high"][1:] < 1).all()


def test_many_sources_are_judged_one_by_one(monkeypatch):
    votes = np.full((60, 3), -1)
    for source in range(3):
        votes[20 * source : 20 * source + 20, source] = np.random.default_rng(source).integers(0, 2, 20)
    model = LabelModel("answers", n_threads=1, classes=[0, 1]).fit(votes, np.where(np.arange(60) % 3, 1, -1))
    together = model.analyse(votes)
    monkeypatch.setattr(module, "_MOST_SOURCES", 2)
    alone = model.analyse(votes)
    for name in ("accuracy_low", "accuracy_high"):
        np.testing.assert_allclose(alone.sources[name], together.sources[name])
    np.testing.assert_allclose(alone.to_label["information"], together.to_label["information"])


def test_information_is_what_labels_teach():
    """Refitted with each label that an item may have, the model is surer of other items, by as much as was expected."""
    votes, _, _ = planted(150, 5, k=2, rng=np.random.default_rng(1), accuracy=(0.6, 0.9), coverage=0.7)
    settings = {"confusion": "source", "shares": {0: 0.5, 1: 0.5}, "strength": 0.5, "tol": 1e-12, "max_iter": 2_000}
    analysis = LabelModel(n_threads=1, **settings).fit(votes).analyse(votes)
    expected = dict(zip(*(analysis.to_label[name].tolist() for name in ("item", "information")), strict=True))
    entropy = dict(zip(*(analysis.to_label[name].tolist() for name in ("item", "entropy")), strict=True))
    q = analysis._evidence.posteriors
    gains, guesses = [], []
    for item in range(0, 150, 6):
        mean = np.zeros_like(q)
        spread = []
        for label in (0, 1):
            known = np.full(150, -1)
            known[item] = label
            p = LabelModel(n_threads=1, **settings).fit(votes, known).label_distributions_
            mean += q[item, label] * p
            spread.append(-np.delete(p * np.log(np.maximum(p, 1e-300)), item, axis=0).sum())
        h = -np.delete(mean * np.log(np.maximum(mean, 1e-300)), item, axis=0).sum()
        gains.append(h - q[item] @ spread)  # the information that the label has of those of other items
        guesses.append(expected[item] - entropy[item])
    assert spearmanr(gains, guesses).statistic > 0.9
    assert 0.5 < np.sum(guesses) / np.sum(gains) < 2.0


def test_known_labels_measure_and_change_no_posterior():
    votes, y, _ = planted(200, 4, k=3, rng=np.random.default_rng(5))
    known = [label if i % 2 else None for i, label in enumerate(y.tolist())]
    known[0] = {0, 1}  # not certain
    model = LabelModel("answers", n_threads=1).fit(votes)
    analysis, plain = model.analyse(votes, known), model.analyse(votes)
    assert np.array_equal(analysis._evidence.posteriors, plain._evidence.posteriors)
    there = np.arange(200) % 2 == 1
    assert set(plain.to_label["item"].tolist()) - set(analysis.to_label["item"].tolist()) == set(np.flatnonzero(there))
    assert (np.diff(plain.to_label["information"]) <= 0).all()
    best = analysis._evidence.posteriors.argmax(axis=1)
    assert analysis.summary["accuracy"] == pytest.approx((best == y)[there].mean())
    for source in range(4):
        counted = there & (votes[:, source] >= 0)
        right, n = int((votes[counted, source] == y[counted]).sum()), int(counted.sum())
        interval = binomtest(right, n).proportion_ci(method="wilson")
        row = [
            analysis.sources[name][source]
            for name in ("known", "known_accuracy", "known_accuracy_low", "known_accuracy_high")
        ]
        np.testing.assert_allclose(row, [n, right / n, interval.low, interval.high])
    top = [np.flatnonzero(np.bincount(row[row >= 0], minlength=3) == np.bincount(row[row >= 0], minlength=3).max())
           for row in votes]  # fmt: skip
    majority = np.mean([(y[i] in top[i]) / len(top[i]) for i in np.flatnonzero(there)])
    assert analysis.summary["majority_accuracy"] == pytest.approx(majority)
    assert "known" not in plain.sources
    assert model.analyse(votes, [None] * 200).sources["known"].tolist() == [0] * 4


def test_warnings_name_what_is_wrong():
    votes, y, _ = planted(400, 4, k=2, rng=np.random.default_rng(5), accuracy=(0.8, 0.9), coverage=0.9)
    against = np.where(np.random.default_rng(1).random(400) < 0.95, 1 - y, y)
    frame = pd.DataFrame(votes, columns=list("abcd")).assign(
        against=against, one=1, never=-1, once=np.where(np.arange(400) == 9, 1, -1)
    )
    frame.loc[:3] = -1
    model = LabelModel("answers", n_threads=1).fit(frame)
    warnings = model.analyse(frame).warnings
    assert [warning.split(":")[0][:35] for warning in warnings] == [
        "Sources that never vote", "Sources that answer for one class o", "Sources that are right less often t",
        "4 items without votes, which the mo",
    ]  # fmt: skip
    assert [warning.rsplit(": ", 1)[1] for warning in warnings[:3]] == ["never", "one", "against"]
    assert LabelModel(n_threads=1).fit(votes).analyse(votes).warnings == ()
    [wrong] = [line for line in model.analyse(frame, 1 - y).warnings if line.startswith("Sources whose accuracy by")]
    assert wrong.endswith("model expects: a, b, c, d, against")
    many = pd.DataFrame(np.column_stack([votes, np.full((400, 9), -1)]), columns=[f"s{number}" for number in range(13)])
    [never] = LabelModel("answers", n_threads=1).fit(many).analyse(many).warnings
    assert never == "Sources that never vote: s10, s11, s12, s4, s5 and 4 more" or never.endswith(
        "s4, s5, s6, s7, s8 and 4 more"
    )


def test_a_source_that_alone_decides_most_items_of_a_class_is_named():
    votes = np.full((30, 3), -1)
    votes[:20, :2] = 0
    votes[20:, 2] = 1
    model = LabelModel("rules", n_threads=1, classes=[0, 1], shares={0: 0.7, 1: 0.3}).fit(votes)
    [warning] = model.analyse(votes).warnings
    assert warning == ("Source 2 alone decides most items of class 1: without it, 10 of 10 would have another label")


def test_copies_are_listed_and_votes_that_count_less_say_less():
    rng = np.random.default_rng(0)
    votes, _, _ = planted(400, 4, k=2, rng=rng, accuracy=(0.7, 0.8), coverage=1.0)
    frame = pd.DataFrame(votes, columns=list("abcd")).assign(copy=votes[:, 3])
    model = LabelModel("answers", dependence="weigh", n_threads=1).fit(frame)
    analysis = model.analyse(frame)
    [pair] = model.dependent_sources(frame)
    assert {name: values.tolist() for name, values in analysis.dependent_sources.items()} == {
        name: [value] for name, value in pair._asdict().items()
    }
    assert (pair.first, pair.second) == ("copy", "d") or (pair.first, pair.second) == ("d", "copy")
    assert "Dependent sources" in analysis.to_html()
    for item in range(0, 400, 10):
        why, q = analysis.why(item), model.label_distributions_[item]
        assert sum(why["nats"]) == pytest.approx(math.log(q.max() / q.min()), abs=1e-6)
        nats = dict(zip(why["name"], why["nats"], strict=True))
        assert nats["d"] == pytest.approx(nats["copy"], abs=0.02)


@pytest.mark.parametrize("table", ["sources", "dependent_sources", "classes", "disagreements", "to_label"])
def test_tables_are_frames_of_the_library_of_the_votes(table):
    votes = pl.from_numpy(planted(30, 3, rng=np.random.default_rng(5))[0])
    model = LabelModel("answers", n_threads=1).fit(votes)
    for given, kind in ((votes, pl.DataFrame), (votes.to_pandas(), pd.DataFrame), (votes.to_numpy(), pl.DataFrame)):
        if kind is pl.DataFrame and given is not votes:
            model = LabelModel("answers", n_threads=1).fit(given)
        frame = model.analyse(given).to_frame(table)
        assert isinstance(frame, kind)
        columns = getattr(model.analyse(given), table)
        assert {name: frame[name].to_list() for name in columns} == {name: list(v) for name, v in columns.items()}


def test_the_page_needs_nothing_else_and_escapes_names(tmp_path):
    votes, y, _ = planted(300, 45, k=2, rng=np.random.default_rng(5), accuracy=(0.3, 0.9), coverage=0.2)
    frame = pd.DataFrame(votes, columns=[f"<{number}>" for number in range(45)])
    names = np.array(["<ham>", "spam"])
    frame = frame.map(lambda label: None if label < 0 else names[label])
    analysis = LabelModel(n_threads=1).fit(frame).analyse(frame, [*names[y[:100]], *[None] * 200])
    analysis.save(tmp_path / "votes.html")
    text = (tmp_path / "votes.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<script" not in text
    assert "http" not in text
    assert "<ham>" not in text
    assert "<1>" not in text
    assert "&lt;ham&gt;" in text
    assert "and 5 sources more" in text
    assert text.count("<details") == min(20, len(analysis.disagreements["item"])) > 3
    assert text.count("<details open") == 3
    assert f"majority accuracy <strong>{analysis.summary['majority_accuracy']:.1%}" in text
    sure = LabelModel("answers", n_threads=1).fit([[0, 0], [1, 1], [0, 0], [1, 1]])
    page = sure.analyse(np.zeros((1, 2), int), [0])._repr_html_()
    assert page.count("There are none.") == 3  # dependent sources, disagreements, and items to label


def test_errors_name_item_label_and_table(monkeypatch):
    votes, _, _ = planted(30, 3, rng=np.random.default_rng(5))
    model = LabelModel("answers", n_threads=1).fit(votes)
    analysis = model.analyse(votes)
    with pytest.raises(InvalidInputError, match=r"item must be one of \[0, 1, .*, got 99; take one of those"):
        analysis.why(99)
    with pytest.raises(InvalidInputError, match=r"label must be one of \[0, 1, 2\], got 'x'"):
        analysis.why(0, "x")
    with pytest.raises(InvalidInputError, match=r"other must be one of \[0, 1, 2\], got 7"):
        analysis.why(0, 1, 7)
    with pytest.raises(
        InvalidInputError,
        match="table must be one of sources, dependent_sources, classes, disagreements, to_label, got 'x'",
    ):
        analysis.to_frame("x")
    with pytest.raises(InvalidInputError, match="votes must hold at least one item, got none"):
        model.analyse(votes[:0])
    monkeypatch.setattr("spectrem.data.frames.find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match="data frames need polars or pandas, neither of which is installed"):
        analysis.to_frame()
