"""`spectrem extract train`, `predict` and `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from spectrem.cli.declare import Command, Given, Settings, argument, option, takes
from spectrem.cli.ending import STANDARD_OUTPUT, say
from spectrem.cli.evaluation import check_same_text, json_numbers, print_result, print_scores, score_cell
from spectrem.cli.files import command_files
from spectrem.cli.options import ConstraintFile, Json, Load, Output, Quiet, Report, Save, parse_options
from spectrem.cli.rules import check_rules, needs
from spectrem.cli.training import Annealing, Home, TrainingRun
from spectrem.estimators.extraction.parameters import ExtractionParameters
from spectrem.estimators.shared_parameters import CONSTRAINTS
from spectrem.exceptions import InvalidInputError, counted

if TYPE_CHECKING:
    from spectrem.metrics import LabelScores

app = typer.Typer(
    help="Find types of mentions of entities and relations between them: learn both together, apply them, judge them.",
    no_args_is_help=True,
)
_COLUMNS = ("sentence", "kind", "labelled", "mention", "type", "text", "pair", "relation", "first", "second")
_OF_UNLABELLED = (
    *("--count-margin", "--gamma", "--unlabelled-weight", "--dual-steps", "--m-steps", "--infeasible"),
    *("--anneal", "--anneal-rate", "--quench"),
)
_EVERYDAY = (
    *("labelled", "unlabelled", "save", "constraint", "constraints", "quiet", "C", "no_relation", "min_count"),
    *("unlabelled_weight", "decode", "gamma", "max_iter", "infeasible", "n_threads", "report"),
)
"""The options that ``--help`` shows."""
_RULES = [needs(option, "--unlabelled") for option in _OF_UNLABELLED]
_NAMES = ("precision", "recall", "f1")


@dataclass(frozen=True)
class TrainingOptions:
    """The arguments and options of `spectrem extract train` besides the parameters of `RelationExtractor`.

    Parameters
    ----------
    labelled
        Sentences with types and relations, in the format of CoNLL04: nine columns between tabs, of which the second
        has the type of a mention or O, the fifth parts of speech and the sixth words; a mention of several words is
        one line, with / between; a blank line; lines of two line numbers and a relation; a blank line.
    unlabelled
        Further sentences with mentions, to be learned from besides LABELLED; their labels are ignored.
    constraint
        What must hold in expectation; repeat for several. "argument_types({'Kill': ('Peop', 'Peop')})": a
        relation implies types. See docs/guide/constraints.md.
    """

    save: Save
    labelled: str = argument("LABELLED")
    unlabelled: str | None = option(None, metavar="FILE", group="Files")
    constraint: list[str] | None = option(None, metavar="TEXT", group=CONSTRAINTS)
    constraints: ConstraintFile = None
    report: Report = None
    quiet: Quiet = False


@app.command(cls=Command)
@takes(ExtractionParameters, shown=_EVERYDAY)
def train(options: TrainingOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn to find types of mentions and relations between them, in sentences whose mentions are known.

    Example: **spectrem extract train labelled.corp --save model.npz --constraint "argument_types({'Kill': ('Peop',
    'Peop')})"**

    With --unlabelled it also learns from sentences without labels, guided by the
    constraints and, with --count-margin 0.2, by the shares of the relations.
    """
    annealing.check(settings.get("gamma", 1.0))
    check_rules(_RULES, given)
    inputs = {"LABELLED": options.labelled, "--unlabelled": options.unlabelled}
    inputs |= {"--constraints": options.constraints}
    outputs = {"--save": options.save, "--report": options.report}
    with command_files(inputs, outputs, home.folders(settings)), home.opened(settings) as placed:
        from spectrem.data import display_name, read_relations
        from spectrem.estimators import RelationExtractor

        run = TrainingRun(options.save, options.quiet, options.report)
        constraints = parse_options(options.constraint, _COLUMNS, options.constraints)
        sentences = read_relations(options.labelled)
        if not any(any(one.types or ()) for one in sentences) or not any(one.relations for one in sentences):
            raise InvalidInputError(
                f"{display_name(options.labelled)}: holds no mentions with types, or no relations, to learn from; name "
                "a file with both"
            )
        if options.unlabelled is not None:
            sentences += [sentence.unlabelled() for sentence in read_relations(options.unlabelled)]
        extractor = RelationExtractor(constraints=constraints, **annealing.schedule(placed))
        run.fit(extractor, lambda: extractor.fit(sentences))
    n_types, n_relations = len(extractor.types_), len(extractor.relations_) - 1
    learned = f"{len(extractor.theta_)} weights for {n_types} types and {n_relations} relations"
    outcome = f": {counted(extractor.n_iter_, 'iteration')}, objective {extractor.objective_:.6g} nats"
    run.report(extractor, learned, sentences, None, outcome)


