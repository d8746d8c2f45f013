"""RelationExtractor: types of mentions and relations between them, labelled together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._damage import DamageError
from spectrem._html import MOST_SHOWN
from spectrem.constraints import Constraint, E, check_columns, check_values, part
from spectrem.constraints.text import flatten
from spectrem.data import FeatureIndex, RelationSentence
from spectrem.data.relations import RelationSentences
from spectrem.estimators import engine
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, row_weights
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.extraction.parameters import ExtractionParameters
from spectrem.estimators.labelled import fit_members
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentence_tables import SentenceTables, tag_label
from spectrem.estimators.storage import TEXT, Codec, Member, Saved, finite, pack_names, unpack_names
from spectrem.estimators.table_input import row_columns
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.metrics import relation_scores
from spectrem.models import extraction, loglinear
from spectrem.models.loglinear.joint import MemberCorpus

_LABELS = {"mention": "type", "pair": "relation"}


def _write(extractor: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    first = extractor.first_classifiers_
    arrays = {key: pack_names(index.names) for key, index in extractor.indexes_.items()}
    arrays["theta"] = extractor.theta_
    if first is not None:
        arrays |= {"guide": first.theta, "contexts": first.contexts}
        if first.pairs is not None:
            arrays["guide_pairs"] = first.pairs
    bonus = 0.0 if first is None else first.bonus
    return {"types": extractor.types_, "relations": extractor.relations_, "bonus": bonus}, arrays


def _read(extractor: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    names = {key: tuple(map(str, values[f"{label}s"])) for key, label in _LABELS.items()}
    indexes = {key: FeatureIndex(unpack_names(arrays[key], key)) for key in names}
    n_features = {key: len(index) for key, index in indexes.items()}
    sizes, first = {}, None
    if "guide" in arrays:
        contexts, pairs, bonus = arrays["contexts"], arrays.get("guide_pairs"), float(values.get("bonus", 0.0))
        if not np.isfinite(bonus):
            raise DamageError("bonus is not finite")
        if len(contexts) and not 0 <= contexts.min() <= contexts.max() < n_features["pair"]:
            raise DamageError("contexts are not features of pairs")
        n_features["pair"] += len(contexts) * len(names["mention"]) ** 2
        members = _make_model(extractor, names, n_features).members
        sizes["guide"] = (members["mention"].n_weights,)
        if pairs is not None:
            sizes["guide_pairs"] = (members["pair"].n_weights,)
            n_features["pair"] += extraction.N_SOURCES * (len(names["pair"]) - 1)
        first = extraction.FirstClassifiers(
            members["mention"], arrays["guide"], contexts, members["pair"], pairs, bonus
        )
    model = _make_model(extractor, names, n_features)
    _CODEC.check_arrays(arrays, {**sizes, "theta": (model.n_weights,)})
    extractor.indexes_, extractor.first_classifiers_, extractor.names_ = indexes, first, names
    extractor.types_, extractor.relations_ = names["mention"], names["pair"]
    extractor.model_, extractor.theta_ = model, arrays["theta"]


_CODEC = Codec(
    kind="RelationExtractor",
    members={
        **dict.fromkeys(("mention", "pair"), TEXT),
        **dict.fromkeys(("theta", "guide", "guide_pairs"), Member("f8", 1, finite)),
        "contexts": Member("i8", 1),
    },
    write=_write,
    read=_read,
)


class RelationPosteriors(NamedTuple):
    """Probabilities of the labels of a sentence.

    Attributes
    ----------
    types : ndarray of shape (n_mentions, n_types)
    relations : ndarray of shape (n_pairs, n_relations)
        Of all ordered pairs of mentions, in the order of ``RelationSentence.pairs``.
    """

    types: Floats
    relations: Floats


class PosteriorsOfRelations(list[RelationPosteriors]):
    """Posteriors of sentences, which notebooks show mention by mention and pair by pair.

    Parameters
    ----------
    posteriors : iterable of RelationPosteriors
    sentences : sequence of RelationSentence
    types, relations : sequence of str
        The names of the columns.
    """

    def __init__(
        self,
        posteriors: Iterable[RelationPosteriors],
        sentences: Sequence[RelationSentence],
        types: Sequence[str],
        relations: Sequence[str],
    ) -> None:
        super().__init__(posteriors)
        texts = [[one.text(mention) for mention in range(len(one.mentions))] for one in sentences[:MOST_SHOWN]]
        pairs = [[f"{a}, {b}" for a, b in permutations(one, 2)] for one in texts]
        self._mentions = SentenceTables((one.types for one in self), texts, partial(tag_label, types))
        self._pairs = SentenceTables((one.relations for one in self), pairs, partial(tag_label, relations))

    def _repr_html_(self) -> str:
        return self._mentions._repr_html_() + self._pairs._repr_html_()


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
    ...     RelationSentence(words, [(0, 1), (2, 3)], kinds, known)
    ...     for words, kinds, known in zip(text, types, relations, strict=True)
    ... ]
    >>> extractor = RelationExtractor([argument_types({"Kill": ("Peop", "Peop")})]).fit(labelled)
    >>> [found] = extractor.predict([RelationSentence(["Oswald", "shot", "Kennedy"], [(0, 1), (2, 3)])])
    >>> found.types, found.relations
    (('Peop', 'Peop'), {(0, 1): 'Kill'})
    """

    _codec = _CODEC

    @shows_progress
    def fit(
        self,
        X: Iterable[RelationSentence],
        y: Sequence[Any] | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Any = None,
    ) -> RelationExtractor:
        """Train on sentences whose mentions are known.

        Parameters
        ----------
        X : iterable of RelationSentence
            With all labels, some, or none.
        y : sequence of (mapping of pairs to relations, RelationSentence, or None), optional
            In place of the labels of X: the relations of a sentence, as ``RelationSentence.relations`` has them, or the
            same sentence, whose types and relations are taken; None where relations are not known. By default the
            sentences have their own labels.
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
        check_parameters(self)
        sentences = read_sentences(X, y)
        n = len(sentences)
        counts = row_weights(sample_weight, n, "sentence")
        present = counts > 0
        named = row_columns((columns,), n, "RelationExtractor")
        names = _names(self, sentences)
        _check_constraints(self.constraints, names, named)
        data, indexes = extraction.encode_sentences(sentences, min_count=self.min_count)
        labels = {
            "mention": _numbers((kind for one in sentences for kind in one.types), names["mention"], "type"),
            "pair": _numbers(_relations(sentences, self.no_relation), names["pair"], "relation"),
        }
        known = np.ones(n, np.bool_)
        for key, owner in data.owners.items():
            known[owner[labels[key] < 0]] = False
        if not all((known & present)[owner].any() for owner in data.owners.values()):
            raise InvalidInputError(
                f"sentences must hold one with two mentions whose types and relations are all known, got none in {n}; "
                "label some"
            )
        first, members = None, data.members
        if self.type_features:
            first, features = extraction.learn_first_classifiers(
                partial(_make_member, self), names, data, indexes, sentences, labels, counts,
                related=self.relation_features,
            )  # fmt: skip
            members["pair"] = replace(members["pair"], features=features)
        n_labels = {key: len(names[key]) for key in names}
        for key, numbers in labels.items():
            members[key] = replace(members[key], labels=extraction.labels_of(numbers, n_labels[key]))
        model = _make_model(self, names, {key: one.features.n_features for key, one in members.items()})
        learns = self.unlabelled_weight > 0 and bool((~known & present).any())
        owner = data.owners["pair"]
        counted = known[owner]
        bounds = _count_constraints(self.count_margin, names["pair"], labels["pair"][counted], counts[owner[counted]])
        rules = [*flatten(self.constraints), *bounds]
        several = [one for one in rules if not _is_inside(one)]
        # Labelled sentences stay with those that constraints over several sentences tie them to.
        tied, weights = known & bool(several), counts * np.where(known, 1.0, self.unlabelled_weight)
        cut = partial(
            loglinear.build_joint_shards, members, n_labels, weights=weights, columns=named, counts=counts,
            present=present, n_instances=n, n_weights=model.n_weights,
        )  # fmt: skip
        corpus = engine.make_corpus(self, cut(known & ~tied, given=tied))
        labelled = engine.make_corpus(self, cut(known)) if tied.any() else corpus
        corpora = [(member, MemberCorpus(labelled, key)) for key, member in model.members.items()]
        task = engine.Task(
            model,
            corpus,
            model.initial,
            engine.estep_of(self, rules),
            labelled=partial(fit_members, self, model, corpora, goes_on=learns),
            learns=learns,
            unused=several if self.project_at_predict else rules,
        )
        trained = engine.train(self, task)
        self.indexes_, self.first_classifiers_, self.names_ = indexes, first, names
        self.types_, self.relations_ = names["mention"], names["pair"]
        self.model_, self.theta_ = model, trained.params
        settings = {"sentences with all labels": int(known.sum()), "weights": len(self.theta_)}
        engine.record(self, trained, n, settings)
        return self

    def predict(self, X: Iterable[RelationSentence], *, columns: Any = None) -> list[RelationSentence]:
        """The sentences with the types and relations that are found; those that they have are not read.

        Parameters
        ----------
        X, columns
            As in `fit`.

        Returns
        -------
        list of RelationSentence
            In the order of X.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted, sentences = as_fitted(self), read_sentences(X)
        bonus = self.relation_bonus
        if bonus is None:
            bonus = 0.0 if self.first_classifiers_ is None else self.first_classifiers_.bonus
        labelled = RelationSentences()
        inferred = fitted._infer(sentences, columns, best=self.decode == "viterbi", bonus=bonus)
        for sentence, (types, relations) in zip(sentences, inferred, strict=True):
            chosen = zip(sentence.pairs, relations.argmax(axis=1).tolist(), strict=True)
            pairs = {pair: self.relations_[number] for pair, number in chosen if number}
            names = tuple(self.types_[number] for number in types.argmax(axis=1).tolist())
            labelled.append(replace(sentence, types=names, relations=pairs))
        return labelled

    def predict_proba(self, X: Iterable[RelationSentence], *, columns: Any = None) -> list[RelationPosteriors]:
        """Posterior probabilities of types and relations, in the order of ``types_`` and ``relations_``.

        Under the constraints inside sentences if ``project_at_predict``, at the last gamma of training.

        Parameters
        ----------
        X, columns
            As in `fit`.

        Returns
        -------
        list of RelationPosteriors
            For every sentence ``types``, shape (n_mentions, n_types), and ``relations``, shape (n_pairs, n_relations),
            the latter in the order of ``RelationSentence.pairs``; in [0, 1], rows sum to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        fitted, sentences = as_fitted(self), read_sentences(X)
        posteriors = fitted._infer(sentences, columns, best=False)
        return PosteriorsOfRelations(posteriors, sentences, fitted.types_, fitted.relations_)

    def score(self, X: Iterable[RelationSentence], y: Sequence[Any] | None = None, *, columns: Any = None) -> float:
        """F1 of the relations that `predict` finds, from 0 to 1; `spectrem.metrics.relation_scores` has others.

        Parameters
        ----------
        X, y, columns
            As in `fit`. Pairs whose relation is not known are left out.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        InvalidInputError
            If neither a sentence nor a prediction has a relation.
        """
        gold = read_sentences(X, y)
        f1 = relation_scores(self.predict(gold, columns=columns), gold).relations.total.f1
        if math.isnan(f1):
            raise InvalidInputError("sentences must hold a relation to be scored, got none; label some")
        return f1

    def _infer(
        self, sentences: Sequence[RelationSentence], columns: Any, *, best: bool, bonus: float = 0.0
    ) -> list[RelationPosteriors]:
        """Posteriors of new sentences, or indicators of their best labels, under the constraints that they must meet.

        ``bonus``, nats, is added to the scores of relations.
        """
        data, _ = extraction.encode_sentences(sentences, self.indexes_)
        members, theta, n_labels = data.members, self.theta_, {key: len(names) for key, names in self.names_.items()}
        if self.first_classifiers_ is not None:
            members["pair"] = replace(members["pair"], features=self.first_classifiers_.describe(data))
        if bonus:
            theta = theta.copy()
            weights = self.model_.split(theta)["pair"].reshape(-1, n_labels["pair"])
            # every pair has one of these two features
            weights[[self.indexes_["pair"].numbers[sign] for sign in "<>"], 1:] += bonus
        named = row_columns((columns,), len(sentences), "RelationExtractor")
        rules = []
        if engine.projects(self):
            _check_constraints(self.constraints, self.names_, {})
            rules = [one for one in flatten(self.constraints) if _is_inside(one)]
        shards = loglinear.build_joint_shards(members, n_labels, columns=named, n_instances=len(sentences))
        corpus, gamma = engine.make_corpus(self, shards), -np.inf if best else self.gamma_
        posteriors = engine.projected(self, self.model_, theta, corpus, rules, gamma)
        tables = loglinear.member_tables(shards, members, posteriors)
        sizes = {key: np.bincount(owner, minlength=len(sentences)) for key, owner in data.owners.items()}
        pieces = (PerSentence.cut(tables[key], sizes[key]) for key in members)
        return [RelationPosteriors(*tables) for tables in zip(*pieces, strict=True)]


def read_sentences(X: Any, y: Any = None) -> list[RelationSentence]:
    """A list of sentences, with the labels of ``y`` if it is given.

    Raises
    ------
    InvalidInputError
        If something else is among them, or ``y`` does not fit them.
    """
    single = isinstance(X, RelationSentence) or not hasattr(X, "__iter__")
    sentences = [X] if single else list(X)
    for number, one in enumerate(sentences):
        if not isinstance(one, RelationSentence):
            raise InvalidInputError(
                f"sentences must be RelationSentence, got {quoted(one)} for sentence {number}; make them of words and "
                "mentions, or read them with spectrem.data.read_relations"
            )
    if y is None:
        return sentences
    labels = list(y) if hasattr(y, "__iter__") else [y]
    if len(labels) != len(sentences):
        raise InvalidInputError(
            f"y must have one entry per sentence ({len(sentences)}), got {len(labels)}; use None for sentences whose "
            "relations are not known"
        )
    return [_labelled(*both, number) for number, both in enumerate(zip(sentences, labels, strict=True))]


def _labelled(sentence: RelationSentence, label: Any, number: int) -> RelationSentence:
    """A sentence with its entry of ``y``."""
    if isinstance(label, RelationSentence):
        if label.mentions != sentence.mentions:
            raise InvalidInputError(
                f"y must have the mentions of X, got others for sentence {number}; give the same sentences"
            )
        return replace(sentence, types=label.types, relations=label.relations)
    if label is None or isinstance(label, Mapping):
        return replace(sentence, relations=label)
    raise InvalidInputError(
        f"y must hold a mapping of pairs of mentions to relations, a RelationSentence or None for every sentence, got "
        f"{quoted(label)} for sentence {number}; weights of sentences are sample_weight"
    )


def _make_member(settings: Any, n_features: int, names: Sequence[str]) -> loglinear.LogLinearModel:
    """The model of mentions or of pairs of a RelationExtractor."""
    prior, optimiser = loglinear.WeightPrior(1.0 / settings.C), loglinear.Optimiser(settings.m_steps, settings.m_tol)
    support = loglinear.Support(n_features, len(names))
    return loglinear.LogLinearModel(support, prior=prior, optimiser=optimiser, names=list(names))


def _make_model(
    settings: Any, names: Mapping[str, Sequence[str]], n_features: Mapping[str, int]
) -> loglinear.JointModel:
    """The model of a RelationExtractor with so many features of mentions and of pairs."""
    members = {key: _make_member(settings, n_features[key], names[key]) for key in _LABELS}
    return loglinear.JointModel(members, "kind", "sentence", labels=_LABELS)


def _is_inside(constraint: Any) -> bool:
    """Whether a constraint of the language holds inside every sentence by itself."""
    return isinstance(constraint, Constraint) and "sentence" in constraint.groups


def _check_constraints(constraints: Any, names: Mapping[str, Sequence[str]], columns: Mapping[str, NDArray]) -> None:
    """Raise `InvalidInputError` if a constraint names a type, relation or value of a column that does not exist."""
    check_values(constraints, "kind", list(names))
    for key, label in _LABELS.items():
        check_values(constraints, label, names[key])
    check_columns(constraints, columns)


def _names(settings: Any, sentences: Sequence[RelationSentence]) -> dict[str, tuple[str, ...]]:
    """All types of mentions, and all relations of pairs, of which the first is that of pairs that have none."""
    types, relations = settings.types, settings.relations
    if types is None:
        types = sorted({kind for one in sentences for kind in one.types if kind is not None})
    if relations is None:
        relations = sorted({name for one in sentences for name in (one.relations or {}).values() if name is not None})
    if not types or not set(relations) - {settings.no_relation}:
        raise InvalidInputError(
            f"sentences must hold a type and a relation, got {list(types)} and {list(relations)}; label some, or list "
            "all in types and relations"
        )
    others = (name for name in relations if name != settings.no_relation)
    return {"mention": tuple(types), "pair": (settings.no_relation, *others)}


def _relations(sentences: Iterable[RelationSentence], no_relation: str) -> Iterable[str | None]:
    """The relation of every pair, None where it is not known."""
    for one in sentences:
        yield from (None if one.relations is None else one.relations.get(pair, no_relation) for pair in one.pairs)


def _numbers(values: Iterable[str | None], names: Sequence[str], what: str) -> Ints:
    """The number of every label, -1 where it is not known.

    Raises
    ------
    InvalidInputError
        If a label is not among the names.
    """
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(names)} | {None: -1}
    try:
        return np.array([numbers[value] for value in values], np.int64)
    except KeyError as error:
        raise InvalidInputError(
            f"{what}s must be those of all labels, {', '.join(names)}, got {quoted(error.args[0])}; list it in {what}s"
        ) from None


def _count_constraints(
    margin: float | None, names: Sequence[str], relations: Ints, weights: Floats
) -> list[Constraint]:
    """Bounds on the expected number of pairs with every relation, by its share of the labelled pairs.

    ``relations`` and ``weights`` are those of the labelled pairs.
    """
    if margin is None:
        return []
    counts, pairs = np.bincount(relations, weights, len(names)), E.count(part("kind") == "pair")
    shares = counts / max(counts.sum(), np.finfo(float).tiny)
    return [
        E[part("relation") == name]
        .between(float((1 - margin) * share) * pairs, float((1 + margin) * share) * pairs)
        .named(f"number of {name}")
        for name, share in zip(names[1:], shares[1:].tolist(), strict=True)
        if share > 0
    ]
