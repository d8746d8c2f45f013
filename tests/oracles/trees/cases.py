"""Random problems over structures of all families, and what the library says of them beside the oracle."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import numpy as np
from families import FAMILIES
from programs import Program, Slack
from rules import draw_rule, rows_of

from spectrem.constraints import compile_constraints
from spectrem.constraints.text import parse_constraint
from spectrem.corpus import Local
from spectrem.exceptions import ConvergenceWarning, InfeasibleConstraintError, InvalidInputError
from spectrem.inference import Status, project_batch
from spectrem.learning import EStep, Step, pose
from spectrem.learning.estep import posterior
from spectrem.structures import Parts

GAMMAS = (-np.inf, 0.0, 0.3, 1.0, 2.0)
SCORES = ("normal", "normal", "ties", "impossible", "1e3", "1e12", "mixed")
NEAR = 2e-6  # of values, relative to the spread of scores, and of rows
CLOSE = 1e-4  # of marginals


@dataclass
class Case:
    """One problem: everything that is drawn from its seed."""

    seed: int
    family: object
    shapes: list
    batch: object
    unary: np.ndarray
    factors: tuple
    rules: list
    weights: np.ndarray
    columns: list  # user's columns of every part, under its identity

    def __str__(self):
        return (
            f"seed {self.seed}: {type(self.family).__name__} {vars(self.family).get('single_root', '')} shapes "
            f"{self.shapes} weights {self.weights.tolist()}\n  " + "\n  ".join(rule.text for rule in self.rules)
        )


def draw(seed, family=None):
    """The case of a seed."""
    rng = np.random.default_rng(seed)
    name = list(FAMILIES)[seed % len(FAMILIES)] if family is None else family
    family = FAMILIES[name](rng)
    shapes = family.shapes(int(rng.integers(1, 4)))
    batch = family.batch(shapes)
    documents = rng.choice(["a", "b"], len(shapes))
    columns = {}
    for identity, owner in zip(batch.identity, batch.owner, strict=True):
        columns[identity] = {
            "x": float(rng.choice([0.0, 1.0, 0.5, -1.0])),
            "doc": str(documents[owner]),
            "kind": [None, "u", "v"][rng.integers(3)],
            "yes": bool(rng.integers(2)),
        }
    give_columns(batch, columns)
    kind = SCORES[rng.integers(len(SCORES))]
    unary = draw_scores(rng, kind, len(batch.parts))
    factors = tuple(draw_scores(rng, kind, shape) for shape in family.factor_shapes)
    n_rules = int(rng.choice([0, 1, 2, 3], p=[0.05, 0.45, 0.35, 0.15]))
    weights = np.ones(len(shapes))
    draw = rng.random()
    if draw < 0.35:
        weights = rng.choice([0.5, 1.0, 2.0, 3.0], len(shapes))
    elif draw < 0.45 and len(shapes) > 1:
        weights = np.where(np.arange(len(shapes)) == rng.integers(len(shapes)), 0.0, 1.0)
    reference = np.zeros(len(batch.parts))
    for structures in batch.structures:
        share = rng.dirichlet(np.full(len(structures), 0.5))
        for p, own in zip(share, structures, strict=True):
            reference[own.taken] += p
    rules = [draw_rule(rng, family, batch, k, weights, reference) for k in range(n_rules)]
    return Case(seed, family, shapes, batch, unary, factors, rules, weights, columns)


def draw_scores(rng, kind, shape):
    values = rng.normal(size=shape) * 1.5
    if kind in ("ties", "mixed") and rng.random() < 0.8:
        values = rng.integers(-1, 2, size=shape).astype(float)
    if kind in ("1e3", "1e12", "mixed"):
        size = {"1e3": 1e3, "1e12": 1e12}.get(kind, 1e3)
        values = np.where(rng.random(shape) < 0.4, size * rng.choice([-1.0, 1.0], size=shape), values)
    if kind in ("impossible", "mixed"):
        values = np.where(rng.random(shape) < 0.15, -np.inf, values)
    return values


def give_columns(batch, columns):
    for part, identity in zip(batch.parts, batch.identity, strict=True):
        part.update(columns[identity])


def extra_columns(batch):
    """The user's columns as arrays, a value per part."""
    names = ("x", "doc", "kind", "yes")
    found = {name: [part[name] for part in batch.parts] for name in names}
    return {name: np.array(v) if name != "kind" else np.array(v, object) for name, v in found.items()}


