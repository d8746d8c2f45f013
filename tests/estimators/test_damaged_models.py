"""Damaged model files: each loads as a model that predicts finite numbers, or is refused in one line."""

import io
import json
import random
import zipfile

import numpy as np
import pytest
from tagger_helpers import DICTIONARY, SENTENCES, make

from spectrem import HMM, DependencyModel, GaussianHMM, GaussianMixture, HMMTagger, WordAligner
from spectrem.datasets import make_bitext
from spectrem.exceptions import InvalidInputError

BITEXT = make_bitext(20, seed=3)
KINDS = {
    **{"aligner": WordAligner, "tagger": HMMTagger, "trigram tagger": HMMTagger, "mixture": GaussianMixture},
    **{"grammar": DependencyModel, "states": GaussianHMM, "states that last": HMM},
}
STATES = {"n_threads": 1, "random_state": 0, "max_iter": 2, "tol": 0, "init": "clusters", "n_init": 1}
POINTS = np.random.default_rng(0).normal(size=(20, 2))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    dictionary = {**DICTIONARY, "<unk>": ["NN", "VB"]}
    fitted = {
        "aligner": WordAligner(n_threads=1, max_iter=1, max_jump=5).fit(BITEXT.source, BITEXT.target),
        "tagger": make(1, dictionary=dictionary).fit(SENTENCES),
        "trigram tagger": make(2, dictionary=dictionary, smoothing=0.1).fit(SENTENCES),
        "mixture": GaussianMixture(2, random_state=0, max_iter=2, tol=0, fixed=["weights"]).fit(POINTS),
        "grammar": DependencyModel(n_threads=1, max_iter=2, tol=0, smoothing=0.1).fit(SENTENCES),
        "states": GaussianHMM(2, covariance_type="full", **STATES).fit(POINTS),
        "states that last": HMM(2, emissions={0: "gaussian", 1: "student-t"}, durations="poisson", **STATES).fit(
            POINTS
        ),
    }
    for name, model in fitted.items():
        model.save(folder / name)
    return {name: (folder / name).read_bytes() for name in fitted}


@pytest.fixture
def damaged(models, tmp_path):
    """Write a model again after a function changed its arrays and settings, and give the file."""

    def make(name, change, save=np.savez):
        with np.load(io.BytesIO(models[name])) as archive:
            arrays = dict(archive)
        header = json.loads(arrays["header"].tobytes())
        change(arrays, header["settings"])
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        with (tmp_path / "model").open("wb") as file:
            save(file, **arrays)
        return tmp_path / "model"

    return make


