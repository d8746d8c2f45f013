"""Saved models without the word pairs that hardly translate each other."""

import json

import numpy as np
import pytest

from spectrem import WordAligner
from spectrem.datasets import make_bitext
from spectrem.estimators.alignment.file import prune
from spectrem.exceptions import InvalidInputError

TEXT, NEW = make_bitext(400, seed=2), make_bitext(450, seed=2)


@pytest.fixture(scope="module")
def fitted():
    return WordAligner(n_threads=1, discount=0).fit(TEXT.source, TEXT.target)


@pytest.fixture
def pruned(fitted, tmp_path):
    fitted.save(tmp_path / "model", min_count=0.05)
    return WordAligner.load(tmp_path / "model").set_params(n_threads=1)


def links_of_pairs(aligner):
    """Expected links of every word pair by spelling, forward and backward, one by one."""
    table, params = aligner.table_, aligner.params_
    found = {}
    for source in range(table.n_source_words):
        for k in range(table.row_offsets[source], table.row_offsets[source + 1]):
            target = table.targets[k]
            words = aligner.source_vocabulary_.words[source], aligner.target_vocabulary_.words[target]
            found[words] = (
                params.forward.translation[k] * params.forward.totals.words[source],
                params.backward.translation[k] * params.backward.totals.words[target],
            )
    return found


def test_what_is_kept_and_what_is_lost(fitted, pruned):
    every, kept = links_of_pairs(fitted), links_of_pairs(pruned)
    likely = {words: links for words, links in every.items() if max(links) >= 0.05}
    assert 0 < len(likely) < len(every) / 2
    assert kept == likely  # with the same numbers
    shares = [
        sum(links[way] for words, links in every.items() if words not in likely)
        / sum(links[way] for links in every.values())
        for way in (0, 1)
    ]
    assert pruned.pruned_ == pytest.approx((0.05, max(shares)), rel=1e-9)
    assert 0 < max(shares) < 0.01


def test_links_of_text_stay(fitted, pruned):
    same = pruned.predict(TEXT.source, TEXT.target).keys
    before = fitted.predict(TEXT.source, TEXT.target).keys
    assert len(np.setxor1d(same, before)) < 0.005 * len(before)


def test_a_pruned_model_goes_on_learning_with_all_its_counts(fitted, pruned, tmp_path):
    new = NEW.source[400:], NEW.target[400:]
    fitted.save(tmp_path / "whole")
    whole = WordAligner.load(tmp_path / "whole").set_params(n_threads=1).update(*new)
    words = pruned.params_.forward.totals.words
    assert np.array_equal(words, fitted.params_.forward.totals.words)
    pruned.update(*new)
    assert pruned.pruned_.min_count == 0.05
    size = len(words)
    assert pruned.params_.forward.totals.words[:size].sum() == pytest.approx(
        whole.params_.forward.totals.words[:size].sum(), rel=0.02
    )
    one, other = (aligner.predict(*new).keys for aligner in (whole, pruned))
    assert len(np.setxor1d(one, other)) < 0.05 * len(one)


def test_pruning_twice_says_the_larger_bound_and_all_that_was_lost(pruned, tmp_path):
    first = pruned.pruned_
    pruned.save(tmp_path / "whole")
    assert WordAligner.load(tmp_path / "whole").pruned_ == first
    pruned.save(tmp_path / "smaller", min_count=0.5)
    _, _, more = prune(pruned.table_, pruned.params_, 0.5)
    second = WordAligner.load(tmp_path / "smaller").pruned_
    assert second == pytest.approx((0.5, 1 - (1 - first.lost) * (1 - more)))
    pruned.save(tmp_path / "same", min_count=0.01)
    assert WordAligner.load(tmp_path / "same").pruned_ == first


def test_a_whole_model(fitted, tmp_path):
    fitted.save(tmp_path / "whole")
    loaded = WordAligner.load(tmp_path / "whole")
    assert fitted.pruned_ == loaded.pruned_ == (0, 0)
    assert loaded.table_.n_pairs == fitted.table_.n_pairs


@pytest.mark.parametrize("bound", [-1.0, np.inf, np.nan])
def test_bounds_are_checked(fitted, tmp_path, bound):
    with pytest.raises(InvalidInputError) as error:
        fitted.save(tmp_path / "model", min_count=bound)
    assert str(error.value) == f"min_count must be a number of expected links, at least 0, got {bound}; try 0.01"
    assert not (tmp_path / "model").exists()


def test_models_of_earlier_versions_cannot_be_pruned(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    with np.load(tmp_path / "model") as archive:
        arrays = {name: array for name, array in archive.items() if not name.endswith("totals")}
    header = json.loads(arrays["header"].tobytes())
    for name in ("forward_totals", "backward_totals", "pruned"):
        del header["settings"][name]
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with (tmp_path / "old").open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(InvalidInputError) as error:
        WordAligner.load(tmp_path / "old").save(tmp_path / "new", min_count=0.01)
    assert str(error.value) == (
        "min_count 0.01 needs the counts behind the model's probabilities, which files saved by earlier versions lack; "
        "fit and save it again, or save all word pairs"
    )
