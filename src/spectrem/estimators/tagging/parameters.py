"""The parameters of HMMTagger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from spectrem.estimators.declare import count, given, number, rule
from spectrem.estimators.shared_parameters import (
    MODEL,
    TRAINING,
    CorpusParameters,
    Decode,
    SentenceParameters,
    StartingParameters,
    VocabularyParameters,
    check_amounts,
    decoding,
    prior_of,
    smoothing_of,
)
from spectrem.exceptions import InvalidInputError, quoted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from spectrem.data import Vocabulary
    from spectrem.estimators.sentences import Tag, Word
    from spectrem.estimators.tagging.hmm_tagger import HMMTagger
    from spectrem.models.priors import Prior
    from spectrem.models.tagging import HMMParameters

TABLES = ("initial", "transition", "emission")
"""Tables that have pseudo-counts and priors of their own."""

STARTS = ("uniform", "posterior-uniform", "random", "unambiguous", "supervised")
_MOST_CELLS = 1 << 28  # of the largest table of transitions: 2 GiB, of which training holds several


_is_order = rule("be 1 or 2", lambda order: not isinstance(order, bool) and order in (1, 2), "; 2 is a trigram tagger")
_is_dictionary = rule(
    "map words to their tags",
    lambda value: isinstance(value, Mapping),
    "; read such a mapping with read_tag_dictionary",
)
_is_vocabulary = rule("be a sequence of words", lambda words: not isinstance(words, str), "; put it in a list")
_is_spelling = rule("be the spelling of the unknown word", lambda word: isinstance(word, str) and word, "; try '<unk>'")


def check_size(n_states: int, order: int, names: tuple[str, str] = ("n_states", "order")) -> None:
    """Refuse so many tags that the table of transitions, ``n_states ** (order + 1)`` probabilities, cannot be held.

    Parameters
    ----------
    n_states, order : int
    names : tuple of str
        How the message calls both.

    Raises
    ------
    InvalidInputError

    Examples
    --------
    >>> check_size(472, 2)
    """
    cells = n_states ** (order + 1)
    if cells > _MOST_CELLS:
        most = int(_MOST_CELLS ** (1 / (order + 1)))
        raise InvalidInputError(
            f"{names[0]} {n_states} with {names[1]} {order} needs a table of {cells:.3g} transition probabilities; "
            f"give {most} tags or fewer" + (f", or {names[1]} 1" if order == 2 else "")
        )


def _check_positive(name: str, value: Any) -> None:
    """Pseudo-counts above 0: a number, or one per table."""
    check_amounts(TABLES, name, value)
    amounts = [value.get(table, 0.0) for table in TABLES] if isinstance(value, Mapping) else [value]
    if not min(amounts) > 0:
        raise InvalidInputError(
            f"{name} must be positive for every table, got {value!r}; what the counts lack would be impossible"
        )


def _check_fitted(name: str, value: Any) -> None:
    if hasattr(value, "get_params") and not hasattr(value, "params_"):
        raise InvalidInputError(
            f"{name} must be a fitted tagger, got one that is not fitted (scikit-learn's clone makes such ones); fit "
            "it, or give its params_ and its vocabulary"
        )


def _check_start(name: str, value: Any) -> None:
    if isinstance(value, str) and value in STARTS:
        return
    _check_fitted(name, value)
    from spectrem.models.tagging import HMMParameters

    if not hasattr(value, "params_") and not isinstance(value, HMMParameters):
        raise InvalidInputError(
            f"{name} must be one of {', '.join(STARTS)}, HMMParameters or a fitted HMMTagger, got {quoted(value)}"
        )


@dataclass(eq=False, repr=False)
class TaggerParameters(SentenceParameters, VocabularyParameters, CorpusParameters, StartingParameters):
    """The parameters of `spectrem.HMMTagger`.

    Parameters
    ----------
    order : {1, 2}
        How many tags before it a tag depends on.
    n_states : int, optional
        Number of tags to find, where neither a dictionary nor labels name them; they are then ``0 ... n_states - 1``.
    tags : sequence of str or int, optional
        By default all in the dictionary and in ``y``, sorted.
    dictionary : mapping of word -> collection of tags, optional
        The tags that words may have. Other words may have those that the entry of ``unknown`` lists (open classes), or
        any.
    vocabulary : sequence of words, optional
        By default the words that occur ``min_count`` times. All others become ``unknown``.
    constraints : constraint or its text, or a sequence of these or mapping of names to them
        Constraints in the language of `spectrem.E` over the columns sentence, token, occurrence, word and label, or tag
        (as text if they are); see `spectrem.constraints` for shortcuts such as `at_least`. Sentences labelled
        throughout are left alone by constraints inside sentences.
    reference : fitted HMMTagger, HMMParameters or list of arrays of shape (tokens, n_states), optional
        At gamma > 1, posteriors are drawn to this model's, or to these, instead of the uniform ones: skewed annealing.
    init : {"uniform", "posterior-uniform", "random", "unambiguous", "supervised"}, HMMParameters or HMMTagger, optional
        Where to start: "uniform" tables; those of posteriors uniform over the tags of each token; those of counts
        1 + X U(0, 1); those of neighbours with a single tag; those of sentences with a label on every token; or given
        ones. By default "supervised" if there are such sentences, else "unambiguous" if there are tokens with a single
        tag, else "random".
    perturbation : float, optional
        X: entries of the start are multiplied by factors from [1, 1 + X). By default 0.01 for "uniform", 1 for
        "random", 0 for "posterior-uniform"; the other starts have none.
    init_smoothing : float or mapping of {"initial", "transition", "emission"} -> float, optional
        Pseudo-counts of the starts "unambiguous" (by default 1) and "supervised" (0.1); positive.
    smoothing : float or mapping of {"initial", "transition", "emission"} -> float
        Added to every expected count. Impossible events get none.
    prior : Prior or mapping of {"initial", "transition", "emission"} -> Prior, optional
        A prior in place of smoothing, such as `spectrem.models.priors.MeanFieldPrior` for variational Bayes.
    transition_mask : mapping of tag -> tags that may follow, or boolean array, optional
        Other transitions stay impossible. Arrays are [from, to]; tags that a mapping leaves out may be followed by any.
    fixed : mapping of {"initial", "transition", "second", "emission"} -> array or mapping, optional
        Probabilities that training keeps: arrays with NaN where free (emission: tags by words of the vocabulary), or
        mappings such as ``{"transition": {("DT", "VB"): 0.0}, "emission": {("DT", "the"): 0.6}}``.
    unknown : str
        The word that stands for rare and unseen ones, if training met any (or ``vocabulary`` has it); the dictionary
        still goes by the spelling of rare ones. Without it unseen words say nothing about their tags, and `score`
        counts them as one more word.
    """

    order: int = given(
        1, _is_order, convert=int, option="", least=1, most=2, group=MODEL,
        beside=lambda tagger: check_size(tagger.n_states or 1, tagger.order),
    )  # fmt: skip
    _: KW_ONLY
    n_states: int | None = count(None, group=MODEL)
    tags: Sequence[Tag] | None = given(None)
    dictionary: Mapping[Any, Any] | None = given(None, _is_dictionary)
    vocabulary: Sequence[Word] | Vocabulary | None = given(None, _is_vocabulary)
    reference: HMMTagger | HMMParameters | Sequence[ArrayLike] | None = given(None, _check_fitted)
    init: str | HMMParameters | HMMTagger | None = given(
        None,
        _check_start,
        convert=str,
        choices=STARTS,
        option="",
        group=TRAINING,
        metavar="NAME",
        help="Where to start. uniform. posterior-uniform: all tags that a word may have are equally likely. "
        "unambiguous: from neighbours with a single tag. supervised: from the sentences of --labelled. random: counts "
        "drawn by --random-state. By default supervised, unambiguous or random, the first for which there is "
        "something to count.",
    )
    perturbation: float | None = number(None, group=TRAINING)
    init_smoothing: float | Mapping[str, float] | None = given(
        None, _check_positive, convert=float, option="", group=TRAINING, metavar="COUNT"
    )
    smoothing: float | Mapping[str, float] = smoothing_of(TABLES, group=MODEL)
    prior: Prior | Mapping[str, Prior] | None = prior_of(TABLES)
    transition_mask: Mapping[Tag, Sequence[Tag]] | ArrayLike | None = given(None)
    fixed: Mapping[str, Any] | None = given(None)
    unknown: str = given("<unk>", _is_spelling, convert=str, option="", group=MODEL, metavar="WORD")
    decode: Decode = decoding("posterior")
