"""`spectrem align --load MODEL --update`."""

import numpy as np
import pytest

from spectrem import WordAligner
from spectrem.data import pharaoh_lines, read_priors


@pytest.fixture
def model(tmp_path, files):
    """A model of the first half of the files."""
    half = len(files.bitext.source) // 2
    aligner = WordAligner(n_threads=1).fit(files.bitext.source[:half], files.bitext.target[:half])
    aligner.save(tmp_path / "model.npz")
    return tmp_path / "model.npz"


def fails(result, *parts):
    assert result.exit_code == 2, result.output
    for part in parts:
        assert part in result.stderr


@pytest.fixture
def second(files, tmp_path):
    half = len(files.bitext.source) // 2
    paths = tmp_path / "second.source", tmp_path / "second.target"
    for path, lines in zip(paths, (files.bitext.source[half:], files.bitext.target[half:]), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    return paths


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ([], {}),
        (["--constraint", "none"], {"constraints": ()}),
        (["--update-strength", "0.5"], {"update_strength": 0.5}),
        (["--update-iterations", "2", "--gamma", "0.5"], {"update_iterations": 2, "gamma": 0.5}),
        (["--threshold", "0.3"], {"threshold": 0.3}),
    ],
    ids=str,
)
def test_the_command_does_what_the_estimator_does(run, model, second, tmp_path, options, parameters):
    result = run("align", *second, "--load", model, "--update", "--save", tmp_path / "later.npz", *options)
    assert result.exit_code == 0, result.output
    source, target = (path.read_text().splitlines() for path in second)
    aligner = WordAligner.load(model).set_params(n_threads=1, **parameters).update(source, target)
    assert result.stdout.splitlines() == pharaoh_lines(aligner.predict(source, target))
    later = WordAligner.load(tmp_path / "later.npz")
    assert np.array_equal(later.params_.forward.translation, aligner.params_.forward.translation)
    assert f"threshold {aligner.threshold_:g} (auto)" in result.stderr or "--threshold" in options


def test_a_model_goes_on_again(run, model, second, files, tmp_path):
    later, last = tmp_path / "later.npz", tmp_path / "last.npz"
    for before, after in ((model, later), (later, last)):
        assert run("align", *second, "--load", before, "--update", "--save", after).exit_code == 0
    counts = [WordAligner.load(path).source_counts_.sum() for path in (model, last)]
    assert counts[1] > 2 * counts[0]


def test_dev_chooses_the_threshold_after_the_update(run, model, second, files):
    dev = ["--dev", files.source, files.target, files.gold]
    result = run("align", *second, "--load", model, "--update", *dev)
    assert result.exit_code == 0
    assert "tuned on" in result.stderr


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--model", "ibm1"], "--model: belongs to the training of a model, and --update keeps that of"),
        (["--max-jump", "3", "--null-probability", "0.3"], "--null-probability, --max-jump: belongs to"),
        (["--max-iter", "3"], "--max-iter: belongs to"),
        (["--max-chance", "0.1"], "--max-chance: belongs to"),
        (["--discount", "0"], "--discount: belongs to"),
    ],
    ids=str,
)
def test_what_belongs_to_the_model(run, model, second, options, part):
    fails(run("align", *second, "--load", model, "--update", *options), part)


@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.parametrize("options", [["--stepwise", "2"], ["--anneal", "0.5"]], ids=str)
def test_a_schedule_leaves_the_settings_of_the_model(run, model, second, tmp_path, options, gamma):
    """What a later `fit` of the model would use; and the gamma of the schedule is that of the model."""
    WordAligner.load(model).set_params(gamma=gamma, max_iter=4, model1_iterations=2).save(model)
    assert run("align", *second, "--load", model, "--update", "--save", tmp_path / "b", *options).exit_code == 0
    later = WordAligner.load(tmp_path / "b")
    assert (later.max_iter, later.model1_iterations, later.gamma, later.gamma_) == (4, 2, gamma, gamma)
    options = [*options, "--gamma", "0.8"]
    assert run("align", *second, "--load", model, "--update", "--save", tmp_path / "c", *options).exit_code == 0
    last = WordAligner.load(tmp_path / "c")
    assert (last.max_iter, last.gamma, last.gamma_) == (4, 0.8, 0.8)


