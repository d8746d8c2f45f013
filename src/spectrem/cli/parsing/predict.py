"""`spectrem parse predict`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import typer

from spectrem.cli.declare import Given, Settings, argument, option, takes
from spectrem.cli.ending import STANDARD_OUTPUT, say
from spectrem.cli.files import command_files
from spectrem.cli.options import MinProbability, Quiet, errors_located
from spectrem.cli.parsing.options import SkipPunctuation, count_words, places_in, read_treebank, tags_of
from spectrem.cli.prediction import OPTIONS, load_model, posterior_lines, set_parameters
from spectrem.cli.rules import check_rules, excludes, needs
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.exceptions import spelled

if TYPE_CHECKING:
    from spectrem._arrays import Floats
    from spectrem.data import ParsedSentence

_RULES = (
    needs("--min-probability", "--probabilities"),
    excludes("--show", "--output -", "--show draws trees on standard output; give --output a file, or leave it out"),
)
_GRAMMAR = "a model of --dmv"
_RULES_OF_MODELS = (needs("--field", _GRAMMAR), needs("--skip-punctuation", _GRAMMAR))


@dataclass(frozen=True)
class PredictionOptions:
    """Arguments and options of `spectrem parse predict` besides parameters of its two estimators.

    Parameters
    ----------
    model
        A model written by spectrem parse train.
    text
        Tagged sentences in CoNLL-U, plain or gzipped, whose heads are ignored; - is standard input.
    output
        Where to write CoNLL-U; gzipped if the name ends in .gz, - is standard output. The file appears once
        complete. All but heads and relations is that of TEXT; of standard input only words and tags are kept.
    show
        Draw the trees as text on standard output, with the probabilities of heads; CoNLL-U is written only with
        --output.
    probabilities
        Write probabilities of heads there: one line per word of the word and its heads, counted from 1, 0 being the
        root, likeliest first, with tabs between; a blank line after every sentence.
    field
        The tags that a grammar (--dmv) reads: upos or xpos.
    """

    model: str = argument("MODEL")
    text: str = argument("TEXT")
    output: str | None = option(None, "--output", "-o", metavar="FILE", show_default="-")
    show: bool = option(False)
    probabilities: str | None = option(None, metavar="FILE")
    min_probability: MinProbability = None
    field: Literal["upos", "xpos"] | None = option(None, metavar="NAME", show_default="the one that it knows")
    skip_punctuation: SkipPunctuation = False
    quiet: Quiet = False


@takes(ParserParameters, only=["decode", "project_at_predict", "infeasible", "n_threads"])
def predict(options: PredictionOptions, settings: Settings, given: Given) -> None:
    """Find the heads of the words of a text with a trained model.

    Example: **spectrem parse predict model.npz text.conllu -o parsed.conllu**

    With --project-at-predict the trees meet the constraints that the model was
    trained under.
    """
    check_rules(_RULES, given)
    text, show = options.text, options.show
    output = options.output if options.output is not None or show else "-"
    outputs = {"--output": output, "--probabilities": options.probabilities, STANDARD_OUTPUT: "-" if show else None}
    with command_files({"MODEL": options.model, "TEXT": text}, outputs), ExitStack() as stack:
        from spectrem.data import copy_with_trees, open_output, write_conllu
        from spectrem.estimators import DependencyModel, EdgeFactoredParser

        # opened first: who reads a pipe sees its end if the work fails
        trees_out, probabilities_out = (
            None if path is None else stack.enter_context(open_output(path)) for path in (output, options.probabilities)
        )
        parser = load_model(options.model, EdgeFactoredParser, DependencyModel)
        set_parameters(parser, options.model, settings, given)
        is_grammar = isinstance(parser, DependencyModel)
        check_rules(_RULES_OF_MODELS, {**given, _GRAMMAR: ""} if is_grammar else given)
        sentences = read_treebank(text, trees=False)
        with errors_located("sentence", places_in(text, sentences)), spelled(OPTIONS):
            wanted = show or probabilities_out is not None
            if is_grammar:
                parsed, tables = _parsed_by_tags(parser, sentences, options, wanted)
            else:
                parsed, tables = parser.parse(sentences), parser.predict_proba(sentences) if wanted else []
        if trees_out is not None:
            if text != "-" and os.path.isfile(text):
                trees_out.writelines(copy_with_trees(text, parsed))
            else:  # standard input and pipes can be read once only
                write_conllu(trees_out, parsed)
        if probabilities_out is not None:
            words, least = [one.forms for one in sentences], options.min_probability
            lines = posterior_lines(words, tables, lambda word, k: 0 if k == word else k + 1, least)
            probabilities_out.writelines(lines)
        if show:
            from spectrem.cli.drawing import draw_tree

            for one, table in zip(parsed, tables, strict=True):
                assert one.heads is not None
                typer.echo(draw_tree(one.forms, one.heads, table, one.relations) + "\n")
    if not options.quiet:
        say(f"parsed {len(sentences)} sentences ({count_words(sentences)} words)")


def _parsed_by_tags(
    grammar: Any, sentences: list[ParsedSentence], options: PredictionOptions, wanted: bool
) -> tuple[list[ParsedSentence], list[Floats]]:
    """The sentences with the heads that a grammar finds, and probabilities of arcs if ``wanted``."""
    from spectrem.cli.parsing.punctuation import table_with_punctuation, with_punctuation, without_punctuation

    skipping, read = options.skip_punctuation, sentences
    if skipping:
        read, places = map(list, zip(*map(without_punctuation, sentences), strict=True))
    tags = tags_of(read, options.field or _known_field(read, grammar.tags_), options.text)
    heads, tables = grammar.predict(tags), grammar.predict_proba(tags) if wanted else []
    if skipping:
        sizes = [len(one.forms) for one in sentences]
        heads = list(map(with_punctuation, heads, places, sizes))
        tables = list(map(table_with_punctuation, tables, places, heads))
    return [one._replace(heads=row, relations=None) for one, row in zip(sentences, heads, strict=True)], tables


def _known_field(sentences: list[ParsedSentence], tags: Sequence[Any]) -> str:
    """The field whose tags a grammar knows better."""
    known = set(tags)
    upos, xpos = (sum(tag in known for one in sentences for tag in getattr(one, field)) for field in ("upos", "xpos"))
    return "xpos" if xpos > upos else "upos"
