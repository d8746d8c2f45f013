"""A tagger of a new kind, as somebody would add it: a maximum-entropy Markov model with all that others have.

Constraints, homes, checkpoints, reports, saved files, scikit-learn's conventions and options of commands come from the
engine, the codec and the declarations of parameters.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

from spectrem._arrays import Floats, Ints
from spectrem.constraints import check_columns
from spectrem.corpus import Corpus
from spectrem.data.features import FeatureIndex
from spectrem.estimators import engine, storage
from spectrem.estimators.conventions import Estimator, PerSentence, as_fitted, row_weights
from spectrem.estimators.crf.crf_tagger import read_tokens
from spectrem.estimators.declare import check_parameters, choice, count, documented, given, number, switch
from spectrem.estimators.sentences import Tag, check_tag_values, check_tags, read_labels, tag_names
from spectrem.estimators.shared_parameters import MODEL, TRAINING, CorpusParameters
from spectrem.exceptions import InvalidInputError
from spectrem.models.loglinear import LogLinearShard, build_shards
from spectrem.structures import EdgeChain, Parts


@dataclass(eq=False, repr=False)
class MarkovParameters(CorpusParameters):
    """The parameters of `MarkovTagger`.

    Parameters
    ----------
    features : {"tokens", "words", "chunking", "words+tags"}
        What tokens are, as for `spectrem.CRFTagger`.
    tags : sequence of str or int, optional
        By default all in ``y``, sorted.
    min_count : int
        Features that occur less often in training are left out.
    C : float
        Variance of the Gaussian prior of weights, above 0.
    unlabelled_weight : float
        How much a sentence counts whose labels are missing or partial.
    decode : {"viterbi", "posterior"}
        "viterbi": the most probable sequence of tags; "posterior": the most probable tag of each token.
    project_at_predict : bool
        Whether new sentences meet the constraints, too.
    dual_steps : int
        Steps per iteration on the multipliers of constraints over the corpus; 0 solves them every time.
    """

    features: Literal["tokens", "words", "chunking", "words+tags"] = choice(
        "words", "tokens", "words", "chunking", "words+tags", group=MODEL, metavar="NAME"
    )
    _: KW_ONLY
    tags: Any = given(None)
    min_count: int = count(1, group=MODEL)
    C: float = number(1.0, open=True, group=MODEL)
    unlabelled_weight: float = number(1.0, group=TRAINING)
    decode: Literal["viterbi", "posterior"] = choice("viterbi", "viterbi", "posterior", group=MODEL, metavar="WAY")
    project_at_predict: bool = switch(False, group=MODEL)
    dual_steps: int = count(8, 0, group=TRAINING)


class Shares(dict[int, Floats]):
    """The posteriors of the moves of every shard, by the number of its first sentence: statistics that add up."""

    def __add__(self, other: Shares) -> Shares:
        return Shares({**self, **other})

    def __rmul__(self, factor: float) -> Shares:
        return Shares({key: factor * table for key, table in self.items()})


@dataclass(frozen=True, eq=False)
class MarkovModel:
    """p(tag | tag before, token) in proportion to exp(weights[features, tag] + weights[tag before, tag])."""

    n_features: int
    tags: tuple[Tag, ...]
    variance: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_features + len(self.tags) + 1, len(self.tags)

    def structure(self, shard: LogLinearShard) -> EdgeChain:
        allowed = None if shard.labels is None else (shard.labels.offsets, shard.labels.labels)
        return EdgeChain(shard.lengths, len(self.tags), allowed)

    def table(self, theta: Floats, shard: LogLinearShard) -> Floats:
        """Scores of all moves to every token, shape (n_tokens, n_tags + 1, n_tags); those of first tokens last."""
        weights = theta.reshape(self.shape)
        tokens = np.asarray(shard.features.matrix @ weights[: self.n_features])
        return tokens[:, None, :] + weights[self.n_features :]

    def scores(self, theta: Floats, shard: LogLinearShard) -> Parts:
        zeros = np.zeros((len(self.tags),) * 2)
        return Parts(log_softmax(self.table(theta, shard), axis=2)[self._places(shard)], (zeros,))

    def gather(self, theta: Floats, shard: LogLinearShard, marginals: Parts) -> Shares:
        shares = np.zeros((shard.features.n_choices, len(self.tags) + 1, len(self.tags)))
        shares[self._places(shard)] = marginals.unary
        shares *= np.repeat(shard.weights, shard.lengths)[:, None, None]
        return Shares({int(shard.instances[0]): shares}) if len(shard.instances) else Shares()

    def m_step(self, theta: Floats, stats: Shares, corpus: Corpus) -> Floats:
        def loss(at: Floats) -> tuple[float, Floats]:
            found = corpus.sum(_loss, self, at, stats)
            return found[0] - self.log_prior(at), found[1:] + at / self.variance

        return minimize(loss, theta, jac=True, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-6}).x

    def log_prior(self, theta: Floats) -> float:
        return -float(theta @ theta) / (2 * self.variance)

    def columns(self, shard: LogLinearShard) -> dict[str, Any]:
        names, own = np.array(tag_names(self.tags)), self.structure(shard).columns
        occurrence, before = own["occurrence"].astype(np.int64), own["previous"]
        words = {name: np.asarray(values)[occurrence] for name, values in shard.columns.items()}
        previous = before if names.dtype.kind in "iu" else [None if np.isnan(k) else names[int(k)] for k in before]
        return {"sentence": shard.instances, "tag": names[own["tag"].astype(int)], "previous": previous, **words}

    def distributions(self, shard: LogLinearShard, marginals: Parts) -> Floats:
        return self.gather(np.zeros(0), shard, marginals)[int(shard.instances[0])].sum(axis=1)

    def _places(self, shard: LogLinearShard) -> tuple[Ints, Ints, Ints]:
        own, k = self.structure(shard).columns, len(self.tags)
        before = np.where(np.isnan(own["previous"]), k, own["previous"]).astype(np.int64)
        return own["occurrence"].astype(np.int64), before, own["tag"].astype(np.int64)


def _loss(shard: LogLinearShard, model: MarkovModel, theta: Floats, shares: Shares) -> Floats:
    """The expected cost of the tags of a shard, nats, and its gradient."""
    table, own = model.table(theta, shard), shares[int(shard.instances[0])]
    mass = own.sum(axis=2, keepdims=True)
    gradient = mass * np.exp(log_softmax(table, axis=2)) - own
    by_feature = shard.features.matrix.T @ gradient.sum(axis=1)
    value = np.sum(mass[..., 0] * logsumexp(table, axis=2)) - np.sum(own * table)
    return np.concatenate([[value], np.asarray(by_feature).ravel(), gradient.sum(axis=0).ravel()])


def _write(tagger: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    return {"tags": list(tagger.tags_)}, {
        "features": storage.pack_names(tagger.features_.names),
        "theta": tagger.theta_,
    }


def _read(tagger: Any, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    index, tags = FeatureIndex(storage.unpack_names(arrays["features"], "features")), check_tags(values["tags"])
    model = MarkovModel(len(index), tags, tagger.C)
    _CODEC.check_arrays(arrays, {"theta": (int(np.prod(model.shape)),)})
    tagger.set_params(tags=list(tags))
    tagger.features_, tagger.tags_, tagger.model_, tagger.theta_ = index, tags, model, arrays["theta"]


_CODEC = storage.Codec(
    kind="MarkovTagger", write=_write, read=_read, apart=("tags",),
    members={"features": storage.TEXT, "theta": storage.Member("f8", 1, storage.finite)},
)  # fmt: skip


@documented
@dataclass(eq=False, repr=False)
class MarkovTagger(storage.Saved, MarkovParameters, Estimator):
    """Tag tokens by a maximum-entropy Markov model.

    Attributes
    ----------
    tags_ : tuple of str or int
    theta_ : ndarray of shape (n_weights,)
    """

    _codec = _CODEC

    def fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, columns: Any = None
    ) -> MarkovTagger:
        """Train on sentences."""
        check_parameters(self)
        text, index = read_tokens(self, X, None, columns, fitted=False)
        labels = read_labels([None] * len(text.lengths) if y is None else y, text.lengths, self.tags)
        tags, known = check_tags(self.tags) if self.tags else labels.tags, labels.known()
        if index is None or not tags:
            raise InvalidInputError("X must be sentences of words or features, and y or tags say which tags there are")
        check_tag_values(self.constraints, tags, ("tag", "label", "previous"))
        check_columns(self.constraints, text.columns)
        weights = row_weights(sample_weight, len(text.lengths), "sentence") * np.where(
            known, 1.0, self.unlabelled_weight
        )
        shards = build_shards(text.features, text.lengths, labels.numbered(tags), known, weights, text.columns)
        model, corpus = MarkovModel(len(index), tags, self.C), engine.make_corpus(self, shards)
        start = partial(np.zeros, int(np.prod(model.shape)))
        labelled = partial(engine.learn_labels, model, corpus, start()) if known.any() else None
        learns = bool((~known & (weights > 0)).any())
        task = engine.Task(model, corpus, start, engine.estep_of(self), labelled=labelled, learns=learns)
        trained = engine.train(self, task)
        self.features_, self.tags_, self.model_, self.theta_ = index, tags, model, trained.params
        engine.record(self, trained, len(text.lengths), {"tags": len(tags)})
        return self

    def predict(self, X: Any, *, columns: Any = None) -> list[list[Tag]]:
        """Tags of every token."""
        new = self._encoded(X, columns)
        return PerSentence.cut(np.array(self.tags_, object)[new.structures(_states, "sequences")].tolist(), new.lengths)

    def predict_proba(self, X: Any, *, columns: Any = None) -> list[Floats]:
        """Posterior probabilities of tags, an array of shape (n_tokens, n_tags) for each sentence."""
        return list(self._encoded(X, columns).tables())

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The share of the tokens with a label whose tag `predict` finds."""
        predicted = self.predict(X)
        sizes = np.array([len(sentence) for sentence in predicted], np.int64)
        return read_labels(y, sizes, self.tags_).score(predicted, sample_weight, self.tags_)

    def _encoded(self, X: Any, columns: Any) -> engine.NewSentences:
        text, _ = read_tokens(as_fitted(self), X, None, columns, fitted=True)
        shards = build_shards(text.features, text.lengths, columns=text.columns)
        return engine.NewSentences(self, self.model_, self.theta_, shards, text.lengths)


def _states(model: MarkovModel, shard: LogLinearShard, marginals: Parts) -> Ints:
    return model.distributions(shard, marginals).argmax(axis=1)
