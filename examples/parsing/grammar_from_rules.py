"""
A grammar from a handful of rules
=================================

Grammar induction: what a handful of rules adds to likelihood.

Tagged sentences and no trees. EM finds a grammar that makes the tags likely, which is not quite that of people. Rules
such as "nouns head adjectives" are a start that EM leaves again; said as a constraint, that nearly all arcs follow
them, they hold throughout.
"""

from spectrem import DependencyModel
from spectrem.constraints import tag_rules
from spectrem.datasets import make_treebank
from spectrem.metrics import attachment_scores, head_is_next
from spectrem.plotting import plot_trees

treebank = make_treebank(200)
sentences, gold = [sentence.upos for sentence in treebank], [sentence.heads for sentence in treebank]
rules = {
    "VERB": ["NOUN", "PROPN", "PRON", "ADV", "AUX"],
    "NOUN": ["DET", "ADJ", "ADP", "NOUN"],
    "PROPN": ["ADP"],
    "PRON": ["ADP"],
}
followed = tag_rules(rules, "95%", roots="VERB")
baseline = attachment_scores(gold, head_is_next([len(tags) for tags in sentences])).uas
print(f"{'head is the next word':>26}  {baseline:.3f}")

settings = {"smoothing": 0.1, "max_iter": 60, "tol": 1e-4}
models = {
    "EM": DependencyModel(**settings),
    "EM that starts from rules": DependencyModel(init={None: "VERB", **rules}, **settings),
    "EM under rules": DependencyModel(constraints=[followed], **settings),
    "the same with gamma 0.5": DependencyModel(constraints=[followed], gamma=0.5, **settings),
}
predicted = {}
for name, model in models.items():
    predicted[name] = model.fit(sentences).predict(sentences)
    print(f"{name:>26}  {attachment_scores(gold, predicted[name]).uas:.3f}")


# The sentence that the rules change most: each word with its head.
def errors(name, number):
    return (predicted[name][number] != gold[number]).sum()


number = max(range(len(gold)), key=lambda n: errors("EM", n) - errors("the same with gamma 0.5", n))
forms = [*treebank[number].forms, "(root)"]
print("\n" + " ".join(forms[:-1]))
for name, heads in (*predicted.items(), ("gold", gold)):
    arcs = (f"{form}<-{forms[head]}" for form, head in zip(forms, heads[number], strict=False))
    print(f"{name:>26}  {' '.join(arcs)}")

# %%
# The same sentence pictured: true arcs in one colour, wrong ones dashed.
shown = {name: predicted[name][number] for name in ("EM", "the same with gamma 0.5")}
figure = plot_trees(forms[:-1], shown, gold[number], tags=sentences[number])
alt = "Trees of one sentence, by EM and under the rules at gamma 0.5, wrong arcs dashed"
