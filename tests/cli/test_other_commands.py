"""`spectrem lexicon`, `demo` and `warmup`, and what all commands have in common."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest
import typer

from spectrem import WordAligner
from spectrem.cli.app import app
from spectrem.cli.names import FORMER
from spectrem.data import write_lines, write_tag_dictionary, write_tagged
from spectrem.datasets import make_tagged_corpus


def test_every_command_explains_itself(run):
    names = list(typer.main.get_command(app).commands)
    assert {"align", "evaluate", "symmetrize", "lexicon", "tag", "demo", "warmup"} <= set(names)
    for name in names:
        result = run(name, "--help")
        assert result.exit_code == 0
        assert "Usage: " in result.stdout


def find_command(command):
    """A command by its name, such as "tag train"."""
    found = typer.main.get_command(app)
    for name in command.split():
        found = found.commands[name]
    return found


def options_of(command):
    """The names of all options of a command, such as "tag train"."""
    return {name for option in find_command(command).params for name in option.opts}


@pytest.mark.parametrize("command", ["align", "cluster", "tag train", "parse train", "parse transfer", "extract train"])
def test_help_of_large_commands_is_short_and_says_where_the_rest_is(run, command):
    short, full = (run(*command.split(), way).stdout for way in ("--help", "--help-all"))
    options = [one.opts[0] for one in find_command(command).params if one.opts[0].startswith("--")]
    shown = {line.strip("│* ").split()[0] for line in short.splitlines() if line[:1] == "│" and "--" in line[:8]}
    assert len(short.splitlines()) <= 75
    assert 12 <= len(shown) <= 25
    more, explained = short.splitlines()[-4:-2]
    assert f" {len(options) + 1 - len(shown)} more " in more  # --help is no parameter
    assert "--help-all" in explained
    assert [name for name in options if name[:14] not in full] == []
    assert len(full.splitlines()) > 1.5 * len(short.splitlines())


@pytest.mark.parametrize(("command", "names"), FORMER.items(), ids=list(FORMER))
def test_former_names_lead_to_options(command, names):
    assert {name.partition(" ")[0] for name in names.values()} <= options_of(command)
    assert options_of(command).isdisjoint(names)


@pytest.mark.parametrize("spelling", [["--format", "eflomal"], ["--format=eflomal"]])
def test_former_names_work_and_say_the_new_one(run, files, tmp_path, spelling):
    model = tmp_path / "model.npz"
    WordAligner(max_iter=1).fit(files.bitext.source, files.bitext.target).save(model)
    result = run("lexicon", "--load", model, *spelling)
    assert (result.exit_code, result.stderr) == (
        0,
        "note: --format is called --output-format now; the old name works until version 0.3\n",
    )
    assert result.stdout == run("lexicon", "--load", model, "--output-format", "eflomal").stdout


def test_the_defaults_shown_are_those_of_the_estimator():
    parameters = inspect.signature(WordAligner).parameters
    options = typer.main.get_command(app).commands["align"].params
    shown = {
        option.name: option.show_default
        for option in options
        if option.name in parameters and option.name != "constraints"
    }
    assert {"model", "gamma", "max_iter", "model1_iterations", "max_fertility", "decode", "threshold"} <= set(shown)
    for name, default in shown.items():
        expected = "project-at-predict" if parameters[name].default is True else parameters[name].default
        assert default == (False if expected in (None, ()) else str(expected)), name
    [constraint] = [option for option in options if option.name == "constraint"]
    assert (constraint.show_default,) == parameters["constraints"].default


def test_lexicon(run, files, tmp_path):
    model, out = tmp_path / "model.npz", tmp_path / "lexicon.tsv"
    aligner = WordAligner().fit(files.bitext.source, files.bitext.target)
    aligner.save(model)
    assert run("lexicon", "--load", model, "-o", out, "--min-probability", "0.3").exit_code == 0
    header, *rows = [line.split("\t") for line in out.read_text().splitlines()]
    assert header == ["source", "target", "p(target|source)", "p(source|target)", "count"]
    expected = {(s, t): (f, b) for s, t, f, b in aligner.lexicon(0.3)}
    assert {(row[0], row[1]) for row in rows} == set(expected)
    for source, target, forward, backward, _ in rows:
        assert (float(forward), float(backward)) == pytest.approx(expected[source, target], rel=1e-3)
        assert max(float(forward), float(backward)) >= 0.2999
    first = [float(row[2]) for row in rows if row[0] == rows[0][0]]
    assert first == sorted(first, reverse=True)
    assert len(run("lexicon", "--load", model).stdout) > len(out.read_text())


def test_counts_in_the_lexicon(run, files, tmp_path):
    model = tmp_path / "model.npz"
    aligner = WordAligner(max_iter=1, n_threads=1).fit(files.bitext.source, files.bitext.target)
    aligner.save(model)
    every = list(aligner.lexicon(0.2))
    least = round(float(np.median([entry.links for entry in aligner.counted_lexicon(0.2)])), 2)
    entries = list(aligner.counted_lexicon(0.2, least))
    assert 0 < len(entries) < len(every)
    assert set(every) >= {entry[:4] for entry in entries}
    assert sum(entry.links for entry in aligner.counted_lexicon(0)) < 1.2 * sum(map(len, files.bitext.target))

    def columns(*options):
        lines = run(
            "lexicon", "--load", model, "--min-probability", 0.2, "--min-count", least, *options
        ).stdout.splitlines()[1:]
        return [(line.split("\t")[0], *map(float, line.split("\t")[2:])) for line in lines]

    by_source, by_count, by_probability = (columns("--sort", name) for name in ("source", "count", "probability"))
    assert sorted(by_source) == sorted(by_count) == sorted(by_probability)
    assert len(by_source) == len(entries)
    assert list(dict.fromkeys(row[0] for row in by_source)) == list(dict.fromkeys(entry.source for entry in entries))
    assert [row[3] for row in by_count] == sorted((row[3] for row in by_count), reverse=True)
    products = [row[1] * row[2] for row in by_probability]
    np.testing.assert_allclose(products, sorted(products, reverse=True), rtol=2e-3)
    refused = run("lexicon", "--load", model, "--sort", "count", "--output-format", "eflomal")
    assert "--sort count changes nothing of priors" in refused.stderr


def test_the_lexicon_of_a_model_saved_before_counts_were_kept(run, files, tmp_path):
    model = tmp_path / "model.npz"
    aligner = WordAligner(max_iter=1, n_threads=1).fit(files.bitext.source, files.bitext.target)
    aligner.save(model)
    whole = run("lexicon", "--load", model, "--sort", "probability").stdout.splitlines()
    both = aligner.params_.forward, aligner.params_.backward
    aligner.params_ = type(aligner.params_)(*(replace(side, totals=None) for side in both))
    aligner.save(model)
    former = run("lexicon", "--load", model, "--sort", "probability")
    assert sorted(former.stdout.splitlines()) == sorted(line.rsplit("\t", 1)[0] for line in whole)
    assert "saved before expected links were kept, so the column count is left out" in former.stderr
    for options in (["--min-count", 1], ["--sort", "count"], ["--output-format", "eflomal"]):
        refused = run("lexicon", "--load", model, *options)
        assert refused.exit_code == 2
        assert "expected links need the counts" in refused.stderr


def test_demo(run, tmp_path):
    plot = tmp_path / "demo.png"
    result = run("demo", "--n-pairs", "150", "--plot", plot)
    assert result.exit_code == 0, result.stderr
    rows = [line.split("│")[1:-1] for line in result.stdout.splitlines() if line.startswith("│")]
    methods = [row[0].strip() for row in rows]
    aers = [float(row[3]) for row in rows]
    assert methods == ["EM", "PR", "UEM"]
    assert aers[0] > aers[1] > aers[2]
    assert "EM (\N{GREEK SMALL LETTER GAMMA} = 1)" in result.stdout
    assert "[█]" in result.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert run("demo", "--n-pairs", "150").stdout in result.stdout


def test_demo_draws_at_random(run):
    assert (
        run("demo", "--n-pairs", "100", "--random-state", "1").stdout
        != run("demo", "--n-pairs", "100", "--random-state", "2").stdout
    )


def test_demo_draws_in_known_formats_only(run, tmp_path):
    result = run("demo", "--n-pairs", "60", "--plot", tmp_path / "demo.doc")
    assert result.exit_code == 2
    assert "the name must end in .png, .svg, .pdf" in result.stderr


def test_warmup_says_what_it_does_and_warns_of_nothing(run):
    result = run("warmup", "--for", "classify,project")
    assert result.exit_code == 0, result.stderr
    lines = result.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["classify", "project"]
    assert all(re.fullmatch(r"\w+: (\d+ kernels compiled|compiled before), [\d.]+ s", line) for line in lines)


def test_warmup_knows_its_families(run):
    result = run("warmup", "--for", "align,tags")
    assert result.exit_code == 2
    assert "'tags' is not a family of kernels; those are align, tag, cluster, " in result.stderr


@pytest.mark.slow
def test_warmup_compiles_all_that_align_tag_and_project_need(start, files, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    process = start("warmup")
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    compiled = {path.name for path in (tmp_path / "cache").rglob("*.nb*")}
    assert compiled
    model, dev = tmp_path / "model", ["--dev", files.source, files.target, files.gold]
    for options in (
        ["--save", model, "--probabilities", tmp_path / "probabilities"],
        ["--load", model, *dev],
        ["--load", model, "--lowercase"],  # words that the model does not know
        ["--constraint", "fertility", "--lowercase", "--max-length", "10"],
        ["--constraint", "none", "--model", "ibm2", "--decode", "grow-diag-final-and"],
        ["--anneal", "0.5", "--max-iter", "1", *dev],
        ["--gamma", "0", "--max-iter", "1", "--n-threads", "2"],
    ):
        process = start("align", files.source, files.target, *options)
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    table = tmp_path / "table.csv"
    write_lines(table, ["ham,spam,w", *(f"{1 - k / 20},{k / 20},2" for k in range(20))])
    for options in ([], ["--gamma", "0"], ["--weights", "w"]):
        process = start("project", table, "--labels", "ham,spam", "--constraint", "E[label == 'spam'] == 5", *options)
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    text, tags = tmp_path / "text.pos", tmp_path / "tags.tsv"
    corpus = make_tagged_corpus(12, seed=1)
    write_tagged(text, corpus.words, corpus.tags)
    write_tag_dictionary(tags, corpus.dictionary)
    for options in (
        [
            "--dictionary",
            tags,
            "--anneal",
            "0.5",
            "--constraint",
            "E[tag == 'NOUN'] <= '60%'",
            "--constraint",
            "sparsity(2, 1)",
        ],
        ["--dictionary", tags, "--order", "2", "--quench", "--max-iter", "5", "--constraint", "at_least(1, 'VERB')"],
        ["--n-states", "3", "--order", "2", "--max-iter", "5"],
        ["--labelled", text, "--init", "supervised"],
    ):
        for command in (
            ["tag", "train", text, "--save", model, *options],
            [
                "tag",
                "predict",
                "--load",
                model,
                text,
                "--probabilities",
                tmp_path / "posteriors",
                "--decode",
                "viterbi",
            ],
        ):
            process = start(*command)
            _, errors = process.communicate()
            assert process.returncode == 0, errors.decode()
    assert {path.name for path in (tmp_path / "cache").rglob("*.nb*")} == compiled
