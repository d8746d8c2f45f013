"""
Each label at most once per document
====================================

Each label at most once per document: a model that looks at one row at a time, put right afterwards.

A classifier finds the roles of phrases; in a document every role but "other" is filled once at most. `project` gives
the nearest probabilities that expect so, `decide` the best labels that do, and prices say where the rule costs most.
"""

import numpy as np

from spectrem import E, part, project
from spectrem.plotting import plot_prices

ROLES = ["seller", "buyer", "price", "other"]

# Probabilities of any model, here drawn at random: eight documents of four to seven phrases.
rng = np.random.default_rng(0)
sizes = rng.integers(4, 8, size=8)
document = np.repeat(np.arange(8), sizes)
proba = rng.dirichlet([0.6, 0.4, 0.4, 0.8], size=len(document))

once = (E[part("label") != "other"] <= 1).per("document", "label").named("role once")
table = project(proba, once, labels=ROLES, columns={"document": document})
decision = table.decide()


def repeated(labels: np.ndarray) -> int:
    """How many labels other than "other" a document has more than once."""
    return sum(max(0, int((labels[document == d] == role).sum()) - 1) for d in range(8) for role in ROLES[:3])


alone = np.array(ROLES)[proba.argmax(axis=1)]
print(f"{table.status.message}; KL {table.kl:.2f} nats")
print(f"worst excess of a role in a document: {table.violation_before:.2f} before, {table.violation_after:.1g} after")
print(f"repeated roles: {repeated(alone)} in the best labels of each row, {repeated(decision.labels)} decided together")
print(f"score of the decision {decision.score:.2f}, {decision.gap:.2g} below that of the best fractions")

(report,) = table.constraints
dearest = np.argsort(-report.price)[:3]
print("where the rule costs most, in nats per further mention:")
for row in dearest:
    print(f"  document {report.keys['document'][row]}, {report.keys['label'][row]}: {report.price[row]:.2f}")

# %%
# All prices that are not 0: what one more mention of a role in a document would gain.
figure = plot_prices(table, limit=12)
alt = "Bars of the prices of roles in documents, the dearest first"
