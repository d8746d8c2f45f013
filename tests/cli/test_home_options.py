"""Where commands compute and what they keep meanwhile: --n-threads, --spill, --dask and --checkpoint."""

import signal
import zipfile

import numpy as np
import pytest
import typer

from spectrem import WordAligner
from spectrem.cli.app import app
from spectrem.cli.training import Home
from spectrem.data import write_lines, write_tag_dictionary
from spectrem.datasets import make_tagged_corpus
from spectrem.exceptions import InvalidInputError, SpectremError
from spectrem.models import tagging as shards
from spectrem.models.alignment import pairs

ALL = ("--n-threads", "--spill", "--dask", "--checkpoint")
OPTIONS = {
    ("align",): ALL,
    ("tag", "train"): ALL,
    ("tag", "predict"): ALL[:1],
    ("cluster",): (ALL[0], *ALL[2:]),
}


@pytest.fixture
def place(files, tmp_path, monkeypatch):
    """A folder with inputs, in which a command runs; data are cut into several shards."""
    corpus = make_tagged_corpus(20)
    write_lines(tmp_path / "text", map(" ".join, corpus.words))
    write_tag_dictionary(tmp_path / "tags.tsv", corpus.dictionary)
    write_lines(tmp_path / "both", files.both.read_text().splitlines()[:40])
    rows = [f"{9 * (k % 3) + k * k % 7},{5 * (k % 3) + k * k % 5}" for k in range(60)]
    write_lines(tmp_path / "d.csv", ["x,y", *rows])
    (tmp_path / "spill").mkdir()
    monkeypatch.chdir(tmp_path)
    for module, least, most in ((shards, "_LEAST_PARTS", "_MOST_PARTS"), (pairs, "_LEAST_CELLS", "_MOST_CELLS")):
        monkeypatch.setattr(module, least, 300)
        monkeypatch.setattr(module, most, 300)
    return tmp_path


COMMANDS = {
    "align": ["align", "both", "-o"],
    "stepwise": ["align", "both", "--stepwise", "3", "-o"],
    "tag": [
        "tag",
        "train",
        "text",
        "--dictionary",
        "tags.tsv",
        "--constraint",
        "at_least(1, 'VERB')",
        "--max-iter",
        "3",
        "--save",
    ],
    "cluster": ["cluster", "d.csv", "-k", "3", "-o"],
}


@pytest.mark.parametrize("names", OPTIONS, ids=" ".join)
def test_the_options_are_declared_once(names):
    command = typer.main.get_command(app)
    for name in names:
        command = command.commands[name]
    first = typer.main.get_command(app).commands["align"].params
    for option in ALL:
        [own] = [p for p in command.params if option in p.opts] or [None]
        assert (own is not None) == (option in OPTIONS[names])
        if own is not None:
            [same] = [p for p in first if option in p.opts]
            assert (own.help, own.show_default) == (same.help, same.show_default)


def content(path):
    """Of a model its numbers and words, without its settings, which tell the number of threads."""
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    with np.load(path) as arrays:
        return {name: arrays[name].tobytes() for name in arrays.files if name != "header"}


@pytest.mark.parametrize("name", COMMANDS)
def test_results_do_not_depend_on_where_they_are_computed(run, place, name, cluster, client):
    homes = [["--n-threads", "1"], ["--n-threads", "3"], ["--dask", cluster.scheduler_address]]
    homes += [["--checkpoint", "state"], ["--checkpoint", "state"]]
    if name != "cluster":
        homes += [["--spill", "spill"], ["--spill", "spill", "--dask", cluster.scheduler_address]]
    for k, home in enumerate(homes):
        result = run(*COMMANDS[name], f"out{k}.csv", *home, "-q")
        assert result.exit_code == 0, result.output
        assert content(place / f"out{k}.csv") == content(place / "out0.csv"), home
    assert not list((place / "spill").iterdir())


@pytest.mark.parametrize("options", [["--dev", "a", "b", "gold"], ["--tokenize"]], ids=" ".join)
def test_text_that_is_trained_on_is_mapped(run, place, files, monkeypatch, options):
    if "--tokenize" in options:
        pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")
    for name, path in (("a", files.source), ("b", files.target), ("gold", files.gold)):
        (place / name).write_bytes(path.read_bytes())
    fit, seen = WordAligner.fit, []

    def watched(self, bitext, **others):
        seen.append(bitext)
        return fit(self, bitext, **others)

    monkeypatch.setattr(WordAligner, "fit", watched)
    for home in ([], ["--spill", "spill"]):
        assert run(*COMMANDS["align"], f"out{len(home)}", *options, *home).exit_code == 0
    held, mapped = ([text.source_tokens, text.source_offsets, text.target_tokens] for text in seen)
    assert not any(isinstance(numbers.base, np.memmap) for numbers in held)
    assert all(isinstance(numbers.base, np.memmap) for numbers in mapped)
    assert (place / "out0").read_bytes() == (place / "out2").read_bytes()
    assert not list((place / "spill").iterdir())


