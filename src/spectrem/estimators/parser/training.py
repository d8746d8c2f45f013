"""One `EdgeFactoredParser.fit`: from sentences, heads and settings to trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Floats
from spectrem._validate import as_generator
from spectrem.data import ParsedSentence
from spectrem.estimators.conventions import row_weights
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.labelled import fit_labelled
from spectrem.estimators.parser.input import TAGS, read_columns, read_heads, read_sentences
from spectrem.estimators.parser.relations import RelationModel, labelled_words, relation_shards, train_relations
from spectrem.estimators.sentence_columns import check_tree_values
from spectrem.estimators.training import estep_of, learn_unlabelled, report_labelled, warn_unused
from spectrem.exceptions import InvalidInputError, advice
from spectrem.learning import FitStatus, Record, SmallSteps, Step, run_online
from spectrem.models.loglinear import Optimiser, WeightPrior
from spectrem.models.parsing import FREE, ArcTemplates, EdgeFactoredModel, ParsingText, TokenAtoms
from spectrem.models.parsing.model import Table
from spectrem.reports import ConstraintReport, ConstraintSummary, report_posed
from spectrem.structures import NonProjectiveTrees, Parts, ProjectiveTrees
from spectrem.structures._ragged import offsets_of


class Trained(NamedTuple):
    """What training found.

    Attributes
    ----------
    n_sentences : int
        That it was given.
    n_lifted : int
        Heads that were changed to make trees projective.
    atoms : TokenAtoms
    model : EdgeFactoredModel
    theta : ndarray of shape (n_weights,)
    history : list of Record
    status : FitStatus
    constraints : tuple of ConstraintReport
    summaries : sequence of ConstraintSummary
    relations : RelationModel or None
    """

    n_sentences: int
    n_lifted: int
    atoms: TokenAtoms
    model: EdgeFactoredModel
    theta: Table
    history: list[Record]
    status: FitStatus
    constraints: tuple[ConstraintReport, ...] = ()
    summaries: tuple[ConstraintSummary, ...] = ()
    relations: RelationModel | None = None


def train(parser: Any, sentences: Any, heads: Any, sample_weight: Any, columns: Mapping[str, Any] | None) -> Trained:
    """Train with the settings of an EdgeFactoredParser, which have been checked, on what its ``fit`` takes.

    Raises
    ------
    InvalidInputError
        If settings, sentences and heads do not fit each other.
    """
    read = read_sentences(sentences)
    known = read_heads(read, heads, parser.projective)
    atoms = TokenAtoms.of(read, parser.min_count)
    model = model_of(parser, atoms)
    lengths = np.array([len(sentence.forms) for sentence in read], np.int64)
    counts = row_weights(sample_weight, len(read), "sentence")
    free, present = known.kinds == FREE, (lengths > 0) & (counts > 0)
    learns = parser.unlabelled_weight > 0 and bool((free & present).any())
    any_known = bool((~free & present).any())
    any_head = bool((known.heads >= -1)[np.repeat(present, lengths)].any())
    if not any_known and not learns and (free & present).any():
        raise InvalidInputError(
            "unlabelled_weight must be above 0 where no sentence has all its heads, got 0; raise it, or give trees"
        )
    if not any_known and not (learns and (parser.constraints or any_head)):
        raise InvalidInputError(
            "heads must be known of some word, got none; without heads or constraints nothing says what trees are like"
        )
    weights = counts * np.where(free, parser.unlabelled_weight, 1.0)
    named = read_columns(read, columns, tag_field(atoms) if parser.constraints else None)
    tags = {name: np.unique(named.of_words[name]).tolist() for name in TAGS if name in named.of_words}
    check_tree_values(parser.constraints, tags, named)
    text = ParsingText(lengths, atoms.encode(read), known.heads, known.kinds, known.shares, weights, named, counts)
    text = text.without(~present if learns or parser.constraints else ~present | free)
    check_possible(model, text)
    run = _in_small_steps if parser.learner == "online" else _in_batch
    found = run(parser, model, text, any_known, learns)
    relations = _relations(parser, read, text, counts) if parser.relations else None
    return Trained(len(read), known.n_lifted, atoms, model, *found, relations=relations)


def model_of(parser: Any, atoms: TokenAtoms) -> EdgeFactoredModel:
    """The model of a parser's settings."""
    return EdgeFactoredModel(
        ArcTemplates(atoms.fine),
        parser.bits,
        trees_of(parser.projective),
        parser.single_root,
        WeightPrior(1.0 / parser.C),
        Optimiser(parser.m_steps, parser.m_tol, memory=6),
    )


