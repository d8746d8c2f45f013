"""Arguments and options of commands, from data classes: those of a command and those that an estimator declares."""

from __future__ import annotations

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, field, fields, is_dataclass
from functools import partial, wraps
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import typer
from typer.core import TyperCommand

from spectrem.cli.ending import STANDARD_OUTPUT
from spectrem.estimators.declare import Parameter, entries_of, meanings, parameters_of

Settings: TypeAlias = Mapping[str, Any]
"""Parameters of an estimator that were given on the command line, by name."""

Given: TypeAlias = Mapping[str, str]
"""Arguments and options that were given, by name, as text: ``"--gamma"`` gives ``"--gamma 0.5"``.

It also holds every option with its value, ``"--gamma 0.5"``, and options that may be repeated with each of theirs.
"""

OF_MODEL = "that of the model"
"""The default of options of commands that load a model."""

_SHOWN, _READS, _WRITES, _HELP_ALL = "spectrem", "reads", "writes", "help_all"


def argument(metavar: str, default: Any = ..., *, reads: bool = True) -> Any:
    """Declare an argument of a command: a field of a data class whose docstring, section Parameters, explains it.

    What the docstring of a data class says of a field of its base stands behind what the base says of it.

    Parameters
    ----------
    metavar : str
        Its name in help and messages.
    default : object
        ``...`` for an argument that must be given.
    reads : bool
        Whether it names a file that the command reads.
    """
    return _declared(default, reads, False, partial(typer.Argument, metavar=metavar, show_default=default is not None))


def option(
    default: Any, *names: str, group: str | None = None, reads: bool = False, writes: bool = False, **shown: Any
) -> Any:
    """Declare an option of a command, likewise.

    Parameters
    ----------
    default : object
        ``...`` for an option that must be given.
    *names : str
        Its names on the command line, by default that of the field.
    group : str, optional
        The heading of ``--help`` that it stands under.
    reads, writes : bool
        Whether it names a file that the command reads, or writes.
    **shown
        Further arguments of `typer.Option`.
    """
    if default is None:
        shown.setdefault("show_default", False)
    return _declared(default, reads, writes, partial(typer.Option, *names, rich_help_panel=group, **shown))


def _declared(default: Any, reads: bool, writes: bool, info: partial[Any]) -> Any:
    metadata = {_SHOWN: info, _READS: reads, _WRITES: writes}
    return field(default=MISSING if default is ... else default, metadata=metadata)


Paths: TypeAlias = dict[str, str | None]
"""Files, by the option or argument that names each."""


def files_of(*records: Any) -> tuple[Paths, Paths]:
    """The files that a command reads, models and arguments first, and those that it writes, if any but standard output.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Options:
    ...     text: str = argument("TEXT")
    ...     load: str = option(..., reads=True)
    >>> files_of(Options("text.txt", "model"))
    ({'TEXT': 'text.txt', '--load': 'model'}, {'standard output': '-'})
    """
    paths: dict[str, Paths] = {_READS: {}, _WRITES: {}}
    for record in records:
        for one in fields(record):
            info = one.metadata[_SHOWN]
            name = info.keywords["metavar"] if info.func is typer.Argument else [*info.args, _flag(one.name)][0]
            for role in [role for role in paths if one.metadata[role]]:
                paths[role][name] = getattr(record, one.name)
    others_last = sorted(paths[_READS].items(), key=lambda item: item[0][:1] == "-" and item[0] != "--load")
    return dict(others_last), paths[_WRITES] or {STANDARD_OUTPUT: "-"}


