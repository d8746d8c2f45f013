"""What reports tell of mixtures."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from spectrem import GaussianMixture
from spectrem.learning import Anneal
from spectrem.reports.components import MOST_COMPONENTS, MOST_FEATURES


def make(d, k=2, kind="full", n=200, **options):
    x = np.random.default_rng(0).normal(size=(n, d)) + 9.0 * (np.arange(n) % 2)[:, None]
    return GaussianMixture(k, covariance_type=kind, random_state=0, n_threads=1, **options).fit(x), x


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_sizes_means_and_deviations(kind, d):
    mixture, x = make(d, kind=kind)
    (section,) = mixture.report_.sections
    assert section.summary() == "sizes 0: 100, 1: 100"
    page = mixture.report_._repr_html_()
    rows = re.findall(r"<tr><td>.*?</tr>", page)
    for row in rows:
        name, size, weight, *cells = re.findall(r"<td>(.*?)</td>", row)
        own = x[mixture.labels_ == int(name[-1])]
        assert (size, weight) == ("100", "50.0%")
        for cell, mean, deviation in zip(cells, own.mean(axis=0), own.std(axis=0), strict=True):
            told = [float(number) for number in cell.split(" ± ")]
            np.testing.assert_allclose(told, [mean, deviation], atol=0.2)
    assert page.count("<ellipse") == (0 if d == 1 else 2)
    assert ("first principal axis" in page) == (d == 3)
    HTMLParser().feed(page)


def test_ellipses_lie_where_the_components_do():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal((0, 0), (3, 0.5), (300, 2)), rng.normal((20, 10), (0.5, 3), (100, 2))])
    page = GaussianMixture(2, random_state=0).fit(x).report_._repr_html_()
    places = {}
    for shape in re.findall(r"<ellipse [^>]*>", page):
        cx, *rest = map(float, re.findall(r'(?:cx="|cy="|rx="|ry="|rotate\()(-?[0-9.]+)', shape))
        places[cx] = rest
    (left, low), (right, high) = sorted(places.items())
    assert left < right
    assert low[0] > high[0]  # y grows downwards
    assert low[1] / low[2] == pytest.approx(6, rel=0.2)
    assert abs(np.cos(np.radians(low[3]))) > 0.99
    assert abs(np.cos(np.radians(high[3]))) < 0.1


def test_many_components_and_features_are_cut():
    mixture, _ = make(MOST_FEATURES + 2, k=MOST_COMPONENTS + 3, kind="spherical", n=400, max_iter=1, tol=0)
    page = mixture.report_._repr_html_()
    assert "and 3 more components and 2 more features" in page
    assert page.count("<tr><td>") == MOST_COMPONENTS
    assert page.count("<ellipse") == MOST_COMPONENTS + 3


def test_names_of_features_are_no_markup():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), schema=["<b>", "width"])
    page = GaussianMixture(2, random_state=0).fit(frame).report_._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;" in page


def test_saved_reports_follow_the_reader_into_the_dark(tmp_path):
    mixture, _ = make(2)
    mixture.report_.save(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert page.startswith("<!doctype html>")
    assert '<meta name="color-scheme" content="light dark">' in page
    assert "GaussianMixture: converged" in page
    assert mixture.report_._repr_html_() in page


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("options", "ending"),
    [
        ({}, "converged"),
        ({"tol": 0.0, "max_iter": 2}, "ran the iterations asked for"),
        ({"tol": 1e-12, "max_iter": 2}, "not converged, still gaining after max_iter iterations"),
        ({"max_iter": 0}, "kept the start"),
    ],
)
def test_how_training_ended_is_the_title(options, ending):
    mixture, _ = make(2, k=3, **options)
    assert mixture.report_.status == ending
    assert f"<strong>GaussianMixture: {ending}</strong>" in mixture.report_._repr_html_()
    assert mixture.converged_ == (ending == "converged")


def test_stages_of_training_are_marked():
    mixture, _ = make(2, schedule=Anneal(0.5, 1.0, 2.0), fixed=["covariances"])
    page = mixture.report_._repr_html_()
    assert "objective, nats, at each gamma" in page
    assert page.count("&#947;") == 2
