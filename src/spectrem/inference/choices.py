"""Structures whose choices are independent: a label each, several to an instance."""

from __future__ import annotations

from typing import cast

import numpy as np

from spectrem._arrays import Ints
from spectrem.structures import Product
from spectrem.structures._ragged import offsets_of
from spectrem.structures.structure import Labels, Structure, has_one_label


def choice_offsets(structure: Structure) -> Ints | None:
    """Where the labels of every choice begin, shape (n_choices + 1,), if choices are independent; else None.

    Examples
    --------
    >>> from spectrem.structures import Categorical
    >>> choice_offsets(Product({"text": Categorical([2, 3]), "links": Categorical([2, 2])})).tolist()
    [0, 2, 5, 7, 9]
    """
    if has_one_label(structure):
        return structure.offsets
    members = list(structure.members.values()) if isinstance(structure, Product) else []
    if not members or not all(map(has_one_label, members)):
        return None
    return offsets_of(np.concatenate([np.diff(cast("Labels", member).offsets) for member in members]))
