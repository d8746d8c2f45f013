"""`spectrem tag train`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from spectrem.cli.files import command_files
from spectrem.cli.homes import CheckpointFolder, Dask, Home, Spill, Threads
from spectrem.cli.options import check_annealing, refuse_unused
from spectrem.cli.tag_options import Columns, Decode, Field, FieldOption, Format, InputFormat
from spectrem.exceptions import InvalidInputError

_MODEL, _TRAINING, _FILES = "Model", "Training", "Files"


class Start(StrEnum):
    UNIFORM = "uniform"
    POSTERIOR_UNIFORM = "posterior-uniform"
    UNAMBIGUOUS = "unambiguous"
    SUPERVISED = "supervised"
    RANDOM = "random"


class Infeasible(StrEnum):
    RAISE = "raise"
    SKIP = "skip"


def train(
    model: Annotated[
        str, typer.Option("--model", metavar="FILE", help="Where to write the model.", rich_help_panel=_FILES)
    ],
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="CORPUS",
            help="Tokenised sentences to learn from, one per line, plain or gzipped UTF-8; or tagged text, whose tags "
            "are ignored; - is standard input. Can be left out where --labelled is given.",
            show_default=False,
        ),
    ] = None,
    dictionary: Annotated[
        str | None,
        typer.Option(
            "--dictionary",
            metavar="FILE",
            help="The tags that words may have: lines of a word, a tab, and its tags with spaces between. Words that "
            "are not listed may have any.",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None,
    labelled: Annotated[
        str | None,
        typer.Option(
            "--labelled",
            metavar="FILE",
            help="Sentences tagged by hand, to be learned from besides CORPUS: word/TAG lines, CoNLL-U or columns; "
            "words without a tag (_) are left open.",
            show_default=False,
            rich_help_panel=_FILES,
        ),
    ] = None,
    tags: Annotated[
        int | None,
        typer.Option(
            "--tags",
            min=1,
            metavar="N",
            help="Number of tags to find, where neither --dictionary nor --labelled names them; they will be called "
            "0, 1 and so on.",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    order: Annotated[
        int | None,
        typer.Option(
            "--order",
            min=1,
            max=2,
            metavar="N",
            help="How many tags before it a tag depends on, 1 or 2.",
            show_default="1",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    min_count: Annotated[
        int | None,
        typer.Option(
            "--min-count",
            min=1,
            metavar="N",
            help="Rarer words of CORPUS count as one, the unknown word.",
            show_default="1",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    smoothing: Annotated[
        float | None,
        typer.Option(
            "--smoothing",
            min=0.0,
            metavar="COUNT",
            help="Added to every expected count.",
            show_default="0.0",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    decode: Decode = None,
    gamma: Annotated[
        float | None,
        typer.Option(
            "--gamma",
            metavar="GAMMA",
            help="How soft posteriors are, 0 or more: 1 is EM, between 0 and 1 unified EM, 0 hard (Viterbi) EM.",
            show_default="1.0",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    anneal: Annotated[
        float | None,
        typer.Option(
            "--anneal",
            metavar="BETA",
            help="Deterministic annealing: start softer, at gamma = 1 / BETA, and cool down to --gamma, until it "
            "converges at every step; for example 0.1.",
            show_default="off",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    anneal_rate: Annotated[
        float | None,
        typer.Option(
            "--anneal-rate",
            metavar="ALPHA",
            help="Factor above 1 by which beta grows from step to step of --anneal.",
            show_default="1.2",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    quench: Annotated[
        bool, typer.Option("--quench", help="End with hard (Viterbi) EM.", rich_help_panel=_TRAINING)
    ] = False,
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            "--constraint",
            metavar="TEXT",
            help="What tags must meet in expectation; repeat for several. \"at_least(1, ['VERB', 'AUX'])\": every "
            "sentence has one of these tags. \"E[tag == 'NOUN'] <= '30%'\": of all words. \"sparsity(32)\": every word "
            "has few tags. docs/constraints.md tells all.",
            show_default=False,
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    infeasible: Annotated[
        Infeasible | None,
        typer.Option(
            "--infeasible",
            metavar="WAY",
            help="What to do with a sentence that cannot meet the constraints: raise an error, or skip them there.",
            show_default="raise",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    dual_steps: Annotated[
        int | None,
        typer.Option(
            "--dual-steps",
            min=0,
            metavar="N",
            help="Steps per iteration towards constraints over the whole text (shares and sparsity); 0 solves them "
            "every time, which is slow.",
            show_default="8",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    init: Annotated[
        Start | None,
        typer.Option(
            "--init",
            metavar="NAME",
            help="Where to start. uniform. posterior-uniform: all tags that a word may have are equally likely. "
            "unambiguous: from neighbours with a single tag. supervised: from the sentences of --labelled. random: "
            "counts drawn by --seed.",
            show_default="supervised, unambiguous or random, the first for which there is something to count",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="MODEL",
            help="Start from a model trained before. Then --anneal is skewed: soft posteriors are drawn to those of "
            "this model, not to uniform ones.",
            show_default=False,
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(
            "--restarts",
            min=1,
            metavar="N",
            help="Train so often from different starts and keep the best objective.",
            show_default="1",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            min=1,
            metavar="N",
            help="At most, for every gamma.",
            show_default="100",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            min=0.0,
            metavar="GAIN",
            help="Stop when the objective gains less, relative to its size.",
            show_default="1e-06",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, max=2**32 - 1, metavar="N", help="The same seed gives the same model.", show_default="0"
        ),
    ] = None,
    format: Format = InputFormat.AUTO,
    columns: Columns = (0, 1),
    field: FieldOption = Field.UPOS,
    threads: Threads = None,
    spill: Spill = None,
    dask: Dask = None,
    checkpoint: CheckpointFolder = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """Learn a tagger: a hidden Markov model of tags and words.

    Example: **spectrem tag train text.txt --dictionary tags.tsv --model model.npz**

    It learns from plain text, guided by a dictionary of the tags that words may
    have (the usual way), by some tagged sentences, by constraints, or by nothing
    but a number of tags.
    """
    if dictionary is None and labelled is None and tags is None:
        raise InvalidInputError(
            "nothing says which tags there are; give --dictionary, --labelled, or with --tags how many to find"
        )
    if corpus is None and labelled is None:
        raise InvalidInputError("there is nothing to learn from; give CORPUS, --labelled or both")
    if init is Start.SUPERVISED and labelled is None:
        raise InvalidInputError("--init supervised starts from tagged sentences; give some with --labelled")
    if init is not None and start is not None:
        raise InvalidInputError(f"--start {start} and --init {init.value} both say where to start; drop one of them")
    check_annealing(anneal, 1.0 if gamma is None else gamma, anneal_rate, instead="raise it, and add --quench for 0")
    if infeasible is not None and not constraint:
        refuse_unused(f"--infeasible {infeasible.value}", "--constraint")
    if dual_steps is not None and not constraint:
        refuse_unused(f"--dual-steps {dual_steps}", "a --constraint over the whole text (a share or sparsity)")
    if restarts is not None and restarts > 1 and (start is not None or init not in (None, Start.RANDOM)):
        fixed = f"--start {start}" if init is None else f"--init {init.value}"
        raise InvalidInputError(
            f"--restarts {restarts}: every start of {fixed} is the same; drop one of them, or give --init random"
        )
    home = Home(threads, spill, dask, checkpoint)
    inputs = {"CORPUS": corpus, "--dictionary": dictionary, "--labelled": labelled, "--start": start}
    given: dict[str, Any] = {
        "order": order,
        "n_states": tags,
        "min_count": min_count,
        "smoothing": smoothing,
        "decode": decode and decode.value,
        "gamma": gamma,
        "dual_steps": dual_steps,
        "infeasible": infeasible and infeasible.value,
        "init": init and init.value,
        "n_init": restarts,
        "max_iter": iterations,
        "tol": tolerance,
    }
    with command_files(inputs, {"--model": model}, home.folders), home.settings() as computing:
        from spectrem.cli.tag_training import TrainingJob

        TrainingJob(
            corpus=corpus,
            model=model,
            dictionary=dictionary,
            labelled=labelled,
            start=start,
            constraints=tuple(constraint or ()),
            anneal=anneal,
            anneal_rate=1.2 if anneal_rate is None else anneal_rate,
            quench=quench,
            settings={
                **{name: value for name, value in given.items() if value is not None},
                "random_state": seed or 0,
                **computing,
            },
            format=format.value,
            columns=columns,
            tag_field=field.value,
            quiet=quiet,
        ).run()
