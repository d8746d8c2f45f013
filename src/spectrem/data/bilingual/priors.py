"""Priors of eflomal ([OstTie2016]): expected links and jumps of earlier text, a line each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from spectrem._validate import as_bool
from spectrem.data.bilingual.dictionary import positive_number
from spectrem.data.reading import read_lines
from spectrem.exceptions import quoted

_NULL = "<NULL>"
# What stands between the kind of a line and its number, and the kinds.
_FIELDS = {"LEX": 2, "FERF": 2, "FERR": 2, "HMMF": 1, "HMMR": 1}
_FORMAT = "write LEX, source word, target word and a number, or FERF, FERR, HMMF or HMMR, as eflomal-makepriors does"


def read_priors(path: str | os.PathLike[str], *, lowercase: bool = False) -> dict[str, dict[str, float]]:
    r"""Read the lexical priors of a file that eflomal-makepriors wrote: lines of LEX, source word, target word, number.

    Lines of jumps and fertilities, and of NULL, are checked and left out. Numbers of a pair that is given several times
    are added up.

    Parameters
    ----------
    path : path or "-"
        UTF-8, plain or gzipped; ``-`` is standard input.
    lowercase : bool
        Lower-case all words (``str.lower``).

    Returns
    -------
    dict of source word -> dict of target word -> float
        How often each pair was linked. With ``dictionary_strength=1`` it is a ``dictionary`` of `spectrem.WordAligner`.

    Raises
    ------
    InvalidInputError
        Naming file and line: an unknown kind, another number of fields, or a number that is not finite and above 0.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/priors", ["LEX\thouse\tmaison\t12", "FERF\thouse\t1\t9", "HMMF\t1\t80"])
    ...     read_priors(f"{folder}/priors")
    {'house': {'maison': 12.0}}
    """
    as_bool(lowercase, "lowercase")
    lines = read_lines(path)
    priors: dict[str, dict[str, float]] = {}
    for number, line in enumerate(lines.lines):
        if not line:
            continue
        kind, *between, last = line.split("\t") if "\t" in line else (line, "")
        if kind not in _FIELDS or len(between) != _FIELDS[kind]:
            lines.refuse(number, f"{quoted(line)} is not a prior; {_FORMAT}")
        count = positive_number(last)
        if count is None:
            lines.refuse(number, f"{quoted(last)} must be a finite number above 0; {_FORMAT}")
        if kind == "LEX" and _NULL not in between:
            source, target = (word.lower() for word in between) if lowercase else between
            entry = priors.setdefault(source, {})
            entry[target] = entry.get(target, 0.0) + count
    return priors


def prior_lines(
    links: Iterable[tuple[str, str, float]], jumps: Mapping[int, float], other_jumps: Mapping[int, float]
) -> Iterator[str]:
    r"""Lines of expected links and jumps that eflomal-align reads as ``--priors``.

    Parameters
    ----------
    links : iterable of (source word, target word, count)
    jumps, other_jumps : mapping of width -> count
        Moves over source words from one target word to the next, and over target words; from before the first word,
        and to behind the last one, too.

    Examples
    --------
    >>> list(prior_lines([("house", "maison", 12.5)], {1: 80.0}, {}))
    ['LEX\thouse\tmaison\t12.5', 'HMMF\t1\t80']
    """
    for source, target, count in links:
        yield f"LEX\t{source}\t{target}\t{count:g}"
    for kind, counts in (("HMMF", jumps), ("HMMR", other_jumps)):
        for width, count in sorted(counts.items()):
            yield f"{kind}\t{width}\t{count:g}"
