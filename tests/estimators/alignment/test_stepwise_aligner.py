"""Word aligners trained by stepwise EM, and with fewer word pairs."""

from functools import partial

import numpy as np
import pytest

from spectrem import WordAligner
from spectrem.corpus import Spilled
from spectrem.data import encode_bitext, read_bitext, write_lines
from spectrem.datasets import make_bitext
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Stepwise
from spectrem.models.alignment import AlignmentModel, pairs, tabulate_pairs

TEXT = make_bitext(1500, seed=3)
ONCE = {"max_iter": 1, "model1_iterations": 1, "n_threads": 1}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(pairs, "_LEAST_CELLS", 1 << 12)
    monkeypatch.setattr(pairs, "_MOST_CELLS", 1 << 12)


def error(**settings):
    aligner = WordAligner(**settings).fit(TEXT.source, TEXT.target)
    return 1.0 - aligner.score(TEXT.source, TEXT.target, TEXT.links)


def test_one_pass_in_steps_comes_closer_to_many_than_one_pass_of_em():
    many, steps, one = error(n_threads=1), error(schedule=Stepwise(), **ONCE), error(**ONCE)
    assert steps < many + 0.03
    assert one > 1.5 * steps


def test_the_m_step_makes_the_first_parameters_of_the_first_statistics():
    table = tabulate_pairs(encode_bitext(TEXT.source[:50], TEXT.target[:50]))
    model = AlignmentModel(table, 5, chain=True, learn_positions=True)
    params = model.initial(0.2)
    found = model.m_step(model.small_part(params), model.initial_stats(params))
    for side, other in ((found.forward, params.forward), (found.backward, params.backward)):
        np.testing.assert_allclose(side.translation, other.translation, rtol=1e-12)
        np.testing.assert_allclose(side.null[:-1], other.null[:-1], rtol=1e-12)
        assert np.isfinite(side.jump).all()


def test_a_text_in_files_is_aligned_as_one_in_memory(tmp_path):
    """Also with the table without pairs that meet by chance, whose probabilities are estimated when links are found."""
    write_lines(tmp_path / "source", TEXT.source)
    write_lines(tmp_path / "target", TEXT.target)
    bitext = read_bitext(tmp_path / "source", tmp_path / "target", folder=tmp_path)
    settings = {"schedule": Stepwise(n_batches=8), "max_chance": 0.1, **ONCE}
    here = WordAligner(**settings).fit(TEXT.source, TEXT.target)
    there = WordAligner(corpus=partial(Spilled, folder=tmp_path), **settings).fit(bitext)
    assert there.table_.n_pairs < 0.9 * WordAligner(model="ibm1", **ONCE).fit(bitext).table_.n_pairs
    assert there.params_.forward.translation.tobytes() == here.params_.forward.translation.tobytes()
    assert there.predict(bitext) == here.predict(TEXT.source, TEXT.target)
    assert there.score(bitext, None, TEXT.links) > 0.75


def test_max_chance_is_checked():
    with pytest.raises(InvalidInputError, match="max_chance must be finite and above 0, got 0; none keeps all"):
        WordAligner(max_chance=0).fit(TEXT.source, TEXT.target)
