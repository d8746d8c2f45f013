"""The experiments of [Ganchev2010] §7, small, and what they are made of."""

import numpy as np
import pytest

from reproductions.transfer.parallel import ParallelText, lower_cased
from reproductions.transfer.parsers import bare_text, without_punctuation
from reproductions.transfer.pr_table8 import scores
from spectrem.data import Links, ParsedSentence


def sentence(words, heads=None):
    forms, upos = zip(*(word.split("/") for word in words.split()), strict=True)
    return ParsedSentence(forms, upos, ("_",) * len(forms), None if heads is None else np.array(heads))


QUOTED = sentence('"/PUNCT He/PRON fell/VERB down/ADV ./PUNCT', [2, 2, -1, 0, 2])


def test_words_on_punctuation_hang_on_what_is_above_it():
    bare, kept = without_punctuation(QUOTED)
    assert (bare.forms, bare.heads.tolist(), kept) == (("He", "fell", "down"), [1, -1, 1], [1, 2, 3])


def test_of_several_words_below_a_root_of_punctuation_the_first_is_the_root():
    bare, _ = without_punctuation(sentence("-/PUNCT one/NUM two/NUM", [-1, 0, 0]))
    assert bare.heads.tolist() == [-1, 0]


def test_links_follow_the_words_that_are_left():
    text = ParallelText([QUOTED, sentence("!/PUNCT")], [sentence("Cayó/VERB ,/PUNCT él/PRON"), sentence("!/PUNCT")],
                        Links.from_pairs([[(1, 2), (2, 0), (4, 1)], [(0, 0)]]))  # fmt: skip
    bare = bare_text(text)
    assert [own.forms for own in bare.target] == [("Cayó", "él")]
    assert bare.links.pairs(0) == [(0, 1), (1, 0)]
    assert text.take([1, 0]).links.pairs(1) == [(1, 2), (2, 0), (4, 1)]


def test_words_are_lower_cased_and_have_no_spaces():
    assert lower_cased([ParsedSentence(("10 000", "Años"), ("NUM", "NOUN"), ("Z", "N"))])[0].forms == ("10_000", "años")


def test_the_next_word_as_head_counts_no_punctuation():
    assert scores(None, [QUOTED]) == (pytest.approx(100 / 3, abs=0.01), pytest.approx(100 / 3, abs=0.01))


@pytest.mark.slow
def test_table8_compares_three_ways(reproduce, shared):
    printed, rows = reproduce("pr-table8", shared / "data")
    assert "Conserved arcs beat completed trees in every language, generative" in printed
    assert {(row["model"], row["method"]) for row in rows} == {
        ("head is next", "head is next"),
        *((m, w) for m in ("discriminative", "generative") for w in ("tags only", "completed trees", "conserved arcs")),
    }
    assert {row["part"] for row in rows} == {"dev"}


def test_fig10_projection_raises_the_probability_of_conserved_arcs(reproduce, shared):
    printed, rows = reproduce("pr-fig10", shared / "data")
    assert "Words (%) that are expected to have" in printed
    conserved = [row for row in rows if row["conserved"] == "True"]
    assert conserved
    assert np.mean([float(row["after"]) for row in conserved]) >= 0.89
