"""Constraint-driven learning with the K best labellings of a beam search ([Ganchev2010] §4.1, on Chang et al. 2007).

The E-step of a sentence is a uniform distribution over the K labellings with the largest score, where each argument
whose type a relation does not want costs a penalty. It is no projection: it has no dual and no objective that rises.
So it stands here and not in the library, and the M-step is that of labelled sentences, of which every labelling is a
copy with the weight 1/K.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrem import RelationExtractor
from spectrem.data import RelationSentence

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Search(NamedTuple):
    """How labellings are found.

    Attributes
    ----------
    k : int
        Labellings of a sentence at most.
    width : int
        Partial labellings that are kept.
    penalty : float
        Nats per argument that does not have the type which its relation wants.
    rounds : int
        How often the scores of relations are moved, so that their numbers come between bounds.
    """

    k: int = 5
    width: int = 20
    penalty: float = 5.0
    rounds: int = 5


def k_best(
    types: Floats, relations: Floats, pairs: Sequence[tuple[int, int]], wanted: Ints, search: Search
) -> tuple[Floats, Ints, Ints]:
    """The labellings of a sentence with the largest scores, as far as the beam holds them, best first.

    Mentions are labelled from the first to the last, and every pair right after the later of its mentions.

    Parameters
    ----------
    types : ndarray of shape (n_mentions, n_types)
        Scores, nats.
    relations : ndarray of shape (n_pairs, n_relations)
        Scores, nats; the first is that of no relation.
    pairs : sequence of (first, second)
    wanted : ndarray of shape (n_relations, 2), int
        The types of both arguments; -1 for any.
    search : Search

    Returns
    -------
    scores : ndarray of shape (n_found,)
        Less penalties.
    types : ndarray of shape (n_found, n_mentions)
    relations : ndarray of shape (n_found, n_pairs)

    Examples
    --------
    A person and a place, or the other way round; who lives where decides:

    >>> types, relations = np.log([[0.6, 0.4], [0.6, 0.4]]), np.log([[0.2, 0.8], [0.9, 0.1]])
    >>> lives_in = np.array([[-1, -1], [0, 1]])
    >>> scores, kinds, found = k_best(types, relations, [(0, 1), (1, 0)], lives_in, Search(k=2))
    >>> kinds.tolist(), found.tolist()
    ([[0, 1], [0, 0]], [[1, 0], [0, 0]])
    """
    ready: dict[int, list[int]] = {}
    for number, pair in enumerate(pairs):
        ready.setdefault(max(pair), []).append(number)
    scores, kinds, found = np.zeros(1), np.zeros((1, len(types)), np.int64), np.zeros((1, len(pairs)), np.int64)

    def extend(gains: Floats, at: int, is_pair: bool) -> None:
        """Add a label to all partial labellings, and keep the best of them; ``gains`` has a row for each."""
        nonlocal scores, kinds, found
        total = (scores[:, None] + gains).ravel()
        best = np.argsort(-total, kind="stable")[: search.width]
        scores, origin, label = total[best], best // gains.shape[1], best % gains.shape[1]
        kinds, found = kinds[origin], found[origin]
        (found if is_pair else kinds)[:, at] = label

    for mention in range(len(types)):
        extend(np.broadcast_to(types[mention], (len(scores), types.shape[1])), mention, False)
        for number in ready.get(mention, ()):
            own = kinds[:, list(pairs[number])]
            wrong = ((wanted >= 0) & (own[:, None, :] != wanted)).sum(axis=2)
            extend(relations[number] - search.penalty * wrong, number, True)
    return scores[: search.k], kinds[: search.k], found[: search.k]


def learn_k_best(
    make: Callable[[], RelationExtractor],
    labelled: Sequence[RelationSentence],
    bare: Sequence[RelationSentence],
    rules: Mapping[str, tuple[str, str]],
    *,
    margin: float,
    iterations: int,
    search: Search,
) -> RelationExtractor:
    """Train on labelled sentences, then in turn on them and the K best labellings of the others.

    Parameters
    ----------
    make : callable
        Makes an extractor that is not fitted.
    labelled, bare : sequences of RelationSentence
    rules : mapping of relation to the types of its arguments
    margin : float
        The number of labels of every relation is to be its share of the labelled pairs, give or take this much of it.
    iterations : int
    search : Search
    """
    names = Counter(relation for one in labelled for relation in (one.relations or {}).values())
    share = sum(len(one.pairs) for one in bare) / max(sum(len(one.pairs) for one in labelled), 1)
    extractor = make().fit(labelled)
    types = extractor.types_
    wanted = np.array(
        [[types.index(kind) for kind in rules[r]] if r in rules else [-1, -1] for r in extractor.relations_]
    )
    expected = np.array([names[relation] * share for relation in extractor.relations_[1:]])
    for _ in range(iterations):
        extractor = _learn_from(make(), extractor, labelled, bare, wanted, expected, margin, search)
    return extractor


def _learn_from(
    fresh: RelationExtractor,
    extractor: RelationExtractor,
    labelled: Sequence[RelationSentence],
    bare: Sequence[RelationSentence],
    wanted: Ints,
    expected: Floats,
    margin: float,
    search: Search,
) -> RelationExtractor:
    """One iteration: the labellings by one extractor train a fresh one."""
    project = extractor.project_at_predict
    inferred = extractor.set_params(project_at_predict=False).predict_proba(bare)
    extractor.set_params(project_at_predict=project)
    logs = [tuple(np.log(np.maximum(table, 1e-300)) for table in own) for own in inferred]
    gains = np.zeros(wanted.shape[0])
    for _ in range(search.rounds):
        found = [
            k_best(types, relations + gains, sentence.pairs, wanted, search)
            for sentence, (types, relations) in zip(bare, logs, strict=True)
        ]
        counts = sum(np.bincount(own.ravel(), minlength=len(gains))[1:] / len(own) for _, _, own in found if own.size)
        aim = np.clip(counts, (1 - margin) * expected, (1 + margin) * expected)
        if np.array_equal(aim, counts):
            break
        gains[1:] += np.log((aim + 1) / (counts + 1))
    copies, weights = [], []
    for sentence, (_, kinds, own) in zip(bare, found, strict=True):
        copies += [_labelled(sentence, *one, extractor) for one in zip(kinds, own, strict=True)]
        weights += [1.0 / len(kinds)] * len(kinds)
    return fresh.fit([*labelled, *copies], sample_weight=np.array([1.0] * len(labelled) + weights))


def _labelled(sentence: RelationSentence, kinds: Ints, own: Ints, extractor: RelationExtractor) -> RelationSentence:
    types = [extractor.types_[kind] for kind in kinds.tolist()]
    chosen = zip(sentence.pairs, own.tolist(), strict=True)
    relations = {pair: extractor.relations_[number] for pair, number in chosen if number}
    return RelationSentence(sentence.words, sentence.mentions, types, relations, sentence.tags, sentence.name)
