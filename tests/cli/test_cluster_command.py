"""`spectrem cluster`."""

import csv
import io
import re
import warnings

import numpy as np
import pytest

from spectrem import GaussianMixture
from spectrem.cli.tables.cluster import project_plane
from spectrem.constraints import E, cannot_link, cluster_size, must_link, part
from spectrem.exceptions import ConvergenceWarning
from spectrem.learning import Anneal

CENTRES = [(0, 0), (4, 0), (0, 4)]
HEADER = "name,x,y,kind,w"


class Data:
    """A table of points in three groups, on disk."""

    def __init__(self, folder):
        rng = np.random.default_rng(0)
        self.folder, self.path = folder, folder / "d.csv"
        self.x = np.round(np.vstack([rng.normal(centre, 1.0, (20, 2)) for centre in CENTRES]), 3)
        self.names = [f"r{k}" for k in range(60)]
        self.kinds = [f"kind {k % 4}" for k in range(60)]
        self.weights = 1.0 + (np.arange(60) % 3)
        lines = [
            f"{name},{x},{y},{kind},{weight:g}"
            for name, (x, y), kind, weight in zip(self.names, self.x, self.kinds, self.weights, strict=True)
        ]
        self.text = "\n".join([HEADER, *lines]) + "\n"
        self.path.write_text(self.text)

    def fitted(self, x=None, *, y=None, sample_weight=None, columns=None, **parameters):
        """What the estimator learns without the command line."""
        own = {"n_components": 3, "random_state": 0, "n_threads": 1} | parameters
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return GaussianMixture(**own).fit(self.x if x is None else x, y, sample_weight, columns)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return Data(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def cluster(run, data):
    def invoke(*options, table=None, k=3, features="x,y", stdin=None):
        chosen = [] if features is None else ["--features", features]
        return run("cluster", data.path if table is None else table, "-k", k, *chosen, *options, stdin=stdin)

    return invoke


@pytest.fixture
def write(tmp_path):
    def make(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return make


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def found(result):
    assert result.exit_code == 0, result.stderr
    return [int(row["cluster"]) for row in rows(result.stdout)]


def fails(result, *parts):
    assert result.exit_code == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("spectrem: error: ")
    assert result.stderr.count("\n") == 1
    for one in parts:
        assert one in result.stderr


CASES = [
    (["--covariance-type", "diag"], {"covariance_type": "diag"}),
    (["--covariance-type", "tied"], {"covariance_type": "tied"}),
    (["--gamma", "0.2"], {"gamma": 0.2}),
    (["--anneal", "0.6"], {"schedule": Anneal(0.6)}),
    (["--anneal", "1.5", "--gamma", "0.5"], {"schedule": Anneal(1.5, 2.0)}),
    (["--max-iter", "1"], {"max_iter": 1}),
    (["--tol", "1e-9"], {"tol": 1e-9}),
    (["--random-state", "4"], {"random_state": 4}),
    (["--reg-covar", "0.5"], {"reg_covar": 0.5}),
    (["--init-params", "random_from_data"], {"init_params": "random_from_data"}),
    (["--max-iter", "0"], {"max_iter": 0}),
    (["--size", "10:20"], {"constraints": [cluster_size(10, 20)]}),
    (["--size", "20:"], {"constraints": [cluster_size(20)]}),
    (["--size", ":20"], {"constraints": [cluster_size(max=20)]}),
    (["--size", "20:20", "--assign", "feasible"], {"constraints": [cluster_size(20, 20)], "assign": "feasible"}),
]


@pytest.mark.parametrize(("options", "parameters"), CASES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_options_reach_the_estimator(cluster, data, options, parameters):
    result = cluster("--add-probabilities", *options)
    mixture = data.fitted(**parameters)
    assert found(result) == mixture.labels_.tolist()
    proba = [[float(row[f"cluster_{k}"]) for k in range(3)] for row in rows(result.stdout)]
    expected = mixture.posteriors_ if "constraints" in parameters else mixture.predict_proba(data.x)
    np.testing.assert_allclose(proba, expected, rtol=1e-9, atol=1e-12)
    plain = data.fitted()
    assert not np.allclose(proba, plain.predict_proba(data.x), atol=1e-6)  # otherwise the test could not fail


def test_starts(cluster, data):
    expected, one = (data.fitted(n_components=7, max_iter=3, n_init=n).labels_.tolist() for n in (3, 1))
    assert found(cluster("--n-init", "3", "--max-iter", "3", k=7)) == expected
    assert expected != one


def test_input_columns_stay_and_sizes_are_told(cluster, data):
    result = cluster("--size", "20:20", "--assign", "feasible")
    lines = [line.rsplit(",", 1)[0] for line in result.stdout.splitlines()]
    assert lines == data.text.splitlines()
    assert np.bincount(found(result)).tolist() == [20, 20, 20]
    first, sizes, violation = result.stderr.splitlines()
    assert re.fullmatch(
        r"found 3 clusters in 60 rows by x, y in \d+\.\d s: \d+ iterations, objective -\d\.\d+ nats per row; "
        r"not used: 'name', 'kind', 'w'",
        first,
    )
    assert sizes == "sizes: 0: 20, 1: 20, 2: 20"
    assert violation.startswith("worst violation of the constraints, in expectation: ")
    assert violation.endswith("; the clusters meet them exactly")
    assert "the clusters themselves may not, see --assign" in cluster("--size", "20:20").stderr
    assert cluster("--quiet").stderr == ""


def test_runs_that_do_not_converge_say_so(cluster):
    told = "spectrem: warning: still gaining after 1 iteration; raise --max-iter or --tol\n"
    assert cluster("--max-iter", "1").stderr.endswith(told)
    assert told not in cluster().stderr


def test_features_are_all_numbers_that_nothing_names(cluster, data, write):
    constraints = write("c.json", '{"some 0": "(E[label == 0] >= 1).per(\\"kind\\")"}')
    result = cluster("-c", constraints, "--weights", "w", "--id", "name", features=None)
    mixture = data.fitted(
        constraints=[(E[part("label") == 0] >= 1).per("kind").named("some 0")],
        sample_weight=data.weights,
        columns={"kind": data.kinds},
    )
    assert found(result) == mixture.labels_.tolist()
    assert "by x, y in " in result.stderr
    assert "by x, y, w in " in cluster(features=None).stderr


def test_columns_that_number_the_rows_are_no_features(cluster, data, write):
    lines = data.text.splitlines()
    numbered = [f"{line},{number}" for number, line in enumerate(lines[1:], start=1)]
    table = write("n.csv", "\n".join([lines[0] + ",no", *numbered]) + "\n")
    fails(
        cluster(table=table, features=None),
        f"{table}, column 'no': numbers the rows, from 1 to 60; give --id no if it only names them, or name the "
        "columns to cluster by: --features x,y,w",
    )
    assert found(cluster("--id", "no", table=table, features=None)) == found(cluster(features=None))


def test_standardize(cluster, data):
    x = np.column_stack([data.x[:, 0], 100 * data.x[:, 1]])
    table = data.text.splitlines()
    scaled = [f"{line},{100 * y!r}" for line, y in zip(table[1:], data.x[:, 1].tolist(), strict=True)]
    text = "\n".join([table[0] + ",z", *scaled]) + "\n"
    options = ["--covariance-type", "spherical", "--standardize"]
    result = cluster(*options, table="-", features="x,z", stdin=text)
    mixture = data.fitted((x - x.mean(0)) / x.std(0), covariance_type="spherical")
    assert found(result) == mixture.labels_.tolist()
    assert found(result) != data.fitted(x, covariance_type="spherical").labels_.tolist()
    fails(
        cluster("--standardize", table="-", features="x,y", stdin="x,y\n1,2\n2,2\n3,2\n"),
        "standard input, column 'y': is the same in every row, which --standardize cannot bring to standard deviation",
    )
    fails(
        cluster("--standardize", table="-", features="x,y", stdin="x,y\n1,1e160\n2,-1e160\n3,1e160\n"),
        "standard input, column 'y': the squares of its numbers overflow, so it has no standard deviation; divide it",
    )


LINKS = [(0, 1), (2, 21), (3, 45)]


@pytest.mark.parametrize("by_name", [False, True])
def test_links(cluster, data, write, by_name):
    def shown(k):
        return data.names[k] if by_name else str(k)

    together = write("must.csv", "\n".join(["a,b", *(f"{shown(i)},{shown(j)}" for i, j in LINKS[1:])]) + "\n")
    apart = write("cannot.tsv", "a\tb\n" + f"{shown(0)}\t{shown(1)}\n")
    options = ["--must-link", together, "--cannot-link", apart, *(["--id", "name"] if by_name else [])]
    result = cluster("--assign", "feasible", *options)
    labels = found(result)
    mixture = data.fitted(constraints=[must_link(LINKS[1:]), cannot_link(LINKS[:1])], assign="feasible")
    assert labels == mixture.labels_.tolist()
    assert labels[2] == labels[21]
    assert labels[3] == labels[45]
    assert labels[0] != labels[1]
    assert data.fitted().labels_[2] != data.fitted().labels_[21]


def test_known_clusters(cluster, data):
    known = np.full(60, -1)
    known[[0, 20, 40, 41]] = [2, 0, 1, 1]
    cells = ["", "-1"]
    lines = data.text.splitlines()
    marked = [
        f"{line},{label if label >= 0 else cells[n % 2]}"
        for n, (line, label) in enumerate(zip(lines[1:], known.tolist(), strict=True))
    ]
    text = "\n".join([lines[0] + ",known", *marked]) + "\n"
    result = cluster(
        "--known", "known", "--add-probabilities", table="-", features=None, stdin=text.replace(",w,", ",ww,")
    )
    x = np.column_stack([data.x, data.weights])
    assert found(result) == data.fitted(x, y=known, partial_labels=True).labels_.tolist()
    assert found(result)[0] == 2
    assert [rows(result.stdout)[0][f"cluster_{k}"] for k in range(3)] == ["0.0", "0.0", "1.0"]
    fails(
        cluster("--known", "known", table="-", k=2, stdin=text),
        "standard input, line 2, column 'known': with --n-components 2 known clusters go from 0 to 1, found 2; correct",
    )


def test_formats_agree(cluster, data, tmp_path):
    polars = pytest.importorskip("polars")
    text = cluster().stdout
    polars.read_csv(data.path).write_parquet(tmp_path / "d.parquet")
    assert cluster("-o", tmp_path / "out.parquet", table=tmp_path / "d.parquet").exit_code == 0
    assert cluster("-o", tmp_path / "text.parquet").exit_code == 0
    tables = [polars.read_parquet(tmp_path / name) for name in ("out.parquet", "text.parquet")]
    assert tables[0].equals(tables[1].cast(tables[0].schema))
    assert tables[0]["cluster"].to_list() == [int(row["cluster"]) for row in rows(text)]
    assert tables[0].columns == [*HEADER.split(","), "cluster"]


def test_report(cluster, tmp_path):
    page = tmp_path / "r.html"
    assert cluster("--size", "20:20", "--report", page).exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    assert "cluster size" in page.read_text()
    assert "<th>feature 0</th>" not in page.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "20"], "--size '20' is not understood; write MIN:MAX, MIN: or :MAX, as in 40:60"),
        (["--size", "a:b"], "--size 'a:b' is not understood"),
        (["--size", ":"], "--size ':': needs 0 <= MIN <= MAX and a bound; write 40:60, 40: or :60"),
        (["--size", "9:3"], "--size '9:3': needs 0 <= MIN <= MAX"),
        (["--size", "30:"], "'cluster size': the smallest sizes of the 3 clusters add up to 90"),
        (["--gamma", "-1"], "gamma must be -inf or at least 0 and finite, got -1.0"),
        (["--gamma", "0", "--anneal", "0.5"], "--anneal cools down to a gamma above 0, but --gamma is 0; raise it"),
        (
            ["--anneal", "2"],
            "--anneal 2: starts at gamma = 1 / BETA, which must not be below --gamma 1; give a BETA above 0 and at ",
        ),
        (
            ["--assign", "feasible"],
            "--assign feasible needs constraints; give --size, --must-link, --cannot-link or --c",
        ),
        (
            ["--id", "kind"],
            "line 6, column 'kind': 'kind 0' also names the row of line 2; --id needs a column that names",
        ),
        (
            ["--id", "nome"],
            "--id: {data} has no column 'nome'; did you mean 'name'? its columns are 'name', 'x', 'y', 'kind', 'w'",
        ),
        (["--weights", "x"], "column 'x': weights must be finite and at least 0, found -"),
        (
            ["--known", "kind"],
            "line 2, column 'kind': --known needs whole numbers from 0, or empty cells where unknown, ",
        ),
        (["--size", "1e400:"], "--size '1e400:' is not understood; write MIN:MAX, MIN: or :MAX, as in 40:60"),
        (["--must-link", "none.csv"], "none.csv: no such file; check the path"),
        (["--must-link", "-", "--cannot-link", "-"], "--must-link and --cannot-link cannot both be standard input"),
        (["-k", "61"], "--n-components 61: {data} has only 60 rows; lower it"),
        (["--features", "x,z"], "--features: {data} has no column 'z'"),
        (
            ["--features", "x,kind"],
            "line 2, column 'kind': 'kind 0' is not a number; correct it, or drop the row, or leave",
        ),
        (["--features", "x,x"], "--features 'x,x': must name columns, each once, with commas between; write a,b,c"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_are_refused(cluster, data, tmp_path, options, message):
    if "--id" in options:
        links = tmp_path / "l.csv"
        links.write_text("a,b\nr0,r1\n")
        options = [*options, "--must-link", links]
    out = tmp_path / "out.csv"
    fails(cluster(*options, "-o", out), message.replace("{data}", str(data.path)))
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("options", [[], ["--standardize"]])
def test_empty_cells_are_missing_values(cluster, data, options):
    gaps = np.random.default_rng(1).uniform(size=data.x.shape) < 0.2
    lines = (
        ",".join("" if gap else str(value) for value, gap in zip(*row, strict=True))
        for row in zip(data.x, gaps, strict=True)
    )
    result = cluster(*options, table="-", features=None, stdin="x,y\n" + "\n".join(lines))
    x = np.where(gaps, np.nan, data.x)
    if options:
        x = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0)
    assert found(result) == data.fitted(x).labels_.tolist()
    assert f"nats per row; {gaps.sum()} cells of 120 missing\n" in result.stderr


def test_columns_without_values_are_refused(cluster):
    fails(
        cluster(table="-", k=1, stdin="x,y\n1,\n1,\n3,\n"),
        "standard input, column 'y': is empty in every row that counts; fill it in, or leave the column out by "
        "--features x",
    )


@pytest.mark.parametrize("missing", [None, np.nan])
def test_null_and_nan_of_parquet_are_missing(cluster, tmp_path, missing):
    polars = pytest.importorskip("polars")
    polars.DataFrame({"x": [1.0, 1.5, 8.0, 9.0, 1.0], "y": [2.0, 2.5, missing, 7.0, 1.0]}).write_parquet(
        tmp_path / "d.parquet"
    )
    result = cluster("--covariance-type", "spherical", "--plot", tmp_path / "d.png", table=tmp_path / "d.parquet", k=2)
    labels = found(result)
    assert labels[2] == labels[3] != labels[0]
    assert "; 1 cell of 10 missing\n" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y,cluster\n1,2,3\n1,3,3\n3,4,3\n", "has a column 'cluster', which is to be added; rename it"),
        (
            "x,y\n1,2\n1,\n3,nan\n",
            "line 4, column 'y': the cell is not a number (nan)",
        ),
        ("x,y\n1,2\n1,inf\n3,4\n", "line 3, column 'y': inf is not finite; correct it, or drop the row, or leave the"),
        ("x,y\n1,2\n", "standard input has one row only; clusters need two or more"),
        (
            "x,y\n1,2\n1,NA\n3,4\n",
            "line 3, column 'y': 'NA' is not a number, in a column of numbers; correct it, or name",
        ),
        ("x,y\na,b\n", "no column holds numbers, besides those that options name; name features by --features"),
    ],
)
def test_tables_that_are_refused(cluster, tmp_path, text, message):
    out = tmp_path / "out.csv"
    fails(cluster("-o", out, table="-", k=1, features=None, stdin=text), message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "0,1\n2,3\n",
            "line 1: must name the two columns, found numbers; write a line such as first,second above them",
        ),
        ("a,b,c\n1,2,3\n", "must have two columns, found 3: a, b, c"),
        (
            "a,b\n1,60\n",
            "line 2: there is no row 60 in {data}: rows are numbered from 0 to 59; give --id COLUMN if rows",
        ),
        ("a,b\n1,-1\n", "line 2: there is no row -1 in"),
        ("a,b\nr1,r2\n", "line 2: there is no row 'r1' in"),
        ("a,b\n1,2\n3,3\n", "line 3: links a row to itself; drop the line"),
        ("a,b\n1,\n", "line 2, column 'b': the cell is empty; fill it in"),
    ],
)
def test_links_that_are_refused(cluster, data, write, text, message):
    links = write("l.csv", text)
    fails(cluster("--cannot-link", links), str(links), message.replace("{data}", str(data.path)))


