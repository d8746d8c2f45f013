"""`spectrem tag predict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal

from spectrem.cli.declare import Given, Settings, argument, option, takes
from spectrem.cli.ending import say
from spectrem.cli.files import command_files
from spectrem.cli.options import MinProbability, Output, Quiet
from spectrem.cli.prediction import OPTIONS, load_model, posterior_lines, set_parameters
from spectrem.cli.rules import check_rules, excludes, needs
from spectrem.cli.tagging.options import Columns, Context, Field, InputFormat, with_context
from spectrem.estimators.tagging.parameters import TaggerParameters
from spectrem.exceptions import InvalidInputError, spelled

_UNUSED_BY_N_BEST = ("--decode", "--project-at-predict", "--infeasible", "--output-format")
_RULES = (
    needs("--min-probability", "--probabilities"),
    *(
        excludes(name, "--n-best", f"{shown} changes nothing beside {{--n-best}}; drop one of them")
        for name, shown in [*((name, name) for name in _UNUSED_BY_N_BEST[:3]), ("--output-format", "{--output-format}")]
    ),
)
_READS_TAGS = "a model of --features chunking or words+tags"


@dataclass(frozen=True)
class PredictionOptions:
    """Arguments and options of `spectrem tag predict` besides parameters of its two estimators.

    Parameters
    ----------
    model
        A model written by spectrem tag train.
    text
        Tokenised sentences, one per line, plain or gzipped UTF-8; or with --format tagged text, whose tags are
        ignored; - is standard input.
    output_format
        slash: one sentence per line of word/TAG. columns: one word per line, a tab, its tag. conllu: ten columns of
        Universal Dependencies, tags in the one that --field names.
    probabilities
        Write probabilities there: one line per word of the word and its tags with their probabilities, likeliest
        first, with tabs between; a blank line after every sentence.
    n_best
        Write, instead of the best tags, the N most probable taggings of every sentence, best first: one line each
        of its log-probability in nats, a tab, and word/TAG; a blank line after every sentence. For models trained
        with --crf.
    format
        text: one sentence per line. slash: the same of word/TAG. columns: one word per line, blank lines between
        sentences. conllu: that of Universal Dependencies. auto tells them apart, and takes a first line whose words
        all have slashes for word/TAG.
    """

    model: str = argument("MODEL")
    text: str = argument("TEXT")
    output: Output = "-"
    output_format: Literal["slash", "columns", "conllu"] = option("slash", metavar="NAME")
    probabilities: str | None = option(None, metavar="FILE")
    min_probability: MinProbability = None
    n_best: int | None = option(None, min=1, metavar="N")
    format: InputFormat | None = option(None, metavar="NAME", show_default="text")
    columns: Columns = (0, 1)
    field: Field = "upos"
    context: Context = None
    quiet: Quiet = False


@takes(TaggerParameters, only=["decode", "project_at_predict", "infeasible", "n_threads"])
def predict(options: PredictionOptions, settings: Settings, given: Given) -> None:
    """Tag a text with a trained model.

    Example: **spectrem tag predict model.npz text.txt -o tagged.txt**

    With --project-at-predict the tags meet the constraints that the model was
    trained under. A summary on standard error says how many of the words the
    model has never seen; those are tagged by their place in the sentence.
    """
    check_rules(_RULES, given)
    outputs = {"--output": options.output, "--probabilities": options.probabilities}
    with command_files({"MODEL": options.model, "TEXT": options.text}, outputs), ExitStack() as stack:
        from spectrem.data import open_output, read_sentences, write_tagged
        from spectrem.estimators import CRFTagger, HMMTagger

        # opened first: who reads a pipe sees its end if the work fails
        tags_out, probabilities_out = (
            None if path is None else stack.enter_context(open_output(path)) for path in outputs.values()
        )
        assert tags_out is not None
        tagger = load_model(options.model, HMMTagger, CRFTagger)
        set_parameters(tagger, options.model, settings, given)
        sentences = read_sentences(options.text, options.format or "plain", column=options.columns[0])
        inputs = _inputs(tagger, sentences, options, given)
        if options.n_best is not None:
            if isinstance(tagger, HMMTagger):
                raise InvalidInputError(
                    f"--n-best {options.n_best} needs a conditional random field, but {options.model} is a hidden "
                    "Markov model; train with --crf, or drop this"
                )
            tags_out.writelines(_taggings(sentences, tagger.n_best(inputs, options.n_best)))
        else:
            with spelled(OPTIONS):
                tags = [list(map(str, predicted)) for predicted in tagger.predict(inputs)]
            write_tagged(tags_out, sentences, tags, options.output_format, field=options.field)
        if probabilities_out is not None:
            tables, names = tagger.predict_proba(inputs), list(map(str, tagger.tags_))
            lines = posterior_lines(sentences, tables, lambda _, k: names[k], options.min_probability)
            probabilities_out.writelines(lines)
    if not options.quiet:
        n_words = sum(map(len, sentences))
        unknown = ""
        if isinstance(tagger, HMMTagger):
            seen = tagger.coding_.vocabulary.index
            unknown = f", {sum(word not in seen for sentence in sentences for word in sentence)} of them unknown"
        say(f"tagged {len(sentences)} sentences ({n_words} words{unknown})")


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
    tagger: Any, sentences: Sequence[Sequence[str]], options: PredictionOptions, given: Given
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
            "them, and --format columns"
        )
    return with_context(sentences, options.context, options.columns[0], options.text)
