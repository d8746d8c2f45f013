"""The command `spectrem cluster`."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from spectrem.cli.declare import Given, Settings, option, takes
from spectrem.cli.ending import command_line, say
from spectrem.cli.files import opened
from spectrem.cli.options import PlotOption
from spectrem.cli.rules import Rule, check_rules, needs
from spectrem.cli.tables.options import (
    COLUMNS,
    AddingOption,
    FeatureOptions,
    IdOption,
    TableOptions,
    WeightOption,
    check_named,
    refuse_numbering,
    row_names,
    split_names,
)
from spectrem.cli.training import Annealing, Home, learning, warn_gaining
from spectrem.estimators.mixture.parameters import GaussianMixtureParameters
from spectrem.estimators.shared_parameters import CONSTRAINTS
from spectrem.exceptions import InvalidInputError, Unconverged, counted, quoted, spelled

if TYPE_CHECKING:
    import numpy as np
    import polars
    from numpy.typing import NDArray

    from spectrem.constraints import Constraint
    from spectrem.data import TableFile
    from spectrem.estimators import GaussianMixture


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
    "singular covariance": "bring the columns to one scale by --standardize, give --covariance-type diag or lower "
    "--n-components",
}
_EVERYDAY = (
    *("data", "features", "id", "weights", "known", "standardize", "output", "probabilities", "plot", "report"),
    *("quiet", "n_components", "covariance_type", "assign", "n_init", "random_state", "size", "must_link"),
    *("cannot_link", "constraints", "constraint", "gamma", "infeasible"),
)
"""The options that ``--help`` shows."""
_MEANINGS = {"row": "the number of the row", "label": "the cluster"}


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(PlotOption, AddingOption, WeightOption, IdOption, FeatureOptions):
    """The argument and options of `spectrem cluster` besides the parameters of `GaussianMixture`.

    Parameters
    ----------
    features
        Empty cells are missing values.
    id
        Links then use these names.
    known
        Clusters are numbers from 0; -1 is unknown, too.
    standardize
        Bring every feature to mean 0 and standard deviation 1 first.
    size
        Rows that every cluster has at least and at most, or per cent of all rows; either may be left out: 40:60,
        50:, :200, 20%:.
    must_link
        A table of two columns: pairs of rows, by number from 0 or by --id, that belong together.
    cannot_link
        The same of rows that belong apart.
    add_probabilities
        They are called cluster_0, cluster_1, and so on.
    plot
        It shows the clusters by two features, or by the first two principal axes of more.
    """

    standardize: bool = option(False, group=COLUMNS)
    size: str | None = option(None, metavar="MIN:MAX", group=CONSTRAINTS)
    must_link: str | None = option(None, metavar="FILE", group=CONSTRAINTS, reads=True)
    cannot_link: str | None = option(None, metavar="FILE", group=CONSTRAINTS, reads=True)


@takes(GaussianMixtureParameters, defaults={"n_components": ..., "random_state": 0}, leave=["spill"], shown=_EVERYDAY)
def cluster(
    settings: Settings, annealing: Annealing, options: ClusterOptions, home: Home, shared: TableOptions, given: Given
) -> None:
    """Find clusters in a table of numbers, by a mixture of Gaussians, under constraints if wanted.

    Example: **spectrem cluster data.csv -k 3 --size 40:60 -o out.csv**

    Writes DATA with a column *cluster*, numbered from 0. Columns of text stay as they
    are; a column that only numbers the rows is refused until --id or --features says
    what it is.
    """
    check_rules(_RULES, given)
    with learning([shared, options], settings, annealing, home) as placed:
        _cluster(options, shared, placed, annealing.anneal)


def _cluster(options: ClusterOptions, shared: TableOptions, settings: Settings, anneal: float | None) -> None:
    """Read, cluster, write."""
    import numpy as np

    from spectrem.cli.tables.options import list_names, read_table_constraints, rows_named, weight_column
    from spectrem.constraints import check_values
    from spectrem.data import open_table, read_table
    from spectrem.estimators import GaussianMixture
    from spectrem.learning import FitStatus

    started, n_components = time.perf_counter(), settings["n_components"]
    bounds = [] if options.size is None else [read_size(options.size)]
    with open_table(shared.output) as write, opened(shared.report) as (page,):
        file = read_table(options.data)
        if len(file) < n_components:
            raise InvalidInputError(f"--n-components {n_components}: {file.name} has only {len(file)} rows; lower it")
        of_clusters = options.added(file, _CLUSTER, range(n_components))
        taken = check_named(file, {"--id": options.id, "--weights": options.weights, "--known": options.known})
        constraints, columns = read_table_constraints(shared, file, _MEANINGS)
        check_values(constraints, "label", range(n_components))
        taken += columns
        if options.features is not None:
            names = split_names(file, options.features, "--features")
        elif not (names := file.numeric(taken, "--features")):
            raise InvalidInputError(
                f"{file.name}: no column holds numbers, besides those that options name; name features by --features"
            )
        weights = None if options.weights is None else weight_column(file, options.weights)
        x = feature_matrix(file, names, weights, options.standardize, by_rule=options.features is None)
        if len(file) < 2:
            raise InvalidInputError(f"{file.name} has one row only; clusters need two or more")
        if options.plot is not None and x.shape[1] < 2:
            raise InvalidInputError(f"--plot needs two features or more, got {names[0]!r} alone; leave it out")
        constraints = [*bounds, *_links(options, file), *constraints]
        y = None if options.known is None else _known(file, options.known, n_components)
        mixture = GaussianMixture(constraints=constraints, partial_labels=y is not None, **settings)
        with warnings.catch_warnings(), spelled(_ADVICE), rows_named(file):
            warnings.filterwarnings("ignore", re.escape(FitStatus.MAX_ITERATIONS.value), Unconverged)  # said below
            mixture.fit(x, y, weights, columns)
        added = {_CLUSTER: mixture.labels_}
        if options.add_probabilities:
            added |= dict(zip(of_clusters, _probabilities(mixture, x, y).T, strict=True))
        write(file.extended(added))
        missing = int(np.isnan(x).sum())
        if options.plot is not None:
            draw_clusters(mixture, mixture.impute(x) if missing else x, names, options.plot)
        if page is not None:
            report: Any = mixture.report_
            components = replace(report.sections[0], features=names)
            page.write(replace(report, sections=(components,)).to_html(command_line()))
    if not shared.quiet:
        seconds = time.perf_counter() - started
        others = file.others({*names, *taken})
        say(
            f"found {n_components} clusters in {len(file)} rows by {list_names(names)} in {seconds:.1f} s: "
            f"{counted(mixture.n_iter_, 'iteration')}, objective {mixture.lower_bound_:.5g} nats per row"
            + (f"; {counted(missing, 'cell')} of {x.size} missing" if missing else "")
            + (f"; not used: {list_names(others)}" if others else ""),
            *_outcome(mixture, anneal),
        )
        warn_gaining(mixture)


def _links(options: ClusterOptions, file: TableFile) -> list[Any]:
    """The constraints of --must-link and --cannot-link."""
    from spectrem.constraints import cannot_link, must_link

    ids = None if options.id is None else row_names(file, options.id)
    links = (options.must_link, "--must-link", must_link), (options.cannot_link, "--cannot-link", cannot_link)
    return [link(linked_rows(path, name, file, ids)) for path, name, link in links if path is not None]


def _known(file: TableFile, column: str, n_components: int) -> NDArray[np.int64]:
    labels = file.labels(column, "--known")
    if labels.max(initial=-1) >= n_components:
        row = int(labels.argmax())
        raise InvalidInputError(
            f"{file.name}, {file.place(row)}, column {column!r}: with --n-components {n_components} known clusters go "
            f"from 0 to {n_components - 1}, found {labels[row]}; correct it or raise --n-components"
        )
    return labels


def _probabilities(
    mixture: GaussianMixture, x: NDArray[np.float64], y: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Posteriors of the rows under the constraints and the known clusters."""
    import numpy as np

    if mixture.constraints:
        return mixture.posteriors_
    proba = mixture.predict_proba(x)
    if y is not None:
        proba[y >= 0] = np.eye(proba.shape[1])[y[y >= 0]]
    return proba


