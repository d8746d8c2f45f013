"""The protocol of models and of compiled E-steps, and access to the optional methods of models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Bools, Floats
from spectrem.corpus import Corpus
from spectrem.models.estep import EStepResult
from spectrem.structures import Parts, Structure

Params = TypeVar("Params")
Stats = TypeVar("Stats")
Params_contra = TypeVar("Params_contra", contravariant=True)
Shard_contra = TypeVar("Shard_contra", contravariant=True)


class Model(Protocol[Params, Stats, Shard_contra]):
    """``p_theta``: a frozen value that pickles, so that its work can go to where a shard lives.

    These four methods are all that a model must have. The following ones are optional:

    * ``log_prior(params) -> float``: log-density of the parameters (nats, up to a constant), which the M-step adds to
      the expected log-probability; 0 without it.
    * ``log_normaliser(params, shard) -> float``: of a discriminative model, the weighted sum over instances of the log
      of the sum of ``exp(score)`` over *all* structures, labelled instances included; 0 without it, for scores that are
      log-probabilities.
    * ``is_free(shard) -> bool``: whether nothing restricts the structures of a shard, so that at gamma = 1 the value of
      the E-step without constraints is the log-normaliser, which is not computed a second time.
    * ``initial_stats(params)``: statistics, few in number, of which the M-step makes about these parameters; `Stepwise`
      begins with them. Without it, with those of the first batch, which suits models whose every parameter it touches.
    * ``last_m_step(params, stats, corpus)``: takes the place of ``m_step`` in the last iteration, for parameters that
      are good for decoding but not for another E-step.
    * ``small_part(params)``: parameters without the large tables that ``m_step`` does not read, so that `Stepwise` can
      let go of these before it makes new ones.
    * ``weights(shard)``: of every instance, shape (n_instances,), at least 0; 1 without it.
    * ``counts(shard)``: how often every instance counts in constraints over several, shape (n_instances,), or None,
      where by its weight. Of instances whose structure is not given, the weight is this times the ``weight`` of the
      `EStep`; in a shard with shared factors, all are such, or all are known.
    * ``columns(shard)``: for constraints beside the structure's own, a mapping of name -> a value per part, per
      instance or per occurrence. One with the name of a column of the structure takes its place.
    * ``distributions(shard, marginals)``: the posteriors of labels, or of what else users ask for, as a table with a
      row for every choice, or as a flat array of a value for every arc or span.
    * ``is_known(shard) -> bool``: whether the shard's structures are given; constraints inside instances do not
      apply to such shards.
    * ``given(shard)``: a mask of the instances whose structures are given among others whose are not, shape
      (n_instances,), bool; constraints inside instances do not apply to these.

    Without the methods ``weights``, ``counts``, ``is_known`` and ``given``, the attributes ``weights``, ``counts``,
    ``known`` and ``given`` of the shard are read, if it has them.

    Three more are for parameters that are too large to be sent to every machine of a cluster, where every shard then
    gets only those that it needs. A `Kernel` has them in place of its model's.

    * ``needs(shard)``: which parameters the E-step of the shard reads, such as their numbers; a static method, as it is
      sent alone to where the shard lives.
    * ``restrict(params, needs) -> (model, params)``: a smaller model, or kernel, and parameters under which the E-step
      of that shard has the same bits. Small, as they are sent for every shard in every E-step.
    * ``place(stats, needs) -> stats``: statistics of the whole from those of the restricted model; without it they are
      the same.
    """

    def structure(self, shard: Shard_contra, /) -> Structure:
        """The latent structures of the shard: their shapes, which parameters do not change.

        Parameters
        ----------
        shard
            Of the model's own type.

        Returns
        -------
        Structure
        """
        ...

    def scores(self, params: Params, shard: Shard_contra, /) -> Parts:
        """Scores of the parts of `structure`, nats; -inf for what is impossible.

        Parameters
        ----------
        params
            Parameters of the model.
        shard
            Of the model's own type.

        Returns
        -------
        Parts
            Nats.
        """
        ...

    def gather(self, params: Params, shard: Shard_contra, marginals: Parts, /) -> Stats:
        """Expected statistics: values with ``a + b`` and ``number * a``.

        Those of shared factors come weighted, those of unary parts do not.

        Parameters
        ----------
        params
            Parameters of the model.
        shard
            Of the model's own type.
        marginals : Parts
            Posteriors in [0, 1]; those of shared factors summed over instances, times their weights.

        Returns
        -------
        object
            Statistics.
        """
        ...

    def m_step(self, params: Params, stats: Stats, corpus: Corpus, /) -> Params:
        """Parameters that do not lower the expected log-probability plus the log-prior.

        ``stats`` are not read afterwards: their memory may become that of the new parameters. ``params`` stay as they
        are. ``corpus`` holds the shards: log-linear models maximise by ``corpus.sum`` of values and gradients.

        Parameters
        ----------
        params
            Those of the E-step.
        stats
            The statistics of the whole corpus.
        corpus : Corpus
            The shards.

        Returns
        -------
        object
            New parameters, of the type of ``params``.
        """
        ...


class Kernel(Protocol[Params_contra, Stats]):
    """A compiled E-step, which replaces scores, projection and statistics of a shard; a frozen value that pickles.

    A test compares the results of every kernel with those of the general E-step.
    """

    def prepare(self, params: Params_contra, gamma: float, /) -> Callable[[Any], EStepResult[Stats]]:
        """Return the function from a shard to its statistics; what is the same for all shards is computed here.

        Parameters
        ----------
        params
            Parameters of the model.
        gamma : float
            That of the iteration, in a range that the kernel says.

        Returns
        -------
        callable
            From a shard to an ``EStepResult``.
        """
        ...


class Restricted(Sequence[tuple[Any, Any]]):
    """For every shard the model, or kernel, and the parameters that it needs, made when they are asked for."""

    def __init__(self, owner: Any, params: Any, needs: Sequence[Any]) -> None:
        self._owner, self._params, self._needs = owner, params, needs

    def __len__(self) -> int:
        return len(self._needs)

    def __getitem__(self, k: Any) -> Any:
        return self._owner.restrict(self._params, self._needs[k])

    def placed(self, results: Iterable[EStepResult[Any]]) -> Iterator[EStepResult[Any]]:
        """The results of the E-steps of all shards, each with statistics of the whole."""
        place = getattr(self._owner, "place", None)
        for result, needs in zip(results, self._needs, strict=True):
            yield result if place is None else replace(result, stats=place(result.stats, needs))


def weights_of(model: Any, shard: Any, structure: Structure) -> Floats:
    """Weight of every instance, shape (n_instances,)."""
    weights = asked(getattr(model, "weights", None), shard, "weights")
    return np.ones(structure.n_instances) if weights is None else weights


def counts_of(model: Any, shard: Any) -> Floats | None:
    """How often every instance counts in constraints, shape (n_instances,); None where by its weight."""
    return asked(getattr(model, "counts", None), shard, "counts")


def columns_of(model: Any, shard: Any) -> Mapping[str, ArrayLike]:
    """Columns that constraints may refer to beside the structure's own."""
    return model.columns(shard) if hasattr(model, "columns") else {}


def is_known(model: Any, shard: Any) -> bool:
    """Whether the structures of a shard are given."""
    return bool(asked(getattr(model, "is_known", None), shard, "known"))


def given_of(model: Any, shard: Any) -> Bools | None:
    """A mask of the instances of a shard whose structures are given, shape (n_instances,); None where none is."""
    return asked(getattr(model, "given", None), shard, "given")


def asked(method: Callable[[Any], Any] | None, shard: Any, attribute: str) -> Any:
    """The result of a method of the model for a shard; without the method an attribute of the shard, else None."""
    return getattr(shard, attribute, None) if method is None else method(shard)


def log_normaliser(model: Any, params: Any, shard: Any) -> float:
    """Log of the sum over all structures, weighted and summed over the shard; 0 for generative models."""
    return float(model.log_normaliser(params, shard)) if hasattr(model, "log_normaliser") else 0.0


def log_prior(model: Any, params: Any) -> float:
    """Log-density of the parameters, nats, up to a constant."""
    return float(model.log_prior(params)) if hasattr(model, "log_prior") else 0.0
