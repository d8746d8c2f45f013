"""`spectrem align`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from spectrem.cli.files import command_files
from spectrem.cli.homes import CheckpointFolder, Dask, Home, Spill, Threads
from spectrem.cli.options import (
    LEAST_PROBABILITY,
    DecodeName,
    ModelName,
    Output,
    as_threshold,
    check_annealing,
    refuse_unused,
)
from spectrem.exceptions import InvalidInputError

_TRAINING, _DECODING, _FILES = "Training", "Decoding", "Files"
# Options that the saved model has settled, by the name of WordAligner's parameter.
_SETTLED = {
    "model": "--model",
    "constraints": "--constraint",
    "gamma": "--gamma",
    "beta_min": "--anneal",
    "iterations": "--iterations",
    "model1_iterations": "--model1-iterations",
    "max_fertility": "--max-fertility",
    "max_length": "--max-length",
}


def align(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Source sentences, one per line, words separated by spaces. Without TARGET a file of both sides: "
            "'source ||| target' or two columns with a tab between. Plain or gzipped UTF-8; - is standard input.",
        ),
    ],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET", help="Target sentences: line n translates line n of SOURCE.", show_default=False
        ),
    ] = None,
    output: Output = "-",
    model: Annotated[
        ModelName | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="hmm: where a word's link goes depends on the last one's. ibm2: on its place in the sentence. "
            "ibm1: on nothing; the others begin with its training.",
            show_default="hmm",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            "--constraint",
            metavar="TEXT",
            help="What link probabilities must meet; repeat for several. agreement: both directions give every link "
            "the same probability. fertility: a word is linked at most --max-fertility times, in expectation. "
            "none: plain EM. Others as docs/constraints.md says.",
            show_default="agreement",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    gamma: Annotated[
        float | None,
        typer.Option(
            "--gamma",
            metavar="GAMMA",
            help="How soft posteriors are, 0 or more: 1 is EM (posterior regularisation), between 0 and 1 unified EM, "
            "0 hard EM by linear program (slow), -inf hard EM by integer program (very slow).",
            show_default="1.0",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    anneal: Annotated[
        float | None,
        typer.Option(
            "--anneal",
            metavar="BETA",
            help="Deterministic annealing: start softer, at gamma = 1 / BETA, and cool down to --gamma, with "
            "--iterations at every step; for example 0.5.",
            show_default="off",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            min=1,
            metavar="N",
            help="Iterations of the last model.",
            show_default="3",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    model1_iterations: Annotated[
        int | None,
        typer.Option(
            "--model1-iterations",
            min=0,
            metavar="N",
            help="Iterations of IBM Model 1 before it.",
            show_default="5",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    max_fertility: Annotated[
        float | None,
        typer.Option(
            "--max-fertility",
            metavar="LINKS",
            help="Bound of --constraint fertility, in links per word.",
            show_default="1.0",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            "--max-length",
            min=1,
            metavar="WORDS",
            help="Do not train on pairs with a longer side; they are aligned all the same.",
            show_default="no limit",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    dev: Annotated[
        tuple[str, str, str] | None,
        typer.Option(
            "--dev",
            metavar="SRC TGT GOLD",
            help="Choose --threshold with the least AER on these sentence pairs with links made by hand. Their text is "
            "trained on like the rest, their links are not.",
            show_default=False,
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    tune_gamma: Annotated[
        bool,
        typer.Option(
            "--tune-gamma",
            help="Choose --gamma on --dev too; trains five times (1, 0.75, 0.5, 0.25, 0.1).",
            rich_help_panel=_TRAINING,
        ),
    ] = False,
    decode: Annotated[
        DecodeName | None,
        typer.Option(
            "--decode",
            metavar="WAY",
            help="posterior: links whose mean probability over both directions exceeds --threshold. Or the best "
            "alignment of one direction: viterbi (the same as forward), backward. Or of both merged: intersection, "
            "union, grow-diag-final-and.",
            show_default="posterior",
            rich_help_panel=_DECODING,
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="auto|P",
            help="A probability: higher gives fewer, surer links. auto: where the expected F1 is greatest if the "
            "probabilities of the training text are right.",
            show_default="auto",
            rich_help_panel=_DECODING,
        ),
    ] = None,
    project: Annotated[
        bool | None,
        typer.Option(
            "--project/--no-project",
            help="Whether probabilities meet the constraints when decoding too.",
            show_default="project",
            rich_help_panel=_DECODING,
        ),
    ] = None,
    probabilities: Annotated[
        str | None,
        typer.Option(
            "--probabilities",
            metavar="FILE",
            help="Write probabilities there, one line per pair: i-j:p is the mean over both directions, i-NULL:p and "
            "NULL-j:p say that a source or target word has no counterpart; for example '0-0:0.983 1-NULL:0.7'.",
            show_default=False,
            rich_help_panel=_DECODING,
        ),
    ] = None,
    min_probability: Annotated[
        float | None,
        typer.Option(
            "--min-probability",
            min=0.0,
            max=1.0,
            metavar="P",
            help="Leave entries below this out of --probabilities.",
            show_default=f"{LEAST_PROBABILITY}",
            rich_help_panel=_DECODING,
        ),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(
            "--save",
            metavar="MODEL",
            help="Keep the trained model in this file.",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(
            "--load",
            metavar="MODEL",
            help="Align with a saved model, without training.",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None,
    lowercase: Annotated[
        bool,
        typer.Option(
            "--lowercase",
            help="Lower-case all text first (done for you when a model saved so is loaded).",
            rich_help_panel=_FILES,
        ),
    ] = False,
    threads: Threads = None,
    spill: Spill = None,
    dask: Dask = None,
    checkpoint: CheckpointFolder = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            help="Accepted for scripts that pass one; training draws nothing at random, so it changes nothing.",
        ),
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """Align the words of sentence pairs, learning from these pairs alone.

    Example: **spectrem align english.txt french.txt -o links.txt**

    Writes one line per sentence pair, always: links i-j between source word i
    and target word j, counted from 0 (the Pharaoh format); pairs with an empty
    side give empty lines. The defaults are what to use. Alignments get better
    with more pairs: thousands at least. Text should be tokenised already;
    --lowercase helps when there is little of it.
    """
    constraints = _constraints(constraint)
    training = _given(
        model=model and model.value,
        constraints=constraints,
        gamma=gamma,
        beta_min=anneal,
        iterations=iterations,
        model1_iterations=model1_iterations,
        max_fertility=max_fertility,
        max_length=max_length,
    )
    decoding = _given(
        decode=decode and decode.value,
        threshold=None if threshold is None else as_threshold(threshold),
        project=project,
    )
    home = Home(threads, spill, dask, checkpoint)
    if load is not None:
        refused = [_SETTLED[name] for name in training] + list(home.for_training)
        _refuse_training(load, refused, save, tune_gamma, auto=threshold == "auto")
    check_annealing(anneal, 1.0 if gamma is None else gamma)
    if max_fertility is not None and "fertility" not in (constraint or ()):
        refuse_unused(f"--max-fertility {max_fertility:g}", "--constraint fertility")
    if max_fertility is not None and not 0 < max_fertility < float("inf"):
        raise InvalidInputError(f"--max-fertility {max_fertility:g}: must be above 0 and finite; give for example 1")
    if min_probability is not None and probabilities is None:
        refuse_unused(f"--min-probability {min_probability:g}", "--probabilities")
    _check_tuning(decoding, dev, tune_gamma, gamma)
    _check_decoding(decoding, probabilities, tuned=dev is not None and not tune_gamma)
    gold = dict(zip(("SRC of --dev", "TGT of --dev", "GOLD of --dev"), dev or (), strict=False))
    inputs = {"SOURCE": source, "TARGET": target, "--load": load, **gold}
    outputs = {"--output": output, "--probabilities": probabilities, "--save": save}
    with command_files(inputs, outputs, home.folders), home.settings() as computing:
        from spectrem.cli.alignment_job import AlignmentJob

        AlignmentJob(
            source=source,
            target=target,
            output=output,
            probabilities=probabilities,
            min_probability=LEAST_PROBABILITY if min_probability is None else min_probability,
            training=training,
            decoding=decoding | computing,
            dev=dev,
            tune_gamma=tune_gamma,
            save=save,
            load=load,
            lowercase=lowercase,
            quiet=quiet,
        ).run()


def _given(**options: Any) -> dict[str, Any]:
    """What was said; the rest is left to the defaults of WordAligner."""
    return {name: value for name, value in options.items() if value is not None}


def _constraints(texts: list[str] | None) -> tuple[str, ...] | None:
    if not texts:
        return None
    if "none" in texts:
        if len(set(texts)) > 1:
            raise InvalidInputError("--constraint none stands alone; drop it or the other constraints")
        return ()
    return tuple(dict.fromkeys(texts))


def _refuse_training(load: str, refused: list[str], save: str | None, tune_gamma: bool, *, auto: bool) -> None:
    refused += ["--tune-gamma"] * tune_gamma + ["--save"] * (save is not None) + ["--threshold auto"] * auto
    if refused:
        raise InvalidInputError(
            f"{', '.join(refused)}: only for training, but --load {load} aligns without; drop one or the other"
        )


def _check_tuning(decoding: dict[str, Any], dev: Any, tune_gamma: bool, gamma: float | None) -> None:
    if tune_gamma and dev is None:
        raise InvalidInputError("--tune-gamma needs sentence pairs with links made by hand; add --dev SRC TGT GOLD")
    if tune_gamma and gamma is not None:
        raise InvalidInputError(f"--tune-gamma chooses gamma, but --gamma {gamma:g} gives it; drop one of them")
    if dev is not None and "threshold" in decoding:
        raise InvalidInputError(
            f"--dev chooses the threshold, but --threshold {decoding['threshold']} is given; drop one of them"
        )


def _check_decoding(decoding: dict[str, Any], probabilities: str | None, *, tuned: bool) -> None:
    way = decoding.get("decode", "posterior")
    if way == "posterior":
        return
    if tuned:
        raise InvalidInputError(
            f"--dev chooses the threshold, which --decode {way} does not use; drop it, add --tune-gamma, or use "
            "--decode posterior"
        )
    for name, option in (("threshold", "--threshold"), ("project", "--project/--no-project")):
        if name in decoding and not (name == "project" and probabilities is not None):
            raise InvalidInputError(
                f"{option} concerns probabilities, which --decode {way} does not use; drop it or --decode"
            )