def test_a_checkpoint_of_several_gammas(run, place, files):
    dev = files.source, files.target, files.gold
    for path in dev:
        write_lines(place / path.name, path.read_text().splitlines()[:20])
    first = [
        *COMMANDS["align"],
        "out",
        "--dev",
        *(path.name for path in dev),
        "--tune-gamma",
        "--max-iter",
        "1",
        "--model1-iterations",
        "1",
        "-q",
    ]
    for _ in range(2):
        assert run(*first, "--checkpoint", "state").exit_code == 0
    assert sorted(path.name for path in (place / "state").iterdir()) == [
        f"gamma-{gamma}" for gamma in ("0.1", "0.25", "0.5", "0.75", "1")
    ]


@pytest.mark.parametrize("name", ["align", "tag"])
def test_a_checkpoint_of_another_run_is_refused(run, place, name):
    assert run(*COMMANDS[name], "out", "--checkpoint", "state", "-q").exit_code == 0
    for path in ("both", "text"):
        (place / path).write_text((place / path).read_text().replace("a", "e", 3))
    result = run(*COMMANDS[name], "out", "--checkpoint", "state", "-q")
    assert result.exit_code == 2
    assert "spectrem: error: --checkpoint: state/" in result.stderr
    assert "is that of a run with other data, another start or other settings" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--spill", "none"], "--spill none: there is no such folder; make it first"),
        (["--spill", "both"], "--spill both: "),
        (["--checkpoint", "none/state"], "--checkpoint none/state: the folder"),
        (["--checkpoint", "both/state"], "--checkpoint both/state: "),
        (["--load", "both", "--checkpoint", "state"], "--checkpoint: only for training, but --load both aligns"),
        (["--load", "both", "--spill", "spill"], "--spill: only for training, but --load both aligns"),
        (["--dask", "nowhere"], "nowhere: no Dask scheduler answers there"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_places_are_refused_before_anything_is_read(run, place, arguments, said):
    result = run("align", "missing", "-o", "out", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert not (place / "out").exists()


def test_a_cluster_under_constraints_is_refused(run, place):
    result = run("cluster", "d.csv", "-k", "3", "--size", "10:", "--dask", "tcp://localhost:1")
    assert result.exit_code == 2
    assert "--dask tcp://localhost:1: constraints hold rows together" in result.stderr


@pytest.mark.parametrize(
    ("where", "options", "kept"),
    [
        ("call spectrem.estimators:WordAligner.iter_predict", ["--checkpoint", "state"], True),
        ("call spectrem.estimators:WordAligner.fit", ["--checkpoint", "state"], False),
        ("call spectrem.corpus.spilled:store", ["--spill", "spill"], False),
    ],
)
def test_an_interrupt_says_how_to_go_on_and_leaves_nothing_else(paused, place, where, options, kept):
    command = paused(where, *COMMANDS["align"], "out", "-q", *options)
    command.process.send_signal(signal.SIGINT)
    more = b"; the same command goes on from --checkpoint state" if kept else b""
    assert command.end() == (130, b"", b"spectrem: interrupted; no output was written" + more + b"\n")
    assert not (place / "out").exists()
    assert not list((place / "spill").iterdir())


def test_a_failing_command_leaves_nothing_in_the_folder(run, place):
    result = run("align", "missing", "-o", "out", "--spill", "spill")
    assert result.exit_code == 2
    assert not list((place / "spill").iterdir())


def test_a_cluster_that_fails_is_an_error_that_names_it(cluster, client):
    from distributed.comm import CommClosedError

    home = Home(dask=cluster.scheduler_address)
    failed = pytest.raises(SpectremError, match=r"--dask tcp://.*: the cluster failed \(CommClosedError: gone\)")
    with failed, home.opened({}):
        raise CommClosedError("gone")
    with pytest.raises(ZeroDivisionError), home.opened({}):
        raise ZeroDivisionError  # that of the work


def test_a_cluster_without_workers_is_refused():
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    refused = pytest.raises(InvalidInputError, match=r"--dask tcp://.*: the cluster has no worker to compute on")
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty:
        settings = Home(dask=empty.scheduler_address).opened({})
        with refused, settings:
            pass
