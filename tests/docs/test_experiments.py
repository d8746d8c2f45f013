"""Sections of experiments hold what the experiments wrote, and every experiment stands on one page."""

import re
from collections import Counter

import pytest
from test_public_names import ROOT, load

pytest.importorskip("matplotlib")
PAGES = load("experiments")
RUNS = PAGES.runs_of(PAGES.RESULTS)
FOLDER = ROOT / "docs" / "experiments"


def result(name):
    return (PAGES.RESULTS / f"{name}.txt").read_text(encoding="utf-8")


def test_every_experiment_stands_on_one_page():
    texts = [page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md")]
    included = [name for text in texts for name in re.findall(r"_generated/experiments/([\w-]+)\.md", text)]
    assert Counter(included) == Counter([*PAGES.EXPERIMENTS, "overview"])


def test_results_are_those_that_runs_name():
    files = {path.name for path in PAGES.RESULTS.iterdir()}
    figures = {f"{name}.png" for name in RUNS if name not in PAGES.WITH_TEXT}
    assert files == {f"{name}.txt" for name in RUNS} | figures | {"runs.tsv"}
    assert all((PAGES.RESULTS / name).stat().st_size <= PAGES.LARGEST for name in files)
    assert RUNS.keys() <= PAGES.EXPERIMENTS.keys()


@pytest.mark.parametrize(("name", "heading"), PAGES.WITH_TEXT.items())
def test_text_of_corpora_is_left_out(name, heading, tmp_path, monkeypatch):
    kept = f"Title\n\nCounts\na  b\n1  2\n\nNotes\n- {heading} is left out.\n"
    (tmp_path / f"{name}.txt").write_text(kept.replace("\n\nNotes", f"\n\n{heading}, with words\nc  d\nw  v\n\nNotes"))
    monkeypatch.setattr(PAGES, "RESULTS", tmp_path / "results")
    PAGES.take(tmp_path, PAGES.Run(name, "", "2026-01-01", 1, 1))
    assert (tmp_path / "results" / f"{name}.txt").read_text() == kept
    assert not (tmp_path / "results" / f"{name}.png").exists()
    assert heading not in "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob(f"results/{name}.txt"))


@pytest.mark.parametrize("name", RUNS)
def test_no_word_of_a_result_is_lost(name):
    parsed = PAGES.parse(result(name))
    cells = [cell for _, rows in parsed.tables for row in rows for cell in row]
    headings = [title for title, _ in parsed.tables]
    lines = [text for heading, items in (parsed.claims, parsed.notes) for text in (heading, *items)]
    words = " ".join([parsed.title, *headings, *cells, *lines]).split()
    assert Counter(words) == Counter(re.sub(r"^- ", "", result(name), flags=re.MULTILINE).split())
    assert all(len(row) == len(rows[0]) > 1 for _, rows in parsed.tables for row in rows)


@pytest.mark.parametrize("name", RUNS)
def test_the_section_has_every_number_of_the_tables(name):
    text = PAGES.section(name, PAGES.RESULTS)
    for _, rows in PAGES.parse(result(name)).tables:
        for row in rows:
            assert all(cell in text.replace("\\", "") for cell in row)


def test_cells_of_a_report_are_read_back():
    from matplotlib.figure import Figure

    from reproductions.report import Report, Table

    table = Table("In %", ("size", "", "EM, best", "a|b"), [(10, "paper", 0.25, None), (20000, "our own", None, "x")])
    report = Report("Title", [table, table], table, Figure(), {"PR is better": False}, ["One.", "Two."])
    parsed = PAGES.parse(str(report))
    rows = [["size", "", "EM, best", "a|b"], ["10", "paper", "0.25", ""], ["20,000", "our own", "", "x"]]
    assert parsed.tables == [("In %", rows)] * 2
    assert parsed.claims == ("What the paper says of it", ["[DOES NOT HOLD here] PR is better"])
    assert parsed.notes == ("What differs from the paper", ["One.", "Two."])


@pytest.mark.parametrize(("options", "words"), [("--quick", "Run: small"), ("--sizes 10", "Run: in part"), ("", "")])
def test_a_run_that_is_not_whole_says_so(tmp_path, options, words):
    from matplotlib.figure import Figure

    from reproductions.report import Report, Table

    table = Table("In %", ("size", "a|b"), [("paper", 0.25)])
    Report("Title", [table], table, Figure(), {"PR is better": False}).write(tmp_path, "dmv")
    line = "\t".join(["dmv", options, "2026-01-01", "100", "200"])
    (tmp_path / "runs.tsv").write_text("\t".join(PAGES.Run._fields) + "\n" + line + "\n")
    text = PAGES.section("dmv", tmp_path)
    assert words in text
    assert ("Run: " in text) == bool(words)
    assert r"| size | a\|b |" in text
    assert "| **paper** | **0.25** |" in text
    assert ("does not hold` PR is better" in text) == (options != "--quick")
    assert ("3 minutes of the processor" in text and f'NAME=dmv ARGS="{options}"' in text) or not options


def test_an_experiment_without_a_result_has_no_numbers(tmp_path):
    text = PAGES.section("dmv", tmp_path)
    assert "was not run for this page" in text
    assert "make reproduce NAME=dmv" in text
    assert "|" not in text