def scores_of(case, batch, numbers):
    """Scores of the parts of a batch of some of the instances."""
    place = {identity: k for k, identity in enumerate(case.batch.identity)}
    unary = case.unary[[place[identity] for identity in batch.identity]]
    shapes = batch.structure.factor_shapes
    factors = tuple(f[tuple(map(slice, s))].copy() for f, s in zip(case.factors, shapes, strict=True))
    return Parts(unary, factors)


def total(scores, structure):
    """The score of a structure."""
    value = scores.unary[structure.taken].sum()
    for factor, count in zip(scores.factors, structure.counts, strict=True):
        used = count != 0
        value += (factor[used] * count[used]).sum()
    return value


def program_of(case):
    """The oracle's program, or None if an instance has no possible structure.

    Instances of weight 0 have no say in it. What must hold inside them is a program of its own, in ``idle``.
    """
    batch, weights = case.batch, case.weights
    owner, score, members = [], [], []
    scores = Parts(case.unary, case.factors)
    for i, structures in enumerate(batch.structures):
        for structure in structures:
            value = total(scores, structure)
            if value > -np.inf:
                owner.append(i)
                score.append(value)
                members.append(np.bincount(structure.taken, minlength=len(batch.parts)).astype(float))
        if i not in owner[-1:]:
            return None
    rows = [
        row for k, rule in enumerate(case.rules) for row in rows_of(rule, k, batch, weights, case.family.instance_name)
    ]
    listed = np.array(owner), np.array(score), np.array(members)
    program = _program(case, rows, *listed, weights)
    program.idle = [_program(case, rows, *listed, np.arange(len(weights)) == i) for i in np.flatnonzero(weights == 0)]
    return program


def _program(case, rows, owner, score, members, weights):
    """The program of the instances that have a weight; rows of other single instances are left out."""
    heavy = np.flatnonzero(weights)
    alone = len(heavy) == 1 and case.weights[heavy[0]] == 0
    rows = [row for row in rows if row.instance in heavy or (row.instance is None and not alone)]
    slacks = {}
    for j, row in enumerate(rows):
        if case.rules[row.rule].slack:
            slacks.setdefault((row.rule, row.group), []).append(j)
    made = []
    for (rule, _), numbers in slacks.items():
        instance = rows[numbers[0]].instance
        weight = 1.0 if instance is None else float(weights[instance])
        made.append(Slack(*case.rules[rule].slack, np.array(numbers), weight))
    at = np.isin(owner, heavy)
    coefficients = np.array([row.coefficients for row in rows]).reshape(len(rows), len(case.batch.parts))
    bounds, equality = np.array([row.bound for row in rows]), np.array([row.equality for row in rows], bool)
    program = Program(
        np.searchsorted(heavy, owner[at]),
        score[at],
        members[at],
        weights[heavy].astype(float),
        coefficients,
        bounds,
        equality,
        made,
    )
    finite = np.concatenate([case.unary, *(f.ravel() for f in case.factors)])
    program.rows, program.largest = rows, float(np.abs(finite[np.isfinite(finite)]).max(initial=0.0))
    program.heard = np.isin(case.batch.owner, heavy)
    return program


class GivenScores:
    """A model whose scores are given: a shard is a tuple of what the methods hand out."""

    def structure(self, shard):
        return shard["structure"]

    def scores(self, params, shard):
        return shard["scores"]

    def columns(self, shard):
        return shard["columns"]

    def weights(self, shard):
        return shard["weights"]

    def gather(self, params, shard, marginals):
        return Kept({tuple(key): value for key, value in zip(shard["identity"], marginals.unary, strict=True)})


@dataclass
class Kept:
    """Marginals by the identity of their part, as statistics that add up."""

    of: dict

    def __add__(self, other):
        return Kept(self.of | other.of)

    def __rmul__(self, factor):
        return self


