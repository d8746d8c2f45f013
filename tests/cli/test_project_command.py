"""`spectrem project`."""

import csv
import gzip
import io

import numpy as np
import pytest

import spectrem
from spectrem import E, part

SCORES = "id,document,ham,spam\n007,a,0.9,0.1\n8,a,0.4,0.6\n9,b,0.5,0.5\n"
CONSTRAINTS = """
- two are spam: E[label == 'spam'] == 2
- ham once: (E[label == 'ham'] <= 1).per('document')
"""
PROBA = np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]])
TWO = (E[part("label") == "spam"] == 2).named("two are spam")
ONCE = (E[part("label") == "ham"] <= 1).per("document").named("ham once")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "s.csv").write_text(SCORES)
    (tmp_path / "c.yaml").write_text(CONSTRAINTS)
    return tmp_path


@pytest.fixture
def project(run, folder):
    """Run the command on files of the folder; text in place of a name is written to a file first."""

    def invoke(scores="s.csv", *options, constraints="c.yaml", stdin=None):
        if "\n" in scores:
            (folder / "given.csv").write_text(scores)
            scores = "given.csv"
        if "\n" in constraints:
            (folder / "given.yaml").write_text(constraints)
            constraints = "given.yaml"
        source = scores if scores == "-" else folder / scores
        return run("project", source, "--constraints", folder / constraints, *options, stdin=stdin)

    return invoke


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def numbers(text, *names):
    return np.array([[float(row[name]) for name in names] for row in rows(text)])


def fails(result, *parts):
    assert result.exit_code == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("spectrem: error: ")
    assert result.stderr.count("\n") == 1
    for one in parts:
        assert one in result.stderr


def expected(**more):
    columns = {"document": ["a", "a", "b"]}
    return spectrem.project(PROBA, [TWO, ONCE], columns=columns, labels=["ham", "spam"], **more)


def test_scores_are_replaced_and_the_rest_stays(project):
    result = project()
    assert result.exit_code == 0, result.stderr
    assert [(row["id"], row["document"]) for row in rows(result.stdout)] == [("007", "a"), ("8", "a"), ("9", "b")]
    assert result.stdout.startswith("id,document,ham,spam\n")
    np.testing.assert_allclose(numbers(result.stdout, "ham", "spam"), expected().proba, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (["--gamma", "0.5"], {"gamma": 0.5}),
        (["--gamma", "0"], {"gamma": 0.0}),
        (["--gamma", "-inf"], {"gamma": -np.inf}),
    ],
)
def test_gamma(project, options, more):
    result = project("s.csv", *options)
    np.testing.assert_allclose(numbers(result.stdout, "ham", "spam"), expected(**more).proba, rtol=1e-9, atol=1e-12)
    assert not np.allclose(expected(**more).proba, expected().proba, atol=1e-3)


def test_weights(project):
    content = "ham,spam,w\n0.9,0.1,3\n0.4,0.6,1\n"
    only = "- two: E[label == 'spam'] == 2\n"
    result = project(content, "--weights", "w", constraints=only)
    assert result.exit_code == 0, result.stderr
    table = spectrem.project(PROBA[:2], TWO, labels=["ham", "spam"], sample_weight=[3, 1])
    np.testing.assert_allclose(numbers(result.stdout, "ham", "spam"), table.proba, rtol=1e-12)
    assert numbers(result.stdout, "spam").ravel() @ [3, 1] == pytest.approx(2)


def test_columns_with_a_prefix(project):
    content = SCORES.replace("ham,spam", "p_ham,p_spam").replace("007", "7")
    result = project(content, "--prefix", "p_", "--decide")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(numbers(result.stdout, "p_ham", "p_spam"), expected().proba, rtol=1e-12)
    assert [row["decided"] for row in rows(result.stdout)] == ["ham", "spam", "spam"]


def test_labels_may_be_named_and_be_numbers(project):
    content = "age,0,1\n3,0.9,0.1\n4,0.4,0.6\n"
    result = project(content, "--labels", "0,1", constraints="- x: E[label == 1] == 1.5\n")
    assert result.exit_code == 0, result.stderr
    assert numbers(result.stdout, "1").sum() == pytest.approx(1.5)


