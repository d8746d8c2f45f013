"""The parameters of WordAligner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from spectrem.estimators.declare import choice, count, given, number, rule, switch
from spectrem.estimators.shared_parameters import TRAINING, CorpusParameters, as_sequence, check_constraints

if TYPE_CHECKING:
    from spectrem.constraints.text import Constraints

DECODING = "Decoding"
"""A heading of ``--help``."""

Decode: TypeAlias = Literal[
    "posterior",
    "viterbi",
    "forward",
    "backward",
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final",
    "grow-diag-final-and",
]
KINDS = ("numbers", "urls", "punctuation", "words")
"""Kinds of tokens, see ``same``."""

_DECODES: tuple[str, ...] = get_args(Decode)


def rules_of(aligner: AlignerParameters) -> list[Any]:
    """The constraints of a WordAligner; ``"fertility"`` alone has the aligner's own bound."""
    from spectrem.constraints import fertility
    from spectrem.constraints.text import flatten

    bounded = fertility(aligner.max_fertility)
    return flatten(
        [bounded if isinstance(one, str) and one == "fertility" else one for one in as_sequence(aligner.constraints)]
    )


def fused_rules(aligner: AlignerParameters) -> tuple[bool, float] | None:
    """Whether both directions agree, and the largest fertility; None if not all constraints are texts that say so."""
    from spectrem.constraints import Constraint, agreement, fertility

    if not all(isinstance(one, str) for one in as_sequence(aligner.constraints)):
        return None
    agree, most = False, math.inf
    for constraint in rules_of(aligner):
        unnamed = replace(constraint, label=None) if isinstance(constraint, Constraint) else None
        if unnamed == replace(agreement(), label=None):
            agree = True
        elif (
            unnamed is not None
            and unnamed.upper is not None
            and unnamed == replace(fertility(unnamed.upper.constant), label=None)
        ):
            most = min(most, unnamed.upper.constant)
        else:
            return None
    return agree, most


def is_coupled(aligner: AlignerParameters, gamma: float) -> bool:
    """Whether the compiled E-step knows all constraints of an aligner and solves them as it asks."""
    exact = aligner.dual_steps == 0 and bool(as_sequence(aligner.constraints))
    return fused_rules(aligner) is not None and gamma > 0 and aligner.alpha == 1 and not exact


def _is_threshold(value: Any) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return 0 <= float(value) <= 1 if is_number else isinstance(value, str) and value == "auto"


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _kinds_of(text: str) -> tuple[str, ...]:
    return tuple(kind.strip() for kind in text.split(","))


def _are_weights(value: Any) -> bool:
    if not isinstance(value, Mapping) or not all(isinstance(entry, Mapping) for entry in value.values()):
        return False
    weights = [weight for entry in value.values() for weight in entry.values()]
    return all(isinstance(weight, Real) and 0 < float(weight) < math.inf for weight in weights)


_is_kinds = rule(
    f"be some of {', '.join(KINDS)}",
    lambda kinds: not isinstance(kinds, str) and all(kind in KINDS for kind in kinds),
    "; separate several by commas on the command line, leave it out for none",
)
_is_dictionary = rule(
    "map source words to mappings from target words to weights above 0",
    _are_weights,
    "; read such a mapping with read_dictionary",
)


