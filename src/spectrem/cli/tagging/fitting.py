"""Training of taggers on sentences of files, whose errors say where the sentence stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectrem.cli.options import errors_located
from spectrem.cli.progress import without_unconverged
from spectrem.cli.tagging.train import TrainingOptions
from spectrem.data import FileSentences, TaggedCorpus, display_name
from spectrem.exceptions import shorten, spelled


def fit_tagger(
    tagger: Any, sentences: Sequence[Any], labelled: TaggedCorpus, plain: FileSentences, own: TrainingOptions
) -> None:
    """Train on labelled sentences, then on plain ones.

    Parameters
    ----------
    tagger : HMMTagger or CRFTagger
    sentences : sequence
        Those of both files, in this order, as the tagger takes them.
    labelled, plain
        What was read from ``own.labelled`` and ``own.corpus``.
    own : TrainingOptions

    Raises
    ------
    SpectremError
        As the tagger does; of an error about a sentence the message begins with its file, line and words.
    """
    labels = [*labelled.tags, *([None] * len(plain))] if labelled.tags else None

    def place(number: int) -> str:
        if number < len(labelled.words):
            path, line, words = own.labelled, labelled.place(number), labelled.words[number]
        else:
            number -= len(labelled.words)
            path, line, words = own.corpus, plain.place(number), plain[number]
        assert path is not None
        return f"{display_name(path)}, {line} ({shorten(' '.join(words))})"

    with without_unconverged(), spelled({"infeasible": "--infeasible"}), errors_located("sentence", place):
        tagger.fit(sentences, labels)
