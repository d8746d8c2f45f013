"""Saved models: damaged and foreign files give one clear error; nothing half-written stays."""

import json
import pickle
import zipfile

import numpy as np
import pytest

import spectrem
from spectrem import GaussianMixture, WordAligner
from spectrem.data import Vocabulary
from spectrem.datasets import make_bitext
from spectrem.estimators.storage import load_arrays, pack_words, save_arrays, unpack_words
from spectrem.exceptions import InvalidInputError

BITEXT = make_bitext(40, seed=3)


@pytest.fixture(scope="module")
def fitted():
    return WordAligner(n_threads=1, max_iter=1, threshold=0.35, max_jump=20).fit(BITEXT.source, BITEXT.target)


@pytest.fixture
def model_file(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def load_error(path):
    with pytest.raises(InvalidInputError) as error:
        WordAligner.load(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def rewrite(path, **changes):
    """Save the arrays of a model file again, some of them changed or (None) left out; a dict becomes the header."""
    with np.load(path) as archive:
        arrays = dict(archive)
    for name, value in changes.items():
        if isinstance(value, dict | list):
            value = np.frombuffer(json.dumps(value).encode(), np.uint8)
        arrays[name] = value
    with path.open("wb") as file:
        np.savez(file, **{name: value for name, value in arrays.items() if value is not None})


def header_of(path):
    with np.load(path) as archive:
        return json.loads(archive["header"].tobytes())


def test_the_course_of_training_is_saved(fitted, model_file):
    loaded = WordAligner.load(model_file)
    assert loaded.history_ == fitted.history_
    for name in ("n_iter_", "objective_", "status_", "converged_"):
        assert getattr(loaded, name) == getattr(fitted, name)
    header = header_of(model_file)
    header["settings"]["status"] = "RIGHT"
    rewrite(model_file, header=header)
    assert load_error(model_file).startswith("a damaged WordAligner ('RIGHT' is missing or unknown)")


def test_what_is_saved_comes_back(fitted, model_file):
    loaded = WordAligner.load(model_file)
    for side in ("forward", "backward"):
        for name in ("translation", "null", "jump", "end", "null_probability"):
            a, b = (getattr(getattr(aligner.params_, side), name) for aligner in (fitted, loaded))
            assert np.array_equal(a, b)
    assert loaded.source_vocabulary_.words == fitted.source_vocabulary_.words
    assert loaded.target_vocabulary_.words == fitted.target_vocabulary_.words
    assert np.array_equal(loaded.table_.targets, fitted.table_.targets)
    assert (loaded.threshold_, loaded.gamma_) == (fitted.threshold_, fitted.gamma_)
    ours, theirs = (aligner.get_params() for aligner in (loaded, fitted))
    assert ours | {name: tuple(ours[name]) for name in ("constraints", "same")} == theirs
    for decode in ("posterior", "grow-diag-final-and"):
        a, b = (aligner.set_params(decode=decode).predict(BITEXT.source, BITEXT.target) for aligner in (fitted, loaded))
        assert np.array_equal(a.keys, b.keys)
    for name in ("source_counts_", "target_counts_"):
        assert np.array_equal(getattr(loaded, name), getattr(fitted, name))
    fitted.set_params(decode="posterior")
    one, other = (aligner.predict_proba(BITEXT.source, BITEXT.target) for aligner in (fitted, loaded))
    assert all(np.array_equal(a, b) for a, b in zip(one.forward, other.forward, strict=True))


def test_tuned_values_are_saved(fitted, tmp_path):
    aligner = WordAligner(n_threads=1, max_iter=1).fit(BITEXT.source, BITEXT.target)
    aligner.tune(BITEXT.source, BITEXT.target, BITEXT.links, gammas=[0.7])
    aligner.save(tmp_path / "model")
    loaded = WordAligner.load(tmp_path / "model")
    assert (loaded.threshold_, loaded.gamma_) == (aligner.threshold_, 0.7)


@pytest.mark.parametrize("gamma", [0.0, -np.inf])
def test_gammas_that_json_has_no_word_for(gamma, tmp_path):
    aligner = WordAligner(gamma=gamma, constraints=[], max_iter=1, n_threads=1).fit(["a b"], ["x y"])
    aligner.save(tmp_path / "model")
    assert WordAligner.load(tmp_path / "model").gamma_ == gamma


def test_numpy_numbers_as_parameters_are_saved(tmp_path):
    aligner = WordAligner(max_iter=np.int64(1), n_threads=np.int8(1)).fit(["a b"], ["x y"])
    aligner.save(tmp_path / "model")
    assert WordAligner.load(tmp_path / "model").max_iter == 1


def test_words_beyond_ascii():
    words = ("naïve", "Ω", "日本", "\x85", "a\rb", "\u2028")
    assert unpack_words(pack_words(words), 6) == words
    assert unpack_words(pack_words(()), 0) == ()
    assert unpack_words(pack_words(("",)), 1) == ("",)
    assert Vocabulary(words).words == words


def test_a_missing_file(tmp_path):
    assert load_error(tmp_path / "none") == "no such model file; train one and save it first"


def test_a_directory(tmp_path):
    assert load_error(tmp_path).startswith("not a model saved by spectrem, or damaged (Is a directory")


@pytest.mark.parametrize("kept", [0, 1, 10, 2000, -1, -100])
def test_a_truncated_file(model_file, kept):
    model_file.write_bytes(model_file.read_bytes()[:kept])
    message = load_error(model_file)
    assert message.startswith("not a model saved by spectrem, or damaged (")
    assert message.endswith("); give the file of a model, or save it again")


@pytest.mark.parametrize("place", [0.15, 0.5, 0.8])
def test_a_flipped_byte(model_file, place):
    data = bytearray(model_file.read_bytes())
    data[int(len(data) * place)] ^= 255
    model_file.write_bytes(data)
    assert "damaged (" in load_error(model_file)


@pytest.mark.parametrize("content", [b"", b"hello\n", pickle.dumps({"a": 1}), b"PK", b"\x93NUMPY"])
def test_files_that_are_no_archive(tmp_path, content):
    (tmp_path / "model").write_bytes(content)
    reason = "its end is missing" if content == b"PK" else "it is not an archive of arrays"
    assert load_error(tmp_path / "model") == (
        f"not a model saved by spectrem, or damaged ({reason}); give the file of a model, or save it again"
    )


def test_a_plain_array(tmp_path):
    np.save(tmp_path / "model.npy", np.arange(3))
    assert "it is not an archive of arrays" in load_error(tmp_path / "model.npy")


def test_an_archive_without_header(tmp_path):
    np.savez(tmp_path / "model.npz", a=np.arange(3))
    message = load_error(tmp_path / "model.npz")
    assert message.startswith("not a model saved by spectrem, or damaged ('header' is missing or unknown)")


def test_a_zip_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("header", "{}")
    assert load_error(tmp_path / "model.zip").startswith("not a model saved by spectrem, or damaged (")


def test_pickles_are_never_read(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was read",))

    np.savez(tmp_path / "model.npz", header=np.array([Bomb()], dtype=object))
    assert "header.npy: holds object of 1 axes, not uint8 of 1" in load_error(tmp_path / "model.npz")


def test_a_damaged_compressed_archive(tmp_path):
    np.savez_compressed(tmp_path / "model.npz", header=np.random.default_rng(0).integers(0, 9, 10_000))
    data = bytearray((tmp_path / "model.npz").read_bytes())
    data[200:260] = bytes(60)
    (tmp_path / "model.npz").write_bytes(data)
    assert load_error(tmp_path / "model.npz").startswith("not a model saved by spectrem, or damaged (")


def test_another_kind(model_file):
    rewrite(model_file, header=header_of(model_file) | {"kind": "HMMTagger"})
    assert load_error(model_file) == "expected a saved WordAligner, found 'HMMTagger'; give the file of a WordAligner"


def test_another_format(model_file):
    rewrite(model_file, header={"format": "else"})
    assert load_error(model_file) == "expected a saved WordAligner, found None; give the file of a WordAligner"
    rewrite(model_file, header=[1])
    assert load_error(model_file) == "expected a saved WordAligner, found [1]; give the file of a WordAligner"


def test_a_newer_layout(model_file):
    rewrite(model_file, header=header_of(model_file) | {"version": 4})
    assert load_error(model_file) == "saved with layout 4 of WordAligner, this spectrem reads up to 3; upgrade it"


def test_a_missing_member(model_file):
    rewrite(model_file, source_counts=None)
    assert load_error(model_file).startswith("a damaged WordAligner ('source_counts' is missing")


def test_counts_that_are_none(model_file):
    with np.load(model_file) as archive:
        counts = archive["source_counts"]
    for wrong, message in (
        (counts - 1000, "counts do not fit the words"),
        (counts[:-1], "counts do not fit the words"),
        (counts.astype(float), "source_counts.npy: holds float64 of 1 axes, not int64 of 1"),
    ):
        rewrite(model_file, source_counts=wrong)
        assert f"({message})" in load_error(model_file)


@pytest.mark.parametrize("change", [{"version": "one"}, {"version": None}, {"settings": 3}])
def test_a_header_without_sense(model_file, change):
    rewrite(model_file, header=header_of(model_file) | change)
    assert load_error(model_file) == "a damaged WordAligner (no version or settings); save the model again"


def test_settings_that_break_a_rule(model_file):
    header = header_of(model_file)
    header["settings"]["parameters"]["gamma"] = -0.5
    rewrite(model_file, header=header)
    message = load_error(model_file)
    assert message.startswith("a damaged WordAligner (gamma must be -inf or at least 0")
    assert message.endswith("); save the model again")


def test_settings_of_unknown_name(model_file):
    header = header_of(model_file)
    header["settings"]["parameters"]["bogus"] = 1
    rewrite(model_file, header=header)
    assert load_error(model_file).startswith("a damaged WordAligner (Invalid parameter 'bogus'")


@pytest.mark.parametrize(
    "name",
    ["targets", "row_offsets", "source_counts", "target_counts"]
    + [f"{side}_{name}" for side in ("forward", "backward") for name in ("translation", "null", "jump", "end")],
)
def test_arrays_that_do_not_fit_or_are_missing(model_file, name):
    with np.load(model_file) as archive:
        array = archive[name]
    rewrite(model_file, **{name: array[:-1]})
    message = load_error(model_file)
    assert message.startswith("a damaged WordAligner (")
    assert "do not fit the words" in message
    rewrite(model_file, **{name: None})
    assert load_error(model_file).startswith(f"a damaged WordAligner ('{name}' is missing or unknown)")


@pytest.mark.parametrize("value", [-1, 10_000])
def test_words_outside_the_vocabulary(model_file, value):
    with np.load(model_file) as archive:
        targets = archive["targets"]
    targets[5] = value
    rewrite(model_file, targets=targets)
    assert load_error(model_file).startswith("a damaged WordAligner (targets do not fit the words)")


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    save_arrays(tmp_path / "model", "Thing", 1, {"a": 1}, {"x": np.arange(3)})

    def fail(*args, **kwargs):
        args[0].write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(KeyboardInterrupt):
        save_arrays(tmp_path / "model", "Thing", 1, {"a": 2}, {"x": np.arange(3)})
    monkeypatch.undo()
    assert load_arrays(tmp_path / "model", "Thing", 1, {"x": ("i8", 1)})[0] == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_json_cannot_hold_is_an_error(tmp_path):
    with pytest.raises(TypeError, match="set cannot be saved"):
        save_arrays(tmp_path / "model", "Thing", 1, {"a": {1}}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_file_says_of_which_estimator_it_is(fitted, model_file, tmp_path):
    mixture = GaussianMixture(1, n_threads=1).fit(np.arange(8.0).reshape(4, 2))
    mixture.save(tmp_path / "mixture")
    assert np.array_equal(spectrem.load(tmp_path / "mixture").means_, mixture.means_)
    loaded = spectrem.load(model_file)
    assert type(loaded) is WordAligner
    assert loaded.history_ == fitted.history_


def test_files_that_no_estimator_wrote(model_file, tmp_path):
    save_arrays(tmp_path / "other", "Something", 1, {}, {})
    cases = {"other": "expected a saved estimator, found 'Something'", "none": "no such model file"}
    (tmp_path / "text").write_text("hello")
    for name, message in {**cases, "text": "not a model saved by spectrem, or damaged"}.items():
        with pytest.raises(InvalidInputError) as error:
            spectrem.load(tmp_path / name)
        assert str(error.value).startswith(f"{tmp_path / name}: {message}")
    with pytest.raises(InvalidInputError, match="expected a saved GaussianMixture, found 'WordAligner'"):
        GaussianMixture.load(model_file)
