"""[Ganchev2010] table 4: sentiment of reviews in one domain learnt from another, two views by a split of the features.

The classifier of a target domain is learnt from the labelled reviews of a source domain, and from those of the target
without their labels: two views, of a random half of the features each, agree on them.

Declared before the figures below were taken, on splits of the features that were not looked at before (draws 20 to
24): 10 iterations with 5 steps of L-BFGS each, variance 1, labelled and unlabelled reviews of the same total weight.
Gamma is one of 1 (the paper's PR), 0.7 and 0.5, for each target the one that is best on average over the transfers
among the other domains, so that no label of the target has a part in it. At gamma = 0.5 agreement is the product of
the two views, in place of the root of the product.

Explored beforehand, on two other splits of the features of the same reviews (mean gain over MaxEnt, 76.77, or with the
balance 76.97): without knowledge 2, 5, 15 iterations +0.54, +0.48, +0.27; gamma 0.7, 0.5, 0: +1.23, +0.98, +0.55;
variance 0.5 and 0.1: +0.28, +0.07. With the balance: 5, 15 iterations +0.84, +0.77, with the text of the other domains
+0.49 to +0.81 by its weight, and gamma 0.5 +1.89; gamma 0.7, 0.5, 0.3, 0.1, 0: +2.17, +2.06, +1.74, +1.10, +0.83;
unlabelled reviews at 0.1 or 10 times their weight +0.88, +0.56.

Then, once: PR +0.57 (0.33 to 0.84 by split), with the balance +0.87, with that and the text of the other domains +1.14;
with gamma chosen so, which is 0.7 nearly everywhere, +1.43, +2.21 and +2.55.

Eq. 47 of the paper averages the loss over the labelled reviews beside a prior that is not: read so, the prior has
4,000 times the strength, MaxEnt falls from 76.8 to 67.2 (paper: 76.4), and agreement loses 1.5. It is read as a sum.

* Only the 2,000 labelled reviews of each domain are there: those of the target are unlabelled text and test set at
  once. The paper tests on reviews that are not unlabelled text, and has more of that.
* Reviews with the same counts as one before them in their domain are left out.
* Gains are means over random splits of the features, which differ by some tenths; the paper has one split.
* The balance, half of the reviews of every domain are positive, holds of these data and is a constraint while training
  and when predicting; MaxEnt beside it has it when predicting.
* Counts as they are, no selection of features.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reproductions.records import group, where
from reproductions.report import Report, Table, bullets, listing, percent, tell
from reproductions.views.sentiment import DOMAINS, Reviews, read_reviews
from spectrem import E, MaxEntClassifier, Views, part
from spectrem.exceptions import InvalidInputError
from spectrem.plotting import Line, Panel, draw_panels

QUICK = {"domains": ("books", "dvd", "kitchen"), "draws": 1, "gammas": (1.0, 0.7)}
PAPER = {
    ("books", "dvd"): (78.5, 79.8), ("dvd", "books"): (80.3, 81.3), ("books", "electronics"): (72.5, 75.5),
    ("electronics", "books"): (72.8, 74.3), ("books", "kitchen"): (77.8, 81.0), ("kitchen", "books"): (70.3, 72.8),
    ("dvd", "electronics"): (75.5, 76.5), ("electronics", "dvd"): (69.3, 73.0), ("dvd", "kitchen"): (80.5, 82.8),
    ("kitchen", "dvd"): (69.5, 72.8), ("electronics", "kitchen"): (86.5, 85.8),
    ("kitchen", "electronics"): (82.8, 85.5),
}  # fmt: skip
"""Accuracy of MaxEnt and of PR, per cent, by source and target."""
PLAIN, BALANCE, TEXT = "none", "balance", "balance, text"
KNOWLEDGE = (PLAIN, BALANCE, TEXT)
MX_ENT, APART, AGREED, CHOSEN = "mx-ent", "agree_0", "agreed", "chosen"
FIRST_DRAW, ITERATIONS, STEPS, M_TOL = 20, 10, 5, 1e-6
HALF = (E[(part("label") == "positive") & ~part("labelled")] == 0.5 * E.count(~part("labelled"))).per("domain")


class Transfer(NamedTuple):
    """One training; draw -1 where no split of the features has a part in it."""

    source: str
    target: str
    method: str
    knowledge: str
    gamma: float
    draw: int
    accuracy: float
    seconds: float


def run(
    data: str | os.PathLike[str] | None = None,
    domains: Sequence[str] = DOMAINS,
    *,
    draws: int = 5,
    gammas: Sequence[float] = (1.0, 0.7, 0.5),
    threads: int | None = None,
) -> Report:
    """Learn every domain from every other.

    Parameters
    ----------
    data : path, optional
        The folder with a folder per domain.
    domains : sequence of str
        Three at least, among `DOMAINS`.
    draws : int
        Splits of the features.
    gammas : sequence of float
        1 must be among them.
    threads : int, optional
        Results do not depend on it.
    """
    if len(set(domains)) < 3 or 1.0 not in gammas:
        raise InvalidInputError(
            f"domains must be three at least, and gammas hold 1, got {list(domains)} and {list(gammas)}; add some"
        )
    reviews = read_reviews(data, domains)
    fits: list[Transfer] = []
    for target in domains:
        for source in domains:
            if source != target:
                found = _transfer(reviews, source, target, draws, gammas, threads)
                fits += found
                tell(f"{source} to {target}: {sum(fit.seconds for fit in found):.1f} s")
    chosen = {know: {target: _choose(fits, target, know) for target in domains} for know in KNOWLEDGE}
    for know, by_target in chosen.items():
        for target, gamma in by_target.items():
            own = where(fits, target=target, method=AGREED, knowledge=know, gamma=gamma)
            fits += [fit._replace(method=CHOSEN, seconds=0.0) for fit in own]
    dropped = sum(own.n_dropped for own in reviews.values())
    return Report(
        title=f"Sentiment from one domain to another: accuracy (%), mean of {draws} splits of the features",
        tables=[_table(fits), _summary(fits)],
        numbers=listing(fits),
        figure=_figure(fits),
        claims=claims(fits),
        notes=[
            *bullets(__doc__),
            f"{dropped} reviews were left out as copies of others.",
            *(
                f"Gamma chosen, knowledge {know}: {', '.join(f'{target} {gamma:g}' for target, gamma in own.items())}."
                for know, own in chosen.items()
            ),
        ],
    )


def _transfer(
    reviews: dict[str, Reviews], source: str, target: str, draws: int, gammas: Sequence[float], threads: int | None
) -> list[Transfer]:
    others = [name for name in reviews if name not in (source, target)]
    names = [source, target, *others]
    X = sp.vstack([reviews[name].counts for name in names], format="csr")
    sizes = [len(reviews[name].positive) for name in names]
    domain = np.repeat(names, sizes)
    labels = np.where(reviews[source].positive, "positive", "negative")
    gold = np.where(reviews[target].positive, "positive", "negative")
    n_labelled, near = sizes[0], sizes[0] + sizes[1]
    found: list[Transfer] = []

    def add(method: str, know: str, gamma: float, draw: int, began: float, predicted: NDArray[Any]) -> None:
        accuracy, seconds = float(np.mean(predicted == gold)), round(time.perf_counter() - began, 3)
        found.append(Transfer(source, target, method, know, gamma, draw, accuracy, seconds))

    began = time.perf_counter()
    alone = MaxEntClassifier(n_threads=threads).fit(X[:n_labelled], labels)
    test, of_test = X[n_labelled:near], {"domain": domain[n_labelled:near]}
    add(MX_ENT, PLAIN, 1.0, -1, began, alone.predict(test))
    began = time.perf_counter()
    alone.set_params(constraints=[HALF], project_at_predict=True)
    add(MX_ENT, BALANCE, 1.0, -1, began, alone.predict(test, of_test))
    for draw in range(FIRST_DRAW, FIRST_DRAW + draws):
        for know in KNOWLEDGE:
            n_rows = X.shape[0] if know == TEXT else near
            used = np.flatnonzero(np.diff(X[:n_rows].tocsc().indptr))
            first = np.random.default_rng(draw).random(X.shape[1])[used] < 0.5
            rows, given = X[:n_rows][:, used].tocsc(), [*labels, *[None] * (n_rows - n_labelled)]
            settings: dict[str, Any] = {
                "feature_groups": {"first": np.flatnonzero(first), "second": np.flatnonzero(~first)},
                **({} if know == PLAIN else {"constraints": [HALF], "project_at_predict": True}),
                "unlabelled_weight": n_labelled / (n_rows - n_labelled),
                "n_threads": threads,
            }
            columns = None if know == PLAIN else {"domain": domain[:n_rows]}
            if know == PLAIN:
                began = time.perf_counter()
                apart = _views(**{**settings, "unlabelled_weight": 0.0}).fit(rows, given)
                add(APART, know, 1.0, draw, began, apart.predict(test[:, used]))
            for gamma in gammas:
                began = time.perf_counter()
                views = _views(gamma=gamma, **settings).fit(rows, given, columns=columns)
                predicted = views.predict(test[:, used], columns=None if know == PLAIN else of_test)
                add(AGREED, know, gamma, draw, began, predicted)
    return found


def _views(**settings: Any) -> Views:
    half = MaxEntClassifier(m_steps=STEPS, m_tol=M_TOL)
    return Views([("first", half), ("second", half)], max_iter=ITERATIONS, tol=0.0, **settings)


def _choose(fits: Sequence[Transfer], target: str, know: str) -> float:
    """The gamma that is best on the transfers in which a domain has no part."""
    among = [fit for fit in where(fits, method=AGREED, knowledge=know) if target not in (fit.source, fit.target)]
    mean = {gamma: np.mean([fit.accuracy for fit in own]) for gamma, own in group(among, "gamma").items()}
    return float(max(mean, key=lambda gamma: mean[gamma]))


def gains(fits: Sequence[Transfer], method: str, know: str, **fields: Any) -> NDArray[np.float64]:
    """Per cent over MaxEnt of the same knowledge about the target, a row per transfer, a column per split."""
    base = {
        (fit.source, fit.target): fit.accuracy
        for fit in where(fits, method=MX_ENT, knowledge=PLAIN if know == PLAIN else BALANCE)
    }
    own = group(where(fits, method=method, knowledge=know, **fields), "source", "target")
    return 100 * np.array([[fit.accuracy - base[pair] for fit in each] for pair, each in own.items()])


METHODS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (APART, PLAIN, {}), (AGREED, PLAIN, {"gamma": 1.0}), (CHOSEN, PLAIN, {}), (AGREED, BALANCE, {"gamma": 1.0}),
    (CHOSEN, BALANCE, {}), (AGREED, TEXT, {"gamma": 1.0}), (CHOSEN, TEXT, {}),
)  # fmt: skip
NAMES = ("agree_0", "PR", "UEM", "PR+b", "UEM+b", "PR+b+t", "UEM+b+t")


def _table(fits: Sequence[Transfer]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for (source, target), own in group(fits, "source", "target").items():

        def cell(method: str, know: str, own: Sequence[Transfer] = own, **fields: Any) -> float:
            chosen = where(own, method=method, knowledge=know, **fields)
            return percent(float(np.mean([fit.accuracy for fit in chosen])))

        ours = (cell(method, know, **fields) for method, know, fields in METHODS)
        first = (cell(MX_ENT, PLAIN), cell(MX_ENT, BALANCE))
        rows.append((f"{source} to {target}", *PAPER[source, target], *first, *ours))
    title = "PR: gamma 1, UEM: gamma chosen elsewhere; +b: half are positive, +t: with the text of all domains"
    return Table(title, ("", "paper mx-ent", "paper PR", "mx-ent", "mx-ent+b", *NAMES), rows)


def _summary(fits: Sequence[Transfer]) -> Table:
    rows = []
    for name, (method, know, fields) in zip(NAMES, METHODS, strict=True):
        found = gains(fits, method, know, **fields)
        of_draws = found.mean(axis=0)
        numbers = (found.mean(), found.mean(axis=1).std(), of_draws.min(), of_draws.max())
        better = int((found.mean(axis=1) > 0).sum())
        rows.append((name, *(f"{number:+.2f}" for number in numbers), f"{better} of {len(found)}"))
    columns = ("", "gain", "deviation of transfers", "least split", "best split", "better")
    return Table("Gain over mx-ent, with b over mx-ent+b, per cent (paper: +2.07, deviation 1.27)", columns, rows)


def claims(fits: Sequence[Transfer]) -> dict[str, bool]:
    """What the paper and [Samdani2012] say of agreement, each with the numbers that decide."""
    mean = {
        name: gains(fits, method, know, **fields).mean()
        for name, (method, know, fields) in zip(NAMES, METHODS, strict=True)
    }
    every = gains(fits, AGREED, PLAIN, gamma=1.0).mean(axis=1)
    return {
        f"Agreement gains over MaxEnt (PR {mean['PR']:+.2f})": mean["PR"] > 0,
        f"by about 2 (paper +2.07; PR {mean['PR']:+.2f})": mean["PR"] >= 1.5,
        f"in all transfers but electronics to kitchen ({int((every > 0).sum())} of {len(every)} gain)": bool(
            (every > 0).sum() >= len(every) - 1
        ),
        f"The gain is of training together, not of joining views when predicting (agree_0 {mean['agree_0']:+.2f})": (
            mean["agree_0"] < 0.5 * mean["PR"]
        ),
        f"A gamma below 1 is better (UEM {mean['UEM']:+.2f}, with the balance {mean['UEM+b']:+.2f})": (
            mean["UEM"] > mean["PR"] and mean["UEM+b"] > mean["PR+b"]
        ),
        f"With it, and the balance, the gain is the paper's (UEM {mean['UEM+b']:+.2f}, with the text of all domains "
        f"{mean['UEM+b+t']:+.2f})": mean["UEM+b"] >= 2.07,
    }


def _figure(fits: Sequence[Transfer]) -> Any:
    lines = []
    for k, (name, (method, know, fields)) in enumerate(zip(NAMES, METHODS, strict=True)):
        found = gains(fits, method, know, **fields).mean(axis=1)
        lines.append(Line(name, range(len(found)), np.sort(found), colour=k, style=k))
    return draw_panels(
        [Panel("Gain over MaxEnt", "transfers, by gain", "accuracy, per cent", lines)],
        title="Sentiment from one domain to another",
    )