@dataclass(frozen=True)
class PredictionOptions:
    """The arguments and options of `spectrem extract predict` besides parameters of `RelationExtractor`.

    Parameters
    ----------
    text
        Sentences with mentions, in the format of CoNLL04; their labels are ignored (a mention whose type is not
        known has the type _); - is standard input.
    """

    load: Load
    text: str = argument("TEXT")
    output: Output = "-"
    quiet: Quiet = False


@app.command()
@takes(ExtractionParameters, only=["decode", "relation_bonus", "infeasible", "n_threads"])
def predict(options: PredictionOptions, settings: Settings) -> None:
    """Find types of mentions and relations between them with a trained model.

    Example: **spectrem extract predict text.corp --load model.npz -o found.corp**

    Types and relations meet the constraints inside sentences that the model was
    trained under.
    """
    with command_files({"--load": options.load, "TEXT": options.text}, {"--output": options.output}):
        from spectrem.data import read_relations, write_relations
        from spectrem.estimators import RelationExtractor

        extractor = RelationExtractor.load(options.load).set_params(**settings)
        sentences = extractor.predict(read_relations(options.text))
        write_relations(options.output, sentences)
    if not options.quiet:
        n_relations = sum(len(sentence.relations or ()) for sentence in sentences)
        n_mentions = sum(len(sentence.mentions) for sentence in sentences)
        say(
            f"{counted(len(sentences), 'sentence')}: {counted(n_mentions, 'mention')}, "
            f"{counted(n_relations, 'relation')}"
        )


@dataclass(frozen=True)
class EvaluationOptions:
    """The arguments and options of `spectrem extract evaluate`.

    Parameters
    ----------
    gold
        Sentences labelled by hand, in the format of CoNLL04; labels _ do not count.
    predicted
        The same sentences as labelled by spectrem extract predict; - is standard input.
    """

    gold: str = argument("GOLD")
    predicted: str = argument("PREDICTED")
    as_json: Json = False


@app.command()
@takes()
def evaluate(options: EvaluationOptions) -> None:
    """Compare types and relations with those given by hand: precision, recall and F1 of each.

    Example: **spectrem extract evaluate gold.corp found.corp**

    A relation is right if both mentions and their order are, whatever their types.
    """
    with command_files({"GOLD": options.gold, "PREDICTED": options.predicted}, {STANDARD_OUTPUT: "-"}):
        from spectrem.data import read_relations
        from spectrem.metrics import relation_scores

        names = options.gold, options.predicted
        gold, predicted = map(read_relations, names)
        check_same_text(names, (gold, predicted), lambda side: [one.words for one in side])
        scores = relation_scores(predicted, gold)._asdict()
        result = {kind: _as_json(one) for kind, one in scores.items()}
        print_result(result, options.as_json, lambda: print_scores(["gold", *_NAMES], _rows(result)))


def _as_json(scores: LabelScores) -> dict[str, Any]:
    by_label = {label: {"n": one.n_gold, **json_numbers(one, _NAMES)} for label, one in scores.by_label.items()}
    total = {"n": scores.total.n_gold, **json_numbers(scores.total, _NAMES), **json_numbers(scores, ["macro_f1"])}
    return {**total, "by_label": by_label}


def _rows(result: dict[str, Any]) -> list[list[str]]:
    rows = []
    for kind, scores in result.items():
        rows.append([f"{kind}, mean of labels", "", "", "", score_cell(scores["macro_f1"])])
        for label, counts in [("all", scores), *scores["by_label"].items()]:
            rows.append([f"  {label}", str(counts["n"]), *(score_cell(counts[name]) for name in _NAMES)])
    return rows
