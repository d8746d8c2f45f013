"""RelationExtractor: types of mentions and relations between them, labelled together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from spectrem.data import RelationSentence
from spectrem.estimators.conventions import Estimator, as_fitted, take_course
from spectrem.estimators.declare import documented
from spectrem.estimators.extraction import file
from spectrem.estimators.extraction.decoding import RelationPosteriors, infer
from spectrem.estimators.extraction.input import check_sentences
from spectrem.estimators.extraction.parameters import ExtractionParameters, check_settings
from spectrem.estimators.extraction.training import train
from spectrem.estimators.shared_parameters import constraint_names
from spectrem.estimators.storage import Saved
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import relation_scores
from spectrem.reports import report_training


@documented
@dataclass(eq=False, repr=False)
class RelationExtractor(Saved, ExtractionParameters, Estimator):
    """Types of mentions of entities, and relations between them, under constraints that tie both ([RothYih2004]).

    Two log-linear models give every mention a type and every ordered pair of mentions a relation or none; constraints
    say what types a relation wants. Sentences without labels are learnt from by discriminative unified EM under the
    constraints ([Samdani2012] §5): at gamma = 1 posterior regularisation, at -inf constraint-driven learning.

    Use when mentions are known, and what they are is to be found together with how they are related, from few labels.

    Attributes
    ----------
    types_ : tuple of str
    relations_ : tuple of str
        The first one is ``no_relation``.
    model_ : JointModel
    theta_ : ndarray of shape (n_weights,)
        ``model_.split(theta_)`` parts it into the weights of types and of relations.
    history_ : list of Record
        Of EM; where all sentences have all labels, one record, of the end of training.
    n_iter_ : int
    objective_ : float
        That of the last record, nats.
    status_ : FitStatus
    converged_ : bool
    report_ : FitReport
        The course of training, and the constraints with their prices.
    gamma_ : float
        The last one of training.

    Examples
    --------
    >>> from spectrem.constraints import argument_types
    >>> from spectrem.data import RelationSentence
    >>> text = [("Ray", "shot", "King"), ("Booth", "shot", "Lincoln"), ("Ray", "fled", "Memphis")]
    >>> types = [["Peop", "Peop"], ["Peop", "Peop"], ["Peop", "Loc"]]
    >>> relations = [{(0, 1): "Kill"}, {(0, 1): "Kill"}, {}]
    >>> labelled = [
    ...     RelationSentence(words, [(0, 1), (2, 3)], own, known)
    ...     for words, own, known in zip(text, types, relations, strict=True)
    ... ]
    >>> extractor = RelationExtractor([argument_types({"Kill": ("Peop", "Peop")})]).fit(labelled)
    >>> [found] = extractor.predict([RelationSentence(["Oswald", "shot", "Kennedy"], [(0, 1), (2, 3)])])
    >>> found.types, found.relations
    (('Peop', 'Peop'), {(0, 1): 'Kill'})
    """

    _codec = file.CODEC

    def fit(
        self, sentences: Iterable[RelationSentence], sample_weight: ArrayLike | None = None, *, columns: Any = None
    ) -> RelationExtractor:
        """Train on sentences whose mentions are known.

        Parameters
        ----------
        sentences : iterable of RelationSentence
            With all labels, some, or none.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.
        columns : mapping of name -> array-like of shape (n_sentences,), or frame, optional
            What constraints name beside the columns that there are anyway, such as the document.

        Returns
        -------
        RelationExtractor
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule.
        InfeasibleConstraintError
            If a sentence cannot meet a constraint and ``infeasible`` is "raise", or all together cannot.
        """
        check_settings(self)
        listed = check_sentences(sentences)
        found = train(self, listed, sample_weight, columns)
        self.indexes_, self.guide_, self.names_ = found.indexes, found.guide, found.names
        self.types_, self.relations_ = found.names
        self.model_, self.theta_, self.gamma_ = found.model, found.theta, found.history[-1].gamma
        take_course(self, found.history, found.status)
        settings = {
            "sentences with all labels": found.n_known,
            "weights": len(found.theta),
            "constraints": constraint_names(self.constraints),
        }
        self.report_ = report_training(
            self, len(listed), settings, found.constraints, unit="sentences", summaries=found.summaries
        )
        return self

    def predict(self, sentences: Iterable[RelationSentence], *, columns: Any = None) -> list[RelationSentence]:
        """The sentences with the types and relations that are found; what labels they have is not looked at.

        Parameters
        ----------
        sentences, columns
            As in `fit`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted, listed = as_fitted(self), check_sentences(sentences)
        found = []
        bonus = self.relation_bonus
        if bonus is None:
            bonus = 0.0 if self.guide_ is None else self.guide_.bonus
        inferred = infer(fitted, listed, columns, best=self.decode == "best", bonus=bonus)
        for sentence, own in zip(listed, inferred, strict=True):
            types = [self.types_[number] for number in own.types.argmax(axis=1).tolist()]
            chosen = zip(sentence.pairs, own.relations.argmax(axis=1).tolist(), strict=True)
            relations = {pair: self.relations_[number] for pair, number in chosen if number}
            found.append(
                RelationSentence(sentence.words, sentence.mentions, types, relations, sentence.tags, sentence.name)
            )
        return found

    def predict_proba(self, sentences: Iterable[RelationSentence], *, columns: Any = None) -> list[RelationPosteriors]:
        """Posterior probabilities of types and relations, in the order of ``types_`` and ``relations_``.

        Under the constraints inside sentences if ``project_at_predict``, at the last gamma of training.
        """
        return infer(as_fitted(self), check_sentences(sentences), columns, best=False)

    def score(self, sentences: Iterable[RelationSentence], y: None = None) -> float:
        """F1 of the relations that `predict` finds, from 0 to 1; `spectrem.metrics.relation_scores` has others.

        Parameters
        ----------
        sentences : iterable of RelationSentence
            Pairs whose relation is not known are left out.
        y : None
            Not used; scikit-learn passes it.

        Raises
        ------
        InvalidInputError
            If neither a sentence nor a prediction has a relation.
        """
        gold = check_sentences(sentences)
        found = relation_scores(self.predict(gold), gold).relations.total.f1
        if math.isnan(found):
            raise InvalidInputError("sentences must hold a relation to be scored, got none; label some")
        return found
