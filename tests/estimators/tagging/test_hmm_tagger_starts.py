"""Where HMMTagger starts: its own starts, given ones, and those of other taggers."""

import itertools

import numpy as np
import pytest
from tagger_helpers import DICTIONARY, SENTENCES, WORDS, compare, make, same_params, start_of, tables_of

from spectrem import GaussianMixture
from spectrem.estimators.tagging.tables import transfer
from spectrem.exceptions import ConvergenceWarning, InvalidInputError
from spectrem.models.priors import MeanFieldPrior
from spectrem.models.tagging import HMMParameters

TAGS = ("DT", "NN", "VB")
LABELS = [["DT", "NN", "VB"], None, ["DT", "NN", "VB", "DT", "NN"], None, [None, "NN"], None]


def test_uniform_start():
    start = start_of(dictionary=DICTIONARY, perturbation=0.0)
    np.testing.assert_allclose(start.initial, 1 / 3)
    np.testing.assert_allclose(start.transition, 1 / 3)
    sizes = {tag: sum(tag in tags for tags in DICTIONARY.values()) for tag in TAGS}
    own = {round(p, 12) for p in start.emission}
    assert own == {round(1 / size, 12) for size in sizes.values()}
    noisy = start_of(dictionary=DICTIONARY)
    ratio = noisy.transition * 3
    assert 1.0 < ratio.max() < 1.01 + 1e-9
    assert ratio.max() / ratio.min() <= 1.01 + 1e-9
    strong = start_of(dictionary=DICTIONARY, perturbation=2.0)
    assert strong.transition.max() / strong.transition.min() > 1.3


def test_random_start():
    start = start_of(n_states=4, init="random")
    assert start.transition.max() / start.transition.min() > 1.3
    almost = start_of(n_states=4, init="random", perturbation=1e-4)
    assert almost.emission.max() / almost.emission.min() <= 1 + 1.01e-4
    other = start_of(n_states=4, init="random", random_state=1)
    assert not np.allclose(start.transition, other.transition)
    same = start_of(n_states=4, init="random")
    assert np.array_equal(start.transition, same.transition)
    generator = np.random.default_rng(0)
    assert np.array_equal(start.transition, start_of(n_states=4, init="random", random_state=generator).transition)


def test_posterior_uniform_start():
    start = start_of(dictionary=DICTIONARY, init="posterior-uniform")
    counts = {tag: {} for tag in TAGS}
    for word in itertools.chain(*WORDS):
        for tag in DICTIONARY[word]:
            counts[tag][word] = counts[tag].get(word, 0) + 1 / len(DICTIONARY[word])
    tagger = make(dictionary=DICTIONARY).fit(SENTENCES)
    cells = tagger.lexicon_.table(start.emission)
    for (k, tag), (w, word) in itertools.product(enumerate(TAGS), enumerate(tagger.vocabulary_.words)):
        assert cells[k, w] == pytest.approx(counts[tag].get(word, 0) / sum(counts[tag].values()))
    firsts = [DICTIONARY[words[0]] for words in WORDS]
    expected = [sum((tag in tags) / len(tags) for tags in firsts) / 6 for tag in TAGS]
    np.testing.assert_allclose(start.initial, expected)
    noisy = start_of(dictionary=DICTIONARY, init="posterior-uniform", perturbation=0.1)
    assert 1e-3 < np.abs(noisy.initial - start.initial).max() < 0.1


