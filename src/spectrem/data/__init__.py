"""Texts, bitexts and alignments: arrays, readers and writers."""

from spectrem.data.alignments import pharaoh_lines, read_links, write_pharaoh, write_shared_task
from spectrem.data.bitext import Bitext, encode_bitext
from spectrem.data.links import MAX_LENGTH, Links
from spectrem.data.readers import read_bitext, read_bytes
from spectrem.data.symmetrize import Symmetrization, symmetrize
from spectrem.data.text import Text, tokenise
from spectrem.data.vocabulary import UNKNOWN, Vocabulary
from spectrem.data.writers import open_output, write_lines

__all__ = [
    "MAX_LENGTH",
    "UNKNOWN",
    "Bitext",
    "Links",
    "Symmetrization",
    "Text",
    "Vocabulary",
    "encode_bitext",
    "open_output",
    "pharaoh_lines",
    "read_bitext",
    "read_bytes",
    "read_links",
    "symmetrize",
    "tokenise",
    "write_lines",
    "write_pharaoh",
    "write_shared_task",
]
