"""
What a parser is unsure of
==========================

A parser from twenty trees, what it is unsure of, and pictures of that.

The parser gives every arc a probability. A drawing of these shows where it hesitates, which the best tree hides.
Projective trees have no crossing arcs; without that knowledge, more arcs are in question. Draws ``out/trees.png``:
probable arcs thick, true ones blue, wrong ones dashed.
"""

from pathlib import Path

import numpy as np

from spectrem import EdgeFactoredParser
from spectrem.datasets import make_treebank
from spectrem.metrics import attachment_scores, head_is_next
from spectrem.plotting import plot_trees, save_figure

train, test = make_treebank(20, seed=0), make_treebank(200, seed=1)
gold = [sentence.heads for sentence in test]

posteriors = {}
print(f"unlabelled attachment, {len(test)} new sentences")
for name, projective in (("projective", True), ("arcs may cross", False)):
    parser = EdgeFactoredParser(projective=projective, bits=12, passes=5).fit(train)
    posteriors[name] = parser.predict_proba(test)
    scores = attachment_scores(gold, parser.predict(test))
    unsure = np.mean([1 - np.max(row) for table in posteriors[name] for row in table])
    print(f"{name:>16}  {scores.uas:.3f}  whole trees {scores.exact_match:.2f}  mean doubt {unsure:.3f}")
print(f"{'head = next word':>16}  {attachment_scores(gold, head_is_next([len(heads) for heads in gold])).uas:.3f}")

# Of the sentences of five to nine words the one in which the parser is least sure.
short = [n for n, sentence in enumerate(test) if 5 <= len(sentence.forms) <= 9]
number = min(short, key=lambda n: np.max(posteriors["projective"][n], axis=1).min())
figure = plot_trees(
    test[number].forms,
    {name: tables[number] for name, tables in posteriors.items()},
    gold[number],
    tags=test[number].upos,
)
out = Path("out")
out.mkdir(exist_ok=True)
save_figure(figure, out / "trees.png")
print(f"{' '.join(test[number].forms)}: see {out / 'trees.png'}")
alt = "Arcs of a sentence by probability, projective and with crossing arcs, wrong ones dashed"
