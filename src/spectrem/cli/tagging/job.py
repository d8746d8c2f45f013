"""The work of `spectrem tag train`, once its options have been read."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from spectrem.cli.annealing import Annealing
from spectrem.cli.constraint_option import parse_options
from spectrem.cli.ending import say
from spectrem.cli.options import refuse_unused
from spectrem.cli.progress import Advance, count_gammas, progress_bar, warn_gaining
from spectrem.cli.tagging.fitting import fit_tagger
from spectrem.cli.tagging.train import TrainingOptions
from spectrem.constraints import check_values
from spectrem.data import FileSentences, TaggedCorpus, display_name, read_sentences, read_tag_dictionary, read_tagged
from spectrem.estimators import HMMTagger
from spectrem.estimators.tagging.parameters import check_size
from spectrem.exceptions import InvalidInputError
from spectrem.learning import Record

_COLUMNS = ("sentence", "token", "occurrence", "word", "label", "tag")


@dataclass(frozen=True)
class TrainingJob:
    """One run of `spectrem tag train` from reading to the saved model.

    Attributes
    ----------
    own : TrainingOptions
    settings : dict
        Parameters of `HMMTagger` that were given, but the schedule, which ``annealing`` makes.
    """

    own: TrainingOptions
    settings: dict[str, Any]
    annealing: Annealing
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Read, train, save."""
        constraints = parse_options(self.own.constraint or (), _COLUMNS)
        if "dual_steps" in self.settings and all("sentence" in one.groups for one in constraints):
            needed = "a --constraint over the whole text (a share or sparsity)"
            refuse_unused(f"--dual-steps {self.settings['dual_steps']}", needed)
        n_states = self.settings.get("n_states")
        check_size(n_states or 1, self.settings.get("order", 1), ("--n-states", "--order"))
        dictionary = None if self.own.dictionary is None else read_tag_dictionary(self.own.dictionary)
        labelled, plain = TaggedCorpus([], []), FileSentences()
        if self.own.labelled is not None:
            labelled = read_tagged(self.own.labelled, columns=self.own.columns, field=self.own.field)
        if self.own.corpus is not None:
            plain = read_sentences(self.own.corpus, self.own.format, column=self.own.columns[0])
        sentences, labels = labelled.words, labelled.tags
        if not any(map(any, (sentences, plain))):
            files = " and ".join(display_name(path) for path in (self.own.labelled, self.own.corpus) if path)
            raise InvalidInputError(f"{files}: holds no word to learn from; give text, tokenised, a sentence per line")
        names = set(chain.from_iterable((dictionary or {}).values()))
        names |= {tag for sentence in labels if sentence is not None for tag in sentence if tag is not None}
        if names and n_states not in (None, len(names)):
            raise InvalidInputError(
                f"--n-states {n_states}: --dictionary and --labelled name {len(names)} tags; leave --n-states out"
            )
        known = sorted(names) or [*range(n_states or 0)]
        for column in ("tag", "label"):
            check_values(constraints, column, known)
        settings = self.annealing.schedule(self.settings)
        if self.own.start is not None:
            settings["init"] = settings["reference"] = HMMTagger.load(self.own.start)
        tagger = HMMTagger(dictionary=dictionary, constraints=constraints, **settings)
        n_stages = tagger.n_init * count_gammas(tagger)
        n_tokens = sum(map(len, sentences)) + sum(map(len, plain))
        with progress_bar(n_stages, shown=not self.own.quiet) as bar:
            bar("Training")
            progress = _Progress(bar, tagger.max_iter, n_tokens)
            tagger.set_params(on_iteration=progress.advance)
            fit_tagger(tagger, [*sentences, *plain], labelled, plain, self.own)
            progress.finish(n_stages)
            tagger.set_params(on_iteration=None).save(self.own.model)
        if not self.own.quiet:
            self._report(tagger, len(sentences) + len(plain), n_tokens)

    def _report(self, tagger: HMMTagger, n_sentences: int, n_tokens: int) -> None:
        seconds = time.perf_counter() - self.started
        bits = -tagger.history_[-1].objective / max(n_tokens, 1) / math.log(2.0)
        say(
            f"learned {len(tagger.tags_)} tags from {n_sentences} sentences ({n_tokens} words) in {seconds:.1f} s: "
            f"{tagger.n_iter_} iterations, objective {-bits:.4f} bits per word"
        )
        warn_gaining(tagger)


class _Progress:
    """Stages of constant gamma, each a unit of the bar; one that converges early is counted when the next begins."""

    def __init__(self, bar: Advance, max_iter: int, n_tokens: int) -> None:
        self._bar, self._max_iter, self._n_tokens = bar, max_iter, max(n_tokens, 1)
        self._done, self._gamma = 0.0, math.nan

    def advance(self, record: Record) -> None:
        skipped = math.ceil(self._done - 1e-9) - self._done if record.gamma != self._gamma else 0.0
        self._gamma = record.gamma
        value = record.objective / self._n_tokens
        self._move(
            f"Training: gamma {record.gamma:.3g}, objective {value:.5f} nats per word", skipped + 1 / self._max_iter
        )

    def finish(self, total: float) -> None:
        self._move("Saving", total - self._done)

    def _move(self, doing: str, amount: float) -> None:
        self._done += amount
        self._bar(doing, amount)
