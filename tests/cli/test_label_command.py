"""`spectrem label`."""

import csv
import io
import json
import re

import numpy as np
import polars
import pytest

from spectrem import LabelModel, MaxEntClassifier, load

QUICK = ("--n-threads", "1")


class Mail:
    """200 mails that three annotators label ham or spam, as a wide table, as a long one, and as WRENCH's JSON."""

    def __init__(self, folder):
        rng = np.random.default_rng(0)
        self.folder, n = folder, 200
        self.truth = rng.choice(["ham", "spam"], n, p=[0.7, 0.3])
        right = rng.random((n, 3)) < [0.9, 0.8, 0.6]
        other = np.where(self.truth == "ham", "spam", "ham")
        self.votes = np.where(right, self.truth[:, None], other[:, None]).astype(object)
        self.votes[rng.random((n, 3)) < 0.3] = None
        self.names = [f"m{k}" for k in rng.permutation(n)]
        self.boxes = ["work" if k % 2 else "home" for k in range(n)]
        gold = [self.truth[k] if k < 20 else "" if k % 2 else "-1" for k in range(n)]
        silence = np.where(np.arange(n) % 2, "", "-1").tolist()
        rows = [[vote or silence[k] for vote in self.votes[k]] for k in range(n)]
        self.wide, self.long, self.json = folder / "wide.csv", folder / "long.csv", folder / "mail.json"
        self.gold = folder / "truth.csv"
        lines = zip(self.names, self.boxes, gold, rows, strict=True)
        self.wide.write_text(
            "name,box,gold,lf_a,lf_b,judge\n" + "".join(",".join([a, b, c, *d]) + "\n" for a, b, c, d in lines)
        )
        self.pairs = [(k, s) for k in range(n) for s in range(3) if self.votes[k, s] is not None]
        self.order = list(dict.fromkeys(k for k, _ in self.pairs))
        self.long.write_text(
            "item,worker,answer,box\n"
            + "".join(f"{self.names[k]},{'abc'[s]},{self.votes[k, s]},{self.boxes[k]}\n" for k, s in self.pairs)
        )
        self.gold.write_text("mail,truth\n" + "".join(f"{self.names[k]},{self.truth[k]}\n" for k in self.order))
        numbers = {"ham": 0, "spam": 1, None: -1}
        records = {
            name: {
                "label": numbers[truth],
                "weak_labels": [numbers[v] for v in votes],
                "data": {"text": f"{name} in {box}"},
            }
            for name, truth, votes, box in zip(self.names, self.truth, self.votes, self.boxes, strict=True)
        }
        self.json.write_text(json.dumps(records))
        (folder / "label.json").write_text('{"0": "ham", "1": "spam"}')


@pytest.fixture(scope="module")
def mail(tmp_path_factory):
    return Mail(tmp_path_factory.mktemp("mail"))


@pytest.fixture
def fit(run, tmp_path):
    """Train, and return what was said and the model."""

    def invoke(table, *options):
        path = tmp_path / "model.npz"
        result = run("label", "fit", table, "--save", path, *QUICK, *options)
        return result, (load(path) if result.exit_code == 0 else None)

    return invoke


LONG = ("--columns", "item,worker,answer")
WIDE = ("--votes", "lf_*,judge")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_labels_are_those_of_the_estimator(fit, mail, run, tmp_path):
    result, model = fit(mail.wide, *WIDE, "--known", "gold")
    assert result.exit_code == 0, result.stderr
    assert re.match(
        r"learned 3 sources of answers for ham, spam from 200 items \(\d+ votes\) in [\d.]+ s: \d+ iterations",
        result.stderr,
    )
    silent = int((mail.votes == None).all(axis=1).sum())  # noqa: E711
    assert f"\n  {silent} items have no vote, the others " in result.stderr
    assert re.search(r"\n  lf_a: votes \d+, (8|9)\d\.\d% right\n", result.stderr)
    frame = polars.DataFrame(dict(zip(["lf_a", "lf_b", "judge"], mail.votes.T.tolist(), strict=True)))
    y = [mail.truth[k] if k < 20 else None for k in range(200)]
    plain = LabelModel(n_threads=1).fit(frame, y)
    assert model.objective_ == plain.objective_
    done = run("label", "predict", mail.wide, "--load", tmp_path / "model.npz", "--id", "name")
    rows = rows_of(done.stdout)
    assert list(rows[0]) == ["name", "ham", "spam", "label"]
    assert [row["name"] for row in rows] == mail.names
    proba = np.array([[float(row["ham"]), float(row["spam"])] for row in rows])
    np.testing.assert_array_equal(proba, plain.predict_proba(frame))
    assert [row["label"] for row in rows] == plain.predict(frame).tolist()
    assert re.fullmatch(rf"labels of 200 items, {silent} of them without a vote: ham: \d+, spam: \d+\n", done.stderr)


