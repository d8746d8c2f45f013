"""`spectrem parse transfer`."""

import numpy as np
import pytest

from spectrem import CRFTagger, DependencyModel, EdgeFactoredParser
from spectrem.data import Links, ParsedSentence, write_conllu, write_lines, write_pharaoh

SOURCE = [
    (("the", "dog", "sleeps"), ("DET", "NOUN", "VERB"), [1, 2, -1]),
    (("a", "cat", "runs"), ("DET", "NOUN", "VERB"), [1, 2, -1]),
] * 4
TARGET = [(("duerme", "perro", "el"), ("VERB", "NOUN", "DET")), (("corre", "gato", "un"), ("VERB", "NOUN", "DET"))] * 4
TREE = [-1, 0, 1]


def sentence(forms, upos, heads=None):
    return ParsedSentence(forms, upos, ("_",) * len(forms), None if heads is None else np.array(heads))


@pytest.fixture
def files(tmp_path):
    write_conllu(tmp_path / "en.conllu", [sentence(*own) for own in SOURCE])
    write_conllu(tmp_path / "es.conllu", [sentence(*own) for own in TARGET])
    write_lines(tmp_path / "es.txt", [" ".join(forms) for forms, _ in TARGET])
    write_pharaoh(tmp_path / "links", Links.from_pairs([[(0, 2), (1, 1), (2, 0)]] * len(SOURCE)))
    return tmp_path


def transfer(files, *more, target="es.conllu"):
    given = (files / "en.conllu", files / target, "--align", files / "links", "--save", files / "model.npz")
    return ("parse", "transfer", *given, "--n-threads", "1", *more)


SMALL = ("--bits", "10", "--min-count", "1")


def test_a_parser_is_learnt_and_saved(run, files):
    result = run(*transfer(files, "--share", "0.95", *SMALL))
    assert result.exit_code == 0, result.stderr
    assert "learned from 8 sentences (24 words, 24 with a conserved arc)" in result.stderr
    parser = EdgeFactoredParser.load(files / "model.npz")
    assert parser.predict([sentence(*TARGET[0])])[0].tolist() == TREE


def test_a_grammar_of_tags_with_a_share_chosen_on_halves(run, files):
    result = run(*transfer(files, "--dmv", "--share", "0.6", "--share", "1.0", "--max-iter", "3", "--tol", "0"))
    assert result.exit_code == 0, result.stderr
    assert "share 0.6: " in result.stderr
    assert "share 1: " in result.stderr
    assert DependencyModel.load(files / "model.npz").predict([TARGET[0][1]])[0].tolist() == TREE


def test_text_is_tagged_by_a_model(run, files):
    CRFTagger("words", n_threads=1).fit([list(own[0]) for own in TARGET], [list(own[1]) for own in TARGET]).save(
        files / "tagger.npz"
    )
    result = run(*transfer(files, "--tagger", files / "tagger.npz", "--dmv", "--share", "1", target="es.txt"))
    assert result.exit_code == 0, result.stderr
    assert DependencyModel.load(files / "model.npz").tags_ == ("DET", "NOUN", "VERB")


def test_heads_of_the_target_are_not_read(run, files):
    path = files / "es.conllu"
    path.write_text(path.read_text().replace("\t_\t_\t_\t_\n", "\t1\t_\t_\t_\n"))
    assert "\t1\t_" in path.read_text()
    assert run(*transfer(files, *SMALL)).exit_code == 0


def test_a_start_must_be_of_the_same_kind(run, files):
    trees = [sentence(*own, TREE) for own in TARGET]
    EdgeFactoredParser(bits=10, min_count=1, n_threads=1).fit(trees).save(files / "start.npz")
    assert run(*transfer(files, "--start", files / "start.npz", *SMALL)).exit_code == 0
    result = run(*transfer(files, "--start", files / "start.npz", "--dmv"))
    assert result.exit_code == 2
    assert "holds a model of spectrem parse train (for parse predict), and a model of" in result.stderr


@pytest.mark.filterwarnings("default")  # a warning is printed, as it is for a user
def test_a_sentence_that_no_tree_fits_is_left_alone(run, files):
    write_conllu(files / "en.conllu", [sentence(list("abcd"), ["X"] * 4, [-1, 0, 3, 0])])
    write_conllu(files / "es.conllu", [sentence(list("abcd"), ["X"] * 4)])
    write_pharaoh(files / "links", Links.from_pairs([[(0, 2), (1, 0), (3, 1), (2, 3)]]))
    result = run(*transfer(files, "--share", "1", *SMALL))
    assert result.exit_code == 0
    assert "left out: 'conserved arcs' in 1 of the instances" in result.stderr
    refused = run(*transfer(files, "--share", "1", *SMALL, "--infeasible", "raise"))
    assert refused.exit_code == 2
    assert "cannot be met" in refused.stderr
    assert "--infeasible skip" in refused.stderr


def test_files_that_do_not_fit_are_named(run, files):
    write_pharaoh(files / "links", Links.from_pairs([[(0, 2)], [(0, 7)], *[[]] * 6]))
    result = run(*transfer(files))
    assert result.exit_code == 2
    assert "links: link 0-7 of sentence pair 2 (counted from 1) lies outside its 3 source and 3 target" in result.stderr
    # also one that does not count, as its words have others, too
    write_pharaoh(files / "links", Links.from_pairs([[(0, 2)], [(0, 7), (0, 1), (1, 7)], *[[]] * 6]))
    assert "links: link 0-7 of sentence pair 2 (counted from 1) lies outside" in run(*transfer(files)).stderr
    write_conllu(files / "es.conllu", [sentence(*own) for own in TARGET[:5]])
    result = run(*transfer(files))
    assert "en.conllu has 8 sentences and" in result.stderr
    write_conllu(files / "en.conllu", [sentence(*own[:2]) for own in SOURCE])
    assert "lacks heads; parse it first" in run(*transfer(files)).stderr
    assert not (files / "model.npz").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--smoothing", "1"], "--smoothing 1.0 changes nothing without --dmv"),
        (["--dmv", "--bits", "9"], "--bits 9 concerns parsers with features"),
        (["--checkpoint", "there"], "--checkpoint there changes nothing without --learner batch or --dmv"),
        (["--anneal", "0.5"], "--anneal 0.5 changes nothing without --learner batch or --dmv"),
        (["--field", "xpos"], "--field xpos changes nothing without --dmv or --tagger"),
        (["--dmv", "--start", "en.npz", "--init", "uniform"], "both say where to start"),
        (["--share", "2"], "--share must lie above 0 and be at most 1, got 2.0"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, files, options, said):
    result = run(*transfer(files, *options))
    assert result.exit_code == 2
    assert said in result.stderr
