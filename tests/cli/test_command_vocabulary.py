"""All commands use one vocabulary: one name, one default and one help text for one meaning."""

from collections import defaultdict

import pytest
import typer

from spectrem.cli.app import app
from spectrem.cli.declare import OF_MODEL
from spectrem.cli.names import FORMER, PEERS, VALUES

HOMONYMS = {
    "--C": "the default of tag train --crf was chosen by held-out sentences, which was done for no other model",
    "--alpha": "the alpha of [Ganchev2010] in align, and that of the F measure in evaluate, each by its usual name",
    "--columns": "tables have names of columns, other text has numbers of them",
    "--constraint": "links of both directions agree by default in align; no other command has constraints by default",
    "--decode": "links are merged of two directions; the defaults are explained with SentenceParameters",
    "--dictionary": "translations of words in align, tags of words in tag",
    "--dual-steps": "of constraints inside sentence pairs in align, of those over the corpus elsewhere",
    "--features": "templates of features of words in tag, columns of a table in cluster",
    "--gamma": "project has no EM: there gamma says which projection is meant",
    "--group": "the sequences of a series, and groups of items with shares of labels of their own",
    "--init": "every model has starts of its own",
    "--infeasible": "conserved arcs may always cross, so parse transfer leaves such sentences alone",
    "--max-iter": "aligners are best after few iterations",
    "--min-count": "expected links in lexicon; words seen once teach a parser how unseen ones behave",
    "--n-components": "components of a mixture in cluster, states in states fit",
    "--n-init": "states are found from several kinds of starts, each by its own way",
    "--output": "label fit writes labels only where that is asked for; elsewhere output is what a command is for",
    "--output-format": "every kind of output has formats of its own",
    "--project-at-predict": "agreement, the default in align, is as much a part of alignment as of training",
    "--tol": "aligners take all of their few iterations; that of cluster is as in scikit-learn",
}
"""Options whose text or default differs between commands, and why."""


def commands(command=None, path=()):
    command = typer.main.get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        yield " ".join(path), command
        return
    for name in command.commands:
        yield from commands(command.commands[name], (*path, name))


def test_one_meaning_has_one_name_default_and_text():
    texts, defaults = defaultdict(dict), defaultdict(dict)
    for path, command in commands():
        for one in command.params:
            if one.opts[0][:1] == "-" and one.name != "help":
                shown = one.show_default if isinstance(one.show_default, str) else one.default
                texts[one.opts[0]].setdefault(one.help.partition(".")[0], []).append(path)
                if shown != OF_MODEL:
                    defaults[one.opts[0]].setdefault(str(shown), []).append(path)
    several = {name: variants for one in (defaults, texts) for name, variants in one.items() if len(variants) > 1}
    assert {name: variants for name, variants in several.items() if name not in HOMONYMS} == {}
    assert HOMONYMS.keys() - several.keys() == set()


@pytest.mark.parametrize(
    ("path", "option", "shown"),
    [
        ("tag train", "--decode", "posterior; with --crf viterbi"),
        ("parse train", "--decode", "posterior; with --dmv viterbi"),
        ("tag train", "--features", "words"),
        ("parse train", "--random-state", "0"),
        ("tag predict", "--decode", OF_MODEL),
        ("parse predict", "--field", OF_MODEL),
        ("extract predict", "--infeasible", OF_MODEL),
    ],
)
def test_help_shows_the_default_that_holds(path, option, shown):
    assert next(one.show_default for one in dict(commands())[path].params if option in one.opts) == shown


def test_constraints_come_from_texts_and_files_wherever_they_are_taken():
    for path, command in commands():
        names = {name for one in command.params for name in one.opts}
        assert ("--constraint" in names) == ("--constraints" in names), path
        assert not {"--format", "--model-file"} & names, path
        assert ("predict" not in path) or "--load" in names, path


def test_no_name_has_two_meanings():
    for path, command in commands():
        names = {name for one in command.params for name in one.opts}
        assert not names & FORMER.get(path, {}).keys()
        assert {now.partition(" ")[0] for now in FORMER.get(path, {}).values()} <= names
    every = {name for _, command in commands() for one in command.params for name in (*one.opts, *one.secondary_opts)}
    assert {name for peer in PEERS.values() for name in peer.names} <= every
    assert VALUES.keys() <= every


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tag train x --seed 1", "spectrem tag train has no --seed; it is called --random-state here"),
        ("tag train x --c2 1", "it is called --C here: the variance of the prior, C = 1 / (2 c2) for CRFsuite's c2"),
        ("tag predict x --load m --C 1", "spectrem tag predict has no --C; it belongs to training"),
        ("align x --iterations 3", "spectrem align has no --iterations; it is called --max-iter here"),
        ("parse train x --max_iter 3", "it is called --max-iter here"),
        ("cluster x --n-clusters 3", "it is called --n-components here"),
        ("tag predict x --load m --output-format conll2000", "--output-format conll2000 is called columns here"),
        ("align x -i y", "files that are read are arguments"),
    ],
)
def test_names_that_people_know_are_answered(run, line, expected):
    result = run(*line.split())
    assert result.exit_code == 2
    assert expected in result.stderr


def test_equal_runs_save_equal_bytes(run, tmp_path):
    text = tmp_path / "text"
    text.write_text("the dog barks\na cat sleeps\n")
    for name in "one", "two":
        saved = tmp_path / f"{name}.npz"
        options = ["--n-states", "2", "--max-iter", "2", "--save", saved, "-q"]
        assert run("tag", "train", text, *options).exit_code == 0
        assert run("align", text, text, "--save", tmp_path / f"{name}.align", "-q", "-o", tmp_path / "o").exit_code == 0
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert (tmp_path / "one.align").read_bytes() == (tmp_path / "two.align").read_bytes()


def test_former_ways_of_giving_a_model_and_columns_still_work(run, tmp_path):
    text, model = tmp_path / "text", tmp_path / "model.npz"
    text.write_text("the\tDT\ndog\tNN\n")
    assert run("tag", "train", "--labelled", text, "--columns", "0,1", "--save", model, "-q").exit_code == 0
    now = run("tag", "predict", text, "--load", model, "--columns", "0,1", "-q")
    then = run("tag", "predict", model, text, "--columns", "0", "1", "-q")
    assert (then.stdout, then.exit_code) == (now.stdout, 0)
    assert "the model is given by --load" in then.stderr
    assert "--columns 0,1 now" in then.stderr


@pytest.mark.parametrize(
    ("line", "shown", "refused"),
    [
        ("tag train x --save y --C 0", "X [x>0]", "--C must be finite and above 0, got 0.0"),
        ("tag train x --save y --tol -1", "GAIN [x>=0]", "--tol must be finite and at least 0, got -1.0"),
        ("align x --step-size 0", "X [x>0]", "--step-size must be finite and above 0, got 0.0"),
        ("align x --null-probability 1", "P [0<x<1]", "--null-probability must lie between 0 and 1, got 1.0"),
        ("align x --max-jump 0", "WORDS [1<=x<=1000000]", "--max-jump must be at least 1, got 0"),
    ],
)
def test_help_shows_the_range_that_the_check_of_the_declaration_keeps(run, line, shown, refused):
    path, option = line.partition(" x ")[0], line.split()[-2]
    assert next(one.metavar for one in dict(commands())[path].params if option in one.opts) == shown
    result = run(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"spectrem: error: {refused}")