def test_a_model_of_hard_em_is_not_cooled_down_to(run, model, second):
    WordAligner.load(model).set_params(gamma=0.0).save(model)
    fails(run("align", *second, "--load", model, "--update", "--anneal", "0.5"), "--anneal cools down to a gamma above")


def test_update_needs_a_model(run, second):
    fails(run("align", *second, "--update"), "--update needs a model to go on from; add --load MODEL")
    fails(run("align", *second, "--update-strength", "2"), "--update-strength 2 changes nothing without --update")


def test_options_of_update_beside_a_loaded_model_alone(run, model, second):
    result = run("align", *second, "--load", model, "--update-iterations", "2")
    fails(result, "--update-iterations 2 changes nothing without --update")
    fails(run("align", *second, "--load", model, "--save", "other"), "or add --update")


def test_priors_of_a_model(run, model, second, tmp_path):
    """Expected counts: those of a word are at most its total, and of a pair the mean over both directions."""
    priors = tmp_path / "priors"
    assert (
        run("lexicon", "--load", model, "--output-format", "eflomal", "-o", priors, "--min-probability", "0").exit_code
        == 0
    )
    aligner, links = WordAligner.load(model), read_priors(priors)
    words = aligner.source_vocabulary_.index, aligner.target_vocabulary_.index
    totals = [side.totals.words for side in (aligner.params_.forward, aligner.params_.backward)]
    assert sum(map(len, links.values())) > 0.9 * aligner.table_.n_pairs
    for source, target, forward, backward in list(aligner.lexicon(0.2)):
        expected = forward * totals[0][words[0][source]] + backward * totals[1][words[1][target]]
        assert links[source][target] == pytest.approx(expected / 2, rel=1e-4)
    jumps = [line.split("\t") for line in priors.read_text().splitlines() if line.startswith("HMMF")]
    side = aligner.params_.forward
    counts = {int(width): float(count) for _, width, count in jumps}
    assert counts[0] == pytest.approx(side.totals.jumps * side.jump[side.max_jump], rel=1e-4)
    ends = side.totals.ends * side.end[0]
    assert counts[1] == pytest.approx(side.totals.jumps * side.jump[side.max_jump + 1] + ends, rel=1e-4)


def test_training_with_priors_is_training_with_counts(run, model, second, tmp_path):
    priors = tmp_path / "priors"
    assert run("lexicon", "--load", model, "--output-format", "eflomal", "-o", priors).exit_code == 0
    result = run("align", *second, "--priors", priors)
    assert result.exit_code == 0
    source, target = (path.read_text().splitlines() for path in second)
    aligner = WordAligner(dictionary=read_priors(priors), dictionary_strength=1.0).fit(source, target)
    assert result.stdout.splitlines() == pharaoh_lines(aligner.predict(source, target))
    assert f"word pairs with pseudo-counts: {aligner.n_given_}" in result.stderr
    assert result.stdout != run("align", *second).stdout


def test_priors_and_other_options(run, model, second, tmp_path):
    priors = tmp_path / "priors"
    priors.write_text("LEX\ta\tb\t1\n")
    fails(run("align", *second, "--priors", priors, "--dictionary", priors), "cannot both be given")
    fails(run("align", *second, "--priors", priors, "--load", model), "--priors: only for training, but --load")
    fails(run("align", *second, "--priors", model), "model.npz")
    fails(run("align", *second, "--priors", tmp_path / "none"), "no such file")
    assert run("align", *second, "--priors", priors, "--load", model, "--update").exit_code == 0


def test_a_model_saved_without_unlikely_pairs_says_so(run, files, second, tmp_path):
    model, whole = tmp_path / "small.npz", tmp_path / "whole.npz"
    for options in (["--save", model, "--save-min-count", "0.05"], ["--save", whole]):
        done = run("align", files.source, files.target, "-o", tmp_path / "out", *options)
        assert done.exit_code == 0
        assert "lacks word pairs" not in done.stderr
    small = WordAligner.load(model)
    assert small.pruned_.min_count == 0.05
    assert small.table_.n_pairs < WordAligner.load(whole).table_.n_pairs
    said = f"; the model lacks word pairs below 0.05 expected links, {small.pruned_.lost:.2%} of all"
    assert said in run("align", *second, "--load", model, "-o", tmp_path / "out").stderr
    assert "lacks word pairs" not in run("align", *second, "--load", whole, "-o", tmp_path / "out").stderr
