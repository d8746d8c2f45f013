"""`spectrem align` on good input."""

import gzip
import json
import warnings

import pytest

from spectrem import WordAligner
from spectrem.data import pharaoh_lines
from spectrem.learning import Anneal, Quench


def lines_of(path):
    return path.read_text().splitlines()


def predicted(files, **parameters):
    """What the estimator says, without the command line."""
    aligner = WordAligner(**parameters).fit(files.bitext.source, files.bitext.target)
    return pharaoh_lines(aligner.predict(files.bitext.source, files.bitext.target))


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ([], {}),
        (["--model", "ibm1", "--max-iter", "2"], {"model": "ibm1", "max_iter": 2}),
        (["--model", "ibm2"], {"model": "ibm2"}),
        (["--constraint", "none"], {"constraints": ()}),
        (["--constraint", "fertility", "--max-fertility", "1.5"], {"constraints": ["fertility"], "max_fertility": 1.5}),
        (
            ["--constraint", "agreement", "--constraint", "fertility"],
            {"constraints": ["agreement", "fertility"]},
        ),
        (["--gamma", "0.5"], {"gamma": 0.5}),
        (["--anneal", "0.5", "--max-iter", "1"], {"schedule": Anneal(0.5), "max_iter": 1}),
        (["--anneal", "0.5", "--anneal-rate", "2", "--gamma", "0.5"], {"schedule": Anneal(0.5, 2.0, 2.0)}),
        (["--anneal", "1", "--quench", "--max-iter", "1"], {"schedule": Quench(Anneal(1.0)), "max_iter": 1}),
        (["--tol", "0.5"], {"tol": 0.5}),
        (["--null-probability", "0.4"], {"null_probability": 0.4}),
        (["--max-jump", "1"], {"max_jump": 1}),
        (["--stem-strength", "0", "--cognate-strength", "0"], {"stem_strength": 0.0, "cognate_strength": 0.0}),
        (["--dual-steps", "1", "--step-size", "0.1"], {"dual_steps": 1, "step_size": 0.1}),
        (["--alpha", "0.1", "--max-iter", "1"], {"alpha": 0.1, "max_iter": 1}),
        (["--model1-iterations", "2"], {"model1_iterations": 2}),
        (["--threshold", "0.8"], {"threshold": 0.8}),
        (["--no-project-at-predict"], {"project_at_predict": False}),
        (["--max-length", "8"], {"max_length": 8}),
        (["--n-threads", "2"], {"n_threads": 1}),
        *[
            (["--decode", way], {"decode": way})
            for way in ["viterbi", "forward", "backward", "intersection", "union", "grow-diag-final-and"]
        ],
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_reach_the_estimator(run, files, tmp_path, options, parameters):
    out = tmp_path / "links.txt"
    result = run("align", files.source, files.target, "-o", out, *options)
    assert result.exit_code == 0, result.stderr
    assert lines_of(out) == predicted(files, **parameters)


def test_options_make_a_difference(files):
    """Otherwise the test above could not fail."""
    plain = predicted(files)
    for parameters in (
        {"model": "ibm1"},
        {"model": "ibm2"},
        {"constraints": ()},
        {"constraints": ["fertility"], "max_fertility": 1.5},
        {"gamma": 0.5},
        {"schedule": Anneal(0.5), "max_iter": 1},
        {"schedule": Anneal(0.5, 2.0, 2.0)},
        {"schedule": Quench(Anneal(1.0)), "max_iter": 1},
        {"tol": 0.5},
        {"null_probability": 0.4},
        {"max_jump": 1},
        {"stem_strength": 0.0, "cognate_strength": 0.0},
        {"dual_steps": 1, "step_size": 0.1},
        {"alpha": 0.1, "max_iter": 1},
        {"model1_iterations": 2},
        {"threshold": 0.8},
        {"project_at_predict": False},
        {"max_length": 8},
        {"decode": "backward"},
        {"decode": "union"},
    ):
        assert predicted(files, **parameters) != plain, parameters


