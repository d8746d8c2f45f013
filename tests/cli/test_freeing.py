"""The allocator is told to give memory back where it is glibc's, and left alone elsewhere."""

import pytest

from spectrem.cli import freeing


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
    assert library.calls == [(-3, 1 << 22), (-1, 1 << 22), (-3, 1 << 21), (-1, 1 << 21)]


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
