"""The commands `spectrem tag train`, `predict` and `evaluate`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from io import StringIO
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import typer

from spectrem.cli.declare import Command, Given, Settings, argument, files_of, option, takes
from spectrem.cli.ending import say
from spectrem.cli.evaluation import (
    check_same_text,
    column_titles,
    json_numbers,
    print_result,
    print_scores,
    print_sign_tests,
    score_cell,
)
from spectrem.cli.files import command_files, opened
from spectrem.cli.options import (
    FILES,
    ComparisonOptions,
    FieldOption,
    LearningOptions,
    PredictionOptions,
    ProbabilityOptions,
    StartOption,
    parse_options,
    two_numbers,
)
from spectrem.cli.prediction import load_model, posterior_lines
from spectrem.cli.rules import CONSTRAINED, Rule, check_rules, excludes, needs
from spectrem.cli.training import Annealing, Home, TrainingRun, learning, refuse_parameters
from spectrem.estimators.crf.parameters import CRFParameters
from spectrem.estimators.declare import parameters_of
from spectrem.estimators.shared_parameters import MODEL
from spectrem.estimators.tagging.parameters import TaggerParameters
from spectrem.exceptions import InvalidInputError, counted, quoted, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spectrem.data import FileSentences, TaggedCorpus


app = typer.Typer(
    help="Tag words, with parts of speech or chunks: learn a hidden Markov model or a conditional random field, apply "
    "it, judge it.",
    no_args_is_help=True,
)


@dataclass(frozen=True, kw_only=True)
class TagOptions(FieldOption):
    """Options of commands that read tagged text.

    Parameters
    ----------
    columns
        Which columns hold word and tag, counted from 0; -1 is the last.
    """

    columns: str = option("0,1", metavar="WORD,TAG")


@dataclass(frozen=True, kw_only=True)
class TextOptions(TagOptions):
    """Options of commands that read sentences to tag.

    Parameters
    ----------
    input_format
        The format of the text. text: one sentence per line. slash: the same of word/TAG. columns: one word per line,
        blank lines between sentences. conllu: that of Universal Dependencies. auto tells them apart, except columns
        between spaces, which it takes for text; a first line whose words all have slashes is word/TAG.
    context
        Which column holds the known tags, such as parts of speech, that a conditional random field's --features
        chunking and words+tags read beside words, counted from 0.
    """

    input_format: Literal["auto", "text", "slash", "columns", "conllu"] = option("auto", metavar="NAME")
    context: int | None = option(None, metavar="COLUMN")


@dataclass(frozen=True, kw_only=True)
class DictionaryOption:
    """An option of commands that read a tag dictionary.

    Parameters
    ----------
    dictionary
        The tags that words may have: lines of a word, a tab, and its tags with spaces between.
    """

    dictionary: str | None = option(None, metavar="FILE", group=FILES, reads=True)


def with_context(
    sentences: Sequence[Sequence[str]], context: int | None, word: int, *paths: str | None
) -> Sequence[Sequence[Any]]:
    """Sentences of the files as pairs of words and the tags in a column, if there is one.

    Raises
    ------
    InvalidInputError
        If a word has no tag there, or the text comes from standard input, which can be read once only.
    """
    from spectrem.data import display_name, read_tagged

    if context is None:
        return sentences
    pairs: list[Sequence[Any]] = []
    for path in filter(None, paths):
        if path == "-":
            raise InvalidInputError(f"--context {context} cannot be read from standard input; give the name of a file")
        corpus = read_tagged(path, "columns", columns=(word, context))
        for number, (words, tags) in enumerate(zip(corpus.words, corpus.tags, strict=True)):
            if None in tags:
                raise InvalidInputError(
                    f"{display_name(path)}, {corpus.place(number)}: column {context} must have a tag for every word, "
                    f"got _ for {quoted(words[tags.index(None)])}; tag it first, or use --features words"
                )
            pairs.append(list(zip(words, tags, strict=True)))
    if len(pairs) != len(sentences):
        raise InvalidInputError(
            f"--context {context} must name a column of the same sentences, got {len(pairs)} and {len(sentences)}; say "
            "--input-format columns"
        )
    return pairs


_COLUMNS = ("sentence", "token", "occurrence", "word")
_SPANNING = "a --constraint over the whole text (a share or sparsity)"
_SAME_STARTS = "every start of {} is the same; drop one of them, or give --init random"
_EVERYDAY = (
    *("corpus", "save", "dictionary", "labelled", "constraint", "constraints", "start", "crf", "input_format"),
    *("quiet", "report", "n_states", "order", "features", "scheme", "C", "unlabelled_weight", "decode"),
    *("project_at_predict", "gamma", "max_iter", "infeasible", "random_state", "n_threads"),
)
"""The options that ``--help`` shows of `train`."""
_RULES_OF_HMM = (
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


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(TextOptions, StartOption, DictionaryOption, LearningOptions):
    """The argument and options of `spectrem tag train` besides the parameters of its two estimators.

    Parameters
    ----------
    corpus
        Tokenised sentences to learn from, one per line, plain or gzipped UTF-8; or tagged text, whose tags are
        ignored; - is standard input. Can be left out where --labelled is given.
    dictionary
        Words that are not listed may have any.
    labelled
        Sentences tagged by hand, to be learned from besides CORPUS: word/TAG lines, CoNLL-U or columns; words
        without a tag (_) are left open. With --crf also tags with their probabilities, as spectrem label writes them.
    constraint
        "E[tag == 'NOUN'] <= '30%'": of all words.
        "at_least(1, ['VERB', 'AUX'])": every sentence has one of these tags, or with --infeasible skip every one that
        can. "sparsity(32)": every word has few tags. See docs/guide/constraints.md.
    start
        Then --anneal is skewed: soft posteriors are drawn to those of this model, not to uniform ones.
    crf
        Train a conditional random field on features of the words (--features) instead of a hidden Markov model;
        needs --labelled. Its options are --features, --scheme, --edge-features, --pairs, --min-count, --C,
        --l1-ratio, --unlabelled-weight, --m-steps, --m-tol and --context.
    """

    corpus: str | None = argument("CORPUS", None)
    labelled: str | None = option(None, metavar="FILE", group=FILES, reads=True)
    crf: bool = option(False, group=MODEL)


def _columns(options: TagOptions) -> tuple[int, int]:
    return two_numbers("--columns", options.columns)


def _read_words(path: str, options: TrainingOptions | TaggingOptions) -> FileSentences:
    """Sentences without tags; a note says that a text was taken for one of tags, which its words may look like."""
    from spectrem.data import display_name, read_sentences

    sentences = read_sentences(path, options.input_format, column=_columns(options)[0])
    if sentences.format == "slash" and options.input_format == "auto" and not options.quiet:
        say(
            f"note: {display_name(path)} is read as word/TAG, and its tags are ignored; if these are words, say "
            "--input-format text"
        )
    return sentences


def _read(options: TrainingOptions) -> tuple[TaggedCorpus, FileSentences]:
    """The labelled sentences and the plain ones."""
    from spectrem.data import FileSentences, TaggedCorpus, read_tagged

    labelled, plain = TaggedCorpus([], []), FileSentences()
    if options.labelled is not None:
        labelled = read_tagged(options.labelled, columns=_columns(options), field=options.field, soft=True)
    if options.corpus is not None:
        plain = _read_words(options.corpus, options)
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


class Input(NamedTuple):
    """The input of `spectrem tag train`, read from its files, for a kind of tagger.

    Attributes
    ----------
    settings : dict
        Parameters of the estimator.
    sentences : list
        As it takes them, the labelled ones first.
    labelled, plain : TaggedCorpus and FileSentences
    tags : list of str or int
    """

    settings: dict[str, Any]
    sentences: list[Any]
    labelled: TaggedCorpus
    plain: FileSentences
    tags: list[Any]


def _prepare_hmm(options: TrainingOptions, settings: dict[str, Any], constraints: Any, given: Given) -> Input:
    from spectrem.data import display_name, read_tag_dictionary
    from spectrem.estimators import HMMTagger
    from spectrem.estimators.tagging.parameters import check_size

    if all("sentence" in one.groups for one in constraints):
        check_rules([needs("--dual-steps", _SPANNING)], given)
    n_states = settings.get("n_states")
    check_size(n_states or 1, settings.get("order", 1), ("--n-states", "--order"))
    dictionary = None if options.dictionary is None else read_tag_dictionary(options.dictionary)
    labelled, plain = _read(options)
    if any(isinstance(tag, dict) for tag in chain.from_iterable(labelled.tags)):
        raise InvalidInputError(
            f"--labelled {options.labelled}: holds probabilities of tags, of which hidden Markov models learn nothing; "
            "add --crf, or give each word one tag"
        )
    sentences = [*labelled.words, *plain]
    if not any(sentences):
        files = " and ".join(display_name(path) for path in (options.labelled, options.corpus) if path)
        raise InvalidInputError(f"{files}: holds no word to learn from; give text, tokenised, a sentence per line")
    names = {*chain.from_iterable((dictionary or {}).values()), *_tags_of(labelled)}
    if names and n_states not in (None, len(names)):
        raise InvalidInputError(
            f"--n-states {n_states}: --dictionary and --labelled name {len(names)} tags; leave --n-states out"
        )
    if options.start is not None:
        settings["init"] = settings["reference"] = HMMTagger.load(options.start)
    settings["dictionary"] = dictionary
    return Input(settings, sentences, labelled, plain, sorted(names) or [*range(n_states or 0)])


def prepare_features(options: TrainingOptions, settings: dict[str, Any], constraints: Any, given: Given) -> Input:
    """The input of a tagger of features, which learns from tagged sentences."""
    from spectrem.data import display_name

    assert options.labelled is not None
    labelled, plain = _read(options)
    word, paths = _columns(options)[0], (options.labelled, options.corpus)
    sentences = list(with_context([*labelled.words, *plain], options.context, word, *paths))
    tags = _tags_of(labelled)
    if not tags:
        raise InvalidInputError(f"{display_name(options.labelled)}: holds no tags, only _; name the column that does")
    return Input(settings, sentences, labelled, plain, sorted(tags))


def _tags_of(labelled: TaggedCorpus) -> set[str]:
    """Tags that words have, for certain or with some probability."""
    each: Iterator[Any] = chain.from_iterable(labelled.tags)
    return {tag for one in each if one is not None for tag in ([one] if isinstance(one, str) else one)}


def _describe_hmm(tagger: Any, n_words: int) -> tuple[str, str]:
    bits = tagger.history_[-1].objective / max(n_words, 1) / math.log(2.0)
    return f"{len(tagger.tags_)} tags", f"{counted(tagger.n_iter_, 'iteration')}, objective {bits:.4f} bits per word"


def _describe_crf(tagger: Any, n_words: int) -> tuple[str, str]:
    learned = f"{len(tagger.theta_)} weights for {len(tagger.tags_)} tags"
    steps = f"{counted(tagger.n_steps_, 'step')} and {counted(tagger.n_iter_, 'iteration')}"
    return learned, f"{steps}, objective {tagger.objective_:.6g} nats"


class Kind(NamedTuple):
    """A kind of tagger that `spectrem tag train` learns.

    Attributes
    ----------
    flag : str
        The option that asks for it; "" for the one that is learned without any.
    parameters : type
        The declarations of its parameters.
    estimator : str
        Its class, of `spectrem.estimators` or another module: "module:name".
    prepare : callable (options, settings, constraints, given) -> Input
    describe : callable (tagger, n_words) -> (str, str)
        Descriptions of the model learned and of the outcome.
    tag_columns : tuple of str
        The columns of constraints that hold tags.
    foreign : str
        The error about one of its options where the kind of another ``flag`` is learned.
    rules : tuple of Rule
        Which options go together.
    """

    flag: str
    parameters: type
    estimator: str
    prepare: Callable[[TrainingOptions, dict[str, Any], Any, Given], Input]
    describe: Callable[[Any, int], tuple[str, str]]
    tag_columns: tuple[str, ...]
    foreign: str
    rules: tuple[Rule, ...]


KINDS = (
    Kind(
        "", TaggerParameters, "spectrem.estimators:HMMTagger", _prepare_hmm, _describe_hmm, ("tag", "label"),
        "concerns hidden Markov models; drop it, or {flag}", _RULES_OF_HMM,
    ),
    Kind(
        "--crf", CRFParameters, "spectrem.estimators:CRFTagger", prepare_features, _describe_crf,
        ("tag", "label", "previous"), "changes nothing without --crf; add that or drop this", _RULES_OF_CRF,
    ),
)  # fmt: skip


@app.command(cls=Command)
@takes(
    TaggerParameters,
    defaults={"random_state": 0, "features": "words"},
    beside={CRFParameters: "--crf"},
    shown=_EVERYDAY,
)
def train(options: TrainingOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn a tagger: a hidden Markov model of tags and words, or a conditional random field.

    Example: **spectrem tag train text.txt --dictionary tags.tsv --save model.npz**

    It learns from plain text, guided by a dictionary of the tags that words may
    have (the usual way), by some tagged sentences, by constraints, or by nothing
    but a number of tags.

    With --crf it learns from sentences tagged by hand, and from plain text under
    constraints: **spectrem tag train --crf --labelled train.txt --save model.npz**
    """
    learn(KINDS, options, settings, annealing, home, given)


