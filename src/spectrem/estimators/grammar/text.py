"""What DependencyModel accepts as sentences, heads and columns, read into flat arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Ints
from spectrem.data.treebank import ROOT, UNKNOWN_HEAD
from spectrem.data.treebank.heads import describe_problem
from spectrem.estimators.tagging.text import Tag, check_tag, read_text
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.models.grammar import GrammarShard
from spectrem.structures import ValenceTrees
from spectrem.structures._ragged import offsets_of, ranges_of

_TAKEN = ("sentence", "dependent", "head", "occurrence", "root", "direction", "length", "adjacent", "stop")


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
    if isinstance(y, str | Mapping) or not hasattr(y, "__len__") or len(y) != len(text.lengths):
        size = len(y) if hasattr(y, "__len__") and not isinstance(y, str | Mapping) else quoted(y)
        raise InvalidInputError(
            f"y must have one entry per sentence ({len(text.lengths)}), got {size}; use None for sentences without "
            "heads"
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
    given = np.array([UNKNOWN_HEAD if head is None else head for head in own])
    if given.size and given.dtype.kind not in "iu":
        raise InvalidInputError(
            f"y must hold whole numbers or None, got {quoted(list(own))} for sentence {n}; heads are positions in the "
            "sentence, counted from 0"
        )
    return given.astype(np.int64)


def part_columns(columns: Mapping[str, Any] | None, lengths: Ints) -> dict[str, list[Any]]:
    """Columns for constraints, checked: a value, a value per word, or a matrix of arcs for every sentence."""
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidInputError(f"columns must map names to values, got {quoted(columns)}; give a dictionary")
    found: dict[str, list[Any]] = {}
    for name, values in (columns or {}).items():
        if name in (*_TAKEN, "tag", "head_tag", "dependent_tag"):
            raise InvalidInputError(f"columns must not be called {name!r}, which constraints have already; rename it")
        listed = list(values)
        if len(listed) != len(lengths):
            raise InvalidInputError(
                f"columns[{name!r}] must have one entry per sentence ({len(lengths)}), got {len(listed)}; give a "
                "value, a sequence of values of its words, or a matrix of its arcs, for each"
            )
        n_axes = {np.ndim(own) for own in listed}
        if len(n_axes) > 1 or not n_axes <= {0, 1, 2}:
            raise InvalidInputError(
                f"columns[{name!r}] must have entries of one kind, got arrays of {sorted(n_axes)} axes; give a value, "
                "a sequence of values of its words, or a matrix of its arcs, for each sentence"
            )
        for n, own in enumerate(listed):
            length = int(lengths[n])
            if np.shape(own) != (length,) * np.ndim(own):
                raise InvalidInputError(
                    f"columns[{name!r}] must have shape {(length,) * np.ndim(own)} for sentence {n}, got "
                    f"{np.shape(own)}; matrices are [dependent, head], with arcs from the root on the diagonal"
                )
        found[name] = listed
    return found


def columns_of_shard(shard: GrammarShard, columns: Mapping[str, Sequence[Any]]) -> dict[str, NDArray]:
    """Columns over the parts of a shard: of words twice, as ``head_...`` and ``dependent_...``."""
    found: dict[str, NDArray] = {}
    if not columns or not len(shard.sentences):
        return found
    trees = ValenceTrees(shard.lengths)
    for name, listed in columns.items():
        own = [listed[n] for n in shard.sentences.tolist()]
        n_axes = np.ndim(own[0])
        if n_axes == 0:
            found[name] = np.asarray(own)[trees.instance]
        elif n_axes == 1:
            found |= trees.arc_columns({name: np.asarray(list(chain.from_iterable(own)))})
        else:
            found[name] = _of_arcs(trees, np.concatenate([np.asarray(matrix).ravel() for matrix in own]))
    return found


def _of_arcs(trees: ValenceTrees, values: NDArray) -> NDArray:
    """A value per arc over first and later children; False, or missing, at stops."""
    sizes = trees.lengths**2
    spread = np.zeros(trees.n_unary, np.bool_) if values.dtype.kind == "b" else np.full(trees.n_unary, np.nan)
    arcs = ranges_of(trees.offsets[:-1], 2 * sizes)
    spread[arcs] = np.repeat(values, 2)
    return spread
