"""What constraints can say of a text, while a CRF is trained and while it tags."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from spectrem import CRFTagger, E, part
from spectrem.constraints import at_most, dictionary_in_expectation, max_over
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError

TAGS = ("A", "B", "C")
TRAIN = [["ann", "met", "bob"], ["cat", "met", "ann"], ["bob", "saw", "dan"], ["eve", "saw", "cat"]]
LABELS = [["A", "B", "A"], ["C", "B", "A"], ["A", "B", "A"], ["A", "B", "C"]]
PLAIN = [["gus", "saw", "ann"], ["cat", "met", "gus"], ["gus", "met", "gus"], ["dan", "saw", "gus"]]
DOCUMENTS = [1, 1, 2, 2]

SAME_IN_ALL = max_over("occurrence", E[part("word") == "gus"].per("word", "tag")).penalty(100)
SAME_IN_EACH = max_over("occurrence", E[part("word") == "gus"].per("document", "word", "tag")).penalty(100)
ONCE = at_most(1, "C", per="document")
LISTED = (E[~part("tag").allowed_by(part("word"), {"gus": ["B", "C"], "ann": ["A"]})] <= 0).per("sentence")


def make(**options):
    return CRFTagger("words", tags=TAGS, C=0.5, n_threads=1, **options)


def trained(**options):
    return make(**options).fit(TRAIN, LABELS, columns={"document": [0] * len(TRAIN)})


def of_word(word, sentences, tables):
    """Posteriors of the tags of every token of a word."""
    return np.array(
        [
            row
            for own, table in zip(sentences, tables, strict=True)
            for w, row in zip(own, table, strict=True)
            if w == word
        ]
    )


def projected(tagger, constraints, **options):
    """Posteriors of the plain sentences under constraints, by a tagger that was trained without."""
    tagger.set_params(constraints=constraints, project_at_predict=True, decode="posterior", **options)
    return tagger.predict_proba(PLAIN, columns={"document": DOCUMENTS})


def of_tokens(distribution):
    """Token posteriors, flat, of a distribution over joint taggings of all plain sentences."""
    sizes = [len(own) for own in PLAIN]
    every = [list(itertools.product(range(3), repeat=size)) for size in sizes]
    tables, start = [], 0
    for own in every:
        mass = distribution[start : start + len(own)]
        tables += [
            [sum(p for p, tags in zip(mass, own, strict=True) if tags[t] == k) for k in range(3)]
            for t in range(len(own[0]))
        ]
        start += len(own)
    return np.array(tables)


def oracle(tagger, matrix, bound):
    """Token posteriors x of the distributions that are nearest to the tagger's among those with matrix @ x <= bound."""
    every = [[list(tags) for tags in itertools.product(TAGS, repeat=len(own))] for own in PLAIN]
    log_p = np.concatenate(
        [tagger.score_samples([own] * len(tags), tags) for own, tags in zip(PLAIN, every, strict=True)]
    )
    jacobian = np.array([of_tokens(row).ravel() for row in np.eye(len(log_p))]).T
    whole = np.zeros((len(PLAIN), len(log_p)))
    for n, own in enumerate(every):
        whole[n, n * len(own) : (n + 1) * len(own)] = 1.0
    point = np.exp(log_p)
    for _ in range(3):  # begun anew from where it ended: rounding may end it early
        found = minimize(
            lambda q: float(q @ (np.log(np.maximum(q, 1e-300)) - log_p)),
            point,
            jac=lambda q: np.log(np.maximum(q, 1e-300)) - log_p + 1.0,
            bounds=[(1e-12, 1.0)] * len(log_p),
            constraints=[
                LinearConstraint(whole, 1.0, 1.0),
                LinearConstraint(matrix @ jacobian, -np.inf, bound),
            ],
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        point = found.x
    assert found.status in (0, 8), found.message  # 8: no step gains anything, which rounding decides near the end
    return (jacobian @ point).reshape(-1, 3)


def places(word, documents=None):
    return [
        t
        for t, (w, d) in enumerate((w, d) for own, d in zip(PLAIN, DOCUMENTS, strict=True) for w in own)
        if w == word and documents in (None, d)
    ]


def test_once_per_document_when_tagging():
    tagger = trained()
    rows = np.zeros((2, 36))
    for d in (1, 2):
        for n, own in enumerate(PLAIN):
            if DOCUMENTS[n] == d:
                for t in range(len(own)):
                    rows[d - 1, 3 * (3 * n + t) + 2] = 1.0
    rule = at_most(0.2, "C", per="document")
    expected = oracle(tagger, rows, 0.2)
    found = np.concatenate(projected(tagger, [rule]))
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(("rule", "groups"), [(SAME_IN_ALL, [None]), (SAME_IN_EACH, [1, 2])])
def test_same_word_same_tag_when_tagging(rule, groups):
    tagger = trained()
    free = np.concatenate(tagger.predict_proba(PLAIN))
    rows = []
    for group in groups:
        own = places("gus", group)
        for a, b in itertools.permutations(own, 2):
            for k in range(3):
                row = np.zeros(36)
                row[3 * a + k], row[3 * b + k] = 1.0, -1.0
                rows.append(row)
    expected = oracle(tagger, np.array(rows), 0.0)
    found = np.concatenate(projected(tagger, [rule]))
    np.testing.assert_allclose(found, expected, atol=2e-3)
    for group in groups:
        own = places("gus", group)
        assert np.ptp(free[own], axis=0).max() > 0.02
        assert np.ptp(found[own], axis=0).max() < 2e-3


def test_a_dictionary_when_tagging():
    tagger = trained()
    found = projected(tagger, [LISTED])
    assert of_word("gus", PLAIN, found)[:, 0].max() < 1e-6
    assert of_word("ann", PLAIN, found)[:, 0].min() > 1 - 1e-6
    expected = np.exp(tagger.set_params(project_at_predict=False).score_samples(PLAIN[:1], [[None, None, {"A"}]]))
    assert expected > 0  # and the others are conditioned on what is allowed
    partial = [[{"B", "C"} if w == "gus" else {"A"} if w == "ann" else None for w in own] for own in PLAIN]
    for n, (own, given) in enumerate(zip(PLAIN, partial, strict=True)):
        normaliser = tagger.score_samples([own], [given])[0]
        for t, k in itertools.product(range(len(own)), range(3)):
            if given[t] is None or TAGS[k] in given[t]:
                one = [TAGS[k] if s == t else given[s] for s in range(len(own))]
                assert found[n][t, k] == pytest.approx(
                    np.exp(tagger.score_samples([own], [one])[0] - normaliser), abs=1e-6
                )


@pytest.mark.parametrize("decode", ["viterbi", "posterior"])
def test_hard_rules_hold_in_tags(decode):
    tagger = trained().set_params(constraints=[LISTED], project_at_predict=True, decode=decode)
    for own, tags in zip(PLAIN, tagger.predict(PLAIN), strict=True):
        for word, tag in zip(own, tags, strict=True):
            assert word != "gus" or tag in ("B", "C")
            assert word != "ann" or tag == "A"


@pytest.mark.parametrize(
    "rule", [SAME_IN_ALL, SAME_IN_EACH, ONCE, LISTED, dictionary_in_expectation({"gus": ["C"]}, 5.0)]
)
@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_constraints_while_training(rule, gamma):
    tagger = make(constraints=[rule], gamma=gamma, max_iter=4, tol=0, dual_steps=0, m_tol=1e-9)
    columns = {"document": [None] * len(TRAIN) + DOCUMENTS}  # the labels break some of the rules
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.fit([*TRAIN, *PLAIN], [*LABELS, *[None] * len(PLAIN)], columns=columns)
    course = np.array([record.objective for record in tagger.history_])
    assert (np.diff(course) >= -1e-5 * np.abs(course[0])).all()
    assert tagger.history_[-1].violation < 1e-3


def test_what_is_trained_follows_the_constraint():
    free = make(max_iter=5, tol=0).fit([*TRAIN, *PLAIN], [*LABELS, *[None] * len(PLAIN)])
    tagger = make(constraints=[LISTED], max_iter=5, tol=0).fit([*TRAIN, *PLAIN], [*LABELS, *[None] * len(PLAIN)])
    word = of_word("gus", PLAIN, free.predict_proba(PLAIN)), of_word("gus", PLAIN, tagger.predict_proba(PLAIN))
    assert word[1][:, 0].max() < word[0][:, 0].min()


def test_rules_that_contradict_labels_are_named():
    rule = at_most(0, "B").named("no B")
    with pytest.raises(InfeasibleConstraintError, match="'no B'") as caught:
        make(constraints=[rule]).fit([*TRAIN, PLAIN[0]], [*LABELS, [None, "B", None]])
    assert caught.value.keys["sentence"] == 4
    with pytest.warns(UserWarning, match="constraints that cannot hold were left out: 'no B' in 1 of the instances"):
        make(constraints=[rule], infeasible="skip", max_iter=1, tol=0).fit(
            [*TRAIN, PLAIN[0]], [*LABELS, [None, "B", None]]
        )


def test_tags_that_do_not_exist():
    tagger = trained().set_params(constraints=[at_most(1, "X", per="document")], project_at_predict=True)
    with pytest.raises(InvalidInputError, match="there is no label 'X'"):
        tagger.predict(PLAIN, columns={"document": DOCUMENTS})
    tagger.set_params(constraints=[ONCE])
    with pytest.raises(InvalidInputError, match="document"):
        tagger.predict(PLAIN)
