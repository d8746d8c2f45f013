"""Tables of probabilities against slow, dense, obvious optimisers."""

import datetime
import itertools
import sys
import warnings

import numpy as np
import pytest
import scipy.optimize as so
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

import spectrem
from spectrem import E, linear, part, project
from spectrem.constraints import must_link
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Status
from spectrem.tables import ScoreError


def random_table(seed, n=5, k=3):
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.8), size=n)


def dense_dual(scores, matrix, bounds, equality, gamma):
    """The projected table, its multipliers and the optimum, by scipy on the dense dual; scores of shape (n, k)."""
    n, k = scores.shape

    def softmax(multipliers):
        shifted = (scores - (matrix.T @ multipliers).reshape(n, k)) / gamma
        values = logsumexp(shifted, axis=1)
        return gamma * values.sum(), np.exp(shifted - values[:, None])

    def dual(multipliers):
        value, q = softmax(multipliers)
        return bounds @ multipliers + value, bounds - matrix @ q.ravel()

    limits = [(None, None) if both else (0, None) for both in equality]
    found = so.minimize(
        dual,
        np.zeros(len(bounds)),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"ftol": 1e-15, "gtol": 1e-11, "maxiter": 5000},
    )
    return softmax(found.x)[1], found.x, found.fun


def kl(q, p):
    return float(np.where(q > 0, q * (np.log(np.maximum(q, 1e-300)) - np.log(p)), 0.0).sum())


def counts(n, k):
    """Dense rows that count every label."""
    return np.tile(np.eye(k), (1, n))


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("seed", range(3))
def test_label_counts_match_the_dense_dual(seed, gamma):
    p = random_table(seed, 6, 4)
    bounds = np.array([0.7, 1.2]) * p.sum(axis=0)[:2]
    matrix = np.vstack([counts(6, 4)[0], -counts(6, 4)[1]])
    q, multipliers, optimum = dense_dual(np.log(p), matrix, bounds * [1, -1], [False, False], gamma)
    table = project(p, [E[part("label") == 0] <= bounds[0], E[part("label") == 1] >= bounds[1]], gamma)
    assert table.status == Status.SOLVED
    np.testing.assert_allclose(table.proba, q, atol=1e-6)
    np.testing.assert_allclose(table.multipliers, multipliers, atol=1e-5)
    assert table.objective == pytest.approx(optimum, abs=1e-7)
    assert table.violation_after <= 1e-7 < table.violation_before


def test_kl_is_that_of_the_tables():
    p = random_table(3)
    table = project(p, E[part("label") == 0] == 2.0)
    assert table.kl == pytest.approx(kl(table.proba, p), abs=1e-9)
    assert table.proba[:, 0].sum() == pytest.approx(2.0, abs=1e-7)


def test_prices_are_derivatives_of_the_objective():
    p = random_table(1)
    for sense in ("<=", ">=", "=="):
        given_count = p[:, 0].sum()
        bound = {"<=": 0.8, ">=": 1.2, "==": 1.1}[sense] * given_count
        relaxed = bound + (-1e-5 if sense == ">=" else 1e-5)
        counted = E[part("label") == 0]

        def objective(limit, sense=sense, counted=counted):
            made = {"<=": counted <= limit, ">=": counted >= limit, "==": counted == limit}[sense]
            return project(p, made.named("count"), tol=1e-12)

        price = objective(bound).prices["count"][0]
        assert (objective(relaxed).objective - objective(bound).objective) / 1e-5 == pytest.approx(price, rel=1e-3)
        assert sense == "==" or price > 0


def test_groups_by_user_columns_and_reports_by_key():
    p = random_table(2, 6, 3)
    document = ["b", "a", "b", "a", "c", "a"]
    once = (E[...] <= 1).per("document", "label").named("once")
    table = project(p, once, columns={"document": document})
    (report,) = table.constraints
    for name, label, before, after, bound, price in zip(
        report.keys["document"],
        report.keys["label"],
        report.before,
        report.after,
        report.bound,
        report.price,
        strict=True,
    ):
        chosen = np.array(document) == name
        assert before == pytest.approx(p[chosen, label].sum())
        assert after == pytest.approx(table.proba[chosen, label].sum())
        assert after <= 1 + 1e-7
        assert bound == 1
        assert price == pytest.approx(0, abs=1e-6) or after == pytest.approx(1, abs=1e-6)
    assert len(report.bound) == 9
    np.testing.assert_allclose(table.proba[4], p[4], atol=1e-7)  # document c has one row


