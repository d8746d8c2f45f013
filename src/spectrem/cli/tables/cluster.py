"""`spectrem cluster`."""

from __future__ import annotations

import re
import time
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spectrem.cli.declare import Given, Settings, argument, option, takes
from spectrem.cli.ending import say
from spectrem.cli.files import command_files
from spectrem.cli.homes import Dask, Home
from spectrem.cli.rules import Rule, check_rules, needs
from spectrem.cli.schedules import Annealing
from spectrem.cli.tables.options import ConstraintFile, ConstraintTexts, Quiet, Report, TableOutput
from spectrem.estimators.mixture.parameters import GaussianMixtureParameters
from spectrem.exceptions import InvalidInputError, spelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spectrem.data import TableFile
    from spectrem.estimators import GaussianMixture

_COLUMNS, _CONSTRAINTS, _MORE = "Columns", "Constraints", "More results"
_CONSTRAINING = ("--size", "--must-link", "--cannot-link", "--constraints", "--constraint")
_RULES = (
    Rule(
        ("--infeasible skip",),
        _CONSTRAINING,
        "--infeasible skip changes nothing without --constraints; add that or drop this",
    ),
    needs(
        "--assign feasible",
        *_CONSTRAINING,
        message="--assign feasible needs constraints; give --size, --must-link, --cannot-link or --constraints",
    ),
    *(
        Rule(
            ("--dask", constraining),
            (),
            "{--dask}: constraints hold rows together, which then stay here; drop it or them",
        )
        for constraining in _CONSTRAINING
    ),
)
_CLUSTER = "cluster"
_ALIKE = 1e-2
_ADVICE = {
    "infeasible": "--infeasible",
    "n_components": "--n-components",
    "singular covariance": "bring the columns to one scale by --standardize, give --covariance-type diag or lower "
    "--n-components",
}
_MEANINGS = {"row": "the number of the row", "label": "the cluster"}


@dataclass(frozen=True)
class ClusterOptions:
    """The argument and options of `spectrem cluster` besides the parameters of `GaussianMixture`.

    Parameters
    ----------
    data
        A table whose first line names its columns: .csv, .tsv (either also .gz) or .parquet; - is standard input,
        CSV.
    features
        The columns to cluster by.
    id
        Names the rows, each differently; links then use these names.
    weights
        How many rows each row counts for.
    known
        Clusters that are known, as numbers from 0; empty (or -1) where unknown.
    standardize
        Bring every feature to mean 0 and standard deviation 1 first.
    size
        Rows that every cluster has at least and at most, or per cent of all rows; either may be left out: 40:60,
        50:, :200, 20%:.
    must_link
        A table of two columns: pairs of rows, by number from 0 or by --id, that belong together.
    cannot_link
        The same of rows that belong apart.
    probabilities
        Add a column with the probability of each cluster: cluster_0, cluster_1, ...
    plot
        Draw the clusters there, as .png, .svg or .pdf: by two features, or by the first two principal axes of more;
        needs matplotlib (pip install 'spectrem[plot]').
    """

    data: str = argument("DATA")
    output: TableOutput = "-"
    features: str | None = option(
        None,
        metavar="A,B,C",
        show_default="all columns of numbers that no other option and no constraint names",
        group=_COLUMNS,
    )
    id: str | None = option(None, metavar="COLUMN", show_default="rows are numbered from 0", group=_COLUMNS)
    weights: str | None = option(None, metavar="COLUMN", show_default="1", group=_COLUMNS)
    known: str | None = option(None, metavar="COLUMN", group=_COLUMNS)
    standardize: bool = option(False, group=_COLUMNS)
    size: str | None = option(None, metavar="MIN:MAX", group=_CONSTRAINTS)
    must_link: str | None = option(None, metavar="FILE", group=_CONSTRAINTS)
    cannot_link: str | None = option(None, metavar="FILE", group=_CONSTRAINTS)
    constraints: ConstraintFile = None
    constraint: ConstraintTexts = None
    probabilities: bool = option(False, group=_MORE)
    plot: str | None = option(None, metavar="FILE", group=_MORE)
    report: Report = None
    quiet: Quiet = False
    dask: Dask = None


@takes(GaussianMixtureParameters, defaults={"n_components": ..., "random_state": 0})
def cluster(settings: Settings, annealing: Annealing, options: ClusterOptions, given: Given) -> None:
    """Find clusters in a table of numbers, by a mixture of Gaussians, under constraints if wanted.

    Example: **spectrem cluster data.csv -k 3 --size 40:60 -o out.csv**

    Writes DATA with a column *cluster*, numbered from 0. Columns of text stay as they
    are; a column that only numbers the rows is refused until --id or --features says
    what it is.
    """
    annealing.check(settings.get("gamma", 1.0))
    check_rules(_RULES, given)
    inputs = {"DATA": options.data, "--must-link": options.must_link, "--cannot-link": options.cannot_link}
    inputs |= {"--constraints": options.constraints}
    outputs = {"--output": options.output, "--plot": options.plot, "--report": options.report}
    home = Home(dask=options.dask)
    with command_files(inputs, outputs, home.folders(settings)), home.opened(annealing.schedule(settings)) as placed:
        ClusterJob(options, placed, annealing.anneal).run()


