"""The treebanks of the shared folder are read whole."""

from reproductions.treebanks import read_ud, read_wsj
from spectrem.data.treebank import describe_problem


def test_universal_dependencies(shared):
    sentences = read_ud(shared / "data", "bg_btb", "dev")
    assert len(sentences) == 1115
    assert sentences[0].xpos[:2] == ("Cs", "Ppxta")
    assert sentences[0].heads.tolist() == [2, 2, 4, 2, -1, 4]
    assert sentences[0].relations[4] == "root"
    assert all(describe_problem(sentence.heads) is None for sentence in sentences)


def test_trees_of_the_journal(shared):
    sentences = read_wsj(shared / "data", 10)
    assert len(sentences) == 555
    assert sentences[3].parsed.xpos == ("RB", "DT", "NN")
    assert sentences[3].parsed.heads.tolist() == [-1, 2, 0]
    assert sentences[3].spans == ((0, 3), (1, 3))
