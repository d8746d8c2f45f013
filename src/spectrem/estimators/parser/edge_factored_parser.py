"""EdgeFactoredParser: dependency trees from labelled, partly labelled and raw sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats, Ints
from spectrem._damage import DamageError
from spectrem._html import MOST_SHOWN
from spectrem._validate import as_array, as_generator
from spectrem.data import UNKNOWN_HEAD, ParsedSentence
from spectrem.data.treebank import Trees, check_heads, check_texts
from spectrem.estimators import engine, storage
from spectrem.estimators.conventions import Estimator, PerSentence, check_fitted, row_weights
from spectrem.estimators.declare import check_parameters, documented
from spectrem.estimators.labelled import fit_labelled
from spectrem.estimators.parser.parameters import ParserParameters
from spectrem.estimators.progress import shows_progress
from spectrem.estimators.sentences import (
    Crossing,
    check_single_root,
    check_tree_values,
    heads_per_sentence,
    read_sentence_columns,
)
from spectrem.estimators.shared_parameters import as_sequence
from spectrem.estimators.storage import TEXT, Codec, Member, Saved, finite
from spectrem.exceptions import InvalidInputError, quoted
from spectrem.learning import Record, SmallSteps, Step, run_online
from spectrem.metrics import not_punctuation
from spectrem.models import parsing
from spectrem.models.loglinear import Optimiser, WeightPrior
from spectrem.models.loglinear.optimise import fit_known
from spectrem.models.parsing import (
    MISSING,
    N_FEATURES,
    EdgeFactoredModel,
    ParsingShard,
    ParsingText,
    RelationModel,
    Table,
    TokenAtoms,
    relation_model,
    relation_shards,
)
from spectrem.models.shards import Columns
from spectrem.reports import report_posed
from spectrem.structures import NonProjectiveTrees, Parts, ProjectiveTrees

# How far the probabilities of the heads of a word may be from 1 together.
_ROUNDING = 1e-6
# Columns of words that hold tags, those that sentences have, and all that constraints have already.
_TAGS = ("upos", "xpos", "tag")
_WORDS = ("form", *_TAGS)
_TAKEN = (
    "labelled",
    *_WORDS,
    *(f"{end}_{name}" for end in ("head", "dependent") for name in _WORDS),
    *ProjectiveTrees([0]).columns,
)


def _write(parser: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    forms = tuple(sorted(parser.atoms_.frequent))
    places = np.flatnonzero(parser.theta_)
    values = {"n_forms": len(forms), "coarse": parser.atoms_.coarse, "fine": parser.atoms_.fine}
    arrays: dict[str, NDArray[Any]] = {"forms": storage.pack_words(forms), "places": places.astype(np.int32)}
    arrays["theta"] = parser.theta_[places].astype(np.float32)
    if parser.relations_ is not None:
        values["relations"] = list(parser.relations_.names)
        arrays |= storage.write_pairs(parser.relations_.model.support, ("relation_features", "relations"))
        arrays["relation_theta"] = parser.relations_.theta
    return values, arrays


def _read(parser: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    coarse, fine = values["coarse"], values["fine"]
    if not (isinstance(coarse, bool) and isinstance(fine, bool)):
        raise DamageError("the tags are not said by truth values")
    atoms = TokenAtoms(frozenset(storage.unpack_words(arrays["forms"], int(values["n_forms"]))), coarse, fine)
    model, places = _make_model(parser, atoms), arrays["places"]
    _CODEC.check_arrays(arrays, {"theta": (len(places),)})
    if not storage.increase(places, model.n_weights):
        raise DamageError("places do not fit the table")
    parser.theta_ = np.zeros(model.n_weights, np.float32)
    parser.theta_[places] = arrays["theta"]
    parser.atoms_, parser.model_, parser.relations_ = atoms, model, _read_relations(parser, values, arrays)


def _read_relations(parser: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> RelationModel | None:
    """The classifier of arcs in a file, if there is one."""
    names = values.get("relations")
    if names is None:
        return None
    if not all(isinstance(name, str) for name in names) or not names:
        raise DamageError("relations are not texts")
    support = storage.read_pairs(arrays, ("relation_features", "relations"), N_FEATURES, len(names))
    if support is None:
        raise DamageError("weights of relations do not fit their pairs")
    _CODEC.check_arrays(arrays, {"relation_theta": (support.n_weights,)})
    return RelationModel(tuple(names), relation_model(names, support, parser.C), arrays["relation_theta"])


_CODEC = Codec(
    kind="EdgeFactoredParser",
    members={
        **{"forms": TEXT, "places": Member("i4", 1), "theta": Member("f4", 1, finite)},
        **dict.fromkeys(("relation_features", "relations"), Member("i4", 1)),
        "relation_theta": Member("f8", 1, finite),
    },
    write=_write,
    read=_read,
)


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
    n_skipped_ : int
        Training sentences left out because arcs cross.
    relations_ : RelationModel or None
        The classifier of arcs, where relations were learned.
    history_ : list of Record
        Records of the passes of online learning, of EM, or of steps by gradient; where all sentences have all heads and
        learning is in batch, one record, of the end of training.
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

    _codec = _CODEC

    @shows_progress
    def fit(
        self,
        X: Iterable[ParsedSentence],
        y: Sequence[ArrayLike | None] | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> EdgeFactoredParser:
        """Train on sentences.

        Parameters
        ----------
        X : iterable of ParsedSentence
        y : sequence, optional
            Heads. Per sentence None; the head of every word, counted from 0, -1 for the root, -2 where not known; or a
            matrix of probabilities, [dependent, head], with those of the root on the diagonal. By default the ``heads``
            of the sentences.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.
        columns : mapping of name -> sequence, optional
            More columns that constraints may name: per sentence a value; a sequence of a value
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
        check_parameters(self)
        sentences = read_sentences(X)
        crossing = Crossing(self.crossing)
        known = read_heads(sentences, y, crossing if self.projective else None)
        crossing.warn()
        atoms = TokenAtoms.of(sentences, self.min_count)
        lengths = _lengths(sentences)
        counts = crossing.weights(row_weights(sample_weight, len(sentences), "sentence"))
        free, present = known.supervision == parsing.FREE, (lengths > 0) & (counts > 0)
        if self.single_root:
            check_single_root(known.heads, lengths, present)
        learns = self.unlabelled_weight > 0 and bool((free & present).any())
        any_known = bool((~free & present).any())
        any_head = bool((known.heads >= -1)[np.repeat(present, lengths)].any())
        if not any_known and not learns and (free & present).any():
            raise InvalidInputError(
                "unlabelled_weight must be above 0 where no sentence has all its heads, got 0; raise it, or give trees"
            )
        if not any_known and not (learns and (as_sequence(self.constraints) or any_head)):
            raise InvalidInputError(
                "heads must be known of some word, got none; without heads or constraints nothing says what trees are "
                "like"
            )
        weights = counts * np.where(free, self.unlabelled_weight, 1.0)
        named = read_columns(sentences, columns, _tag_field(atoms) if as_sequence(self.constraints) else None)
        tags = {name: np.unique(named.of_words[name]).tolist() for name in _TAGS if name in named.of_words}
        check_tree_values(self.constraints, tags, named)
        text = ParsingText(
            lengths, atoms.encode(sentences), known.heads, known.supervision, known.shares, weights, named, counts
        )
        text = text.without(~present if learns or as_sequence(self.constraints) else ~present | free)
        model = _make_model(self, atoms)
        train = _train_online if self.learner == "online" else _train_in_batch
        trained = train(self, model, text, any_known, learns)
        self.relations_ = _train_relations(self, sentences, text, counts) if self.relations else None
        self.atoms_, self.model_, self.theta_, self.n_lifted_ = atoms, model, trained.params, crossing.n_lifted
        self.n_skipped_ = len(crossing.skipped)
        settings = {
            "learner": self.learner,
            "weights": model.n_weights,
            "projective": self.projective,
            "heads lifted": crossing.n_lifted,
            "sentences skipped": self.n_skipped_,
        }
        engine.record(self, trained, len(sentences), settings)
        return self

    def predict(self, X: Iterable[ParsedSentence], *, columns: Mapping[str, Any] | None = None) -> list[Ints]:
        """The head of every word, an array of shape (n_words,) for each sentence; -1 is the root.

        Parameters
        ----------
        X : iterable of ParsedSentence
            Their heads are not read.
        columns
            As in `fit`, for ``project_at_predict``.

        Returns
        -------
        list of ndarray of shape (n_words,), int64
            Positions in the sentence, -1 for the root.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._new(self._read(X), columns)
        if engine.projects(self):  # trees are those of posteriors
            new = replace(new, estimator=copy(self).set_params(decode="posterior"))
        return new.heads(_most_expected)

    def predict_proba(self, X: Iterable[ParsedSentence], *, columns: Mapping[str, Any] | None = None) -> list[Floats]:
        """Posterior probabilities of arcs.

        Those of arcs from the root stand on the diagonal; the heads of a word add up to 1.

        Parameters
        ----------
        X, columns
            As in `predict`.

        Returns
        -------
        list of ndarray of shape (n_words, n_words)
            Probabilities in [0, 1], one array per sentence: [dependent, head].

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        new = self._new(self._read(X), columns)
        return new.arcs()

    def parse(self, X: Iterable[ParsedSentence], *, columns: Mapping[str, Any] | None = None) -> list[ParsedSentence]:
        """The sentences with the heads that `predict` finds, and relations where they were learned.

        Heads and relations that they had are replaced.

        Parameters
        ----------
        X, columns
            As in `predict`.

        Returns
        -------
        list of ParsedSentence
            In the order of X.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        sentences = self._read(X)
        heads = self.predict(sentences, columns=columns)
        relations = self.predict_relations(sentences, heads)
        return Trees(
            sentence._replace(heads=array, relations=names if self.relations_ else None)
            for sentence, array, names in zip(sentences, heads, relations, strict=True)
        )

    def predict_relations(
        self, X: Iterable[ParsedSentence], heads: Sequence[ArrayLike] | None = None
    ) -> list[tuple[str, ...]]:
        """The relation of every word to its head; ``_`` where none was learned, or the head is not known.

        Parameters
        ----------
        X : iterable of ParsedSentence
        heads : sequence of array-like of int, optional
            By default those of the sentences.

        Returns
        -------
        list of tuple of str
            A relation per word, sentence by sentence.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidInputError
            If heads are distributions.
        """
        sentences = self._read(X)
        known, lengths = read_heads(sentences, heads), _lengths(sentences)
        if known.shares:
            raise InvalidInputError(
                f"heads must be numbers to have relations, got a matrix for sentence {min(known.shares)}; decide for "
                "heads first"
            )
        names = [MISSING] * len(known.heads)
        if self.relations_ is not None and len(names):
            names = self.relations_.label(lengths, self.atoms_.encode(sentences), known.heads)
        return list(map(tuple, PerSentence.cut(names, lengths)))

    def score(
        self,
        X: Iterable[ParsedSentence],
        y: Sequence[ArrayLike | None] | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        columns: Mapping[str, Any] | None = None,
    ) -> float:
        """The share of words but punctuation (universal tag ``PUNCT``) whose head `predict` finds, from 0 to 1.

        This is the unlabelled attachment score; `spectrem.metrics.attachment_scores` has others.

        Parameters
        ----------
        X, y
            As in `fit`. Words whose head is not known are left out; a distribution counts as right by the probability
            of the head that is found.
        sample_weight : array-like of shape (n_sentences,), optional
            At least 0.
        columns
            As in `predict`.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        InvalidInputError
            If no word is left to score.
        """
        sentences = self._read(X)
        known, lengths = read_heads(sentences, y), _lengths(sentences)
        weights = np.repeat(row_weights(sample_weight, len(sentences), "sentence"), lengths)
        weights *= np.concatenate([np.zeros(0), *not_punctuation([sentence.upos for sentence in sentences])])
        weights *= (known.heads != UNKNOWN_HEAD) | np.repeat(known.supervision == parsing.SHARED, lengths)
        if not weights.any():
            raise InvalidInputError(
                "heads must be known of some word other than punctuation, of weight above 0, to be scored, got none"
            )
        predicted = self.predict(sentences, columns=columns)
        right = PerSentence.cut((np.concatenate(predicted) == known.heads) * 1.0, lengths)
        for number, shares in known.shares.items():
            words = np.arange(lengths[number])
            right[number] = shares[words, np.where(predicted[number] < 0, words, predicted[number])]
        return float(np.average(np.concatenate(right), weights=weights))

    def score_samples(self, X: Iterable[ParsedSentence], y: Sequence[ArrayLike | None] | None = None) -> Floats:
        """log p(heads | words) of every sentence, shape (n_sentences,), nats; of some heads, of all trees with them.

        Parameters
        ----------
        X, y
            As in `fit`, without distributions. Heads are taken as they are: where arcs cross, and trees are projective,
            the probability is 0.

        Returns
        -------
        ndarray of shape (n_sentences,)
            Nats.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        sentences = self._read(X)
        known = read_heads(sentences, y)
        if known.shares:
            raise InvalidInputError(
                f"heads must be numbers to be scored, got a matrix for sentence {min(known.shares)}; decide for heads"
            )
        new = self._new(sentences, heads=known.heads)
        return new.values(_log_probabilities, self.model_, self.theta_)

    def _read(self, X: Iterable[ParsedSentence]) -> list[ParsedSentence]:
        check_fitted(self)
        return read_sentences(X)

    def _new(
        self, sentences: list[ParsedSentence], columns: Mapping[str, Any] | None = None, heads: Ints | None = None
    ) -> engine.NewSentences:
        """New sentences, all of one kind, perhaps with some heads."""
        named = read_columns(sentences, columns, _tag_field(self.atoms_)) if engine.projects(self) else Columns()
        text = ParsingText.raw(_lengths(sentences), self.atoms_.encode(sentences), named)
        shards = (text if heads is None else replace(text, heads=heads)).shards()
        words = [word for sentence in sentences[:MOST_SHOWN] for word in sentence.forms]
        return engine.NewSentences(self, self.model_, self.theta_, shards, text.lengths, words)


