"""The command line: `spectrem align`, `evaluate`, `symmetrize`, `lexicon`, `tag`, `project`, `cluster`, and more."""

import gc
import sys


def main() -> None:
    """Run the command line; what `spectrem` starts."""
    gc.set_threshold(100_000)  # looking for cycles among what libraries load is a fifth of the time to start
    try:
        from spectrem.cli.app import app

        app()
    except KeyboardInterrupt:  # while modules were still loading
        sys.exit(130)