def test_logits(project):
    content = "ham,spam,other\n3,1,-inf\n0.5,0.5,0\n"
    only = "- x: E[label == 'spam'] == 1\n"
    result = project(content, "--log", "--labels", "ham,spam,other", constraints=only)
    assert result.exit_code == 0, result.stderr
    found = numbers(result.stdout, "ham", "spam", "other")
    scores = np.array([[3, 1, -np.inf], [0.5, 0.5, 0]])
    table = spectrem.project(scores, E[part("label") == 1] == 1, scores="log")
    np.testing.assert_allclose(found, table.proba, rtol=1e-9)
    assert found[0, 2] == 0


LONG = """msg,label,p,who
m2,spam,0.6,a
m1,ham,0.9,a
m2,ham,0.3,a
m1,spam,0.1,a
m3,ham,0.5,b
m2,other,0.1,a
m3,spam,0.5,b
"""
LONG_CONSTRAINTS = """
- two: E[label == 'spam'] == 2
- few: (E[label == 'ham'] <= 0.6).per('who')
- most: (E[label.isin(['ham', 'spam'])] >= 0.95).per('msg')
"""


def test_one_label_per_line(project):
    result = project(LONG, "--long", "msg,label,p", "--decide", constraints=LONG_CONSTRAINTS.replace("0.6", "1.0"))
    assert result.exit_code == 0, result.stderr
    found = rows(result.stdout)
    assert [(row["msg"], row["label"], row["who"]) for row in found] == [
        tuple(line.split(",")[k] for k in (0, 1, 3)) for line in LONG.splitlines()[1:]
    ]
    assert [row["decided"] for row in found] == ["true", "true", "false", "false", "false", "false", "true"]
    result = project(LONG, "--long", "msg,label,p", constraints=LONG_CONSTRAINTS)
    by_cell = {(row["msg"], row["label"]): float(row["p"]) for row in rows(result.stdout)}
    table = spectrem.project(
        [[0.6, 0.3, 0.1], [0.9, 0.1], [0.5, 0.5]],
        [
            E[part("label") == "spam"] == 2,
            (E[part("label") == "ham"] <= 0.6).per("who"),
            (E[part("label").isin(["ham", "spam"])] >= 0.95).per("row"),
        ],
        columns={"who": ["a", "a", "b"]},
        labels=[["spam", "ham", "other"], ["ham", "spam"], ["ham", "spam"]],
    )
    assert by_cell["m2", "spam"] == pytest.approx(table.proba[0][0], rel=1e-6)
    assert by_cell["m2", "other"] == pytest.approx(table.proba[0][2], rel=1e-6)
    assert by_cell["m1", "ham"] == pytest.approx(table.proba[1][0], rel=1e-6)
    assert by_cell["m3", "spam"] == pytest.approx(table.proba[2][1], rel=1e-6)


def test_weights_of_lines(project):
    content = LONG.replace("who\n", "who,w\n").replace(",a\n", ",a,2\n").replace(",b\n", ",b,1\n")
    only = "- two: E[label == 'spam'] == 2\n"
    result = project(content, "--long", "msg,label,p", "--weights", "w", constraints=only)
    assert result.exit_code == 0, result.stderr
    assert sum(float(row["p"]) * float(row["w"]) for row in rows(result.stdout) if row["label"] == "spam") == (
        pytest.approx(2)
    )
    fails(
        project(content.replace("0.1,a,2", "0.1,a,3", 1), "--long", "msg,label,p", "--weights", "w", constraints=only),
        "line 5, column 'w': weights of one row must be the same on all its lines, found 3; correct it",
    )


