"""The exceptions that reading a damaged file may raise."""

import struct
import tokenize
import zipfile
import zlib

# By Python and NumPy, on bytes that are not an archive, an array or JSON, or that hold other things than expected.
DAMAGE = (
    *(OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, SyntaxError, OverflowError),
    *(RuntimeError, MemoryError, struct.error, zlib.error, zipfile.BadZipFile, tokenize.TokenError),
)
