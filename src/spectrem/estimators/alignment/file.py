"""A fitted WordAligner written out: as a file, as a list of word pairs, and as priors of other tools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Reals
from spectrem._damage import DamageError
from spectrem.data import Vocabulary, prior_lines
from spectrem.estimators import storage
from spectrem.estimators.alignment.text import listed_pairs
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.alignments.cooccurrence import mark_expected
from spectrem.models.alignment import AlignmentModel, AlignmentParameters, DirectionParameters, PairTable, Totals
from spectrem.models.alignment.model import as_single
from spectrem.structures._ragged import offsets_of

if TYPE_CHECKING:
    from spectrem.estimators.alignment.word_aligner import WordAligner

_SIDES, _ARRAYS = ("forward", "backward"), ("translation", "null", "jump", "end")


class Pruned(NamedTuple):
    """The word pairs that a saved model lacks.

    Attributes
    ----------
    min_count : float
        Word pairs of fewer expected links in both directions, the most of all times that it was saved; 0 for none.
    lost : float
        Share of the expected links that these had, in [0, 1].
    """

    min_count: float
    lost: float


WHOLE = Pruned(0.0, 0.0)


def _write(aligner: WordAligner, min_count: float = 0.0) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Words and parameters, without the word pairs of fewer expected links; see `prune`."""
    table, params, pruned = aligner.table_, aligner.params_, aligner.pruned_
    if min_count != 0:
        table, params, lost = prune(table, params, min_count)
        pruned = Pruned(max(pruned.min_count, min_count), 1.0 - (1.0 - pruned.lost) * (1.0 - lost))
    words: dict[str, NDArray[Any]] = {
        "source_words": storage.pack_words(aligner.source_vocabulary_.words),
        "target_words": storage.pack_words(aligner.target_vocabulary_.words),
        "source_counts": aligner.source_counts_.astype(np.int64),
        "target_counts": aligner.target_counts_.astype(np.int64),
    }
    sides = {f"{side}_{name}": np.asarray(getattr(getattr(params, side), name)) for side in _SIDES for name in _ARRAYS}
    values: dict[str, Any] = {
        "n_source_words": len(aligner.source_vocabulary_),
        "n_target_words": len(aligner.target_vocabulary_),
        "pruned": [pruned.min_count, pruned.lost],
        "tokenizes": aligner.tokenizes_,
    }
    for side in _SIDES:
        totals = getattr(params, side).totals
        if totals is not None:
            sides[f"{side}_totals"] = totals.words
            values[f"{side}_totals"] = [totals.null, totals.jumps, totals.ends]
    pairs: dict[str, NDArray[Any]] = {"row_offsets": table.row_offsets, "targets": table.targets}
    return values, words | sides | pairs


def prune(
    table: PairTable, params: AlignmentParameters, min_count: float
) -> tuple[PairTable, AlignmentParameters, float]:
    """Leave out the word pairs of less than ``min_count`` expected links in both directions.

    A pair's expected links are its probability times the total of its conditioning word, as the last M-step counted
    them, pseudo-counts of priors included and without what ``discount`` left out. Probabilities of the other pairs
    stay, and so do totals: what is left out here is missing from the sums of rows. The smaller model
    aligns these word pairs as those that training did not see (`UnseenPairs`); when it goes on learning, their links
    count as links to other words. At 0.01, a model of 100,000 sentence pairs keeps 45 % of its word pairs and 99.9 % of
    its links.

    Parameters
    ----------
    table : PairTable
    params : AlignmentParameters
    min_count : float
        At least 0, in expected links.

    Returns
    -------
    table : PairTable
    params : AlignmentParameters
    lost : float
        Share of the expected links that was left out, in the direction where it is larger, in [0, 1].

    Raises
    ------
    InvalidInputError
        If ``min_count`` breaks its rule, or the model was saved by an earlier version, which did not keep totals.
    """
    if not 0 <= min_count < np.inf:
        raise InvalidInputError(f"min_count must be a number of expected links, at least 0, got {min_count}; try 0.01")
    forward, backward = params.forward, params.backward
    if forward.totals is None or backward.totals is None:
        raise InvalidInputError(
            f"min_count {min_count:g} needs the counts behind the model's probabilities, which files saved by earlier "
            "versions lack; fit and save it again, or save all word pairs"
        )
    kept, sizes = np.ones(table.n_pairs + 1, np.bool_), np.empty(table.n_source_words, np.int64)
    links = mark_expected(
        table.row_offsets, table.targets, forward.translation, backward.translation, forward.totals.words,
        backward.totals.words, float(min_count), kept, sizes,
    )  # fmt: skip
    lost = max(part / whole if whole > 0 else 0.0 for part, whole in (links[:2], links[2:]))
    smaller = PairTable(offsets_of(sizes), table.targets[kept[:-1]], table.n_target_words)
    sides = (replace(side, translation=side.translation[kept]) for side in (forward, backward))
    return smaller, AlignmentParameters(*sides), lost


