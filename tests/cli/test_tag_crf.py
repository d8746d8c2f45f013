"""`spectrem tag` with conditional random fields."""

import json

import pytest

from spectrem import CRFTagger
from spectrem.metrics import chunk_scores

ROWS = [
    [("The", "DT", "B-NP"), ("dog", "NN", "I-NP"), ("barks", "VB", "B-VP"), (".", ".", "O")],
    [("A", "DT", "B-NP"), ("big", "JJ", "I-NP"), ("cat", "NN", "I-NP"), ("sleeps", "VB", "B-VP")],
    [("Dogs", "NN", "B-NP"), ("chase", "VB", "B-VP"), ("cats", "NN", "B-NP"), (".", ".", "O")],
]


@pytest.fixture
def files(tmp_path):
    train, plain = tmp_path / "train.txt", tmp_path / "plain.txt"
    train.write_text("\n".join("".join(" ".join(row) + "\n" for row in sentence) for sentence in ROWS))
    plain.write_text("The cat barks .\nA dog sleeps\n")
    return tmp_path


def options(files, *more):
    return [
        *("tag", "train", "--crf", "--labelled", files / "train.txt", "--columns", "0,2"),
        *("--save", files / "model.npz", "--n-threads", "1", *more),
    ]


def test_words_alone(run, files):
    result = run(*options(files))
    assert result.exit_code == 0, result.output
    assert "weights for 4 tags from 3 sentences (12 words)" in result.stderr
    result = run("tag", "predict", "--load", files / "model.npz", files / "plain.txt", "--output-format", "columns")
    assert result.stdout.splitlines()[:3] == ["The\tB-NP", "cat\tI-NP", "barks\tB-VP"]
    assert "tagged 2 sentences (7 words)" in result.stderr


def test_what_is_trained_is_what_python_trains(run, files):
    assert run(*options(files, "--C", "0.5", "--pairs", "all")).exit_code == 0
    tagger = CRFTagger("words", C=0.5, pairs="all", n_threads=1)
    tagger.fit([[row[0] for row in own] for own in ROWS], [[row[2] for row in own] for own in ROWS])
    loaded = CRFTagger.load(files / "model.npz")
    assert loaded.objective_ == tagger.objective_
    assert loaded.C == 0.5


def test_tags_beside_words_and_chunk_scores(run, files):
    assert run(*options(files, "--features", "chunking", "--context", "1")).exit_code == 0
    out = files / "out.txt"
    predict = ("tag", "predict", "--load", files / "model.npz", files / "train.txt")
    result = run(*predict, "--input-format", "columns", "--context", "1", "--output-format", "columns", "-o", out)
    assert result.exit_code == 0, result.output
    evaluate = ("tag", "evaluate", files / "train.txt", out, "--columns", "0,2", "--chunks")
    scores = json.loads(run(*evaluate, "--json").stdout)
    predicted = [[line.split()[1] for line in block.splitlines()] for block in out.read_text().strip().split("\n\n")]
    expected = chunk_scores(predicted, [[row[2] for row in own] for own in ROWS])
    assert scores["chunk_f1"] == expected.f1
    assert scores["chunks"]["NP"]["n"] == 4
    assert "chunk F1" in run(*evaluate).stdout


def test_plain_text_under_constraints(run, files):
    rule = "(E[(tag == 'O') & (previous == 'B-NP')] <= 0).per('sentence')"
    result = run(*options(files, files / "plain.txt", "--constraint", rule, "--max-iter", "3", "--m-steps", "5"))
    assert result.exit_code == 0, result.output
    assert "3 iterations" in result.stderr
    probabilities = files / "p.txt"
    run("tag", "predict", "--load", files / "model.npz", files / "plain.txt", "--probabilities", probabilities)
    assert probabilities.read_text().startswith("The\tB-NP:")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--order", "2"], "--order 2 concerns hidden Markov models; drop it, or --crf"),
        (["--dictionary", "x.tsv"], "--dictionary x.tsv concerns hidden Markov models; drop it, or --crf"),
        (["--features", "tokens"], "--features tokens needs features of your own for every token"),
        (["--features", "chunking"], "--features chunking reads tags beside words; say with --context which column"),
        (["--context", "1"], "--context 1 changes nothing without --features chunking or words+tags"),
        (["--infeasible", "skip"], "--infeasible skip changes nothing without --constraint"),
        (["--constraint", "E[tag == 'X'] <= 1"], "there is no tag 'X'"),
        (["--C", "0"], "--C must be finite and above 0, got 0"),
        (["--features", "chunking", "--context", "7"], "line 1"),
    ],
)
def test_options_that_do_not_fit(run, files, more, message):
    result = run(*options(files, *more))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_options_that_need_others(run, files):
    train = ("tag", "train", files / "plain.txt", "--save", files / "model.npz")
    assert "--crf learns from sentences tagged by hand" in run(*train, "--crf").stderr
    labelled = (*train, "--labelled", files / "train.txt")
    assert "--C 2.0 changes nothing without --crf" in run(*labelled, "--C", "2").stderr
    assert "--context 1 changes nothing without --crf" in run(*labelled, "--context", "1").stderr


def test_prediction_needs_the_tags_that_training_read(run, files):
    run(*options(files, "--features", "chunking", "--context", "1"))
    result = run("tag", "predict", "--load", files / "model.npz", files / "plain.txt")
    assert result.exit_code == 2
    assert "the model has --features chunking, which read tags beside words" in result.stderr
    run(*options(files))
    result = run("tag", "predict", "--load", files / "model.npz", files / "plain.txt", "--context", "1")
    assert "--context 1 changes nothing without a model of --features chunking or words+tags" in result.stderr
    result = run("tag", "predict", "--load", files / "plain.txt", files / "plain.txt")
    assert "not a model saved by spectrem, or damaged" in result.stderr


