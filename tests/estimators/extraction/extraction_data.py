"""Small sentences with mentions and relations, made from templates and a seed."""

import numpy as np

from spectrem.constraints import argument_types
from spectrem.data import RelationSentence

RULES = argument_types({"Kill": ("Peop", "Peop"), "Live_In": ("Peop", "Loc"), "Work_For": ("Peop", "Org")})
NAMES = {
    "Peop": ["Lee Oswald", "James Ray", "Ann Booth", "Kennedy", "Lincoln"],
    "Loc": ["Dallas", "Memphis", "New York", "Ford"],
    "Org": ["CIA", "Acme Corp.", "Ford"],
}
TEMPLATES = [
    ("Kill", ["Peop", "shot", "Peop"]),
    ("Live_In", ["Peop", "lives in", "Loc"]),
    ("Live_In", ["In", "Loc", "there lived", "Peop"]),
    ("Work_For", ["Peop", "works for", "Org"]),
    ("Live_In", ["Peop", ", who lives in", "Loc", ", met", "Peop"]),
    (None, ["Peop", "flew to", "Loc", "with", "Org"]),
]
ARGUMENTS = [(0, 1), (0, 1), (1, 0), (0, 1), (0, 1), None]


def make_sentences(n, seed=0):
    rng, made = np.random.default_rng(seed), []
    for _ in range(n):
        which = int(rng.integers(len(TEMPLATES)))
        relation, pieces = TEMPLATES[which]
        words, mentions, types = [], [], []
        for piece in pieces:
            text = str(rng.choice(NAMES[piece])) if piece in NAMES else piece
            own = text.split()
            if piece in NAMES:
                mentions.append((len(words), len(words) + len(own)))
                types.append(piece)
            words += own
        relations = {} if relation is None else {ARGUMENTS[which]: relation}
        made.append(RelationSentence(words, mentions, types, relations))
    return made
