"""`spectrem label fit`, `predict` and `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from spectrem.cli.declare import Command, Given, Settings, files_of, option, takes
from spectrem.cli.ending import say
from spectrem.cli.evaluation import json_numbers, print_result, print_scores, print_sign_tests, score_cell
from spectrem.cli.files import command_files
from spectrem.cli.options import (
    FILES,
    JsonOption,
    LearningOptions,
    LoadOption,
    OutputOption,
    QuietOption,
    parse_options,
)
from spectrem.cli.prediction import load_model
from spectrem.cli.rules import CONSTRAINED, check_rules, excludes, needs
from spectrem.cli.tables.options import (
    COLUMNS,
    IdOption,
    KnownOption,
    TableOption,
    WeightOption,
    list_names,
    read_table_constraints,
    weight_column,
)
from spectrem.cli.tables.votes import (
    JSON,
    LABEL,
    Cast,
    Items,
    Sentences,
    check_parameters_of,
    input_named,
    open_votes,
    opened_labels,
)
from spectrem.cli.training import MOST_CONSTRAINTS, Annealing, Home, TrainingRun, learning
from spectrem.estimators.declare import parameters_of
from spectrem.estimators.votes.parameters import LabelModelParameters
from spectrem.estimators.votes.sequence_parameters import SequenceLabelModelParameters
from spectrem.exceptions import InvalidInputError, counted, quoted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

app = typer.Typer(
    help="Label items, or words of sentences, by the votes of annotators, judges or rules: learn how these err, label, "
    "judge the labels.",
    no_args_is_help=True,
)
_MEANINGS = {
    "row": "the number of the item",
    LABEL: "the label",
    "source": "the source of a vote",
    "vote": "the label that a vote names",
    "silent": "whether an item has no vote",
}
_OF_WORDS = ("sentence", "token", "occurrence", "tag", "label", "previous", "word", "silent", "source", "vote")
"""The columns of constraints on words of sentences."""
_EVERYDAY = (
    *("data", "save", "output", "votes", "table_columns", "known", "truth", "id", "group", "weights", "sources"),
    *("confusion", "classes", "span_types", "repeated", "constraint", "constraints", "report", "quiet", "gamma"),
    *("max_iter", "infeasible", "project_at_predict", "n_threads"),
)
"""The options that ``--help`` shows of `fit`."""
_ADVICE = {"classes": "--classes", "repeated": "--repeated"}
_TAKEN = ["table_columns", "project_at_predict", "infeasible", "n_threads"]
"""The parameters of models that `predict` and `evaluate` have options for."""
_ONE_TRUTH = excludes("--known", "--truth", "{--known} and {--truth} both name labels; drop one of them")


@dataclass(frozen=True, kw_only=True)
class VoteOptions(TableOption):
    """The argument and options of commands that read votes.

    Parameters
    ----------
    data
        Either it has a column for every source, or a row for every vote, whose item, source and label --columns
        names; a source is silent where a cell is empty, NA, NaN or -1. Or WRENCH's JSON (.json, also .gz), a table of
        the columns id, text, label and 0, 1, ... of sources; a file label.json beside it names the labels. Or
        sentences: JSON whose texts are lists of words, with a file meta.json that names the sources; or columns
        (.conll, also .gz), a line per word, blank lines between sentences, first the word, then a tag of every source,
        B-TYPE, I-TYPE or O, or _ for none.
    group
        The column of groups of items, which have shares of labels of their own.
    """

    group: str | None = option(None, metavar="COLUMN", group=COLUMNS)


@dataclass(frozen=True, kw_only=True)
class TruthOptions(IdOption, KnownOption, VoteOptions):
    """The argument and options of commands that read votes, and labels that are known.

    Parameters
    ----------
    truth
        Labels that are known already, in a table of two columns, items and labels; items are those of --columns, of
        --id or of JSON.
    """

    truth: str | None = option(None, metavar="FILE", group=FILES, reads=True)


@dataclass(frozen=True, kw_only=True)
class HardOption:
    """An option of commands that write labels.

    Parameters
    ----------
    hard
        Write labels without their probabilities; of words of sentences in columns, the word, a tab, its tag.
    """

    hard: bool = option(False)


@dataclass(frozen=True, kw_only=True)
class FittingOptions(HardOption, WeightOption, TruthOptions, LearningOptions):
    """The argument and options of `spectrem label fit` besides the parameters of its two estimators.

    Parameters
    ----------
    votes
        The columns of votes, one of every source; * stands for any letters: 'lf_*' or '*'. Columns of sentences have
        numbers, from 0; by default all but the first and --known hold votes.
    known
        A number, -1 for the last, of columns of sentences; label of those in JSON.
    output
        Write the labels of DATA, as learnt from votes, what is known, and constraints; see spectrem label predict.
    constraint
        "E[part('label') == 'spam'] <= '30%'": of all items. label, source, vote, silent (no source votes) and row are
        names; other names are columns of the table. Of words of sentences: sentence, token, occurrence, tag (or
        label), previous, word, source, vote, silent. See docs/guide/constraints.md.
    """

    output: str | None = option(None, "--output", "-o", metavar="FILE", writes=True)
    votes: str | None = option(None, metavar="A,B,C", group=COLUMNS)


@app.command(cls=Command)
@takes(LabelModelParameters, beside={SequenceLabelModelParameters: "sentences"}, shown=_EVERYDAY)
def fit(options: FittingOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn how sources err from votes and what is known: on items of a table, or on words of sentences.

    Example: **spectrem label fit votes.csv --columns item,worker,label --save model.npz --constraint
    "E[part('label') == 'spam'] <= '30%'"**

    Of sentences: **spectrem label fit votes.conll --save model.npz -o labels.conll --hard**
    """
    check_rules([*CONSTRAINED, _ONE_TRUTH, needs("--hard", "--output")], given)
    with learning([options], settings, annealing, home) as placed:
        import numpy as np

        run = TrainingRun(options)
        columns = placed.get("table_columns", LabelModelParameters.table_columns)
        data = open_votes(options, columns, given, options.votes)
        check_parameters_of(data.parameters, settings, given)
        declared = parameters_of(data.parameters)
        placed = {name: value for name, value in placed.items() if name in declared}
        with opened_labels(options.output, data.parameters) as output:
            if isinstance(data, Items):
                model, cast = _fit_items(data, options, placed, run)
                right = model.label_distributions_[cast.unit, cast.label]
                if output is not None:
                    data.write(output, model, model.label_distributions_, options.id, options.hard)
            else:
                model, cast = _fit_sentences(data, options, placed, run)
                right = np.concatenate(model.label_distributions_)[cast.unit, cast.label]
                if output is not None:
                    from spectrem.models.vote_sequences import likely_tags

                    learnt = model.label_distributions_
                    labels = likely_tags(model.tags_, learnt) if options.hard else learnt
                    data.write(output, model, labels, options.hard)
    if not options.quiet:
        n_silent = int(cast.silent.sum())
        mean = len(cast.unit) / max(cast.n - n_silent, 1)
        units = "items" if isinstance(data, Items) else "words"
        say(f"  {n_silent} {units} have no vote, the others {mean:.3g} on average")
        n_votes, n_right = (np.bincount(cast.source, of, len(cast.sources)) for of in (None, right))
        for k in np.argsort(-n_votes, kind="stable")[:MOST_CONSTRAINTS].tolist():
            share = f", {n_right[k] / n_votes[k]:.1%} right" if n_votes[k] else ""
            say(f"  {cast.sources[k]}: votes {n_votes[k]}{share}")


