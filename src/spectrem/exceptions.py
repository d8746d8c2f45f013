"""The errors and warnings that Spectrem raises itself."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any

__all__ = [
    "ConvergenceWarning",
    "InfeasibleConstraintError",
    "InvalidInputError",
    "NoEffectWarning",
    "NotFittedError",
    "SpectremError",
    "Unconverged",
]

_LOOKED_THROUGH = 5000
# C0 and C1, line and paragraph separators, marks of direction, and the bytes of C1 in names that are not UTF-8.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\udc80-\udc9f]")
_spellings: ContextVar[Mapping[str, str]] = ContextVar("spellings", default={})  # noqa: B039


class Unconverged(UserWarning):
    """An iterative routine ran out of iterations before it met its tolerance; base of `ConvergenceWarning`.

    What is issued as long as nobody has loaded scikit-learn, and so nobody can look for its class.

    Examples
    --------
    >>> import warnings
    >>> from spectrem import GaussianMixture
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     mixture = GaussianMixture(2, max_iter=1, random_state=0).fit([[0.0], [0.4], [1.0], [3.0]])
    >>> [issubclass(one.category, Unconverged) for one in caught]
    [True]
    """


if TYPE_CHECKING:

    class ConvergenceWarning(Unconverged):
        """An iterative routine ran out of iterations before it met its tolerance; scikit-learn's class is a base."""


class NoEffectWarning(UserWarning):
    """Something that was asked for changes nothing, such as constraints where there is nothing to be inferred.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", NoEffectWarning)
    """


class SpectremError(Exception):
    """Base of every error raised on purpose by Spectrem.

    ``keys`` says where in the data it lies, by columns such as ``sentence`` and ``row`` counted from 0, if known.

    Examples
    --------
    >>> from spectrem import project
    >>> try:
    ...     project([[0.5, 0.6]], [])
    ... except SpectremError as error:
    ...     print(type(error).__name__)
    ScoreError
    """

    keys: Mapping[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by arguments and attributes: errors whose constructors take more travel between processes, too."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[SpectremError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> SpectremError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class InvalidInputError(SpectremError, ValueError):
    """An argument or a file breaks a rule; the message names both and the next thing to try.

    Examples
    --------
    >>> from spectrem import project
    >>> try:
    ...     project([[0.5, 0.6]], [])
    ... except InvalidInputError as error:
    ...     print(isinstance(error, ValueError))
    True
    """


class InfeasibleConstraintError(SpectremError, ValueError):
    """No distribution meets the constraints; the message names the rows that conflict.

    ``rows`` holds their numbers among the rows of the batch, where they are known.

    Examples
    --------
    >>> from spectrem import E, part, project
    >>> try:
    ...     project([[0.5, 0.5]], E[part("label") == 1] >= 2)
    ... except InfeasibleConstraintError as error:
    ...     print(error.rows)
    (0,)
    """

    rows: tuple[int, ...] = ()


class NotFittedError(SpectremError, ValueError, AttributeError):
    """An estimator was asked for predictions before ``fit``.

    Examples
    --------
    >>> from spectrem import HMMTagger
    >>> try:
    ...     HMMTagger().predict([["dog"]])
    ... except NotFittedError as error:
    ...     print(error)
    this HMMTagger is not fitted yet; call fit, or load a saved one
    """


def setting(name: str, value: str | None = None) -> str:
    """A parameter, and a value for it, as those write it whom an error addresses: in Python unless `spelled` differs.

    Other words of the library, such as ``no feasible q``, are named likewise.

    Examples
    --------
    >>> setting("infeasible", "skip"), setting("time_limit")
    ('infeasible="skip"', 'time_limit')
    """
    option = _spellings.get().get(name)
    if option is None:
        return name if value is None else f'{name}="{value}"'
    return option if value is None else f"{option} {value}"


def advice(about: str, in_python: str) -> str:
    """The advice ``in_python``, or what `spelled` says in its place."""
    return _spellings.get().get(about, in_python)


@contextmanager
def spelled(options: Mapping[str, str]) -> Iterator[None]:
    """Let errors of the block name parameters as the options that they have on the command line, besides those known.

    Examples
    --------
    >>> with spelled({"infeasible": "--infeasible"}):
    ...     print(setting("infeasible", "skip"))
    --infeasible skip
    """
    token = _spellings.set({**_spellings.get(), **options})
    try:
        yield
    finally:
        _spellings.reset(token)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that belongs to the line outside of this library from which it was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "spectrem":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_unconverged(message: str) -> None:
    """Issue a `ConvergenceWarning`."""
    category: type[Warning] = Unconverged
    if "sklearn.exceptions" in sys.modules or "ConvergenceWarning" in globals():
        from spectrem.exceptions import ConvergenceWarning

        category = ConvergenceWarning
    warn(message, category)


def shorten(text: str, most: int = 200) -> str:
    """A value as messages quote it: on one line, of one of more than ``most`` letters the beginning and the length.

    Examples
    --------
    >>> shorten("'house'"), shorten("9" * 5000)
    ("'house'", '99999999999999999999999999999999999999999999999999999999999999999999999999999999... (5000 characters)')
    """
    text = " ".join(text.splitlines())
    return text if len(text) <= most else f"{text[:80]}... ({len(text)} characters)"


def printable(text: str) -> str:
    r"""Text without control characters, which a terminal would obey, nor bytes of names of files that could be some.

    Examples
    --------
    >>> print(printable("naïve\x1b[31m\n\x9b"))
    naïve\x1b[31m\n\x9b
    """
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1].replace("\\udc", "\\x"), text)


