"""The parameters of RelationExtractor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from spectrem.estimators.declare import given, number, rule, switch
from spectrem.estimators.shared_parameters import (
    MODEL,
    TRAINING,
    CorpusParameters,
    Decode,
    SentenceParameters,
    VocabularyParameters,
    WeightParameters,
    check_constraints,
    decoding,
)
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from spectrem.constraints.text import Constraints

_TEXT = rule("be a text that is not empty", lambda value: isinstance(value, str) and value)


def _check_type_features(extractor: ExtractionParameters) -> None:
    """Refuse ``relation_features`` without ``type_features``."""
    if extractor.relation_features and not extractor.type_features:
        raise InvalidInputError(
            "relation_features must be False without type_features, got True; set type_features=True, on which they "
            "build"
        )


def _check_names(name: str, value: Any) -> None:
    listed = [] if isinstance(value, str) else list(value)
    if not listed or len(set(listed)) < len(listed) or not all(isinstance(one, str) and one for one in listed):
        raise InvalidInputError(f"{name} must list different names, one or more, got {quoted(value)}")


@dataclass(eq=False, repr=False)
class ExtractionParameters(SentenceParameters, VocabularyParameters, WeightParameters, CorpusParameters):
    """The parameters of a `spectrem.RelationExtractor`.

    Parameters
    ----------
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        In the language of `spectrem.E` over the columns sentence, kind ("mention" or "pair"), labelled and those given
        to `fit`; of mentions also mention (its number in the sentence), type and text; of pairs also pair, relation,
        first and second (the numbers of its mentions). See `spectrem.constraints.argument_types`. Constraints
        ``.per("sentence", ...)`` leave labelled sentences alone; in all others these count as given.
    types, relations : sequence of str, optional
        Types of mentions, and relations, that there are; by default those of the training sentences.
    no_relation : str
        What constraints call the relation of a pair that has none.
    type_features : bool
        Whether pairs are also described by probable types of their mentions, which a classifier of mentions gives that
        is trained first (for labelled sentences, on four fifths of the others).
    relation_features : bool
        Whether pairs are also described by probable relations of other pairs of their sentence, which a first
        classifier of pairs gives (for labelled sentences, one trained on four fifths of the others): what the same
        mentions are to each other the other way round, and whether an argument has a better partner. It needs
        ``type_features``, and six more trainings on labelled pairs.
    count_margin : float, optional
        Every relation must, over all training sentences, have its share of the labelled pairs, in expectation, give or
        take this much of it: 0.2 is [Samdani2012] §5. Relations without a labelled pair are free. By default all are.
    relation_bonus : float, optional
        Nats that the score of every relation gains beside that of none in `predict`. The most probable labels leave
        relations out that are less probable than none each, however many they are. By default 0 or, with
        ``relation_features``, what F1 asks for: with an F1 of F, predicting a relation pays from the probability F/2
        on, and F is estimated on labelled sentences by classifiers that were not trained on them.
    project_at_predict : bool
        Whether new sentences meet the constraints, too. They meet those inside sentences, for "viterbi" by an integer
        program for each sentence, for "posterior" in expectation at the last gamma; others speak of the training
        sentences only.
    """

    constraints: Constraints = given((), check_constraints)
    _: KW_ONLY
    types: Sequence[str] | None = given(None, _check_names)
    relations: Sequence[str] | None = given(None, _check_names)
    no_relation: str = given("none", _TEXT, convert=str, option="", group=MODEL, metavar="NAME")
    type_features: bool = switch(True, option="", group=MODEL)
    relation_features: bool = switch(False, option="", group=MODEL, beside=_check_type_features)
    count_margin: float | None = number(None, 0.0, 1.0, group=TRAINING)
    relation_bonus: float | None = number(None, -math.inf, option="", group=MODEL, metavar="NATS")
    decode: Decode = decoding("viterbi", former={"best": "viterbi"})
    project_at_predict: bool = switch(True, option=None)
