"""The parameters of EdgeFactoredParser."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from spectrem.estimators.declare import choice, count, number, switch
from spectrem.estimators.shared_parameters import CROSSING, MODEL, TRAINING, CriterionParameters
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
class ParserParameters(CriterionParameters):
    """The parameters of `spectrem.EdgeFactoredParser`.

    Parameters
    ----------
    projective : bool
        Whether trees have no crossing arcs. Otherwise all trees count, by the matrix-tree theorem.
    single_root : bool
        Whether exactly one word of a sentence hangs on the root, or one or more.
    crossing : {"lift", "skip", "raise"}
        What to do, where trees have no crossing arcs, about sentences to learn from whose known heads fit no such tree.
        "lift": words get the heads of their heads until one fits, unknown ones where these have none, which changes
        some heads in a thousand. "skip": leave the sentence out. "raise": an error.
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
    min_count : int
        Words that occur less often in training are alike.
    C : float
        Variance of the Gaussian prior of weights, above 0: the objective is the log-likelihood less half their squares
        over C.
    relations : bool
        Whether words that are parsed also get the relation to their head, learned from those of the sentences by a
        classifier of arcs. It takes longer than online learning of heads.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        In the language of `spectrem.E` over the columns of arcs, sentence, dependent, head, occurrence, root, direction
        and length, values of both ends, such as head_tag and dependent_tag (also upos, xpos, form), and those given to
        `fit`; see `spectrem.constraints`. Sentences with all heads are left alone by constraints inside sentences.
    gamma : float
        How soft the posteriors of sentences without all heads are, 0 or greater, or -inf: 1 is EM, between 0 and 1
        unified EM, 0 hard (Viterbi) EM, above 1 smoother posteriors.
    unlabelled_weight : float
        How much a sentence counts of which not all heads are known, beside the others. At 0 they are left out.
    m_steps : int, optional
        Of batch learning: steps of L-BFGS at most, in an iteration of EM or where weights climb a ``criterion`` or the
        log-likelihood; by default as many as ``m_tol`` needs, 1000 at most.
    m_tol : float
        Of batch learning: how far below its maximum, relative to its size, the objective of an M-step may end, or that
        which weights climb.
    decode : {"posterior", "viterbi"}
        "posterior": the tree whose arcs have the largest sum of probabilities, in which the expected number of right
        heads is largest; "viterbi": the most probable tree.
    project_at_predict : bool
        Whether new sentences meet the constraints, too; decoding is then that of ``posterior``.
    dual_steps : int
        Steps per iteration on the multipliers of constraints over the corpus, from those of the iteration before; 0
        solves them every time.
    random_state : int
        Of the order of sentences in online learning.
    """

    projective: bool = switch(True, group=MODEL)
    _: KW_ONLY
    single_root: bool = switch(True, group=MODEL)
    crossing: Literal["lift", "skip", "raise"] = choice("lift", *CROSSING, group=TRAINING)
    learner: Literal["online", "batch"] = choice(
        "online", "online", "batch", group=TRAINING, metavar="WAY", beside=_check_learner
    )
    passes: int = count(5, group=TRAINING)
    rate: float = number(0.04, open=True, group=TRAINING)
    batch_size: int = count(16, group=TRAINING)
    bits: int = count(20, most=_LARGEST_TABLE, hint="; 20 makes 2^24 weights", group=MODEL)
    min_count: int = count(2, group=MODEL)
    C: float = number(1.0, open=True, group=MODEL)
    relations: bool = switch(True, group=MODEL)
    unlabelled_weight: float = number(1.0, group=TRAINING)
    m_steps: int | None = count(None, group=TRAINING)
    m_tol: float = number(1e-4, group=TRAINING)
    decode: Literal["posterior", "viterbi"] = choice("posterior", "posterior", "viterbi", group=MODEL, metavar="WAY")
    project_at_predict: bool = switch(False, group=MODEL)
    dual_steps: int = count(8, 0, group=TRAINING)
    random_state: int = count(0, 0, group=TRAINING)
