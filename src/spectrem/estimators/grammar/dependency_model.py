"""DependencyModel: dependency grammars over tags from raw, partly parsed or parsed sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._damage import DamageError
from spectrem._validate import as_generator
from spectrem.corpus import Corpus
from spectrem.data.treebank import UNKNOWN_HEAD, check_heads
from spectrem.estimators import engine, sentences
from spectrem.estimators.conventions import Estimator, as_fitted, check_words_to_learn, row_weights
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.grammar.parameters import TABLES, GrammarSettings
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentences import Crossing, Heads, Sentences, Tag
from spectrem.estimators.shared_parameters import table_priors
from spectrem.estimators.storage import Codec, Member, Saved, rows
from spectrem.exceptions import InvalidInputError
from spectrem.models import grammar
from spectrem.models.grammar import GrammarParameters, GrammarShard, ValenceModel
from spectrem.models.shards import count_known
from spectrem.structures import Parts, ProjectiveTrees, ValenceTrees
from spectrem.structures._ragged import offsets_of

# How often arcs of rules count that training starts from.
_PREFERENCE = 100.0
# What constraints call all tags that training did not see.
_UNKNOWN = "<unk>"
# Columns that constraints have already.
_TAKEN = ("tag", "head_tag", "dependent_tag", *ValenceTrees([0]).columns)


def _write(model: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    values = {"tags": list(model.tags_), "skips_punctuation": model.skips_punctuation_}
    return values, {name: getattr(model.params_, name) for name in TABLES}


def _read(model: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    tags = sentences.check_tags(values["tags"])
    skips = values.get("skips_punctuation", False)  # files of earlier versions lack it
    if not isinstance(skips, bool):
        raise DamageError("whether punctuation is left out must be a truth value")
    shapes = ValenceModel(len(tags), model.adjacency).shapes
    _CODEC.check_arrays(arrays, dict(zip(TABLES, shapes, strict=True)))
    model.set_params(tags=list(tags))
    model.skips_punctuation_ = skips
    model.tags_, model.params_ = tags, GrammarParameters(arrays["root"], arrays["choose"], arrays["stop"])


_CODEC = Codec(
    kind="DependencyModel",
    members=dict.fromkeys(TABLES, Member("f8", 4, rows)),
    write=_write,
    read=_read,
    numbers=("gamma", "log_likelihood"),
    apart=("tags",),
)


@documented
@dataclass(eq=False, repr=False)
class DependencyModel(Saved, GrammarSettings, Estimator):
    """Parse sequences of tags by a grammar of dependencies with valence, learned with or without trees.

    The dependency model with valence [KleinManning2004]: heads take children on both sides, one by one, and stop. What
    training finds can be led by constraints on expectations ([Ganchev2010] §7), such as rules of grammar
    ([Naseem2010]), by some known heads, by its start, and by gamma ([SmithEisner2004], [Samdani2012]).

    Use when there are tagged sentences without trees. With many trees, a parser over words is better.

    Attributes
    ----------
    tags_ : tuple of str or int
    params_ : GrammarParameters
    root_, choose_, stop_ : ndarray
        Its tables, of shapes (n_tags,), (n_tags, 2, n_tags) or, with ``adjacency``, (n_tags, 2, 2, n_tags), and
        (n_tags, 2, 2, 2).
    history_ : list of Record
        With the violation that few ``dual_steps`` leave of constraints over the corpus.
    n_iter_ : int
    objective_ : float
        The objective of the last record, nats.
    status_ : FitStatus
    converged_ : bool
        Whether the objective gained less than ``tol`` at every gamma in the end.
    report_ : FitReport
        The course of training and what the constraints demanded and cost, at the parameters learned. A notebook shows
        it below the model; ``print(model.report_.summary())`` elsewhere.
    log_likelihood_ : float
        The log-likelihood of the training sentences, nats.
    gamma_ : float
        The last one of training.
    n_lifted_ : int
        Heads of the training sentences that were changed since they fit no projective tree.
    n_skipped_ : int
        Training sentences left out since their heads fit no projective tree.
    skips_punctuation_ : bool
        Whether ``spectrem parse train`` left words tagged PUNCT out of the sentences; ``spectrem parse predict`` then
        does so, too. False after `fit`.

    Examples
    --------
    >>> X = ["DET NOUN VERB", "DET NOUN VERB DET NOUN", "NOUN VERB", "VERB DET NOUN"]
    >>> from spectrem.constraints import tag_rules
    >>> rules = tag_rules({"VERB": ["NOUN"], "NOUN": ["DET"]}, 0.9, roots="VERB")
    >>> grammar = DependencyModel(constraints=[rules], n_threads=1, max_iter=10, tol=0).fit(X)
    >>> [heads.tolist() for heads in grammar.predict(["DET NOUN VERB NOUN"])]
    [[1, 2, -1, 2]]
    """

    _codec = _CODEC

    @shows_progress
    def fit(
        self,
        X: Sentences,
        y: Heads | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> DependencyModel:
        """Train on sequences of tags.

        Parameters
        ----------
        X : sequence of sequences of tags, or of str
            Strings are split at spaces.
        y : sequence of (sequence of heads, or None), optional
            Per word the position of its head in the sentence, counted from 0, -1 for the root, None or -2 where it is
            not known; None for sentences without heads. Trees that are given whole need not be projective.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.
        columns : mapping of name -> sequence, optional
            More columns that constraints may name: for every sentence a value; a sequence of
            values of its words, which become ``head_<name>`` and ``dependent_<name>``; or a matrix of values of its
            arcs, [dependent, head], with those from the root on the diagonal.

        Returns
        -------
        DependencyModel
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.
        InfeasibleConstraintError
            If constraints cannot be met and ``infeasible`` is "raise".
        """
        check_parameters(self)
        text = sentences.read_text(X)
        crossing = Crossing(self.crossing)
        heads = _read_heads(y, text.lengths, self.single_root, crossing)
        crossing.warn()
        weights = crossing.weights(row_weights(sample_weight, len(text.lengths), "sentence"))
        named = sentences.read_sentence_columns(columns, text.lengths, _TAKEN)
        check_words_to_learn("X", text.lengths, weights)
        tags = sentences.sort_tags(text.words) if self.tags is None else sentences.check_tags(self.tags)
        sentences.check_tree_values(self.constraints, {"tag": sentences.tag_names(tags)}, named)
        root, choose, stop = table_priors(TABLES, self.prior, self.smoothing)
        model = ValenceModel(len(tags), self.adjacency, self.single_root, root, choose, stop, sentences.tag_names(tags))
        shards = grammar.build_shards(
            text.lengths, _numbers(tags, text.words), len(tags), heads=heads, weights=weights, columns=named
        )
        corpus, rng = engine.make_corpus(self, shards), as_generator(self.random_state)
        start = partial(_start, self.init, tags, model, corpus, rng)
        estep = engine.estep_of(self, reference=_reference(self.reference, tags, model))
        task = engine.Task(model, corpus, start, estep, all_known=all(shard.known for shard in shards))
        trained = engine.train(self, task)
        self.tags_, self.params_, self.skips_punctuation_ = tags, trained.params, False
        self.n_lifted_, self.n_skipped_ = crossing.n_lifted, len(crossing.skipped)
        self.log_likelihood_ = corpus.sum(engine.log_likelihood, engine.log_likelihoods, model, trained.params)
        settings = {"tags": len(tags), "heads lifted": self.n_lifted_, "sentences skipped": self.n_skipped_}
        engine.record(self, trained, len(text.lengths), settings)
        return self

    def predict(self, X: Sentences, *, columns: Mapping[str, Any] | None = None) -> list[Ints]:
        """Heads of every word.

        Parameters
        ----------
        X, columns
            As in `fit`; ``columns`` for ``project_at_predict``.

        Returns
        -------
        list of ndarray of shape (n_words,), int64
            Positions in the sentence, -1 for the root.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(X, columns=columns)
        return new.heads(_most_expected, least=-1)

    def predict_proba(self, X: Sentences, *, columns: Mapping[str, Any] | None = None) -> list[Floats]:
        """Posterior probabilities of arcs.

        Parameters
        ----------
        X, columns
            As in `predict`.

        Returns
        -------
        list of ndarray of shape (n_words, n_words)
            One per sentence: [dependent, head], with arcs from the root on the diagonal. Rows sum to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(X, columns=columns)
        return new.arcs()

    def score(
        self,
        X: Sentences,
        y: Heads | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> float:
        """Mean log-likelihood per word in nats, of the tags or, with heads, of tags and heads; always finite.

        Where a sentence is impossible, events of probability 0 count as 1e-9; a tag that training did not see counts
        as the average one. Constraints have no part in it, nor have ``columns``.

        Parameters
        ----------
        X
            As in `fit`.
        y : sequence of heads of sentences, optional
            As in `fit`.
        sample_weight : array-like of shape (n_sentences,), optional
            How often each sentence counts, at least 0.
        columns
            Not read.

        Returns
        -------
        float
            Nats per word, at most 0.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(X, y)
        values = new.values(engine.log_likelihoods, new.model, new.params, True)
        return engine.mean_log_likelihood("X", values, new.lengths, sample_weight)

    def score_samples(self, X: Sentences, y: Heads | None = None) -> Floats:
        """Log-likelihood of every sentence (with heads, of tags and heads), shape (n_sentences,), nats.

        Parameters
        ----------
        X, y
            As in `score`.

        Returns
        -------
        ndarray of shape (n_sentences,)
            Nats.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._encoded(X, y)
        return new.values(engine.log_likelihoods, new.model, new.params)

    @property
    def root_(self) -> Floats:
        """Probabilities of tags under the root, shape (n_tags,)."""
        return as_fitted(self).params_.root

    @property
    def choose_(self) -> Floats:
        """Probabilities of tags of children."""
        return as_fitted(self).params_.choose

    @property
    def stop_(self) -> Floats:
        """Probabilities of taking another child, and of stopping."""
        return as_fitted(self).params_.stop

    def _encoded(
        self, X: Sentences, y: Heads | None = None, columns: Mapping[str, Any] | None = None
    ) -> engine.NewSentences:
        """Sentences for the model with one tag more, for those that training did not see."""
        fitted, text = as_fitted(self), sentences.read_text(X)
        heads = _read_heads(y, text.lengths, fitted.single_root)
        named = sentences.read_sentence_columns(columns, text.lengths, _TAKEN)
        names = sentences.tag_names((*self.tags_, _UNKNOWN))
        model = ValenceModel(len(names), fitted.adjacency, fitted.single_root, tags=names)
        numbers = sentences.tag_numbers(self.tags_, text.words, len(self.tags_))
        shards = grammar.build_shards(text.lengths, numbers, len(names), heads=heads, columns=named)
        return engine.NewSentences(self, model, _with_unknown(self.params_), shards, text.lengths, text.words)


def _numbers(tags: Sequence[Tag], words: Sequence[Tag]) -> Ints:
    """The numbers of the tags of all words.

    Raises
    ------
    InvalidInputError
        If there is another tag.
    """
    numbers = sentences.tag_numbers(tags, words)
    if (numbers < 0).any():
        raise InvalidInputError(
            f"X must hold the tags of tags only, got {words[int(numbers.argmin())]!r}; add it to tags"
        )
    return numbers


def _start(
    init: Any, tags: Sequence[Tag], model: ValenceModel, corpus: Corpus, rng: np.random.Generator
) -> GrammarParameters:
    """The parameters that the setting ``init`` says to start from.

    Raises
    ------
    InvalidInputError
        If given parameters do not fit the model, or a start from heads finds none.
    """
    if isinstance(init, Mapping):
        index = {tag: number for number, tag in enumerate(tags)} | {None: -1}
        pairs = []
        for head, children in init.items():
            listed = [children] if isinstance(children, str | int) else list(children)
            pairs += [(index[head], index[child]) for child in listed if head in index and child in index]
        return grammar.harmonic(model, corpus, preferred=pairs, factor=_PREFERENCE)
    if init is not None and not isinstance(init, str):
        return _parameters_of(init, tags, model, "init")
    any_known = init in (None, "supervised") and corpus.sum(count_known) > 0
    if init == "supervised" and not any_known:
        raise InvalidInputError(
            "init='supervised' must find a sentence with the heads of all words in y, got none; give some, or "
            "start from another init"
        )
    if init == "random":
        return grammar.random_counts(model, rng)
    if init == "uniform":
        return grammar.uniform(model)
    return grammar.supervised(model, corpus) if any_known else grammar.harmonic(model, corpus)


def _reference(reference: Any, tags: Sequence[Tag], model: ValenceModel) -> Callable[[GrammarShard], Parts] | None:
    """The scores of trees that posteriors are drawn to, by the setting ``reference``."""
    if reference is None:
        return None
    return partial(model.scores, engine.floored(_parameters_of(reference, tags, model, "reference")))


def _parameters_of(source: Any, tags: Sequence[Tag], model: ValenceModel, name: str) -> GrammarParameters:
    """Parameters, or those of a fitted DependencyModel with the same tags in another order, for a setting ``name``.

    Raises
    ------
    InvalidInputError
        If shapes or tags differ.
    """
    if isinstance(source, GrammarParameters):
        params = source
    else:
        if set(source.tags_) != set(tags):
            raise InvalidInputError(
                f"{name} must be a model of the same tags, got {len(source.tags_)} tags, of which "
                f"{len(set(source.tags_) & set(tags))} are among the {len(tags)} here; set tags for both"
            )
        params, at = source.params_, np.array([source.tags_.index(tag) for tag in tags])
        params = replace(params, root=params.root[at], choose=params.choose[at][..., at], stop=params.stop[at])
    for table, shape in zip(TABLES, model.shapes, strict=True):
        got = np.shape(getattr(params, table))
        if got != shape:
            raise InvalidInputError(
                f"{name}: {table} must have shape {shape}, got {got}; give parameters for these tags and this adjacency"
            )
    return params


def _with_unknown(params: GrammarParameters) -> GrammarParameters:
    """Parameters with one tag more, for tags that training did not see: as probable, and as a head, as the average."""
    root, choose, stop = params.root, params.choose, params.stop
    choose = np.concatenate([choose, choose.mean(axis=-1, keepdims=True)], axis=-1)
    choose, stop = (np.concatenate([table, table.mean(axis=0, keepdims=True)]) for table in (choose, stop))
    return GrammarParameters(np.append(root, root.mean()), choose, stop)


def _most_expected(model: ValenceModel, shard: GrammarShard, marginals: Parts) -> Ints:
    """The heads that have the largest sum of probabilities of arcs."""
    arcs = Parts(engine.table(model, shard, marginals))
    return ProjectiveTrees(shard.lengths, single_root=model.single_root).decode(arcs)


def _read_heads(y: Heads | None, lengths: Ints, single_root: bool, crossing: Crossing | None = None) -> Ints:
    """Heads of all words, shape (n_tokens,): positions in the sentence, -1 for the root, -2 where not known.

    Raises
    ------
    InvalidInputError
        If these are not the heads of the words of every sentence, or cannot belong to a tree.
    """
    heads = np.full(int(lengths.sum()), UNKNOWN_HEAD)
    if y is None:
        return heads
    offsets = offsets_of(lengths)
    for n, entry in enumerate(sentences.heads_per_sentence(y, len(lengths))):
        if entry is None:
            continue
        positions = check_heads(entry, n, int(lengths[n]), unknown=True)
        if crossing is not None and (positions == UNKNOWN_HEAD).any():
            positions = crossing.without_crossing(positions, n)
        heads[offsets[n] : offsets[n + 1]] = positions
    if single_root:
        sentences.check_single_root(heads, lengths, np.ones(len(lengths), np.bool_))
    return heads
