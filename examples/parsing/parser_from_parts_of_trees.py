"""
A parser from parts of trees
============================

A dependency parser from some heads of some words, and from rules where no tree is known.

Sentences are made by a small grammar in which "with" and its noun belong to the verb or to the noun before, by what the
noun is. First all heads are known, then those of one word in four, then none but two rules about tags, which hold in
expectation: the verb is the root, and articles and adjectives hang on a noun to their right.
"""

import numpy as np

from spectrem import E, EdgeFactoredParser, part
from spectrem.data import ROOT, UNKNOWN_HEAD, ParsedSentence
from spectrem.plotting import plot_trees

PEOPLE, TOOLS, PARTS = ("man", "girl", "queen"), ("glasses", "field-glass", "lamp"), ("hat", "beard", "scarf")


def make(n, rng):
    """Sentences such as "the old man sees the girl with the hat", with their heads."""
    found = []
    for _ in range(n):
        forms, tags, heads = [], [], []

        def noun_phrase(words, forms=forms, tags=tags, heads=heads):
            """Add an article, perhaps an adjective, and a noun; the place of the noun, whose head is to be set."""
            own = ["the", *rng.choice(["old", "small"], int(rng.integers(2))), rng.choice(words)]
            noun = len(forms) + len(own) - 1
            forms.extend(map(str, own))
            tags.extend(["DET", *["ADJ"] * (len(own) - 2), "NOUN"])
            heads.extend([noun] * (len(own) - 1) + [ROOT])
            return noun

        subject, verb = noun_phrase(PEOPLE), len(forms)
        forms.append(str(rng.choice(["sees", "meets"])))
        tags.append("VERB")
        heads.append(ROOT)
        heads[subject] = verb
        seen = noun_phrase(PEOPLE)
        heads[seen] = verb
        if rng.random() < 0.7:
            tool = rng.random() < 0.5
            forms.append("with")
            tags.append("ADP")
            heads.append(ROOT)
            preposition = len(forms) - 1
            thing = noun_phrase(TOOLS if tool else PARTS)
            heads[thing] = verb if tool else seen
            heads[preposition] = thing
        found.append(ParsedSentence(tuple(forms), tuple(tags), ("_",) * len(forms), np.array(heads)))
    return found


rng = np.random.default_rng(0)
train, test = make(300, rng), make(200, rng)
some = [np.where(rng.random(len(one.forms)) < 0.25, one.heads, UNKNOWN_HEAD) for one in train]
bare = [one._replace(heads=None) for one in train]
RULES = {
    "root": (E[part("root") & (part("dependent_tag") == "VERB")] >= 0.95).per("sentence"),
    "articles": (
        E[(part("head_tag") == "NOUN") & part("dependent_tag").isin(["DET", "ADJ"]) & (part("direction") == "left")]
        >= 0.95 * E.count(part("dependent_tag").isin(["DET", "ADJ"]))
    ).per("sentence"),
}
settings = {"bits": 12, "relations": False, "n_threads": 1}

full = EdgeFactoredParser(**settings).fit(train)
partial = EdgeFactoredParser(**settings).fit(train, some)
ruled = EdgeFactoredParser(**settings, constraints=RULES).fit(bare)
for name, parser in (("all heads", full), ("a quarter of the heads", partial), ("two rules, no heads", ruled)):
    print(f"{name:>24}: {100 * parser.score(test):5.1f} % of the heads of new sentences are right")

sentence = max(test, key=lambda one: len(one.forms))
print("\n" + " ".join(sentence.forms))
for word, head in enumerate(partial.predict([sentence])[0].tolist()):
    print(f"{sentence.forms[word]:>12} <- {'ROOT' if head == ROOT else sentence.forms[head]}")

# %%
# What each of the parsers is sure of in that sentence.
parsers = {"a quarter of the heads": partial, "two rules, no heads": ruled}
shown = {name: parser.predict_proba([sentence])[0] for name, parser in parsers.items()}
figure = plot_trees(sentence.forms, shown, sentence.heads, tags=sentence.upos)
alt = "Probabilities of the arcs of one sentence, learnt from a quarter of the heads and from two rules"