def _lengths(sentences: Sequence[ParsedSentence]) -> Ints:
    return np.array([len(sentence.forms) for sentence in sentences], np.int64)


def _make_model(settings: Any, atoms: TokenAtoms) -> EdgeFactoredModel:
    """The model that the settings of a parser describe."""
    return EdgeFactoredModel(
        atoms.fine,
        settings.bits,
        ProjectiveTrees if settings.projective else NonProjectiveTrees,
        settings.single_root,
        WeightPrior(1.0 / settings.C),
        Optimiser(settings.m_steps, settings.m_tol, memory=None),
    )


def _tag_field(atoms: TokenAtoms) -> str:
    """Which tags of sentences constraints call ``tag``."""
    return "upos" if atoms.coarse else "xpos"


def _train_in_batch(
    parser: Any, model: EdgeFactoredModel, text: ParsingText, any_known: bool, learns: bool
) -> engine.Trained:
    """By L-BFGS on the sentences with all heads, then on all, by EM or by gradient."""
    corpus = engine.make_corpus(parser, text.shards())
    labelled = partial(fit_labelled, parser, model, corpus, goes_on=learns) if any_known else None
    task = engine.Task(model, corpus, model.initial, engine.estep_of(parser), labelled=labelled, learns=learns)
    return engine.train(parser, task)


