"""`spectrem tag evaluate`."""

import json
import math

import pytest

from spectrem.data import read_tagged, write_tagged


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "gold").write_text("the/DT old/JJ saw/NN\n\nshe/_ saw/VB it/PRP\n")
    (tmp_path / "first").write_text("the/DT old/NN saw/NN\n\nshe/PRP saw/VB it/PRP\n")
    (tmp_path / "second").write_text("the/a old/a saw/b\n\nshe/a saw/b it/a\n")
    (tmp_path / "tags").write_text("the\tDT\nold\tJJ NN\nsaw\tNN VB\nit\tPRP\n")
    return tmp_path


def scores_of(run, *arguments):
    result = run("tag", "evaluate", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_scores_as_json(run, folder):
    scores = scores_of(run, folder / "gold", folder / "first")
    assert scores["n_sentences"] == 3
    assert scores["n_tokens"] == 5  # the one without a gold tag does not count
    assert scores["accuracy"] == pytest.approx(4 / 5)
    assert "accuracy_known" not in scores
    assert scores["many_to_one"] == scores["one_to_one"] == scores["one_to_one_optimal"] == pytest.approx(4 / 5)
    assert scores["gold_entropy"] == pytest.approx(math.log2(5))
    assert scores["mutual_information"] == pytest.approx(math.log2(5) - 2 / 5)
    assert scores["v_measure"] == pytest.approx(2 * (homogeneity := 1 - 0.4 / math.log2(5)) / (1 + homogeneity))


def test_names_of_states_do_not_matter(run, folder):
    scores = scores_of(run, folder / "gold", folder / "second")
    assert scores["accuracy"] == 0.0
    assert scores["many_to_one"] == scores["one_to_one"] == pytest.approx(2 / 5)


def test_dictionary_tells_kinds_of_words(run, folder):
    (folder / "tags").write_text("the\tDT\nold\tJJ NN\nsaw\tNN VB\n")
    scores = scores_of(run, folder / "gold", folder / "first", "--dictionary", folder / "tags")
    assert (scores["n_ambiguous"], scores["n_known"], scores["n_unknown"]) == (4, 4, 1)
    assert scores["accuracy_ambiguous"] == pytest.approx(3 / 4)
    assert scores["accuracy_known"] == pytest.approx(3 / 4)
    assert scores["accuracy_unknown"] == 1.0


def test_a_kind_without_words(run, folder):
    options = folder / "gold", folder / "first", "--dictionary", folder / "tags"
    assert scores_of(run, *options)["accuracy_unknown"] is None
    assert "other words (0)" in run("tag", "evaluate", *options).stdout


def test_two_taggings(run, folder):
    both = scores_of(run, folder / "gold", folder / "first", folder / "second")
    assert both["first"] == scores_of(run, folder / "gold", folder / "first")
    assert both["second"]["accuracy"] == 0.0
    assert both["sign_test"]["words"] == {"n_first": 4, "n_second": 0, "p_value": 0.125}
    assert both["sign_test"]["sentences"] == {"n_first": 2, "n_second": 0, "p_value": 0.5}


def test_table(run, folder):
    result = run(
        "tag", "evaluate", folder / "gold", folder / "first", folder / "second", "--dictionary", folder / "tags"
    )
    assert result.exit_code == 0
    for text in ("5 words in 3 sentences", "0.8000", "0.0000", "ambiguous words (3)", "V-measure", "p = 0.125"):
        assert text in result.stdout


def test_tags_of_chunks_have_f1_beside_accuracy(run, folder):
    (folder / "gold").write_text("Ann/B-PER Lee/I-PER met/O Bo/B-PER in/O Rome/B-LOC ./O\n")
    (folder / "first").write_text("Ann/B-PER Lee/I-PER met/O Bo/O in/O Rome/O ./O\n")
    scores = scores_of(run, folder / "gold", folder / "first")
    assert (scores["accuracy"], scores["chunk_f1"]) == (pytest.approx(5 / 7), 0.5)
    assert (scores["chunk_precision"], scores["chunk_recall"], scores["n_chunks"]) == (1.0, pytest.approx(1 / 3), 3)
    assert "chunks" not in scores
    lines = run("tag", "evaluate", folder / "gold", folder / "first").stdout.splitlines()
    shown = [line.split("│")[1].strip() for line in lines if "│" in line]
    assert shown[:4] == ["accuracy of words, O included", "chunk precision", "chunk recall", "chunk F1"]
    by_type = run("tag", "evaluate", folder / "gold", folder / "first", "--chunks").stdout
    assert "PER (2)" in by_type
    (folder / "gold").write_text("Ann/B-PER Lee/_ met/O Bo/B-PER in/O Rome/B-LOC ./O\n")
    assert "chunk_f1" not in scores_of(run, folder / "gold", folder / "first")


def test_formats_do_not_matter(run, folder):
    gold, first = (read_tagged(folder / name) for name in ("gold", "first"))
    full = [n for n, words in enumerate(gold.words) if words]
    for name, corpus in (("gold", gold), ("first", first)):
        words, tags = ([side[n] for n in full] for side in corpus)
        write_tagged(folder / f"{name}.conllu", words, tags, "conllu", field="xpos")
        write_tagged(folder / f"{name}.tsv", words, tags, "columns")
        write_tagged(folder / f"{name}.pos", words, tags)
    rows = [line.split("\t") for line in (folder / "gold.tsv").read_text().splitlines()]
    (folder / "reversed.tsv").write_text("".join("\t".join(reversed(row)) + "\n" for row in rows))
    expected = scores_of(run, folder / "gold.pos", folder / "first.pos")
    assert scores_of(run, folder / "gold.conllu", folder / "first.conllu", "--field", "xpos") == expected
    assert scores_of(run, folder / "gold.tsv", folder / "first.pos") == expected
    assert scores_of(run, folder / "reversed.tsv", folder / "first.tsv", "--columns", "1,0") == expected
    result = run("tag", "evaluate", folder / "gold.pos", "-", "--json", stdin=(folder / "first.tsv").read_bytes())
    assert json.loads(result.stdout) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the/DT old/NN saw/NN\n", "has 3 sentences, but "),
        (
            "the/DT old/NN saw/NN\n\nshe/PRP saw/VB\n",
            "other, line 3, must have the same words, but have 3 and 2 words in 'she saw it'; give labellings of one",
        ),
        (
            "the/DT new/NN saw/NN\n\nshe/P saw/V it/P\n",
            "other, line 1, must have the same words, but have 'old' and 'new' in",
        ),
        ("the/DT old saw/NN\n\n\n", "line 1: 'old' has no tag"),
    ],
)
def test_taggings_of_other_texts(run, folder, text, message):
    (folder / "other").write_text(text)
    result = run("tag", "evaluate", folder / "gold", folder / "other")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("spectrem: error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_differences_are_named_by_lines_of_both_files(run, tmp_path):
    conllu = [f"{n}\t{word}\t_\tX\t_\t_\t0\t_\t_\t_" for n, word in [(1, "a"), (1, "b"), (2, "d")]]
    (tmp_path / "other.conllu").write_text("\n".join(["# one", conllu[0], "", "# two", "# more", *conllu[1:], ""]))
    (tmp_path / "gold.pos").write_text("a/X\nb/X c/Y\n")
    result = run("tag", "evaluate", tmp_path / "gold.pos", tmp_path / "other.conllu")
    assert (
        f"{tmp_path}/gold.pos, line 2, and {tmp_path}/other.conllu, line 6, must have the same words" in result.stderr
    )
    assert "'c' and 'd' in 'b c'" in result.stderr


def test_standard_input_has_one_text(run, folder):
    result = run("tag", "evaluate", folder / "gold", "-", "-", stdin=b"a/X\n")
    assert result.exit_code == 2
    assert "PREDICTED and SECOND cannot both be standard input; name files" in result.stderr


def test_gold_without_tags(run, folder):
    (folder / "none").write_text("a/_\n")
    (folder / "some").write_text("a/X\n")
    result = run("tag", "evaluate", folder / "none", folder / "some")
    assert result.exit_code == 2
    assert "GOLD has no tags, only _; name the column or field that holds them" in result.stderr
