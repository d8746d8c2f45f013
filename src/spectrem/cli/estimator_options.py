"""Options of a command made from the parameters that an estimator declares."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING
from functools import wraps
from typing import Annotated, Any, Literal, TypeAlias

import typer

from spectrem.estimators.declare import Parameter, meanings, parameters_of

Settings: TypeAlias = Mapping[str, Any]
"""Parameters of an estimator that were given on the command line, by name."""


def takes(
    record: type, leave: Collection[str] = (), defaults: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of an estimator: its parameter ``settings`` becomes one option for each.

    Parameters
    ----------
    record : type
        The data class with the declarations.
    leave : collection of str
        Parameters that this command has no option for.
    defaults : mapping of name -> value
        Of this command, where they are not those of the estimator; ``...`` for options that must be given.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from spectrem.estimators.declare import count
    >>> @dataclass
    ... class Parameters:
    ...     max_iter: int = count(100)
    >>> @takes(Parameters)
    ... def fit(settings: Settings) -> None:
    ...     print(dict(settings))
    >>> list(inspect.signature(fit).parameters)
    ['max_iter']
    >>> fit(max_iter=3)
    {'max_iter': 3}
    """
    said, here = meanings(record), defaults or {}
    options = {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=... if here.get(name) is ... else None,
            annotation=_annotation(name, here.get(name, default), declared, said.get(name, "")),
        )
        for name, (default, declared) in parameters_of(record).items()
        if declared.option is not None and name not in leave
    }

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(**values: Any) -> None:
            given = {name: values.pop(name, None) for name in options}
            settings = {name: value for name, value in given.items() if value is not None}
            command(**values, settings={**here, **settings})

        own = inspect.signature(command, eval_str=True).parameters
        merged: list[inspect.Parameter] = []
        for name, parameter in own.items():
            keyword = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            merged += options.values() if name == "settings" else [keyword]
        call.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in merged}
        return call

    return with_options


def option_of(record: type, name: str) -> str:
    """What a parameter is called on the command line.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from spectrem.estimators.declare import count
    >>> @dataclass
    ... class Parameters:
    ...     max_iter: int = count(100)
    >>> option_of(Parameters, "max_iter")
    '--max-iter'
    """
    return parameters_of(record)[name][1].option or f"--{name.replace('_', '-')}"


def _annotation(name: str, default: Any, declared: Parameter, meaning: str) -> Any:
    kind: Any = Literal.__getitem__(declared.choices) if declared.choices else declared.convert
    flag = declared.option or f"--{name.replace('_', '-')}"
    numeric = declared.convert in (int, float)
    return Annotated[
        kind | None,
        typer.Option(
            f"{flag}/--no-{flag[2:]}" if declared.convert is bool else flag,
            *filter(None, [declared.short]),
            metavar=declared.metavar or {int: "N", float: "X"}.get(declared.convert or str),
            help=declared.help or _plain(meaning),
            min=declared.least if numeric and math.isfinite(declared.least) else None,
            max=declared.most if numeric and math.isfinite(declared.most) else None,
            show_default=False if default in (None, MISSING, ...) else str(default),
            rich_help_panel=declared.group or None,
        ),
    ]


def _plain(meaning: str) -> str:
    """An entry of a docstring as one paragraph without marks."""
    text = " ".join(line.strip() for line in meaning.splitlines()[1:])
    return re.sub(r"\[(\w+\d{4})\]_?", r"\1", text.replace("``", "").replace("`", ""))
