"""Keys of papers in docstrings as links: ``[Samdani2012] eq. 12`` leads to that paper on the page of references."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from pybtex.style.formatting import toplevel
from pybtex.style.formatting.unsrt import Style
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.template import field, join, optional, sentence, tag

_CITED = re.compile(r"\[([A-Z][A-Za-z]+\d{2,4}(?:; ?[A-Z][A-Za-z]+\d{2,4})*)\](?!_)")


def link_citations(lines: list[str], known: Collection[str]) -> list[str]:
    """The lines of a docstring, with every ``[Key]`` and ``[Key1; Key2]`` outside examples made a citation.

    Parameters
    ----------
    lines : list of str
        The lines of a docstring.
    known : collection of str
        The keys of the bibliography.

    Returns
    -------
    list of str
        As many lines.

    Raises
    ------
    ValueError
        If a key is not in the bibliography.
    """

    def cite(match: re.Match[str]) -> str:
        keys = match[1].replace(" ", "").split(";")
        for key in keys:
            if key not in known:
                raise ValueError(f"{match[0]} is not in docs/references.bib: add {key} there, or correct the key")
        return f":cite:p:`{','.join(keys)}`"

    return [line if line.lstrip().startswith((">>>", "...")) else _CITED.sub(cite, line) for line in lines]


class _KeyLabels(BaseLabelStyle):
    def format_labels(self, sorted_entries: Any) -> list[str]:
        return [entry.key for entry in sorted_entries]


class ByKey(Style):
    """A style of bibliographies that calls papers by their keys, as docstrings do."""

    default_label_style = _KeyLabels
    default_sorting_style = "author_year_title"

    def get_article_template(self, entry: Any) -> Any:
        """An article in a journal, by volume and number; the pages of papers are not kept."""
        volume = join[field("volume"), optional["(", field("number"), ")"]]
        place = join(sep=" ")[tag("em")[field("journal")], optional[volume]]
        return toplevel[self.format_names("author"), self.format_title(entry, "title"), sentence[place, field("year")]]