def test_rows_of_at_least_are_told_as_written():
    p = np.array([[0.9, 0.1], [0.8, 0.2]])
    (report,) = project(p, E[part("label") == 1].between(0.5, 1.0).named("some")).constraints
    assert report.sense.tolist() == ["<=", ">="]
    np.testing.assert_allclose(report.bound, [1.0, 0.5])
    np.testing.assert_allclose(report.before, [0.3, 0.3])
    np.testing.assert_allclose(report.after, [0.5, 0.5], atol=1e-7)
    np.testing.assert_allclose(report.violation_before, [0.0, 0.2])
    assert report.price[0] == pytest.approx(0, abs=1e-9)
    assert report.price[1] > 0


def test_equalities_are_broken_from_both_sides():
    p = np.array([[0.9, 0.1], [0.8, 0.2]])
    for target, broken in ((0.5, 0.2), (0.1, 0.2)):
        table = project(p, E[part("label") == 1] == target)
        assert table.violation_before == pytest.approx(broken)
        assert table.violation_after <= 1e-7
        assert np.sign(table.multipliers[0]) == (-1 if target > 0.3 else 1)
        assert table.constraints[0].sense.tolist() == ["=="]


def test_rows_inside_a_row_of_the_table():
    p = random_table(5, 4, 4)
    table = project(p, (E[part("label").isin([0, 1])] <= 0.3).per("row").named("few"))
    assert (table.proba[:, :2].sum(axis=1) <= 0.3 + 1e-7).all()
    for before, after in zip(p, table.proba, strict=True):
        share = before[:2].sum()
        expected = before if share <= 0.3 else np.r_[before[:2] * 0.3 / share, before[2:] * 0.7 / (1 - share)]
        np.testing.assert_allclose(after, expected, atol=1e-7)
    assert table.constraints[0].keys["row"].tolist() == [0, 1, 2, 3]


def test_matrices_and_penalties():
    p = random_table(7)
    hard = project(p, linear(counts(5, 3)[:1], 0.5, name="U"))
    assert hard.proba[:, 0].sum() == pytest.approx(0.5, abs=1e-7)
    soft = project(p, linear(counts(5, 3)[:1], 0.5, name="U").slack(penalty=0.2, norm="l1"))
    assert soft.prices["U"][0] == pytest.approx(0.2)
    assert 0.5 < soft.proba[:, 0].sum() < p[:, 0].sum()
    assert soft.violation_after == pytest.approx(soft.proba[:, 0].sum() - 0.5)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_the_violation_beyond_the_slack_is_told_beside_the_whole(gamma):
    p = random_table(7)
    matrix = counts(5, 3)[:2]
    for slack in ({"penalty": 0.1, "norm": "l1"}, {"penalty": 0.1, "norm": "l2"}):
        table = project(p, linear(matrix, 0.5).slack(**slack), gamma)
        assert table.violation == 0.0 < table.violation_after
        assert "beyond the slack granted" in table._repr_html_()
    table = project(p, linear(matrix, 0.5).slack(bound=0.3, norm="l1"), gamma)
    assert table.violation_after > 0.1
    assert abs(table.violation) <= 1e-6
    assert np.maximum(table.constraints[0].after - 0.5, 0).sum() == pytest.approx(0.3, abs=1e-6)
    hard = project(p, linear(matrix, 0.5), gamma)
    assert hard.violation == pytest.approx(hard.violation_after, abs=1e-12)
    assert "beyond the slack granted" not in hard._repr_html_()


def test_log_scores_need_no_normalising():
    logits = np.log(random_table(8)) + np.arange(5)[:, None]
    rule = E[part("label") == 2] <= 1
    table = project(logits, rule, scores="log")
    np.testing.assert_allclose(table.proba, project(random_table(8), rule).proba, atol=1e-7)
    assert table.kl == pytest.approx(project(random_table(8), rule).kl)


def test_impossible_labels_stay_impossible():
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    table = project(p, E[part("label") == 2] == 0.9)
    assert table.proba[0, 2] == 0.0
    assert table.proba[1, 2] == pytest.approx(0.9)


