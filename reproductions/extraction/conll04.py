"""CoNLL04 ([RothYih2004]) as the experiments use it: its sentences with a relation, each once."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from reproductions.places import find_folder
from spectrem.constraints import AllOf, argument_types
from spectrem.data import RelationSentence, read_relations

FILE = "conll04.corp.gz"
TYPES = ("Loc", "Org", "Other", "Peop")
ARGUMENTS = {
    "Kill": ("Peop", "Peop"),
    "Live_In": ("Peop", "Loc"),
    "Located_In": ("Loc", "Loc"),
    "OrgBased_In": ("Org", "Loc"),
    "Work_For": ("Peop", "Org"),
}
"""What every relation wants of its arguments; all relations of the corpus obey it."""
RELATIONS = tuple(ARGUMENTS)


def type_rules() -> AllOf:
    """The types of `ARGUMENTS` as constraints."""
    return argument_types(dict(ARGUMENTS.items()))


def read_sentences(data: str | os.PathLike[str] | None = None) -> tuple[list[RelationSentence], int]:
    """Sentences with a relation, without copies of earlier ones, and how many were left out.

    Of sentences that are alike but for capitals, digits and punctuation, the first is kept.
    """
    found: dict[tuple[str, ...], RelationSentence] = {}
    n = 0
    for sentence in read_relations(find_folder(data, [FILE], "relations") / FILE):
        if sentence.relations:
            n += 1
            found.setdefault(tuple(word.lower() for word in sentence.words if word.isalpha()), sentence)
    return list(found.values()), n - len(found)


def split(
    sentences: Sequence[RelationSentence], share: float, draw: int
) -> tuple[list[RelationSentence], list[RelationSentence], list[RelationSentence]]:
    """Test sentences, a fifth of all; labelled ones, this share of all; and the others."""
    order = np.random.default_rng(draw).permutation(len(sentences)).tolist()
    n_test, n_labelled = len(order) // 5, round(share * len(order))
    shuffled = [sentences[number] for number in order]
    return shuffled[:n_test], shuffled[n_test : n_test + n_labelled], shuffled[n_test + n_labelled :]
