"""Dependency trees: a head for every word of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch

from spectrem import structures
from spectrem._arrays import Ints
from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import positions_of, rows_of
from spectrem.torch.distribution import StructuredDistribution
from spectrem.torch.places import Placed
from spectrem.torch.tensors.trees import nonprojective_trees, projective_trees
from spectrem.torch.tokens import Tokens


class _Trees(StructuredDistribution):
    """Abstract: trees over the words of sentences, from scores of their arcs."""

    _structure: ClassVar[Any]
    _values: ClassVar[Any]

    def __init__(
        self,
        scores: torch.Tensor,
        *,
        lengths: torch.Tensor | Sequence[int] | None = None,
        mask: torch.Tensor | None = None,
        single_root: bool = True,
        gamma: float = 1.0,
    ) -> None:
        if scores.ndim != 3 or scores.shape[1] != scores.shape[2]:
            raise InvalidInputError(
                f"scores must have shape (batch, n_words, n_words), [dependent, head], got {tuple(scores.shape)}; "
                "from_rooted takes scores with a row and a column of the root"
            )
        batch, n = (int(size) for size in scores.shape[:2])
        words = Tokens.of((batch, n), lengths, mask)
        structure = self._structure(words.lengths, single_root=single_root)
        places = None
        if words.mask is not None:  # both words of an arc are words of the sentence, which may have gaps
            heads = np.repeat(words.lengths, words.lengths)
            sentence = np.repeat(rows_of(words.lengths), heads)
            places = np.repeat(words.kept, heads) * n + words.order[sentence, positions_of(heads)]

        self._tokens, self._single_root = words, single_root
        sums = partial(_sums, words, type(self)._values, single_root)
        layout = Placed(structure, ((batch, n, n),), (places,), (slice(None),), sums)
        super().__init__(layout, (scores,), gamma, torch.Size([n]))

    @classmethod
    def from_rooted(cls, scores: torch.Tensor, **options: Any) -> Any:
        """From scores of which the root has the first row and column, as biaffine parsers make them.

        Parameters
        ----------
        scores : Tensor of shape (batch, n_words + 1, n_words + 1)
            [dependent, head]; the row of the root and the diagonal are not read.
        **options
            As in the constructor; lengths and masks are of words, without the root.
        """
        if scores.ndim != 3 or scores.shape[1] != scores.shape[2] or not scores.shape[1]:
            raise InvalidInputError(
                "scores must have shape (batch, n_words + 1, n_words + 1), [dependent, head], "
                f"got {tuple(scores.shape)}"
            )
        words = scores[:, 1:]
        return cls(words[..., 1:].diagonal_scatter(words[..., 0], 0, 1, 2), **options)

    def _as_values(self, structures: Ints) -> Ints:
        words = self._tokens
        return words.put(words.places_of(rows_of(words.lengths), structures), UNKNOWN_HEAD)

    def _sets_of(self, value: torch.Tensor) -> torch.Tensor:
        n = self._tokens.shape[1]
        if value.shape != self._tokens.shape:
            raise InvalidInputError(f"value, heads, must have shape {self._tokens.shape}, got {tuple(value.shape)}")
        heads = self._tokens.take(value.cpu().numpy())
        wrong = (heads < UNKNOWN_HEAD) | (heads >= n)
        if wrong.any():
            raise InvalidInputError(
                f"value must hold heads below {n}, {ROOT} for the root or {UNKNOWN_HEAD} where none is known, got "
                f"{heads[wrong][0]}"
            )
        word = torch.arange(n, device=value.device)
        head = torch.where(value == ROOT, word, value)
        to_itself = (value == word)[..., None]  # which is no arc, while the diagonal is that from the root
        return ((head[..., None] == word) & ~to_itself) | (value == UNKNOWN_HEAD)[..., None]

    def _where(self, value: torch.Tensor) -> Any:
        mask = torch.from_numpy(self._tokens.is_token)
        scores = self._scores[0].masked_fill(~value, -torch.inf)
        return type(self)(scores, mask=mask, single_root=self._single_root, gamma=self.gamma)


def _sums(words: Tokens, values: Any, single_root: bool, gamma: float, scores: torch.Tensor) -> torch.Tensor:
    lengths = torch.from_numpy(words.lengths).to(scores.device)
    result: torch.Tensor = values(words.compact(scores, 1, 2), lengths, gamma, single_root=single_root)
    return result


class ProjectiveTrees(_Trees):
    """Dependency trees without crossing arcs, by the algorithm of [Eisner1996].

    Parameters
    ----------
    scores : Tensor of shape (batch, n_words, n_words)
        Of arcs, [dependent, head], nats; those from the root on the diagonal; -inf forbids one.
    lengths : Tensor of shape (batch,), int, optional
        Words of every sentence, which may be 0; by default all.
    mask : Tensor of shape (batch, n_words), bool, optional
        In place of lengths: where the words are, with any gaps.
    single_root : bool, default True
        Whether exactly one word hangs on the root, or one or more.
    gamma : float, default 1.0
        Temperature.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, or scores are NaN or +inf.

    Notes
    -----
    Values are heads, integers of shape (batch, n_words): positions of words, -1 for the root, -2 where no word is, and
    in `log_prob` where a head is not known. `log_prob` also takes sets of possible heads (bool) and soft arcs (float),
    both in the shape of the scores. Heads that are no tree have the log-probability -inf.

    Examples
    --------
    Two words; that the second one is the root and the first one its dependent is three times as likely as the reverse:

    >>> import torch
    >>> from spectrem.torch import ProjectiveTrees
    >>> trees = ProjectiveTrees(torch.tensor([[[1.0, 3.0], [1.0, 1.0]]]).log())
    >>> trees.marginals.round(decimals=4).tolist(), trees.mode.tolist()
    ([[[0.25, 0.75], [0.25, 0.75]]], [[1, -1]])
    """

    _structure, _values = structures.ProjectiveTrees, staticmethod(projective_trees)


class NonProjectiveTrees(_Trees):
    """Dependency trees whose arcs may cross, by the matrix-tree theorem [Koo2007].

    Sums are without subtraction, so that marginals keep their digits where trees are nearly certain. The best tree is
    that of [Edmonds1967], exact also with a single root, as draws and n best are.

    Parameters
    ----------
    scores, lengths, mask, single_root, gamma
        As in `ProjectiveTrees`.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, or scores are NaN or +inf.

    Notes
    -----
    Values are those of `ProjectiveTrees`.

    Examples
    --------
    >>> import torch
    >>> from spectrem.torch import NonProjectiveTrees
    >>> trees = NonProjectiveTrees(torch.zeros(1, 3, 3), single_root=False)
    >>> trees.log_partition.exp().round().tolist()  # (n + 1) ** (n - 1)
    [16.0]
    """

    _structure, _values = structures.NonProjectiveTrees, staticmethod(nonprojective_trees)
