"""WordAligner.update: more text, with what a model knows as pseudo-counts."""

import json
from functools import partial

import numpy as np
import pytest
from aligner_helpers import clone_fitted, make, same_params

from spectrem import WordAligner
from spectrem.corpus import Spilled
from spectrem.data import encode_bitext
from spectrem.datasets import make_bitext
from spectrem.exceptions import InvalidInputError, NotFittedError
from spectrem.learning import Anneal, Stepwise
from spectrem.models.alignment import pairs

BITEXT = make_bitext(400, seed=1)
FIRST, SECOND = slice(0, 250), slice(250, 400)


def lines(part):
    return BITEXT.source[part], BITEXT.target[part]


@pytest.fixture(scope="module")
def fitted():
    return make().fit(*lines(FIRST))


def updated(fitted, *text, **options):
    return clone_fitted(fitted, **options).update(*text)


def probabilities(aligner):
    return {(s, t): (f, b) for s, t, f, b in aligner.lexicon(0.0)}


def distance(a, b):
    """Mean absolute difference of the probabilities of word pairs, by token of their conditioning word."""
    one, other = probabilities(a), probabilities(b)
    counts = dict(zip(b.source_vocabulary_.words, b.source_counts_.tolist(), strict=True))
    return sum(counts[s] * abs(one.get((s, t), (0, 0))[0] - f) for (s, t), (f, _) in other.items()) / sum(
        counts.values()
    )


def test_a_model_that_goes_on_is_close_to_one_of_all_text(fitted):
    both = make().fit(BITEXT.source, BITEXT.target)
    later = updated(fitted, *lines(SECOND))
    assert set(later.source_vocabulary_.words) == set(both.source_vocabulary_.words)
    assert later.table_.n_pairs == both.table_.n_pairs
    assert later.source_counts_.sum() == both.source_counts_.sum()
    # 0.16 and 0.23 when recorded
    assert distance(later, both) < 0.8 * distance(fitted, both)
    scores = [aligner.score(BITEXT.source, BITEXT.target, BITEXT.links) for aligner in (fitted, later, both)]
    assert scores[1] > scores[2] - 0.02


def test_any_number_of_times(fitted):
    parts = [slice(250, 300), slice(300, 350), slice(350, 400)]
    aligner = clone_fitted(fitted)
    for part in parts:
        assert aligner.update(*lines(part)) is aligner
    once = updated(fitted, *lines(SECOND))
    for side in ("source", "target"):
        words, others = (getattr(one, f"{side}_vocabulary_").words for one in (aligner, once))
        assert words == others
        assert np.array_equal(getattr(aligner, f"{side}_counts_"), getattr(once, f"{side}_counts_"))
    assert distance(aligner, once) < 0.1
    forward = aligner.params_.forward
    words = aligner.source_vocabulary_.index
    the = max(words, key=lambda word: aligner.source_counts_[words[word]])
    row = slice(*aligner.table_.row_offsets[words[the] : words[the] + 2])
    assert 0.9 < forward.translation[row].sum() <= 1 + 1e-9  # the rest is that of discounts
    assert forward.null[:-1].sum() == pytest.approx(1)


def test_text_that_comes_twice_counts_twice(fitted):
    once, twice = updated(fitted, *lines(SECOND)), updated(fitted, *lines(SECOND)).update(*lines(SECOND))
    assert twice.table_.n_pairs == once.table_.n_pairs
    tokens = [aligner.source_counts_.sum() for aligner in (fitted, once, twice)]
    assert tokens[2] - tokens[1] == tokens[1] - tokens[0] > 0
    # but for the pseudo-counts of new words, the first time
    totals = [aligner.params_.forward.totals.null for aligner in (fitted, once, twice)]
    assert totals[2] - totals[1] == pytest.approx(totals[1] - totals[0], rel=0.2)


@pytest.mark.parametrize("text", [([], []), ([""], [""])])
def test_empty_text_changes_nothing(fitted, text):
    aligner = updated(fitted, *text)
    same_params(aligner, fitted, rtol=1e-6)
    assert aligner.threshold_ == fitted.threshold_
    assert np.array_equal(aligner.predict(*lines(SECOND)).keys, fitted.predict(*lines(SECOND)).keys)


