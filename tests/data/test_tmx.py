"""Translation memories: which texts are read, and what is said of files that are wrong."""

import gzip
import re

import pytest

from spectrem.data.tmx import TranslationMemory
from spectrem.exceptions import InvalidInputError

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header{}/><body>\n'
)


def unit(**texts):
    variants = (f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{text}</seg></tuv>' for code, text in texts.items())
    return f"<tu>{''.join(variants)}</tu>\n"


def memory_of(*units, header=""):
    return HEAD.format(header) + "".join(units) + "</body></tmx>"


@pytest.fixture
def tmx(tmp_path):
    def write(content, name="m.tmx"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def pairs_of(path, languages=None):
    return list(TranslationMemory(path, languages))


def refuses(path, message, languages=None):
    with pytest.raises(InvalidInputError, match=re.escape(f"{path}{message}")):
        pairs_of(path, languages)


def test_entities_are_read_and_codes_of_other_programs_are_not(tmx):
    source = "a &amp; b &lt;x&gt; &#233;<ph x='1'>{1}</ph> c"
    target = 'd<bpt i="1">&lt;b&gt;<sub>s</sub></bpt> <hi type="t">e <it>/</it>f</hi><ept i="1">&lt;/b&gt;</ept> g'
    path = tmx(memory_of(unit(en=source, fr=target)))
    assert pairs_of(path) == [("a & b <x> \xe9 c", "d e f g")]


def test_line_ends_inside_are_spaces(tmx):
    assert pairs_of(tmx(memory_of(unit(en="a\nb\r\nc&#13;d", fr=" e ")))) == [("a b c d", " e ")]


def test_units_without_both_texts_are_skipped_and_counted(tmx):
    path = tmx(memory_of(unit(en="only"), unit(en="a", fr="b"), unit(en=" ", fr="c"), unit(fr="d"), "<tu/>"))
    memory = TranslationMemory(path)
    assert list(memory) == [("a", "b")]
    assert memory.n_skipped == 4
    assert list(memory) == [("a", "b")]  # once more from the start
    assert memory.n_skipped == 4


def test_the_source_is_the_language_of_the_header_else_the_first(tmx):
    units = unit(en_US="a", fr_CA="b"), unit(fr_CA="c", en_US="d")
    assert pairs_of(tmx(memory_of(*units))) == [("a", "b"), ("d", "c")]
    assert pairs_of(tmx(memory_of(*units, header=' srclang="FR"'))) == [("b", "a"), ("c", "d")]
    assert pairs_of(tmx(memory_of(*units, header=' srclang="*all*"'))) == [("a", "b"), ("d", "c")]


def test_languages_are_chosen_by_their_codes_or_beginnings(tmx):
    path = tmx(memory_of(unit(en_US="a", en_GB="b", fr="c"), unit(en_GB="d", fr="e"), unit(EN="f", fr="g")))
    assert pairs_of(path, ["fr", "en"]) == [("c", "a"), ("e", "d"), ("g", "f")]
    assert pairs_of(path, ["en-gb", "FR"]) == [("b", "c"), ("d", "e")]
    assert pairs_of(path, ["en-us", "en-gb"]) == [("a", "b")]


def test_the_first_of_two_texts_in_a_language_counts(tmx):
    variants = "".join(
        f"<tuv lang='{code}'><seg>{text}</seg></tuv>" for code, text in [("en", 1), ("en", 2), ("fr", 3)]
    )
    assert pairs_of(tmx(memory_of(f"<tu>{variants}</tu>"))) == [("1", "3")]


def test_names_with_a_namespace_and_other_encodings(tmx):
    content = memory_of(unit(en="\xe9", fr="\xfc"))
    assert pairs_of(tmx(content.replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" '))) == [("\xe9", "\xfc")]
    assert pairs_of(tmx(content.replace("UTF-8", "UTF-16").encode("utf-16"))) == [("\xe9", "\xfc")]
    assert pairs_of(tmx(content.replace("UTF-8", "ISO-8859-1").encode("latin1"))) == [("\xe9", "\xfc")]
    assert pairs_of(tmx(gzip.compress(content.encode()), "m.tmx.gz")) == [("\xe9", "\xfc")]


def test_many_units_are_not_kept(tmx):
    path = tmx(memory_of(*(unit(en=f"a{n}", fr=f"b{n}") for n in range(500))))
    assert pairs_of(path) == [(f"a{n}", f"b{n}") for n in range(500)]


def test_damaged_xml_is_named_by_line_and_column(tmx):
    whole = memory_of(unit(en="a", fr="b"))
    refuses(
        tmx(whole.replace("</seg>", "</sag>", 1)), ", line 4, column 32: the XML is damaged: mismatched tag; repair"
    )
    refuses(tmx(whole[:-13]), ", line 5, column 1: the XML is damaged: the file ends before its last element does")
    refuses(tmx(memory_of(unit(en="&eacute;", fr="b"))), ", line 4, column 29: the XML is damaged: undefined entity")
    refuses(tmx("hello"), ", line 1, column 1: the XML is damaged: syntax error")
    refuses(tmx(whole.replace("UTF-8", "klingon")), ", line 1: unknown encoding: klingon; convert the file to UTF-8")
    refuses(tmx(gzip.compress(whole.encode())[:-9]), ": damaged gzip file")


def test_entities_that_explode_are_refused(tmx):
    entities = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    document = f'<!DOCTYPE tmx [<!ENTITY a0 "aaaaaaaaaa">{entities}]><tmx><body>{unit(en="&a9;", fr="b")}</body></tmx>'
    refuses(tmx(document), ", line 1, column ")


def test_files_that_are_something_else_are_named(tmx, tmp_path):
    refuses(tmx(""), " is empty; give a file of at least one translation unit")
    refuses(tmx("<html/>"), ": this is XML, but its first element is <html>, not <tmx>; check which file it is")
    refuses(tmx(memory_of()), ": holds no translation units (<tu>); check which file it is")
    refuses(tmp_path / "no.tmx", ": no such file; check the path")
    refuses(tmp_path, ": cannot be read: Is a directory")


def test_languages_that_are_missing_or_too_many_are_named(tmx):
    path = tmx(memory_of(unit(en="a", fr="b"), unit(de="c", fr="d")))
    said = ", translation unit 2: the file holds more than two languages (en, fr, de); say which by --languages en,fr"
    refuses(path, said)
    refuses(
        path,
        ": has no text in language 'fra'; did you mean 'fr'? its 2 translation units have en, fr, de",
        ["en", "fra"],
    )
    refuses(path, ": no translation unit has a text in both languages; its 2 translation units have", ["en", "de"])
    refuses(
        tmx(memory_of(unit(en="a"))),
        ": no translation unit has a text in both languages; its 1 translation unit has en",
    )
    with pytest.raises(InvalidInputError, match="languages must be two different ones, got 'en' twice; name both"):
        TranslationMemory(path, ["en", "EN"])
