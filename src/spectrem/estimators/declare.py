"""How estimators declare a parameter, once: its default, its rule, its name on the command line, its meaning.

Each subpackage of estimators has one file of such declarations: a data class whose fields are made by the functions
here and whose docstring says what every parameter means. The estimator extends it, `documented` puts the meanings into
the estimator's docstring, `check_parameters` holds values against their rules, and the command line makes its options
from them. The file loads neither NumPy nor the estimator, so that ``--help`` stays quick.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial, wraps
from importlib import import_module
from numbers import Integral, Real
from typing import Any, TypeVar

from spectrem.exceptions import InvalidInputError, quoted, warn

UNTIL = "0.3"
"""The version in which former names of parameters, options and their values are gone."""

C = TypeVar("C", bound=type)
_KEY = "spectrem"
_LARGEST = 1e100


@dataclass(frozen=True)
class Parameter:
    """The declaration of a parameter, without its name and default.

    Parameters
    ----------
    check : callable (name, value) -> None
        Raises `InvalidInputError` if the value breaks the rule.
    convert : callable or None
        The function that makes a value of the text of a command line: int, float, str, bool, or a function of the text;
        None for what no text can say.
    choices : tuple of str
        The values there are, if they are few names.
    least, most : float
        Ends of the range of numbers.
    open : bool
        Whether the ends are not in it.
    option : str or None
        Name on the command line, such as ``--order``; "" for the parameter's own, None for parameters that the command
        line does not have.
    several : bool
        Whether the command line takes the option several times; ``convert`` is given the texts with commas between.
    short : str
        A second name there, such as ``-k``.
    group : str
        The heading of ``--help`` that it stands under.
    metavar, help : str
        What ``--help`` shows in place of the name of the type and of the meaning in the docstring, if not "".
    beside : callable (estimator) -> None, or None
        Raises `InvalidInputError` if the parameter does not go with others; called once each keeps its own rule.
    former : str, or mapping of str -> str
        Its name in the version before, if not "", or the names of values then, and those now. See `renewed`.
    """

    check: Callable[[str, Any], None]
    convert: Callable[[Any], Any] | None = None
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    open: bool = False
    option: str | None = ""
    several: bool = False
    short: str = ""
    group: str = ""
    metavar: str = ""
    help: str = ""
    beside: Callable[[Any], None] | None = None
    former: str | Mapping[str, str] = ""


def count(default: int | None, least: int = 1, most: float = math.inf, *, hint: str = "", **shown: Any) -> Any:
    """Declare a parameter that is a whole number from ``least`` to ``most``; None is allowed where it is the default.

    Parameters
    ----------
    default : int or None
    least, most : int
    hint : str
        The end of the error message, from its semicolon on.
    **shown
        ``option``, ``short``, ``group``, ``metavar``, ``help``, ``former`` of `Parameter`.

    Examples
    --------
    >>> @dataclass
    ... class Settings:
    ...     max_iter: int = count(100)
    >>> check_parameters(Settings(max_iter=0))
    Traceback (most recent call last):
    spectrem.exceptions.InvalidInputError: max_iter must be at least 1, got 0
    """

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise InvalidInputError(f"{name} must be an integer, got {quoted(value)}{hint}")
        if value < least:
            raise InvalidInputError(f"{name} must be at least {least}, got {value}{hint}")
        if int(value) > most:
            raise InvalidInputError(f"{name} must be at most {most}, got {value}{hint}")

    return _field(default, check, convert=int, least=least, most=most, **shown)


def number(
    default: float | None,
    least: float = 0.0,
    most: float = math.inf,
    *,
    open: bool = False,
    hint: str = "",
    **shown: Any,
) -> Any:
    """Declare a parameter that is a finite number from ``least`` to ``most``, without the ends if ``open``.

    Examples
    --------
    >>> @dataclass
    ... class Settings:
    ...     null_probability: float = number(0.1, 0, 1, open=True)
    >>> check_parameters(Settings(1.0))
    Traceback (most recent call last):
    spectrem.exceptions.InvalidInputError: null_probability must lie between 0 and 1, got 1.0
    """
    check = partial(check_number, least=least, most=most, open=open, hint=hint)
    return _field(default, check, convert=float, least=least, most=most, open=open, **shown)


def check_number(
    name: str, value: Any, least: float = 0.0, most: float = math.inf, *, open: bool = False, hint: str = ""
) -> None:
    """Raise `InvalidInputError` unless a value is what `number` declares."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInputError(f"{name} must be a number, got {quoted(value)}{hint}")
    size = float(value)
    inside = least < size < most if open else least <= size <= most
    check_size(name, size)
    if math.isfinite(size) and inside:
        return
    if math.isfinite(most):
        rule = f"lie between {least:g} and {most:g}" if open else f"lie in [{least:g}, {most:g}]"
    else:
        rule = f"be finite and {'above' if open else 'at least'} {least:g}"
    raise InvalidInputError(f"{name} must {rule}, got {value}{hint}")