def learn(
    kinds: Sequence[Kind],
    options: TrainingOptions,
    settings: Settings,
    annealing: Annealing,
    home: Home,
    given: Given,
) -> None:
    """Learn a tagger of one of several kinds, and save it."""
    kind = next(one for one in kinds[::-1] if not one.flag or one.flag in given)
    for other in kinds:
        message = other.foreign.format(flag=kind.flag)
        refuse_parameters(settings, given, other.parameters, kind.parameters, message)
    check_rules(kind.rules, given)
    with learning([options], settings, annealing, home) as placed:
        declared = parameters_of(kind.parameters)
        _fit(kind, options, {name: value for name, value in placed.items() if name in declared}, given)


def _fit(kind: Kind, options: TrainingOptions, settings: dict[str, Any], given: Given) -> None:
    from spectrem.constraints import check_values

    run = TrainingRun(options)
    constraints = parse_options(options.constraint, (*_COLUMNS, *kind.tag_columns), options.constraints)
    settings, sentences, labelled, plain, tags = kind.prepare(options, settings, constraints, given)
    for column in kind.tag_columns:
        check_values(constraints, column, tags)
    module, _, name = kind.estimator.partition(":")
    tagger = getattr(import_module(module), name)(constraints=constraints, **settings)
    labels = [*labelled.tags, *([None] * len(plain))] if labelled.tags else None
    run.fit(tagger, lambda: tagger.fit(sentences, labels), _places(options, labelled, plain))
    n_words = sum(map(len, sentences))
    learned, outcome = kind.describe(tagger, n_words)
    run.report(tagger, learned, sentences, n_words, f": {outcome}")


