"""
Brackets without trees
======================

Brackets without trees, and what one constraint adds to them.

The constituent-context model sees tags only: a span is a constituent if its tags, or those beside it, often are.
Likelihood alone puts brackets around "DT JJ" as well. That no phrase ends with a word that calls for another
(a determiner, a preposition, a modal, an adjective) is known beforehand, and one line says so.
"""

from matplotlib.figure import Figure

from spectrem import BracketingModel, E, part
from spectrem.datasets import make_bracketed_corpus
from spectrem.metrics import binary_ceiling, bracket_scores, branching
from spectrem.plotting import COLOURS

sentences, gold = make_bracketed_corpus(300)
lengths = [len(sentence) for sentence in sentences]

OPEN = ["DT", "IN", "JJ", "MD"]
phrase = part("constituent") & (part("span_length") > 1)
no_open_end = (E[phrase & part("last").isin(OPEN)] <= 0).per("sentence").named("no phrase ends with a word like 'the'")

found = {"right-branching": branching(lengths), "best binary trees": binary_ceiling(gold, lengths)}
for name, constraints in (("EM", []), ("under the constraint", [no_open_end])):
    model = BracketingModel(by_length=False, constraints=constraints, max_iter=40, tol=0)
    found[name] = model.fit(sentences).predict(sentences)

print(f"{'':>20}  F1     crossing brackets per sentence")
for name, brackets in found.items():
    scores = bracket_scores(brackets, gold, lengths)
    print(f"{name:>20}  {scores.f1:.3f}  {scores.crossing:.2f}")


def draw(sentence, brackets):
    """The sentence with its brackets of two words and more, except the one around it all."""
    inner = [(start, end) for start, end in brackets if end - start < len(sentence)]
    opened = ["[" * sum(start == k for start, _ in inner) for k in range(len(sentence))]
    closed = ["]" * sum(end == k + 1 for _, end in inner) for k in range(len(sentence))]
    return " ".join(map("".join, zip(opened, sentence, closed, strict=True)))


# A sentence that it mends: the constraint guides training only, brackets are those of the model that it led to.
right = {
    name: [len(set(own) & set(true)) for own, true in zip(found[name], gold, strict=True)]
    for name in ("EM", "under the constraint")
}
number = max(range(len(sentences)), key=lambda n: right["under the constraint"][n] - right["EM"][n])
print()
for name in ("EM", "under the constraint"):
    print(f"{name:>20}  {draw(sentences[number], found[name][number])}")
print(f"{'gold':>20}  {draw(sentences[number], gold[number])}")

# %%
# The same sentence pictured: a line under the words of every bracket, dashed where the true tree has none there.
shown = {name: found[name][number] for name in right} | {"gold": gold[number]}
figure = Figure((7.0, 4.2), layout="constrained")
for (name, brackets), axes in zip(shown.items(), figure.subplots(3, 1, sharex=True), strict=True):
    for depth, (start, end) in enumerate(sorted(brackets, key=lambda bracket: bracket[0] - bracket[1])):
        true = (start, end) in set(gold[number])
        axes.plot([start - 0.3, end - 0.7], [-depth] * 2, color=COLOURS[not true], linestyle="-" if true else "--")
    axes.set_title(name, loc="left", fontsize=10)
    axes.set_xticks(range(len(sentences[number])), sentences[number])
    axes.tick_params(length=0, labelbottom=True)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
alt = "Brackets of one sentence as lines: several wrong ones by EM, fewer under the constraint, and the true ones"