def _fit_items(items: Items, options: FittingOptions, settings: dict[str, Any], run: TrainingRun) -> tuple[Any, Cast]:
    from spectrem.estimators import LabelModel
    from spectrem.estimators.votes.input import read_votes

    named = items.check_named(options)
    of_format = () if items.file is items.table and items.listed is None else [*_MEANINGS]
    constraints, used = read_table_constraints(options, items.file, _MEANINGS, of_format)
    weights = None if options.weights is None else weight_column(items.file, options.weights)
    votes, y = items.read(items.sources(options.votes, [*named, *used]), options)
    items.check_same([*named, *used])
    model = LabelModel(constraints=constraints, **settings)
    with items.named():
        of_items: dict[str, Any] = {"sample_weight": weights, "groups": items.groups(options), "columns": used}
        read = read_votes(votes, model.table_columns, repeated=model.repeated)
        run.fit(model, lambda: model.fit(read, y, **of_items), advice=_ADVICE)
    cast = items.numbered(model, read)
    learned = f"{counted(len(cast.sources), 'source')} of {model.kind_} for {list_names(model.classes_.tolist())}"
    _report(run, model, learned, range(cast.n), cast, ("item", "vote"))
    return model, cast


def _fit_sentences(
    sentences: Sentences, options: FittingOptions, settings: dict[str, Any], run: TrainingRun
) -> tuple[Any, Cast]:
    from spectrem.estimators import SequenceLabelModel

    constraints = parse_options(options.constraint, _OF_WORDS, options.constraints)
    votes, y = sentences.read(options.known is not None)
    model = SequenceLabelModel(constraints=constraints, **settings)
    if not votes.tags and model.span_types is None and not any(y or ()):
        raise InvalidInputError(
            f"{sentences.name}: no source votes for a span; give votes, or all types by --span-types"
        )
    with input_named(sentences.name):
        advice = {"scheme": "the scheme"}
        run.fit(model, lambda: model.fit(sentences.data.words, votes, y), sentences.place, advice)
    cast = sentences.numbered(model, votes)
    learned = f"{counted(len(cast.sources), 'source')} for {list_names(model.span_types_)}"
    _report(run, model, learned, sentences.data.words, cast, ("sentence", "vote"))
    return model, cast


