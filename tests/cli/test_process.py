"""The command as a process of its own: start-up, interrupts, pipes."""

import signal
import subprocess
import sys
import time

import pytest

from spectrem import __version__
from spectrem.data import write_lines
from spectrem.datasets import make_bitext

HEAVY = ["matplotlib", "numba", "numpy", "scipy", "sklearn"]


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['spectrem', 'align', '--help']\n"
        "from spectrem.cli import main\n"
        "try: main()\n"
        f"finally: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--constraint" in done.stdout
    assert done.stderr == "[]\n"


def test_help_takes_less_than_half_a_second(cpu_seconds):
    assert min(cpu_seconds("--help") for _ in range(3)) < 0.5


def test_ten_lines_take_less_than_two_seconds(cpu_seconds, files, tmp_path):
    few = tmp_path / "few.txt"
    write_lines(few, files.both.read_text().splitlines()[:10])
    cpu_seconds("align", few, "--threads", "1")  # compiles, if nothing has before
    assert min(cpu_seconds("align", few, "--threads", "1") for _ in range(2)) < 2.0


def test_version(start):
    output, errors = start("--version").communicate()
    assert (output, errors) == (f"spectrem {__version__}\n".encode(), b"")


def test_align_loads_no_drawing(start, files):
    """Neither matplotlib nor a progress bar where nobody watches."""
    code = (
        f"import sys; sys.argv = ['spectrem', 'align', {str(files.both)!r}, '-o', '/dev/null']\n"
        "from spectrem.cli import main\n"
        "try: main()\n"
        "finally: print([name for name in ('matplotlib', 'rich.progress') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("after", [0.2, 4.0], ids=["while starting", "while training"])
def test_an_interrupt_leaves_nothing_behind(start, tmp_path, after):
    bitext = make_bitext(2000, seed=0)
    source, target, out = tmp_path / "source", tmp_path / "target", tmp_path / "out"
    write_lines(source, bitext.source)
    write_lines(target, bitext.target)
    options = ["--probabilities", tmp_path / "probabilities", "--save", tmp_path / "model", "--iterations", "100000"]
    process = start("align", source, target, "-o", out, *options)
    if after > 1:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) == 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(list(tmp_path.iterdir())) > 2, "the outputs are opened before the work"
        time.sleep(1.0)
    else:
        time.sleep(after)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode in ((130,) if after > 1 else (130, -signal.SIGINT))
    assert output == b""
    if after > 1:
        assert errors == b"spectrem: interrupted; no output was written\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_a_reader_that_stops_early_is_no_error(files):
    command = f"{sys.executable} -c 'from spectrem.cli import main; main()' align {files.both} --quiet | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
