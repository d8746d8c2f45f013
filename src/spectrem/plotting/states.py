"""Series over time before ribbons of hidden states, and the transitions between states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectrem._arrays import Floats
from spectrem.constraints.columns import is_missing
from spectrem.data.frames import Table, as_frame, as_times
from spectrem.exceptions import InvalidInputError, listed
from spectrem.plotting.curves import COLOURS, axes_of, make_figure, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS, _HATCHES = COLOURS[:6], ("", "///", "...", "xxx")
_SHARE = 0.4  # of a ribbon's colour, before which lines stay visible


def plot_states(
    X: Table,
    states: ArrayLike | Sequence[Any],
    *,
    names: Sequence[Any] | None = None,
    time: str | ArrayLike | None = None,
    title: str = "",
) -> Figure:
    """The values of a series over time, a panel for each column, before ribbons of its states.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns) or (n_rows,), or frame
        One sequence. Cells that are NaN or null are left open; columns of text are categories.
    states : array-like of shape (n_rows,), or of shape (n_rows, n_states)
        The state of every row, None where it is not known, as ``predict`` gives them, or the probabilities of states,
        as ``predict_proba`` does: each ribbon is then as high as its state is probable.
    names : sequence, optional
        The names of all states, in the order of their colours, such as ``model.states_``. By default those in
        ``states``, sorted; of probabilities whole numbers from 0.
    time : str, or array-like of shape (n_rows,), optional
        The times of the rows, numbers or dates: a column of the frame X, or an array. Rows are sorted by them. By
        default rows are numbered from 0.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
        Belongs to no window; save it with `save_figure`.

    Raises
    ------
    InvalidInputError
        If there are no rows or columns, states or times do not fit them, ``names`` lacks a state, or matplotlib is not
        installed.

    Examples
    --------
    >>> X = np.array([0.1, -0.2, np.nan, 5.1, 4.9])
    >>> figure = plot_states(X, ["low", "low", "low", "high", "high"], names=["low", "high"])
    >>> [text.get_text() for text in figure.legends[0].texts]
    ['low', 'high']
    """
    columns, times = _read_series(X, time)
    n = len(times)
    called, shares = _read_states(states, names, n)
    order = np.argsort(times, kind="stable")
    times, shares = times[order], shares[order]
    figure = make_figure(8.0, 0.9 + 1.5 * len(columns))
    panels = figure.subplots(len(columns), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, values) in zip(panels, columns.items(), strict=True):
        ribbons = _draw_ribbons(axes, times, shares)
        _draw_values(axes, times, values[order])
        axes.set_ylabel(plain_label(name, 24))
        axes.spines[["top", "right"]].set_visible(False)
    if times.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel(plain_label(time if isinstance(time, str) else "time" if time is not None else "row"))
    figure.legend(ribbons, list(map(plain_label, called)), loc="outside lower center", ncols=6, frameon=False)
    if title:
        figure.suptitle(plain_label(title))
    return figure


def plot_transitions(model: Any, *, axes: Axes | None = None) -> Figure:
    """A matrix of the probabilities of transitions, with how many rows a state is expected to stay.

    Where states have durations, transitions lead to others, and rows of stay are not shown.

    Parameters
    ----------
    model : HMM
        Fitted.
    axes : matplotlib Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib Figure
        The figure of the axes; a new one belongs to no window, `save_figure` writes it.

    Raises
    ------
    InvalidInputError
        If the model has no transitions of states, or matplotlib is not installed.

    Examples
    --------
    >>> from spectrem import GaussianHMM
    >>> X = [[0.0], [0.1], [0.0], [5.0], [5.1], [5.0], [0.1]]
    >>> model = GaussianHMM(states=["low", "high"], random_state=0, n_threads=1).fit(X)
    >>> [text.get_text() for text in plot_transitions(model).axes[0].get_xticklabels()]
    ['low', 'high']
    """
    if not hasattr(model, "transmat_") or not hasattr(model, "states_"):
        raise InvalidInputError(f"model must be a fitted HMM, got {type(model).__name__}; call fit first")
    table, names = np.asarray(model.transmat_), [plain_label(name, 24) for name in model.states_]
    k = len(names)
    figure, axes = axes_of(axes, 2.8 + 0.75 * k, 1.6 + 0.55 * k)
    axes.imshow(table, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        axes.text(column, row, _shown(value), ha="center", va="center", color="black" if value < 0.6 else "white")
    rows = names
    if getattr(model, "durations", None) is None:
        leaves = np.maximum(1 - np.diagonal(table), 0.0).tolist()
        stays = [f"stays {1 / one:.4g} rows" if one else "is never left" for one in leaves]
        rows = [f"{name}\n{stay}" for name, stay in zip(names, stays, strict=True)]
    axes.set_xticks(range(k), names, rotation=30 if k > 4 else 0)
    axes.set_yticks(range(k), rows)
    axes.set(xlabel="state of the next row", title="transitions")
    axes.tick_params(length=0)
    return figure


def _shown(value: float) -> str:
    return f"{value:.2g}" if value < 0.99 else f"{value:.4f}".rstrip("0").rstrip(".")


def _read_series(X: Table, time: Any) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Columns by name, and the times of rows."""
    frame = as_frame(X, "X")
    if frame is not None:
        if isinstance(time, str) and time not in frame.columns:
            raise InvalidInputError(f"time must be a column of X, got {time!r}, and X has {listed(frame.columns)}")
        named = {name: frame[name].to_numpy() for name in frame.columns if not (isinstance(time, str) and name == time)}
        time = frame[time] if isinstance(time, str) else time
    else:
        x = np.asarray(X)
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2:
            raise InvalidInputError(f"X must have rows and columns, got an array of shape {x.shape}; give one sequence")
        named = {str(j): x[:, j] for j in range(x.shape[1])}
    n = len(next(iter(named.values()), ()))
    if not n:
        raise InvalidInputError("X must have at least one row and one column besides time; give one sequence")
    times = np.arange(n) if time is None else as_times("time", time)
    if len(times) != n:
        raise InvalidInputError(f"time must have a value for each of the {n} rows of X, got {len(times)}")
    return named, times


