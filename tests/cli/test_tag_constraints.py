"""The small language of `spectrem tag train --constraint`."""

import re

import pytest

from spectrem.cli.tag_constraints import check_tags, read_constraint
from spectrem.exceptions import InvalidInputError


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("VERB >= 1", '(E[part("tag") == "VERB"] >= 1).per("sentence").named("VERB >= 1")'),
        ("VBD VBZ<=2.5", '(E[part("tag").isin(["VBD", "VBZ"])] <= 2.5).per("sentence").named("VBD VBZ <= 2.5")'),
        (" . = 1 ", '(E[part("tag") == "."] == 1).per("sentence").named(". = 1")'),
        (
            "NOUN >= 20 %",
            '(E[part("tag") == "NOUN"] >= 0.2 * E.count(..., each="occurrence")).named("NOUN >= 20%")',
        ),
        (", = 5%", '(E[part("tag") == ","] == 0.05 * E.count(..., each="occurrence")).named(", = 5%")'),
    ],
)
def test_bounds(text, meaning):
    assert repr(read_constraint(text)) == meaning


def test_sparsity():
    from spectrem.constraints import sparsity

    assert repr(read_constraint("sparsity 32")) == repr(sparsity(32.0, min_count=1))
    assert repr(read_constraint(" sparsity  1e1 10")) == repr(sparsity(10.0, min_count=10))


@pytest.mark.parametrize(
    "text", ["", "VERB", "VERB > 1", ">= 1", "VERB >= many", "sparsity", "VERB >= -1", "VERB >= 1 NOUN"]
)
def test_what_is_not_understood(text):
    message = f"--constraint {text!r} is not understood; write 'VERB >= 1' (in every sentence), 'NOUN <= 30%' (of all"
    with pytest.raises(InvalidInputError, match=f"^{re.escape(message)}"):
        read_constraint(text)


def test_tags_must_exist():
    check_tags(["VERB NOUN >= 1", "sparsity 3"], {"VERB", "NOUN"})
    message = "--constraint 'VERB ADJ >= 1': there is no tag 'ADJ'; the tags are NOUN, VERB"
    with pytest.raises(InvalidInputError, match=f"^{re.escape(message)}$"):
        check_tags(["VERB >= 1", "VERB ADJ >= 1"], {"VERB", "NOUN"})
