"""From a fitted WordAligner and shards of text to posteriors, links, scores, and the threshold between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from spectrem._arrays import Floats, Ints
from spectrem._html import BLUE, MOST_SHOWN, page, paragraphs, picture
from spectrem._reprs import brief_dataclass
from spectrem._validate import as_bool
from spectrem.corpus import Local, stream
from spectrem.data import Bitext, Links, symmetrize
from spectrem.estimators.alignment.parameters import AlignerParameters, fused_rules, is_coupled, rules_of
from spectrem.estimators.alignment.text import (
    LEAST_GAMMA,
    TrainingText,
    cut_shards,
    most_cells,
    recode,
    unseen_pairs,
)
from spectrem.exceptions import counted
from spectrem.kernels.alignments.cells import discount_links, explained_shares
from spectrem.learning import EStep, Step
from spectrem.learning.posed_corpus import posterior_alone
from spectrem.metrics import Reliability, alignment_scores, expected_f1_threshold, reliability
from spectrem.models import alignment
from spectrem.models.alignment import (
    AlignmentModel,
    AlignmentParameters,
    Anchors,
    BitextShard,
    CoupledKernel,
)

if TYPE_CHECKING:
    from spectrem.estimators.alignment.word_aligner import WordAligner

Result = TypeVar("Result")

SAMPLE = 500  # sentence pairs: a few thousand links, at the cost of a small part of one E-step
_GRID = np.round(np.arange(0.05, 0.96, 0.025), 3)
_LEAST = 1e-12
_MOST_WORDS, _CELL, _FAINTEST = 30, 12, 0.05  # of a picture: words of a side, pixels, probability


@brief_dataclass(frozen=True)
class LinkPosteriors:
    """Probabilities of links of some sentence pairs, both directions.

    Attributes
    ----------
    source_lengths, target_lengths : ndarray of shape (n_pairs,), int
    forward, backward : list of ndarray of shape (source length, target length)
        ``forward[n][i, j]``: probability that target word j was produced by source word i; ``backward[n][i, j]``
        that source word i was produced by target word j. What is missing to 1 belongs to NULL.

    Examples
    --------
    >>> one, two = np.array([[0.9, 0.2]]), np.array([[0.7, 0.2]])
    >>> LinkPosteriors(np.array([1]), np.array([2]), [one], [two]).average[0].round(2).tolist()
    [[0.8, 0.2]]
    """

    source_lengths: Ints
    target_lengths: Ints
    forward: list[Floats]
    backward: list[Floats]

    def take(self, chosen: Ints) -> LinkPosteriors:
        """Those of the pairs at these places, counted from 0.

        Parameters
        ----------
        chosen : ndarray of int

        Returns
        -------
        LinkPosteriors
        """
        sides = ([side[k] for k in chosen] for side in (self.forward, self.backward))
        return LinkPosteriors(self.source_lengths[chosen], self.target_lengths[chosen], *sides)

    def _repr_html_(self) -> str:
        shown = zip(self.forward[:MOST_SHOWN], self.backward[:MOST_SHOWN], strict=True)
        pictures = (_drawn((forward + backward) / 2, k) for k, (forward, backward) in enumerate(shown))
        more = len(self.forward) - MOST_SHOWN
        return page(
            f"Posteriors of links of {counted(len(self.forward), 'sentence pair')}",
            "<p>Source words from top to bottom, target words from left to right; the fuller a square, the more "
            "probable the link, by the mean of both directions.</p>",
            f'<div style="display:flex;flex-wrap:wrap;gap:12px">{"".join(pictures)}</div>',
            paragraphs([f"and {counted(more, 'pair')} more"] if more > 0 else []),
        )

    @property
    def average(self) -> list[Floats]:
        """Mean of both directions."""
        return [(f + b) / 2 for f, b in zip(self.forward, self.backward, strict=True)]

    def reliability(self, gold: Links, bins: int | Sequence[float] = 10, *, possible: bool = True) -> Reliability:
        """How often links of some probability, the mean of both directions, are among gold ones, bin by bin.

        Parameters
        ----------
        gold : Links
            Links of the same sentences.
        bins : int or sequence of float
            See `spectrem.metrics.reliability`.
        possible : bool
            Whether links that are possible, not sure, count as right; else they are left out.

        Returns
        -------
        Reliability

        Raises
        ------
        InvalidInputError
            If the numbers of sentences differ, a gold link lies outside its sentence, or the bins break their rule.

        Examples
        --------
        >>> forward, backward = np.array([[0.9, 0.2]]), np.array([[0.7, 0.2]])
        >>> posteriors = LinkPosteriors(np.array([1]), np.array([2]), [forward], [backward])
        >>> print(posteriors.reliability(Links.from_pairs([[(0, 0)]]), bins=2))
          from     to     count  expected  observed
         0.000  0.500         1     0.200     0.000
         0.500  1.000         1     0.800     1.000
        """
        nothing = np.zeros(0)
        posteriors = np.concatenate([nothing, *(matrix.ravel() for matrix in self.average)])
        cells = self._cells(gold)
        right = np.zeros(posteriors.size, np.bool_)
        right[cells] = True
        kept = np.ones(posteriors.size, np.bool_)
        if not as_bool(possible, "possible"):
            kept[cells[~gold.sure]] = False
        return reliability(np.clip(posteriors[kept], 0.0, 1.0), right[kept], bins)

    def _cells(self, gold: Links) -> Ints:
        """The number of every gold link among all cells of all sentences."""
        gold.check_inside(self.source_lengths, self.target_lengths, "gold")
        sizes = self.source_lengths * self.target_lengths
        starts, sentence = np.cumsum(sizes) - sizes, gold.sentence
        return starts[sentence] + gold.source * self.target_lengths[sentence] + gold.target


def _drawn(matrix: Floats, number: int) -> str:
    """The links of a pair as a square for every probable cell, of the first words of both sentences."""
    rows, columns = (min(size, _MOST_WORDS) for size in matrix.shape)
    width, height = _CELL * columns, _CELL * rows
    out = [f'<rect width="{width}" height="{height}" fill="none" stroke="currentColor" stroke-opacity="0.35"/>']
    for i, j in np.argwhere(matrix[:rows, :columns] >= _FAINTEST).tolist():
        out.append(
            f'<rect x="{_CELL * j + 1}" y="{_CELL * i + 1}" width="{_CELL - 2}" height="{_CELL - 2}" fill="{BLUE}" '
            f'fill-opacity="{matrix[i, j]:.2f}"><title>{i} – {j}: {matrix[i, j]:.2g}</title></rect>'  # noqa: RUF001
        )
    likely = ", ".join(f"{i}-{j}" for i, j in np.argwhere(matrix[:rows, :columns] >= 0.5).tolist())
    sizes = " and ".join(
        f"the first {most} of {size} words" if most < size else counted(size, "word")
        for most, size in zip((rows, columns), matrix.shape, strict=True)
    )
    drawing = picture(width, height, f"pair {number + 1}, links above one half: {likely or 'none'}", out)
    return f"<div><div>pair {number + 1}: {sizes}</div>{drawing}</div>"


@brief_dataclass(frozen=True)
class AlignedPairs:
    """Some sentence pairs in a row: their links, what is not linked, and how good they are.

    Attributes
    ----------
    links : Links
    posteriors : LinkPosteriors
    scores : ndarray of shape (n_pairs,)
        See `score_shard`.
    """

    links: Links
    posteriors: LinkPosteriors
    scores: Floats

    def take(self, chosen: Ints) -> AlignedPairs:
        """The pairs at these places, counted from 0."""
        return AlignedPairs(self.links.take(chosen), self.posteriors.take(chosen), self.scores[chosen])


# ---- E-steps --------------------------------------------------------------------------------------------------------


def general_estep(aligner: AlignerParameters, gamma: float) -> EStep:
    """The E-step that takes any constraints, at any gamma."""
    from spectrem.inference import FixedStep

    solver = FixedStep(aligner.dual_steps, aligner.step_size) if aligner.dual_steps > 0 and gamma >= 0 else None
    return EStep(rules_of(aligner), solver=solver, alpha=aligner.alpha, infeasible=aligner.infeasible)


def coupled(aligner: AlignerParameters, model: AlignmentModel, project: bool = True) -> CoupledKernel:
    """The compiled E-step, without constraints if not ``project``."""
    agree, most = (fused_rules(aligner) if project else None) or (False, np.inf)
    return CoupledKernel(
        model, agreement=agree, max_fertility=most, steps=aligner.dual_steps, step_size=aligner.step_size
    )


# ---- posteriors -----------------------------------------------------------------------------------------------------


def map_shards(
    aligner: WordAligner, work: Callable[[BitextShard], Result], bitext: Bitext, anchors: Anchors | None = None
) -> Iterator[Result]:
    """Apply ``work`` to the shards of a text, trained on or new, and return the results in order.

    Shards have the word pairs that training did not see; long pairs do without: they may have millions, each as
    improbable as training leaves a pair.
    """
    recoded = recode(bitext, (aligner.source_vocabulary_, aligner.target_vocabulary_))
    shards = cut_shards(recoded, most_cells(aligner, aligner.gamma_), anchors)
    new_text, lock = list[alignment.NewText](), Lock()

    def complete(shard: BitextShard) -> BitextShard:
        indexed = shard.index(aligner.table_)
        if shard.by_position or indexed.is_seen(aligner.table_):
            return indexed
        with lock:  # made once, for the first of several threads that needs it
            if not new_text:
                new_text.append(alignment.NewText.of(unseen_pairs(aligner), bitext))
        return new_text[0].complete(indexed)

    return stream(lambda shard: work(complete(shard)), shards, n_threads=aligner.n_threads)


def posteriors(aligner: WordAligner, shard: BitextShard, gamma: float) -> tuple[Floats, Floats]:
    """Probability of every cell, forward and backward, each of shape (n_cells,)."""
    if shard.by_position:
        return _long_posteriors(aligner, shard, gamma)
    project = as_bool(aligner.project_at_predict, "project_at_predict")
    if gamma > 0 and (not project or is_coupled(aligner, gamma)):
        return coupled(aligner, aligner.model_, project).posteriors(aligner.params_, shard, gamma)
    estep = general_estep(aligner, gamma) if project else EStep()
    marginals = posterior_alone(shard, Step(aligner.model_, aligner.params_, gamma, estep)).marginals
    return aligner.model_.cell_masses(shard, marginals)


def trusted_shares(aligner: WordAligner, shard: BitextShard) -> tuple[Floats, Floats]:
    """The factors of the posteriors of the links of every source and of every target token in decoding.

    c / (c + ``rare_discount``) for a word that occurred c times in training; 1 for new words, whose links did not
    confirm themselves, and for tokens with an anchor. A link takes the smaller share of its two tokens.
    """

    def side(counts: Ints, tokens: NDArray[np.int32]) -> Floats:
        seen = np.append(counts, 0)[tokens]  # unknown words are -1
        return np.where(seen > 0, seen / np.maximum(seen + aligner.rare_discount, 1.0), 1.0)

    source = side(aligner.source_counts_, shard.source_tokens)
    target = side(aligner.target_counts_, shard.target_tokens)
    if shard.anchors is not None:
        links = shard.anchors.links
        source[shard.pairs.source_offsets[links.sentence] + links.source] = 1.0
        target[shard.pairs.target_offsets[links.sentence] + links.target] = 1.0
    return source, target


def discount_rare_words(aligner: WordAligner, shard: BitextShard, mass: Floats) -> Floats:
    """Multiply the masses of all cells by the shares of `trusted_shares`, in place."""
    if aligner.rare_discount > 0:
        shares = trusted_shares(aligner, shard)
        discount_links(shard.pairs.source_offsets, shard.pairs.target_offsets, *shares, mass)
    return mass


def masses(aligner: WordAligner, shard: BitextShard, gamma: float) -> Floats:
    """The mean of both directions with rare words discounted, shape (n_cells,), which the threshold is for."""
    forward, backward = posteriors(aligner, shard, gamma)
    forward += backward
    forward /= 2
    return discount_rare_words(aligner, shard, forward)


def as_matrices(shard: BitextShard, forward: Floats, backward: Floats) -> LinkPosteriors:
    """The posteriors of the cells of a shard, pair by pair."""
    sources, targets = shard.source_lengths, shard.target_lengths
    matrices = [
        [
            mass[begin : begin + n * m].reshape(n, m)
            for begin, n, m in zip(shard.pairs.cell_offsets, sources, targets, strict=False)
        ]
        for mass in (forward, backward)
    ]
    return LinkPosteriors(sources, targets, *matrices)


def concatenate_posteriors(parts: list[LinkPosteriors]) -> LinkPosteriors:
    """Posteriors of consecutive runs of sentences as those of one run."""
    nothing = np.zeros(0, np.int64)
    return LinkPosteriors(
        np.concatenate([nothing, *(part.source_lengths for part in parts)]),
        np.concatenate([nothing, *(part.target_lengths for part in parts)]),
        [matrix for part in parts for matrix in part.forward],
        [matrix for part in parts for matrix in part.backward],
    )


# ---- links ----------------------------------------------------------------------------------------------------------


def decode(aligner: WordAligner, shard: BitextShard) -> Links:
    """Links of the shard, as ``aligner.decode`` says."""
    if shard.by_position:
        return long_links(aligner, shard)
    if aligner.decode == "posterior":
        return links_above(shard, masses(aligner, shard, aligner.gamma_), aligner.threshold_)
    return viterbi_links(aligner.model_, aligner.params_, shard, aligner.decode)


def align_pairs(aligner: WordAligner, bitext: Bitext, anchors: Anchors | None = None) -> Iterator[AlignedPairs]:
    """Links, posteriors and scores of a text, trained on or new, some hundreds of pairs at a time and in order."""

    def work(shard: BitextShard) -> AlignedPairs:
        forward, backward = posteriors(aligner, shard, aligner.gamma_)
        mass = (forward + backward) / 2
        scores = score_shard(aligner, shard, mass)
        if aligner.decode == "posterior":
            links = links_above(shard, discount_rare_words(aligner, shard, mass), aligner.threshold_)
        else:
            links = decode(aligner, shard)
        return AlignedPairs(links, as_matrices(shard, forward, backward), scores)

    begin = 0
    for part in map_shards(aligner, work, bitext, anchors):
        yield part if anchors is None else replace(part, links=anchors.impose(part.links, begin))
        begin += part.links.n_sentences


def links_above(shard: BitextShard, mass: Floats, threshold: float) -> Links:
    """Cells with more than ``threshold`` of mass (minimum Bayes risk decoding, [Ganchev2010] section 5)."""
    chosen = np.flatnonzero(mass > threshold)
    cell_offsets = shard.pairs.cell_offsets
    sentence = np.searchsorted(cell_offsets, chosen, side="right") - 1
    source, target = np.divmod(chosen - cell_offsets[sentence], shard.target_lengths[sentence])
    return Links.from_arrays(sentence, source, target, n_sentences=len(shard.source_lengths))


def viterbi_links(model: AlignmentModel, params: AlignmentParameters, shard: BitextShard, decode: str) -> Links:
    """Best alignment of each direction under the model alone, one of them or both merged."""
    choices = model.structure(shard).decode(model.scores(params, shard))
    n_target = int(shard.target_lengths.sum())
    return _merged_links(shard, choices[:n_target], choices[n_target:], decode)


def _merged_links(shard: BitextShard, choices: Ints, other_choices: Ints, decode: str) -> Links:
    """Links of one direction, or of both merged; -1 chooses NULL."""
    forward = _links(shard.target_lengths, choices, backward=False)
    if decode in ("viterbi", "forward"):
        return forward
    backward = _links(shard.source_lengths, other_choices, backward=True)
    if decode == "backward":
        return backward
    return symmetrize(forward, backward, decode)  # type: ignore[arg-type]


def _links(lengths: Ints, choices: Ints, *, backward: bool) -> Links:
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(choices)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    linked = choices >= 0
    sentence, place, choice = sentence[linked], place[linked], choices[linked]
    source, target = (place, choice) if backward else (choice, place)
    return Links.from_arrays(sentence, source, target, n_sentences=len(lengths))


def concatenate_links(parts: list[Links]) -> Links:
    """Links of consecutive runs of sentences as those of one run."""
    if not parts:
        return Links.from_pairs([])
    starts = np.cumsum([0] + [part.n_links for part in parts])
    offsets = [part.offsets[:-1] + start for part, start in zip(parts, starts, strict=False)]
    return Links(
        np.concatenate([*offsets, starts[-1:]]),
        np.concatenate([part.source for part in parts]),
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.sure for part in parts]),
    )


# ---- thresholds -----------------------------------------------------------------------------------------------------


def sample_pairs(weights: Floats) -> Ints:
    """Numbers of some hundreds of sentence pairs from all over the corpus, those of weight 0 left out."""
    counted = np.flatnonzero(weights > 0)
    return counted[np.unique(np.linspace(0, len(counted) - 1, min(SAMPLE, len(counted))).round().astype(np.int64))]


def choose_threshold(aligner: WordAligner, text: TrainingText) -> float:
    """The threshold of greatest expected F1 on a sample of the training text."""
    shards = list(text.take(sample_pairs(text.weights)).shards(aligner.table_))
    both = Local(shards, aligner.n_threads).collect(
        lambda shard: [discount_rare_words(aligner, shard, m) for m in posteriors(aligner, shard, aligner.gamma_)]
    )
    return expected_threshold(shards, list(both))


def expected_threshold(shards: Sequence[BitextShard], posteriors: Sequence[Sequence[Floats]]) -> float:
    """The threshold of greatest expected F1, to four digits so that it can be printed in full.

    ``posteriors`` are those of both directions. A link above the threshold counts as right as far as both grant it.
    """
    nothing = np.zeros(0)
    weights = [np.repeat(shard.pairs.weights, np.diff(shard.pairs.cell_offsets)) for shard in shards]
    forward, backward = (
        np.clip(np.concatenate([*(pair[side] for pair in posteriors), nothing]), 0.0, 1.0) for side in (0, 1)
    )
    mean, both = (forward + backward) / 2, np.minimum(forward, backward)
    return round(expected_f1_threshold(mean, np.concatenate([*weights, nothing]), right=both), 4)


def least_error_threshold(shards: Sequence[BitextShard], masses: Sequence[Floats], gold: Links) -> tuple[float, float]:
    """Least alignment error rate of a grid of thresholds, and the middle one of those that reach it."""
    errors = np.array([
        alignment_scores(
            concatenate_links([links_above(s, m, t) for s, m in zip(shards, masses, strict=True)]), gold
        ).aer
        for t in _GRID
    ])  # fmt: skip
    ties = np.flatnonzero(errors <= errors.min() + 1e-12)
    return float(errors.min()), float(_GRID[ties[len(ties) // 2]])


# ---- scores ---------------------------------------------------------------------------------------------------------


def score_shard(aligner: WordAligner, shard: BitextShard, mass: Floats) -> Floats:
    """The scores of `WordAligner.score_pairs`, from the mean posteriors of the cells of a shard, shape (n_cells,)."""
    sources, targets = shard.source_lengths, shard.target_lengths
    counts, params, pairs = (aligner.source_counts_, aligner.target_counts_), aligner.params_, shard.pairs
    explained = np.empty(len(sources))
    explained_shares(
        pairs.source_offsets, pairs.target_offsets, pairs.cell_offsets, pairs.cells,
        np.log(shard.of_entries(params.forward.translation, backward=False)),
        np.log(shard.of_entries(params.backward.translation, backward=True)),
        mass, _nats(counts[0], shard.source_tokens), _nats(counts[1], shard.target_tokens), explained,
    )  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):  # sides may be empty
        likelihoods = np.exp(_log_likelihoods(aligner, shard) / (sources + targets))
        ratios = targets / sources * (counts[0].sum() / counts[1].sum())
        # counted once, the ratio ranks sentences of which a part is missing too high
        return (explained * likelihoods * np.minimum(ratios, 1 / ratios) ** 2) ** 0.25


def _log_likelihoods(aligner: WordAligner, shard: BitextShard) -> Floats:
    """Log-probability of the words of both sides of every pair given the other, nats."""
    params = aligner.params_
    if not shard.by_position:
        return coupled(aligner, aligner.model_, project=False).log_likelihoods(params, shard)
    forward, backward = _whole(shard, alignment.diagonal_posteriors(params, shard, 1.0, 0, 1.0))
    total = 0.0
    # what NULL explains of a word says how probable the word is
    for side, tokens, mass in (
        (params.forward, shard.target_tokens, forward.sum(axis=0)),
        (params.backward, shard.source_tokens, backward.sum(axis=1)),
    ):
        total += float(np.sum(np.log(side.null_probability * side.null[tokens] / np.maximum(1 - mass, _LEAST))))
    return np.array([min(total, 0.0)])


def _nats(counts: Ints, tokens: NDArray[np.int32]) -> Floats:
    """Information of tokens; a word that training did not see counts as half of one seen once."""
    raised = np.append(counts, 0) + 0.5
    return -np.log(raised / raised.sum())[tokens]


# ---- long pairs -----------------------------------------------------------------------------------------------------


def _long_blocks(aligner: WordAligner, shard: BitextShard, gamma: float) -> Iterator[tuple[Floats, Floats]]:
    """Forward and backward posteriors of a long pair, some source words at a time."""
    agree = aligner.project_at_predict and any(getattr(one, "name", "") == "agreement" for one in rules_of(aligner))
    steps = (aligner.dual_steps or 5) if agree else 0
    return alignment.diagonal_posteriors(aligner.params_, shard, max(gamma, LEAST_GAMMA), steps, aligner.step_size)


def _long_posteriors(aligner: WordAligner, shard: BitextShard, gamma: float) -> tuple[Floats, Floats]:
    """Forward and backward posteriors of a long pair, two arrays of shape (n_cells,)."""
    forward, backward = _whole(shard, _long_blocks(aligner, shard, gamma))
    if shard.anchors is not None:
        shard.anchors.impose_on_masses(forward, backward)
    return forward.ravel(), backward.ravel()


def _whole(shard: BitextShard, blocks: Iterator[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Forward and backward posteriors of a long pair from those of some source words at a time."""
    both, first = np.empty((2, len(shard.source_tokens), len(shard.target_tokens))), 0
    for block in blocks:
        both[:, first : first + len(block[0])] = block
        first += len(block[0])
    return both[0], both[1]


def long_links(aligner: WordAligner, shard: BitextShard) -> Links:
    """Links of a long pair as the aligner decodes."""
    if aligner.decode != "posterior":
        forward, backward = _whole(shard, alignment.diagonal_posteriors(aligner.params_, shard, 1.0, 0, 1.0))
        # The likeliest link of every word, or NULL, under each direction alone.
        choices = np.where(forward.max(axis=0) > 1 - forward.sum(axis=0), forward.argmax(axis=0), -1)
        other = np.where(backward.max(axis=1) > 1 - backward.sum(axis=1), backward.argmax(axis=1), -1)
        return _merged_links(shard, choices, other, aligner.decode)
    sources, targets, first = [], [], 0
    source_shares, target_shares = trusted_shares(aligner, shard)
    for forward, backward in _long_blocks(aligner, shard, aligner.gamma_):
        shares = np.minimum.outer(source_shares[first : first + len(forward)], target_shares)
        rows, columns = np.nonzero((forward + backward) / 2 * shares > aligner.threshold_)
        sources.append(rows + first)
        targets.append(columns)
        first += len(forward)
    source, target = np.concatenate(sources), np.concatenate(targets)
    return Links.from_arrays(np.zeros(len(source), np.int64), source, target, n_sentences=1)
