"""The bibliography has every key that the project writes, once; this needs nothing of the site's packages."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_key_in_the_sources_is_in_the_bibliography():
    bibliography = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE)
    assert len(keys) == len(set(keys)) > 60
    files = [
        path for folder in ("src", "reproductions", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")
    ]
    cited = {
        key
        for path in files
        for group in re.findall(r"\[((?:[A-Z][A-Za-z]+\d{4}(?:; )?)+)\]", path.read_text(encoding="utf-8"))
        for key in group.split("; ")
    }
    assert len(cited) > 40
    assert cited <= set(keys)