def _train_online(
    parser: Any, model: EdgeFactoredModel, text: ParsingText, any_known: bool, learns: bool
) -> engine.Trained:
    """In small steps on the sentences with all heads, then on all."""
    estep, steps = engine.estep_of(parser), SmallSteps(parser.passes, parser.rate)
    theta: Any = model.initial()
    history: tuple[Record, ...] = ()
    for stage in [text.without(text.supervision == parsing.FREE)] * any_known + [text] * learns:
        batches = stage.batches(parser.batch_size, as_generator(parser.random_state))
        result = run_online(
            model,
            batches,
            theta,
            estep,
            parser.gamma,
            steps,
            random_state=parser.random_state,
            on_iteration=parser.on_iteration,
        )
        theta, history = result.params, history + result.history
    reports: engine.Reports = ((), ())
    if learns and as_sequence(parser.constraints):
        reports = report_posed(result.posed, Step(model, theta, parser.gamma, estep))
    elif not (learns or parser.project_at_predict):
        engine.warn_unused(parser.constraints, at_predict=True)
    return engine.Trained(theta, history, result.status, *reports)


def _train_relations(
    parser: Any, sentences: list[ParsedSentence], text: ParsingText, counts: Floats
) -> RelationModel | None:
    """The classifier of arcs, where relations of words with known heads are given."""
    relations = np.array([name for one in sentences for name in one.relations or (MISSING,) * len(one.forms)], object)
    weights = np.repeat(counts, text.lengths)
    words = np.flatnonzero((text.heads != UNKNOWN_HEAD) & (relations != MISSING) & (weights > 0))
    if not len(words):
        return None
    names, support, shards = relation_shards(
        text.lengths, text.atoms, text.heads, relations[words].tolist(), words, weights
    )
    model = relation_model(names, support, parser.C)
    return RelationModel(names, model, fit_known(model, engine.make_corpus(parser, shards)).point)


