"""`spectrem tag train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spectrem.cli.annealing import Annealing
from spectrem.cli.estimator_options import Settings, option_of, takes
from spectrem.cli.files import command_files
from spectrem.cli.homes import Home
from spectrem.cli.options import Quiet, check_constraint_options, refuse_unused
from spectrem.cli.tagging.options import Columns, Context, Field, Format
from spectrem.estimators.crf.parameters import CRFParameters
from spectrem.estimators.declare import parameters_of
from spectrem.estimators.shared_parameters import TRAINING
from spectrem.estimators.tagging.parameters import MODEL, TaggerParameters
from spectrem.exceptions import InvalidInputError

_FILES = "Files"


@dataclass(frozen=True)
class TrainingOptions:
    """The argument and options of `spectrem tag train` besides the parameters of `HMMTagger`."""

    model: Annotated[
        str, typer.Option("--model", metavar="FILE", help="Where to write the model.", rich_help_panel=_FILES)
    ]
    corpus: Annotated[
        str | None,
        typer.Argument(
            metavar="CORPUS",
            help="Tokenised sentences to learn from, one per line, plain or gzipped UTF-8; or tagged text, whose tags "
            "are ignored; - is standard input. Can be left out where --labelled is given.",
            show_default=False,
        ),
    ] = None
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
    ] = None
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
    ] = None
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            "--constraint",
            metavar="TEXT",
            help="What tags must meet in expectation; repeat for several. \"at_least(1, ['VERB', 'AUX'])\": every "
            "sentence has one of these tags. \"E[tag == 'NOUN'] <= '30%'\": of all words. \"sparsity(32)\": every word "
            "has few tags. See docs/constraints.md.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="MODEL",
            help="Start from a model trained before. Then --anneal is skewed: soft posteriors are drawn to those of "
            "this model, not to uniform ones.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None
    crf: Annotated[
        bool,
        typer.Option(
            "--crf",
            help="Train a conditional random field on features of the words (--features) instead of a hidden Markov "
            "model; needs --labelled. Its options are --features, --scheme, --edge-features, --pairs, --min-count, "
            "--variance, --l1-ratio, --unlabelled-weight, --m-steps, --m-tol and --context.",
            rich_help_panel=MODEL,
        ),
    ] = False
    format: Format = "auto"
    columns: Columns = (0, 1)
    field: Field = "upos"
    context: Context = None
    quiet: Quiet = False


@takes(TaggerParameters, defaults={"random_state": 0}, beside=CRFParameters)
def train(own: TrainingOptions, settings: Settings, annealing: Annealing, home: Home) -> None:
    """Learn a tagger: a hidden Markov model of tags and words, or a conditional random field.

    Example: **spectrem tag train text.txt --dictionary tags.tsv --model model.npz**

    It learns from plain text, guided by a dictionary of the tags that words may
    have (the usual way), by some tagged sentences, by constraints, or by nothing
    but a number of tags.

    With --crf it learns from sentences tagged by hand, and from plain text under
    constraints: **spectrem tag train --crf --labelled train.txt --model model.npz**
    """
    (_check_crf if own.crf else _check)(own, settings)
    annealing.check(settings.get("gamma", 1.0))
    inputs = {"CORPUS": own.corpus, "--dictionary": own.dictionary, "--labelled": own.labelled, "--start": own.start}
    with command_files(inputs, {"--model": own.model}, home.folders(settings)), home.opened(settings) as placed:
        if own.crf:
            from spectrem.cli.tagging.crf_job import CRFJob

            CRFJob(own, {name: value for name, value in placed.items() if name != "random_state"}, annealing).run()
        else:
            from spectrem.cli.tagging.job import TrainingJob

            TrainingJob(own, placed, annealing).run()


def _check(own: TrainingOptions, settings: Settings) -> None:
    """Refuse options that cannot be met together, or that change nothing in this run."""
    _refuse_options(settings, CRFParameters, TaggerParameters, "--crf")
    if own.context is not None:
        refuse_unused(f"--context {own.context}", "--crf")
    init, n_init, constraints = settings.get("init"), settings.get("n_init", 1), own.constraint or ()
    if own.dictionary is None and own.labelled is None and "n_states" not in settings:
        raise InvalidInputError(
            "nothing says which tags there are; give --dictionary, --labelled, or with --n-states how many to find"
        )
    if own.corpus is None and own.labelled is None:
        raise InvalidInputError("there is nothing to learn from; give CORPUS, --labelled or both")
    if init == "supervised" and own.labelled is None:
        raise InvalidInputError("--init supervised starts from tagged sentences; give some with --labelled")
    if init is not None and own.start is not None:
        raise InvalidInputError(f"--start {own.start} and --init {init} both say where to start; drop one of them")
    check_constraint_options(settings, constraints)
    if "dual_steps" in settings and not constraints:
        refuse_unused(
            f"--dual-steps {settings['dual_steps']}", "a --constraint over the whole text (a share or sparsity)"
        )
    if n_init > 1 and (own.start is not None or init not in (None, "random")):
        fixed = f"--start {own.start}" if init is None else f"--init {init}"
        raise InvalidInputError(
            f"--n-init {n_init}: every start of {fixed} is the same; drop one of them, or give --init random"
        )


def _check_crf(own: TrainingOptions, settings: Settings) -> None:
    """The same for a conditional random field."""
    given = {name: value for name, value in settings.items() if (name, value) != ("random_state", 0)}
    others = {"--dictionary": own.dictionary, "--start": own.start}
    for option, value in others.items():
        if value is not None:
            raise InvalidInputError(f"{option} {value} concerns hidden Markov models; drop it, or --crf")
    unknown = sorted(given.keys() - parameters_of(CRFParameters).keys())
    if unknown:
        option = option_of(TaggerParameters, unknown[0])
        raise InvalidInputError(f"{option} {given[unknown[0]]} concerns hidden Markov models; drop it, or --crf")
    if own.labelled is None:
        raise InvalidInputError("--crf learns from sentences tagged by hand; give some with --labelled")
    features = settings.get("features", "words")
    if features == "tokens":
        raise InvalidInputError(
            "--features tokens needs features of your own for every token, which no file of text has; give words, "
            "chunking or words+tags, or use CRFTagger from Python"
        )
    if features == "words" and own.context is not None:
        refuse_unused(f"--context {own.context}", "--features chunking or words+tags")
    if features != "words" and own.context is None:
        raise InvalidInputError(
            f"--features {features} reads tags beside words; say with --context which column has them"
        )
    check_constraint_options(settings, own.constraint)


def _refuse_options(settings: Settings, record: type, other: type, needed: str) -> None:
    """Refuse the options of one record of parameters that another one does not have."""
    for name in sorted(parameters_of(record).keys() - parameters_of(other).keys()):
        if name in settings:
            refuse_unused(f"{option_of(record, name)} {settings[name]}", needed)
