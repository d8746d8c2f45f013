"""Checkpoints of EM: a run that goes on gives the same bits; states of other runs and damaged ones are refused."""

import dataclasses
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
from toy_models import Tagger, random_params, random_shards

from spectrem import E, part
from spectrem.corpus import Local, Spilled
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Anneal, Constant, EStep, Stopping, run_em
from spectrem.learning.em import fingerprint

RNG = np.random.default_rng(3)
MODEL, PARAMS, SHARDS = Tagger(), random_params(RNG), random_shards(RNG, n_shards=4)
ONES = E[part("tag") == 1] >= 0.4 * E.count(...)
EACH = (E[part("tag") == 0] >= 0.5).per("sentence")
ESTEPS = {
    "free": EStep(),
    "inside": EStep([EACH], warm_start=True),
    "corpus": EStep([ONES], dual_steps=3),
    "both": EStep([EACH, ONES], dual_steps=3, warm_start=True),
}


def run(shards=SHARDS, params=PARAMS, *, model=MODEL, estep=ESTEPS["both"], gammas=None, n=3, **options):
    schedule = gammas or Constant(1.0)
    return run_em(model, shards, params, estep, schedule=schedule, stopping=Stopping(n), **options)


def outcome(result):
    records = [dataclasses.replace(record, seconds=0.0) for record in result.history]
    return [table.tobytes() for table in result.params], records, result.status


def interrupted_after(k, *arguments, **options):
    heard = []

    def stop(record):
        heard.append(record)
        if len(heard) == k:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(*arguments, on_iteration=stop, **options)


@pytest.fixture
def state(tmp_path):
    """The folder of a run that was interrupted."""
    interrupted_after(2, checkpoint=tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTEPS)
@pytest.mark.parametrize("gammas", [Constant(1.0), Anneal(0.4, 1.0, 1.5), Constant(0.0)], ids=str)
def test_a_run_goes_on_with_the_same_bits(tmp_path, name, gammas):
    options = {"estep": ESTEPS[name], "gammas": gammas}
    whole = run(**options)
    n = len(whole.history)
    for k in sorted({1, 2, n // 2, n - 1, n}):
        interrupted_after(k, checkpoint=tmp_path / str(k), **options)
        assert outcome(run(checkpoint=tmp_path / str(k), **options)) == outcome(whole)


def test_a_run_may_be_interrupted_again_and_again_and_go_on_in_another_home(tmp_path):
    interrupted_after(1, checkpoint=tmp_path)
    interrupted_after(2, Local(SHARDS, 3), checkpoint=tmp_path)
    with Spilled(SHARDS) as corpus:
        assert outcome(run(corpus, checkpoint=tmp_path)) == outcome(run())


def test_a_finished_run_is_read_back(tmp_path):
    first = run(checkpoint=tmp_path)
    heard = []
    second = run(model=Broken(), checkpoint=tmp_path, on_iteration=heard.append)
    assert outcome(second) == outcome(first)
    assert second.history == first.history  # with the times of the first
    assert heard == list(first.history)


class Broken(Tagger):
    """Fails where it is asked for anything that only an iteration needs."""

    def scores(self, params, shard):
        raise AssertionError


# it is the same model otherwise
Broken.__module__, Broken.__qualname__ = Tagger.__module__, Tagger.__qualname__


def other_shards():
    changed = SHARDS[2].tokens.copy()
    changed[0] = (changed[0] + 1) % 3
    return [*SHARDS[:2], SHARDS[2]._replace(tokens=changed), SHARDS[3]]


@pytest.mark.parametrize(
    "options",
    [
        {"shards": other_shards()},
        {"shards": [SHARDS[k] for k in (1, 0, 2, 3)]},
        {"shards": SHARDS[:3]},
        {"params": PARAMS._replace(start=PARAMS.start[::-1].copy())},
        {"estep": EStep([EACH, E[part("tag") == 1] >= 0.41 * E.count(...)], dual_steps=3, warm_start=True)},
        {"estep": dataclasses.replace(ESTEPS["both"], dual_steps=4)},
        {"estep": dataclasses.replace(ESTEPS["both"], reference=lambda shard: None)},
        {"gammas": Constant(0.9)},
        {"n": 4},
    ],
    ids=lambda options: next(iter(options)),
)
def test_the_state_of_another_run_is_refused(state, options):
    with pytest.raises(InvalidInputError) as error:
        run(**options, checkpoint=state)
    assert str(error.value) == (
        f"checkpoint: {state / 'state.npz'} is that of a run with other data, another start or other settings; name "
        "another folder, or remove it to begin anew"
    )


def test_damaged_states_are_refused_by_name(state):
    file = state / "state.npz"
    content = file.read_bytes()
    damaged = [b"", b"nonsense", content[: len(content) // 2], content[:-1]]
    for at in range(0, len(content), len(content) // 50):
        damaged.append(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
    whole, refused = outcome(run()), 0
    for bad in damaged:
        file.write_bytes(bad)
        said = found = None
        try:
            found = outcome(run(checkpoint=state))
        except InvalidInputError as error:
            said = str(error)
            refused += 1
        # what is damaged may say nothing, such as a date
        assert found == whole if said is None else said.startswith(f"checkpoint: {file} is ")
        file.write_bytes(content)
    assert refused > len(damaged) / 2


def test_nothing_is_left_half_written(state, monkeypatch):
    content = (state / "state.npz").read_bytes()

    def fails(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fails)
    with pytest.raises(OSError, match="No space left"):
        run(checkpoint=state)
    assert [path.name for path in state.iterdir()] == ["state.npz"]
    assert (state / "state.npz").read_bytes() == content


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match=r"checkpoint: the folder .*file/state cannot be made"):
        run(checkpoint=tmp_path / "file" / "state")


def scaled(factor):
    return lambda x: factor * x


VALUES = [
    None, True, 1, 1.0, "1", b"1", ..., (1,), [1], {1}, {1: 2}, {1: 3}, np.float64(1), np.ones(1), np.ones((1, 1)),
    np.ones(1, np.float32), np.arange(3), np.arange(3)[::-1], SHARDS[0], SHARDS[1], PARAMS, Tagger(), Tagger(3),
    ESTEPS["inside"], ESTEPS["corpus"], EACH, ONES, Constant(1.0), Constant(0.5), Tagger, EStep, scaled(2), scaled(3),
    partial(scaled, 2), partial(scaled, 3), np.random.default_rng(0), np.random.default_rng(1), Tagger().scores,
]  # fmt: skip


def test_fingerprints_tell_values_apart():
    assert len({fingerprint(value) for value in VALUES}) == len(VALUES)
    loop = []
    loop.append(loop)
    assert fingerprint(loop) == fingerprint(loop)
    locks = threading.Lock(), threading.Lock()
    assert fingerprint(locks[0]) == fingerprint(locks[1])  # cannot be pickled


def test_fingerprints_are_the_same_in_every_process():
    code = (
        "from spectrem.learning.em import fingerprint; from spectrem import E, part; import numpy as np;"
        "print(fingerprint([{'a', 'b', 'c'}, {'x': 1, 'y': np.arange(4)}, E[part('tag') == 1] >= 2, len]).hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1