def test_text_without_new_words_or_pairs(fitted):
    aligner = updated(fitted, *lines(slice(0, 50)))
    assert aligner.source_vocabulary_ == fitted.source_vocabulary_
    assert np.array_equal(aligner.table_.targets, fitted.table_.targets)
    assert distance(aligner, fitted) < 0.05


def test_a_model_of_nothing_can_learn():
    aligner = make().fit([], []).update(*lines(SECOND))
    assert aligner.table_.n_pairs > 0
    assert np.isfinite(aligner.predict_proba(*lines(slice(0, 3))).average[0]).all()


def test_what_the_last_m_step_left_out_of_a_text_stays_with_it(fitted):
    """Its arrays are those of the text, and too short for another one."""
    assert fitted.discount > 0
    assert fitted.model_.last_priors is None


def test_a_loaded_model_goes_on_as_the_fitted_one(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    ours, loaded = updated(fitted, *lines(SECOND)), WordAligner.load(tmp_path / "model").set_params(n_threads=1)
    assert same_params(loaded.update(*lines(SECOND)), ours)
    loaded.save(tmp_path / "again")
    again = WordAligner.load(tmp_path / "again").set_params(n_threads=1)
    assert same_params(again, ours)
    assert np.array_equal(again.params_.forward.totals.words, ours.params_.forward.totals.words)
    assert same_params(again.update(*lines(slice(0, 20))), ours.update(*lines(slice(0, 20))))


@pytest.mark.parametrize("strength", [0.0, 1e-200])
@pytest.mark.parametrize("model", ["hmm", "ibm2"])
def test_a_model_that_forgets_what_it_read_can_be_saved(tmp_path, model, strength):
    aligner = make(model=model, update_strength=strength).fit(*lines(FIRST)).update(*lines(SECOND))
    aligner.save(tmp_path / "model")
    assert same_params(WordAligner.load(tmp_path / "model"), aligner)
    assert min(aligner.params_.forward.jump) > 0


def test_shards_and_threads_do_not_matter(fitted, monkeypatch, tmp_path):
    one = updated(fitted, *lines(SECOND))
    assert same_params(updated(fitted, *lines(SECOND), n_threads=2), one)
    assert same_params(updated(fitted, *lines(SECOND), corpus=partial(Spilled, folder=tmp_path)), one)
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 500)
    monkeypatch.setattr(pairs, "_MOST_CELLS", 500)
    same_params(updated(fitted, *lines(SECOND)), one, rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [{"constraints": ()}, {"gamma": 0.5}, {"alpha": 0.5}, {"update_iterations": 3}, {"constraints": ("fertility",)}],
    ids=str,
)
def test_other_settings_may_change(fitted, options):
    aligner = updated(fitted, *lines(SECOND), **options)
    assert aligner.n_iter_ == len(aligner.history_) == options.get("update_iterations", 1)
    assert not same_params(aligner, updated(fitted, *lines(SECOND)))
    assert "sentence pairs" in aligner.report_.summary()


@pytest.mark.parametrize("model", ["ibm1", "ibm2"])
def test_the_other_models_go_on_too(model):
    aligner = make(model=model).fit(*lines(FIRST))
    before = aligner.score(BITEXT.source, BITEXT.target, BITEXT.links)
    assert aligner.update(*lines(SECOND)).score(BITEXT.source, BITEXT.target, BITEXT.links) > before - 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "ibm2"}, "model must be 'hmm' as when the model was trained, got 'ibm2'; set it back"),
        ({"max_jump": 7}, "max_jump must be 100 as when the model was trained, got 7"),
        ({"null_probability": 0.2}, "null_probability must be 0.1 as when the model was trained, got 0.2"),
        ({"update_strength": -1.0}, "update_strength must be"),
        ({"update_iterations": 0}, "update_iterations must be"),
    ],
    ids=str,
)
def test_settings_that_must_stay(fitted, options, message):
    with pytest.raises(InvalidInputError, match=message):
        updated(fitted, *lines(SECOND), **options)


def test_before_fit():
    with pytest.raises(NotFittedError):
        make().update(*lines(SECOND))


