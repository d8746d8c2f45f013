"""The commands `spectrem parse train`, `predict`, `transfer` and `evaluate`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import typer

from spectrem._heads import ROOT, UNKNOWN_HEAD
from spectrem.cli.declare import OF_MODEL, Command, Given, Settings, argument, files_of, option, takes
from spectrem.cli.ending import STANDARD_OUTPUT, say
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
    errors_located,
    parse_options,
)
from spectrem.cli.prediction import load_model, posterior_lines
from spectrem.cli.rules import CONSTRAINED, Rule, check_rules, excludes, needs
from spectrem.cli.training import Annealing, Home, TrainingRun, learning, refuse_parameters
from spectrem.estimators.grammar.parameters import GrammarSettings
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.estimators.shared_parameters import MODEL, TRAINING
from spectrem.exceptions import InvalidInputError, advice, counted, quoted, shorten

if TYPE_CHECKING:
    from spectrem._arrays import Floats, Ints
    from spectrem.data import ParsedSentence
    from spectrem.data.files import Lines
    from spectrem.data.treebank import FileTrees


app = typer.Typer(
    help="Find the heads of words: learn a parser from trees, or a grammar from tags alone, apply it, judge it.",
    no_args_is_help=True,
)


@dataclass(frozen=True, kw_only=True)
class LengthOption:
    """An option of commands that read trees.

    Parameters
    ----------
    max_length
        Leave out sentences of more words.
    """

    max_length: int | None = option(None, min=1, metavar="WORDS")


@dataclass(frozen=True, kw_only=True)
class PunctuationOption:
    """An option of commands that may use grammars.

    Parameters
    ----------
    skip_punctuation
        With --dmv, leave out words tagged PUNCT, in training and, since the model keeps this, in predict, where they
        then hang on the word under the root.
    """

    skip_punctuation: bool = option(False)


@dataclass(frozen=True, kw_only=True)
class ParserOptions(FieldOption, LearningOptions):
    """Options of commands that learn parsers.

    Parameters
    ----------
    dmv
        Learn a grammar, the dependency model with valence, from tags alone.
    """

    dmv: bool = option(False, group=MODEL)


_OF_BATCHES = ("--anneal", "--anneal-rate", "--quench", "--spill", "--dask", "--checkpoint")
_RULES_OF_BATCHES = [needs(option, "--learner batch", "--dmv") for option in _OF_BATCHES]


def check_settings(settings: Settings, given: Given, *, dmv: bool) -> None:
    """Refuse options of the other of both models, and those that learning in small steps does not read.

    Raises
    ------
    InvalidInputError
        Naming the option.
    """
    if dmv:
        message = "concerns parsers with features; drop it, or --dmv"
        refuse_parameters(settings, given, ParserParameters, GrammarSettings, message)
    else:
        message = "changes nothing without --dmv; add that or drop this"
        refuse_parameters(settings, given, GrammarSettings, ParserParameters, message)
    check_rules(_RULES_OF_BATCHES, given)


def read_treebank(path: str | Lines, max_length: int | None = None, *, trees: bool = True) -> FileTrees:
    """The sentences of a file of CoNLL-U, those that are too long left out; without ``trees``, their tags alone.

    Raises
    ------
    InvalidInputError
        If none is left, or a line is wrong.
    """
    from spectrem.data import display_name, read_conllu

    name = display_name(path) if isinstance(path, str) else path.name
    sentences = read_conllu(path, trees=trees)
    if not sentences:
        raise InvalidInputError(f"{name}: holds no sentences; give a file of CoNLL-U")
    kept = sentences.up_to(max_length)
    if not kept:
        raise InvalidInputError(
            f"{name}: no sentence has up to --max-length {max_length} words; the shortest has "
            f"{min(len(one.forms) for one in sentences)}"
        )
    return kept


def count_words(sentences: Sequence[ParsedSentence]) -> int:
    return sum(len(one.forms) for one in sentences)


def tags_of(sentences: FileTrees, field: str, path: str) -> list[tuple[str, ...]]:
    """The tags of every sentence.

    Raises
    ------
    InvalidInputError
        If a word has none.
    """
    tags: list[tuple[str, ...]] = [getattr(one, field) for one in sentences]
    for number, (one, row) in enumerate(zip(sentences, tags, strict=True)):
        if "_" in row:
            raise InvalidInputError(
                f"{places_in(path, sentences)(number)}: {one.forms[row.index('_')]!r} has no tag in the column "
                f"{field.upper()}; tag it first (spectrem tag), or choose the other column with --field"
            )
    return tags


def places_in(path: str, sentences: FileTrees) -> Callable[[int], str]:
    """The place of a sentence as errors give it: file, line and words."""
    from spectrem.data import display_name

    def place(number: int) -> str:
        words = quoted(shorten(" ".join(sentences[number].forms)))
        return f"{display_name(path)}, line {sentences.starts[number]} ({words})"

    return place


_OF_GRAMMARS = ("--heads", "--field", "--skip-punctuation")
_RULES_OF_TRAIN = (
    *CONSTRAINED,
    *(
        needs(option, "--dmv", message=f"{option} changes nothing without --dmv; add that or drop this")
        for option in _OF_GRAMMARS
    ),
    Rule(
        ("--crossing", "--dmv"),
        ("--heads",),
        "{--crossing} changes nothing with --dmv unless it learns from heads; add --heads or drop this",
    ),
    excludes("--crossing", "--no-projective", "{--crossing} concerns trees without crossing arcs; drop one of them"),
)
_EVERYDAY = (
    *("corpus", "source", "target", "align", "save", "dmv", "field", "skip_punctuation", "max_length", "quiet"),
    *("tagger", "start", "share", "constraint", "constraints", "learner", "relations", "C"),
    *("unlabelled_weight", "min_count", "projective", "gamma", "max_iter", "infeasible", "random_state"),
    *("n_threads", "report"),
)
"""The options that ``--help`` shows of `train` and `transfer`."""
_ARCS = ("sentence", "dependent", "head", "occurrence", "root", "direction", "length", "head_tag", "dependent_tag")
_VALUES = (f"{end}_{name}" for end in ("head", "dependent") for name in ("form", "upos", "xpos"))
_COLUMNS, _COLUMNS_OF_GRAMMARS = (*_ARCS, *_VALUES), (*_ARCS, "adjacent", "stop")
_ADVICE = {
    "crossing": "--crossing",
    "of sentence": "",  # the place stands before
    "several roots": "give --no-single-root",
    "no batch": "give --learner batch",
}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(LengthOption, PunctuationOption, ParserOptions):
    """The argument and options of `spectrem parse train` besides the parameters of its two estimators.

    Parameters
    ----------
    corpus
        Tagged sentences in CoNLL-U, plain or gzipped, with heads; heads that are not known are _. - is standard
        input.
    dmv
        Heads of CORPUS are not read, but for --heads. Its options are --adjacency, --smoothing, --init, --heads and
        --field.
    heads
        With --dmv, learn from the heads of CORPUS too.
    constraint
        "universal_rules()": 31 rules of what universal tags depend on, which every other arc pays for. "E[root &
        (dependent_tag == 'VERB')] >= '90%' * E.count(dependent_tag == 'VERB', each='sentence')": of nine in ten
        sentences with verbs, one is the root. See docs/guide/constraints.md.
    """

    corpus: str = argument("CORPUS")
    heads: bool = option(False, group=TRAINING)


@app.command(cls=Command)
@takes(ParserParameters, beside={GrammarSettings: "--dmv"}, defaults={"random_state": 0}, shown=_EVERYDAY)
def train(options: TrainingOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn a parser from trees, or with --dmv a grammar from tags alone.

    Example: **spectrem parse train en-train.conllu --save model.npz**

    Sentences may have all heads, some or none: what is missing is inferred, with
    --learner batch under constraints too.

    Without trees: **spectrem parse train tagged.conllu --dmv --skip-punctuation --max-length 10 --constraint
    universal_rules --save model.npz**
    """
    check_settings(settings, given, dmv=options.dmv)
    check_rules(_RULES_OF_TRAIN, given)
    with learning([options], settings, annealing, home) as placed:
        (_train_grammar if options.dmv else _train_parser)(options, placed)


