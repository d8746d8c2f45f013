"""Other packages on the same votes, run by the Python of an environment where they are, which need not have Spectrem.

``python peers.py VOTES POSTERIORS SEEDS``: VOTES is an archive of NumPy's with an array (n_items, n_sources) of labels
0, 1, ... and -1 for silence under ``SET/votes``, and under ``SET/n_fit`` the number of its first items to learn from.
POSTERIORS gets ``SET/PACKAGE METHOD/SEED``, arrays (n_items, n_classes), and NaN where the package has no answer. What
was run, with versions, and what failed and why, is printed as JSON.
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


def of_crowdkit(method: str) -> Callable[[Any, int, int], Any]:
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


SLOW = {("crowd-trec", "crowd-kit GLAD"): "more than seven minutes"}
"""Runs that are left out, and how long they take."""
METHODS: dict[str, Callable[[Any, int, int], Any]] = {
    **{f"crowd-kit {name}": of_crowdkit(name) for name in ("DawidSkene", "OneCoinDawidSkene", "GLAD", "MACE")},
    "snorkel LabelModel": of_snorkel,
}


def main(votes: str, posteriors: str, seeds: int) -> None:
    """Run every method on every set, with each seed if it has one."""
    warnings.simplefilter("ignore")
    outcome: dict[str, dict[str, Any]] = {"versions": {}, "failures": {}, "seconds": {}}
    for package in dict.fromkeys(name.split()[0] for name in METHODS):
        try:
            outcome["versions"][package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            outcome["failures"][package] = "not installed"
    arrays = dict(np.load(votes))
    tables = {}
    for name in (key.removesuffix("/votes") for key in arrays if key.endswith("/votes")):
        for method, run in METHODS.items():
            if method.split()[0] in outcome["failures"]:
                continue
            if (name, method) in SLOW:
                outcome["failures"][f"{name}, {method}"] = SLOW[name, method]
                continue
            started = time.process_time()
            for seed in range(seeds if method in RANDOM else 1):
                try:
                    tables[f"{name}/{method}/{seed}"] = run(arrays[f"{name}/votes"], int(arrays[f"{name}/n_fit"]), seed)
                except Exception as error:  # whatever a package raises is its result
                    outcome["failures"][f"{name}, {method}"] = f"{type(error).__name__}: {error}"[:300]
                    break
            outcome["seconds"][f"{name}/{method}"] = round(time.process_time() - started, 1)
            print(f"{name}, {method}: {outcome['seconds'][f'{name}/{method}']} s", file=sys.stderr, flush=True)
    np.savez_compressed(posteriors, **tables)
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