def _report(
    run: TrainingRun, model: Any, learned: str, units: Sequence[Any], cast: Cast, names: tuple[str, str]
) -> None:
    outcome = f": {counted(model.n_iter_, 'iteration')}, objective {model.objective_:.6g} nats"
    run.report(model, learned, units, len(cast.unit), outcome, names)


@dataclass(frozen=True, kw_only=True)
class PredictingOptions(HardOption, IdOption, VoteOptions, QuietOption, OutputOption, LoadOption):
    """The argument and options of `spectrem label predict` besides parameters of its two estimators.

    Parameters
    ----------
    output
        Of items, the name says in which format: .csv, .tsv (either also .gz) or .parquet; standard output is CSV.
    """


@app.command()
@takes(LabelModelParameters, only=_TAKEN)
def predict(options: PredictingOptions, settings: Settings, given: Given) -> None:
    """Label items, or words of sentences, by votes with a trained model.

    Example: **spectrem label predict votes.csv --load model.npz -o labels.csv**

    Writes a row for every item: its name, if items have names, a column of
    probabilities for every label in order, and the column *label*. For every word of
    a sentence it writes a line of the word and its tags with their probabilities, as
    *spectrem tag predict --probabilities* does, with blank lines between sentences.
    """
    kind = _kind_of(options, settings, given)
    with command_files(*files_of(options)), opened_labels(options.output, kind) as output:
        model, data, cast, _, predicted = _applied(options, settings, given, options.hard)
        if isinstance(data, Items):
            labels, names = data.write(output, model, predicted, options.id, options.hard), model.classes_.tolist()
            counts = [f"{name}: {labels.count(name)}" for name in names]
            silent = f"{counted(cast.n, 'item')}, {int(cast.silent.sum())} of them without a vote"
        else:
            data.write(output, model, predicted, options.hard)
            silent = f"{counted(len(predicted), 'sentence')}; {int(cast.silent.sum())} of {cast.n} words without a vote"
            if options.hard:
                from spectrem.metrics import find_chunks

                spans = [span.type for sentence in predicted for span in find_chunks(sentence)]
                counts = [f"{name}: {spans.count(name)}" for name in model.span_types_]
            else:
                silent += ", spans expected"
                begins = sum(table[:, 1::2].sum(axis=0) for table in predicted)
                counts = [f"{name}: {begin:.1f}" for name, begin in zip(model.span_types_, begins, strict=True)]
    if not options.quiet:
        say(f"labels of {silent}: {list_names(counts)}")


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(TruthOptions, JsonOption, LoadOption):
    """The argument and options of `spectrem label evaluate` besides parameters of its two estimators.

    Parameters
    ----------
    known
        Of WRENCH's JSON it is label by default; a number, -1 for the last, of columns of sentences.
    """


@app.command()
@takes(LabelModelParameters, only=_TAKEN)
def evaluate(options: EvaluationOptions, settings: Settings, given: Given) -> None:
    """Compare labels of a trained model, and the majority vote, with labels that are known.

    Example: **spectrem label evaluate votes.csv --load model.npz --truth truth.csv**

    Labels with equally many votes share an item in the majority vote: each of two has
    it by half; items without a vote are shared by all labels. Its probabilities are
    shares of votes beside one more that all labels share. The calibration error is the
    mean distance between probabilities and how often they are right, in ten bins. The
    sign test counts the items that one has right more than the other.

    Of sentences, precision, recall and F1 of spans count those whose words and type
    are right; sentences with a tag that is not known are left out. The majority of the
    tags that sources give a word wins, of equals I, then the first type. Sign tests
    count the words, and the sentences, that one has right more than the other.
    """
    check_rules([_ONE_TRUTH], given)
    with command_files(*files_of(options)):
        if options.known is None and options.truth is None and options.data.endswith(JSON):
            options = replace(options, known=LABEL)
        _kind_of(options, settings, given)
        model, data, cast, y, predicted = _applied(options, settings, given, True)
        compare = _compare_items if isinstance(data, Items) else _compare_spans
        result, sides = compare(model, data, cast, y or [], predicted, options)
        print_result(result, options.as_json, lambda: _show(result, sides))


