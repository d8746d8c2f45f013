"""Every block of code on every page of the site and in the README runs, and prints what the page shows.

The blocks of one page run in order, in one namespace and one folder of their own. ``python`` is executed, or, if its
first line is ``# NAME.py``, saved under that name for the blocks behind it to import. In ``sh``,
``cat > NAME`` with a here-document writes a file, ``head`` and ``cat`` show files, and ``spectrem`` is run if the
first file that it names is there (on pages of `RUN`, always); otherwise its options and constraints are checked.
``yaml`` and ``json`` are lists of constraints. A block of ``text`` right behind one of ``python`` or ``sh`` is what it
prints, where ``...`` stands for anything. What other programs do is in blocks of directives, which do not run.
"""

import doctest
import io
import re
import runpy
import shlex
from contextlib import chdir, redirect_stdout
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from spectrem.cli.app import app
from spectrem.constraints import read_constraints
from spectrem.constraints.text import flatten

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
PAGES = [page for page in PAGES if not any(part.startswith("_") for part in page.relative_to(ROOT).parts)]
RUN = [page for room in ("start", "guide") for page in PAGES if page.parent == ROOT / "docs" / room]
RUN.remove(ROOT / "docs" / "guide" / "constraints.md")
OPTIONAL = ("dask", "distributed", "icu4py", "matplotlib", "pandas", "polars", "pyarrow", "skops", "torch")
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1 *$", re.MULTILINE | re.DOTALL)
HEREDOC = re.compile(r"^cat > (\S+) << '?(\w+)'?\n(.*?)^\2$", re.MULTILINE | re.DOTALL)


def read(page):
    return page.read_text(encoding="utf-8")


def blocks(page):
    """Language and text of every block of a page, with ``text`` only where it lies right behind another block."""
    found = list(FENCE.finditer(read(page)))
    behind = [one for before, one in pairwise(found) if not before.string[before.end() : one.start()].strip()]
    return [(one[2].strip(), one[3]) for one in found if one[2].strip() != "text" or one in behind]


def known_options(words):
    """The options of the command that a line names, and of all above it."""
    command, known = typer.main.get_command(app), {"--help"}
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
        known |= {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    return known


def run_line(line, page):
    words = shlex.split(line, comments=True)
    if words[:1] == ["head"]:
        n_lines = int(words[2]) if words[1] == "-n" else 10
        return "".join(Path(words[-1]).read_text(encoding="utf-8").splitlines(keepends=True)[:n_lines])
    if words[:1] == ["cat"]:
        return "".join(Path(word).read_text(encoding="utf-8") for word in words[1:])
    if words[:1] != ["spectrem"]:
        return ""
    unknown = {word.split("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word) and word != "-inf"}
    assert unknown <= known_options(words[1:]), line
    named = next((word for word in words[1:] if re.fullmatch(r"[\w./-]+\.\w+", word)), None)
    if page in RUN or (named and Path(named).exists()):
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}"
        return done.output
    for option, text in pairwise(words):
        assert option != "--constraint" or flatten(text)
    return ""


def run_shell(code, page):
    for name, _, text in HEREDOC.findall(code):
        Path(name).write_text(text, encoding="utf-8")
    lines = HEREDOC.sub("", code).replace("\\\n", " ").splitlines()
    return "".join(run_line(line, page) for line in lines)


def compare(printed, shown):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(shown, printed, flags), f"shown\n{shown}\nprinted\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_of_the_page_run(page, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    space, printed = {"__name__": "__page__"}, ""
    with chdir(tmp_path):
        for language, code in blocks(page):
            if language == "python" and (name := re.match(r"# (\w+\.py)\n", code)):
                Path(name[1]).write_text(code, encoding="utf-8")
            elif language == "python":
                output = io.StringIO()
                try:
                    with redirect_stdout(output):
                        exec(compile(code, str(page), "exec"), space)
                except ModuleNotFoundError as error:
                    if error.name in OPTIONAL:
                        pytest.skip(f"{error.name} is not installed")
                    raise
                printed = output.getvalue()
            elif language == "sh":
                printed = run_shell(code, page)
            elif language in ("yaml", "json"):
                assert read_constraints(io.StringIO(code), format=language)
            elif language == "text":
                compare(printed, code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_the_page_names_are_there(page):
    for name in re.findall(r"\]\((?!https?:)([^)\s#]+\.(?:md|py|png|svg))[)#]", read(page)):
        assert (page.parent / name).exists(), name


def test_figures_are_shown_and_described():
    """Every figure of `docs/figures.py` is shown on a page, in both colours, with a description.

    That they are drawn, and of a size that loads at once, `make docs` sees.
    """
    pytest.importorskip("matplotlib")
    shown = re.findall(
        r"```{image} /_generated/(\S+)\n:class: only-(light|dark)\n:alt: .{40}", "".join(map(read, PAGES))
    )
    assert len(shown) == "".join(map(read, PAGES)).count("{image} /_generated/")
    figures = runpy.run_path(str(ROOT / "docs" / "figures.py"))["FIGURES"]
    drawn = [(f"{figure.__name__}_{ink}.svg", ink) for figure in figures for ink in ("dark", "light")]
    assert sorted(shown) == sorted(drawn)


def test_output_that_differs_from_the_page_is_found(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n\nText.\n\n```text\nanything\n```\n")
    assert [language for language, _ in blocks(page)] == ["python", "text"]
    with pytest.raises(AssertionError, match=r"printed\n\s*1\n"):
        test_blocks_of_the_page_run(page, tmp_path, monkeypatch)
    page.write_text("```sh\nspectrem align en.txt --no-such-option\n```\n")
    with pytest.raises(AssertionError, match="--no-such-option"):
        test_blocks_of_the_page_run(page, tmp_path, monkeypatch)
