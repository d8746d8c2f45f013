"""[SmithEisner2004] table 1: EM against deterministic annealing, trigram tagger with a dictionary.

* No event ends a sentence. Start: uniform, every probability times 1 + U(0, 0.01), then normalised; the paper says
  'slight perturbation'. Tags are those of the best sequence; the paper does not say.
* Cross-entropies of texts and dictionaries that differ cannot be compared with the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, gt
from pathlib import Path
from typing import Any, NamedTuple

from reproductions.figures import curves
from reproductions.records import group
from reproductions.report import Report, Table, beside_paper, bullets, listing, tell
from reproductions.tagging.corpora import first_tokens, flat, read_penn, read_penn_dictionary, split_at_random
from reproductions.tagging.da_mixed import MIXED_NOTES, Point, mixed_claims, mixed_condition, mixed_table
from reproductions.tagging.training import Scores, Text, annealing_plan, as_text, plain_plan, run_stages, score
from spectrem.learning import Anneal
from spectrem.metrics import SignTest, compare_taggings, sign_test
from spectrem.plotting import Panel, draw_panels

SCHEDULE = Anneal(1e-4, 1.0, 1.2)
SETTINGS: dict[str, Any] = {"order": 2, "smoothing": 0.1, "tol": 1e-9, "decode": "viterbi"}
START: dict[str, Any] = {"init": "uniform", "perturbation": 0.01, "random_state": 0}
QUICK = {"n_tokens": 2_000, "n_test": 40, "labelled": (20,), "schedule": Anneal(0.1, 1.0, 2.0), "max_iter": 20}


class Numbers(NamedTuple):
    """One row of the table: bits per word, percent right, bits of posterior entropy per tag on test (note 7)."""

    e_steps: int
    train_bits: float
    test_bits: float
    train_accuracy: float
    train_ambiguous: float
    test_accuracy: float
    test_ambiguous: float
    test_posterior_bits: float


PUBLISHED = {
    "EM": Numbers(279, 9.136, 9.321, 82.04, 66.61, 82.08, 66.63, 0.057),
    "DA": Numbers(1200, 9.138, 9.325, 83.85, 70.02, 84.00, 70.25, 0.082),
}


@dataclass(frozen=True, eq=False)
class Run:
    """One training on the way there, and its scores."""

    points: Sequence[Point]
    train: Scores
    test: Scores

    @property
    def numbers(self) -> Numbers:
        """Ours."""
        train, test = self.train, self.test
        percents = (round(percent, 2) for percent in (*train.accuracy, *test.accuracy))
        entropy = float(test.entropies.mean())
        return Numbers._make((self.points[-1].e_steps, train.bits, test.bits, *percents, entropy))


def run(
    data: Path | None = None,
    *,
    n_tokens: int | None = None,
    n_test: int = 1_000,
    labelled: Sequence[int] = (100, 1_000),
    schedule: Anneal = SCHEDULE,
    max_iter: int = 2_000,
    threads: int | None = None,
) -> Report:
    """Train a trigram tagger by EM and by annealing from one start, without and with some labelled sentences.

    Parameters
    ----------
    data : path, optional
        See `read_penn`.
    n_tokens : int, optional
        Only the first tokens of the sample.
    n_test : int
        Sentences held out at random.
    labelled : sequence of int
        Numbers of labelled sentences in the mixed condition.
    schedule : Anneal
        Of the condition without labelled sentences.
    max_iter : int
        Iterations of EM, and of annealing at every beta, at most.
    threads : int, optional
    """
    corpus = first_tokens(read_penn(data), n_tokens)
    dictionary = read_penn_dictionary(data)
    parts = split_at_random(corpus, n_test, 0)
    train, test = (as_text(part, dictionary) for part in parts)
    settings = {
        **SETTINGS,
        "dictionary": dictionary,
        "vocabulary": sorted(set(flat(corpus.words))),
        "n_threads": threads,
    }
    plans = {"EM": plain_plan(max_iter), "DA": annealing_plan(schedule, max_iter)}
    runs = {method: _train(method, settings, plan, train, test) for method, plan in plans.items()}
    mixed = flat(mixed_condition(k, parts[0], test, dictionary, settings, max_iter) for k in labelled)
    tests = dict(_sign_tests(runs, train, test))
    return Report(
        title=f"[SmithEisner2004] table 1: trigram tagging with a dictionary, {train.n_tokens:,} words unlabelled, "
        f"{test.n_tokens:,} held out",
        tables=[_table(runs), _table_of_tests(tests), *([mixed_table(mixed)] if mixed else [])],
        numbers=_numbers(runs, mixed),
        figure=_figure([*runs["EM"].points, *runs["DA"].points, *mixed]),
        claims={**_claims(runs, tests), **(mixed_claims(mixed) if mixed else {})},
        notes=[
            *bullets(__doc__),
            f"Text: the public tenth of the Penn Treebank ({train.n_tokens + test.n_tokens:,} words here). The paper "
            "trained on 1,125,240 words and tested on 48,526. Its ten corpora of a tenth that size (§4.2), with "
            "smoothing scaled down, were inconclusive: DA won on test accuracy in three of ten, on training "
            "likelihood in five, on test likelihood in all.",
            "Dictionary: of the sample, CoNLL-2000 and EWT, as ambiguous as the paper's: "
            f"{100 * train.ambiguous.mean():.1f} % of the training words (its accuracies imply 53.8 %); held-out words "
            "are in it, as in the paper.",
            *(MIXED_NOTES if mixed else []),
        ],
    )


def _train(method: str, settings: Mapping[str, Any], plan: Iterable[tuple[float, int]], train: Text, test: Text) -> Run:
    points = []
    for stage in run_stages(settings, train.words, plan, **START):
        accuracy = train.accuracy(stage.tagger.predict(train.words)).accuracy
        points.append(Point(0, method, stage.n_steps, stage.beta, accuracy))
        tell(f"{method}, {stage.n_steps} E-steps, beta {stage.beta:.4g}: {accuracy:.2f} % of training tags")
    return Run(points, score(stage.tagger, train), score(stage.tagger, test))


def _table(runs: Mapping[str, Run]) -> Table:
    columns = ("", "", "E-steps", "bits, train", "bits, test", "train, all %", "ambiguous", "test, all %",
               "ambiguous ", "posterior bits, test")  # fmt: skip
    published = {method: _spelled(numbers) for method, numbers in PUBLISHED.items()}
    ours = [(method, "ours", *_spelled(run.numbers)) for method, run in runs.items()]
    return Table("EM and deterministic annealing (DA)", columns, beside_paper(published, ours))


def _spelled(numbers: Numbers) -> tuple[Any, ...]:
    """Bits with three decimals."""
    return tuple(f"{value:.3f}" if name.endswith("bits") else value for name, value in numbers._asdict().items())


def _sign_tests(runs: Mapping[str, Run], train: Text, test: Text) -> Iterator[tuple[tuple[str, str, str], SignTest]]:
    """By measure, text and unit: where DA has more, where EM."""
    for name, text in (("train", train), ("test", test)):
        da, em = (getattr(runs[method], name) for method in ("DA", "EM"))
        compared = compare_taggings(da.predicted, em.predicted, text.gold, text.lengths)
        yield ("tags", name, "words"), compared.words
        yield ("tags", name, "sentences"), compared.sentences
        yield ("likelihood", name, "sentences"), sign_test(da.log_likelihoods, em.log_likelihoods)
        surer = sign_test(da.entropies.round(9), em.entropies.round(9))
        yield ("posterior entropy", name, "words"), surer


def _table_of_tests(tests: Mapping[tuple[str, str, str], SignTest]) -> Table:
    rows: list[tuple[Any, ...]] = [
        ("tags, test", "words", "paper", 1_652, 726, "< 1e-6"),
        ("tags, test", "sentences", "paper", 850, 287, "< 1e-6"),
    ]
    for (what, text, unit), found in tests.items():
        rows.append((f"{what}, {text}", unit, "ours", found.n_first, found.n_second, f"{found.p_value:.1e}"))
    title = "Sign tests: where DA has more (right, likely, entropy), where EM"
    return Table(title, ("", "by", "", "DA", "EM", "p"), rows)


def _numbers(runs: Mapping[str, Run], mixed: Sequence[Point]) -> Table:
    points: list[Point] = []
    for run in runs.values():
        points += [*run.points[:-1], run.points[-1]._replace(**run.numbers._asdict())]
    return listing([*points, *mixed])


def _claims(runs: Mapping[str, Run], tests: Mapping[tuple[str, str, str], SignTest]) -> dict[str, bool]:
    em, da = runs["EM"], runs["DA"]
    significant = {key: test.p_value < 1e-6 and test.n_first > test.n_second for key, test in tests.items()}
    apart = max(abs(da.train.bits - em.train.bits), abs(da.test.bits - em.test.bits))
    entropies = [float(run.test.entropies.mean()) for run in (da, em)]
    accuracies = [point.train_accuracy for point in da.points]
    below = max(accuracies) - accuracies[-1]
    return {
        "DA tags better than EM: all and ambiguous words, training and held-out text": all(
            map(gt, (*da.train.accuracy, *da.test.accuracy), (*em.train.accuracy, *em.test.accuracy))
        ),
        "... significantly in each case, by word and by sentence (p < 1e-6)": all(
            holds for (what, _, _), holds in significant.items() if what == "tags"
        ),
        f"Cross-entropies are about equal (paper: 0.004 bits apart at most; here {apart:.3f}; held if <= 0.02)": (
            apart <= 0.02
        ),
        "DA does not improve the training likelihood over EM's": da.train.bits >= em.train.bits,
        "DA's posteriors have more entropy on held-out text, mean and by word (p < 1e-6; paper: 0.082 and 0.057 "
        f"bits, here {entropies[0]:.4f} and {entropies[1]:.4f})": (
            entropies[0] > entropies[1] and significant["posterior entropy", "test", "words"]
        ),
        "DA's last model is about its most accurate on training text (held if within 0.3 points; here "
        f"{below:.2f} below)": accuracies[-1] >= max(accuracies) - 0.3,
        "DA takes several times the E-steps of EM (held if 3 or more)": (da.numbers.e_steps >= 3 * em.numbers.e_steps),
    }


def _figure(points: Sequence[Point]) -> Any:
    panels = []
    for labelled, own in group(points, "labelled").items():
        title = f"from {labelled:,} labelled sentences" if labelled else "no labelled sentences"
        lines = curves(own, attrgetter("e_steps"), attrgetter("train_accuracy"), label="{method}", colour="method")
        panels.append(Panel(title, "E-steps", "training tags right (%)", lines))
    return draw_panels(panels, title="Accuracy on the way: EM, annealing (DA), skewed annealing (SDA)", width=4.6)
