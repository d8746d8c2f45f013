"""What reading a damaged file raises."""

import struct
import tokenize
import zipfile
import zlib

# By Python and NumPy, on bytes that are no archive, no array or no JSON, or that say the wrong things.
DAMAGE = (
    *(OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, SyntaxError, OverflowError),
    *(RuntimeError, MemoryError, struct.error, zlib.error, zipfile.BadZipFile, tokenize.TokenError),
)