def test_no_constraints_give_the_table_back():
    p = random_table(9)
    table = project(p, [])
    np.testing.assert_allclose(table.proba, p)
    assert table.kl == pytest.approx(0.0, abs=1e-12)
    assert table.prices == {}
    assert table.violation_before == table.violation_after == 0.0


def test_ragged_rows_with_labels_of_their_own():
    p = [[0.6, 0.4], [0.2, 0.5, 0.3], [1.0]]
    labels = [["x", "y"], ["y", "z", "w"], ["z"]]
    table = project(p, (E[...] <= 1).per("label").named("once"), labels=labels)
    assert [len(row) for row in table.proba] == [2, 3, 1]
    mass = {}
    for row, names in zip(table.proba, labels, strict=True):
        for q, name in zip(row, names, strict=True):
            mass[name] = mass.get(name, 0.0) + q
    assert max(mass.values()) <= 1 + 1e-7
    assert table.proba[1][1] == pytest.approx(0.0, abs=1e-7)
    assert table.decide().labels.tolist() in (["x", "y", "z"], ["y", "w", "z"], ["x", "w", "z"])
    even = project([[0.6, 0.4], [0.5, 0.5]], [], labels=[["a", "b"], ["b", "c"]])
    assert isinstance(even.proba, list)


def test_numeric_labels_may_be_weights():
    p = random_table(4, 4, 5)
    table = project(p, E[part("label")] == 4 * 3.5, labels=[1, 2, 3, 4, 5])
    assert (table.proba @ [1, 2, 3, 4, 5]).sum() == pytest.approx(14, abs=1e-6)
    signs = project(p[:, :2] / p[:, :2].sum(1, keepdims=True), E[...].per("label") <= 3, labels=[-1, 1])
    assert signs.constraints[0].keys["label"].tolist() == [-1, 1]


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def frame_of(request):
    """A maker of data frames of a library."""
    library = pytest.importorskip(request.param)
    return library.table if request.param == "pyarrow" else library.DataFrame


def test_data_frames(frame_of):
    p = frame_of({"ham": [0.9, 0.4, 0.5], "spam": [0.1, 0.6, 0.5]})
    columns = frame_of({"sender": ["a", "b", "a"], "when": [datetime.date(2020, 1, 1)] * 3})
    table = project(p, (E[part("label") == "spam"] >= 1).per("sender").named("rule"), columns=columns)
    np.testing.assert_allclose(table.proba[[0, 2], 1].sum(), 1.0, atol=1e-7)
    assert table.constraints[0].keys["sender"].tolist() == ["a", "b"]
    again = table.to_frame()
    assert type(again) is type(p)
    for k, name in enumerate(("ham", "spam")):
        assert np.asarray(again[name]).tolist() == table.proba[:, k].tolist()
    with pytest.raises(InvalidInputError, match="to_frame needs proba to have been a data frame; take the array"):
        project(table.proba, []).to_frame()


def test_frames_of_pandas_keep_their_index_and_names_that_are_numbers():
    pandas = pytest.importorskip("pandas")
    p = pandas.DataFrame([[0.9, 0.1], [0.4, 0.6]], index=["y", "x"], columns=[0, 1])
    again = project(p, E[part("label") == 1] == 1).to_frame()
    assert again.index.tolist() == ["y", "x"]
    assert again.columns.tolist() == [0, 1]
    assert again[1].sum() == pytest.approx(1)
    columns = pandas.DataFrame({0: [1, 2], 1: ["a", "b"]}, index=["y", "x"])
    table = project(p, (E[part("label") == 1] <= 0.2).per("1"), columns=columns)
    assert table.constraints[0].keys["1"].tolist() == ["a", "b"]
    twice = pandas.DataFrame([[0.9, 0.1], [0.4, 0.6]], columns=["a", "a"])
    with pytest.raises(InvalidInputError, match=r"proba must name every column differently: .*'a' 2 times; rename"):
        project(twice, [])


def test_missing_groups_belong_to_none():
    p = np.full((4, 2), 0.5)
    rule = (E[part("label") == 0] <= 0.5).per("group")
    table = project(p, rule, columns={"group": [1.0, 1.0, np.nan, np.nan]})
    np.testing.assert_allclose(table.proba[:, 0], [0.25, 0.25, 0.5, 0.5], atol=1e-7)


