"""Projections of tables onto constraints: seconds, KL and violation, beside plain NumPy duals; see README.md.

The tables are drawn by a generator that lies outside the project, together with the peer (`gen.py`, `klref.py`). Where
cvxpy is installed, it solves the same problems once each, by Clarabel.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import load_module, timed, write_readme

from spectrem import linear, project

HERE = Path(__file__).resolve().parent
# KL in nats found by two other solvers to all digits shown, and seconds aimed at.
KNOWN = {"corpus, 20 rows": 236.832959, "corpus, 2,000 rows": 1585.18516, "10,000 instances, 3 rows each": 895.161564}


def general_solver(work: Any, matrix: Any, bounds: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Seconds of cvxpy with Clarabel and its table, None where they are not installed."""
    try:
        import cvxpy
    except ImportError:
        return None
    p = work["P"]
    q = cvxpy.Variable(p.shape)
    rules = [matrix @ cvxpy.vec(q, order="C") <= bounds, cvxpy.sum(q, axis=1) == 1]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.rel_entr(q, p))), rules)
    started = time.perf_counter()
    problem.solve(solver=cvxpy.CLARABEL)
    return time.perf_counter() - started, np.asarray(q.value)


def main() -> None:
    """Run all rows and print them, or put them into the README."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generator", type=Path, default=HERE.parents[1] / "shared" / "bench")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-peer", action="store_true", help="leave the others out")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")
    options = parser.parse_args()
    gen, reference = load_module(options.generator, "gen"), load_module(options.generator, "klref")
    works = dict(zip(KNOWN, (gen.kl_corpus(m=20), gen.kl_corpus(m=2000), gen.kl_instance()), strict=True))
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}; median of {options.repeats}.",
        "",
        "| work | wall s | processor s | passes | KL, nats | KL known | relative violation "
        "| peer, wall s | processor s | KL | cvxpy, wall s | KL |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, work in works.items():
        matrix, bounds = reference.U_of(work)
        rule = linear(matrix, bounds, scope="instance" if "instances" in name else "corpus")

        def ours(p: Any = work["P"], rule: Any = rule) -> Any:
            return project(p, rule)

        ours()  # compiles
        wall, processor, table = timed(ours, options.repeats)
        quality = reference.quality(work, table.proba)
        peer_text, general = " | | |", None
        if not options.no_peer:
            solve = reference.solve_inst if "instances" in name else reference.solve
            peer_wall, peer_processor, (q, *_) = timed(lambda solve=solve, work=work: solve(work), 3)
            peer_text = f" {peer_wall:.2f} | {peer_processor:.2f} | {reference.quality(work, q)['kl']:.6f} |"
            general = general_solver(work, matrix, bounds)
        if general is None:
            general_text = " - | - |"
        else:
            general_text = f" {general[0]:.1f} | {reference.quality(work, general[1])['kl']:.6f} |"
        line = (
            f"| {name} | {wall:.3f} | {processor:.3f} | {table.n_evaluations} | {table.kl:.6f} | {KNOWN[name]} "
            f"| {max(quality['rel_violation'], 0.0):.0e} |{peer_text}{general_text}"
        )
        lines.append(line)
        print(line, flush=True)
        assert abs(table.kl - KNOWN[name]) <= 1e-5 * KNOWN[name]
        assert np.abs(table.proba.sum(axis=1) - 1).max() <= 1e-12
    if options.write:
        write_readme("projection", "\n".join(lines))


if __name__ == "__main__":
    main()
