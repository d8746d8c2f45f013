"""`spectrem states`."""

import csv
import io
import re

import numpy as np
import polars
import pytest

from spectrem import HMM, E, load, part

QUICK = ("--init", "clusters", "--n-init", "1", "--max-iter", "50", "--n-threads", "1")


class Office:
    """Two rooms over four days, on disk: busy by day, with more visits and a higher temperature, rows out of order."""

    def __init__(self, folder):
        rng = np.random.default_rng(0)
        self.folder, self.path = folder, folder / "office.csv"
        rows = []
        for room in ("north", "south"):
            for hour in range(96):
                busy = 8 <= hour % 24 < 18
                heat = "" if hour % 11 == 0 else f"{20 + 4 * busy + rng.normal(0, 0.5):.3f}"
                visits, kind = rng.poisson(1 + 8 * busy), "ab"[busy] if rng.random() < 0.9 else "c"
                known = ("busy" if busy else "empty") if hour % 24 == 12 or hour % 24 == 2 else ""
                rows.append([room, f"2026-01-{hour // 24 + 5:02d} {hour % 24:02d}:00", heat, visits, kind, known])
        self.rows = [rows[k] for k in rng.permutation(len(rows))]
        self.path.write_text(
            "room,when,heat,visits,kind,seen\n" + "".join(",".join(map(str, r)) + "\n" for r in self.rows)
        )
        self.busy = np.array(["busy" if 8 <= int(row[1][11:13]) < 18 else "empty" for row in self.rows])


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    return Office(tmp_path_factory.mktemp("states"))


@pytest.fixture
def fit(run, office, tmp_path):
    """Train, and return what was said and the model."""

    def invoke(*options, table=None):
        path = tmp_path / "model.npz"
        result = run("states", "fit", office.path if table is None else table, "--save", path, *QUICK, *options)
        return result, (load(path) if result.exit_code == 0 else None)

    return invoke


SERIES = ("--group", "room", "--time", "when")


def table_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_states_are_those_of_the_estimator(fit, office, run):
    constraint = '(E[part("state") == "busy"] <= "45%").per("room")'
    result, model = fit(*SERIES, "--states", "busy,empty", "--known", "seen", "--constraint", constraint)
    assert result.exit_code == 0, result.stderr
    assert re.match(
        r"learned 2 states of heat, visits from 2 sequences \(192 rows\) in [\d.]+ s: \d+ iter", result.stderr
    )
    assert re.search(r"\n  busy: heat 24\.\d+, visits 8\.\d+; stays [\d.]+ rows\n", result.stderr)
    frame = polars.read_csv(office.path).with_columns(polars.col("when").str.to_datetime())
    plain = HMM(
        states=["busy", "empty"], group="room", time="when", init="clusters", n_init=1, max_iter=50, n_threads=1,
        random_state=0, constraints=[(E[part("state") == "busy"] <= "45%").per("room")],
    ).fit(frame.select("heat", "visits", "room", "when"), frame["seen"].to_list())  # fmt: skip
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    out = run("states", "predict", office.path, "--load", office.folder / "none", "-q")
    assert "--load" in out.stderr
    path = office.folder / "model.npz"
    model.save(path)
    out = run("states", "predict", office.path, "--load", path, "--add-probabilities")
    rows = table_of(out.stdout)
    assert [list(row.values())[:6] for row in rows] == [list(map(str, row)) for row in office.rows]
    assert [row["state"] for row in rows] == model.predict(frame).tolist()
    assert np.mean([row["state"] for row in rows] == office.busy) > 0.97
    shares = np.array([[float(row["state_busy"]), float(row["state_empty"])] for row in rows])
    np.testing.assert_allclose(shares, model.predict_proba(frame), atol=1e-12)
    assert re.fullmatch(r"states of 192 rows: busy: \d+, empty: \d+\n", out.stderr)


def test_forecasts_are_those_of_the_estimator(fit, office, run, tmp_path):
    _, model = fit(*SERIES, "-k", "2", "--emissions", "visits=poisson", "--emissions", "kind=categorical")
    model.save(tmp_path / "m.npz")
    out = run(
        "states", "forecast", office.path, "--load", tmp_path / "m.npz", "--steps", "3", "-o", tmp_path / "f.parquet"
    )
    assert out.stderr == "forecast 3 rows after 2 sequences\n"
    found = polars.read_parquet(tmp_path / "f.parquet")
    assert found.columns == [
        *("room", "step", "state_0", "state_1", "heat_mean", "heat_deviation", "visits_mean", "visits_deviation"),
    ]
    assert found["room"].to_list() == ["north"] * 3 + ["south"] * 3
    assert found["step"].to_list() == [1, 2, 3] * 2
    one = model.forecast(polars.read_csv(office.path).filter(polars.col("room") == "south"), 3)
    column = model.column_names_.index("visits")
    np.testing.assert_allclose(found["visits_mean"][3:], one.means[:, column])
    np.testing.assert_allclose(found["visits_deviation"][3:] ** 2, one.variances[:, column])
    np.testing.assert_allclose(found.select("state_0", "state_1")[3:], one.states)