def check_size(name: str, value: float) -> None:
    """Raise `InvalidInputError` for a finite number so large that its square or its sums might not be finite."""
    if _LARGEST < abs(value) < math.inf:
        raise InvalidInputError(f"{name} must be at most {_LARGEST:g} in size, got {value:g}; give a smaller number")


def choice(default: str | None, *choices: str, **shown: Any) -> Any:
    """Declare a parameter that is one of several names; None is allowed where it is the default.

    Examples
    --------
    >>> @dataclass
    ... class Settings:
    ...     decode: str = choice("posterior", "posterior", "viterbi")
    >>> check_parameters(Settings("best"))
    Traceback (most recent call last):
    spectrem.exceptions.InvalidInputError: decode must be one of posterior, viterbi, got 'best'
    """

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in choices:
            raise InvalidInputError(f"{name} must be one of {', '.join(choices)}, got {quoted(value)}")

    return _field(default, check, convert=str, choices=choices, **shown)


def switch(default: bool, **shown: Any) -> Any:
    """Declare a parameter that is true or false.

    Examples
    --------
    >>> @dataclass
    ... class Settings:
    ...     soft_targets: bool = switch(False)
    >>> check_parameters(Settings("no"))
    Traceback (most recent call last):
    spectrem.exceptions.InvalidInputError: soft_targets must be True or False; got 'no'
    """
    return _field(default, partial(_validate, "as_bool"), convert=bool, **shown)


def seed(**shown: Any) -> Any:
    """Declare a parameter that says where random numbers come from: None, a whole number, or a generator."""
    return _field(None, partial(_validate, "as_generator"), convert=int, least=0, **shown)


def given(
    default: Any = dataclasses.MISSING,
    check: Callable[[str, Any], None] | None = None,
    *,
    convert: Callable[[Any], Any] | None = None,
    option: str | None = None,
    **shown: Any,
) -> Any:
    """Declare a parameter with a rule of its own, or with one that the estimator checks beside others.

    Parameters
    ----------
    default : object
        None is allowed where it is the default. Without one, the parameter must be given.
    check : callable (name, value) -> None, optional
    convert, option, **shown
        As in `Parameter`; by default the command line does not have it.

    Examples
    --------
    >>> @dataclass
    ... class Settings:
    ...     dictionary: dict | None = given(None)
    >>> Settings()
    Settings(dictionary=None)
    """
    return _field(default, check or (lambda name, value: None), convert=convert, option=option, **shown)


def rule(text: str, holds: Callable[[Any], object], hint: str = "") -> Callable[[str, Any], None]:
    """A check for `given`: an error says that the value must ``text``, unless ``holds(value)`` is true.

    Examples
    --------
    >>> check = rule("be 1 or 2", lambda value: value in (1, 2), "; 2 is a trigram tagger")
    >>> check("order", 3)
    Traceback (most recent call last):
    spectrem.exceptions.InvalidInputError: order must be 1 or 2, got 3; 2 is a trigram tagger
    """

    def check(name: str, value: Any) -> None:
        if not holds(value):
            raise InvalidInputError(f"{name} must {text}, got {quoted(value)}{hint}")

    return check


def _validate(function: str, name: str, value: Any) -> None:
    """Hold a value against the rule of a function of `spectrem._validate`, which loads NumPy."""
    getattr(import_module("spectrem._validate"), function)(value, name)


def _field(default: Any, check: Callable[[str, Any], None], **known: Any) -> Any:
    return dataclasses.field(default=default, metadata={_KEY: Parameter(check, **known)})


def parameters_of(record: Any) -> dict[str, tuple[Any, Parameter]]:
    """Defaults and declarations of the parameters of a data class, by name: its own before those of its bases.

    Examples
    --------
    >>> @dataclass
    ... class Settings:
    ...     max_iter: int = count(100)
    >>> default, declared = parameters_of(Settings)["max_iter"]
    >>> default, declared.least
    (100, 1)
    """
    return dict(_declared(record if isinstance(record, type) else type(record)))