def test_links_by_names_that_do_not_exist(cluster, data, write):
    links = write("l.csv", "a,b\nr1,s2\n")
    fails(
        cluster("--must-link", links, "--id", "name"),
        f"--must-link {links}, line 2: there is no row 's2' in {data.path}: no row has it in --id; correct it",
    )


def test_constraints_that_are_refused(cluster, write):
    wrong = write("c.yaml", "- x: E[label == 3] >= 1\n")
    fails(cluster("-c", wrong), "'x': there is no label 3; the labels are 0, 1, 2")
    wrong.write_text("- x: E[(label == 0) & (kind == 'kind 9')] <= 1\n")
    fails(
        cluster("-c", wrong),
        "'x': there is no kind 'kind 9'; did you mean 'kind 3'? the kinds are 'kind 0', 'kind 1', 'kind 2', 'kind 3'; "
        "write .allow_empty() behind the constraint if there may be none",
    )
    wrong.write_text("- (E[(label == 0) & (kind == 'kind 9')] <= 1).allow_empty()\n")
    assert cluster("-c", wrong).exit_code == 0
    wrong.write_text("- (E[label == 0] >= 1).per('kinds')\n")
    fails(cluster("-c", wrong), "there is no column 'kinds'; did you mean 'kind'? the columns are 'row', 'label',")