def test_one_file_of_both_sides_or_standard_input_or_gzip_give_the_same(run, files, tmp_path):
    expected = run("align", files.source, files.target, "--quiet").stdout
    assert expected.count("\n") == len(files.bitext.source)
    assert run("align", files.both, "--quiet").stdout == expected
    assert run("align", files.tsv, "--quiet").stdout == expected
    assert run("align", "-", "--quiet", stdin=files.both.read_bytes()).stdout == expected
    zipped = tmp_path / "both.txt.gz"
    zipped.write_bytes(gzip.compress(files.both.read_bytes()))
    out = tmp_path / "links.gz"
    assert run("align", zipped, "-o", out).exit_code == 0
    assert gzip.decompress(out.read_bytes()).decode() == expected


def test_blank_lines_give_blank_lines(run, files, tmp_path):
    source, target, out = tmp_path / "s", tmp_path / "t", tmp_path / "links"
    source.write_text("\n".join(["", *files.bitext.source, "alone", ""]) + "\n")
    target.write_text("\n".join(["", *files.bitext.target, "", "alone"]) + "\n")
    assert run("align", source, target, "-o", out).exit_code == 0
    lines = lines_of(out)
    assert len(lines) == len(files.bitext.source) + 3
    assert [lines[0], *lines[-2:]] == ["", "", ""]
    assert any(lines[1:-2])


def test_long_pairs_are_aligned_though_not_trained_on(run, files, tmp_path):
    out = tmp_path / "links"
    assert run("align", files.source, files.target, "-o", out, "--max-length", "6").exit_code == 0
    longest = max(range(len(files.bitext.source)), key=lambda n: len(files.bitext.source[n]))
    assert lines_of(out)[longest]


def test_probabilities_sum_to_one_with_null(run, files, tmp_path):
    out, probabilities = tmp_path / "links", tmp_path / "probabilities"
    # EM without projection: the mean over directions still sums to 1 over both directions together
    options = ["--probabilities", probabilities, "--min-probability", "0"]
    assert run("align", files.source, files.target, "-o", out, *options).exit_code == 0
    lines = lines_of(probabilities)
    assert len(lines) == len(files.bitext.source)
    pair = dict(entry.split(":") for entry in lines[0].split())
    n, m = len(files.bitext.source[0].split()), len(files.bitext.target[0].split())
    assert len(pair) == n * m + n + m
    links = sum(float(pair[f"{i}-{j}"]) for i in range(n) for j in range(m))
    null = sum(float(pair[f"{i}-NULL"]) for i in range(n)) + sum(float(pair[f"NULL-{j}"]) for j in range(m))
    assert 2 * links + null == pytest.approx(n + m, abs=0.01)


def test_probabilities_above_the_threshold_are_the_links(run, files, tmp_path):
    out, probabilities = tmp_path / "links", tmp_path / "probabilities"
    options = ["--probabilities", probabilities, "--min-probability", "0.3", "--rare-discount", "0"]
    result = run("align", files.source, files.target, "-o", out, *options)
    assert result.exit_code == 0
    threshold = float(result.stderr.split("threshold ")[1].split(" (auto)")[0])
    assert 0.3 < threshold < 0.7
    for links, line in zip(lines_of(out), lines_of(probabilities), strict=True):
        entries = [entry.split(":") for entry in line.split()]
        assert all(float(p) >= 0.3 for _, p in entries)
        assert [link for link, p in entries if "NULL" not in link and float(p) > threshold] == links.split()


def test_a_saved_model_aligns_as_the_run_that_saved_it(run, files, tmp_path):
    model = tmp_path / "model.npz"
    options = ["--constraint", "fertility", "--gamma", "0.7", "--threshold", "0.6"]
    first = run("align", files.source, files.target, "--save", model, *options)
    assert first.exit_code == 0, first.stderr
    again = run("align", files.source, files.target, "--load", model)
    assert again.stdout == first.stdout
    other = run("align", files.source, files.target, "--load", model, "--threshold", "0.2")
    assert other.exit_code == 0
    assert len(other.stdout) > len(first.stdout)
    surer = run("align", files.source, files.target, "--load", model, "--rare-discount", "100")
    assert surer.exit_code == 0, surer.stderr
    assert len(surer.stdout) < len(first.stdout)
    merged = run("align", files.source, files.target, "--load", model, "--decode", "union")
    assert merged.stdout not in (first.stdout, other.stdout)


