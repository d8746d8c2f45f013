"""`spectrem align`."""

from __future__ import annotations

import math
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectrem.cli.declare import Given, Settings, argument, files_of, option, option_of, takes
from spectrem.cli.ending import Advance, command_line, progress_bar, say
from spectrem.cli.files import command_files
from spectrem.cli.options import (
    FILES,
    ConstraintOptions,
    LoadOption,
    OutputOption,
    ProbabilityOptions,
    SaveOption,
    parse_options,
    two_names,
)
from spectrem.cli.rules import Rule, check_rules, excludes, needs
from spectrem.cli.training import (
    Annealing,
    Home,
    StepwiseOptions,
    spill_folder,
    warn_gaining,
    without_unconverged,
)
from spectrem.estimators.alignment.parameters import AlignerParameters
from spectrem.estimators.progress import count_gammas
from spectrem.estimators.shared_parameters import CONSTRAINTS, TRAINING
from spectrem.exceptions import InvalidInputError, counted, no_such

if TYPE_CHECKING:
    from spectrem.data import Bitext, EncodedPairs, Links
    from spectrem.estimators import WordAligner

_FORMATS = "Input and output"
_COLUMNS = ("sentence", "direction", "source", "target", "state")
_GAMMAS = (1.0, 0.75, 0.5, 0.25, 0.1)  # of equally good ones the first is taken
# Rough times of one pass over the bitext, for the bar.
_MODEL1_COST, _LAST_COST = 1.0, 2.5

# Parameters that can be set for a saved model, and those that cannot when it goes on learning.
_OPEN = ("decode", "threshold", "rare_discount", "project_at_predict", "n_threads")
_CLOSED = ("model", "max_jump", "null_probability", "model1_iterations", "max_iter", "max_chance", "discount")
_FOR_TRAINING = (
    *("--anneal", "--anneal-rate", "--quench", "--stepwise", "--step-power", "--spill", "--dask"),
    *("--constraint", "--constraints", "--tune-gamma", "--dictionary", "--priors", "--save", "--threshold auto"),
)
_EVERYDAY = (
    *("source", "target", "output", "quiet", "constraint", "constraints", "dictionary", "gamma", "threshold"),
    *("save", "load", "update", "lowercase", "tokenize", "output_format", "probabilities", "tokens", "scores"),
    *("min_score", "report", "languages", "columns"),
)
"""The options that ``--help`` shows."""
_BY_HAND = "tokenise all text before, or drop one of them"
_FORMS = ("pharaoh", "json", "tmx")
_SAME_FORMS = dict.fromkeys(("moses", "fast_align", "eflomal", "awesome-align", "talp"), "pharaoh")
_OF_TOKENS = (
    excludes(
        "--dev",
        "--tokenize",
        f"--dev gives links between words as they stand, but --tokenize splits them; {_BY_HAND}",
    ),
    Rule(
        ("--probabilities", "--tokenize"),
        ("--tokens", "--output-format json"),
        "{--probabilities} counts tokens, which --tokenize makes; add --tokens FILE to see them, or --output-format "
        "json",
    ),
    excludes("--factors", "--tokenize", "{--factors} names parts of tokens, which --tokenize makes; drop one of them"),
    excludes(
        "--anchors",
        "--tokenize",
        f"{{--anchors}} gives links between words as they stand, but --tokenize splits them; {_BY_HAND}",
    ),
)
"""Options that do not go with ``--tokenize``, whether the command or the model has it."""
_RULES = (
    *_OF_TOKENS,
    needs("--save-min-count", "--save"),
    Rule(
        ("--min-score",),
        ("--tokens", "--output-format json", "--output-format tmx"),
        "{--min-score} leaves out lines, so that links no longer stand beside the lines of the text; add --tokens FILE "
        "for the text of those that are kept, or --output-format json or tmx",
    ),
    Rule(
        ("--output-format tmx",),
        ("--languages",),
        "--output-format tmx writes the codes of both languages; add --languages, for example --languages en,fr",
    ),
    needs("--min-probability", "--probabilities"),
    needs("--max-fertility", "--constraint fertility", "--constraints"),
    needs("--dictionary-strength", "--dictionary"),
    needs("--same-strength", "--same"),
    excludes(
        "--priors", "--dictionary", "{--priors} and {--dictionary} cannot both be given; put all pairs into one file"
    ),
    needs(
        "--tune-gamma",
        "--dev",
        message="--tune-gamma needs sentence pairs with links made by hand; add --dev SRC TGT GOLD",
    ),
    excludes("--tune-gamma", "--gamma", "--tune-gamma chooses gamma, but {--gamma} gives it; drop one of them"),
    excludes("--dev", "--threshold", "--dev chooses the threshold, but {--threshold} is given; drop one of them"),
    Rule(
        ("--dev", "--decode"),
        ("--tune-gamma", "--decode posterior"),
        "--dev chooses the threshold, which {--decode} does not use; drop it, add --tune-gamma, or use --decode "
        "posterior",
    ),
    *(
        Rule(
            (option, "--decode"),
            ("--decode posterior", *readers),
            f"{option} concerns probabilities, which {{--decode}} does not use; drop it or --decode",
        )
        for option, readers in (
            ("--threshold", ()),
            ("--rare-discount", ()),
            ("--project-at-predict", ("--output-format json", "--scores", "--probabilities")),
            ("--no-project-at-predict", ("--output-format json", "--scores", "--probabilities")),
        )
    ),
)


