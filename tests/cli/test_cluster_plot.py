import numpy as np
import pytest

from spectrem import GaussianMixture
from spectrem.cli.tables.cluster import draw_clusters

pytest.importorskip("matplotlib")
from spectrem import plotting


def test_plot_of_features_with_scales_of_their_own(monkeypatch):
    figures = []
    monkeypatch.setattr(plotting, "save_figure", lambda figure, path: figures.append(figure))
    x = np.random.default_rng(0).normal(size=(40, 2))
    for scale in ([1.0, 1.0], [1e4, 1.0]):
        mixture = GaussianMixture(2, random_state=0, n_threads=1).fit(x * scale)
        draw_clusters(mixture, x * scale, ["a", "b"], "a.png")
    assert [figure.axes[0].get_aspect() for figure in figures] == [1.0, "auto"]


@pytest.mark.parametrize("name", ["$x_$<b>", "漢字", "x" * 5000])
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_columns_may_have_any_name(run, tmp_path, name, ending):
    rows = "".join(f"{k % 3 * 4}.5,{k % 5}.25\n" for k in range(15))
    (tmp_path / "d.csv").write_text(f"{name},_y\n{rows}")
    options = ["--plot", tmp_path / f"d.{ending}", "--report", tmp_path / "d.html", "-o", tmp_path / "out.csv"]
    done = run("cluster", tmp_path / "d.csv", "-k", "2", *options)
    assert done.exit_code == 0, done.output
    assert "Glyph" not in done.stderr
    assert (tmp_path / f"d.{ending}").stat().st_size > 1000