def test_families_by_column(fit):
    _, model = fit(*SERIES, "-k", "2", "--emissions", "kind=categorical", "--covariance-type", "diag")
    assert model.column_names_ == ["heat", "visits", "kind"]
    kinds = {key: type(one).__name__ for key, one in model.emission_.emissions.items()}
    assert kinds == {(2,): "Categorical", (0, 1): "Gaussian"}
    assert model.categories_ == {"kind": ["a", "b", "c"]}
    assert model.emission_.emissions[0, 1].covariance_type == "diag"
    _, model = fit("-k", "2", "--features", "visits", "--emissions", "poisson")
    assert (type(model.emission_).__name__, model.column_names_) == ("Poisson", ["visits"])


@pytest.mark.parametrize("place", ["part('when') < '2026-01-06'", "part('room') == 'north'"])
def test_constraints_name_columns_of_time_and_group(fit, office, place):
    rule = f"E[(part('state') == 'busy') & ({place})] == 0"
    result, model = fit(*SERIES, "--states", "empty,busy", "--project-at-predict", "--constraint", rule)
    assert result.exit_code == 0, result.stderr
    assert model.column_names_ == ["heat", "visits"]
    busy = model.predict_proba(polars.read_csv(office.path).select("heat", "visits", "room", "when"))[:, 1]
    apart = np.array([row[1] < "2026-01-06" if "when" in place else row[0] == "north" for row in office.rows])
    assert busy[apart].sum() < 0.1
    assert busy[~apart].sum() > 10


def test_hours_in_constraints_are_those_of_time(fit, office):
    rule = 'E[(part("state") == "busy") & (part("hour") >= 12)] == 0'
    result, model = fit(*SERIES, "--states", "busy,empty", "--constraint", rule, "--decode", "posterior")
    assert result.exit_code == 0, result.stderr
    frame = polars.read_csv(office.path)
    model.set_params(project_at_predict=True)
    late = frame["when"].str.slice(11, 2).cast(int).to_numpy() >= 12
    assert not (model.predict(frame)[late] == "busy").any()
    result, _ = fit("--group", "room", "-k", "2", "--constraint", 'E[(part("state") == 0) & (part("hour") >= 12)] == 0')
    assert result.stderr == "spectrem: error: hour in constraints means that of --time; give --time COLUMN\n"


def test_columns_of_constraints_may_be_missing_where_they_are_not_read(fit, office, run, tmp_path):
    rule = '(E[(part("state") == 0) & (part("kind") == "a")] <= 90)'
    _, model = fit(*SERIES, "-k", "2", "--constraint", rule)
    assert model.column_names_ == ["heat", "visits"]
    model.save(tmp_path / "m.npz")
    polars.read_csv(office.path).drop("kind", "seen").write_csv(tmp_path / "new.csv")
    new = tmp_path / "new.csv"
    assert run("states", "predict", new, "--load", tmp_path / "m.npz").exit_code == 0
    refused = run(
        "states", "predict", new, "--load", tmp_path / "m.npz", "--project-at-predict", "--decode", "posterior"
    )
    assert f"{new} has no column 'kind'" in refused.stderr


def test_series_and_transitions_are_drawn(fit, office, run, tmp_path):
    pytest.importorskip("matplotlib")
    _, model = fit(*SERIES, "-k", "2")
    model.save(tmp_path / "m.npz")
    for name, options in {"a.png": [office.path], "b.svg": [office.path, "--sequence", "south"], "c.pdf": []}.items():
        done = run("states", "plot", *options, "--load", tmp_path / "m.npz", "-o", tmp_path / name)
        assert (done.exit_code, done.output) == (0, "")
        assert (tmp_path / name).stat().st_size > 3000
    done = run("states", "plot", office.path, "--load", tmp_path / "m.npz", "-o", tmp_path / "a.png", "--sequence", "1")
    assert "--sequence 1: column 'room' of" in done.stderr


def test_a_page_tells_of_the_run(fit, tmp_path):
    rule = '(E[part("state") == 0] <= "45%").named("not too many")'
    fit("-k", "2", "--features", "heat", "--time", "when", "--constraint", rule, "--report", tmp_path / "r.html")
    assert "not too many" in (tmp_path / "r.html").read_text()


def test_a_frame_gives_the_columns_of_training_by_name(fit, office):
    _, model = fit(*SERIES, "-k", "2")
    frame = polars.read_csv(office.path)
    turned = frame.select("visits", "kind", "when", "heat", "room")
    assert model.predict(turned).tolist() == model.predict(frame.select("heat", "visits", "room", "when")).tolist()


def test_a_column_may_be_emitted_and_constrained(fit, office):
    rule = '(E[(part("state") == "busy") & (part("visits") <= 1) & (part("room") == "north")] == 0)'
    options = ["--states", "busy,empty", "--features", "heat,visits", "--constraint", rule]
    _, model = fit(*SERIES, *options)
    assert (model.column_names_, list(model.columns)) == (["heat", "visits"], [])
    frame = polars.read_csv(office.path)
    model.set_params(project_at_predict=True, decode="posterior")
    few = ((frame["visits"] <= 1) & (frame["room"] == "north")).to_numpy()
    assert not (model.predict(frame)[few] == "busy").any()