@dataclass(eq=False, repr=False)
class AlignerParameters(CorpusParameters):
    """The parameters of `spectrem.WordAligner`.

    Parameters
    ----------
    model : {"hmm", "ibm2", "ibm1"}
        The last stage. "hmm": where a word's link goes depends on where the last one went; "ibm2": on the word's place
        in the sentence; "ibm1": on nothing. The other two begin with the training of IBM Model 1.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        What posteriors must meet. "agreement": both directions give every link the same probability; "fertility": a
        word has at most ``max_fertility`` links, in expectation; or constraints in the language of `spectrem.E` over
        the columns sentence, direction, source, target and state (the position chosen; NULL is -1), and with a
        ``dictionary`` listed (whether both words of a link are in it together).
    gamma : float
        How soft posteriors are, 0 or greater, or -inf: 1 is EM (posterior regularisation), between 0 and 1 unified EM,
        0 hard EM by linear program (slow), -inf hard EM by integer program (very slow). It is that of the last stage;
        Model 1, when it comes before another one, uses 1.
    schedule : Schedule, optional
        Several gammas in turn in the last stage, as `spectrem.learning.Anneal` or `Quench`, in place of ``gamma``; or
        `Stepwise`, for all stages: EM whose M-step follows every batch of shards.
    max_iter : int
        Iterations of EM at most, for every gamma. They are those of the last stage, where few are best.
    tol : float
        Relative gain of the objective below which EM stops at a gamma; 0 runs all iterations. It is that of the last
        stage.
    model1_iterations : int
        Iterations of IBM Model 1 as the first stage.
    null_probability : float
        Probability p0 of the link to NULL, between 0 and 1.
    max_jump : int
        Widest jump, in words, with a probability of its own.
    stem_strength : float
        Pseudo-counts that the lexical prior gives word pairs whose stems translate each other; 0 for none.
    cognate_strength : float
        Pseudo-counts that it gives word pairs that look alike, half as many where that is in doubt; 0 for none. With
        both strengths and ``discount`` at 0, training is by maximum likelihood.
    discount : float
        How much of what a single sentence pair says of a word pair the last M-step leaves out, in [0, 1]: of an
        expected count c, ``discount * min(c, 1)`` (`spectrem.models.alignment.LeftOutPrior`). At 1 no sentence pair of
        the training text confirms its own links. For a model of other texts, and for `update`, 0 is best: there word
        pairs that were seen once are evidence. At 0 the last M-step is as the others.
    dictionary : mapping of source word -> mapping of target word -> weight, optional
        Words that translate each other; `spectrem.data.read_dictionary` reads such a mapping. Pairs that never occur in
        one sentence pair, or that ``max_chance`` leaves out, have no effect.
    dictionary_strength : float
        Pseudo-counts of a pair in ``dictionary`` of weight 1, in both translation tables.
    same : sequence of str
        Kinds of tokens that translate as themselves, as far as both texts have them: "numbers", "urls", "punctuation",
        "words".
    same_strength : float
        Pseudo-counts of pairs of equal tokens of these kinds, in both translation tables.
    update_iterations : int
        Iterations of `update` at most, for every gamma, from where the model is. With more than one words that are new
        and rare are linked worse.
    update_strength : float
        What `update` multiplies the counts of earlier text by: 1 takes it for as much as the new text, 0 keeps only
        the words and where to start.
    max_fertility : float
        Bound of the constraint "fertility", in links per word.
    dual_steps : int
        Fixed gradient steps on the multipliers of the constraints per iteration, what [Samdani2012] ran; 0 solves to
        convergence by the generic solvers, slowly.
    step_size : float
        Size of these steps.
    alpha : float
        Strength of the constraints, in [0, 1] ([Ganchev2010] appendix A).
    decode : {"posterior", "viterbi", "forward", "backward", "intersection", "union", "grow-diag", ...}
        Which structures are predicted. "posterior": links whose mean probability over both directions exceeds
        ``threshold``, or what ``rare_discount`` makes of it for rare words. Or the best alignment of one direction:
        "viterbi" (the same as "forward"), "backward". Or of both merged as by `spectrem.data.symmetrize`:
        "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and".
    project_at_predict : bool
        Whether new sentences meet the constraints, too. Those of the training text meet them, as well, unless it is
        false.
    threshold : float or "auto"
        A probability in [0, 1]: higher gives fewer, surer links. "auto": where the expected F1 is greatest if,
        in (some hundreds of pairs of) the training text, links are right as far as both directions say so
        (`spectrem.metrics.expected_f1_threshold`).
    rare_discount : float
        How much surer links of rare words must be when decoding by posteriors. A link needs a mean probability above
        ``threshold * (1 + rare_discount / c)``, where c is how often the rarer of its two words occurred in training,
        new words left aside: rare words are linked too surely in the text that they were learned from, since every link
        confirms itself. Words for which that product is 1 or more have no links. 0 treats all words alike.
    max_chance : float, optional
        Word pairs that meet in one sentence pair only are no translations where more than ``max_chance`` meetings are
        expected by chance: the product of their tokens over the number of sentence pairs. 0.1 saves a third of the
        memory of a large text, at a small loss; None keeps all pairs.
    max_length : int, optional
        Leave out sentences of more words. A pair with such a side is not trained on, but aligned all the same.
    """

    model: Literal["hmm", "ibm2", "ibm1"] = choice("hmm", "hmm", "ibm2", "ibm1", group=TRAINING, metavar="NAME")
    _: KW_ONLY
    constraints: Constraints = given(("agreement",), check_constraints)
    max_iter: int = count(3, group=TRAINING)
    tol: float = number(0.0, group=TRAINING, metavar="GAIN")
    model1_iterations: int = count(5, 0, group=TRAINING)
    null_probability: float = number(0.1, 0, 1, open=True, hint="; try 0.1", group=TRAINING, metavar="P")
    max_jump: int = count(100, most=1_000_000, group=TRAINING, metavar="WORDS")
    stem_strength: float = number(10.0, group=TRAINING, metavar="COUNT")
    cognate_strength: float = number(5.0, group=TRAINING, metavar="COUNT")
    discount: float = number(0.5, 0, 1, group=TRAINING, metavar="PART")
    dictionary: Mapping[str, Mapping[str, float]] | None = given(None, _is_dictionary)
    dictionary_strength: float = number(10.0, group=TRAINING, metavar="COUNT")
    same: Sequence[str] = given(
        (), _is_kinds, convert=_kinds_of, option="", several=True, group=TRAINING, metavar="KIND,..."
    )
    same_strength: float = number(3.0, group=TRAINING, metavar="COUNT")
    update_iterations: int = count(1, group=TRAINING)
    update_strength: float = number(1.0, group=TRAINING, metavar="FACTOR")
    max_fertility: float = number(1.0, open=True, group=TRAINING, metavar="LINKS")
    dual_steps: int = count(5, 0, group=TRAINING)
    step_size: float = number(1.0, open=True, group=TRAINING)
    alpha: float = number(1.0, 0, 1, group=TRAINING)
    decode: Decode = choice("posterior", *_DECODES, group=DECODING, metavar="WAY")
    project_at_predict: bool = switch(True, group=DECODING)
    threshold: float | Literal["auto"] = given(
        "auto",
        rule('be "auto" or a number in [0, 1]', _is_threshold),
        convert=_number_or_text,
        option="",
        group=DECODING,
        metavar="auto|P",
    )
    rare_discount: float = number(0.5, 0, group=DECODING, metavar="COUNT")
    max_chance: float | None = number(None, 0, open=True, hint="; none keeps all", group=TRAINING, metavar="MEETINGS")
    max_length: int | None = count(None, hint="; None sets no limit", group=TRAINING, metavar="WORDS")