def test_a_loaded_model_meets_unknown_words(run, files, tmp_path):
    model, out = tmp_path / "model.npz", tmp_path / "links"
    assert run("align", files.source, files.target, "--save", model, "-o", out).exit_code == 0
    known = f"{files.bitext.source[0]} ||| {files.bitext.target[0]}"
    text = f"{known}\nnever seen ||| nie gesehen\n\n{known} unseen\n"
    result = run("align", "-", "--load", model, stdin=text.encode())
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.split("\n")
    assert len(lines) == 5
    assert lines[0] == lines_of(out)[0]
    assert lines[2] == ""
    assert lines[3]


def test_a_model_of_lower_case_lowers_what_it_aligns(run, files, tmp_path):
    model = tmp_path / "model.npz"
    lowered = run("align", files.source, files.target, "--lowercase", "--save", model)
    assert run("align", files.source, files.target, "--load", model).stdout == lowered.stdout
    upper = files.both.read_text().upper().encode()
    assert run("align", "-", "--load", model, stdin=upper).stdout == lowered.stdout


def test_lowercase_joins_words(run, tmp_path):
    text = b"Haus ||| house\nhaus ||| house\nHAUS baum ||| house tree\n"
    model = tmp_path / "model.npz"
    assert run("align", "-", "--lowercase", "--save", model, stdin=text).exit_code == 0
    assert {row.split("\t")[0] for row in run("lexicon", "--load", model).stdout.splitlines()[1:]} == {"haus", "baum"}


def test_dev_chooses_the_threshold_and_says_so(run, files, tmp_path):
    out, model = tmp_path / "links", tmp_path / "model"
    dev = ["--dev", files.source, files.target, files.gold]
    result = run("align", files.source, files.target, "-o", out, "--save", model, *dev)
    assert result.exit_code == 0, result.stderr
    chosen = WordAligner.load(model).threshold_
    assert f"tuned on {len(files.bitext.source)} sentence pairs: threshold {chosen:g}, AER 0." in result.stderr
    assert "gamma" not in result.stderr
    tuned = json.loads(run("evaluate", out, files.gold, "--json").stdout)["aer"]
    for threshold in ("0.2", "0.8"):
        run("align", files.source, files.target, "-o", out, "--load", model, "--threshold", threshold)
        assert json.loads(run("evaluate", out, files.gold, "--json").stdout)["aer"] >= tuned
    again = run("align", files.source, files.target, "-o", out, "--load", model, *dev)
    assert f"threshold {chosen:g}," in again.stderr


def test_tune_gamma_is_no_worse_than_any_of_its_gammas(run, files, tmp_path):
    out = tmp_path / "links"
    tuning = ["--dev", files.source, files.target, files.gold]
    aers = {}
    for name, options in {"tuned": ["--tune-gamma"], "1": [], "0.5": ["--gamma", "0.5"]}.items():
        result = run("align", files.source, files.target, "-o", out, *tuning, *options)
        assert result.exit_code == 0, result.stderr
        aers[name] = float(result.stderr.split("AER ")[1].split("\n")[0])
        assert ("gamma" in result.stderr) == (name == "tuned")
    assert aers["tuned"] <= min(aers.values()) + 1e-4


def test_quiet_says_nothing(run, files, tmp_path):
    assert run("align", files.source, files.target, "-o", tmp_path / "links", "--quiet").stderr == ""
    said = run("align", files.source, files.target, "-o", tmp_path / "links").stderr
    assert said.startswith(f"aligned {len(files.bitext.source)} sentence pairs in ")
    (tmp_path / "one.txt").write_text("the house ||| das haus\n")
    assert "aligned 1 sentence pair in " in run("align", tmp_path / "one.txt", "-o", tmp_path / "links").stderr


def test_a_tolerance_that_is_not_met_is_said_in_the_words_of_the_options(run, files, tmp_path):
    command = ["align", files.source, files.target, "-o", tmp_path / "links", "--max-iter", "2"]
    said = "spectrem: warning: still gaining after 2 iterations; raise --max-iter or --tol\n"
    assert run(*command, "--tol", "1e-9").stderr.endswith(said)
    assert said not in run(*command).stderr + run(*command, "--tol", "0.5").stderr


