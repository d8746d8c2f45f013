"""`spectrem parse predict`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spectrem.cli.drawing import posterior_lines
from spectrem.cli.ending import STANDARD_OUTPUT, say
from spectrem.cli.estimator_options import Settings, takes
from spectrem.cli.files import command_files
from spectrem.cli.options import MinProbability, Quiet, check_projection_options, refuse_unused
from spectrem.cli.parsing.options import SkipPunctuation, read_treebank, sentences_named
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.exceptions import InvalidInputError, spelled

if TYPE_CHECKING:
    from spectrem._arrays import Floats
    from spectrem.data import ParsedSentence


@takes(ParserParameters, only=["decode", "project_at_predict", "infeasible", "n_threads"])
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model written by spectrem parse train.")],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Tagged sentences in CoNLL-U, plain or gzipped, whose heads are ignored; - is standard input.",
        ),
    ],
    settings: Settings,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write CoNLL-U; gzipped if the name ends in .gz, - is standard output. The file appears once "
            "complete. All but heads and relations is that of TEXT; of standard input only words and tags are kept.",
            show_default="-",
        ),
    ] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--show",
            help="Draw the trees as text on standard output, with the probabilities of heads; CoNLL-U is written only "
            "with --output.",
        ),
    ] = False,
    posteriors: Annotated[
        str | None,
        typer.Option(
            "--posteriors",
            metavar="FILE",
            help="Write probabilities of heads there: one line per word of the word and its heads, counted from 1, 0 "
            "being the root, likeliest first, with tabs between; a blank line after every sentence.",
            show_default=False,
        ),
    ] = None,
    min_probability: MinProbability = None,
    field: Annotated[
        Literal["upos", "xpos"] | None,
        typer.Option(
            "--field",
            metavar="NAME",
            help="The tags that a grammar (--dmv) reads: upos or xpos.",
            show_default="the one that it knows",
        ),
    ] = None,
    skip_punctuation: SkipPunctuation = False,
    quiet: Quiet = False,
) -> None:
    """Find the heads of the words of a text with a trained model.

    Example: **spectrem parse predict model.npz text.conllu -o parsed.conllu**

    With --project-at-predict the trees meet the constraints that the model was
    trained under.
    """
    if min_probability is not None and posteriors is None:
        refuse_unused(f"--min-probability {min_probability:g}", "--posteriors")
    if show and output == "-":
        raise InvalidInputError("--show draws trees on standard output; give --output a file, or leave it out")
    trees = output if output is not None else None if show else "-"
    inputs = {"MODEL": model, "TEXT": text}
    outputs = {"--output": trees, "--posteriors": posteriors, STANDARD_OUTPUT: "-" if show else None}
    with command_files(inputs, outputs), ExitStack() as stack:
        from spectrem.data import copy_with_trees, open_output, write_conllu
        from spectrem.estimators import DependencyModel, EdgeFactoredParser
        from spectrem.estimators.storage import saved_kind

        # opened first: who reads a pipe sees its end if the work fails
        trees_out = None if trees is None else stack.enter_context(open_output(trees))
        posteriors_out = None if posteriors is None else stack.enter_context(open_output(posteriors))
        grammar = saved_kind(model) == "DependencyModel"
        parser: Any = (DependencyModel if grammar else EdgeFactoredParser).load(model).set_params(**settings)
        check_projection_options(settings, model, parser)
        if field is not None and not grammar:
            refuse_unused(f"--field {field}", "a model of --dmv")
        if skip_punctuation and not grammar:
            refuse_unused("--skip-punctuation", "a model of --dmv")
        sentences = read_treebank(text, trees=False)
        names = {"infeasible": "--infeasible", "project_at_predict": "--project-at-predict", "decode": "--decode"}
        with sentences_named(text, sentences), spelled(names):
            wanted = show or posteriors_out is not None
            if grammar:
                parsed, tables = _parsed_by_tags(parser, sentences, field, text, skip_punctuation, wanted)
            else:
                parsed, tables = parser.parse(sentences), parser.predict_proba(sentences) if wanted else []
        if trees_out is not None:
            if text != "-" and os.path.isfile(text):
                trees_out.writelines(copy_with_trees(text, parsed))
            else:  # standard input and pipes can be read once only
                write_conllu(trees_out, parsed)
        if posteriors_out is not None:
            words = [one.forms for one in sentences]
            lines = posterior_lines(words, tables, lambda word, k: 0 if k == word else k + 1, min_probability)
            posteriors_out.writelines(lines)
        if show:
            from spectrem.cli.parsing.drawing import draw_tree

            for one, table in zip(parsed, tables, strict=True):
                assert one.heads is not None
                typer.echo(draw_tree(one.forms, one.heads, table, one.relations) + "\n")
    if not quiet:
        say(f"parsed {len(sentences)} sentences ({sum(len(one.forms) for one in sentences)} words)")


def _parsed_by_tags(
    grammar: Any, sentences: list[ParsedSentence], field: str | None, path: str, skipping: bool, wanted: bool
) -> tuple[list[ParsedSentence], list[Floats]]:
    """The sentences with the heads that a grammar finds, and probabilities of arcs if ``wanted``."""
    from spectrem.cli.parsing.punctuation import table_with_punctuation, with_punctuation, without_punctuation

    given = sentences
    if skipping:
        given, places = map(list, zip(*map(without_punctuation, sentences), strict=True))
    tags = _tags(given, grammar.tags_, field, path)
    heads, tables = grammar.predict(tags), grammar.predict_proba(tags) if wanted else []
    if skipping:
        sizes = [len(one.forms) for one in sentences]
        heads = [with_punctuation(own, kept, n) for own, kept, n in zip(heads, places, sizes, strict=True)]
        if wanted:
            tables = list(map(table_with_punctuation, tables, places, heads))
    return [one._replace(heads=own, relations=None) for one, own in zip(sentences, heads, strict=True)], tables


def _tags(sentences: list[ParsedSentence], known: Sequence[Any], field: str | None, path: str) -> list[tuple[str, ...]]:
    """The tags that a grammar reads: those of the field, or of the one of which it knows more."""
    from spectrem.cli.parsing.job import tags_of

    if field is None:
        fits = {
            name: sum(tag in set(known) for one in sentences for tag in getattr(one, name)) for name in ("upos", "xpos")
        }
        field = "xpos" if fits["xpos"] > fits["upos"] else "upos"
    return tags_of(sentences, field, path)
