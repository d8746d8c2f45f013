"""Reports as HTML: well-formed, self-contained, nothing of the user's taken for markup."""

import pickle
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from spectrem import E, GaussianMixture, HMMTagger, SelfTrainer, WordAligner, __version__, part, project
from spectrem.learning import Anneal, Record
from spectrem.reports import ConstraintReport, FitReport, largest_rows, row_name
from spectrem.reports.html import draw_curve, number_texts

EVIL = '<script>alert("1")</script>&\'x'


class Tree(HTMLParser):
    """Tags in order, what they hold, and whether each is closed in its turn."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.text = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def count(self, tag):
        return sum(own == tag for own, _ in self.seen)


def make_constraint(n=1, name="size", violation=0.0, keys=None):
    zeros, price = np.zeros(n), np.arange(n, dtype=float)
    return ConstraintReport(
        name, np.full(n, "<="), {"label": np.arange(n)} if keys is None else keys, np.ones(n), price, zeros,
        zeros + 1.0, zeros + 2.0, zeros + violation, np.full(n, 1e-5),
    )  # fmt: skip


def make_report(gammas=(2.0, 2.0, 1.0), constraints=(), **more):
    records = tuple(Record(gamma, -9.0 + i, -8.0 + i, 0.25 / (i + 1), 0.5) for i, gamma in enumerate(gammas))
    return FitReport("GaussianMixture", 7, records, "converged", constraints=constraints, **more)


def test_the_page_is_whole_and_calls_nothing():
    report = make_report(constraints=(make_constraint(3), make_constraint(1, "other")), notes=("a note",))
    page = report._repr_html_()
    tree = Tree(page)
    assert (tree.count("svg"), tree.count("table"), tree.count("script")) == (2, 2, 0)
    assert not re.search(r"(?:src|href|url|@import|on\w+=)", page.replace('xmlns="http://www.w3.org/2000/svg"', ""))
    assert not any("id" in attrs for _, attrs in tree.seen)
    text = " ".join(tree.text)
    for words in ("GaussianMixture: converged", "objective, nats", "largest violation", "other", "a note", "≤ 1"):
        assert words in text


def test_text_of_the_user_is_no_markup():
    constraint = make_constraint(1, EVIL, keys={EVIL: np.array([EVIL])})
    report = FitReport(EVIL, 1, (), EVIL, {EVIL: EVIL}, (constraint,), (EVIL,))
    page = report._repr_html_()
    tree = Tree(page)
    assert tree.count("script") == 0
    assert "<script" not in page
    assert "".join(tree.text).count(EVIL) == 2 + 2 + 1 + 2 + 1
    table = project([[0.5, 0.5]], (E[part("label") == EVIL] >= 0.75).named(EVIL), labels=["a", EVIL])
    assert "<script" not in table._repr_html_()
    assert EVIL in "".join(Tree(table._repr_html_()).text)


def test_many_rows_are_cut_and_the_worst_come_first():
    page = make_report(constraints=(make_constraint(26),))._repr_html_()
    rows = re.findall(r"<td>label (\d+)</td>", page)
    assert rows == [str(row) for row in range(25, 5, -1)]
    assert "and 6 more" in page
    assert "and 1 more, none of which binds" in make_report(constraints=(make_constraint(20),))._repr_html_()
    assert "more" not in make_report(constraints=(make_constraint(5),))._repr_html_()
    zeros = np.zeros(3)
    broken = ConstraintReport(
        "b", np.full(3, "<="), {}, np.ones(3), np.array([5.0, 1.0, 9.0]), zeros, np.array([1.0, 1.5, 1.0]), zeros,
        np.array([1e-9, 0.5, 0.0]), np.full(3, 1e-5),
    )  # fmt: skip
    assert largest_rows(broken).tolist() == [1, 2, 0]
    assert make_report(constraints=(broken,))._repr_html_().count('class="broken"') == 1
    met = ConstraintReport(
        "m", np.full(3, "<="), {}, np.ones(3), np.array([5.0, -4.0, 4.0]), np.array([1.0, 3.0, 0.0]), np.ones(3), zeros,
        zeros, np.full(3, 1e-5),
    )  # fmt: skip
    assert met.cost.tolist() == [0.0, 4.0, 2.0]
    assert largest_rows(met).tolist() == [1, 2, 0]
    assert [row_name(broken, 2), row_name(make_constraint(1, keys={}), 0)] == ["row 2", ""]


def test_pages_say_what_made_them_and_when(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    page = make_report().to_html("spectrem cluster 'a b.csv'")
    assert (
        f"made by <code>spectrem cluster &#x27;a b.csv&#x27;</code> with Spectrem {__version__}, 1970-01-02 00:00 UTC"
        in page
    )
    assert page == make_report().to_html("spectrem cluster 'a b.csv'")
    assert "made with Spectrem" in make_report().to_html()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC</footer>", make_report().to_html())
    assert "UTC" not in make_report()._repr_html_()


def test_bars_of_all_tables_have_one_scale_for_each_unit():
    counts = [make_constraint(3), make_constraint(5, "other")]
    share = replace(make_constraint(2, "share"), wholes=np.full(2, 50.0))
    page = make_report(constraints=(*counts, share))._repr_html_()
    tables = page.split("<details")[1:]
    widths = [[int(width) for width in re.findall(r"width:(\d+)px", one)] for one in tables]
    assert widths == [[30, 15], [60, 45, 30, 15], [60]]  # prices 2, 1; 4, 3, 2, 1; and 0.5 per percentage point
    costs = re.findall(
        r"<td>([\d.]+)<span class=\"track\">(?:<span class=\"swatch\" style=\"[^\"]*width:(\d+)px)?",
        page.split("<details")[0],
    )
    assert costs == [("1.5", "18"), ("5", "60"), ("0.5", "6")]
    assert "up to 0.5 per percentage point" in page
    assert "binds in 4 of 5 rows" in page
    many = make_report(constraints=tuple(make_constraint(1, f"c{k}") for k in range(100)))._repr_html_()
    assert (many.count("<strong>c"), "and 60 more constraints" in many) == (40, True)


def test_the_curve_breaks_where_gamma_changes():
    svg = draw_curve("f", [2.0, 2.0, 1.0, 1.0, 1.0], [1.0, 3.0, 2.0, 2.0, np.nan], "#123456")
    lines = re.findall(r'<polyline points="([^"]*)"', svg)
    points = [[tuple(map(float, pair.split(","))) for pair in line.split()] for line in lines]
    assert [len(line) for line in points] == [2, 2]
    assert points[0][0][1] > points[1][0][1] == points[1][1][1] > points[0][1][1]  # y grows downwards
    assert svg.count("<line") == 1
    assert svg.count("<circle") == 4
    assert [text.strip() for text in Tree(svg).text] == ["f", "3", "1", "1", "5", "iteration", "\u03b3 2", "\u03b3 1"]
    assert draw_curve("f", [1.0], [np.inf], "#123456") == ""
    assert "NaN" not in draw_curve("f", [1.0], [0.0], "#123456")


def test_numbers_differ_where_values_do():
    assert number_texts([-1234.5678, -1234.5671]) == ["-1234.568", "-1234.567"]
    assert number_texts([2.0, 2.0]) == ["2", "2"]
    assert number_texts([-18690.71, -19479.94]) == ["-18691", "-19480"]


def test_summary():
    assert make_report(constraints=(make_constraint(2),), settings={"gamma": -np.inf}, notes=("n",)).summary() == (
        "GaussianMixture on 7 rows: converged\n"
        "gamma -inf\n"
        "objective -9 -> -7 nats in 3 iterations, 1.50 s\n"
        "size: 2 rows, 1 binds, cost 0.5 nats; most label 1: 0 -> 1 <= 1, price 1\n"
        "n"
    )
    assert repr(make_report()) == "<FitReport of GaussianMixture: 3 iterations, 0 constraints>"


@pytest.fixture(scope="module")
def estimators():
    x = np.random.default_rng(0).normal(size=(30, 2))
    y = np.where(np.arange(30) < 8, np.arange(30) % 2, -1)
    half = (E[part("label") == 1] == 15).named("half & half")
    mixture = GaussianMixture(2, constraints=[half], schedule=Anneal(0.5, 1.0, 2.0), random_state=0, n_threads=1)
    return mixture.fit(x), SelfTrainer(LogisticRegression(), [half], tol=0.1).fit(x, y)


@pytest.mark.parametrize("which", [0, 1], ids=["mixture", "trainer"])
def test_notebooks_show_the_report_below_the_diagram(estimators, which):
    fitted = estimators[which]
    fresh = clone(fitted)
    for shown in (fitted._repr_html_(), fitted._repr_mimebundle_()["text/html"]):
        assert shown.count('class="spectrem-report"') == 1
        assert shown.index("sk-top-container") < shown.index("spectrem-report") < shown.rindex("half &amp; half")
    assert "text/plain" in fitted._repr_mimebundle_()
    for shown in (fresh._repr_html_(), fresh._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in shown
        assert "spectrem-report" not in shown
    assert "sk-top-container" in make_pipeline(StandardScaler(), fitted)._repr_html_()
    with sklearn.config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert list(fitted._repr_mimebundle_()) == ["text/plain"]


@pytest.mark.parametrize(
    "fitted",
    [
        WordAligner(max_iter=1, model1_iterations=1, n_threads=1).fit(["a b"], ["x y"]),
        HMMTagger(n_states=2, max_iter=1, tol=0.0, n_threads=1).fit(["a b"]),
    ],
    ids=lambda fitted: type(fitted).__name__,
)
def test_estimators_that_do_not_derive_from_scikit_learn_show_it_too(fitted):
    for shown in (fitted._repr_html_(), fitted._repr_mimebundle_()["text/html"]):
        assert shown.index("sk-top-container") < shown.index('class="spectrem-report"')
    assert "spectrem-report" not in clone(fitted)._repr_html_()
    with sklearn.config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert list(fitted._repr_mimebundle_()) == ["text/plain"]


@pytest.mark.parametrize("which", [0, 1], ids=["mixture", "trainer"])
def test_reports_are_kept_with_the_estimator(estimators, which):
    fitted = estimators[which]
    again = pickle.loads(pickle.dumps(fitted)).report_
    assert again.summary() == fitted.report_.summary()
    assert again._repr_html_() == fitted.report_._repr_html_()
    assert again.history == tuple(fitted.history_)


def test_settings_tell_the_course_of_gamma(estimators):
    assert estimators[0].report_.settings == {"components": 2, "covariance": "full", "gamma": "2 to 1 in 2 stages"}
    assert estimators[1].report_.settings["gamma"] == 1.0


def test_projected_tables():
    table = project([[0.9, 0.1], [0.7, 0.3]], (E[part("label") == 1] >= 1).named("one of them"))
    page = table._repr_html_()
    text = " ".join(Tree(page).text)
    assert "Projected table of 2 rows" in text
    assert "one of them" in text
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert cells[:3] == ["", "0.4", "1 ≥ 1"]
    assert cells[3].startswith(f"{table.prices['one of them'][0]:.3g}<span")
    empty = project([[0.5, 0.5]], [])
    assert "0 → 0" in " ".join(Tree(empty._repr_html_()).text)
