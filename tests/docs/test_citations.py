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


def test_entries_are_called_by_their_keys_and_have_volume_and_number(citations):
    from pybtex.backends.plaintext import Backend
    from pybtex.database import parse_file

    entries = parse_file(ROOT / "docs" / "references.bib").entries
    formatted = citations.ByKey().format_bibliography(parse_file(ROOT / "docs" / "references.bib"), list(entries))
    texts = {entry.key: (entry.label, entry.text.render(Backend())) for entry in formatted}
    label, text = texts["Amari1998"]
    assert (label, text) == (
        "Amari1998",
        "S. Amari. Natural gradient works efficiently in learning. Neural Computation 10(2), 1998.",
    )
    assert texts.keys() == entries.keys()
