"""What DependencyModel accepts as sentences, heads and columns, read into flat arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spectrem._arrays import Ints
from spectrem._validate import as_array
from spectrem.data.treebank import ROOT, UNKNOWN_HEAD, describe_problem
from spectrem.estimators.sentence_columns import read_sentence_columns
from spectrem.estimators.tagging.text import Tag, check_tag, read_text
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.shards import Columns
from spectrem.structures import ValenceTrees
from spectrem.structures._ragged import offsets_of


@dataclass(frozen=True, eq=False)
class TagText:
    """Sentences of tags as one run, and what is known of their heads.

    Attributes
    ----------
    tags : list of n_tokens str or int
    lengths : ndarray of shape (n_sentences,), int64
    heads : ndarray of shape (n_tokens,), int64
        Positions in the sentence, -1 for the root, -2 where not known.
    """

    tags: list[Tag]
    lengths: Ints
    heads: Ints


def read_tags(X: Any, y: Any = None, *, single_root: bool = True) -> TagText:
    """Flatten sentences and heads.

    Raises
    ------
    InvalidInputError
        If either is not a sequence of sentences, their lengths differ, or heads cannot belong to a tree.
    """
    text = read_text(X)
    tags = [check_tag(tag, "X") for tag in text.words]
    heads = np.full(len(tags), UNKNOWN_HEAD)
    if y is None:
        return TagText(tags, text.lengths, heads)
    is_list = hasattr(y, "__len__") and not isinstance(y, str | Mapping)
    if not is_list or len(y) != len(text.lengths):
        raise InvalidInputError(
            f"y must have one entry per sentence ({len(text.lengths)}), got {len(y) if is_list else quoted(y)}; use "
            "None for sentences without heads"
        )
    offsets = offsets_of(text.lengths)
    for n, own in enumerate(y):
        if own is None:
            continue
        given = _heads_of(own, n, int(text.lengths[n]))
        problem = describe_problem(given)
        if problem is not None:
            raise InvalidInputError(
                f"y: sentence {n}: {problem[1]}; heads are positions counted from 0, {ROOT} for the root, None where "
                "not known"
            )
        n_roots = int((given == ROOT).sum())
        if n_roots > 1 and single_root:
            raise InvalidInputError(
                f"y: sentence {n} must have one word under the root, got {n_roots}; set single_root=False"
            )
        heads[offsets[n] : offsets[n + 1]] = given
    return TagText(tags, text.lengths, heads)


def _heads_of(own: Any, n: int, length: int) -> Ints:
    if isinstance(own, str | Mapping) or not hasattr(own, "__len__") or len(own) != length:
        size = len(own) if hasattr(own, "__len__") and not isinstance(own, str | Mapping) else quoted(own)
        raise InvalidInputError(
            f"y must have a head per word of sentence {n} ({length}), got {size}; use None for heads that are not known"
        )
    given = as_array([UNKNOWN_HEAD if head is None else head for head in own], f"y of sentence {n}")
    if given.size and (given.dtype.kind not in "iu" or given.ndim > 1):
        raise InvalidInputError(
            f"y must hold whole numbers or None, got {quoted(list(own))} for sentence {n}; heads are positions in the "
            "sentence, counted from 0"
        )
    return given.astype(np.int64)


def read_columns(columns: Any, lengths: Ints) -> Columns:
    """Columns for constraints, as `read_sentence_columns` takes them."""
    taken = ("tag", "head_tag", "dependent_tag", *ValenceTrees([0]).columns)
    return read_sentence_columns(columns, lengths, taken)