def _compare_items(
    model: Any, items: Any, cast: Cast, y: Any, proba: Any, options: EvaluationOptions
) -> tuple[dict[str, Any], dict[str, Any]]:
    import numpy as np

    from spectrem.metrics import sign_test

    classes = model.classes_.tolist()
    known = np.array([label is not None for label in y])
    if unknown := [label for label in y if label is not None and label not in classes]:
        raise InvalidInputError(
            f"{options.truth or items.file.name}: known labels must be those of the model, {quoted(classes)}, "
            f"found {quoted(unknown[0])}; correct it, or train with --classes"
        )
    if not known.any():
        raise InvalidInputError(f"{items.file.name}: no item has a known label; name them by --known or --truth")
    gold = np.array([classes.index(label) for label in y if label is not None])
    counts = np.full(proba.shape, 1 / len(classes))
    np.add.at(counts, (cast.unit, cast.label), 1)
    sides = {}
    for name, table in (("model", proba), ("majority vote", counts / counts.sum(axis=1, keepdims=True))):
        best = np.isclose(table, table.max(axis=1, keepdims=True), rtol=1e-9, atol=0)
        if name == "model":
            best = np.eye(len(classes))[table.argmax(axis=1)]
        sides[name] = _scores((best / best.sum(axis=1, keepdims=True))[known], table[known], gold, classes)
    right = [side.pop("right") for side in sides.values()]
    result = {"n": len(gold), "n_silent": int(cast.silent[known].sum()), **sides}
    return {**result, "sign_test": {"items": asdict(sign_test(*right))}}, sides


def _compare_spans(
    model: Any, sentences: Any, cast: Cast, y: Any, predicted: Any, options: EvaluationOptions
) -> tuple[dict[str, Any], dict[str, Any]]:
    from itertools import chain

    import numpy as np

    from spectrem.metrics import chunk_scores, compare_taggings
    from spectrem.models.vote_sequences import majority_scores

    known = [number for number, tags in enumerate(y) if tags is not None and None not in tags]
    if not known:
        advice = "name their column by --known" if sentences.unit == "line" else "give them as label of its records"
        raise InvalidInputError(f"{sentences.name}: no sentence has known tags; {advice}")
    ends = np.cumsum([len(one) for one in sentences.data.words])
    best = majority_scores(cast.unit, cast.label, cast.n, model.tags_).argmax(axis=1)
    majority = [[model.tags_[tag] for tag in part.tolist()] for part in np.split(best, ends[:-1])]
    gold = [y[number] for number in known]
    sides, flat = {}, []
    for name, tags in (("model", predicted), ("majority vote", majority)):
        guessed = [tags[number] for number in known]
        scores = chunk_scores(guessed, gold)
        sides[name] = {
            **json_numbers(scores, ("precision", "recall", "f1")),
            "f1_by_type": {kind: json_numbers(one, ("f1",))["f1"] for kind, one in scores.by_type.items()},
        }
        flat.append(list(chain.from_iterable(guessed)))
    test = compare_taggings(flat[0], flat[1], list(chain.from_iterable(gold)), [len(tags) for tags in gold])
    silent = np.split(cast.silent, ends[:-1])
    result: dict[str, Any] = {"n_sentences": len(known), "n": len(flat[0])}
    result["n_silent"] = int(sum(silent[number].sum() for number in known))
    return {**result, **sides, "sign_test": asdict(test)}, sides


def _show(result: Mapping[str, Any], sides: Mapping[str, Mapping[str, Any]]) -> None:
    rows = []
    for name, value in next(iter(sides.values())).items():
        if isinstance(value, dict):
            each = sorted({one for side in sides.values() for one in side[name]}, key=[*value].index)
            rows += [[f"  F1 of {one}", *(score_cell(side[name].get(one)) for side in sides.values())] for one in each]
        else:
            rows.append([name.replace("_", " "), *(score_cell(side[name]) for side in sides.values())])
    words = "n_sentences" in result
    unit = f"{counted(result['n_sentences'], 'sentence')} of {result['n']} words" if words else None
    typer.echo(
        f"{unit or counted(result['n'], 'item')} with a known {'tag each' if words else 'label'}, "
        f"{result['n_silent']} of them without a vote"
    )
    print_scores([*sides], rows)
    print_sign_tests(result["sign_test"], " (the model, the majority vote)")