def _train_parser(options: TrainingOptions, settings: dict[str, Any]) -> None:
    import numpy as np

    from spectrem.data import display_name
    from spectrem.estimators import EdgeFactoredParser

    run = TrainingRun(options)
    constraints = parse_options(options.constraint, _COLUMNS, options.constraints)
    sentences = read_treebank(options.corpus, options.max_length)
    if all(one.heads is None for one in sentences) and not constraints:
        raise InvalidInputError(
            f"{display_name(options.corpus)}: holds no heads to learn from, only _; give --dmv to learn from tags, or "
            "--learner batch with constraints"
        )
    parser = EdgeFactoredParser(constraints=constraints, **settings)
    run.fit(parser, lambda: parser.fit(sentences), places_in(options.corpus, sentences), _ADVICE)
    complete = sum(one.heads is not None and (one.heads > -2).all() for one in sentences)
    learned = f"{np.count_nonzero(parser.theta_)} weights"
    run.report(
        parser, learned, sentences, count_words(sentences), f": {complete} with all heads{_crossing_outcome(parser)}"
    )


def _train_grammar(options: TrainingOptions, settings: dict[str, Any]) -> None:
    from spectrem.data import display_name
    from spectrem.estimators import DependencyModel

    run = TrainingRun(options)
    constraints = parse_options(options.constraint, _COLUMNS_OF_GRAMMARS, options.constraints)
    supervised = options.heads or settings.get("init") == "supervised"
    sentences = read_treebank(
        options.corpus, None if options.skip_punctuation else options.max_length, trees=supervised
    )
    if options.skip_punctuation:
        sentences = replaced(sentences, [without_punctuation(one)[0] for one in sentences]).up_to(options.max_length, 1)
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

    def fit() -> None:
        grammar.fit(tags, heads).skips_punctuation_ = options.skip_punctuation

    run.fit(grammar, fit, places_in(options.corpus, sentences), _ADVICE)
    n_words = count_words(sentences)
    outcome = f": log-likelihood {grammar.log_likelihood_ / n_words:.4f} nats per word"
    run.report(
        grammar, f"a grammar of {len(grammar.tags_)} tags", sentences, n_words, outcome + _crossing_outcome(grammar)
    )