@cache
def _declared(cls: type) -> dict[str, tuple[Any, Parameter]]:
    fields = {field.name: field for field in dataclasses.fields(cls)}
    names = dict.fromkeys(name for base in cls.__mro__ for name in inspect.get_annotations(base) if name in fields)
    return {name: (fields[name].default, fields[name].metadata[_KEY]) for name in names}


def renewed(cls: type, values: Mapping[str, Any], *, warned: bool = True) -> dict[str, Any]:
    """Values of parameters by the names that parameters and values have now, with a warning about each former one.

    Examples
    --------
    >>> @dataclass
    ... class Settings:
    ...     decode: str = choice("posterior", "posterior", "viterbi", former={"best": "viterbi"})
    ...     rate: float = number(1.0, former="speed")
    >>> renewed(Settings, {"decode": "best", "speed": 2.0}, warned=False)
    {'decode': 'viterbi', 'rate': 2.0}

    Raises
    ------
    InvalidInputError
        If a parameter is given by both names.
    """
    parameters = parameters_of(cls) if dataclasses.is_dataclass(cls) else {}
    declarations = {name: declared for name, (_, declared) in parameters.items()}
    names = {one.former: name for name, one in declarations.items() if isinstance(one.former, str) and one.former}
    for former, name in names.items():
        if former in values and name in values:
            raise InvalidInputError(f"{name} must be given once, got it as {former}, too; drop {former}, its old name")
    now: dict[str, Any] = {}
    for former, value in values.items():
        name, shown = names.get(former, former), former
        known = declarations[name].former if name in declarations else ""
        now[name] = known.get(value, value) if isinstance(known, Mapping) and isinstance(value, str) else value
        if now[name] is not value:
            name, shown = f"{name}={now[name]!r}", f"{name}={value!r}"
        if warned and name != shown:
            message = f"{shown} of {cls.__name__} is called {name} now; the old name works until version {UNTIL}"
            warn(message, FutureWarning)
    return now


def check_parameters(estimator: Any) -> None:
    """Raise `InvalidInputError` for the first parameter of an estimator that breaks its rule, or excludes others."""
    parameters = parameters_of(estimator)
    for name, (default, declared) in parameters.items():
        value = getattr(estimator, name)
        if value is not None or default is not None:
            declared.check(name, value)
    for _, declared in parameters.values():
        if declared.beside is not None:
            declared.beside(estimator)


def meanings(record: type) -> Mapping[str, str]:
    """Lines of the section Parameters of a docstring, by the name of the parameter, with those of its bases.

    Several parameters may share an entry, with commas between their names.

    Examples
    --------
    >>> class Settings:
    ...     '''For an example.
    ...
    ...     Parameters
    ...     ----------
    ...     max_iter : int
    ...         At most.
    ...     '''
    >>> meanings(Settings)["max_iter"]
    'max_iter : int\\n    At most.'
    """
    return {name: entry for base in reversed(record.__mro__) for name, entry in entries_of(base).items()}


def entries_of(cls: type) -> dict[str, str]:
    """The entries of the section Parameters in the docstring of one class, without its bases, by parameter."""
    section = re.search(r"^ *Parameters\n *-+\n(.*?)(?=\n\s*\n|\Z)", cls.__doc__ or "", re.DOTALL | re.MULTILINE)
    if section is None:
        return {}
    lines = section[1].splitlines()
    margin = len(lines[0]) - len(lines[0].lstrip())
    text = "\n".join(line[margin:].rstrip() for line in lines).rstrip()
    entries = re.split(r"\n(?=\S)", text)
    return {name: entry for entry in entries for name in entry.partition("\n")[0].partition(" :")[0].split(", ")}


def documented(cls: C) -> C:
    """Put what the parameters of an estimator mean, as its data class says, before the attributes in its docstring.

    Its constructor and ``set_params`` take them by their former names, too.
    """
    if any(declared.former for _, declared in parameters_of(cls).values()):
        for name in "__init__", "set_params":
            setattr(cls, name, _renewing(getattr(cls, name)))
    if cls.__doc__ and "    Attributes\n" in cls.__doc__:  # python -OO leaves it out
        said = meanings(cls)
        entries = "\n".join(dict.fromkeys(said[name] for name in parameters_of(cls)))
        section = "\n".join(f"    {line}".rstrip() for line in f"Parameters\n----------\n{entries}".splitlines())
        cls.__doc__ = cls.__doc__.replace("    Attributes\n", f"{section}\n\n    Attributes\n", 1)
    return cls


def _renewing(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes parameters by their former names, too."""

    @wraps(method)
    def call(self: Any, *values: Any, **named: Any) -> Any:
        return method(self, *values, **renewed(type(self), named))

    return call
