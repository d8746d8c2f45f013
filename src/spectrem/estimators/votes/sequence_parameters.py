"""The parameters of SequenceLabelModel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from spectrem.estimators.declare import count, given, number
from spectrem.estimators.shared_parameters import MODEL, TRAINING, CorpusParameters, SentenceParameters


def _types_of(text: str) -> list[str]:
    """Types of spans between commas, which are text, as tags are, where they look like numbers, too."""
    return [name.strip() for name in text.split(",")]


@dataclass(eq=False, repr=False)
class SequenceLabelModelParameters(SentenceParameters, CorpusParameters):
    """The parameters of `spectrem.SequenceLabelModel`.

    Parameters
    ----------
    span_types : sequence of str, optional
        All types of spans, such as PER; by default those in votes and labels, sorted, whatever the order of sentences
        and sources. One that is empty stands for the tags B and I without a type. Their order decides ties: EM starts
        from the majority of votes, in which, of tags with equally many, I comes before B, and then the first type; of
        corpora with many ties another order makes another model.
    source_names : sequence of str or int, optional
        Names of the sources, of tables of votes in the order of columns. By default numbers from 0, or all that
        mappings name, sorted.
    precision : float
        The share of the votes of a source that is expected to be right, in (0, 1).
    pseudo_votes : float
        How many votes of each source for each tag this counts,
    pseudo_votes_per_vote : float
        and how many more for every vote that there is.
    word_pseudo_count : float
        How many tokens of a word the shares of tags count.
    transition_pseudo_count : float
        How many transitions from every tag the prior counts, evenly divided among the tags that may follow.
    silence_cost : float
        Nats that a tag but O costs where all sources are silent.
    end_cost : float
        Nats that I costs right behind the span of a source that is silent there.
    max_iter : int
        Iterations of EM, for every gamma; few are best, see Notes.
    tol : float
        Relative gain of the objective below which EM stops at a gamma; 0 runs all iterations.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        In the language of `spectrem.E` over the columns sentence, token, occurrence, tag (or label), previous (the tag
        before), word, silent (whether no source votes on the token), those given to `fit`, and of votes source and
        vote. Sentences with a label on every token are left alone by constraints inside sentences.
    """

    span_types: Sequence[str] | None = given(None, convert=_types_of, option="", group=MODEL, metavar="A,B,C")
    _: KW_ONLY
    source_names: Sequence[Any] | None = given(None)
    precision: float = number(0.85, 0, 1, open=True, group=MODEL)
    pseudo_votes: float = number(10.0, group=MODEL)
    pseudo_votes_per_vote: float = number(3.0, group=MODEL)
    word_pseudo_count: float = number(3.0, open=True, group=MODEL)
    transition_pseudo_count: float = number(1.0, open=True, group=MODEL)
    silence_cost: float = number(5.0, group=MODEL)
    end_cost: float = number(4.0, group=MODEL)
    max_iter: int = count(5, group=TRAINING)
    tol: float = number(0.0, group=TRAINING, metavar="GAIN")