def _crossing_outcome(parser: Any) -> str:
    """How many heads were lifted, and sentences left out, since arcs crossed."""
    lifted = f", {counted(parser.n_lifted_, 'head')} lifted since arcs crossed" if parser.n_lifted_ else ""
    skipped = f", {counted(parser.n_skipped_, 'sentence')} left out since arcs cross" if parser.n_skipped_ else ""
    return lifted + skipped


def replaced(sentences: FileTrees, others: Iterable[ParsedSentence]) -> FileTrees:
    """Other sentences at the same places."""
    from spectrem.data.treebank import FileTrees

    return FileTrees(others, sentences.starts)


def without_punctuation(sentence: ParsedSentence) -> tuple[ParsedSentence, Ints]:
    """A sentence of the words that are not tagged PUNCT, and their positions; heads skip what is left out.

    Words without a universal tag are told by the tags that the Penn Treebank has for punctuation.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.data import ParsedSentence
    >>> shout = ParsedSentence(("go", "!"), ("VERB", "PUNCT"), ("_", "_"), np.array([1, ROOT]))
    >>> without_punctuation(shout)[0][:2], without_punctuation(shout)[0].heads
    ((('go',), ('VERB',)), array([-1]))
    """
    import numpy as np

    from spectrem.data import PENN_TO_UNIVERSAL, ParsedSentence

    tags = [PENN_TO_UNIVERSAL.get(xpos) if upos == "_" else upos for upos, xpos in zip(*sentence[1:3], strict=True)]
    stays = np.array([tag != "PUNCT" for tag in tags], bool)
    kept, heads = np.flatnonzero(stays), sentence.heads
    if heads is not None:
        heads = heads.copy()
        while len(over := np.flatnonzero((heads >= 0) & ~stays[np.maximum(heads, 0)])):
            heads[over] = heads[heads[over]]
        heads = np.where(heads >= 0, np.searchsorted(kept, heads), heads)[kept]
    forms, upos, xpos = (tuple(column[k] for k in kept) for column in (sentence.forms, sentence.upos, sentence.xpos))
    relations = None if sentence.relations is None else tuple(sentence.relations[k] for k in kept)
    return ParsedSentence(forms, upos, xpos, heads, relations), kept


