"""Attachment scores against plain loops over words, and cases made by hand."""

import math

import numpy as np
import pytest

from spectrem.exceptions import InvalidInputError
from spectrem.metrics import attachment_scores, compare_attachments, head_is_next, not_punctuation

GOLD = [[1, -1, 1, 1], [-1, 0], []]
GUESS = [[1, -1, 3, 1], [1, -1], []]


def scores_of_loops(gold, predicted, mask, gold_relations, predicted_relations):
    """All shares of `AttachmentScores`, word by word."""
    right, labelled, undirected, whole, roots = [], [], [], [], []
    for number, (truth, guess) in enumerate(zip(gold, predicted, strict=True)):
        words = [word for word in range(len(truth)) if mask[number][word]]
        edges = {frozenset((word, head)) for word, head in enumerate(guess)}
        for word in words:
            right.append(truth[word] == guess[word])
            labelled.append(right[-1] and gold_relations[number][word] == predicted_relations[number][word])
            undirected.append(frozenset((word, truth[word])) in edges)
            if truth[word] == -1:
                roots.append(guess[word] == -1)
        if words:
            whole.append(all(truth[word] == guess[word] for word in words))
    return [sum(shares) / len(shares) if shares else math.nan for shares in (right, labelled, undirected, whole, roots)]


def random_heads(rng, lengths, lowest=-1):
    heads = []
    for n in lengths:
        own = rng.integers(lowest, n, n)
        own[own == np.arange(n)] = -1
        heads.append(own)
    return heads


def test_scores_equal_plain_loops():
    rng = np.random.default_rng(0)
    for _ in range(50):
        lengths = rng.integers(0, 6, rng.integers(0, 5))
        gold, guess = random_heads(rng, lengths), random_heads(rng, lengths, -2)
        mask = [rng.random(n) < 0.7 for n in lengths]
        relations = [[[str(kind) for kind in rng.integers(0, 2, n)] for n in lengths] for _ in range(2)]
        scores = attachment_scores(
            gold, guess, mask=mask, gold_relations=relations[0], predicted_relations=relations[1]
        )
        expected = scores_of_loops(gold, guess, mask, *relations)
        found = [scores.uas, scores.las, scores.undirected, scores.exact_match, scores.roots]
        np.testing.assert_allclose(found, expected, rtol=1e-15)
        assert scores.n_tokens == sum(map(sum, mask))
        assert scores.n_sentences == sum(map(any, mask))


def test_a_case_by_hand():
    scores = attachment_scores(GOLD, GUESS)
    assert (scores.uas, scores.undirected, scores.exact_match, scores.roots) == (3 / 6, 4 / 6, 0.0, 1 / 2)
    assert math.isnan(scores.las)
    assert (scores.n_tokens, scores.n_sentences, scores.n_roots) == (6, 2, 2)
    tags = [["DET", "NOUN", "PUNCT", "ADJ"], ["PUNCT", "PUNCT"], []]
    without = attachment_scores(GOLD, GUESS, mask=not_punctuation(tags))
    assert (without.uas, without.exact_match, without.roots, without.n_sentences) == (1.0, 1.0, 1.0, 1)


def test_scores_of_nothing_are_missing():
    scores = attachment_scores([], [])
    assert math.isnan(scores.uas)
    assert math.isnan(scores.roots)
    assert scores.n_tokens == 0


def test_sentences_without_a_tree_are_wrong():
    scores = attachment_scores([[-1, 0]], [[-2, -2]])
    assert (scores.uas, scores.undirected, scores.roots) == (0.0, 0.0, 0.0)


def test_head_is_next_is_a_chain():
    assert [heads.tolist() for heads in head_is_next([0, 1, 4])] == [[], [-1], [1, 2, 3, -1]]


def test_sign_tests_count_words_and_sentences():
    compared = compare_attachments(GUESS, head_is_next([4, 2, 0]), GOLD)
    assert (compared.words.n_first, compared.words.n_second) == (2, 0)
    assert (compared.sentences.n_first, compared.sentences.n_second) == (1, 0)
    tags = [["DET", "PUNCT", "ADJ", "PUNCT"], ["PUNCT"] * 2, []]
    masked = compare_attachments(GUESS, head_is_next([4, 2, 0]), GOLD, mask=not_punctuation(tags))
    assert masked.words.n_first == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gold": [[-1]], "predicted": []}, "gold and predicted must be of the same sentences, got 1 and 0; drop"),
        (
            {"gold": [[-1], [-1]], "predicted": [[-1], [1, -1]]},
            "same words, got 1 and 2 heads in sentence 1; give one head per word",
        ),
        ({"gold": [[1, 2]], "predicted": [[1, -1]]}, "sentence 0 has 2 words; got 2 for word 1; count words from 0"),
        ({"gold": [[1, -2]], "predicted": [[1, -1]]}, "gold must hold heads from -1 to 1, .* got -2 for word 1"),
        ({"gold": [[1, -1]], "predicted": [[1, -3]]}, "predicted must hold heads from -2 to 1, .* got -3 for word 1"),
        (
            {"gold": [[0.5]], "predicted": [[-1]]},
            "gold must hold a list of whole numbers per sentence, got dtype float64",
        ),
        (
            {"gold": [[-1]], "predicted": [[-1]], "mask": [[True, False]]},
            r"mask must hold 1 truth values for sentence 0, got dtype bool, shape \(2,\); .* not_punctuation",
        ),
        (
            {"gold": [[-1]], "predicted": [[-1]], "mask": [[1]]},
            "mask must hold 1 truth values for sentence 0, got dtype int",
        ),
        ({"gold": [[-1]], "predicted": [[-1]], "mask": []}, "mask must be of the same sentences as gold, got 0 and 1"),
        (
            {"gold": [[-1]], "predicted": [[-1]], "gold_relations": [["root"]]},
            "must be given together, got one of them",
        ),
        (
            {"gold": [[-1]], "predicted": [[-1]], "gold_relations": [["root"]], "predicted_relations": [[]]},
            "predicted_relations must hold one relation per word, got 1 sentences with 0 relations",
        ),
    ],
)
def test_errors_say_what_to_do(given, message):
    with pytest.raises(InvalidInputError, match=message):
        attachment_scores(**given)
