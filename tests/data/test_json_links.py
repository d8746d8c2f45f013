"""Links read from JSON lines."""

import re

import pytest

from spectrem.data import Links, read_both_links, read_links, write_pharaoh
from spectrem.exceptions import InvalidInputError


@pytest.fixture
def links_file(tmp_path):
    def write(*lines):
        path = tmp_path / "links.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def refuses(path, message, *arguments):
    with pytest.raises(InvalidInputError, match=re.escape(f"{path}{message}")):
        read_links(path, *arguments)


def test_links_with_and_without_probabilities(links_file):
    path = links_file('{"links": [[1, 0, 0.9], [0, 2]]}', "", '{"source": ["a"], "target": [], "links": []}')
    assert read_links(path) == Links.from_pairs([[(0, 2), (1, 0)], []])
    assert read_links(path, 2).n_links == 2


def test_two_alignments_in_different_formats(links_file, tmp_path):
    path = links_file('{"links": [[0, 0]]}', '{"links": []}')
    links = read_links(path)
    write_pharaoh(tmp_path / "pharaoh", links)
    (tmp_path / "shared.wa").write_text("0001 1 1 S\n")
    assert read_both_links(path, tmp_path / "pharaoh") == (links, links)
    assert read_both_links(tmp_path / "shared.wa", path) == (links, links)


def test_bad_lines_are_named(links_file):
    refuses(links_file('{"links": [[0, 0]]}', "{"), ", line 2: is not JSON: Expecting property name")
    refuses(links_file('{"links": [[0, 0]]}', "0-0"), ", line 2: is not JSON")
    refuses(links_file('{"link": []}'), ', line 1: has no "links", a list of [i, j] or [i, j, probability] is needed')
    refuses(links_file('{"links": 3}'), ', line 1: holds a number as "links"')
    wrong = [
        "[0]",
        '["0", 0]',
        "[0.5, 0]",
        "[true, 0]",
        "3",
        "[0, 0, 0.5, 1]",
        "[0, 0, null]",
        "[0, 0, NaN]",
        "[0, 0, 2]",
    ]
    for link in wrong:
        refuses(links_file(f'{{"links": [{link}]}}'), ", line 1: ")
    refuses(links_file('{"links": [[0, -1]]}'), ", line 1: link [0, -1] lies outside its target of 262144 tokens")
    long = '{"source": ["a"], "target": ["b", "c"], "links": [[0, 1], [1, 0]]}'
    refuses(links_file(long), ", line 1: link [1, 0] lies outside its source of 1 tokens; count from 0")
    refuses(links_file('{"links": []}'), " has 1 JSON objects, but the bitext has 2 sentence pairs; give", 2)