def test_plot(cluster, tmp_path):
    pytest.importorskip("matplotlib")
    for features in ("x,y", "x,y,w"):
        plot, out = tmp_path / f"{len(features)}.svg", tmp_path / "out.csv"
        result = cluster("--plot", plot, "-o", out, features=features)
        assert result.exit_code == 0, result.stderr
        assert "<svg" in plot.read_text()


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_principal_axes_keep_what_they_can(data, covariance):
    x = np.column_stack([data.x, 0.01 * data.weights])
    mixture = data.fitted(x, covariance_type=covariance)
    points, flat = project_plane(mixture, x)
    np.testing.assert_allclose(points.var(axis=0).sum(), x.var(axis=0).sum(), rtol=1e-3)
    np.testing.assert_allclose(points[mixture.labels_ == 0].mean(axis=0), flat.means_[0], atol=0.1)
    variances = np.trace(flat.covariances_, axis1=1, axis2=2)
    full = {"full": mixture.covariances_, "tied": [mixture.covariances_] * 3}.get(covariance)
    diagonal = np.trace(full, axis1=1, axis2=2) if full is not None else None
    if covariance == "diag":
        diagonal = mixture.covariances_.sum(axis=1)
    if diagonal is not None:
        np.testing.assert_allclose(variances, diagonal, rtol=2e-2)
    else:
        np.testing.assert_allclose(variances, 2 * mixture.covariances_, rtol=1e-9)