@dataclass(frozen=True, kw_only=True)
class AlignmentOptions(SaveOption, ConstraintOptions, ProbabilityOptions, OutputOption, LoadOption):
    """Arguments and options of `spectrem align` besides the parameters of `WordAligner`.

    Parameters
    ----------
    source
        Source sentences, one per line; or both sides, without TARGET. Words are separated by spaces. A file of both
        sides has lines 'source ||| target' (as fast_align, eflomal and awesome-align read) or two columns with a tab
        between, or is .tmx, .parquet or .jsonl, or .csv or .tsv with --columns. Plain or gzipped UTF-8; - is standard
        input.
    target
        Their translations, line by line. Line n translates line n of SOURCE.
    constraint
        agreement: both directions give every link the same
        probability. fertility: a word is linked at most --max-fertility times, in expectation. none: plain EM.
        Others as docs/guide/constraints.md says.
    priors
        Expected links of other text, as pseudo-counts: lines LEX of eflomal-makepriors, or of spectrem lexicon
        --output-format eflomal.
    dictionary
        Words that translate each other: lines of a source word, a tab, a target word, and if you like a tab and a
        weight. Each pair gets --dictionary-strength pseudo-counts, times its weight.
    anchors
        Links that are known already, one line per sentence pair as i-j, empty where there are none (what is marked
        as possible, i?j, is not used). They are kept as they are, with no others for their words, and the links of
        the other words follow.
    factors
        What the factors of tokens such as houses|house|NNS are: 'word|class|tag' aligns the first, and words that
        share the second help each other while a model is trained (but not by --update), in place of words with
        equal first letters; '-|word|-' aligns the second. One is the word, at most one the class; the others have
        any name.
    dev
        Pairs with links made by hand, to choose --threshold by. The one with the least AER is taken. Their text is
        trained on like the rest, their links are not.
    tune_gamma
        Choose --gamma on --dev too; trains five times (1, 0.75, 0.5, 0.25, 0.1).
    probabilities
        One line per pair: i-j:p is the mean over both directions, i-NULL:p and
        NULL-j:p say that a source or target word has no counterpart; for example '0-0:0.983 1-NULL:0.7'.
    save_min_count
        Leave word pairs of fewer expected links, in both directions, out of --save. With 0.01 the file is half as
        large and lacks a thousandth of the links.
    update
        Let the model of --load learn on. It learns from this text before it aligns it: what it knows
        counts as text seen before. --save keeps the result, which can learn again.
    lowercase
        Lower-case all text first (done for you when a model saved so is loaded).
    tokenize
        Split running text into words. ICU separates them and punctuation. Links still are between the words of the
        input as spaces separate them, unless --tokens or --output-format json gives the tokens. Kept in the model:
        --load splits text as in training.
    output_format
        pharaoh, json or tmx: what to write of a pair. pharaoh: links i-j, the format of moses, fast_align, eflomal and
        awesome-align, whose names will do, too. json: an object with its tokens (and where they stand in the text, if
        --tokenize), links with probabilities, words without a counterpart, and score. tmx: a unit of a translation
        memory, with its score, in the languages of --languages; pairs with an empty side are left out.
    tokens
        Write the words that links count. A line of 'source ||| target' per pair.
    scores
        Write how likely each pair is a translation. From 0 to 1, one line per pair; nan where a side is empty. Look
        at the lowest first.
    min_score
        Leave out pairs of lower scores. From 0 to 1; they are missing from all outputs, as are pairs without a score;
        links are then of the pairs that --tokens writes. What is noise depends on text and model: look at --report or
        --scores first. Of 20,000 pairs of the Hansards, a tenth of them with wrong sentences, 0.15 left out 77 % of the
        wrong ones and 2 % of the others, 0.18 92 and 5 %.
    report
        It also shows pictures of links: of the first pairs, and of those of the lowest and highest scores.
    languages
        Codes of languages of .tmx. Such as en,fr. Which ones to read, if a file holds more than two, and what to
        write by --output-format tmx.
    columns
        Which columns of a table: .parquet, .jsonl, .csv or .tsv. For example en,fr or
        translation.en,translation.fr.
    """

    source: str = argument("SOURCE")
    target: str | None = argument("TARGET", None)
    constraint: list[str] | None = option(None, metavar="TEXT", show_default="agreement", group=CONSTRAINTS)
    priors: str | None = option(None, metavar="FILE", group=TRAINING, reads=True)
    dictionary: str | None = option(None, metavar="FILE", group=TRAINING, reads=True)
    anchors: str | None = option(None, metavar="FILE", group=FILES, reads=True)
    factors: str | None = option(None, metavar="NAMES", group=FILES)
    dev: tuple[str, str, str] | None = option(None, metavar="SRC TGT GOLD", group=TRAINING)
    tune_gamma: bool = option(False, group=TRAINING)
    save: str | None = option(None, metavar="FILE", group=FILES, writes=True)  # type: ignore[assignment]
    save_min_count: float | None = option(None, metavar="N", show_default="0: all are kept", group=FILES)
    load: str | None = option(None, metavar="MODEL", group=FILES, reads=True)  # type: ignore[assignment]
    update: bool = option(False, group=FILES)
    lowercase: bool = option(False, group=FILES)
    tokenize: bool = option(False, group=_FORMATS)
    output_format: str = option("pharaoh", metavar="NAME", group=_FORMATS)
    tokens: str | None = option(None, metavar="FILE", group=_FORMATS, writes=True)
    scores: str | None = option(None, metavar="FILE", group=_FORMATS, writes=True)
    min_score: float | None = option(None, metavar="P", min=0.0, max=1.0, group=_FORMATS)
    languages: str | None = option(None, metavar="SRC,TGT", group=_FORMATS)
    columns: str | None = option(None, metavar="SRC,TGT", show_default="source,target", group=_FORMATS)


