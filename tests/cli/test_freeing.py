"""The allocator is told to give memory back where it is glibc's, and left alone elsewhere."""

import pytest

from spectrem.cli import freeing


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """The variables that are set are forgotten at the end."""
    monkeypatch.setattr(freeing.os, "environ", own := dict(freeing.os.environ))
    return own


class Library:
    """A C library that notes its calls."""

    def __init__(self):
        self.calls = []

    def mallopt(self, option, value):
        self.calls.append((option, value))


def test_glibc_keeps_little(monkeypatch):
    library = Library()
    library.gnu_get_libc_version = None
    monkeypatch.setattr(freeing.ctypes, "CDLL", lambda name: library)
    freeing.return_freed_memory()
    freeing.return_freed_memory(freeing.LITTLE)
    assert library.calls == [(-8, 1), (-3, 1 << 21), (-1, 1 << 23), (-8, 1), (-3, 1 << 21), (-1, 1 << 21)]


def test_other_libraries_are_left_alone(monkeypatch):
    library = Library()
    monkeypatch.setattr(freeing.ctypes, "CDLL", lambda name: library)
    freeing.return_freed_memory()
    assert library.calls == []


@pytest.mark.parametrize("error", [OSError, TypeError])
def test_a_system_without_one_is_left_alone(monkeypatch, error):
    def missing(name):
        raise error

    monkeypatch.setattr(freeing.ctypes, "CDLL", missing)
    freeing.return_freed_memory()


def test_polars_is_told_the_same_unless_the_user_says_otherwise(monkeypatch, environment):
    monkeypatch.setattr(freeing.ctypes, "CDLL", lambda name: Library())
    environment["_RJEM_MALLOC_CONF"] = "dirty_decay_ms:7"
    environment.pop("POLARS_CSV_CHUNK_SIZE", None)
    freeing.return_freed_memory()
    assert environment["_RJEM_MALLOC_CONF"] == "dirty_decay_ms:7"
    assert environment["POLARS_CSV_CHUNK_SIZE"] == str(1 << 20)
