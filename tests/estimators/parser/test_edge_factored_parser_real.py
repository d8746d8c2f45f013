"""EdgeFactoredParser on a part of a treebank: well above the next word as head, and a likelihood below 1."""

import numpy as np

from reproductions.treebanks import read_ud
from spectrem import EdgeFactoredParser
from spectrem.data import is_projective


def test_some_hundred_sentences_of_bulgarian(shared):
    sentences = [one for one in read_ud(shared / "data", "bg_btb", "dev") if len(one.forms) <= 15]
    train, test = sentences[:500], sentences[500:600]
    parser = EdgeFactoredParser(bits=16, passes=3, n_threads=1).fit(train)
    assert parser.score(test) > 0.82
    assert 0 < parser.n_lifted_ < 20
    assert all(record.free_objective < 0 for record in parser.history_)
    assert (parser.score_samples(train[:50], [np.where(one.heads == 0, 0, one.heads) for one in train[:50]]) <= 0).all()
    parsed = parser.parse(test)
    assert all(is_projective(one.heads) for one in parsed)
    same = [
        a == b
        for one, gold in zip(parsed, test, strict=True)
        for a, b in zip(one.relations, gold.relations, strict=True)
    ]
    assert np.mean(same) > 0.85
