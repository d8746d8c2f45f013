"""`spectrem tag predict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import StringIO
from typing import Annotated, Any, Literal

import typer

from spectrem.cli.drawing import posterior_lines
from spectrem.cli.ending import say
from spectrem.cli.estimator_options import Settings, option_of, takes
from spectrem.cli.files import command_files
from spectrem.cli.options import MinProbability, Output, Quiet, check_projection_options, refuse_unused
from spectrem.cli.tagging.options import Columns, Context, Field, InputFormat
from spectrem.estimators.tagging.parameters import TaggerParameters
from spectrem.exceptions import InvalidInputError, spelled


@takes(TaggerParameters, only=["decode", "project_at_predict", "infeasible", "n_threads"])
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model written by spectrem tag train.")],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Tokenised sentences, one per line, plain or gzipped UTF-8; or with --format tagged text, whose tags "
            "are ignored; - is standard input.",
        ),
    ],
    settings: Settings,
    output: Output = "-",
    output_format: Annotated[
        Literal["slash", "columns", "conllu"],
        typer.Option(
            "--output-format",
            metavar="NAME",
            help="slash: one sentence per line of word/TAG. columns: one word per line, a tab, its tag. conllu: ten "
            "columns of Universal Dependencies, tags in the one that --field names.",
        ),
    ] = "slash",
    posteriors: Annotated[
        str | None,
        typer.Option(
            "--posteriors",
            metavar="FILE",
            help="Write probabilities there: one line per word of the word and its tags with their probabilities, "
            "likeliest first, with tabs between; a blank line after every sentence.",
            show_default=False,
        ),
    ] = None,
    min_probability: MinProbability = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            "--n-best",
            min=1,
            metavar="N",
            help="Write, instead of the best tags, the N most probable taggings of every sentence, best first: one "
            "line each of its log-probability in nats, a tab, and word/TAG; a blank line after every sentence. For "
            "models trained with --crf.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        InputFormat | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="text: one sentence per line. slash: the same of word/TAG. columns: one word per line, blank lines "
            "between sentences. conllu: that of Universal Dependencies. auto tells them apart, and takes a first line "
            "whose words all have slashes for word/TAG.",
            show_default="text",
        ),
    ] = None,
    columns: Columns = (0, 1),
    field: Field = "upos",
    context: Context = None,
    quiet: Quiet = False,
) -> None:
    """Tag a text with a trained model.

    Example: **spectrem tag predict model.npz text.txt -o tagged.txt**

    With --project-at-predict the tags meet the constraints that the model was
    trained under. A summary on standard error says how many of the words the
    model has never seen; those are tagged by their place in the sentence.
    """
    if min_probability is not None and posteriors is None:
        refuse_unused(f"--min-probability {min_probability:g}", "--posteriors")
    if n_best is not None:
        _check_n_best(n_best, output_format, settings)
    inputs, outputs = {"MODEL": model, "TEXT": text}, {"--output": output, "--posteriors": posteriors}
    with command_files(inputs, outputs), ExitStack() as stack:
        from spectrem.data import open_output, read_sentences, write_tagged
        from spectrem.estimators import CRFTagger, HMMTagger
        from spectrem.estimators.storage import saved_kind

        # opened first: who reads a pipe sees its end if the work fails
        tags_out = stack.enter_context(open_output(output))
        posteriors_out = None if posteriors is None else stack.enter_context(open_output(posteriors))
        tagger = (CRFTagger if saved_kind(model) == "CRFTagger" else HMMTagger).load(model).set_params(**settings)
        check_projection_options(settings, model, tagger)
        sentences = read_sentences(text, "plain" if format is None else format, column=columns[0])
        known = _known_sentences(tagger, sentences, context, columns[0], text)
        if n_best is not None:
            if isinstance(tagger, HMMTagger):
                raise InvalidInputError(
                    f"--n-best {n_best} needs a conditional random field, but {model} is a hidden Markov model; train "
                    "with --crf, or drop this"
                )
            tags_out.writelines(_taggings(sentences, tagger.n_best(known, n_best)))
        else:
            with spelled(
                {"infeasible": "--infeasible", "project_at_predict": "--project-at-predict", "decode": "--decode"}
            ):
                tags = [list(map(str, predicted)) for predicted in tagger.predict(known)]
            write_tagged(tags_out, sentences, tags, output_format, field=field)
        if posteriors_out is not None:
            tables = tagger.predict_proba(known)
            names = list(map(str, tagger.tags_))
            posteriors_out.writelines(posterior_lines(sentences, tables, lambda _, k: names[k], min_probability))
    if not quiet:
        n_words = sum(map(len, sentences))
        unknown = ""
        if isinstance(tagger, HMMTagger):
            seen = tagger.coding_.vocabulary.index
            unknown = f", {sum(word not in seen for sentence in sentences for word in sentence)} of them unknown"
        say(f"tagged {len(sentences)} sentences ({n_words} words{unknown})")


def _check_n_best(n_best: int, output_format: str, settings: Settings) -> None:
    """Refuse options that say how the best tags are found or written."""
    unused = [
        option_of(TaggerParameters, name) for name in ("decode", "project_at_predict", "infeasible") if name in settings
    ]
    if output_format != "slash":
        unused.append(f"--output-format {output_format}")
    if unused:
        raise InvalidInputError(f"{unused[0]} changes nothing beside --n-best {n_best}; drop one of them")


def _taggings(sentences: Sequence[Sequence[str]], found: Sequence[Sequence[Any]]) -> Iterator[str]:
    """The best taggings of every sentence, with their log-probabilities."""
    from spectrem.data import write_tagged

    for words, own in zip(sentences, found, strict=True):
        text = StringIO()
        write_tagged(text, [words] * len(own), [list(map(str, one.tags)) for one in own])
        for one, line in zip(own, text.getvalue().split("\n"), strict=False):
            yield f"{one.log_probability:.6f}\t{line}\n"
        yield "\n"


def _known_sentences(
    tagger: Any, sentences: Sequence[Sequence[str]], context: int | None, word: int, text: str
) -> Sequence[Sequence[Any]]:
    """The sentences as the tagger takes them: words, or words with the tags that its features read."""
    features = getattr(tagger, "features", "words")
    if features == "tokens":
        raise InvalidInputError(
            "the model has features of its own for tokens, which no file of text has; predict with CRFTagger from "
            "Python"
        )
    if features == "words":
        if context is not None:
            refuse_unused(f"--context {context}", "a model of --features chunking or words+tags")
        return sentences
    if context is None:
        raise InvalidInputError(
            f"the model has --features {features}, which read tags beside words; say with --context which column has "
            "them, and --format columns"
        )
    from spectrem.cli.tagging.crf_job import with_context

    return with_context(sentences, context, word, text)