def with_punctuation(heads: Ints, kept: Ints, n: int) -> Ints:
    """Heads of all n words from those of the words ``kept``; all others hang on the first word under the root.

    Examples
    --------
    >>> import numpy as np
    >>> with_punctuation(np.array([1, ROOT]), np.array([0, 2]), 4)
    array([ 2,  2, -1,  2])
    >>> with_punctuation(np.zeros(0, np.int64), np.zeros(0, np.int64), 2)
    array([-1,  0])
    """
    import numpy as np

    if not len(kept):
        whole = np.zeros(n, np.int64)
        whole[:1] = ROOT
        return whole
    roots = kept[heads == ROOT]
    whole = np.full(n, roots[0] if len(roots) else UNKNOWN_HEAD)
    whole[kept] = np.where(heads >= 0, kept[np.maximum(heads, 0)], heads)
    return whole


def table_with_punctuation(table: Floats, kept: Ints, whole: Ints) -> Floats:
    """Probabilities of arcs between all words from those between the words ``kept``; other words are sure of theirs."""
    import numpy as np

    n = len(whole)
    full = np.zeros((n, n))
    known = np.flatnonzero(whole > UNKNOWN_HEAD)
    full[known, np.where(whole == ROOT, np.arange(n), whole)[known]] = 1.0
    full[kept] = 0.0
    full[np.ix_(kept, kept)] = table
    return full


_RULES_OF_PREDICT = (
    needs("--min-probability", "--probabilities"),
    excludes("--show", "--output -", "--show draws trees on standard output; give --output a file, or leave it out"),
)
_GRAMMAR = "a model of --dmv"
_RULES_OF_MODELS = (needs("--field", _GRAMMAR), needs("--skip-punctuation", _GRAMMAR))


@dataclass(frozen=True, kw_only=True)
class ParsingOptions(PunctuationOption, FieldOption, ProbabilityOptions, PredictionOptions):
    """Arguments and options of `spectrem parse predict` besides parameters of its two estimators.

    Parameters
    ----------
    text
        Tagged sentences in CoNLL-U, plain or gzipped, whose heads are ignored; - is standard input.
    output
        All but heads and relations (and the graphs of the column DEPS) is that of TEXT, in CoNLL-U.
    show
        Draw the trees as text on standard output, with the probabilities of heads; CoNLL-U is written only with
        --output.
    probabilities
        One line per word of the word and its heads, counted from 1, 0 being the root, with their probabilities,
        likeliest first, with tabs between; a blank line after every sentence.
    """

    output: str | None = option(None, "--output", "-o", metavar="FILE", show_default="-")  # type: ignore[assignment]
    show: bool = option(False)
    field: Literal["upos", "xpos"] | None = option(None, show_default=OF_MODEL)  # type: ignore[assignment]


