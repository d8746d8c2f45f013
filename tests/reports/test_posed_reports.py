"""Reports of constraints over a whole corpus, held against posteriors that estimators give pair by pair."""

import pickle

import numpy as np
import pytest

from spectrem import E, HMMTagger, WordAligner, agreement, part
from spectrem.constraints import sparsity
from spectrem.datasets import make_bitext
from spectrem.estimators.alignment import decoding, word_aligner
from spectrem.exceptions import warn_unconverged
from spectrem.learning import posterior
from spectrem.reports import posed
from spectrem.reports.constraints import ConstraintSummary, OnDemand
from spectrem.reports.html import summary_table

DICTIONARY = {
    "the": ["DT"],
    "a": ["DT"],
    "dog": ["NN"],
    "walk": ["NN", "VB"],
    "run": ["VB", "NN"],
    "barks": ["VB", "NN"],
}
SENTENCES = ["the dog barks", "a walk", "the dog", "run the walk", "the run", "a walk barks"]
LEAST = 0.75
VERB = (E[part("tag") == "VB"] >= LEAST).per("sentence").named("verbs")
VERBS = (E[part("tag") == "VB"] >= 5.5).named("all verbs")
BITEXT = make_bitext(40, seed=3)

pytestmark = pytest.mark.filterwarnings("ignore:constraints that cannot hold were left out")


def fit_tagger(constraints, **options):
    settings = {"dictionary": DICTIONARY, "smoothing": 0.1, "n_threads": 1, "random_state": 0, "tol": 0.0}
    return HMMTagger(constraints=constraints, **(settings | {"max_iter": 3, "infeasible": "skip"} | options))


def verbs(tagger, projected):
    """Expected verbs of every sentence."""
    tagger.set_params(project_at_predict=projected)
    return np.array([matrix[:, tagger.tags_.index("VB")].sum() for matrix in tagger.predict_proba(SENTENCES)])


def test_constraints_inside_sentences_are_summarised():
    tagger = fit_tagger([VERB]).fit(SENTENCES)
    assert tagger.report_.constraints == ()
    [own] = tagger.report_.summaries
    can = np.arange(6) != 2  # "the dog" has no verb
    before, after = (np.maximum(LEAST - verbs(tagger, projected)[can], 0.0) for projected in (False, True))
    assert (own.name, own.n_rows, own.n_left_out, own.n_violated) == ("verbs", 5, 1, 0)
    assert own.n_binding == (before > 1e-4).sum() > 0
    assert own.worst_before == pytest.approx(before.max(), abs=1e-6)
    assert own.mean_before == pytest.approx(before.mean(), abs=1e-6)
    assert own.worst_after == pytest.approx(after.max(), abs=1e-5)
    assert own.lowest_price == pytest.approx(0.0, abs=1e-6)


def test_the_price_is_what_the_objective_gains():
    """Of one sentence of two structures: at the price of a verb, its probability is the bound."""
    tagger = fit_tagger([VERB], max_iter=2).fit(["a walk"] * 3 + ["the dog barks"])
    [own] = tagger.report_.summaries
    p = tagger.set_params(project_at_predict=False).predict_proba(["a walk", "the dog barks"])
    free = np.array([matrix[-1, tagger.tags_.index("VB")] for matrix in p])
    prices = np.maximum(np.log(LEAST / (1 - LEAST)) - np.log(free / (1 - free)), 0.0)
    assert own.highest_price == pytest.approx(prices.max(), rel=1e-5)
    assert own.lowest_price == pytest.approx(prices.min(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.0])
def test_constraints_over_the_corpus_are_reported_row_by_row(gamma):
    tagger = fit_tagger([VERBS, VERB], dual_steps=0, gamma=gamma).fit(SENTENCES)
    [report], [summary] = tagger.report_.constraints, tagger.report_.summaries
    assert report.name == "all verbs"
    assert (report.bound.tolist(), report.sense.tolist()) == ([5.5], [">="])
    assert report.after[0] == pytest.approx(verbs(tagger, True).sum(), abs=1e-4) == pytest.approx(5.5, abs=1e-4)
    assert report.price[0] > 0
    if gamma == 1.0:
        assert report.before[0] == pytest.approx(verbs(tagger, False).sum(), abs=1e-6)
    assert (summary.name, summary.n_rows, summary.n_left_out) == ("verbs", 5, 1)
    assert (summary.prices == "unknown") == (gamma == 0.0)  # a mixture of structures at several prices


def test_rows_count_by_the_weights_of_their_sentences():
    weights = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
    weighted = fit_tagger([VERBS, VERB], dual_steps=0).fit(SENTENCES, sample_weight=weights)
    copies = [sentence for sentence, n in zip(SENTENCES, weights, strict=True) for _ in range(int(n))]
    repeated = fit_tagger([VERBS, VERB], dual_steps=0).fit(copies)
    [own], [other] = weighted.report_.constraints, repeated.report_.constraints
    for name in ("before", "after", "price"):
        assert getattr(own, name)[0] == pytest.approx(getattr(other, name)[0], abs=1e-4)


