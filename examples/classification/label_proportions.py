"""
Known proportions mend a classifier
===================================

Few labels, known proportions: what share of the unlabelled rows has each label is enough to mend a classifier.

Two classes overlap, and one is much more frequent. Three labelled rows of each do not tell that, a classifier trained
on them draws its border in the wrong place, and training it on its own predictions hardly moves that. That a tenth of
all rows is of the rare class is known beforehand (from a survey, an audit, last year), and one line says so.

At gamma = 1 soft labels and classifier agree that there are 200 rare rows in expectation, but for many of these rare
remains the less likely label; gamma = 0.5 hardens the labels while it counts, and the classifier finds the border.
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from spectrem import SelfTrainer
from spectrem.constraints import label_proportions
from spectrem.plotting import plot_clusters

rng = np.random.default_rng(0)
gold = np.where(rng.random(2000) < 0.1, "rare", "usual")
X = rng.normal(size=(2000, 2)) + np.where(gold == "rare", 2.0, 0.0)[:, None]

y = np.full(2000, None)
for name in ("rare", "usual"):
    few = rng.choice(np.flatnonzero(gold == name), 3, replace=False)
    y[few] = name
unlabelled = np.equal(y, None)

tenth = label_proportions({"rare": 0.1})
classifier = LogisticRegression()
predictions = {}
print(f"{'':>22}  accuracy  said to be rare")
for title, trainer in (
    ("labelled rows alone", SelfTrainer(classifier, unlabelled_weight=0.0)),
    ("hard self-training", SelfTrainer(classifier, gamma=0.0)),
    ("a tenth, gamma 1", SelfTrainer(classifier, tenth, gamma=1.0, tol=0.01)),
    ("a tenth, gamma 0.5", SelfTrainer(classifier, tenth, gamma=0.5)),
):
    trainer.fit(X, y)
    predictions[title] = trainer.predict(X)
    predicted = predictions[title][unlabelled]
    accuracy, share = np.mean(predicted == gold[unlabelled]), np.mean(predicted == "rare")
    print(f"{title:>22}  {accuracy:8.3f}  {share:15.3f}")

first, last = trainer.history_[0], trainer.history_[-1]
print(
    f"\nobjective: {first.objective:.1f} nats at the first iteration, {last.objective:.1f} at the last ({last.gamma=})"
)
print(f"the constraint cost {first.penalty:.1f} nats at the first, {last.penalty:.1f} at the last")
print(f"soft labels of the rare class, all rows: {trainer.label_distributions_[:, 0].sum():.3f} of 200")

# %%
# Where the classifier draws its border, and where the rare class really is.
figure = Figure((12.6, 4.2), layout="constrained")
labels = {"truth": gold, "labelled rows alone": predictions["labelled rows alone"], title: predictions[title]}
for (name, shown), axes in zip(labels.items(), figure.subplots(1, 3), strict=True):
    plot_clusters(X, (shown == "rare").astype(int), title=name, axes=axes)
alt = "Points of a frequent and a rare class: true classes, and those predicted without and with the known share"
