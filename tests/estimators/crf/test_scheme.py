"""Sequences of chunk tags that a scheme rules out have probability 0."""

import itertools

import numpy as np
import pytest

from spectrem import CRFTagger, E, part
from spectrem.exceptions import InvalidInputError
from spectrem.models.tag_schemes import possible_moves

TAGS = {
    "bio": ["B-NP", "B-VP", "I-NP", "I-VP", "O"],
    "bioes": ["B-NP", "E-NP", "I-NP", "S-NP", "S-VP", "O"],
}
VALID = {
    "bio": [["B-NP", "I-NP", "B-VP", "O"], ["O", "B-VP", "I-VP"], ["B-NP"], ["B-NP", "B-NP", "O", "B-VP"]],
    "bioes": [["B-NP", "I-NP", "E-NP", "O"], ["S-NP", "S-VP", "O"], ["S-NP"], ["O", "B-NP", "E-NP", "S-VP"]],
}


def follows(scheme, tags):
    """Whether a sequence is valid, by going through its chunks."""
    tags, t = list(tags), 0
    while t < len(tags):
        letter, _, kind = tags[t].partition("-")
        stop = t + 1
        if letter == "B":
            while stop < len(tags) and tags[stop] == f"I-{kind}":
                stop += 1
            if scheme == "bioes":
                if stop == len(tags) or tags[stop] != f"E-{kind}":
                    return False
                stop += 1
        elif letter not in ("O", "S"):
            return False
        t = stop
    return True


def text(scheme, seed=0):
    """Sentences whose features say little of their tags."""
    rng = np.random.default_rng(seed)
    return [[{f"w{rng.integers(3)}": 1.0, "bias": 1.0} for _ in tags] for tags in VALID[scheme]]


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_the_moves_are_those_of_valid_sequences(scheme):
    tags = TAGS[scheme]
    moves = possible_moves(scheme, tags)
    k = len(tags)
    for own in itertools.product(range(k), repeat=3):
        path = [k, *own, k]
        allowed = all(moves[a, b] for a, b in itertools.pairwise(path))
        assert allowed == follows(scheme, [tags[label] for label in own]), own


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@pytest.mark.parametrize("options", [{}, {"edge_features": "w"}, {"pairs": "all"}])
def test_probabilities_are_those_of_valid_sequences(scheme, options):
    X, y = text(scheme), VALID[scheme]
    tagger = CRFTagger(scheme=scheme, tags=TAGS[scheme], n_threads=1, m_tol=1e-10, **options).fit(X, y)
    sentence = X[1]
    every = list(itertools.product(TAGS[scheme], repeat=len(sentence)))
    found = np.exp(tagger.score_samples([sentence] * len(every), [list(tags) for tags in every]))
    valid = np.array([follows(scheme, tags) for tags in every])
    assert (found[~valid] == 0).all()
    assert (found[valid] > 0).all()
    assert found.sum() == pytest.approx(1.0)
    table = np.zeros((len(sentence), len(TAGS[scheme])))
    for tags, probability in zip(every, found, strict=True):
        for t, tag in enumerate(tags):
            table[t, TAGS[scheme].index(tag)] += probability
    np.testing.assert_allclose(tagger.predict_proba([sentence])[0], table, atol=1e-12)
    best = tagger.n_best([sentence], n=len(every))[0]
    assert len(best) == valid.sum()
    np.testing.assert_allclose([own.log_probability for own in best], np.sort(np.log(found[valid]))[::-1])
    assert tagger.predict([sentence])[0] == best[0].tags


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.0, -np.inf])
def test_valid_under_constraints_and_from_partial_labels(gamma):
    scheme = "bio"
    X, y = text(scheme), VALID[scheme]
    free = [[None] * 4, [None, {"B-VP", "I-VP"}, None]]
    tagger = CRFTagger(
        scheme=scheme,
        gamma=gamma,
        constraints=[(E[part("tag").isin(["B-NP", "I-NP"])] >= 2).per("sentence")],
        project_at_predict=True,
        infeasible="skip",
        n_threads=1,
        max_iter=3,
        tol=0,
    ).fit([*X, *text(scheme, 1)[:2]], [*y, *free])
    course = [record.objective for record in tagger.history_]
    assert (np.diff(course) >= -1e-6).all()
    for tags in tagger.predict([*X, *text(scheme, 2)]):
        assert follows(scheme, tags)
        assert len(tags) < 2 or sum(tag.endswith("NP") for tag in tags) >= 2


