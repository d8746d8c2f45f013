"""``python -m reproductions``: what it lists, which options experiments have, and how bad input is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import reproductions
from reproductions.__main__ import EXPERIMENTS, main

COMMON = {"--help", "--output", "--quick"}
OPTIONS = {
    "uem-table2": {"--data", "--sizes", "--threads"},
    "em-constraints-fig1": {"--seed", "--starts"},
    "em-constraints-fig3": {"--data", "--sizes", "--threads"},
    "em-constraints-fig4": {"--data", "--size", "--threads"},
    "pr-fig6": {"--data", "--size", "--threads"},
    "gamma-without-labels": {"--data", "--size", "--threads"},
    "da-table1": {"--data", "--threads"},
    "da-table2": {"--data", "--threads"},
    "da-table3": {"--data", "--seed", "--threads", "--trials"},
    "pr-fig12": {"--data", "--languages", "--seeds", "--threads"},
    "uem-fig1": {"--data", "--draws", "--threads"},
    "pos-dictionary": {"--data", "--threads"},
    "cluster-links": {"--draws", "--seed"},
    "pr-table8": {"--data", "--languages", "--sizes", "--seed", "--threads"},
    "pr-fig10": {"--data", "--threads"},
    "uem-fig2": {"--data", "--draws", "--best", "--threads"},
    "pr-table4": {"--data", "--draws", "--threads"},
    "pr-table5": {"--data", "--draws", "--seed", "--threads"},
    "pr-table6": {"--data", "--sizes", "--draws", "--threads"},
    "ge-compare": {"--data", "--draws", "--seed"},
    "dmv": {"--data", "--threads"},
    "universal-rules": {"--data", "--languages", "--threads"},
    "occupancy": {"--data", "--seed", "--starts", "--threads"},
    "label-models": {"--data", "--peers", "--seeds", "--sets", "--threads"},
}


def test_experiments_are_listed_with_one_line_each(capsys):
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS) == list(OPTIONS)
    assert all(len(line.split()) > 5 for line in lines)
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert all(line in printed for line in lines)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_experiment_has_its_options(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    words = {word.strip(",[]") for word in capsys.readouterr().out.split()}
    assert {word for word in words if word.startswith("--")} == OPTIONS[name] | COMMON
    assert set(EXPERIMENTS[name].QUICK) <= set(EXPERIMENTS[name].run.__annotations__)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "invalid choice: 'nothing'"),
        (
            ["uem-table2", "--sizes", "10k"],
            "must be whole numbers above 0 with commas between, as 10000,50000, got '10k'",
        ),
        (["uem-table2", "--sizes", ""], "must be whole numbers above 0 with commas between, as 10000,50000, got ''"),
        (["uem-table2", "--sizes", "100,0"], "must be whole numbers above 0 with commas between"),
        (["pr-fig6", "--size", "0"], "--size: must be a whole number of at least 1, got '0'"),
        (["cluster-links", "--seed", "-1"], "--seed: "),
        (["pr-fig12", "--languages", "Danish"], "languages must be among English, Portuguese, got Danish"),
        (
            ["uem-fig1", "--data", "missing"],
            "but missing lacks tag/wsj_sample.pos.gz; pass --data or set SPECTREM_DATA",
        ),
        (["em-constraints-fig1", "--output", "file"], "file"),
        (["em-constraints-fig1", "--output", "file/below"], "file/below"),
    ],
)
def test_bad_input_ends_with_a_message(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert message in printed.err.splitlines()[-1]
    assert printed.out == ""


def test_a_folder_that_refuses_files_is_told_of_before_the_work(tmp_path, monkeypatch, capsys):
    def refuse(dir):
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    monkeypatch.setattr(EXPERIMENTS["em-constraints-fig1"], "run", lambda: pytest.fail("it ran"))
    with pytest.raises(SystemExit):
        main(["em-constraints-fig1", "--output", str(tmp_path)])
    assert f"Permission denied: '{tmp_path}'" in capsys.readouterr().err


def test_it_runs_as_a_module():
    root = Path(reproductions.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "reproductions"]
    found = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.startswith("uem-table2 ")
