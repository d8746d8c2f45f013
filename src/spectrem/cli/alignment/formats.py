"""Options of `spectrem align` that say what its input is and how its output is written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from spectrem.exceptions import InvalidInputError

_PANEL = "Input and output"


class FormatName(StrEnum):
    PHARAOH = "pharaoh"
    JSON = "json"


@dataclass(frozen=True)
class TextFormats:
    """Options that `spectrem.cli.estimator_options.takes` makes of these fields."""

    tokenize: Annotated[
        bool,
        typer.Option(
            "--tokenize",
            help="Split running text into words and punctuation, by ICU. Links still are between the words of the "
            "input as spaces separate them, unless --tokens or --format json gives the tokens. Give it again "
            "with --load.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    output_format: Annotated[
        FormatName,
        typer.Option(
            "--format",
            metavar="NAME",
            help="pharaoh: links i-j. json: one object per pair with its tokens (and where they stand in the text, if "
            "--tokenize), links with probabilities, words without a counterpart, and score.",
            rich_help_panel=_PANEL,
        ),
    ] = FormatName.PHARAOH
    tokens: Annotated[
        str | None,
        typer.Option(
            "--tokens",
            metavar="FILE",
            help="Write the tokens that links count there, 'source ||| target' per pair.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    scores: Annotated[
        str | None,
        typer.Option(
            "--scores",
            metavar="FILE",
            help="Write there, per pair, how likely it is a translation: from 0 to 1; nan where a side is empty. Look "
            "at the lowest first.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    languages: Annotated[
        str | None,
        typer.Option(
            "--languages",
            metavar="SRC,TGT",
            help="Which languages of a .tmx file; needed if there are more than two. For example en,fr.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="SRC,TGT",
            help="Which columns of a table: .parquet, .jsonl, .csv or .tsv. For example en,fr or "
            "translation.en,translation.fr.",
            show_default="source,target",
            rich_help_panel=_PANEL,
        ),
    ] = None

    @property
    def as_json(self) -> bool:
        return self.output_format is FormatName.JSON

    def check(self, has_dev: bool, probabilities: str | None) -> None:
        """Refuse what does not go together, before anything is read.

        Raises
        ------
        InvalidInputError
            Naming the options.
        """
        for option in ("--languages", "--columns"):
            self.two(option)
        if not self.tokenize:
            return
        from spectrem.data.raw.boundaries import import_icu

        import_icu()
        if has_dev:
            raise InvalidInputError(
                "--dev gives links between words as they stand, but --tokenize splits them; tokenise all text before, "
                "or drop one of them"
            )
        if probabilities is not None and self.tokens is None and not self.as_json:
            raise InvalidInputError(
                f"--probabilities {probabilities} counts tokens, which --tokenize makes; add --tokens FILE to see "
                "them, or --format json"
            )

    def two(self, option: str) -> tuple[str, str] | None:
        """Source and target of an option that names both."""
        given = self.languages if option == "--languages" else self.columns
        if given is None:
            return None
        names = [name.strip() for name in given.split(",")]
        if len(names) != 2 or not all(names):
            raise InvalidInputError(
                f"{option} must name source and target with a comma between, got {given!r}; for example en,fr"
            )
        return names[0], names[1]
