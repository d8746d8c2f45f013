"""Memory that is freed goes back to the system."""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT = _LARGE = 1 << 22  # bytes that may stay unused; arrays from which on each is mapped by itself


def return_freed_memory() -> None:
    """Let glibc's allocator keep little of what is freed; by itself it keeps up to 64 MB for each thread.

    Other allocators are left as they are.
    """
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 -- others have a mallopt that means other things
    except (OSError, TypeError, AttributeError):
        return
    library.mallopt(_MMAP_THRESHOLD, _LARGE)
    library.mallopt(_TRIM_THRESHOLD, _KEPT)
