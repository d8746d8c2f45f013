"""[SmithEisner2004] §4.3 and §5: from a tagger of some labelled sentences on by EM, annealing or skewed annealing.

* Mixed condition (§4.3, §5): the first parameters are those of the labelled sentences, which then are left out; the
  paper gives no numbers, and its tables 2 and 3 are of grammar induction. Annealing here takes beta from 0.01 by
  factors of 1.5, as the paper's own costlier experiment (§6.2). Highest: over EM stretches that double, or over betas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reproductions.records import group
from reproductions.report import Table, bullets, tell
from reproductions.tagging.training import Text, annealing_plan, as_text, plain_plan, run_stages
from spectrem.data import TaggedCorpus
from spectrem.estimators import HMMTagger
from spectrem.learning import Anneal

SCHEDULE = Anneal(0.01, 1.0, 1.5)
MIXED_NOTES = bullets(__doc__)


class Point(NamedTuple):
    """A training on its way, from so many labelled sentences: percent right, bits per word."""

    labelled: int
    method: str
    e_steps: int
    beta: float
    train_accuracy: float
    test_accuracy: float | None = None
    train_ambiguous: float | None = None
    test_ambiguous: float | None = None
    train_bits: float | None = None
    test_bits: float | None = None
    test_posterior_bits: float | None = None


class Ends(NamedTuple):
    """Accuracies of one training: of its start, the highest after it, and the last."""

    start: float
    highest: float
    last: float


def mixed_condition(
    labelled: int,
    corpus: TaggedCorpus,
    test: Text,
    dictionary: Mapping[str, tuple[str, ...]],
    settings: Mapping[str, Any],
    max_iter: int,
) -> list[Point]:
    """Train on the first sentences with their tags, then without on the rest, in three ways; from the start on."""
    start = HMMTagger(**{**settings, "max_iter": 1, "tol": 0.0}).fit(corpus.words[:labelled], corpus.tags[:labelled])
    rest = as_text(TaggedCorpus(corpus.words[labelled:], corpus.tags[labelled:]), dictionary)
    ways: dict[str, tuple[Iterator[tuple[float, int]], dict[str, Any]]] = {
        "EM": (plain_plan(max_iter), {}),
        "DA": (annealing_plan(SCHEDULE, max_iter), {}),
        "SDA": (annealing_plan(SCHEDULE, max_iter), {"reference": start}),
    }

    def point(method: str, tagger: HMMTagger, n_steps: int, beta: float) -> Point:
        found = (text.accuracy(tagger.predict(text.words)).accuracy for text in (rest, test))
        return Point(labelled, method, n_steps, beta, *found)

    points = []
    for method, (plan, more) in ways.items():
        own = [point(method, start, 0, 0.0)]
        own += [point(method, *stage) for stage in run_stages({**settings, **more}, rest.words, plan, init=start)]
        tell(f"{labelled} labelled, {method}: test {own[0].test_accuracy:.2f} % to {own[-1].test_accuracy:.2f} %")
        points += own
    return points


def ends(points: Sequence[Point], field: str) -> dict[tuple[int, str], Ends]:
    """Of every training; the field is that of an accuracy."""
    found = {}
    for key, own in group(points, "labelled", "method").items():
        values = [getattr(point, field) for point in own]
        found[key] = Ends(values[0], max(values[1:]), values[-1])
    return found


def mixed_table(points: Sequence[Point]) -> Table:
    """Accuracy from the start to the end."""
    unlabelled, held_out = ends(points, "train_accuracy"), ends(points, "test_accuracy")
    rows = [
        (*key, own[-1].e_steps, *(round(value, 2) for value in (*unlabelled[key], *held_out[key])))
        for key, own in group(points, "labelled", "method").items()
    ]
    texts = ("unlabelled: start", "highest", "last", "held out: start", "highest ", "last ")
    return Table("Mixed condition: percent right of all words", ("labelled", "", "E-steps", *texts), rows)


def mixed_claims(points: Sequence[Point]) -> dict[str, bool]:
    """What §4.3 and §5 say of it, held against accuracy on held-out text."""
    found = ends(points, "test_accuracy")
    sizes = list(group(points, "labelled"))
    few, many = found[min(sizes), "EM"], found[max(sizes), "EM"]
    last = {key: own.last for key, own in found.items()}
    return {
        f"From {min(sizes)} labelled sentences a few iterations of EM help": few.highest > few.start,
        f"From {max(sizes):,} EM hurts in the end": many.last < many.start,
        "DA damages the start more than EM does": all(last[k, "DA"] < last[k, "EM"] for k in sizes),
        "SDA repairs the damage done by DA": all(last[k, "SDA"] > last[k, "DA"] for k in sizes),
        "SDA ends like EM or slightly better (held if no more than 0.3 points below)": all(
            last[k, "SDA"] >= last[k, "EM"] - 0.3 for k in sizes
        ),
    }
