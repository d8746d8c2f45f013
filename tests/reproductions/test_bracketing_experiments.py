"""The bracketing experiments run on generated sentences, and set the published numbers beside ours."""

import gzip

import numpy as np
import pytest

from reproductions.bracketing import da_table2, da_table3
from reproductions.bracketing.training import Sample, Scores, Trained, held_out, proportional, read_sample, score, train
from spectrem.datasets import make_bracketed_corpus
from spectrem.metrics import branching
from spectrem.models.bracketing import ConstituentContextModel, SpanVocabulary, build_shards

CORPUS = make_bracketed_corpus(60, seed=6)
SAMPLE = Sample(CORPUS.sentences, CORPUS.brackets)


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Generated sentences in the layout of those of the Wall Street Journal."""
    root = tmp_path_factory.mktemp("journal")
    (root / "parse").mkdir()
    with gzip.open(root / "parse" / "wsj10.tsv.gz", "wt") as file:
        file.write("# file\twords\ttags\theads\tspans\n")
        for tags, brackets in zip(*CORPUS, strict=True):
            heads = " ".join(["0"] + ["1"] * (len(tags) - 1))
            spans = " ".join(f"{start}-{end}" for start, end in brackets)
            file.write(f"one\t{' '.join(tags)}\t{' '.join(tags)}\t{heads}\t{spans}\n")
    return root


def test_sentences_are_read(journal):
    assert read_sample(journal) == SAMPLE
    assert read_sample(journal, 3) == SAMPLE.pick([0, 1, 2])


def test_da_table2(journal, reproduce):
    out, rows = reproduce("da-table2", journal)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "CCM 2, SDA (split) paper 290 84.7940 79.64 59.37 68.03 0.93" in lines
    assert "CCM 1, EM (uniform) paper 146 103.1654 61.20 45.62 52.27 1.69" in lines
    full = [row for row in rows if row["bits"]]
    assert len(full) in (8, 16)
    assert {row["name"] for row in full} == set(da_table2.PUBLISHED)
    course = [row for row in rows if not row["bits"] and row["pseudo_counts"] == "published"]
    assert [int(row["e_steps"]) for row in course] == [1, 2, 3, 4] * 2
    assert out.count("chosen") >= 2
    assert out.count("Pseudo-counts in proportion: ") == 7


def test_da_table3(journal, reproduce):
    out, rows = reproduce("da-table3", journal)
    assert ["CCM", "2,", "SDA", "paper", "66.77", "1.03", "68.07", "0.119"] in [
        line.split() for line in out.splitlines()
    ]
    assert len(rows) == 2 * 2 * 2 * 2 * 3
    assert {(row["share"], row["trial"]) for row in rows} == {(s, t) for s in ("10%", "90%") for t in "012"}


def test_published_numbers_are_the_papers():
    assert da_table2.PUBLISHED["CCM 2, EM (split)"] == (44, 84.8049, 78.56, 58.56, 67.10, 0.98)
    assert da_table2.PUBLISHED["CCM 1, DA"] == (403, 103.1542, 55.13, 41.10, 47.09, 1.91)
    assert da_table3.PUBLISHED["CCM 1, SDA"] == (63.00, 4.689, 53.53, 0.2135)
    assert proportional(7_519) == (2.0, 8.0)
    assert da_table3._pseudo_counts("held out", 555) == (0.5, 2.0)


def test_parts_do_not_overlap():
    parts = list(da_table3._parts(SAMPLE, 4, 0))
    small = [part for share, _, part in parts if share == "10%"]
    large = [part for share, _, part in parts if share == "90%"]
    assert sorted(tags for part in small for tags in part.tags) == sorted(SAMPLE.tags)
    for part, rest in zip(small, large, strict=True):
        assert sorted(part.tags + rest.tags) == sorted(SAMPLE.tags)


def test_stretches_of_training_add_up():
    points = [point for point in da_table2._course("x", SAMPLE, (1.0, 4.0), 3, 1) if point.model == 2]
    whole = train(2, SAMPLE, smoothing=(1.0, 4.0), max_iter=3, tol=0.0, n_threads=1)
    assert points[-1].f == whole.scores.f
    assert points[-1].f_whole == whole.scores.f_whole


@pytest.mark.parametrize("number", [1, 2])
def test_held_out_likelihood_is_that_of_models_without_the_sentences(number):
    found = held_out(number, SAMPLE, (1.0, 2.0), 0 + 1, folds=3, seed=1)
    names = sorted({tag for sentence in SAMPLE.tags for tag in sentence})
    coded = [np.array([names.index(tag) for tag in sentence]) for sentence in SAMPLE.tags]
    lengths, flat = np.array(SAMPLE.lengths), np.concatenate(coded)
    vocabulary, _ = SpanVocabulary.learn(lengths, flat, len(names))
    model = ConstituentContextModel(vocabulary, number == 2, (1.0, 2.0))
    fold = np.random.default_rng(1).permutation(np.arange(60) % 3)
    total = 0.0

    def shard(sentences):
        own, tags = lengths[sentences], np.concatenate([coded[n] for n in sentences])
        [one] = build_shards(own, tags, vocabulary.number(own, tags))
        return one

    from spectrem.corpus import Local
    from spectrem.models.bracketing import start_from

    for left_out in range(3):
        known, new = shard(np.flatnonzero(fold != left_out)), shard(np.flatnonzero(fold == left_out))
        params = start_from(model, Local([known]), "split")
        _, marginals = model.structure(known).smoothed_max(model.scores(params, known), 1.0)
        params = model.m_step(params, model.gather(params, known, marginals))
        total += model.structure(new).smoothed_max(model.scores(params, new), 1.0)[0].sum()
    assert found == pytest.approx(total / lengths.sum(), rel=1e-12)


def test_scores_are_percents():
    found = score(branching(SAMPLE.lengths), SAMPLE)
    assert found.f == pytest.approx(2 / (1 / found.recall + 1 / found.precision), abs=0.01)
    assert found.f_whole > found.f
    assert found.crossing > 0


def fake(f, likelihood, steps, brackets):
    class Model:
        n_iter_, log_likelihood_ = steps, likelihood

    return Trained(Model(), brackets, 9.0, Scores(f, f, f, 1.0, f))


def test_claims_of_table_2_follow_the_numbers():
    lengths = [6] * 40
    sample = Sample([["A"] * 6] * 40, branching(lengths))
    right, left = branching(lengths), branching(lengths, "left")
    good = {
        "CCM 1, EM (uniform)": fake(50.0, -9.0, 9, left), "CCM 1, DA": fake(40.0, -8.0, 9, left),
        "CCM 1, EM (split)": fake(66.0, -9.0, 9, left), "CCM 1, SDA (split)": fake(53.0, -8.0, 9, left),
        "CCM 2, EM (uniform)": fake(49.0, -9.0, 9, left), "CCM 2, DA": fake(34.0, -8.0, 9, left),
        "CCM 2, EM (split)": fake(67.0, -9.0, 8, left), "CCM 2, SDA (split)": fake(68.0, -8.0, 9, right),
    }  # fmt: skip
    assert list(da_table2._claims("x", good, sample).values()) == [True] * 7
    bad = {
        "CCM 1, EM (uniform)": fake(50.0, -9.0, 9, left), "CCM 1, DA": fake(40.0, -8.0, 9, left),
        "CCM 1, EM (split)": fake(48.0, -9.0, 9, left), "CCM 1, SDA (split)": fake(53.0, -10.0, 9, left),
        "CCM 2, EM (uniform)": fake(49.0, -9.0, 9, left), "CCM 2, DA": fake(34.0, -8.0, 9, left),
        "CCM 2, EM (split)": fake(47.0, -9.0, 9, right), "CCM 2, SDA (split)": fake(46.0, -8.0, 9, left),
    }  # fmt: skip
    assert list(da_table2._claims("x", bad, sample).values()) == [False] * 7


def test_the_smoothing_is_the_best_for_both_models_together():
    likelihoods = {("a", 1): -5.0, ("a", 2): -4.0, ("b", 1): -4.0, ("b", 2): -4.5, ("c", 1): -6.0, ("c", 2): -3.0}
    assert da_table2._choose(likelihoods) == "b"
