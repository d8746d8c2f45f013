"""The experiments on the Hansards run, set the published numbers beside ours and leave their figure."""

import pytest

from reproductions.alignment import em_constraints_fig4, gamma_without_labels, pr_fig6, uem_table2
from reproductions.alignment.hansards import read_hansards
from reproductions.alignment.training import BACKWARD, BOTH, FORWARD, evaluate, posteriors, train
from reproductions.alignment.uem_table2 import PUBLISHED
from spectrem.data import read_bitext, read_links
from spectrem.estimators import WordAligner

SMALL = 200


def test_uem_table2(hansards, reproduce):
    out, rows = reproduce("uem-table2", hansards, "--sizes", "100,200")
    assert "AER (%), En-Fr" in out
    assert "Model 1, which comes first, is trained for 5 iterations under the same constraints" in out
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
    monkeypatch.setitem(PUBLISHED[FORWARD], SMALL, (23.54, 10.63, 14.76, 9.10))
    report = uem_table2.run(hansards, [SMALL], gammas=[], threads=1)
    forward, backward, _ = report.tables
    assert [row[1] for row in forward.rows] == ["paper", "ours, as published", "ours, defaults"]
    assert forward.rows[0] == (SMALL, "paper", 23.54, 10.63, 14.76, 9.10, None, None)
    assert [row[1] for row in backward.rows] == ["ours, as published", "ours, defaults"]
    published = [row[-1] for row in report.numbers.rows if row[2] == FORWARD and row[1] == "ours, defaults"]
    assert published == [23.54, 10.63, 14.76, None, 9.10]


def test_published_table_is_the_papers():
    assert PUBLISHED[FORWARD][10_000] == (23.54, 10.63, 14.76, 9.10)
    assert PUBLISHED[BACKWARD][100_000] == (15.03, 8.09, 8.93, 6.87)
    assert sum(map(len, PUBLISHED.values())) == 6


def test_em_constraints_fig3(hansards, reproduce):
    out, rows = reproduce("em-constraints-fig3", hansards, "--sizes", "500,100")
    assert "Model 2: precision, recall and AER on test" in out
    assert len(rows) == 2 * 2 * 3
    aer = {(row["model"], row["training"], row["size"]): float(row["aer"]) for row in rows}
    assert aer["hmm", "Agreement", "500"] < aer["hmm", "Baseline", "500"]
    gained = all(
        value < aer[model, "Baseline", size] for (model, name, size), value in aer.items() if name != "Baseline"
    )
    said = "holds" if gained else "DOES NOT HOLD here"
    assert f"[{said}] Both constraints improve the AER of both models at every size" in out


def test_em_constraints_fig4(hansards, reproduce):
    out, rows = reproduce("em-constraints-fig4", hansards, "--size", "200")
    assert "[holds] The likelihood rises monotonically" in out
    loss = {(row["training"], row["iteration"]): float(row["negative_log_likelihood"]) for row in rows}
    highest = all(loss["Baseline", iteration] <= value for (_, iteration), value in loss.items())
    said = "holds" if highest else "DOES NOT HOLD here"
    assert f"[{said}] The baseline always has the highest likelihood" in out


def test_likelihood_is_that_after_the_iteration(hansards):
    report = em_constraints_fig4.run(hansards, 100, iterations=[1, 2], threads=1)
    second = next(row for row in report.numbers.rows if row[:2] == ("Baseline", 2))
    corpus = read_hansards(hansards, 100)
    settings = {"stem_strength": 0.0, "cognate_strength": 0.0, "discount": 0.0, "constraints": ()}
    aligner, _ = train(corpus, 1, max_iter=3, **settings)
    assert second[2] == pytest.approx(-aligner.history_[-1].free_objective)


def test_pr_fig6(hansards, reproduce):
    out, rows = reproduce("pr-fig6", hansards, "--size", "200")
    assert "2.0-2.6" in out
    assert len({(row["direction"], row["training"], row["decoding"]) for row in rows}) == 18
    assert all(0 <= float(row["precision"]) <= 1 for row in rows)


def test_decoding_constraint_replaces_that_of_training(hansards):
    report = pr_fig6.run(hansards, 100, threads=1)
    corpus = read_hansards(hansards, 100)
    settings = {"stem_strength": 0.0, "cognate_strength": 0.0, "discount": 0.0, "n_threads": 1}
    aligner = WordAligner(constraints=("fertility",), max_iter=2, **settings).fit(corpus.training)
    aligner.set_params(constraints=())
    expected = evaluate(aligner, corpus)[BACKWARD].aer
    found = next(row for row in report.tables[1].rows if row[:2] == ("Bijective", "NP"))
    assert found[4] == expected


