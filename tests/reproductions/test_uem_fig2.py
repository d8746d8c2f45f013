"""Entities and relations from few labelled sentences: splits, tests, claims, and the command."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from reproductions.extraction import uem_fig2
from reproductions.extraction.conll04 import RELATIONS, TYPES, read_sentences, split, type_rules
from reproductions.extraction.uem_fig2 import Trial, claims, p_value
from spectrem.data import RelationSentence, write_relations

NAMES = {
    "Peop": ["Oswald", "Ray", "Booth", "Lincoln", "King"],
    "Loc": ["Dallas", "Memphis", "Ohio", "Texas"],
    "Org": ["CIA", "Acme", "Reuters"],
    "Other": ["Nov.", "Bible"],
}
TEMPLATES = [
    ("Kill", ["Peop", "shot", "Peop", "in", "Loc"]),
    ("Live_In", ["Peop", "lives in", "Loc", "since", "Other"]),
    ("Located_In", ["Loc", ",", "Loc", "was quiet"]),
    ("OrgBased_In", ["Org", "of", "Loc", "said"]),
    ("Work_For", ["Peop", "works for", "Org", "in", "Loc"]),
]


N = 70


def sentences(n, seed=0):
    rng, made = np.random.default_rng(seed), []
    for number in range(n):
        relation, pieces = TEMPLATES[number % 5]
        words, mentions, types = [f"{number}"], [], []
        for piece in pieces:
            own = [str(rng.choice(NAMES[piece]))] if piece in NAMES else piece.split()
            if piece in NAMES:
                mentions.append((len(words), len(words) + 1))
                types.append(piece)
            words += own
        made.append(RelationSentence(words, mentions, types, {(0, 1): relation}, name=str(number)))
    return made


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    (root / "relations").mkdir()
    bare = RelationSentence(["Quiet", "Ohio"], [(1, 2)], ["Loc"], {}, name="bare")
    write_relations(root / "relations" / "conll04.corp.gz", [bare, *sentences(N)])
    return root


def test_sentences_with_relations_stay_once(data):
    found, n_dropped = read_sentences(data)
    assert all(sentence.relations for sentence in found)
    assert len(found) + n_dropped == N
    assert n_dropped > 0
    assert len({tuple(w.lower() for w in sentence.words if w.isalpha()) for sentence in found}) == len(found)
    test, labelled, rest = split(found, 0.1, 3)
    assert sorted(one.name for part in (test, labelled, rest) for one in part) == sorted(one.name for one in found)
    assert (len(test), len(labelled)) == (len(found) // 5, round(0.1 * len(found)))


def test_rules_name_all_types_and_relations():
    text = repr(type_rules())
    assert all(f'"{name}"' in text for name in (*RELATIONS, *(kind for kind in TYPES if kind != "Other")))


def test_command(data, reproduce, monkeypatch):
    monkeypatch.setitem(uem_fig2.QUICK, "shares", (0.3,))
    out, rows = reproduce("uem-fig2", data)
    assert {row["method"] for row in rows} == {*uem_fig2.METHODS, uem_fig2.BEAM, uem_fig2.FULL, uem_fig2.RELATED}
    assert len(rows) == 8
    assert "56.00" in out
    ours = next(row for row in rows if row["method"] == "CoDL")
    assert f"{100 * float(ours['relations']):.2f}" in out


def trials(**values):
    return [
        Trial(0.1, draw, method, 1.0, value, 0.5, 0.0)
        for method, own in values.items()
        for draw, value in enumerate(own)
    ]


def test_claims_want_paired_tests():
    values = {"supervised": [0.4, 0.5, 0.45], "PR": [0.47, 0.57, 0.52], "CoDL": [0.41, 0.49, 0.46]}
    found = trials(**values, UEM=[0.5, 0.61, 0.55])
    assert p_value(found, 0.1, "UEM", "supervised") == ttest_rel([0.5, 0.61, 0.55], values["supervised"]).pvalue
    assert list(claims(found, [0.1]).values()) == [True, True, True]
    found = trials(**values, UEM=[0.41, 0.49, 0.46])
    assert list(claims(found, [0.1]).values()) == [False, False, False]
    assert p_value(found[::3], 0.1, "UEM", "supervised") is None
