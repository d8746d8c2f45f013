"""
Views that agree
================

Views that agree: a dozen labelled names, a thousand that are not, and two views of each, spelling and context.

A name is spelled with one of many words and stands in one of many contexts. Either nearly tells whether it is a person
or a place, but a dozen labelled names show few words and few contexts. Training the two views to agree on all other
names carries labels from words to the contexts they stand in, from there to other words, and so on [Ganchev2010].

Then a tagger and a classifier teach each other: that a review is bad means that one of its words says so.
"""

import numpy as np
from matplotlib.figure import Figure

from spectrem import CRFTagger, E, MaxEntClassifier, Views, part
from spectrem.plotting import COLOURS

rng = np.random.default_rng(0)
N, LABELLED = 1000, 12
gold = np.array(["person", "place"])[np.arange(N) % 2]
word = 2 * rng.integers(0, 80, N) + (gold == "place")  # every word is of one kind ...
context = 2 * rng.integers(0, 40, N) + (gold == "place")
context = np.where(rng.random(N) < 0.1, rng.integers(0, 80, N), context)  # ... contexts mostly
X = {"spelling": np.eye(160)[word], "context": np.eye(80)[context]}
both = np.hstack([X["spelling"], X["context"]])
y = [label if row < LABELLED else None for row, label in enumerate(gold)]

alone = MaxEntClassifier(C=10.0).fit(both[:LABELLED], y[:LABELLED])
print(f"{'one classifier, labelled rows':>32}: accuracy {np.mean(alone.predict(both) == gold):.3f}")
places = {}
pair = [("spelling", MaxEntClassifier(C=10.0)), ("context", MaxEntClassifier(C=10.0))]
for title, views in (
    ("two views, joined to predict", Views(pair, unlabelled_weight=0.0)),
    ("two views, trained to agree", Views(pair)),
    ("the same, gamma 0.5", Views(pair, gamma=0.5)),
):
    places[title] = [model.predict_proba(X[name])[:, 1] for name, model in views.fit(X, y).views_.items()]
    print(f"{title:>32}: accuracy {views.score(X, gold):.3f}, apart by {views.bhattacharyya_:.3f} nats")

# Reviews: three words each, of which the tagger shall find the one that says what the reviewer thinks.
says = {"bad": ["awful", "broken", "dull", "weak"], "good": ["great", "lovely", "solid", "bright"]}
thinks = np.array(["bad", "good"])[np.arange(60) % 2]
text = [[str(rng.choice(["it", "was", "a"])), str(rng.choice(says[label])), "thing"] for label in thinks]
tags = [["O", "NEG" if label == "bad" else "POS", "O"] for label in thinks]
stars = np.where(thinks == "good", 4.0, 2.0)[:, None] + rng.normal(size=(60, 1))
known = {
    "words": [own if number < 2 else None for number, own in enumerate(tags)],  # two reviews with tags
    "stars": [label if number < 30 else None for number, label in enumerate(thinks)],  # thirty with a label
}
tie = [
    (E[part("words_tag") == "NEG"] == E[part("stars_label") == "bad"]).per("row"),
    (E[part("words_tag") == "POS"] == E[part("stars_label") == "good"]).per("row"),
]
tagger = CRFTagger("words", pairs="all")
together = Views([("words", tagger), ("stars", MaxEntClassifier())], tie)
together.fit({"words": text, "stars": stars}, known)
alone = CRFTagger("words", pairs="all").fit(text[:2], tags[:2])
print(f"\ntags found by two tagged reviews: {alone.score(text, tags):.3f}")
print(f"with the labels of thirty reviews: {together.views_['words'].score(text, tags):.3f}")

# %%
# How probably each name is a place, by either view, points moved a little apart: most names say nothing to a view at
# first; trained to agree, both decide, and mostly alike.
figure = Figure((7.6, 3.8), layout="constrained")
titles = ("two views, joined to predict", "the same, gamma 0.5")
for title, axes in zip(titles, figure.subplots(1, 2, sharey=True), strict=True):
    for kind, colour, marker in (("person", COLOURS[0], "o"), ("place", COLOURS[1], "x")):
        apart = rng.normal(scale=0.015, size=(2, N // 2))
        spelling, context = np.stack(places[title])[:, gold == kind] + apart
        axes.plot(spelling, context, marker, color=colour, markersize=4, alpha=0.3, label=f"is a {kind}")
    axes.set(title=title, xlabel="probability of a place, by spelling", xlim=(-0.08, 1.08), ylim=(-0.08, 1.08))
figure.axes[0].set_ylabel("probability of a place, by context")
figure.axes[0].legend(frameon=False, fontsize=8)
alt = (
    "Probabilities by two views: near one half at first, then mostly in the corners where both views are sure and right"
)
