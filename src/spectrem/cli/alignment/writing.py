"""The outputs of `spectrem align`: links, probabilities, scores, tokens, and JSON with all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TextIO

import numpy as np

from spectrem._arrays import Floats
from spectrem.data import EncodedPairs, Links, links_of_words, pharaoh_lines
from spectrem.data.segmented import take_lines
from spectrem.estimators import LinkPosteriors, WordAligner
from spectrem.estimators.alignment.decoding import AlignedPairs, align_pairs
from spectrem.estimators.alignment.text import LongPairs, read_anchors


def write_alignment(
    aligner: WordAligner,
    pairs: EncodedPairs,
    anchors: Links | None,
    streams: Mapping[str, TextIO],
    as_json: bool,
    min_probability: float,
) -> Iterator[int]:
    """Align all pairs and write them, block by block; yields the number of pairs of each block.

    Parameters
    ----------
    aligner : WordAligner
    pairs : EncodedPairs
    anchors : Links or None
    streams : mapping of str to TextIO
        "output", for lines of Pharaoh's format or of JSON, and what else is wanted of "probabilities", "scores" and
        "tokens".
    as_json : bool
    min_probability : float
        Entries below are left out of the probabilities.
    """
    output = streams["output"]
    if "tokens" in streams:
        streams["tokens"].writelines(f"{line}\n" for line in token_lines(pairs))
    begin = 0
    if not as_json and streams.keys().isdisjoint(("probabilities", "scores")):
        for links in aligner.iter_predict(pairs.bitext, anchors=anchors):
            output.writelines(_link_lines(links, pairs, begin, "tokens" in streams))
            begin += links.n_sentences
            yield links.n_sentences
        return
    long = aligner.long_pairs(pairs.bitext)
    for part in align_pairs(aligner, pairs.bitext, read_anchors(pairs.bitext, None, anchors)):
        if as_json:
            output.writelines(f"{line}\n" for line in json_lines(part, pairs, begin, long))
        else:
            output.writelines(_link_lines(part.links, pairs, begin, "tokens" in streams))
        if "probabilities" in streams:
            lines = probability_lines(part.posteriors, min_probability)
            streams["probabilities"].writelines(f"{line}\n" for line in lines)
        if "scores" in streams:
            streams["scores"].writelines(f"{score:.4g}\n" for score in part.scores)
        begin += part.links.n_sentences
        yield part.links.n_sentences


def _link_lines(links: Links, pairs: EncodedPairs, begin: int, of_tokens: bool) -> Iterator[str]:
    """Lines of links between tokens, or between the words that the tokens are parts of."""
    if pairs.segmented is not None and not of_tokens:
        end = begin + links.n_sentences
        links = links_of_words(links, *(take_lines(side, begin, end) for side in pairs.segmented))
    return (f"{line}\n" for line in pharaoh_lines(links))


def probability_lines(posteriors: LinkPosteriors, min_probability: float) -> Iterator[str]:
    """One line per sentence pair of ``i-j:p``, ``i-NULL:p`` and ``NULL-j:p``, for every p of at least a minimum.

    ``i-j`` carries the mean of both directions, without the ``rare_discount`` of decoding; ``i-NULL`` the
    probability that source word i has no counterpart, from the direction in which source words choose; ``NULL-j``
    the same of target word j, from the other direction. Four significant digits.

    Parameters
    ----------
    posteriors : LinkPosteriors
    min_probability : float
        In [0, 1].

    Yields
    ------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.estimators import LinkPosteriors
    >>> one = np.array([[0.9, 0.0, 0.0], [0.0, 0.25, 0.5]])
    >>> list(probability_lines(LinkPosteriors(np.array([2]), np.array([3]), [one], [one]), 0.2))
    ['0-0:0.9 1-1:0.25 1-2:0.5 1-NULL:0.25 NULL-1:0.75 NULL-2:0.5']
    """
    for both, forward, backward in zip(posteriors.average, posteriors.forward, posteriors.backward, strict=True):
        entries = [f"{i}-{j}:{p:.4g}" for i, j, p in _entries(both, min_probability)]
        for word, mass in enumerate(_null(backward.sum(axis=1)) if both.size else ()):
            if mass >= min_probability:
                entries.append(f"{word}-NULL:{mass:.4g}")
        for word, mass in enumerate(_null(forward.sum(axis=0)) if both.size else ()):
            if mass >= min_probability:
                entries.append(f"NULL-{word}:{mass:.4g}")
        yield " ".join(entries)


def _entries(matrix: Floats, least: float) -> Iterator[tuple[int, int, float]]:
    rows, columns = (matrix >= least).nonzero()
    return zip(rows.tolist(), columns.tolist(), matrix[rows, columns].tolist(), strict=True)


def _null(linked: Floats) -> list[float]:
    return (1.0 - linked).clip(0.0, 1.0).tolist()


def token_lines(pairs: EncodedPairs) -> Iterator[str]:
    """The tokens of every pair, ``source ||| target``."""
    for n in range(pairs.bitext.n_pairs):
        yield " ||| ".join(" ".join(tokens) for tokens in _tokens(pairs, n))


def json_lines(part: AlignedPairs, pairs: EncodedPairs, begin: int, long: LongPairs) -> Iterator[str]:
    """One JSON object per sentence pair.

    ``source`` and ``target`` hold the tokens, ``links`` one ``[i, j, p]`` per link, where p is the mean probability of
    both directions; ``source_null`` and ``target_null`` one ``[i, p]`` per word without a link, where p is the
    probability that it has no counterpart; ``score`` is that of `WordAligner.score_pairs`, null where a side is empty.
    Text that was split has ``source_spans`` and ``target_spans``: first character, and the one after the last, of every
    token in its line. Pairs too long for the model have ``aligned``: "by position", or "left out". Four significant
    digits.

    Parameters
    ----------
    part : AlignedPairs
    pairs : EncodedPairs
        All pairs of the run.
    begin : int
        The pair that ``part`` starts with.
    long : LongPairs

    Yields
    ------
    str
    """
    by_position, left_out = set(long.by_position.tolist()), set(long.unaligned.tolist())
    posteriors = part.posteriors
    for k, (forward, backward) in enumerate(zip(posteriors.forward, posteriors.backward, strict=True)):
        n = begin + k
        source, target = _tokens(pairs, n)
        links = part.links.pairs(k)
        record: dict[str, object] = {"source": source, "target": target}
        if pairs.segmented is not None:
            record["source_spans"], record["target_spans"] = (side.spans(n) for side in pairs.segmented)
        if n in left_out:
            record["links"] = [[i, j, 1.0] for i, j in links]  # those that were given
        else:
            record["links"] = [[i, j, _rounded((forward[i, j] + backward[i, j]) / 2)] for i, j in links]
            record["source_null"] = _unlinked(1 - backward.sum(axis=1), {i for i, _ in links}, len(source))
            record["target_null"] = _unlinked(1 - forward.sum(axis=0), {j for _, j in links}, len(target))
        record["score"] = _rounded(part.scores[k])
        if n in by_position or n in left_out:
            record["aligned"] = "by position" if n in by_position else "left out"
        yield json.dumps(record, ensure_ascii=False)


def _unlinked(null: Floats, linked: set[int], n_words: int) -> list[list[float | None]]:
    """Words without a link, each with the probability that it has no counterpart; 1 where the other side is empty."""
    if len(null) != n_words:
        null = np.ones(n_words)
    return [[i, _rounded(min(max(null[i], 0.0), 1.0))] for i in range(n_words) if i not in linked]


def _rounded(number: float) -> float | None:
    return None if math.isnan(number) else float(f"{number:.4g}")


def _tokens(pairs: EncodedPairs, n: int) -> tuple[list[str], list[str]]:
    if pairs.segmented is not None:
        return pairs.segmented[0].tokens(n), pairs.segmented[1].tokens(n)
    source, target = (
        [side.vocabulary.words[word] for word in side.tokens[side.offsets[n] : side.offsets[n + 1]].tolist()]
        for side in pairs.bitext.sides
    )
    return source, target