def _read(aligner: WordAligner, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    aligner.source_vocabulary_ = Vocabulary(storage.unpack_words(arrays["source_words"], values["n_source_words"]))
    aligner.target_vocabulary_ = Vocabulary(storage.unpack_words(arrays["target_words"], values["n_target_words"]))
    aligner.source_counts_, aligner.target_counts_ = arrays["source_counts"], arrays["target_counts"]
    table = PairTable(arrays["row_offsets"], arrays["targets"], values["n_target_words"])
    sides = [
        DirectionParameters(
            as_single(arrays[f"{side}_translation"]),
            **{name: arrays[f"{side}_{name}"] for name in _ARRAYS[1:]},
            null_probability=aligner.null_probability,
            totals=_read_totals(f"{side}_totals", values, arrays),
        )
        for side in _SIDES
    ]
    aligner.pruned_ = _read_pruned(values.get("pruned", [0.0, 0.0]))
    aligner.tokenizes_ = values.get("tokenizes")  # files of earlier versions lack it
    if not isinstance(aligner.tokenizes_, bool | None):
        raise DamageError("whether text is split into tokens must be a truth value")
    if not 0 <= aligner.threshold_ <= 1:
        raise DamageError(f"the threshold must lie in [0, 1], got {aligner.threshold_}")
    _check_arrays(aligner, table, *sides)
    table, sides = _in_order(table, sides)
    aligner.table_, aligner.params_ = table, AlignmentParameters(*sides)
    aligner.model_ = AlignmentModel(
        table,
        sides[0].max_jump,
        chain=aligner.model == "hmm",
        learn_positions=aligner.model != "ibm1",
        listed=listed_pairs(aligner, aligner.source_vocabulary_, aligner.target_vocabulary_),
    )


def _in_order(table: PairTable, sides: list[DirectionParameters]) -> tuple[PairTable, list[DirectionParameters]]:
    """The rows of the table in increasing order of target words, which models saved by earlier versions lack."""
    if _rows_increase(table):
        return table, sides
    order = np.append(np.lexsort((table.targets, table.sources)), table.n_pairs)
    table = replace(table, targets=table.targets[order[:-1]])
    if not _rows_increase(table):
        raise DamageError("targets hold a word pair twice")
    return table, [replace(side, translation=side.translation[order]) for side in sides]


def _rows_increase(table: PairTable) -> bool:
    begins = np.zeros(table.n_pairs + 1, np.bool_)
    begins[table.row_offsets] = True
    return bool((begins[1:-1] | (table.targets[1:] > table.targets[:-1])).all())


def _read_pruned(saved: Any) -> Pruned:
    min_count, lost = (float(number) for number in saved)
    if not (0 <= min_count < np.inf and 0 <= lost <= 1):
        raise DamageError(f"pruned must be an expected count and a share, got {saved}")
    return Pruned(min_count, lost)


def _read_totals(name: str, header: dict[str, Any], arrays: dict[str, Any]) -> Totals | None:
    if name not in header and name not in arrays:
        return None
    numbers = [float(number) for number in header[name]]
    if len(numbers) != 3 or not all(0 <= number < np.inf for number in numbers):
        raise DamageError(f"{name} must be three numbers of at least 0, got {numbers}")
    return Totals(arrays[name], *numbers)


def _check_arrays(
    aligner: WordAligner, table: PairTable, forward: DirectionParameters, backward: DirectionParameters
) -> None:
    """Raise ValueError unless all arrays belong together and hold what fits them; kernels trust them."""
    n_sources, n_targets = len(aligner.source_vocabulary_), len(aligner.target_vocabulary_)
    for counts, n_words in ((aligner.source_counts_, n_sources), (aligner.target_counts_, n_targets)):
        if counts.shape != (n_words,) or (counts < 0).any():
            raise DamageError("counts do not fit the words")
    offsets, targets = table.row_offsets, table.targets
    if not storage.are_offsets(offsets, n_sources, len(targets)):
        raise DamageError("row_offsets do not fit the words")
    if n_targets != table.n_target_words or targets.min(initial=0) < 0 or targets.max(initial=-1) >= n_targets:
        raise DamageError("targets do not fit the words")
    for side, direction, n_produced in (("forward", forward, n_targets), ("backward", backward, n_sources)):
        width = forward.max_jump
        expected = (len(targets) + 1, n_produced + 1, 2 * width + 1, width + 1)
        if tuple(len(getattr(direction, name)) for name in _ARRAYS) != expected:
            raise DamageError("parameters do not fit the words")
        for name in _ARRAYS:
            storage.probabilities(f"{side}_{name}", getattr(direction, name), positive=True)
        totals, n_chosen = direction.totals, n_sources if side == "forward" else n_targets
        if totals is not None and (
            totals.words.shape != (n_chosen,) or not ((totals.words >= 0) & (totals.words < np.inf)).all()
        ):
            raise DamageError(f"{side}_totals do not fit the words")
        for name in ("jump", "end"):
            total = getattr(direction, name).sum()
            if abs(total - 1) > 1e-6:
                raise DamageError(f"{side}_{name} must sum to 1, got {total:g}")


CODEC = storage.Codec(
    kind="WordAligner",
    layout=3,  # 1 holds no totals; 1 and 2 hold probabilities of word pairs in double precision
    members={
        **dict.fromkeys(("source_words", "target_words"), storage.TEXT),
        **dict.fromkeys(("row_offsets", "source_counts", "target_counts"), storage.Member("i8", 1)),
        "targets": storage.Member("i4", 1),
        **{f"{side}_{name}": storage.Member("f8", 1) for side in _SIDES for name in (*_ARRAYS, "totals")},
        **{f"{side}_translation": storage.Member("f4 f8", 1) for side in _SIDES},
    },
    write=_write,
    read=_read,
    numbers=("threshold", "gamma"),
    earlier={"rare_discount": 0.0},
)


class LexiconEntry(NamedTuple):
    """A word pair of a translation table.

    Attributes
    ----------
    source, target : str
    forward, backward : float
        p(target | source) and p(source | target).
    links : float
        Expected links of the pair in the training text, the mean over both directions, pseudo-counts of priors
        included.
    """

    source: str
    target: str
    forward: float
    backward: float
    links: float


def list_entries(aligner: WordAligner, min_probability: float, min_count: float = 0.0) -> Iterator[LexiconEntry]:
    """Word pairs of which either probability and the expected links are large enough, in the order of source words.

    Raises
    ------
    InvalidInputError
        If the model was saved by an earlier version, which did not keep totals.
    """
    table, one, other = aligner.table_, aligner.params_.forward, aligner.params_.backward
    if one.totals is None or other.totals is None:
        raise InvalidInputError(
            "expected links need the counts behind the model's probabilities, which files saved by earlier versions "
            "lack; fit and save it again"
        )
    forward, backward = one.translation[:-1], other.translation[:-1]
    counts = (forward * one.totals.words[table.sources] + backward * other.totals.words[table.targets]) / 2
    kept = (np.maximum(forward, backward) >= min_probability) & (counts >= min_count)
    return starmap(LexiconEntry, name_pairs(aligner, kept, forward, backward, counts))


def list_priors(aligner: WordAligner, min_probability: float, min_count: float = 0.0) -> Iterator[str]:
    """Lines of what an aligner expected of its text, as eflomal reads priors; see `spectrem.data.prior_lines`.

    Ends of sentences are jumps behind the last word.

    Raises
    ------
    InvalidInputError
        As `list_entries`.
    """
    entries = list_entries(aligner, min_probability, min_count)
    links = ((entry.source, entry.target, entry.links) for entry in entries)
    return prior_lines(links, _jumps(aligner.params_.forward), _jumps(aligner.params_.backward))


def name_pairs(aligner: WordAligner, kept: np.ndarray, *columns: Reals) -> Iterator[tuple[Any, ...]]:
    """Source word, target word and numbers of the entries of the table that are kept."""
    sources, targets = aligner.table_.sources, aligner.table_.targets
    for k in np.flatnonzero(kept):
        words = aligner.source_vocabulary_.words[sources[k]], aligner.target_vocabulary_.words[targets[k]]
        yield *words, *(float(column[k]) for column in columns)


def _jumps(side: DirectionParameters) -> dict[int, float]:
    """Counts of at least a thousandth, by width; widths that the model puts together stand for the least of them."""
    width, totals = side.max_jump, side.totals
    assert totals is not None
    counts = np.zeros(2 * width + 2)
    counts[:-1] += totals.jumps * side.jump
    counts[width + 1 :] += totals.ends * side.end
    return {d - width: float(counts[d]) for d in np.flatnonzero(counts >= 1e-3).tolist()}
