"""`spectrem align` on bad input: one clear line, status 2, nothing written."""

import numpy as np
import pytest

from spectrem import WordAligner


def fails(result, *parts):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("spectrem: error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


@pytest.fixture(scope="module")
def model(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.npz"
    WordAligner(model1_iterations=1, max_iter=1).fit(files.bitext.source, files.bitext.target).save(path)
    return path


def test_numbers_of_lines_differ(run, files, tmp_path):
    short, out = tmp_path / "short", tmp_path / "out"
    short.write_text("\n".join(files.bitext.target[:-1]) + "\n")
    fails(run("align", files.source, short, "-o", out), "120 lines", "119", str(short))
    assert not out.exists()


def test_line_without_separator_is_named(run, tmp_path):
    fails(run("align", "-", stdin=b"a ||| b\n\nc d\n"), "standard input, line 3", "` ||| `")


def test_bytes_that_are_not_utf8_are_named(run, tmp_path):
    path = tmp_path / "latin"
    path.write_bytes(b"a ||| b\ncaf\xe9 ||| coffee\n")
    fails(run("align", path), f"{path}, line 2: byte 4", "UTF-8", "iconv")


def test_empty_and_missing_files(run, tmp_path):
    empty = tmp_path / "empty"
    empty.touch()
    fails(run("align", empty), "is empty; give a file of at least one line")
    fails(run("align", tmp_path / "nothing"), "no such file")
    fails(run("align", tmp_path), "cannot be read")
    fails(run("align", "-", "-", stdin=b"a\n"), "cannot both be standard input")


def test_damaged_gzip(run, tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(b"\x1f\x8bnonsense")
    fails(run("align", path), "damaged gzip file")


def test_places_that_cannot_be_written_are_found_first(run, files, tmp_path):
    nowhere = tmp_path / "no" / "where"
    fails(run("align", files.source, files.target, "-o", nowhere), "does not exist; make it first")
    fails(run("align", files.source, files.target, "-o", tmp_path), "is a folder")
    out = tmp_path / "out"
    fails(run("align", files.source, files.target, "-o", out, "--probabilities", nowhere), "does not exist")
    fails(run("align", files.source, files.target, "-o", out, "--save", nowhere), "--save", "does not exist")
    fails(run("align", files.source, files.target, "-o", out, "--save", tmp_path), "is a folder; name a file in it")
    fails(run("align", files.source, files.target, "-o", out, "--probabilities", out), "must be two files")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_run_leaves_the_old_file(run, tmp_path):
    out = tmp_path / "out"
    out.write_text("before\n")
    fails(run("align", "-", "-o", out, stdin=b"a b\n"))
    assert out.read_text() == "before\n"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--gamma", "-0.5"], ["--gamma must be -inf or at least 0", "got -0.5", "not convex"]),
        (["--gamma", "nan"], ["--gamma must be -inf or at least 0"]),
        (
            ["--gamma", "0", "--anneal", "0.5"],
            ["--anneal cools down to a gamma above 0, but --gamma is 0; raise it, and add --quench for 0"],
        ),
        (["--anneal", "-1"], ["--anneal -1: starts at gamma = 1 / BETA", "at most 1"]),
        (["--max-fertility", "0", "--constraint", "fertility"], ["--max-fertility must be finite and above 0, got 0"]),
        (["--max-fertility", "2"], ["--max-fertility 2 changes nothing without --constraint fertility"]),
        (["--save-min-count", "0.01"], ["--save-min-count 0.01 changes nothing without --save"]),
        (["--save", "new.npz", "--save-min-count", "-1"], ["--save-min-count must be at least 0 and finite, got -1.0"]),
        (["--min-probability", "0.5"], ["--min-probability 0.5 changes nothing without --probabilities"]),
        (["--constraint", "none", "--constraint", "agreement"], ["--constraint none stands alone"]),
        (["--threshold", "2"], ['--threshold must be "auto" or a number in [0, 1], got 2.0']),
        (["--threshold", "often"], ["--threshold must be", "got 'often'"]),
        (["--null-probability", "1"], ["--null-probability must lie between 0 and 1, got 1.0; try 0.1"]),
        (["--dictionary-strength", "2"], ["--dictionary-strength 2 changes nothing without --dictionary"]),
        (["--same-strength", "2"], ["--same-strength 2 changes nothing without --same"]),
        (["--same", "names"], ["--same must be some of numbers, urls, punctuation, words, got ('names',)"]),
        (["--tune-gamma"], ["--tune-gamma needs", "add --dev SRC TGT GOLD"]),
        (["--decode", "union", "--threshold", "0.5"], ["--threshold concerns probabilities, which --decode union"]),
        (["--decode", "union", "--rare-discount", "1"], ["--rare-discount concerns probabilities"]),
        (["--decode", "union", "--no-project-at-predict"], ["--project-at-predict concerns probabilities"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_options_that_cannot_be_met(run, files, options, parts):
    fails(run("align", files.source, files.target, *options), *parts)


def test_options_that_exclude_dev(run, files):
    dev = ["--dev", files.source, files.target, files.gold]
    fails(
        run("align", files.both, *dev, "--threshold", "0.3"),
        "--dev chooses the threshold, but --threshold 0.3 is given",
    )
    fails(run("align", files.both, *dev, "--decode", "union"), "--dev chooses the threshold, which --decode union")
    fails(run("align", files.both, *dev, "--tune-gamma", "--gamma", "1"), "--tune-gamma chooses gamma, but --gamma 1")


def test_gold_links_of_another_text(run, files, tmp_path):
    gold = tmp_path / "gold"
    gold.write_text("0-0\n")
    dev = ["--dev", files.source, files.target, gold]
    fails(run("align", files.both, *dev), "has 1 lines, but the bitext has 120 sentence pairs")


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "hmm"],
        ["--constraint", "none"],
        ["--gamma", "1"],
        ["--anneal", "0.5"],
        ["--quench"],
        ["--dual-steps", "1"],
        ["--max-iter", "3"],
        ["--model1-iterations", "3"],
        ["--max-fertility", "2"],
        ["--max-length", "10"],
        ["--tune-gamma"],
        ["--save", "other.npz"],
        ["--threshold", "auto"],
        ["--dictionary", __file__],
        ["--same", "numbers"],
    ],
    ids=lambda value: value[0],
)
def test_a_loaded_model_is_not_trained(run, files, model, options):
    named = " ".join(options) if options[-1] == "auto" else options[0]
    fails(run("align", files.both, "--load", model, *options), f"{named}: only for training, but --load {model}")


def test_dictionaries_that_cannot_be_read(run, files, tmp_path):
    broken = tmp_path / "words.tsv"
    broken.write_text("a\tb\na b\n")
    fails(run("align", files.both, "--dictionary", broken), f"{broken}, line 2: 'a b' has 1 fields between tabs")
    fails(run("align", files.both, "--dictionary", tmp_path / "none"), f"{tmp_path / 'none'}: no such file")


def test_several_refused_options_are_named_together(run, files, model):
    result = run("align", files.both, "--load", model, "--gamma", "1", "--model", "hmm")
    fails(result, "--model, --gamma: only for training")


def test_models_that_are_none(run, files, model, tmp_path):
    fails(run("align", files.both, "--load", tmp_path / "nothing"), "no such model file; train one and save it first")
    fails(run("align", files.both, "--load", files.both), "not a model saved by spectrem, or damaged")
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(model.read_bytes()[:2000])
    fails(run("align", files.both, "--load", damaged), "not a model saved by spectrem, or damaged")
    foreign = tmp_path / "foreign.npz"
    np.savez(foreign, weights=np.zeros(3))
    fails(run("align", files.both, "--load", foreign), "not a model saved by spectrem")
    fails(run("lexicon", "--load", foreign), "not a model saved by spectrem")


@pytest.mark.parametrize(
    "options",
    [
        ["--decode", "best"],
        ["--model", "ibm4"],
        ["--max-fertility", "-1"],
        ["--max-iter", "0"],
        ["--what"],
    ],
)
def test_options_of_wrong_kind_are_explained_by_the_parser(run, files, options):
    result = run("align", files.both, *options)
    assert result.exit_code == 2
    assert options[0] in result.stderr
    assert "Traceback" not in result.stderr


def test_other_errors_of_the_system_are_one_line_too(run, files, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "links.txt")

    monkeypatch.setattr("spectrem.cli.alignment.writing.pharaoh_lines", full)
    fails(run("align", files.both), "links.txt: No space left on device")


def test_what_is_wrong_in_a_file_names_the_option_that_gives_it(run, files, tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("0-0\none line\n")
    for option in ("--anchors", "--dictionary", "--priors"):
        fails(run("align", files.both, option, path), f"error: {option} {path}")
    fails(
        run("align", files.both, "--dev", files.source, files.target, path), f"error: GOLD of --dev {path} has 2 lines"
    )
    fails(run("align", path), f"error: {path}, line 1: has neither")
    path = tmp_path / "some.jsonl"
    path.write_text('{"en": "a", "de": "b"}\n')
    fails(run("align", path), "no key 'source'; the keys are 'en', 'de'; every line needs both, which --columns SOURCE")
