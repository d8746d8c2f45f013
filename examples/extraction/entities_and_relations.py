"""
Entities and relations from a few labelled sentences
====================================================

Entities and relations from a few labelled sentences, with rules about what a relation wants of its arguments.

Sentences are made from templates; mentions are given, and what they are is to be found together with how they are
related. Ten sentences have labels, two hundred have none. Relations imply types: whoever lives somewhere is a person,
and that is a place. The rules are one line; they hold when decoding, and, in expectation, while learning from the
sentences without labels, where the numbers of the relations stay near their shares among the labelled pairs, too.

The same from files in the format of CoNLL04: spectrem extract train labelled.corp --unlabelled more.corp
--count-margin 0.2 --constraint "argument_types({'Lives': ('person', 'place')})" --save model.npz
"""

import numpy as np
from matplotlib.figure import Figure

from spectrem import RelationExtractor
from spectrem.constraints import argument_types
from spectrem.data import RelationSentence
from spectrem.metrics import relation_scores
from spectrem.plotting import COLOURS

NAMES = {
    "person": ["Ada", "Bruno", "Ford", "Grace Hill", "Iris", "Milan", "Paris Lee", "Victoria", "Washington"],
    "place": ["Athens", "Bruges", "Ford", "Grace Bay", "Milan", "Paris", "Victoria", "Washington"],
    "company": ["Acme", "Ford", "Iris Ltd", "Milan Foods", "Paris Air"],
}
TEMPLATES = [
    ("Lives", (0, 1), "{person} lives in {place} ."),
    ("Lives", (1, 0), "In {place} you may meet {person} ."),
    ("Lives", (0, 2), "{person} , with {person} , settled in {place} ."),
    ("Works", (0, 1), "{person} works for {company} ."),
    ("Works", (1, 0), "At {company} they hired {person} ."),
    ("Based", (0, 1), "{company} of {place} grew fast ."),
    (None, None, "{person} flew to {place} with {company} ."),
    (None, None, "{company} and {company} are rivals of {person} ."),
]
RULES = argument_types({"Lives": ("person", "place"), "Works": ("person", "company"), "Based": ("company", "place")})


def make(n, rng):
    """Labelled sentences."""
    found = []
    for _ in range(n):
        relation, arguments, template = TEMPLATES[rng.integers(len(TEMPLATES))]
        words, mentions, types = [], [], []
        for piece in template.split():
            kind = piece.strip("{}")
            own = str(rng.choice(NAMES[kind])).split() if kind in NAMES else [piece]
            if kind in NAMES:
                mentions.append((len(words), len(words) + len(own)))
                types.append(kind)
            words += own
        relations = {} if relation is None else {arguments: relation}
        found.append(RelationSentence(words, mentions, types, relations))
    return found


rng = np.random.default_rng(2)
labelled, test = make(10, rng), make(200, rng)
unlabelled = [sentence.unlabelled() for sentence in make(200, rng)]
settings = {"types": sorted(NAMES), "relations": ["Based", "Lives", "Works"], "max_iter": 5, "tol": 0.0}

found = {}
print(f"{'':>40}  F1: types  relations")
for title, extractor, sentences in (
    ("ten sentences, without rules", RelationExtractor(**settings), labelled),
    ("with rules when decoding", RelationExtractor([RULES], **settings), labelled),
    (
        "and 200 sentences without labels",
        RelationExtractor([RULES], gamma=0.5, count_margin=0.2, **settings),
        [*labelled, *unlabelled],
    ),
):
    scores = relation_scores(extractor.fit(sentences).predict(test), test)
    found[title] = scores.types.macro_f1, scores.relations.macro_f1
    print(f"{title:>40}  {found[title][0]:9.3f}  {found[title][1]:9.3f}")

print("\n", extractor.report_.summary(), sep="")

# %%
# The rules mend types; used when decoding only they cost relations, which sentences without labels bring back.
figure = Figure((7.0, 3.0), layout="constrained")
axes = figure.subplots()
for k, name in enumerate(("types of mentions", "relations")):
    places, values = np.arange(len(found)) + 0.38 * k, [scores[k] for scores in found.values()]
    bars = axes.barh(places, values, 0.36, color=COLOURS[k], label=name)
    axes.bar_label(bars, fmt="%.3f", padding=3)
axes.set_yticks(np.arange(len(found)) + 0.19, list(found))
axes.invert_yaxis()
axes.set(xlabel="macro F1 on new sentences", xlim=(0, 1.15))
figure.legend(loc="outside lower center", ncols=2, frameon=False)
alt = "Bars of macro F1: that of types grows with rules and sentences without labels, that of relations does not"
