"""
Align text as people write it
=============================

Align text as people write it: tokens with their places, links of words, and the pairs that are worst.

Splitting text into words needs ICU: pip install 'spectrem[text]'.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from spectrem import WordAligner
from spectrem.data import links_of_words, pharaoh_lines, read_pairs
from spectrem.datasets import make_bitext
from spectrem.plotting import COLOURS

# A made-up bitext, written as sentences: "Baba, dodo gugu." Three targets are cut to their first half.
made = make_bitext(n_pairs=600, seed=1)


def written(line: str) -> str:
    first, *rest = line.capitalize().split()
    return f"{' '.join([f'{first},', *rest])}." if rest else f"{first}."


source, target = ([written(line) for line in side] for side in (made.source, made.target))
cut = [10, 20, 30]
for n in cut:
    words = target[n].split()
    target[n] = " ".join(words[: len(words) // 3])

# JSON lines, as other programs write them; .tmx, .parquet, .csv and plain text are read alike. Line n is pair n.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "pairs.jsonl")
    path.write_text("".join(json.dumps({"en": s, "fr": t}) + "\n" for s, t in zip(source, target, strict=True)))
    pairs = read_pairs(path, columns=["en", "fr"], tokenize=True, lowercase=True)

aligner = WordAligner().fit(pairs.bitext)
links = aligner.predict(pairs.bitext)

# Links are between tokens, which know where they stand.
english, french = pairs.segmented
print(source[0], "|", target[0])
print("tokens:        ", english.tokens(0), french.tokens(0))
print("tokens linked: ", pharaoh_lines(links)[0])
for i, j in links.pairs(0)[:3]:
    here, there = english.spans(0)[i], french.spans(0)[j]
    print(f"  {source[0][slice(*here)]!r} at {here} and {target[0][slice(*there)]!r} at {there}")

# The same between words as spaces separate them.
print("words linked:  ", pharaoh_lines(links_of_words(links, english, french))[0])

# Which pairs are no good translations? The lowest scores are to be looked at first.
scores = aligner.score_pairs(pairs.bitext)
print("lowest scores: ", [(n, round(float(scores[n]), 3)) for n in np.argsort(scores)[:6].tolist()])
print("median score:  ", round(float(np.median(scores)), 3))

# %%
# The scores of all pairs: those that were cut stand apart from the others.
figure = Figure((6.0, 3.2), layout="constrained")
axes = figure.subplots()
axes.hist(scores, bins=40, color=COLOURS[0], label="all pairs")
axes.plot(scores[cut], [4] * len(cut), "v", color=COLOURS[1], label="cut to a third")
axes.set(xlabel="score of the pair", ylabel="pairs")
axes.legend(frameon=False)
alt = "Histogram of the scores of all sentence pairs; the three that were cut are far below the others"
