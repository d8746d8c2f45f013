"""
Every sentence has a verb
=========================

What one constraint mends: every sentence has a verb.

The dictionary has lost every word that may be a verb. These may now be anything, and likelihood alone finds other uses
for them: EM leaves half of the sentences without a verb. That sentences have one is known beforehand, and one line says
so.
"""

from itertools import chain

from spectrem import E, HMMTagger, part
from spectrem.datasets import make_tagged_corpus
from spectrem.metrics import tagging_accuracy
from spectrem.plotting import Line, Panel, draw_panels

sentences, gold, complete = make_tagged_corpus(300)
dictionary = {word: allowed for word, allowed in complete.items() if "VERB" not in allowed}
print(f"the dictionary lists {len(dictionary)} of {len(complete)} words")

one_verb = (E[part("tag") == "VERB"] >= 1).per("sentence").named("every sentence has a verb")
tags = sorted(set(chain.from_iterable(gold)))
taggers = {
    name: HMMTagger(tags=tags, dictionary=dictionary, constraints=constraints, smoothing=0.01, random_state=0, tol=1e-5)
    for name, constraints in (("EM", []), ("with a verb", [one_verb]))
}

# The constraint guides training only; prediction is by the model that it led to.
flat = list(chain.from_iterable(gold))
predictions = {}
print(f"\n{'':>12}  accuracy  sentences without a verb")
for name, tagger in taggers.items():
    predictions[name] = tagger.fit(sentences).predict(sentences)
    without = sum("VERB" not in tags for tags in predictions[name])
    accuracy = tagging_accuracy(list(chain.from_iterable(predictions[name])), flat)
    print(f"{name:>12}  {accuracy:8.3f}  {without} of {len(sentences)}")

# A sentence that it mends.
errors = {
    name: [sum(a != b for a, b in zip(*pair, strict=True)) for pair in zip(predicted, gold, strict=True)]
    for name, predicted in predictions.items()
}
number = max(
    (n for n, sentence in enumerate(sentences) if len(sentence) <= 9),
    key=lambda n: errors["EM"][n] - errors["with a verb"][n],
)
print()
for name, rows in (("", sentences), *predictions.items(), ("gold", gold)):
    print(f"{name:>12}  " + " ".join(f"{cell:<7}" for cell in rows[number]).rstrip())

# What the constraint costs: the KL divergence from the model's own posterior, nats, at the last E-step.
print(f"\npenalty: {taggers['with a verb'].history_[-1].penalty:.2f} nats in {len(sentences)} sentences")

# %%
# How probable a verb is at each word of that sentence, by the model of EM and by the one that the constraint led to.
words = [f"{word} ({tag})" for word, tag in zip(sentences[number], gold[number], strict=True)]
verb = taggers["EM"].tags_.index("VERB")
lines = [
    Line(name, range(len(words)), tagger.predict_proba([sentences[number]])[0][:, verb], colour=k, style=k)
    for k, (name, tagger) in enumerate(taggers.items())
]
figure = draw_panels([Panel("", "", "probability of VERB", lines, y_limits=(-0.03, 1.03))], width=7.0)
figure.axes[0].set_xticks(range(len(words)), words, rotation=40, ha="right")
alt = "Probability of a verb at each word of a sentence, by EM and under the constraint"
