"""The command line: `spectrem align`, `evaluate`, `symmetrize`, `lexicon`, `tag`, `demo`, `warmup`, `reproduce`."""

import sys


def main() -> None:
    """Run the command line; what `spectrem` starts."""
    try:
        from spectrem.cli.app import app

        app()
    except KeyboardInterrupt:  # while modules were still loading
        sys.exit(130)