def best_choice(p, feasible):
    """The best labels by looking at all of them."""
    n, k = p.shape
    return max(
        (sum(np.log(p[i, y]) for i, y in enumerate(choice)), choice)
        for choice in itertools.product(range(k), repeat=n)
        if feasible(np.array(choice))
    )


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(0, 2))
def test_decisions_match_enumeration(seed, most, least):
    p = random_table(seed, 5, 3)
    document = np.array([0, 0, 1, 1, 1])

    def feasible(choice):
        return all((choice == y).sum() <= most + 1 for y in range(2)) and (
            sum((choice == 2) & (document == 1)) >= least
        )

    score, _ = best_choice(p, feasible)
    rules = [
        (E[part("label").isin([0, 1])] <= most + 1).per("label").named("most"),
        (E[(part("label") == 2) & (part("document") == 1)] >= least).named("least"),
    ]
    decision = project(p, rules, columns={"document": document}).decide()
    assert decision.score == pytest.approx(score, abs=1e-9)
    assert feasible(decision.positions)
    assert decision.status == Status.CERTIFIED
    assert decision.n_changed == (p.argmax(axis=1) != decision.positions).sum()
    assert decision.relaxation >= decision.score - 1e-9
    assert decision.gap == pytest.approx(decision.relaxation - decision.score)


def test_decisions_where_fractions_are_better():
    # Three rows, of any two at most one may be on: fractions put a half on each.
    p = np.tile([0.1, 0.9], (3, 1))
    pairs = np.zeros((3, 6))
    for row, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        pairs[row, [2 * i + 1, 2 * j + 1]] = 1
    table = project(p, linear(pairs, 1.0, name="not both"), gamma=0.0)
    np.testing.assert_allclose(table.proba, 0.5, atol=1e-6)
    decision = table.decide()
    assert decision.labels.sum() == 1
    assert decision.score == pytest.approx(np.log(0.9) + 2 * np.log(0.1))
    assert decision.gap == pytest.approx(0.5 * (np.log(0.9) - np.log(0.1)), abs=1e-6)
    assert decision.violation == 0.0


def test_decisions_pay_penalties():
    p = np.tile([0.2, 0.8], (4, 1))
    gain = np.log(0.8 / 0.2)
    for penalty, chosen in ((0.9 * gain, 4), (1.1 * gain, 1)):
        rule = (E[part("label") == 1] <= 1).slack(penalty=penalty, norm="l1")
        decision = project(p, rule).decide()
        assert decision.positions.sum() == chosen
        assert decision.gap == pytest.approx(0, abs=1e-8)
    curved = project(p, (E[...] <= 1).per("label").slack(penalty=1, norm="l2"))
    with pytest.raises(InvalidInputError, match="slack with norm 'l2' cannot be used by decide"):
        curved.decide()


def test_decisions_that_no_labels_meet():
    table = project(np.full((3, 2), 0.5), (E[part("label") == 1] == 1.5).named("half"))
    with pytest.raises(InfeasibleConstraintError, match="'half': no choice of one label per row"):
        table.decide()


def test_integer_program_at_minus_infinity():
    p = random_table(11)
    rule = E[part("label") == 0] == 3
    table = project(p, rule, -np.inf)
    assert set(np.unique(table.proba)) == {0.0, 1.0}
    decision = project(p, rule).decide()
    np.testing.assert_array_equal(table.proba.argmax(1), decision.labels)
    assert table.objective == pytest.approx(decision.score)


