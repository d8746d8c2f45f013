"""Sums and maxima over trees: milliseconds of a processor, share of the machine's multiply-adds; see README.md.

Everything is drawn from fixed seeds. One thread; processor time, the median of several runs.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from typing import Any

import numpy as np
from common import timed, write_readme
from hmm import peak

from spectrem.corpus import Local
from spectrem.kernels.chains.potentials import subtract_tops
from spectrem.kernels.trees import eisner
from spectrem.models import bracketing, grammar
from spectrem.structures import NonProjectiveTrees, Parts, ProjectiveTrees, ValenceTrees

# Milliseconds of marginals of 64 sentences of so many words, float64, one thread, measured when this was planned.
KNOWN = {
    "projective": {"SuPar": {20: 13.0, 40: 59.0}, "torch-struct": {20: 19.0, 40: 74.0}, "C": {20: 1.9, 40: 10.1}},
    "non-projective": {"SuPar": {20: 2.0, 40: 4.3}, "LAPACK inverse": {20: 0.3, 40: 1.2}},
}
N_TAGS = 35


def milliseconds(run: Any, repeats: int) -> float:
    """Median processor time, after one run that compiles."""
    run()
    return 1e3 * timed(run, repeats)[1]


def run_structures(repeats: int) -> list[str]:
    """Marginals and best trees of batches of 64 sentences of one length."""
    lines = ["| trees | words | marginals, ms | known, ms | best trees, ms | best trees per second |"]
    lines.append("|---|--:|--:|---|--:|--:|")
    kinds = {
        "projective": ProjectiveTrees,
        "projective, several roots": lambda lengths: ProjectiveTrees(lengths, single_root=False),
        "with valence": ValenceTrees,
        "non-projective": NonProjectiveTrees,
        "non-projective, several roots": lambda lengths: NonProjectiveTrees(lengths, single_root=False),
    }
    for name, kind in kinds.items():
        for size in (10, 20, 40):
            trees = kind([size] * 64)
            scores = Parts(np.random.default_rng(size).normal(size=trees.n_unary))
            marginals = milliseconds(lambda trees=trees, scores=scores: trees.smoothed_max(scores, 1.0), repeats)
            best = milliseconds(lambda trees=trees, scores=scores: trees.decode(scores), repeats)
            known = [f"{peer} {ms[size]}" for peer, ms in KNOWN.get(name, {}).items() if size in ms]
            cells = [name, str(size), f"{marginals:.2f}", ", ".join(known), f"{best:.3f}", f"{64e3 / best:,.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def run_kernel(repeats: int) -> list[str]:
    """Multiply-adds of the scaled inside-outside passes over projective trees, beside a loop of nothing else."""
    most = peak()
    lines = ["| words | inside-outside, ms | multiply-adds, 10⁹/s | peak, 10⁹/s | share of peak |"]
    lines.append("|--:|--:|--:|--:|--:|")
    for size in (10, 20, 40):
        trees = ProjectiveTrees([size] * 64)
        scores = np.random.default_rng(size).normal(size=trees.n_unary)
        potentials, tops = np.empty(trees.n_unary), np.empty(trees.n_tokens)
        subtract_tops(scores, trees.offsets, 1.0, potentials, tops)
        np.exp(potentials, out=potentials)
        parts, values, status = np.empty_like(potentials), np.zeros(64), np.ones(64, np.int8)
        layout = (np.arange(64), trees.lengths, trees.block_offsets, trees.token_offsets, (parts,), tops)

        def run(
            parts: Any = parts, potentials: Any = potentials, rest: Any = (values, status), own: Any = layout
        ) -> None:
            np.copyto(parts, potentials)
            eisner.sum_pass(*own, 1.0, True, *rest)

        seconds = milliseconds(run, repeats) / 1e3
        # three sums per pair of words upwards, over as many places as they are apart; twice as many downwards
        rate = 64 * 1.5 * size * (size**2 - 1) / seconds
        cells = [f"{1e3 * seconds:.3f}", f"{rate / 1e9:.1f}", f"{most / 1e9:.1f}", f"{100 * rate / most:.0f} %"]
        lines.append(f"| {size} | {' | '.join(cells)} |")
    return lines


def e_step(model: Any, shards: list[Any], params: Any) -> None:
    """Scores, marginals and expected counts of every shard."""
    for shard in shards:
        _, marginals = model.structure(shard).smoothed_max(model.scores(params, shard), 1.0)
        model.gather(params, shard, marginals)


def run_e_steps(repeats: int) -> list[str]:
    """E-steps of the two grammars, of half a corpus and of the whole."""
    lines = ["| E-step | sentences | words | ms |", "|---|--:|--:|--:|"]
    for name, longest, full in (
        ("dependency model with valence", 20, 10_000),
        ("constituent-context model", 10, 7_519),
    ):
        for number in (full // 2, full):
            rng = np.random.default_rng(0)
            lengths = rng.integers(1, longest + 1, number)
            tags = rng.integers(0, N_TAGS, int(lengths.sum()))
            model: Any
            if longest == 20:
                model = grammar.ValenceModel(N_TAGS)
                shards: list[Any] = list(grammar.build_shards(lengths, tags, N_TAGS))
                params: Any = grammar.harmonic(model, Local(shards, 1))
            else:
                vocabulary, numbers = bracketing.SpanVocabulary.learn(lengths, tags, N_TAGS)
                model = bracketing.ConstituentContextModel(vocabulary)
                shards = list(bracketing.build_shards(lengths, tags, numbers))
                params = bracketing.start_from(model, Local(shards, 1), "split")
            spent = milliseconds(lambda own=(model, shards, params): e_step(*own), repeats)
            lines.append(f"| {name} | {number:,} of up to {longest} words | {lengths.sum():,} | {spent:.1f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=31, help="runs of which the median is shown")
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    options = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    lines = [f"{machine}, {time.strftime('%Y-%m-%d')}; median of {options.repeats}, one thread.", ""]
    tables = [run_structures(options.repeats), run_kernel(options.repeats), run_e_steps(max(3, options.repeats // 4))]
    content = "\n".join(lines) + "\n" + "\n\n".join("\n".join(table) for table in tables)
    print(content)
    if options.write:
        write_readme("trees", content)


if __name__ == "__main__":
    main()
