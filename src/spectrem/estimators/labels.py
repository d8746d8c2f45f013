"""One reader of labels: which are missing, single ones, sets and distributions of them, and how many are predicted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spectrem._arrays import Bools, Floats, Ints
from spectrem.constraints.columns import is_missing
from spectrem.exceptions import InvalidInputError, quoted, warn

UNLABELLED = -1

# Probabilities of the labels of an item may miss 1 by this, and are then divided by their sum.
ROUNDING = 1e-6

Kind: TypeAlias = tuple[tuple[Any, ...], Sequence[float] | Floats | None]
"""Labels that an item may have, and their probabilities, if these are given."""


class Known(NamedTuple):
    """The labels, sets and distributions of labels that rows or tokens have.

    Attributes
    ----------
    kind : ndarray of shape (n_items,), int64
        Which of ``kinds`` an item has; -1 for none.
    kinds : list of (labels, probabilities or None)
    """

    kind: Ints
    kinds: list[Kind]

    @property
    def certain(self) -> Bools:
        """Items with a single label or with a distribution, shape (n_items,)."""
        whole = [shares is not None or len(labels) == 1 for labels, shares in self.kinds]
        return np.append(whole, False).astype(np.bool_)[self.kind]

    def evidence(self, names: Sequence[Any]) -> Floats:
        """The evidence of labels, shape (n_items, n_names), nats; see `spectrem.models.series.SeriesShard`."""
        number = {name: k for k, name in enumerate(names)}
        table = np.full((len(self.kinds) + 1, len(names)), -np.inf)
        table[-1] = 0.0
        for row, (labels, shares) in zip(table, self.kinds, strict=False):
            with np.errstate(divide="ignore"):
                row[[number[label] for label in labels]] = 0.0 if shares is None else np.log(shares)
        return table[self.kind]

    def score(self, predicted: Iterable[Any], weights: Floats, trained: Collection[Any], unit: str) -> float:
        """The share of the weight of items with a label whose prediction is right, from 0 to 1.

        A prediction is right where a set of labels holds it, and as far as a distribution gives it probability.

        Warns
        -----
        UserWarning
            If items have none of the labels that were ``trained``.
        """
        weights = weights * (self.kind >= 0)
        if not weights.any():
            raise InvalidInputError(
                f"y must label some {unit} of weight above 0 to be scored, got none; None, NaN and -1 mark what has no "
                "label and is left out"
            )
        used = [self.kinds[k][0] for k in np.unique(self.kind[weights > 0])]
        unseen = [labels[0] for labels in used if not set(labels) & set(trained)]
        if unseen:
            warn(
                f"y has labels that training did not have, such as {unseen[0]!r}, which are never predicted; split "
                "data by label, as StratifiedKFold does",
            )
        right = [dict(zip(labels, np.ones(len(labels)) if s is None else s, strict=True)) for labels, s in self.kinds]
        items = zip(predicted, self.kind.tolist(), strict=True)
        return float(np.average([k >= 0 and right[k].get(label, 0.0) for label, k in items], weights=weights))


def is_unlabelled(value: Any) -> bool:
    """Whether a value marks what has no label: None, NaN and other missing values, -1 and, beside text, "-1"."""
    return is_missing(value) or bool(value == (str(UNLABELLED) if isinstance(value, str) else UNLABELLED))


def is_collection(value: Any) -> bool:
    """Whether a value holds several labels."""
    return isinstance(value, Collection) and not isinstance(value, str | bytes)


def plain_label(label: Any, where: str) -> Any:
    """A label as Python has it; `InvalidInputError` if it cannot be one."""
    if is_collection(label):
        raise InvalidInputError(f"{where} must hold single labels in a collection, got {quoted(label)}; flatten it")
    return label.item() if isinstance(label, np.generic) else label


class LabelReader:
    """Numbers the distinct labels, sets of labels and distributions that items have.

    Parameters
    ----------
    check : callable (label, where) -> label
        Raises an error, which begins with where it is, unless a label is one.
    unit : str
        What messages call a label.
    soft : bool
        Whether items may have distributions.
    """

    def __init__(self, check: Callable[[Any, str], Any], unit: str, *, soft: bool = True) -> None:
        self.kinds: list[Kind] = []
        self._number: dict[Any, int] = {None: -1, UNLABELLED: -1, str(UNLABELLED): -1}
        self._check, self._unit, self._soft = check, unit, soft

    def read(self, labels: Iterable[Any], place: Callable[[int], str]) -> list[int]:
        """The kind of every item, -1 for none; ``place`` says where the item of a number stands."""
        listed = list(labels)
        try:
            return [self._number[label] for label in listed]
        except (KeyError, TypeError):
            return [self._kind(label, place(n)) for n, label in enumerate(listed)]

    def _kind(self, label: Any, place: str) -> int:
        kind = self._read(label, place)
        if kind is None:
            return -1
        if kind not in self._number:
            self._number[kind] = len(self.kinds)
            self.kinds.append(kind)
        if not is_collection(label):
            self._number[label] = self._number[kind]
        return self._number[kind]

    def _read(self, label: Any, place: str) -> Kind | None:
        where = f"y ({place})"
        if not is_collection(label):
            return None if is_unlabelled(label) else ((self._check(label, where),), None)
        if not len(label):
            raise InvalidInputError(
                f"y must allow a {self._unit}, got an empty collection for {place}; use None to allow all {self._unit}s"
            )
        marks = [one for one in label if not is_collection(one) and is_unlabelled(one)]
        if marks:
            raise InvalidInputError(
                f"y must hold {self._unit}s in a collection, got {marks[0]!r} in {place}, which marks what has none; "
                "leave it out, or write None in place of the collection"
            )
        labels = [self._check(one, where) for one in label]
        if not isinstance(label, Mapping):
            return tuple(sorted(set(labels), key=lambda one: (isinstance(one, str), one))), None
        try:
            shares = np.array(list(label.values()), np.float64)
        except (TypeError, ValueError):
            shares = np.full(1, np.nan)
        if not (self._soft and (shares >= 0).all() and abs(shares.sum() - 1) <= ROUNDING):
            rule = "distributions of probabilities that add up to 1" if self._soft else "no distributions"
            raise InvalidInputError(
                f"y must hold {rule}, got {quoted(label)} in {place}; "
                f"{'divide them by their sum' if self._soft else 'give the set of those that are possible'}"
            )
        return tuple(labels), tuple((shares / shares.sum()).tolist())
