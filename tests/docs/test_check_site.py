"""The check of the built site notices every fault that it is for, and nothing else."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("check_site", Path(__file__).parents[2] / "docs" / "check_site.py")
check_site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_site)

OTHER = '<p id="there">text</p><p id="ö">text</p>'


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="sub/other.html">x</a><a href="sub/other.html#there">x</a><a href="#here">x</a><i id="here">', None),
        ('<a href="sub/other.html#%C3%B6">x</a><a href="https://example.org/a#b">x</a><a href="">x</a>', None),
        ('<a href="sub/">x</a>', "index.html: sub/ leads nowhere"),
        ('<img src="picture.png" alt="Two curves">', None),
        ('<img src="picture.png">', "index.html: the picture picture.png has no text (alt)"),
        ('<img src="picture.png" alt=" ">', "index.html: the picture picture.png has no text (alt)"),
        ('<img src="lost.png" alt="Two curves">', "index.html: lost.png leads nowhere"),
        ('<a href="lost.html">x</a>', "index.html: lost.html leads nowhere"),
        ('<a href="sub/other.html#lost">x</a>', "index.html: sub/other.html#lost: there is no such place on that page"),
        ('<a href="#lost">x</a>', "index.html: #lost: there is no such place on that page"),
        ('<a href="https:///a">x</a>', "index.html: https:///a is not a link"),
        ('<a href="htp://example.org">x</a>', "index.html: htp://example.org is not a link"),
        ("x" * 1_000_001, "index.html: 1,000,001 bytes, more than 1,000,000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_faults(tmp_path, page, fault):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.html").write_text(OTHER, encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"")
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    assert check_site.faults(tmp_path) == ([] if fault is None else [fault])


def test_a_figure_that_does_not_load_at_once_is_a_fault(tmp_path):
    (tmp_path / "figure.svg").write_text("x" * 150_000)
    assert check_site.faults(tmp_path) == []
    (tmp_path / "figure.svg").write_text("x" * 150_001)
    assert check_site.faults(tmp_path) == ["figure.svg: 150,001 bytes, more than 150,000"]
