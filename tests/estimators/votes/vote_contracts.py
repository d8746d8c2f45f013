"""Checks that hold of both label models: homes, interrupted training, and damaged files."""

import io
import json
from functools import partial

import numpy as np
import pytest

from spectrem.corpus import OnDask, Spilled
from spectrem.exceptions import InvalidInputError


def check_homes_and_threads(fit, outcome, folder, client):
    """Homes and threads change no bit of what ``fit`` learns."""
    serial = outcome(fit(n_threads=1))
    assert outcome(fit(n_threads=3)) == serial
    for home in (partial(Spilled, folder=folder), partial(OnDask, client=client)):
        assert outcome(fit(corpus=home)) == serial
    assert not list(folder.iterdir())


def check_interrupted(fit, outcome, folder):
    """Training that was interrupted after any iteration goes on to the same bits."""
    whole = fit()

    def interrupt(record, after, seen):
        seen.append(record)
        if len(seen) == after:
            raise KeyboardInterrupt

    for after in range(1, whole.n_iter_ + 1):
        stop = partial(interrupt, after=after, seen=[])
        with pytest.raises(KeyboardInterrupt):
            fit(on_iteration=stop, checkpoint=folder / str(after))
        assert outcome(fit(checkpoint=folder / str(after))) == outcome(whole)


def check_damage(fitted, name, change, message, folder):
    """A saved model with one array or setting changed is refused with the message."""
    fitted.save(folder / "model")
    with np.load(io.BytesIO((folder / "model").read_bytes())) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    held = arrays if name in arrays else header["settings"]
    held[name] = change(held[name])
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with (folder / "other").open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(InvalidInputError) as error:
        type(fitted).load(folder / "other")
    assert message in str(error.value)