@dataclass(frozen=True)
class ClusterJob:
    """One run from reading to the written table.

    Attributes
    ----------
    options : ClusterOptions
    settings : mapping of name -> value
        Parameters of `GaussianMixture`.
    anneal : float or None
    """

    options: ClusterOptions
    settings: Settings
    anneal: float | None
    started: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Read, cluster, write."""
        from spectrem.cli.tables.cluster_input import feature_matrix, feature_names, read_size
        from spectrem.cli.tables.cluster_plot import draw_clusters
        from spectrem.cli.tables.options import TableConstraints, own_names, rows_named, tell_notes, weight_column
        from spectrem.constraints import check_values
        from spectrem.data import open_output, open_table, read_table
        from spectrem.estimators import GaussianMixture
        from spectrem.exceptions import ConvergenceWarning
        from spectrem.learning import FitStatus

        bounds = [] if self.options.size is None else [read_size(self.options.size)]
        with ExitStack() as stack:
            # opened first: who reads a pipe sees its end if the work fails
            write = stack.enter_context(open_table(self.options.output))
            report = self.options.report
            page = None if report is None else stack.enter_context(open_output(report))
            file = read_table(self.options.data)
            if len(file) < self.settings["n_components"]:
                raise InvalidInputError(
                    f"--n-components {self.settings['n_components']}: {file.name} has only {len(file)} rows; lower it"
                )
            added = [_CLUSTER]
            if self.options.probabilities:
                added += [f"{_CLUSTER}_{k}" for k in range(self.settings["n_components"])]
            for name in added:
                if name in file.schema:
                    raise InvalidInputError(f"{file.name} has a column {name!r}, which is to be added; rename it")
            named = {"--id": self.options.id, "--weights": self.options.weights, "--known": self.options.known}
            for option, column in named.items():
                if column is not None:
                    file.check([column], option)
            constrained = TableConstraints(self.options.constraints, self.options.constraint or (), file, _MEANINGS)
            check_values(constrained.constraints, "label", range(self.settings["n_components"]))
            columns = constrained.columns()
            if not self.options.quiet:
                tell_notes(own_names(file, _MEANINGS) if constrained.constraints else [])
                tell_notes(constrained.missing(columns))
            taken = [*constrained.used, *(name for name in named.values() if name is not None)]
            names = feature_names(file, self.options.features, taken)
            weights = None if self.options.weights is None else weight_column(file, self.options.weights)
            x = feature_matrix(file, names, weights, self.options.standardize, by_rule=self.options.features is None)
            if len(file) < 2:
                raise InvalidInputError(f"{file.name} has one row only; clusters need two or more")
            if self.options.plot is not None and x.shape[1] < 2:
                raise InvalidInputError(f"--plot needs two features or more, got {names[0]!r} alone; leave it out")
            constraints = [*bounds, *self._links(file), *constrained.constraints]
            y = None if self.options.known is None else self._known(file)
            mixture = GaussianMixture(constraints=constraints, partial_labels=y is not None, **self.settings)
            with warnings.catch_warnings():
                # said below, in the words of the options
                warnings.filterwarnings("ignore", re.escape(FitStatus.MAX_ITERATIONS.value), ConvergenceWarning)
                with spelled(_ADVICE), rows_named(file):
                    mixture.fit(x, y, weights, columns)
            added_columns: dict[str, NDArray] = {_CLUSTER: mixture.labels_}
            if self.options.probabilities:
                proba = self._probabilities(mixture, x, y)
                added_columns |= {f"{_CLUSTER}_{k}": proba[:, k] for k in range(proba.shape[1])}
            write(file.extended(added_columns))
            if self.options.plot is not None:
                draw_clusters(mixture, x, names, self.options.plot)
            if page is not None:
                page.write(mixture.report_.to_html())
        if not self.options.quiet:
            self._report(mixture, file, names, constrained.used)

    def _links(self, file: TableFile) -> list[Any]:
        from spectrem.cli.tables.cluster_input import linked_rows, row_names
        from spectrem.constraints import cannot_link, must_link

        ids = None if self.options.id is None else row_names(file, self.options.id)
        made = []
        if self.options.must_link is not None:
            made.append(must_link(linked_rows(self.options.must_link, "--must-link", file, ids)))
        if self.options.cannot_link is not None:
            made.append(cannot_link(linked_rows(self.options.cannot_link, "--cannot-link", file, ids)))
        return made

    def _known(self, file: TableFile) -> NDArray[np.int64]:
        assert self.options.known is not None
        labels = file.labels(self.options.known, "--known")
        if labels.max(initial=-1) >= self.settings["n_components"]:
            row = int(labels.argmax())
            raise InvalidInputError(
                f"{file.name}, {file.place(row)}, column {self.options.known!r}: with --n-components "
                f"{self.settings['n_components']} known clusters go from 0 to {self.settings['n_components'] - 1}, "
                f"found {labels[row]}; correct it or raise --n-components"
            )
        return labels

    def _probabilities(
        self, mixture: GaussianMixture, x: NDArray[np.float64], y: NDArray[np.int64] | None
    ) -> NDArray[np.float64]:
        """Posteriors of the rows under the constraints and the known clusters."""
        import numpy as np

        if mixture.constraints:
            return mixture.posteriors_
        proba = mixture.predict_proba(x)
        if y is not None:
            proba[y >= 0] = np.eye(proba.shape[1])[y[y >= 0]]
        return proba

    def _report(self, mixture: GaussianMixture, file: TableFile, names: list[str], used: list[str]) -> None:
        import numpy as np

        from spectrem.cli.tables.options import list_names

        seconds = time.perf_counter() - self.started
        others = file.others(
            {*names, *used, self.options.id or "", self.options.weights or "", self.options.known or ""}
        )
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
            worst = max((one.worst_after for one in mixture.report_.constraints), default=0.0)
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
    import numpy as np

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
