"""What `spectrem tag train --crf` does once its options are understood."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from spectrem.cli.annealing import Annealing
from spectrem.cli.constraint_option import parse_options
from spectrem.cli.ending import say
from spectrem.cli.progress import fit_and_save, warn_gaining
from spectrem.cli.tagging.fitting import fit_tagger
from spectrem.cli.tagging.train import TrainingOptions
from spectrem.constraints import check_values
from spectrem.data import FileSentences, display_name, read_sentences, read_tagged
from spectrem.estimators import CRFTagger
from spectrem.exceptions import InvalidInputError, quoted

_COLUMNS = ("sentence", "token", "occurrence", "word", "label", "tag", "previous")


@dataclass(frozen=True)
class CRFJob:
    """One run of `spectrem tag train --crf` from reading to the saved model.

    Attributes
    ----------
    own : TrainingOptions
    settings : dict
        Parameters of `CRFTagger` that were given, but the schedule, which ``annealing`` makes.
    """

    own: TrainingOptions
    settings: dict[str, Any]
    annealing: Annealing
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Read, train, save."""
        own = self.own
        assert own.labelled is not None
        constraints = parse_options(own.constraint or (), _COLUMNS)
        labelled, plain = read_tagged(own.labelled, columns=own.columns, field=own.field), FileSentences()
        if own.corpus is not None:
            plain = read_sentences(own.corpus, own.format, column=own.columns[0])
        sentences = list(with_context([*labelled.words, *plain], own.context, own.columns[0], own.labelled, own.corpus))
        tags = sorted({tag for tag in chain.from_iterable(labelled.tags) if tag is not None})
        if not tags:
            raise InvalidInputError(f"{display_name(own.labelled)}: holds no tags, only _; name the column that does")
        for column in ("tag", "label", "previous"):
            check_values(constraints, column, tags)
        settings = {"features": "words", **self.annealing.schedule(self.settings)}
        tagger = CRFTagger(constraints=constraints, **settings)
        fitted = partial(fit_tagger, tagger, sentences, labelled, plain, own)
        fit_and_save(tagger, fitted, own.model, shown=not own.quiet)
        if not own.quiet:
            self._report(tagger, len(sentences), sum(map(len, sentences)))

    def _report(self, tagger: CRFTagger, n_sentences: int, n_tokens: int) -> None:
        seconds = time.perf_counter() - self.started
        say(
            f"learned {len(tagger.theta_)} weights for {len(tagger.tags_)} tags from {n_sentences} sentences "
            f"({n_tokens} words) in {seconds:.1f} s: {tagger.n_steps_} steps and {tagger.n_iter_} iterations, "
            f"objective {tagger.objective_:.6g} nats"
        )
        warn_gaining(tagger)


def with_context(
    sentences: Sequence[Sequence[str]], context: int | None, word: int, *paths: str | None
) -> Sequence[Sequence[Any]]:
    """Sentences of the files as pairs of words and the tags in a column, if there is one.

    Raises
    ------
    InvalidInputError
        If a word has no tag there, or the text comes from standard input, which can be read once only.
    """
    if context is None:
        return sentences
    pairs: list[Sequence[Any]] = []
    for path in paths:
        if path is None:
            continue
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
            "--format columns"
        )
    return pairs