def _most_expected(model: EdgeFactoredModel, shard: ParsingShard, marginals: Parts) -> Ints:
    """The heads of all words of a shard in the trees of the largest sums of probabilities."""
    heads: Ints = model.free_structure(shard).decode(Parts(np.maximum(marginals.unary, 0.0)))
    return heads


def _log_probabilities(shard: ParsingShard, model: EdgeFactoredModel, theta: Table) -> Floats:
    """log p(heads | sentence) of every sentence, nats; of heads known in part, of all trees that have them."""
    scores = model.free_scores(theta, shard).unary
    structure = model.free_structure(shard)
    values, _ = structure.smoothed_max(Parts(scores), 1.0)
    return structure.smoothed_max(Parts(model.restricted(shard, scores)), 1.0)[0] - values


# ---- sentences, heads and columns -----------------------------------------------------------------------------------


class Heads(NamedTuple):
    """The heads of all sentences, as far as they are known.

    Attributes
    ----------
    heads : ndarray of shape (n_tokens,), int64
        -2 where not known.
    supervision : ndarray of shape (n_sentences,), int
        FREE, GIVEN or SHARED.
    shares : dict of int -> ndarray of shape (length, length)
    """

    heads: Ints
    supervision: Ints
    shares: dict[int, Floats]


def read_sentences(sentences: Any) -> list[ParsedSentence]:
    """A list of sentences with as many tags as words.

    Raises
    ------
    InvalidInputError
        If something else was given; names the sentence.
    """
    if isinstance(sentences, ParsedSentence | str) or not isinstance(sentences, Iterable):
        raise InvalidInputError(
            f"sentences must be an iterable of ParsedSentence, got {quoted(sentences)}; read_conllu gives a list"
        )
    listed = list(sentences)
    for number, sentence in enumerate(listed):
        if not isinstance(sentence, ParsedSentence):
            raise InvalidInputError(
                f"sentences must be ParsedSentences, got {quoted(sentence)} for sentence {number}; make one as "
                "ParsedSentence(forms, upos, xpos), with '_' where there is no tag"
            )
        check_texts(sentence, number)
        sizes = {len(sentence.forms), len(sentence.upos), len(sentence.xpos)}
        if len(sizes) > 1:
            raise InvalidInputError(
                f"sentence {number} must have one upos and one xpos per word, got {len(sentence.forms)} words, "
                f"{len(sentence.upos)} and {len(sentence.xpos)}; write '_' where there is no tag"
            )
    return listed


