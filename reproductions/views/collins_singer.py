"""The names of [CollinsSinger1999]: two views of features, seed rules, and names whose classes are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.places import find_folder
from spectrem.data import read_bytes
from spectrem.exceptions import InvalidInputError

FOLDER = "ner/collins-singer"
TRAIN, RULES, TEST, GOLD = "train.ex.gz", "all.seed.rules", "all.test.ex", "all.test.y"
CLASSES = {"L": "location", "O": "organisation", "P": "person"}
PREFIXES: Mapping[str, frozenset[str]] = {
    "spelling": frozenset({"X0", "X2", "X5", "X6", "X7"}),
    "context": frozenset({"X01", "X11", "X3"}),
}
"""What stands before the first underscore of a feature, of each view; features with other prefixes are in neither."""

# Names among those without a seed rule, drawn at random, by class; numbers of lines of the training file, from 0.
# They were read and labelled for this reproduction. 41 more were drawn that are of no class (works, peoples, brands,
# fragments of titles), and 16 months and weekdays.
_HAND_LABELLED = {
    "P": """155 358 2082 2322 2880 3314 3921 5293 6890 7070 8104 9028 9365 11335 11837 11951 12937 14215 14918 15305
        15653 16034 16767 16895 17350 20775 23254 24586 24703 24718 25069 25106 27008 28427 28454 30150 30669 31421
        32445 32807 33123 37308 37618 41253 41427 41505 41525 42456 43385 44472 45778 46200 46812 48681 48755 49456
        49777 50232 50477 50655 52663 53901 55310 56121 56955 57345 57364 58071 59167 59234 59627 60166 60355 61458
        61524 61806 62445 64102 64125 64741 64742 65012 65375 65627 66462 66464 66954 70489 70715 72957 73891 75786
        75951 76194 76641 80531 81552 83113 83685 83834 84188 84207 84225 85110 85484 85927 87201 87863""",
    "L": """607 2242 3437 6888 7452 8967 9051 10087 10454 12873 12986 13865 13923 14362 14667 15846 18609 20504 21615
        22790 24053 25792 29066 29086 29772 31830 33840 35940 37039 37077 38053 38700 40098 40908 41202 41787 42061
        42916 45976 47305 48641 50098 50156 50982 52256 53522 53562 53822 54070 55779 58378 58806 58840 59013 61949
        63990 68971 69754 72047 73447 76242 76333 77269 79330 80451 81633 81752 81981 82519 85332""",
    "O": """1123 2670 2688 2863 3049 3329 3812 4250 5202 5240 6019 6176 6578 6948 8226 8275 8705 9327 10441 10697 11383
        11401 11848 14635 15494 16727 16818 18369 18537 19223 19295 20099 20124 20272 20652 21290 21468 21608 21801
        22704 22768 23084 23761 24949 25720 25799 26453 26508 26514 26552 26676 27925 27971 27984 28727 29838 29921
        29958 30138 30708 31563 31668 31905 32082 32087 32176 32485 32493 32609 32941 36218 36337 36514 36641 37550
        38309 39492 39798 39851 40153 40482 41567 41824 42251 42413 42487 43756 43857 44502 45483 46340 46737 47006
        48038 48809 49071 49464 49539 50112 51206 51365 51607 52099 53933 53962 53977 54853 55272 55330 56017 56556
        57233 58695 59030 59502 59634 61584 62054 62388 62654 63081 64187 64375 65082 66028 66200 66233 68089 68288
        68422 70153 70300 70309 70692 70949 70963 71046 72574 73094 73857 75739 75967 76184 77392 77813 78568 79121
        79329 80110 80831 81695 81781 82543 83419 83551 83902 84317 85534 85951 86141 86529 87459 87724 88163 88537""",
}


class CollinsSinger(NamedTuple):
    """Names as tuples of features.

    Attributes
    ----------
    train : list of tuple of str
        As in the file, with repetitions.
    rules : dict of feature -> class
    test : list of tuple of str
    gold : list of str
        Of the names of ``test``: L, O or P, or "?" for what is none of these.
    hand : dict of int -> class
        Lines of ``train`` whose classes were found by reading them.
    """

    train: list[tuple[str, ...]]
    rules: dict[str, str]
    test: list[tuple[str, ...]]
    gold: list[str]
    hand: dict[int, str]

    def seed_label(self, name: Iterable[str]) -> str | frozenset[str] | None:
        """What the rules say of a name: its class, None, or where they differ, the classes that it may have.

        Examples
        --------
        >>> data = CollinsSinger([], {"X2_Mr.": "P", "X2_Incorporated": "O"}, [], [], {})
        >>> data.seed_label(["X2_Mr.", "X2_Bush"]), data.seed_label(["X0_Exxon"])
        ('P', None)
        """
        found = frozenset(self.rules[feature] for feature in name if feature in self.rules)
        return (found if len(found) > 1 else next(iter(found))) if found else None

    def first(self, n_lines: int | None) -> CollinsSinger:
        """The same with only so many lines to train on, and the names among them that are labelled by hand."""
        if n_lines is None:
            return self
        hand = {line: label for line, label in self.hand.items() if line < n_lines}
        return self._replace(train=self.train[:n_lines], hand=hand)

    def seed_shares(self) -> dict[Any, float]:
        """The share of every class among the lines of ``train`` that have one by the rules."""
        labels = [label for name in self.train if isinstance(label := self.seed_label(name), str)]
        return {label: labels.count(label) / len(labels) for label in sorted({*labels})}


def read_collins_singer(data: Path | None) -> CollinsSinger:
    """Read the names; ``data`` is the folder that holds ``ner/collins-singer``, see `find_folder`.

    Raises
    ------
    InvalidInputError
        If a file is missing, a rule is not a class and a feature, or the names to test on do not fit their classes.
    """
    folder = find_folder(data, [TRAIN, RULES, TEST, GOLD], FOLDER)
    train, test = ([tuple(line.split()) for line in _lines(folder / file)] for file in (TRAIN, TEST))
    rules = {}
    for number, line in enumerate(_lines(folder / RULES), 1):
        fields = line.split()
        if len(fields) < 2 or fields[0] not in CLASSES:
            raise InvalidInputError(
                f"{folder / RULES}, line {number} must be one of the classes {', '.join(CLASSES)} and a feature, got "
                f"{line!r}"
            )
        rules[fields[1]] = fields[0]
    gold = [line.strip() for line in _lines(folder / GOLD)]
    if len(gold) != len(test):
        raise InvalidInputError(
            f"{GOLD} must have a class for each of the {len(test):,} names of {TEST}, got {len(gold):,}"
        )
    hand = {int(line): label for label, lines in _HAND_LABELLED.items() for line in lines.split()}
    known = {line: label for line, label in sorted(hand.items()) if line < len(train)}
    return CollinsSinger(train, rules, test, gold, known)


def views_of(names: Iterable[Sequence[str]]) -> dict[str, list[tuple[str, ...]]]:
    """The features of every name in every view.

    Examples
    --------
    >>> views_of([["X0_Mr.-Jackson", "X01_politician", "X2_Mr.", "XU_9", "X3_LEFT"]])
    {'spelling': [('X0_Mr.-Jackson', 'X2_Mr.')], 'context': [('X01_politician', 'X3_LEFT')]}
    """
    names = list(names)
    return {
        view: [tuple(feature for feature in name if feature.partition("_")[0] in prefixes) for name in names]
        for view, prefixes in PREFIXES.items()
    }


def distinct(names: Sequence[tuple[str, ...]]) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
    """Names without repetitions in the order of their first occurrence, and which of them each name is.

    Examples
    --------
    >>> kept, place = distinct([("a",), ("b",), ("a",)])
    >>> kept, place.tolist()
    ([('a',), ('b',)], [0, 1, 0])
    """
    number = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return list(number), np.array([number[name] for name in names], np.int64)


def _lines(path: Path) -> list[str]:
    return read_bytes(path).decode("utf-8").splitlines()
