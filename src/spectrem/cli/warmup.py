"""`spectrem warmup`."""

from __future__ import annotations

import time
from typing import Any

import typer

# Every way of training that runs kernels of its own, as parameters of WordAligner.
_RUNS: tuple[dict[str, Any], ...] = (
    {"model": "hmm", "constraints": ("agreement", "fertility")},
    {"model": "hmm", "constraints": (), "gamma": 0.5},
    {"model": "ibm2"},
    {"model": "ibm1"},
    {"model": "hmm", "gamma": 0.0, "iterations": 1},
    {"model": "hmm", "gamma": -float("inf"), "iterations": 1},
    {"model": "hmm", "dual_steps": 0, "constraints": ("agreement", "fertility"), "iterations": 1},
)

# The same of HMMTagger, as options of `spectrem tag train`.
_TAG_RUNS: tuple[dict[str, Any], ...] = (
    {"settings": {"order": 1}},
    {"settings": {"order": 2}},
    {"settings": {"order": 1, "n_states": 4}, "dictionary": None},
    {"settings": {"order": 2, "n_states": 4}, "dictionary": None},
    {"settings": {"order": 1, "gamma": 0.0}},
    {"settings": {"order": 2, "gamma": 0.0}},
    {"settings": {"order": 1}, "constraints": ("VERB >= 1",)},
    {"settings": {"order": 2}, "constraints": ("VERB >= 1",)},
    {"settings": {"order": 1, "dual_steps": 0}, "constraints": ("VERB >= 1", "NOUN <= 60%")},
    {"settings": {"order": 2, "dual_steps": 2}, "constraints": ("NOUN <= 60%", "sparsity 1")},
)


def warmup() -> None:
    """Compile everything once, so that later commands start at once.

    Takes a minute or two the first time and seconds afterwards. Without it the
    first alignment does the same work. The compiled code lies beside the package,
    or in your cache folder where that cannot be written.
    """
    import tempfile
    import warnings

    from spectrem.cli.alignment_job import AlignmentJob
    from spectrem.data import write_lines, write_pharaoh
    from spectrem.datasets import make_bitext
    from spectrem.exceptions import ConvergenceWarning

    started = time.perf_counter()
    bitext = make_bitext(12, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        both, gold, model, links = (f"{folder}/{name}" for name in ("both.txt", "gold.txt", "model.npz", "links.txt"))
        source, target = f"{folder}/source.txt", f"{folder}/target.txt"
        write_lines(source, bitext.source)
        write_lines(target, bitext.target)
        write_lines(both, [f"{s} ||| {t}" for s, t in zip(bitext.source, bitext.target, strict=True)])
        write_pharaoh(gold, bitext.links)

        def run(**options: Any) -> None:
            usual: dict[str, Any] = {
                "source": source,
                "target": target,
                "output": links,
                "probabilities": f"{folder}/probabilities.txt",
                "min_probability": 0.01,
                "training": {},
                "decoding": {"n_threads": 1},
                "dev": None,
                "tune_gamma": False,
                "save": None,
                "load": None,
                "lowercase": False,
                "quiet": True,
            }
            AlignmentJob(**(usual | options)).run()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # toy data; only the code matters
            for training in _RUNS:
                run(training=training)
        run(source=both, target=None, dev=(source, target, gold), save=model)
        run(load=model)
        run(load=model, decoding={"n_threads": 1, "decode": "grow-diag-final-and"})
        _warm_tagger(folder)
    typer.echo(f"compiled in {time.perf_counter() - started:.1f} s", err=True)


def _warm_tagger(folder: str) -> None:
    """Train and apply taggers of every kind on a few generated sentences."""
    from spectrem.cli.tag_training import TrainingJob
    from spectrem.data import write_tag_dictionary, write_tagged
    from spectrem.datasets import make_tagged_corpus
    from spectrem.estimators import HMMTagger

    text, dictionary, model = (f"{folder}/{name}" for name in ("text.pos", "tags.tsv", "tagger.npz"))
    corpus = make_tagged_corpus(64)  # enough for those that run sentences side by side
    write_tagged(text, corpus.words, corpus.tags)
    write_tag_dictionary(dictionary, corpus.dictionary)
    usual: dict[str, Any] = {
        "corpus": text,
        "model": model,
        "dictionary": dictionary,
        "labelled": None,
        "start": None,
        "constraints": (),
        "anneal": None,
        "anneal_rate": 1.2,
        "quench": False,
        "format": "auto",
        "columns": (0, 1),
        "tag_field": "upos",
        "quiet": True,
    }
    for options in _TAG_RUNS:
        settings = {"random_state": 0, "max_iter": 2, "n_threads": 1, **options["settings"]}
        TrainingJob(**(usual | options | {"settings": settings})).run()
        tagger = HMMTagger.load(model)
        for decode in ("posterior", "viterbi"):
            tagger.set_params(decode=decode).predict(corpus.words)
