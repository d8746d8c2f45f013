"""`spectrem parse evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectrem.cli.ending import STANDARD_OUTPUT
from spectrem.cli.evaluation import check_same_text, column_titles, json_number, print_sign_tests, print_table
from spectrem.cli.files import command_files
from spectrem.cli.parsing.options import MaxLength, read_treebank
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from spectrem._arrays import Ints
    from spectrem.data import ParsedSentence

# Key of the JSON object, and the row of the table that shows it.
_ROWS = {
    "uas": "UAS",
    "las": "LAS",
    "las_universal": "LAS without subtypes",
    "undirected": "undirected attachment",
    "exact_match": "whole trees",
    "roots": "roots",
}


def evaluate(
    gold: Annotated[
        str,
        typer.Argument(metavar="GOLD", help="Trees made by hand, in CoNLL-U; words without a head (_) do not count."),
    ],
    predicted: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTED",
            help="Trees over the same words, as spectrem parse predict writes them; - is standard input.",
        ),
    ],
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="SECOND",
            help="Other trees over the same words, to be compared with the first by sign tests.",
            show_default=False,
        ),
    ] = None,
    max_length: MaxLength = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Compare trees with those made by hand.

    Example: **spectrem parse evaluate gold.conllu parsed.conllu**

    UAS is the share of words that have their head right, LAS of those that have
    the relation right too; undirected attachment also counts arcs the wrong way
    round. All are given for all words, and without punctuation (words whose tag in
    GOLD is PUNCT). Beside them stands what comes of making every word the
    dependent of the next one, and how many sentences have several roots.
    """
    inputs = {"GOLD": gold, "PREDICTED": predicted, "SECOND": second}
    with command_files(inputs, {STANDARD_OUTPUT: "-"}):
        truth = read_treebank(gold)
        names = [name for name in (predicted, second) if name is not None]
        guesses = [read_treebank(name) for name in names]
        for name, guess in zip(names, guesses, strict=True):
            check_same_text((gold, name), ([one.forms for one in truth], [one.forms for one in guess]))
        kept = [n for n, one in enumerate(truth) if max_length is None or len(one.forms) <= max_length]
        if not kept:
            raise InvalidInputError(f"GOLD has no sentence of up to --max-length {max_length} words; raise it")
        truth, *guesses = ([side[n] for n in kept] for side in (truth, *guesses))
        result = _result(truth, guesses)
        if as_json:
            import json

            typer.echo(json.dumps(result))
        else:
            _print(names, result)


def _result(truth: list[ParsedSentence], guesses: list[list[ParsedSentence]]) -> dict[str, Any]:
    """All scores, those of the baseline last; and sign tests where there are two predictions."""
    import numpy as np

    from spectrem.metrics import compare_attachments, head_is_next, not_punctuation

    given = [_heads(one) for one in truth]
    known = [own > -2 for own in given]
    gold = [np.maximum(own, -1) for own in given]  # a number that is masked stands where a head is not known
    if not any(own.any() for own in known):
        raise InvalidInputError("GOLD has no heads, only _; name a file of trees")
    words = [own & mask for own, mask in zip(known, not_punctuation(one.upos for one in truth), strict=True)]
    masks = {"all_words": known, "without_punctuation": words}
    heads = [list(map(_heads, guess)) for guess in guesses]
    relations = [_relations(truth, guess) for guess in guesses]
    next_word = head_is_next([len(own) for own in gold])
    sides = [*zip(heads, relations, strict=True), (next_word, None)]
    scores = [{name: _scores(gold, own, mask, pair) for name, mask in masks.items()} for own, pair in sides]
    several = [sum(int((own == -1).sum()) > 1 for own in side) for side in (given, *heads)]
    result: dict[str, Any] = {
        "n_sentences": len(truth),
        "n_words": {name: int(np.sum([own.sum() for own in mask])) for name, mask in masks.items()},
        "n_unknown_heads": int(sum((~own).sum() for own in known)),
        "predicted": scores[:-1],
        "head_is_next": scores[-1],
        "sentences_with_several_roots": {"gold": several[0], "predicted": several[1:]},
    }
    if len(heads) == 2:
        from dataclasses import asdict

        compared = {name: compare_attachments(heads[0], heads[1], gold, mask=mask) for name, mask in masks.items()}
        result["sign_test"] = {name: asdict(own) for name, own in compared.items()}
    return result


def _heads(sentence: ParsedSentence) -> Ints:
    """Heads, -2 where they are not known."""
    import numpy as np

    return np.full(len(sentence.forms), -2) if sentence.heads is None else np.asarray(sentence.heads)


def _relations(truth: list[ParsedSentence], guess: list[ParsedSentence]) -> tuple[Any, Any] | None:
    """Relations of both, if both have any."""
    sides = [[one.relations or ("_",) * len(one.forms) for one in side] for side in (truth, guess)]
    if any(all(one.relations is None for one in side) for side in (truth, guess)):
        return None
    return sides[0], sides[1]


def _scores(gold: Sequence[Ints], heads: Sequence[Ints], mask: Sequence[Any], pair: Any) -> dict[str, float | None]:
    from spectrem.metrics import attachment_scores

    given = {} if pair is None else dict(zip(("gold_relations", "predicted_relations"), pair, strict=True))
    found = attachment_scores(gold, heads, mask=mask, **given)
    scores = {name: json_number(getattr(found, name)) for name in _ROWS if hasattr(found, name)}
    if pair is not None:
        short = {side: [[one.partition(":")[0] for one in own] for own in both] for side, both in given.items()}
        scores["las_universal"] = json_number(attachment_scores(gold, heads, mask=mask, **short).las)
    return scores


def _print(names: list[str], result: dict[str, Any]) -> None:
    from rich.table import Table

    n_words = result["n_words"]
    titles = [*column_titles(names), "head = next word"]
    table = Table("", title=f"{n_words['all_words']} words in {result['n_sentences']} sentences")
    for title in titles:
        table.add_column(title, justify="right")
    for key, where in (("without_punctuation", "without punctuation"), ("all_words", "all words")):
        own = [one[key] for one in (*result["predicted"], result["head_is_next"])]
        table.add_row(f"{where} ({n_words[key]})", *([""] * len(own)))
        for name, row in _ROWS.items():
            if any(one.get(name) is not None for one in own):
                cells = ("–" if one.get(name) is None else f"{100 * one[name]:.2f}" for one in own)  # noqa: RUF001 -- a dash
                table.add_row(f"  {row}", *cells)
    print_table(table)
    if result["n_unknown_heads"]:
        typer.echo(f"left out: {result['n_unknown_heads']} words, whose heads GOLD does not know")
    several = result["sentences_with_several_roots"]
    counts = ", ".join(f"{n} of {title}" for n, title in zip(several["predicted"], titles, strict=False))
    typer.echo(f"sentences with several roots: {several['gold']} of GOLD, {counts}")
    for name, own in result.get("sign_test", {}).items():
        print_sign_tests(own, f", {name.replace('_', ' ')}")
