"""HMMTagger as a file: what comes back, and what damaged files say."""

import json

import numpy as np
import pytest
from tagger_helpers import DICTIONARY, SENTENCES, make, same_params

from spectrem import HMMTagger, WordAligner
from spectrem.constraints import at_least
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal

NEW = [*SENTENCES, "the blorp barks", "fly", ""]


@pytest.fixture(scope="module", params=[1, 2])
def fitted(request):
    dictionary = {**DICTIONARY, "fly": ["VB"], "<unk>": ["NN", "VB"]}
    return make(request.param, dictionary=dictionary, smoothing=0.1, min_count=2).fit([*SENTENCES, "once rare"])


@pytest.fixture
def model_file(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def rewrite(path, header=None, **changes):
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if header is not None:
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    arrays.update(changes)
    with path.open("wb") as file:
        np.savez(file, **{name: value for name, value in arrays.items() if value is not None})


def header_of(path):
    with np.load(path) as archive:
        return json.loads(archive["header"].tobytes())


def load_error(path):
    with pytest.raises(InvalidInputError) as error:
        HMMTagger.load(path)
    assert str(error.value).startswith(f"{path}: ")
    return str(error.value).removeprefix(f"{path}: ")


def test_the_course_of_training_is_saved(fitted, model_file):
    loaded = HMMTagger.load(model_file)
    assert loaded.history_ == fitted.history_
    for name in ("n_iter_", "objective_", "status_", "converged_"):
        assert getattr(loaded, name) == getattr(fitted, name)
    header = header_of(model_file)
    header["settings"]["status"] = "RIGHT"
    rewrite(model_file, header=header)
    assert load_error(model_file).startswith("a damaged HMMTagger ('RIGHT' is missing or unknown)")


def test_what_is_saved_comes_back(fitted, model_file):
    loaded = HMMTagger.load(model_file)
    assert same_params(loaded, fitted)
    assert loaded.tags_ == fitted.tags_
    assert loaded.vocabulary_.words == fitted.vocabulary_.words
    assert loaded.gamma_ == fitted.gamma_
    for decode in ("posterior", "viterbi"):
        assert loaded.set_params(decode=decode).predict(NEW) == fitted.set_params(decode=decode).predict(NEW)
    fitted.set_params(decode="posterior")
    for ours, theirs in zip(loaded.predict_proba(NEW), fitted.predict_proba(NEW), strict=True):
        assert np.array_equal(ours, theirs)
    assert loaded.score(SENTENCES) == fitted.score(SENTENCES)
    assert loaded.sample(3, 4, 1) == fitted.sample(3, 4, 1)


def test_a_loaded_tagger_can_be_trained_again(fitted, model_file):
    loaded = HMMTagger.load(model_file)
    assert loaded.order == fitted.order
    assert loaded.smoothing == 0.1
    assert set(loaded.dictionary["walk"]) == {"NN", "VB"}
    assert same_params(loaded.fit([*SENTENCES, "once rare"]), fitted)


def test_parameters_that_json_cannot_hold_come_back_as_defaults(tmp_path):
    tagger = make(
        dictionary=DICTIONARY,
        schedule=Anneal(0.5),
        transition_mask={"DT": ["NN"]},
        fixed={"initial": {"DT": 0.5}, "transition": {("DT", "NN"): 1.0}},
        on_iteration=lambda record: None,
        constraints=[at_least(1, "NN")],
        init=make(dictionary=DICTIONARY, smoothing=0.1).fit(SENTENCES),
        max_iter=np.int64(2),
        random_state=np.random.default_rng(0),
    ).fit(SENTENCES)
    tagger.save(tmp_path / "model")
    loaded = HMMTagger.load(tmp_path / "model")
    assert same_params(loaded, tagger)
    assert loaded.max_iter == 2
    assert loaded.transition_mask == {"DT": ["NN"]}
    fresh = HMMTagger().get_params(deep=False)
    for name in ("schedule", "fixed", "on_iteration", "init", "random_state"):
        assert getattr(loaded, name) == fresh[name]
    assert loaded.constraints == (at_least(1, "NN"),)


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_gammas_that_json_has_no_word_for(gamma, tmp_path):
    make(dictionary=DICTIONARY, gamma=gamma).fit(SENTENCES).save(tmp_path / "model")
    assert HMMTagger.load(tmp_path / "model").gamma_ == gamma


def test_words_and_tags_of_every_kind(tmp_path):
    words = ["naïve", "Ω", "日本", "\x85", "a\nb", "\u2028", 7, 0]
    tagger = make(tags=["A", 3], smoothing=0.1).fit([words])
    tagger.save(tmp_path / "model")
    loaded = HMMTagger.load(tmp_path / "model")
    assert loaded.vocabulary_.words == tuple(words)
    assert loaded.tags_ == ("A", 3)
    assert loaded.predict([words]) == tagger.predict([words])


def test_known_tables_are_saved(tmp_path):
    tagger = HMMTagger.from_parameters([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]])
    tagger.save(tmp_path / "model")
    assert HMMTagger.load(tmp_path / "model").predict([[0, 1, 1]]) == tagger.predict([[0, 1, 1]])