def test_many_rows_over_the_corpus_are_summarised(monkeypatch):
    rules = [sparsity(1.0, min_count=1)]
    tagger = fit_tagger(rules).fit(SENTENCES)
    [report] = tagger.report_.constraints
    monkeypatch.setattr(posed, "LONGEST", len(report.bound) - 1)
    short = fit_tagger(rules).fit(SENTENCES)
    [summary] = short.report_.summaries
    assert short.report_.constraints == ()
    assert (summary.n_rows, summary.has_slack) == (len(report.bound), True)
    assert (summary.worst_before, summary.worst_after) == (report.worst_before, report.worst_after)
    assert summary.total_after == pytest.approx(report.violation_after.sum())
    assert (summary.lowest_price, summary.highest_price) == (report.price.min(), report.price.max())
    assert " use slack; largest slack " in summary.text
    assert f"<td>{summary.n_violated} use slack</td>" in summary_table([summary])


def test_agreement_is_summarised_over_a_sample_of_pairs_when_read(monkeypatch):
    monkeypatch.setattr(decoding, "SAMPLE", 30)
    aligner = WordAligner(n_threads=1).fit(BITEXT.source, BITEXT.target)
    found = pickle.loads(pickle.dumps(aligner)).report_
    [own] = found.summaries
    sample = decoding.sample_pairs(np.ones(len(BITEXT.source)))
    assert len(sample) == 30
    for projected, worst, mean in (
        (False, own.worst_before, own.mean_before),
        (True, own.worst_after, own.mean_after),
    ):
        links = aligner.set_params(project_at_predict=projected).predict_proba(BITEXT.source, BITEXT.target)
        gaps = np.concatenate([np.abs(links.forward[n] - links.backward[n]).ravel() for n in sample])
        assert own.n_rows == len(gaps)
        assert worst == pytest.approx(gaps.max(), abs=1e-9)
        assert mean == pytest.approx(gaps.mean(), abs=1e-9)
    assert own.lowest_price < 0 < own.highest_price
    assert found.notes == ("constraints are summarised over a sample of 30 sentence pairs",)
    assert own.text in found.summary()
    assert f"<td>{own.n_rows:,}</td>" in found.to_html()


def test_long_pairs_are_left_out_of_the_sample(monkeypatch):
    monkeypatch.setattr(word_aligner, "_MOST_CELLS", 20)
    aligner = WordAligner(n_threads=1, max_iter=1).fit(BITEXT.source, BITEXT.target)
    cells = [len(s.split()) * len(t.split()) for s, t in zip(BITEXT.source, BITEXT.target, strict=True)]
    short = [n for n in cells if n <= 20]
    [own] = aligner.report_.summaries
    assert own.n_rows == sum(short)
    assert aligner.report_.notes == (f"constraints are summarised over a sample of {len(short)} sentence pairs",)


def test_no_given_links_are_in_the_sample():
    known = [[(0, 0)] if n < 10 else None for n in range(len(BITEXT.source))]
    aligner = WordAligner(n_threads=1, max_iter=1).fit(BITEXT.source, BITEXT.target, known=known)
    [own] = aligner.report_.summaries
    assert own.n_rows == sum(
        len(source.split()) * len(target.split())
        for source, target in zip(BITEXT.source[10:], BITEXT.target[10:], strict=True)
    )
    assert aligner.report_.notes == ()


@pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")
def test_an_aligner_under_constraints_over_the_corpus_reports_all_of_them():
    first = (E[(part("state") == 0) & (part("direction") == "forward")] <= 1).named("first words")
    settings = {"n_threads": 1, "max_iter": 1, "dual_steps": 0, "project_at_predict": False}
    source, target = ["a b c", "b d", "c"], ["x y z", "y w", "z v"]
    aligner = WordAligner(constraints=[first, agreement()], **settings).fit(source, target)
    [report], [summary] = aligner.report_.constraints, aligner.report_.summaries
    assert report.before[0] > report.after[0] == pytest.approx(1.0, abs=1e-3)
    assert report.price[0] > 0
    assert summary.name == "agreement"
    assert summary.worst_after < 1e-3 < summary.worst_before
    assert aligner.report_.notes == ()


def test_constraints_without_a_name_are_called_by_their_class():
    class Nothing:
        def rows(self, structure):
            return (E[part("state") == 0] <= 100.0).per("sentence")

    aligner = WordAligner(n_threads=1, max_iter=1, constraints=[Nothing()]).fit(BITEXT.source[:5], BITEXT.target[:5])
    assert aligner.report_.settings["constraints"] == "Nothing"
    tagger = fit_tagger("E[tag == 'VB'] <= 100", max_iter=1).fit(SENTENCES)
    assert tagger.report_.settings["constraints"] == 'E[part("tag") == "VB"] <= 100'


def test_training_has_warned_already(monkeypatch):
    def open_posterior(shard, step):
        warn_unconverged("ran out of iterations")
        return posterior(shard, step)

    monkeypatch.setattr(posed, "posterior", open_posterior)
    fit_tagger([VERB]).fit(SENTENCES)  # warnings are errors here


def test_summaries_on_demand_are_found_once():
    calls = []

    def find():
        calls.append(None)
        return [ConstraintSummary("own", 0, 0, 0, 0.0, 0.0, 0.0, 0.0, np.inf, -np.inf)]

    found = OnDemand(find)
    assert not calls
    assert (len(found), found[0].name, found[0].prices, [own.name for own in found[:1]]) == (
        1,
        "own",
        "unknown",
        ["own"],
    )
    assert len(calls) == 1