def trees_of(projective: bool) -> type:
    """The structure over trees with or without crossing arcs."""
    return ProjectiveTrees if projective else NonProjectiveTrees


def tag_field(atoms: TokenAtoms) -> str:
    """Which tags of sentences constraints call ``tag``."""
    return "upos" if atoms.coarse else "xpos"


def check_possible(model: EdgeFactoredModel, text: ParsingText) -> None:
    """Raise `InvalidInputError` for a sentence whose known heads fit no tree of the model."""
    bad: list[int] = []
    for shard in text.shards():
        if shard.heads is None:
            continue
        nothing = np.zeros(int((shard.lengths**2).sum()))
        heads = model.free_structure(shard).decode(Parts(model.restricted(shard, nothing)))
        starts = offsets_of(shard.lengths)[:-1]
        bad += shard.instances[heads[starts] == -2].tolist()
    if bad:
        roots = "a single root" if model.single_root else "roots"
        crossing = " without crossing arcs" if model.trees is ProjectiveTrees else ""
        wider = advice("wider trees", "set single_root=False or projective=False")
        error = InvalidInputError(
            f"heads of sentence {min(bad)} must fit a tree with {roots}{crossing}, but fit none; repair them, or "
            f"{wider}"
        )
        error.keys = {"sentence": min(bad)}
        raise error


_Found = tuple[Table, list[Record], FitStatus, tuple[ConstraintReport, ...], tuple[ConstraintSummary, ...]]


def _relations(parser: Any, read: list[ParsedSentence], text: ParsingText, counts: Floats) -> RelationModel | None:
    """The classifier of arcs, where relations of words with known heads are given."""
    names, chosen = labelled_words(read, text.heads)
    weights = np.repeat(counts, text.lengths)
    chosen &= weights > 0
    if not chosen.any():
        return None
    labels, support, shards = relation_shards(text.lengths, text.atoms, text.heads, names, chosen, weights)
    return train_relations(labels, support, make_corpus(parser, shards), parser.C)


def _in_batch(parser: Any, model: EdgeFactoredModel, text: ParsingText, any_known: bool, learns: bool) -> _Found:
    """By L-BFGS on the sentences with all heads, then EM on all."""
    corpus = make_corpus(parser, text.shards())
    theta: Any = model.initial()
    if any_known:
        theta, _, record, status = fit_labelled(parser, model, corpus, goes_on=learns)
    if not learns:
        return theta, [record], status, *report_labelled(parser, model, corpus, theta, estep_of(parser))
    found = learn_unlabelled(parser, model, corpus, theta, estep_of(parser))
    return found.params, list(found.history), found.status, *found.reports


def _in_small_steps(parser: Any, model: EdgeFactoredModel, text: ParsingText, any_known: bool, learns: bool) -> _Found:
    """On the sentences with all heads, then on all."""
    how = SmallSteps(parser.passes, parser.rate)
    history: list[Record] = []
    estep, theta = estep_of(parser), model.initial()
    stages = [text.without(text.kinds == FREE)] if any_known else []
    stages += [text] if learns else []
    for stage in stages:
        batches = stage.batches(parser.batch_size, as_generator(parser.random_state))
        found = run_online(
            model,
            batches,
            theta,
            estep,
            parser.gamma,
            how,
            random_state=parser.random_state,
            on_iteration=parser.on_iteration,
        )
        theta, history = found.params, history + list(found.history)  # type: ignore[assignment]
    reports: Any = ((), ())
    if learns and parser.constraints:
        reports = report_posed(found.posed, Step(model, theta, parser.gamma, estep))
    elif not (learns or parser.project_at_predict):
        warn_unused(parser.constraints, at_predict=True)
    return theta, history, found.status, *reports
