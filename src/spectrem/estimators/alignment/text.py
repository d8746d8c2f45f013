"""The input of WordAligner: texts, weights, and what users know of words and links."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats, Ints
from spectrem.data import Bitext, Links, Vocabulary, encode_bitext
from spectrem.data.bitext import encode_sides
from spectrem.estimators.alignment.parameters import AlignerParameters, fused_rules, is_coupled
from spectrem.estimators.conventions import row_weights
from spectrem.estimators.shared_parameters import as_sequence
from spectrem.exceptions import InvalidInputError, quoted, warn
from spectrem.learning import Constant
from spectrem.models import alignment
from spectrem.models.alignment import Anchors, BitextShard, ListedPairs, PairTable, PseudoCounts, UnseenPairs

if TYPE_CHECKING:
    from spectrem.estimators.alignment.word_aligner import WordAligner

Lines: TypeAlias = Iterable[Any]
"""Lines or lists of words; or, as the only text, pairs of them."""
KnownLinks: TypeAlias = Links | Sequence[Sequence[tuple[int, int]] | None]
"""The known links of every sentence pair; None where there are none."""

_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://|www\.).+|[^@\s]+@[^@\s]+\.[^@\s]+")

# A pair of 1,000 x 1,000 words takes two seconds and 140 MB. Tables of departures grow with the square of a side.
_MOST_CELLS, _MOST_WORDS = 1 << 20, 2000
# Where passes may have to run in log space, or constraints are rows of a matrix: a second to some ten, and 90 MB.
_MOST_CELLS_OF_ROWS = 1 << 18
# Where multipliers are found to a tolerance: 26 s for four times as many.
_MOST_CELLS_OF_SOLVES = 1 << 14
# Programs have a variable for every move. A linear one took 1 s for 30 x 30 words, 16 s for 45 x 45 and 51 s for
# 60 x 60; an integer one 8 s for 30 x 30 and minutes for 45 x 45.
_MOST_CELLS_OF_PROGRAMS = 1 << 10
# By translation and position alone, this length on both sides takes some seconds and 110 MB.
_LONGEST = 5000
LEAST_GAMMA = 0.1
"""Below it the compiled E-step may have to run in log space, and long pairs are aligned at it."""


class TrainingText(NamedTuple):
    """Sentence pairs with their weights, shape (n_pairs,), and what is known of their links."""

    bitext: Bitext
    weights: Floats
    anchors: Anchors | None

    def take(self, chosen: Ints) -> TrainingText:
        """The pairs with these numbers."""
        anchors = None if self.anchors is None else self.anchors.take(chosen)
        return TrainingText(self.bitext.take(chosen), self.weights[chosen], anchors)

    def shards(self, table: PairTable) -> Iterator[BitextShard]:
        return alignment.iter_shards(self.bitext, table, self.weights, self.anchors)


def as_bitext(source: Bitext | Lines, target: Lines | None) -> Bitext:
    """A bitext of two sequences of sentences, or of one of sentence pairs; sentences are lines or lists of words."""
    if isinstance(source, Bitext):
        return source
    if target is None:
        source, target = _unpaired(source)
    return encode_sides({"source": source, "target": target})


def _unpaired(pairs: Any) -> tuple[list[Any], list[Any]]:
    """Source and target sentences of a list of pairs."""
    if hasattr(pairs, "columns"):
        names = [repr(name) for name in pairs.columns]
        raise InvalidInputError(
            f"source must be the column of source sentences, got a table of {', '.join(names)}; give two of its "
            f"columns, as in fit(table[{names[0]}], table[{names[-1]}])"
        )
    listed = [] if isinstance(pairs, str) or not isinstance(pairs, Iterable) else list(pairs)
    if not listed or isinstance(listed[0], str):
        raise InvalidInputError(
            "target must be given when source is a sequence of lines; or pass one Bitext, or a list of (source, "
            "target) pairs"
        )
    for number, pair in enumerate(listed):
        if isinstance(pair, str | Mapping) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise InvalidInputError(
                f"source[{number}] must be a pair of source and target sentence where target is left out, got "
                f"{quoted(pair)}; give a list of pairs, or two lists, as in fit(source, target)"
            )
    return [source for source, _ in listed], [target for _, target in listed]


def recode(bitext: Bitext, vocabularies: tuple[Vocabulary, Vocabulary]) -> Bitext:
    """The same sentences with the word numbers of other vocabularies."""
    source, target = (
        side
        if side.vocabulary.words == vocabulary.words
        else side._replace(tokens=np.append(vocabulary.lookup(side.vocabulary.words), np.int32(-1))[side.tokens])
        for side, vocabulary in zip(bitext.sides, vocabularies, strict=True)
    )
    return Bitext.of_sides(source._replace(vocabulary=vocabularies[0]), target._replace(vocabulary=vocabularies[1]))


def count_sides(bitext: Bitext) -> tuple[Ints, Ints]:
    """Tokens of every source word and of every target word, each of shape (n_words,)."""
    source, target = (alignment.count_words(side.tokens, len(side.vocabulary)) for side in bitext.sides)
    return source, target


def read_training(
    aligner: WordAligner,
    source: Bitext | Lines,
    target: Lines | None,
    known: KnownLinks | None,
    anchors: KnownLinks | None,
    sample_weight: ArrayLike | None,
) -> tuple[TrainingText, int]:
    """The pairs of a text to train on, and how many were left out."""
    bitext = as_bitext(source, target)
    unknown = int((bitext.source_tokens < 0).sum() + (bitext.target_tokens < 0).sum())
    if unknown:
        raise InvalidInputError(
            f"source must be a Bitext without unknown words to be trained on, got one with {unknown} of them; "
            "encode it without vocabularies"
        )
    weights = row_weights(sample_weight, bitext.n_pairs, "sentence pair")
    long = find_long_pairs(bitext, most_cells(aligner, min((aligner.schedule or Constant(aligner.gamma)).gammas())))
    too_long = np.union1d(long.by_position, long.unaligned)
    _warn(too_long, "too long to be trained on, skipped")
    text = TrainingText(bitext, weights, read_anchors(bitext, known, anchors))
    chosen = select_pairs(text, aligner.max_length, too_long)
    return chosen, bitext.n_pairs - chosen.bitext.n_pairs


def select_pairs(text: TrainingText, max_length: int | None, too_long: Ints) -> TrainingText:
    """Drop pairs longer than ``max_length``, but those of which all links are given, and those that are too long."""
    bitext = text.bitext
    kept = np.ones(bitext.n_pairs, np.bool_)
    if max_length is not None:
        kept = np.maximum(bitext.source_lengths, bitext.target_lengths) <= max_length
    if text.anchors is not None:
        kept |= text.anchors.complete
    kept[too_long] = False
    return text if kept.all() else text.take(np.flatnonzero(kept))


# ---- known links ----------------------------------------------------------------------------------------------------


def read_anchors(bitext: Bitext, known: KnownLinks | None, anchors: KnownLinks | None) -> Anchors | None:
    """Read the known links of a bitext.

    Parameters
    ----------
    bitext : Bitext
    known : Links or sequence of (sequence of (source, target) or None), optional
        All links of some pairs, None for the others; possible links of `Links` are left out.
    anchors : the same, optional
        Some links of some pairs.

    Raises
    ------
    InvalidInputError
        If there are not as many entries as sentence pairs, a link lies outside its pair, or a pair has both.

    Examples
    --------
    >>> from spectrem.data import encode_bitext
    >>> bitext = encode_bitext(["the house", "a tree"], ["das haus", "ein baum"])
    >>> anchors = read_anchors(bitext, None, [[(1, 1)], None])
    >>> anchors.links.pairs(0), anchors.held.tolist(), anchors.complete.tolist()
    ([(1, 1)], [True, False], [False, False])
    """
    if known is None and anchors is None:
        return None
    every, complete = _sure(known, "known", bitext)
    some, _ = _sure(anchors, "anchors", bitext)
    both = np.flatnonzero(complete & (np.diff(some.offsets) > 0))
    if len(both):
        raise InvalidInputError(
            f"anchors are for pairs of which not all links are known, got both for sentence pair {both[0] + 1} "
            "(counted from 1); drop one of them"
        )
    columns = (np.concatenate([getattr(every, name), getattr(some, name)]) for name in ("sentence", "source", "target"))
    return Anchors(Links.from_arrays(*columns, n_sentences=bitext.n_pairs), complete)


def _sure(links: KnownLinks | None, name: str, bitext: Bitext) -> tuple[Links, Bools]:
    """The sure links of an argument, and of which pairs it says anything."""
    links = [None] * bitext.n_pairs if links is None else links
    n_entries = links.n_sentences if isinstance(links, Links) else len(links)
    if n_entries != bitext.n_pairs:
        raise InvalidInputError(
            f"{name} must have one entry per sentence pair ({bitext.n_pairs}), got {n_entries}; use None where unknown"
        )
    if isinstance(links, Links):
        sure, listed = links.where(links.sure), np.ones(n_entries, np.bool_)
    else:
        sure = Links.from_pairs([entry or [] for entry in links])
        listed = np.array([entry is not None for entry in links], np.bool_)
    sure.check_inside(bitext.source_lengths, bitext.target_lengths, name)
    return sure, listed


def impose(parts: Iterable[Links], anchors: Anchors | None) -> Iterator[Links]:
    """Links of consecutive runs of sentence pairs with those that are known, whatever else the words would link to."""
    begin = 0
    for links in parts:
        yield links if anchors is None else anchors.impose(links, begin)
        begin += links.n_sentences


# ---- known words ----------------------------------------------------------------------------------------------------


def kind_of(token: str) -> str:
    """Which kind a token is of: "urls", "numbers", "punctuation" or "words".

    Addresses of pages and mail are URLs. A number has digits and no letters, such as 1,000 or 50%; punctuation, which
    here includes symbols, has neither.

    Examples
    --------
    >>> [kind_of(token) for token in ("www.example.org", "me@example.org", "12:30", "$5", "...", "B2", "x")]
    ['urls', 'urls', 'numbers', 'numbers', 'punctuation', 'words', 'words']
    """
    if _URL.fullmatch(token):
        return "urls"
    categories = {unicodedata.category(character)[0] for character in token}
    if categories <= {"P", "S"}:
        return "punctuation"
    return "numbers" if "N" in categories and not categories & {"L", "M"} else "words"


def pseudo_counts(aligner: AlignerParameters, table: PairTable, bitext: Bitext) -> PseudoCounts:
    """Pseudo-counts of word pairs that the ``dictionary`` of a `WordAligner` lists or that are the ``same`` token.

    Warns
    -----
    UserWarning
        If the dictionary has entries of several words, which no token of a text is.
    """
    dictionary = aligner.dictionary or {}
    phrases = [(word, other) for word, entry in dictionary.items() for other in entry if " " in word or " " in other]
    if phrases:
        warn(
            f"{len(phrases)} of the {sum(map(len, dictionary.values()))} pairs of the dictionary have several words on "
            f"a side and no effect, the first {quoted(phrases[0][0])} and {quoted(phrases[0][1])}; pair their words "
            "one by one",
        )
    words, others = bitext.source_vocabulary, bitext.target_vocabulary
    same = [
        (s, t, aligner.same_strength)
        for s, t in enumerate(others.lookup(words.words).tolist() if aligner.same else ())
        if t >= 0 and kind_of(words.words[s]) in aligner.same
    ]
    return PseudoCounts.of(table, *_columns([*_dictionary_pairs(aligner, words, others), *same]))


def listed_pairs(aligner: AlignerParameters, source: Vocabulary, target: Vocabulary) -> ListedPairs | None:
    """The pairs of the ``dictionary`` of a `WordAligner` for its constraints; None where none of them can refer to it.

    The compiled constraints, which have names, do not.
    """
    if aligner.dictionary is None or fused_rules(aligner) is not None:
        return None
    return ListedPairs.of(*_columns(_dictionary_pairs(aligner, source, target))[:2], len(target))


def _columns(pairs: list[tuple[int, int, float]]) -> tuple[Ints, Ints, Floats]:
    source, target, counts = np.array(pairs, np.float64).reshape(-1, 3).T
    return source.astype(np.int64), target.astype(np.int64), counts


def _dictionary_pairs(
    aligner: AlignerParameters, source: Vocabulary, target: Vocabulary
) -> list[tuple[int, int, float]]:
    """The pairs of the dictionary whose words both occur, by their numbers, and their pseudo-counts."""
    dictionary = aligner.dictionary or {}
    return [
        (s, t, aligner.dictionary_strength * weight)
        for entry, s in zip(dictionary.values(), source.lookup(dictionary).tolist(), strict=True)
        if s >= 0
        for weight, t in zip(entry.values(), target.lookup(entry).tolist(), strict=True)
        if t >= 0
    ]


# ---- long pairs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LongPairs:
    """Numbers of the sentence pairs, counted from 0, whose words the model's own chain does not align.

    Attributes
    ----------
    by_position : ndarray of int
        Aligned by translation probabilities and the distance from the diagonal.
    unaligned : ndarray of int
        More than 5,000 words on a side; left without links.
    """

    by_position: Ints
    unaligned: Ints


def most_cells(aligner: AlignerParameters, gamma: float) -> int:
    """Possible links of the longest pair that an E-step of a `WordAligner` at ``gamma`` takes."""
    if is_coupled(aligner, gamma):
        return _MOST_CELLS if gamma >= LEAST_GAMMA else _MOST_CELLS_OF_ROWS
    solved = aligner.dual_steps == 0 and bool(as_sequence(aligner.constraints))
    if gamma == -np.inf or (gamma == 0 and solved):
        return _MOST_CELLS_OF_PROGRAMS
    return _MOST_CELLS_OF_SOLVES if solved else _MOST_CELLS_OF_ROWS


def find_long_pairs(bitext: Bitext, most_cells: int) -> LongPairs:
    """Pairs of more cells, or more than 2,000 words on one side and any on the other."""
    cells = bitext.source_lengths * bitext.target_lengths
    longest = np.maximum(bitext.source_lengths, bitext.target_lengths)
    long = (cells > most_cells) | ((cells > 0) & (longest > _MOST_WORDS))
    return LongPairs(np.flatnonzero(long & (longest <= _LONGEST)), np.flatnonzero(longest > _LONGEST))


def _warn(numbers: Ints, fate: str) -> None:
    """One line that names pairs as lines of a file are counted."""
    if len(numbers):
        shown = ", ".join(str(n + 1) for n in numbers[:10].tolist())
        more = f" and {len(numbers) - 10} more" * (len(numbers) > 10)
        pairs = "sentence pairs" if len(numbers) > 1 else "sentence pair"
        warn(f"{fate}: {pairs} {shown}{more}, counted from 1; split long lines into sentences")


# ---- shards to decode -----------------------------------------------------------------------------------------------


def cut_shards(bitext: Bitext, most_cells: int, anchors: Anchors | None = None) -> Iterator[BitextShard]:
    """Shards to decode, one after another and in order; warns of long pairs, each of which stands alone.

    Nothing that belongs to a long pair is held while others are aligned. One that is left unaligned is empty here.
    """
    long = find_long_pairs(bitext, most_cells)
    if not len(long.by_position) + len(long.unaligned):
        return alignment.cut_text(bitext, anchors=anchors)
    _warn(long.by_position, "too long for the model, aligned by translation and position alone")
    _warn(long.unaligned, f"more than {_LONGEST:,} words on a side, left without links")
    return _cut_apart(TrainingText(bitext, np.ones(bitext.n_pairs), anchors), long)


def _cut_apart(text: TrainingText, long: LongPairs) -> Iterator[BitextShard]:
    n_pairs, begin = text.bitext.n_pairs, 0
    for n in [*np.union1d(long.by_position, long.unaligned).tolist(), n_pairs]:
        between = text.take(np.arange(begin, n))
        for shard in alignment.cut_text(*between):
            yield replace(shard, begin=shard.begin + begin, end=shard.end + begin)
        if n < n_pairs:
            pair = text.take(np.array([n]))
            by_position = n in long.by_position
            if not by_position:
                pair = TrainingText(encode_bitext([""], [""]), pair.weights, None)
            for shard in alignment.cut_text(*pair):
                yield replace(shard, by_position=by_position)
        begin = n + 1


def unseen_pairs(aligner: WordAligner) -> UnseenPairs:
    """Probabilities of word pairs that training did not see; made when first needed, kept until the next fit."""
    made = vars(aligner)["fitted_with_"].made
    if "unseen" not in made:
        made["unseen"] = UnseenPairs.of(
            aligner.table_,
            aligner.params_,
            alignment.Language.of(aligner.source_vocabulary_, aligner.source_counts_),
            alignment.Language.of(aligner.target_vocabulary_, aligner.target_counts_),
            stem_strength=aligner.stem_strength,
            cognate_strength=aligner.cognate_strength,
        )
    unseen: UnseenPairs = made["unseen"]
    return unseen
