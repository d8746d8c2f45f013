"""One `DependencyModel.fit`: from tags and settings to trained parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from spectrem._arrays import Floats, Ints
from spectrem._validate import as_generator
from spectrem.corpus import Corpus
from spectrem.estimators.conventions import check_words_to_learn
from spectrem.estimators.grammar.decoding import log_likelihoods
from spectrem.estimators.grammar.parameters import TABLES
from spectrem.estimators.grammar.text import TagText
from spectrem.estimators.model_tables import table_priors
from spectrem.estimators.probability_tables import Trained, floored, log_likelihood, train_from_starts
from spectrem.estimators.sentence_columns import check_tree_values
from spectrem.estimators.tagging.text import Tag, check_tags, sort_tags
from spectrem.estimators.training import estep_of
from spectrem.exceptions import InvalidInputError
from spectrem.models.grammar import (
    GrammarParameters,
    GrammarShard,
    ValenceModel,
    build_shards,
    harmonic,
    preferences,
    random_counts,
    supervised,
    uniform,
)
from spectrem.models.shards import Columns, count_known
from spectrem.structures import Parts

# How often arcs of rules count that training starts from.
_PREFERENCE = 100.0


def train(
    settings: Any,
    text: TagText,
    weights: Floats,
    columns: Columns,
    place: Callable[[Iterable[GrammarShard]], Corpus],
) -> tuple[tuple[Tag, ...], Trained]:
    """Train with the settings of a DependencyModel, which have been checked.

    Raises
    ------
    InvalidInputError
        If settings and sentences do not fit each other.
    """
    check_words_to_learn("X", text.lengths, weights)
    tags = sort_tags(text.tags) if settings.tags is None else check_tags(settings.tags)
    check_tree_values(settings.constraints, {"tag": names_of(tags)}, columns)
    root, choose, stop = table_priors(TABLES, settings.prior, settings.smoothing)
    model = ValenceModel(len(tags), settings.adjacency, settings.single_root, root, choose, stop, names_of(tags))
    shards = shards_of(model, text, numbers_of(tags, text), weights, columns)
    for shard in shards:
        _check_heads(model, shard)
    corpus, labelled = place(shards), all(shard.known for shard in shards)
    start, rng = _Start(settings, tags, model, corpus), as_generator(settings.random_state)
    estep = estep_of(settings, reference=_reference(settings, tags, model))
    likelihood = partial(corpus.sum, log_likelihood, log_likelihoods, model)
    begin = partial(start.parameters, rng)
    return tags, train_from_starts(settings, model, corpus, begin, estep, likelihood, labelled=labelled)


def names_of(tags: Sequence[Tag]) -> tuple[Any, ...]:
    """Names of tags for columns of constraints: as they are if all are of a kind, else as text."""
    kinds = {isinstance(tag, str) for tag in tags}
    return tuple(tags) if len(kinds) == 1 else tuple(map(str, tags))


def numbers_of(tags: Sequence[Tag], text: TagText) -> Ints:
    """Tags of all words as numbers; those of ``fit`` that are unknown raise `InvalidInputError`."""
    index = {tag: number for number, tag in enumerate(tags)}
    missing = next((tag for tag in text.tags if tag not in index), None)
    if missing is not None:
        raise InvalidInputError(f"X must hold the tags of tags only, got {missing!r}; add it to tags")
    return np.array([index[tag] for tag in text.tags], np.int64)


def shards_of(
    model: ValenceModel, text: TagText, numbers: Ints, weights: Floats, columns: Columns
) -> list[GrammarShard]:
    """Shards with the columns that were given."""
    return build_shards(text.lengths, numbers, model.n_tags, heads=text.heads, weights=weights, columns=columns)


def _check_heads(model: ValenceModel, shard: GrammarShard) -> None:
    """Refuse heads of a part of a sentence that no projective tree has."""
    if shard.known or (shard.heads < -1).all():
        return
    structure = model.structure(shard)
    values, _ = structure.smoothed_max(model.scores(uniform(model), shard), 0.0)
    if np.isneginf(values).any():
        n = int(shard.instances[int(np.argmax(np.isneginf(values)))])
        raise InvalidInputError(
            f"y: the heads that are known of sentence {n} belong to no projective tree; give all its heads, or leave "
            "out those whose arcs cross others"
        )


class _Start(NamedTuple):
    """The start parameters of training; asked for once per restart."""

    settings: Any
    tags: tuple[Tag, ...]
    model: ValenceModel
    corpus: Corpus

    def parameters(self, rng: np.random.Generator) -> GrammarParameters:
        """Start parameters.

        Raises
        ------
        InvalidInputError
            If given parameters do not fit the model, or a start from heads finds none.
        """
        init, model = self.settings.init, self.model
        if init is None:
            init = "supervised" if self.corpus.sum(count_known) else "harmonic"
        if isinstance(init, Mapping):
            return harmonic(model, self.corpus, preferred=self._preferred(init))
        if not isinstance(init, str):
            return parameters_of(init, self.tags, model, "init")
        if init == "supervised" and not self.corpus.sum(count_known):
            raise InvalidInputError(
                "init='supervised' must find a sentence with the heads of all words in y, got none; give some, or "
                "start from another init"
            )
        if init == "random":
            return random_counts(model, rng)
        if init == "uniform":
            return uniform(model)
        return supervised(model, self.corpus) if init == "supervised" else harmonic(model, self.corpus)

    def _preferred(self, rules: Mapping[Any, Any]) -> Floats:
        index = {tag: number for number, tag in enumerate(self.tags)} | {None: -1}
        pairs = []
        for head, children in rules.items():
            listed = [children] if isinstance(children, str | int) else list(children)
            pairs += [(index[head], index[child]) for child in listed if head in index and child in index]
        return preferences(self.model.n_tags, pairs, _PREFERENCE)


def parameters_of(given: Any, tags: Sequence[Tag], model: ValenceModel, name: str) -> GrammarParameters:
    """Given parameters, or those of a fitted DependencyModel in another order of the same tags.

    Raises
    ------
    InvalidInputError
        If shapes or tags differ.
    """
    if not isinstance(given, GrammarParameters):
        if set(given.tags_) != set(tags):
            raise InvalidInputError(
                f"{name} must be a model of the same tags, got {len(given.tags_)} tags, of which "
                f"{len(set(given.tags_) & set(tags))} are among the {len(tags)} here; set tags for both"
            )
        at, own = np.array([given.tags_.index(tag) for tag in tags]), given.params_
        given = replace(own, root=own.root[at], choose=own.choose[at][..., at], stop=own.stop[at])
    for table, shape in zip(TABLES, model.shapes, strict=True):
        found = np.shape(getattr(given, table))
        if found != shape:
            raise InvalidInputError(
                f"{name}: {table} must have shape {shape}, got {found}; give parameters for these tags and this "
                "adjacency"
            )
    return given


def _reference(settings: Any, tags: Sequence[Tag], model: ValenceModel) -> Callable[[GrammarShard], Parts] | None:
    if settings.reference is None:
        return None
    return partial(model.scores, floored(parameters_of(settings.reference, tags, model, "reference")))