def test_supervised_start():
    start = start_of(dictionary=DICTIONARY, y=LABELS, init="supervised", init_smoothing=0.5)
    np.testing.assert_allclose(start.initial, [2.5 / 3.5, 0.5 / 3.5, 0.5 / 3.5])
    # from DT: NN three times; from NN: VB twice; from VB: DT once
    np.testing.assert_allclose(start.transition, [[0.5 / 4.5, 3.5 / 4.5, 0.5 / 4.5], [0.5 / 3.5, 0.5 / 3.5, 2.5 / 3.5],
                                                  [1.5 / 2.5, 0.5 / 2.5, 0.5 / 2.5]])  # fmt: skip
    few = start_of(dictionary=DICTIONARY, y=LABELS, init="supervised")
    np.testing.assert_allclose(few.initial, [2.1 / 2.3, 0.1 / 2.3, 0.1 / 2.3])
    tables = start_of(
        dictionary=DICTIONARY,
        y=LABELS,
        init="supervised",
        init_smoothing={"initial": 1.0, "transition": 0.1, "emission": 2.0},
    )
    np.testing.assert_allclose(tables.initial, [3 / 5, 1 / 5, 1 / 5])


def test_unambiguous_sentences_are_no_labels():
    """Sentences that the dictionary decides are not among the labelled ones."""
    one = start_of(dictionary=DICTIONARY, y=[LABELS[0], *[None] * 5], init="supervised", init_smoothing=1.0)
    np.testing.assert_allclose(one.initial, [2 / 4, 1 / 4, 1 / 4])


def test_unambiguous_start():
    start = start_of(dictionary=DICTIONARY, init="unambiguous")
    tagger = make(dictionary=DICTIONARY).fit(SENTENCES)
    counts = {word: sum(words.count(word) for words in WORDS) for word in DICTIONARY}
    the, a = (counts[word] + 1 for word in ("the", "a"))
    cells = tagger.lexicon_.table(start.emission)
    assert cells[0, tagger.vocabulary_.index["the"]] == pytest.approx(the / (the + a))
    # two of three states of NN's followers: dog|cat then sees, sees then DT
    assert start.transition[2, 0] > start.transition[2, 1]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"dictionary": DICTIONARY, "y": [LABELS[0], *[None] * 5]}, "supervised"),
        ({"dictionary": DICTIONARY}, "unambiguous"),
        ({"tags": TAGS, "y": [["DT", None, None], *[None] * 5]}, "unambiguous"),
        ({"n_states": 4}, "random"),
        ({"n_states": 1}, "random"),
    ],
)
def test_by_default_the_start_uses_what_is_known(options, name):
    found, expected = start_of(**options, init=None), start_of(**options, init=name)
    assert np.array_equal(found.transition, expected.transition)
    assert np.array_equal(found.emission, expected.emission)


def test_strings_are_split_at_blanks_and_tabs():
    tagger = make(n_states=2, init="random").fit(["a\u00a0b  c\td\n"])
    assert tagger.vocabulary_.words == ("a\u00a0b", "c", "d")


def test_given_parameters_as_start():
    first = make(dictionary=DICTIONARY, smoothing=0.1, max_iter=4).fit(SENTENCES)
    onward = make(dictionary=DICTIONARY, smoothing=0.1, max_iter=3, init=first).fit(SENTENCES)
    whole = make(dictionary=DICTIONARY, smoothing=0.1, max_iter=7).fit(SENTENCES)
    assert same_params(onward, whole)
    compare(make(dictionary=DICTIONARY, smoothing=0.1, max_iter=3, init=first.params_).fit(SENTENCES), tables_of(whole))
    table = HMMParameters(first.initial_, first.transition_, None, first.emission_)
    compare(make(dictionary=DICTIONARY, smoothing=0.1, max_iter=3, init=table).fit(SENTENCES), tables_of(whole))


def test_mean_field_training_goes_on_where_it_stopped():
    options = {"dictionary": DICTIONARY, "prior": MeanFieldPrior(0.2)}
    first = make(**options, max_iter=4).fit(SENTENCES)
    onward = make(**options, max_iter=3, init=first).fit(SENTENCES)
    assert same_params(onward, make(**options, max_iter=7).fit(SENTENCES))


