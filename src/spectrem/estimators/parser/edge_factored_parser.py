"""EdgeFactoredParser: dependency trees from labelled, partly labelled and raw sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem.data import UNKNOWN_HEAD, ParsedSentence
from spectrem.estimators.conventions import Estimator, PerSentence, check_fitted, row_weights, take_course
from spectrem.estimators.declare import documented
from spectrem.estimators.homes import make_corpus
from spectrem.estimators.parser import file
from spectrem.estimators.parser.decoding import arc_posteriors, best_heads, log_probabilities
from spectrem.estimators.parser.input import read_columns, read_heads, read_sentences
from spectrem.estimators.parser.parameters import ParserParameters, check_settings
from spectrem.estimators.parser.relations import MISSING
from spectrem.estimators.parser.training import Trained, tag_field, train
from spectrem.estimators.projecting import projects
from spectrem.estimators.shared_parameters import constraint_names
from spectrem.estimators.storage import Saved
from spectrem.exceptions import InvalidInputError
from spectrem.metrics import not_punctuation
from spectrem.models.parsing import SHARED, ParsingText
from spectrem.models.shards import Columns
from spectrem.reports import report_training


@documented
@dataclass(eq=False, repr=False)
class EdgeFactoredParser(Saved, ParserParameters, Estimator):
    """Parse sentences into dependency trees by an edge-factored log-linear model ([McDonald2005], [Ganchev2010] §7).

    The score of a tree is the sum of the scores of its arcs, and its probability given the words and tags is in
    proportion to the exponential. Heads may be known of all words of a sentence, of some, as distributions, or not at
    all; constraints on expectations guide what is inferred of the rest.

    Use when words need heads and a treebank, parts of trees, or knowledge about arcs is at hand.

    Attributes
    ----------
    atoms_ : TokenAtoms
        The forms that are told apart, and which tags there are.
    model_ : EdgeFactoredModel
    theta_ : ndarray of shape (n_weights,)
        Weights; online learning gives them in single precision.
    n_lifted_ : int
        Heads of the training sentences that were changed to make trees projective.
    relations_ : RelationModel or None
        The classifier of arcs, where relations were learned.
    history_ : list of Record
        Of the passes of online learning, or of EM; where all sentences have all heads and learning is in batch, one
        record, of the end of training.
    n_iter_ : int
    objective_ : float
        That of the last record, nats.
    status_ : FitStatus
    converged_ : bool
    report_ : FitReport
        The course of training; a notebook shows it below the parser, ``print(parser.report_.summary())`` elsewhere.
    gamma_ : float
        The last one of training.

    Examples
    --------
    >>> import numpy as np
    >>> from spectrem.data import ROOT, ParsedSentence
    >>> def sentence(words, heads=None):
    ...     forms, upos = zip(*(word.split("/") for word in words.split()))
    ...     return ParsedSentence(forms, upos, ("_",) * len(forms), heads)
    >>> trees = [
    ...     sentence("the/DET dog/NOUN barks/VERB", np.array([1, 2, ROOT])),
    ...     sentence("she/PRON saw/VERB a/DET cat/NOUN", np.array([1, ROOT, 3, 1])),
    ... ]
    >>> parser = EdgeFactoredParser(bits=10, min_count=1).fit(trees)
    >>> parser.predict([sentence("a/DET dog/NOUN saw/VERB the/DET cat/NOUN")])
    [array([ 1,  2, -1,  4,  2])]
    """

    _codec = file.CODEC

    def fit(
        self,
        sentences: Iterable[ParsedSentence],
        heads: Sequence[ArrayLike | None] | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> EdgeFactoredParser:
        """Train on sentences.

        Parameters
        ----------
        sentences : iterable of ParsedSentence
        heads : sequence, optional
            Per sentence None; the head of every word, counted from 0, -1 for the root, -2 where not known; or a matrix
            of probabilities, [dependent, head], with those of the root on the diagonal. By default the ``heads`` of the
            sentences.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.
        columns : mapping of name -> sequence, optional
            What constraints name beside the columns that there are anyway: per sentence a value; a sequence of a value
            per word, of which ``head_`` and ``dependent_`` with the name are columns; or a matrix of a value per arc,
            [dependent, head], arcs from the root on the diagonal.

        Returns
        -------
        EdgeFactoredParser
            Itself.

        Raises
        ------
        InvalidInputError
            If a parameter or the input breaks its rule, or known heads fit no tree.
        InfeasibleConstraintError
            If a sentence cannot meet a constraint and ``infeasible`` is "raise".
        """
        check_settings(self)
        found = train(self, sentences, heads, sample_weight, columns)
        self._take(found)
        take_course(self, found.history, found.status)
        settings = {
            "learner": self.learner,
            "weights": found.model.n_weights,
            "projective": self.projective,
            "heads lifted": found.n_lifted,
            "constraints": constraint_names(self.constraints),
        }
        self.report_ = report_training(
            self, found.n_sentences, settings, found.constraints, unit="sentences", summaries=found.summaries
        )
        return self

    def predict(self, sentences: Iterable[ParsedSentence], *, columns: Mapping[str, Any] | None = None) -> list[Ints]:
        """The head of every word, an array of shape (n_words,) for each sentence; -1 is the root.

        Parameters
        ----------
        sentences : iterable of ParsedSentence
            Their heads are not read.
        columns
            As in `fit`, for ``project_at_predict``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        read = self._read(sentences)
        found = best_heads(self, make_corpus(self, self._text(read, columns).shards()))
        return PerSentence(_split(np.concatenate(list(found)), [len(sentence.forms) for sentence in read]))

    def predict_proba(
        self, sentences: Iterable[ParsedSentence], *, columns: Mapping[str, Any] | None = None
    ) -> list[Floats]:
        """Probabilities of arcs, an array of shape (n_words, n_words) for each sentence, [dependent, head].

        Those of arcs from the root stand on the diagonal; the heads of a word add up to 1.
        """
        read = self._read(sentences)
        found = arc_posteriors(self, make_corpus(self, self._text(read, columns).shards()))
        sizes = [len(sentence.forms) for sentence in read]
        flat = _split(np.concatenate(list(found)), [n * n for n in sizes])
        return [block.reshape(n, n) for block, n in zip(flat, sizes, strict=True)]

    def parse(
        self, sentences: Iterable[ParsedSentence], *, columns: Mapping[str, Any] | None = None
    ) -> list[ParsedSentence]:
        """The sentences with the heads that `predict` finds, and relations where they were learned.

        Heads and relations that they had are replaced.
        """
        read = self._read(sentences)
        heads = self.predict(read, columns=columns)
        relations = self.predict_relations(read, heads)
        return [
            one._replace(heads=own, relations=names if self.relations_ else None)
            for one, own, names in zip(read, heads, relations, strict=True)
        ]

    def predict_relations(
        self, sentences: Iterable[ParsedSentence], heads: Sequence[ArrayLike] | None = None
    ) -> list[tuple[str, ...]]:
        """The relation of every word to its head; ``_`` where none was learned, or the head is not known.

        Parameters
        ----------
        sentences : iterable of ParsedSentence
        heads : sequence of array-like of int, optional
            By default those of the sentences.
        """
        read = self._read(sentences)
        text, known = self._text(read, None), read_heads(read, heads, projective=False)
        if known.shares:
            raise InvalidInputError(
                f"heads must be numbers to have relations, got a matrix for sentence {min(known.shares)}; decide for "
                "heads first"
            )
        names = [MISSING] * len(known.heads)
        if self.relations_ is not None and len(names):
            names = self.relations_.label(text.lengths, text.atoms, known.heads)
        return list(map(tuple, list(PerSentence.cut(names, text.lengths))))

    def score(
        self,
        sentences: Iterable[ParsedSentence],
        heads: Sequence[ArrayLike | None] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The share of words but punctuation (universal tag ``PUNCT``) whose head `predict` finds, from 0 to 1.

        This is the unlabelled attachment score; `spectrem.metrics.attachment_scores` has others.

        Parameters
        ----------
        sentences, heads
            As in `fit`. Words whose head is not known are left out; a distribution counts as right by the probability
            of the head that is found.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.

        Raises
        ------
        InvalidInputError
            If no word is left to score.
        """
        read = self._read(sentences)
        known, lengths = read_heads(read, heads, projective=False), [len(one.forms) for one in read]
        weights = np.repeat(row_weights(sample_weight, len(read), "sentence"), lengths)
        weights *= np.concatenate([np.zeros(0), *not_punctuation([one.upos for one in read])])
        weights *= (known.heads != UNKNOWN_HEAD) | np.repeat(known.kinds == SHARED, lengths)
        if not weights.any():
            raise InvalidInputError(
                "heads must be known of some word other than punctuation, of weight above 0, to be scored, got none"
            )
        predicted = self.predict(read)
        right = [np.equal(own, gold) * 1.0 for own, gold in zip(predicted, _split(known.heads, lengths), strict=True)]
        for number, shares in known.shares.items():
            words = np.arange(lengths[number])
            right[number] = shares[words, np.where(predicted[number] < 0, words, predicted[number])]
        return float(np.average(np.concatenate(right), weights=weights))

    def score_samples(
        self, sentences: Iterable[ParsedSentence], heads: Sequence[ArrayLike | None] | None = None
    ) -> Floats:
        """log p(heads | words) of every sentence, shape (n_sentences,), nats; of some heads, of all trees with them.

        Parameters
        ----------
        sentences, heads
            As in `fit`, without distributions. Heads are taken as they are: where arcs cross, and trees are projective,
            the probability is 0.
        """
        read = self._read(sentences)
        known = read_heads(read, heads, projective=False)
        if known.shares:
            raise InvalidInputError(
                f"heads must be numbers to be scored, got a matrix for sentence {min(known.shares)}; decide for heads"
            )
        text = self._text(read, None)
        text = ParsingText(text.lengths, text.atoms, known.heads, text.kinds, {}, text.weights)
        shards, values = text.shards(), np.zeros(len(read))
        corpus = make_corpus(self, shards)
        for shard, own in zip(shards, corpus.collect(log_probabilities, self.model_, self.theta_), strict=True):
            values[shard.instances] = own
        return values

    def _read(self, sentences: Iterable[ParsedSentence]) -> list[ParsedSentence]:
        check_fitted(self)
        return read_sentences(sentences)

    def _text(self, read: list[ParsedSentence], columns: Mapping[str, Any] | None) -> ParsingText:
        named = Columns()
        if projects(self):
            named = read_columns(read, columns, tag_field(self.atoms_))
        lengths = np.array([len(sentence.forms) for sentence in read], np.int64)
        return ParsingText.raw(lengths, self.atoms_.encode(read), named)

    def _take(self, found: Trained) -> None:
        """What parsing needs, from training."""
        self.atoms_, self.model_, self.theta_ = found.atoms, found.model, found.theta
        self.n_lifted_, self.gamma_, self.relations_ = found.n_lifted, found.history[-1].gamma, found.relations


def _split(values: Any, sizes: list[int]) -> list[Any]:
    """One array per sentence; copies, so that one of them does not keep all in memory."""
    return [own.copy() for own in np.split(values, np.cumsum(sizes)[:-1])] if sizes else []
