"""From the 45 tags of the Penn Treebank to smaller tag sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from spectrem.exceptions import InvalidInputError

_COARSE_17 = {
    "ADJ": "JJ JJR JJS CD PRP$ $ #",
    "ADV": "RB RBR RBS",
    "CONJ": "CC",
    "DET": "DT PDT",
    "ENDPUNC": ".",
    "INPUNC": ", : LS SYM UH",
    "LPUNC": "`` -LRB-",
    "N": "NN NNS NNP NNPS PRP EX FW",
    "POS": "POS",
    "PREP": "IN",
    "PRT": "RP",
    "RPUNC": "'' -RRB-",
    "TO": "TO",
    "V": "MD VB VBD VBP VBZ",
    "VBG": "VBG",
    "VBN": "VBN",
    "W": "WDT WP WP$ WRB",
}
_UNIVERSAL = {
    "ADJ": "JJ JJR JJS",
    "ADP": "IN RP",
    "ADV": "RB RBR RBS WRB",
    "AUX": "MD",
    "CCONJ": "CC",
    "DET": "DT PDT",
    "INTJ": "UH",
    "NOUN": "NN NNS",
    "NUM": "CD LS",
    "PART": "POS TO",
    "PRON": "PRP PRP$ EX WDT WP WP$",
    "PROPN": "NNP NNPS",
    "PUNCT": ". , : `` '' -LRB- -RRB-",
    "SYM": "SYM $ #",
    "VERB": "VB VBD VBG VBN VBP VBZ",
    "X": "FW",
}


def _inverted(groups: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({fine: coarse for coarse, members in groups.items() for fine in members.split()})


PENN_TO_17: Mapping[str, str] = _inverted(_COARSE_17)
"""The 17 coarse tags on which [SmithEisner2005] and [Ganchev2010] §8.2 evaluate induction, by Penn tag."""

PENN_TO_UNIVERSAL: Mapping[str, str] = _inverted(_UNIVERSAL)
"""The universal tag (UPOS) that most words of a Penn tag have in English treebanks.

The Penn tag alone does not decide everything: auxiliaries ("is", "have") count as VERB, subordinators ("because") as
ADP, and "not" as ADV.
"""


STANDARD_TAGS = frozenset({*_COARSE_17, *_UNIVERSAL, *PENN_TO_UNIVERSAL, *PENN_TO_17, "SCONJ"})
"""The tags of Universal Dependencies and of the Penn Treebank, which rules may name though a text lacks them."""


def map_tags(tags: Iterable[Iterable[str | None]], table: Mapping[str, str]) -> list[list[str | None]]:
    """Replace every tag of tagged sentences by its coarser one; None stays.

    Parameters
    ----------
    tags : iterable of sentences of tags
    table : mapping of tag to tag
        Such as `PENN_TO_17`.

    Raises
    ------
    InvalidInputError
        If a tag is not in the table.

    Examples
    --------
    >>> map_tags([["DT", "NN", "VBZ"], ["PRP", None]], PENN_TO_17)
    [['DET', 'N', 'V'], ['N', None]]
    """
    try:
        return [[None if tag is None else table[tag] for tag in sentence] for sentence in tags]
    except KeyError as error:
        raise InvalidInputError(
            f"tag {error.args[0]!r} is not in the table, which knows {', '.join(sorted(table))}; add it to a copy"
        ) from None
