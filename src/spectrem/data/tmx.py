"""Translation memories: TMX files, read pair by pair and written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import BinaryIO, TextIO
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from spectrem._reprs import brief_dataclass
from spectrem.data.files import display_name, opened
from spectrem.exceptions import InvalidInputError, did_you_mean

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# Elements inside a segment whose content is code of another program; that of <hi> is text.
_CODES = frozenset(["bpt", "ept", "it", "ph", "ut", "sub"])


@brief_dataclass()
class TranslationMemory:
    """The pairs of segments in two languages of a TMX file, as an iterator goes through it.

    Parameters
    ----------
    path : path
        Plain or gzipped, in any encoding that XML knows.
    languages : (source, target), optional
        Codes as the file has them ("en-GB"), or their beginnings ("en"), in capitals or not. Without them the file must
        have two languages; that of ``srclang`` in its header, else the one that comes first, is the source.

    Attributes
    ----------
    n_skipped : int
        Translation units so far without a text in both languages.

    Examples
    --------
    >>> import tempfile
    >>> from spectrem.data import write_lines
    >>> unit = "<tu><tuv xml:lang='en'><seg>a <ph>x</ph>tree</seg></tuv><tuv xml:lang='fr'><seg>arbre</seg></tuv></tu>"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_lines(f"{folder}/trees.tmx", [f"<tmx><body>{unit}<tu/></body></tmx>"])
    ...     memory = TranslationMemory(f"{folder}/trees.tmx")
    ...     list(memory), memory.n_skipped
    ([('a tree', 'arbre')], 1)
    """

    path: str | os.PathLike[str]
    languages: Sequence[str] | None = None
    n_skipped: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.name = display_name(self.path)
        if self.languages is not None:
            source, target = (code.lower() for code in self.languages)
            if source == target:
                raise InvalidInputError(f"languages must be two different ones, got {source!r} twice; name both")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Source and target text of one unit after another; line ends inside are spaces.

        Raises
        ------
        InvalidInputError
            Naming the file, and line and column where the XML is wrong: no such file, not XML, not TMX, without the
            languages, with more than two and none chosen.
        """
        self.n_skipped = 0
        wanted = [code.lower() for code in self.languages] if self.languages is not None else None
        header_language, met, n_units, n_pairs = "", dict[str, None](), 0, 0
        with _named_errors(self.path, self.name) as stream:
            stack: list[ElementTree.Element] = []
            for event, element in ElementTree.iterparse(stream, ("start", "end")):
                tag = _local(element.tag)
                if event == "start":
                    if not stack and tag != "tmx":
                        raise InvalidInputError(
                            f"{self.name}: this is XML, but its first element is <{tag}>, not <tmx>; check which file "
                            "it is"
                        )
                    if tag == "header":
                        header_language = element.get("srclang", "").lower()
                    stack.append(element)
                    continue
                stack.pop()
                if tag != "tu":
                    continue
                n_units += 1
                texts: dict[str, str] = {}
                for code, text in _texts(element):
                    texts.setdefault(code, text)
                met.update(dict.fromkeys(texts))
                if self.languages is None:
                    self._check_two(met, n_units)
                    wanted = wanted or (_ordered(list(met), header_language) if len(met) == 2 else None)
                pair = [_chosen(texts, code) for code in wanted or ()]
                if pair and all(map(str.strip, pair)):
                    n_pairs += 1
                    yield pair[0], pair[1]
                else:
                    self.n_skipped += 1
                stack[-1].clear()  # what was read is kept no longer
        if not n_pairs:
            self._refuse_empty(wanted if self.languages is not None else None, list(met), n_units)

    def _check_two(self, met: dict[str, None], n_units: int) -> None:
        if len(met) > 2:
            first, second, *_ = met
            raise InvalidInputError(
                f"{self.name}, translation unit {n_units}: the file holds more than two languages "
                f"({', '.join(met)}); say which by --languages {first},{second} (in Python: languages=)"
            )

    def _refuse_empty(self, wanted: list[str] | None, met: list[str], n_units: int) -> None:
        units = "1 translation unit has" if n_units == 1 else f"{n_units} translation units have"
        there = f"its {units} {', '.join(met) or 'no language'}"
        if not n_units:
            raise InvalidInputError(f"{self.name}: holds no translation units (<tu>); check which file it is")
        for code in wanted or ():
            if not any(_matches(known, code) for known in met):
                raise InvalidInputError(
                    f"{self.name}: has no text in language {code!r}; {did_you_mean(code, met)}{there}; choose two of "
                    "them"
                )
        raise InvalidInputError(
            f"{self.name}: no translation unit has a text in both languages; {there}; check the file or --languages"
        )