def refusal(name, path):
    with pytest.raises(InvalidInputError) as error:
        KINDS[name].load(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert "; " in message  # what to do
    assert "\n" not in message
    return message


def setting(name, value):
    def change(arrays, settings):
        settings[name] = value

    return change


def cell(name, value, at=0):
    def change(arrays, settings):
        arrays[name] = arrays[name].copy()
        arrays[name].flat[at] = value

    return change


def array(name, value):
    def change(arrays, settings):
        arrays[name] = value

    return change


def words(*given):
    return np.frombuffer(json.dumps(given).encode(), np.uint8)


def twice(arrays, settings):
    arrays["targets"] = np.concatenate([arrays["targets"][:1], arrays["targets"][:1], arrays["targets"][2:]])


DAMAGE = [
    ("aligner", setting("threshold", 7), "the threshold must lie in [0, 1], got 7.0"),
    ("aligner", setting("threshold", float("nan")), "the threshold must lie in [0, 1], got nan"),
    ("aligner", setting("threshold", None), "its parts do not fit"),
    ("aligner", setting("gamma", -0.5), "gamma must be -inf or at least 0"),
    ("aligner", setting("n_target_words", 10**30), "words instead of"),
    ("aligner", twice, "targets hold a word pair twice"),
    ("aligner", cell("forward_translation", np.nan), "forward_translation must hold probabilities, got"),
    ("aligner", cell("forward_translation", 0.0), "forward_translation must hold probabilities, got values from 0"),
    ("aligner", cell("backward_null", -0.1), "backward_null must hold probabilities, got values from -0.1"),
    ("aligner", cell("forward_jump", 1.5), "forward_jump must hold probabilities"),
    ("aligner", cell("forward_end", 0.9), "forward_end must sum to 1, got 1."),
    ("aligner", cell("row_offsets", -1, 1), "row_offsets do not fit the words"),
    ("aligner", array("target_words", np.frombuffer(b"a\na\nb", np.uint8)), "words instead of"),
    ("aligner", array("more", np.arange(3)), "a WordAligner has no member 'more'"),
    ("aligner", array("targets", np.arange(3.0)), "targets.npy: holds float64 of 1 axes, not int32 of 1"),
    ("aligner", array("targets", np.zeros((2, 2), np.int32)), "targets.npy: holds int32 of 2 axes, not int32 of 1"),
    ("tagger", setting("tags", ["DT", "NN", "NN"]), "tags must be distinct and at least one, got 'NN' twice"),
    ("tagger", setting("free", [0, 0]), "states do not fit the tags"),
    ("tagger", setting("free", [0.0]), "states do not fit the tags"),
    ("tagger", setting("unknown", ["x"]), "its parts do not fit"),
    ("tagger", setting("gamma", float("nan")), "gamma must be -inf or at least 0"),
    ("tagger", cell("initial", np.nan), "initial must hold probabilities, got values from nan"),
    ("tagger", cell("transition", 1.0), "transition must have rows that sum to 1 at most"),
    ("tagger", cell("emission", -1e-9), "emission must hold probabilities"),
    ("tagger", cell("dictionary_offsets", 10**12), "dictionary_states do not fit their offsets"),
    ("tagger", cell("dictionary_states", 99), "states do not fit the tags"),
    ("tagger", array("words", words("a", "b", "a")), "words must be distinct texts or numbers"),
    ("tagger", array("words", words("a", None)), "words must be distinct texts or numbers"),
    ("tagger", array("words", np.frombuffer(b"[" * 100_000, np.uint8)), "its parts do not fit"),
    ("tagger", array("dictionary_words", words("a", "a")), "words must be distinct texts or numbers"),
    ("grammar", setting("tags", ["a", "a"]), "tags must be distinct"),
    ("grammar", setting("tags", [1.5]), "tags must hold tags (text or whole numbers), got 1.5"),
    ("grammar", setting("gamma", float("nan")), "gamma must be -inf or at least 0"),
    ("grammar", setting("log_likelihood", None), "its parts do not fit"),
    ("grammar", array("root", np.ones(1)), "root must have shape"),
    ("grammar", cell("choose", -0.1), "choose must hold probabilities"),
    ("grammar", cell("stop", 1.0), "stop must have rows that sum to 1 at most"),
    ("mixture", setting("dtype", "object"), "is missing or unknown"),
    ("mixture", setting("status", "over"), "is missing or unknown"),
    ("mixture", setting("features", ["x"]), "numbers of iterations or of features do not fit"),
    ("mixture", setting("parameters", {"n_components": 3}), "weights must have shape (3,), got (2,)"),
    ("mixture", setting("parameters", {"n_components": 2, "means_bounds": [1, 0]}), "means_bounds: low must not be ab"),
    ("mixture", cell("weights", 0.9), "weights must sum to 1, got 1."),
    ("mixture", cell("means", np.nan), "means must be finite"),
    ("mixture", cell("precisions_cholesky", 0.0), "precisions_cholesky must have a positive diagonal, got 0"),
    ("mixture", setting("lower_bounds", [0.0]), "numbers of iterations or of features do not fit"),
    ("states", setting("state_names", ["a", "a"]), "states must be distinct and at least one, got 'a' twice"),
    ("states", setting("state_names", [0, 1, 2]), "initial must have shape (3,), got (2,)"),
    ("states", setting("state_names", 3), "its parts do not fit"),
    ("states", setting("column_names", ["x"]), "its emissions have shape (2, 2), not (2, 1)"),
    ("states", setting("categories", [1]), "its parts do not fit"),
    ("states", setting("emission", {"kind": "Uniform"}), "is missing or unknown"),
    ("states", setting("emission", {"kind": "Poisson"}), "'lambdas' is missing or unknown"),
    ("states", setting("layout", []), "emission_arrays must hold 0 numbers, got 12"),
    ("states", setting("layout", [["means", [2, 2]], ["covars", [8]]]), "covars must have shape (2, 2, 2), got (8,)"),
    ("states", setting("layout", [["means", [4, 1]], ["covars", [2, 2, 2]]]), "covars must have shape (4, 1, 1), got"),
    ("states", cell("initial", np.nan), "initial must hold probabilities, got values from nan"),
    ("states", cell("initial", 0.0), "initial must sum to 1, got 0."),
    ("states", cell("transition", 1.0), "transition must sum to 1, got 1."),
    ("states", cell("emission_arrays", np.nan), "means must be finite, got nan"),
    ("states", cell("emission_arrays", -1.0, 4), "got a lowest eigenvalue of -1.01"),
    ("states", array("durations", np.ones((1, 2))), "durations must be there if states have some, and else not"),
    ("states", setting("gamma", float("nan")), "gamma must be -inf or at least 0"),
    ("states that last", setting("durations", None), "durations must be there if states have some, and else not"),
    ("states that last", setting("durations", {"kind": "Uniform"}), "is missing or unknown"),
    ("states that last", array("durations", np.ones((1, 3))), "durations must give 1 to 100 rows probabilities"),
    ("states that last", cell("durations", -1.0), "durations must give 1 to 100 rows probabilities"),
    ("states that last", array("durations", np.ones((100, 0))), "durations must give 1 to 100 rows probabilities"),
    ("states that last", setting("layout", [["a", [2, 1e308, 2]]]), "its parts do not fit"),
    ("states that last", setting("parameters", {"fixed": 3}), "fixed must be a mapping of 'startprob', 'transmat' or"),
    # a lexicon of 10^5 words and 10^5 tags would take 80 GB
    ("tagger", lambda arrays, settings: (
        arrays.update(words=words(*range(100_000)), dictionary_words=words(), dictionary_states=np.zeros(0, np.int64),
                      dictionary_offsets=np.zeros(1, np.int64)),
        settings.update(tags=list(range(100_000)), free=list(range(100_000))),
    ), "must have shape (100000,), got"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), DAMAGE, ids=[f"{case[0]} {case[2][:40]}" for case in DAMAGE])
def test_what_no_fit_leaves_is_damage(damaged, name, change, message):
    assert message in refusal(name, damaged(name, change))


def test_compressed_members_are_refused_unread(damaged):
    """Ten kilobytes may stand for ten megabytes of zeros, and ten megabytes for ten gigabytes."""
    path = damaged("aligner", array("targets", np.zeros(10_000_000, np.int32)), np.savez_compressed)
    assert path.stat().st_size < 200_000
    assert "the member header is compressed" in refusal("aligner", path)


def test_sizes_that_an_archive_only_claims_are_refused_unread(models, tmp_path):
    path = tmp_path / "model"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<i4", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(io.BytesIO(models["aligner"])) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            new.writestr(entry.filename, head.getvalue() + bytes(8) if entry.filename == "targets.npy" else data)
    assert "targets.npy: says it has shape (1000000000000,), but holds 8 bytes" in refusal("aligner", path)

    data = bytearray(models["aligner"])
    at = data.rindex(b"PK\x01\x02")  # the last entry of the directory
    data[at + 20 : at + 28] = (10**9).to_bytes(4, "little") * 2
    path.write_bytes(data)
    assert "members larger than the file" in refusal("aligner", path)


def test_a_member_that_is_there_twice(models, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(models["tagger"])
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("initial.npy", archive.read("initial.npy"))
    assert "two members initial" in refusal("tagger", path)


def altered(array, rng):
    """One of many ways to change an array."""
    bad = [np.nan, np.inf, -1.0, 0.0, 1.0, 2.0, 5e-324] if array.dtype.kind == "f" else [0, 1, 34, 91, 100]
    way = rng.randrange(7)
    if way == 0:
        return array[: rng.randrange(len(array) + 1)]
    if way == 1:
        return array.astype(rng.choice(["f4", "f8", "i8", "u1", ">f8", "c16"]))
    if way == 2:
        return np.roll(array, 1)
    if way == 3:
        return np.full_like(array, rng.choice(bad))
    if way == 4:
        return np.zeros(rng.choice([(), (0,), (2, 2), (0, 0)]), array.dtype)
    if way == 5 and array.dtype.kind == "f":
        return rng.choice([-1, 0.5, 2, 1e-300]) * array
    out = array.copy()
    out.flat[rng.randrange(array.size)] = rng.choice(bad)
    return out


def outcome(name, path):
    """True if a model loads, and then predicts finite numbers; False if it is refused in one line."""
    try:
        model = KINDS[name].load(path).set_params(n_threads=1)
    except InvalidInputError:
        refusal(name, path)
        return False
    if name == "aligner":
        sides = model.predict_proba([*BITEXT.source[:4], "zz"], [*BITEXT.target[:4], "x y"])
        found = [*sides.forward, *sides.backward]
    elif name.startswith("states"):
        found = [model.predict_proba(POINTS), model.filter(POINTS), model.startprob_, model.transmat_]
        model.predict(POINTS)
    elif name == "mixture":
        found = [model.predict_proba(POINTS)]
    else:
        model.predict([*SENTENCES, "zz"])
        found = model.predict_proba([*SENTENCES, "zz"])
    assert all(np.isfinite(table).all() for table in found)
    return True


@pytest.mark.parametrize("name", KINDS)
def test_altered_arrays(damaged, models, name):
    rng = random.Random(1)

    def change(arrays, settings):
        chosen = rng.choice(sorted(arrays))
        arrays[chosen] = altered(arrays[chosen], rng)

    assert {outcome(name, damaged(name, change)) for _ in range(80)} == {True, False}


@pytest.mark.parametrize("name", KINDS)
def test_altered_bytes(models, tmp_path, name):
    rng = random.Random(2)
    for _ in range(80):
        data = bytearray(models[name])
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        (tmp_path / "model").write_bytes(data if rng.random() < 0.7 else data[: rng.randrange(len(data))])
        outcome(name, tmp_path / "model")
