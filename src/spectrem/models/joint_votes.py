"""Joint tables of votes: P(votes of a group | class) as a product of tables, each given the votes of sources before.

A vote of a source on an item on which sources of its group before it vote, too, is taken for a vote of a further
source, which there is for every combination of their votes. Votes remain votes for a class, and tables stay square.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from spectrem._arrays import Bools, Floats, Ints
from spectrem.exceptions import InvalidInputError
from spectrem.structures._ragged import offsets_of, rows_of

# Numbers in all tables of combinations together.
_MOST_NUMBERS = 1 << 22


class JointTables:
    """Groups of sources, and the further sources that stand for combinations of their votes.

    Parameters
    ----------
    group : ndarray of shape (n_sources,), int64
        The number of the group of every source, from 0, or -1.
    n_classes : int
    names : ndarray of shape (n_sources,)
        By which the sources of a group are in order.

    Attributes
    ----------
    source : ndarray of shape (n_sources + n_combinations,), int64
        The source whose votes each stands for.

    Raises
    ------
    InvalidInputError
        If tables would be too large.

    Examples
    --------
    Votes of source 1 are those of 2, 3 and so on where source 0 votes, too:

    >>> joint = JointTables(np.array([0, 0]), 2, np.array(["ann", "bob"]))
    >>> joint.source.tolist(), joint.recode(np.array([2, 2, 1]), np.array([0, 2, 1, 2, 3])).tolist()
    ([0, 1, 1, 1], [0, 4, 1, 6, 3])
    """

    def __init__(self, group: Ints, n_classes: int, names: NDArray) -> None:
        self.group, self.n_classes = group, n_classes
        sizes = np.bincount(group[group >= 0])
        logs = (sizes - 1) * np.log(n_classes + 1) + np.log(len(sizes) * n_classes**2 + 1)
        if (logs > np.log(_MOST_NUMBERS)).any():
            raise InvalidInputError(
                f"joint tables must be of few sources, got a group of {sizes.max()} for {n_classes} classes; set "
                "dependence='weigh' or name smaller groups in joint_groups"
            )
        order = np.lexsort((names, group))
        place = np.zeros(len(group), np.int64)
        place[order] = np.arange(len(group)) - np.searchsorted(group[order], group[order])
        self._place = np.where(group >= 0, place, 0)
        n_combinations = (n_classes + 1) ** self._place - 1
        self._first = len(group) + offsets_of(n_combinations)[:-1]
        self.source = np.append(np.arange(len(group)), np.repeat(np.arange(len(group)), n_combinations))

    def recode(self, sizes: NDArray[np.integer], cells: NDArray[np.integer]) -> NDArray[np.integer]:
        """The votes of items, see `spectrem.models.votes.VoteShard`, as those of the further sources."""
        if (self.group < 0).all():
            return cells
        k, n, recoded = self.n_classes, len(sizes), cells.astype(np.int32)
        item, source, label = rows_of(sizes), *np.divmod(cells.astype(np.int64), k)
        for one in range(int(self.group.max(initial=-1)) + 1):
            at = np.flatnonzero(self.group[source] == one)
            place = self._place[source[at]]
            digits = np.zeros((n, int(place.max(initial=0)) + 1), np.int64)
            digits[item[at], place] = (1 + label[at]) * (k + 1) ** place
            before = (digits.cumsum(axis=1) - digits)[item[at], place]
            further = self._first[source[at]] + before - 1
            recoded[at] = np.where(before > 0, further, source[at]) * k + label[at]
        return recoded

    def once(self, sizes: NDArray[np.integer], cells: NDArray[np.integer]) -> Floats:
        """One over the number of votes of the group that say the same on the item, for every vote of `recode`."""
        k, item, cells = self.n_classes, rows_of(sizes), cells.astype(np.int64)
        group = np.where(self.group < 0, len(self.group) + np.arange(len(self.group)), self.group)
        key = (item * 2 * len(self.group) + group[self.source[cells // k]]) * k + cells % k
        _, inverse, n_votes = np.unique(key, return_inverse=True, return_counts=True)
        return 1.0 / n_votes[inverse]

    def pseudo_counts(self, table: Floats) -> Floats:
        """Votes that the prior of every combination counts, shape (n_combinations, n_classes, n_classes).

        They are those of one Dirichlet distribution of all votes of the group, which counts half of its votes for
        sources that are independent, and half for copies.

        Parameters
        ----------
        table : ndarray of shape (n_classes, n_classes), [class, vote]
            The votes that the prior of a source counts.
        """
        k, n = self.n_classes, len(self.group)
        combination = np.arange(n, len(self.source)) - self._first[self.source[n:]] + 1
        most = int(self._place.max(initial=0))
        votes = combination[:, None] // (k + 1) ** np.arange(most) % (k + 1)  # 0 for silence
        share = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
        independent = np.column_stack([np.ones(k), share])[:, votes].prod(axis=2).T[:, :, None] * table
        last = votes.max(axis=1, initial=0)
        alike = (((votes == last[:, None]) | (votes == 0)).all(axis=1))[:, None] & (
            np.arange(1, k + 1) == last[:, None]
        )
        return 0.5 * (independent + alike[:, None, :] * table)


def joined(group: Ints, pairs: Ints) -> Ints:
    """Numbers of groups of several sources, -1 for sources alone, after the sources of each pair have come together.

    Examples
    --------
    >>> joined(np.array([0, 1, 1, 2, 3]), np.array([[2, 4]])).tolist()
    [-1, 0, 0, -1, 0]
    """
    n = len(group)
    edges = np.concatenate([pairs, np.column_stack([np.arange(n), n + group])])
    graph = sparse.coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (2 * n, 2 * n))
    component = connected_components(graph, directed=False)[1][:n]
    several: Bools = np.bincount(component)[component] > 1
    numbers = np.full(n, -1, np.int64)
    numbers[several] = np.unique(component[several], return_inverse=True)[1]
    return numbers
