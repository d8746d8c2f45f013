"""The parameters of CRFTagger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from spectrem.estimators.declare import choice, given, number
from spectrem.estimators.shared_parameters import (
    MODEL,
    CriterionParameters,
    SentenceParameters,
    VocabularyParameters,
    WeightParameters,
)
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from spectrem.estimators.sentences import Tag


def _names_of(text: str) -> tuple[str, ...]:
    """Beginnings of names from the text of a command line."""
    return tuple(filter(None, (one.strip() for one in text.split(","))))


def _check_names(name: str, value: Any) -> None:
    if not all(isinstance(one, str) for one in ([value] if isinstance(value, str) else value)):
        raise InvalidInputError(f"{name} must be beginnings of names of features, got {quoted(value)}; give text")


@dataclass(eq=False, repr=False)
class CRFParameters(SentenceParameters, VocabularyParameters, WeightParameters, CriterionParameters):
    """The parameters of `spectrem.CRFTagger`.

    Parameters
    ----------
    features : {"tokens", "words", "chunking", "words+tags"}
        What tokens are. "tokens": described by features already, each a list of names, or a mapping of names to
        values, as `spectrem.data.FeatureIndex` tells; or the rows of a matrix of numbers. Otherwise words, or pairs of
        a word and a tag, of which the templates of that name make features, see `spectrem.data.token_features`.
    tags : sequence of str or int, optional
        By default all in ``y``, sorted.
    pairs : {"observed", "all"}
        Which pairs of a feature and a tag, and of two neighbouring tags, have a weight: those that ``y`` has together,
        or all. Others are as likely as their remaining features say. Sentences without labels add no pairs, so that
        "all" learns most from them.
    scheme : {"any", "bio", "bioes"}
        Of tags that mark chunks, which sequences there are; others have probability 0, in training and after it.
        "bio": I-NP only right after B-NP or I-NP. "bioes": every chunk is S, or B, any number of I, and E. This takes
        no time, as constraints that name the tag before do. Decoding tag by tag ("posterior") may still put together
        what cannot follow each other.
    edge_features : str or sequence of str
        Beginnings of the names of features, such as "pos[0]=", that transitions depend on, too: such a feature of a
        token has a weight for every pair of its tag and the tag before, besides that for its tag. Training then takes
        time and memory in proportion to the square of the number of tags.
    C : float
        Variance of the Gaussian prior of weights, above 0, as in scikit-learn: the objective is the log-likelihood less
        half their squares over C. (CRFsuite's c2 is 1 / (2 C).) At the default, held-out sentences of most of twelve
        corpora are more probable than at 1 or at 10; where some tags are rare, such as those of names, 10 may find more
        of them. For data of your own, scikit-learn's ``GridSearchCV`` chooses it.
    l1_ratio : float
        From 0 to 1, as in scikit-learn: of the penalty 1 / C, this share is on the sizes of weights, of which many then
        become 0, and the rest on half their squares.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        In the language of `spectrem.E` over the columns sentence, token, occurrence, tag (or label), with templates
        also word, previous (the tag before) and those given to `fit`; see `spectrem.constraints` for shortcuts.
        Sentences labelled throughout are left alone by constraints inside sentences.
    """

    features: Literal["tokens", "words", "chunking", "words+tags"] = choice(
        "tokens", "tokens", "words", "chunking", "words+tags", group=MODEL, metavar="NAME"
    )
    _: KW_ONLY
    tags: Sequence[Tag] | None = given(None)
    pairs: Literal["observed", "all"] = choice("observed", "observed", "all", group=MODEL, metavar="WHICH")
    scheme: Literal["any", "bio", "bioes"] = choice("any", "any", "bio", "bioes", group=MODEL, metavar="NAME")
    edge_features: str | Sequence[str] = given(
        (),
        _check_names,
        convert=_names_of,
        option="",
        several=True,
        group=MODEL,
        metavar="NAMES",
        help="Beginnings of the names of features, with commas between, such as 'w[0]=,pos[0]=', that transitions "
        "depend on, too. Training then takes time and memory in proportion to the square of the number of tags.",
    )
    C: float = number(3.0, open=True, group=MODEL)
    l1_ratio: float = number(0.0, 0.0, 1.0, group=MODEL)
