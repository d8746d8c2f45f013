"""The command line: `spectrem align`, `evaluate`, `symmetrize`, `lexicon`, `tag`, `project`, `cluster`, and more."""


def main() -> None:
    """Run the command line and end the process; what `spectrem` starts."""
    import os

    try:
        from spectrem.cli.signals import catch_signals

        catch_signals()
    except KeyboardInterrupt:
        os._exit(130)
    import gc
    import sys

    gc.set_threshold(200_000)  # looking for cycles among what libraries load is a fifth of the time to start
    from spectrem.cli.ending import leave, open_streams
    from spectrem.cli.freeing import return_freed_memory

    return_freed_memory()

    open_streams()
    try:
        from spectrem.cli.app import app

        app()
    except SystemExit as stop:
        leave(stop.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        leave(1)
    leave(0)
