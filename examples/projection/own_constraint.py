"""
A constraint and a model without an estimator
=============================================

A constraint of your own on a model of your own: every sentence has a verb.

The core needs no estimator. A structure says what is latent (here a chain of tags), `Parts` holds its scores, a
constraint is written with `E`, and `project` finds the nearest distribution that meets it.
"""

import numpy as np

from spectrem import E, part
from spectrem.constraints import compile_constraints
from spectrem.inference import project_batch
from spectrem.plotting import Line, Panel, draw_panels
from spectrem.structures import Chain, Parts

NOUN, VERB, OTHER = range(3)

# Two sentences of four and three words. A weak model prefers nouns everywhere; scores are log-probabilities.
chain = Chain([4, 3], n_states=3)
emission = np.log([
    [0.2, 0.1, 0.7],  # the
    [0.7, 0.2, 0.1],  # dog
    [0.6, 0.3, 0.1],  # barks
    [0.2, 0.1, 0.7],  # often
    [0.7, 0.2, 0.1],  # cats
    [0.5, 0.4, 0.1],  # sleep
    [0.5, 0.1, 0.4],  # well
])  # fmt: skip
transition = np.log([[0.4, 0.3, 0.3], [0.4, 0.1, 0.5], [0.5, 0.3, 0.2]])
scores = Parts(emission.ravel(), (transition,))

# In expectation, every sentence has one verb at least.
one_verb = (E[part("tag") == VERB] >= 1).per("sentence").named("one verb per sentence")
rows = compile_constraints(one_verb, chain)
print(one_verb)


def show(title: str, marginals: Parts) -> None:
    verbs = marginals.unary.reshape(-1, 3)[:, VERB]
    print(f"{title:<22} p(verb): {verbs[:4].round(2)} sum {verbs[:4].sum():.2f}", end="   ")
    print(f"{verbs[4:].round(2)} sum {verbs[4:].sum():.2f}")


# gamma = 1: the posterior, and the distribution nearest to it that has its verbs.
show("model", project_batch(chain, scores).marginals)
for gamma in (1.0, 0.5, 0.0):
    show(f"with a verb, gamma {gamma:g}", project_batch(chain, scores, rows, gamma).marginals)

# A constraint may yield where it costs too much: here at most half a nat per missing verb.
soft = compile_constraints(one_verb.slack(penalty=0.5, norm="l1"), chain)
show("soft, gamma 1", project_batch(chain, scores, soft).marginals)

# The multipliers are prices: nats gained per unit by which the bound is relaxed.
print("prices:", project_batch(chain, scores, rows).multipliers.round(2))

# %%
# The same pictured for the first sentence, of which the model alone expects less than one verb.
words = ("the", "dog", "barks", "often")
lines = [Line("model", range(4), project_batch(chain, scores).marginals.unary.reshape(-1, 3)[:4, VERB])]
for k, gamma in enumerate((1.0, 0.5, 0.0), 1):
    verbs = project_batch(chain, scores, rows, gamma).marginals.unary.reshape(-1, 3)[:4, VERB]
    lines.append(Line(f"gamma {gamma:g}", range(4), verbs, colour=k, style=k))
figure = draw_panels([Panel("", "", "probability of VERB", lines, y_limits=(-0.03, 1.03))], width=7.0)
figure.axes[0].set_xticks(range(4), words)
alt = "Probability of a verb at each word of a sentence, by the model and under the constraint at three gammas"
