"""`spectrem evaluate` and `spectrem symmetrize`."""

import json

import pytest

from spectrem.data import Links, read_links, symmetrize, write_pharaoh, write_shared_task


@pytest.fixture
def folder(tmp_path):
    write_pharaoh(tmp_path / "links", Links.from_pairs([[(0, 0), (1, 2), (2, 2)], [(0, 0)], []]))
    gold = Links.from_pairs([[(0, 0), (1, 1)], [(0, 0)], []], possible=[[(1, 2)], [], []])
    write_pharaoh(tmp_path / "gold", gold)
    write_shared_task(tmp_path / "gold.wa", gold)
    return tmp_path


def test_scores_as_json(run, folder):
    result = run("evaluate", folder / "links", folder / "gold", "--json")
    scores = json.loads(result.stdout)
    # 4 predicted, 3 sure; right 3, found 2
    assert scores["aer"] == pytest.approx(1 - 5 / 7)
    assert scores["precision"] == pytest.approx(3 / 4)
    assert scores["recall"] == pytest.approx(2 / 3)
    assert scores["f_measure"] == pytest.approx(1 / (0.5 / 0.75 + 0.5 * 1.5))
    assert (scores["n_predicted"], scores["n_sure"], scores["n_possible"], scores["alpha"]) == (4, 3, 4, 0.5)


def test_alpha_weighs_precision(run, folder):
    result = run("evaluate", folder / "links", folder / "gold", "--json", "--alpha", "1")
    assert json.loads(result.stdout)["f_measure"] == pytest.approx(3 / 4)


def test_table(run, folder):
    result = run("evaluate", folder / "links", folder / "gold")
    assert result.exit_code == 0
    for text in ("AER", "0.2857", "0.7500", "0.6667", "0.7059"):
        assert text in result.stdout


def test_formats_do_not_matter(run, folder):
    """The .wa files do not show that the last sentence exists."""
    expected = run("evaluate", folder / "links", folder / "gold", "--json").stdout
    assert run("evaluate", folder / "links", folder / "gold.wa", "--json").stdout == expected
    stdin = (folder / "links").read_bytes()
    assert run("evaluate", "-", folder / "gold.wa", "--json", stdin=stdin).stdout == expected
    write_shared_task(folder / "links.wa", read_links(folder / "links"))
    assert run("evaluate", folder / "links.wa", folder / "gold", "--json").stdout == expected


def test_numbers_of_sentences_differ(run, folder):
    (folder / "short").write_text("0-0\n")
    result = run("evaluate", folder / "short", folder / "gold")
    assert result.exit_code == 2
    assert f"short has 1 lines, but {folder / 'gold'} has 3 sentence pairs" in result.stderr
    result = run("evaluate", "-", folder / "gold", stdin=b"0-0\n")
    assert result.exit_code == 2
    assert f"standard input has 1 lines, but {folder / 'gold'} has 3 sentence pairs" in result.stderr


def test_a_line_that_is_no_link(run, folder):
    (folder / "bad").write_text("0-0\n0:1\n\n")
    result = run("evaluate", folder / "bad", folder / "gold")
    assert result.exit_code == 2
    assert "bad, line 2: '0:1' is not a link" in result.stderr


@pytest.mark.parametrize("method", ["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"])
def test_symmetrize(run, tmp_path, method):
    forward = Links.from_pairs([[(0, 0), (1, 1), (1, 2)], [], [(0, 3)]])
    backward = Links.from_pairs([[(0, 0), (2, 2), (3, 3)], [(0, 0)], [(1, 3)]])
    write_pharaoh(tmp_path / "f", forward)
    write_pharaoh(tmp_path / "b", backward)
    result = run("symmetrize", tmp_path / "f", tmp_path / "b", "--method", method, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    merged = read_links(tmp_path / "out", 3)
    assert [merged.pairs(n) for n in range(3)] == [symmetrize(forward, backward, method).pairs(n) for n in range(3)]


def test_symmetrize_needs_the_same_sentences(run, tmp_path):
    (tmp_path / "f").write_text("0-0\n\n")
    (tmp_path / "b").write_text("0-0\n")
    result = run("symmetrize", tmp_path / "f", tmp_path / "b")
    assert result.exit_code == 2
    assert "b has 1 lines, but the bitext has 2 sentence pairs" in result.stderr
