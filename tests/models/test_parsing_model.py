"""The edge-factored model against features that are written out, and against all trees of short sentences."""

from dataclasses import replace

import numpy as np
import pytest

from spectrem.corpus import Local
from spectrem.data import ParsedSentence
from spectrem.exceptions import InvalidInputError
from spectrem.kernels.parsing import arcs as kernel
from spectrem.learning import run_em
from spectrem.learning.schedule import Stopping
from spectrem.models.loglinear import Optimiser, WeightPrior
from spectrem.models.loglinear.optimise import fit_known
from spectrem.models.parsing import (
    FREE,
    GIVEN,
    SHARED,
    EdgeFactoredModel,
    ParsingText,
    TokenAtoms,
    arc_templates,
)
from spectrem.models.shards import Columns
from spectrem.structures import Parts
from spectrem.testing import check_model

MASK = (1 << 32) - 1


def joined(a, b):
    h = (a * 0x9E3779B1 + b) & MASK
    h ^= h >> 15
    h = h * 0x85EBCA6B & MASK
    return h ^ h >> 13


def features(templates, bits, atoms, head, dependent):
    """The cells of one arc, from the definition; words from 1, the root is 0."""
    n = len(atoms)

    def part(word, k):
        h = int(k) + 1
        for column, away in templates.parts[k].tolist():
            if column < 0:
                break
            at = word + away - 1
            h = joined(h, int(atoms[at, column]) if 0 <= at < n else -at if at < 0 else 4 + at - n)
        return h

    rows = [joined(16, part(head, k)) for k in templates.head_parts]
    rows += [joined(17, part(dependent, k)) for k in templates.dependent_parts]
    pairs = [joined(256 + t, part(head, a)) + joined(1, part(dependent, b)) for t, (a, b) in enumerate(templates.pairs)]
    low, high = sorted((head, dependent))
    tag = templates.between
    ends = joined(256 + len(pairs), part(head, tag)) + joined(2, part(dependent, tag))
    pairs += [ends + one for one in {joined(3, part(word, tag)) for word in range(low + 1, high)}]
    side = 1 if dependent > head else 2
    distance = high - low
    length = next(k for k, most in enumerate((1, 2, 3, 5, 10, n + 1)) if distance <= most)
    cells = (0, side, 3 + 6 * (side - 1) + length)
    return [16 * ((h * 0x9E3779B1 & MASK) >> 32 - bits) + cell for h in rows + pairs for cell in cells]


def random_text(rng, lengths, fine=True, **known):
    lengths = np.array(lengths)
    atoms = rng.integers(1, 5, (lengths.sum(), 3)).astype(np.uint32)
    atoms[:, 2] *= fine
    text = ParsingText.raw(lengths, atoms)
    return replace(text, **known)


