"""
A parser across translations
============================

A parser of a language without trees, from translations into one that has a parser: arcs are carried along links.

The English sentences are parsed; links say which words translate each other (spectrem.WordAligner finds them in text).
Target sentences have tags only, and one word that no English word is linked with.
"""

import numpy as np

from spectrem import DependencyModel, transfer_parser
from spectrem.data import UNKNOWN_HEAD, Links, one_to_one
from spectrem.plotting import plot_trees

english_heads = [
    np.array([1, 2, -1]),  # the dog sleeps
    np.array([1, -1, 3, 1]),  # he sees the dog
] * 5
target = [
    ["NOUN", "DET", "VERB"],  # dog the sleeps
    ["VERB", "PART", "NOUN", "DET"],  # sees PART dog the
] * 5
links = Links.from_pairs([[(0, 1), (1, 0), (2, 2)], [(1, 0), (3, 2), (2, 3)]] * 5)

grammar = DependencyModel(max_iter=5, tol=0, infeasible="skip", n_threads=1)
found = transfer_parser(grammar, english_heads, target, one_to_one(links), share=0.95, unaligned_children=0.5)

print("Arcs of the second sentence that English has, too, [dependent, head], roots on the diagonal:")
print(found.conserved[1].astype(int))
for tags in (target[0], target[1], ["NOUN", "DET", "VERB", "PART"]):
    heads = found.parser.predict([tags])[0]
    print(", ".join(f"{tag} < {'root' if head < 0 else tags[head]}" for tag, head in zip(tags, heads, strict=True)))

# %%
# What the parser is sure of in the second sentence: blue arcs are those that English has, too, grey ones are its own.
conserved = found.conserved[1]
heads = np.where(np.diag(conserved), -1, conserved.argmax(axis=1))
heads[~conserved.any(axis=1)] = UNKNOWN_HEAD
words = ["(sees)", "(particle)", "(dog)", "(the)"]
figure = plot_trees(words, found.parser.predict_proba([target[1]])[0], heads, tags=target[1])
alt = "Arcs of a target sentence by probability; those of the English tree are blue, those of the particle grey"
