"""
Align a bitext, keep the model, align new text
==============================================

Align a bitext, look at the probabilities, keep the model and use it on new text.
"""

import tempfile
from pathlib import Path

from spectrem import WordAligner
from spectrem.data import pharaoh_lines
from spectrem.datasets import make_bitext
from spectrem.metrics import alignment_scores
from spectrem.plotting import plot_posteriors

# A made-up bitext whose true links are known. Your own: lists of tokenised lines, or spectrem.data.read_bitext.
source, target, gold = make_bitext(n_pairs=500, seed=1)

# Train. Both directions of an HMM must agree on every link, which is the default.
aligner = WordAligner().fit(source, target)

# Links of every sentence pair: (source word, target word), counted from 0.
links = aligner.predict(source, target)
print("source:", source[0])
print("target:", target[0])
print("links: ", pharaoh_lines(links)[0])
print(f"alignment error rate: {alignment_scores(links, gold).aer:.3f}")

# How sure is it? Rows are source words, columns target words; what is missing to 1 has no counterpart.
posteriors = aligner.predict_proba(source[:1], target[:1])
print(posteriors.average[0].round(2))

# Are links right as often as their probabilities say? The limits of the bins, then what was found in each of them.
print(aligner.predict_proba(source, target).reliability(gold, bins=[0, 0.1, 0.3, 0.5, 0.7, 0.9, 1]))

# The threshold between links and the rest was chosen as if they were. A higher one gives fewer and surer links. `tune`
# chooses one with the help of some gold links.
for threshold in (aligner.threshold_, 0.2, 0.5, 0.8):
    aligner.threshold_ = threshold
    scores = alignment_scores(aligner.predict(source, target), gold)
    print(f"threshold {threshold}: precision {scores.precision:.3f}, recall {scores.recall:.3f}")

# Keep the model; words that it does not know are aligned by their place in the sentence.
with tempfile.TemporaryDirectory() as folder:
    aligner.save(Path(folder, "model.npz"))
    again = WordAligner.load(Path(folder, "model.npz"))
    print("new text:", pharaoh_lines(again.predict([f"{source[0]} unheard-of"], [target[0]]))[0])

# %%
# Probabilities of the first pair: rows are source words, columns target words, boxes are the true links.
figure = plot_posteriors({"first pair": posteriors.average[0]}, source[0].split(), target[0].split(), gold.pairs(0))
alt = "Shaded table of the link probabilities of one sentence pair; the dark cells are those of the true links"