@pytest.mark.parametrize("order", [1, 2])
def test_a_start_from_a_tagger_with_other_numbers(order):
    first = make(order, dictionary=DICTIONARY, smoothing=0.1).fit(SENTENCES)
    turned = make(order, dictionary=DICTIONARY, smoothing=0.1, tags=TAGS[::-1], init=first, max_iter=1)
    turned.fit([*SENTENCES[::-1], "new words"])
    straight = make(order, dictionary=DICTIONARY, smoothing=0.1, init=first, max_iter=1).fit([*SENTENCES, "new words"])
    assert turned.tags_ == TAGS[::-1]
    compare(turned, tables_of(straight))
    assert turned.history_[0].objective == pytest.approx(straight.history_[0].objective)


def test_words_that_a_start_does_not_know():
    texts = [*SENTENCES, "the rare", "once barks"]
    first = make(dictionary=DICTIONARY, smoothing=0.1, min_count=2).fit(texts)
    known = make(dictionary=DICTIONARY, smoothing=0.1).fit(SENTENCES)
    larger = make(dictionary=DICTIONARY, init=first, max_iter=1).fit([*SENTENCES, "snark"])
    ratio = first.emission_[1, first.vocabulary_.index["<unk>"]] / first.emission_[1, first.vocabulary_.index["dog"]]
    start = transfer(first, larger.coding_, 1, "init")
    table = larger.lexicon_.table(start.emission)
    index = larger.vocabulary_.index
    assert table[1, index["snark"]] / table[1, index["dog"]] == pytest.approx(ratio)
    plain = transfer(known, larger.coding_, 1, "init")
    assert larger.lexicon_.table(plain.emission)[:, index["snark"]].tolist() == [1 / 8] * 3


def test_starts_that_do_not_fit():
    fitted = make(n_states=2).fit(SENTENCES)
    with pytest.raises(InvalidInputError) as error:
        make(n_states=3, init=fitted).fit(SENTENCES)
    assert str(error.value) == (
        "init must be a tagger of order 1 with the tags of this one, got order 1 and 2 tags, of which 2 of 3 are "
        "shared; "
        "fit both with the same tags"
    )
    with pytest.raises(
        InvalidInputError, match="init must be a tagger of order 2 with the tags of this one, got order 1"
    ):
        make(2, n_states=2, init=fitted).fit(SENTENCES)
    with pytest.raises(InvalidInputError) as error:
        make(n_states=2, init=fitted.params_).fit(["a b"])
    assert str(error.value) == (
        "emission must have shape (2, 2), tags by words of the vocabulary (or (4,), by cell of the lexicon), got "
        "(16,); "
        "give vocabulary to fix the words' order"
    )
    with pytest.raises(InvalidInputError, match=r"params.transition must have shape \(2, 2\); got \(3, 3\)"):
        make(n_states=2, init=HMMParameters(np.ones(2), np.ones((3, 3)), None, np.ones(4))).fit(["a b"])


def test_restarts_keep_the_best():
    runs = []
    single = [
        make(n_states=3, init="random", random_state=rng, max_iter=15).fit(SENTENCES).history_[-1].objective
        for rng in [np.random.default_rng(7)] * 4
    ]
    best = make(n_states=3, init="random", random_state=7, n_init=4, max_iter=15, on_iteration=runs.append).fit(
        SENTENCES
    )
    assert len(runs) == 60
    assert best.history_[-1].objective == pytest.approx(max(single), rel=1e-12)
    assert len(best.history_) == best.n_iter_ == 15
    assert len({round(objective, 6) for objective in single}) > 1


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (make(n_states=3, init="random", n_init=2, max_iter=2, tol=1e-12), SENTENCES),
        (GaussianMixture(2, n_init=2, max_iter=1, tol=1e-12, n_threads=1), np.arange(20.0).reshape(10, 2) ** 2),
    ],
)
def test_warnings_of_restarts_belong_to_the_line_that_fits(estimator, data):
    with pytest.warns(ConvergenceWarning) as caught:
        estimator.fit(data)
    assert [warning.filename for warning in caught] == [__file__]
