"""Run an experiment of a paper: its numbers beside ours on standard output, figure, numbers and text in a folder.

``python -m reproductions uem-table2``; ``python -m reproductions uem-table2 --help`` lists the options.
"""

from __future__ import annotations

import argparse
import inspect
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from reproductions.alignment import em_constraints_fig3, em_constraints_fig4, gamma_without_labels, pr_fig6, uem_table2
from reproductions.bracketing import da_table2, da_table3
from reproductions.clustering import cluster_links, em_constraints_fig1
from reproductions.extraction import uem_fig2
from reproductions.grammar import dmv, universal_rules
from reproductions.relatives import ge_compare
from reproductions.series import occupancy
from reproductions.tagging import da_table1, pos_dictionary, pr_fig12, uem_fig1
from reproductions.transfer import pr_fig10, pr_table8
from reproductions.views import pr_table4, pr_table5, pr_table6
from reproductions.votes import label_models
from spectrem.exceptions import SpectremError

EXPERIMENTS: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2].replace("_", "-"): module
    for module in (
        *(uem_table2, em_constraints_fig1, em_constraints_fig3, em_constraints_fig4, pr_fig6),
        gamma_without_labels,
        *(da_table1, da_table2, da_table3, pr_fig12, uem_fig1, pos_dictionary, cluster_links),
        *(pr_table8, pr_fig10),
        *(uem_fig2, pr_table4, pr_table5, pr_table6, ge_compare),
        *(dmv, universal_rules),
        *(occupancy, label_models),
    )
}


def _count(text: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
    return int(text)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({_count(size) for size in text.split(",")}))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be whole numbers above 0 with commas between, as 10000,50000, got {text!r}"
        ) from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


OPTIONS: dict[str, tuple[Any, str]] = {
    "data": (Path, "folder of the corpora  [default: what SPECTREM_DATA names, else ../shared/data]"),
    "sizes": (_sizes, "training pairs, or labelled sentences, with commas between"),
    "size": (_count, "training pairs"),
    "trials": (_count, "random parts of the corpus, each trained on, and each left out"),
    "starts": (_count, "random starts"),
    "seeds": (_count, "random starts of every method"),
    "draws": (_count, "how often links, labelled sentences of each number, or splits of the features are drawn"),
    "best": (partial(_count, least=0), "CoDL also with so many labellings of every sentence, by a beam search"),
    "languages": (_names, "with commas between"),
    "sets": (_names, "with commas between"),
    "seed": (partial(_count, least=0), "the same seed gives the same result"),
    "peers": (
        Path,
        "Python that has crowd-kit, Snorkel and skweak  [default: what SPECTREM_PEERS names, else none]",
    ),
    "threads": (_count, "results do not depend on it  [default: one per processor]"),
}
"""Type and meaning of each parameter of a ``run`` that is an option."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment that the arguments name; without any, list all."""
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    name, output, quick = (given.pop(key, None) for key in ("name", "output", "quick"))
    if name is None:
        print("\n".join(_summaries()))
        return
    experiment = EXPERIMENTS[name]
    try:
        output.mkdir(parents=True, exist_ok=True)
        # A folder into which nothing can be written is told of before the work.
        tempfile.TemporaryFile(dir=output).close()
        report = experiment.run(**{**(experiment.QUICK if quick else {}), **given})
        print(report)
        print(f"\nWritten: {', '.join(map(str, report.write(output, name)))}")
    except (SpectremError, OSError) as error:
        parser.error(str(error))


def _summaries() -> list[str]:
    width = max(map(len, EXPERIMENTS))
    return [f"{name.ljust(width)}  {_summary(module)}" for name, module in EXPERIMENTS.items()]


def _summary(module: ModuleType) -> str:
    return (module.__doc__ or "").partition("\n")[0]


def _parser() -> argparse.ArgumentParser:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m reproductions",
        description=__doc__,
        epilog="\n".join(["experiments:", *(f"  {line}" for line in _summaries())]),
        formatter_class=as_written,
    )
    commands = parser.add_subparsers(dest="name", metavar="NAME")
    for name, experiment in EXPERIMENTS.items():
        own = commands.add_parser(name, description=experiment.__doc__, formatter_class=as_written)
        own.add_argument("--quick", action="store_true", help="a small run, to see that everything works")
        own.add_argument(
            "--output",
            type=Path,
            default=Path("reproduced"),
            help="folder for the figure (PNG), the numbers (TSV) and the text  [default: %(default)s]",
        )
        for option, parameter in inspect.signature(experiment.run).parameters.items():
            if option in OPTIONS:
                read, meaning = OPTIONS[option]
                own.add_argument(
                    f"--{option}", type=read, default=argparse.SUPPRESS, help=meaning + _default(parameter.default)
                )
    return parser


def _default(value: Any) -> str:
    if value is None:
        return ""
    return f"  [default: {','.join(map(str, value)) if isinstance(value, tuple) else value}]"


if __name__ == "__main__":
    main()
