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