_UNUSED_BY_N_BEST = ("--decode", "--project-at-predict", "--infeasible", "--output-format")
_RULES_OF_PREDICT = (
    needs("--min-probability", "--probabilities"),
    *(
        excludes(name, "--n-best", f"{shown} changes nothing beside {{--n-best}}; drop one of them")
        for name, shown in [*((name, name) for name in _UNUSED_BY_N_BEST[:3]), ("--output-format", "{--output-format}")]
    ),
)
_READS_TAGS = "a model of --features chunking or words+tags"


@dataclass(frozen=True, kw_only=True)
class TaggingOptions(TextOptions, ProbabilityOptions, PredictionOptions):
    """Arguments and options of `spectrem tag predict` besides parameters of its two estimators.

    Parameters
    ----------
    text
        Tokenised sentences, one per line, plain or gzipped UTF-8; or tagged text, whose tags are
        ignored; - is standard input.
    output_format
        slash: one sentence per line of word/TAG. columns: one word per line, a tab, its tag. conllu: ten columns of
        Universal Dependencies, tags in the one that --field names.
    probabilities
        One line per word of the word and its tags with their probabilities, likeliest first, with tabs between; a
        blank line after every sentence.
    n_best
        Write, instead of the best tags, the N most probable taggings of every sentence, best first: one line each
        of its log-probability in nats, a tab, and word/TAG; a blank line after every sentence. For models trained
        with --crf.
    """

    output_format: Literal["slash", "columns", "conllu"] = option("slash")
    n_best: int | None = option(None, min=1, metavar="N")