@takes(AlignerParameters, leave=["infeasible"], shown=_EVERYDAY)
def align(
    options: AlignmentOptions,
    settings: Settings,
    annealing: Annealing,
    steps: StepwiseOptions,
    home: Home,
    given: Given,
) -> None:
    """Align the words of sentence pairs, learning from these pairs alone.

    Example: **spectrem align english.txt french.txt -o links.txt**

    Writes a line per pair, empty if a side is: links i-j of source word i and
    target word j, counted from 0. This is the Pharaoh format of Moses, fast_align,
    eflomal and awesome-align, which evaluate, symmetrize and --anchors read;
    GIZA++ counts from 1. Text should be tokenised, or add --tokenize. Thousands
    of pairs give better links than hundreds.
    """
    form = _form(options.output_format)
    options, given = replace(options, output_format=form), {**given, f"--output-format {form}": form}
    _check_loading(options, settings, given)
    annealing.check(settings.get("gamma", 1.0))
    steps.check()
    check_rules(_RULES, given)
    if not 0 <= (options.save_min_count or 0.0) < math.inf:
        raise InvalidInputError(
            f"--save-min-count must be at least 0 and finite, got {options.save_min_count}; try 0.01"
        )
    languages = two_names("--languages", options.languages)
    if languages is not None and languages[0].lower() == languages[1].lower():
        raise InvalidInputError(f"--languages must name two different ones, got {languages[0]!r} twice; name both")
    if options.constraint:
        settings = {**settings, "constraints": _constraints(options.constraint)}
    gold = dict(zip(("SRC of --dev", "TGT of --dev", "GOLD of --dev"), options.dev or (), strict=False))
    inputs, outputs = files_of(options)
    with command_files(inputs | gold, outputs, home.folders(settings)), home.opened(settings) as placed:
        AlignmentJob(options, placed, annealing, steps, given).run()


