"""`spectrem align`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import typer

from spectrem.cli.alignment.formats import TextFormats
from spectrem.cli.annealing import Annealing
from spectrem.cli.estimator_options import Settings, option_of, takes
from spectrem.cli.files import command_files
from spectrem.cli.homes import Home
from spectrem.cli.options import MinProbability, Output, Quiet, refuse_unused
from spectrem.cli.stepwise import StepwiseOptions
from spectrem.estimators.alignment.parameters import DECODING, AlignerParameters
from spectrem.estimators.shared_parameters import TRAINING
from spectrem.exceptions import InvalidInputError

_FILES = "Files"
# Parameters that can be set for a saved model, and those that cannot when it goes on learning.
_OPEN = ("decode", "threshold", "rare_discount", "project_at_predict", "n_threads")
_CLOSED = ("model", "max_jump", "null_probability", "model1_iterations", "max_iter", "max_chance", "discount")


@dataclass(frozen=True)
class AlignmentOptions:
    """Arguments and options of `spectrem align` besides the parameters of `WordAligner`."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Source sentences, one per line, words separated by spaces. Without TARGET a file of both sides: "
            "'source ||| target' or two columns with a tab between; .tmx, .parquet or .jsonl; .csv or .tsv with "
            "--columns. Plain or gzipped UTF-8; - is standard input.",
        ),
    ]
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET", help="Target sentences: line n translates line n of SOURCE.", show_default=False
        ),
    ] = None
    output: Output = "-"
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            "--constraint",
            metavar="TEXT",
            help="What link probabilities must meet; repeat for several. agreement: both directions give every link "
            "the same probability. fertility: a word is linked at most --max-fertility times, in expectation. "
            "none: plain EM. Others as docs/constraints.md says.",
            show_default="agreement",
            rich_help_panel=TRAINING,
        ),
    ] = None
    priors: Annotated[
        str | None,
        typer.Option(
            "--priors",
            metavar="FILE",
            help="Expected links of other text, as pseudo-counts: lines LEX of eflomal-makepriors, or of spectrem "
            "lexicon --format eflomal.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None
    dictionary: Annotated[
        str | None,
        typer.Option(
            "--dictionary",
            metavar="FILE",
            help="Words that translate each other: lines of a source word, a tab, a target word, and if you like a tab "
            "and a weight. Each pair gets --dictionary-strength pseudo-counts, times its weight.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None
    anchors: Annotated[
        str | None,
        typer.Option(
            "--anchors",
            metavar="FILE",
            help="Links that are known already, one line per sentence pair as i-j, empty where there are none (what is "
            "marked as possible, i?j, is not used). They are kept as they are, with no others for their words, and the "
            "links of the other words follow.",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None
    factors: Annotated[
        str | None,
        typer.Option(
            "--factors",
            metavar="NAMES",
            help="What the factors of tokens such as houses|house|NNS are: 'word|class|tag' aligns the first, and "
            "words that share the second help each other while a model is trained (but not by --update), in place of "
            "words with equal first letters; '-|word|-' aligns the second. One is the word, at most one the class; the "
            "others have any name.",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None
    dev: Annotated[
        tuple[str, str, str] | None,
        typer.Option(
            "--dev",
            metavar="SRC TGT GOLD",
            help="Choose --threshold with the least AER on these sentence pairs with links made by hand. Their text is "
            "trained on like the rest, their links are not.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None
    tune_gamma: Annotated[
        bool,
        typer.Option(
            "--tune-gamma",
            help="Choose --gamma on --dev too; trains five times (1, 0.75, 0.5, 0.25, 0.1).",
            rich_help_panel=TRAINING,
        ),
    ] = False
    probabilities: Annotated[
        str | None,
        typer.Option(
            "--probabilities",
            metavar="FILE",
            help="Write probabilities there, one line per pair: i-j:p is the mean over both directions, i-NULL:p and "
            "NULL-j:p say that a source or target word has no counterpart; for example '0-0:0.983 1-NULL:0.7'.",
            show_default=False,
            rich_help_panel=DECODING,
        ),
    ] = None
    min_probability: MinProbability = None
    save: Annotated[
        str | None,
        typer.Option(
            "--save",
            metavar="MODEL",
            help="Keep the trained model in this file.",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None
    save_min_count: Annotated[
        float | None,
        typer.Option(
            "--save-min-count",
            metavar="N",
            help="Leave word pairs of fewer expected links, in both directions, out of --save. With 0.01 the file is "
            "half as large and lacks a thousandth of the links.",
            show_default="0: all are kept",
            rich_help_panel=_FILES,
        ),
    ] = None
    load: Annotated[
        str | None,
        typer.Option(
            "--load",
            metavar="MODEL",
            help="Align with a saved model, without training.",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Let the model of --load learn from this text first, with what it knows counted as text seen before; "
            "--save keeps the result, which can learn again.",
            rich_help_panel=_FILES,
        ),
    ] = False
    lowercase: Annotated[
        bool,
        typer.Option(
            "--lowercase",
            help="Lower-case all text first (done for you when a model saved so is loaded).",
            rich_help_panel=_FILES,
        ),
    ] = False
    quiet: Quiet = False


@takes(AlignerParameters, leave=["infeasible"])
def align(
    own: AlignmentOptions,
    formats: TextFormats,
    settings: Settings,
    annealing: Annealing,
    steps: StepwiseOptions,
    home: Home,
) -> None:
    """Align the words of sentence pairs, learning from these pairs alone.

    Example: **spectrem align english.txt french.txt -o links.txt**

    Writes one line per sentence pair, always: links i-j between source word i
    and target word j, counted from 0 (the Pharaoh format); pairs with an empty
    side give empty lines. The defaults are what to use. Alignments get better
    with more pairs: thousands at least. Text should be tokenised already,
    or by --tokenize; --lowercase helps when there is little of it.
    """
    _check_loading(own, settings, [*annealing.given, *steps.given, *home.given])
    annealing.check(settings.get("gamma", 1.0))
    steps.check()
    if own.save_min_count is not None and own.save is None:
        refuse_unused(f"--save-min-count {own.save_min_count:g}", "--save")
    if own.save_min_count is not None and not 0 <= own.save_min_count < math.inf:
        raise InvalidInputError(f"--save-min-count must be at least 0 and finite, got {own.save_min_count}; try 0.01")
    if own.min_probability is not None and own.probabilities is None:
        refuse_unused(f"--min-probability {own.min_probability:g}", "--probabilities")
    if own.constraint:
        settings = {**settings, "constraints": _constraints(own.constraint)}
    if "max_fertility" in settings and "fertility" not in settings.get("constraints", ()):
        refuse_unused(f"--max-fertility {settings['max_fertility']:g}", "--constraint fertility")
    if "dictionary_strength" in settings and own.dictionary is None:
        refuse_unused(f"--dictionary-strength {settings['dictionary_strength']:g}", "--dictionary")
    if "same_strength" in settings and "same" not in settings:
        refuse_unused(f"--same-strength {settings['same_strength']:g}", "--same")
    formats.check(own.dev is not None, own.probabilities)
    if own.factors is not None and formats.tokenize:
        raise InvalidInputError(
            f"--factors {own.factors} names parts of tokens, which --tokenize makes; drop one of them"
        )
    if own.anchors is not None and formats.tokenize:
        raise InvalidInputError(
            f"--anchors {own.anchors} gives links between words as they stand, but --tokenize splits them; tokenise "
            "all text before, or drop one of them"
        )
    if own.priors is not None and own.dictionary is not None:
        raise InvalidInputError(
            f"--priors {own.priors} and --dictionary {own.dictionary} cannot both be given; put all pairs into one file"
        )
    _check_tuning(own, settings)
    _check_decoding(own, settings, formats.as_json or formats.scores is not None)
    gold = dict(zip(("SRC of --dev", "TGT of --dev", "GOLD of --dev"), own.dev or (), strict=False))
    inputs = {"SOURCE": own.source, "TARGET": own.target, "--load": own.load, **gold}
    inputs |= {"--dictionary": own.dictionary, "--anchors": own.anchors, "--priors": own.priors}
    outputs = {"--output": own.output, "--probabilities": own.probabilities, "--save": own.save}
    outputs |= {"--tokens": formats.tokens, "--scores": formats.scores}
    with command_files(inputs, outputs, home.folders(settings)), home.opened(settings) as placed:
        from spectrem.cli.alignment.job import AlignmentJob

        AlignmentJob(own, placed, annealing, steps, formats).run()


def _check_loading(own: AlignmentOptions, settings: Settings, more: list[str]) -> None:
    if own.update:
        if own.load is None:
            raise InvalidInputError("--update needs a model to go on from; add --load MODEL")
        closed = [option_of(AlignerParameters, name) for name in settings if name in _CLOSED]
        closed += ["--tune-gamma"] * own.tune_gamma
        if closed:
            raise InvalidInputError(
                f"{', '.join(closed)}: belongs to the training of a model, and --update keeps that of {own.load}; drop "
                "it, or train on all text"
            )
        return
    for name in ("update_strength", "update_iterations"):
        if name in settings:
            refuse_unused(f"{option_of(AlignerParameters, name)} {settings[name]:g}", "--update")
    if own.load is not None:
        _refuse_training(own, settings, more)


def _refuse_training(own: AlignmentOptions, settings: Settings, more: list[str]) -> None:
    refused = [option_of(AlignerParameters, name) for name in settings if name not in _OPEN] + more
    refused += ["--constraint"] * bool(own.constraint) + ["--tune-gamma"] * own.tune_gamma
    refused += ["--dictionary"] * (own.dictionary is not None) + ["--priors"] * (own.priors is not None)
    refused += ["--save"] * (own.save is not None) + ["--threshold auto"] * (settings.get("threshold") == "auto")
    if refused:
        raise InvalidInputError(
            f"{', '.join(refused)}: only for training, but --load {own.load} aligns without; drop one or the other, or "
            "add --update"
        )


def _constraints(texts: list[str]) -> tuple[str, ...]:
    if "none" in texts:
        if len(set(texts)) > 1:
            raise InvalidInputError("--constraint none stands alone; drop it or the other constraints")
        return ()
    return tuple(dict.fromkeys(texts))


def _check_tuning(own: AlignmentOptions, settings: Settings) -> None:
    if own.tune_gamma and own.dev is None:
        raise InvalidInputError("--tune-gamma needs sentence pairs with links made by hand; add --dev SRC TGT GOLD")
    if own.tune_gamma and "gamma" in settings:
        raise InvalidInputError(
            f"--tune-gamma chooses gamma, but --gamma {settings['gamma']:g} gives it; drop one of them"
        )
    if own.dev is not None and "threshold" in settings:
        raise InvalidInputError(
            f"--dev chooses the threshold, but --threshold {settings['threshold']} is given; drop one of them"
        )


def _check_decoding(own: AlignmentOptions, settings: Settings, needs_posteriors: bool) -> None:
    way = settings.get("decode", "posterior")
    if way == "posterior":
        return
    if own.dev is not None and not own.tune_gamma:
        raise InvalidInputError(
            f"--dev chooses the threshold, which --decode {way} does not use; drop it, add --tune-gamma, or use "
            "--decode posterior"
        )
    needs_posteriors |= own.probabilities is not None
    for name in ["threshold", "rare_discount", *["project_at_predict"] * (not needs_posteriors)]:
        if name in settings:
            raise InvalidInputError(
                f"{option_of(AlignerParameters, name)} concerns probabilities, which --decode {way} does not use; drop "
                "it or --decode"
            )
