"""[SmithEisner2004] §4.3 and §5: from a tagger of some labelled sentences on by EM, annealing or skewed annealing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spectrem.data import TaggedCorpus
from spectrem.estimators import HMMTagger
from spectrem.learning import Anneal
from spectrem.reproduce.report import Claim, Table
from spectrem.reproduce.tagger_training import Text, accuracies, annealing_plan, as_text, flat, plain_plan, run_stages

SCHEDULE = Anneal(0.01, 1.0, 1.5)


class Mixed(NamedTuple):
    """One training: (E-steps, beta, accuracy on the unlabelled text, on the held-out one), from the start on."""

    labelled: int
    method: str
    curve: Sequence[tuple[int, float, float, float]]

    @property
    def best(self) -> tuple[float, float]:
        """Highest accuracies after the start."""
        return max(point[2] for point in self.curve[1:]), max(point[3] for point in self.curve[1:])


def mixed_condition(
    labelled: int,
    corpus: TaggedCorpus,
    test: Text,
    dictionary: Mapping[str, tuple[str, ...]],
    settings: Mapping[str, Any],
    max_iter: int,
    log: Callable[[str], None],
) -> Iterator[Mixed]:
    """Train on the first sentences with their tags, then without on the rest, in three ways."""
    start = HMMTagger(**{**settings, "max_iter": 1, "tol": 0.0}).fit(corpus.words[:labelled], corpus.tags[:labelled])
    rest = as_text(TaggedCorpus(corpus.words[labelled:], corpus.tags[labelled:]), dictionary)
    ways: dict[str, tuple[Iterator[tuple[float, int]], dict[str, Any]]] = {
        "EM": (plain_plan(max_iter), {}),
        "DA": (annealing_plan(SCHEDULE, max_iter), {}),
        "SDA": (annealing_plan(SCHEDULE, max_iter), {"reference": start}),
    }
    for method, (plan, more) in ways.items():
        curve = [(0, 0.0, *_accuracies(start, rest, test))]
        for stage in run_stages({**settings, **more}, rest.words, plan, init=start):
            curve.append((stage.n_steps, stage.beta, *_accuracies(stage.tagger, rest, test)))
        found = Mixed(labelled, method, curve)
        log(f"{labelled} labelled, {method}: test {curve[0][3]:.2f} % to {curve[-1][3]:.2f} %")
        yield found


def mixed_table(mixed: Sequence[Mixed]) -> Table:
    """Accuracy from the start to the end."""
    rows = []
    for m in mixed:
        start, last = m.curve[0], m.curve[-1]
        ends = [value for k in (2, 3) for value in (start[k], m.best[k - 2], last[k])]
        rows.append((m.labelled, m.method, last[0], *(round(value, 2) for value in ends)))
    columns = (
        "labelled",
        "",
        "E-steps",
        "unlabelled: start",
        "highest",
        "last",
        "held out: start",
        "highest ",
        "last ",
    )
    return Table("Mixed condition: percent right of all words", columns, rows)


def mixed_claims(mixed: Sequence[Mixed]) -> list[Claim]:
    """What §4.3 and §5 say of it, held against accuracy on held-out text."""
    last = {(m.labelled, m.method): m.curve[-1][3] for m in mixed}
    first = {m.labelled: m.curve[0][3] for m in mixed}
    sizes = list(first)
    em = {m.labelled: m for m in mixed if m.method == "EM"}
    return [
        Claim(
            f"From {min(sizes)} labelled sentences a few iterations of EM help",
            em[min(sizes)].best[1] > first[min(sizes)],
        ),
        Claim(f"From {max(sizes):,} EM hurts in the end", last[max(sizes), "EM"] < first[max(sizes)]),
        Claim("DA damages the start more than EM does", all(last[k, "DA"] < last[k, "EM"] for k in sizes)),
        Claim("SDA repairs the damage done by DA", all(last[k, "SDA"] > last[k, "DA"] for k in sizes)),
        Claim(
            "SDA ends like EM or slightly better (held if no more than 0.3 points below)",
            all(last[k, "SDA"] >= last[k, "EM"] - 0.3 for k in sizes),
        ),
    ]


def _accuracies(tagger: HMMTagger, *texts: Text) -> tuple[float, float]:
    first, second = (accuracies(flat(tagger.predict(text.words)), text)["accuracy"] for text in texts)
    return first, second
