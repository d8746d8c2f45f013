"""The way from `fit` to the scores of a shard is short: at most ten calls of this library, for every family."""

import sys
from pathlib import Path

import numpy as np
import pytest

import spectrem
from spectrem import (
    BracketingModel,
    CRFTagger,
    DependencyModel,
    E,
    EdgeFactoredParser,
    GaussianMixture,
    HMMTagger,
    MaxEntClassifier,
    WordAligner,
    part,
)
from spectrem.datasets import make_bitext, make_bracketed_corpus, make_tagged_corpus, make_treebank

LONGEST = 10
LIBRARY = str(Path(spectrem.__file__).parent)
TEXT, TREES, BITEXT = make_tagged_corpus(20), make_treebank(12), make_bitext(12)
SOME = [tags if k % 2 else None for k, tags in enumerate(TEXT.tags)]
ROWS = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([0.0, 4.0], 20)[:, None]
LABELS = [k // 20 if k % 2 else -1 for k in range(40)]
HALF = E[part("label") == 1] == E.count(..., each="row") / 2
VERBS = E[part("tag") == "VERB"] >= 0.2 * E.count(...)
FITS = {
    "classifier": lambda: MaxEntClassifier().fit(ROWS, LABELS),
    "constrained classifier": lambda: MaxEntClassifier([HALF]).fit(ROWS, LABELS),
    "CRF": lambda: CRFTagger("words").fit(TEXT.words, SOME),
    "constrained CRF": lambda: CRFTagger("words", constraints=[VERBS]).fit(TEXT.words, SOME),
    "constrained HMM": lambda: HMMTagger(constraints=[VERBS], dictionary=TEXT.dictionary).fit(TEXT.words),
    "constrained mixture": lambda: GaussianMixture(2, constraints=[HALF], random_state=0).fit(ROWS),
    "grammar": lambda: DependencyModel(constraints=["E[direction == 'left'] <= '90%'"]).fit([t.upos for t in TREES]),
    "brackets": lambda: BracketingModel().fit(make_bracketed_corpus(12)[0]),
    "parser": lambda: EdgeFactoredParser(learner="batch", bits=8).fit(
        TREES, [tree.heads if k > 4 else None for k, tree in enumerate(TREES)]
    ),
    "hard alignment": lambda: WordAligner(gamma=0.0).fit(BITEXT.source, BITEXT.target),
}


def ways_to_scores(fit):
    """The names of the calls from `fit` to `scores` of the model, of which parts of the model may have others."""
    ways = set()

    def listen(frame, event, argument):
        if event == "call" and frame.f_code.co_name == "scores":
            way = []
            while frame is not None:
                if frame.f_code.co_filename.startswith(LIBRARY):
                    way.append(frame.f_code.co_name)
                frame = frame.f_back
            if way.count("scores") == 1:
                ways.add(tuple(way[way.index("fit") :: -1]))

    sys.setprofile(listen)
    try:
        fit()
    finally:
        sys.setprofile(None)
    return ways


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FITS)
def test_scores_are_near(family, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # threads begin ways of their own
    ways = ways_to_scores(FITS[family])
    assert ways
    longest = max(ways, key=len)
    assert len(longest) <= LONGEST, " > ".join(longest)
