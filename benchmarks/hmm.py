"""EM of hidden Markov models: seconds per iteration, memory, share of the machine's multiply-adds; see README.md.

The corpus is drawn by a generator that lies outside the project, the same for every library. Each number of states
runs in a process of its own, so that memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import anonymous, load_module, most_anonymous, write_readme
from numba import njit

from spectrem.corpus import Local
from spectrem.learning import EStep, Stopping, run_em
from spectrem.models.tagging import HMMModel, HMMParameters, Lexicon, TagKernel, build_shards, uniform
from spectrem.structures import TiedChain

HERE = Path(__file__).resolve().parent
N_WORDS = 10_000
# Log-likelihoods before the first three M-steps and processor seconds per iteration, hmmlearn 0.3.3, "scaling".
HMMLEARN: dict[int, tuple[tuple[float, float, float], float]] = {
    12: ((-8918390.523053933, -6430186.420658945, -6429546.016986755), 1.5),
    17: ((-8895244.47295521, -6430376.7043062905, -6429734.975851244), 2.25),
    45: ((-8885369.468230832, -6430005.50148318, -6429230.634040311), 7.6),
}


@njit(nogil=True, fastmath={"contract"})
def _multiply_adds(x, a, b, rounds):
    """Four chains of dependent multiply-adds at a time, each over whole vectors, and few enough to overlap the next."""
    n = len(x) // 4
    for _ in range(rounds):
        for k in range(n):
            s, t, u, v = x[k], x[n + k], x[2 * n + k], x[3 * n + k]
            for _ in range(6):
                s, t, u, v = s * a + b, t * a + b, u * a + b, v * a + b
            x[k], x[n + k], x[2 * n + k], x[3 * n + k] = s, t, u, v


def peak() -> float:
    """Multiply-adds per processor second of one thread, the best of several tries."""
    x, rounds = np.linspace(0.0, 1.0, 512), 4000
    _multiply_adds(x, 0.5, 0.25, 1)
    seconds = []
    for _ in range(30):
        started = time.thread_time()
        _multiply_adds(x, 0.5, 0.25, rounds)
        seconds.append(time.thread_time() - started)
    return 6 * rounds * len(x) / min(seconds)


def run_states(generator: Any, n_states: int, iterations: int, threads: list[int]) -> dict[str, Any]:
    """Everything measured at one number of states."""
    corpus = generator.hmm_corpus()
    tokens, lengths = corpus["tokens"], corpus["lengths"]
    del corpus
    lexicon = Lexicon.full(N_WORDS, n_states)
    model = HMMModel(lexicon, order=1)
    start = start_parameters(generator, n_states)
    shards = build_shards(lexicon, lengths, tokens)
    kernel = TagKernel(model)
    # Compile before anything is measured.
    run_em(model, shards[:1], start, EStep(kernel=kernel), stopping=Stopping(1))
    result: dict[str, Any] = {"n_states": n_states, "n_shards": len(shards), "seconds": {}, "memory": 0.0}
    for n in threads:
        before, corpus, stopping = anonymous(), Local(shards, n), Stopping(iterations)
        with most_anonymous() as most:
            history = run_em(model, corpus, start, EStep(kernel=kernel), stopping=stopping).history
        result["seconds"][n] = statistics.median(record.seconds for record in history)
        result["memory"] = max(result["memory"], most() - before)
        result["likelihoods"] = [record.free_objective for record in history[:3]]
    table = kernel.table(start, 1.0)
    assert isinstance(table, TiedChain)
    result["kernel"] = min(kernel_seconds(table, shards) for _ in range(iterations))
    # Forward, backward and expected transitions: each token but the first of a sentence takes n_states^2 of each.
    result["multiply_adds"] = 3 * n_states**2 * int((lengths[lengths > 0] - 1).sum())
    result["peak"] = peak()
    result["hmmlearn"] = time_hmmlearn(generator, n_states, tokens, lengths)
    return result


def start_parameters(generator: Any, n_states: int) -> HMMParameters:
    initial, transition, emission = generator.hmm_init(n_states)
    return HMMParameters(initial, transition, None, np.ascontiguousarray(emission.T).ravel())


def kernel_seconds(table: TiedChain, shards: list[Any]) -> float:
    """Processor seconds of one pass over the corpus, one thread."""
    started = time.thread_time()
    for shard in shards:
        table.expected_counts(shard.lengths, shard.entries, shard.weights)
    return time.thread_time() - started


def time_hmmlearn(generator: Any, n_states: int, tokens: np.ndarray, lengths: np.ndarray) -> float | None:
    """Processor seconds of one iteration; None if it is not installed."""
    try:
        from hmmlearn.hmm import CategoricalHMM
    except ImportError:
        return None
    hmm = CategoricalHMM(n_states, implementation="scaling", n_iter=1, init_params="", params="ste")
    hmm.startprob_, hmm.transmat_, hmm.emissionprob_ = generator.hmm_init(n_states)
    hmm.n_features = N_WORDS
    started = time.process_time()
    hmm.fit(tokens[:, None], lengths)
    return time.process_time() - started


def run_dictionary(data: Path, iterations: int) -> dict[str, Any] | None:
    """The Penn sample with its tag dictionary: tokens have few states, which the pass for restricted rows takes."""
    from spectrem.data import read_tag_dictionary, read_tagged

    paths = data / "tag" / "wsj_sample.pos.gz", data / "tag" / "tagdict_sample_conll2000_ewt3.tsv.gz"
    if not all(path.is_file() for path in paths):
        return None
    sentences, dictionary = read_tagged(paths[0], format="slash").words, read_tag_dictionary(paths[1])
    tags = {tag: k for k, tag in enumerate(sorted({tag for own in dictionary.values() for tag in own}))}
    words = {word: k for k, word in enumerate(sorted({word for sentence in sentences for word in sentence}))}
    allowed = [sorted(tags[tag] for tag in dictionary.get(word, tags)) for word in words]
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in allowed])])
    lexicon = Lexicon.from_allowed(offsets, np.concatenate(allowed), len(tags))
    lengths = np.array([len(sentence) for sentence in sentences])
    tokens = np.array([words[word] for sentence in sentences for word in sentence])
    model = HMMModel(lexicon, order=1)
    shards, start = build_shards(lexicon, lengths, tokens), uniform(model)
    kernel = TagKernel(model)
    history = run_em(model, shards, start, EStep(kernel=kernel), stopping=Stopping(iterations)).history
    table = kernel.table(start, 1.0)
    assert isinstance(table, TiedChain)
    return {
        "n_tokens": len(tokens),
        "mean_states": float(np.diff(offsets)[tokens].mean()),
        "seconds": statistics.median(record.seconds for record in history),
        "kernel": min(kernel_seconds(table, shards) for _ in range(iterations)),
    }


def report(results: list[dict[str, Any]], dictionary: dict[str, Any] | None, threads: list[int]) -> str:
    seconds = [f"{n} thread{'s' if n > 1 else ''}, s" for n in threads]
    columns = ["states", *seconds, "hmmlearn, processor s", "extra memory, MB", "log-likelihoods differ by at most"]
    columns += ["kernel, processor s", "multiply-adds, 10⁹/s", "peak, 10⁹/s", "share of peak"]
    lines = [
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}.",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'--:|' * len(columns)}",
    ]
    for result in results:
        likelihoods, published = HMMLEARN.get(result["n_states"], ((), float("nan")))
        pairs = zip(result["likelihoods"], likelihoods, strict=False)
        worst = max((abs(ours / theirs - 1) for ours, theirs in pairs), default=float("nan"))
        rate = result["multiply_adds"] / result["kernel"]
        peer = f"{result['hmmlearn']:.2f}" if result["hmmlearn"] else f"{published} (published)"
        cells = [f"{result['n_states']}", *(f"{result['seconds'][str(n)]:.3f}" for n in threads), peer]
        cells += [f"{result['memory']:.0f}", f"{worst:.0e}", f"{result['kernel']:.3f}", f"{rate / 1e9:.1f}"]
        cells += [f"{result['peak'] / 1e9:.1f}", f"{100 * rate / result['peak']:.0f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    if dictionary is not None:
        lines += [
            "",
            f"With a tag dictionary ({dictionary['n_tokens']:,} tokens of the Penn sample, "
            f"{dictionary['mean_states']:.2f} states per token), 1 thread: {1000 * dictionary['seconds']:.1f} ms per "
            f"iteration, {1000 * dictionary['kernel']:.1f} ms of it in the kernel.",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = HERE.parent.parent / "shared"
    parser.add_argument("--generator", type=Path, default=beside / "bench", help="folder of gen.py")
    parser.add_argument("--data", type=Path, default=os.environ.get("SPECTREM_DATA", beside / "data"))
    parser.add_argument("--states", default="12,17,45")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--iterations", type=int, default=7, help="of which the median is shown")
    parser.add_argument("--no-readme", action="store_true", help="print only")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    threads = [int(n) for n in options.threads.split(",")]
    generator = load_module(options.generator, "gen")
    if options.child is not None:
        print(json.dumps(run_states(generator, options.child, options.iterations, threads)))
        return
    results = []
    for n_states in options.states.split(","):
        run = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child", n_states], stdout=subprocess.PIPE)
        if run.returncode:
            sys.exit(run.returncode)
        results.append(json.loads(run.stdout))
    content = report(results, run_dictionary(Path(options.data), 20), threads)
    print(content)
    if not options.no_readme:
        write_readme("hmm", content)


if __name__ == "__main__":
    main()