def _outcome(mixture: GaussianMixture, anneal: float | None) -> Iterator[str]:
    """Lines about the sizes of clusters, the constraints, and clusters that are the same."""
    import numpy as np

    sizes = np.bincount(mixture.labels_, minlength=mixture.n_components)
    yield "sizes: " + ", ".join(f"{k}: {size}" for k, size in enumerate(sizes.tolist()))
    if mixture.constraints:
        exact = mixture.assign == "feasible"
        more = "the clusters meet them exactly" if exact else "the clusters themselves may not, see --assign"
        worst = max((one.worst_after for one in mixture.report_.constraints), default=0.0)
        yield f"worst violation of the constraints, in expectation: {worst:.2g}; {more}"
    alike = _alike(mixture)
    if alike is not None:
        remedy = "try --n-init 10" if anneal is None else f"raise --anneal above {anneal:g}"
        yield (f"spectrem: warning: clusters {alike[0]} and {alike[1]} are the same; lower --n-components or {remedy}")


def _alike(mixture: GaussianMixture) -> tuple[int, int] | None:
    """Two clusters with the same mean and covariance, to a hundredth of the spread."""
    import numpy as np

    n, means, covariances = mixture.n_components, mixture.means_, mixture.covariances_
    if mixture.covariance_type == "tied":
        covariances = np.broadcast_to(covariances, (n, *covariances.shape))
    covariances = covariances.reshape(n, -1)
    variances = np.abs(covariances).max(axis=1)
    for first in range(n - 1):
        near = np.abs(means[first + 1 :] - means[first]).max(axis=1) <= _ALIKE * np.sqrt(variances[first])
        near &= np.abs(covariances[first + 1 :] - covariances[first]).max(axis=1) <= _ALIKE * variances[first]
        if near.any():
            return first, first + 1 + int(near.argmax())
    return None


