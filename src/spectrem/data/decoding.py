"""Decoding of UTF-8, with errors that say what the bytes may be instead and what to do."""

from __future__ import annotations

import codecs

from spectrem.exceptions import InvalidInputError

_BYTE_ORDER_MARKS = (  # the longer ones first: that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNATURES = (
    (b"PK\x03\x04", "a zip archive, as .zip, .npz and .xlsx files are", "unpack it, or export its contents as text"),
    (b"\x93NUMPY", "an array of NumPy", "write its contents as text"),
    (b"PAR1", "Parquet", "write its contents as text"),
    (b"\x1f\x8b", "gzip data inside gzip data", "unpack it once"),
    (b"BZh", "bzip2 data", "unpack it by bunzip2, or compress it by gzip"),
    (b"\xfd7zXZ\x00", "xz data", "unpack it by unxz, or compress it by gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "unpack it by unzstd, or compress it by gzip"),
    (b"\xd0\xcf\x11\xe0", "an office document", "export its contents as text"),
    (b"%PDF-", "PDF", "export its contents as text"),
)
HEAD = 4096
"""Bytes that show what a file is."""
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\v\f\r\x1b")


def decode(data: bytes, name: str, first_line: int = 1) -> str:
    """The text of UTF-8 bytes.

    Parameters
    ----------
    data : bytes
    name : str
        How error messages call the text.
    first_line : int
        The number of its first line.

    Raises
    ------
    InvalidInputError
        Naming the encoding or kind of file that the bytes look like, else line and byte where they stop being UTF-8.

    Examples
    --------
    >>> decode("naïve".encode(), "example")
    'naïve'
    >>> decode("naïve".encode("latin1"), "example")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    InvalidInputError: example, line 1: byte 3 of the line (0xef) is not UTF-8; convert the text, for example with ...
    """
    check_text(data, name)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        head = data[:HEAD]
        if sum(byte in _CONTROLS for byte in head) > max(3, len(head) // 10):
            raise InvalidInputError(
                f"{name}: this is binary, and UTF-8 text is needed; check which file it is"
            ) from None
        line = data.count(b"\n", 0, error.start) + first_line
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InvalidInputError(
            f"{name}, line {line}: byte {column} of the line (0x{data[error.start]:02x}) is not UTF-8; "
            "convert the text, for example with `iconv -f latin1 -t utf-8`"
        ) from None


def check_text(data: bytes, name: str) -> None:
    """Refuse what its first bytes show to be something else than UTF-8 text.

    Raises
    ------
    InvalidInputError
        Naming what the data look like and how to convert them.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            raise InvalidInputError(
                f"{name}, line 1: this is {encoding.upper()}, not UTF-8; convert the text with "
                f"`iconv -f {encoding} -t utf-8`"
            )
    for signature, kind, hint in _SIGNATURES:
        if data.startswith(signature) and (b"\x00" in data[:HEAD] or not _is_utf8(data)):
            raise InvalidInputError(f"{name}: this is {kind}, and UTF-8 text is needed; {hint}")
    head = data[:HEAD]
    if head.count(0) > max(3, len(head) // 20):
        raise InvalidInputError(
            f"{name}: holds many zero bytes, as UTF-16 text and binary files do, and UTF-8 text is needed; if it is "
            "text, convert it with `iconv -f utf-16 -t utf-8`"
        )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
