"""
Deterministic annealing of a tagger
===================================

Deterministic annealing pictured: likelihood and accuracy while beta = 1 / gamma rises to 1.

EM climbs from wherever it starts, and where it ends depends on that. Annealing begins with posteriors so soft that the
start is forgotten, and hardens them step by step, each begun where the last one ended. That is no promise of a better
end: where the dictionary lists 60 words annealing ends above EM, where it lists 45 below. Draws `out/annealing.png`, or
the file named on the command line.
"""

import sys
from collections import Counter
from itertools import chain
from pathlib import Path

from spectrem import HMMTagger
from spectrem.datasets import make_tagged_corpus
from spectrem.learning import Anneal
from spectrem.metrics import tagging_accuracy
from spectrem.plotting import Line, Panel, draw_panels, save_figure

picture = Path(sys.argv[1] if len(sys.argv) > 1 else "out/annealing.png")
sentences, gold, complete = make_tagged_corpus(1000, seed=2)
right = list(chain.from_iterable(gold))
frequent = [word for word, _ in Counter(chain.from_iterable(sentences)).most_common()]

# The whole schedule in one fit is HMMTagger(schedule=schedule); below each step is looked at.
schedule = Anneal(beta_min=0.1, alpha=1.6)
betas = [1 / gamma for gamma in schedule.gammas()]


def measured(tagger):
    """Log-likelihood per word (nats) and accuracy."""
    predicted = list(chain.from_iterable(tagger.predict(sentences)))
    return tagger.score(sentences), tagging_accuracy(predicted, right)


panels = []
for size in (60, 45):
    settings = {
        "tags": sorted(set(right)),
        "dictionary": {word: complete[word] for word in frequent[:size]},
        "smoothing": 0.01,
        "max_iter": 300,
    }
    likelihoods, accuracies = [], []
    for start in range(2):
        em = measured(HMMTagger(**settings, init="random", random_state=start).fit(sentences))
        tagger, steps = "random", []
        for beta in betas:
            tagger = HMMTagger(**settings, gamma=1 / beta, init=tagger, random_state=start).fit(sentences)
            steps.append(measured(tagger))
        for name, (likelihood, accuracy) in (("EM", em), ("annealed", steps[-1])):
            print(f"{size} words, start {start}, {name:>8}: {likelihood:.4f} nats per word, accuracy {accuracy:.3f}")
        for lines, end, annealed in zip((likelihoods, accuracies), em, zip(*steps, strict=True), strict=True):
            lines.append(Line("EM, from two random starts", [betas[0], 1], [end, end], colour=1, style=1, marked=False))
            lines.append(Line("annealed, from the same two", betas, annealed))
    title = f"dictionary of {size} words"
    if size == 60:
        panels.append(Panel(title, "beta = 1 / gamma", "log-likelihood, nats per word", likelihoods))
    panels.append(Panel(title, "beta = 1 / gamma", "accuracy", accuracies, y_limits=(0.66, 0.92)))

picture.parent.mkdir(parents=True, exist_ok=True)
figure = draw_panels(panels)
save_figure(figure, picture)
print(f"drawn to {picture}")
alt = "Log-likelihood and accuracy while beta rises to 1, annealed and by EM, for dictionaries of 60 and of 45 words"
