"""The parameters of EdgeFactoredParser."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from spectrem.estimators.declare import choice, count, number, switch
from spectrem.estimators.shared_parameters import (
    MODEL,
    TRAINING,
    CriterionParameters,
    Decode,
    SentenceParameters,
    TreeParameters,
    VocabularyParameters,
    WeightParameters,
    decoding,
)
from spectrem.exceptions import InvalidInputError, quoted

_LARGEST_TABLE = 27
_OF_BATCH_LEARNING = (("schedule", None), ("criterion", None), ("checkpoint", None), ("corpus", None))


def _check_learner(parser: ParserParameters) -> None:
    """Refuse parameters of batch learning beside ``learner="online"``."""
    if parser.learner == "online":
        for name, default in _OF_BATCH_LEARNING:
            value = getattr(parser, name)
            if value != default:
                raise InvalidInputError(
                    f"{name} must be {default} to learn in small steps, got {quoted(value)}; set learner='batch'"
                )


@dataclass(eq=False, repr=False)
class ParserParameters(TreeParameters, SentenceParameters, VocabularyParameters, WeightParameters, CriterionParameters):
    """The parameters of `spectrem.EdgeFactoredParser`.

    Parameters
    ----------
    projective : bool
        Whether trees have no crossing arcs. Otherwise all trees count, by the matrix-tree theorem.
    learner : {"online", "batch"}
        "online": in small steps, some sentences at a time, the mean of the weights after all steps; one thread.
        "batch": L-BFGS over the whole corpus, and EM around it where heads are missing and there are constraints.
    passes : int
        Of online learning over the sentences.
    rate : float
        Of online learning: by what gradients are multiplied in the first pass, above 0; later it falls.
    batch_size : int
        Sentences of a step of online learning.
    bits : int
        The weights stand in a table of ``2 ** bits`` rows of 16, where a hash finds them; with few rows, more features
        share their weights.
    relations : bool
        Whether words that are parsed also get the relation to their head, learned from those of the sentences by a
        classifier of arcs. It takes longer than online learning of heads.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        In the language of `spectrem.E` over the columns of arcs, sentence, dependent, head, occurrence, root, direction
        and length, values of both ends, such as head_tag and dependent_tag (also upos, xpos, form), and those given to
        `fit`; see `spectrem.constraints`. Sentences with all heads are left alone by constraints inside sentences.
    random_state : int
        The same number gives the same result. It fixes the order of sentences in online learning.
    """

    projective: bool = switch(True, group=MODEL)
    _: KW_ONLY
    learner: Literal["online", "batch"] = choice(
        "online", "online", "batch", group=TRAINING, metavar="WAY", beside=_check_learner
    )
    passes: int = count(5, group=TRAINING)
    rate: float = number(0.04, open=True, group=TRAINING)
    batch_size: int = count(16, group=TRAINING)
    bits: int = count(20, most=_LARGEST_TABLE, hint="; 20 makes 2^24 weights", group=MODEL)
    min_count: int = count(2, group=MODEL)
    relations: bool = switch(True, group=MODEL)
    decode: Decode = decoding("posterior")
    random_state: int = count(0, 0, group=TRAINING)
