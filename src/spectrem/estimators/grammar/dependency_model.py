"""DependencyModel: dependency grammars over tags from raw, partly parsed or parsed sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, row_weights
from spectrem.estimators.declare import documented
from spectrem.estimators.grammar import file
from spectrem.estimators.grammar.decoding import (
    arc_matrices,
    arc_posteriors,
    best_heads,
    finite_log_likelihoods,
    log_likelihoods,
    with_unknown,
)
from spectrem.estimators.grammar.parameters import GrammarSettings, check_settings
from spectrem.estimators.grammar.text import TagText, read_columns, read_tags
from spectrem.estimators.grammar.training import names_of, numbers_of, shards_of, train
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.probability_tables import mean_log_likelihood, record_training
from spectrem.estimators.storage import Saved
from spectrem.models.grammar import GrammarParameters, GrammarShard, ValenceModel
from spectrem.models.shards import in_corpus_order


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

    Examples
    --------
    >>> X = ["DET NOUN VERB", "DET NOUN VERB DET NOUN", "NOUN VERB", "VERB DET NOUN"]
    >>> from spectrem.constraints import tag_rules
    >>> rules = tag_rules({"VERB": ["NOUN"], "NOUN": ["DET"]}, 0.9, roots="VERB")
    >>> grammar = DependencyModel(constraints=[rules], n_threads=1, max_iter=10, tol=0).fit(X)
    >>> [heads.tolist() for heads in grammar.predict(["DET NOUN VERB NOUN"])]
    [[1, 2, -1, 2]]
    """

    _codec = file.CODEC

    def fit(
        self,
        X: Any,
        y: Any = None,
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
            What constraints name beside the columns that there are anyway: for every sentence a value; a sequence of
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
        check_settings(self)
        text = read_tags(X, y, single_root=self.single_root)
        weights = row_weights(sample_weight, len(text.lengths), "sentence")
        named = read_columns(columns, text.lengths)
        tags, trained = train(self, text, weights, named, partial(make_corpus, self))
        self._take(tags, trained.result.params, trained.result.history[-1].gamma)
        self.log_likelihood_ = trained.log_likelihood
        record_training(self, len(text.lengths), {"tags": len(tags)}, trained)
        return self

    def predict(self, X: Any, *, columns: Mapping[str, Any] | None = None) -> list[Ints]:
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
        text = self._read(X)
        model, params, shards = self._encoded(text, columns)
        found = best_heads(self, model, params, make_corpus(self, shards))
        return PerSentence.cut(in_corpus_order(shards, found, text.lengths), text.lengths)

    def predict_proba(self, X: Any, *, columns: Mapping[str, Any] | None = None) -> list[Floats]:
        """Posterior probabilities of arcs.

        Returns
        -------
        list of ndarray of shape (n_words, n_words)
            One per sentence: [dependent, head], with arcs from the root on the diagonal. Rows sum to 1.
        """
        text = self._read(X)
        model, params, shards = self._encoded(text, columns)
        found = [np.zeros((0, 0))] * len(text.lengths)
        posteriors = arc_posteriors(self, model, params, make_corpus(self, shards))
        for shard, arcs in zip(shards, posteriors, strict=True):
            for sentence, matrix in zip(shard.instances.tolist(), arc_matrices(shard, arcs), strict=True):
                found[sentence] = matrix
        return found

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean log-likelihood per word in nats, of the tags or, with heads, of tags and heads; always finite.

        Where a sentence is impossible, events of probability 0 count as 1e-9; a tag that training did not see counts
        as the average one.
        """
        text = self._read(X, y)
        values = self._log_likelihoods(text, finite_log_likelihoods)
        return mean_log_likelihood("X", values, text.lengths, sample_weight)

    def score_samples(self, X: Any, y: Any = None) -> Floats:
        """Log-likelihood of every sentence (with heads, of tags and heads), shape (n_sentences,), nats."""
        return self._log_likelihoods(self._read(X, y), log_likelihoods)

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

    def _read(self, X: Any, y: Any = None) -> TagText:
        return read_tags(X, y, single_root=as_fitted(self).single_root)

    def _encoded(
        self, text: TagText, columns: Mapping[str, Any] | None = None
    ) -> tuple[ValenceModel, GrammarParameters, list[GrammarShard]]:
        """The model, its parameters and shards of sentences; an unknown tag is one more, if there are any."""
        tags, params = self.tags_, self.params_
        unknown = set(text.tags) - set(tags)
        if unknown:
            text = TagText([tag if tag not in unknown else _UNKNOWN for tag in text.tags], text.lengths, text.heads)
            tags, params = (*tags, _UNKNOWN), with_unknown(params)
        fitted, named = as_fitted(self), read_columns(columns, text.lengths)
        model = ValenceModel(len(tags), fitted.adjacency, fitted.single_root, tags=names_of(tags))
        weights = np.ones(len(text.lengths))
        return model, params, shards_of(model, text, numbers_of(tags, text), weights, named)

    def _log_likelihoods(self, text: TagText, of: Any) -> Floats:
        model, params, shards = self._encoded(text)
        values = make_corpus(self, shards).collect(of, model, params)
        return in_corpus_order(shards, values, np.ones(len(text.lengths), np.int64))

    def _take(self, tags: tuple[Any, ...], params: GrammarParameters, gamma: float) -> None:
        """Set the attributes that parsing needs, from training or a file."""
        self.tags_, self.params_, self.gamma_ = tags, params, gamma


# Stands for all tags that training did not see.
_UNKNOWN = "<unk>"
