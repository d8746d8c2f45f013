"""Structures that constraints are compiled over."""

import pytest
from fake_structures import FakeStructure, both_directions, tagging


@pytest.fixture
def sentences():
    return tagging()


@pytest.fixture
def links():
    return both_directions()


@pytest.fixture
def make_structure():
    return FakeStructure


@pytest.fixture
def make_tagging():
    return tagging