@pytest.mark.parametrize(
    ("proba", "message"),
    [
        ([[0.5, 0.6]], r"row 0 sums to 1.1; divide every row by its sum"),
        ([[0.5, 0.5], [0.0, 0.0]], r"row 1 is zero throughout; drop the row"),
        (np.zeros((0, 2)), r"proba must have a row or more, got shape \(0, 2\); skip tables without rows"),
        ([[0.5, 0.5], [np.nan, 1.0]], r"proba must not be NaN; got NaN in row 1, column 0"),
        ([[1.5, -0.5]], r"proba must not be negative; got -0.5 in row 0, column 1"),
        ([0.5, 0.5], r"proba must have shape \(n_rows, n_labels\) or be a list of rows, got shape \(2,\)"),
        ([[0.5, 0.5], []], r"row 1 is empty"),
        ([["a", "b"]], r"proba must hold numbers"),
        ([[0.5, 0.5], [0.5, 0.4, 0.3]], r"row 1 sums to 1.2"),
    ],
)
def test_bad_tables(proba, message):
    with pytest.raises(InvalidInputError, match=message):
        project(proba, E[part("label") == 0] <= 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": "logits"}, 'scores must be "probabilities" or "log"'),
        ({"labels": ["a"]}, "labels must name the 2 columns of proba, got shape"),
        ({"labels": ["a", "a"]}, "labels must differ"),
        ({"labels": ["a", 1]}, "labels must be all text or all numbers"),
        ({"columns": [1, 2]}, "columns must be a data frame or a mapping"),
        ({"columns": {"row": [1, 2]}}, "the name 'row' belongs to the table"),
        ({"columns": {"group": [1, 2, 3]}}, r"'group' has shape \(3,\), and the table has 2 rows"),
        ({"columns": {"document": [1, 2]}}, "no column 'group'; the columns are 'row', 'label', 'document'"),
        ({"infeasible": "no"}, "infeasible must be"),
        ({"gamma": -1.0}, "gamma must be"),
    ],
)
def test_bad_arguments(arguments, message):
    rule = (E[...] <= 1).per("group")
    with pytest.raises(InvalidInputError, match=message):
        project([[0.5, 0.5], [0.5, 0.5]], rule, **({"columns": {"group": [1, 1]}} | arguments))


@pytest.mark.parametrize(
    ("rows", "scores", "rule", "row", "position", "n_rows"),
    [
        ([[0.5, 0.5], [np.nan, 1.0]], "probabilities", "nan", 1, 0, 1),
        ([[0.5, 0.5], [0.2, -0.5]], "probabilities", "no probability", 1, 1, 1),
        ([[0.5, np.inf]], "probabilities", "no probability", 0, 1, 1),
        ([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], "probabilities", "zero", 1, None, 2),
        ([[1.0], [0.5, 0.6], [0.5, 0.4, 0.3]], "probabilities", "sum", 1, None, 2),
        ([[0.0], [0.0, np.inf]], "log", "infinite log", 1, 1, 1),
        ([[0.0, -1.7e308], [-1e308, 1e308]], "log", "large log", 1, 1, 1),
        ([[0.0], [-np.inf, -np.inf]], "log", "impossible", 1, None, 1),
    ],
)
def test_errors_about_scores_say_where_and_which_rule(rows, scores, rule, row, position, n_rows):
    with pytest.raises(ScoreError) as caught:
        project(rows, [], scores=scores)
    error = caught.value
    assert (error.rule, error.row, error.position, error.n_rows) == (rule, row, position, n_rows)


def test_tables_need_no_library_of_frames(monkeypatch):
    for library in ("polars", "pandas", "pyarrow", "narwhals"):
        monkeypatch.setitem(sys.modules, library, None)
    columns = {"sender": ["a", "b", None], "year": np.array([1, 2, 2])}
    once = (E[part("label") == "spam"] <= 0.3).per("sender")
    table = project([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]], once, columns=columns, labels=["ham", "spam"])
    np.testing.assert_allclose(table.proba[:, 1], [0.1, 0.3, 0.5], atol=1e-6)


def test_labels_that_do_not_exist():
    with pytest.raises(
        InvalidInputError, match="'no': there is no label 'spm'; did you mean 'spam'\\? the labels are 'ham', 'spam'"
    ):
        project([[0.5, 0.5]], (E[part("label") == "spm"] <= 1).named("no"), labels=["ham", "spam"])


def test_log_scores_are_checked():
    rule = E[part("label") == 0] <= 1
    with pytest.raises(InvalidInputError, match="row 1 is -inf throughout"):
        project([[0.0, 1.0], [-np.inf, -np.inf]], rule, scores="log")
    with pytest.raises(InvalidInputError, match="got inf in row 0, column 1"):
        project([[0.0, np.inf]], rule, scores="log")


def test_constraints_that_contradict_each_other_are_named():
    rules = [
        (E[part("label") == 0] <= 1).named("few"),
        (E[part("label") == 0] >= 2).named("many"),
        (E[part("label") == 1] <= 5).named("idle"),
    ]
    with pytest.raises(InfeasibleConstraintError) as caught:
        project(random_table(0), rules)
    assert "'few'" in str(caught.value)
    assert "'many'" in str(caught.value)
    assert "'idle'" not in str(caught.value)


