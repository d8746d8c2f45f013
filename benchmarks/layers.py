"""Structured layers beside SuPar, pytorch-crf and torch-struct: forward and backward, decoding, memory; see README.md.

Runs in an environment with PyTorch. Peers are checkouts of their repositories, which --peers names; all take turns in
one process of one thread, float32. Times are of the wall clock, medians of rounds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from common import anonymous, most_anonymous, write_readme

from spectrem import E, part
from spectrem.torch import CRF, LinearChain, NonProjectiveTrees, ProjectiveTrees, constrained

CHAINS = ((64, 24, 12), (32, 100, 45), (32, 512, 45))
TREES = ((64, 20), (64, 40))
# torch-struct takes a minute and 12 GB for longer ones.
MOST_OF_TORCH_STRUCT = 10_000_000
# cvxpylayers takes four minutes for 16 x 24 x 12, and asks for 61 GB of memory for one of 64 x 24 x 12.
CONSTRAINED = ((8, 12, 6), (64, 24, 12))
MOST_OF_CVXPYLAYERS = 10_000


def peers_of(folders: list[Path]) -> dict[str, Any]:
    """What can be imported of the checkouts, by the name of the package."""
    sys.path[:0] = map(str, folders)
    for folder in folders:  # SuPar's package itself imports much that its structures do not need
        if (folder / "supar" / "structs").is_dir():
            for name in ("supar", "supar.utils"):
                module = types.ModuleType(name)
                module.__path__ = [str(folder.joinpath(*name.split(".")))]
                sys.modules[name] = module
    modules = {}
    for name in ("torchcrf", "torch_struct", "supar.structs", "cvxpy", "cvxpylayers.torch"):
        try:
            modules[name] = import_module(name)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return modules


def gradient(of: Callable[[], torch.Tensor], *leaves: torch.Tensor) -> Callable[[], None]:
    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        of().sum().backward()

    return run


def chain_scores(size: tuple[int, int, int]) -> tuple[torch.Tensor, torch.Tensor, torch.Generator]:
    """Emissions and shared transitions that need gradients, and the generator that drew them."""
    batch, length, k = size
    draw = torch.Generator().manual_seed(0)
    emissions = torch.randn(batch, length, k, generator=draw).requires_grad_()
    return emissions, torch.randn(k, k, generator=draw).requires_grad_(), draw


def chain_tasks(
    size: tuple[int, int, int], peers: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Callable[[], Any]]]]:
    """Log-partitions and entropies of chains with their gradient, and best sequences."""
    batch, length, k = size
    emissions, transitions, draw = chain_scores(size)
    runs: dict[str, Callable[[], Any]] = {
        "spectrem": gradient(lambda: LinearChain(emissions, transitions).log_partition, emissions, transitions)
    }
    entropies: dict[str, Callable[[], Any]] = {
        "spectrem": gradient(lambda: LinearChain(emissions, transitions).entropy(), emissions, transitions)
    }
    decodes: dict[str, Callable[[], Any]] = {"spectrem": lambda: LinearChain(emissions, transitions).mode}
    if "torchcrf" in peers:
        tags, mask = torch.zeros(batch, length, dtype=torch.long), torch.ones(batch, length, dtype=torch.bool)
        theirs, ours = peers["torchcrf"].CRF(k, batch_first=True), CRF(k, batch_first=True)
        runs["pytorch-crf"] = gradient(lambda: theirs(emissions, tags, mask=mask), emissions, *theirs.parameters())
        runs["spectrem's CRF"] = gradient(lambda: ours(emissions, tags, mask=mask), emissions, *ours.parameters())
        decodes["pytorch-crf"] = lambda: theirs.decode(emissions, mask=mask)
        decodes["spectrem's CRF"] = lambda: ours.decode(emissions, mask=mask)
    if "supar.structs" in peers:
        around, lengths = torch.randn(k + 1, k + 1, generator=draw).requires_grad_(), torch.full((batch,), length)

        def supar() -> Any:
            return peers["supar.structs"].LinearChainCRF(emissions, around, lengths)

        runs["SuPar"] = gradient(lambda: supar().log_partition, emissions, around)
        entropies["SuPar"] = gradient(lambda: supar().entropy, emissions, around)
        decodes["SuPar"] = lambda: supar().argmax
    if "torch_struct" in peers and batch * length * k * k <= MOST_OF_TORCH_STRUCT:

        def struct() -> Any:
            potentials = transitions.T + emissions[:, 1:, :, None]
            first = torch.zeros(batch, length - 1, 1, k)
            first[:, 0, 0] = 1.0
            return peers["torch_struct"].LinearChainCRF(potentials + first * emissions[:, :1, None])

        runs["torch-struct"] = gradient(lambda: struct().partition, emissions, transitions)
        decodes["torch-struct"] = lambda: struct().argmax
    name = f"{batch} x {length} x {k}"
    yield f"chain {name}", runs
    yield f"entropy, chain {name}", entropies
    yield f"decoding {name}", decodes


def tree_tasks(size: tuple[int, int], peers: dict[str, Any]) -> Iterator[tuple[str, dict[str, Callable[[], Any]]]]:
    """Log-partitions and entropies of trees with their gradient."""
    batch, n = size
    draw = torch.Generator().manual_seed(0)
    scores = torch.randn(batch, n, n, generator=draw).requires_grad_()
    rooted = torch.randn(batch, n + 1, n + 1, generator=draw).requires_grad_()
    lengths = torch.full((batch,), n)
    projective = [("spectrem", lambda: ProjectiveTrees(scores), scores)]
    crossing = [("spectrem", lambda: NonProjectiveTrees(scores, single_root=False), scores)]
    if "supar.structs" in peers:
        structs = peers["supar.structs"]
        projective.append(("SuPar", lambda: structs.DependencyCRF(rooted, lengths), rooted))
        crossing.append(("SuPar", lambda: structs.MatrixTree(rooted, lengths, multiroot=True), rooted))
    if "torch_struct" in peers:
        projective.append(("torch-struct", lambda: peers["torch_struct"].DependencyCRF(scores), scores))
    for kind, makes in (("projective trees", projective), ("matrix-tree, several roots", crossing)):
        for before, value_of in (("", log_partition_of), ("entropy, ", entropy_of)):
            runs = {who: gradient(partial(value_of, make), leaf) for who, make, leaf in makes}
            yield f"{before}{kind} {batch} x {n}", runs


def log_partition_of(make: Callable[[], Any]) -> torch.Tensor:
    """The log-partitions of a distribution, by whatever name it has them."""
    distribution = make()
    value: torch.Tensor = getattr(
        distribution, "partition" if hasattr(type(distribution), "partition") else "log_partition"
    )
    return value


def entropy_of(make: Callable[[], Any]) -> torch.Tensor:
    """The entropies of a distribution, a method of ours."""
    distribution = make()
    value: Any = distribution.entropy
    return value() if callable(value) else value


def constrained_tasks(
    size: tuple[int, int, int], peers: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Callable[[], Any]]]]:
    """Marginals of chains under three rows per sentence and two over the batch, with their gradient."""
    batch, length, k = size
    emissions, transitions, draw = chain_scores(size)
    weights, tag = torch.randn(batch, length, k, generator=draw), part("tag")
    share, total = length / 24, batch * length / 1536
    rows = [
        (E[tag == 1] >= share).per("sentence"),
        (E[tag == 0] <= 1.5 * share).per("sentence"),
        (E[tag.isin([2, 3])] == 5 * share).per("sentence"),
        E[tag == 4] <= 100 * total,
        E[tag == 5] >= 140 * total,
    ]
    runs: dict[str, Callable[[], Any]] = {
        "spectrem": gradient(
            lambda: constrained(LinearChain(emissions, transitions), rows).marginals * weights, emissions, transitions
        ),
        "spectrem's loss": gradient(
            lambda: constrained(LinearChain(emissions, transitions), rows).kl, emissions, transitions
        ),
    }
    if {"cvxpy", "cvxpylayers.torch"} <= set(peers) and batch * length * k * k <= MOST_OF_CVXPYLAYERS:
        cp, n, m = peers["cvxpy"], batch * length, batch * (length - 1)
        states, pairs = cp.Variable((n, k)), cp.Variable((m, k * k))
        scores, moves = cp.Parameter((n, k)), cp.Parameter(k * k)
        first = np.arange(n).reshape(batch, length)
        before, after = (
            sp.csr_matrix((np.ones(m), (np.arange(m), places.ravel())), shape=(m, n))
            for places in (first[:, :-1], first[:, 1:])
        )
        left, right = np.kron(np.eye(k), np.ones((k, 1))), np.kron(np.ones((k, 1)), np.eye(k))
        counts = sp.kron(sp.eye(batch), np.ones((1, length))).tocsr() @ states
        limits = [
            cp.sum(states, axis=1) == 1, pairs @ left == before @ states, pairs @ right == after @ states,
            counts[:, 1] >= share, counts[:, 0] <= 1.5 * share, counts[:, 2] + counts[:, 3] == 5 * share,
            cp.sum(states[:, 4]) <= 100 * total, cp.sum(states[:, 5]) >= 140 * total,
        ]  # fmt: skip
        # The entropy of a chain is that of its first state and of every state given the one before.
        entropy = cp.sum(cp.entr(states[first[:, 0], :])) - cp.sum(cp.rel_entr(pairs, (before @ states) @ left.T))
        value = cp.sum(cp.multiply(scores, states)) + cp.sum(pairs @ moves) + entropy
        layer = peers["cvxpylayers.torch"].CvxpyLayer(
            cp.Problem(cp.Maximize(value), limits), parameters=[scores, moves], variables=[states]
        )
        runs["cvxpylayers"] = gradient(
            lambda: layer(emissions.reshape(n, k), transitions.flatten())[0] * weights.reshape(n, k),
            emissions,
            transitions,
        )
    yield f"constrained chain {batch} x {length} x {k}", runs


def milliseconds(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Medians of rounds, in which all take turns; short ones are repeated."""
    repeats = {}
    for name, run in runs.items():
        run()
        started = time.perf_counter()
        run()
        repeats[name] = max(1, min(20, int(0.05 / (time.perf_counter() - started))))
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            for _ in range(repeats[name] if repeats[name] > 1 or len(seconds[name]) == 0 else 0):
                run()  # what others left in caches and of memory slows down some dozen short calls
            started = time.perf_counter()
            for _ in range(repeats[name]):
                run()
            seconds[name].append((time.perf_counter() - started) / repeats[name])
    return {name: 1e3 * statistics.median(each) for name, each in seconds.items()}


