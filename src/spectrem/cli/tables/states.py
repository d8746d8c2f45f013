"""`spectrem states fit`, `predict`, `forecast` and `plot`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import typer

from spectrem.cli.declare import Command, Given, Settings, argument, files_of, option, takes
from spectrem.cli.ending import say
from spectrem.cli.files import command_files
from spectrem.cli.options import LearningOptions, LoadOption, OutputOption, PlotOption, QuietOption
from spectrem.cli.prediction import load_model
from spectrem.cli.rules import CONSTRAINED, Rule, check_rules
from spectrem.cli.tables.options import (
    AddingOption,
    FeatureOptions,
    TableOption,
    check_named,
    list_names,
    read_table_constraints,
    refuse_numbering,
    rows_named,
    split_names,
)
from spectrem.cli.training import Annealing, Home, TrainingRun, learning
from spectrem.estimators.series.parameters import HMMParameters
from spectrem.estimators.shared_parameters import MODEL
from spectrem.exceptions import InvalidInputError, counted, quoted

if TYPE_CHECKING:
    import polars

    from spectrem.data import TableFile

app = typer.Typer(
    help="Find hidden states of series in a table: learn a hidden Markov model, apply it, look ahead, draw.",
    no_args_is_help=True,
)
_STATE = "state"
_MEANINGS = {
    _STATE: "the state",
    "previous": "the state before",
    "change": "whether these differ",
    "sequence": "the number of the sequence",
    "time": "the number of the row in its sequence",
}
_CALENDAR = {"hour": "that of --time", "weekday": "that of --time, 0 on Mondays", "date": "that of --time, as text"}
_EVERYDAY = (
    *("data", "save", "features", "group", "time", "known", "n_components", "states", "emissions", "covariance_type"),
    *("constraint", "constraints", "report", "quiet", "gamma", "n_init", "max_iter", "random_state", "infeasible"),
    *("project_at_predict", "n_threads"),
)
"""The options that ``--help`` shows of `fit`."""
_UNUSED = Rule(("--covariance-type",), (), "{--covariance-type} changes nothing: no column is Gaussian")
_NUMBERING = "name the columns that states emit: --features"
_ADVICE = {"n_components": "--n-components", "covars_prior": "--covariance-type diag or other --features"}


@dataclass(frozen=True, kw_only=True)
class FittingOptions(FeatureOptions, LearningOptions):
    """The argument and options of `spectrem states fit` besides the parameters of `HMM`.

    Parameters
    ----------
    data
        Cells that are empty, NA or NaN are missing, and are summed out.
    features
        States emit their values.
    covariance_type
        The shape of the components: "full" is any ellipse, "tied" the same ellipse for all, "diag" an ellipse along
        the axes, "spherical" a ball.
    constraint
        "E[part('state') == 'busy'] <= '30%'": of all rows. state, previous (the state before), sequence and time (the
        number of the row in it) are names, with --time also hour, weekday (0 on Mondays) and date; other names are
        columns of the table, those of --group and --time among them. See docs/guide/constraints.md.
    """

    covariance_type: Literal["full", "tied", "diag", "spherical"] = option("full", group=MODEL)


@app.command(cls=Command)
@takes(HMMParameters, defaults={"random_state": 0}, shown=_EVERYDAY)
def fit(options: FittingOptions, settings: Settings, annealing: Annealing, home: Home, given: Given) -> None:
    """Learn the hidden states of series: what they emit, and how they follow each other.

    Example: **spectrem states fit office.csv --states busy,empty --time date --features CO2,Light --save model.npz
    --constraint "E[part('state') == 'busy'] <= '30%'"**
    """
    check_rules(CONSTRAINED, given)
    with learning([options], settings, annealing, home) as placed:
        import polars

        from spectrem.constraints.compilation.draft import used_columns
        from spectrem.data import read_table
        from spectrem.estimators import HMM

        run, file = TrainingRun(options), read_table(options.data)
        group, time = placed.get("group"), placed.get("time")
        taken = check_named(file, {"--group": group, "--time": time, "--known": options.known})
        calendar = {name: text for name, text in _CALENDAR.items() if name not in file.schema or name == time}
        constraints, columns = read_table_constraints(options, file, _MEANINGS | calendar)
        used = set().union(*map(used_columns, constraints))
        if time is None and (lacking := sorted(used & calendar.keys())):
            raise InvalidInputError(f"{lacking[0]} in constraints means {calendar[lacking[0]]}; give --time COLUMN")
        n_states = placed.get("n_components") or len(placed.get("states", "12"))
        if len(file) < n_states:
            raise InvalidInputError(
                f"{counted(n_states, 'state')}: {file.name} has only {counted(len(file), 'row')}; ask for fewer states"
            )
        families = placed.get("emissions", "gaussian")
        features = _features(file, options.features, {*columns, *taken}, families)
        named = [name for name in columns if name not in (group, time, *features)]
        placed["emissions"] = _emissions(families, features, options.covariance_type, given)
        hmm = HMM(constraints=constraints, columns=named, **placed)
        places = {name: file.values(name) for name in (group, time) if name is not None}
        X = polars.DataFrame({**features, **places, **{name: file.keys(name) for name in named}})
        y = None if options.known is None else file.keys(options.known)
        with rows_named(file):
            run.fit(hmm, lambda: hmm.fit(X, y), advice=_ADVICE)
    outcome = f": {counted(hmm.n_iter_, 'iteration')}, objective {hmm.objective_:.6g} nats"
    n = 1 if group is None else X[group].n_unique()
    learned = f"{len(hmm.states_)} states of {list_names([*features])}"
    run.report(hmm, learned, range(n), len(X), outcome, ("sequence", "row"))
    if not options.quiet:
        means, stays = hmm.emission_.means(hmm.params_.emission), hmm.transmat_.diagonal().tolist()
        for name, row, stay in zip(hmm.states_, means.tolist(), stays, strict=True):
            pairs = [pair for pair in zip(features, row, strict=True) if pair[0] not in hmm.categories_]
            lasts = f"; stays {1 / (1 - stay):.4g} rows" if hmm.durations is None and stay < 1 else ""
            say(f"  {name}: {list_names([f'{feature} {value:.4g}' for feature, value in pairs])}{lasts}")


def _features(file: TableFile, names: str | None, others: Collection[Any], families: Any) -> dict[str, polars.Series]:
    """The columns that states emit: those that are named, or else all of numbers besides some others."""
    import numpy as np

    by_column = families if isinstance(families, dict) else {}
    listed = file.names if names is None else split_names(file, names, "--features")
    file.check(by_column, "--emissions")
    texts = {name for name in listed if (by_column.get(name) if by_column else families) == "categorical"}
    wanted = by_column if names is None else listed
    cells = {
        name: _cells(file, name, name in texts, name in wanted)
        for name in listed
        if name in wanted or name not in others
    }
    features = {name: column for name, column in cells.items() if column is not None}
    numbers = {name: column.to_numpy() for name, column in features.items() if name not in texts}
    if not features:
        raise InvalidInputError(
            f"{file.name}: no column holds numbers, but for those of options; name some by --features"
        )
    if unnamed := [name for name in by_column if name not in features]:
        raise InvalidInputError(f"--emissions: {quoted(unnamed[0])} must be one of --features, {list_names(listed)}")
    if names is None and numbers:
        refuse_numbering(file, list(numbers), np.column_stack([*numbers.values()]), _NUMBERING)
    return features


def _cells(file: TableFile, name: str, is_text: bool, wanted: bool = True) -> polars.Series | None:
    """A column as numbers, or as it is if ``is_text``; None for one of something else, unless it is ``wanted``.

    Raises
    ------
    InvalidInputError
        Naming the first cell that is not a number, where half of the column is or it is wanted.
    """
    import polars

    cells = file.keys(name)
    if is_text or cells.dtype.is_numeric():
        return cells
    numbers = cells.cast(polars.Float64, strict=False)
    odd = numbers.is_null() & cells.is_not_null()
    if wanted or (cells.dtype == polars.String and 0 < 2 * odd.sum() <= cells.count()):
        if odd.any():
            row = int(odd.arg_max() or 0)
            advice = "correct it, leave the column out by --features, or let states emit categories by --emissions"
            raise file.refusal(row, name, f"{quoted(cells[row])} is not a number; {advice} {name}=categorical")
        return numbers
    return None


def _emissions(families: Any, features: Collection[str], covariance_type: Any, given: Given) -> Any:
    """Emissions of all columns; those that a mapping leaves out are Gaussian together."""
    from spectrem.models.emissions import Gaussian

    gaussian, by_column = Gaussian(covariance_type), families if isinstance(families, dict) else {}
    rest = tuple(name for name in features if name not in by_column) if by_column else ()
    if "gaussian" not in (families, *by_column.values()) and not rest:
        check_rules([_UNUSED], given)
        return families
    chosen = {name: gaussian if family == "gaussian" else family for name, family in by_column.items()}
    return chosen | ({rest: gaussian} if rest else {}) if by_column else gaussian


def _read(options: Any, settings: Settings, given: Given) -> tuple[Any, TableFile, polars.DataFrame]:
    """The model, the table, and its columns that the model reads; those of constraints may be missing if they can."""
    import polars

    from spectrem.data import read_table

    hmm, file = _load(options.load, settings, given), read_table(options.data)
    places = [name for name in (hmm.group, hmm.time) if name is not None]
    needed = list(hmm.columns) if hmm.project_at_predict and hmm.constraints else []
    file.check([*hmm.column_names_, *places, *needed], f"--load {options.load}")
    cells = {name: _cells(file, name, name in hmm.categories_) for name in hmm.column_names_}
    cells |= {name: file.values(name) for name in places}
    none = polars.Series([None] * len(file))
    return hmm, file, polars.DataFrame(cells | {n: file.keys(n) if n in file.schema else none for n in hmm.columns})


def _load(path: str, settings: Settings, given: Given) -> Any:
    from spectrem.estimators import HMM
    from spectrem.estimators.series.named import HiddenMarkovModel

    others = [one for one in HiddenMarkovModel.__subclasses__() if one is not HMM]
    return load_model(path, (HMM, *others), settings, given)


@dataclass(frozen=True, kw_only=True)
class PredictingOptions(AddingOption, TableOption, QuietOption, OutputOption, LoadOption):
    """The argument and options of `spectrem states predict` besides parameters of `HMM`.

    Parameters
    ----------
    data
        Cells that are empty, NA or NaN are missing, and are summed out.
    output
        The name says in which format: .csv, .tsv (either also .gz) or .parquet; standard output is CSV.
    add_probabilities
        They are called state_ and the name of the state.
    """


@app.command()
@takes(HMMParameters, only=["decode", "project_at_predict", "infeasible", "n_threads"])
def predict(options: PredictingOptions, settings: Settings, given: Given) -> None:
    """Find the states of series with a trained model.

    Example: **spectrem states predict office.csv --load model.npz -o states.csv**

    Writes DATA with a column *state*; rows keep their order.
    """
    with command_files(*files_of(options)):
        from spectrem.data import open_table

        with open_table(options.output) as write:
            hmm, file, X = _read(options, settings, given)
            of_states = options.added(file, _STATE, hmm.states_)
            with rows_named(file):
                states = hmm.predict(X)
                shares = hmm.predict_proba(X).T if of_states else []
            write(file.extended({_STATE: states, **dict(zip(of_states, shares, strict=True))}))
    if not options.quiet:
        counts = [f"{name}: {int((states == name).sum())}" for name in hmm.states_]
        say(f"states of {counted(len(X), 'row')}: {list_names(counts)}")


@dataclass(frozen=True, kw_only=True)
class ForecastingOptions(TableOption, QuietOption, OutputOption, LoadOption):
    """The argument and options of `spectrem states forecast`.

    Parameters
    ----------
    data
        Cells that are empty, NA or NaN are missing, and are summed out.
    output
        The name says in which format: .csv, .tsv (either also .gz) or .parquet; standard output is CSV.
    steps
        How many rows after the last one of every sequence to look ahead.
    """

    steps: int = option(1, min=1, metavar="N")


@app.command()
@takes()
def forecast(options: ForecastingOptions, given: Given) -> None:
    """Look ahead: probabilities of states, means and standard deviations of the rows to come.

    Example: **spectrem states forecast office.csv --load model.npz --steps 12 -o ahead.csv**

    A row for every step of every sequence. Constraints do not act on what is to come.
    """
    with command_files(*files_of(options)):
        import polars

        from spectrem.data import TableFile, open_table

        with open_table(options.output) as write:
            hmm, file, X = _read(options, {}, given)
            with rows_named(file):
                ahead = hmm.forecast(X, options.steps)
            parts = []
            groups = [None] if hmm.group is None else X[hmm.group].unique().sort().to_list()
            for group, one in zip(groups, ahead if isinstance(ahead, list) else [ahead], strict=True):
                columns: dict[str, Any] = {} if hmm.group is None else {hmm.group: [group] * options.steps}
                columns |= {"step": range(1, options.steps + 1)}
                columns |= {f"{_STATE}_{name}": one.states[:, k] for k, name in enumerate(hmm.states_)}
                for k, name in enumerate(hmm.column_names_):
                    if name not in hmm.categories_:
                        columns |= {f"{name}_mean": one.means[:, k], f"{name}_deviation": one.variances[:, k] ** 0.5}
                parts.append(polars.DataFrame(columns))
            write(TableFile("forecast", polars.concat(parts).lazy()))
    if not options.quiet:
        say(f"forecast {counted(options.steps, 'row')} after {counted(len(parts), 'sequence')}")


@dataclass(frozen=True, kw_only=True)
class DrawingOptions(PlotOption, QuietOption, LoadOption):
    """The argument and options of `spectrem states plot` besides parameters of `HMM`.

    Parameters
    ----------
    data
        A table as for the other commands. If it is left out, transitions between states are drawn.
    sequence
        The sequence to draw, by its value in the column that --group named. By default the first.
    """

    data: str | None = argument("DATA", None)
    plot: str = option(..., "--plot", "-o", metavar="FILE", writes=True)
    sequence: str | None = option(None, metavar="VALUE")


@app.command()
@takes(HMMParameters, only=["project_at_predict", "infeasible", "n_threads"])
def plot(options: DrawingOptions, settings: Settings, given: Given) -> None:
    """Draw series before ribbons of their states, or without DATA the transitions.

    Example: **spectrem states plot office.csv --load model.npz -o states.png**
    """
    with command_files(*files_of(options)):
        from spectrem.plotting import plot_states, plot_transitions, save_figure

        if options.data is None:
            save_figure(plot_transitions(_load(options.load, settings, given)), options.plot)
            return
        (hmm, file, X), title = _read(options, settings, given), ""
        with rows_named(file):
            shares = hmm.predict_proba(X)
        if hmm.group is not None:
            of_row = X[hmm.group].cast(str)
            title = of_row.min() if options.sequence is None else options.sequence
            chosen = of_row == title
            if not chosen.any():
                raise InvalidInputError(f"--sequence {title}: column {hmm.group!r} of {file.name} does not hold it")
            X, shares = X.filter(chosen), shares[chosen.to_numpy()]
        elif options.sequence is not None:
            raise InvalidInputError(f"--sequence {options.sequence}: the model has no --group; leave it out")
        shown = X.select(*hmm.column_names_, *filter(None, [hmm.time]))
        save_figure(plot_states(shown, shares, names=hmm.states_, time=hmm.time, title=title), options.plot)
