"""What all tests share."""

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