@app.command()
@takes(TaggerParameters, only=["decode", "project_at_predict", "infeasible", "n_threads"])
def predict(options: TaggingOptions, settings: Settings, given: Given) -> None:
    """Tag a text with a trained model.

    Example: **spectrem tag predict text.txt --load model.npz -o tagged.txt**

    With --project-at-predict the tags meet the constraints that the model was
    trained under. A summary on standard error says how many of the words the
    model has never seen; those are tagged by their place in the sentence.
    """
    check_rules(_RULES_OF_PREDICT, given)
    writing = opened(options.output, options.probabilities)
    with command_files(*files_of(options)), writing as (tags_out, probabilities_out):
        from spectrem.data import write_tagged
        from spectrem.estimators import CRFTagger, HMMTagger

        tagger = load_model(options.load, (HMMTagger, CRFTagger), settings, given)
        sentences = _read_words(options.text, options)
        texts = _inputs(tagger, sentences, options, given)
        if options.n_best is not None:
            if isinstance(tagger, HMMTagger):
                raise InvalidInputError(
                    f"--n-best {options.n_best} needs a conditional random field, but {options.load} is a hidden "
                    "Markov model; train with --crf, or drop this"
                )
            tags_out.writelines(_taggings(sentences, tagger.n_best(texts, options.n_best)))
        else:
            tags = [list(map(str, predicted)) for predicted in tagger.predict(texts)]
            write_tagged(tags_out, sentences, tags, options.output_format, field=options.field)
        if probabilities_out is not None:
            tables, names = tagger.predict_proba(texts), list(map(str, tagger.tags_))
            lines = posterior_lines(sentences, tables, lambda _, k: names[k], options.min_probability)
            probabilities_out.writelines(lines)
    if not options.quiet:
        n_words = sum(map(len, sentences))
        unknown = ""
        if isinstance(tagger, HMMTagger):
            seen = tagger.coding_.vocabulary.index
            unknown = f", {sum(word not in seen for sentence in sentences for word in sentence)} of them unknown"
        say(f"tagged {counted(len(sentences), 'sentence')} ({counted(n_words, 'word')}{unknown})")