def test_other_files(tmp_path):
    assert load_error(tmp_path / "none") == "no such model file; train one and save it first"
    WordAligner(n_threads=1, max_iter=1).fit(["a"], ["b"]).save(tmp_path / "aligner")
    assert load_error(tmp_path / "aligner") == (
        "expected a saved HMMTagger, found 'WordAligner'; give the file of a HMMTagger"
    )


@pytest.mark.parametrize("kept", [0, 100, -1])
def test_a_truncated_file(model_file, kept):
    model_file.write_bytes(model_file.read_bytes()[:kept])
    assert "damaged (" in load_error(model_file)


@pytest.mark.parametrize(
    "name",
    ["words", "dictionary_words", "dictionary_offsets", "dictionary_states", "initial", "transition", "emission"],
)
def test_arrays_that_do_not_fit_or_are_missing(model_file, name):
    with np.load(model_file) as archive:
        array = archive[name]
    rewrite(model_file, **{name: array[:-1]})
    assert load_error(model_file).startswith("a damaged HMMTagger (")
    rewrite(model_file, **{name: None})
    assert load_error(model_file).startswith(f"a damaged HMMTagger ('{name}' is missing or unknown)")


@pytest.mark.parametrize("value", [-0.1, 1.5, np.nan])
def test_tables_without_sense(model_file, value):
    with np.load(model_file) as archive:
        table = archive["transition"]
    table.flat[0] = value
    rewrite(model_file, transition=table)
    assert "transition must hold probabilities, got values from" in load_error(model_file)


@pytest.mark.parametrize("value", [-1, 99])
def test_states_outside_the_tags(model_file, value):
    with np.load(model_file) as archive:
        states = archive["dictionary_states"]
    states[0] = value
    rewrite(model_file, dictionary_states=states)
    assert load_error(model_file).startswith("a damaged HMMTagger (states do not fit the tags)")


@pytest.mark.parametrize(
    ("name", "value"), [("gamma", "low"), ("tags", 3), ("free", [7]), ("parameters", {"bogus": 1}), ("tags", [])]
)
def test_settings_without_sense(model_file, name, value):
    header = header_of(model_file)
    header["settings"][name] = value
    rewrite(model_file, header=header)
    assert load_error(model_file).startswith("a damaged HMMTagger (")


def test_constraints_without_sense(model_file):
    header = header_of(model_file)
    header["settings"]["constraints"] = [{"text": "__import__('os')"}]
    rewrite(model_file, header=header)
    assert load_error(model_file).startswith("a damaged HMMTagger (constraint ")


def test_settings_that_break_a_rule(model_file):
    header = header_of(model_file)
    header["settings"]["parameters"]["max_iter"] = 0
    rewrite(model_file, header=header)
    assert "(max_iter must be at least 1, got 0" in load_error(model_file)