def _read_states(states: Any, names: Sequence[Any] | None, n: int) -> tuple[list[Any], Floats]:
    """The names of states, and how probable each is in every row, shape (n_rows, n_states)."""
    table = np.asarray(states, None if isinstance(states, np.ndarray) else object)
    if len(table) != n or table.ndim > 2:
        raise InvalidInputError(
            f"states must have a state, or probabilities of all, for each of the {n} rows of X, got shape {table.shape}"
        )
    if table.ndim == 2:
        called = list(range(table.shape[1]) if names is None else names)
        if len(called) != table.shape[1]:
            raise InvalidInputError(
                f"names must name the {table.shape[1]} columns of states, got {len(called)}; give model.states_"
            )
        return called, np.nan_to_num(table.astype(np.float64))
    cells = table.tolist()
    seen = {cell for cell in cells if not is_missing(cell)}
    called = sorted(seen, key=lambda name: (isinstance(name, str), name)) if names is None else list(names)
    if unknown := seen.difference(called):
        raise InvalidInputError(f"names must name all states, got {listed(called)}, not {min(map(repr, unknown))}")
    return called, np.array([[cell == name for name in called] for cell in cells], np.float64).reshape(n, len(called))


def _draw_ribbons(axes: Axes, times: NDArray[Any], shares: Floats) -> list[Any]:
    """A ribbon for each state, as high as the state is probable, the first state lowest."""
    above = np.cumsum(shares, axis=1)
    return [
        axes.fill_between(
            times,
            above[:, k] - shares[:, k],
            above[:, k],
            step="mid",
            transform=axes.get_xaxis_transform(),
            facecolor=(_COLOURS[k % len(_COLOURS)], _SHARE),
            edgecolor=(_COLOURS[k % len(_COLOURS)], 1.0),
            hatch=_HATCHES[k // len(_COLOURS) % len(_HATCHES)] or None,
            linewidth=0.0,
        )
        for k in range(shares.shape[1])
    ]


def _draw_values(axes: Axes, times: NDArray[Any], values: NDArray[Any]) -> None:
    """A line that is open where cells are missing; cells that stand alone are points, and categories are steps."""
    import matplotlib

    numeric = values.dtype.kind in "fiub"
    if not numeric:
        cells = values.tolist()
        seen = sorted({str(cell) for cell in cells if not is_missing(cell)})
        number = {name: k for k, name in enumerate(seen)}
        values = np.array([number.get(str(cell), np.nan) for cell in cells])
        axes.set_yticks(range(len(seen)), [plain_label(name, 24) for name in seen])
    values = values.astype(np.float64)
    there = np.isfinite(values)
    beside = np.concatenate([[False], there, [False]])
    alone = there & ~beside[:-2] & ~beside[2:]
    ink = matplotlib.rcParams["text.color"]
    axes.plot(times, values, color=ink, linewidth=0.9, drawstyle="default" if numeric else "steps-mid")
    axes.plot(times[alone], values[alone], ".", color=ink, markersize=3)
    axes.margins(x=0.0)