def test_prices(project, folder):
    assert project("s.csv", "--prices", folder / "p.csv", "-o", folder / "out.csv").exit_code == 0
    text = (folder / "p.csv").read_text()
    assert text.startswith("constraint,document,sense,bound,before,after,price,violation\n")
    found = rows(text)
    assert [(row["constraint"], row["document"], row["sense"]) for row in found] == [
        ("two are spam", "", "=="),
        ("ham once", "a", "<="),
        ("ham once", "b", "<="),
    ]
    reports = expected().constraints
    for name in ("bound", "before", "after", "price"):
        values = np.concatenate([getattr(report, name) for report in reports])
        np.testing.assert_allclose([float(row[name]) for row in found], values, rtol=1e-9)
    assert max(float(row["violation"]) for row in found) < 1e-6
    share = "- few: E[label == 'spam'] <= '30%'\n- one: E[label == 'spam'] <= 2\n"
    assert project("s.csv", "--prices", folder / "p.csv", constraints=share).exit_code == 0
    first, second = rows((folder / "p.csv").read_text())
    assert float(first["price_per_percentage_point"]) == pytest.approx(0.03 * float(first["price"]))
    assert second["price_per_percentage_point"] == ""


def test_report(project, folder):
    assert project("s.csv", "--report", folder / "r.html", "-o", folder / "out.csv").exit_code == 0
    page = (folder / "r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    assert "two are spam" in page
    assert "<code>spectrem project " in page


def test_summary_and_silence(project, folder):
    out = folder / "out.csv"
    result = project("s.csv", "--decide", "-o", out)
    first, prices, dearest, decided = result.stderr.splitlines()
    assert first.startswith("projected 3 rows, labels ham, spam, onto 2 constraints (3 rows of them) in ")
    assert "worst violation 0.8 before, " in first
    assert "cost 0.5656 nats" in first
    assert prices == "constraints that bind, those that cost most first, prices in nats:"
    assert dearest == "  two are spam: 1.2 -> 2 == 2, price -1.46, cost 0.5831 nats"
    assert decided.startswith("decided: 1 of 3 labels differ from the most probable before; score -1.30933 nats, gap")
    assert project("s.csv", "-o", out, "--quiet").stderr == ""
    idle = "- E[label == 'spam'] <= 3\n"
    assert "no constraint binds; the probabilities are what they were" in project(constraints=idle).stderr


def test_names_that_mean_something_else_are_told(project):
    content = "row,label,ham,spam\nx,1,0.9,0.1\nx,0,0.4,0.6\n"
    only = "- x: (E[label == 'spam'] <= 0.5).per('row')\n"
    result = project(content, "--labels", "ham,spam", constraints=only)
    assert result.exit_code == 0, result.stderr
    assert "note: 'row' in constraints means the number of the row, not the column 'row' of " in result.stderr
    assert "note: 'label' in constraints means the label to be chosen, not the column 'label' of " in result.stderr
    np.testing.assert_allclose(numbers(result.stdout, "spam").ravel(), [0.1, 0.5], rtol=1e-6)


def test_values_that_no_row_has_are_refused_unless_allowed(project):
    only = "- x: E[(label == 'spam') & (document == 'c')] <= 1\n"
    fails(
        project(constraints=only),
        "'x': there is no document 'c'; the documents are 'a', 'b'; write .allow_empty() behind the constraint if "
        "there may be none",
    )
    result = project("s.csv", "--quiet", constraints=only.replace("E[", "(E[").replace("1\n", "1).allow_empty()\n"))
    assert (result.exit_code, result.stderr) == (0, "")
    fails(project("s.csv", "--quiet", constraints=only.replace("'c'", "3")), "compares text with numbers")


def test_rows_without_a_key_are_free_and_told(project):
    scores = "household,ham,spam\na,0.5,0.5\n,0.5,0.5\na,0.5,0.5\nNA,0.5,0.5\nnan,0.5,0.5\n"
    once = "- once: (E[label == 'spam'] <= 0.5).per('household')\n"
    result = project(scores, constraints=once)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith(
        "note: 3 of 5 rows have no 'household' (the cell is empty, NA or the like); they belong to no group of it\n"
    )
    np.testing.assert_allclose(numbers(result.stdout, "spam").ravel(), [0.25, 0.5, 0.25, 0.5, 0.5], atol=1e-6)
    assert rows(result.stdout)[3]["household"] == "NA"
    result = project(scores, constraints="- E[(label == 'spam') & (household == 'a')] == 0.2\n")
    np.testing.assert_allclose(numbers(result.stdout, "spam").ravel(), [0.1, 0.5, 0.1, 0.5, 0.5], atol=1e-6)
    message = "there is no household 'NA'; did you mean 'a'? the households are 'a'"
    result = project(scores, "--quiet", constraints="- E[(label == 'spam') & (household == 'NA')] <= 1\n")
    fails(result, message)


def test_formats_agree(project, folder):
    polars = pytest.importorskip("polars")
    text = project().stdout
    assert project("s.csv", "-o", folder / "a.parquet").exit_code == 0
    polars.read_csv(folder / "s.csv", infer_schema=False).with_columns(
        ham=polars.Series([0.9, 0.4, 0.5]), spam=polars.Series([0.1, 0.6, 0.5])
    ).write_parquet(folder / "s.parquet")
    assert project("s.parquet").stdout == text
    assert project("-", stdin=SCORES).stdout == text
    assert project("-", stdin=gzip.compress(SCORES.encode())).stdout == text
    (folder / "s.tsv").write_text(SCORES.replace(",", "\t"))
    assert project("s.tsv", "-o", folder / "a.csv.gz").exit_code == 0
    assert gzip.decompress((folder / "a.csv.gz").read_bytes()).decode() == text
    table = polars.read_parquet(folder / "a.parquet")
    assert table.columns == ["id", "document", "ham", "spam"]
    assert table["id"].to_list() == ["007", "8", "9"]
    assert table["spam"].to_list() == numbers(text, "spam").ravel().tolist()


def test_constraints_that_cannot_be_met_within_rows_may_be_skipped(project):
    within = "- two each: (E[label == 'spam'] >= 2).per('row')\n"
    fails(project(constraints=within), "'two each'", "--infeasible skip")
    result = project("s.csv", "--infeasible", "skip", constraints=within)
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(numbers(result.stdout, "ham", "spam"), PROBA, rtol=1e-9)


@pytest.mark.parametrize(
    ("scores", "options", "part_of_message"),
    [
        (SCORES, ["--labels", "ham,eggs"], "--labels: given.csv has no column 'eggs'; its columns are 'id', "),
        (SCORES, ["--labels", "ham,,spam"], "--labels 'ham,,spam': must name columns, each once, with commas between"),
        (SCORES, ["--labels", "ham,ham"], "--labels 'ham,ham': must name columns, each once"),
        (
            SCORES,
            ["--labels", "ham"],
            "need two columns of scores or more, found only 'ham'; the others are 'id' "
            "(line 2: '007' has a zero in front)",
        ),
        (
            SCORES,
            ["--prefix", "p_"],
            "no column of given.csv begins so; its columns are 'id', 'document', 'ham', 'spam'",
        ),
        (SCORES, ["--prefix", "ham"], "--prefix 'ham' is the whole name of a column; what follows it is the label"),
        (
            SCORES,
            ["--prefix", "q_"],
            "--prefix 'q_': no column of given.csv begins so; its columns are 'id', 'document'",
        ),
        (SCORES, ["--labels", "ham,spam", "--prefix", "s"], "--labels and --prefix all say where the scores are; give"),
        (SCORES, ["--long", "id,document"], "--long 'id,document': must name three columns: row, label, score"),
        (SCORES, ["--long", "id,document,p"], "--long: given.csv has no column 'p'"),
        (SCORES, ["--log"], "--log needs the columns of the scores, since any number may be one; give --labels, "),
        (SCORES, ["--normalize"], "--normalize needs the columns of the scores, since any number may be one; give "),
        (SCORES, ["--labels", "ham,spam", "--log", "--normalize"], "--log and --normalize exclude each other: "),
        (SCORES, ["--weights", "w"], "--weights: given.csv has no column 'w'"),
        (SCORES, ["--time-limit", "3"], "--time-limit 3 concerns --decide; add it or drop this"),
        (SCORES, ["--gamma", "-1"], "gamma must be -inf or a finite number >= 0; got -1.0"),
        (
            SCORES.replace("007", "7"),
            [],
            "line 2: id, ham, spam sum to 8, not 1 (3 such rows); they were taken for the scores because they hold "
            "numbers and neither the constraints nor --weights name them (as they do document); correct the row, or if "
            "others are meant, name the columns by --labels ham,spam or --prefix p_, and add --log for "
            "log-probabilities or logits",
        ),
        (
            SCORES.replace("0.9", "0.8"),
            ["--labels", "ham,spam"],
            "line 2: ham, spam sum to 0.9, not 1; name the columns of the other labels, too, or add --normal",
        ),
        (
            "a,b,c\n0.49,0.5,0.01\n0.49,0.5,low\n0.49,0.5,high\n",
            [],
            "line 2: a, b sum to 0.99, not 1 (3 such rows); if they are rounded, add --normalize and name the columns, "
            "--labels a,b; not used: 'c' (line 3: 'low' is not a number)",
        ),
        (
            SCORES.replace("0.9", "0.89"),
            [],
            "sum to 0.99, not 1; if they are rounded, add --normalize and name the columns, --labels ham,spam",
        ),
        (
            SCORES.replace("0.9,0.1", "0,0"),
            [],
            "line 2: ham, spam are all 0, so no label is possible; give one of them a probability, or drop the row",
        ),
        (
            SCORES.replace("0.4,0.6", "1.4,-0.4"),
            [],
            "line 3, column 'spam': -0.4 is not a probability; name the columns of scores by --labels, and add --log",
        ),
        (SCORES.replace("0.4", ""), [], "line 3, column 'ham': the cell is empty; give every label a score, 0 if it"),
        (
            SCORES.replace("0.4", "?"),
            [],
            "line 3, column 'ham': '?' is not a number, in a column of numbers; correct it",
        ),
        (
            SCORES.replace("0.4", "inf"),
            ["--log", "--labels", "ham,spam"],
            "line 3, column 'ham': log-scores must be finite or -inf, found inf; clip it",
        ),
        (
            "ham,spam\n0.5,-1e308\n1e308,-1e308\n",
            ["--log", "--labels", "ham,spam"],
            "line 3, column 'ham': the log-score 1e+308 is so large that differences and sums overflow; subtract it",
        ),
        (
            SCORES.replace("0.4,0.6", "-inf,-inf"),
            ["--log", "--labels", "ham,spam"],
            "line 3: every label is impossible (-inf); drop the row",
        ),
        (
            SCORES.replace("ham", "p_ham").replace("spam", "p_spam"),
            [],
            "there is no label 'spam'; did you mean 'p_spam'? the labels are 'p_ham', 'p_spam'; "
            "--prefix p_ takes the rest of the names",
        ),
        (SCORES.replace("ham", "decided"), ["--decide"], "has a column 'decided', which --decide adds; rename it"),
        (
            SCORES.replace("document", "w").replace("a,0.4", "-1,0.4").replace("a,", "1,").replace("b,", "1,"),
            ["--weights", "w"],
            "line 3, column 'w': weights must be finite and at least 0, found -1; correct it",
        ),
        (
            "row,label,p\na,x,0.5\na,x,0.5\n",
            ["--long", "row,label,p"],
            "line 3: the label 'x' stands twice in row a, first in line 2; drop one, or tell rows apart",
        ),
        (
            "row,label,p\na,x,0.5\na,y,0.5\nb,x,1\nb,y,1\n",
            ["--long", "row,label,p"],
            "line 4: the scores of row b sum to 2, not 1; add --normalize to divide those of every row by ",
        ),
    ],
)
def test_scores_that_are_refused(project, folder, monkeypatch, scores, options, part_of_message):
    monkeypatch.chdir(folder)
    constraints = "- two: E[label == 'spam'] == 2\n" if "document" not in scores else "c.yaml"
    (folder / "given.csv").write_text(scores)
    result = project("given.csv", *options, "-o", folder / "out.csv", constraints=constraints)
    fails(result, part_of_message.replace("given.csv", str(folder / "given.csv")))
    assert not (folder / "out.csv").exists()
    assert not list(folder.glob("*.tmp"))


def test_constraints_that_are_refused(project, folder):
    fails(project(constraints="none.yaml"), "none.yaml: no such file; check the path")
    fails(project(constraints="s.csv"), "s.csv: the name must end in .yaml, .yml, .json")
    fails(
        project(constraints="- (E[label == 'spam'] <= 1).per('documnt')\n"),
        "given.yaml, line 1, column 33: there is no column 'documnt'; did you mean 'document'? the columns are 'row'",
    )
    fails(project(constraints="- x: E[label == 'eggs'] <= 1\n"), "'x': there is no label 'eggs'; the")
    fails(project(constraints="- five: E[label == 'spam'] == 5\n"), "'five': cannot be met")
    fails(
        project("s.csv", "--decide", constraints="- half: E[label == 'spam'] == 1.5\n"),
        "'half': no choice of one label per row meets the constraints, although probabilities may; make bounds whole "
        "numbers, turn == into between(low, high), or give slack by .slack(penalty=..., norm='l1')",
    )


def test_places_that_cannot_be_written_are_found_first(project, folder):
    nowhere = folder / "no" / "out.csv"
    fails(project("none.csv", "-o", nowhere), "does not exist; make it first")
    fails(
        project("none.csv", "-o", folder / "out.txt"), "out.txt: the format cannot be told by the name; let it end in"
    )
    fails(project("none.csv", "--prices", nowhere), "does not exist; make it first")
    fails(project("none.csv", "--report", nowhere.with_suffix(".html")), "does not exist; make it first")
    fails(project("none.csv", "-o", folder / "out.csv"), "none.csv: no such file; check the path")
    out = folder / "out.csv"
    fails(project("s.csv", "-o", out, "--prices", out), "--output and --prices must be two files, got ")
    fails(
        project("none.csv", "-o", out, "--prices", folder / "none.csv"),
        "none.csv would replace ",
        "which is read as SCORES; name another file",
    )
    assert sorted(path.name for path in folder.iterdir()) == ["c.yaml", "s.csv"]


def test_help_loads_nothing_heavy(loaded_by):
    for command in ("project", "cluster"):
        loaded, output = loaded_by(["numpy", "scipy", "polars", "sklearn"], command, "--help")
        assert "--constraints" in output
        assert loaded == []


def test_commands_come_in_a_sensible_order(run):
    from spectrem.cli.app import _COMMANDS

    lines = run("--help").stdout.splitlines()
    shown = [line.strip("│ ").split()[0] for line in lines if line.startswith("│ ") and line[2:3].isalpha()]
    assert shown == list(_COMMANDS)


def test_groups_of_sentences_are_told_apart_from_tables(project):
    result = project(SCORES, "--constraint", "at_most(2, 'spam')")
    fails(result, "per sentence unless told: add per='document' or another column, or write E[label == 'x'] <= 2 for")


def test_rounded_probabilities_are_divided_by_their_sum(project):
    rounded = SCORES.replace("0.9", "0.89")
    given = numbers(rounded, "ham", "spam")
    columns = {"document": ["a", "a", "b"]}
    shares = given / given.sum(axis=1, keepdims=True)
    exact = spectrem.project(shares, [TWO, ONCE], columns=columns, labels=["ham", "spam"]).proba
    result = project(rounded, "--labels", "ham,spam", "--normalize")
    np.testing.assert_allclose(numbers(result.stdout, "ham", "spam"), exact, atol=1e-9)
    counts = "id,label,n\n0,ham,9\n0,spam,3\n1,ham,1\n1,spam,1\n"
    ones = "- E[label == 'spam'] == 1\n"
    result = project(counts, "--long", "id,label,n", "--normalize", constraints=ones)
    assert numbers(result.stdout, "n")[[1, 3]].sum() == pytest.approx(1.0)
    assert numbers(result.stdout, "n")[:2].sum() == pytest.approx(1.0)
    nothing = counts.replace("1,ham,1", "1,ham,0").replace("1,spam,1", "1,spam,0")
    fails(
        project(nothing, "--long", "id,label,n", "--normalize", constraints=ones), "the scores of row 1 sum to 0, not"
    )
