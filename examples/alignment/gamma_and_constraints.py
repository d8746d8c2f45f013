"""
Gamma and constraints against alignment errors
==============================================

What gamma and the constraints do to the error, on a bitext with known links.

Without constraints the two directions are trained apart: rare words attract links that are not theirs ("garbage
collectors"). Agreement lets each direction correct the other. Gamma below 1 sharpens what they agree upon.
"""

from spectrem import WordAligner
from spectrem.datasets import make_bitext
from spectrem.plotting import Line, Panel, draw_panels

source, target, gold = make_bitext(n_pairs=300, seed=0)
gammas = (1.5, 1.0, 0.5, 0.25)
constraints = {
    "none (EM)": (),
    "fertility": ("fertility",),
    "agreement": ("agreement",),
    "both": ("agreement", "fertility"),
}

lines = []
print("alignment error rate\n")
print(f"{'gamma':>12} " + "".join(f"{gamma:>8}" for gamma in gammas))
for name, chosen in constraints.items():
    aligners = [WordAligner(constraints=chosen, gamma=gamma).fit(source, target) for gamma in gammas]
    errors = [1 - aligner.score(source, target, gold) for aligner in aligners]
    lines.append(Line(name, gammas, errors, colour=len(lines), style=len(lines)))
    print(f"{name:>12} " + "".join(f"{error:8.3f}" for error in errors))

# Every iteration is recorded. The objective only says how well the text is explained: on little text more iterations
# explain it better and align it worse, which is why the default is three.
for iterations in (3, 10):
    aligner = WordAligner(max_iter=iterations).fit(source, target)
    last = aligner.history_[-1]
    print(f"\n{iterations} iterations: error {1 - aligner.score(source, target, gold):.3f}, ", end="")
    print(f"objective {last.objective:.0f} nats, of which agreement costs {last.penalty:.0f}")

# %%
# Each constraint helps at every gamma here, both together most; so does gamma below 1.
figure = draw_panels([Panel("", "gamma", "alignment error rate", lines)])
alt = "Alignment error rate by gamma, a line for each set of constraints"
