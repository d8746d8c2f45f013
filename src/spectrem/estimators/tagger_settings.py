"""The rules that the parameters of HMMTagger obey."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectrem.estimators.settings_checks import check_amount, check_choice, check_count
from spectrem.estimators.shared_parameters import check_constraints, check_gamma, check_one_gamma, check_schedule
from spectrem.estimators.tagger_tables import TABLES, table_priors
from spectrem.exceptions import InvalidInputError
from spectrem.inference import check_infeasible
from spectrem.models.tagging import HMMParameters

STARTS = ("uniform", "posterior-uniform", "random", "unambiguous", "supervised")
DECODES = ("posterior", "viterbi")
_AT_LEAST = {"min_count": 1, "max_iter": 1, "n_init": 1, "dual_steps": 0, "n_states": 1, "n_threads": 1}
_OR_NONE = ("n_states", "n_threads")
_MOST_CELLS = 1 << 28  # of the largest table of transitions: 2 GiB, of which training holds several


def check_settings(tagger: Any) -> None:
    """Raise `InvalidInputError` for the first parameter of a HMMTagger that breaks its rule."""
    if isinstance(tagger.order, bool) or tagger.order not in (1, 2):
        raise InvalidInputError(f"order must be 1 or 2, got {tagger.order!r}; 1 is a bigram tagger, 2 a trigram tagger")
    for name, least in _AT_LEAST.items():
        if getattr(tagger, name) is not None or name not in _OR_NONE:
            check_count(name, getattr(tagger, name), least)
    check_size(tagger.n_states or 1, tagger.order)
    check_gamma("gamma", tagger.gamma)
    check_schedule("schedule", tagger.schedule)
    check_one_gamma(tagger)
    check_amount("tol", tagger.tol)
    _check_amounts("smoothing", tagger.smoothing)
    if tagger.init_smoothing is not None:
        _check_amounts("init_smoothing", tagger.init_smoothing)
        _check_positive("init_smoothing", tagger.init_smoothing)
    if tagger.perturbation is not None:
        check_amount("perturbation", tagger.perturbation)
    _check_prior(tagger.prior)
    table_priors(tagger.prior, tagger.smoothing)
    _check_collections(tagger)
    for name in ("init", "reference"):
        _check_fitted(name, getattr(tagger, name))
    _check_start(tagger.init)
    check_choice("decode", tagger.decode, DECODES)
    check_infeasible(tagger.infeasible)
    if not isinstance(tagger.unknown, str) or not tagger.unknown:
        raise InvalidInputError(
            f"unknown must be the spelling of the unknown word, got {tagger.unknown!r}; try '<unk>'"
        )


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


def _check_amounts(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        check_amount(name, value)
        return
    for table, amount in value.items():
        if table not in TABLES:
            raise InvalidInputError(f"{name} must name tables among {', '.join(TABLES)}, got {table!r}")
        check_amount(f"{name}[{table!r}]", amount)


def _check_positive(name: str, value: Any) -> None:
    amounts = [value.get(table, 0.0) for table in TABLES] if isinstance(value, Mapping) else [value]
    if not min(amounts) > 0:
        raise InvalidInputError(
            f"{name} must be positive for every table, got {value!r}; what the counts lack would be impossible"
        )


def _check_prior(prior: Any) -> None:
    priors = prior if isinstance(prior, Mapping) else {} if prior is None else {"": prior}
    for table, own in priors.items():
        if table and table not in TABLES:
            raise InvalidInputError(f"prior must name tables among {', '.join(TABLES)}, got {table!r}")
        if not hasattr(own, "normalise"):
            raise InvalidInputError(
                f"prior must be DirichletPrior or MeanFieldPrior, or map tables to them, got {own!r}; for a "
                "pseudo-count use smoothing"
            )


def _check_collections(tagger: Any) -> None:
    check_constraints("constraints", tagger.constraints)
    if tagger.dictionary is not None and not isinstance(tagger.dictionary, Mapping):
        raise InvalidInputError(
            f"dictionary must map words to their tags, got {type(tagger.dictionary).__name__}; read one with "
            "read_tag_dictionary"
        )
    if isinstance(tagger.vocabulary, str):
        raise InvalidInputError(
            f"vocabulary must be a sequence of words, got the string {tagger.vocabulary!r}; put it in a list"
        )


def _check_fitted(name: str, value: Any) -> None:
    if hasattr(value, "get_params") and not hasattr(value, "params_"):
        raise InvalidInputError(
            f"{name} must be a fitted tagger, got one that is not fitted (scikit-learn's clone makes such ones); fit "
            f"it, or "
            "give its params_ and its vocabulary"
        )


def _check_start(init: Any) -> None:
    fitted = isinstance(init, HMMParameters) or hasattr(init, "params_")
    if init is not None and not fitted and (not isinstance(init, str) or init not in STARTS):
        raise InvalidInputError(
            f"init must be one of {', '.join(STARTS)}, HMMParameters or a fitted HMMTagger, got {init!r}"
        )
