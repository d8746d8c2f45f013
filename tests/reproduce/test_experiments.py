"""The experiments run, set the published numbers beside ours and leave their figure."""

import pytest
from typer.testing import CliRunner

from spectrem.cli.reproduce import app
from spectrem.estimators import WordAligner
from spectrem.exceptions import InvalidInputError
from spectrem.reproduce.corpus import read_hansards
from spectrem.reproduce.em_constraints_fig4 import em_constraints_fig4
from spectrem.reproduce.pr_fig6 import pr_fig6, translation_entropies
from spectrem.reproduce.training import BACKWARD, BOTH, FORWARD, evaluate, posteriors, train
from spectrem.reproduce.uem_table2 import PUBLISHED, uem_table2

SMALL = 500


def run(command, data, output, *options):
    result = CliRunner().invoke(
        app, [command, "--data", str(data), "--quick", "--threads", "1", "--output", str(output), *options]
    )
    assert result.exit_code == 0, result.output
    for ending in ("png", "tsv", "txt"):
        assert (output / f"{command}.{ending}").stat().st_size > 0
    assert (output / f"{command}.txt").read_text().strip() in result.stdout
    return result.stdout


def columns(path):
    names, *rows = (line.split("\t") for line in path.read_text().splitlines())
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_uem_table2(hansards, tmp_path):
    out = run("uem-table2", hansards, tmp_path, "--sizes", "100,500")
    assert "AER (%), En-Fr" in out
    assert "Model 1, which comes first, is trained for 5 iterations under the same constraints" in out
    rows = columns(tmp_path / "uem-table2.tsv")
    # 2 sizes x 2 settings x 3 directions x (EM, PR, CoDL twice, one gamma, the tuned one)
    assert len(rows) == 2 * 2 * 3 * 6
    tuned = [row for row in rows if row["method"] == "UEM, tuned"]
    for row in tuned:
        rivals = [
            other
            for other in rows
            if all(other[key] == row[key] for key in ("pairs", "setting", "direction"))
            and other["method"] in ("PR", "CoDL", "UEM")
        ]
        assert row["dev_aer"] == min((other["dev_aer"] for other in rivals), key=float)


def test_published_numbers_stand_beside_ours(hansards, monkeypatch):
    monkeypatch.setitem(PUBLISHED, (SMALL, FORWARD), (23.54, 10.63, 14.76, 9.10))
    report = uem_table2(hansards, [SMALL], gammas=[], n_threads=1)
    forward, backward, _ = report.tables
    assert [row[1] for row in forward.rows] == ["paper", "ours, as published", "ours, defaults"]
    assert forward.rows[0] == (SMALL, "paper", 23.54, 10.63, 14.76, 9.10, None, None)
    assert [row[1] for row in backward.rows] == ["ours, as published", "ours, defaults"]
    published = [row[-1] for row in report.numbers.rows if row[2] == FORWARD and row[1] == "ours, defaults"]
    assert published == [23.54, 10.63, 14.76, None, 9.10]


def test_published_table_is_the_papers():
    assert PUBLISHED[10_000, FORWARD] == (23.54, 10.63, 14.76, 9.10)
    assert PUBLISHED[100_000, BACKWARD] == (15.03, 8.09, 8.93, 6.87)
    assert len(PUBLISHED) == 6


def test_em_constraints_fig3(hansards, tmp_path):
    out = run("em-constraints-fig3", hansards, tmp_path, "--sizes", "500,100")
    assert "Model 2: precision, recall and AER on test" in out
    rows = columns(tmp_path / "em-constraints-fig3.tsv")
    assert len(rows) == 2 * 2 * 3
    aer = {(row["model"], row["training"], row["size"]): float(row["aer"]) for row in rows}
    assert aer["hmm", "Agreement", "500"] < aer["hmm", "Baseline", "500"]
    gained = all(
        value < aer[model, "Baseline", size] for (model, name, size), value in aer.items() if name != "Baseline"
    )
    said = "holds" if gained else "DOES NOT HOLD here"
    assert f"[{said}] Both constraints improve the AER of both models at every size" in out


