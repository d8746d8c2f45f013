"""Transfers between domains of generated reviews: reading, the choice of gamma, and the command."""

import gzip

import numpy as np
import pytest

from reproductions.views import pr_table4
from reproductions.views.sentiment import read_reviews
from spectrem.exceptions import InvalidInputError


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """120 reviews per domain: some words of all domains, some of one, and one review of every domain twice."""
    root = tmp_path_factory.mktemp("reviews")
    rng = np.random.default_rng(0)
    for domain in ("books", "dvd", "kitchen"):
        folder = root / "sentiment" / domain
        folder.mkdir(parents=True)
        for label, sign in (("positive", 1), ("negative", -1)):
            lines = []
            for _ in range(60):
                words = [
                    *(f"all{k}" for k in range(30) if rng.random() < 0.2 + 0.1 * sign * (-1) ** k),
                    *(f"{domain}{k}" for k in range(30) if rng.random() < 0.2 + 0.1 * sign * (-1) ** k),
                ]
                lines.append(" ".join(f"{word}:{rng.integers(1, 3)}" for word in ["the", *words]))
            lines[1] = lines[0]
            text = "".join(f"{line} #label#:{label}\n" for line in lines)
            (folder / f"{label}.review.gz").write_bytes(gzip.compress(text.encode()))
    return root


def test_reviews_are_counts_over_common_features_without_copies(reviews):
    found = read_reviews(reviews, ("books", "dvd"))
    books, dvd = found["books"], found["dvd"]
    assert books.counts.shape[1] == dvd.counts.shape[1]
    assert books.n_dropped == dvd.n_dropped == 2
    assert books.counts.shape[0] == len(books.positive) == 118
    assert books.positive.sum() == 59
    shared = np.flatnonzero(books.counts.sum(axis=0) * dvd.counts.sum(axis=0))
    assert 25 < len(shared) <= 31
    assert books.counts[:, 0].sum() >= 118  # "the" comes first


def test_what_is_no_review_is_refused(reviews, tmp_path):
    with pytest.raises(InvalidInputError, match="domains must be among books, dvd, electronics, kitchen, got 'cars'"):
        read_reviews(reviews, ("books", "cars"))
    for label in ("positive", "negative"):
        (tmp_path / "dvd").mkdir(exist_ok=True)
        (tmp_path / "dvd" / f"{label}.review.gz").write_bytes(gzip.compress(b"good\n"))
    with pytest.raises(InvalidInputError, match=r"entries must be feature:count, got 'good'"):
        read_reviews(tmp_path, ("dvd",))
    with pytest.raises(InvalidInputError, match="domains must be three at least"):
        pr_table4.run(reviews, ("books", "dvd"))


def test_gamma_is_chosen_without_the_target():
    def fit(source, target, gamma, accuracy):
        return pr_table4.Transfer(source, target, "agreed", "none", gamma, 0, accuracy, 0.0)

    fits = [
        *(fit("a", "b", 1.0, 0.7), fit("a", "b", 0.5, 0.9), fit("b", "a", 1.0, 0.7), fit("b", "a", 0.5, 0.6)),
        *(fit("a", "c", 1.0, 0.9), fit("a", "c", 0.5, 0.1), fit("c", "b", 1.0, 0.9), fit("c", "b", 0.5, 0.1)),
    ]
    assert pr_table4._choose(fits, "c", "none") == 0.5
    assert pr_table4._choose(fits, "a", "none") == 1.0


def test_the_command(reproduce, reviews):
    printed, numbers = reproduce("pr-table4", reviews)
    own = [row for row in numbers if row["method"] != "chosen"]
    assert len(own) == 6 * (2 + 1 + 3 * 2)  # MaxEnt twice, agree_0, two gammas by what is known
    assert all(0.5 < float(row["accuracy"]) <= 1 for row in numbers)
    assert "6 reviews were left out as copies of others." in printed
    assert "UEM+b+t" in printed
