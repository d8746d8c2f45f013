"""`spectrem tag evaluate`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from spectrem.cli.declare import argument, option, takes
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
_NAMES = ("precision", "recall", "f1")


@dataclass(frozen=True)
class EvaluationOptions:
    """Arguments and options of `spectrem tag evaluate`.

    Parameters
    ----------
    gold
        Text tagged by hand: word/TAG lines, CoNLL-U or columns; words without a tag (_) do not count.
    predicted
        The same text as tagged by spectrem tag predict, in any of its formats; - is standard input.
    second
        Another tagging of the same text, to be compared with the first by sign tests.
    dictionary
        A tag dictionary: also says how many of the ambiguous, known and unknown words are right.
    chunks
        Tags mark chunks, such as B-NP and I-NP: also tell precision, recall and F1 of chunks, as conlleval counts
        them, in all and by type.
    """

    gold: str = argument("GOLD")
    predicted: str = argument("PREDICTED")
    second: str | None = argument("SECOND", None)
    dictionary: str | None = option(None, metavar="FILE")
    chunks: bool = option(False)
    columns: Columns = (0, 1)
    field: Field = "upos"
    as_json: Json = False


@takes()
def evaluate(options: EvaluationOptions) -> None:
    """Compare tags with those given by hand.

    Example: **spectrem tag evaluate gold.pos predicted.pos --dictionary tags.tsv**

    Accuracy is the share of words whose tag is right; a word is ambiguous if the
    dictionary gives it several tags or does not list it. The other measures do not
    look at names, and so suit states learned without a dictionary: many-to-one
    gives every state the tag it is most often found with, one-to-one gives no tag
    twice; V-measure and mutual information compare the two partitions as such.

    --columns concerns GOLD, --field every file of CoNLL-U.
    """
    inputs = {"GOLD": options.gold, "PREDICTED": options.predicted, "SECOND": options.second}
    with command_files({**inputs, "--dictionary": options.dictionary}, {STANDARD_OUTPUT: "-"}):
        from spectrem.data import read_tag_dictionary, read_tagged

        names = [name for name in (options.predicted, options.second) if name is not None]
        truth = read_tagged(options.gold, columns=options.columns, field=options.field)
        guesses = [read_tagged(name, field=options.field) for name in names]
        for name, guess in zip(names, guesses, strict=True):
            check_same_text((options.gold, name), (truth, guess), lambda side: side.words)
        listed = None if options.dictionary is None else read_tag_dictionary(options.dictionary)
        scores: list[dict[str, Any]] = [_scores(truth, guess, listed) for guess in guesses]
        if options.chunks:
            scores = [{**score, **_chunk_scores(truth, guess)} for score, guess in zip(scores, guesses, strict=True)]
        signs = {} if options.second is None else _sign_tests(truth, guesses)
        result = {"first": scores[0], "second": scores[1], **signs} if signs else scores[0]
        print_result(result, options.as_json, lambda: _print_table(names, scores, signs))


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
    scores = chunk_scores(guessed, [[str(tag) for tag in tags] for tags in truth.tags])
    return {
        "n_chunks": scores.n_gold,
        **{f"chunk_{name}": value for name, value in json_numbers(scores, _NAMES).items()},
        "chunks": {kind: {"n": one.n_gold, **json_numbers(one, _NAMES)} for kind, one in scores.by_type.items()},
    }


def _sign_tests(truth: TaggedCorpus, guesses: list[TaggedCorpus]) -> dict[str, Any]:
    from spectrem.metrics import compare_taggings

    first, second = (_counted(truth, guess.tags) for guess in guesses)
    lengths = [sum(tag is not None for tag in sentence) for sentence in truth.tags]
    comparison = compare_taggings(first, second, _counted(truth, truth.tags), lengths)
    return {"sign_test": asdict(comparison)}


def _print_table(names: list[str], scores: list[dict[str, Any]], signs: dict[str, Any]) -> None:
    first, rows = scores[0], []
    for key, title in _ROWS.items():
        if key in first:
            count = first.get(key.replace("accuracy_", "n_")) if key.startswith("accuracy_") else None
            title += "" if count is None else f" ({count})"
            rows.append([title, *(score_cell(one[key]) for one in scores)])
    for kind in sorted({kind for one in scores for kind in one.get("chunks", ())}):
        chunks = [one["chunks"].get(kind, {"n": 0, "f1": None}) for one in scores]
        rows.append([f"  {kind or 'no type'} ({chunks[0]['n']})", *(score_cell(one["f1"]) for one in chunks)])
    print_scores(column_titles(names), rows, f"{first['n_tokens']} words in {first['n_sentences']} sentences")
    if signs:
        print_sign_tests(signs["sign_test"])
