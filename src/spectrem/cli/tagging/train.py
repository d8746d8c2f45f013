"""`spectrem tag train`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from spectrem.cli.declare import Given, Settings, argument, option, takes
from spectrem.cli.files import command_files
from spectrem.cli.homes import Home
from spectrem.cli.options import Quiet, parse_options
from spectrem.cli.rules import CONSTRAINED, Rule, check_rules, excludes, needs
from spectrem.cli.schedules import Annealing
from spectrem.cli.tagging.options import Columns, Context, Field, Format, with_context
from spectrem.cli.training import TrainingRun, refuse_parameters, warn_gaining
from spectrem.estimators.crf.parameters import CRFParameters
from spectrem.estimators.shared_parameters import MODEL, TRAINING
from spectrem.estimators.tagging.parameters import TaggerParameters
from spectrem.exceptions import InvalidInputError, shorten

if TYPE_CHECKING:
    from spectrem.data import FileSentences, TaggedCorpus

_FILES = "Files"
_COLUMNS = ("sentence", "token", "occurrence", "word", "label", "tag")
_SPANNING = "a --constraint over the whole text (a share or sparsity)"
_SAME_STARTS = "every start of {} is the same; drop one of them, or give --init random"
_RULES = (
    needs("--context", "--crf"),
    Rule(
        (),
        ("--dictionary", "--labelled", "--n-states"),
        "nothing says which tags there are; give --dictionary, --labelled, or with --n-states how many to find",
    ),
    Rule((), ("CORPUS", "--labelled"), "there is nothing to learn from; give CORPUS, --labelled or both"),
    needs(
        "--init supervised",
        "--labelled",
        message="--init supervised starts from tagged sentences; give some with --labelled",
    ),
    excludes("--start", "--init", "{--start} and {--init} both say where to start; drop one of them"),
    *CONSTRAINED,
    Rule(("--n-init", "--start"), ("--n-init 1",), f"{{--n-init}}: {_SAME_STARTS.format('{--start}')}"),
    Rule(("--n-init", "--init"), ("--n-init 1", "--init random"), f"{{--n-init}}: {_SAME_STARTS.format('{--init}')}"),
)
_CONCERNS_OTHERS = "concerns hidden Markov models; drop it, or --crf"
_RULES_OF_CRF = (
    excludes("--dictionary", "--crf", f"{{--dictionary}} {_CONCERNS_OTHERS}"),
    excludes("--start", "--crf", f"{{--start}} {_CONCERNS_OTHERS}"),
    needs("--crf", "--labelled", message="--crf learns from sentences tagged by hand; give some with --labelled"),
    Rule(
        ("--features tokens",),
        (),
        "--features tokens needs features of your own for every token, which no file of text has; give words, "
        "chunking or words+tags, or use CRFTagger from Python",
    ),
    needs(
        "--context",
        *("--features chunking", "--features words+tags"),
        message="{--context} changes nothing without --features chunking or words+tags; add that or drop this",
    ),
    Rule(
        ("--features",),
        ("--features words", "--context"),
        "{--features} reads tags beside words; say with --context which column has them",
    ),
    *CONSTRAINED,
)


@dataclass(frozen=True)
class TrainingOptions:
    """The argument and options of `spectrem tag train` besides the parameters of its two estimators.

    Parameters
    ----------
    save
        Where to write the model.
    corpus
        Tokenised sentences to learn from, one per line, plain or gzipped UTF-8; or tagged text, whose tags are
        ignored; - is standard input. Can be left out where --labelled is given.
    dictionary
        The tags that words may have: lines of a word, a tab, and its tags with spaces between. Words that are not
        listed may have any.
    labelled
        Sentences tagged by hand, to be learned from besides CORPUS: word/TAG lines, CoNLL-U or columns; words
        without a tag (_) are left open.
    constraint
        What tags must meet in expectation; repeat for several. "at_least(1, ['VERB', 'AUX'])": every sentence has
        one of these tags. "E[tag == 'NOUN'] <= '30%'": of all words. "sparsity(32)": every word has few tags. See
        docs/constraints.md.
    start
        Start from a model trained before. Then --anneal is skewed: soft posteriors are drawn to those of this
        model, not to uniform ones.
    crf
        Train a conditional random field on features of the words (--features) instead of a hidden Markov model;
        needs --labelled. Its options are --features, --scheme, --edge-features, --pairs, --min-count, --C,
        --l1-ratio, --unlabelled-weight, --m-steps, --m-tol and --context.
    """

    save: str = option(..., metavar="FILE", group=_FILES)
    corpus: str | None = argument("CORPUS", None)
    dictionary: str | None = option(None, metavar="FILE", group=_FILES)
    labelled: str | None = option(None, metavar="FILE", group=_FILES)
    constraint: list[str] | None = option(None, metavar="TEXT", group=TRAINING)
    start: str | None = option(None, metavar="MODEL", group=TRAINING)
    crf: bool = option(False, group=MODEL)
    format: Format = "auto"
    columns: Columns = (0, 1)
    field: Field = "upos"
    context: Context = None
    quiet: Quiet = False


@takes(TaggerParameters, defaults={"random_state": 0}, beside=CRFParameters)
def train(options: TrainingOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn a tagger: a hidden Markov model of tags and words, or a conditional random field.

    Example: **spectrem tag train text.txt --dictionary tags.tsv --save model.npz**

    It learns from plain text, guided by a dictionary of the tags that words may
    have (the usual way), by some tagged sentences, by constraints, or by nothing
    but a number of tags.

    With --crf it learns from sentences tagged by hand, and from plain text under
    constraints: **spectrem tag train --crf --labelled train.txt --save model.npz**
    """
    if options.crf:
        refuse_parameters(settings, given, TaggerParameters, CRFParameters, _CONCERNS_OTHERS)
        check_rules(_RULES_OF_CRF, given)
    else:
        refuse_parameters(
            settings, given, CRFParameters, TaggerParameters, "changes nothing without --crf; add that or drop this"
        )
        check_rules(_RULES, given)
    annealing.check(settings.get("gamma", 1.0))
    inputs = {"CORPUS": options.corpus, "--dictionary": options.dictionary}
    inputs |= {"--labelled": options.labelled, "--start": options.start}
    with command_files(inputs, {"--save": options.save}, home.folders(settings)), home.opened(settings) as placed:
        if options.crf:
            placed.pop("random_state")
            _train_crf(options, annealing.schedule(placed))
        else:
            _train_hmm(options, annealing.schedule(placed), given)


