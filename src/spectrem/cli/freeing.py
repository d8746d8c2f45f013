"""Memory that is freed goes back to the system."""

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
ENOUGH, LITTLE = 1 << 23, 1 << 21
_LARGE = 1 << 21
_OF_POLARS = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0", "POLARS_CSV_CHUNK_SIZE": str(1 << 20)}


def return_freed_memory(kept: int = ENOUGH) -> None:
    """Let glibc's allocator keep little of what is freed; by itself it keeps up to 64 MB for each thread.

    All threads share what is kept, from which the next shard's arrays are made: memory that went back has to be cleared
    by the system first. Arrays of two megabytes are mapped by themselves.

    Polars has an allocator of its own, which is set likewise if polars is not loaded yet, and reads a table in pieces
    of four megabytes, which become pieces of one here. Other allocators are left as they are, and so is what the user's
    environment says.

    Parameters
    ----------
    kept : int
        Bytes that may stay unused. ``LITTLE`` where memory is short: it costs the system a twentieth of the time of
        training.
    """
    for name, value in _OF_POLARS.items():
        os.environ.setdefault(name, value)
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 -- others have a mallopt that means other things
    except (OSError, TypeError, AttributeError):
        return
    library.mallopt(_ARENA_MAX, 1)
    library.mallopt(_MMAP_THRESHOLD, _LARGE)
    library.mallopt(_TRIM_THRESHOLD, kept)
