"""What the tests of the command line share."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spectrem.cli.app import app
from spectrem.data import write_lines, write_pharaoh
from spectrem.datasets import make_bitext


@pytest.fixture
def run():
    """Run a command in this process: ``run("align", source, target)``; paths are turned into text."""

    def invoke(*arguments, stdin=None):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)

    return invoke


@pytest.fixture
def start():
    """Start a command as a process of its own, as a shell would."""

    def popen(*arguments, **options):
        command = [sys.executable, "-c", "from spectrem.cli import main; main()", *map(str, arguments)]
        # a suite that runs in the background of a shell ignores SIGINT and hands that down
        unblock = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **unblock, **options)

    return popen


@pytest.fixture
def cpu_seconds(start):
    """Processor time of a command and of nothing else, in seconds; the command must succeed."""

    def measure(*arguments):
        process = start(*arguments)
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        errors = process.stderr.read().decode()
        process.stderr.close()
        assert process.returncode == 0, errors
        return usage.ru_utime + usage.ru_stime

    return measure


class Files:
    """A generated bitext with gold links on disk."""

    def __init__(self, folder: Path, n_pairs: int):
        self.folder = folder
        self.bitext = make_bitext(n_pairs, seed=3)
        self.source, self.target = folder / "source.txt", folder / "target.txt"
        self.both, self.tsv, self.gold = folder / "both.txt", folder / "both.tsv", folder / "gold.txt"
        pairs = list(zip(self.bitext.source, self.bitext.target, strict=True))
        write_lines(self.source, self.bitext.source)
        write_lines(self.target, self.bitext.target)
        write_lines(self.both, [f"{s} ||| {t}" for s, t in pairs])
        write_lines(self.tsv, [f"{s}\t{t}" for s, t in pairs])
        write_pharaoh(self.gold, self.bitext.links)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("bitext"), 120)