def _read(options: TrainingOptions) -> tuple[TaggedCorpus, FileSentences]:
    """The labelled sentences and the plain ones."""
    from spectrem.data import FileSentences, TaggedCorpus, read_sentences, read_tagged

    labelled, plain = TaggedCorpus([], []), FileSentences()
    if options.labelled is not None:
        labelled = read_tagged(options.labelled, columns=options.columns, field=options.field)
    if options.corpus is not None:
        plain = read_sentences(options.corpus, options.format, column=options.columns[0])
    return labelled, plain


def _places(options: TrainingOptions, labelled: TaggedCorpus, plain: FileSentences) -> Callable[[int], str]:
    """The place of a sentence of both files as errors give it: file, line and words."""
    from spectrem.data import display_name

    def place(number: int) -> str:
        if number < len(labelled.words):
            path, line, words = options.labelled, labelled.place(number), labelled.words[number]
        else:
            number -= len(labelled.words)
            path, line, words = options.corpus, plain.place(number), plain[number]
        assert path is not None
        return f"{display_name(path)}, {line} ({shorten(' '.join(words))})"

    return place


def _fit(
    run: TrainingRun,
    tagger: Any,
    sentences: Sequence[Any],
    options: TrainingOptions,
    labelled: TaggedCorpus,
    plain: FileSentences,
) -> None:
    """Train on the labelled sentences, then on the plain ones, and save."""
    labels = [*labelled.tags, *([None] * len(plain))] if labelled.tags else None
    run.fit(tagger, lambda: tagger.fit(sentences, labels), _places(options, labelled, plain))


