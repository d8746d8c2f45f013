"""What `spectrem parse train` does once its options are understood."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from spectrem.cli.annealing import Annealing
from spectrem.cli.constraint_option import parse_options
from spectrem.cli.ending import say
from spectrem.cli.parsing.options import read_treebank, sentences_named
from spectrem.cli.parsing.punctuation import without_punctuation
from spectrem.cli.parsing.train import TrainingOptions
from spectrem.cli.progress import fit_and_save, warn_gaining
from spectrem.data import ParsedSentence, display_name
from spectrem.estimators import DependencyModel, EdgeFactoredParser
from spectrem.exceptions import InvalidInputError, spelled

_ARCS = ("sentence", "dependent", "head", "occurrence", "root", "direction", "length", "head_tag", "dependent_tag")
_WIDER, _BATCH = "give --no-single-root or --no-projective", "give --learner batch"
_COLUMNS = (*_ARCS, *(f"{end}_{name}" for end in ("head", "dependent") for name in ("form", "upos", "xpos")))


def train_parser(own: TrainingOptions, settings: dict[str, Any], annealing: Annealing) -> None:
    """Train an `EdgeFactoredParser` on the sentences of the corpus and save it."""
    started = time.perf_counter()
    constraints = parse_options(own.constraint or (), _COLUMNS)
    sentences = read_treebank(own.corpus, own.max_length)
    if all(one.heads is None for one in sentences) and not constraints:
        raise InvalidInputError(
            f"{display_name(own.corpus)}: holds no heads to learn from, only _; give --dmv to learn from tags, or "
            "--learner batch with constraints"
        )
    parser = EdgeFactoredParser(constraints=constraints, **annealing.schedule(settings))
    _fit(parser, own, sentences, (sentences,))
    if not own.quiet:
        lifted = f", {parser.n_lifted_} heads lifted to make trees projective" if parser.n_lifted_ else ""
        known = sum(one.heads is not None and (one.heads > -2).all() for one in sentences)
        n_weights = np.count_nonzero(parser.theta_)
        _report(f"learned {n_weights} weights", sentences, started, f"{known} with all heads{lifted}")
        if parser.learner == "batch":
            warn_gaining(parser)


def train_grammar(own: TrainingOptions, settings: dict[str, Any], annealing: Annealing) -> None:
    """Train a `DependencyModel` on the tags of the corpus and save it."""
    started = time.perf_counter()
    constraints = parse_options(own.constraint or (), (*_ARCS, "adjacent", "stop"))
    supervised = own.heads or settings.get("init") == "supervised"
    if own.skip_punctuation:
        sentences = [without_punctuation(one)[0] for one in read_treebank(own.corpus, trees=supervised)]
        longest = own.max_length or max(len(one.forms) for one in sentences)
        sentences = [one for one in sentences if 0 < len(one.forms) <= longest]
    else:
        sentences = read_treebank(own.corpus, own.max_length, trees=supervised)
    if not sentences:
        raise InvalidInputError(
            f"{display_name(own.corpus)}: no sentence has a word that is not PUNCT, and at most --max-length; drop "
            "--skip-punctuation or raise the length"
        )
    tags = tags_of(sentences, own.field, own.corpus)
    heads = [one.heads for one in sentences] if supervised else None
    if heads is not None and all(one is None for one in heads):
        asked = "--heads" if own.heads else "--init supervised"
        raise InvalidInputError(f"{display_name(own.corpus)}: holds no heads, only _; drop {asked}")
    grammar = DependencyModel(constraints=constraints, **annealing.schedule(settings))
    _fit(grammar, own, sentences, (tags, heads))
    if not own.quiet:
        rest = f"log-likelihood {grammar.log_likelihood_ / sum(map(len, tags)):.4f} nats per word"
        _report(f"learned a grammar of {len(grammar.tags_)} tags", sentences, started, rest)
        warn_gaining(grammar)


def tags_of(sentences: list[ParsedSentence], field: str, path: str) -> list[tuple[str, ...]]:
    """The tags of every sentence.

    Raises
    ------
    InvalidInputError
        If a word has none.
    """
    tags: list[tuple[str, ...]] = [getattr(one, field) for one in sentences]
    for number, (one, own) in enumerate(zip(sentences, tags, strict=True)):
        if "_" in own:
            raise InvalidInputError(
                f"{display_name(path)}, sentence {number + 1}: {one.forms[own.index('_')]!r} has no tag in the column "
                f"{field.upper()}; tag it first (spectrem tag), or choose the other column with --field"
            )
    return tags


def _fit(estimator: Any, own: TrainingOptions, sentences: list[ParsedSentence], inputs: tuple[Any, ...]) -> None:
    """Train with a progress bar, and save."""
    names = {"infeasible": "--infeasible", "learner": "--learner", "wider trees": _WIDER, "no batch": _BATCH}
    with sentences_named(own.corpus, sentences), spelled(names):
        fit_and_save(estimator, lambda: estimator.fit(*inputs), own.model, shown=not own.quiet)


def _report(learned: str, sentences: list[ParsedSentence], started: float, rest: str) -> None:
    n_words = int(np.sum([len(one.forms) for one in sentences]))
    seconds = time.perf_counter() - started
    say(f"{learned} from {len(sentences)} sentences ({n_words} words) in {seconds:.1f} s: {rest}")
