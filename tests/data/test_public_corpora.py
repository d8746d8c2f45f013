"""The files of SOURCES.md are read as it describes them."""

import numpy as np
import pytest

from spectrem.data import Links, read_bitext, read_links, write_pharaoh, write_shared_task
from spectrem.metrics import alignment_scores


def read_gold(folder, part, other, n_sentences):
    bitext = read_bitext(folder / f"{part}.en", folder / f"{part}.{other}")
    gold = read_links(folder / f"{part}.align", n_sentences=n_sentences)
    assert bitext.n_pairs == n_sentences
    return bitext, gold


@pytest.mark.parametrize(
    ("corpus", "part", "other", "n_sentences", "n_sure", "n_links"),
    [
        ("hansards-enfr", "dev", "fr", 37, 338, 1784),
        ("hansards-enfr", "test", "fr", 447, 4038, 17438),
        ("europarl-enes", "test", "es", 200, 5920, 5920),  # one of its 5,921 links is given twice
        ("golden-enes", "test", "es", 100, 835, 835),
        ("golden-enfr", "test", "fr", 100, 1009, 1009),
        ("golden-enpt", "test", "pt", 100, 771, 771),
    ],
)
def test_gold_alignments(shared, corpus, part, other, n_sentences, n_sure, n_links):
    bitext, gold = read_gold(shared / "data" / "align" / corpus, part, other, n_sentences)
    assert (gold.sure.sum(), gold.n_links) == (n_sure, n_links)
    assert np.all(gold.source < bitext.source_lengths[gold.sentence])
    assert np.all(gold.target < bitext.target_lengths[gold.sentence])
    assert alignment_scores(gold.where(gold.sure), gold).aer == 0.0


def test_formats_agree_on_real_gold(shared, tmp_path):
    gold = read_links(shared / "data" / "align" / "hansards-enfr" / "test.align")
    write_pharaoh(tmp_path / "pharaoh", gold)
    write_shared_task(tmp_path / "wa", gold)
    for name in ("pharaoh", "wa"):
        again = read_links(tmp_path / name, n_sentences=447)
        assert np.array_equal(again.keys, gold.keys)
        assert np.array_equal(again.sure, gold.sure)


def test_diagonal_baseline(shared):
    """Linking equal relative positions is poor, but not absurd."""
    bitext, gold = read_gold(shared / "data" / "align" / "hansards-enfr", "test", "fr", 447)
    pairs = [
        [(j * n_source // n_target, j) for j in range(n_target)]
        for n_source, n_target in zip(bitext.source_lengths.tolist(), bitext.target_lengths.tolist(), strict=True)
    ]
    assert 0.5 < alignment_scores(Links.from_pairs(pairs), gold).aer < 0.8


def test_training_texts(shared):
    hansards = shared / "data" / "align" / "hansards-enfr"
    bitext = read_bitext(hansards / "train.en.gz", hansards / "train.fr.gz")
    assert bitext.n_pairs == 227_394
    assert max(bitext.source_lengths.max(), bitext.target_lengths.max()) <= 40
    assert min(bitext.source_lengths.min(), bitext.target_lengths.min()) >= 1
    words = bitext.source_vocabulary.words
    assert all(word == word.lower() for word in words)
    first = read_bitext(hansards / "train.en.gz", hansards / "train.fr.gz", limit=2000)
    assert np.array_equal(first.source_tokens, bitext.take(np.arange(2000)).source_tokens)
    assert first.source_vocabulary.words == words[: len(first.source_vocabulary)]
