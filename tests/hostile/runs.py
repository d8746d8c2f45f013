"""One hostile run of a command, and the rule that every run is held to."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from spectrem.cli.app import app

MOST_LINES = 8
_ADVICE = re.compile(
    r"; |must|expected|No space left|Invalid value|Missing |No such option|requires|does not take a value|unexpected extra",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass
class Outcome:
    """What is wrong with a run, if anything."""

    status: int | None
    said: str
    wrong: str = ""


def state(folder: Path) -> dict[bytes, object]:
    """What a folder holds, by name: contents of files, links and folders."""
    found = {}
    for name in sorted(os.listdir(os.fsencode(folder))):
        path = os.path.join(os.fsencode(folder), name)
        if os.path.isdir(path) and not os.path.islink(path):
            found[name] = sorted(os.listdir(path))
        else:
            with open(path, "rb") as stream:
                found[name] = stream.read()
    return found


def run(folder: Path, arguments: list[str], outcome: str, names: list[str], outputs: list[str], before=None) -> Outcome:
    """Run a command in the working folder, take its outputs away again, and judge it.

    ``names`` are the words of which one must be in an error, and ``outputs`` the files that may appear.
    """
    before = state(folder) if before is None else before
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = CliRunner().invoke(app, arguments)
    said = done.stderr
    wrong = judge(done, said, outcome, names)
    after = state(folder)
    for name in outputs:
        if after.pop(os.fsencode(name), None) is not None and os.fsencode(name) not in before:
            remove(folder / name)
            if done.exit_code != 0:
                wrong = wrong or f"leaves {name} although it failed"
    changed = [os.fsdecode(k) for k in before.keys() | after.keys() if k not in map(os.fsencode, outputs) or k in before
               if before.get(k) != after.get(k)]  # fmt: skip
    if changed:
        wrong = wrong or f"changes or leaves {changed}"
        for name in changed:
            restore(folder, name, before.get(os.fsencode(name)))
    return Outcome(done.exit_code, said, wrong)


def judge(done, said: str, outcome: str, names: list[str]) -> str:
    """What is wrong with a status and a message."""
    if done.exit_code not in (0, 2):
        return f"ends with status {done.exit_code}: {done.exception!r}"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"raises {done.exception!r}"
    if (
        "Traceback" in said
        or ("Error:" in said.replace("spectrem: error:", "")
        and "Warning" not in said
        and "(" not in said)
    ):
        return "prints a traceback"
    if said.count("\n") > MOST_LINES + 10 * (done.exit_code == 0) or len(said) > 4000:
        return f"says too much: {said.count(chr(10))} lines, {len(said)} characters"
    if _CONTROL.search(said):
        return "prints control characters"
    if outcome == "error" and done.exit_code == 0:
        return "ends with status 0, and should be an error"
    if outcome == "fine" and done.exit_code != 0:
        return "is refused, and should not be"
    if done.exit_code == 2:
        if not _ADVICE.search(said):
            return "does not say what to try"
        if names and not any(name in said for name in names):
            return f"names none of {names}"
    return ""


def restore(folder: Path, name: str, content: object) -> None:
    remove(folder / name)
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def shown(arguments: list[str]) -> str:
    return "spectrem " + shlex.join(arguments).encode("unicode_escape").decode()