def did_you_mean(value: object, known: Iterable[object]) -> str:
    """A hint at the known value most like one that there is not, with a space behind; empty if none is like it.

    Examples
    --------
    >>> did_you_mean("Lable", ["row", "label"]), did_you_mean("x", [])
    ("did you mean 'label'? ", '')
    """
    spelled = {str(other).lower(): other for other in islice(known, _LOOKED_THROUGH)}
    close = get_close_matches(str(value).lower(), spelled, 1)
    return f"did you mean {quoted(spelled[close[0]])}? " if close else ""


def no_such(kind: str, value: object, known: Collection[object], most: int = 50) -> str:
    """A message about a value that does not exist: the one most like it, and at most so many of those that do.

    Examples
    --------
    >>> no_such("column", "lable", ["row", "label"])
    "there is no column 'lable'; did you mean 'label'? the columns are 'row', 'label'"
    """
    kinds, those = kind if kind.endswith("s") else f"{kind}s", listed(known, most) or "none"
    return f"there is no {kind} {quoted(value)}; {did_you_mean(value, known)}the {kinds} are {those}"


def listed(known: Collection[object], most: int = 50) -> str:
    """Values as messages quote them, long ones shortened, with commas between: at most so many.

    Examples
    --------
    >>> listed(["row", "label"]), listed(range(9), most=2)
    ("'row', 'label'", '0, 1, ...')
    """
    return ", ".join(map(quoted, islice(known, most))) + (", ..." if len(known) > most else "")


def counted(number: int, noun: str) -> str:
    """A number of things, as messages write it.

    Examples
    --------
    >>> counted(1, "iteration"), counted(2, "sentence pair")
    ('1 iteration', '2 sentence pairs')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def quoted(value: object) -> str:
    """The ``repr`` of a value, shortened.

    Examples
    --------
    >>> quoted("house")
    "'house'"
    """
    return shorten(repr(value))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> type[Warning]:
        """`ConvergenceWarning`, made on first use: its base is in scikit-learn, which takes long to load."""
        if name != "ConvergenceWarning":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from sklearn.exceptions import ConvergenceWarning as Base

        doc = "An iterative routine ran out of iterations before it met its tolerance; scikit-learn's class is a base."
        globals()[name] = type(name, (Unconverged, Base), {"__doc__": doc, "__module__": __name__})
        return globals()[name]
