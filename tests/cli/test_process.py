"""The command as a process of its own: what it loads, signals, pipes, closed and full streams."""

import os
import signal
import subprocess
import sys

import pytest

from spectrem import __version__
from spectrem.data import write_lines

HEAVY = ["matplotlib", "numba", "numpy", "scipy", "sklearn"]
NEEDLESS = ["sklearn", "matplotlib", "pandas", "polars", "narwhals", "scipy.optimize", "scipy.stats", "scipy.sparse"]
COMPILING = ["scipy.linalg", "numba.np.arraymath", "numba.cpython.unicode"]
TRAIN = "call spectrem.estimators:WordAligner.fit"
SPECTREM = f"{sys.executable} -c 'from spectrem.cli import main; main()'"


def test_help_loads_nothing_heavy(loaded_by):
    loaded, output = loaded_by(HEAVY, "align", "--help")
    assert "--constraint" in output
    assert loaded == []


def test_align_loads_no_drawing(loaded_by, files):
    """Neither matplotlib nor a progress bar where nobody watches, nor other commands, nor what compiling takes."""
    arguments = ["align", files.both, "-o", "/dev/null"]
    loaded_by([], *arguments)  # compiles, which takes more, if nothing has before
    others = ["rich.progress", "spectrem.cli.tagging"]
    loaded, _ = loaded_by([*NEEDLESS, *COMPILING, *others, "numba"], *arguments)
    assert loaded == ["numba"]


def test_taggers_and_saved_aligners_load_no_scikit_learn(loaded_by, files, tmp_path):
    """Neither where training converges nor where it runs out of iterations."""
    model, tagger, field, tagged = (tmp_path / name for name in ("model", "tagger", "field", "tagged"))
    tagged.write_text("the/D dog/N\na/D cat/N sleeps/V\n", encoding="utf-8")
    train = ["tag", "train", files.source, "--save"]
    loaded_by([], *train, field, "--crf", "--labelled", tagged, "--max-iter", "2")
    for arguments in (
        ["align", files.both, "--save", model, "-o", "/dev/null"],
        ["align", files.both, "--load", model, "--decode", "viterbi", "-o", "/dev/null"],
        [*train, tagger, "--n-states", "3", "--max-iter", "2"],
        ["tag", "predict", "--load", tagger, files.source],
        ["tag", "predict", "--load", field, files.source],
    ):
        loaded, _ = loaded_by([*NEEDLESS, "numba"], *arguments)
        assert loaded == ["numba"], arguments


def test_places_are_refused_before_anything_heavy_is_loaded(files, tmp_path):
    arguments = ["align", files.both, "-o", tmp_path / "out", "--save", tmp_path / "no" / "model"]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from spectrem.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "spectrem.cli.files" in modules
    assert not modules & set(HEAVY)


def test_version(start):
    output, errors = start("--version").communicate()
    assert (output, errors) == (f"spectrem {__version__}\n".encode(), b"")


@pytest.fixture
def outputs(files, tmp_path):
    """A command with three outputs, of which one exists."""
    (tmp_path / "model").write_text("the old one\n")
    places = ["-o", tmp_path / "out", "--probabilities", tmp_path / "probabilities", "--save", tmp_path / "model"]
    return ["align", files.source, files.target, *places, "--max-iter", "1", "--model1-iterations", "1", "-q"]


