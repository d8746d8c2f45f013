"""
A tagger from text and a dictionary
===================================

Learn a part-of-speech tagger from plain text and a dictionary of the tags that words may have.
"""

import tempfile
from itertools import chain
from pathlib import Path

from matplotlib.figure import Figure

from spectrem import HMMTagger
from spectrem.datasets import make_tagged_corpus
from spectrem.metrics import ambiguous_tokens, tagging_accuracy
from spectrem.plotting import COLOURS

# Made-up sentences whose tags are known. Your own: lists of words, or spectrem.data.read_sentences and
# read_tag_dictionary.
sentences, gold, dictionary = make_tagged_corpus(1000)
print("may be:", {word: dictionary[word] for word in ("the", "her", "watch", "round")})

# Train on the words alone; the dictionary says what each may be, and its neighbours what it is.
tagger = HMMTagger(dictionary=dictionary, random_state=0).fit(sentences)
predicted = tagger.predict(sentences)
print("tagged:", " ".join(f"{word}/{tag}" for word, tag in zip(sentences[0], predicted[0], strict=True)))

# How good is it? Measures want all sentences in one flat list.
words, right, tags = (list(chain.from_iterable(side)) for side in (sentences, gold, predicted))
in_doubt = ambiguous_tokens(words, dictionary)
print(f"accuracy: {tagging_accuracy(tags, right):.3f}")
print(f"accuracy where the dictionary leaves a choice: {tagging_accuracy(tags, right, mask=in_doubt):.3f}")

# How sure is it? One array per sentence, a row per word, a column per tag.
(posterior,) = tagger.predict_proba(["her watch rang"])
for word, row in zip(("her", "watch", "rang"), posterior, strict=True):
    print(f"{word:>6} ", {tag: round(float(p), 2) for tag, p in zip(tagger.tags_, row, strict=True) if p > 0.005})

# Keep the model; words that it does not know are tagged by their neighbours.
with tempfile.TemporaryDirectory() as folder:
    tagger.save(Path(folder, "model.npz"))
    again = HMMTagger.load(Path(folder, "model.npz"))
    print("new words:", again.predict(["the old gnu snored near the quiet okapi ."])[0])

# %%
# The same three words as a table: the darker, the more probable is the tag; squares are what the dictionary allows.
figure = Figure((5.4, 2.4), layout="constrained")
axes = figure.subplots()
shades = axes.imshow(posterior, cmap="Blues", vmin=0, vmax=1, aspect="auto")
for row, word in enumerate(("her", "watch", "rang")):
    allowed = [tagger.tags_.index(tag) for tag in dictionary[word]]
    axes.plot(allowed, [row] * len(allowed), "s", fillstyle="none", color=COLOURS[1], markersize=14)
axes.set_xticks(range(len(tagger.tags_)), tagger.tags_, rotation=40, ha="right")
axes.set_yticks(range(3), ["her", "watch", "rang"])
figure.colorbar(shades, label="probability")
alt = "Shaded table of the probabilities of the tags of three words; of the tags allowed, one each is nearly certain"
