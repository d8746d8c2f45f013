"""A stand-in for structures: constraints only look at shapes and columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FakeStructure:
    n_instances: int
    instance: np.ndarray
    columns: dict
    instance_name = "sentence"

    def missing(self, name):
        return self.columns[name] == -1 if name in ("source", "target", "state") else None

    @property
    def n_unary(self):
        return len(self.instance)

    @property
    def choice(self):
        return self.columns.get("occurrence", np.arange(self.n_unary))


def tagging(lengths=(3, 2, 0, 1), tags=("NOUN", "VERB", "ADJ")):
    """Every token may have every tag, but the last sentence knows no VERB."""
    rows = []
    occurrence = 0
    for sentence, length in enumerate(lengths):
        for token in range(length):
            allowed = [tag for tag in tags if tag != "VERB" or sentence != len(lengths) - 1]
            rows += [(sentence, token, occurrence, tag) for tag in allowed]
            occurrence += 1
    columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0, int)] * 3 + [np.zeros(0, "U4")]
    return FakeStructure(
        len(lengths), columns[0], dict(zip(("sentence", "token", "occurrence", "tag"), columns, strict=True))
    )


def alignment(source_lengths, target_lengths, direction):
    """The parts of one direction: every word of the one side chooses a word of the other or NULL."""
    rows = []
    for sentence, (n_source, n_target) in enumerate(zip(source_lengths, target_lengths, strict=True)):
        choosing, chosen = (n_target, n_source) if direction == "forward" else (n_source, n_target)
        for j in range(choosing):
            for i in [*range(chosen), -1]:
                source, target = (i, j) if direction == "forward" else (j, i)
                rows.append((sentence, source, target, i))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    names = ("sentence", "source", "target", "state")
    return dict(zip(names, columns, strict=True)) | {"direction": np.full(len(rows), direction)}


def both_directions(source_lengths=(2, 1, 3), target_lengths=(1, 2, 2)):
    one = alignment(source_lengths, target_lengths, "forward")
    other = alignment(source_lengths, target_lengths, "backward")
    columns = {name: np.concatenate([one[name], other[name]]) for name in one}
    return FakeStructure(len(source_lengths), columns["sentence"], columns)
