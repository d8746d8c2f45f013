"""`spectrem parse train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from spectrem.cli.declare import Given, Settings, argument, option, takes
from spectrem.cli.files import command_files
from spectrem.cli.homes import Home
from spectrem.cli.options import Quiet, parse_options
from spectrem.cli.parsing.options import (
    MaxLength,
    SkipPunctuation,
    check_settings,
    count_words,
    places_in,
    read_treebank,
    tags_of,
)
from spectrem.cli.rules import CONSTRAINED, check_rules, needs
from spectrem.cli.schedules import Annealing
from spectrem.cli.training import TrainingRun, warn_gaining
from spectrem.estimators.grammar.parameters import GrammarSettings
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.estimators.shared_parameters import MODEL, TRAINING
from spectrem.exceptions import InvalidInputError

_FILES = "Files"
_OF_GRAMMARS = ("--heads", "--field", "--skip-punctuation")
_RULES = (
    *CONSTRAINED,
    *(
        needs(option, "--dmv", message=f"{option} changes nothing without --dmv; add that or drop this")
        for option in _OF_GRAMMARS
    ),
)
_ARCS = ("sentence", "dependent", "head", "occurrence", "root", "direction", "length", "head_tag", "dependent_tag")
_VALUES = (f"{end}_{name}" for end in ("head", "dependent") for name in ("form", "upos", "xpos"))
_COLUMNS, _COLUMNS_OF_GRAMMARS = (*_ARCS, *_VALUES), (*_ARCS, "adjacent", "stop")
_ADVICE = {"wider trees": "give --no-single-root or --no-projective", "no batch": "give --learner batch"}


@dataclass(frozen=True)
class TrainingOptions:
    """The argument and options of `spectrem parse train` besides the parameters of its two estimators.

    Parameters
    ----------
    corpus
        Tagged sentences in CoNLL-U, plain or gzipped, with heads; heads that are not known are _. - is standard
        input.
    save
        Where to write the model.
    dmv
        Learn a grammar, the dependency model with valence, from tags alone; heads of CORPUS are not read, but for
        --heads. Its options are --adjacency, --smoothing, --init, --heads and --field.
    heads
        With --dmv, learn from the heads of CORPUS too.
    field
        The tags of --dmv: upos or xpos of CoNLL-U.
    constraint
        What trees must meet in expectation; repeat for several. "tag_rules({'VERB': ['NOUN', 'PRON'], 'NOUN':
        ['DET', 'ADJ']}, 0.8)": at least 80 % of arcs are of these tags. "E[(root) & (dependent_tag == 'VERB')] >=
        '70%'". See docs/constraints.md.
    """

    corpus: str = argument("CORPUS")
    save: str = option(..., metavar="FILE", group=_FILES)
    dmv: bool = option(False, group=MODEL)
    heads: bool = option(False, group=TRAINING)
    field: Literal["upos", "xpos"] = option("upos", metavar="NAME", group=MODEL)
    constraint: list[str] | None = option(None, metavar="TEXT", group=TRAINING)
    skip_punctuation: SkipPunctuation = False
    max_length: MaxLength = None
    quiet: Quiet = False


@takes(ParserParameters, beside=GrammarSettings)
def train(options: TrainingOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn a parser from trees, or with --dmv a grammar from tags alone.

    Example: **spectrem parse train en-train.conllu --save model.npz**

    Sentences may have all heads, some or none: what is missing is inferred, with
    --learner batch under constraints too.

    Without trees: **spectrem parse train tagged.conllu --dmv --skip-punctuation --max-length 10 --save model.npz**
    """
    check_settings(settings, annealing, given, dmv=options.dmv)
    check_rules(_RULES, given)
    outputs = {"--save": options.save}
    with command_files({"CORPUS": options.corpus}, outputs, home.folders(settings)), home.opened(settings) as placed:
        (_train_grammar if options.dmv else _train_parser)(options, annealing.schedule(placed))


def _train_parser(options: TrainingOptions, settings: dict[str, Any]) -> None:
    import numpy as np

    from spectrem.data import display_name
    from spectrem.estimators import EdgeFactoredParser

    run = TrainingRun(options.save, options.quiet)
    constraints = parse_options(options.constraint, _COLUMNS)
    sentences = read_treebank(options.corpus, options.max_length)
    if all(one.heads is None for one in sentences) and not constraints:
        raise InvalidInputError(
            f"{display_name(options.corpus)}: holds no heads to learn from, only _; give --dmv to learn from tags, or "
            "--learner batch with constraints"
        )
    parser = EdgeFactoredParser(constraints=constraints, **settings)
    run.fit(parser, lambda: parser.fit(sentences), places_in(options.corpus, sentences), _ADVICE)
    if not options.quiet:
        lifted = f", {parser.n_lifted_} heads lifted to make trees projective" if parser.n_lifted_ else ""
        complete = sum(one.heads is not None and (one.heads > -2).all() for one in sentences)
        learned = f"{np.count_nonzero(parser.theta_)} weights"
        run.report(learned, sentences, count_words(sentences), f": {complete} with all heads{lifted}")
        if parser.learner == "batch":
            warn_gaining(parser)


def _train_grammar(options: TrainingOptions, settings: dict[str, Any]) -> None:
    from spectrem.cli.parsing.punctuation import without_punctuation
    from spectrem.data import display_name
    from spectrem.estimators import DependencyModel

    run = TrainingRun(options.save, options.quiet)
    constraints = parse_options(options.constraint, _COLUMNS_OF_GRAMMARS)
    supervised = options.heads or settings.get("init") == "supervised"
    if options.skip_punctuation:
        sentences = [without_punctuation(one)[0] for one in read_treebank(options.corpus, trees=supervised)]
        longest = options.max_length or max(len(one.forms) for one in sentences)
        sentences = [one for one in sentences if 0 < len(one.forms) <= longest]
    else:
        sentences = read_treebank(options.corpus, options.max_length, trees=supervised)
    if not sentences:
        raise InvalidInputError(
            f"{display_name(options.corpus)}: no sentence has a word that is not PUNCT, and at most --max-length; drop "
            "--skip-punctuation or raise the length"
        )
    tags = tags_of(sentences, options.field, options.corpus)
    heads = [one.heads for one in sentences] if supervised else None
    if heads is not None and all(one is None for one in heads):
        asked = "--heads" if options.heads else "--init supervised"
        raise InvalidInputError(f"{display_name(options.corpus)}: holds no heads, only _; drop {asked}")
    grammar = DependencyModel(constraints=constraints, **settings)
    run.fit(grammar, lambda: grammar.fit(tags, heads), places_in(options.corpus, sentences), _ADVICE)
    if not options.quiet:
        n_words = count_words(sentences)
        outcome = f": log-likelihood {grammar.log_likelihood_ / n_words:.4f} nats per word"
        run.report(f"a grammar of {len(grammar.tags_)} tags", sentences, n_words, outcome)
        warn_gaining(grammar)
