"""
Twenty-five wishes, a line each
===============================

What users of `project` wish for, a line each: titles, budgets, shares, parity, links, validity of sequences.

Three models made predictions: for paragraphs of documents (a table), for phrases that two models looked at (a table
with two rows per phrase), and for the words of sentences (a lattice). Every wish is put on one of them alone.
"""

import numpy as np
from matplotlib.figure import Figure

from spectrem import Lattice, project
from spectrem.plotting import COLOURS

rng = np.random.default_rng(0)

N, LABELS = 120, ["title", "author", "body", "ad"]
PARAGRAPHS = {
    "proba": rng.dirichlet([0.5, 0.5, 1.0, 0.7], size=N),
    "labels": LABELS,
    "columns": {
        "document": np.repeat(np.arange(20), 6),
        "place": np.tile(np.arange(6), 20),
        "domain": np.repeat(["news", "shop"], 60),
        "group": rng.choice(["print", "web"], N),
        "kind": rng.choice(["caption", "text"], N),
        "phrase": rng.integers(0, 40, N),
        "length": rng.integers(1, 80, N),
        "price": rng.random(N),
        "cost": rng.random((N, 4)),  # of each label of each row
        "vote": rng.choice(["title", "ad", None], N, p=[0.1, 0.3, 0.6]),  # of a labelling function
        "edited": rng.choice(["body", None], N, p=[0.1, 0.9]),  # by hand
    },
}
PHRASES = {
    "proba": rng.dirichlet([1.0, 1.0, 1.0], size=40),
    "labels": ["person", "place", "other"],
    "columns": {"item": np.repeat(np.arange(20), 2), "model": np.tile(["old", "new"], 20)},
}
WORDS = {
    "proba": Lattice([rng.normal(size=(5, 3)) for _ in range(8)], rng.normal(size=(3, 3))),
    "labels": ["O", "B", "I"],
    "columns": {"word": rng.choice(["the", "house", "white", "is"], 40)},
}

WISHES = [
    (PARAGRAPHS, "one title per document", "at_most(1, 'title', per='document')"),
    (PARAGRAPHS, "a title and an author each", "(E[label.isin(['title', 'author'])] == 2).per('document')"),
    (PARAGRAPHS, "each role once per document", "(E[label != 'body'] <= 1).per('document', 'label')"),
    (PARAGRAPHS, "a fifth is advertising", "E[label == 'ad'].between('15%', '25%')"),
    (PARAGRAPHS, "known shares", "label_proportions({'title': '15%', 'author': ('10%', '20%')})"),
    (PARAGRAPHS, "known shares per domain", "label_proportions({'ad': '20%', 'body': ('30%', 1)}, per='domain')"),
    (PARAGRAPHS, "a share of some rows", "E[(label == 'ad') & (group == 'web')] / E.count(group == 'web') <= '10%'"),
    (PARAGRAPHS, "parity of two groups", "parity('ad', 'group', ['print', 'web'])"),
    (PARAGRAPHS, "near parity, per domain", "parity('ad', 'group', ['print', 'web'], within='2%', per='domain')"),
    (PARAGRAPHS, "a budget", "E[price * (label == 'ad')] <= 10"),
    (PARAGRAPHS, "costs of labels", "E[cost] <= 50"),
    (PARAGRAPHS, "every label in every domain", "(E[...] >= 12).per('domain', 'label')"),
    (PARAGRAPHS, "no author without a title", "(E[label == 'author'] <= E[label == 'title']).per('document')"),
    (PARAGRAPHS, "half as many ads as body", "E[label == 'ad'] <= 0.5 * E[label == 'body']"),
    (PARAGRAPHS, "titles stand first", "E[(label == 'title') & (place > 0)] <= '2%'"),
    (PARAGRAPHS, "mean place of titles", "E[place * (label == 'title')] <= 1.5 * E[label == 'title']"),
    (PARAGRAPHS, "captions are body or ads", "E[~label.allowed_by(kind, {'caption': ['body', 'ad']})] <= 0"),
    (PARAGRAPHS, "votes are right three times of four", "E[label == vote] / E.count(label == vote) >= '75%'"),
    (PARAGRAPHS, "what was edited is right", "E[label == edited] == E.count(label == edited)"),
    (PARAGRAPHS, "same phrase, same label", "must_link(column='phrase')"),
    (PARAGRAPHS, "long body, if cheap", "(E[(label != 'body') & (length > 60)] <= 3).slack(penalty=1, norm='l1')"),
    (PHRASES, "two models agree", "(E[model == 'old'] == E[model == 'new']).per('item', 'label')"),
    (WORDS, "a name in every sentence", "(E[label == 'B'] >= 1).per('row')"),
    (WORDS, "I follows B or I (BIO)", "(E[(label == 'I') & ~previous.isin(['B', 'I'])] <= 0).per('row')"),
    (WORDS, "same word, few labels", "max_over('occurrence', E[...].per('word', 'label')).penalty(0.5)"),
]

costs = {}
for data, name, text in WISHES:
    table = project(data["proba"], {name: text}, labels=data["labels"], columns=data["columns"])
    costs[name] = table.kl
    before, after = table.violation_before, table.violation_after
    print(f"{name:<36} violated by {before:6.3f}, then {after:.3f}, at {table.kl:6.3f} nats")

# %%
# What each wish costs: how far the probabilities that meet it are from those of the model, all rows together.
figure = Figure((7.0, 6.0), layout="constrained")
axes = figure.subplots()
axes.bar_label(axes.barh(list(costs), list(costs.values()), color=COLOURS[0]), fmt="%.1f", padding=3, fontsize=8)
axes.tick_params(axis="y", labelsize=8)
axes.invert_yaxis()
axes.margins(x=0.1, y=0.01)
axes.set(xlabel="KL divergence from the model, nats")
alt = "Bars of what every one of twenty-five constraints costs, in nats"
