"""Build a release and try it as users get it: `make release-check`, with PYTHONS="python3.12 ..." for some Pythons.

Builds the source archive, a wheel without compiled code from it, and for each Python one with compiled code; installs
archive and wheel in empty environments, runs smoke.py there, and for the wheel then a quick part of the suite, from the
archive. What the archive installs is what the wheel holds, but for the compiled code; so the suite is not run with it
again, which would compile everything once more. Last comes the oldest Python with the lowest releases of everything
that pyproject.toml allows. Nothing is left in the checkout but the archive and the wheels, in dist/.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "[plot,tables,dask,skops,text]"
# Parts of the suite for every Python, and what the lowest releases are tried with besides: where others than NumPy and
# Numba are used most, which are scikit-learn, SciPy's programs, Dask, skops, Matplotlib and Typer.
QUICK = [f"tests/{name}" for name in ("constraints", "data", "metrics", "structures", "tables", "test_compiled.py")]
ESTIMATORS = ("classification", "mixture", "test_conventions.py", "test_cross_validation.py", "test_storage.py")
COMMANDS = ("test_bad_inputs.py", "test_command_vocabulary.py", "test_other_commands.py", "test_tag_help.py")
LOWEST = [
    *QUICK,
    *(f"tests/{name}" for name in ("corpus", "inference", "plotting", "reports", "testing")),
    *(f"tests/estimators/{name}" for name in ESTIMATORS),
    *(f"tests/cli/{name}" for name in COMMANDS),
]


# What builds are like, printed at the end, however that comes; and what failed while the check went on.
results: list[str] = []
failed: list[str] = []


def run(*command: str | Path, cwd: Path = ROOT, go_on: bool = False, **variables: str) -> str:
    """Run a command without what the environment says about Python, and return what it prints.

    One that fails ends the check, or is listed as failed and shown where it is to go on.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA_"))}
    print("$", *command, flush=True)
    done = subprocess.run(command, cwd=cwd, env={**kept, **variables}, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(done.stdout)
        message = f"{' '.join(map(str, command))} ended with status {done.returncode}"
        if not go_on:
            sys.exit(f"release check: {message}")
        failed.append(message)
    return done.stdout


def environment(folder: Path, python: str) -> Path:
    """The Python of a new virtual environment."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def install(python: Path, *packages: str) -> None:
    run(python, "-m", "pip", "install", "--quiet", "--upgrade", *packages)


def suite(python: Path, sources: Path, *arguments: str) -> str:
    """The last line of pytest for an installed Spectrem, with the tests of the source archive."""
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "logical", "--dist", "loadfile"]
    return run(*pytest, *arguments, cwd=sources, go_on=True).strip().splitlines()[-1]


def smoke(python: Path, sources: Path, package: Path, *options: str) -> str:
    """Install a package in an empty environment, with nothing else, and say how the first uses went."""
    install(python, str(package))
    return run(python, ROOT / ".ci" / "smoke.py", *options, cwd=sources, go_on=True).strip()


def files_of(wheel: Path) -> set[tuple[str, int]]:
    """The files of the library in a wheel and their checksums, but for compiled code."""
    with zipfile.ZipFile(wheel) as file:
        files = {(one.filename, one.CRC) for one in file.infolist() if one.filename.startswith("spectrem/")}
    return {(name, checksum) for name, checksum in files if not name.startswith("spectrem/_prebuilt/")}


def groups() -> dict[str, list[str]]:
    import tomllib

    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]


def try_lowest(python: Path, sources: Path, tools: Path, package: Path) -> str:
    """Run a part of the suite with the lowest releases; what they do not name is new, and may deprecate."""
    extras = [f"--extra={name}" for name in re.findall(r"\w+", EXTRAS)]
    compiler = [tools, "-m", "uv", "pip", "compile", "--quiet", "--python", python, "--resolution", "lowest-direct"]
    pinned = sources.parent / "lowest.txt"
    run(*compiler, *extras, "--group", "dev", "-o", pinned, "pyproject.toml")
    run(tools, "-m", "uv", "pip", "install", "--quiet", "--python", python, "-r", pinned)
    run(tools, "-m", "uv", "pip", "install", "--quiet", "--python", python, "--no-deps", package)
    return suite(python, sources, "-W", "default::DeprecationWarning", *LOWEST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", help="by default those of python3.11, 3.12 and 3.13 that are there")
    parser.add_argument("--only", choices=["build", "packages", "lowest"], help="a part of the check")
    options = parser.parse_args()
    pythons = options.pythons or [name for name in ("python3.11", "python3.12", "python3.13") if shutil.which(name)]
    if not pythons:
        sys.exit("release check: no python3.11, python3.12 or python3.13 here; name some by PYTHONS")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = environment(folder / "tools", pythons[0])
        install(tools, "build", "uv")
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        run(tools, "-m", "build", "--outdir", "dist")  # the wheel from the archive
        (archive,), (pure,) = (sorted((ROOT / "dist").glob(pattern)) for pattern in ("*.tar.gz", "*.whl"))
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        sources = folder / archive.name.removesuffix(".tar.gz")
        shutil.rmtree(sources / "src")  # only what is installed is tested
        for python in pythons if options.only != "lowest" else []:
            version = run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
            builder = environment(folder / f"builder{version}", python)
            install(builder, "build")
            before = set((ROOT / "dist").iterdir())
            run(builder, "-m", "build", "--wheel", "--outdir", "dist", SPECTREM_PREBUILD="1")
            (wheel,) = set((ROOT / "dist").iterdir()) - before
            results.append(f"Python {version}, {wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
            if files_of(wheel) != files_of(pure):
                failed.append(f"{wheel.name} does not hold the files that the archive installs")
            if options.only == "build":
                continue
            from_archive = environment(folder / f"{version}-archive", python)
            results.append(f"Python {version}, {archive.name}: {smoke(from_archive, sources, archive)}")
            from_wheel = environment(folder / f"{version}-wheel", python)
            results.append(f"Python {version}, {wheel.name}: {smoke(from_wheel, sources, wheel, '--prebuilt')}")
            install(from_wheel, f"{wheel}{EXTRAS}", *groups()["dev"])
            results.append(f"Python {version}, {wheel.name}: {suite(from_wheel, sources, *QUICK)}")
        if options.only in (None, "lowest"):
            lowest = environment(folder / "lowest", pythons[0])
            results.append(f"{pythons[0]}, lowest releases: {try_lowest(lowest, sources, tools, pure)}")
    if failed:
        sys.exit("release check failed:\n" + "\n".join(failed))


if __name__ == "__main__":
    try:
        main()
    finally:
        print(*results, sep="\n", flush=True)