def _taggings(sentences: Sequence[Sequence[str]], best: Sequence[Sequence[Any]]) -> Iterator[str]:
    """The best taggings of every sentence, with their log-probabilities."""
    from spectrem.data import write_tagged

    for words, taggings in zip(sentences, best, strict=True):
        text = StringIO()
        write_tagged(text, [words] * len(taggings), [list(map(str, one.tags)) for one in taggings])
        for one, line in zip(taggings, text.getvalue().split("\n"), strict=False):
            yield f"{one.log_probability:.6f}\t{line}\n"
        yield "\n"


def _inputs(
    tagger: Any, sentences: Sequence[Sequence[str]], options: TaggingOptions, given: Given
) -> Sequence[Sequence[Any]]:
    """The sentences as the tagger takes them: words, or words with the tags that its features read."""
    features = getattr(tagger, "features", "words")
    if features == "tokens":
        raise InvalidInputError(
            "the model has features of its own for tokens, which no file of text has; predict with CRFTagger from "
            "Python"
        )
    if features == "words":
        check_rules([needs("--context", _READS_TAGS)], given)
    elif options.context is None:
        raise InvalidInputError(
            f"the model has --features {features}, which read tags beside words; say with --context which column has "
            "them, and --input-format columns"
        )
    return with_context(sentences, options.context, _columns(options)[0], options.text)