def test_valid_tags_cost_no_constraints_and_say_more():
    """Where labels alone leave invalid sequences possible, the scheme makes valid ones more probable."""
    X, y = text("bio"), VALID["bio"]
    plain, sure = (CRFTagger(scheme=scheme, n_threads=1).fit(X, y) for scheme in ("any", "bio"))
    assert (sure.score_samples(X, y) > plain.score_samples(X, y)).all()


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
@pytest.mark.parametrize("options", [{}, {"edge_features": "w"}])
def test_soft_labels_are_products_over_valid_sequences(scheme, options):
    """Learnt from copies of the sentences, one for each valid sequence, weighted by its probability."""
    X, tags = text(scheme)[:2], TAGS[scheme]
    soft = [np.random.default_rng(n).dirichlet(np.ones(len(tags)), len(sentence)) for n, sentence in enumerate(X)]
    copies, labels, weights = [], [], []
    for sentence, table in zip(X, soft, strict=True):
        paths = [path for path in itertools.product(range(len(tags)), repeat=len(sentence))
                 if follows(scheme, [tags[k] for k in path])]  # fmt: skip
        chances = np.array([table[range(len(path)), path].prod() for path in paths])
        copies += [sentence] * len(paths)
        labels += [[tags[k] for k in path] for path in paths]
        weights += (chances / chances.sum()).tolist()
    settings = {"scheme": scheme, "tags": tags, "pairs": "all", "n_threads": 1, "m_tol": 1e-10, **options}
    one, other = CRFTagger(**settings).fit(X, soft), CRFTagger(**settings).fit(copies, labels, weights)
    for found, expected in zip(one.predict_proba(X), other.predict_proba(X), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-8)


def test_saved(tmp_path):
    tagger = CRFTagger(scheme="bio", n_threads=1).fit(text("bio"), VALID["bio"])
    tagger.save(tmp_path / "model")
    loaded = CRFTagger.load(tmp_path / "model")
    assert loaded.scheme == "bio"
    assert loaded.n_best(text("bio"), 1000) == tagger.n_best(text("bio"), 1000)


@pytest.mark.parametrize(
    ("scheme", "y", "message"),
    [
        ("bio", ["O", "I-NP"], r"y must follow scheme=\"bio\", got I-NP after O in sentence 1, token 1; correct the"),
        ("bio", ["I-NP", "O"], "got I-NP after the beginning in sentence 1, token 0"),
        ("bioes", ["O", "B-NP"], "got the end after B-NP in sentence 1, token 1"),
        ("bio", [{"O": 0.5, "I-NP": 0.5}, {"I-NP": 1.0}], 'y must allow tags of scheme="bio" in every sentence, got'),
        (
            "bio",
            [{"O", "B-VP"}, {"I-NP"}],
            'y must allow tags of scheme="bio" in every sentence, got none',
        ),
        ("bioes", [None, {"B-NP"}], 'got none for sentence 1; correct the labels, or set scheme="any"'),
        (
            "bio",
            ["O", "NN"],
            "scheme 'bio' needs tags that are O or one of B-TYPE, I-TYPE, got 'NN'; rename it, or set",
        ),
        ("bio", ["O", 3], "scheme 'bio' needs tags that are O or one of B-TYPE, I-TYPE, got 3; rename it, or set"),
        ("iob", ["O", "O"], "scheme must be one of any, bio, bioes, got 'iob'"),
    ],
)
def test_what_contradicts_a_scheme(scheme, y, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        CRFTagger(scheme=scheme, n_threads=1).fit([[["a"]], [["b"], ["a"]]], [["O"], y])
    assert not message.startswith("y must") or caught.value.keys == {"sentence": 1}
