"""The work of `spectrem align`, once its options have been read."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from spectrem.cli.alignment.align import AlignmentOptions
from spectrem.cli.alignment.formats import TextFormats
from spectrem.cli.alignment.writing import AlignmentStreams
from spectrem.cli.annealing import Annealing
from spectrem.cli.constraint_option import parse_options
from spectrem.cli.ending import say
from spectrem.cli.homes import spill_folder
from spectrem.cli.options import LEAST_PROBABILITY
from spectrem.cli.progress import Advance, count_gammas, progress_bar, warn_gaining, without_unconverged
from spectrem.cli.stepwise import StepwiseOptions
from spectrem.data import (
    Bitext,
    EncodedPairs,
    Links,
    Vocabulary,
    display_name,
    open_output,
    read_bitext,
    read_dictionary,
    read_links,
    read_pairs,
    read_priors,
    split_factors,
)
from spectrem.estimators import WordAligner
from spectrem.estimators.alignment.decoding import concatenate_links
from spectrem.exceptions import InvalidInputError

_COLUMNS = ("sentence", "direction", "source", "target", "state")
_GAMMAS = (1.0, 0.75, 0.5, 0.25, 0.1)  # of equally good ones the first is taken
# Rough times of one pass over the bitext, for the bar.
_MODEL1_COST, _LAST_COST = 1.0, 2.5


@dataclass(frozen=True)
class AlignmentJob:
    """One run of `spectrem align` from reading to written output.

    Attributes
    ----------
    own : AlignmentOptions
    settings : dict
        Parameters of `WordAligner` that were given, but the schedule, which ``annealing`` and ``steps`` make.
    classes : (dict, dict) of word to class
        Those that ``--factors`` finds, of source and target words.
    """

    own: AlignmentOptions
    settings: dict[str, Any]
    annealing: Annealing
    steps: StepwiseOptions = field(default_factory=StepwiseOptions)
    formats: TextFormats = field(default_factory=TextFormats)
    classes: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Read, load, train, tune, save, align, write."""
        columns = _COLUMNS if self.own.dictionary is None else (*_COLUMNS, "listed")
        parse_options(self.settings.get("constraints", ()), columns)  # before anything is read
        with ExitStack() as stack:
            # opened first: who reads a pipe sees its end if the work fails
            out = self._streams(stack)
            loaded = self._loaded()
            bar = stack.enter_context(progress_bar(self._cost(loaded), shown=not self.own.quiet and not self._prints()))
            bar("Reading")
            pairs, dev = self._read(loaded)
            bitext = pairs.bitext
            anchors = self._anchors(bitext)
            aligner = loaded or self._trained(bitext, anchors, dev, bar)
            if self.own.update:
                self._fit(aligner, *self._joined(bitext, anchors, dev), bar)
            if loaded is not None and dev is not None:
                aligner.tune(dev[0], None, dev[1])
            if self.own.save is not None:
                aligner.save(self.own.save, min_count=self.own.save_min_count or 0.0)
            share = _LAST_COST / max(bitext.n_pairs, 1)
            out.write(aligner, pairs, anchors, lambda n_pairs: bar("Aligning", share * n_pairs))
        if not self.own.quiet:
            self._report(aligner, pairs, dev)

    @cached_property
    def dictionary(self) -> dict[str, dict[str, float]] | None:
        """The word pairs of ``--dictionary`` or of ``--priors``."""
        if self.own.priors is not None:
            return read_priors(self.own.priors, lowercase=self.own.lowercase)
        path = self.own.dictionary
        return None if path is None else read_dictionary(path, lowercase=self.own.lowercase)

    def _prints(self) -> bool:
        """Whether links go to a terminal, where a bar would run through them."""
        out = (self.own.output, self.own.probabilities, self.formats.tokens, self.formats.scores)
        return "-" in out and sys.stdout.isatty()

    def _streams(self, stack: ExitStack) -> AlignmentStreams:
        def opened(path: str | None) -> TextIO | None:
            return None if path is None else stack.enter_context(open_output(path))

        least = LEAST_PROBABILITY if self.own.min_probability is None else self.own.min_probability
        return AlignmentStreams(
            stack.enter_context(open_output(self.own.output)),
            self.formats.as_json,
            opened(self.own.probabilities),
            opened(self.formats.scores),
            opened(self.formats.tokens),
            least,
        )

    def _loaded(self) -> WordAligner | None:
        if self.own.load is None:
            return None
        aligner = WordAligner.load(self.own.load)
        settings = {"gamma": aligner.gamma, **self.settings}
        self.annealing.check(settings["gamma"])
        kept = {name: getattr(aligner, name) for name in ("max_iter", "model1_iterations")}  # whatever --stepwise says
        aligner.set_params(**{**self._parameters(settings), **kept, "gamma": settings["gamma"]})
        if not self.own.update:
            aligner.threshold_ = self.settings.get("threshold", aligner.threshold_)
        return aligner

    def _read(self, loaded: WordAligner | None) -> tuple[EncodedPairs, tuple[Bitext, Links] | None]:
        lowercase = self.own.lowercase
        if loaded is not None:
            vocabularies = (loaded.source_vocabulary_, loaded.target_vocabulary_)
            lowercase = lowercase or not any(map(_has_capitals, vocabularies))
        formats = self.formats
        given = read_pairs(
            self.own.source,
            self.own.target,
            columns=formats.two("--columns"),
            languages=formats.two("--languages"),
            tokenize=formats.tokenize,
            lowercase=lowercase,
            folder=spill_folder(self.settings),
        )
        given = replace(given, bitext=self._words(given.bitext))
        if self.own.dev is None:
            return given, None
        source, target, gold = self.own.dev
        pairs = self._words(read_bitext(source, target, lowercase=lowercase))
        return given, (pairs, read_links(gold, lengths=(pairs.source_lengths, pairs.target_lengths)))

    def _words(self, bitext: Bitext) -> Bitext:
        """A text without the other factors of its tokens; classes of new words are kept for training."""
        if self.own.factors is None:
            return bitext
        found = split_factors(bitext, self.own.factors)
        for kept, new in zip(self.classes, (found.source_classes, found.target_classes), strict=True):
            kept.update({word: own for word, own in new.items() if word not in kept})
        return found.bitext

    def _anchors(self, bitext: Bitext) -> Links | None:
        if self.own.anchors is None:
            return None
        return read_links(self.own.anchors, lengths=(bitext.source_lengths, bitext.target_lengths))

    def _joined(
        self, bitext: Bitext, anchors: Links | None, dev: tuple[Bitext, Links] | None
    ) -> tuple[Bitext, Links | None]:
        """The text to train on, and its known links: those of the pairs to tune on are not."""
        if dev is None:
            return bitext, anchors
        if anchors is not None:
            anchors = concatenate_links([anchors, Links.from_pairs([[]] * dev[0].n_pairs)])
        return bitext.concat(dev[0], folder=spill_folder(self.settings)), anchors

    def _trained(
        self, bitext: Bitext, anchors: Links | None, dev: tuple[Bitext, Links] | None, bar: Advance
    ) -> WordAligner:
        everything = self._joined(bitext, anchors, dev)
        if dev is None:
            return self._fit(self._aligner(), *everything, bar)
        best: tuple[float, WordAligner] | None = None
        for gamma in _GAMMAS if self.own.tune_gamma else (None,):
            aligner = self._fit(self._aligner(gamma), *everything, bar).tune(dev[0], None, dev[1])
            error = 1.0 - aligner.score(dev[0], None, dev[1])
            if best is None or error < best[0]:
                best = (error, aligner)
        assert best is not None
        return best[1]

    def _fit(self, aligner: WordAligner, bitext: Bitext, anchors: Links | None, bar: Advance) -> WordAligner:
        costs = iter(self._costs(aligner))
        aligner.on_iteration = lambda record: bar("Training", next(costs))
        bar("Training")
        longest = aligner.max_length or np.inf
        sizes = np.stack([bitext.source_lengths, bitext.target_lengths])
        if not (sizes > 0).all(axis=0).any():
            name = display_name(self.own.source)
            raise InvalidInputError(f"{name}: no sentence pair has words on both sides to learn from; give text")
        if not ((sizes > 0) & (sizes <= longest)).all(axis=0).any():
            raise InvalidInputError(f"--max-length {longest} leaves no sentence pair to train on; raise it")
        with without_unconverged():
            if self.own.update:
                gamma = aligner.gamma
                if aligner.schedule is not None:
                    aligner.gamma = 1.0  # the schedule ends with it; the saved model has it
                return aligner.update(bitext, anchors=anchors).set_params(gamma=gamma)
            return aligner.fit(bitext, anchors=anchors, classes=self.classes)

    def _aligner(self, gamma: float | None = None) -> WordAligner:
        aligner = WordAligner(**self._parameters(self.settings if gamma is None else {**self.settings, "gamma": gamma}))
        if gamma is not None and aligner.checkpoint is not None:
            aligner.checkpoint = Path(aligner.checkpoint) / f"gamma-{gamma:g}"
        return aligner

    def _parameters(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings with the schedule and the dictionary, if they are given."""
        if self.dictionary is not None:
            settings = {**settings, "dictionary": self.dictionary}
        if self.own.priors is not None:
            settings["dictionary_strength"] = 1.0
        return self.steps.schedule(self.annealing.schedule(settings))

    def _cost(self, loaded: WordAligner | None) -> float:
        """The total cost of the run, in the unit of the progress bar."""
        passes = _LAST_COST
        if loaded is not None:
            return passes + sum(self._costs(loaded)) * self.own.update
        return passes + sum(self._costs(self._aligner())) * (len(_GAMMAS) if self.own.tune_gamma else 1)

    def _costs(self, aligner: WordAligner) -> list[float]:
        """The cost of every iteration to come, in the unit of the progress bar."""
        if self.own.update:
            return [_LAST_COST] * (aligner.update_iterations * count_gammas(aligner))
        first = 0 if aligner.model == "ibm1" else aligner.model1_iterations
        return [_MODEL1_COST] * first + [_LAST_COST] * (aligner.max_iter * count_gammas(aligner))

    def _report(self, aligner: WordAligner, pairs: EncodedPairs, dev: tuple[Bitext, Links] | None) -> None:
        seconds = time.perf_counter() - self.started
        if dev is not None:
            chosen = f"threshold {aligner.threshold_:g}" + f", gamma {aligner.gamma_:g}" * self.own.tune_gamma
            error = 1.0 - aligner.score(dev[0], None, dev[1])
            say(f"tuned on {dev[0].n_pairs} sentence pairs: {chosen}, AER {error:.4f}")
        how = self._how(aligner, pairs)
        say(f"aligned {pairs.bitext.n_pairs} sentence pairs in {seconds:.1f} s{how}")
        if self.own.load is None:
            warn_gaining(aligner)

    def _how(self, aligner: WordAligner, pairs: EncodedPairs) -> str:
        """The threshold, the shares of unknown words and the pairs treated apart, for the summary."""
        summary, bitext = "", pairs.bitext
        if aligner.decode == "posterior" and "threshold" not in self.settings and self.own.dev is None:
            is_new = aligner.threshold == "auto" and (self.own.load is None or self.own.update)
            summary = f", threshold {aligner.threshold_:g} ({'auto' if is_new else 'of the model'})"
        if self.own.load is not None and not self.own.update:
            source, target = aligner.unknown_shares(bitext)
            summary += f"; words new to the model: {source:.1%} of the source, {target:.1%} of the target"
        if aligner.pruned_.min_count > 0:
            least, lost = aligner.pruned_
            summary += f"; the model lacks word pairs below {least:g} expected links, {lost:.2%} of all"
        if self.dictionary is not None or "same" in self.settings:
            summary += f"; word pairs with pseudo-counts: {aligner.n_given_}"
        empty = int(((bitext.source_lengths == 0) | (bitext.target_lengths == 0)).sum())
        long, skipped = aligner.long_pairs(bitext), getattr(aligner, "n_skipped_", 0)
        counted = (
            (empty, "with an empty side"),
            (len(long.by_position), "too long, aligned by translation and position alone"),
            (len(long.unaligned), "too long, left without links"),
            (skipped, "too long, not trained on"),
            (pairs.n_skipped, "without a text in both languages, skipped"),
        )
        apart = ", ".join(f"{n} {outcome}" for n, outcome in counted if n)
        return summary + f"; pairs apart: {apart}" * bool(apart)


def _has_capitals(vocabulary: Vocabulary) -> bool:
    return any(word != word.lower() for word in vocabulary.words)