def test_formats_give_one_model(fit, mail, run, tmp_path):
    models = [fit(mail.wide, *WIDE)[1], fit(mail.json)[1]]
    assert models[0].objective_ == models[1].objective_
    assert models[1].sources_.tolist() == ["0", "1", "2"]
    _, long = fit(mail.long, *LONG)
    assert (long.sources_.tolist(), list(long.table_columns)) == (["a", "b", "c"], ["item", "worker", "answer"])
    done = run("label", "predict", mail.long, "--load", tmp_path / "model.npz", "--hard")
    assert rows_of(done.stdout)[0].keys() == {"item", "label"}
    assert [row["item"] for row in rows_of(done.stdout)] == [mail.names[k] for k in mail.order]
    for ending in "parquet", "tsv.gz":
        table = polars.read_csv(mail.wide).select("lf_a", "lf_b", "judge")
        other = tmp_path / f"votes.{ending}"
        if ending == "parquet":
            table.write_parquet(other)
        else:
            import gzip

            other.write_bytes(gzip.compress(table.write_csv(separator="\t").encode()))
        assert fit(other, "--votes", "*")[1].objective_ == models[0].objective_


def test_soft_labels_are_what_classifiers_read(fit, mail, run, tmp_path):
    fit(mail.wide, *WIDE)
    out = tmp_path / "soft.parquet"
    assert run("label", "predict", mail.wide, "--load", tmp_path / "model.npz", "-o", out, "-q").output == ""
    soft = polars.read_parquet(out)
    assert soft.columns == ["ham", "spam", "label"]
    X = (mail.truth == "spam").astype(float)[:, None]
    classifier = MaxEntClassifier().fit(X, soft.drop("label"))
    assert classifier.score(X, mail.truth) == 1


