"""What `spectrem cluster` does once its options are understood."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrem.cli.ending import say
from spectrem.cli.tables.cluster import ClusterOptions
from spectrem.cli.tables.cluster_input import feature_matrix, feature_names, linked_rows, read_size, row_names
from spectrem.cli.tables.cluster_plot import draw_clusters
from spectrem.cli.tables.options import (
    TableConstraints,
    list_names,
    own_names,
    rows_named,
    tell_notes,
    weight_column,
)
from spectrem.constraints import cannot_link, check_values, must_link
from spectrem.data import TableFile, open_output, open_table, read_table
from spectrem.estimators import GaussianMixture
from spectrem.exceptions import ConvergenceWarning, InvalidInputError, spelled
from spectrem.learning import FitStatus

CLUSTER = "cluster"
_ALIKE = 1e-2
_OPTIONS = {
    "infeasible": "--infeasible",
    "n_components": "--n-components",
    "singular covariance": "bring the columns to one scale by --standardize, give --covariance-type diag or lower "
    "--n-components",
}
OWN = {"row": "the number of the row", "label": "the cluster"}


@dataclass(frozen=True)
class ClusterJob:
    """One run from reading to the written table; see the options of `spectrem cluster`.

    Attributes
    ----------
    own : ClusterOptions
        What was said besides the parameters of the mixture.
    settings : mapping of name -> value
        Parameters of `GaussianMixture`.
    """

    data: str
    own: ClusterOptions
    settings: Mapping[str, Any]
    anneal: float | None
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Read, cluster, write."""
        bounds = [] if self.own.size is None else [read_size(self.own.size)]
        with ExitStack() as stack:
            # opened first: who reads a pipe sees its end if the work fails
            write = stack.enter_context(open_table(self.own.output))
            page = None if self.own.report is None else stack.enter_context(open_output(self.own.report))
            file = read_table(self.data)
            if len(file) < self.settings["n_components"]:
                raise InvalidInputError(
                    f"--n-components {self.settings['n_components']}: {file.name} has only {len(file)} rows; lower it"
                )
            added = [CLUSTER]
            if self.own.probabilities:
                added += [f"{CLUSTER}_{k}" for k in range(self.settings["n_components"])]
            for name in added:
                if name in file.schema:
                    raise InvalidInputError(f"{file.name} has a column {name!r}, which is to be added; rename it")
            named = {"--id": self.own.id, "--weights": self.own.weights, "--known": self.own.known}
            for option, column in named.items():
                if column is not None:
                    file.check([column], option)
            given = TableConstraints(self.own.constraints, self.own.constraint or (), file, OWN)
            check_values(given.constraints, "label", range(self.settings["n_components"]))
            columns = given.columns()
            if not self.own.quiet:
                tell_notes(own_names(file, OWN) if given.constraints else [])
                tell_notes(given.missing(columns))
            taken = [*given.used, *(name for name in named.values() if name is not None)]
            names = feature_names(file, self.own.features, taken)
            weights = None if self.own.weights is None else weight_column(file, self.own.weights)
            x = feature_matrix(file, names, weights, self.own.standardize, by_rule=self.own.features is None)
            if len(file) < 2:
                raise InvalidInputError(f"{file.name} has one row only; clusters need two or more")
            if self.own.plot is not None and x.shape[1] < 2:
                raise InvalidInputError(f"--plot needs two features or more, got {names[0]!r} alone; leave it out")
            constraints = [*bounds, *self._links(file), *given.constraints]
            y = None if self.own.known is None else self._known(file)
            mixture = GaussianMixture(constraints=constraints, partial_labels=y is not None, **self.settings)
            with warnings.catch_warnings():
                # said below, in the words of the options
                warnings.filterwarnings("ignore", re.escape(FitStatus.MAX_ITERATIONS.value), ConvergenceWarning)
                with spelled(_OPTIONS), rows_named(file):
                    mixture.fit(x, y, weights, columns)
            found: dict[str, NDArray] = {CLUSTER: mixture.labels_}
            if self.own.probabilities:
                proba = self._probabilities(mixture, x, y)
                found |= {f"{CLUSTER}_{k}": proba[:, k] for k in range(proba.shape[1])}
            write(file.extended(found))
            if self.own.plot is not None:
                draw_clusters(mixture, x, names, self.own.plot)
            if page is not None:
                page.write(mixture.report_.to_html())
        if not self.own.quiet:
            self._report(mixture, file, names, given.used)

    def _links(self, file: TableFile) -> list[Any]:
        ids = None if self.own.id is None else row_names(file, self.own.id)
        made = []
        if self.own.must_link is not None:
            made.append(must_link(linked_rows(self.own.must_link, "--must-link", file, ids)))
        if self.own.cannot_link is not None:
            made.append(cannot_link(linked_rows(self.own.cannot_link, "--cannot-link", file, ids)))
        return made

    def _known(self, file: TableFile) -> NDArray[np.int64]:
        assert self.own.known is not None
        labels = file.labels(self.own.known, "--known")
        if labels.max(initial=-1) >= self.settings["n_components"]:
            row = int(labels.argmax())
            raise InvalidInputError(
                f"{file.name}, {file.place(row)}, column {self.own.known!r}: with --n-components "
                f"{self.settings['n_components']} known clusters go from 0 to {self.settings['n_components'] - 1}, "
                f"found {labels[row]}; correct it or raise --n-components"
            )
        return labels

    def _probabilities(
        self, mixture: GaussianMixture, x: NDArray[np.float64], y: NDArray[np.int64] | None
    ) -> NDArray[np.float64]:
        """Posteriors of the rows under the constraints and the known clusters."""
        if mixture.constraints:
            return mixture.posteriors_
        proba = mixture.predict_proba(x)
        if y is not None:
            proba[y >= 0] = np.eye(proba.shape[1])[y[y >= 0]]
        return proba

    def _report(self, mixture: GaussianMixture, file: TableFile, names: list[str], used: list[str]) -> None:
        seconds = time.perf_counter() - self.started
        others = file.others({*names, *used, self.own.id or "", self.own.weights or "", self.own.known or ""})
        sizes = np.bincount(mixture.labels_, minlength=mixture.n_components)
        said = [
            f"found {mixture.n_components} clusters in {len(file)} rows by {list_names(names)} in {seconds:.1f} s: "
            f"{mixture.n_iter_} iterations, objective {mixture.lower_bound_:.5g} nats per row"
            + (f"; not used: {list_names(others)}" if others else ""),
            "sizes: " + ", ".join(f"{k}: {size}" for k, size in enumerate(sizes.tolist())),
        ]
        if mixture.constraints:
            exact = mixture.assign == "feasible"
            more = "the clusters meet them exactly" if exact else "the clusters themselves may not, see --assign"
            worst = max((own.worst_after for own in mixture.report_.constraints), default=0.0)
            said.append(f"worst violation of the constraints, in expectation: {worst:.2g}; {more}")
        alike = _alike(mixture)
        if alike is not None:
            said.append(
                f"spectrem: warning: clusters {alike[0]} and {alike[1]} are the same; lower --n-components or "
                + ("try --n-init 10" if self.anneal is None else f"raise --anneal above {self.anneal:g}")
            )
        if mixture.history_ and not mixture.converged_:
            said.append(
                f"spectrem: warning: still gaining after {mixture.max_iter} iterations; raise --max-iter or --tol"
            )
        say(*said)


def _alike(mixture: GaussianMixture) -> tuple[int, int] | None:
    """Two clusters with the same mean and covariance, to a hundredth of the spread."""
    shared = mixture.covariance_type == "tied"
    of_each = np.zeros((mixture.n_components, 1)) if shared else mixture.covariances_
    of_each = of_each.reshape(mixture.n_components, -1)
    widths = np.sqrt(np.abs(mixture.covariances_).max()) if shared else np.sqrt(np.abs(of_each).max(axis=1))
    widths = np.broadcast_to(widths, mixture.n_components)
    for first in range(mixture.n_components - 1):
        near = np.abs(mixture.means_[first + 1 :] - mixture.means_[first]).max(axis=1) <= _ALIKE * widths[first]
        near &= np.abs(of_each[first + 1 :] - of_each[first]).max(axis=1) <= _ALIKE * widths[first] ** 2
        if near.any():
            return first, first + 1 + int(near.argmax())
    return None
