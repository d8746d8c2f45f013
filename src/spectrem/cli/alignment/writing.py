"""The outputs of `spectrem align`: links, probabilities, scores, tokens, and JSON with all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TextIO

import numpy as np

from spectrem._arrays import Floats
from spectrem.data import EncodedPairs, Links, links_of_words, pharaoh_lines
from spectrem.data.segmented import take_lines
from spectrem.data.tmx import tmx_units
from spectrem.estimators import LinkPosteriors, WordAligner
from spectrem.estimators.alignment.decoding import AlignedPairs, align_pairs
from spectrem.estimators.alignment.gallery import Gallery
from spectrem.estimators.alignment.text import LongPairs, read_anchors


@dataclass(frozen=True)
class Layout:
    """The format of the output, and which pairs are written.

    Attributes
    ----------
    form : {"pharaoh", "json", "tmx"}
    min_probability : float
        Entries below are left out of the probabilities.
    min_score : float or None
        Pairs below, and those without a score, are left out of everything.
    languages : (source, target)
        Codes, for "tmx".
    """

    form: str
    min_probability: float
    min_score: float | None = None
    languages: Sequence[str] = ()


def write_alignment(
    aligner: WordAligner,
    pairs: EncodedPairs,
    anchors: Links | None,
    streams: Mapping[str, TextIO],
    layout: Layout,
    gallery: Gallery | None = None,
) -> Iterator[tuple[int, int]]:
    """Align all pairs and write them, block by block; yields how many pairs each block has, and how many are written.

    Parameters
    ----------
    aligner : WordAligner
    pairs : EncodedPairs
    anchors : Links or None
    streams : mapping of str to TextIO
        "output", for lines of Pharaoh's format, of JSON or of TMX, and what else is wanted of "probabilities", "scores"
        and "tokens".
    layout : Layout
    gallery : Gallery, optional
        Sees all pairs.
    """
    output, begin = streams["output"], 0
    by_links_alone = layout.form == "pharaoh" and layout.min_score is None and gallery is None
    if by_links_alone and streams.keys().isdisjoint(("probabilities", "scores")):
        for links in aligner.iter_predict(pairs.bitext, anchors=anchors):
            _write_tokens(streams, pairs, range(begin, begin + links.n_sentences))
            output.writelines(_link_lines(links, pairs, begin, "tokens" in streams))
            begin += links.n_sentences
            yield links.n_sentences, links.n_sentences
        return
    long = aligner.long_pairs(pairs.bitext)
    with tmx_units(output, layout.languages) if layout.form == "tmx" else nullcontext() as write_unit:
        for part in align_pairs(aligner, pairs.bitext, read_anchors(pairs.bitext, None, anchors)):
            if gallery is not None:
                gallery.add(part)
            n_pairs = part.links.n_sentences
            numbers: Sequence[int] = range(begin, begin + n_pairs)
            if layout.min_score is not None:
                kept = [k for k, score in enumerate(part.scores) if float(_score(score)) >= layout.min_score]
                part, numbers = part.take(np.array(kept, np.int64)), [numbers[k] for k in kept]
            _write_tokens(streams, pairs, numbers)
            if layout.form == "json":
                output.writelines(f"{line}\n" for line in json_lines(part, pairs, numbers, long))
            elif write_unit is not None:
                for number, score in zip(numbers, part.scores.tolist(), strict=True):
                    if all(texts := pairs.lines(number)):
                        write_unit(*texts, score)
            else:
                output.writelines(_link_lines(part.links, pairs, begin, "tokens" in streams))
            if "probabilities" in streams:
                lines = probability_lines(part.posteriors, layout.min_probability)
                streams["probabilities"].writelines(f"{line}\n" for line in lines)
            if "scores" in streams:
                streams["scores"].writelines(f"{_score(score)}\n" for score in part.scores)
            begin += n_pairs
            yield n_pairs, len(numbers)


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
        rows, columns = (both >= min_probability).nonzero()
        cells = zip(rows.tolist(), columns.tolist(), both[rows, columns].tolist(), strict=True)
        entries = [f"{i}-{j}:{p:.4g}" for i, j, p in cells]
        for name, linked in (("{}-NULL", backward.sum(axis=1)), ("NULL-{}", forward.sum(axis=0))):
            null = (1.0 - linked).clip(0.0, 1.0).tolist() if both.size else ()
            entries += [f"{name.format(k)}:{p:.4g}" for k, p in enumerate(null) if p >= min_probability]
        yield " ".join(entries)


def _write_tokens(streams: Mapping[str, TextIO], pairs: EncodedPairs, numbers: Iterable[int]) -> None:
    """Write the tokens of some pairs, ``source ||| target``, if that is wanted."""
    if "tokens" in streams:
        texts = map(pairs.tokens, numbers)
        streams["tokens"].writelines(f"{' ||| '.join(map(' '.join, sides))}\n" for sides in texts)


def json_lines(part: AlignedPairs, pairs: EncodedPairs, numbers: Sequence[int], long: LongPairs) -> Iterator[str]:
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
    numbers : sequence of int
        Which of them ``part`` holds.
    long : LongPairs

    Yields
    ------
    str
    """
    by_position, left_out = set(long.by_position.tolist()), set(long.unaligned.tolist())
    posteriors = part.posteriors
    matrices = zip(numbers, posteriors.forward, posteriors.backward, strict=True)
    for k, (n, forward, backward) in enumerate(matrices):
        source, target = pairs.tokens(n)
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


def _score(score: float) -> str:
    """A score as it is written, and compared with ``--min-score``."""
    return f"{score:.4g}"


def _rounded(number: float) -> float | None:
    return None if math.isnan(number) else float(f"{number:.4g}")