def read_heads(sentences: Sequence[ParsedSentence], heads: Any, crossing: Crossing | None = None) -> Heads:
    """Read the heads of sentences.

    Parameters
    ----------
    sentences : sequence of ParsedSentence
    heads : sequence or None
        Per sentence None, heads, or a matrix of probabilities; by default those of the sentences.
    crossing : Crossing, optional
        Settles those that only trees with crossing arcs have; by default they stay.

    Raises
    ------
    InvalidInputError
        Naming the sentence and what is wrong.
    """
    entries = [one.heads for one in sentences] if heads is None else heads_per_sentence(heads, len(sentences))
    numbers, supervision, shares = [], np.zeros(len(sentences), np.int64), {}
    for number, (sentence, entry) in enumerate(zip(sentences, entries, strict=True)):
        n = len(sentence.forms)
        positions = np.full(n, UNKNOWN_HEAD)
        array = None if entry is None else as_array(entry, f"heads of sentence {number}")
        if array is not None and array.ndim == 2:
            shares[number], supervision[number] = _read_shares(number, array, n), parsing.SHARED
        elif array is not None:
            positions = check_heads(array, number, n)
            positions = positions if crossing is None else crossing.without_crossing(positions, number)
            supervision[number] = parsing.FREE if (positions == UNKNOWN_HEAD).any() else parsing.GIVEN
        numbers.append(positions)
    return Heads(np.concatenate([np.zeros(0, np.int64), *numbers]), supervision, shares)


