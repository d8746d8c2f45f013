"""`spectrem warmup`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spectrem._outputs import temporary_folder
from spectrem.cli.ending import say

# Every way of training that runs kernels of its own, as parameters of WordAligner.
_RUNS: tuple[dict[str, Any], ...] = (
    {"model": "hmm", "constraints": ("agreement", "fertility")},
    {"model": "hmm", "constraints": (), "gamma": 0.5},
    {"model": "ibm2"},
    {"model": "ibm1"},
    {"model": "hmm", "gamma": 0.0, "max_iter": 1},
    {"model": "hmm", "gamma": -float("inf"), "max_iter": 1},
    {"model": "hmm", "dual_steps": 0, "constraints": ("agreement", "fertility"), "max_iter": 1},
)

# The same of HMMTagger, as options of `spectrem tag train`.
_TAG_RUNS: tuple[dict[str, Any], ...] = (
    {"settings": {"order": 1}},
    {"settings": {"order": 2}},
    {"settings": {"order": 1, "n_states": 4}, "dictionary": None},
    {"settings": {"order": 2, "n_states": 4}, "dictionary": None},
    {"settings": {"order": 1, "gamma": 0.0}},
    {"settings": {"order": 2, "gamma": 0.0}},
    {"settings": {"order": 1}, "constraint": ["at_least(1, 'VERB')"]},
    {"settings": {"order": 2}, "constraint": ["at_least(1, 'VERB')"]},
    {"settings": {"order": 1, "dual_steps": 0}, "constraint": ["at_least(1, 'VERB')", "E[tag == 'NOUN'] <= '60%'"]},
    {"settings": {"order": 2, "dual_steps": 2}, "constraint": ["E[tag == 'NOUN'] <= '60%'", "sparsity(1, 1)"]},
)

# The same of `spectrem cluster` and `spectrem project`, as options.
_CLUSTER_RUNS: tuple[dict[str, Any], ...] = (
    *({"covariance_type": kind} for kind in ("full", "tied", "diag", "spherical")),
    {"gamma": 0.5},
    {"gamma": 0.0},
    {"size": "8:10"},
    {"size": "8:10", "gamma": 0.0},
    {"size": "9:9", "assign": "feasible"},
    {"cannot_link": "pairs.csv"},
)
_PROJECT_RUNS: tuple[dict[str, Any], ...] = (
    {},
    {"gamma": 0.5},
    {"gamma": 0.0},
    {"weights": "w"},
    {"long": "r,label,p"},
)


def warmup() -> None:
    """Compile everything once, so that later commands start at once.

    Takes a minute or two the first time and seconds afterwards. Without it the
    first alignment does the same work. The compiled code lies beside the package,
    or in your cache folder where that cannot be written.
    """
    import tempfile
    import warnings

    from spectrem.cli.alignment.align import AlignmentOptions
    from spectrem.cli.alignment.job import AlignmentJob
    from spectrem.cli.annealing import Annealing
    from spectrem.data import write_lines, write_pharaoh
    from spectrem.datasets import make_bitext
    from spectrem.exceptions import ConvergenceWarning

    started = time.perf_counter()
    bitext = make_bitext(12, seed=0)
    with temporary_folder(tempfile.gettempdir()) as folder:
        both, gold, model, links = (f"{folder}/{name}" for name in ("both.txt", "gold.txt", "model.npz", "links.txt"))
        source, target = f"{folder}/source.txt", f"{folder}/target.txt"
        write_lines(source, bitext.source)
        write_lines(target, bitext.target)
        write_lines(both, [f"{s} ||| {t}" for s, t in zip(bitext.source, bitext.target, strict=True)])
        write_pharaoh(gold, bitext.links)

        usual = AlignmentOptions(source, target, links, probabilities=f"{folder}/probabilities.txt", quiet=True)

        def run(settings: Mapping[str, Any] = {}, **options: Any) -> None:
            AlignmentJob(replace(usual, **options), {"n_threads": 1, **settings}, Annealing()).run()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # toy data; only the code matters
            for settings in _RUNS:
                run(settings)
        run(source=both, target=None, dev=(source, target, gold), save=model)
        run(load=model)
        write_lines(source, make_bitext(12, seed=1).source)  # words that the model does not know
        run(load=model)
        run({"decode": "grow-diag-final-and"}, load=model)
        words = [" ".join(lines).split() * 200 for lines in (bitext.source, bitext.target)]
        write_lines(
            both, [f"{' '.join(words[0][:n])} ||| {' '.join(words[1][:m])}" for n, m in ((150, 150), (2001, 2))]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the second pair is too long for the model
            run(load=model, source=both, target=None)
        _warm_tagger(folder)
        _warm_crf(folder)
        _warm_tables(folder)
        _warm_classifiers()
        _warm_grammars()
        _warm_parsers()
    say(f"compiled in {time.perf_counter() - started:.1f} s")


def _warm_tagger(folder: str) -> None:
    """Train and apply taggers of every kind on a few generated sentences."""
    from spectrem.cli.annealing import Annealing
    from spectrem.cli.tagging.job import TrainingJob
    from spectrem.cli.tagging.train import TrainingOptions
    from spectrem.data import write_tag_dictionary, write_tagged
    from spectrem.datasets import make_tagged_corpus
    from spectrem.estimators import HMMTagger

    text, dictionary, model = (f"{folder}/{name}" for name in ("text.pos", "tags.tsv", "tagger.npz"))
    corpus = make_tagged_corpus(64)  # enough for those that run sentences side by side
    write_tagged(text, corpus.words, corpus.tags)
    write_tag_dictionary(dictionary, corpus.dictionary)
    for run in _TAG_RUNS:
        own = TrainingOptions(
            model, text, run.get("dictionary", dictionary), constraint=run.get("constraint"), quiet=True
        )
        TrainingJob(own, {"random_state": 0, "max_iter": 2, "n_threads": 1, **run["settings"]}, Annealing()).run()
        tagger = HMMTagger.load(model)
        for decode in ("posterior", "viterbi"):
            tagger.set_params(decode=decode).predict(corpus.words)


def _warm_crf(folder: str) -> None:
    """Train and apply conditional random fields of every kind on a few generated sentences."""
    from spectrem.cli.annealing import Annealing
    from spectrem.cli.tagging.crf_job import CRFJob
    from spectrem.cli.tagging.train import TrainingOptions
    from spectrem.data import write_lines, write_tagged
    from spectrem.datasets import make_tagged_corpus
    from spectrem.estimators import CRFTagger

    labelled, plain, model = (f"{folder}/{name}" for name in ("labelled.pos", "plain.txt", "crf.npz"))
    corpus = make_tagged_corpus(64)  # enough for those that run sentences side by side
    write_tagged(labelled, corpus.words[:48], corpus.tags[:48])
    write_lines(plain, [" ".join(words) for words in corpus.words[48:]])
    for settings, constraint in (
        ({}, None),
        ({"pairs": "all", "l1_ratio": 0.5}, None),
        ({"gamma": 0.5}, ["at_least(1, 'VERB')"]),
        ({}, ["(E[(tag == 'VERB') & (previous == 'VERB')] <= 0).per('sentence')"]),
    ):
        own = TrainingOptions(model, plain, labelled=labelled, constraint=constraint, crf=True, quiet=True)
        CRFJob(own, {"max_iter": 2, "m_steps": 4, "n_threads": 1, **settings}, Annealing()).run()
        tagger = CRFTagger.load(model)
        for decode in ("posterior", "viterbi"):
            tagger.set_params(decode=decode).predict(corpus.words)


def _warm_grammars() -> None:
    """Train and apply grammars of dependencies, soft and hard, with one root and with several."""
    from spectrem.datasets import make_treebank
    from spectrem.estimators import DependencyModel

    sentences = [sentence.upos for sentence in make_treebank(12)]
    for single_root in (True, False):
        for gamma in (1.0, 0.0):
            model = DependencyModel(single_root=single_root, gamma=gamma, n_threads=1, max_iter=1, tol=0.0)
            model.fit(sentences).predict(sentences)
            model.predict_proba(sentences)


def _warm_parsers() -> None:
    """Train and apply parsers, projective and not, from trees and without, and models of brackets."""
    from spectrem.datasets import make_bracketed_corpus, make_treebank
    from spectrem.estimators import BracketingModel, EdgeFactoredParser

    trees = make_treebank(12)
    some = [None if number < 4 else tree.heads for number, tree in enumerate(trees)]
    for projective in (True, False):
        for single_root in (True, False):
            parser = EdgeFactoredParser(projective, single_root=single_root, bits=8, passes=1, n_threads=1)
            parser.fit(trees).parse(trees)
            parser.predict_proba(trees)
            parser.set_params(decode="viterbi").predict(trees)
    EdgeFactoredParser(learner="batch", bits=8, gamma=0.5, max_iter=1, m_steps=2, n_threads=1).fit(trees, some)
    tags = make_bracketed_corpus(20)[0]
    for gamma in (1.0, 0.0):
        BracketingModel(gamma=gamma, max_iter=1, tol=0.0, n_threads=1).fit(tags).predict(tags)


def _warm_classifiers() -> None:
    """Train maximum-entropy classifiers on dense and sparse rows, on counts and on features that are there or not."""
    import numpy as np

    from spectrem.estimators import MaxEntClassifier

    counts = np.arange(36.0).reshape(12, 3) % 7
    for n_classes in (2, 3):
        for x in (counts, counts.astype(np.float32), (counts > 3).astype(np.float64)):
            MaxEntClassifier(n_threads=1).fit(x, np.arange(12) % n_classes).predict(x)


def _warm_tables(folder: str) -> None:
    """Cluster and project a few generated rows in every way."""
    from spectrem.cli.tables.cluster import ClusterOptions
    from spectrem.cli.tables.cluster_job import ClusterJob
    from spectrem.cli.tables.project import ProjectOptions
    from spectrem.cli.tables.project_job import ProjectJob
    from spectrem.data import write_lines

    data, lines, constraints, out = (f"{folder}/{name}" for name in ("d.csv", "l.csv", "c.yaml", "out.csv"))
    rows = [(k, 9 * (k % 3) + (k * k) % 7, 5 * (k % 3) + (k * k) % 5, 0.1 + k / 50) for k in range(27)]
    write_lines(data, ["x,y,ham,spam,w", *(f"{x},{y},{1 - p!r},{p!r},2" for _, x, y, p in rows)])
    halves = [line for k, _, _, p in rows for line in (f"{k},ham,{1 - p!r},2", f"{k},spam,{p!r},2")]
    write_lines(lines, ["r,label,p,w", *halves])
    write_lines(f"{folder}/pairs.csv", ["a,b", "0,1", "0,2", "3,4"])
    write_lines(constraints, ["- E[label == 'spam'] == 9", "- (E[label == 'ham'] <= 0.9).per('row')"])
    for run in _CLUSTER_RUNS:
        settings = {"n_components": 3, "random_state": 0, "max_iter": 2, "gamma": 1.0, "n_threads": 1, **run}
        apart = settings.pop("cannot_link", None)
        options = ClusterOptions(
            output=out,
            features="x,y",
            weights="w" if run == {"gamma": 0.5} else None,
            size=settings.pop("size", None),
            cannot_link=apart and f"{folder}/{apart}",
            probabilities=True,
            quiet=True,
        )
        ClusterJob(data, options, settings, None).run()
    for run in _PROJECT_RUNS:
        long = run.get("long")
        wanted = ProjectOptions(
            constraints=constraints,
            output=out,
            labels="ham,spam" if long is None else None,
            long=long,
            weights=run.get("weights"),
            gamma=run.get("gamma", 1.0),
            quiet=True,
        )
        ProjectJob(data if long is None else lines, wanted).run()
