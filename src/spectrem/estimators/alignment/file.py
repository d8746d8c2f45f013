"""A fitted WordAligner as a file."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from spectrem.data import Vocabulary
from spectrem.estimators.alignment.knowledge import listed_pairs
from spectrem.estimators.declare import check_parameters
from spectrem.estimators.storage import (
    check_probabilities,
    damage_named,
    load_arrays,
    pack_words,
    read_parameters,
    save_arrays,
    settings_of,
    take_saved_course,
    unpack_words,
)
from spectrem.kernels.alignments.classes import rows_increase
from spectrem.learning.schedule import check_gamma
from spectrem.models.alignment import AlignmentModel, AlignmentParameters, DirectionParameters, PairTable, Totals

_KIND, _LAYOUT = "WordAligner", 2  # files of layout 1 hold no totals
_ARRAYS = ("translation", "null", "jump", "end")
_MEMBERS = {
    **{"source_words": ("u1", 1), "target_words": ("u1", 1), "row_offsets": ("i8", 1), "targets": ("i4", 1)},
    **{"source_counts": ("i8", 1), "target_counts": ("i8", 1)},
    **{f"{side}_{name}": ("f8", 1) for side in ("forward", "backward") for name in (*_ARRAYS, "totals")},
}


def save(aligner: Any, path: str | os.PathLike[str]) -> None:
    """Write settings, words and parameters."""
    words = {
        "source_words": pack_words(aligner.source_vocabulary_.words),
        "target_words": pack_words(aligner.target_vocabulary_.words),
        "source_counts": aligner.source_counts_.astype(np.int64),
        "target_counts": aligner.target_counts_.astype(np.int64),
    }
    sides = {
        f"{side}_{name}": np.asarray(getattr(getattr(aligner.params_, side), name))
        for side in ("forward", "backward")
        for name in _ARRAYS
    }
    header = {
        **settings_of(aligner),
        "threshold": aligner.threshold_,
        "gamma": aligner.gamma_,
        "n_source_words": len(aligner.source_vocabulary_),
        "n_target_words": len(aligner.target_vocabulary_),
    }
    for side in ("forward", "backward"):
        totals = getattr(aligner.params_, side).totals
        if totals is not None:
            sides[f"{side}_totals"] = totals.words
            header[f"{side}_totals"] = [totals.null, totals.jumps, totals.ends]
    table = {"row_offsets": aligner.table_.row_offsets, "targets": aligner.table_.targets}
    save_arrays(path, _KIND, _LAYOUT, header, words | sides | table)


def load(aligner: Any, path: str | os.PathLike[str]) -> Any:
    """Fill a new aligner with what `save` wrote, and return it."""
    header, arrays = load_arrays(path, _KIND, _LAYOUT, _MEMBERS)
    with damage_named(path, _KIND):
        aligner.set_params(**{"rare_discount": 0.0, **read_parameters(header)})  # earlier versions had none
        check_parameters(aligner)
        aligner.source_vocabulary_ = Vocabulary(unpack_words(arrays["source_words"], header["n_source_words"]))
        aligner.target_vocabulary_ = Vocabulary(unpack_words(arrays["target_words"], header["n_target_words"]))
        aligner.source_counts_, aligner.target_counts_ = arrays["source_counts"], arrays["target_counts"]
        table = PairTable(arrays["row_offsets"], arrays["targets"], header["n_target_words"])
        sides = [
            DirectionParameters(
                **{name: arrays[f"{side}_{name}"] for name in _ARRAYS},
                null_probability=aligner.null_probability,
                totals=_read_totals(f"{side}_totals", header, arrays),
            )
            for side in ("forward", "backward")
        ]
        aligner.threshold_, aligner.gamma_ = float(header["threshold"]), float(header["gamma"])
        check_gamma(aligner.gamma_)
        take_saved_course(aligner, header)
        if not 0 <= aligner.threshold_ <= 1:
            raise ValueError(f"the threshold must lie in [0, 1], got {aligner.threshold_}")
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
    return aligner


def _in_order(table: PairTable, sides: list[DirectionParameters]) -> tuple[PairTable, list[DirectionParameters]]:
    """The rows of the table in increasing order of target words, which models saved by earlier versions lack."""
    if rows_increase(table.row_offsets, table.targets):
        return table, sides
    order = np.append(np.lexsort((table.targets, table.sources)), table.n_pairs)
    table = replace(table, targets=table.targets[order[:-1]])
    if not rows_increase(table.row_offsets, table.targets):
        raise ValueError("targets hold a word pair twice")
    return table, [replace(side, translation=side.translation[order]) for side in sides]


def _read_totals(name: str, header: dict[str, Any], arrays: dict[str, Any]) -> Totals | None:
    if name not in header and name not in arrays:
        return None
    numbers = [float(number) for number in header[name]]
    if len(numbers) != 3 or not all(0 <= number < np.inf for number in numbers):
        raise ValueError(f"{name} must be three numbers of at least 0, got {numbers}")
    return Totals(arrays[name], *numbers)


def _check_arrays(aligner: Any, table: PairTable, forward: DirectionParameters, backward: DirectionParameters) -> None:
    """Raise ValueError unless all arrays belong together and hold what fits them; kernels trust them."""
    n_sources, n_targets = len(aligner.source_vocabulary_), len(aligner.target_vocabulary_)
    for counts, n_words in ((aligner.source_counts_, n_sources), (aligner.target_counts_, n_targets)):
        if counts.shape != (n_words,) or (counts < 0).any():
            raise ValueError("counts do not fit the words")
    offsets, targets = table.row_offsets, table.targets
    if len(offsets) != n_sources + 1 or offsets[0] != 0 or offsets[-1] != len(targets) or (np.diff(offsets) < 0).any():
        raise ValueError("row_offsets do not fit the words")
    if n_targets != table.n_target_words or targets.min(initial=0) < 0 or targets.max(initial=-1) >= n_targets:
        raise ValueError("targets do not fit the words")
    for side, direction, n_produced in (("forward", forward, n_targets), ("backward", backward, n_sources)):
        width = forward.max_jump
        expected = (len(targets) + 1, n_produced + 1, 2 * width + 1, width + 1)
        if tuple(len(getattr(direction, name)) for name in _ARRAYS) != expected:
            raise ValueError("parameters do not fit the words")
        for name in _ARRAYS:
            check_probabilities(f"{side}_{name}", getattr(direction, name), positive=True)
        totals, n_chosen = direction.totals, n_sources if side == "forward" else n_targets
        if totals is not None and (
            totals.words.shape != (n_chosen,) or not ((totals.words >= 0) & (totals.words < np.inf)).all()
        ):
            raise ValueError(f"{side}_totals do not fit the words")
        for name in ("jump", "end"):
            total = getattr(direction, name).sum()
            if abs(total - 1) > 1e-6:
                raise ValueError(f"{side}_{name} must sum to 1, got {total:g}")