def test_directions_are_decoded_apart(hansards):
    corpus = read_hansards(hansards, 100)
    aligner, _ = train(corpus, 1, constraints=())
    found = posteriors(aligner, corpus.dev)
    assert max(matrix.sum(axis=0).max() for matrix in found[FORWARD]) <= 1 + 1e-9
    assert max(matrix.sum(axis=1).max() for matrix in found[BACKWARD]) <= 1 + 1e-9
    assert max(matrix.sum(axis=1).max() for matrix in found[FORWARD]) > 1.5
    assert found[BOTH][0] == pytest.approx((found[FORWARD][0] + found[BACKWARD][0]) / 2)


def test_entropy_of_untrained_translations():
    settings = {"stem_strength": 0.0, "cognate_strength": 0.0, "discount": 0.0, "constraints": ()}
    aligner = WordAligner("ibm1", max_iter=1, n_threads=1, **settings)
    aligner.fit(["a b", "c"], ["x y", "z"])
    forward, _ = pr_fig6.translation_entropies(aligner)  # a and b: one bit each; c: none
    assert forward == pytest.approx(2 / 3, abs=1e-6)


def test_real_hansards(shared, reproduce):
    out, _ = reproduce("em-constraints-fig3", shared / "data", "--sizes", "500")
    assert "Dev has 37 sentence pairs" in out
    assert "[holds] Both constraints improve the AER of both models" in out


@pytest.mark.slow
def test_ten_thousand_pairs(shared):
    report = uem_table2.run(shared / "data" / "align" / "hansards-enfr", [10_000])
    assert [table.rows[0][1] for table in report.tables[:2]] == ["paper", "paper"]
    for table in report.tables[:2]:
        for row in table.rows[1:]:
            em, pr, _, uem = row[2:6]
            assert em > pr + 4
            # With the defaults the gamma tuned on 37 sentences may lose to PR, which the report says.
            assert uem < pr + (0.5 if row[1] == "ours, as published" else 1.5)
    assert min(row[5] for row in report.tables[2].rows) <= 9.2


def test_gamma_without_labels(hansards, reproduce, monkeypatch):
    where = gamma_without_labels.SETS["Hansards"][1:4]
    sets = {"one": ("hansards-enfr", *where, 20), "other": ("hansards-enfr", *where, 40), "alone": (None, *where, 20)}
    monkeypatch.setattr(gamma_without_labels, "SETS", sets)
    monkeypatch.setattr(gamma_without_labels, "GAMMAS", (0.5, 1.0))
    files = [file for file in gamma_without_labels.FILES if file.startswith("hansards-enfr")]
    monkeypatch.setattr(gamma_without_labels, "FILES", files)
    out, rows = reproduce("gamma-without-labels", hansards.parent, "--size", "100")
    assert [(row["set"], row["gamma"]) for row in rows] == [(name, g) for name in sets for g in ("0.5", "1.0")]
    dev, gold = read_bitext(hansards / "dev.en", hansards / "dev.fr"), read_links(hansards / "dev.align", 40)
    text = read_bitext(hansards / "train.en.gz", hansards / "train.fr.gz", limit=100).concat(dev)
    for row in rows[2:4]:
        aligner = WordAligner(gamma=float(row["gamma"]), n_threads=1).fit(text)
        assert float(row["aer"]) == pytest.approx(1 - aligner.score(dev, None, gold))
        posteriors, links = aligner.predict_proba(text), aligner.predict(text)
        right = sum(
            min(posteriors.forward[n][link], posteriors.backward[n][link])
            for n in range(text.n_pairs)
            for link in links.pairs(n)
        )
        expected = 2 * right / (links.n_links + sum(matrix.sum() for matrix in posteriors.average))
        assert float(row["own_f1"]) == pytest.approx(expected)
    own = [max(rows[k : k + 2], key=lambda row: float(row["own_f1"]))["gamma"] for k in (0, 2, 4)]
    table = next(lines for lines in out.split("\n\n") if lines.startswith("gamma that every rule chooses"))
    assert [float(line.split()[3]) for line in table.splitlines()[2:]] == [float(gamma) for gamma in own]
