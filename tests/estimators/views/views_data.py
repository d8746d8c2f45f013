"""Small data with two views."""

import numpy as np


def rows(k=3, n=40, n_labelled=12, seed=0, noise=0.6):
    """Features of two views, labels, and labels of which most are missing."""
    rng = np.random.default_rng(seed)
    gold = np.concatenate([np.arange(n_labelled) % k, rng.integers(0, k, n - n_labelled)])
    X = {name: np.eye(k, k + 1)[gold] + noise * rng.normal(size=(n, k + 1)) for name in ("left", "right")}
    return X, gold, [int(label) if row < n_labelled else None for row, label in enumerate(gold)]


def sentences(n=14, n_labelled=4, seed=0):
    """Sentences of words, as two views of tokens, tags, and tags of which most are missing."""
    rng = np.random.default_rng(seed)
    words = {"D": ["the", "a"], "N": ["dog", "cat", "bird"], "V": ["barks", "sleeps"]}
    gold = [["D", "N", "V", "D", "N"][: rng.integers(2, 6)] for _ in range(n)]
    gold[0] = ["D", "N", "V", "D", "N"]
    text = [[str(rng.choice(words[tag])) for tag in tags] for tags in gold]
    X = {
        "content": [[[f"word={word}"] for word in sentence] for sentence in text],
        "context": [
            [[f"before={sentence[t - 1] if t else '<'}", f"place={min(t, 2)}"] for t in range(len(sentence))]
            for sentence in text
        ],
    }
    return X, gold, [tags if number < n_labelled else None for number, tags in enumerate(gold)], text
