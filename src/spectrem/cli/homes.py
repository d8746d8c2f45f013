"""Options that say where a command keeps its training data, as parameters of an estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from spectrem._outputs import temporary_folder
from spectrem.cli.declare import option
from spectrem.cli.ending import before_the_end
from spectrem.cli.freeing import LITTLE, return_freed_memory
from spectrem.estimators.shared_parameters import COMPUTING
from spectrem.exceptions import InvalidInputError, SpectremError, shorten

Dask: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="SCHEDULER",
        help="Train on the cluster with this scheduler, such as tcp://10.0.0.1:8786; needs Dask (pip install "
        "'spectrem[dask]'). Results do not depend on it.",
        rich_help_panel=COMPUTING,
    ),
]


@dataclass(frozen=True)
class Home:
    """Options that say where a command keeps what it trains on.

    Parameters
    ----------
    spill
        Keep what is trained on in files in this folder, if it does not fit into memory (bitext is read into it piece
        by piece, too); they disappear at the end. With --dask a folder that all workers see. Results do not depend on
        it.
    """

    spill: str | None = option(None, metavar="DIR", group=COMPUTING)
    dask: Dask = None

    def folders(self, settings: Mapping[str, Any]) -> Mapping[str, str | None]:
        """For `command_files`, where ``settings`` are parameters of an estimator."""
        return {"--spill": self.spill, "--checkpoint": settings.get("checkpoint")}

    @contextmanager
    def opened(self, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Parameters of an estimator with a ``corpus`` that keeps shards where these options say.

        Raises
        ------
        InvalidInputError
            Before the block: if no cluster answers, or one without workers.
        SpectremError
            After it: if the cluster failed.
        """
        with before_the_end(partial(_describe_checkpoint, settings.get("checkpoint"))):
            if self.spill is not None:
                return_freed_memory(LITTLE)
            with nullcontext() if self.spill is None else temporary_folder(self.spill) as folder:
                if self.dask is not None:
                    from spectrem.corpus import OnDask

                    with _cluster(self.dask) as client:
                        yield {**settings, "corpus": partial(OnDask, client=client, folder=folder)}
                elif folder is not None:
                    from spectrem.corpus import Spilled

                    placed = partial(Spilled, folder=folder, n_threads=settings.get("n_threads"))
                    yield {**settings, "corpus": placed}
                else:
                    yield dict(settings)


def spill_folder(settings: Mapping[str, Any]) -> str | None:
    """The folder of --spill, in parameters that `Home.opened` made; it is gone at the end of the command."""
    folder: str | None = getattr(settings.get("corpus"), "keywords", {}).get("folder")
    return folder


def _describe_checkpoint(checkpoint: str | None) -> str | None:
    if checkpoint is None or not any(Path(checkpoint).rglob("state.npz")):
        return None
    return f"the same command goes on from --checkpoint {checkpoint}"


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """A client of a cluster that has workers."""
    from spectrem.corpus import connect

    with connect(address) as client:
        if not client.nthreads():
            raise InvalidInputError(
                f"--dask {address}: the cluster has no worker to compute on; start some with `dask worker {address}`"
            )
        try:
            yield client
        except Exception as error:
            if not type(error).__module__.startswith("distributed"):
                raise
            raise SpectremError(
                f"--dask {address}: the cluster failed ({type(error).__name__}: {shorten(str(error))}); look at what "
                "its scheduler and workers say, and run the command again"
            ) from error
