"""Parallel text, aligned and tagged by what the project itself learns.

Everything is lower-cased, as the bitexts are, but for those of PUD. Universal tags only.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reproductions.places import find_folder
from reproductions.treebanks import read_ud
from spectrem import CRFTagger, WordAligner
from spectrem.data import Links, ParsedSentence, one_to_one
from spectrem.exceptions import InvalidInputError

Words = tuple[str, ...]
CONTRACTIONS = {"es": {"al": ("a", "el"), "del": ("de", "el")}}
"""Words that treebanks of a language part in two, as multiword tokens, and bitexts do not."""


class Language(NamedTuple):
    """Where the text of a language stands.

    Attributes
    ----------
    bitexts : tuple of str
        Folders of bitexts with English, or ``pud``.
    tags : (str, str) or None
        The part of a treebank whose tags the tagger learns; None where there is none but that of the bitext, whose own
        tags are taken.
    dev, test : (str, str)
        Parts of treebanks whose trees parsers are compared on.
    """

    bitexts: tuple[str, ...]
    tags: tuple[str, str] | None
    dev: tuple[str, str]
    test: tuple[str, str]


LANGUAGES = {
    "bg": Language(("tatoeba",), ("bg_btb", "dev"), ("bg_btb", "dev"), ("bg_btb", "test")),
    "es": Language(("europarl", "pud"), ("es_gsd", "dev"), ("es_gsd", "dev"), ("es_gsd", "test")),
    "pt": Language(("pud",), ("pt_bosque", "train"), ("pt_bosque", "dev"), ("pt_bosque", "test")),
    "de": Language(("pud",), None, ("de_pud", "test"), ("de_pud", "test")),
}
"""German has no trees but those of the bitext itself, which are looked at in no training; so it has no dev part."""


class ParallelText(NamedTuple):
    """Sentence pairs with tags, and the links of words that have one counterpart each; English is the source."""

    source: list[ParsedSentence]
    target: list[ParsedSentence]
    links: Links

    def take(self, numbers: Sequence[int]) -> ParallelText:
        """Some of the pairs, in this order."""
        links = Links.from_pairs([self.links.pairs(n) for n in numbers])
        return ParallelText([self.source[n] for n in numbers], [self.target[n] for n in numbers], links)


def lower_cased(sentences: Sequence[ParsedSentence]) -> list[ParsedSentence]:
    """Sentences as those of the bitexts: words in lower case and without spaces; only universal tags, no relations."""
    return [
        sentence._replace(forms=_plain(sentence.forms), xpos=("_",) * len(sentence.forms), relations=None)
        for sentence in sentences
    ]


def train_tagger(sentences: Sequence[ParsedSentence], threads: int | None = None) -> CRFTagger:
    """A tagger of lower-cased words with universal tags."""
    words = [list(_plain(sentence.forms)) for sentence in sentences]
    return CRFTagger("words", C=1.0, min_count=2, n_threads=threads).fit(words, [list(own.upos) for own in sentences])


def read_parallel(
    data: str | os.PathLike[str] | None,
    language: str,
    source_tagger: CRFTagger,
    target_tagger: CRFTagger | None,
    *,
    shortest: int = 4,
    longest: int = 25,
    most: int | None = None,
    threads: int | None = None,
) -> ParallelText:
    """All bitexts of a language, aligned together, in their order; then pairs of some lengths are kept and tagged.

    Parameters
    ----------
    data : path, optional
        The folder that holds ``align`` and ``ud``.
    language : str
        One of `LANGUAGES`.
    source_tagger, target_tagger : CRFTagger
        None for the tags that the bitext has.
    shortest, longest : int
        Words of both sentences: shorter ones are fragments, as [Ganchev2010] left out, longer ones take long.
    most : int, optional
        Aligned pairs at most.
    threads : int, optional
        Results do not depend on it.
    """
    if language not in LANGUAGES:
        raise InvalidInputError(f"languages must be among {', '.join(LANGUAGES)}, got {language!r}")
    pairs: list[tuple[ParsedSentence, ParsedSentence]] = []
    for bitext in LANGUAGES[language].bitexts:
        pairs += _read_pud(data, language) if bitext == "pud" else _read_lines(data, bitext, language)
    pairs = [pair for pair in pairs if all(pair[side].forms for side in (0, 1))][:most]
    source, target = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    text = ParallelText(source, target, align(source, target, threads)).take(
        [n for n, pair in enumerate(pairs) if all(shortest <= len(own.forms) <= longest for own in pair)]
    )
    tagged = text.target if target_tagger is None else _tagged(target_tagger, text.target)
    return text._replace(source=_tagged(source_tagger, text.source), target=tagged)


def align(source: Sequence[ParsedSentence], target: Sequence[ParsedSentence], threads: int | None = None) -> Links:
    """Links of words that have one counterpart each, where the best alignments of both directions meet."""
    lines = [[" ".join(own.forms) for own in side] for side in (source, target)]
    aligner = WordAligner(decode="intersection", n_threads=threads).fit(*lines)
    return one_to_one(aligner.predict(*lines))


def _read_pud(data: str | os.PathLike[str] | None, language: str) -> list[tuple[ParsedSentence, ParsedSentence]]:
    """The same sentences in English and another language, without their trees."""
    sides = [lower_cased(read_ud(data, f"{name}_pud", "test")) for name in ("en", language)]
    bare = [[sentence._replace(heads=None) for sentence in own] for own in sides]
    return list(zip(*bare, strict=True))


def _read_lines(
    data: str | os.PathLike[str] | None, bitext: str, language: str
) -> list[tuple[ParsedSentence, ParsedSentence]]:
    """A bitext of lower-cased lines; of pairs that occur several times the first."""
    files = [f"align/{bitext}-en{language}/train.{ending}.gz" for ending in ("en", language)]
    folder = find_folder(data, files)
    sides = [
        _lines(folder / file, CONTRACTIONS.get(side, {})) for file, side in zip(files, ("en", language), strict=True)
    ]
    return list(dict.fromkeys(zip(*sides, strict=True)))


def _lines(path: Path, contractions: Mapping[str, Words]) -> list[ParsedSentence]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        lines = [_plain(line.split()) for line in stream]
    words = [tuple(part for word in line for part in contractions.get(word, (word,))) for line in lines]
    return [ParsedSentence(own, ("_",) * len(own), ("_",) * len(own)) for own in words]


def _tagged(tagger: CRFTagger, sentences: Sequence[ParsedSentence]) -> list[ParsedSentence]:
    tags = tagger.predict([list(sentence.forms) for sentence in sentences])
    return [sentence._replace(upos=tuple(map(str, own))) for sentence, own in zip(sentences, tags, strict=True)]


def _plain(words: Sequence[str]) -> Words:
    return tuple(word.lower().replace(" ", "_").replace("\u00a0", "_") for word in words)