def test_lines_that_are_too_long_are_named_and_counted(run, files, tmp_path):
    sides = []
    for path, text in ((files.source, files.bitext.source), (files.target, files.bitext.target)):
        words, lines = " ".join(text).split() * 5001, list(text)
        for place, lengths in ((2, (2001, 3)), (4, (3, 5001))):
            lines.insert(place, " ".join(words[: lengths[len(sides)]]))
        sides.append(tmp_path / path.name)
        sides[-1].write_text("".join(f"{line}\n" for line in lines))
    out, probabilities, model = (tmp_path / name for name in ("links", "probabilities", "model"))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = run("align", *sides, "-o", out, "--probabilities", probabilities, "--save", model)
    assert result.exit_code == 0, result.stderr
    n = len(files.bitext.source)
    assert result.stderr.splitlines()[-1].startswith(f"aligned {n + 2} sentence pairs in ")
    assert result.stderr.splitlines()[-1].endswith(
        "; pairs apart: 1 too long, aligned by translation and position alone, 1 too long, left without links, "
        "2 too long, not trained on"
    )
    for said in (
        "too long to be trained on, skipped: sentence pairs 3, 5, counted from 1",
        "too long for the model, aligned by translation and position alone: sentence pair 3, counted from 1",
        "more than 5,000 words on a side, left without links: sentence pair 5, counted from 1",
    ):
        assert result.stderr.count(f"spectrem: warning: {said}") == 1
    aligned = lines_of(out)
    assert len(aligned) == n + 2
    assert aligned[2]
    assert aligned[4] == lines_of(probabilities)[4] == ""
    assert [line for k, line in enumerate(aligned) if k not in (2, 4)] == predicted(files)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        again = run("align", *sides, "-o", tmp_path / "again", "--load", model)
    assert again.stderr.endswith(
        "; pairs apart: 1 too long, aligned by translation and position alone, 1 too long, left without links\n"
    )
    assert lines_of(tmp_path / "again") == aligned


def test_the_summary_of_a_loaded_model_says_what_it_does_not_know(run, files, tmp_path):
    model, out = tmp_path / "model.npz", tmp_path / "links"
    assert run("align", files.source, files.target, "--save", model, "-o", out).exit_code == 0
    known = f"{files.bitext.source[0]} ||| {files.bitext.target[0]}"
    text = f"{known}\nquite new words ||| neue\n".encode()
    result = run("align", "-", "--load", model, "-o", out, stdin=text)
    source = 3 / (len(files.bitext.source[0].split()) + 3)
    target = 1 / (len(files.bitext.target[0].split()) + 1)
    expected = f"words new to the model: {source:.1%} of the source, {target:.1%} of the target\n"
    assert result.stderr.endswith(expected)
    assert "new to the model: 0.0% of" in run("align", files.both, "--load", model, "-o", out).stderr


def test_the_summary_says_which_threshold_was_chosen(run, files, tmp_path):
    model, out = tmp_path / "model.npz", tmp_path / "links"
    trained = run("align", files.both, "--save", model, "-o", out)
    links = out.read_text()
    chosen = WordAligner.load(model).threshold_
    assert trained.stderr.endswith(f" s, threshold {chosen:g} (auto)\n")
    loaded = run("align", files.both, "--load", model, "-o", out)
    assert f", threshold {chosen:g} (of the model); words new" in loaded.stderr
    given = run("align", files.both, "--threshold", f"{chosen:g}", "-o", out)
    assert out.read_text() == links
    assert "threshold" not in given.stderr
    assert run("align", files.both, "--threshold", "auto", "-o", out).exit_code == 0
    assert out.read_text() == links
    assert "threshold" not in run("align", files.both, "--decode", "union", "-o", out).stderr


def test_a_warning_is_printed_once_whatever_the_filters_do(run, files, monkeypatch):
    def warn_twice(self):
        for _ in range(2):
            warnings.warn("mind the gap", stacklevel=1)
            warnings.simplefilter("default")  # Python forgets which warnings it showed

    monkeypatch.setattr("spectrem.cli.alignment.align.AlignmentJob.run", warn_twice)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run("align", files.both).stderr == "spectrem: warning: mind the gap\n"
