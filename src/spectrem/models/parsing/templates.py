"""Which features arcs have, and the numbers that words and tags enter them with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Ints
from spectrem._validate import as_bool
from spectrem.data import ParsedSentence

Atoms = NDArray[np.uint32]
MISSING = "_"

# Parts of the context of a word, by name: columns of atoms (form, first tag, second tag) and distances from the word.
_FORM, _TAG, _FINE = 0, 1, 2
_PARTS: dict[str, tuple[tuple[int, int], ...]] = {
    "form": ((_FORM, 0),),
    "tag": ((_TAG, 0),),
    "form tag": ((_FORM, 0), (_TAG, 0)),
    "before": ((_TAG, -1), (_TAG, 0)),
    "after": ((_TAG, 0), (_TAG, 1)),
    "around": ((_TAG, -1), (_TAG, 0), (_TAG, 1)),
    "two before": ((_TAG, -2), (_TAG, -1), (_TAG, 0)),
    "two after": ((_TAG, 0), (_TAG, 1), (_TAG, 2)),
    "form before": ((_FORM, -1), (_TAG, 0)),
    "form after": ((_FORM, 1), (_TAG, 0)),
    "fine": ((_FINE, 0),),
    "form fine": ((_FORM, 0), (_FINE, 0)),
    "fine before": ((_FINE, -1), (_FINE, 0)),
    "fine after": ((_FINE, 0), (_FINE, 1)),
}
# Parts of one end alone, and pairs of a part of the head and a part of the dependent.
_ONE = ("form", "tag", "form tag", "around")
_FURTHER = ("two before", "two after")
_ONE_FINE = ("fine", "form fine")
_PAIRS = (
    *(("form tag", "form tag"), ("form tag", "tag"), ("tag", "form tag"), ("tag", "tag"), ("form", "form")),
    *(("after", "before"), ("before", "before"), ("after", "after"), ("before", "after")),
    *(("tag", "form before"), ("form tag", "form before"), ("tag", "form after")),
    *(("form before", "tag"), ("form after", "tag")),
)
_PAIRS_FINE = (
    *(("fine", "fine"), ("fine after", "fine before"), ("fine before", "fine before")),
    *(("fine after", "fine after"), ("fine before", "fine after")),
)


@dataclass(frozen=True)
class ArcTemplates:
    """The features of arcs: those of the first-order MSTParser [McDonald2005], and more.

    As [Ganchev2010] table 7 lists them: forms and tags of head and dependent, alone and in pairs; their tags with those
    of their neighbours, and with each tag that stands between them. Beyond MSTParser: the tag of one end and the form
    before or after it, as a preposition before a noun, with what the other end is. Each is taken as it is, with the
    direction of the arc, and with direction and length in bins (1, 2, 3, 4-5, 6-10, more words). An arc from the root
    has the distance from a word before the first.

    Parameters
    ----------
    fine : bool
        Whether words have a second, finer tag, whose pairs are features, too.

    Examples
    --------
    >>> len(ArcTemplates(fine=False).pairs), len(ArcTemplates().pairs)
    (14, 19)
    """

    fine: bool = True

    def __post_init__(self) -> None:
        as_bool(self.fine, "fine")

    @cached_property
    def _names(self) -> list[str]:
        return [name for name, part in _PARTS.items() if self.fine or all(column != _FINE for column, _ in part)]

    @cached_property
    def parts(self) -> Ints:
        """Of every part its columns of atoms and distances, shape (n_parts, 4, 2); the end is marked by -1."""
        table = np.full((len(self._names), 4, 2), -1, np.int64)
        for row, name in zip(table, self._names, strict=True):
            row[: len(_PARTS[name])] = _PARTS[name]
        return table

    @cached_property
    def pairs(self) -> Ints:
        """Parts of the head and the dependent that are joined, shape (n_pairs, 2)."""
        pairs = _PAIRS + _PAIRS_FINE if self.fine else _PAIRS
        return np.array([self._numbers(pair) for pair in pairs], np.int64)

    @cached_property
    def of_heads(self) -> Ints:
        """Parts of the head alone, shape (n_parts_of_heads,)."""
        return self._numbers(_ONE + _ONE_FINE if self.fine else _ONE)

    @cached_property
    def of_dependents(self) -> Ints:
        """Parts of the dependent alone, shape (n_parts_of_dependents,)."""
        return self._numbers(_ONE + _FURTHER + _ONE_FINE if self.fine else _ONE + _FURTHER)

    @property
    def between(self) -> int:
        """The part that words between head and dependent give, once for each value."""
        return self._names.index("tag")

    def _numbers(self, names: Iterable[str]) -> Ints:
        return np.array([self._names.index(name) for name in names], np.int64)


class TokenAtoms(NamedTuple):
    """From sentences to the numbers of their forms and tags.

    Numbers are hashes of the texts, so that nothing but ``frequent`` needs to be remembered. Tags: the first one is the
    universal tag, or the language-specific one where all universal ones are ``_``; the second one is the other.

    Attributes
    ----------
    frequent : frozenset of str
        The forms that have a number of their own; all others share one.
    coarse : bool
        Whether the first tag is the universal one.
    fine : bool
        Whether there is a second tag.

    Examples
    --------
    >>> sentences = [ParsedSentence(("a", "b", "a"), ("X", "Y", "X"), ("_", "_", "_"))]
    >>> atoms = TokenAtoms.of(sentences, min_count=2)
    >>> sorted(atoms.frequent), atoms.coarse, atoms.fine
    (['a'], True, False)
    >>> atoms.encode(sentences).shape
    (3, 3)
    """

    frequent: frozenset[str]
    coarse: bool
    fine: bool

    @classmethod
    def of(cls, sentences: Sequence[ParsedSentence], min_count: int = 1) -> TokenAtoms:
        """The forms that occur at least ``min_count`` times, and the tags that there are."""
        counts = Counter(form for sentence in sentences for form in sentence.forms)
        coarse, fine = (
            any(tag != MISSING for sentence in sentences for tag in getattr(sentence, name))
            for name in ("upos", "xpos")
        )
        return cls(
            frozenset(form for form, count in counts.items() if count >= min_count), coarse or not fine, coarse and fine
        )

    def encode(self, sentences: Sequence[ParsedSentence]) -> Atoms:
        """Atoms of all words, shape (n_tokens, 3): form, first tag, second tag."""
        table = np.zeros((sum(len(sentence.forms) for sentence in sentences), 3), np.uint32)
        forms = _Numbers(self.frequent)
        table[:, _FORM] = [forms[form] for sentence in sentences for form in sentence.forms]
        tags = _Numbers(None)
        for column, name in ((_TAG, "upos" if self.coarse else "xpos"), (_FINE, "xpos" if self.fine else "")):
            if name:
                table[:, column] = [tags[tag] for sentence in sentences for tag in getattr(sentence, name)]
        return table


class _Numbers(dict[str, int]):
    """Texts and their hashes, found when first asked for; 0 for those that are not among the ``frequent``."""

    def __init__(self, frequent: frozenset[str] | None) -> None:
        super().__init__()
        self._frequent = frequent

    def __missing__(self, text: str) -> int:
        number = self[text] = _hash(text) if self._frequent is None or text in self._frequent else 0
        return number


def _hash(text: str) -> int:
    """A number of 32 bits that does not depend on the process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little")