def _local(tag: str) -> str:
    return tag.rpartition("}")[2].lower()


def _texts(unit: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """Language and text of every variant of a unit."""
    for variant in unit:
        code = variant.get(_LANGUAGE) or variant.get("lang")
        if _local(variant.tag) != "tuv" or code is None:
            continue
        for segment in variant:
            if _local(segment.tag) == "seg":
                yield code.lower(), "".join(_text(segment)).replace("\n", " ").replace("\r", " ")
                break


def _text(element: ElementTree.Element) -> Iterator[str]:
    """The readable text of a segment, without the codes of other programs."""
    yield element.text or ""
    for inner in element:
        if _local(inner.tag) not in _CODES:
            yield from _text(inner)
        yield inner.tail or ""


def _matches(known: str, code: str) -> bool:
    return known == code or known.startswith((f"{code}-", f"{code}_"))


def _chosen(texts: dict[str, str], code: str) -> str:
    """The text in a language, first one of exactly this code."""
    if code in texts:
        return texts[code]
    return next((text for known, text in texts.items() if _matches(known, code)), "")


def _ordered(two: list[str], header_language: str) -> list[str]:
    """The language of the header first, if it is one of both."""
    is_second = header_language and _matches(two[1], header_language) and not _matches(two[0], header_language)
    return two[::-1] if is_second else two


@contextmanager
def _named_errors(path: str | os.PathLike[str], name: str) -> Iterator[BinaryIO]:
    """The file opened, unzipped if it is gzipped; errors of its XML name it."""
    try:
        with opened(path) as stream:
            yield stream
    except ElementTree.ParseError as error:
        line, column = error.position
        reason = expat.ErrorString(error.code)
        if reason == "no element found":
            if (line, column) == (1, 0):
                raise InvalidInputError(f"{name} is empty; give a file of at least one translation unit") from None
            reason = "the file ends before its last element does"
        raise InvalidInputError(
            f"{name}, line {line}, column {column + 1}: the XML is damaged: {reason}; repair the file there, or export "
            "it again"
        ) from None
    except LookupError as error:  # expat asks Python for encodings that it does not know
        raise InvalidInputError(f"{name}, line 1: {error}; convert the file to UTF-8 and say so in that line") from None


# Characters that no XML may hold.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@contextmanager
def tmx_units(stream: TextIO, languages: Sequence[str]) -> Iterator[Callable[[str, str, float], None]]:
    """Write a translation memory, which `TranslationMemory` reads and translators' tools import.

    The block gets a function that writes a unit of source text, target text and score. The score stands in a property,
    ``<prop type="score">``, in four significant digits, unless it is NaN. Characters that XML cannot hold, such as
    form feeds, become spaces.

    Parameters
    ----------
    stream : TextIO
    languages : (source, target)
        Their codes, such as "en" and "pt-BR".

    Examples
    --------
    >>> import sys
    >>> with tmx_units(sys.stdout, ["en", "fr"]) as write:
    ...     write("R&D", "R et D", 0.5)
    <?xml version="1.0" encoding="UTF-8"?>
    <tmx version="1.4">
    <header creationtool="spectrem" creationtoolversion="1" segtype="sentence" o-tmf="text" adminlang="en"
     datatype="plaintext" srclang="en"/>
    <body>
    <tu><prop type="score">0.5</prop>
    <tuv xml:lang="en"><seg>R&amp;D</seg></tuv>
    <tuv xml:lang="fr"><seg>R et D</seg></tuv>
    </tu>
    </body>
    </tmx>
    """
    codes = [quoteattr(code) for code in languages]
    stream.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header creationtool="spectrem" '
        'creationtoolversion="1" segtype="sentence" o-tmf="text" adminlang="en"\n datatype="plaintext" '
        f"srclang={codes[0]}/>\n<body>\n"
    )

    def write(source: str, target: str, score: float) -> None:
        variants = (
            f"<tuv xml:lang={code}><seg>{escape(_FORBIDDEN.sub(' ', text))}</seg></tuv>\n"
            for code, text in zip(codes, (source, target), strict=True)
        )
        known = f'<prop type="score">{score:.4g}</prop>' if score == score else ""
        stream.write(f"<tu>{known}\n{''.join(variants)}</tu>\n")

    yield write
    stream.write("</body>\n</tmx>\n")