def _check_loading(options: AlignmentOptions, settings: Settings, given: Given) -> None:
    """Refuse options of training beside a model that is not trained, or that keeps what it was trained with."""
    names = {name: option_of(AlignerParameters, name) for name in settings}
    if options.update:
        if options.load is None:
            raise InvalidInputError("--update needs a model to go on from; add --load MODEL")
        refused = [names[name] for name in settings if name in _CLOSED] + ["--tune-gamma"] * options.tune_gamma
        if refused:
            raise InvalidInputError(
                f"{', '.join(refused)}: belongs to the training of a model, and --update keeps that of {options.load}; "
                "drop it, or train on all text"
            )
        return
    check_rules([needs("--update-strength", "--update"), needs("--update-iterations", "--update")], given)
    if options.load is not None:
        refused = [names[name] for name in settings if name not in _OPEN]
        refused += [option for option in _FOR_TRAINING if option in given]
        if refused:
            raise InvalidInputError(
                f"{', '.join(refused)}: only for training, but --load {options.load} aligns without; drop one or the "
                "other, or add --update"
            )


def _constraints(texts: list[str]) -> tuple[str, ...]:
    if "none" in texts:
        if len(set(texts)) > 1:
            raise InvalidInputError("--constraint none stands alone; drop it or the other constraints")
        return ()
    return tuple(dict.fromkeys(texts))


def _form(name: str) -> str:
    """The format of --output-format by any of its names."""
    known = _SAME_FORMS.get(name.lower(), name.lower())
    if known in ("giza", "giza++"):
        raise InvalidInputError(
            f"--output-format {name}: files of GIZA++ (.A3.final) hold one direction; write pharaoh, which Moses makes "
            "of two of them and all its later steps read"
        )
    if known not in _FORMS:
        raise InvalidInputError(f"--output-format: {no_such('format', name, [*_FORMS, *_SAME_FORMS])}")
    return known