# Key of the JSON object, and the row of the table that shows it.
_ROWS = {
    "accuracy": "accuracy",
    "chunk_precision": "chunk precision",
    "chunk_recall": "chunk recall",
    "chunk_f1": "chunk F1",
    "accuracy_ambiguous": "  ambiguous words",
    "accuracy_known": "  words of the dictionary",
    "accuracy_unknown": "  other words",
    "many_to_one": "many-to-one accuracy",
    "one_to_one": "one-to-one accuracy, greedy",
    "one_to_one_optimal": "one-to-one accuracy, optimal",
    "v_measure": "V-measure",
    "mutual_information": "mutual information, bits",
    "gold_entropy": "entropy of the gold tags, bits",
}
_NAMES = ("precision", "recall", "f1")


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(TagOptions, DictionaryOption, ComparisonOptions):
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
        Then the scores also say how many of the ambiguous, known and unknown words are right.
    chunks
        Also tell precision, recall and F1 of the chunks of every type. Those of all chunks, as conlleval counts them,
        are told wherever tags mark chunks, such as B-NP, I-NP and O.
    """

    chunks: bool = option(False)


@app.command()
@takes()
def evaluate(options: EvaluationOptions) -> None:
    """Compare tags with those given by hand.

    Example: **spectrem tag evaluate gold.pos predicted.pos --dictionary tags.tsv**

    Accuracy is the share of words whose tag is right; a word is ambiguous if the
    dictionary gives it several tags or does not list it. The other measures do not
    look at names, and so suit states learned without a dictionary: many-to-one
    gives every state the tag it is most often found with, one-to-one gives no tag
    twice; V-measure and mutual information compare the two partitions as such.

    Where all tags of GOLD mark chunks (B-NP, I-NP, O), accuracy counts every O and
    says little: precision, recall and F1 of chunks stand beside it.

    --columns concerns GOLD, --field every file of CoNLL-U.
    """
    with command_files(*files_of(options)):
        from spectrem.data import read_tag_dictionary, read_tagged
        from spectrem.metrics.chunks import are_chunk_tags

        names = [name for name in (options.predicted, options.second) if name is not None]
        truth = read_tagged(options.gold, columns=_columns(options), field=options.field)
        guesses = [read_tagged(name, field=options.field) for name in names]
        for name, guess in zip(names, guesses, strict=True):
            check_same_text((options.gold, name), (truth, guess), lambda side: side.words)
        listed = None if options.dictionary is None else read_tag_dictionary(options.dictionary)
        scores: list[dict[str, Any]] = [_scores(truth, guess, listed) for guess in guesses]
        if options.chunks or are_chunk_tags(chain.from_iterable(truth.tags)):
            chunks = [_chunk_scores(truth, guess, options.chunks) for guess in guesses]
            scores = [score | of_chunks for score, of_chunks in zip(scores, chunks, strict=True)]
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


def _chunk_scores(truth: TaggedCorpus, guess: TaggedCorpus, by_type: bool) -> dict[str, Any]:
    """Scores of chunks, and if wanted those of every type."""
    from spectrem.metrics import chunk_scores

    untagged = next((number for number, tags in enumerate(truth.tags) if None in tags), None)
    if untagged is not None:
        raise InvalidInputError(
            f"--chunks needs a tag for every word of GOLD, got _ at {truth.place(untagged)}; write O where no chunk is"
        )
    guessed = [["O" if tag is None else tag for tag in tags] for tags in guess.tags]
    scores = chunk_scores(guessed, [[str(tag) for tag in tags] for tags in truth.tags])
    found: dict[str, Any] = {"n_chunks": scores.n_gold}
    found |= {f"chunk_{name}": value for name, value in json_numbers(scores, _NAMES).items()}
    kinds = {kind: {"n": one.n_gold, **json_numbers(one, _NAMES)} for kind, one in scores.by_type.items()}
    return found | ({"chunks": kinds} if by_type else {})


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
            title += " of words, O included" if key == "accuracy" and "n_chunks" in first else ""
            rows.append([title, *(score_cell(one[key]) for one in scores)])
    for kind in sorted({kind for one in scores for kind in one.get("chunks", ())}):
        chunks = [one["chunks"].get(kind, {"n": 0, "f1": None}) for one in scores]
        rows.append([f"  {kind or 'no type'} ({chunks[0]['n']})", *(score_cell(one["f1"]) for one in chunks)])
    print_scores(
        column_titles(names),
        rows,
        f"{counted(first['n_tokens'], 'word')} in {counted(first['n_sentences'], 'sentence')}",
    )
    if signs:
        print_sign_tests(signs["sign_test"])