def test_chunks_need_all_tags(run, files):
    gold = files / "gold.txt"
    gold.write_text("a B-NP\nb _\n")
    result = run("tag", "evaluate", gold, gold, "--chunks")
    assert result.exit_code == 2
    assert "--chunks needs a tag for every word of GOLD, got _ at line 1; write O where no chunk is" in result.stderr


def test_running_out_of_steps_is_said_in_the_words_of_the_options(run, files):
    result = run(*options(files), "--m-steps", "1")
    assert result.exit_code == 0
    assert "warning: still gaining after 1 step; raise --m-steps or --m-tol" in result.stderr


def test_the_best_taggings(run, files):
    assert run(*options(files)).exit_code == 0
    result = run("tag", "predict", "--load", files / "model.npz", files / "plain.txt", "--n-best", "2")
    assert result.exit_code == 0, result.output
    tagger = CRFTagger.load(files / "model.npz")
    sentences = [line.split() for line in (files / "plain.txt").read_text().splitlines()]
    expected = []
    for words, own in zip(sentences, tagger.n_best(sentences, 2), strict=True):
        for one in own:
            pairs = " ".join(f"{word}/{tag}" for word, tag in zip(words, one.tags, strict=True))
            expected.append(f"{one.log_probability:.6f}\t{pairs}")
        expected.append("")
    assert result.stdout.splitlines() == expected
    assert "tagged 2 sentences (7 words)" in result.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--n-best", "0"], "greater than or equal to 1"),
        (["--n-best", "2", "--decode", "viterbi"], "--decode changes nothing beside --n-best 2; drop one of them"),
        (["--n-best", "2", "--output-format", "columns"], "--output-format columns changes nothing beside --n-best 2"),
    ],
)
def test_options_beside_the_best_taggings(run, files, more, message):
    run(*options(files))
    result = run("tag", "predict", "--load", files / "model.npz", files / "plain.txt", *more)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_hidden_markov_models_have_no_best_taggings(run, files):
    labelled = ("--labelled", files / "train.txt", "--columns", "0,2")
    assert run("tag", "train", *labelled, "--save", files / "hmm.npz", "--max-iter", "1").exit_code == 0
    result = run("tag", "predict", "--load", files / "hmm.npz", files / "plain.txt", "--n-best", "2")
    assert result.exit_code == 2
    assert "--n-best 2 needs a conditional random field, but" in result.stderr


def test_edge_features_and_schemes(run, files):
    result = run(*options(files, "--edge-features", "w[0]=, w[-1]=", "--scheme", "bio"))
    assert result.exit_code == 0, result.output
    tagger = CRFTagger("words", edge_features=("w[0]=", "w[-1]="), scheme="bio", n_threads=1)
    tagger.fit([[row[0] for row in own] for own in ROWS], [[row[2] for row in own] for own in ROWS])
    loaded = CRFTagger.load(files / "model.npz")
    assert loaded.theta_.tolist() == tagger.theta_.tolist()
    assert loaded.scheme == "bio"
    assert loaded.edge_features == ["w[0]=", "w[-1]="]


@pytest.mark.parametrize(
    ("lines", "more", "message"),
    [
        ("The DT B-NP\ndog NN\n", [], "train.txt, line 2: has 2 columns, but line 1 has 3; columns are separated by"),
        ("The DT B-NP\n\ndog NN I-NP extra\n", [], "train.txt, line 3: has 4 columns, but line 1 has 3; columns are"),
        ("The DT B-NP\ndog _ I-NP\n", ["--features", "chunking", "--context", "1"], "line 1: column 1 must have a tag"),
        ("The DT _\ndog NN _\n", [], "holds no tags, only _; name the column that does"),
        (
            "The DT O\ndog NN I-NP\n",
            ["--scheme", "bio"],
            "line 1 (The dog): labels must follow --scheme bio, got I-NP after O",
        ),
        (
            "The DT D\ndog NN N\n",
            ["--scheme", "bio"],
            "scheme 'bio' needs tags that are O or one of B-TYPE, I-TYPE, got",
        ),
        (
            "The DT D\ndog NN N\n\nThe DT _\ncat NN N\n",
            ["--constraint", "at_most(0, 'N')", "--max-iter", "1"],
            "line 4 (The cat): 'at most 0 N per sentence'",
        ),
        ("The DT D\ndog NN N\n", ["--constraint", "E[previous == 'X'] <= 1"], "there is no previous 'X'"),
        (
            "The DT D\ndog NN N\n",
            ["--edge-features", "pos"],
            "--edge-features must begin the name of some feature, got pos",
        ),
    ],
)
def test_bad_labelled_files(run, files, lines, more, message):
    (files / "train.txt").write_text(lines)
    result = run(*options(files, *more))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_training_on_labels_goes_on_from_a_checkpoint(run, files):
    kept = files / "kept"
    assert run(*options(files, "--m-tol", "1e-9", "--checkpoint", kept)).exit_code == 0
    whole = CRFTagger.load(files / "model.npz").theta_
    state = kept / "labelled" / "state.npz"
    assert state.is_file()
    assert run(*options(files, "--m-tol", "1e-9", "--checkpoint", kept)).exit_code == 0
    assert CRFTagger.load(files / "model.npz").theta_.tolist() == whole.tolist()
    state.write_bytes(state.read_bytes()[:100])
    result = run(*options(files, "--m-tol", "1e-9", "--checkpoint", kept))
    assert result.exit_code == 2
    assert "is damaged" in result.stderr
