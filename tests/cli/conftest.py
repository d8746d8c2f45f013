"""What the tests of the command line share."""

import os
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

    def popen(*arguments):
        command = [sys.executable, "-c", "from spectrem.cli import main; main()", *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return popen


_LOADED = """
import os, sys
leave, modules = os._exit, sys.argv.pop(1).split()
def told(status):
    print("loaded:", *[name for name in modules if name in sys.modules], file=sys.stderr, flush=True)
    leave(status)
os._exit = told
from spectrem.cli import main
main()
"""


@pytest.fixture
def loaded_by():
    """Which of some modules a command loads, and what it prints; the command must succeed."""

    def run_child(modules, *arguments):
        command = [sys.executable, "-c", _LOADED, " ".join(modules), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr.rpartition("loaded:")[2].split(), done.stdout

    return run_child


# Stops at the first call of a function, or where a module is about to be loaded: says so by a byte, and goes on when a
# byte comes back or nobody is left to send one.
_PAUSED = """
import _signal, importlib, os, sys
up, go, ignored, (kind, place) = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(), sys.argv[4].split()
del sys.argv[1:5]
# a suite in the background of a shell, or under nohup, ignores signals and hands that down
for name, usual in ("SIGINT", _signal.default_int_handler), ("SIGTERM", _signal.SIG_DFL), ("SIGHUP", _signal.SIG_DFL):
    _signal.signal(getattr(_signal, name), _signal.SIG_IGN if name in ignored else usual)
def pause():
    global pause
    pause = lambda: None
    os.write(up, b"u")
    os.read(go, 1)
if kind == "import":
    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == place:
                pause()
    sys.meta_path.insert(0, Finder())
else:
    module, _, name = place.partition(":")
    owner = importlib.import_module(module)
    *outer, name = name.split(".")
    for each in outer:
        owner = getattr(owner, each)
    wrapped = getattr(owner, name)
    def stopping(*arguments, **options):
        pause()
        return wrapped(*arguments, **options)
    setattr(owner, name, stopping)
from spectrem.cli import main
main()
"""


class Paused:
    """A command that has stopped at a place and waits."""

    def __init__(self, place, arguments, ignored):
        told, up = os.pipe()
        go, self._release = os.pipe()
        command = [sys.executable, "-c", _PAUSED, str(up), str(go), ignored, place, *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "pass_fds": (up, go)}
        self.process = subprocess.Popen(command, **pipes)
        os.close(up)
        os.close(go)
        with os.fdopen(told, "rb") as stream:
            self.stopped = stream.read(1) == b"u"

    def end(self):
        """Let it go on, and return status, standard output and standard error."""
        os.close(self._release)
        output, errors = self.process.communicate()
        return self.process.returncode, output, errors


@pytest.fixture
def paused():
    """Start a command that stops at ``call module:function`` or ``import module``, and wait until it has."""

    def make(place, *arguments, ignored=""):
        made = Paused(place, arguments, ignored)
        assert made.stopped, made.end()
        return made

    return make


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
