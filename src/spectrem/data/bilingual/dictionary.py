"""Files of word pairs that translate each other."""

from __future__ import annotations

import math
import os

from spectrem._validate import as_bool
from spectrem.data.reading import read_lines
from spectrem.exceptions import quoted

_FORMAT = "write source, a tab, target, and if you like a tab and a weight"


def read_dictionary(path: str | os.PathLike[str], *, lowercase: bool = False) -> dict[str, dict[str, float]]:
    r"""Read lines of a source word, a tab and a target word, and perhaps another tab and a weight.

    A word may have any number of translations, a line each. Of a pair that is given several times the largest weight
    counts, so that dictionaries may be concatenated. Blank lines are skipped; there are no comments.

    Parameters
    ----------
    path : path or "-"
        UTF-8, plain or gzipped; ``-`` is standard input.
    lowercase : bool
        Lower-case all words (``str.lower``).

    Returns
    -------
    dict of source word -> dict of target word -> float
        The weights, above 0; 1 where the file says none.

    Raises
    ------
    InvalidInputError
        Naming file and line: a line of fewer than two or more than three fields, an empty word, or a weight that is
        not a finite number above 0.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/words.tsv", ["house\tmaison", "house\tchambre\t0.5", "tree\tarbre"])
    ...     read_dictionary(f"{folder}/words.tsv")
    {'house': {'maison': 1.0, 'chambre': 0.5}, 'tree': {'arbre': 1.0}}
    """
    as_bool(lowercase, "lowercase")
    lines = read_lines(path)
    dictionary: dict[str, dict[str, float]] = {}
    for number, line in lines.filled():
        fields = line.split("\t")
        if not 2 <= len(fields) <= 3:
            lines.refuse(number, f"{quoted(line)} has {len(fields)} fields between tabs; {_FORMAT}")
        source, target = (field.strip(" ") for field in fields[:2])
        if not source or not target:
            lines.refuse(number, f"{quoted(line)} has no {'target' if source else 'source'} word; {_FORMAT}")
        weight = positive_number(fields[2]) if len(fields) == 3 else 1.0
        if weight is None:
            lines.refuse(number, f"the weight {quoted(fields[2])} must be a finite number above 0; leave it out for 1")
        if lowercase:
            source, target = source.lower(), target.lower()
        entry = dictionary.setdefault(source, {})
        entry[target] = max(weight, entry.get(target, 0.0))
    return dictionary


def positive_number(text: str) -> float | None:
    """The number that a field holds; None if it is not a finite one above 0."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None