def _scores(
    decided: NDArray[np.float64], proba: NDArray[np.float64], gold: NDArray[np.int64], classes: Sequence[Any]
) -> dict[str, Any]:
    """Measures of decisions, which may share an item between labels, and of probabilities; shape (n_items, n_classes).

    ``right`` is the share of the true label of every item.
    """
    import numpy as np

    from spectrem.metrics import reliability

    truth = np.eye(len(classes))[gold]
    sizes = decided.sum(axis=0) + truth.sum(axis=0)
    f1 = 2 * np.divide((decided * truth).sum(axis=0), sizes, out=np.zeros(len(classes)), where=sizes > 0)
    with np.errstate(divide="ignore"):
        loss = float(-np.log((proba * truth).sum(axis=1)).mean())
    bins = reliability(np.minimum(proba, 1.0), truth)
    right = (decided * truth).sum(axis=1)
    return {
        "accuracy": float(right.mean()),
        "macro_F1": float(f1[sizes > 0].mean()),
        "f1": {str(name): float(score) for name, score in zip(classes, f1, strict=True)},
        "log_loss": loss if np.isfinite(loss) else None,
        "calibration_error": float(np.nansum(bins.counts * np.abs(bins.expected - bins.observed)) / proba.size),
        "right": right,
    }


def _kind_of(options: Any, settings: Settings, given: Given) -> type:
    """The declarations of the model of --load; parameters and options that it does not have are refused."""
    from spectrem.estimators.storage import saved_kind

    of_sentences = saved_kind(options.load) == "SequenceLabelModel"
    kind = SequenceLabelModelParameters if of_sentences else LabelModelParameters
    check_parameters_of(kind, settings, given)
    return kind


def _applied(
    options: Any, settings: Settings, given: Given, hard: bool
) -> tuple[Any, Items | Sentences, Cast, Any, Any]:
    """A model, its input, the votes, labels that are known, and what it predicts.

    It predicts probabilities of labels; tags of words in their place if ``hard``.
    """
    from spectrem.constraints.columns import as_column
    from spectrem.constraints.compilation.draft import used_columns
    from spectrem.estimators import LabelModel, SequenceLabelModel
    from spectrem.estimators.votes.input import read_votes

    model = load_model(options.load, [LabelModel, SequenceLabelModel], settings, given)
    of_sentences = isinstance(model, SequenceLabelModel)
    columns = LabelModelParameters.table_columns if of_sentences else model.table_columns
    items = open_votes(options, columns, given, None, model.sources_ if of_sentences else None)
    if of_sentences != isinstance(items, Sentences):
        models, inputs = ("words of sentences", "items")[:: 1 if of_sentences else -1]
        raise InvalidInputError(
            f"--load {options.load}: the model labels {models}, but {options.data} holds votes on {inputs}; give "
            "input as it was trained on"
        )
    if isinstance(items, Sentences):
        read, tags = items.read(getattr(options, "known", None) is not None)
        with input_named(items.name):
            predicted = (model.predict if hard else model.predict_proba)(items.data.words, read)
        return model, items, items.numbered(model, read), tags, predicted
    named = items.check_named(options)
    if model.groups_ is None and options.group is not None:
        raise InvalidInputError(f"--group {options.group} changes nothing: the model was trained without it; drop it")
    if model.groups_ is not None and options.group is None:
        raise InvalidInputError(f"--load {options.load}: the model was trained with --group; name the column again")
    sources = list(map(str, model.sources_.tolist()))
    if items.file is items.table:
        items.file.check(sources, f"--load {options.load}")
    used = set().union(*map(used_columns, model.constraints)) if model.project_at_predict else set()
    named_columns = {
        name: as_column(name, items.file.keys(name)) for name in used - _MEANINGS.keys() if name in items.file.schema
    }
    items.check_same([*named, *named_columns])
    votes, y = items.read(sources if items.file is items.table else [items.columns[2]], options, model)
    with items.named():
        of_items = read_votes(votes, model.table_columns, repeated=model.repeated)
        proba = model.predict_proba(of_items, groups=items.groups(options), columns=named_columns)
    return model, items, items.numbered(model, of_items), y, proba
