"""Data sets with known classes that scikit-learn ships, and links between their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from spectrem.exceptions import InvalidInputError

DATA_SETS: dict[str, Callable[..., Any]] = {
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
DIMENSIONS = {"digits": 16}


@dataclass(frozen=True, eq=False)
class DataSet:
    """Rows and the class of each.

    Attributes
    ----------
    name : str
    rows : ndarray of shape (n_rows, n_features)
    classes : ndarray of shape (n_rows,), int
        From 0.
    about : str
        What was done to the rows.
    """

    name: str
    rows: NDArray[np.float64]
    classes: NDArray[np.int64]
    about: str

    @property
    def n_classes(self) -> int:
        """Distinct classes."""
        return int(self.classes.max()) + 1


def read_data_set(name: str) -> DataSet:
    """Features standardised; of the digits the first principal components.

    Raises
    ------
    InvalidInputError
        If the name is not among `DATA_SETS`.

    Examples
    --------
    >>> read_data_set("wine").rows.shape
    (178, 13)
    """
    if name not in DATA_SETS:
        raise InvalidInputError(f"data sets are {', '.join(DATA_SETS)}, got {name!r}")
    raw, classes = DATA_SETS[name](return_X_y=True)
    rows = StandardScaler().fit_transform(raw)
    about = f"{raw.shape[1]} standardised features"
    if name in DIMENSIONS:
        pca = PCA(DIMENSIONS[name], svd_solver="full")
        rows = pca.fit_transform(rows)
        share = 100 * pca.explained_variance_ratio_.sum()
        about += f", of these {DIMENSIONS[name]} principal components ({share:.0f} % of the variance)"
    return DataSet(name, rows, classes.astype(np.int64), about)


def draw_links(
    classes: NDArray[np.int64], among: NDArray[np.int64], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of rows of one class and pairs of rows of two, half of ``count`` each, none twice.

    Parameters
    ----------
    classes : ndarray of shape (n_rows,), int
    among : ndarray, int
        Rows that links may name.
    count : int
    rng : Generator

    Returns
    -------
    must, cannot : ndarray of shape (n_pairs, 2), int

    Raises
    ------
    InvalidInputError
        If there are not as many pairs of either kind.

    Examples
    --------
    >>> must, cannot = draw_links(np.array([0, 0, 1, 1]), np.array([0, 1, 2]), 2, np.random.default_rng(0))
    >>> must.tolist(), len(cannot)
    ([[0, 1]], 1)
    """
    left, right = np.triu_indices(len(among), 1)
    pairs = np.column_stack([among[left], among[right]])
    same = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    drawn = []
    for kind, share in ((same, count // 2), (~same, count - count // 2)):
        of_kind = np.flatnonzero(kind)
        if share > len(of_kind):
            raise InvalidInputError(
                f"links must not exceed twice the {len(of_kind)} pairs of their kind, got {count}; ask for fewer"
            )
        drawn.append(pairs[rng.choice(of_kind, share, replace=False)])
    return drawn[0], drawn[1]