@app.command()
@takes(ParserParameters, only=["decode", "project_at_predict", "infeasible", "n_threads"])
def predict(options: ParsingOptions, settings: Settings, given: Given) -> None:
    """Find the heads of the words of a text with a trained model.

    Example: **spectrem parse predict text.conllu --load model.npz -o parsed.conllu**

    With --project-at-predict the trees meet the constraints that the model was
    trained under.
    """
    check_rules(_RULES_OF_PREDICT, given)
    text, show = options.text, options.show
    output = options.output if options.output is not None or show else "-"
    outputs = {"--output": output, "--probabilities": options.probabilities, STANDARD_OUTPUT: "-" if show else None}
    writing = opened(output, options.probabilities)
    with command_files({"--load": options.load, "TEXT": text}, outputs), writing as (trees_out, probabilities_out):
        from spectrem.data import copy_with_trees
        from spectrem.data.files import read_lines
        from spectrem.estimators import DependencyModel, EdgeFactoredParser

        parser = load_model(options.load, (EdgeFactoredParser, DependencyModel), settings, given)
        is_grammar = isinstance(parser, DependencyModel)
        check_rules(_RULES_OF_MODELS, {**given, _GRAMMAR: ""} if is_grammar else given)
        source = read_lines(text)
        sentences = read_treebank(source, trees=False)
        with errors_located("sentence", places_in(text, sentences)):
            wanted = show or probabilities_out is not None
            if is_grammar:
                parsed, tables = _parsed_by_tags(parser, sentences, options, wanted)
            else:
                parsed, tables = parser.parse(sentences), parser.predict_proba(sentences) if wanted else []
        if trees_out is not None:
            trees_out.writelines(copy_with_trees(source, parsed))
        if probabilities_out is not None:
            words, least = [one.forms for one in sentences], options.min_probability
            lines = posterior_lines(words, tables, lambda word, k: 0 if k == word else k + 1, least)
            probabilities_out.writelines(lines)
        if show:
            from spectrem.cli.drawing import draw_tree

            for one, table in zip(parsed, tables, strict=True):
                assert one.heads is not None
                typer.echo(draw_tree(one.forms, one.heads, table, one.relations) + "\n")
    if not options.quiet:
        say(f"parsed {counted(len(sentences), 'sentence')} ({counted(count_words(sentences), 'word')})")


def _parsed_by_tags(
    grammar: Any, sentences: FileTrees, options: ParsingOptions, wanted: bool
) -> tuple[list[ParsedSentence], list[Floats]]:
    """The sentences with the heads that a grammar finds, and probabilities of arcs if ``wanted``."""
    skipping, read = options.skip_punctuation or grammar.skips_punctuation_, sentences
    if skipping:
        reduced, places = map(list, zip(*map(without_punctuation, sentences), strict=True))
        read = replaced(sentences, reduced)
    tags = tags_of(read, options.field or _known_field(read, grammar.tags_), options.text)
    heads, tables = grammar.predict(tags), grammar.predict_proba(tags) if wanted else []
    if skipping:
        sizes = [len(one.forms) for one in sentences]
        heads = list(map(with_punctuation, heads, places, sizes))
        tables = list(map(table_with_punctuation, tables, places, heads))
    return [one._replace(heads=row, relations=None) for one, row in zip(sentences, heads, strict=True)], tables


def _known_field(sentences: list[ParsedSentence], tags: Sequence[Any]) -> str:
    """The field whose tags a grammar knows better."""
    known = set(tags)
    upos, xpos = (sum(tag in known for one in sentences for tag in getattr(one, field)) for field in ("upos", "xpos"))
    return "xpos" if xpos > upos else "upos"


# Key of the JSON object, and the row of the table that shows it.
_ROWS = {
    "uas": "UAS",
    "las": "LAS",
    "las_universal": "LAS without subtypes",
    "undirected": "undirected attachment",
    "exact_match": "whole trees",
    "roots": "roots",
}


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(LengthOption, ComparisonOptions):
    """Arguments and options of `spectrem parse evaluate`.

    Parameters
    ----------
    gold
        Trees made by hand, in CoNLL-U; words without a head (_) do not count.
    predicted
        Trees over the same words, as spectrem parse predict writes them; - is standard input.
    second
        Other trees over the same words, to be compared with the first by sign tests.
    """


