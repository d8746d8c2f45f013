"""`spectrem warmup`."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from spectrem._outputs import temporary_folder
from spectrem.cli.ending import compilation_watched, progress_bar, say
from spectrem.cli.signals import ignore_signals
from spectrem.exceptions import InvalidInputError

_FAMILIES = ("align", "tag", "cluster", "states", "project", "parse", "classify")
# Every way of a command that runs kernels of its own; see `_write_inputs` for the files.
_RUNS = """
align en fr --constraint agreement --constraint fertility
align en fr --constraint none --gamma 0.5
align en fr --model ibm2
align en fr --model ibm1
align en fr --gamma 0 --max-iter 1
align few.en few.fr --gamma -inf --max-iter 1
align few.en few.fr --dual-steps 0 --constraint agreement --constraint fertility --max-iter 1
align both --dev en fr gold --save model
align en fr --load model
align new fr --load model
align new fr --load model --decode grow-diag-final-and
align new fr --load model --update --save updated --save-min-count 0.01
align en fr --max-iter 1 --spill .
align long --load model
tag train tagged --dictionary tags --order 1
tag train tagged --dictionary tags --order 2
tag train tagged --n-states 4 --order 1
tag train tagged --n-states 4 --order 2
tag train tagged --dictionary tags --order 1 --gamma 0
tag train tagged --dictionary tags --order 2 --gamma 0
tag train tagged --dictionary tags --order 1 --constraint "at_least(1, 'VERB')"
tag train tagged --dictionary tags --order 2 --constraint "at_least(1, 'VERB')"
tag train tagged --dictionary tags --order 1 --dual-steps 0 --constraint "at_least(1, 'VERB')" --constraint \
"E[tag == 'NOUN'] <= '60%'"
tag train tagged --dictionary tags --order 2 --dual-steps 2 --constraint "E[tag == 'NOUN'] <= '60%'" --constraint \
"sparsity(1, 1)"
tag train plain --crf --labelled labelled
tag train plain --crf --labelled labelled --pairs all --l1-ratio 0.5
tag train plain --crf --labelled labelled --gamma 0.5 --constraint "at_least(1, 'VERB')"
tag train plain --crf --labelled labelled --constraint \
"(E[(tag == 'VERB') & (previous == 'VERB')] <= 0).per('sentence')"
cluster d.csv --covariance-type full
cluster d.csv --covariance-type tied
cluster d.csv --covariance-type diag
cluster d.csv --covariance-type spherical
cluster gaps.csv
cluster d.csv --gamma 0.5 --weights w
cluster d.csv --gamma 0
cluster d.csv --size 8:10
cluster d.csv --size 8:10 --gamma 0
cluster d.csv --size 9:9 --assign feasible
cluster d.csv --cannot-link pairs.csv
states fit d.csv --features x,y --covariance-type tied
states fit d.csv --features x,y --covariance-type diag
states fit d.csv --features x,y --gamma 0
states fit d.csv --features x,y --emissions poisson --durations poisson
states predict d.csv --load states --decode viterbi -o out.csv
states fit d.csv --features x,y --constraint "E[state == 0] <= 15"
states fit d.csv --features x,y --constraint "E[(state == 0) & (previous == 1)] <= 2"
states fit gaps.csv
states predict gaps.csv --load states --add-probabilities -o out.csv
states forecast gaps.csv --load states -o out.csv
project d.csv --labels ham,spam -c c.yaml
project d.csv --labels ham,spam --constraint "(E[label == 'ham'] <= 0.9).per('row')"
project d.csv --labels ham,spam --constraint "(E[label == 'ham'] <= 0.9).per('row')" --gamma 0.5
project d.csv --labels ham,spam --constraint "(E[label == 'ham'] <= 0.9).per('row')" --gamma 0
project d.csv --labels ham,spam --constraint "(E[label == 'ham'] <= 0.9).per('row')" --weights w
project l.csv --long r,label,p --constraint "(E[label == 'ham'] <= 0.9).per('row')"
project d.csv --labels ham,spam --constraint "(E[label == 'spam'] <= 0.3).per('row').slack(penalty=2, norm='linf')"
project d.csv --labels ham,spam --constraint "(E[...] <= 1).per('label').slack(penalty=1, norm='l2')" --constraint \
"(E[label == 'ham'] <= 0.9).per('row')"
project d.csv --labels ham,spam --constraint "E[label == 'spam'] == 9" --weights w
project d.csv --labels ham,spam --constraint "E[label == 'spam'] == 9" --gamma 0
"""
_MORE = {
    "align": "-o links --probabilities probabilities --n-threads 1",
    "tag": "--save tagger --max-iter 2 --n-threads 1",
    "cluster": "-k 3 --features x,y --add-probabilities --max-iter 2 --n-threads 1 -o out.csv",
    "project": "-o out.csv",
    "states fit": "-k 2 --save states --init clusters --n-init 1 --max-iter 2 --n-threads 1",
}


def warmup(
    context: typer.Context,
    only: Annotated[
        str, typer.Option("--for", metavar="FAMILIES", help="What to compile for, separated by commas.")
    ] = ",".join(_FAMILIES),
) -> None:
    """Compile everything once, so that later commands start at once.

    Example: **spectrem warmup --for align,tag**

    Takes some minutes the first time and seconds afterwards. Without it the first
    run of each command does its part of the work. The compiled code lies beside
    the package, or in your cache folder where that cannot be written.
    """
    import tempfile
    import warnings

    families = only.split(",")
    for family in families:
        if family not in _FAMILIES:
            raise InvalidInputError(
                f"--for {only}: {family!r} is not a family of kernels; those are {', '.join(_FAMILIES)}"
            )
    place, n_compiled = os.getcwd(), 0

    def count(n_kernels: int, _: int) -> None:
        nonlocal n_compiled
        n_compiled = n_kernels

    with (
        temporary_folder(tempfile.gettempdir()) as folder,
        progress_bar(len(families), shown=True) as bar,
        compilation_watched(count),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # about toy data
        os.chdir(folder)
        try:
            _write_inputs()
            for family in families:
                started, before = time.perf_counter(), n_compiled
                steps = _steps(context.find_root().command, family)
                for step in steps:
                    bar(family)
                    step()
                    bar(family, 1 / len(steps))
                n_new, seconds = n_compiled - before, time.perf_counter() - started
                say(f"{family}: {f'{n_new} kernels compiled' if n_new else 'compiled before'}, {seconds:.1f} s")
        finally:
            os.chdir(place)


def _steps(app: Any, family: str) -> list[Callable[[], None]]:
    """The function that runs all kernels of a family."""
    functions: dict[str, list[Callable[[], None]]] = {
        "align": [partial(_warm_structures, family), _warm_tables],
        "cluster": [_warm_mixture],
        "project": [_warm_targets],
        "tag": [partial(_warm_structures, family)],
        "parse": [_warm_grammars, _warm_parsers, partial(_warm_structures, family)],
        "classify": [_warm_classifiers],
    }
    runs = map(shlex.split, _RUNS.replace("\\\n", "").strip().splitlines())
    return [partial(_run, app, *words) for words in runs if words[0] == family] + functions.get(family, [])


def _write_inputs() -> None:
    """Small generated files of every kind, in the working folder."""
    from spectrem.data import write_lines, write_pharaoh, write_tag_dictionary, write_tagged
    from spectrem.datasets import make_bitext, make_tagged_corpus

    bitext = make_bitext(12, seed=0)
    write_lines("en", bitext.source)
    write_lines("fr", bitext.target)
    write_lines("few.en", bitext.source[:2])
    write_lines("few.fr", bitext.target[:2])
    write_lines("both", [f"{s} ||| {t}" for s, t in zip(bitext.source, bitext.target, strict=True)])
    write_pharaoh("gold", bitext.links)
    write_lines("new", make_bitext(12, seed=1).source)  # words that the model does not know
    source, target = (" ".join(lines).split() * 200 for lines in (bitext.source, bitext.target))
    sizes = (150, 150), (2001, 2)  # the second pair is too long for the model
    write_lines("long", [f"{' '.join(source[:n])} ||| {' '.join(target[:m])}" for n, m in sizes])
    corpus = make_tagged_corpus(64)  # enough for those that run sentences side by side
    write_tagged("tagged", corpus.words, corpus.tags)
    write_tag_dictionary("tags", corpus.dictionary)
    write_tagged("labelled", corpus.words[:48], corpus.tags[:48])
    write_lines("plain", map(" ".join, corpus.words[48:]))
    rows = [(9 * (k % 3) + (k * k) % 7, 5 * (k % 3) + (k * k) % 5, 0.1 + k / 50) for k in range(27)]
    write_lines("d.csv", ["x,y,ham,spam,w", *(f"{x},{y},{1 - p!r},{p!r},2" for x, y, p in rows)])
    write_lines("gaps.csv", ["x,y", *(f"{x if x % 3 else ''},{y if y % 4 else ''}" for x, y, _ in rows)])
    lines = [f"{k},{label},{p!r},2" for k, (_, _, p) in enumerate(rows) for label, p in (("ham", 1 - p), ("spam", p))]
    write_lines("l.csv", ["r,label,p,w", *lines])
    write_lines("pairs.csv", ["a,b", "0,1", "0,2", "3,4"])
    write_lines("c.yaml", ["- E[label == 'spam'] == 9"])


def _run(app: Any, *words: str) -> None:
    """Run a command on toy data, whose results do not matter; taggers are applied, too."""
    more = _MORE.get(words[0], _MORE.get(" ".join(words[:2]), ""))
    app.main([*words, *more.split(), "-q"], standalone_mode=False)
    if words[0] == "tag":
        for decode in ("posterior", "viterbi"):
            command = f"tag predict tagged --load tagger --input-format slash -o out --decode {decode} -q"
            app.main([*command.split(), "--probabilities", "posteriors"], standalone_mode=False)
    ignore_signals(False)  # until the next outputs are complete


def _warm_tables() -> None:
    """Pack and add up entries of tables of word pairs, as texts that are cut into several shards need it."""
    import numpy as np

    from spectrem.kernels.unions import count_union, merge, spread
    from spectrem.models.alignment.pairs import pack, unpack

    here, there = (unpack(pack(np.array(entries, np.int32))) for entries in ([0, 2], [1, 2]))
    union, forward, backward = np.empty(count_union(here, there), np.int32), np.zeros(3), np.zeros(3)
    merge(here, forward, backward, there, np.zeros(2), np.zeros(2), union)
    spread(union, forward)


def _warm_mixture() -> None:
    """Fill in a value that is missing."""
    import numpy as np

    from spectrem.estimators import GaussianMixture

    x = np.array([[0.0, 1.0], [1.0, np.nan], [5.0, 6.0], [6.0, 5.0]])
    GaussianMixture(2, max_iter=1, n_init=1, n_threads=1).fit(x).impute(x)


def _warm_targets() -> None:
    """Project a batch onto a constraint over all batches beside one within rows."""
    import numpy as np

    from spectrem.constraints import E, part
    from spectrem.tables import ConstrainedTargets

    spam = E[part("label") == "spam"]
    targets = ConstrainedTargets([spam == 4, (spam <= 0.6).per("row")], n_rows=9, labels=["ham", "spam"])
    targets.update(np.log([[0.3, 0.7], [0.8, 0.2], [0.4, 0.6]]))


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


def _warm_structures(family: str) -> None:
    """Run structures of scores so far apart that scaled sums underflow; draw some, and list the best."""
    import numpy as np

    from spectrem.structures import (
        Alignment,
        Bracketings,
        Chain,
        Chain2,
        EdgeChain,
        NonProjectiveTrees,
        Parts,
        ProjectiveTrees,
        ValenceTrees,
        n_best,
        sample,
    )

    lengths = [3, 5, 4]
    structures: dict[str, list[Any]] = {
        "align": [Alignment(lengths, lengths), Alignment(lengths, lengths, 2)],
        "tag": [Chain(lengths, 3), Chain2(lengths, 3), EdgeChain(lengths, 3)],
        "parse": [ProjectiveTrees(lengths), ValenceTrees(lengths), Bracketings(lengths)],
    }
    rng = np.random.default_rng(0)

    def scores(structure: Any, size: float) -> Parts:
        shapes = (structure.n_unary, *structure.factor_shapes)
        unary, *factors = (size * rng.choice([-1.0, 0.5, 1.0], shape) for shape in shapes)
        return Parts(unary, tuple(factors))

    for structure in structures[family]:
        for size in (1.0, 1000.0):
            far = scores(structure, size)
            structure.smoothed_max(far, 1.0)
            structure.decode(far)
            sample(structure, far, 2, 0)
            n_best(structure, far, 2)
            derivations = structure.derivations(0)
            derivations.entropy(derivations.scores(far), 1.0)
            if hasattr(structure, "covariances"):
                structure.covariances(far, scores(structure, 1.0))
    if family == "parse":
        for single_root in (True, False):
            trees = NonProjectiveTrees(lengths, single_root=single_root)
            far = scores(trees, 1000.0)
            trees.smoothed_max(far, 1.0)
            trees.covariances(far, far)
            sample(trees, far, 2, 0)
            n_best(trees, far, 2)


def _warm_classifiers() -> None:
    """Train maximum-entropy classifiers on dense and sparse rows, counts and features, and label models on votes."""
    import numpy as np

    from spectrem.estimators import LabelModel, MaxEntClassifier, SequenceLabelModel

    counts = np.arange(36.0).reshape(12, 3) % 7
    for n_classes in (2, 3):
        for x in (counts, counts.astype(np.float32), (counts > 3).astype(np.float64)):
            MaxEntClassifier(n_threads=1).fit(x, np.arange(12) % n_classes).predict(x)
    votes = np.arange(24).reshape(8, 3) % 4 - 1
    for constraints in ((), "E[label == 1] <= 2"):
        LabelModel(constraints=constraints, max_iter=2, tol=0.0, n_threads=1).fit(votes).predict(votes)
    words, spans = [["a", "b", "a"], ["b", "a"]], [{"x": [(0, 2, "A")], "y": [(1, 3, "A")]}, {}]
    for constraints in ((), "E[tag == 'O'] <= 4"):
        SequenceLabelModel(constraints=constraints, n_threads=1).fit(words, spans).predict(words, spans)
