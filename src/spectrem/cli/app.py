"""The commands put together, and how they end when something is wrong."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from spectrem.cli.declare import Command
from spectrem.cli.ending import COMMAND, FAILED, compilation_announced, say
from spectrem.cli.files import limits_named
from spectrem.cli.names import translated
from spectrem.exceptions import NoEffectWarning, SpectremError, spelled

# The functions, and the groups of them, that are commands.
_COMMANDS = {
    "align": "alignment.align:align",
    "evaluate": "alignment.links:evaluate",
    "symmetrize": "alignment.links:symmetrize",
    "lexicon": "alignment.links:lexicon",
    "tag": "tagging:app",
    "parse": "parsing:app",
    "extract": "extraction:app",
    "project": "tables.project:project",
    "cluster": "tables.cluster:cluster",
    "states": "tables.states:app",
    "label": "tables.label:app",
    "demo": "demo:demo",
    "warmup": "warmup:warmup",
}
_SPELLINGS = {
    "checkpoint": "--checkpoint",
    "decode": "--decode",
    "infeasible": "--infeasible",
    "learner": "--learner",
    "n_components": "--n-components",
    "project_at_predict": "--project-at-predict",
    "scheme": "--scheme",
    "span_types": "--span-types",
    "states": "--states",
    "time_limit": "--time-limit",
    "y": "labels",
    "no feasible q": "cannot be met",
    "model": "model",
    "WordAligner": "a model of spectrem align (for align --load, lexicon)",
    "HMMTagger": "a model of spectrem tag train (for tag predict)",
    "CRFTagger": "a model of spectrem tag train --crf (for tag predict)",
    "EdgeFactoredParser": "a model of spectrem parse train (for parse predict)",
    "DependencyModel": "a model of spectrem parse train --dmv (for parse predict)",
    "HMM": "a model of spectrem states fit (for states predict, forecast and plot)",
    "LabelModel": "a model of spectrem label fit (for label predict and evaluate)",
    "RelationExtractor": "a model of spectrem extract train (for extract predict)",
    "such a model": "such a model, or run the command that takes this one",
}
"""Words for parameters and classes of the library in errors of all commands; see `spectrem.exceptions.spelled`."""


class _LoadedOnFirstUse(Mapping[str, Any]):
    """The commands by their names, each loaded where it is asked for, so that none waits for the others."""

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)

    def __getitem__(self, name: str) -> Any:
        return _command(name)


@cache
def _command(name: str) -> Any:
    module, _, attribute = _COMMANDS[name].partition(":")
    value = getattr(import_module(f"spectrem.cli.{module}"), attribute)
    group = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)
    if isinstance(value, typer.Typer):
        group.add_typer(value, name=name)
    else:
        group.command(name, cls=Command)(value)
    return typer.main.get_group(group).commands[name]


class Commands(TyperGroup):
    """Errors made on purpose become one line on standard error, never a traceback."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _LoadedOnFirstUse()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def main(self, args: Sequence[str] | None = None, *more: Any, **others: Any) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        try:
            quiet = not {"-q", "--quiet"} & set(words)
            with limits_named("these options"), spelled(_SPELLINGS), compilation_announced(shown=quiet):
                words = translated(words, self, say)
                COMMAND.set(words)
                return super().main(words, *more, **others)
        except (SpectremError, NoEffectWarning) as error:
            _fail(_with_options(str(error), words))
        except OSError as error:
            place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            _fail(f"{place}{error.strerror or error}")


def _with_options(message: str, words: Sequence[str]) -> str:
    """The message in which parameters that were given by options of their names are called as these."""
    for option in {word.partition("=")[0] for word in words if word.startswith("--")}:
        name = option[2:].replace("-", "_")
        place = rf"(?<![\w'\"`.]){re.escape(name)}(?![\w(])" if "_" in name else rf"^{re.escape(name)}(?= must )"
        message = re.sub(place, option, message)
    return message


def _fail(message: str) -> NoReturn:
    say(f"spectrem: error: {message}")
    sys.exit(FAILED)


def _warning_printer() -> Callable[..., None]:
    """Print warnings as lines, each text once: Python itself forgets what it showed when a library changes filters.

    Those of NumPy and scikit-learn speak of arrays that users of commands do not have: what matters of them, such as
    clusters that are the same, commands say themselves.
    """
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        foreign = issubclass(category, RuntimeWarning) or category.__module__.startswith("sklearn")
        if not foreign and str(message) not in shown:
            shown.add(str(message))
            say(f"spectrem: warning: {message}")

    return show


def _print_version(wanted: bool) -> None:
    if wanted:
        from spectrem import __version__

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
    **spectrem cluster data.csv -k 3 -o out.csv**,
    **spectrem states fit series.csv -k 2 --time date --save model.npz**,
    **spectrem label fit votes.csv --columns item,worker,label --save model.npz**
    """
    import warnings

    warnings.simplefilter("error", NoEffectWarning)  # an option without effect is a slip, as where options are read
    if not sys.warnoptions:
        warnings.showwarning = _warning_printer()
