"""The commands put together, and how they end when something is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from spectrem import __version__
from spectrem.cli.alignment.align import align
from spectrem.cli.alignment.links import evaluate, lexicon, symmetrize
from spectrem.cli.declare import Command
from spectrem.cli.demo import demo
from spectrem.cli.ending import COMMAND, FAILED, say
from spectrem.cli.extraction import app as extract
from spectrem.cli.files import limits_named
from spectrem.cli.parsing import app as parse
from spectrem.cli.tables.cluster import cluster
from spectrem.cli.tables.project import project
from spectrem.cli.tagging import app as tag
from spectrem.cli.warmup import warmup
from spectrem.exceptions import NoEffectWarning, SpectremError

_COMMANDS: dict[str, Any] = {
    "align": align,
    "evaluate": evaluate,
    "symmetrize": symmetrize,
    "lexicon": lexicon,
    "tag": tag,
    "parse": parse,
    "extract": extract,
    "project": project,
    "cluster": cluster,
    "demo": demo,
    "warmup": warmup,
}
# Former names of options of commands, which still work.
_MODEL, _PRIOR = {"--model": "--save"}, {"--variance": "--C"}
_RENAMED = {
    "align": {"--format": "--output-format"},
    "demo": {"--pairs": "--n-pairs"},
    "extract train": _MODEL | _PRIOR,
    "lexicon": {"--format": "--output-format"},
    "parse predict": {"--posteriors": "--probabilities"},
    "parse train": _MODEL | _PRIOR,
    "parse transfer": _MODEL | _PRIOR,
    "tag predict": {"--posteriors": "--probabilities"},
    "tag train": _MODEL | _PRIOR,
}


def _renamed(words: list[str]) -> Iterator[str]:
    """The words of a command line with the names that options have now; a line on standard error names each of them."""
    names = {old: new for n in (1, 2) for old, new in _RENAMED.get(" ".join(words[:n]), {}).items()}
    for word in words:
        name, equals, value = word.partition("=")
        if name in names:
            say(f"note: {name} is called {names[name]} now")
        yield f"{names.get(name, name)}{equals}{value}"


class Commands(TyperGroup):
    """Errors made on purpose become one line on standard error, never a traceback."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=list(_COMMANDS).index)

    def main(self, args: Sequence[str] | None = None, *more: Any, **others: Any) -> Any:
        words = list(_renamed(sys.argv[1:] if args is None else list(args)))
        COMMAND.set(words)
        try:
            with limits_named("these options"):
                return super().main(words, *more, **others)
        except (SpectremError, NoEffectWarning) as error:
            _fail(str(error))
        except OSError as error:
            place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            _fail(f"{place}{error.strerror or error}")


def _fail(message: str) -> NoReturn:
    say(f"spectrem: error: {message}")
    sys.exit(FAILED)


def _warning_printer() -> Callable[..., None]:
    """Print warnings as lines, each text once: Python itself forgets what it showed when a library changes filters."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            say(f"spectrem: warning: {message}")

    return show


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spectrem {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    name="spectrem",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def spectrem(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Learn what data do not say, guided by constraints: which words translate each other, which tag each has.

    Start with **spectrem demo**, or with your own files:
    **spectrem align english.txt french.txt -o links.txt**,
    **spectrem tag train text.txt --dictionary tags.tsv --save model.npz**,
    **spectrem parse train trees.conllu --save model.npz**,
    **spectrem extract train labelled.corp --save model.npz**,
    **spectrem project scores.csv --constraints c.yaml -o out.csv**,
    **spectrem cluster data.csv -k 3 -o out.csv**
    """
    import warnings

    warnings.simplefilter("error", NoEffectWarning)  # an option without effect is a slip, as where options are read
    if not sys.warnoptions:
        warnings.showwarning = _warning_printer()


for name, command in _COMMANDS.items():
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name, cls=Command)(command)
