"""Where the corpora lie that may not be shipped with the project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from spectrem.exceptions import InvalidInputError

BESIDE = Path("..", "shared", "data")


def find_folder(data: str | os.PathLike[str] | None, files: Sequence[str], below: str = "") -> Path:
    """The folder that holds these files.

    Parameters
    ----------
    data : path, optional
        The folder, or one that holds it as ``below``. By default what the environment variable SPECTREM_DATA names,
        else ``../shared/data``.
    files : sequence of str
        Below the folder.
    below : str

    Raises
    ------
    InvalidInputError
        If one is not there; the message names it.
    """
    root = Path(data or os.environ.get("SPECTREM_DATA") or BESIDE)
    lacking = {place: [file for file in files if not (place / file).is_file()] for place in (root / below, root)}
    place = min(lacking, key=lambda place: len(lacking[place]))
    if lacking[place]:
        raise InvalidInputError(
            f"data must be the folder of the corpus ({', '.join(files)}), but {place} lacks "
            f"{', '.join(lacking[place])}; pass --data or set SPECTREM_DATA"
        )
    return place
