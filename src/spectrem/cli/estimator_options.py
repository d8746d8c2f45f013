"""Options of a command made from the parameters that an estimator declares."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import typer

from spectrem.estimators.declare import Parameter, meanings, parameters_of

Settings: TypeAlias = Mapping[str, Any]
"""Parameters of an estimator that were given on the command line, by name."""


def takes(
    record: type | None = None,
    leave: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
    beside: type | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of an estimator: its parameter ``settings`` becomes one option for each.

    A parameter whose type is a data class of options and arguments, such as `spectrem.cli.annealing.Annealing`, becomes
    one for each of its fields.

    Parameters
    ----------
    record : type, optional
        The data class with the declarations; none for commands that have no estimator.
    leave : collection of str
        Parameters that this command has no option for.
    defaults : mapping of name -> value
        Defaults of this command, where they are not those of the estimator; ``...`` for options that must be given.
    only : collection of str, optional
        The parameters that this command has options for, where they are few.
    beside : type, optional
        The declarations of a second estimator that the command may train: those of its parameters which the first does
        not have become options, too.

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
    here, records = defaults or {}, [one for one in (beside, record) if one is not None]
    known = {name: declared for one in records[::-1] for name, declared in parameters_of(one).items()}
    known |= {} if record is None else parameters_of(record)
    flags = {name: _flag(name, declared) for name, (_, declared) in known.items() if declared.option is not None}
    said = {name: _plain(text, flags) for one in records for name, text in meanings(one).items()}
    options = {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=... if here.get(name) is ... else None,
            annotation=_annotation(flag, here.get(name, known[name][0]), known[name][1], said.get(name, "")),
        )
        for name, flag in flags.items()
        if name not in leave and (only is None or name in only)
    }

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        groups: dict[str, Any] = {name: p.annotation for name, p in own.items() if is_dataclass(p.annotation)}

        @wraps(command)
        def call(**values: Any) -> None:
            given = {name: values.pop(name, None) for name in options}
            settings = {name: value for name, value in given.items() if value is not None}
            for name, value in settings.items():
                settings[name] = _read(flags[name], known[name][1], value)
            for name, group in groups.items():
                values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
            command(**values, **({} if record is None else {"settings": {**here, **settings}}))

        merged: list[inspect.Parameter] = []
        for name, parameter in own.items():
            if name == "settings":
                merged += options.values()
            elif name in groups:
                merged += _options_of(groups[name])
            else:
                merged.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        call.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in merged}
        return call

    return with_options


def _read(flag: str, declared: Parameter, value: Any) -> Any:
    """The value of a parameter from what was given; an error that names the option if it breaks the rule."""
    if declared.several:
        value = ",".join(value)
    if declared.convert not in (int, float, str, bool) and declared.convert is not None:
        value = declared.convert(value)
    declared.check(flag, value)
    return value


def _options_of(group: Any) -> list[inspect.Parameter]:
    """The fields of a data class as options and arguments of a command."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


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
    return _flag(name, parameters_of(record)[name][1])


def _flag(name: str, declared: Parameter) -> str:
    return declared.option or f"--{name.replace('_', '-')}"


def _annotation(flag: str, default: Any, declared: Parameter, meaning: str) -> Any:
    plain = declared.convert if declared.convert in (int, float, bool) else str
    kind: Any = Literal.__getitem__(declared.choices) if declared.choices else plain
    numeric = plain in (int, float)
    if declared.several:
        kind = list[kind]
    return Annotated[
        kind | None,
        typer.Option(
            f"{flag}/--no-{flag[2:]}" if declared.convert is bool else flag,
            *filter(None, [declared.short]),
            metavar=declared.metavar or {int: "N", float: "X"}.get(plain),
            help=declared.help or meaning,
            min=declared.least if numeric and math.isfinite(declared.least) else None,
            max=declared.most if numeric and math.isfinite(declared.most) else None,
            show_default=False if default in (None, MISSING, ..., ()) else _shown(default, flag[2:]),
            rich_help_panel=declared.group or None,
        ),
    ]


def _shown(default: Any, name: str) -> str:
    return str(default) if not isinstance(default, bool) else name if default else f"no-{name}"


def _plain(meaning: str, flags: Mapping[str, str]) -> str:
    """An entry of a docstring as one paragraph without marks, in which parameters are called as their options are."""
    text = " ".join(line.strip() for line in meaning.splitlines()[1:])
    text = re.sub(r"``(\w+)``", lambda found: flags.get(found[1], found[1]), text)
    return re.sub(r"\[(\w+\d{4})\]_?", r"\1", text.replace("`", ""))