@app.command()
@takes()
def evaluate(options: EvaluationOptions) -> None:
    """Compare trees with those made by hand.

    Example: **spectrem parse evaluate gold.conllu parsed.conllu**

    UAS is the share of words that have their head right, LAS of those that have
    the relation right too; undirected attachment also counts arcs the wrong way
    round. All are given for all words, and without punctuation (words whose tag in
    GOLD is PUNCT). Beside them stands what comes of making every word the
    dependent of the next one, and how many sentences have several roots.
    """
    with command_files(*files_of(options)):
        truth, longest = read_treebank(options.gold), options.max_length
        names = [name for name in (options.predicted, options.second) if name is not None]
        guesses = [read_treebank(name) for name in names]
        for name, guess in zip(names, guesses, strict=True):
            check_same_text((options.gold, name), (truth, guess), lambda side: [one.forms for one in side])
        kept = [n for n, one in enumerate(truth) if longest is None or len(one.forms) <= longest]
        if not kept:
            raise InvalidInputError(f"GOLD has no sentence of up to --max-length {longest} words; raise it")
        result = _result(*([side[n] for n in kept] for side in (truth, *guesses)))
        print_result(result, options.as_json, lambda: _print(names, result))


def _result(truth: Sequence[ParsedSentence], *guesses: Sequence[ParsedSentence]) -> dict[str, Any]:
    """All scores, those of the baseline last; and sign tests where there are two predictions."""
    import numpy as np

    from spectrem.metrics import compare_attachments, head_is_next, not_punctuation

    true_heads = [_heads(one) for one in truth]
    known = [row > -2 for row in true_heads]
    gold = [np.maximum(row, -1) for row in true_heads]  # a number that is masked stands where a head is not known
    if not any(row.any() for row in known):
        raise InvalidInputError("GOLD has no heads, only _; name a file of trees")
    words = [row & mask for row, mask in zip(known, not_punctuation(one.upos for one in truth), strict=True)]
    masks = {"all_words": known, "without_punctuation": words}
    heads = [list(map(_heads, guess)) for guess in guesses]
    relations = [_relations(truth, guess) for guess in guesses]
    sides = [*zip(heads, relations, strict=True), (head_is_next([len(row) for row in gold]), None)]
    scores = [{name: _scores(gold, rows, mask, pair) for name, mask in masks.items()} for rows, pair in sides]
    several = [sum(int((row == -1).sum()) > 1 for row in side) for side in (true_heads, *heads)]
    result: dict[str, Any] = {
        "n_sentences": len(truth),
        "n_words": {name: int(np.sum([row.sum() for row in mask])) for name, mask in masks.items()},
        "n_unknown_heads": int(sum((~row).sum() for row in known)),
        "predicted": scores[:-1],
        "head_is_next": scores[-1],
        "sentences_with_several_roots": {"gold": several[0], "predicted": several[1:]},
    }
    if len(heads) == 2:
        compared = {name: compare_attachments(heads[0], heads[1], gold, mask=mask) for name, mask in masks.items()}
        result["sign_test"] = {name: asdict(test) for name, test in compared.items()}
    return result


def _heads(sentence: ParsedSentence) -> Ints:
    """Heads, -2 where they are not known."""
    import numpy as np

    return np.full(len(sentence.forms), -2) if sentence.heads is None else np.asarray(sentence.heads)


def _relations(truth: Sequence[ParsedSentence], guess: Sequence[ParsedSentence]) -> tuple[Any, Any] | None:
    """Relations of both, if both have any."""
    if any(all(one.relations is None for one in side) for side in (truth, guess)):
        return None
    gold, predicted = ([one.relations or ("_",) * len(one.forms) for one in side] for side in (truth, guess))
    return gold, predicted


def _scores(gold: Sequence[Ints], heads: Sequence[Ints], mask: Sequence[Any], pair: Any) -> dict[str, float | None]:
    from spectrem.metrics import attachment_scores

    relations = {} if pair is None else dict(zip(("gold_relations", "predicted_relations"), pair, strict=True))
    measured = attachment_scores(gold, heads, mask=mask, **relations)
    scores = json_numbers(measured, [name for name in _ROWS if hasattr(measured, name)])
    if pair is not None:
        short = {side: [[one.partition(":")[0] for one in row] for row in rows] for side, rows in relations.items()}
        scores["las_universal"] = json_numbers(attachment_scores(gold, heads, mask=mask, **short), ["las"])["las"]
    return scores


