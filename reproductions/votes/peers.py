"""Other packages on the same votes, run by the Python of an environment where they are, which need not have Spectrem.

``python peers.py VOTES LABELS SEEDS``: VOTES is an archive of NumPy's with an array (n_items, n_sources) of labels 0,
1, ... and -1 for silence under ``SET/votes``, and under ``SET/n_fit`` the number of its first items to learn from.
Sentences have a row per token, and under ``SET/lengths`` the numbers of their tokens, under ``SET/tags`` the names of
the labels, O among them, and under ``SET/sources`` those of the sources; ``SET/n_fit`` are sentences.
LABELS gets ``SET/PACKAGE METHOD/SEED``: of items posteriors (n_items, n_classes), and NaN where the package has no
answer; of sentences the number of the tag of every token. What was run, with versions, and what failed and why, is
printed as JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any

import numpy as np

RANDOM = ("crowd-kit MACE", "snorkel LabelModel")
"""Methods that have a seed."""


def of_crowdkit(method: str) -> Callable[..., Any]:
    """The posteriors of a method of crowd-kit, which labels only what it learns from: all items, none with a label."""

    def posteriors(votes: Any, n_fit: int, seed: int) -> Any:
        pd = import_module("pandas")
        classification = import_module("crowdkit.aggregation.classification")
        item, source = np.nonzero(votes >= 0)
        frame = pd.DataFrame({"task": item, "worker": source, "label": votes[item, source]})
        model = getattr(classification, method)(**({"random_state": seed} if method == "MACE" else {}))
        found = model.fit(frame).probas_ if method == "OneCoinDawidSkene" else model.fit_predict_proba(frame)
        table = np.full((len(votes), votes.max() + 1), np.nan)
        table[np.ix_(found.index.to_numpy(int), found.columns.to_numpy(int))] = found.to_numpy()
        return table

    return posteriors


def of_snorkel(votes: Any, n_fit: int, seed: int) -> Any:
    """The posteriors of Snorkel's label model, which learns from the first items."""
    model = import_module("snorkel.labeling.model").LabelModel(cardinality=int(votes.max()) + 1, verbose=False)
    model.fit(votes[:n_fit], seed=seed, progress_bar=False)
    return model.predict_proba(votes)


def of_skweak(module: str, aggregator: str) -> Callable[..., Any]:
    """The tags of spans that an aggregator of skweak finds, learnt from the spans of the sources in first sentences."""

    def tags_of_tokens(votes: Any, n_fit: int, seed: int, lengths: Any, tags: Any, sources: Any) -> Any:
        tokens = import_module("spacy.tokens")
        vocabulary = import_module("spacy.vocab").Vocab()
        number = {tag: k for k, tag in enumerate(tags.tolist())}
        types = list(dict.fromkeys(tag[2:] for tag in number if tag != "O"))
        documents, stop = [], 0
        for length in lengths.tolist():
            start, stop = stop, stop + length
            document = tokens.Doc(vocabulary, words=["-"] * length)
            for source, column in zip(sources.tolist(), votes[start:stop].T, strict=True):
                named = ["O" if vote < 0 else str(tags[vote]) for vote in column]
                document.spans[source] = [tokens.Span(document, *span) for span in spans_of(named)]
            documents.append(document)
        model = getattr(import_module(f"skweak.{module}"), aggregator)("labels", types)
        model.fit(documents[:n_fit])
        answers = np.full(stop, number["O"])
        for first, document in zip(np.cumsum(lengths) - lengths, map(model, documents), strict=True):
            for span in document.spans["labels"]:
                answers[first + span.start : first + span.end] = number[f"I-{span.label_}"]
                answers[first + span.start] = number[f"B-{span.label_}"]
        return answers

    return tags_of_tokens


def spans_of(tags: list[str]) -> list[tuple[int, int, str]]:
    """First token, the one behind the last, and type of the spans that tags B, I and O mark; I may begin one."""
    spans: list[tuple[int, int, str]] = []
    for token, tag in enumerate(tags):
        if tag[0] == "I" and spans and spans[-1][1:] == (token, tag[2:]):
            spans[-1] = (spans[-1][0], token + 1, tag[2:])
        elif tag != "O":
            spans.append((token, token + 1, tag[2:]))
    return spans


SLOW = {("crowd-trec", "crowd-kit GLAD"): "more than seven minutes"}
"""Runs that are left out, and how long they take."""
METHODS: dict[str, Callable[..., Any]] = {
    **{f"crowd-kit {name}": of_crowdkit(name) for name in ("DawidSkene", "OneCoinDawidSkene", "GLAD", "MACE")},
    "snorkel LabelModel": of_snorkel,
}
SENTENCE_METHODS: dict[str, Callable[..., Any]] = {
    "skweak SequentialMajorityVoter": of_skweak("voting", "SequentialMajorityVoter"),
    "skweak HMM": of_skweak("generative", "HMM"),
}


def main(votes: str, labels: str, seeds: int) -> None:
    """Run every method on every set, with each seed if it has one."""
    warnings.simplefilter("ignore")
    outcome: dict[str, dict[str, Any]] = {"versions": {}, "failures": {}, "seconds": {}}
    for package in dict.fromkeys(name.split()[0] for name in [*METHODS, *SENTENCE_METHODS]):
        try:
            outcome["versions"][package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            outcome["failures"][package] = "not installed"
    sets: dict[str, dict[str, Any]] = {}
    for key, array in np.load(votes).items():
        sets.setdefault(key.split("/")[0], {})[key.split("/")[1]] = array if array.ndim else int(array)
    tables = {}
    for name, arrays in sets.items():
        for method, run in (SENTENCE_METHODS if "lengths" in arrays else METHODS).items():
            if method.split()[0] in outcome["failures"]:
                continue
            if (name, method) in SLOW:
                outcome["failures"][f"{name}, {method}"] = SLOW[name, method]
                continue
            started = time.process_time()
            for seed in range(seeds if method in RANDOM else 1):
                try:
                    tables[f"{name}/{method}/{seed}"] = run(seed=seed, **arrays)
                except Exception as error:  # whatever a package raises is its result
                    outcome["failures"][f"{name}, {method}"] = f"{type(error).__name__}: {error}"[:300]
                    break
            outcome["seconds"][f"{name}/{method}"] = round(time.process_time() - started, 1)
            print(f"{name}, {method}: {outcome['seconds'][f'{name}/{method}']} s", file=sys.stderr, flush=True)
    np.savez_compressed(labels, **tables)
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