def test_rows_that_cannot_hold_may_be_skipped():
    p = np.array([[0.5, 0.5], [1.0, 0.0]])
    rule = (E[part("label") == 1] >= 0.7).per("row").named("one")
    with pytest.raises(InfeasibleConstraintError, match="'one': no feasible q in row 1"):
        project(p, rule)
    table = project(p, rule, infeasible="skip")
    np.testing.assert_allclose(table.proba, [[0.3, 0.7], [1.0, 0.0]], atol=1e-7)
    assert table.prices["one"][1] == 0.0
    np.testing.assert_allclose(table.constraints[0].violation_after, [0.0, 0.7], atol=1e-7)
    assert table.decide().labels.tolist() == [1, 0]


def test_top_level_name_is_the_table_version():
    assert spectrem.project is project
    assert spectrem.project.__module__ == "spectrem.tables.project"


def test_rounded_probabilities_pass_and_rows_are_made_to_sum_to_one():
    table = project([[0.33334, 0.33333, 0.33334]], (E[...] <= 1).per("row"))
    assert table.proba.sum() == pytest.approx(1.0, abs=1e-12)
    assert table.violation_before == pytest.approx(0.0, abs=1e-12)
    assert table.kl == pytest.approx(0.0, abs=1e-12)


def test_sums_that_decimals_explain_are_told_once():
    rng = np.random.default_rng(0)
    exact = rng.dirichlet(np.ones(5), 400)
    with pytest.warns(UserWarning, match=r"rounded to 4 decimals .* row \d+ to (0\.999|1\.000)\d \(\d+ such") as told:
        table = project(exact.round(4), [])
    assert len(told) == 1
    np.testing.assert_allclose(table.proba, exact, atol=2e-4)
    np.testing.assert_allclose(table.proba.sum(axis=1), 1.0, atol=1e-12)
    single = exact.astype(np.float32).round(4)
    with pytest.warns(UserWarning, match="rounded to 4 decimals"):
        project(single, [])
    broken = exact.round(4)
    broken[7, 0] += 0.001
    with pytest.raises(InvalidInputError, match=r"row 7 sums to 1\.00"):
        project(broken, [])


def test_columns_with_a_prefix_hold_the_probabilities():
    polars = pytest.importorskip("polars")
    mail = polars.DataFrame({"document": ["a", "a", "b"], "p_0": [0.9, 0.4, 0.5], "p_1": [0.1, 0.6, 0.5]})
    rule = "(E[label == 1] <= 0.6).per('document')"
    found = project(mail, rule, prefix="p_")
    same = project(mail.select("p_0", "p_1").to_numpy(), rule, columns={"document": ["a", "a", "b"]})
    np.testing.assert_array_equal(found.proba, same.proba)
    assert project(mail, rule, prefix="p_", columns={"document": [1, 2, 3]}).proba[1, 1] == pytest.approx(0.6)
    for wrong, message in (
        (
            {"prefix": "q_"},
            "prefix must be how names of columns of proba begin, and none does; they are 'document', 'p_0'",
        ),
        ({"prefix": "p_0"}, "and 'p_0' is the whole name of one"),
        ({"prefix": "p_", "labels": ["a", "b"]}, "got labels, too; give one of prefix and labels"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            project(mail, rule, **wrong)
    with pytest.raises(InvalidInputError, match=r"needs proba to be a data frame .*, got proba of type list"):
        project([[0.5, 0.5]], rule, prefix="p_")


def test_running_out_of_iterations_warns():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        p = random_table(0, 30, 6)
        table = project(p, (E[...] <= 0.1).per("label").slack(penalty=40, norm="l2"), max_iter=2)
    assert [w.category for w in caught] == [ConvergenceWarning]
    assert table.status == Status.MAX_ITERATIONS


def test_constraints_may_come_from_a_generator():
    table = project([[0.9, 0.1], [0.8, 0.2]], (rule for rule in [E[part("label") == 1] >= 1]))
    assert table.proba[:, 1].sum() == pytest.approx(1)


def test_links_name_labels_as_the_table_does():
    table = project([[0.9, 0.1], [0.2, 0.8]], must_link([[0, 1]]), labels=["praise", "spam"])
    assert table.constraints[0].keys["label"].tolist() == ["praise", "spam"]
    assert "most row 0, other row 1, label praise: " in table.summary()
    assert project([[0.9, 0.1], [0.2, 0.8]], must_link([[0, 1]])).constraints[0].keys["label"].tolist() == [0, 1]
