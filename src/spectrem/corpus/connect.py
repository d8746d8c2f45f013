"""A client of a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from distributed import Client


def connect(scheduler: str) -> Client:
    """A client of a running cluster.

    Parameters
    ----------
    scheduler : str
        Its address, such as ``tcp://10.0.0.1:8786``.

    Raises
    ------
    InvalidInputError
        If Dask is not installed or no scheduler answers.
    """
    try:
        from distributed import Client
        from distributed.comm import resolve_address
    except ImportError:
        raise InvalidInputError(
            "a corpus on a cluster needs Dask, which is not installed; install the extra `dask`: "
            "pip install 'spectrem[dask]'"
        ) from None
    try:
        resolve_address(scheduler)  # for an invalid address Dask would leave an unfinished client behind
        return Client(scheduler)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{scheduler}: no Dask scheduler answers there ({error}); start one with `dask scheduler` and give the "
            "address that it prints"
        ) from None


def current_client() -> Client:
    """The client, of any cluster, that was made last.

    Raises
    ------
    InvalidInputError
        If no client was made, or Dask is not installed.
    """
    try:
        from distributed import Client

        return Client.current()
    except (ImportError, ValueError):
        raise InvalidInputError(
            "client must be given where none was made; make one by spectrem.corpus.connect(scheduler), or by "
            "distributed.Client(), which starts processes on this machine"
        ) from None
