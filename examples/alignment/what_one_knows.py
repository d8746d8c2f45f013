"""
Tell an aligner what is known
=============================

Tell an aligner what is known: a dictionary, links made by hand, words that are copied, lemmas.
"""

from collections import Counter

import numpy as np
from matplotlib.figure import Figure

from spectrem import WordAligner
from spectrem.data import encode_bitext, pharaoh_lines, split_factors
from spectrem.datasets import make_bitext
from spectrem.metrics import alignment_scores
from spectrem.plotting import COLOURS

# Little text, where knowledge helps most. The rest of the made-up bitext has other sentences of the same languages.
source, target, gold = make_bitext(n_pairs=2000, seed=1)
n_pairs = 60
text, true_links = (source[:n_pairs], target[:n_pairs]), gold.take(np.arange(n_pairs))


errors = {}


def show(what, aligner, **given):
    errors[what] = alignment_scores(aligner.predict(*text, **given), true_links).aer
    print(f"{what:48} alignment error rate {errors[what]:.3f}")


show("nothing", WordAligner().fit(*text))

# A dictionary: here the links of the rest, for every other word. Yours is a file of two columns, with
# spectrem.data.read_dictionary. Pairs that never occur together in the text have no effect.
met = Counter()
for n in range(n_pairs, len(source)):
    met.update((source[n].split()[i], target[n].split()[j]) for i, j in gold.pairs(n))
listed = sorted({word for word, _ in met})[::2]
dictionary = {word: {other: 1.0 for (one, other), count in met.items() if one == word and count > 1} for word in listed}
show("a dictionary of half of the words, as counts", WordAligner(dictionary=dictionary).fit(*text))

# The same dictionary as a constraint: in every sentence pair, 80 % of the words that have a listed partner link to it.
rule = "(E[listed] >= 0.8 * E.count(listed)).per('sentence')"
told = WordAligner(dictionary=dictionary, dictionary_strength=0, constraints=[rule, "agreement"])
show("as a constraint", told.fit(*text))

# Anchors: some links of some pairs, as one list per pair or as Links. The other words follow.
anchors = true_links.where(np.arange(true_links.n_links) % 4 == 0)
show("every fourth link", WordAligner().fit(*text, anchors=anchors), anchors=anchors)
print("anchors:", pharaoh_lines(anchors)[0])

# Names, numbers and the like that stand for themselves: kinds of equal tokens get counts, too.
copied = WordAligner(same=["numbers", "urls"]).fit(
    ["call 112 now", "see www.example.org"], ["jetzt 112 rufen", "x www.example.org"]
)
print("pairs of equal tokens:", copied.n_given_)

# Tokens with factors: words are aligned, and those of one lemma help each other.
found = split_factors(encode_bitext(["he|he saw|see it|it"], ["er|er sah|sehen es|es"]), "word|class")
print("classes:", found.source_classes)
WordAligner().fit(found.bitext, classes=(found.source_classes, found.target_classes))

# %%
# What each kind of knowledge is worth on these 60 pairs.
figure = Figure((7.0, 2.4), layout="constrained")
axes = figure.subplots()
axes.bar_label(axes.barh(list(errors), list(errors.values()), color=COLOURS[0]), fmt="%.3f", padding=3)
axes.invert_yaxis()
axes.margins(x=0.15)
axes.set(xlabel="alignment error rate")
alt = "Bars of the alignment error rate: highest where nothing is known, lowest with a dictionary as counts"
