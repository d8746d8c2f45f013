"""The hook of the build: wheels that bring the machine code of all kernels, where SPECTREM_PREBUILD is 1."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIST = "from spectrem.cli.warmup import _FAMILIES; print(*_FAMILIES)"
WARM = """
from spectrem import _compiled
from spectrem.cli import main
if _compiled._processor is None:
    raise SystemExit("this machine lacks the instructions that wheels are compiled for, or NUMBA_CPU_NAME is set")
main()
"""


class PrebuiltKernels(BuildHookInterface):
    """Compiles the kernels by `spectrem warmup`, as many families at once as there are processors.

    The code fits the Python and the Numba that build it, and the wheel is tagged for that Python and kind of machine.
    With another Numba it is passed over, and kernels are compiled when they are called, as from a pure wheel.
    """

    PLUGIN_NAME = "custom"

    def _wanted(self) -> bool:
        return os.environ.get("SPECTREM_PREBUILD") == "1" and self.target_name == "wheel"

    def dependencies(self) -> list[str]:
        """The packages that compiling needs in the environment of the build."""
        core = self.metadata.core
        return [*core.dependencies, *core.optional_dependencies["tables"]] if self._wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the files to the wheel; an editable one needs none."""
        if not self._wanted() or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        variables = {**os.environ, "NUMBA_CACHE_DIR": self._folder.name, "PYTHONPATH": str(Path(self.root, "src"))}

        def python(*arguments: str) -> str:
            command = [sys.executable, "-c", *arguments]
            return subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True).stdout

        with ThreadPoolExecutor(os.cpu_count()) as executor:
            list(executor.map(lambda family: python(WARM, "warmup", "--for", family), python(LIST).split()))
        for file in sorted(Path(self._folder.name).rglob("*.nbc")):
            build_data["force_include"][str(file)] = f"spectrem/_prebuilt/{file.name}"
        build_data.update(pure_python=False, infer_tag=True)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled files, which the wheel has now."""
        if self._wanted() and version != "editable":
            self._folder.cleanup()
