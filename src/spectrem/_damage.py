"""The exceptions that reading a damaged file may raise."""

import struct
import tokenize
import zipfile
import zlib

from spectrem.exceptions import SpectremError, shorten

# By Python and NumPy, on bytes that are not an archive, an array or JSON, or that hold other things than expected.
DAMAGE = (
    *(OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, SyntaxError, OverflowError),
    *(RuntimeError, MemoryError, struct.error, zlib.error, zipfile.BadZipFile, tokenize.TokenError),
)


class DamageError(ValueError):
    """The content of a file breaks a rule that its reader checks; the message says which."""


def describe_damage(error: BaseException) -> str:
    """The reason of an error of `DAMAGE`, without words that only those know who read the code.

    Examples
    --------
    >>> describe_damage(KeyError("emission")), describe_damage(AttributeError("'list' object has no attribute 'items'"))
    ("'emission' is missing or unknown", 'its parts do not fit together')
    >>> describe_damage(DamageError("mean must be finite")), describe_damage(ValueError("cannot reshape array"))
    ('mean must be finite', 'its parts do not fit together')
    """
    if isinstance(error, KeyError) and error.args:
        return f"{shorten(repr(error.args[0]))} is missing or unknown"
    if isinstance(error, MemoryError):
        return "it says that it holds more than there is memory for"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, SpectremError | DamageError):
        return shorten(str(error))
    return "its parts do not fit together"
