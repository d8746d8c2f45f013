"""`spectrem parse evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from spectrem.cli.declare import argument, takes
from spectrem.cli.ending import STANDARD_OUTPUT
from spectrem.cli.evaluation import (
    check_same_text,
    column_titles,
    json_numbers,
    print_result,
    print_scores,
    print_sign_tests,
    score_cell,
)
from spectrem.cli.files import command_files
from spectrem.cli.options import Json
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


@dataclass(frozen=True)
class EvaluationOptions:
    """Arguments and options of `spectrem parse evaluate`.

    Parameters
    ----------
    gold
        Trees made by hand, in CoNLL-U; words without a head (_) do not count.
    predicted
        Trees over the same words, as spectrem parse predict writes them; - is standard input.
    second
        Other trees over the same words, to be compared with the first by sign tests.
    """

    gold: str = argument("GOLD")
    predicted: str = argument("PREDICTED")
    second: str | None = argument("SECOND", None)
    max_length: MaxLength = None
    as_json: Json = False


@takes()
def evaluate(options: EvaluationOptions) -> None:
    """Compare trees with those made by hand.

    Example: **spectrem parse evaluate gold.conllu parsed.conllu**

    UAS is the share of words that have their head right, LAS of those that have
    the relation right too; undirected attachment also counts arcs the wrong way
    round. All are given for all words, and without punctuation (words whose tag in
    GOLD is PUNCT). Beside them stands what comes of making every word the
    dependent of the next one, and how many sentences have several roots.
    """
    inputs = {"GOLD": options.gold, "PREDICTED": options.predicted, "SECOND": options.second}
    with command_files(inputs, {STANDARD_OUTPUT: "-"}):
        truth, longest = read_treebank(options.gold), options.max_length
        names = [name for name in (options.predicted, options.second) if name is not None]
        guesses = [read_treebank(name) for name in names]
        for name, guess in zip(names, guesses, strict=True):
            check_same_text((options.gold, name), (truth, guess), lambda side: [one.forms for one in side])
        kept = [n for n, one in enumerate(truth) if longest is None or len(one.forms) <= longest]
        if not kept:
            raise InvalidInputError(f"GOLD has no sentence of up to --max-length {longest} words; raise it")
        truth, *guesses = ([side[n] for n in kept] for side in (truth, *guesses))
        result = _result(truth, guesses)
        print_result(result, options.as_json, lambda: _print(names, result))


def _result(truth: list[ParsedSentence], guesses: list[list[ParsedSentence]]) -> dict[str, Any]:
    """All scores, those of the baseline last; and sign tests where there are two predictions."""
    import numpy as np

    from spectrem.metrics import compare_attachments, head_is_next, not_punctuation

    true_heads = [_heads(one) for one in truth]
    known = [row > -2 for row in true_heads]
    gold = [np.maximum(row, -1) for row in true_heads]  # a number that is masked stands where a head is not known
    if not any(row.any() for row in known):
        raise InvalidInputError("GOLD has no heads, only _; name a file of trees")
    words = [row & mask for row, mask in zip(known, not_punctuation(one.upos for one in truth), strict=True)]
    masks = {"all_words": known, "without_punctuation": words}
    heads = [list(map(_heads, guess)) for guess in guesses]
    relations = [_relations(truth, guess) for guess in guesses]
    sides = [*zip(heads, relations, strict=True), (head_is_next([len(row) for row in gold]), None)]
    scores = [{name: _scores(gold, rows, mask, pair) for name, mask in masks.items()} for rows, pair in sides]
    several = [sum(int((row == -1).sum()) > 1 for row in side) for side in (true_heads, *heads)]
    result: dict[str, Any] = {
        "n_sentences": len(truth),
        "n_words": {name: int(np.sum([row.sum() for row in mask])) for name, mask in masks.items()},
        "n_unknown_heads": int(sum((~row).sum() for row in known)),
        "predicted": scores[:-1],
        "head_is_next": scores[-1],
        "sentences_with_several_roots": {"gold": several[0], "predicted": several[1:]},
    }
    if len(heads) == 2:
        compared = {name: compare_attachments(heads[0], heads[1], gold, mask=mask) for name, mask in masks.items()}
        result["sign_test"] = {name: asdict(test) for name, test in compared.items()}
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

    relations = {} if pair is None else dict(zip(("gold_relations", "predicted_relations"), pair, strict=True))
    measured = attachment_scores(gold, heads, mask=mask, **relations)
    scores = json_numbers(measured, [name for name in _ROWS if hasattr(measured, name)])
    if pair is not None:
        short = {side: [[one.partition(":")[0] for one in row] for row in rows] for side, rows in relations.items()}
        scores["las_universal"] = json_numbers(attachment_scores(gold, heads, mask=mask, **short), ["las"])["las"]
    return scores


def _print(names: list[str], result: dict[str, Any]) -> None:
    n_words, titles, rows = result["n_words"], [*column_titles(names), "head = next word"], []
    for key, where in (("without_punctuation", "without punctuation"), ("all_words", "all words")):
        sides = [one[key] for one in (*result["predicted"], result["head_is_next"])]
        rows.append([f"{where} ({n_words[key]})", *[""] * len(sides)])
        for name, row in _ROWS.items():
            if any(one.get(name) is not None for one in sides):
                rows.append([f"  {row}", *(score_cell(one.get(name), percent=True) for one in sides)])
    print_scores(titles, rows, f"{n_words['all_words']} words in {result['n_sentences']} sentences")
    if result["n_unknown_heads"]:
        typer.echo(f"left out: {result['n_unknown_heads']} words, whose heads GOLD does not know")
    several = result["sentences_with_several_roots"]
    counts = ", ".join(f"{n} of {title}" for n, title in zip(several["predicted"], titles, strict=False))
    typer.echo(f"sentences with several roots: {several['gold']} of GOLD, {counts}")
    for name, tests in result.get("sign_test", {}).items():
        print_sign_tests(tests, f", {name.replace('_', ' ')}")
