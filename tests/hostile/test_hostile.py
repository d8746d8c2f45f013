"""Hostile runs of all commands: damaged files, senseless options, outputs in impossible places, damaged models.

Every run ends with status 0 or 2, says in a few lines what is wrong where and what to try, and changes nothing but
its outputs. The quick tests run a sample of what the slow ones run; a failure prints the command and how to make its
files: ``make_bad(folder, name, damage)``.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from bench import COMMANDS, DAMAGES, GOOD, MODELS, damaged_models, outcome_of, write_good
from runs import remove, run, shown, state

from spectrem.cli.app import app

SAMPLE = random.Random(26)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile")
    here = os.getcwd()
    os.chdir(path)
    write_good(path)
    yield path
    os.chdir(here)


def parse(command: str) -> tuple[list[str], list[str]]:
    """The arguments of a command, and its outputs."""
    words = COMMANDS[command].split()
    outputs = [word[1:-1] for word in words if word.startswith("{")]
    return [word.strip("{}") for word in words], outputs


def make_bad(folder: Path, name: str, damage: str) -> str:
    """Write a damaged copy of a good file; returns its name."""
    kind = DAMAGES[damage]
    bad = kind.rename.format(name)
    data = (folder / name).read_bytes()
    try:
        made = kind.apply(data)
    except UnicodeDecodeError:  # models are no text
        made = b"\xff\xfe" + data
    if made is Path:
        (folder / bad).mkdir()
    elif made is not None:
        (folder / bad).write_bytes(made)
    return bad


def file_cases():
    for command in COMMANDS:
        arguments, _ = parse(command)
        for place, name in enumerate(arguments):
            if name in GOOD or name in MODELS:
                yield from ((command, place, damage) for damage in DAMAGES)


def run_file_case(folder, command, place, damage):
    arguments, outputs = parse(command)
    name = arguments[place]
    bad = make_bad(folder, name, damage)
    arguments[place] = bad
    try:
        found = run(
            folder, arguments, outcome_of(command, name, damage), [name, "cannot be met", *arguments[2:]], outputs
        )
    finally:
        remove(folder / bad)
    return (
        f"{command}, {name}: {damage}\n  {shown(arguments)}\n  {found.wrong}: {found.said[:400]!r}"
        if found.wrong
        else ""
    )


FILE_CASES = list(file_cases())


def judge_all(results):
    wrong = [result for result in results if result]
    assert not wrong, f"{len(wrong)} runs are wrong\n" + "\n".join(wrong[:40])


def test_every_command_runs_on_good_files(folder):
    for command in COMMANDS:
        arguments, outputs = parse(command)
        found = run(folder, arguments, "fine", [], outputs)
        assert not found.wrong, (command, found)


def test_a_sample_of_damaged_files(folder):
    judge_all(run_file_case(folder, *case) for case in SAMPLE.sample(FILE_CASES, 120))


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_all_damaged_files(folder, command):
    judge_all(run_file_case(folder, *case) for case in FILE_CASES if case[0] == command)


# options

VALUES = ["nan", "inf", "-inf", "-1", "0", "1e308", "99999999999999999999", "x", "", " ", "\x1b[31m", "yes"]
# what may take as long as it is told to
LONG = (
    "--n-init",
    "--passes",
    "--max-iter",
    "--n-pairs",
    "--dual-steps",
    "--update-iterations",
    "--n-threads",
    "--model1-iterations",
    "--time-limit",
    "--n-components",
    "--n-states",
    "--bits",
)
ONE_PER_COMMAND = (
    "align",
    "evaluate",
    "symmetrize",
    "lexicon",
    "tag train",
    "tag train crf",
    "tag predict",
    "tag evaluate",
    "parse train",
    "parse train dmv",
    "parse predict",
    "parse evaluate",
    "parse transfer",
    "extract train",
    "extract predict",
    "extract evaluate",
    "project",
    "cluster",
    "states fit",
    "states predict",
    "states forecast",
    "label fit",
    "label predict",
    "label evaluate",
    "demo",
)


def options_of(command: str):
    """The options of a command by their longest name: whether each takes a value, and the name of what it takes."""
    found = typer.main.get_command(app)
    for word in command.replace(" crf", "").replace(" dmv", "").split():
        found = found.commands[word]
    for parameter in found.params:
        if parameter.opts[0].startswith("-") and parameter.name != "help":
            yield parameter, max(parameter.opts, key=len)


def option_cases():
    for command in ONE_PER_COMMAND:
        for parameter, name in options_of(command):
            if getattr(parameter, "is_flag", False):
                yield command, name, "text"
                continue
            for value in VALUES:
                if name in LONG and value in ("99999999999999999999", "1e308"):
                    continue
                if name in ("--dask",):  # which would wait for a scheduler
                    continue
                yield command, name, value


OPTION_CASES = list(option_cases())
# values that no option has a meaning for, whatever it is
SENSELESS = ("\x1b[31m", "")
FREE = (
    "--unknown",
    "--prefix",
    "--factors",
    "--edge-features",
    "--same",
    "--id",
    "--context",
    "--field",
    "--no-relation",
)


def run_option_case(folder, command, name, value):
    arguments, outputs = parse(command)
    if name in arguments:
        at = arguments.index(name)
        outputs = [output for output in outputs if output != arguments[at + 1]]
        del arguments[at : at + 2]
    arguments.append(f"{name}={value}")
    numeric = any(
        p.type.name in ("integer", "float") for p, own in options_of(command) if own == name and hasattr(p, "type")
    )
    outcome = (
        "error" if value == "text" or (numeric and value in ("x", "yes", "", " ", "\x1b[31m", "nan")) else "either"
    )
    before = state(folder)
    extra = [value, value.encode("unicode_escape").decode()] if value.strip() else []
    names = [name, name.strip("-"), name.strip("-").replace("-", "_"), "cannot be met", *extra]
    found = run(folder, arguments, outcome, names, [*outputs, *extra], before)
    return f"{shown(arguments)}\n  {found.wrong}: {found.said[:400]!r}" if found.wrong else ""


def test_a_sample_of_senseless_options(folder):
    judge_all(run_option_case(folder, *case) for case in SAMPLE.sample(OPTION_CASES, 120))


@pytest.mark.slow
@pytest.mark.parametrize("command", ONE_PER_COMMAND)
def test_all_senseless_options(folder, command):
    judge_all(run_option_case(folder, *case) for case in OPTION_CASES if case[0] == command)


# outputs in impossible places


def output_cases():
    for command in COMMANDS:
        arguments, outputs = parse(command)
        inputs = [name for name in arguments if name in GOOD or name in MODELS]
        for place, name in enumerate(arguments):
            if name in outputs:
                yield from ((command, place, other) for other in dict.fromkeys(inputs))
                yield from ((command, place, other) for other in outputs if other != name)
                yield from ((command, place, f"{kind}/{name}") for kind in ("missing", "en.txt"))
                yield from ((command, place, f"{kind}") for kind in ("/dev/full", ".", "/proc/nowhere", "x" * 300))


OUTPUT_CASES = list(output_cases())


def run_output_case(folder, command, place, other):
    arguments, outputs = parse(command)
    replaced = arguments[place]
    arguments[place] = other
    option = arguments[place - 1]
    option = {"-o": "--output", "-c": "--constraints"}.get(option, option)
    names = [option, option.strip("-"), other]
    found = run(folder, arguments, "error", names, [name for name in outputs if name != replaced])
    return f"{shown(arguments)}\n  {found.wrong}: {found.said[:400]!r}" if found.wrong else ""


def test_a_sample_of_impossible_outputs(folder):
    judge_all(run_output_case(folder, *case) for case in SAMPLE.sample(OUTPUT_CASES, 40))


@pytest.mark.slow
def test_all_impossible_outputs(folder):
    judge_all(run_output_case(folder, *case) for case in OUTPUT_CASES)


# models: damaged, and of others

READERS = {
    "aligner.npz": ["align load", "lexicon"],
    "tagger.npz": ["tag predict"],
    "crf.npz": ["tag predict"],
    "parser.npz": ["parse predict"],
    "grammar.npz": ["parse predict"],
    "extractor.npz": ["extract predict"],
    "states.npz": ["states predict", "states forecast"],
    "labels.npz": ["label predict", "label evaluate"],
}


def run_model(folder, command, model, what, outcome):
    arguments, outputs = parse(command)
    at = next(k for k, word in enumerate(arguments) if word in MODELS)
    arguments[at] = model
    found = run(folder, arguments, outcome, [model, "memory"], outputs)
    return f"{what}: {shown(arguments)}\n  {found.wrong}: {found.said[:400]!r}" if found.wrong else ""


def damage_models(folder, n):
    rng = np.random.default_rng(26)
    for name, commands in READERS.items():
        for what, data in damaged_models(folder, name, rng, n):
            (folder / "damaged.npz").write_bytes(data)
            for command in commands:
                yield run_model(folder, command, "damaged.npz", what, "either")
    (folder / "damaged.npz").unlink()


def test_some_damaged_models(folder):
    judge_all(list(damage_models(folder, 6)))


@pytest.mark.slow
def test_many_damaged_models(folder):
    judge_all(list(damage_models(folder, 150)))


def test_models_of_other_estimators(folder):
    commands = {command for listed in READERS.values() for command in listed}
    judge_all(
        [
            run_model(folder, command, model, "another estimator", "error")
            for command in sorted(commands)
            for model, readers in READERS.items()
            if command not in readers
        ]
    )


# what files say that cannot be

CONTENTS = [
    # command, file, what it holds in place of the good one, outcome
    ("evaluate", "links.txt", "0-0 9-9\n" * 6, "either"),
    ("evaluate", "gold.txt", "0-0\n" * 5, "error"),
    ("evaluate", "links.txt", '{"source": 3}\n' * 6, "error"),
    ("evaluate", "links.txt", "null\n" * 6, "error"),
    ("symmetrize", "links.txt", "0-0 0--1\n" * 6, "error"),
    ("align", "gold.txt", "9-9\n" * 6, "error"),
    ("align dev", "gold.txt", "9-9\n" * 6, "error"),
    ("align dev", "gold.txt", "0-0\n" * 5, "error"),
    ("align", "words.tsv", "house\n", "error"),
    ("align priors", "priors.tsv", "LEX\thouse\tmaison\tmuch\n", "error"),
    ("align priors", "priors.tsv", "LEX\thouse\tmaison\tnan\n", "error"),
    ("align priors", "priors.tsv", "LEX\thouse\tmaison\t-1\n", "error"),
    ("align json", "pairs.jsonl", "null\n", "error"),
    ("align json", "pairs.jsonl", '{"source": null, "target": "b"}\n', "error"),
    ("align json", "pairs.jsonl", '{"source": ["a"], "target": "b"}\n', "error"),
    ("tag train", "tags.tsv", "the\tDET\nthe\tNOUN\n", "either"),
    ("tag train", "tags.tsv", "the\n", "error"),
    ("tag train crf", "tagged.txt", "the/DET dog\n", "error"),
    ("tag evaluate", "tagged2.txt", "other/DET dog/NOUN sleeps/NOUN\na/DET cat/NOUN eats/VERB fish/VERB\n", "error"),
    ("tag evaluate", "tagged2.txt", "the/DET dog/NOUN sleeps/NOUN\n", "error"),
    ("parse train", "trees.conllu", "1\tdogs\t_\tNOUN\t_\t_\t9\t_\t_\t_\n\n", "error"),
    ("parse train", "trees.conllu", "1\tdogs\t_\tNOUN\t_\t_\t1\t_\t_\t_\n\n", "error"),
    ("parse train", "trees.conllu", "1\tdogs\t_\tNOUN\t_\t_\tx\t_\t_\t_\n\n", "error"),
    ("parse train", "trees.conllu", "1\tdogs\t_\tNOUN\t_\t_\t0\t_\t_\n\n", "error"),
    ("parse train", "trees.conllu", "1\tdogs\t_\tNOUN\t_\t_\t0\t_\t_\t_\t_\n\n", "error"),
    (
        "parse train",
        "trees.conllu",
        "1\tdogs\t_\tNOUN\t_\t_\t0\t_\t_\t_\n3\tbark\t_\tVERB" + "\t_" * 6 + "\n\n",
        "error",
    ),
    ("parse evaluate", "trees2.conllu", "1\tdogs\t_\tNOUN\t_\t_\t0\t_\t_\t_\n\n", "error"),
    ("parse transfer", "tree-links.txt", "9-9\n0-0\n0-0\n", "error"),
    ("parse transfer", "tree-links.txt", "0-0\n", "error"),
    ("extract evaluate", "rel.corp", GOOD["rel.corp"].replace("Ray", "Roy"), "either"),
    ("extract train", "rel.corp", GOOD["rel.corp"].replace("0\t2\tKill", "0\t9\tKill"), "error"),
    ("extract train", "rel.corp", GOOD["rel.corp"].replace("0\t2\tKill", "0\tx\tKill"), "error"),
    ("project", "scores.csv", "ham,spam\n0.9,0.2\n", "error"),
    ("project", "scores.csv", "ham,spam,ham\n0.9,0.1,0\n", "error"),
    ("project", "scores.csv", "ham,spam\n0.9\n", "error"),
    ("project", "scores.csv", "ham,spam,$x_$<b>\n0.9,0.1,k\n0.1,0.9,k\n", "fine"),
    ("project", "scores.csv", "ham,spam,\x1b[31m\n0.9,0.1,k\n0.1,0.9,k\n", "either"),
    ("project", "c.yaml", "- E[label == 'spma'] <= 1\n", "error"),
    ("project", "c.yaml", "- E[label == 'spam'] >= 4\n", "error"),
    ("project", "c.yaml", "- E[label == 'spam'] <= 40\n", "either"),
    ("project", "c.yaml", "- E[label == 'spam'] <= .nan\n", "error"),
    ("project", "c.yaml", "{}\n", "either"),
    ("project", "c.yaml", "3\n", "error"),
    ("project", "c.yaml", "- [E[label == 'spam'] <= 1]\n", "error"),
    ("cluster", "data.csv", "name,x,y\na,1,2\na,1,3\n", "error"),
    ("cluster", "data.csv", "name,x,y\na,1,2\nb,nan,3\n", "error"),
    ("cluster", "data.csv", "name,x,y\na,1,2\n", "error"),
    ("cluster", "must.csv", "a,b\nr0,nobody\n", "error"),
    ("cluster", "must.csv", "a\nr0\n", "error"),
    ("cluster", "clusters.yaml", "- E[label == 7] >= 3\n", "error"),
    ("states fit", "series.csv", "room,day,x,y\n", "error"),
    ("states fit", "series.csv", "room,day,x\na,1,2\n", "error"),
    ("states fit", "series.csv", "room,day,x,y\na,1,2,k\na,2,3,l\n", "error"),
    ("states fit", "series.csv", "room,day,x,y\na,1,inf,2\na,2,3,4\n", "error"),
    ("states fit", "series.csv", "room,day,x,y\na,k,1,2\na,2,3,4\n", "error"),
    ("states predict", "series.csv", "room,day,x\na,1,2\n", "error"),
    ("states predict", "series.csv", "room,day,x,y\na,1,2,k\n", "error"),
    ("states forecast", "series.csv", "room,day,x,y\na,1,,\nb,2,3,\n", "fine"),
    ("states fit", "states.yaml", "- E[state == 7] >= 3\n", "error"),
    ("states fit", "states.yaml", "- E[state == 0] >= 300\n", "error"),
    ("label fit", "votes.csv", "item,source,label,box\n", "error"),
    ("label fit", "votes.csv", "item,source,box\n1,2,3\n", "error"),
    ("label fit", "votes.csv", "item,source,label,box\n1,,ham,a\n7,2,spam,a\n", "error"),
    ("label fit", "votes.csv", "item,source,label,box\n1,a,ham,a\n1,b,spam,b\n", "error"),
    ("label fit", "truth.csv", "item\n1\n", "error"),
    ("label fit", "truth.csv", "item,label\n1,ham\n1,ham\n", "error"),
    ("label fit", "truth.csv", "item,label\nnobody,ham\n", "error"),
    ("label fit", "labels.yaml", "- E[label == 'spma'] <= 3\n", "error"),
    ("label fit", "labels.yaml", "- E[label == 'spam'] >= 300\n", "error"),
    ("label fit json", "weak.json", '{"0": {"weak_labels": [[]], "data": {"text": ["a"]}}}\n', "error"),
    ("label fit json", "weak.json", '{"0": {"weak_labels": [1e999], "data": {}}}\n', "error"),
    ("label predict", "votes.csv", "item,source,label,box\n1,9,ham,x\n", "error"),
    ("label predict", "votes.csv", "item,source,label,box\n1,0,eggs,x\n", "error"),
    ("label predict", "votes.csv", "item,source,label,box\n1,0,,x\n", "fine"),
    ("label predict", "votes.csv", "item,source,label,box\n1,0,ham,z\n", "error"),
    ("label evaluate", "truth.csv", "item,label\n1,eggs\n", "error"),
    ("cluster", "clusters.yaml", "- E[label == 0] >= 300\n", "error"),
]

WITH_OPTIONS = [
    # command, further arguments, outcome, what the message must name
    ("align", "--dictionary-strength 1e308", "error", "--dictionary-strength"),
    ("align", "--gamma 1e308", "error", "--gamma"),
    ("tag train", "--smoothing 1e308", "error", "--smoothing"),
    ("parse transfer", "--rate 1e308", "error", "--rate"),
    ("tag train", "--checkpoint=", "error", "--checkpoint"),
    ("tag evaluate", "--dictionary=", "error", "--dictionary"),
    ("tag train", "--constraint E[label=='NUON']<=1", "error", "NUON"),
    ("tag train", "--constraint (E[label=='NUON']<=1).slack(penalty=1)", "error", "NUON"),
    ("tag train", "--constraint E[label=='NOUN']>=100", "error", "NOUN"),
    ("tag train", "--constraint (E[label=='NOUN']>=9).per('sentence')", "error", "NOUN"),
    ("tag train", "--constraint (E[label=='NOUN']>=1).per('document')", "error", "document"),
    ("tag train", "--checkpoint en.txt/x", "error", "--checkpoint"),
    ("tag train crf", "--checkpoint en.txt/x", "error", "--checkpoint"),
    ("parse train", "--checkpoint en.txt/x", "error", "--checkpoint"),
    ("parse train dmv", "--checkpoint en.txt/x", "error", "--checkpoint"),
    ("extract train", "--checkpoint en.txt/x", "error", "--checkpoint"),
    ("align", "--checkpoint en.txt/x", "error", "--checkpoint"),
    ("cluster", "--checkpoint en.txt/x", "error", "--checkpoint"),
    ("parse train dmv", "--constraint tag_rules([('VRB','NOUN')],0.5).slack(penalty=1)", "error", "VRB"),
    ("parse train dmv", "--constraint tag_rules([('VRB','NOUN')],0.5)", "error", "VRB"),
    ("parse train dmv", "--max-length 1", "error", "--max-length"),
    ("parse evaluate", "--max-length 1", "error", "--max-length"),
    ("parse train", "--constraint (E[head_tag=='VERB']>=1).per('sentence')", "error", "constraints"),
    ("tag train crf", "--constraint (E[label=='NOUN']>=1).per('sentence')", "error", "constraints"),
    ("extract train", "--constraint (E[relation=='Kill']<=1).per('sentence')", "fine", "met by predictions"),
    ("project", "--constraint E[label=='spam']<=1&1", "error", "--constraint"),
    ("project", "--labels ham", "error", "labels"),
    ("project", "--weights document", "error", "document"),
    ("cluster", "--size 9:10", "error", "cluster size"),
    ("cluster", "--known kind", "error", "kind"),
    ("cluster", "--weights kind", "error", "kind"),
    ("cluster", "-k 99", "error", "--n-components"),
    ("states fit", "--known kind", "error", "kind"),
    ("states fit", "--states a", "error", "there is no state 0"),
    ("states fit", "--time x,y", "error", "--time"),
    ("states fit", "--constraint E[state=='up']<=1", "error", "up"),
    ("states fit", "--emissions uniform", "error", "uniform"),
    ("states fit", "--emissions z=poisson", "error", "--emissions"),
    ("states forecast", "--steps 0", "error", "--steps"),
    ("label fit", "--votes z*", "error", "--votes"),
    ("label fit", "--columns item,source", "error", "--columns"),
    ("label fit", "--known box", "error", "--known"),
    ("label fit", "--id item", "error", "--id"),
    ("label fit", "--classes ham", "error", "classes"),
    ("label fit", "--weights box", "error", "box"),
    ("label fit", "--constraint E[source==9]<=1", "error", "9"),
    ("label evaluate", "--columns a,b,c", "error", "--columns"),
]


@pytest.mark.parametrize(("command", "name", "text", "outcome"), CONTENTS)
def test_contents_that_cannot_be(folder, command, name, text, outcome):
    arguments, outputs = parse(command)
    bad = f"bad-{name}"
    (folder / bad).write_text(text)
    arguments[arguments.index(name)] = bad
    try:
        found = run(folder, arguments, outcome, [bad, name, "E[part("], outputs)
    finally:
        (folder / bad).unlink()
    assert not found.wrong, (shown(arguments), found)


@pytest.mark.parametrize(("command", "more", "outcome", "named"), WITH_OPTIONS)
def test_options_that_cannot_be(folder, command, more, outcome, named):
    arguments, outputs = parse(command)
    found = run(folder, [*arguments, *more.split()], outcome, [named], outputs)
    assert not found.wrong, (shown([*arguments, *more.split()]), found)


def test_plots_of_columns_with_any_name(folder):
    columns = ["$x_$<b>", "größe \u4e2d\U0001f600"]
    text = (
        ",".join(columns)
        + "\n"
        + "\n".join(f"{x},{y}" for x, y in [(0, 0), (1, 0), (0, 1), (5, 5), (6, 5), (5, 6)])
        + "\n"
    )
    (folder / "odd.csv").write_text(text)
    found = run(
        folder,
        ["cluster", "odd.csv", "-k", "2", "-o", "out.csv", "--plot", "plot.png"],
        "fine",
        [],
        ["out.csv", "plot.png"],
    )
    (folder / "odd.csv").unlink()
    assert not found.wrong, found


# processes: standard output that is closed, or read by nobody


@pytest.mark.parametrize("command", ["evaluate", "symmetrize", "tag predict", "project"])
@pytest.mark.parametrize("closed", ["full", "closed"])
def test_standard_output_that_takes_nothing(folder, command, closed):
    arguments, outputs = parse(command)
    for name in outputs:
        at = arguments.index(name)
        del arguments[at - 1 : at + 1]
    before = state(folder)
    start = (
        "import os, sys\n"
        + ("os.close(1)\n" if closed == "closed" else "")
        + "os.execv(sys.executable, [sys.executable, '-c', "
    )
    start += "'from spectrem.cli import main; main()', *sys.argv[1:]])"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", start, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2, done.stderr
    assert "standard output" in done.stderr
    assert "Traceback" not in done.stderr
    assert state(folder) == before
