"""
A neural network learns known shares, in batches
================================================

A neural network trained in batches, on few labels and on what is known about all rows together.

The network is MLPClassifier of scikit-learn 1.7 or later in a loop of `partial_fit`. Before every step, `update` of
`ConstrainedTargets` turns its log-probabilities for a batch of rows without labels into soft targets that meet the
constraints: what share of all rows each class has, whose prices are kept from batch to batch, and that no document has
more than two rows of class 2, which is solved in every batch. MLPClassifier takes no distributions as y, but weights:
every row is given once per label, with the probability of the label as its weight, and the loss is the cross-entropy
with the soft targets.
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.neural_network import MLPClassifier

from spectrem import ConstrainedTargets, E, part
from spectrem.constraints import label_proportions
from spectrem.plotting import COLOURS

SHARES = np.array([0.5, 0.3, 0.2])
N, BATCH, EPOCHS = 1000, 50, 12

rng = np.random.default_rng(0)
kinds = [[0, 0, 0, 1, 1], [0, 0, 0, 1, 2], [0, 0, 1, 1, 2], [0, 0, 1, 2, 2]]
gold = np.concatenate([rng.permutation(kinds[k % 4]) for k in range(N // 5)])
document = np.arange(N) // 5
centres = np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])
X = np.hstack([centres[gold] + 0.5 * rng.normal(size=(N, 2)), rng.normal(size=(N, 6))])
labelled = np.concatenate([rng.choice(np.flatnonzero(gold == c), 4, replace=False) for c in range(3)])

constraints = [
    label_proportions(SHARES.tolist()),
    (E[part("label") == 2] <= 2).per("document").named("two of class 2 in a document"),
]


def train(targets):
    """Train a network; ``targets`` turns log-probabilities of some rows into soft targets, or is None."""
    network = MLPClassifier((32,), learning_rate_init=5e-3, alpha=1e-3, random_state=0)
    network.partial_fit(X[labelled], gold[labelled], classes=[0, 1, 2])
    orders = np.random.default_rng(1)
    for _ in range(EPOCHS):
        documents = orders.permutation(N // 5)  # a batch has all rows of its documents
        for chosen in np.split(documents, N // BATCH):
            rows = (5 * chosen[:, None] + np.arange(5)).ravel()
            parts = [(X[labelled], gold[labelled], np.ones(len(labelled)))]
            if targets is not None:
                soft = targets.update(network.predict_log_proba(X[rows]), {"document": document[rows]})
                parts.append((np.repeat(X[rows], 3, axis=0), np.tile(np.arange(3), len(rows)), soft.ravel()))
            inputs, labels, weights = (np.concatenate(own) for own in zip(*parts, strict=True))
            network.partial_fit(inputs, labels, weights)
    return network


found = {}
print(f"{'':>22}  accuracy  shares of the classes, expected from {SHARES}")
for title, targets in (
    ("labels alone", None),
    ("and what is known", ConstrainedTargets(constraints, n_rows=N, within_batch=["document"])),
):
    network = train(targets)
    found[title] = np.mean(network.predict(X) == gold)
    print(f"{title:>22}     {found[title]:.3f}  {network.predict_proba(X).mean(axis=0).round(2)}")

decided = targets.solve(network.predict_log_proba(X), {"document": document}).argmax(axis=1)
found["targets of all rows"] = np.mean(decided == gold)
print(f"{'targets of all rows':>22}     {found['targets of all rows']:.3f}")
for name, prices in targets.prices_.items():
    print(f"price of {name}: {prices.round(2)} nats")

# %%
# Rows whose class is found by each: the second network, and its targets, know more than twelve labels.
figure = Figure((6.0, 2.0), layout="constrained")
axes = figure.subplots()
axes.bar_label(
    axes.barh(list(found), [100 * share for share in found.values()], color=COLOURS[0]), fmt="%.1f", padding=3
)
axes.invert_yaxis()
axes.set(xlabel="right, % of all rows", xlim=(0, 100))
alt = (
    "Bars of the share of rows that are right: lowest with labels alone, higher with what is known, highest for targets"
)
