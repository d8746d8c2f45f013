"""The command line as ``python -m spectrem``."""

from spectrem.cli import main

if __name__ == "__main__":
    main()
