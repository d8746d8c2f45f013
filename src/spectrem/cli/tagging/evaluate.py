"""`spectrem tag evaluate`."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectrem.cli.ending import STANDARD_OUTPUT
from spectrem.cli.evaluation import check_same_text, column_titles, json_number, print_sign_tests, print_table
from spectrem.cli.files import command_files
from spectrem.cli.tagging.options import Columns, Field
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spectrem.data import TaggedCorpus

# Key of the JSON object, and the row of the table that shows it.
_ROWS = {
    "accuracy": "accuracy",
    "accuracy_ambiguous": "  ambiguous words",
    "accuracy_known": "  words of the dictionary",
    "accuracy_unknown": "  other words",
    "many_to_one": "many-to-one accuracy",
    "one_to_one": "one-to-one accuracy, greedy",
    "one_to_one_optimal": "one-to-one accuracy, optimal",
    "v_measure": "V-measure",
    "mutual_information": "mutual information, bits",
    "gold_entropy": "entropy of the gold tags, bits",
    "chunk_precision": "chunk precision",
    "chunk_recall": "chunk recall",
    "chunk_f1": "chunk F1",
}


def evaluate(
    gold: Annotated[
        str,
        typer.Argument(
            metavar="GOLD",
            help="Text tagged by hand: word/TAG lines, CoNLL-U or columns; words without a tag (_) do not count.",
        ),
    ],
    predicted: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTED",
            help="The same text as tagged by spectrem tag predict, in any of its formats; - is standard input.",
        ),
    ],
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="SECOND",
            help="Another tagging of the same text, to be compared with the first by sign tests.",
            show_default=False,
        ),
    ] = None,
    dictionary: Annotated[
        str | None,
        typer.Option(
            "--dictionary",
            metavar="FILE",
            help="A tag dictionary: also says how many of the ambiguous, known and unknown words are right.",
            show_default=False,
        ),
    ] = None,
    chunks: Annotated[
        bool,
        typer.Option(
            "--chunks",
            help="Tags mark chunks, such as B-NP and I-NP: also tell precision, recall and F1 of chunks, as conlleval "
            "counts them, in all and by type.",
        ),
    ] = False,
    columns: Columns = (0, 1),
    field: Field = "upos",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Compare tags with those given by hand.

    Example: **spectrem tag evaluate gold.pos predicted.pos --dictionary tags.tsv**

    Accuracy is the share of words whose tag is right; a word is ambiguous if the
    dictionary gives it several tags or does not list it. The other measures do not
    look at names, and so suit states learned without a dictionary: many-to-one
    gives every state the tag it is most often found with, one-to-one gives no tag
    twice; V-measure and mutual information compare the two partitions as such.

    --columns concerns GOLD, --field every file of CoNLL-U.
    """
    inputs = {"GOLD": gold, "PREDICTED": predicted, "SECOND": second, "--dictionary": dictionary}
    with command_files(inputs, {STANDARD_OUTPUT: "-"}):
        from spectrem.data import read_tag_dictionary, read_tagged

        names = [name for name in (predicted, second) if name is not None]
        truth = read_tagged(gold, columns=columns, field=field)
        guesses = [read_tagged(name, field=field) for name in names]
        for name, guess in zip(names, guesses, strict=True):
            check_same_text((gold, name), (truth.words, guess.words), (truth.place, guess.place))
        listed = None if dictionary is None else read_tag_dictionary(dictionary)
        scores: list[dict[str, Any]] = [_scores(truth, guess, listed) for guess in guesses]
        if chunks:
            scores = [{**score, **_chunk_scores(truth, guess)} for score, guess in zip(scores, guesses, strict=True)]
        signs = None if second is None else _sign_tests(truth, guesses)
        if as_json:
            import json

            whole: dict[str, Any] = scores[0] if signs is None else {"first": scores[0], "second": scores[1], **signs}
            typer.echo(json.dumps(whole))
        else:
            _print_table(names, scores, signs)


def _counted(truth: TaggedCorpus, other: list[list[Any]]) -> list[Any]:
    """One flat list of what stands beside the words that have a gold tag."""
    both = zip(chain.from_iterable(truth.tags), chain.from_iterable(other), strict=True)
    return [value for tag, value in both if tag is not None]


