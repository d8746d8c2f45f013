"""A program that runs a command many times, which gets a signal at another point of the run each time.

A point is a place in Python code where a function is called or returns, when it is reached for the first time. Every
run is a fork of this process, which has loaded and compiled everything, in a folder of its own; it sends the signal to
itself in the midst of its work, so that no clock has a say, and again at every point after that, as the impatient do.

Arguments: names of signals, separated by commas, which take turns; how many points are tried; a regular expression for
the names of files whose code counts; a folder of inputs; outputs, separated by commas, the first of which is there
before; the command.

Prints a line of JSON for every run: the point, the signal, the status (None if the run never came there), what the run
said on standard error, what became of the outputs ("old" or "new"), and what else is in the folder. After SIGKILL the
command runs once more in that folder, and what is said of it is what it left.
"""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from contextlib import redirect_stdout
from itertools import cycle
from pathlib import Path

from spectrem.cli import main, signals
from spectrem.cli.app import app

# Whatever the suite ignores and hands down, in the background of a shell or under nohup.
USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}


def run(folder, command, files, reach):
    """The status of the command in a fork of this process, and what it says; ``reach`` is called at every point."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(write, 2)
        for number, usual in USUAL.items():
            signal.signal(number, usual)
        sys.argv = ["spectrem", *command]
        seen = set()

        def profile(frame, event, argument):
            code = frame.f_code
            point = (code, frame.f_lasti, event)
            if point not in seen:
                seen.add(point)
                if files.search(code.co_filename):
                    reach(f"{code.co_filename}:{frame.f_lineno} {code.co_qualname} {frame.f_lasti} {event}")

        try:
            sys.setprofile(profile)
            main()
        finally:  # by an interrupt before signals are caught
            os._exit(signals.BY_SIGNAL + signal.SIGINT)
    os.close(write)
    with open(read, "rb") as stream:
        said = stream.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def copied(inputs, outputs):
    folder = Path(tempfile.mkdtemp(dir="."))
    shutil.copytree(inputs, folder, dirs_exist_ok=True)
    (folder / outputs[0]).write_text("old\n")
    return folder


def content(folder):
    return {str(path.relative_to(folder)): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def try_points(names, n_points, pattern, inputs, outputs, *command):
    files, outputs = re.compile(pattern), outputs.split(",")
    folder, reached = copied(inputs, outputs), Path("reached").absolute()
    before = content(folder)
    with redirect_stdout(sys.stderr):
        os.chdir(folder)
        app(command, standalone_mode=False)
        os.chdir("..")
    signals._ignored = False

    def note(point):
        os.write(noted, f"{point}\n".encode())

    def strike(point):
        if point == target:
            reached.touch()
        if reached.exists():
            os.kill(os.getpid(), getattr(signal, name))

    noted = os.open("points", os.O_WRONLY | os.O_CREAT)
    status, said = run(copied(inputs, outputs), command, files, note)
    assert status == 0, said
    points = Path("points").read_text().splitlines()
    targets = points[:: max(1, len(points) // int(n_points))]
    for target, name in zip(targets, cycle(names.split(",")), strict=False):
        reached.unlink(missing_ok=True)
        folder = copied(inputs, outputs)
        status, said = run(folder, command, files, strike)
        if name == "SIGKILL":
            run(folder, command, files, id)
        now = content(folder)
        found = {
            "point": target,
            "signal": name,
            "status": status if reached.exists() else None,
            "said": said,
            "outputs": ["old" if now.get(output) == before.get(output) else "new" for output in outputs],
            "others": sorted(now.keys() - before.keys() - set(outputs)),
        }
        shutil.rmtree(folder)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    try_points(*sys.argv[1:])