def _print(names: list[str], result: dict[str, Any]) -> None:
    n_words, titles, rows = result["n_words"], [*column_titles(names), "head = next word"], []
    for key, where in (("without_punctuation", "without punctuation"), ("all_words", "all words")):
        sides = [one[key] for one in (*result["predicted"], result["head_is_next"])]
        rows.append([f"{where} ({n_words[key]})", *[""] * len(sides)])
        for name, row in _ROWS.items():
            if any(one.get(name) is not None for one in sides):
                rows.append([f"  {row}", *(score_cell(one.get(name), percent=True) for one in sides)])
    print_scores(
        titles, rows, f"{counted(n_words['all_words'], 'word')} in {counted(result['n_sentences'], 'sentence')}"
    )
    if result["n_unknown_heads"]:
        typer.echo(f"left out: {result['n_unknown_heads']} words, whose heads GOLD does not know")
    several = result["sentences_with_several_roots"]
    counts = ", ".join(f"{n} of {title}" for n, title in zip(several["predicted"], titles, strict=False))
    typer.echo(f"sentences with several roots: {several['gold']} of GOLD, {counts}")
    for name, tests in result.get("sign_test", {}).items():
        print_sign_tests(tests, f", {name.replace('_', ' ')}")


_SHARE = 0.7
_RULES_OF_TRANSFER = (
    needs("--field", "--dmv", "--tagger"),
    excludes("--start", "--init", "{--start} and {--init} both say where to start; drop one of them"),
)


@dataclass(frozen=True, kw_only=True)
class TransferOptions(StartOption, ParserOptions):
    """Arguments and options of `spectrem parse transfer` besides the parameters of its two estimators.

    Parameters
    ----------
    source
        Source sentences with heads in CoNLL-U, as spectrem parse predict.
    target
        Their translations in CoNLL-U with tags, whose heads are not read; with --tagger also text, one sentence per
        line.
    align
        Links of words, source first: one line per pair of i-j, counted from 0, as spectrem align writes.
    tagger
        Tag TARGET with this model of spectrem tag train.
    start
        It must be of the same kind, such as one of the source language that reads tags alone (spectrem parse train
        --min-count 1000000).
    share
        At least this share of the arcs that a target sentence has in common with its source tree is expected. Given
        several times, the one is taken with which a model of half of the text conserves most arcs of the other
        half.
    unaligned_children
        A word without a link has up to N children, in expectation.
    all_links
        Arcs go along all links; by default along links of words that have no other.
    """

    source: str = argument("SOURCE")
    target: str = argument("TARGET")
    align: str = option(..., metavar="LINKS", group=FILES, reads=True)
    tagger: str | None = option(None, metavar="MODEL", group=FILES, reads=True)
    share: list[float] | None = option(None, metavar="SHARE", show_default=f"{_SHARE}", group=TRAINING)
    unaligned_children: float | None = option(None, metavar="N", show_default="any number", group=TRAINING)
    all_links: bool = option(False, group=TRAINING)