def _scores(
    truth: TaggedCorpus, guess: TaggedCorpus, dictionary: Mapping[Any, tuple[str, ...]] | None
) -> dict[str, float | int | None]:
    from spectrem import metrics

    gold, predicted, words = (_counted(truth, side) for side in (truth.tags, guess.tags, truth.words))
    if not gold:
        raise InvalidInputError("GOLD has no tags, only _; name the column or field that holds them")
    scores: dict[str, float | int | None] = {
        "n_sentences": len(truth.words),
        "n_tokens": len(gold),
        "accuracy": metrics.tagging_accuracy(predicted, gold),
    }
    if dictionary is not None:
        known = [word in dictionary for word in words]
        masks = {
            "ambiguous": metrics.ambiguous_tokens(words, dictionary).tolist(),
            "known": known,
            "unknown": [not is_known for is_known in known],
        }
        for name, mask in masks.items():
            scores[f"n_{name}"] = sum(mask)
            scores[f"accuracy_{name}"] = metrics.tagging_accuracy(predicted, gold, mask=mask) if any(mask) else None
    return scores | {
        "many_to_one": metrics.many_to_one(predicted, gold).accuracy,
        "one_to_one": metrics.one_to_one(predicted, gold).accuracy,
        "one_to_one_optimal": metrics.one_to_one(predicted, gold, method="optimal").accuracy,
        "v_measure": metrics.v_measure(predicted, gold),
        "mutual_information": metrics.mutual_information(predicted, gold),
        "gold_entropy": metrics.tag_entropy(gold),
    }


def _chunk_scores(truth: TaggedCorpus, guess: TaggedCorpus) -> dict[str, Any]:
    """Scores of chunks, those of every type among them."""
    from spectrem.metrics import chunk_scores

    untagged = next((number for number, tags in enumerate(truth.tags) if None in tags), None)
    if untagged is not None:
        raise InvalidInputError(
            f"--chunks needs a tag for every word of GOLD, got _ at {truth.place(untagged)}; write O where no chunk is"
        )
    guessed = [["O" if tag is None else tag for tag in tags] for tags in guess.tags]
    found = chunk_scores(guessed, [[str(tag) for tag in tags] for tags in truth.tags])
    by_type = {
        kind: {"n": own.n_gold, **{name: json_number(getattr(own, name)) for name in ("precision", "recall", "f1")}}
        for kind, own in found.by_type.items()
    }
    return {
        "n_chunks": found.n_gold,
        **{f"chunk_{name}": json_number(getattr(found, name)) for name in ("precision", "recall", "f1")},
        "chunks": by_type,
    }


def _sign_tests(truth: TaggedCorpus, guesses: list[TaggedCorpus]) -> dict[str, Any]:
    from dataclasses import asdict

    from spectrem.metrics import compare_taggings

    first, second = (_counted(truth, guess.tags) for guess in guesses)
    lengths = [sum(tag is not None for tag in sentence) for sentence in truth.tags]
    comparison = compare_taggings(first, second, _counted(truth, truth.tags), lengths)
    return {"sign_test": asdict(comparison)}


def _print_table(names: list[str], scores: list[dict[str, Any]], signs: dict[str, Any] | None) -> None:
    from rich.table import Table

    first = scores[0]
    table = Table("", *column_titles(names), title=f"{first['n_tokens']} words in {first['n_sentences']} sentences")
    for column in table.columns[1:]:
        column.justify = "right"
    for key, title in _ROWS.items():
        if key in first:
            count = first.get(key.replace("accuracy_", "n_")) if key.startswith("accuracy_") else None
            cells = ("–" if (value := one[key]) is None else f"{value:.4f}" for one in scores)  # noqa: RUF001 -- a dash
            table.add_row(title + (f" ({count})" if count is not None else ""), *cells)
    for kind in sorted({kind for one in scores for kind in one.get("chunks", ())}):
        own = [one["chunks"].get(kind, {"n": 0, "f1": None}) for one in scores]
        cells = ("–" if one["f1"] is None else f"{one['f1']:.4f}" for one in own)  # noqa: RUF001 -- a dash
        table.add_row(f"  {kind or 'no type'} ({own[0]['n']})", *cells)
    print_table(table)
    if signs is not None:
        print_sign_tests(signs["sign_test"])
