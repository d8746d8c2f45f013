"""Constraints as reports tell them: intervals in one line, numbers rounded to what solving can vouch for."""

import numpy as np
import pytest

from spectrem import E, GaussianMixture, part, project
from spectrem.constraints import cannot_link, cluster_size
from spectrem.reports import ConstraintReport, FitReport
from spectrem.reports.constraints import count_demands, demands_of, summarise, total_cost
from spectrem.reports.html import constraint_tables, curves

X = np.random.default_rng(0).normal(size=(60, 2)) + 4.0 * np.eye(2)[(np.arange(60) % 3 == 0).astype(int)]


@pytest.fixture(scope="module")
def sizes():
    mixture = GaussianMixture(3, constraints=[cluster_size(18, 21), cannot_link([[0, 1], [1, 2]])], random_state=0)
    return mixture.fit(X).report_.constraints


def test_both_ends_of_an_interval_are_one_demand(sizes):
    size, apart = sizes
    demands = demands_of(size, 20)
    assert len(demands) == count_demands(size) == 3
    assert len(size.bound) == 6
    assert sorted(demand.group for demand in demands) == ["label 0", "label 1", "label 2"]
    for demand in demands:
        assert (demand.low, demand.high) == (18.0, 21.0)
        row = int(demand.group[-1])
        own = [k for k in range(6) if size.keys["label"][k] == row]
        assert demand.after == size.after[own[0]] == size.after[own[1]]
        assert abs(demand.price) == np.abs(size.price[own]).max()
        assert demand.binds == (abs(demand.price) > 1e-4)
    assert count_demands(apart) == len(apart.bound) == len(demands_of(apart, 20)) == 6
    assert len(demands_of(size, 2)) == 2


def test_the_bound_that_binds_is_told(sizes):
    for demand in demands_of(sizes[0], 20):
        if demand.binds:
            upper = sizes[0].price[(sizes[0].sense == "<=") & (sizes[0].after == demand.after)]
            assert demand.from_above == (upper > 0)
            assert demand.text == f"{21 if demand.from_above else 18} within 18\u201321"
    page = constraint_tables(sizes)
    assert page.count("would gain, in nats") == 1
    assert "18 within 18\u201321" in page or "21 within 18\u201321" in page


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (E[part("label") == 1] >= 0.9, "0.9 ≥ 0.9"),
        (E[part("label") == 1] <= 0.3, "0.3 ≤ 0.3"),
        (E[part("label") == 1] == 0.6, "0.6 = 0.6"),
        (E[part("label") == 1].between(0.1, 0.5), "0.4 within 0.1\u20130.5"),
        ((E[part("label") == 1] >= 0.9).slack(penalty=1e-9), "0.4, 0.5 below 0.9"),
        ((E[part("label") == 1] <= 0.1).slack(penalty=1e-9), "0.4, 0.3 above 0.1"),
        (E[part("label") == 1].between(0.5, 0.6).slack(penalty=1e-9), "0.4, 0.1 below 0.5\u20130.6"),
        ((E[part("label") == 1] == 0.5).slack(penalty=1e-9), "0.4, 0.1 below 0.5"),
    ],
)
def test_texts(rule, text):
    (report,) = project([[0.9, 0.1], [0.7, 0.3]], rule).constraints
    (demand,) = demands_of(report, 20)
    assert demand.text == text
    assert demand.group == ""
    page = constraint_tables([report])
    assert page.count('class="broken"') == page.count("<strong>") * ("," in text)
    assert ("is missed, by 0." in page) == ("," in text)


def test_what_held_before_is_said():
    (report,) = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] <= 1).named("few")).constraints
    assert "<strong>few</strong> holds, also without the constraints" in constraint_tables([report])
    (report,) = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] <= 0.2).per("row").named("few")).constraints
    assert "holds for all 2; without the constraints it would be missed by 0.1" in constraint_tables([report])


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        (10.05, "is missed, by 0.05 at most; without the constraints it would hold"),
        (10.0002, "holds, also without the constraints"),  # beyond the tolerance, but not in the digits shown
    ],
)
def test_what_is_missed_only_under_other_constraints(after, outcome):
    one, free = np.ones(1), np.array([9.0])
    reached, excess = np.array([after]), np.array([after - 10.0])
    report = ConstraintReport("few", np.array(["<="]), {}, 10 * one, one, free, reached, 0 * one, excess, 1.5e-4 * one)
    assert f"<strong>few</strong> {outcome}</summary>" in constraint_tables([report])


def test_numbers_are_rounded_to_what_matters():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(2), 4000)
    (report,) = project(proba, E[part("label") == 1] == 1234.5).constraints
    (demand,) = demands_of(report, 1)
    assert demand.rounded(1234.5000049) == "1,234"
    assert demand.rounded(2.5e-9) == demand.rounded(-1e-9) == "0"
    assert demand.rounded(0.123456) == "0.1"
    assert demand.rounded(np.inf) == "inf"


def test_violations_that_solving_leaves_are_not_drawn(sizes):
    mixture = GaussianMixture(3, constraints=[cluster_size(18, 21)], random_state=0).fit(X)
    tolerance = float(mixture.report_.constraints[0].tolerance.max())
    assert max(record.violation for record in mixture.history_) > 0
    assert "violation" not in curves(mixture.history_, tolerance)
    assert "largest violation of a constraint" in curves(mixture.history_, 1e-12)


