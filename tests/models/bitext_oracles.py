"""Small bitexts, random parameters, and the aligners' definitions in plain Python, alignment by alignment."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from spectrem.data import Bitext, Vocabulary
from spectrem.models.alignment import AlignmentModel, AlignmentParameters, DirectionParameters, build_shards

KINDS = ("ibm1", "ibm2", "hmm")
NULL = -1


def make_bitext(lengths, rng, n_source_words=4, n_target_words=5):
    """Random sentence pairs of the given (source, target) lengths; words are v0, v1, ... and w0, w1, ..."""
    sides = []
    for k, n_words in enumerate((n_source_words, n_target_words)):
        own = np.array([pair[k] for pair in lengths], np.int64)
        sides += [
            rng.integers(0, n_words, own.sum()).astype(np.int32),
            np.concatenate([[0], np.cumsum(own)]).astype(np.int64),
        ]
    return Bitext(
        *sides,
        Vocabulary(tuple(f"v{k}" for k in range(n_source_words))),
        Vocabulary(tuple(f"w{k}" for k in range(n_target_words))),
    )


def make_model(kind, table, max_jump=2, **options):
    options = {"jump_pseudo_count": 0.0, "end_pseudo_count": 0.0, **options}
    return AlignmentModel(table, max_jump, chain=kind == "hmm", learn_positions=kind != "ibm1", **options)


def random_parameters(kind, table, rng, max_jump=2, null_probability=0.3):
    def direction(row, n_rows, n_produced):
        raw = rng.uniform(0.05, 1.0, table.n_pairs)
        translation = raw / np.bincount(row, raw, n_rows)[row]
        jump = np.ones(2 * max_jump + 1) if kind == "ibm1" else rng.uniform(0.05, 1.0, 2 * max_jump + 1)
        return DirectionParameters(
            np.append(translation, 1e-12),
            np.append(rng.dirichlet(np.ones(n_produced)), 1e-12),
            jump / jump.sum(),
            rng.dirichlet(np.ones(max_jump + 1)),
            null_probability,
        )

    return AlignmentParameters(
        direction(table.sources, table.n_source_words, table.n_target_words),
        direction(table.targets, table.n_target_words, table.n_source_words),
    )


def make_problem(kind, lengths, seed, *, max_jump=2, null_probability=0.3, weights=None, **options):
    """Table, one shard, model and random parameters."""
    rng = np.random.default_rng(seed)
    bitext = make_bitext(lengths, rng)
    if weights is None:
        weights = rng.uniform(0.3, 2.0, len(lengths))
    table, shards = build_shards(bitext, weights=np.asarray(weights, np.float64))
    (shard,) = shards
    params = random_parameters(kind, table, rng, max_jump, null_probability)
    return make_model(kind, table, max_jump, **options), shard, params


def with_weights(shard, weights):
    return replace(shard, pairs=shard.pairs._replace(weights=np.asarray(weights, np.float64)))


def sentences(shard):
    """(source words, target words) of every pair."""
    s, t = shard.pairs.source_offsets, shard.pairs.target_offsets
    return [
        (shard.source_tokens[s[n] : s[n + 1]].tolist(), shard.target_tokens[t[n] : t[n + 1]].tolist())
        for n in range(len(s) - 1)
    ]


@dataclass(frozen=True)
class Literal:
    """One direction of an aligner, as its definition says."""

    kind: str
    translation: dict  # (chosen word, produced word) -> probability
    null: np.ndarray
    jump: np.ndarray
    end: np.ndarray
    null_probability: float

    def width(self, distance):
        half = (len(self.jump) - 1) // 2
        return min(max(distance, -half), half) + half

    def start(self, j, n_steps, n_states, last):
        """Where the jump to the position that produces word j starts."""
        return last if self.kind == "hmm" else (2 * j + 1) * n_states // (2 * n_steps)

    def log_probability(self, states, steps, choices):
        """log p(steps, choices | states): each step comes from NULL or from the state at a position."""
        total, last = 0.0, NULL
        for j, (word, choice) in enumerate(zip(steps, choices, strict=True)):
            if choice == NULL:
                total += math.log(self.null_probability * self.null[word])
                continue
            if self.kind == "ibm1":
                place = 1.0 / len(states)
            else:
                p = self.start(j, len(steps), len(states), last)
                every = [self.jump[self.width(i - p)] for i in range(len(states))]
                place = every[choice] / sum(every)
            last = choice
            if place == 0.0:
                return -math.inf
            total += math.log((1 - self.null_probability) * place * self.translation.get((states[choice], word), 1e-12))
        if self.kind == "hmm" and steps:
            total += math.log(self.end[min(len(states) - 1 - last, len(self.end) - 1)])
        return total

    def alignments(self, states, steps):
        return list(itertools.product(range(-1, len(states)), repeat=len(steps)))

    def distribution(self, states, steps, gamma=1.0, price=None):
        """Alignments, p ** (1 / gamma) renormalised, and gamma log of the sum; ``price[j][i]`` is taken off a link."""
        every = self.alignments(states, steps)
        scores = np.array([self.log_probability(states, steps, a) for a in every])
        if price is not None:
            scores -= [sum(price[j][i] for j, i in enumerate(a) if i != NULL) for a in every]
        top = scores.max()
        unnormalised = np.exp((scores - top) / gamma)
        return every, unnormalised / unnormalised.sum(), top + gamma * math.log(unnormalised.sum())

    def add_counts(self, states, steps, weighted, counts):
        """Expected counts, alignment by alignment, into dictionaries."""
        for choices, weight in weighted:
            last = NULL
            for j, (word, choice) in enumerate(zip(steps, choices, strict=True)):
                if choice == NULL:
                    counts["null"][word] = counts["null"].get(word, 0.0) + weight
                    continue
                key = states[choice], word
                counts["links"][key] = counts["links"].get(key, 0.0) + weight
                p = self.start(j, len(steps), len(states), last)
                d = self.width(choice - p)
                counts["jumps"][d] = counts["jumps"].get(d, 0.0) + weight
                key = len(states), p + 1
                counts["departures"][key] = counts["departures"].get(key, 0.0) + weight
                last = choice
            if self.kind == "hmm" and steps:
                r = min(len(states) - 1 - last, len(self.end) - 1)
                counts["ends"][r] = counts["ends"].get(r, 0.0) + weight


def literal(kind, table, params):
    """Both directions of some parameters."""
    pairs = list(zip(table.sources.tolist(), table.targets.tolist(), strict=True))

    def direction(side, keys):
        return Literal(
            kind, dict(zip(keys, side.translation.tolist(), strict=False)), side.null, side.jump, side.end,
            side.null_probability,
        )  # fmt: skip

    return direction(params.forward, pairs), direction(params.backward, [(f, e) for e, f in pairs])


def dense(counts, side, n_produced, longest, pairs):
    """Dictionaries of counts as the arrays of DirectionStats (links by table entry)."""
    links = np.array([counts["links"].get(key, 0.0) for key in pairs])
    null = np.array([counts["null"].get(word, 0.0) for word in range(n_produced)])
    jumps = np.array([counts["jumps"].get(d, 0.0) for d in range(len(side.jump))])
    departures = np.zeros((longest + 1, longest + 1))
    for key, value in counts["departures"].items():
        departures[key] = value
    ends = np.array([counts["ends"].get(r, 0.0) for r in range(len(side.end))])
    return links, null, jumps, departures, ends


def literal_counts(kind, model, params, shard, gamma=1.0):
    """Both directions' expected counts of a shard without constraints, and the weighted sum of smoothed maxima."""
    table, value, out = model.table, 0.0, []
    pairs = list(zip(table.sources.tolist(), table.targets.tolist(), strict=True))
    for backward, side in enumerate(literal(kind, table, params)):
        counts = {name: {} for name in ("links", "null", "jumps", "departures", "ends")}
        for (source, target), weight in zip(sentences(shard), shard.pairs.weights, strict=True):
            states, steps = (target, source) if backward else (source, target)
            every, q, log_z = side.distribution(states, steps, gamma)
            value += weight * log_z
            side.add_counts(states, steps, zip(every, weight * q, strict=True), counts)
        n_produced = table.n_source_words if backward else table.n_target_words
        longest = int((shard.target_lengths if backward else shard.source_lengths).max(initial=0))
        keys = [(f, e) for e, f in pairs] if backward else pairs
        out.append(dense(counts, side, n_produced, longest, keys))
    return out, value


def corpus_counts(stats, table):
    """Statistics of a shard as tuples like those of ``literal_counts``."""
    out = []
    for side in (stats.forward, stats.backward):
        links = np.zeros(table.n_pairs)
        links[stats.pair_ids] += side.links
        out.append((links, side.null, side.jumps, side.departures, side.ends))
    return out


def assert_same_counts(got, expected, rtol=1e-9, atol=1e-12):
    for side, other in zip(got, expected, strict=True):
        for name, a, b in zip(("links", "null", "jumps", "departures", "ends"), side, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=name)