def test_plots_that_are_refused(cluster, tmp_path, monkeypatch):
    fails(cluster("--plot", "a.doc"), "--plot a.doc: the name must end in .png, .svg, .pdf")
    fails(cluster("--plot", tmp_path / "no" / "a.png"), "does not exist; make it first")
    out = tmp_path / "out.csv"
    fails(cluster("--plot", tmp_path / "a.png", "-o", out, features="x"), "--plot needs two features or more, got 'x'")
    monkeypatch.setattr("spectrem.cli.files.find_spec", lambda name: None)
    message = "--plot needs matplotlib, which is not installed; pip install 'spectrem[plot]'"
    fails(cluster("--plot", tmp_path / "a.png", "-o", out), message)
    assert not list(tmp_path.iterdir())


def test_columns_whose_names_mean_something_in_constraints(cluster, tmp_path):
    rows = "".join(f"{n % 2},g{n % 2},{n * n % 7}.1,{n * 3 % 5}.2\n" for n in range(8))
    constraints = tmp_path / "c.yaml"
    constraints.write_text("- (E[label == 0] <= 2).per('instance')\n")
    result = cluster("-c", constraints, k=2, table="-", features="x,y", stdin="instance,label,x,y\n" + rows)
    assert result.exit_code == 0
    note, *_, first, _sizes, _violation = result.stderr.splitlines()
    assert note == "note: 'label' in constraints means the cluster, not the column 'label' of standard input"
    assert first.endswith("; not used: 'label'")
    constraints.write_text("- (E[row == 0] <= 1).per('instance')\n")
    result = cluster("-c", constraints, k=2, table="-", features="x,y", stdin="instance,label,x,y\n" + rows)
    assert result.exit_code == 0
    assert "note:" not in result.stderr


def test_clusters_that_are_the_same_are_told(cluster):
    told = cluster("--anneal", "0.1")
    assert "warning: clusters 0 and 1 are the same; lower --n-components or raise --anneal above 0.1" in told.stderr
    for shape in ("tied", "diag", "spherical"):
        assert "are the same" not in cluster("--covariance-type", shape).stderr
    assert "are the same" not in cluster("--anneal", "0.7").stderr


def test_files_for_two_things(cluster, tmp_path):
    out = tmp_path / "out.csv"
    fails(cluster("-o", out, "--report", out), "--output and --report must be two files, got ")
    fails(cluster("-o", out, "--report", tmp_path / "data.csv"), "data.csv: the name must end in .html")
    fails(cluster("-o", out, "--report", tmp_path / ".." / tmp_path.name / "out.csv"), "must be two files, got ")
    assert not out.exists()