def test_a_file_of_an_earlier_version_aligns_but_does_not_go_on(fitted, tmp_path):
    fitted.save(tmp_path / "new")
    with np.load(tmp_path / "new") as archive:
        arrays = {
            name: array.astype(np.float64) if name.endswith("translation") else array
            for name, array in archive.items()
            if not name.endswith("totals")
        }
    header = json.loads(arrays["header"].tobytes())
    header["version"] = 1
    for side in ("forward", "backward"):
        del header["settings"][f"{side}_totals"]
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with (tmp_path / "old").open("wb") as file:
        np.savez(file, **arrays)
    old = WordAligner.load(tmp_path / "old")
    assert np.array_equal(old.predict(*lines(SECOND)).keys, fitted.predict(*lines(SECOND)).keys)
    with pytest.raises(InvalidInputError, match="update needs the counts behind the model's probabilities"):
        old.update(*lines(SECOND))
    old.save(tmp_path / "older")
    assert WordAligner.load(tmp_path / "older").params_.forward.totals is None


def test_known_links_and_weights_count(fitted):
    source, target = ["qqqq wwww"], ["eeee rrrr"]
    crossed = updated(
        fitted,
        source,
        target,
    ).predict_proba(source, target)
    aligner = clone_fitted(fitted).update(source, target, known=[[(0, 1), (1, 0)]], sample_weight=[200.0])
    told = aligner.predict_proba(source, target)
    assert told.average[0][0, 1] > 0.9 > crossed.average[0][0, 1]


def test_links_of_words_that_only_new_text_has(fitted):
    """A pair of new words that meets often becomes a link; with no earlier text either."""
    other = " ".join(BITEXT.source[0].split()[:2]), " ".join(BITEXT.target[0].split()[:2])
    source, target = (
        [f"qqqq {other[0]}"] * 6 + [f"{word} qqqq" for word in BITEXT.source[3].split()],
        [f"{other[1]} eeee"] * 6 + [f"{word} eeee" for word in BITEXT.source[3].split()],
    )
    for strength in (1.0, 0.0):
        aligner = updated(fitted, source, target, update_strength=strength, update_iterations=2)
        assert aligner.predict_proba(["qqqq"], ["eeee"]).average[0][0, 0] > 0.6


def test_the_threshold_of_a_larger_text_is_chosen_there(fitted, monkeypatch):
    from spectrem.estimators.alignment import decoding

    kept = updated(fitted, *lines(SECOND))
    assert kept.threshold_ == fitted.threshold_
    monkeypatch.setattr(decoding, "SAMPLE", 100)
    chosen = updated(fitted, *lines(SECOND))
    assert chosen.threshold_ != fitted.threshold_
    assert updated(fitted, *lines(SECOND), threshold=0.25).threshold_ == 0.25


def test_lines_and_a_bitext_are_the_same(fitted):
    assert same_params(updated(fitted, encode_bitext(*lines(SECOND))), updated(fitted, *lines(SECOND)))


def test_an_update_is_found_in_its_checkpoint(fitted, tmp_path):
    plain = updated(fitted, *lines(SECOND), update_iterations=2)
    for _ in range(2):
        kept = updated(fitted, *lines(SECOND), update_iterations=2, checkpoint=tmp_path)
        assert same_params(kept, plain)
        assert kept.params_.forward.totals.null == plain.params_.forward.totals.null
    with pytest.raises(InvalidInputError, match="that of a run with other data"):
        updated(fitted, *lines(slice(0, 50)), update_iterations=2, checkpoint=tmp_path)


def test_constraints_over_the_new_text_hold(fitted):
    rule = "(E[(direction == 'forward') & (state == -1)] <= '2%').named('few NULLs')"
    plain, bound = (
        updated(fitted, *lines(SECOND), constraints=constraints, update_iterations=2)
        for constraints in (["agreement"], [rule])
    )
    (report,) = bound.report_.constraints
    assert report.name == "few NULLs"
    assert bound.params_.forward.totals.null < plain.params_.forward.totals.null


def test_stepwise_and_annealed_updates(fitted):
    for schedule in (Stepwise(n_batches=2), Anneal(0.5)):
        aligner = updated(fitted, *lines(SECOND), schedule=schedule)
        assert aligner.score(BITEXT.source, BITEXT.target, BITEXT.links) > 0.9
        assert aligner.gamma_ == 1.0
