"""Two tasks with few labels and some knowledge: reviews with words that tell, and noun phrases by kinds of tokens."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reproductions.places import find_folder
from reproductions.views.sentiment import Reviews
from spectrem import CRFTagger, E, MaxEntClassifier, part
from spectrem.constraints import label_proportions
from spectrem.metrics import chunk_scores

DOMAINS = ("kitchen", "books", "dvd", "electronics")
CHUNKS = tuple(f"conll2000-{part}.txt.gz" for part in ("train", "test"))
GOOD = ("excellent", "great", "love", "loved", "perfect", "wonderful", "best", "amazing", "easy", "fantastic")
POOR = ("bad", "worst", "waste", "poor", "disappointed", "boring", "terrible", "horrible", "awful", "poorly")
SHARE = 0.9
"""Of what has a known word or kind, this share is expected to have its label."""
_NOUNS = {"NN", "NNS", "NNP", "NNPS"}
_WITHIN = {"DT", "PRP$", "JJ", "CD", "POS", "$", *_NOUNS}
_OUTSIDE = {*["IN", "TO", "MD", "VB", "VBZ", "VBP", "VBD", "VBN", "CC", "RB", "WRB", ",", ".", ":", "``", "''"]}
KINDS = {"determiner": "B-NP", "noun within": "I-NP", "noun first": "B-NP", "between": "O"}


class Rule(NamedTuple):
    """A constraint on the number of what has a label, and the number that this is a share of."""

    constraint: Any
    size: float


@dataclass(frozen=True, eq=False)
class Task:
    """What is learnt from, with rules about it, and what is tested on.

    Attributes
    ----------
    make : callable
        The estimator, given settings.
    X, y, columns
        What ``fit`` takes; labelled rows or sentences first.
    n_labelled : int
    rules : sequence of Rule
        About words or kinds of tokens of what has no label, and whatever else is known.
    balance : sequence of Rule
        About labels.
    test_rows, test_labels
    """

    make: Any
    X: Any
    y: Any
    columns: Mapping[str, Any]
    n_labelled: int
    rules: Sequence[Rule]
    balance: Sequence[Rule]
    test_rows: Any
    test_labels: Any

    def score(self, model: Any) -> float:
        """Percent of reviews that are right, or F1 of noun phrases."""
        predicted = model.predict(self.test_rows)
        if isinstance(model, MaxEntClassifier):
            return 100 * float(np.mean(predicted == self.test_labels))
        return 100 * float(chunk_scores(predicted, self.test_labels).f1)


class Presence(NamedTuple):
    """Which words and pairs of words reviews have, shape (n_reviews, n_features), and whether they are positive."""

    matrix: sp.csr_array
    vocabulary: dict[str, int]
    positive: NDArray[np.int64]


def presence_of(reviews: Reviews, min_count: int = 3) -> Presence:
    """What the reviews of a domain have, without features of fewer of them."""
    counts = reviews.counts.tocsc()
    kept = np.flatnonzero(np.diff(counts.indptr) >= min_count)
    names = [reviews.features[number] for number in kept.tolist()]
    order = np.argsort(names)
    matrix = counts[:, kept[order]].tocsr()
    matrix.data[:] = 1.0
    vocabulary = {names[number]: place for place, number in enumerate(order.tolist())}
    return Presence(matrix, vocabulary, reviews.positive.astype(np.int64))


def review_task(reviews: Presence, n_labelled: int, n_test: int, draw: tuple[int, ...]) -> Task:
    """Some reviews to learn from, of which the first have labels, and some to be tested on."""
    order = np.random.default_rng(draw).permutation(len(reviews.positive))
    learnt, tested = order[:-n_test], order[-n_test:]
    X, label = reviews.matrix[learnt], part("label")
    columns: dict[str, Any] = {}
    rules = []
    for words, positive in ((GOOD, 1), (POOR, 0)):
        for word in words:
            if word in reviews.vocabulary:
                has = np.asarray(X[:, [reviews.vocabulary[word]]].todense()).ravel() > 0
                has[:n_labelled] = False
                if has.any():
                    columns[f"has_{word}"], own = has, part(f"has_{word}")
                    rule = E[(label == positive) & own] == SHARE * E.count(own)
                    rules.append(Rule(rule.named(word), float(has.sum())))
    y = np.where(np.arange(len(learnt)) < n_labelled, reviews.positive[learnt], -1)
    balance = [Rule(rule, float(len(learnt))) for rule in label_proportions({0: 0.5, 1: 0.5})]

    def make(**settings: Any) -> MaxEntClassifier:
        return MaxEntClassifier(classes=[0, 1], n_threads=1, **settings)

    return Task(
        make, X, y, columns, n_labelled, [*rules, *balance], balance, reviews.matrix[tested], reviews.positive[tested]
    )


class Sentence(NamedTuple):
    """Words with their parts of speech, and tags of noun phrases."""

    tokens: list[tuple[str, str]]
    tags: list[str]

    @property
    def kinds(self) -> list[str]:
        """What a token is by its part of speech and the one before it: of `KINDS`, or "other"."""
        before = ["", *(tag for _, tag in self.tokens[:-1])]
        return [_kind(left, tag) for left, (_, tag) in zip(before, self.tokens, strict=True)]


def _kind(before: str, tag: str) -> str:
    if tag in ("DT", "PRP", "PRP$", "WDT", "WP", "EX"):
        return "determiner"
    if tag in _NOUNS or tag in ("CD", "JJ", "$"):
        return "noun within" if before in _WITHIN else "noun first"
    return "between" if tag in _OUTSIDE else "other"


def read_chunks(data: Path | None) -> tuple[list[Sentence], list[Sentence]]:
    """Sentences of CoNLL-2000 to learn from, and its test set, with the tags of noun phrases only."""
    folder = find_folder(data, CHUNKS, "chunk")
    found = []
    for name in CHUNKS:
        sentences: list[Sentence] = []
        with gzip.open(folder / name, "rt", encoding="utf-8") as lines:
            for block in lines.read().strip().split("\n\n"):
                rows = [line.split() for line in block.splitlines()]
                tags = [tag if tag.endswith("-NP") else "O" for _, _, tag in rows]
                sentences.append(Sentence([(word, pos) for word, pos, _ in rows], tags))
        found.append(sentences)
    return found[0], found[1]


def chunk_task(learnt: Sequence[Sentence], n_labelled: int, test: Sequence[Sentence], words: int | None = None) -> Task:
    """Sentences of which the first have labels; rules by kind, or for so many frequent words by their true shares."""
    tag = part("tag")
    X, gold = [one.tokens for one in learnt], [one.tags for one in learnt]
    y: list[list[str] | None] = [tags if k < n_labelled else None for k, tags in enumerate(gold)]
    kinds = [one.kinds if words is None else [word.lower() for word, _ in one.tokens] for one in learnt]
    free = ~part("labelled")
    count = Counter(kind for own in kinds[n_labelled:] for kind in own)
    rules = []
    if words is None:
        for kind, label in KINDS.items():
            own = (part("kind") == kind) & free
            rule = E[(tag == label) & own] == SHARE * E.count(own)
            rules.append(Rule(rule.named(kind), float(count[kind])))
    else:
        both = Counter(
            pair
            for own, tags in zip(kinds[n_labelled:], gold[n_labelled:], strict=True)
            for pair in zip(own, tags, strict=True)
        )
        for word, n in count.most_common(words):
            for label in ("B-NP", "I-NP"):
                rule = E[(tag == label) & (part("kind") == word) & free] == float(both[word, label])
                rules.append(Rule(rule.named(f"{word} {label}"), float(n)))
    labels = Counter(label for tags in gold[:n_labelled] for label in tags)
    total = sum(labels.values())
    n_tokens = float(sum(map(len, gold)))
    balance = [
        Rule(rule, n_tokens) for rule in label_proportions({label: n / total for label, n in sorted(labels.items())})
    ]

    def make(**settings: Any) -> CRFTagger:
        return CRFTagger("chunking", tags=["B-NP", "I-NP", "O"], pairs="all", C=1.0, n_threads=1, **settings)

    return Task(
        make, X, y, {"kind": kinds}, n_labelled, rules, balance, [s.tokens for s in test], [s.tags for s in test]
    )