@dataclass(frozen=True)
class AlignmentJob:
    """One run of `spectrem align` from reading to written output.

    Attributes
    ----------
    options : AlignmentOptions
    settings : dict
        Parameters of `WordAligner` that were given, but the schedule, which ``annealing`` and ``steps`` make.
    given : dict
        What was given on the command line.
    classes : (dict, dict) of word to class
        Those that ``--factors`` finds, of source and target words.
    """

    options: AlignmentOptions
    settings: dict[str, Any]
    annealing: Annealing
    steps: StepwiseOptions
    given: Given
    classes: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Read, load, train, tune, save, align, write."""
        from spectrem.cli.alignment.writing import Layout, write_alignment
        from spectrem.data import open_output

        options = self.options
        columns = _COLUMNS if options.dictionary is None else (*_COLUMNS, "listed")
        texts = self.settings.get("constraints", ())
        parse_options(texts, columns)  # before anything is read
        if options.constraints is not None:
            self.settings["constraints"] = (*texts, *parse_options((), columns, options.constraints))
        with ExitStack() as stack:
            # opened first: who reads a pipe sees its end if the work fails
            streams = {
                name: stack.enter_context(open_output(path))
                for name in ("output", "probabilities", "scores", "tokens", "report")
                if (path := getattr(options, name)) is not None
            }
            loaded = self.loaded
            shown = not options.quiet and not self._prints()
            bar = stack.enter_context(progress_bar(self._cost(loaded), shown=shown))
            bar("Reading")
            pairs, dev = self._read(loaded)
            bitext = pairs.bitext
            anchors = None if options.anchors is None else _read_links(options.anchors, bitext)
            aligner = loaded or self._trained(bitext, anchors, dev, bar)
            if options.update:
                self._fit(aligner, *self._joined(bitext, anchors, dev), bar)
            if loaded is not None and dev is not None:
                aligner.tune(dev[0], None, dev[1])
            if options.save is not None:
                aligner.save(options.save, min_count=options.save_min_count or 0.0)
            share = _LAST_COST / max(bitext.n_pairs, 1)
            gallery = None
            if options.report is not None:
                from spectrem.estimators.alignment.gallery import Gallery

                gallery = Gallery(pairs.tokens)
            layout = Layout(options.output_format, options.min_probability, options.min_score, self.languages or ())
            n_written = 0
            for n_pairs, n_kept in write_alignment(aligner, pairs, anchors, streams, layout, gallery):
                n_written += n_kept
                bar("Aligning", share * n_pairs)
            if gallery is not None:
                streams["report"].write(gallery.report(aligner).to_html(command_line()))
        if not options.quiet:
            self._report(aligner, pairs, dev)
            if options.min_score is not None:
                of = counted(bitext.n_pairs, "sentence pair")
                say(f"kept {n_written} of {of}, those with a score of at least {options.min_score:g}")

    @cached_property
    def dictionary(self) -> dict[str, dict[str, float]] | None:
        """The word pairs of ``--dictionary`` or of ``--priors``."""
        from spectrem import data

        path, lowercase = self.options.dictionary, self.options.lowercase
        if self.options.priors is not None:
            return data.read_priors(self.options.priors, lowercase=lowercase)
        return None if path is None else data.read_dictionary(path, lowercase=lowercase)

    @property
    def languages(self) -> tuple[str, str] | None:
        """The languages of ``--languages``."""
        return two_names("--languages", self.options.languages)

    def _shows_words(self) -> bool:
        """Whether an output holds words that would be lower-cased, in place of those of the file."""
        if self.tokenizes or self.options.factors is not None:
            return False
        return self.options.output_format != "pharaoh" or bool(self.options.tokens or self.options.report)

    def _prints(self) -> bool:
        """Whether links go to a terminal, where a bar would run through them."""
        out = (self.options.output, self.options.probabilities, self.options.tokens, self.options.scores)
        return "-" in out and sys.stdout.isatty()

    @cached_property
    def loaded(self) -> WordAligner | None:
        """The model of ``--load``."""
        if self.options.load is None:
            return None
        from spectrem.estimators import WordAligner

        aligner = WordAligner.load(self.options.load)
        self._check_tokens(aligner.tokenizes_)
        settings = {"gamma": aligner.gamma, **self.settings}
        self.annealing.check(settings["gamma"])
        kept = {name: getattr(aligner, name) for name in ("max_iter", "model1_iterations")}  # whatever --stepwise says
        aligner.set_params(**{**self._parameters(settings), **kept, "gamma": settings["gamma"]})
        if not self.options.update:
            aligner.threshold_ = self.settings.get("threshold", aligner.threshold_)
        return aligner

    def _check_tokens(self, kept: bool | None) -> None:
        """Refuse options that do not go with how the text was split that the model was trained on."""
        load = self.options.load
        if kept:
            try:
                check_rules(_OF_TOKENS, {**self.given, "--tokenize": "--tokenize"})
            except InvalidInputError as error:
                raise InvalidInputError(f"{load} was trained with --tokenize, which it keeps: {error}") from None
        elif kept is False and self.options.tokenize:
            raise InvalidInputError(
                f"--tokenize, but {load} was trained without, on words as spaces separate them; drop it, or train with "
                "--tokenize, which leaves text as it is that is split already"
            )

    @property
    def tokenizes(self) -> bool:
        """Whether running text is split, as ``--tokenize`` or the model says."""
        return self.options.tokenize or (self.loaded is not None and bool(self.loaded.tokenizes_))

    def _read(self, loaded: WordAligner | None) -> tuple[EncodedPairs, tuple[Bitext, Links] | None]:
        from spectrem import data

        lowercase = self.options.lowercase
        if loaded is not None:
            vocabularies = (loaded.source_vocabulary_, loaded.target_vocabulary_)
            lowercase = lowercase or all(word == word.lower() for one in vocabularies for word in one.words)
        folder, later = spill_folder(self.settings), lowercase and self._shows_words()
        is_memory = self.options.source.lower().removesuffix(".gz").endswith(".tmx")
        pairs = data.read_pairs(
            self.options.source,
            self.options.target,
            columns=two_names("--columns", self.options.columns),
            languages=self.languages if self.options.output_format != "tmx" or is_memory else None,
            tokenize=self.tokenizes,
            lowercase=lowercase and not later,
            folder=folder,
        )
        if later:
            pairs = replace(pairs, bitext=pairs.bitext.lowercased(folder=folder), original=pairs.bitext)
        pairs = replace(pairs, bitext=self._words(pairs.bitext))
        if self.options.dev is None:
            return pairs, None
        source, target, gold = self.options.dev
        bitext = self._words(data.read_bitext(source, target, lowercase=lowercase))
        return pairs, (bitext, _read_links(gold, bitext))

    def _words(self, bitext: Bitext) -> Bitext:
        """A text without the other factors of its tokens; classes of new words are kept for training."""
        if self.options.factors is None:
            return bitext
        from spectrem.data import split_factors

        parts = split_factors(bitext, self.options.factors)
        for classes, new in zip(self.classes, (parts.source_classes, parts.target_classes), strict=True):
            classes.update({**new, **classes})
        return parts.bitext

    def _joined(
        self, bitext: Bitext, anchors: Links | None, dev: tuple[Bitext, Links] | None
    ) -> tuple[Bitext, Links | None]:
        """The text to train on, and its known links: those of the pairs to tune on are not."""
        import numpy as np

        if dev is None:
            return bitext, anchors
        if anchors is not None:
            anchors = replace(anchors, offsets=np.pad(anchors.offsets, (0, dev[0].n_pairs), mode="edge"))
        return bitext.concat(dev[0], folder=spill_folder(self.settings)), anchors

    def _trained(
        self, bitext: Bitext, anchors: Links | None, dev: tuple[Bitext, Links] | None, bar: Advance
    ) -> WordAligner:
        everything = self._joined(bitext, anchors, dev)
        if dev is None:
            return self._fit(self._aligner(), *everything, bar)
        gammas = _GAMMAS if self.options.tune_gamma else (None,)
        tuned = (self._fit(self._aligner(gamma), *everything, bar).tune(dev[0], None, dev[1]) for gamma in gammas)
        return max(tuned, key=lambda aligner: aligner.score(dev[0], None, dev[1]))

    def _fit(self, aligner: WordAligner, bitext: Bitext, anchors: Links | None, bar: Advance) -> WordAligner:
        import numpy as np

        from spectrem.data import display_name

        costs = iter(self._costs(aligner))
        aligner.on_iteration = lambda record: bar("Training", next(costs))
        bar("Training")
        longest = aligner.max_length
        shorter, longer = np.sort([bitext.source_lengths, bitext.target_lengths], axis=0)
        if not (shorter > 0).any():
            name = display_name(self.options.source)
            raise InvalidInputError(f"{name}: no sentence pair has words on both sides to learn from; give text")
        if not ((shorter > 0) & (longer <= (longest or np.inf))).any():
            raise InvalidInputError(f"--max-length {longest} leaves no sentence pair to train on; raise it")
        with without_unconverged():
            if self.options.update:
                gamma = aligner.gamma
                if aligner.schedule is not None:
                    aligner.gamma = 1.0  # the schedule ends with it; the saved model has it
                return aligner.update(bitext, anchors=anchors).set_params(gamma=gamma)
            aligner.fit(bitext, anchors=anchors, classes=self.classes).tokenizes_ = self.tokenizes
            return aligner

    def _aligner(self, gamma: float | None = None) -> WordAligner:
        from spectrem.estimators import WordAligner

        aligner = WordAligner(**self._parameters(self.settings if gamma is None else {**self.settings, "gamma": gamma}))
        if gamma is not None and aligner.checkpoint is not None:
            aligner.checkpoint = Path(aligner.checkpoint) / f"gamma-{gamma:g}"
        return aligner

    def _parameters(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings with the schedule and the dictionary, if they are given."""
        if self.dictionary is not None:
            settings = {**settings, "dictionary": self.dictionary}
        if self.options.priors is not None:
            settings["dictionary_strength"] = 1.0
        return self.steps.schedule(self.annealing.schedule(settings))

    def _cost(self, loaded: WordAligner | None) -> float:
        """The total cost of the run, in the unit of the progress bar."""
        passes = _LAST_COST
        if loaded is not None:
            return passes + sum(self._costs(loaded)) * self.options.update
        return passes + sum(self._costs(self._aligner())) * (len(_GAMMAS) if self.options.tune_gamma else 1)

    def _costs(self, aligner: WordAligner) -> list[float]:
        """The cost of every iteration to come, in the unit of the progress bar."""
        if self.options.update:
            return [_LAST_COST] * (aligner.update_iterations * count_gammas(aligner))
        first = 0 if aligner.model == "ibm1" else aligner.model1_iterations
        return [_MODEL1_COST] * first + [_LAST_COST] * (aligner.max_iter * count_gammas(aligner))

    def _report(self, aligner: WordAligner, pairs: EncodedPairs, dev: tuple[Bitext, Links] | None) -> None:
        seconds = time.perf_counter() - self.started
        if dev is not None:
            chosen = f"threshold {aligner.threshold_:g}" + f", gamma {aligner.gamma_:g}" * self.options.tune_gamma
            error = 1.0 - aligner.score(dev[0], None, dev[1])
            say(f"tuned on {counted(dev[0].n_pairs, 'sentence pair')}: {chosen}, AER {error:.4f}")
        how = self._how(aligner, pairs)
        say(f"aligned {counted(pairs.bitext.n_pairs, 'sentence pair')} in {seconds:.1f} s{how}")
        if self.options.load is None:
            warn_gaining(aligner)

    def _how(self, aligner: WordAligner, pairs: EncodedPairs) -> str:
        """The threshold, the shares of unknown words and the pairs treated apart, for the summary."""
        summary, bitext = "", pairs.bitext
        if aligner.decode == "posterior" and "threshold" not in self.settings and self.options.dev is None:
            is_new = aligner.threshold == "auto" and (self.options.load is None or self.options.update)
            summary = f", threshold {aligner.threshold_:g} ({'auto' if is_new else 'of the model'})"
        if self.options.load is not None and not self.options.update:
            source, target = aligner.unknown_shares(bitext)
            summary += f"; words new to the model: {source:.1%} of the source, {target:.1%} of the target"
        if aligner.pruned_.min_count > 0:
            least, lost = aligner.pruned_
            summary += f"; the model lacks word pairs below {least:g} expected links, {lost:.2%} of all"
        if self.dictionary is not None or "same" in self.settings:
            summary += f"; word pairs with pseudo-counts: {aligner.n_given_}"
        empty = int(((bitext.source_lengths == 0) | (bitext.target_lengths == 0)).sum())
        long, skipped = aligner.long_pairs(bitext), getattr(aligner, "n_skipped_", 0)
        outcomes = (
            (empty, "with an empty side"),
            (len(long.by_position), "too long, aligned by translation and position alone"),
            (len(long.unaligned), "too long, left without links"),
            (skipped, "too long, not trained on"),
            (pairs.n_skipped, "without a text in both languages, skipped"),
        )
        apart = ", ".join(f"{n} {outcome}" for n, outcome in outcomes if n)
        return summary + f"; pairs apart: {apart}" * bool(apart)


def _read_links(path: str, bitext: Bitext) -> Links:
    from spectrem.data import read_links

    return read_links(path, lengths=(bitext.source_lengths, bitext.target_lengths))
