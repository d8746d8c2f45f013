"""What all tests share."""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import settings

# One thread for the small matrices of tests, here and in processes that they start, before NumPy is loaded: threads of
# OpenBLAS that are idle wait in loops, which take the processor from the other processes of the suite.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# kernels compile on first use, which no deadline should see; the same examples on every run
settings.register_profile("spectrem", deadline=None, derandomize=True, database=None)
settings.load_profile("spectrem")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public corpora beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared, the public corpora beside the checkout")
    return folder


@pytest.fixture(scope="session")
def process():
    """One other process for all tests, which has imported what the tests before needed."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def process_kept(monkeypatch, process):
    """`check_model` sends models to one process that stays, instead of one that it starts."""
    module = import_module("spectrem.testing.check_model")
    monkeypatch.setattr(module, "ProcessPoolExecutor", lambda *given, **settings: nullcontext(process))


@pytest.fixture
def python_steps():
    """Count the lines that Python runs in a call, loops line by line: a measure of work that no clock disturbs."""

    def count(call):
        steps = 0

        def trace(frame, event, argument):
            nonlocal steps
            steps += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
        return steps

    assert count(lambda: [k for k in range(1000)]) > 1000  # noqa: C416
    return count


# Dask looks at itself up to a hundred times a second, which for a whole run of the suite is a minute of processor time,
# and gives processes up that do not answer for half a minute, as on a machine with much else to do.
QUIET = {
    "distributed.comm.timeouts.connect": "600s",
    "distributed.comm.timeouts.tcp": "600s",
    "distributed.scheduler.worker-ttl": "600s",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """One Dask cluster of two processes for all tests, with a folder that no other process of the suite clears."""
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    import dask

    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    folder = {"temporary-directory": str(tmp_path_factory.mktemp("dask"))}
    with dask.config.set(QUIET | folder), distributed.LocalCluster(**settings) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def session_client(cluster):
    from distributed import Client

    with Client(cluster) as client:
        yield client


@pytest.fixture
def restock(cluster, session_client):
    """Make sure of a third worker before one is killed: whether Dask starts that one again itself is uncertain.

    Afterwards two are left, so that neither tests that count workers nor the processor find more.
    """

    def start():
        _scale(cluster, session_client, 3)

    yield start
    _scale(cluster, session_client, 2)


@pytest.fixture
def client(cluster, session_client):
    """A client of a cluster that has both its workers, whatever the test before did to them."""
    _scale(cluster, session_client, 2)
    return session_client


def _scale(cluster, client, n_workers):
    """Wait until a cluster has so many workers; one that died meanwhile may count for Dask until it gives it up."""
    while len(client.scheduler_info()["workers"]) != n_workers:
        cluster.scale(n_workers)
        time.sleep(0.05)
