import dataclasses
import importlib

import numpy as np
import pytest

from spectrem.constraints import E, compile_constraints, part
from spectrem.testing.check_constraint import check_constraint

module = importlib.import_module("spectrem.testing.check_constraint")
VERBS = (E[part("tag") == "VERB"].between(0.5, 2)).per("sentence")


def broken(change):
    def compile_wrongly(constraint, structure, extra_columns=None):
        rows = compile_constraints(constraint, structure, extra_columns)
        return change(rows)

    return compile_wrongly


def with_block(rows, **changes):
    return dataclasses.replace(rows, blocks=(dataclasses.replace(rows.blocks[0], **changes),))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: dataclasses.replace(rows, matrix=rows.matrix * 2), "compiled to"),
        (lambda rows: dataclasses.replace(rows, bounds=rows.bounds + 1e-6), "compiled to"),
        (lambda rows: dataclasses.replace(rows, bounds=rows.bounds * np.nan), "a bound is not finite"),
        (lambda rows: dataclasses.replace(rows, matrix=rows.matrix[:, :-1]), "the matrix has shape"),
        (lambda rows: dataclasses.replace(rows, matrix=rows.matrix[::-1].tocsr()), "leaves instance"),
        (lambda rows: dataclasses.replace(rows, row_instance=rows.row_instance[::-1]), "leaves instance"),
        (lambda rows: with_block(rows, scope="corpus"), "of corpus scope names an instance"),
        (lambda rows: with_block(rows, slack_group=rows.blocks[0].slack_group * 2), "not numbered 0, 1"),
        (lambda rows: with_block(rows, stop=1), "the block does not cover the rows"),
        (lambda rows: with_block(rows, keys={"sentence": np.arange(5) + 7}), "by parts for"),
    ],
)
def test_a_wrong_row_is_found(sentences, monkeypatch, change, message):
    check_constraint(VERBS, sentences)
    monkeypatch.setattr(module, "compile_constraints", broken(change))
    with pytest.raises(AssertionError, match=message):
        check_constraint(VERBS, sentences)
