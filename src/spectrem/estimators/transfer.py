"""A parser of a language without trees, from the trees of another one and word alignments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools
from spectrem._heads import ROOT
from spectrem._reprs import briefly_shown
from spectrem._validate import as_generator
from spectrem.constraints import Constraint, E, part
from spectrem.data import Links, ParsedSentence
from spectrem.data.transfer import aligned_words, conserved_arcs
from spectrem.estimators.shared_parameters import as_sequence
from spectrem.exceptions import InvalidInputError, quoted, setting

__all__ = [
    "Transfer",
    "Trial",
    "choose_share",
    "conservation",
    "conserved_share",
    "few_children",
    "transfer_parser",
]

CONSERVED, ALIGNED = "conserved", "aligned"
"""Names of the columns: of arcs, and of words (``head_aligned`` and ``dependent_aligned`` of arcs)."""


@briefly_shown
class Trial(NamedTuple):
    """A share that was tried, and the share of the conserved arcs of the other half that were then predicted."""

    share: float
    predicted: float


@briefly_shown
class Transfer(NamedTuple):
    """A parser learnt across bitext.

    Attributes
    ----------
    parser : EdgeFactoredParser or DependencyModel
        Trained on the target sentences.
    share : float
        Of the words with a conserved arc, the share that had to take one in expectation.
    conserved : list of ndarray of shape (n_words, n_words), bool
        The conserved arcs of every target sentence, ``[dependent, head]``, roots on the diagonal.
    trials : list of Trial
        Shares that were tried; empty if the share was given.
    """

    parser: Any
    share: float
    conserved: list[Bools]
    trials: list[Trial]


def transfer_parser(
    parser: Any,
    source_heads: Sequence[ArrayLike | None],
    target: Sequence[Any],
    links: Links,
    *,
    share: float | Sequence[float] = 0.7,
    start: Any = None,
    labelled: tuple[Sequence[Any], Sequence[ArrayLike]] | None = None,
    labelled_weight: float = 1.0,
    unaligned_children: float | None = None,
    roots: bool = True,
    name: str = "links",
    random_state: int | np.random.Generator | None = 0,
) -> Transfer:
    """Train a parser on target sentences whose trees conserve arcs of the source trees ([Ganchev2010] §7).

    The arc between two target words is conserved if source words linked with them stand in an arc. Trees of the target
    sentences are hidden; in expectation they have at least a share of the conserved arcs of their sentence.

    Use when the target language has no treebank, but text aligned with a language that has a parser.

    Parameters
    ----------
    parser : EdgeFactoredParser or DependencyModel
        Its settings; it is trained in place. Its ``constraints`` hold, too. Sentences that no tree fits, as conserved
        arcs cross, are an error, unless ``infeasible="skip"`` leaves them alone.
    source_heads : sequence of array-like of shape (n_source_words,), int
        Trees of the source sentences, those of a parser as a rule: positions from 0, -1 of the root.
    target : sequence
        Sentences as the parser takes them: `ParsedSentence`, whose heads are not looked at, or sequences of tags.
    links : Links
        Between words of the source and of the target; mostly those that `spectrem.data.one_to_one` keeps.
    share : float, or sequence of float
        The share, in (0, 1]; of several the one is taken with which a parser learnt on half of the sentences conserves
        most arcs of the other half, as [Ganchev2010] chose it.
    start : fitted EdgeFactoredParser or DependencyModel, optional
        A parser that knows something of the target language, such as one of the source language that reads tags alone.
        A `DependencyModel` starts from it (its ``init``); an `EdgeFactoredParser` learns from its posteriors under the
        constraints, the one E-step before its own training.
    labelled : (sentences, heads), optional
        Sentences with trees to train on, too, such as those of the source language without their words. A
        `DependencyModel` starts from them by default, and they keep it from drifting away from what both languages
        share.
    labelled_weight : float
        How much such a sentence counts beside one of the target; above 0.
    unaligned_children : float, optional
        The most children, in expectation, of a word without a link; by default any number.
    roots : bool
        Whether the root of the source tree is conserved, too.
    name : str
        What error messages call the links.
    random_state : int, Generator or None
        Draws the halves on which shares are compared.

    Returns
    -------
    Transfer

    Raises
    ------
    InvalidInputError
        If sentences and links do not fit each other, naming the line, source sentences lack heads, or no arc at all is
        conserved.
    InfeasibleConstraintError
        If no tree of some sentence meets the constraints, unless the parser skips them.

    Examples
    --------
    "he sees dogs" against "ve perros", whose verb has the object of its counterpart:

    >>> from spectrem import DependencyModel, transfer_parser
    >>> links = Links.from_pairs([[(1, 0), (2, 1)]] * 2)
    >>> found = transfer_parser(
    ...     DependencyModel(n_threads=1, max_iter=3, tol=0), [[1, -1, 1]] * 2, [["VERB", "NOUN"]] * 2, links, share=0.9
    ... )
    >>> found.conserved[0].astype(int).tolist(), found.parser.predict([["VERB", "NOUN"]])[0].tolist()
    ([[1, 0], [1, 0]], [-1, 0])
    """
    if not isinstance(links, Links):
        raise InvalidInputError(f"links must be Links, got {quoted(links)}; read_links and Links.from_pairs give them")
    heads = [np.zeros(0, np.int64) if tree is None else np.asarray(tree, np.int64) for tree in source_heads]
    missing = [n for n, tree in enumerate(heads) if source_heads[n] is None or (tree < -1).any()]
    if missing:
        raise InvalidInputError(
            f"source_heads must have the head of every word, but sentence {missing[0]} lacks some; parse it first"
        )
    if not (isinstance(labelled_weight, int | float) and 0 < labelled_weight < np.inf):
        raise InvalidInputError(f"labelled_weight must be finite and above 0, got {labelled_weight!r}; try 1")
    task = _Task(start, list(target), tuple(as_sequence(parser.constraints)), *(labelled or ((), ())), labelled_weight)
    lengths = [_length(tree) for tree in task.target]
    conserved = conserved_arcs(heads, links, lengths, name=name, roots=roots)
    if not any(arcs.any() for arcs in conserved):
        raise InvalidInputError(
            f"no arc of the source trees is conserved by {name}; give the alignment of these sentences, source first"
        )
    columns = {CONSERVED: conserved, ALIGNED: aligned_words(links, lengths)}
    more = () if unaligned_children is None else (few_children(unaligned_children),)

    def fit(least: float, numbers: Sequence[int]) -> Any:
        return task.fit(type(parser)(**parser.get_params(deep=False)), (conservation(least), *more), columns, numbers)

    trials: list[Trial] = []
    shares = [share] if isinstance(share, int | float) else list(share)
    chosen = shares[0] if len(shares) == 1 else None
    if chosen is None:
        chosen, trials = choose_share(fit, task.target, conserved, shares, random_state=random_state)
    task.fit(parser, (conservation(chosen), *more), columns, range(len(lengths)))
    return Transfer(parser, chosen, conserved, trials)


class _Task(NamedTuple):
    """The settings of training that shares and parts of the text have in common."""

    start: Any
    target: list[Any]
    known: tuple[Any, ...]
    sentences: Sequence[Any]
    heads: Sequence[ArrayLike]
    weight: float

    def fit(self, model: Any, demanded: tuple[Any, ...], columns: dict[str, list[Any]], numbers: Sequence[int]) -> Any:
        """Train on the target sentences of these numbers, and on those with trees."""
        sentences = [self.target[n] for n in numbers]
        columns = {name: [values[n] for n in numbers] for name, values in columns.items()}
        constraints = [*self.known, *demanded]
        model.set_params(constraints=constraints)
        heads: Sequence[Any] = [None] * len(sentences)
        if self.start is not None and "init" in model.get_params(deep=False):
            model.set_params(init=self.start)
        elif self.start is not None:
            heads = self._guess(sentences, columns, constraints, model.infeasible)
            model.set_params(constraints=())  # which these posteriors meet already
        weights = np.repeat([1.0, self.weight], [len(sentences), len(self.sentences)])
        # no arc of sentences with trees is conserved, and all their words are aligned, so that constraints leave them
        for size in map(_length, self.sentences):
            columns[CONSERVED].append(np.zeros((size, size), np.bool_))
            columns[ALIGNED].append(np.ones(size, np.bool_))
        model.fit(
            [*sentences, *self.sentences],
            [*heads, *self.heads],
            weights if len(self.sentences) else None,
            columns=columns,
        )
        return model.set_params(constraints=constraints)

    def _guess(
        self, sentences: list[Any], columns: dict[str, list[Any]], constraints: list[Any], infeasible: str
    ) -> Sequence[Any]:
        """The posteriors of the start under the constraints."""
        before = self.start.get_params(deep=False)
        settings = {"constraints": constraints, "project_at_predict": True, "infeasible": infeasible}
        try:
            posteriors: Sequence[Any] = self.start.set_params(**settings).predict_proba(sentences, columns=columns)
        finally:
            self.start.set_params(**{name: before[name] for name in settings})
        return posteriors


def _length(sentence: Any) -> int:
    return len(sentence.forms) if isinstance(sentence, ParsedSentence) else len(sentence)


def conservation(share: float = 0.9) -> Constraint:
    """At least this share of the words that have a conserved arc take one, in expectation, in every sentence.

    [Ganchev2010] eq. 55, over the column ``conserved`` of arcs that `spectrem.data.conserved_arcs` makes. It is one
    row per sentence, so that posteriors are found by a line search.

    Parameters
    ----------
    share : float
        In (0, 1].

    Raises
    ------
    InvalidInputError
        If the share is out of range.

    Examples
    --------
    >>> conservation(0.8)
    (E[part("conserved")] >= 0.8 * E.count(part("conserved"))).per("sentence").named("conserved arcs")
    """
    if not (isinstance(share, int | float) and 0 < share <= 1):
        raise InvalidInputError(f"{setting('share')} must lie above 0 and be at most 1, got {share!r}; try 0.7")
    conserved = E[part(CONSERVED)] >= share * E.count(part(CONSERVED))
    return conserved.per("sentence").named("conserved arcs")


def few_children(most: float = 1.0) -> Constraint:
    """A word without a link has at most so many children, in expectation: what is dropped in translation is a leaf.

    [Ganchev2010] §7.1, for what conserved arcs leave open. Needs the column ``aligned`` of words.

    Parameters
    ----------
    most : float
        At least 0.

    Raises
    ------
    InvalidInputError
        If it is negative or not finite.

    Examples
    --------
    >>> few_children(1)
    (E[part("head_aligned") == 0] <= 1).per("sentence", "head").named("children of unaligned words")
    """
    if not (isinstance(most, int | float) and 0 <= most < float("inf")):
        raise InvalidInputError(f"most must be a finite number of children, at least 0, got {most!r}; try 1")
    children = E[part(f"head_{ALIGNED}") == 0] <= most
    return children.per("sentence", "head").named("children of unaligned words")


def conserved_share(heads: Sequence[ArrayLike], conserved: Sequence[Bools]) -> float:
    """The share of the words with a conserved arc whose head is such.

    Parameters
    ----------
    heads : sequence of array-like of shape (n_words,), int
        Positions from 0, -1 of the root.
    conserved : sequence of ndarray of shape (n_words, n_words), bool
        As from `spectrem.data.conserved_arcs`.

    Returns
    -------
    float
        In [0, 1]; NaN if no word has a conserved arc.

    Examples
    --------
    >>> conserved_share([[1, -1]], [np.array([[False, True], [False, False]])])
    1.0
    """
    taken = present = 0
    for tree, arcs in zip(heads, conserved, strict=True):
        positions = np.asarray(tree, np.int64)
        words = np.arange(positions.size)
        present += int(arcs.any(axis=1).sum())
        taken += int((arcs[words, np.where(positions == ROOT, words, positions)] & (positions >= ROOT)).sum())
    return taken / present if present else float("nan")


def choose_share(
    fit: Callable[[float, Sequence[int]], Any],
    sentences: Sequence[Any],
    conserved: Sequence[Bools],
    shares: Sequence[float],
    *,
    random_state: int | np.random.Generator | None = None,
) -> tuple[float, list[Trial]]:
    """Learn with each share on one half of the text, and take that which conserves most arcs of the other half.

    So [Ganchev2010] §7.3 (footnote 10) chose its share of 0.9: without trees of the target language.

    Parameters
    ----------
    fit : callable
        From a share and the numbers of the sentences to train on to a parser with ``predict``.
    sentences : sequence
        What the parser predicts trees of.
    conserved : sequence of ndarray of shape (n_words, n_words), bool
    shares : sequence of float
        Of shares that are equally good the first one is chosen.
    random_state : int, Generator or None
        Draws the halves.

    Returns
    -------
    share : float
    trials : list of Trial
        All that were tried, in the given order.

    Raises
    ------
    InvalidInputError
        If there are no shares, fewer than two sentences, or no conserved arcs in the half that is predicted.
    """
    if not len(shares):
        raise InvalidInputError("shares must name at least one share to try, got none; try (0.6, 0.7, 0.8, 0.9)")
    if len(sentences) < 2:
        raise InvalidInputError(
            f"a share is chosen on two halves of the text, but it has {len(sentences)} sentences; give the share"
        )
    order = as_generator(random_state).permutation(len(sentences))
    first, second = np.sort(order[: len(order) // 2]).tolist(), np.sort(order[len(order) // 2 :]).tolist()
    held_out = [conserved[n] for n in second]
    if not any(arcs.any() for arcs in held_out):
        raise InvalidInputError(
            "no arc of the half of the text on which shares are compared is conserved; give more text, or the share"
        )
    trials = []
    for share in shares:
        predicted = fit(share, first).predict([sentences[n] for n in second])
        trials.append(Trial(share, conserved_share(predicted, held_out)))
    return max(trials, key=lambda trial: trial.predicted).share, trials
