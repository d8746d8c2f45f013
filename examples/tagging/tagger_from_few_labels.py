"""
A conditional random field from five sentences
==============================================

A conditional random field from five tagged sentences, and a dictionary and a rule for all others.

The field describes words by their spelling and neighbours. Of plain sentences it knows the tags that every word may
have, as sets of labels, and that no verb follows a determiner, as a constraint on two neighbouring tags; it learns from
posteriors that meet both. New sentences, whose words need not be in the dictionary, are tagged by what it learned.
"""

import numpy as np
from matplotlib.figure import Figure

from spectrem import CRFTagger, E, part
from spectrem.datasets import make_tagged_corpus
from spectrem.plotting import COLOURS

corpus, test = make_tagged_corpus(150, seed=3), make_tagged_corpus(100, seed=4)
dictionary = corpus.dictionary
partial = [[set(dictionary[word]) for word in sentence] for sentence in corpus.words[5:]]
rule = (E[(part("tag") == "VERB") & (part("previous") == "DET")] <= 0).per("sentence")

alone = CRFTagger("words", n_threads=1).fit(corpus.words[:5], corpus.tags[:5])
guided = CRFTagger("words", constraints=[rule.named("no verb after a determiner")], max_iter=8, tol=0.0, n_threads=1)
guided.fit(corpus.words, [*corpus.tags[:5], *partial])

print(f"five sentences alone: {alone.score(test.words, test.tags):.3f} of the tags are right")
print(f"with a dictionary and a rule for 145 others: {guided.score(test.words, test.tags):.3f}")
for sequence in guided.n_best(test.words[:1], 2)[0]:
    tagged = " ".join(map("/".join, zip(test.words[0], sequence.tags, strict=True)))
    print(f"{sequence.log_probability:6.2f} nats  {tagged}")
for name in ("NOUN", "VERB"):
    print(f"{name}:", ", ".join(f"{feature} {weight:+.2f}" for feature, weight in guided.top_features(3)[name]))

# %%
# Where the knowledge helps: words of new sentences that are tagged right, by their true tag.
true = np.concatenate(test.tags)
names = sorted(set(true.tolist()))
figure = Figure((7.0, 3.2), layout="constrained")
axes = figure.subplots()
for k, (name, tagger) in enumerate({"five sentences alone": alone, "with dictionary and rule": guided}.items()):
    right = np.concatenate(tagger.predict(test.words)) == true
    values = [100 * right[true == tag].mean() for tag in names]
    axes.bar(np.arange(len(names)) + 0.4 * k, values, 0.38, color=COLOURS[1 - k], label=name)
axes.set_xticks(np.arange(len(names)) + 0.2, names, rotation=40, ha="right")
axes.set(ylabel="right, % of the words of the tag")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
alt = "Bars of the share of words tagged right, by tag, from five sentences alone and with a dictionary and a rule"
