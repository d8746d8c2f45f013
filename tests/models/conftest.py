"""Fixtures of models."""

import pytest


@pytest.fixture
def doubles(monkeypatch):
    """Translation tables stay in double precision, so that they meet oracles to more than seven digits."""
    for module in ("model", "continued"):
        monkeypatch.setattr(f"spectrem.models.alignment.{module}.as_single", lambda probability: probability)