@pytest.mark.parametrize("by", ["column", "file", "json"])
def test_truth_is_a_column_a_file_or_in_the_json(fit, mail, run, tmp_path, by):
    table, options = {
        "column": (mail.wide, ["--known", "gold"]),
        "file": (mail.long, ["--truth", mail.gold]),
        "json": (mail.json, []),
    }[by]
    fit(table, *(LONG if by == "file" else () if by == "json" else WIDE))
    done = run("label", "evaluate", table, "--load", tmp_path / "model.npz", *options, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    rows = {"column": range(20), "file": mail.order, "json": range(200)}[by]
    assert found["n"] == len(rows)
    expected = []
    for k in rows:
        cast = [vote for vote in mail.votes[k] if vote is not None]
        tally = [cast.count(label) for label in ("ham", "spam")]
        best = [label for label, count in zip(("ham", "spam"), tally, strict=True) if count == max(tally)]
        expected.append((mail.truth[k] in best) / len(best))
    assert found["majority vote"]["accuracy"] == pytest.approx(np.mean(expected))
    predicted = rows_of(run("label", "predict", table, "--load", tmp_path / "model.npz").stdout)
    by_name = {row.get("item", row.get("id")): row for row in predicted}
    chosen = [by_name[mail.names[k]] if by != "column" else predicted[k] for k in rows]
    right = [row["label"] == mail.truth[k] for row, k in zip(chosen, rows, strict=True)]
    loss = -np.mean([np.log(float(row[mail.truth[k]])) for row, k in zip(chosen, rows, strict=True)])
    assert found["model"]["accuracy"] == pytest.approx(np.mean(right))
    assert found["model"]["log_loss"] == pytest.approx(loss)
    spam = [(row["label"] == "spam", mail.truth[k] == "spam") for row, k in zip(chosen, rows, strict=True)]
    f1 = 2 * sum(a and b for a, b in spam) / sum(a + b for a, b in spam)
    assert found["model"]["f1"]["spam"] == pytest.approx(f1)
    test = found["sign_test"]["items"]
    assert test["n_first"] == sum(a > b for a, b in zip(right, expected, strict=True))
    assert test["n_second"] == sum(a < b for a, b in zip(right, expected, strict=True))
    shown = run("label", "evaluate", table, "--load", tmp_path / "model.npz", *options).stdout
    assert shown.startswith(f"{len(rows)} items with a known label, {found['n_silent']} of them without a vote\n")
    for text in ("model", "majority vote", "macro F1", "F1 of spam", "calibration error", "sign test by item"):
        assert text in shown


def test_known_labels_of_a_file_teach(fit, mail):
    frame = polars.DataFrame(dict(zip(["lf_a", "lf_b", "judge"], mail.votes.T.tolist(), strict=True)))
    plain = LabelModel(n_threads=1).fit(frame, [mail.truth[k] if k in mail.order else None for k in range(200)])
    assert plain.objective_ != LabelModel(n_threads=1).fit(frame).objective_
    assert fit(mail.wide, *WIDE, "--truth", mail.gold, "--id", "name")[1].objective_ == plain.objective_
    assert fit(mail.json, "--truth", mail.gold)[1].objective_ == plain.objective_


def test_constraints_name_sources_and_columns_of_items(fit, mail, run, tmp_path):
    rule = "E[(part('label') == 'spam') & (part('box') == 'work')] == 0"
    for table, options in ((mail.wide, WIDE), (mail.long, LONG)):
        result, model = fit(table, *options, "--constraint", rule, "--project-at-predict")
        assert "note" not in result.stderr
        boxes = [mail.boxes[k] for k in (range(200) if table == mail.wide else mail.order)]
        done = run("label", "predict", table, "--load", tmp_path / "model.npz")
        spam = np.array([float(row["spam"]) for row in rows_of(done.stdout)])
        assert spam[np.array(boxes) == "work"].sum() < 1e-3
        assert spam[np.array(boxes) == "home"].sum() > 5
    right = (
        "E[(part('source') == 'judge') & (part('vote') == part('label'))] >= 0.9 * E.count(part('source') == 'judge')"
    )
    _, model = fit(mail.wide, *WIDE, "--constraint", right, "--report", tmp_path / "r.html")
    frame = polars.DataFrame(dict(zip(["lf_a", "lf_b", "judge"], mail.votes.T.tolist(), strict=True)))
    assert model.objective_ == LabelModel(constraints=right, n_threads=1).fit(frame).objective_
    assert "judge" in (tmp_path / "r.html").read_text()


def test_groups_have_shares_of_their_own(fit, mail, run, tmp_path):
    for table, options in ((mail.wide, WIDE), (mail.long, LONG)):
        _, model = fit(table, *options, "--group", "box")
        assert model.groups_.tolist() == ["home", "work"]
        assert run("label", "predict", table, "--load", tmp_path / "model.npz", "--group", "box").exit_code == 0
        refused = run("label", "predict", table, "--load", tmp_path / "model.npz")
        assert "the model was trained with --group; name the column again" in refused.stderr
    fit(mail.wide, *WIDE)
    refused = run("label", "predict", mail.wide, "--load", tmp_path / "model.npz", "--group", "box")
    assert "--group box changes nothing: the model was trained without it; drop it" in refused.stderr


def test_weights_count_items(fit, mail, tmp_path):
    heavy = polars.read_csv(mail.wide, infer_schema=False).with_columns(n=polars.lit("0"))
    heavy = heavy.with_columns(n=polars.when(polars.int_range(polars.len()) < 50).then(polars.lit("2")).otherwise("n"))
    heavy.write_csv(tmp_path / "heavy.csv")
    polars.concat([heavy[:50], heavy[:50]]).write_csv(tmp_path / "twice.csv")
    _, weighted = fit(tmp_path / "heavy.csv", *WIDE, "--weights", "n")
    _, twice = fit(tmp_path / "twice.csv", *WIDE)
    np.testing.assert_allclose(weighted.confusion_, twice.confusion_, rtol=1e-6)


def test_labels_are_numbers_or_text_together(fit, tmp_path, run):
    (tmp_path / "n.csv").write_text("a,b,c\n" + "1,x,0\n0,,\n1,1,1\n-1,0,0\n" * 3)
    _, model = fit(tmp_path / "n.csv", "--votes", "a,b,c")
    assert model.classes_.tolist() == ["0", "1", "x"]
    (tmp_path / "n.csv").write_text("a,b,c\n" + "1,1,0\n0,,\n1,1,1\n-1,0,0\n" * 3)
    assert run("label", "predict", tmp_path / "n.csv", "--load", tmp_path / "model.npz").exit_code == 0
    _, model = fit(tmp_path / "n.csv", "--votes", "*", "--classes", "0,1,2")
    assert model.classes_.tolist() == [0, 1, 2]
    assert fit(tmp_path / "n.csv", "--votes", "c,a")[1].sources_.tolist() == ["c", "a"]


def test_columns_of_items_must_not_change(fit, mail, tmp_path):
    text = mail.long.read_text().splitlines()
    k = next(k for k in range(2, len(text)) if text[k].split(",")[0] == text[k - 1].split(",")[0])
    text[k] = text[k].replace(",work", ",other").replace(",home", ",other")
    (tmp_path / "bad.csv").write_text("\n".join(text) + "\n")
    result, _ = fit(tmp_path / "bad.csv", *LONG, "--group", "box")
    assert f"bad.csv, line {k + 1}, column 'box': 'other' differs from" in result.stderr
    assert "a column of items must be the same in all rows of an item" in result.stderr


def test_truth_that_does_not_fit(fit, mail, tmp_path):
    bad = tmp_path / "bad.csv"
    for text, message in {
        "a,b,c\n1,2,3\n": "must have two columns, items and labels, found 3",
        "a,b\nnobody,ham\n": f"bad.csv, line 2, column 'a': 'nobody' is not an item of {mail.long}; drop it",
        "a,b\nm1,ham\nm1,ham\n": "line 3, column 'a': 'm1' also names the row of line 2; --truth needs a column",
    }.items():
        bad.write_text(text)
        result, _ = fit(mail.long, *LONG, "--truth", bad)
        assert message in result.stderr
    assert "--truth needs names of items" in fit(mail.wide, *WIDE, "--truth", mail.gold)[0].stderr


def test_labels_that_the_model_lacks_are_refused(fit, mail, run, tmp_path):
    fit(mail.long, *LONG)
    mail_truth = mail.gold.read_text().replace("spam", "eggs")
    (tmp_path / "t.csv").write_text(mail_truth)
    done = run("label", "evaluate", mail.long, "--load", tmp_path / "model.npz", "--truth", tmp_path / "t.csv")
    assert "known labels must be those of the model, ['ham', 'spam'], found 'eggs'; correct it" in done.stderr
    done = run("label", "evaluate", mail.long, "--load", tmp_path / "model.npz")
    assert "long.csv: no item has a known label; name them by --known or --truth" in done.stderr


def test_a_label_that_is_called_as_another_column_is_refused(fit, run, tmp_path):
    (tmp_path / "n.csv").write_text("a,b\n" + "label,no\nno,no\nlabel,label\n")
    fit(tmp_path / "n.csv", "--votes", "a,b")
    done = run("label", "predict", tmp_path / "n.csv", "--load", tmp_path / "model.npz")
    assert "would both be called 'label'; write --hard" in done.stderr
    assert run("label", "predict", tmp_path / "n.csv", "--load", tmp_path / "model.npz", "--hard").exit_code == 0
