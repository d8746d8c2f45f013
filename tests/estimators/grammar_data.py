"""A small artificial treebank over five tags, drawn from a grammar that people know."""

import numpy as np

from spectrem.constraints import tag_rules

RULES = {"VERB": ["NOUN", "ADV", "ADP"], "NOUN": ["DET", "ADJ", "ADP"], "ADP": ["NOUN"]}


def draw_treebank(n_sentences=80, seed=0):
    """Tags and heads of sentences such as DET ADJ NOUN VERB DET NOUN ADP NOUN."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sentences):
        tags, heads = [], []

        def noun_phrase(head, tags=tags, heads=heads):
            own = [tag for tag, share in (("DET", 0.7), ("ADJ", 0.3)) if rng.random() < share]
            noun = len(tags) + len(own)
            tags.extend([*own, "NOUN"])
            heads.extend([noun] * len(own) + [head])

        before = rng.random() < 0.9
        if before:
            noun_phrase(None)
        verb = len(tags)
        tags.append("VERB")
        heads[:] = [verb if head is None else head for head in heads]
        heads.append(-1)
        if rng.random() < 0.2:
            tags.append("ADV")
            heads.append(verb)
        if rng.random() < 0.6:
            noun_phrase(verb)
        if rng.random() < 0.3:
            tags.append("ADP")
            heads.append(verb)
            noun_phrase(len(tags) - 1)
        X.append(tags)
        y.append(heads)
    return X, y


def rules(share=0.9, **options):
    """The grammar as a constraint."""
    return tag_rules(RULES, share, roots="VERB", **options)


def accuracy(predicted, gold):
    """Share of words with the right head."""
    return float(np.mean(np.concatenate(predicted) == np.concatenate([np.array(heads) for heads in gold])))
