from collections import Counter
from itertools import chain

import pytest

from spectrem.data import PENN_TO_17, PENN_TO_UNIVERSAL, map_tags, read_tagged
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import tag_entropy


def test_both_tables_know_the_45_penn_tags():
    assert len(PENN_TO_17) == 45
    assert set(PENN_TO_17) == set(PENN_TO_UNIVERSAL)
    assert len(set(PENN_TO_17.values())) == 17
    groups = [list(table.values()) for table in (PENN_TO_17, PENN_TO_UNIVERSAL)]
    # nouns; verbs without participles; every verb
    assert (groups[0].count("N"), groups[0].count("V"), groups[1].count("VERB")) == (7, 5, 6)
    assert (PENN_TO_17["IN"], PENN_TO_17["NNP"], PENN_TO_UNIVERSAL["NNP"]) == ("PREP", "N", "PROPN")


def test_tables_cannot_be_changed():
    with pytest.raises(TypeError):
        PENN_TO_17["NN"] = "V"


def test_map_tags():
    assert map_tags([["NN", None], []], {"NN": "N"}) == [["N", None], []]
    message = "^tag 'VB' is not in the table, which knows JJ, NN; add it to a copy$"
    with pytest.raises(InvalidInputError, match=message):
        map_tags([["NN", "VB"]], {"NN": "N", "JJ": "A"})


def test_entropy_is_near_the_published_one(shared):
    """3.22 bits on the whole Wall Street Journal ([Ganchev2010] section 8.2)."""
    corpus = read_tagged(shared / "data" / "tag" / "wsj_sample.pos.gz")
    assert {tag for tags in corpus.tags for tag in tags} == set(PENN_TO_17)
    entropy = tag_entropy(list(chain.from_iterable(map_tags(corpus.tags, PENN_TO_17))))
    assert entropy == pytest.approx(3.22, abs=0.02)


def test_universal_tags_are_those_of_most_words(shared):
    """Auxiliaries apart, and foreign words, which are mostly annotated as what they stand for."""
    path = shared / "data" / "ud" / "en_ewt-ud-dev.tsv.gz"
    both = zip(*(chain.from_iterable(read_tagged(path, columns=(0, k)).tags) for k in (2, 1)), strict=True)
    counts = Counter(pair for pair in both if pair[1] != "AUX")
    for penn in set(PENN_TO_UNIVERSAL) - {"FW", "MD"}:
        seen = {universal: n for (tag, universal), n in counts.items() if tag == penn}
        if seen:
            assert max(seen, key=seen.__getitem__) == PENN_TO_UNIVERSAL[penn], penn