def shards_of(case, n_shards):
    shards = []
    for numbers in np.array_split(np.arange(len(case.shapes)), n_shards):
        batch = case.family.batch([case.shapes[i] for i in numbers], numbers.tolist())
        give_columns(batch, case.columns)
        scores = scores_of(case, batch, numbers)
        shards.append(
            {
                "structure": batch.structure,
                "scores": scores,
                "columns": extra_columns(batch),
                "weights": case.weights[numbers],
                "identity": batch.identity,
            }
        )
    return shards


@dataclass
class Answer:
    """What the library says: a value and marginals, or an error; ``warned`` if it says that it is not exact."""

    value: float | None
    unary: np.ndarray | None
    error: str = ""
    refused: str = ""
    warned: bool = False
    certified: bool = True
    primal: float | None = None


def ask(way):
    """Run a way of asking the library, with its warnings and errors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = way()
        except InfeasibleConstraintError as error:
            return Answer(None, None, error=str(error))
        except InvalidInputError as error:
            return Answer(None, None, refused=str(error))
    others = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    assert not others, f"unexpected warning: {others[0].message}"
    answer.warned = bool(caught)
    return answer


def by_batch(case, gamma):
    """The projection of the whole batch."""
    rules = [parse_constraint(rule.text) for rule in case.rules]
    weights = None if (case.weights == 1).all() else case.weights

    def way():
        structure = case.batch.structure
        rows = compile_constraints(rules, structure, extra_columns(case.batch), weights)
        found = project_batch(structure, Parts(case.unary, case.factors), rows, gamma, weights=weights)
        assert found.status < Status.INFEASIBLE
        return Answer(found.dual_value, found.marginals.unary, primal=found.primal_value)

    return ask(way)


def by_shards(case, gamma, n_shards):
    """The E-step over a corpus cut into shards."""
    rules = [parse_constraint(rule.text) for rule in case.rules]
    model, estep = GivenScores(), EStep(rules)

    def way():
        posed = pose(model, Local(shards_of(case, n_shards)), estep)
        found, _ = posed.expect(Step(model, None, gamma, estep))
        unary = np.array([found.stats.of[tuple(identity)] for identity in case.batch.identity])
        return Answer(found.objective, unary)

    return ask(way)


def by_prices(case, gamma, n_shards, dual_steps=100):
    """Posteriors of new text under constraints, as estimators find them with ``project_at_predict``."""
    rules = [parse_constraint(rule.text) for rule in case.rules]
    model, estep = GivenScores(), EStep(rules, dual_steps=dual_steps)

    def way():
        posed = pose(model, Local(shards_of(case, n_shards)), estep)
        corpus, step = posed.at_prices(Step(model, None, gamma, estep))
        kept = {}
        for own, found in zip(corpus.shards, corpus.collect(posterior, step), strict=True):
            kept |= dict(zip(map(tuple, own.shard["identity"]), found.marginals.unary, strict=True))
        return Answer(None, np.array([kept[tuple(identity)] for identity in case.batch.identity]))

    return ask(way)


class MismatchError(AssertionError):
    """A difference between the library and the oracle."""


def check(case, program, gamma, answer, exact=True):
    """Compare an answer with the oracle; returns "agree", "wide" (the oracle is not sure) or "border"."""
    if program is None:
        if gamma <= 0 and "norm 'l2' cannot" in answer.refused:
            return "refused"
        if answer.error and re.search(r"'c\d+'", answer.error):  # other instances cannot meet constraints, either
            return "impossible"
        if "at least one structure possible" not in answer.refused:
            raise MismatchError(f"an instance has no possible structure, and the answer is {answer}")
        return "impossible"
    curved = any(slack.norm == "l2" for slack in program.slacks)
    if answer.refused:
        if gamma <= 0 and ((curved and "l2" in answer.refused) or "gamma must be at least 0 where" in answer.refused):
            return "refused"
        raise MismatchError(f"refused: {answer.refused}")
    missing = max([program.missing(), *(own.missing() for own in program.idle)])
    if 1e-9 < missing < 1e-5:
        return "border"
    whole = program.best_whole() if gamma == -np.inf else None
    if gamma == -np.inf and any(own.best_whole() is None for own in program.idle):
        whole = None
    possible = missing <= 1e-9 and (gamma != -np.inf or whole is not None)
    if answer.error:
        if possible and gamma == -np.inf and not exact and "no choice of whole structures" in answer.error:
            return "not found"  # the search among the structures of several shards is not exhaustive, and says so
        if possible:
            raise MismatchError(f"can be met, and is refused: {answer.error}")
        named = {k for k in range(len(case.rules)) if re.search(rf"'c{k}'", answer.error)}
        if not named:
            raise MismatchError(f"names no constraint: {answer.error}")
        parts = [(own, np.array([row.rule in named for row in own.rows], bool)) for own in (program, *program.idle)]
        if gamma != -np.inf and all(own.missing(only) <= 1e-7 for own, only in parts):
            raise MismatchError(f"the conflict named is none: {answer.error}")
        return "infeasible"
    if not possible:
        if answer.warned and not exact:
            return "infeasible, warned"
        raise MismatchError(f"cannot be met (by {missing:.3g}), and is answered (warned: {answer.warned})")
    return compare(program, gamma, answer, whole, exact)


def compare(program, gamma, answer, whole, exact):
    # linear programs, and the search over several shards at gamma = -inf, are scaled by the largest score
    unary, relative = answer.unary, 1e-12 if gamma == 0 or (gamma == -np.inf and not exact) else 1e-14
    tolerance = NEAR * program.spread + relative * program.largest * program.weights.sum()
    if not np.isfinite(unary).all() or unary.min(initial=0.0) < -1e-9 or unary.max(initial=0.0) > 1 + 1e-9:
        raise MismatchError(f"marginals leave [0, 1]: {unary.min()} to {unary.max()}")
    worst = max(own.cost_of(own.coefficients @ unary)[1] for own in (program, *program.idle))
    size = max(1.0, float(np.abs(program.bounds).max(initial=0.0)))
    # multipliers of 1e12 nats are 1e-4 of a nat apart: no q between is reached, and the scores magnify what it lacks
    blur = 1e-15 * program.largest / gamma if gamma > 0 else 0.0
    if worst > (1e-5 if exact else 1e-3) * size + blur and not answer.warned:
        raise MismatchError(f"rows are violated by {worst:.3g}, without a warning")
    if answer.value is None or (answer.warned and gamma > 0):
        return "warned" if answer.warned else "agree"
    if gamma == -np.inf:
        if np.abs(unary - np.rint(unary)).max(initial=0.0) > 1e-6:
            raise MismatchError("whole structures have marginals between 0 and 1")
        low, high = whole, whole
        if not exact:
            low = -np.inf if answer.warned else low
    elif gamma == 0:
        low = high = program.best_mixture()
    else:
        low, high, q = program.smooth(gamma)
    if not low - tolerance <= answer.value <= high + tolerance:
        raise MismatchError(f"the value is {answer.value!r}, and by the oracle {low!r} to {high!r}")
    room = tolerance * 2 + blur * program.largest * program.weights.sum()
    if answer.primal is not None and not low - room <= answer.primal <= high + room:
        raise MismatchError(f"the primal value is {answer.primal!r}, and by the oracle {low!r} to {high!r}")
    if high - low > 1e-3 * program.spread:
        return "wide"
    if gamma > 0 and q is not None and program.spread < 100:
        expected = (q[:, None] * program.members).sum(axis=0)
        apart = float(np.abs(expected - unary)[program.heard].max(initial=0.0))
        # the entropy is strongly concave: values so near have distributions so near
        room = CLOSE + 3 * np.sqrt(max(high - low, 1e-12) / gamma / program.weights.min())
        room += 2e-14 * program.largest / gamma  # sums of scores of 1e12 nats are known to some 1e-3 of a nat
        if apart > room:
            raise MismatchError(f"a marginal is {apart:.3g} off that of the oracle ({room:.3g} allowed)")
    return "agree"