def draw_clusters(mixture: Any, x: NDArray[np.float64], names: list[str], path: str) -> None:
    """Rows, clusters and links in the plane of two features, or of the first two principal axes of more."""
    from spectrem.plotting import plain_label, plot_clusters, save_figure

    titles, points, flat = names, x, mixture
    if x.shape[1] > 2:
        titles = ["first principal axis", "second principal axis"]
        points, flat = project_plane(mixture, x)
    figure = plot_clusters(points, mixture.labels_, flat, links=mixture.constraints)
    figure.axes[0].set(xlabel=plain_label(titles[0], 48), ylabel=plain_label(titles[1], 48))
    save_figure(figure, path)


def project_plane(mixture: Any, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], Any]:
    """Rows and Gaussians in the plane of the first two principal axes; these point to where most features grow."""
    import numpy as np

    from spectrem.reports.components import covariance_matrices

    centre = x.mean(axis=0)
    axes = np.linalg.svd(x - centre, full_matrices=False)[2][:2].T
    axes = axes * np.where(axes.sum(axis=0) < 0, -1.0, 1.0)
    flat = SimpleNamespace(
        covariance_type="full",
        means_=(mixture.means_ - centre) @ axes,
        covariances_=axes.T @ covariance_matrices(mixture.covariance_type, mixture.means_, mixture.covariances_) @ axes,
    )
    return (x - centre) @ axes, flat


_SIZE = re.compile(r"\s*(?P<low>[0-9.eE+]*%?)\s*:\s*(?P<high>[0-9.eE+]*%?)\s*")


def feature_matrix(
    file: TableFile, names: list[str], weights: NDArray[np.float64] | None, standardize: bool, by_rule: bool
) -> NDArray[np.float64]:
    """Features as an array of shape (n_rows, n_features).

    Raises
    ------
    InvalidInputError
        Naming row and column of a cell that is no finite number, a column that is empty or cannot be standardised, or
        one that only numbers the rows where no option says (``by_rule``) that it is a feature.
    """

    import numpy as np

    from spectrem.estimators.mixture.input import column_means

    def leave_out(name: str) -> str:
        others = ",".join(other for other in names if other != name)
        return f", or leave the column out by --features {others}" if others else ""

    def correct(name: str) -> str:
        return f"correct it, or drop the row{leave_out(name)}"

    x = file.numbers(names, correct, missing=True)
    empty = np.isnan(x if weights is None else x[weights > 0]).all(axis=0)
    if empty.any():
        name = names[int(empty.argmax())]
        raise InvalidInputError(
            f"{file.name}, column {name!r}: is empty in every row that counts; fill it in{leave_out(name)}"
        )
    advice = "give --id {} if it only names them, or name the columns to cluster by: --features"
    refuse_numbering(file, names if by_rule else (), x, advice)
    if np.isinf(x).any():
        row, k = np.argwhere(np.isinf(x))[0].tolist()
        raise file.refusal(row, names[k], f"{x[row, k]} is not finite; {correct(names[k])}")
    if not standardize:
        return x
    with np.errstate(over="ignore", invalid="ignore"):  # said below
        mean = column_means(x, weights)
        deviation = np.sqrt(column_means((x - mean) ** 2, weights))
    same = np.isfinite(deviation) & ~(deviation > 1e-12 * np.maximum(1.0, np.abs(mean)))
    if same.any():
        raise InvalidInputError(
            f"{file.name}, column {names[int(same.argmax())]!r}: is the same in every row, which --standardize cannot "
            "bring to standard deviation 1; leave it out by --features"
        )
    if not np.isfinite(deviation).all():
        name = names[int((~np.isfinite(deviation)).argmax())]
        raise InvalidInputError(
            f"{file.name}, column {name!r}: the squares of its numbers overflow, so it has no standard deviation; "
            "divide it by a number"
        )
    return (x - mean) / deviation