def takes(
    record: type | None = None,
    leave: Collection[str] = (),
    defaults: Mapping[str, Any] = {},
    only: Collection[str] | None = None,
    beside: Mapping[type, str] = {},
    shown: Collection[str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function whose parameters are data classes of arguments and options: one for each field.

    A parameter ``settings`` becomes one option for each parameter of an estimator; a parameter ``given`` is `Given`.

    Parameters
    ----------
    record : type, optional
        The data class with the declarations of the estimator; none for commands that have no estimator.
    leave : collection of str
        Parameters, and fields of its data classes, that this command has no option for.
    defaults : mapping of name -> value
        Defaults of this command, where they are not those of the estimator; ``...`` for options that must be given.
    only : collection of str, optional
        The parameters that this command has options for, where they are few.
    beside : mapping of type -> str
        The declarations of other estimators that the command may train, and the option that asks for each: those of
        their parameters which the ones before do not have become options, too. Help shows their defaults that differ.
    shown : collection of str, optional
        Of a `Command` of many options: the fields and parameters that ``--help`` shows, each by half a sentence of
        what it means. The others stand in ``--help-all``, which explains every one in full. All if left out.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from spectrem.estimators.declare import count
    >>> @dataclass
    ... class Parameters:
    ...     max_iter: int = count(100)
    >>> @takes(Parameters)
    ... def fit(settings: Settings, given: Given) -> None:
    ...     print(dict(settings), list(given))
    >>> list(inspect.signature(fit).parameters)
    ['max_iter']
    >>> fit(max_iter=3)
    {'max_iter': 3} ['--max-iter', '--max-iter 3']
    """
    records = [*([] if record is None else [record]), *beside][::-1]
    declarations: dict[str, tuple[Any, Parameter]] = {}
    for one in records[::-1]:
        declarations |= {name: declared for name, declared in parameters_of(one).items() if name not in declarations}
    flags = {name: _flag(name, declared) for name, (_, declared) in declarations.items() if declared.option is not None}
    texts = {name: _plain(text, flags) for one in records for name, text in meanings(one).items()}

    def default_of(name: str) -> str | bool:
        """The default that help shows, or False for none."""
        default = defaults.get(name, declarations[name][0])
        if default in (None, MISSING, ..., ()):
            return False
        others = [(parameters_of(one)[name][0], flag) for one, flag in beside.items() if name in parameters_of(one)]
        others = [] if name in defaults else [(other, flag) for other, flag in others if other != default]
        return "; with ".join([_shown(default, flags[name]), *(f"{flag} {other}" for other, flag in others)])

    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=... if defaults.get(name) is ... else None,
            annotation=_annotation(flags[name], default_of(name), declared, texts.get(name, "")),
        )
        for name, (_, declared) in declarations.items()
        if name in flags and name not in leave and (only is None or name in only)
    ]

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        types = {name: p.annotation for name, p in inspect.signature(command, eval_str=True).parameters.items()}
        groups = {name: _fields_of(kind, leave) if is_dataclass(kind) else [] for name, kind in types.items()}
        merged = [one for name in types for one in (options if name == "settings" else groups[name])]
        if any(one.name == "load" and one.default is inspect.Parameter.empty for one in merged):
            for info in [one.annotation.__metadata__[0] for one in options if one in merged]:
                info.show_default = info.show_default and OF_MODEL
        hidden = [] if shown is None else [_help_all(sum(one.name not in shown for one in merged))]
        offered = [*merged, *hidden]

        @wraps(command)
        def call(**values: Any) -> None:
            settings = {one.name: value for one in options if (value := values.get(one.name)) is not None}
            for name, value in settings.items():
                settings[name] = _read(flags[name], declarations[name][1], value)
            arguments: dict[str, Any] = {
                name: types[name](**{one.name: values[one.name] for one in group})
                for name, group in groups.items()
                if group
            }
            if "settings" in types:
                arguments["settings"] = {**defaults, **settings}
            if "given" in types:
                values |= settings
                arguments["given"] = dict(pair for one in merged for pair in _given(one, values[one.name]))
            command(**arguments)

        call.__signature__ = inspect.Signature(offered)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in offered}
        setattr(call, _SHOWN, None if shown is None else {*shown, _HELP_ALL})
        return call

    return with_options


def _fields_of(record: Any, leave: Collection[str]) -> list[inspect.Parameter]:
    """The fields of a data class as arguments and options of a command."""
    hints, parameters = get_type_hints(record, include_extras=True), []
    help_texts: dict[str, str] = {}
    for name, entry in [pair for base in reversed(record.__mro__) for pair in entries_of(base).items()]:
        help_texts[name] = f"{help_texts.get(name, '')} {_plain(entry, {})}".strip()
    for one in [one for one in fields(record) if one.name not in leave]:
        kind, info = hints[one.name], one.metadata.get(_SHOWN)
        if info is not None:
            names = [_flag(one.name)] if info.func is typer.Option and not info.args else []
            kind = Annotated[kind, info(*names, help=help_texts.get(one.name, ""))]
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        parameters.append(inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    return parameters


def _help_all(n_hidden: int) -> inspect.Parameter:
    """The option that shows the help of all options."""

    def show_all(context: typer.Context, wanted: bool) -> None:
        if wanted:
            context.meta[_SHOWN] = True
            typer.echo(context.get_help())
            raise typer.Exit

    info = typer.Option(
        "--help-all",
        is_eager=True,
        callback=show_all,
        rich_help_panel=f"{n_hidden} more options",
        help="Show all options, and explain each in full.",
    )
    kind = Annotated[bool, info]
    return inspect.Parameter(_HELP_ALL, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)


class Command(TyperCommand):
    """A command whose ``--help`` shows what `takes` calls ``shown``, in few words each; ``--help-all`` shows all."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        every, shown = self.params, getattr(self.callback, _SHOWN, None)
        if shown is not None and _SHOWN not in ctx.meta:
            self.params = _briefly([one for one in every if one.name in shown])
        try:
            super().format_help(ctx, formatter)
        finally:
            self.params = every


_SMALL = 5


def _briefly(parameters: Sequence[Any]) -> list[Any]:
    """Copies of arguments and options that are explained by half a sentence, without ranges and defaults.

    Headings of fewer than five options are left out: these stand under "Options".
    """
    sizes = Counter(getattr(one, "rich_help_panel", None) for one in parameters)
    brief = [copy(one) for one in parameters]
    for one in brief:
        begin = re.match(r"(\S+ ){2,}?\S+?(?=[.:;] | \()", f"{one.help} ")
        one.help = f"{begin[0]}." if begin else one.help
        one.min = one.max = None
        one.metavar = one.metavar and one.metavar.partition(" [")[0]
        one.show_default, one.secondary_opts = False, []
        if getattr(one, "is_flag", False):
            one.metavar = ""
        if sizes[one.rich_help_panel] < _SMALL and one.name != _HELP_ALL:
            one.rich_help_panel = None
    return brief


def _given(parameter: inspect.Parameter, value: Any) -> Iterator[tuple[str, str]]:
    """The entries of `Given` for an argument or option with this value; none if it has its default."""
    if value is None or value == parameter.default:
        return
    info = parameter.annotation.__metadata__[0]
    # `typer.Option("--name")` keeps its first argument as the default until Typer reads the annotation
    name = info.default.partition("/")[0] if isinstance(info.default, str) else info.metavar
    texts = [
        f"{name} {one:g}" if isinstance(one, float) else f"{name} {one}"
        for one in (value if isinstance(value, list | tuple) else [value])
    ]
    if isinstance(value, bool):
        texts = [name if value else f"--no-{name[2:]}"]
    for text in reversed(texts):
        yield name, text
        yield text, text


def _read(flag: str, declared: Parameter, value: Any) -> Any:
    """The value of a parameter from what was given; an error that names the option if it breaks the rule."""
    if declared.several:
        value = ",".join(value)
    if declared.convert not in (int, float, str, bool) and declared.convert is not None:
        value = declared.convert(value)
    declared.check(flag, value)
    return value


def option_of(record: type, name: str) -> str:
    """The name on the command line of a parameter.

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


def _flag(name: str, declared: Parameter | None = None) -> str:
    return (declared and declared.option) or f"--{name.replace('_', '-')}"


def _annotation(flag: str, default: str | bool, declared: Parameter, meaning: str) -> Any:
    plain = declared.convert if declared.convert in (int, float, bool) else str
    kind: Any = Literal.__getitem__(declared.choices) if declared.choices else plain
    metavar = declared.metavar or {int: "N", float: "X"}.get(plain)
    if declared.several:
        kind = list[kind]
    return Annotated[
        kind | None,
        typer.Option(
            f"{flag}/--no-{flag[2:]}" if declared.convert is bool else flag,
            *filter(None, [declared.short]),
            metavar=metavar and metavar + (_range(declared) if plain in (int, float) else ""),
            help=declared.help or meaning,
            show_default=default,
            rich_help_panel=declared.group or None,
        ),
    ]


def _range(declared: Parameter) -> str:
    """The range of a number, such as `` [x>0]``, as help shows it behind the metavar; the declaration checks it."""
    sign = "<" if declared.open else "<="
    least, most = (repr(int(end) if end.is_integer() else end) for end in map(float, (declared.least, declared.most)))
    if math.isfinite(declared.most):
        return f" [{least}{sign}x{sign}{most}]"
    return f" [x{sign.replace('<', '>')}{least}]" if math.isfinite(declared.least) else ""


def _shown(default: Any, flag: str) -> str:
    return str(default) if not isinstance(default, bool) else flag[2:] if default else f"no-{flag[2:]}"


def _plain(meaning: str, flags: Mapping[str, str]) -> str:
    """An entry of a docstring as one paragraph without marks, in which parameters are called as their options are."""
    text = " ".join(line.strip() for line in meaning.splitlines()[1:])
    text = re.sub(r"``(\w+)``", lambda match: flags.get(match[1], match[1]), text)
    return re.sub(r"\[(\w+\d{4})\]_?", r"\1", text.replace("`", ""))
