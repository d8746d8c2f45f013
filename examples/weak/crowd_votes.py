"""
Votes of a crowd
================

Twelve annotators label 400 comments: who can be trusted, if nobody knows the right labels?

Most annotators are careful, some guess, two mix the labels up. The majority vote counts them all alike. A label model
learns from the votes alone how each of them errs, and counts a vote by what it is worth; one who always says the
opposite is as good as one who is always right.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from spectrem import LabelModel
from spectrem.plotting import COLOURS

rng = np.random.default_rng(0)
n_items, skill = 400, np.array([0.9, 0.85, 0.85, 0.75, 0.75, 0.7, 0.5, 0.5, 0.5, 0.5, 0.15, 0.1])
truth = rng.choice(["fine", "rude"], n_items, p=[0.65, 0.35])
other = np.where(truth == "fine", "rude", "fine")

votes = []
for item in range(n_items):
    for worker in rng.choice(len(skill), 5, replace=False):
        answer = truth[item] if rng.random() < skill[worker] else other[item]
        votes.append({"item": item, "source": f"worker {worker + 1:2}", "label": answer})
votes = pl.DataFrame(votes)

model = LabelModel(n_threads=1).fit(votes)
right = (model.predict(votes) == truth).mean()
majority = votes.group_by("item").agg((pl.col("label") == "rude").mean()).sort("item")["label"].to_numpy() > 0.5
print(f"majority vote {(np.where(majority, 'rude', 'fine') == truth).mean():.3f}, label model {right:.3f}")

learnt = (model.shares_[0] * model.confusion_.diagonal(axis1=1, axis2=2)).sum(axis=1)
for source, share in zip(model.sources_, learnt, strict=True):
    print(f"{source}: right {share:.2f}")

# %%
# Every dot is an annotator. No label was known, and yet the model found who errs how often.
figure, axes = plt.subplots(figsize=(5, 4.2), layout="constrained")
axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=1)
axes.scatter(skill, learnt, s=60, color=COLOURS[0], zorder=2)
axes.set(xlabel="answers that are right", ylabel="learnt from votes alone", xlim=(0, 1), ylim=(0, 1))
alt = "Twelve annotators near the diagonal: the share of their right answers, and what the model learnt of it"
