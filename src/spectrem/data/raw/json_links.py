"""Links from the JSON lines of `spectrem align --output-format json`."""

from __future__ import annotations

from typing import Any

from spectrem.data.links import MAX_LENGTH, Links
from spectrem.data.raw.json_lines import describe, parse_objects
from spectrem.data.reading import decoded_lines
from spectrem.exceptions import InvalidInputError, quoted, shorten


def parse_json_links(data: bytes, name: str, n_sentences: int | None, bitext: str = "the bitext") -> Links:
    """Links of one JSON object a line, whose key ``links`` holds one ``[i, j]`` or ``[i, j, probability]`` per link.

    Parameters
    ----------
    data : bytes
    name : str
        How error messages call the text.
    n_sentences : int, optional
        How many objects there must be.
    bitext : str
        What has so many sentence pairs, for messages.

    Raises
    ------
    InvalidInputError
        Naming the line and what is wrong there.

    Examples
    --------
    >>> parse_json_links(b'{"links": [[0, 1, 0.9], [1, 0]]}', "example", None).pairs(0)
    [(0, 1), (1, 0)]
    """
    sentences, sources, targets = list[int](), list[int](), list[int]()
    n_found = 0
    for number, record in parse_objects(decoded_lines([data], name), name):
        links = record.get("links")
        if not isinstance(links, list):
            found = "has no" if "links" not in record else f"holds {describe(links)} as"
            raise InvalidInputError(
                f'{name}, line {number}: {found} "links", a list of [i, j] or [i, j, probability] is needed; write it '
                "as `spectrem align --output-format json` does"
            )
        lengths = [len(record[side]) if isinstance(record.get(side), list) else None for side in ("source", "target")]
        for link in links:
            _check(link, lengths, f"{name}, line {number}")
            sentences.append(n_found)
            sources.append(link[0])
            targets.append(link[1])
        n_found += 1
    if n_sentences is not None and n_found != n_sentences:
        raise InvalidInputError(
            f"{name} has {n_found} JSON objects, but {bitext} has {n_sentences} sentence pairs; give the alignment "
            "of the same file, one object per pair"
        )
    return Links.from_arrays(sentences, sources, targets, n_sentences=n_found)


def _check(link: Any, lengths: list[int | None], place: str) -> None:
    is_link = isinstance(link, list) and len(link) in (2, 3) and [type(at) for at in link[:2]] == [int, int]
    if not is_link or not all(type(p) in (int, float) and 0 <= p <= 1 for p in link[2:]):
        raise InvalidInputError(
            f"{place}: {quoted(link)} is not a link; write [i, j] or [i, j, probability], positions counted from 0"
        )
    for side, at, length in zip(("source", "target"), link, lengths, strict=False):
        most = MAX_LENGTH if length is None else length
        if not 0 <= at < most:
            raise InvalidInputError(
                f"{place}: link {shorten(str(link))} lies outside its {side} of {most} tokens; count from 0"
            )