@pytest.mark.parametrize(
    ("name", "status", "said", "place"),
    [
        ("SIGINT", 130, b"interrupted", "import spectrem.cli.ending"),
        ("SIGINT", 130, b"interrupted", "import spectrem.cli.app"),
        ("SIGINT", 130, b"interrupted", "import numba"),
        ("SIGINT", 130, b"interrupted", TRAIN),
        ("SIGINT", 130, b"interrupted", "call spectrem.cli.alignment.writing:align_pairs"),
        ("SIGINT", 130, b"interrupted", "call spectrem.cli.files:finish"),
        ("SIGTERM", 143, b"terminated", TRAIN),
        ("SIGHUP", 129, b"hung up", TRAIN),
    ],
)
def test_a_signal_leaves_nothing_behind(paused, outputs, tmp_path, name, status, said, place):
    command = paused(place, *outputs)
    command.process.send_signal(getattr(signal, name))
    assert command.end() == (status, b"", b"spectrem: " + said + b"; no output was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_text() == "the old one\n"


def test_an_interrupt_before_signals_are_caught_is_quiet_too(paused, outputs):
    command = paused("import spectrem.cli.signals", *outputs)
    command.process.send_signal(signal.SIGINT)
    assert command.end() == (130, b"", b"")


@pytest.mark.parametrize("place", ["call os:replace", "call spectrem.cli.ending:leave", "call os:_exit"])
def test_a_signal_that_comes_when_all_is_done_changes_nothing(paused, outputs, tmp_path, place):
    command = paused(place, *outputs)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        command.process.send_signal(getattr(signal, name))
    assert command.end() == (0, b"", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out", "probabilities"]
    assert (tmp_path / "model").read_bytes().startswith(b"PK")


def test_a_signal_that_is_ignored_stays_so(paused, outputs):
    command = paused(TRAIN, *outputs, ignored="SIGINT SIGHUP")
    command.process.send_signal(signal.SIGINT)
    command.process.send_signal(signal.SIGHUP)
    assert command.end() == (0, b"", b"")


def test_what_a_pipe_received_is_said_to_be_incomplete(paused, files, tmp_path):
    out = tmp_path / "out"
    many = tmp_path / "many"
    write_lines(many, files.both.read_text().splitlines() * 8)  # what is sent fits into a pipe that nobody reads yet
    arguments = ["align", many, "--probabilities", out, "-q", "--max-iter", "1", "--model1-iterations", "1"]
    command = paused("call spectrem.cli.alignment.writing:probability_lines", *arguments)
    command.process.send_signal(signal.SIGTERM)
    status, output, errors = command.end()
    assert status == 143
    assert 0 < output.count(b"\n") < 960
    said = b"no file was written, and what standard output received is incomplete"
    assert errors == b"spectrem: terminated; " + said + b"\n"
    assert list(tmp_path.iterdir()) == [many]


def test_a_reader_that_stops_early_ends_the_run(paused, files, tmp_path):
    command = paused(TRAIN, "align", files.both, "--save", tmp_path / "model", "-q")
    command.process.stdout.close()
    command.process.stdout = None
    assert command.end() == (141, None, b"")
    assert list(tmp_path.iterdir()) == []


def test_errors_that_nobody_reads(paused, files, tmp_path):
    command = paused(TRAIN, "align", files.both, "-o", tmp_path / "out")
    command.process.stderr.close()
    command.process.stderr = None
    assert command.end() == (0, b"", None)
    assert (tmp_path / "out").read_text().count("\n") == 120


def shell(script, **environment):
    """What a shell makes of a script; ``S`` is the command."""
    environment = os.environ | environment
    return subprocess.run(["bash", "-c", f'S() {{ {SPECTREM} "$@"; }}; {script}'], capture_output=True, env=environment)


@pytest.mark.parametrize(
    ("script", "status", "errors"),
    [
        ("S evaluate $gold $gold >&-", 2, "standard output is closed; open it, or name a file by --output where"),
        ("S align $both >&-", 2, "standard output is closed"),
        ("S align $both -o /dev/stdout >&-", 2, "--output /dev/stdout: cannot be written: it is not open for writing"),
        ("S --version >&-", 2, "standard output: Bad file descriptor"),
        ("S align - <&-", 2, "standard input: cannot be read: Bad file descriptor; give a readable file"),
        ("S align nothing 2>&-", 2, None),
        ("S symmetrize $gold $gold -o $out <&- >&- 2>&-", 0, None),
        ("S align $both --max-iter 1 -o $out 2>/dev/full", 0, None),
        ("S evaluate $gold $gold >/dev/full", 2, "standard output: No space left on device"),
        ("S --help >/dev/full", 2, "standard output: No space left on device"),
        ("S align $both -q -o /dev/full --save $out", 2, "/dev/full: No space left on device"),
        ("S align $both -q --save $out >/dev/full", 2, "standard output: No space left on device"),
    ],
)
def test_closed_and_full_streams(files, tmp_path, script, status, errors):
    if "/dev/full" in script and not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    out = tmp_path / "out"
    done = shell(script, gold=str(files.gold), both=str(files.both), out=str(out))
    assert (done.returncode, done.stdout) == (status, b"")
    if errors is None:
        assert done.stderr == b""
    else:
        assert done.stderr.decode().startswith(f"spectrem: error: {errors}")
        assert done.stderr.count(b"\n") == 1
    assert out.exists() == (status == 0)


def test_a_file_never_takes_the_place_of_a_closed_stream(files, tmp_path):
    """The first file opened would get descriptor 1, and be written into by whoever prints."""
    done = shell(
        "S symmetrize $gold $gold -o $out <&- >&- 2>&- && S symmetrize $gold $gold",
        gold=str(files.gold),
        out=str(tmp_path / "out"),
    )
    assert done.stdout == (tmp_path / "out").read_bytes()


@pytest.mark.parametrize(
    "locale",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
    ids=["ascii", "C"],
)
def test_text_is_utf8_whatever_the_locale(tmp_path, locale):
    table, weights = tmp_path / "t.csv", tmp_path / "nö.csv"
    table.write_text("é,y\n0.25,0.75\n0.5,0.5\n")
    rule = "--constraint \"E[label == 'y'] <= 2\""
    done = shell(f"S project {table} {rule}", **locale)
    assert done.stdout.decode().startswith("é,y\n0.25,0.7"), done.stderr
    assert "labels é, y" in done.stderr.decode()
    done = shell(f"S project {weights} {rule}", **locale)
    assert (done.returncode, done.stderr.decode()) == (2, f"spectrem: error: {weights}: no such file; check the path\n")


def test_names_of_files_need_not_be_utf8(files, tmp_path):
    copied = "cd $folder; cp $gold $'g\\xff.txt'; S evaluate $'g\\xff.txt' $'n\\xfe'"
    script = f"{copied}; S symmetrize $'g\\xff.txt' $gold -o $'o\\xff'"
    done = shell(script, folder=str(tmp_path), gold=str(files.gold))
    assert (done.returncode, done.stderr) == (0, b"spectrem: error: n\xfe: no such file; check the path\n")
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [b"g\xff.txt", b"o\xff"]


def test_descriptors_are_written_where_they_stand(files, tmp_path):
    merge = "S symmetrize $gold $gold -o"
    script = f"(echo first; {merge} /dev/stdout; {merge} /dev/fd/1; echo last) > $out"
    shell(script, gold=str(files.gold), out=str(tmp_path / "out"))
    lines = (tmp_path / "out").read_text().splitlines()
    assert len(lines) == 242
    assert lines[0] + lines[-1] == "firstlast"
    assert lines[1:121] == lines[121:241]


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "spectrem", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"spectrem {__version__}\n"
