"""A parser of a language without trees, from parsed sentences of another one and word alignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Bools
from spectrem.data import Links, ParsedSentence
from spectrem.data.transfer import aligned_words, conserved_arcs
from spectrem.estimators.transfer.constraints import ALIGNED, CONSERVED, conservation, few_children
from spectrem.estimators.transfer.share import Trial, choose_share
from spectrem.exceptions import InvalidInputError


class Transfer(NamedTuple):
    """A parser learnt across bitext.

    Attributes
    ----------
    parser : estimator
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
    source: Sequence[ParsedSentence],
    target: Sequence[ParsedSentence],
    links: Links,
    *,
    share: float | Sequence[float] = (0.6, 0.7, 0.8, 0.9),
    unaligned_children: float | None = None,
    labelled: Sequence[ParsedSentence] = (),
    roots: bool = True,
    name: str = "links",
    random_state: int | np.random.Generator | None = 0,
) -> Transfer:
    """Train a parser on target sentences whose trees conserve arcs of the source trees ([Ganchev2010] §7).

    The arc between two target words is conserved if source words linked with them stand in an arc. Trees of the target
    sentences are hidden; in expectation they have at least a share of the conserved arcs of their sentence. Sentences
    that no such tree fits, as conserved arcs cross, are trained on without the constraint if the parser has
    ``infeasible="skip"``, and are an error else.

    Use when the target language has no treebank, but text aligned with a language that has a parser.

    Parameters
    ----------
    parser : EdgeFactoredParser or DependencyModel
        Its settings; it is trained in place. Its ``constraints`` hold, too.
    source : sequence of ParsedSentence
        With heads, those of a parser as a rule.
    target : sequence of ParsedSentence
        With tags; heads, if there are any, are not looked at.
    links : Links
        Between words of the source and of the target; mostly those that `spectrem.data.one_to_one` keeps.
    share : float, or sequence of float
        The share, in (0, 1]; of several the one is taken with which a parser learnt on half of the sentences conserves
        most arcs of the other half, as [Ganchev2010] chose it.
    unaligned_children : float, optional
        The most children, in expectation, of a word without a link; by default any number.
    labelled : sequence of ParsedSentence
        Sentences with trees that are trained on, too, such as those of the source language without their forms.
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
        If sentences and links do not fit each other, naming the line, source sentences have no heads, or no arc at all
        is conserved.
    InfeasibleConstraintError
        If no tree of some sentence meets the constraints, unless the parser skips them.
    """
    missing = [n for n, sentence in enumerate(source) if sentence.heads is None or (sentence.heads < -1).any()]
    if missing:
        raise InvalidInputError(
            f"source must have the head of every word, but sentence {missing[0] + 1} lacks some; parse it first"
        )
    heads = [sentence.heads for sentence in source]
    lengths = [len(sentence.forms) for sentence in target]
    conserved = conserved_arcs(heads, links, lengths, name=name, roots=roots)  # type: ignore[arg-type]
    if not any(arcs.any() for arcs in conserved):
        raise InvalidInputError(
            f"no arc of the source trees is conserved by {name}; give the alignment of these sentences, source first"
        )
    aligned = aligned_words(links, lengths)
    hidden = [sentence._replace(heads=None, relations=None) for sentence in target]
    known = list(parser.constraints or ())
    more = [] if unaligned_children is None else [few_children(unaligned_children)]

    def fit(model: Any, wanted: float, numbers: Sequence[int]) -> Any:
        model.set_params(constraints=[*known, conservation(wanted), *more])
        columns = {
            CONSERVED: [*(conserved[n] for n in numbers), *(np.zeros((len(s.forms),) * 2, bool) for s in labelled)],
            ALIGNED: [*(aligned[n] for n in numbers), *(np.ones(len(s.forms), bool) for s in labelled)],
        }
        return model.fit([*(hidden[n] for n in numbers), *labelled], columns=columns)

    def fit_copy(wanted: float, numbers: Sequence[int]) -> Any:
        return fit(type(parser)(**parser.get_params(deep=False)), wanted, numbers)

    trials: list[Trial] = []
    shares = [share] if isinstance(share, int | float) else list(share)
    chosen = shares[0] if len(shares) == 1 else None
    if chosen is None:
        chosen, trials = choose_share(fit_copy, hidden, conserved, shares, random_state=random_state)
    return Transfer(fit(parser, chosen, range(len(hidden))), chosen, conserved, trials)
