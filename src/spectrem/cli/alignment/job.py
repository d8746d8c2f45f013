"""The work of `spectrem align`, once its options have been read."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import typer

from spectrem.cli.alignment.align import AlignmentOptions
from spectrem.cli.alignment.links import probability_lines
from spectrem.cli.annealing import Annealing
from spectrem.cli.constraint_option import parse_options
from spectrem.cli.homes import spill_folder
from spectrem.cli.options import LEAST_PROBABILITY
from spectrem.cli.progress import Advance, count_gammas, progress_bar, warn_gaining, without_unconverged
from spectrem.cli.stepwise import SmallSteps
from spectrem.data import (
    Bitext,
    Links,
    Vocabulary,
    open_output,
    pharaoh_lines,
    read_bitext,
    read_dictionary,
    read_links,
)
from spectrem.estimators import WordAligner
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
    """

    own: AlignmentOptions
    settings: dict[str, Any]
    annealing: Annealing
    steps: SmallSteps = field(default_factory=SmallSteps)
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Read, train or load, tune, save, align, write."""
        parse_options(self.settings.get("constraints", ()), _COLUMNS)  # before anything is read
        with ExitStack() as stack:
            # opened first: who reads a pipe sees its end if the work fails
            links_out = stack.enter_context(open_output(self.own.output))
            probabilities_out = self.own.probabilities and stack.enter_context(open_output(self.own.probabilities))
            loaded = self._loaded()
            bar = stack.enter_context(progress_bar(self._cost(loaded), shown=not self.own.quiet and not self._prints()))
            bar("Reading")
            bitext, dev = self._read(loaded)
            aligner = loaded or self._trained(bitext, dev, bar)
            if loaded is not None and dev is not None:
                aligner.tune(dev[0], None, dev[1])
            if self.own.save is not None:
                aligner.save(self.own.save)
            share = _LAST_COST / max(bitext.n_pairs, 1)
            for links in aligner.iter_predict(bitext):
                links_out.writelines(f"{line}\n" for line in pharaoh_lines(links))
                bar("Aligning", share * links.n_sentences)
            if probabilities_out:
                least = LEAST_PROBABILITY if self.own.min_probability is None else self.own.min_probability
                for posteriors in aligner.iter_predict_proba(bitext):
                    lines = probability_lines(posteriors, least)
                    probabilities_out.writelines(f"{line}\n" for line in lines)
                    bar("Aligning", share * len(posteriors.source_lengths))
        if not self.own.quiet:
            self._report(aligner, bitext, dev)

    @cached_property
    def dictionary(self) -> dict[str, dict[str, float]] | None:
        """The word pairs of ``--dictionary``."""
        path = self.own.dictionary
        return None if path is None else read_dictionary(path, lowercase=self.own.lowercase)

    def _prints(self) -> bool:
        """Whether links go to a terminal, where a bar would run through them."""
        return "-" in (self.own.output, self.own.probabilities) and sys.stdout.isatty()

    def _loaded(self) -> WordAligner | None:
        if self.own.load is None:
            return None
        aligner = WordAligner.load(self.own.load).set_params(**self.settings)
        aligner.threshold_ = self.settings.get("threshold", aligner.threshold_)
        return aligner

    def _read(self, loaded: WordAligner | None) -> tuple[Bitext, tuple[Bitext, Links] | None]:
        lowercase = self.own.lowercase
        if loaded is not None:
            vocabularies = (loaded.source_vocabulary_, loaded.target_vocabulary_)
            lowercase = lowercase or not any(map(_has_capitals, vocabularies))
        folder = spill_folder(self.settings)
        bitext = read_bitext(self.own.source, self.own.target, lowercase=lowercase, folder=folder)
        if self.own.dev is None:
            return bitext, None
        source, target, gold = self.own.dev
        pairs = read_bitext(source, target, lowercase=lowercase)
        return bitext, (pairs, read_links(gold, pairs.n_pairs))

    def _trained(self, bitext: Bitext, dev: tuple[Bitext, Links] | None, bar: Advance) -> WordAligner:
        if dev is None:
            return self._fit(bitext, bar)
        everything = bitext.concat(dev[0])
        best: tuple[float, WordAligner] | None = None
        for gamma in _GAMMAS if self.own.tune_gamma else (None,):
            aligner = self._fit(everything, bar, gamma).tune(dev[0], None, dev[1])
            error = 1.0 - aligner.score(dev[0], None, dev[1])
            if best is None or error < best[0]:
                best = (error, aligner)
        assert best is not None
        return best[1]

    def _fit(self, bitext: Bitext, bar: Advance, gamma: float | None = None) -> WordAligner:
        aligner = self._aligner(gamma)
        if gamma is not None and aligner.checkpoint is not None:
            aligner.checkpoint = Path(aligner.checkpoint) / f"gamma-{gamma:g}"
        costs = _costs(aligner)
        aligner.on_iteration = lambda record: bar("Training", next(costs))
        bar("Training")
        longest = aligner.max_length
        if longest is not None and (np.maximum(bitext.source_lengths, bitext.target_lengths) > longest).all():
            raise InvalidInputError(f"--max-length {longest} leaves no sentence pair to train on; raise it")
        with without_unconverged():
            return aligner.fit(bitext)

    def _aligner(self, gamma: float | None = None) -> WordAligner:
        settings = self.settings if gamma is None else {**self.settings, "gamma": gamma}
        if self.dictionary is not None:
            settings = {**settings, "dictionary": self.dictionary}
        return WordAligner(**self.steps.schedule(self.annealing.schedule(settings)))

    def _cost(self, loaded: WordAligner | None) -> float:
        """The total cost of the run, in the unit of the progress bar."""
        passes = _LAST_COST * (1 + (self.own.probabilities is not None))
        if loaded is not None:
            return passes
        return passes + sum(_costs(self._aligner())) * (len(_GAMMAS) if self.own.tune_gamma else 1)

    def _report(self, aligner: WordAligner, bitext: Bitext, dev: tuple[Bitext, Links] | None) -> None:
        seconds = time.perf_counter() - self.started
        if dev is not None:
            chosen = f"threshold {aligner.threshold_:g}" + f", gamma {aligner.gamma_:g}" * self.own.tune_gamma
            error = 1.0 - aligner.score(dev[0], None, dev[1])
            typer.echo(f"tuned on {dev[0].n_pairs} sentence pairs: {chosen}, AER {error:.4f}", err=True)
        typer.echo(f"aligned {bitext.n_pairs} sentence pairs in {seconds:.1f} s{self._how(aligner, bitext)}", err=True)
        if self.own.load is None:
            warn_gaining(aligner)

    def _how(self, aligner: WordAligner, bitext: Bitext) -> str:
        """The threshold, the shares of unknown words and the pairs treated apart, for the summary."""
        said = ""
        if aligner.decode == "posterior" and "threshold" not in self.settings and self.own.dev is None:
            said = f", threshold {aligner.threshold_:g} ({'auto' if self.own.load is None else 'of the model'})"
        if self.own.load is not None:
            source, target = aligner.unknown_shares(bitext)
            said += f"; words new to the model: {source:.1%} of the source, {target:.1%} of the target"
        if self.own.dictionary is not None or "same" in self.settings:
            said += f"; word pairs with pseudo-counts: {aligner.n_given_}"
        empty = int(((bitext.source_lengths == 0) | (bitext.target_lengths == 0)).sum())
        long, skipped = aligner.long_pairs(bitext), getattr(aligner, "n_skipped_", 0)
        counted = (
            (empty, "with an empty side"),
            (len(long.by_position), "too long, aligned by translation and position alone"),
            (len(long.unaligned), "too long, left without links"),
            (skipped, "too long, not trained on"),
        )
        apart = ", ".join(f"{n} {fate}" for n, fate in counted if n)
        return said + f"; pairs apart: {apart}" * bool(apart)


def _costs(aligner: WordAligner) -> Iterator[float]:
    """The cost of every iteration to come, in the unit of the progress bar."""
    if aligner.model != "ibm1":
        yield from [_MODEL1_COST] * aligner.model1_iterations
    yield from [_LAST_COST] * (aligner.max_iter * count_gammas(aligner))


def _has_capitals(vocabulary: Vocabulary) -> bool:
    return any(word != word.lower() for word in vocabulary.words)
