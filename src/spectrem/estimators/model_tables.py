"""Pseudo-counts and priors of the tables of a generative model, one for all tables or by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spectrem.estimators.declare import check_number
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from spectrem.models.priors import Prior


def table_smoothing(tables: Sequence[str], smoothing: float | Mapping[str, float]) -> dict[str, float]:
    """Pseudo-counts by table; 0 for those that a mapping leaves out."""
    if isinstance(smoothing, Mapping):
        return {name: float(smoothing.get(name, 0.0)) for name in tables}
    return dict.fromkeys(tables, float(smoothing))


def table_priors(
    tables: Sequence[str], prior: Prior | Mapping[str, Prior] | None, smoothing: float | Mapping[str, float]
) -> list[Prior]:
    """Priors in the order of the tables: those given, and add-lambda smoothing for the others."""
    from spectrem.models.priors import DirichletPrior

    given = prior if isinstance(prior, Mapping) else {} if prior is None else dict.fromkeys(tables, prior)
    return [given.get(name, DirichletPrior(count)) for name, count in table_smoothing(tables, smoothing).items()]


def check_amounts(tables: Sequence[str], name: str, value: Any) -> None:
    """Raise `InvalidInputError` unless ``value`` is a number of at least 0, or one per table."""
    for table, amount in _by_table(tables, name, value):
        check_number(f"{name}[{table!r}]" if table else name, amount)


def check_priors(tables: Sequence[str], name: str, value: Any) -> None:
    """Raise `InvalidInputError` unless ``value`` is a prior, or one per table."""
    for _, own in _by_table(tables, name, value):
        if not hasattr(own, "normalise"):
            raise InvalidInputError(
                f"{name} must be DirichletPrior or MeanFieldPrior, or map tables to them, got {own!r}; for a "
                "pseudo-count use smoothing"
            )


def check_not_both(tables: Sequence[str], prior: Any, smoothing: float | Mapping[str, float]) -> None:
    """Raise `InvalidInputError` if a table has a prior and pseudo-counts, too."""
    counts = table_smoothing(tables, smoothing)
    with_prior = prior if isinstance(prior, Mapping) else () if prior is None else tables
    both = [name for name in with_prior if counts[name] > 0]
    if both:
        raise InvalidInputError(
            f"prior and smoothing must not be given for one table, got both for {both[0]}; smoothing is the prior "
            "DirichletPrior(smoothing)"
        )


def _by_table(tables: Sequence[str], name: str, value: Any) -> list[tuple[str, Any]]:
    found = list(value.items()) if isinstance(value, Mapping) else [("", value)]
    for table, _ in found:
        if table and table not in tables:
            raise InvalidInputError(f"{name} must name tables among {', '.join(tables)}, got {table!r}")
    return found
