"""What all tests share."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

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


@pytest.fixture(scope="session")
def cluster():
    """One Dask cluster of two processes for all tests."""
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def session_client(cluster):
    from distributed import Client

    with Client(cluster) as client:
        yield client


@pytest.fixture
def restock(cluster, session_client):
    """Start another worker, for one that is about to be killed: whether Dask starts a new one itself is uncertain."""

    def start():
        cluster.scale(len(cluster.workers) + 1)
        session_client.wait_for_workers(2)

    return start


@pytest.fixture
def client(cluster, session_client):
    """A client of a cluster that has both its workers, whatever the test before did to them."""
    missing = 2 - len(session_client.scheduler_info()["workers"])
    if missing > 0:
        cluster.scale(len(cluster.workers) + missing)
    session_client.wait_for_workers(2)
    return session_client
