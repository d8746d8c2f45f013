"""Votes for the tags of tokens as users have them: tables of tags, or spans by source."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.estimators.crf.scheme import check_labels
from spectrem.estimators.labels import is_unlabelled
from spectrem.estimators.sentences import TokenLabels, as_sentences, check_tag, check_tags, sort_tags
from spectrem.exceptions import InvalidInputError, quoted, setting
from spectrem.models.tag_schemes import possible_moves
from spectrem.structures._ragged import offsets_of, rows_of


class TokenVotes(NamedTuple):
    """Votes for tags, token after token and within a token source after source.

    Attributes
    ----------
    sources : tuple of str or int
        Their names.
    token, source, tag : ndarrays of shape (n_votes,), int64
        Numbers of the token of the text, of the source, and of the tag in ``tags``.
    tags : list of str
        Distinct tags that votes are for.
    """

    sources: tuple[Any, ...]
    token: Ints
    source: Ints
    tag: Ints
    tags: list[str]


def read_token_votes(votes: Any, lengths: Ints, sources: Sequence[Any] | None) -> TokenVotes:
    """Read votes of sentences.

    Parameters
    ----------
    votes : sequence of (array-like of shape (n_tokens, n_sources), or mapping of source -> spans)
        Tables hold tags; O, None, -1, NaN or another missing value where a source is silent. A span is a tuple of its
        first token, the one behind its last, and its type; sources that a mapping lacks are silent.
    lengths : ndarray of shape (n_sentences,), int64
    sources : sequence of str or int, optional

    Raises
    ------
    InvalidInputError
        If votes are of other sentences, tokens or sources, are not for tags of spans, or spans of a source overlap.

    Examples
    --------
    >>> votes = read_token_votes([{"names": [(0, 2, "PER")]}, [["O"], ["B-LOC"]]], np.array([3, 2]), ["names"])
    >>> votes.token.tolist(), [votes.tags[tag] for tag in votes.tag]
    ([0, 1, 4], ['B-PER', 'I-PER', 'B-LOC'])
    """
    if isinstance(votes, TokenVotes):  # as read before
        return votes
    listed = as_sentences(votes, "votes")
    if len(listed) != len(lengths):
        raise InvalidInputError(
            f"votes must have one entry per sentence ({len(lengths)}), got {len(listed)}; use {{}} where no source "
            "votes"
        )
    names = _names_of(listed, sources)
    number = {name: at for at, name in enumerate(names)}
    tags: dict[str, int] = {}
    pieces = [np.zeros((3, 0), np.int64)]
    for sentence, (entry, start, size) in enumerate(zip(listed, offsets_of(lengths).tolist(), lengths, strict=False)):
        if isinstance(entry, Mapping):
            piece = _of_spans(entry, int(size), sentence, number, tags)
        else:
            piece = _of_table(entry, (int(size), len(names)), sentence, tags)
        piece[0] += start
        pieces.append(piece)
    token, source, tag = np.concatenate(pieces, axis=1)
    order = np.lexsort((source, token))
    return TokenVotes(names, token[order], source[order], tag[order], list(tags))


def _names_of(listed: list[Any], sources: Sequence[Any] | None) -> tuple[Any, ...]:
    if sources is not None:
        return check_tags(sources, "source_names") if len(sources) else ()
    mapped = [entry for entry in listed if isinstance(entry, Mapping)]
    widths = {np.shape(entry)[1] for entry in listed if not isinstance(entry, Mapping) and np.ndim(entry) == 2}
    if mapped and widths:
        raise InvalidInputError(
            "source_names must name the columns of tables of votes where other sentences have mappings, got none; set "
            "source_names"
        )
    keys = {key for entry in mapped for key in entry}
    return tuple(sort_tags(check_tag(key, "votes") for key in keys) if mapped else range(max(widths, default=0)))


def _of_table(entry: Any, shape: tuple[int, int], sentence: int, tags: dict[str, int]) -> Ints:
    """Votes of a sentence, rows of tokens, sources and tags; ``tags`` are added to."""
    table = np.asarray(entry.to_numpy() if hasattr(entry, "to_numpy") else entry, object)
    table = table.reshape(shape) if not table.size and not shape[0] * shape[1] else table
    if table.shape != shape:
        raise InvalidInputError(
            f"votes must have a row per token and a column per source of sentence {sentence}, {shape}, got "
            f"{table.shape}; give a table of tags, or a mapping of sources to spans"
        )
    cells, codes = table.ravel().tolist(), {}
    try:
        distinct = set(cells)
    except TypeError:
        distinct = {quoted(cell): cell for cell in cells if not isinstance(cell, str)}.values()  # type: ignore[assignment]
    for cell in distinct:
        if is_unlabelled(cell) or cell in ("O", "nan"):  # in which NumPy writes NaN beside text
            codes[cell] = -1
        else:
            _check_tag(cell, sentence)
            codes[cell] = tags.setdefault(cell, len(tags))
    code = np.fromiter(map(codes.__getitem__, cells), np.int64, len(cells))
    place = np.flatnonzero(code >= 0)
    return np.stack([place // max(shape[1], 1), place % max(shape[1], 1), code[place]])


def _check_tag(tag: Any, sentence: int) -> None:
    if not isinstance(tag, str) or tag.partition("-")[0] not in ("B", "I"):
        raise InvalidInputError(
            f"votes must be tags of spans, B-TYPE or I-TYPE, got {quoted(tag)} in sentence {sentence}; write O or None "
            "where a source is silent"
        )


def _of_spans(
    spans: Mapping[Any, Any], size: int, sentence: int, number: Mapping[Any, int], tags: dict[str, int]
) -> Ints:
    taken: dict[tuple[int, int], int] = {}
    for source, listed in spans.items():
        if source not in number:
            raise InvalidInputError(
                f"votes must be of sources among {list(number)!r:.200}, got {quoted(source)} in sentence {sentence}; "
                "add it to source_names and fit again, or leave it out"
            )
        if isinstance(listed, str) or not hasattr(listed, "__iter__"):
            raise InvalidInputError(
                f"votes must map a source to its spans, got {quoted(listed)} of source {quoted(source)} in sentence "
                f"{sentence}; write [(0, 2, 'PER')]"
            )
        for span in dict.fromkeys(_read_span(one, size, source, sentence) for one in listed):
            start, stop, kind = span
            for token in range(start, stop):
                tag = f"{'B' if token == start else 'I'}{'-' * bool(kind)}{kind}"
                if (token, number[source]) in taken:
                    raise InvalidInputError(
                        f"votes must hold spans of a source that do not overlap, got {span} of source "
                        f"{quoted(source)} in sentence {sentence} beside another one; keep one, or make two sources"
                    )
                taken[token, number[source]] = tags.setdefault(tag, len(tags))
    return np.array([(*place, tag) for place, tag in taken.items()], np.int64).reshape(-1, 3).T


def _read_span(span: Any, size: int, source: Any, sentence: int) -> tuple[int, int, str]:
    parts = tuple(span) if isinstance(span, Sequence) and not isinstance(span, str) else ()
    whole = len(parts) == 3 and all(isinstance(one, int | np.integer) for one in parts[:2])
    if not whole or not isinstance(parts[2], str) or not 0 <= parts[0] < parts[1] <= size:
        raise InvalidInputError(
            f"votes must hold spans (start, stop, type) with 0 <= start < stop <= {size} and a type that is text, got "
            f"{quoted(span)} of source {quoted(source)} in sentence {sentence}; count tokens from 0"
        )
    return int(parts[0]), int(parts[1]), parts[2]


def tags_of(types: Any, named: Collection[str]) -> tuple[str, ...]:
    """O, then B and I of every type: of those given, else of those that tags have, sorted."""
    wrong = [tag for tag in named if tag != "O" and tag.partition("-")[0] not in ("B", "I")]
    if wrong:
        raise InvalidInputError(f"y must hold tags of spans, O, B-TYPE or I-TYPE, got {wrong[0]!r}; rename it")
    occurring = sorted({tag.partition("-")[2] for tag in named if tag != "O"})
    listed = occurring if types is None else list(check_tags(types, "span_types"))
    if not listed:
        raise InvalidInputError(
            "votes must name a type of spans, got none; list all that there are in " + setting("span_types")
        )
    unknown = [one for one in occurring if one not in listed]
    if unknown:
        raise InvalidInputError(
            f"votes and y must be for the types {listed!r:.200}, got {unknown[0]!r}; add it to {setting('span_types')}"
        )
    return ("O", *(f"{letter}{'-' * bool(one)}{one}" for one in listed for letter in "BI"))


def known_tags(labels: TokenLabels, tags: tuple[str, ...]) -> tuple[Floats | None, Bools]:
    """The evidence of labels on the tags of every token, nats, and the sentences with a label on every token.

    Raises
    ------
    InvalidInputError
        If labels are not tags of spans, or no sequence of tags in which I follows B or I of its type has them.
    """
    if not labels.kinds:
        return None, np.zeros(len(labels.lengths), np.bool_)
    possible = possible_moves("bio", tags)
    assert possible is not None  # as it is where all moves are
    evidence = labels.evidence(tags)
    certain = (evidence > -np.inf).sum(axis=1) == 1
    known = np.bincount(rows_of(labels.lengths), ~certain, len(labels.lengths)) == 0
    known &= labels.lengths > 0
    check_labels(possible, "bio", tags, labels.lengths, labels.numbered(tags), known, other="")
    return evidence, known