def read_columns(sentences: Sequence[ParsedSentence], columns: Any, tags: str | None) -> Columns:
    """Columns for constraints: those given, and the words and tags of the sentences.

    Parameters
    ----------
    sentences : sequence of ParsedSentence
    columns : mapping of name -> sequence, or None
        As `read_sentence_columns` takes them.
    tags : {"upos", "xpos"} or None
        Which tags are ``tag``. None: only the columns given are made.
    """
    named = read_sentence_columns(columns, _lengths(sentences), _TAKEN)
    if tags is None:
        return named
    words = {
        name: np.array([value for one in sentences for value in getattr(one, field)], np.str_)
        for name, field in zip(_WORDS, ("forms", "upos", "xpos", tags), strict=True)
    }
    return named._replace(of_words={**words, **named.of_words})


def _read_shares(number: int, matrix: NDArray, n: int) -> Floats:
    if matrix.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"heads of sentence {number} must be numbers, or a matrix of probabilities, got {matrix.dtype}; give "
            "numbers"
        )
    array = matrix.astype(np.float64)
    if array.shape != (n, n) or not ((array >= 0) & (array <= 1 + _ROUNDING)).all():
        raise InvalidInputError(
            f"heads of sentence {number} must be probabilities of shape ({n}, {n}), [dependent, head], got shape "
            f"{array.shape} with values from {array.min(initial=0)} to {array.max(initial=0)}"
        )
    off = np.abs(array.sum(axis=1) - 1.0)
    if n and off.max() > _ROUNDING:
        word = int(np.argmax(off))
        raise InvalidInputError(
            f"heads of sentence {number} must be probabilities that add up to 1 for every word, but add up to "
            f"{array[word].sum():.6g} for word {word}; the arc from the root stands on the diagonal"
        )
    return array