def memory(which: str, folders: list[Path]) -> dict[str, float]:
    """MB that the longest chain takes, forward and backward, in this process."""
    peers = peers_of(folders)
    name, runs = next(chain_tasks(CHAINS[-1], peers))
    next(chain_tasks(CHAINS[0], peers))[1][which]()  # what is loaded or compiled once
    before = anonymous()
    with most_anonymous() as most:
        runs[which]()
    return {name: most() - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peers", type=Path, nargs="*", default=[], help="checkouts of SuPar, pytorch-crf, torch-struct"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.memory is not None:
        print(json.dumps(memory(options.memory, options.peers)))
        return
    peers = peers_of(options.peers)
    tasks = [task for size in CHAINS for task in chain_tasks(size, peers)]
    tasks += [task for size in TREES for task in tree_tasks(size, peers)]
    tasks += [task for size in CONSTRAINED for task in constrained_tasks(size, peers)]
    lines = [
        f"{platform.machine()}, one thread, PyTorch {torch.__version__}, float32, {time.strftime('%Y-%m-%d')}; "
        "milliseconds of forward and backward passes or of decoding, medians.",
        "",
        "| work | spectrem | peers | the fastest of them over ours |",
        "|---|--:|---|--:|",
    ]
    for name, runs in tasks:
        ours, *others = milliseconds(runs, options.rounds).items()
        listed = ", ".join(f"{peer} {value:.3g}" for peer, value in others)
        theirs = [value for peer, value in others if not peer.startswith("spectrem")]
        ratio = f"{min(theirs) / ours[1]:.1f}" if theirs else ""
        lines.append(f"| {name} | {ours[1]:.3g} | {listed} | {ratio} |")
        print(lines[-1], file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--peers", *map(str, options.peers), "--memory"]
    held = {}
    for which, package in (("spectrem", None), ("pytorch-crf", "torchcrf"), ("SuPar", "supar.structs")):
        if package is not None and package not in peers:
            continue
        done = subprocess.run([*command, which], stdout=subprocess.PIPE, check=True)
        held[which] = next(iter(json.loads(done.stdout.splitlines()[-1]).values()))
    lines += ["", f"Memory of the longest chain, MB: {', '.join(f'{name} {mb:.0f}' for name, mb in held.items())}."]
    content = "\n".join(lines)
    print(content)
    if options.write:
        write_readme("layers", content)


if __name__ == "__main__":
    main()