@pytest.mark.parametrize("fine", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_and_counts_by_definition(fine, dtype):
    rng = np.random.default_rng(0)
    templates, bits = arc_templates(fine), 9
    model = EdgeFactoredModel(fine, bits=bits)
    text = random_text(rng, [14, 1, 5], fine)
    (shard,) = text.shards()
    theta = rng.normal(size=model.n_weights).astype(dtype)
    scores, place, first = model.scores(theta, shard).unary, 0, 0
    shares = rng.normal(size=len(scores))
    expected = np.zeros(model.n_weights)
    for n in (14, 1, 5):
        for dependent in range(1, n + 1):
            for entry in range(1, n + 1):
                head = 0 if entry == dependent else entry
                cells = features(templates, bits, text.atoms[first : first + n], head, dependent)
                assert scores[place] == pytest.approx(theta[cells].sum(), rel=1e-4 if dtype == np.float32 else 1e-12)
                np.add.at(expected, cells, shares[place])
                place += 1
        first += n
    counts = np.zeros(model.n_weights)
    model.add_counts(counts, shard, shares)
    np.testing.assert_allclose(counts, expected, atol=1e-12)


def test_steps_and_their_average():
    rng = np.random.default_rng(1)
    model = EdgeFactoredModel(bits=6)
    (shard,) = random_text(rng, [4, 3]).shards()
    theta, later, total = np.zeros(model.n_weights), np.zeros(model.n_weights), np.zeros(model.n_weights)
    for step in range(3):
        shares = rng.normal(size=25)
        kept = np.where(np.abs(shares) > 0.5, shares, 0.0)
        before = theta.copy()
        model.climb(theta, later, shard, shares, 0.1, float(step), 0.5)
        np.testing.assert_allclose(theta - before, 0.1 * model.gather(theta, shard, Parts(kept)), atol=1e-12)
        total += theta
    np.testing.assert_allclose(theta - later / 3, total / 3, atol=1e-12)


def test_log_probabilities_sum_to_one_and_moments_are_their_gradient():
    rng = np.random.default_rng(2)
    model = EdgeFactoredModel(bits=5)
    (shard,) = random_text(rng, [4, 2], weights=np.array([1.0, 2.5])).shards()
    theta = 0.3 * rng.normal(size=model.n_weights)
    structure, scores = model.free_structure(shard), model.scores(theta, shard)
    normaliser = 0.0
    for sentence, weight in enumerate([1.0, 2.5]):
        own = [scores.dot(tree) for tree in structure.enumerate(sentence)]
        normaliser += weight * np.logaddexp.reduce(own)
    found = model.moments(theta, shard)
    assert found.value == pytest.approx(normaliser)
    assert model.log_normaliser(theta, shard) == pytest.approx(normaliser)
    for cell in np.flatnonzero(found.gradient)[:40]:
        near = np.zeros(model.n_weights)
        near[cell] = 1e-5
        slope = (model.moments(theta + near, shard).value - model.moments(theta - near, shard).value) / 2e-5
        assert found.gradient[cell] == pytest.approx(slope, abs=1e-6)


def known_text(rng):
    """Sentences of all kinds: without heads, with some, with all, with distributions."""
    lengths = np.array([3, 4, 3, 2, 0, 1])
    heads = np.array([-2, -2, -2, 1, -2, -2, -2, 1, -1, 1, -2, -2, -1])
    kinds = np.array([FREE, FREE, GIVEN, SHARED, FREE, GIVEN])
    shares = {3: np.array([[0.3, 0.7], [0.3, 0.7]])}
    return random_text(rng, lengths, heads=heads, supervision=kinds, shares=shares)


def test_partial_heads_forbid_the_others():
    rng = np.random.default_rng(3)
    model = EdgeFactoredModel(bits=5)
    shards = known_text(rng).shards()
    assert [(s.known, s.instances.tolist()) for s in shards] == [(False, [0, 1]), (True, [2, 5]), (True, [3])]
    theta = rng.normal(size=model.n_weights)
    _, marginals = model.structure(shards[0]).smoothed_max(model.scores(theta, shards[0]), 1.0)
    first = marginals.unary[9:].reshape(4, 4)
    assert first[0].tolist() == pytest.approx([0, 1, 0, 0])
    assert (marginals.unary[:9] > 0).all()
    assert model.shares(shards[1]).tolist() == [0, 1, 0, 0, 1, 0, 0, 1, 0, 1]
    assert model.shares(shards[2]).tolist() == [0.3, 0.7, 0.3, 0.7]


def test_a_table_that_hashes_cannot_address_is_refused():
    for bits in (0, 28):
        with pytest.raises(InvalidInputError, match=rf"bits must be in 1\.\.27, got {bits}; 18 makes 2\^22 weights"):
            EdgeFactoredModel(bits=bits)
    (shard,) = random_text(np.random.default_rng(0), [2]).shards()
    with pytest.raises(InvalidInputError, match=r"theta must have shape \(256,\), 16 weights .* 2\^4 rows; got"):
        EdgeFactoredModel(bits=4).free_scores(np.zeros(16), shard)


def test_check_model():
    rng = np.random.default_rng(4)
    text = known_text(rng)
    model = EdgeFactoredModel(bits=4, prior=WeightPrior(0.5), optimiser=Optimiser(tol=1e-13))

    def perturb(theta, rng):
        return theta + 0.01 * rng.normal(size=len(theta))

    def reweigh(shard, weights):
        return replace(shard, weights=weights)

    words = replace(
        text, columns=Columns({"size": np.arange(6)}, {"tag": np.array(list("abcabcabcabca"))}, {"arc": np.arange(39)})
    )
    start = rng.normal(size=model.n_weights)
    check_model(model, start, words.shards(), rng, perturb=perturb, reweigh=reweigh, iterations=3)
    columns = model.columns(words.shards()[0])
    assert columns["head_tag"].tolist()[10:13] == ["b", "c", "a"]
    assert columns["dependent_tag"].tolist()[9:13] == ["a"] * 4
    assert columns["size"].tolist() == [0, 1]
    assert columns["arc"].tolist() == list(range(25))


def test_training_on_known_shards_and_em_on_all():
    rng = np.random.default_rng(5)
    text = known_text(rng)
    model = EdgeFactoredModel(bits=6, prior=WeightPrior(0.01))
    best = fit_known(model, Local(text.shards()))
    assert np.linalg.norm(best.slope) < 1e-3
    found = run_em(model, text.shards(), best.point, stopping=Stopping(5, 0))
    objectives = [record.objective for record in found.history]
    assert (np.diff(objectives) >= -1e-9).all()
    assert all(record.free_objective < 0 for record in found.history)


def test_batches_hold_every_sentence_once():
    text = known_text(np.random.default_rng(6))
    batches = text.batches(2, np.random.default_rng(0))
    assert sorted(n for batch in batches for n in batch.instances.tolist()) == [0, 1, 2, 3, 5]
    assert all(batch.known == (text.supervision[batch.instances] != FREE).all() for batch in batches)
    again = text.batches(2, np.random.default_rng(0))
    assert [b.instances.tolist() for b in again] == [b.instances.tolist() for b in batches]


def test_atoms_do_not_depend_on_the_process():
    sentences = [ParsedSentence(("Ü", "rare"), ("X", "_"), ("a", "b")), ParsedSentence(("Ü",), ("X",), ("b",))]
    atoms = TokenAtoms.of(sentences, min_count=2)
    table = atoms.encode(sentences)
    assert int(table[0, 0]) == 142897108
    assert table[1, 0] == 0
    assert table[0].tolist() == [table[2, 0], table[2, 1], table[0, 2]]


def test_the_language_specific_tag_stands_in():
    sentences = [ParsedSentence(("a", "b"), ("_", "_"), ("DT", "NN"))]
    atoms = TokenAtoms.of(sentences)
    assert (atoms.coarse, atoms.fine) == (False, False)
    table = atoms.encode(sentences)
    assert table[0, 1] != table[1, 1]
    assert not table[:, 2].any()


def test_cells_of_a_row_fill_one_line():
    assert kernel.CELLS * np.dtype(np.float32).itemsize == 64