def test_em_constraints_fig4(hansards, tmp_path):
    out = run("em-constraints-fig4", hansards, tmp_path, "--size", "500")
    assert "[holds] The likelihood rises monotonically" in out
    rows = columns(tmp_path / "em-constraints-fig4.tsv")
    loss = {(row["training"], row["iteration"]): float(row["negative_log_likelihood"]) for row in rows}
    highest = all(loss["Baseline", iteration] <= value for (_, iteration), value in loss.items())
    said = "holds" if highest else "DOES NOT HOLD here"
    assert f"[{said}] The baseline always has the highest likelihood" in out


def test_likelihood_is_that_after_the_iteration(hansards):
    report = em_constraints_fig4(hansards, 100, iterations=[1, 2], n_threads=1)
    second = next(row for row in report.numbers.rows if row[:2] == ("Baseline", 2))
    corpus = read_hansards(hansards, 100)
    settings = {"stem_strength": 0.0, "cognate_strength": 0.0, "constraints": ()}
    aligner, _ = train(corpus, 1, max_iter=3, **settings)
    assert second[2] == pytest.approx(-aligner.history_[-1].free_objective)


def test_pr_fig6(hansards, tmp_path):
    out = run("pr-fig6", hansards, tmp_path, "--size", "500")
    assert "2.0-2.6" in out
    rows = columns(tmp_path / "pr-fig6.tsv")
    assert len({(row["direction"], row["training"], row["decoding"]) for row in rows}) == 18
    assert all(0 <= float(row["precision"]) <= 1 for row in rows)


def test_decoding_constraint_replaces_that_of_training(hansards):
    report = pr_fig6(hansards, 100, n_threads=1)
    corpus = read_hansards(hansards, 100)
    settings = {"stem_strength": 0.0, "cognate_strength": 0.0, "n_threads": 1}
    aligner = WordAligner(constraints=("fertility",), max_iter=2, **settings).fit(corpus.training)
    aligner.set_params(constraints=())
    expected = evaluate(aligner, corpus)[BACKWARD].test.aer
    found = next(row for row in report.tables[1].rows if row[:2] == ("Bijective", "NP"))
    assert found[4] == round(100 * expected, 2)


def test_directions_are_decoded_apart(hansards):
    corpus = read_hansards(hansards, 100)
    aligner, _ = train(corpus, 1, constraints=())
    found = posteriors(aligner, corpus.dev)
    assert max(matrix.sum(axis=0).max() for matrix in found[FORWARD]) <= 1 + 1e-9
    assert max(matrix.sum(axis=1).max() for matrix in found[BACKWARD]) <= 1 + 1e-9
    assert max(matrix.sum(axis=1).max() for matrix in found[FORWARD]) > 1.5
    assert found[BOTH][0] == pytest.approx((found[FORWARD][0] + found[BACKWARD][0]) / 2)


def test_entropy_of_untrained_translations():
    aligner = WordAligner("ibm1", max_iter=1, n_threads=1, stem_strength=0.0, cognate_strength=0.0, constraints=())
    aligner.fit(["a b", "c"], ["x y", "z"])
    forward, _ = translation_entropies(aligner)  # a and b: one bit each; c: none
    assert forward == pytest.approx(2 / 3, abs=1e-6)


@pytest.mark.parametrize("sizes", ["10k", "", "100,0"])
def test_sizes_must_be_numbers(hansards, sizes):
    result = CliRunner().invoke(app, ["uem-table2", "--data", str(hansards), "--sizes", sizes])
    assert isinstance(result.exception, InvalidInputError)
    assert "--sizes must be whole numbers above 0 with commas between" in str(result.exception)


def test_real_hansards(shared, tmp_path):
    out = run("em-constraints-fig3", shared / "data", tmp_path, "--sizes", "500")
    assert "Dev has 37 sentence pairs" in out
    assert "[holds] Both constraints improve the AER of both models" in out


@pytest.mark.slow
def test_ten_thousand_pairs(shared):
    report = uem_table2(shared / "data" / "align" / "hansards-enfr", [10_000])
    assert [table.rows[0][1] for table in report.tables[:2]] == ["paper", "paper"]
    for table in report.tables[:2]:
        for row in table.rows[1:]:
            em, pr, _, uem = row[2:6]
            assert em > pr + 4
            # With the defaults the gamma tuned on 37 sentences may lose to PR, which the report says.
            assert uem < pr + (0.5 if row[1] == "ours, as published" else 1.5)
    assert min(row[5] for row in report.tables[2].rows) <= 9.2