@app.command(cls=Command)
@takes(
    ParserParameters,
    leave=["crossing", "constraint", "constraints"],
    beside={GrammarSettings: "--dmv"},
    defaults={"infeasible": "skip", "random_state": 0},
    shown=_EVERYDAY,
)
def transfer(options: TransferOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn a parser of a language without trees from translations with trees.

    Example: **spectrem parse transfer en.conllu es.conllu --align en-es.txt --save es.npz**

    An arc between two target words is conserved if their source words stand in
    an arc. The trees of target sentences are inferred under the constraint that a
    share of the conserved arcs is in them. Sentences in which no tree does so, as
    conserved arcs cross, are left alone, with a warning.
    """
    check_settings(settings, given, dmv=options.dmv)
    check_rules(_RULES_OF_TRANSFER, given)
    with learning([options], settings, annealing, home) as placed:
        _transfer(options, placed)


def _transfer(options: TransferOptions, settings: dict[str, Any]) -> None:
    """Read, train, save."""
    from spectrem.data import display_name, one_to_one, read_links
    from spectrem.estimators import DependencyModel, EdgeFactoredParser, transfer_parser

    run = TrainingRun(options)
    source = read_treebank(options.source)
    for number, sentence in enumerate(source):
        if sentence.heads is None or (sentence.heads < -1).any():
            raise InvalidInputError(
                f"{places_in(options.source, source)(number)}: lacks heads; parse it first (spectrem parse predict)"
            )
    target = read_treebank(options.target, trees=False) if options.tagger is None else _tagged(options, options.tagger)
    if len(source) != len(target):
        raise InvalidInputError(
            f"{display_name(options.source)} has {len(source)} sentences and {display_name(options.target)} has "
            f"{len(target)}; sentence n of one must translate sentence n of the other"
        )
    lengths = [len(one.forms) for one in source], [len(one.forms) for one in target]
    links = read_links(options.align, lengths=lengths)
    estimator = DependencyModel if options.dmv else EdgeFactoredParser
    start = None if options.start is None else _load_start(options.start, estimator)
    sentences: Sequence[Any] = tags_of(target, options.field, options.target) if options.dmv else target
    parser = estimator(**settings)
    fit = partial(
        transfer_parser,
        parser,
        [one.heads for one in source],
        sentences,
        links if options.all_links else one_to_one(links),
        share=options.share or _SHARE,
        start=start,
        unaligned_children=options.unaligned_children,
        name=display_name(options.align),
    )
    # while shares are compared, numbers are those of half of the sentences
    places = places_in(options.target, target) if len(options.share or ()) < 2 else None
    transferred = run.fit(parser, fit, places, {"share": "--share"})
    if not options.quiet:
        for trial in transferred.trials:
            say(f"share {trial.share:g}: {trial.predicted:.1%} of the arcs of the other half")
        n_conserved = sum(int(arcs.any(axis=1).sum()) for arcs in transferred.conserved)
        seconds = time.perf_counter() - run.started
        say(
            f"learned from {counted(len(target), 'sentence')} "
            f"({counted(count_words(target), 'word')}, {n_conserved} with a conserved arc) "
            f"in {seconds:.1f} s, share {transferred.share:g}"
        )


def _load_start(path: str, estimator: type) -> Any:
    """A saved model of the kind that is learned."""
    from spectrem.estimators import DependencyModel
    from spectrem.estimators.storage import load

    model = load(path)
    if not isinstance(model, estimator):
        hint = ""
        if DependencyModel in (estimator, type(model)):
            hint = ", or drop --dmv" if estimator is DependencyModel else ", or add --dmv"
        raise InvalidInputError(
            f"--start {path}: holds {_kind(type(model))}, and {_kind(estimator)} is learned; give a model of the same "
            f"kind{hint}"
        )
    return model


def _kind(estimator: type) -> str:
    return advice(estimator.__name__, f"a {estimator.__name__}")


def _tagged(options: TransferOptions, tagger: str) -> FileTrees:
    """The target sentences with the tags that the tagger finds."""
    from spectrem.data import ParsedSentence, read_sentences
    from spectrem.data.treebank import FileTrees
    from spectrem.estimators import CRFTagger, HMMTagger

    words = read_sentences(options.target, "auto")
    sentences = []
    for forms, tags in zip(words, load_model(tagger, (HMMTagger, CRFTagger), {}, {}).predict(words), strict=True):
        blank, text = ("_",) * len(forms), tuple(map(str, tags))
        pair = (text, blank) if options.field == "upos" else (blank, text)
        sentences.append(ParsedSentence(tuple(forms), *pair))
    return FileTrees(sentences, words.starts)