def test_shares_are_told_in_per_cent():
    proba = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    columns = {"group": np.repeat(["a", "b", "c"], [30, 20, 10]), "cost": np.arange(60), "old": np.arange(60) < 9}
    label, of_a = part("label"), part("group") == "a"
    rules = {
        "count": E[label == 1] <= 12,
        "share": E[label == 1] <= "20%",
        "each": (E[label == 1] <= "20%").per("group"),
        "divided": E[(label == 1) & of_a] / E.count(of_a) <= 0.2,
        "both": E[label == 1].between("10%", "20%"),
        "mean": E[part("cost") * (label == 1)] / E.count(...) <= 7,
        "sum": E[part("cost")] >= 0.1 * E.count(...),
        "of all costs": E[part("cost") * (label == 1)] <= 0.3 * E.count(part("cost")),
        "old": E[part("old")] >= "1%",
        "equal": E[(label == 1) & of_a] / E.count(of_a) - E[label == 1] / E.count(...) == 0,
    }
    tables = {name: project(proba, {name: rule}, columns=columns) for name, rule in rules.items()}
    reports = {name: table.constraints[0] for name, table in tables.items()}
    assert [name for name, report in reports.items() if not report.is_share] == ["count", "mean", "sum"]
    assert reports["each"].wholes.tolist() == [30, 20, 10]
    price = reports["count"].price[0]
    for name in ("share", "both"):
        np.testing.assert_allclose(reports[name].price[0], price, rtol=1e-6)  # nats per row
        (demand,) = demands_of(reports[name], 1)
        assert demand.price_text == f"{0.6 * price:.3g} per percentage point"
    before = f"{100 * reports['share'].before[0] / 60:.4g}%"
    cost = f"cost {reports['share'].cost[0]:.4g} nats"
    end = f"price {0.6 * price:.3g} per percentage point, {cost}"
    assert tables["share"].summary() == f"share: {before} -> 20% <= 20%, {end}"
    assert tables["both"].summary() == f"both: {before} -> 20% within 10% to 20%, {end}"
    assert "20% ≤ 20%" in constraint_tables([reports["each"]])
    assert tables["equal"].summary().split(", price")[0].endswith("% -> 0% == 0%")
    assert (E[label == 1] / E.count(...) == E[(label == 1) & of_a] / E.count(of_a)).shares == ()
    best = project(proba, {"share": rules["share"], "each": rules["each"]}, -np.inf, columns=columns)
    assert best.summary().splitlines()[0].endswith("20%, price unknown")
    assert best.summary().splitlines()[1] == "each: 3 rows, prices unknown"
    assert "unknown" in best._repr_html_()
    relaxed = project(proba, E[(label == 1) & of_a] / E.count(of_a) <= 0.2001, columns=columns)
    gained = (relaxed.objective - tables["divided"].objective) / 0.01  # of a percentage point
    assert float(demands_of(reports["divided"], 1)[0].price_text.split()[0]) == pytest.approx(gained, rel=0.01)
    summary = summarise(reports["each"])
    assert (summary.is_share, summary.text.endswith("per percentage point")) == (True, True)
    assert summary.highest_price == pytest.approx(np.max(reports["each"].price * [0.3, 0.2, 0.1]))


def test_a_summary_has_a_line_for_each_constraint_and_at_most_40():
    rng = np.random.default_rng(0)
    proba, group = rng.dirichlet(np.ones(4), 3000), np.arange(3000) // 3
    rules = {
        "once": (E[...] <= 1).per("group", "label"),
        "budget": E[part("label") == 3] <= 300,
        "idle": E[...] <= 9000,
    }
    table = project(proba, rules, columns={"group": group})
    once, budget, idle = table.summary().splitlines()
    binding = int(table.constraints[0].binding.sum())
    assert once.startswith(f"once: 4,000 rows, {binding:,} bind, cost ")
    worst = demands_of(table.constraints[0], 3)
    assert f"; most {worst[0].group}: {worst[0].line}; then {worst[1].group}, {worst[2].group}" in once
    assert budget.startswith("budget: ")
    assert idle == "idle: 3,000 -> 3,000 <= 9,000"
    many = project(proba, {f"row {k}": E[(part("group") == k) & (part("label") == 0)] <= 0.5 for k in range(100)},
                   columns={"group": group})  # fmt: skip
    lines = many.summary().splitlines()
    assert (len(lines), lines[-1].startswith("and 61 more, of which ")) == (40, True)
    costs = sorted((total_cost(report) for report in many.constraints), reverse=True)
    assert costs[38] >= min(float(line.split("cost ")[1].split()[0]) for line in lines[:-1] if "cost" in line) - 1e-3
    report = FitReport("x", 1, (), "converged", constraints=many.constraints, notes=("note",) * 100)
    assert len(report.summary().splitlines()) == 40


def test_costs_of_rows_add_up_to_about_the_cost_of_all():
    proba = np.random.default_rng(0).dirichlet(np.ones(3), 500)
    rules = [E[part("label") == 1] <= "25%", E[part("label") == 2] <= "25%"]
    table = project(proba, rules)
    assert sum(map(total_cost, table.constraints)) == pytest.approx(table.kl, rel=0.02)
