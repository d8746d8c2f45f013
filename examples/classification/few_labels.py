"""
Few labels, partial labels, known proportions
=============================================

Few labels, partial labels and known proportions: a maximum-entropy classifier of short texts.

Texts on three topics share most of their words. Of two texts per topic the label is known; of some others only that
they are not about sport, which is a set of allowed labels; and from a survey, what share of all texts each topic has.
The same classifier takes all three: labels, then a line about proportions, then sets beside labels.

At gamma = 1 texts without labels move the classifier little, as it may be in doubt about every one; gamma = 0.5 asks
for a decision as well as for the proportions.
"""

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure

from spectrem import MaxEntClassifier
from spectrem.constraints import label_proportions
from spectrem.plotting import COLOURS

TOPICS = ["culture", "politics", "sport"]
SHARES = np.array([0.2, 0.3, 0.5])

rng = np.random.default_rng(0)
gold = rng.choice(TOPICS, 1200, p=SHARES)
# Words 0 to 29 are frequent in culture, 30 to 59 in politics, 60 to 89 in sport, and 300 more are rare in all.
odds = np.where(np.arange(90) // 30 == np.searchsorted(TOPICS, gold)[:, None], 2.5, 1.0)
words = np.hstack([odds, np.full((1200, 300), 0.2)])
X = sp.csr_array(rng.poisson(12 * words / words.sum(axis=1, keepdims=True)))

y = np.full(1200, None, object)
for name in TOPICS:
    for row in rng.choice(np.flatnonzero(gold == name), 2, replace=False):
        y[row] = name
labelled = np.not_equal(y, None)
partial = y.copy()
for row in np.flatnonzero((gold != "sport") & ~labelled)[::2]:
    partial[row] = {"culture", "politics"}

proportions = label_proportions(dict(zip(TOPICS, SHARES.tolist(), strict=True)))
found = {}
print(f"{'':>34}  accuracy on texts without a label")
for title, classifier, labels in (
    ("six labels", MaxEntClassifier(C=0.1), y),
    ("and proportions", MaxEntClassifier(proportions, C=0.1), y),
    ("and proportions, gamma 0.5", MaxEntClassifier(proportions, C=0.1, gamma=0.5), y),
    ("and texts that are not about sport", MaxEntClassifier(proportions, C=0.1, gamma=0.5), partial),
):
    classifier.fit(X, labels)
    found[title] = np.mean(classifier.predict(X)[~labelled] == gold[~labelled])
    print(f"{title:>34}  {found[title]:.3f}")

largest = classifier.coef_.argsort(axis=1)[:, -5:]
for name, best in zip(classifier.classes_, largest, strict=True):
    print(f"words that speak for {name}: {sorted(best.tolist())}")
print(classifier.report_.summary())

# %%
# Every line of knowledge adds to the last.
figure = Figure((7.0, 2.4), layout="constrained")
axes = figure.subplots()
axes.bar_label(axes.barh(list(found), list(found.values()), color=COLOURS[0]), fmt="%.3f", padding=3)
axes.invert_yaxis()
axes.set(xlabel="accuracy on texts without a label", xlim=(0, 1.1))
alt = "Bars of accuracy, which grows with proportions, with gamma 0.5 and with texts that are not about sport"
