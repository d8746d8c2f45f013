"""Words that each take one head: the shapes of every structure whose parts are arcs, whatever trees it allows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem._validate import as_bool, as_integers, as_lengths
from spectrem.exceptions import InvalidInputError
from spectrem.structures._columns import missing_where
from spectrem.structures._ragged import check_instance, no_parts, offsets_of, positions_of, rows_of
from spectrem.structures.parts import Parts
from spectrem.structures.structure import Structure


@dataclass(frozen=True, eq=False, init=False)
class ArcStructure(Structure):
    """Abstract: sentences whose words each take one head, another word of the sentence or the root.

    A structure over arcs adds ``smoothed_max``, ``decode``, ``polytope`` and ``enumerate``. ``Parts.unary`` holds for
    every sentence of n words a block of shape (n, n), row-major, indexed [dependent, head]; the entry [d, d] is the
    arc from the root to d.
    """

    lengths: NDArray[np.int64]
    single_root: bool

    def __init__(self, lengths: ArrayLike, *, single_root: bool = True) -> None:
        single = as_bool(single_root, "single_root", "; pass single_root=False for trees with several roots")
        vars(self).update(lengths=as_lengths(lengths, "lengths"), single_root=single)

    @property
    def n_instances(self) -> int:
        """Number of sentences of the batch."""
        return len(self.lengths)

    @property
    def n_tokens(self) -> int:
        """Number of words of the batch."""
        return int(self.token_offsets[-1])

    @property
    def n_unary(self) -> int:
        """Number of arcs of the batch, the square of its length for every sentence."""
        return int(self.block_offsets[-1])

    @property
    def factor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Nothing is shared."""
        return ()

    @cached_property
    def token_offsets(self) -> NDArray[np.int64]:
        """Boundaries of the sentences among the words, shape (n_instances + 1,)."""
        return offsets_of(self.lengths)

    @cached_property
    def block_offsets(self) -> NDArray[np.int64]:
        """Boundaries of the sentences in ``Parts.unary``, shape (n_instances + 1,)."""
        return offsets_of(self.lengths**2)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Boundaries of the words, as dependents, in ``Parts.unary``, shape (n_tokens + 1,)."""
        return offsets_of(np.repeat(self.lengths, self.lengths))

    @property
    def instance_name(self) -> str:
        """The column that numbers the sentences."""
        return "sentence"

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Sentence of every arc, shape (n_unary,)."""
        return rows_of(self.lengths**2)

    @property
    def choice(self) -> NDArray[np.int64]:
        """Dependent of every arc among the words of the batch, shape (n_unary,); built anew at every call."""
        return rows_of(np.repeat(self.lengths, self.lengths))

    @property
    def columns(self) -> Mapping[str, NDArray]:
        """The columns of the class notes, each of shape (n_unary,); built anew at every call."""
        dependent, head = self._ends
        root = dependent == head
        return {
            "sentence": self.instance,
            "dependent": dependent,
            "head": missing_where(head, root),
            "occurrence": self.choice,
            "root": root,
            "direction": missing_where(np.where(dependent < head, "left", "right"), root),
            "length": missing_where(np.abs(dependent - head), root),
        }

    @property
    def column_values(self) -> Mapping[str, tuple[str, ...]]:
        """The values of text columns."""
        return {"direction": ("left", "right")}

    def arc_columns(self, values: Mapping[str, ArrayLike]) -> dict[str, NDArray]:
        """Columns over arcs from values of words: of a mapping ``{"tag": ...}``, ``head_tag`` and ``dependent_tag``.

        Parameters
        ----------
        values : mapping of name -> array-like of shape (n_tokens,)
            One value for every word of the batch, text, numbers or truth values; None, NaN and the like are missing.

        Returns
        -------
        dict of name -> ndarray of shape (n_unary,)
            Values that belong to the head are missing (NaN, None among objects) at arcs from the root; numbers are
            floating-point there.

        Raises
        ------
        InvalidInputError
            If there is not one value per word.

        Examples
        --------
        >>> from spectrem.structures import ProjectiveTrees
        >>> columns = ProjectiveTrees([2]).arc_columns({"tag": ["DET", "NOUN"]})
        >>> columns["head_tag"].tolist(), columns["dependent_tag"].tolist()
        ([nan, 'NOUN', 'DET', nan], ['DET', 'DET', 'NOUN', 'NOUN'])
        """
        columns: dict[str, NDArray] = {}
        dependent, head = self._ends
        first = np.repeat(self.token_offsets[:-1], self.lengths**2)
        for name, given in values.items():
            words = _as_words(given)
            if words.shape != (self.n_tokens,):
                raise InvalidInputError(
                    f"values[{name!r}] must have shape ({self.n_tokens},), one value per word of the batch; got "
                    f"{words.shape}; join the values of all sentences"
                )
            columns[f"head_{name}"] = missing_where(words[first + head], dependent == head)
            columns[f"dependent_{name}"] = words[first + dependent]
        return columns

    def arcs_of(self, heads: ArrayLike) -> NDArray[np.int64]:
        """The arcs that words take, as positions in ``Parts.unary``; -1 where the head of a word is not given.

        Parameters
        ----------
        heads : array-like of shape (n_tokens,), int
            Positions in the sentence, ``ROOT`` (-1) for the root, -2 where it is not known.

        Returns
        -------
        ndarray of shape (n_tokens,), int64

        Raises
        ------
        InvalidInputError
            If a head lies outside its sentence, or a word is its own head.

        Notes
        -----
        Whether the heads of a sentence make a tree is not asked.

        Examples
        --------
        >>> from spectrem.structures import ROOT, ProjectiveTrees
        >>> ProjectiveTrees([1, 2]).arcs_of([ROOT, 1, ROOT]).tolist()
        [0, 2, 4]
        """
        checked = as_integers(heads, "heads")
        if len(checked) != self.n_tokens:
            raise InvalidInputError(
                f"heads must have {self.n_tokens} entries, one per word of the batch; got {len(checked)}; join the "
                "heads of all sentences"
            )
        own, lengths = positions_of(self.lengths), np.repeat(self.lengths, self.lengths)
        wrong = (checked < UNKNOWN_HEAD) | (checked >= lengths) | (checked == own)
        if wrong.any():
            at = int(np.argmax(wrong))
            n = int(np.searchsorted(self.token_offsets, at, side="right")) - 1
            raise InvalidInputError(
                f"heads must be in 0..{lengths[at] - 1} (positions in the sentence) and not the word itself, {ROOT} "
                f"for the root or {UNKNOWN_HEAD} if unknown; got {checked[at]} for word {own[at]} of sentence {n}; "
                "CoNLL's heads less one are such positions"
            )
        arcs = self.offsets[:-1] + np.where(checked == ROOT, own, checked)
        return np.where(checked == UNKNOWN_HEAD, -1, arcs)

    def by_length(self, active: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Numbers of the active sentences that have words, by length: those that share lanes then have similar ones."""
        return self._by_length[(active & (self.lengths > 0))[self._by_length]]

    @cached_property
    def _by_length(self) -> NDArray[np.int64]:
        """All sentences by length."""
        return np.argsort(self.lengths, kind="stable")

    @property
    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Dependent and head of every arc as positions in the sentence; the head of an arc from the root is its end."""
        lengths = self.lengths
        dependent = np.repeat(positions_of(lengths), np.repeat(lengths, lengths))
        return dependent, positions_of(np.repeat(lengths, lengths))

    def _tokens_of(self, instance: int) -> slice:
        """The words of one sentence as a range of those of the batch."""
        n = check_instance(self, instance)
        return slice(int(self.token_offsets[n]), int(self.token_offsets[n + 1]))

    def _trees(self, instance: int, allowed: Callable[[tuple[int, ...]], bool] = lambda heads: True) -> Iterator[Parts]:
        """Every tree of one sentence that is allowed, as indicators over the batch; the empty one without words."""
        tokens = self._tokens_of(instance)
        size = tokens.stop - tokens.start
        if size == 0:
            yield no_parts(self)
            return
        for heads in itertools.product(range(ROOT, size), repeat=size):
            if (heads.count(ROOT) == 1 or not self.single_root) and is_tree(heads) and allowed(heads):
                yield self._with_heads(tokens, np.array(heads))

    def _with_heads(self, tokens: slice, heads: NDArray[np.int64]) -> Parts:
        """Indicators over the batch of one tree over some words of it."""
        indicator, all_heads = no_parts(self), np.full(self.n_tokens, UNKNOWN_HEAD)
        all_heads[tokens] = heads
        indicator.unary[self.arcs_of(all_heads)[tokens]] = 1.0
        return indicator

    def _taken(self, heads: NDArray[np.int64]) -> Parts:
        """Indicators of the arcs of decoded heads."""
        indicator, arcs = no_parts(self), self.arcs_of(heads)
        indicator.unary[arcs[arcs >= 0]] = 1.0
        return indicator


def decode_one_by_one(
    trees: Any,
    sentences: NDArray[np.int64],
    unary: NDArray[np.float64],
    values: NDArray[np.float64],
    heads: NDArray[np.int64],
) -> None:
    """Fill scores and heads of the best trees of some sentences of any length; impossible ones keep their heads."""
    for n in sentences.tolist():
        derivations, size = trees.derivations(n), int(trees.lengths[n])
        values[n], taken = derivations.smoothed_max(unary[derivations.entries], 0.0)
        if values[n] > -np.inf:
            per_arc = 1 if len(taken) == size * size else 2
            dependent, head = np.nonzero(taken[: per_arc * size * size].reshape(size, size, per_arc).any(axis=2))
            heads[int(trees.token_offsets[n]) + dependent] = np.where(head == dependent, ROOT, head)


def _as_words(values: ArrayLike) -> NDArray:
    """Values of words as an array, of objects where NumPy would write missing ones as the text "nan"."""
    given = values.tolist() if isinstance(values, np.ma.MaskedArray) else values
    words = np.asarray(given)
    if isinstance(given, np.ndarray) or words.dtype.kind in "biuf":
        return words
    objects = np.asarray(given, object)
    return words if all(isinstance(value, str) for value in objects) else objects


def is_tree(heads: tuple[int, ...]) -> bool:
    """Whether every word reaches the root."""
    for word in range(len(heads)):
        for _ in heads:
            word = heads[word] if word != ROOT else word
        if word != ROOT:
            return False
    return True
