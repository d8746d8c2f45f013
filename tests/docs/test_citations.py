"""Keys of papers in docstrings become citations, and every key that the project writes is in the bibliography."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("pybtex", reason="the group docs is not installed")
ROOT = Path(__file__).parents[2]
KEYS = re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def citations():
    spec = importlib.util.spec_from_file_location("citations", ROOT / "docs" / "citations.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("line", "linked"),
    [
        ("by [Ganchev2010] §5.3.", "by :cite:p:`Ganchev2010` §5.3."),
        ("([Ganchev2010]), [UAX29]", "(:cite:p:`Ganchev2010`), :cite:p:`UAX29`"),
        ("trees [Chu1965; Edmonds1967]", "trees :cite:p:`Chu1965,Edmonds1967`"),
        (">>> find([Ganchev2010])", ">>> find([Ganchev2010])"),
        ("    ... [Ganchev2010]", "    ... [Ganchev2010]"),
        ("shape [n, 2] of x[0], E[label]", "shape [n, 2] of x[0], E[label]"),
        ("", ""),
    ],
)
def test_keys_become_citations(citations, line, linked):
    assert citations.link_citations([line], KEYS) == [linked]


def test_an_unknown_key_is_an_error(citations):
    with pytest.raises(ValueError, match=r"^\[Nobody1999\] is not in docs/references.bib: add Nobody1999 there"):
        citations.link_citations(["as in [Nobody1999]"], KEYS)
