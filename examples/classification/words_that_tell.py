"""
No labels, a few words that tell
================================

No labels, a few words that tell: posteriors under constraints beside what a classifier itself expects.

Texts on two topics. Nobody has labelled any; of six words it is known that three in four texts with them are about one
topic, and that the topics are equally frequent. Posterior regularisation asks for distributions of the texts' topics
that meet this, and fits the classifier to them, by turns (EM) or by the gradient of the same objective. Generalised
expectation criteria ask that the classifier itself expects this, and pay for what is missed: no second distribution,
one gradient. Both learn from a few words what hundreds of others mean.
"""

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure

from spectrem import E, MaxEntClassifier, part
from spectrem.constraints import label_proportions
from spectrem.learning import Expectations, Posteriors
from spectrem.plotting import COLOURS

rng = np.random.default_rng(0)
gold = rng.integers(0, 2, 1500)
# Words 0 to 99 are more frequent in topic 0, 100 to 199 in topic 1, and 200 more are as frequent in both.
odds = np.where(np.arange(200) // 100 == gold[:, None], 3.0, 1.0)
words = np.hstack([odds, np.ones((1500, 200))])
X = sp.csr_array(rng.poisson(20 * words / words.sum(axis=1, keepdims=True)))

rules, columns = [label_proportions({0: 0.5, 1: 0.5})], {}
for word, topic in ((0, 0), (1, 0), (2, 0), (100, 1), (101, 1), (102, 1)):
    columns[f"has_{word}"] = X[:, [word]].toarray().ravel() > 0
    has = part(f"has_{word}")
    rules.append(E[(part("label") == topic) & has] == 0.75 * E.count(has))

print(f"{'':>32}  accuracy  seconds  expected of word 0")
for title, criterion in (
    ("posteriors, by turns", None),
    ("posteriors, by gradient", Posteriors()),
    ("expectations, divergence", Expectations(1.0, "divergence")),
    ("expectations, squares", Expectations(0.1)),
):
    classifier = MaxEntClassifier(rules, classes=[0, 1], C=0.1, criterion=criterion).fit(X, columns=columns)
    accuracy = np.mean(classifier.predict(X) == gold)
    seconds = sum(record.seconds for record in classifier.history_)
    expected = classifier.predict_proba(X)[columns["has_0"], 0].mean()
    print(f"{title:>32}  {accuracy:8.3f}  {seconds:7.2f}  {expected:18.3f}")

# %%
# What the last classifier learned of every word from the six that are circled.
figure = Figure((7.0, 3.2), layout="constrained")
axes = figure.subplots()
weights, known = classifier.coef_.ravel(), [0, 1, 2, 100, 101, 102]
for start, end, colour, name in (
    (0, 100, COLOURS[0], "topic 0"),
    (100, 200, COLOURS[1], "topic 1"),
    (200, 400, "0.6", "both"),
):
    axes.plot(range(start, end), weights[start:end], ".", color=colour, label=f"frequent in {name}")
axes.plot(known, weights[known], "o", fillstyle="none", color="0.4", markersize=9, label="known to tell")
axes.set(xlabel="number of the word", ylabel="weight for topic 1, nats")
axes.legend(frameon=False, fontsize=8)
alt = "Weights of 400 words: negative for those of topic 0, positive for those of topic 1, about 0 for the others"
