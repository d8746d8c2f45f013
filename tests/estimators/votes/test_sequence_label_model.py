"""Label models of sentences: against sums over all sequences of tags, and as users call them."""

import itertools
import math

import numpy as np
import pytest

from spectrem import CRFTagger, E, SequenceLabelModel, load, part
from spectrem.constraints import at_most, label_proportions, sparsity
from spectrem.exceptions import InfeasibleConstraintError, InvalidInputError, NotFittedError

TAGS = ("O", "B-A", "I-A", "B-B", "I-B")
QUIET = {"n_threads": 1, "span_types": ["A", "B"]}
pytestmark = pytest.mark.filterwarnings("ignore::spectrem.exceptions.ConvergenceWarning")


def drawn(seed=0, n=12, n_sources=3, longest=4):
    """Sentences of words and votes of sources at random."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, longest + 1, n)
    words = [[f"w{number}" for number in rng.integers(0, 5, size)] for size in sizes]
    chances = [0.6, 0.1, 0.1, 0.1, 0.1]
    return words, [rng.choice(np.array(TAGS, object), (size, n_sources), p=chances) for size in sizes]


def follows(tags):
    before = ["O", *tags[:-1]]
    return all(
        tag[0] != "I" or (left[0] in "BI" and left[2:] == tag[2:]) for left, tag in zip(before, tags, strict=True)
    )


def paths(n):
    return [path for path in itertools.product(range(5), repeat=n) if follows([TAGS[k] for k in path])]


def by_hand(model, words, votes):
    """Log joint probabilities of all sequences of a sentence, as the class says them, up to rounding."""
    p, k = model.params_, len(TAGS)
    fires = votes != "O"
    strength = np.where(fires, 1.0 / np.maximum(fires @ model.similarity_, 1e-9), 0.0)
    scores = np.zeros((len(words), k))
    for t, word in enumerate(words):
        for j in np.flatnonzero(fires[t]):
            scores[t] += strength[t, j] * np.log(p.source[j * k + TAGS.index(votes[t, j])] / model.shares_)
        if word in model.words_:
            scores[t] += np.log(p.word[model.words_.index(word)] / model.shares_)
        if not fires[t].any():
            scores[t, 1:] -= model.silence_cost
        elif t:
            scores[t, 2::2] -= model.end_cost * strength[t - 1][fires[t - 1] & ~fires[t]].sum()
    with np.errstate(divide="ignore"):
        first, moves = np.log(p.initial), np.log(p.transition)
    total = [first[path[0]] + sum(scores[t, z] for t, z in enumerate(path)) + sum(itertools.starmap(
        lambda a, b: moves[a, b], itertools.pairwise(path))) for path in paths(len(words))]  # fmt: skip
    return np.array(total)


def tables(model, words, votes, gamma=1.0):
    """Posteriors of tags and the value of every sentence by sums over sequences."""
    posteriors, values = [], []
    for sentence, cast in zip(words, votes, strict=True):
        total = by_hand(model, sentence, cast)
        chances = np.exp((total - total.max()) / gamma)
        table = np.zeros((len(sentence), len(TAGS)))
        for path, chance in zip(paths(len(sentence)), chances / chances.sum(), strict=True):
            table[range(len(sentence)), path] += chance
        posteriors.append(table)
        values.append(total.max() + gamma * math.log(chances.sum()))
    return posteriors, np.array(values)


def close(found, expected, atol=1e-9):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=atol)


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_posteriors_values_and_sequences_are_those_of_enumeration(gamma):
    words, votes = drawn()
    seen = []
    model = SequenceLabelModel(gamma=gamma, on_iteration=seen.append, max_iter=2, **QUIET).fit(words, votes)
    close(model.label_distributions_, tables(model, words, votes, gamma)[0])
    new_words, new_votes = drawn(1)
    new_words[0][0] = "unseen"
    close(model.predict_proba(new_words, new_votes), tables(model, new_words, new_votes)[0])
    for tags, sentence, cast in zip(model.predict(new_words, new_votes), new_words, new_votes, strict=True):
        best = paths(len(sentence))[int(by_hand(model, sentence, cast).argmax())]
        assert tags == [TAGS[k] for k in best]
    again = SequenceLabelModel(gamma=gamma, max_iter=3, **QUIET).fit(words, votes)  # its last pass is about these
    log_prior = again.history_[-1].objective - tables(model, words, votes, gamma)[1].sum()
    p, k, n_words = model.params_, len(TAGS), len(model.words_)
    n_votes = np.array([[sum((cast[:, j] == tag).sum() for cast in votes) for tag in TAGS] for j in range(3)])
    n_votes[:, 0] = 0  # silence is no vote
    wrong = 0.15 * model.shares_ / (1 - model.shares_)[:, None]
    base = np.where(np.eye(k, dtype=bool), 0.85, wrong)
    expected = ((10 + 3 * n_votes.ravel())[:, None] * np.tile(base, (3, 1)) * np.log(p.source)).sum()
    expected += (3 * np.tile(model.shares_, (n_words, 1)) * np.log(p.word)).sum()
    possible = np.array([[follows([*(["B" + b[1:]] if b[0] == "I" else []), b, a]) for a in TAGS] for b in TAGS])
    expected += np.log(p.transition[possible]) @ (possible / possible.sum(axis=1, keepdims=True))[possible]
    expected += np.log(p.initial[[0, 1, 3]]).sum() / k
    assert log_prior == pytest.approx(expected, rel=1e-9)


def test_parameters_are_expected_shares_with_pseudo_counts():
    words, votes = drawn()
    before, after = (SequenceLabelModel(max_iter=steps, **QUIET).fit(words, votes) for steps in (1, 2))
    posteriors = np.concatenate(tables(before, words, votes)[0])
    flat, text = np.concatenate(votes), np.array(list(itertools.chain(*words)))
    fires = flat != "O"
    strength = np.where(fires, 1 / np.maximum(fires @ before.similarity_, 1e-9), 0.0)
    shares = before.shares_
    for j, tag in itertools.product(range(3), (1, 2, 3, 4)):
        cast = flat[:, j] == TAGS[tag]
        base = 0.15 * shares / (1 - shares[tag])
        base[tag] = 0.85
        prior = 10 + 3 * cast.sum()
        counts = (posteriors * strength[:, [j]])[cast].sum(axis=0)
        expected = (counts + prior * base) / (counts.sum() + prior)
        np.testing.assert_allclose(after.params_.source[j * 5 + tag], expected, atol=1e-9)
        assert after.precision_[j, tag] == pytest.approx(expected[tag])
    for number, word in enumerate(after.words_):
        counts = posteriors[text == word].sum(axis=0)
        np.testing.assert_allclose(after.params_.word[number], (counts + 3 * shares) / (counts.sum() + 3), atol=1e-9)
    same, either = (np.array([[(test(flat[:, i], flat[:, j])).sum() for j in range(3)] for i in range(3)]) for test in (
        lambda a, b: (a == b) & (a != "O"), lambda a, b: (a != "O") | (b != "O")))  # fmt: skip
    np.testing.assert_allclose(before.similarity_, same / either)


@pytest.mark.parametrize("settings", [{}, {"gamma": 0.5}, {"gamma": 0.0}, {"pseudo_votes_per_vote": 0.0}])
def test_the_objective_never_falls(settings):
    words, votes = drawn(2, n=60, longest=8)
    y = [None] * 60
    y[3] = ["O"] * len(words[3])
    y[4] = [None] * (len(words[4]) - 1) + [{"O": 0.3, "B-A": 0.7}]
    model = SequenceLabelModel(max_iter=20, **QUIET, **settings).fit(words, votes, y)
    course = np.array([record.objective for record in model.history_])
    assert (np.diff(course) >= -1e-9 * abs(course[-1])).all()
    assert course[-1] > course[0]


def test_the_order_of_sentences_and_sources_and_shards_change_no_bit(monkeypatch):
    words, votes = drawn(3, n=80, n_sources=5, longest=9)
    model = SequenceLabelModel(**QUIET).fit(words, votes)
    rng = np.random.default_rng(0)
    rows, order = rng.permutation(80), rng.permutation(5)
    moved = SequenceLabelModel(**QUIET).fit([words[n] for n in rows], [votes[n][:, order] for n in rows])
    assert np.array_equal(model.precision_[order], moved.precision_)
    for name in ("initial", "transition", "word"):
        assert np.array_equal(getattr(model.params_, name), getattr(moved.params_, name)), name
    for at, n in enumerate(rows):
        assert np.array_equal(model.label_distributions_[n], moved.label_distributions_[at])
    monkeypatch.setattr("spectrem.models.vote_sequences._LEAST_PARTS", 200)
    monkeypatch.setattr("spectrem.models.vote_sequences._MOST_PARTS", 400)
    cut = SequenceLabelModel(**QUIET | {"n_threads": 2}).fit(words, votes)
    assert all(map(np.array_equal, model.label_distributions_, cut.label_distributions_))
    assert np.array_equal(model.params_.source, cut.params_.source)


def test_types_are_sorted_by_default_and_their_order_decides_ties():
    words, votes = [["a"], ["b"]], [[["B-B", "B-A"]], [["B-A", "B-B"]]]
    for rows in ([0, 1], [1, 0]):
        text, cast = [words[n] for n in rows], [votes[n] for n in rows]
        model = SequenceLabelModel(n_threads=1).fit(text, cast)
        assert model.tags_ == TAGS
        assert model.shares_[1] > 2 * model.shares_[3]  # as both words start as B-A
    many = SequenceLabelModel(n_threads=1).fit([["w"] * 8], [[[f"B-{one}"] for one in "CAHFBEDG"]])
    assert many.span_types_ == tuple("ABCDEFGH")
    other = SequenceLabelModel(n_threads=1, span_types=["B", "A"]).fit(words, votes)
    np.testing.assert_array_equal(other.shares_, model.shares_)
    assert (other.tags_[1], other.predict(words, votes)) == ("B-B", [["B-A"], ["B-A"]])
    assert model.predict(text, cast) == [["B-B"], ["B-B"]]


def test_weights_count_sentences():
    words, votes = drawn(4)
    twice = SequenceLabelModel(**QUIET).fit(words + words[:3], votes + votes[:3])
    weighted = SequenceLabelModel(**QUIET).fit(words, votes, sample_weight=[2] * 3 + [1] * 9)
    close(twice.label_distributions_[:12], weighted.label_distributions_, atol=1e-8)
    without = SequenceLabelModel(**QUIET).fit(words[1:], votes[1:])
    left_out = SequenceLabelModel(**QUIET).fit(words, votes, sample_weight=[0] + [1] * 11)
    assert not left_out.label_distributions_[0].any()
    close(without.label_distributions_, left_out.label_distributions_[1:])


def test_spans_and_tables_say_the_same():
    words = [["a", "b", "c"], ["d", "e"]]
    table = [[["B-A", None], ["I-A", "O"], [-1, "B-B"]], np.array([[np.nan, "I-B"], [None, "I-B"]], object)]
    spans = [{"x": [(0, 2, "A")], "y": [(2, 3, "B"), (2, 3, "B")]}, {}]
    model = SequenceLabelModel(source_names=["x", "y"], n_threads=1).fit(words, table)
    assert model.sources_ == ("x", "y")
    assert model.tags_ == TAGS
    assert all(
        map(np.array_equal, model.predict_proba(words[:1], spans[:1]), model.predict_proba(words[:1], table[:1]))
    )
    mapped = SequenceLabelModel(n_threads=1).fit(words, [{"y": [], **spans[0]}, {"x": [(0, 1, "B")]}])
    assert mapped.sources_ == ("x", "y")
    plain = SequenceLabelModel(n_threads=1).fit([["a", "b"]], [[["B"], ["I"]]])
    assert plain.tags_ == ("O", "B", "I")
    assert plain.predict([["a", "b"]], [{0: [(0, 2, "")]}]) == [["B", "I"]]


@pytest.mark.parametrize("entry", [
    ["B-A", "I-A", "O"], [{"B-A", "I-A"}, None, None], [None, {"I-A": 0.9, "O": 0.1}, None],
    [{"B-A": 0.5, "I-A": 0.5}, "O", {"O"}], np.array([[0, 0.5, 0, 0.5, 0], [0.5, 0, 0.5, 0, 0], [1, 0, 0, 0, 0]]),
])  # fmt: skip
def test_labels_are_evidence(entry):
    words, votes = drawn(5, n=10, longest=3)
    words[0], votes[0] = ["w0", "w1", "w2"], np.array([["B-B"] * 3, ["O"] * 3, ["B-A", "O", "O"]], object)
    labels = [entry.tolist() if isinstance(entry, np.ndarray) else entry, *[None] * 9]
    if isinstance(entry, np.ndarray):
        model = SequenceLabelModel(max_iter=3, **QUIET).fit(words, votes, [entry, *[None] * 9])
        labels[0] = [dict(zip(TAGS, row, strict=True)) for row in entry.tolist()]
    else:
        model = SequenceLabelModel(max_iter=3, **QUIET).fit(words, votes, labels)
    allowed = np.zeros((3, 5))
    for t, label in enumerate(labels[0]):
        shares = label if isinstance(label, dict) else dict.fromkeys(label if isinstance(label, set) else [label], 1.0)
        allowed[t] = [1.0 if label is None else shares.get(tag, 0.0) for tag in TAGS]
    total = by_hand(model, words[0], votes[0])
    chances = np.array([np.prod(allowed[range(3), path]) for path in paths(3)]) * np.exp(total - total.max())
    table = np.zeros((3, 5))
    for path, chance in zip(paths(3), chances / chances.sum(), strict=True):
        table[range(3), path] += chance
    np.testing.assert_allclose(model.label_distributions_[0], table, atol=1e-8)
    close(model.label_distributions_[1:], tables(model, words[1:], votes[1:])[0])


def held(posteriors, wanted):
    """Expected number of tokens that a condition holds of."""
    return sum(
        table[t, k]
        for n, table in enumerate(posteriors)
        for t, k in itertools.product(range(len(table)), range(5))
        if wanted(n, t, TAGS[k])
    )


def once(words, votes):
    documents = ["x" if n < 6 else "y" for n in range(len(words))]
    return at_most(1, ["B-A"], per="document"), {"document": documents}, [
        (lambda n, t, tag, own=own: tag == "B-A" and documents[n] == own, 0, 1) for own in "xy"]  # fmt: skip


def proportion(words, votes):
    n = sum(map(len, words))
    return label_proportions({"O": (0.3, 0.4)}), None, [(lambda n, t, tag: tag == "O", 0.3 * n, 0.4 * n)]


def precise(words, votes):
    n = sum((cast[:, 0] != "O").sum() for cast in votes)
    rule = E[(part("source") == 0) & (part("vote") == part("tag"))] >= 0.5 * E.count(part("source") == 0)
    return rule, None, [(lambda n, t, tag: tag != "O" and votes[n][t, 0] == tag, 0.5 * n, np.inf)]


def of_word(words, votes):
    rule = E[(part("word") == "w1") & (part("tag") != "O")] <= 0.2 * E.count(part("word") == "w1")
    n = sum(sentence.count("w1") for sentence in words)
    return rule, None, [(lambda n, t, tag: words[n][t] == "w1" and tag != "O", 0, 0.2 * n)]


def silent(words, votes):
    return E[part("silent") & (part("tag") == "B-B")] >= 2, None, [
        (lambda n, t, tag: tag == "B-B" and (votes[n][t] == "O").all(), 2, np.inf)]  # fmt: skip


@pytest.mark.parametrize("name", [once, proportion, precise, of_word, silent])
@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_constraints_hold_and_the_rest_is_as_it_was(name, gamma):
    """Under rows over the corpus posteriors are those of enumeration with a price on what the rows count."""
    words, votes = drawn(6)
    rule, columns, bounds = name(words, votes)
    settings = {"gamma": gamma, "constraints": [rule], "dual_steps": 0, **QUIET}
    model = SequenceLabelModel(**settings).fit(words, votes, columns=columns)
    free = tables(model, words, votes, gamma)[0]
    prices = []
    for wanted, low, high in bounds:
        found = held(model.label_distributions_, wanted)
        assert low - 1e-4 <= found <= high + 1e-4
        before = held(free, wanted)
        if low <= before <= high:
            prices.append(0.0)
            continue
        side, bottom, top = np.sign(low - before) if before < low else -1.0, 0.0, 60.0
        for _ in range(60):
            middle = (bottom + top) / 2
            counted = sum(chance_of(model, words, votes, gamma, wanted, side * middle)[1])
            bottom, top = (middle, top) if side * (counted - (low if side > 0 else high)) < 0 else (bottom, middle)
        prices.append(side * middle)
    plain = SequenceLabelModel(gamma=gamma, **QUIET).fit(words, votes).label_distributions_
    assert any(not low <= held(plain, wanted) <= high for wanted, low, high in bounds)
    if len(bounds) == 1:
        close(model.label_distributions_, chance_of(model, words, votes, gamma, wanted, prices[0])[0], atol=1e-4)


def chance_of(model, words, votes, gamma, wanted, price):
    """Posteriors with a price on the tokens that are wanted, and how many of these are expected."""
    posteriors, counted = [], []
    for n, (sentence, cast) in enumerate(zip(words, votes, strict=True)):
        every = paths(len(sentence))
        priced = np.array([sum(wanted(n, t, TAGS[k]) for t, k in enumerate(path)) for path in every])
        total = (by_hand(model, sentence, cast) + price * priced) / gamma
        chances = np.exp(total - total.max())
        chances /= chances.sum()
        table = np.zeros((len(sentence), 5))
        for path, chance in zip(every, chances, strict=True):
            table[range(len(sentence)), path] += chance
        posteriors.append(table)
        counted.append(priced @ chances)
    return posteriors, counted


def test_constraints_inside_sentences_and_at_predictions():
    words, votes = drawn(7)
    few = (E[part("tag").isin(["B-A", "B-B"])] <= 1).per("sentence")
    never = E[(part("previous") == "O") & (part("tag") == "B-B")] <= 0
    model = SequenceLabelModel(constraints=[few, never.per("sentence")], project_at_predict=True, **QUIET)
    for tags in model.fit(words, votes).predict(words, votes):
        assert sum(tag[0] == "B" for tag in tags) <= 1
        assert ("O", "B-B") not in itertools.pairwise(tags)
    for gamma in (0.0, -np.inf):
        hard = SequenceLabelModel(gamma=gamma, constraints=[few], **QUIET).fit(words, votes)
        assert all(table[:, [1, 3]].sum() <= 1 + 1e-6 for table in hard.label_distributions_)
    with pytest.raises(InfeasibleConstraintError):
        SequenceLabelModel(constraints=(E[part("tag") == "O"] >= 9).per("sentence"), **QUIET).fit(words, votes)


def test_one_tag_for_a_word():
    words, votes = drawn(8, n=60)
    model, free = (
        SequenceLabelModel(constraints=rules, decode="posterior", **QUIET).fit(words, votes)
        for rules in ([sparsity(20.0, min_count=2)], [])
    )
    text, kinds = np.array(list(itertools.chain(*words))), []
    for one in (model, free):
        table = np.concatenate(one.label_distributions_)
        kinds.append(sum(table[text == word].max(axis=0).sum() for word in set(text)))
    assert kinds[0] < 0.7 * kinds[1]


def test_traps():
    words = [["a", "b", "c"]] * 4
    silent = SequenceLabelModel(n_threads=1, span_types=["A"]).fit(words, [{}] * 4)
    assert silent.sources_ == ()
    assert silent.predict(words, [{}] * 4) == [["O"] * 3] * 4
    alone = SequenceLabelModel(n_threads=1).fit(words, [{"x": [(0, 2, "A")]}] * 4)
    assert alone.predict(words[:1], [{"x": [(0, 2, "A")]}]) == [["B-A", "I-A", "O"]]
    always = [{"x": [(0, 2, "A")], "y": [(0, 1, "B"), (1, 2, "B"), (2, 3, "B")]}, {"x": [(2, 3, "A")], "y": []}] * 2
    model = SequenceLabelModel(n_threads=1).fit(words, always)
    assert all(np.isfinite(table).all() for table in model.label_distributions_)
    votes = [{"x": [(0, 1, "A")], "y": [(0, 1, "B")]}, {"x": [(1, 2, "A")], "z": [(1, 2, "B")]}] * 5
    copied = [{**one, **{f"copy {k}": one["x"] for k in range(3)}} for one in votes]
    once, again = (SequenceLabelModel(n_threads=1).fit([["a", "b"]] * 10, cast) for cast in (votes, copied))
    np.testing.assert_allclose(again.similarity_[:4, :4], 1.0)  # of the copies and x
    close(once.label_distributions_, again.label_distributions_, atol=0.05)


def test_more_iterations_do_not_lose_spans():
    rng = np.random.default_rng(9)
    words, votes, gold = [], [], []
    for _ in range(300):
        tags = ["B-A", "I-A", "O", "O", "B-B", "O"][: rng.integers(3, 7)]
        gold.append(tags)
        words.append([f"{tag}{rng.integers(3)}" for tag in tags])
        heard = rng.random((len(tags), 4)) < 0.6
        wrong = rng.random((len(tags), 4)) < 0.15
        cast = np.where(heard, np.array(tags, object)[:, None], "O")
        votes.append(np.where(wrong, rng.choice(np.array(TAGS, object), cast.shape), cast))
    scores = []
    for steps in (2, 5, 15):
        model = SequenceLabelModel(n_threads=1, max_iter=steps).fit(words, votes)
        scores.append(model.score(words, votes, gold))
    assert min(scores) > 0.9
    assert scores[2] > scores[1] - 0.02 > scores[0] - 0.04


def test_score_counts_spans():
    words, votes = [["a", "b", "c"], ["d"]], [{"x": [(0, 2, "A")]}, {"x": [(0, 1, "A")]}]
    model = SequenceLabelModel(n_threads=1).fit(words, votes)
    assert model.predict(words, votes) == [["B-A", "I-A", "O"], ["B-A"]]
    assert model.score(words, votes, [["B-A", "I-A", "O"], ["O"]]) == pytest.approx(2 / 3)
    assert model.score(words, votes, [["B-A", "O", "O"], None]) == 0.0
    assert model.score(words[:1], [{}], [["O", "O", "O"]]) == 1.0


def test_saved(tmp_path):
    words, votes = drawn(10)
    model = SequenceLabelModel(silence_cost=3.0, **QUIET).fit(words, votes)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert all(map(np.array_equal, loaded.predict_proba(words, votes), model.predict_proba(words, votes)))
    assert loaded.silence_cost == 3.0


def test_a_tagger_learns_what_it_finds():
    words, votes = drawn(11, n=40)
    model = SequenceLabelModel(**QUIET).fit(words, votes)
    for labels in (model.label_distributions_, model.predict(words, votes)):
        tagger = CRFTagger("words", scheme="bio", tags=model.tags_, n_threads=1).fit(words, labels)
        assert all(follows(tags) for tags in tagger.predict(words))


WORDS = [["a", "b"]]


@pytest.mark.parametrize(("words", "votes", "settings", "named", "message"), [
    (WORDS, [], {}, {}, r"votes must have one entry per sentence \(1\), got 0; use {} where no source votes"),
    (WORDS, [["O", "B-A"]], {}, {}, r"of sentence 0, \(2, 0\), got \(2,\); give a table of tags, or a mapping"),
    (WORDS, [[["O"], ["B-A"], ["O"]]], {}, {}, r"of sentence 0, \(2, 1\), got \(3, 1\)"),
    (WORDS, [[["O"], ["X-A"]]], {}, {}, "votes must be tags of spans, B-TYPE or I-TYPE, got 'X-A' in sentence 0"),
    (WORDS, [[["O"], [{"B-A"}]]], {}, {}, "votes must be tags of spans, B-TYPE or I-TYPE, got {'B-A'} in sentence 0"),
    (WORDS, [[["O"], [3]]], {}, {}, "votes must be tags of spans, B-TYPE or I-TYPE, got 3 in sentence 0"),
    (WORDS, [{"x": [(0, 3, "A")]}], {}, {}, "0 <= start < stop <= 2 and a type that is text, got"),
    (WORDS, [{"x": [(0, 1)]}], {}, {}, r"votes must hold spans \(start, stop, type\)"),
    (WORDS, [{"x": ["A"]}], {}, {}, "got 'A' of source 'x' in sentence 0; count tokens from 0"),
    (WORDS, [{"x": 3}], {}, {}, "votes must map a source to its spans, got 3 of source 'x' in sentence 0"),
    (WORDS, [{"x": [(0, 2, "A"), (1, 2, "A")]}], {}, {}, "of a source that do not overlap, got .* of source 'x'"),
    (WORDS, [{"x": [(0, 2, "A")]}], {"source_names": ["y"]}, {}, "must be of sources among .'y'., got 'x' in sent"),
    (WORDS * 2, [{"x": [(0, 1, "A")]}, [["O"], ["O"]]], {}, {}, "source_names must name the columns of tables"),
    (WORDS, [{}], {}, {}, "votes must name a type of spans, got none; list all that there are in span_types"),
    (WORDS, [{"x": [(0, 1, "A")]}], {"span_types": ["B"]}, {}, "must be for the types .'B'., got 'A'; add it"),
    (WORDS, [{"x": [(0, 1, "A")]}], {"span_types": "A"}, {}, "span_types must be a sequence of span_types, got"),
    (WORDS, [{"x": [(0, 1, "A")]}], {"span_types": ["A", "A"]}, {}, "span_types must be distinct and at least one"),
    (WORDS, [{"x": [(0, 1, "A")]}], {}, {"y": [["NN", "O"]]}, "y must hold tags of spans, O, B-TYPE or I-TYPE, got"),
    (WORDS, [{"x": [(0, 1, "A")]}], {}, {"y": [["O", "I-A"]]}, 'in sentence 0, token 1; correct the labels$'),
    (WORDS, [{"x": [(0, 1, "A")]}], {}, {"y": [["O", {"I-A": 1.0}]]}, "got I-A after O in sentence 0, token 1"),
    (WORDS, [{"x": [(0, 1, "A")]}], {}, {"y": [["O"]]}, r"y must have a label per token of sentence 0 \(2\), got 1"),
    (WORDS, [{"x": [(0, 1, "A")]}], {}, {"sample_weight": [-1]}, "sample_weight"),
    (WORDS, [{"x": [(0, 1, "A")]}], {}, {"columns": {"silent": [1]}}, "columns must not be called 'silent'"),
    (WORDS, [{"x": [(0, 1, "A")]}], {"constraints": "E[tag == 'B-C'] <= 1"}, {}, "B-C"),
    (WORDS, [{"x": [(0, 1, "A")]}], {"constraints": "E[source == 'z'] <= 1"}, {}, "z"),
    (WORDS, [{"x": [(0, 1, "A")]}], {"precision": 1.0}, {}, "precision must lie between 0 and 1, got 1.0"),
    (WORDS, [{"x": [(0, 1, "A")]}], {"word_pseudo_count": 0.0}, {}, "word_pseudo_count must be finite and above 0"),
    ([[]], [{}], {"span_types": ["A"]}, {}, "words must hold at least one word"),
    ("a b", [{}], {"span_types": ["A"]}, {}, "must be a sequence of sentences, got the string 'a b'"),
])  # fmt: skip
def test_wrong_inputs_are_named(words, votes, settings, named, message):
    with pytest.raises(InvalidInputError, match=message):
        SequenceLabelModel(n_threads=1, **settings).fit(words, votes, **named)


def test_wrong_new_inputs_are_named():
    with pytest.raises(NotFittedError):
        SequenceLabelModel().predict(WORDS, [{}])
    model = SequenceLabelModel(n_threads=1).fit(WORDS, [{"x": [(0, 1, "A")]}])
    for votes, message in (
        ([{"y": []}], "must be of sources among .'x'., got 'y' in sentence 0; add it to source_names and fit again"),
        ([{"x": [(0, 1, "B")]}], "votes and y must be for the types .'A'., got 'B'"),
        ([[["O", "O"]] * 2], r"of sentence 0, \(2, 1\), got \(2, 2\)"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.predict(WORDS, votes)
    with pytest.raises(InvalidInputError, match="y must have tags, or None, for each of 1 sentences"):
        model.score(WORDS, [{}], [None])
    with pytest.raises(InvalidInputError, match="tags of chunks must be text such as B-NP, got None at token 1"):
        model.score(WORDS, [{}], [["O", None]])
