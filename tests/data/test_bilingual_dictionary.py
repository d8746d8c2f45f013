import gzip
import re

import pytest

from spectrem.data import read_dictionary
from spectrem.exceptions import InvalidInputError

TEXT = "House\tmaison\n\nhouse\tmaison\t2\r\nhouse\tchambre\t0.5\nhouse\tmaison\nice cream\tglace\n#\t#\t1e-3\n"


def test_translations_of_a_word_are_collected_with_the_largest_weight(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text(TEXT)
    rest = {"ice cream": {"glace": 1.0}, "#": {"#": 0.001}}
    assert read_dictionary(path) == {"House": {"maison": 1.0}, "house": {"maison": 2.0, "chambre": 0.5}, **rest}
    assert read_dictionary(path, lowercase=True) == {"house": {"maison": 2.0, "chambre": 0.5}, **rest}
    packed = tmp_path / "words.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    assert read_dictionary(packed) == read_dictionary(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\na b\n", "line 2: 'a b' has 1 fields between tabs; write source, a tab, target, and if you like a tab "),
        ("a\tb\t1\t2\n", "line 1: 'a\\tb\\t1\\t2' has 4 fields between tabs; write source, a tab, target"),
        ("\n\tb\n", "line 2: '\\tb' has no source word; write source, a tab, target"),
        ("a\t \t1\n", "line 1: 'a\\t \\t1' has no target word; write source, a tab, target"),
        ("a\tb\tmuch\n", "line 1: the weight 'much' must be a finite number above 0; leave it out for 1"),
        ("a\tb\t0\n", "line 1: the weight '0' must be a finite number above 0; leave it out for 1"),
        ("a\tb\tnan\n", "line 1: the weight 'nan' must be"),
        ("a\tb\tinf\n", "line 1: the weight 'inf' must be"),
    ],
)
def test_broken_lines_are_named(tmp_path, text, message):
    path = tmp_path / "words.tsv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=f"^{re.escape(f'{path}, {message}')}"):
        read_dictionary(path)