def read_size(text: str) -> Constraint:
    """Bounds on the sizes of all clusters, from ``MIN:MAX``, in rows or in per cent of them.

    Raises
    ------
    InvalidInputError
        If it is not written so, or bounds nothing.

    Examples
    --------
    >>> read_size("10:20"), read_size(":20")  # doctest: +NORMALIZE_WHITESPACE
    (E[...].between(10, 20).per("label").named("cluster size"),
     (E[...] <= 20).per("label").named("cluster size"))
    """
    from spectrem.constraints import cluster_size

    match = _SIZE.fullmatch(text)
    if match is not None and "%" in text:
        try:
            return cluster_size(match["low"] or 0, match["high"] or None)
        except InvalidInputError as error:
            raise InvalidInputError(f"--size {text!r}: {error}") from None
    try:
        low = float(match["low"]) if match and match["low"] else 0.0
        high = float(match["high"]) if match and match["high"] else None
    except ValueError:
        match = None
    if match is None or math.inf in (low, high):
        raise InvalidInputError(f"--size {text!r} is not understood; write MIN:MAX, MIN: or :MAX, as in 40:60")
    if (low == 0 and high is None) or (high is not None and high < low):
        raise InvalidInputError(f"--size {text!r}: needs 0 <= MIN <= MAX and a bound; write 40:60, 40: or :60")
    return cluster_size(low, high)


def linked_rows(path: str, option: str, file: TableFile, ids: polars.Series | None) -> NDArray[np.int64]:
    """Pairs of rows of a table with two columns, shape (n_pairs, 2); rows are numbered, or named by ``ids``.

    Raises
    ------
    InvalidInputError
        If the table has not two columns with names, or names a row that does not exist, or a row twice in one pair.
    """
    import numpy as np
    import polars

    from spectrem.data import read_table

    table = read_table(path)
    if len(table.names) != 2:
        raise InvalidInputError(
            f"{option} {table.name}: must have two columns, found {len(table.names)}: {', '.join(table.names)}"
        )
    if all(name.isdigit() for name in table.names):
        raise InvalidInputError(
            f"{option} {table.name}, line 1: must name the two columns, found numbers; write a line such as "
            "first,second above them"
        )
    pairs = np.empty((len(table), 2), np.int64)
    for side, name in enumerate(table.names):
        cells = table.values(name)
        if ids is not None:
            rows = cells.cast(polars.String).replace_strict(ids, range(len(ids)), default=-1, return_dtype=polars.Int64)
        else:
            rows = cells if cells.dtype.is_integer() else polars.repeat(-1, len(cells), dtype=polars.Int64, eager=True)
        wrong = ~rows.is_between(0, len(file) - 1)
        if wrong.any():
            row = int(wrong.to_numpy().argmax())
            known = f"rows are numbered from 0 to {len(file) - 1}" if ids is None else "no row has it in --id"
            hint = "; give --id COLUMN if rows have names" if ids is None else "; correct it"
            raise InvalidInputError(
                f"{option} {table.name}, {table.place(row)}: there is no row {quoted(cells[row])} in {file.name}: "
                f"{known}{hint}"
            )
        pairs[:, side] = rows.to_numpy()
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(same):
        raise InvalidInputError(
            f"{option} {table.name}, {table.place(int(same[0]))}: links a row to itself; drop the line"
        )
    return pairs
