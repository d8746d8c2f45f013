"""Grammars learned without trees, on a generated treebank in the layout of the public ones."""

import gzip

import numpy as np
import pytest

from reproductions.grammar import dmv, universal_rules
from reproductions.grammar.dmv import Run, claims
from reproductions.grammar.universal_rules import METHODS, RULES, make_start, without
from spectrem.data import ParsedSentence
from spectrem.datasets import make_treebank
from spectrem.exceptions import InvalidInputError


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory):
    root = tmp_path_factory.mktemp("treebanks")
    (root / "parse").mkdir()
    (root / "ud").mkdir()
    short = [tree for tree in make_treebank(60, seed=1) if len(tree.forms) <= 10]
    lines = ["# file\twords\ttags\theads\tspans"]
    for tree in short:
        heads = " ".join(str(head + 1) for head in tree.heads.tolist())
        lines.append(f"f\t{' '.join(tree.forms)}\t{' '.join(tree.upos)}\t{heads}\t0-2")
    (root / "parse" / "wsj10.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    for part in ("dev", "test"):
        blocks = []
        for tree in make_treebank(20, seed=2):
            rows = zip(tree.forms, tree.upos, tree.heads.tolist(), strict=True)
            own = "\n".join(f"{form}\t{tag}\t_\t{head + 1}\tdep" for form, tag, head in rows)
            blocks.append(f"{own}\n.\tPUNCT\t_\t1\tpunct")
        (root / "ud" / f"es_gsd-ud-{part}.tsv.gz").write_bytes(gzip.compress("\n\n".join(blocks).encode()))
    return root, short


def test_dmv(treebanks, reproduce):
    root, short = treebanks
    out, rows = reproduce("dmv", root)
    assert f"{len(short)} sentences ({sum(len(tree.forms) for tree in short)} words)" in out
    assert len(rows) == 2 * 2 * len(dmv.SCHEDULES)
    chosen = max((row for row in rows if row["alpha"] != "0.0"), key=lambda row: float(row["objective"]))
    lines = [line.split() for line in out.splitlines()]
    assert [
        "chosen",
        "without",
        "trees",
        *(f"{float(chosen[name]):.2f}" for name in ("directed", "undirected")),
    ] in lines
    supervised = next(line for line in lines if line[:2] == ["supervised,", "held"])
    assert float(supervised[-2]) > 80


def test_universal_rules(treebanks, reproduce):
    root, _ = treebanks
    out, rows = reproduce("universal-rules", root)
    assert [row["method"] for row in rows] == ["head is the next word", *METHODS]
    found = {row["method"]: float(row["directed"]) for row in rows}
    assert found["all, at 4 nats"] > found["harmonic start"]
    followed = {row["method"]: float(row["following"]) for row in rows}
    assert followed["all, at 4 nats"] > 90
    assert "Rules in training keep what the start from rules knows" in out


def test_words_that_are_left_out_give_their_children_to_their_heads():
    heads = np.array([1, 2, -1, 4, 2])
    sentence = ParsedSentence(tuple("abcde"), ("X", "PUNCT", "VERB", "X", "SYM"), ("_",) * 5, heads)
    text = without([sentence], frozenset({"PUNCT", "SYM"}), 3)
    assert text.tags == [("X", "VERB", "X")]
    assert text.heads[0].tolist() == [1, -1, 1]
    assert without([sentence], frozenset({"PUNCT"}), 3).tags == []


def test_languages_are_those_there_are():
    with pytest.raises(InvalidInputError, match="languages must be among en, bg, es, de, got fr"):
        universal_rules.run(languages=["en", "fr"])


def test_there_are_some_thirty_rules():
    assert len(universal_rules.ROOTS) + sum(map(len, RULES.values())) == 31


def test_a_start_from_rules_follows_them():
    tags = [tree.upos for tree in make_treebank(30)]
    text = universal_rules.Text(tags, [])
    share = [
        np.mean(
            [
                own[word] in (universal_rules.ROOTS if head < 0 else RULES.get(own[head], ()))
                for own, heads in zip(tags, make_start(text, factor).heads, strict=True)
                for word, head in enumerate(heads.tolist())
            ]
        )
        for factor in (1.0, 100.0)
    ]
    assert share[1] > max(0.9, share[0])


@pytest.mark.parametrize(("best", "held"), [(50.0, [True, True, True]), (30.0, [True, True, False])])
def test_claims_follow_the_numbers(best, held):
    plain = Run("harmonic", "EM", 0.0, 45.0, 60.0, -10.0, -10.0, 5)
    runs = [plain, plain._replace(start="uniform", directed=20.0)]
    assert list(claims(runs, plain._replace(alpha=0.25, directed=best), 37.0).values()) == held