def _train_hmm(options: TrainingOptions, settings: dict[str, Any], given: Given) -> None:
    from spectrem.constraints import check_values
    from spectrem.data import display_name, read_tag_dictionary
    from spectrem.estimators import HMMTagger
    from spectrem.estimators.tagging.parameters import check_size

    run = TrainingRun(options.save, options.quiet)
    constraints = parse_options(options.constraint, _COLUMNS)
    if all("sentence" in one.groups for one in constraints):
        check_rules([needs("--dual-steps", _SPANNING)], given)
    n_states = settings.get("n_states")
    check_size(n_states or 1, settings.get("order", 1), ("--n-states", "--order"))
    dictionary = None if options.dictionary is None else read_tag_dictionary(options.dictionary)
    labelled, plain = _read(options)
    sentences = [*labelled.words, *plain]
    if not any(sentences):
        files = " and ".join(display_name(path) for path in (options.labelled, options.corpus) if path)
        raise InvalidInputError(f"{files}: holds no word to learn from; give text, tokenised, a sentence per line")
    names = set(chain.from_iterable((dictionary or {}).values()))
    names |= {tag for tags in labelled.tags if tags is not None for tag in tags if tag is not None}
    if names and n_states not in (None, len(names)):
        raise InvalidInputError(
            f"--n-states {n_states}: --dictionary and --labelled name {len(names)} tags; leave --n-states out"
        )
    for column in ("tag", "label"):
        check_values(constraints, column, sorted(names) or [*range(n_states or 0)])
    if options.start is not None:
        settings["init"] = settings["reference"] = HMMTagger.load(options.start)
    tagger = HMMTagger(dictionary=dictionary, constraints=constraints, **settings)
    _fit(run, tagger, sentences, options, labelled, plain)
    if not options.quiet:
        n_words = sum(map(len, sentences))
        bits = tagger.history_[-1].objective / max(n_words, 1) / math.log(2.0)
        outcome = f": {tagger.n_iter_} iterations, objective {bits:.4f} bits per word"
        run.report(f"{len(tagger.tags_)} tags", sentences, n_words, outcome)
        warn_gaining(tagger)


def _train_crf(options: TrainingOptions, settings: dict[str, Any]) -> None:
    from spectrem.constraints import check_values
    from spectrem.data import display_name
    from spectrem.estimators import CRFTagger

    run = TrainingRun(options.save, options.quiet)
    assert options.labelled is not None
    constraints = parse_options(options.constraint, (*_COLUMNS, "previous"))
    labelled, plain = _read(options)
    word = options.columns[0]
    sentences = list(with_context([*labelled.words, *plain], options.context, word, options.labelled, options.corpus))
    tags = sorted({tag for tag in chain.from_iterable(labelled.tags) if tag is not None})
    if not tags:
        raise InvalidInputError(f"{display_name(options.labelled)}: holds no tags, only _; name the column that does")
    for column in ("tag", "label", "previous"):
        check_values(constraints, column, tags)
    tagger = CRFTagger(constraints=constraints, **{"features": "words", **settings})
    _fit(run, tagger, sentences, options, labelled, plain)
    if not options.quiet:
        outcome = f": {tagger.n_steps_} steps and {tagger.n_iter_} iterations, objective {tagger.objective_:.6g} nats"
        learned = f"{len(tagger.theta_)} weights for {len(tagger.tags_)} tags"
        run.report(learned, sentences, sum(map(len, sentences)), outcome)
        warn_gaining(tagger)
