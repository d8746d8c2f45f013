"""`spectrem tag train` and `predict` on bad input: one clear line, status 2, nothing written."""

import warnings

import pytest

from spectrem import HMMTagger


def fails(result, *parts):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("spectrem: error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text").write_text("the dog sleeps\nthe cat\n")
    (tmp_path / "tags").write_text("the\tDT\ndog\tNN\ncat\tNN JJ\nsleeps\tVB\n")
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.npz"
    HMMTagger(dictionary={"the": ["DT"], "dog": ["NN"]}, max_iter=2, tol=0).fit(["the dog", "dog"]).save(path)
    return path


@pytest.fixture
def train(run, folder):
    def invoke(*options, corpus="text", tags="tags", **more):
        return run(
            "tag", "train", folder / corpus, "--dictionary", folder / tags, "--save", folder / "m", *options, **more
        )

    return invoke


def test_constraints_that_predictions_cannot_meet(run, train, model, folder):
    fails(train("--project-at-predict"), "--project-at-predict changes nothing without --constraint")
    expected = f"--project-at-predict: {model} holds no constraints to meet; train it with --constraint, or drop this"
    fails(run("tag", "predict", "--load", model, folder / "text", "--project-at-predict"), expected)
    expected = "--infeasible skip changes nothing without --project-at-predict"
    fails(run("tag", "predict", "--load", model, folder / "text", "--infeasible", "skip"), expected)
    assert train("--constraint", "at_least(1, 'NN')", "--quiet").exit_code == 0
    (folder / "text").write_text("the dog sleeps\nthe the\n")
    predict = "tag", "predict", "--load", folder / "m", folder / "text", "--project-at-predict"
    fails(run(*predict, "--infeasible", "raise"), "'at least 1 NN per sentence'", "in sentence 1", "--infeasible skip")
    assert train("--constraint", "E[tag == 'NN'] <= 2", "--project-at-predict", "--quiet").exit_code == 0
    fails(run(*predict, "--decode", "viterbi"), "--decode must be posterior where --project-at-predict meets")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--gamma", "-0.5"], ["--gamma must be -inf or at least 0", "got -0.5"]),
        (
            ["--gamma", "0", "--anneal", "0.5"],
            ["--anneal cools down to a gamma above 0, but --gamma is 0; raise it, and add --quench for 0"],
        ),
        (["--anneal", "2"], ["--anneal 2: starts at gamma = 1 / BETA", "at most 1"]),
        (["--anneal", "0.5", "--anneal-rate", "1"], ["--anneal-rate 1: 1 / gamma must grow"]),
        (["--anneal-rate", "2"], ["--anneal-rate 2 concerns --anneal, which is off; add it or drop this"]),
        (["--init", "supervised"], ["--init supervised starts from tagged sentences; give some with --labelled"]),
        (["--start", "m", "--init", "random"], ["--start m and --init random both say where to start; drop one"]),
        (["--n-init", "3", "--init", "uniform"], ["--n-init 3: every start of --init uniform is the same"]),
        (["--infeasible", "skip"], ["--infeasible skip changes nothing without --constraint"]),
        (["--dual-steps", "3"], ["--dual-steps 3 changes nothing without a --constraint over the whole text"]),
        (["--constraint", "E[tag == 'NN'] <= '130%'"], ["character 1: a share is 100% at most, got '130%'; lower it"]),
        (["--start", "none"], ["none: no such model file; train one and save it first"]),
        (
            ["--constraint", "NN"],
            ["--constraint 'NN', character 1: there is no shortcut 'NN'; they are agreement, argument_types, "],
        ),
        (
            ["--constraint", "at_least(1, 'VERB')"],
            ["there is no label 'VERB'; did you mean 'VB'? the labels are 'DT', 'JJ'"],
        ),
        (
            ["--constraint", "at_least(1, 'VB')"],
            [
                "at least 1 VB per sentence",
                "cannot be met in sentence",
                "leave the constraint out there with --infeasible skip",
            ],
        ),
        (["--n-states", "5"], ["--n-states 5: --dictionary and --labelled name 4 tags; leave --n-states out"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_options_that_cannot_be_met(train, folder, options, parts):
    fails(train(*options), *parts)
    assert not (folder / "m").exists()


def test_sentences_that_cannot_meet_a_constraint_may_be_skipped(train):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = train("--constraint", "at_least(1, 'VB')", "--infeasible", "skip")
    assert result.exit_code == 0, result.stderr
    assert "left out: 'at least 1 VB per sentence' in 1 of the instances" in result.stderr


def test_nothing_says_which_tags(run, folder):
    fails(run("tag", "train", folder / "text", "--save", folder / "m"), "nothing says which tags there are; give")


def test_nothing_to_learn_from(run, folder):
    command = ["tag", "train", "--dictionary", folder / "tags", "--save", folder / "m"]
    fails(run(*command), "there is nothing to learn from; give CORPUS, --labelled or both")


def test_broken_files_are_named(train, run, folder):
    (folder / "bad").write_text("the\tDT\ndog\t\n")
    fails(train(tags="bad"), f"{folder / 'bad'}, line 2: the entry of 'dog' has no tags")
    (folder / "bad").write_text("the/DT dog\n")
    fails(train("--labelled", folder / "bad"), f"{folder / 'bad'}, line 1: ")
    (folder / "bad").write_text("the/XX dog/NN\n")
    fails(train("--labelled", folder / "bad"), "labels must agree with the dictionary", "'the'")
    (folder / "bad").write_text("")
    fails(train(corpus="bad"), "is empty; give a file of at least one line")
    fails(train(corpus="none"), "no such file")


def test_standard_input_is_read_once(run, folder):
    fails(
        run("tag", "train", "-", "--labelled", "-", "--save", folder / "m", stdin=b"a/X\n"),
        "cannot both be standard input",
    )
    fails(
        run("tag", "train", "-", "--dictionary", "-", "--save", folder / "m", stdin=b"a/X\n"),
        "cannot both be standard input",
    )


def test_places_that_cannot_be_written_are_found_first(run, folder, model):
    nowhere = folder / "no" / "where"
    command = ["tag", "train", folder / "none", "--dictionary", folder / "tags", "--save"]
    fails(run(*command, nowhere), f"--save {nowhere}: the folder", "does not exist; make it first")
    fails(run(*command, folder), f"--save {folder} is a folder; name a file in it")
    fails(run("tag", "predict", "--load", model, folder / "text", "-o", nowhere), "does not exist; make it first")
    out = folder / "out"
    fails(
        run("tag", "predict", "--load", model, folder / "text", "-o", out, "--probabilities", out), "must be two files"
    )
    fails(run("tag", "predict", "--load", model, folder / "none", "-o", out), "no such file")
    assert not out.exists()


def test_models_that_are_none(run, folder):
    fails(run("tag", "predict", "--load", folder / "nothing", folder / "text"), "no such model file")
    fails(run("tag", "predict", "--load", folder / "text", folder / "text"), "not a model saved by spectrem")


def test_models_of_another_kind(run, folder, model, files):
    from spectrem import WordAligner

    WordAligner(model1_iterations=1, max_iter=1).fit(files.bitext.source, files.bitext.target).save(folder / "aligner")
    fails(run("tag", "predict", "--load", folder / "aligner", folder / "text"), "aligner")
    fails(run("align", files.both, "--load", model), "model")


@pytest.mark.parametrize(
    "options", [["--decode", "best"], ["--order", "3"], ["--init", "zero"], ["--max-iter", "0"], ["--what"]]
)
def test_options_of_wrong_kind_are_explained_by_the_parser(train, options):
    result = train(*options)
    assert result.exit_code == 2
    assert options[0] in result.stderr
    assert "Traceback" not in result.stderr
