"""
Rules with knowledge
====================

Rules for spam fire on some messages and are silent on the others; what is known about them is worth more than votes.

Five patterns vote: three of them say spam where they fire, two say ham. One of the three is often wrong, for it fires on
every link. A label model estimates precisions from how patterns agree. Two sentences of knowledge correct it: about a
fifth of the messages is spam, and the pattern of links is right in at most two of five cases.
"""

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from spectrem import E, LabelModel, part
from spectrem.plotting import COLOURS

rng = np.random.default_rng(1)
n = 3000
spam = rng.random(n) < 0.2
rules = {  # what each says, and how often it fires on spam and on ham
    "prize": ("spam", 0.3, 0.01),
    "subscribe": ("spam", 0.25, 0.02),
    "link": ("spam", 0.5, 0.3),
    "greeting": ("ham", 0.1, 0.4),
    "question": ("ham", 0.1, 0.3),
}
votes = pl.DataFrame(
    {
        name: [label if fires else None for fires in rng.random(n) < np.where(spam, on_spam, on_ham)]
        for name, (label, on_spam, on_ham) in rules.items()
    },
    schema=dict.fromkeys(rules, pl.String),
)
truth = np.where(spam, "spam", "ham")

is_spam, is_right = part("label") == "spam", part("vote") == part("label")
source = {name: part("source") == name for name in rules}
knowledge = [
    E[is_spam].between("18%", "22%"),
    E[source["link"] & is_right] <= 0.4 * E.count(source["link"]),
    *(E[source[name] & is_right] >= 0.75 * E.count(source[name]) for name in ("prize", "subscribe")),
]
models = {
    "votes alone": LabelModel(n_threads=1),
    "with knowledge": LabelModel(constraints=knowledge, project_at_predict=True, n_threads=1),
}
precision = {}
for name, model in models.items():
    model.fit(votes)
    proba = model.predict_proba(votes)
    right = (model.classes_[proba.argmax(axis=1)] == truth).mean()
    says = np.array([list(model.classes_).index(label) for label, _, _ in rules.values()])
    fires = votes.select(pl.all().is_not_null()).to_numpy()
    precision[name] = (fires * proba[:, says]).sum(axis=0) / fires.sum(axis=0)
    print(f"{name}: accuracy {right:.3f}, expected share of spam {proba[:, 1].mean():.2f}")
precision["truth"] = [(truth[fires[:, k]] == label).mean() for k, (label, _, _) in enumerate(rules.values())]

# %%
# The pattern of links votes most. Taken at its word it makes too much spam, and the patterns for ham seem to err. With
# knowledge the precisions of these are right, though nothing was said about them.
figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for k, (name, values) in enumerate(precision.items()):
    axes.bar(np.arange(len(rules)) + 0.27 * (k - 1), values, 0.25, color=COLOURS[k], label=name)
axes.set_xticks(range(len(rules)), list(rules))
axes.set(ylabel="votes that are right", ylim=(0, 1.25))
axes.legend(ncols=3, loc="upper center", frameon=False)
alt = "Bars of five rules: how often each is right by votes alone, with knowledge, and in truth"
