"""Posteriors of one sentence or sentence pair: matrices of links, and trees with probabilities of arcs."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from spectrem._arrays import Floats, Ints
from spectrem._heads import ROOT
from spectrem._outputs import open_bytes
from spectrem.data.tree_picture import arc_levels
from spectrem.exceptions import InvalidInputError
from spectrem.plotting.curves import COLOURS, make_figure, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_INCHES_PER_WORD = 0.42
FORMATS = (".png", ".svg", ".pdf")


def plot_posteriors(
    matrices: Mapping[str, Floats], source: Sequence[str], target: Sequence[str], gold: Iterable[tuple[int, int]] = ()
) -> Figure:
    """One panel per matrix, shaded by probability, with boxes around gold links.

    Parameters
    ----------
    matrices : mapping of title -> ndarray of shape (source length, target length)
        Link probabilities in [0, 1].
    source, target : sequence of str
        The words, source as rows and target as columns.
    gold : iterable of (source, target)
        Links to box, positions from 0.

    Returns
    -------
    matplotlib.figure.Figure
        Belongs to no window; save it with `save_figure`.

    Raises
    ------
    InvalidInputError
        If matplotlib is missing, there is no matrix, or one has another shape.

    Examples
    --------
    >>> figure = plot_posteriors({"EM": np.eye(2), "PR": np.eye(2)}, ["the", "house"], ["das", "haus"], [(0, 0)])
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['EM', 'PR']
    """
    _check(matrices, len(source), len(target))
    height = 1.5 + _INCHES_PER_WORD * len(source)
    width = 1.6 + (0.15 + _INCHES_PER_WORD * len(target)) * len(matrices)
    figure = make_figure(width, height)
    panels = figure.subplots(1, len(matrices), sharey=True, squeeze=False)[0]
    links = list(gold)
    from matplotlib.patches import Rectangle

    for axes, (title, matrix) in zip(panels, matrices.items(), strict=True):
        image = axes.imshow(matrix, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
        axes.set_title(plain_label(title), fontsize=11)
        _label(axes, source, target)
        for i, j in links:
            box = Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor="tab:orange", linewidth=2.2, zorder=3)
            axes.add_patch(box)
    figure.colorbar(image, ax=list(panels), label="link probability", pad=0.01, aspect=24)
    if links:
        figure.supxlabel("boxes: true links", fontsize=9)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as .png, .svg or .pdf, whole or not at all; links are followed.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        As functions of this room make it.
    path : path
        Its ending tells the format.

    Raises
    ------
    InvalidInputError
        If the name ends otherwise or the folder does not exist.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save_figure(plot_posteriors({"both": [[0.9, 0.1]]}, ["dog"], ["chien", "noir"]), f"{folder}/links.svg")
    """
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        raise InvalidInputError(f"{path}: a figure is written as {', '.join(FORMATS)}; choose one of these endings")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=suffix[1:], dpi=150)
    with open_bytes(path) as stream:
        stream.write(drawn.getbuffer())


def _check(matrices: Mapping[str, Floats], n_source: int, n_target: int) -> None:
    if not matrices:
        raise InvalidInputError("matrices must hold at least one matrix, got none")
    if not (n_source and n_target):
        raise InvalidInputError(
            f"source and target must have words, got {n_source} and {n_target}; choose another pair"
        )
    for title, matrix in matrices.items():
        if np.shape(matrix) != (n_source, n_target):
            raise InvalidInputError(
                f"matrices[{title!r}] must have a row per source word and a column per target word, shape "
                f"({n_source}, {n_target}), got {np.shape(matrix)}; transpose it or give the words of its own pair"
            )


def _label(axes: Axes, source: Sequence[str], target: Sequence[str]) -> None:
    axes.set_xticks(range(len(target)), list(map(plain_label, target)), rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(source)), list(map(plain_label, source)))
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(len(target) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(source) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="0.88", linewidth=0.6)
    axes.tick_params(which="minor", length=0)


_LEAST = 0.05
_INCHES_PER_LETTER, _GAP = 0.105, 0.22
_SMALL = 8.5
_NARROW = 0.45  # inches, below which the number of an arc would hide it


def plot_trees(
    words: Sequence[str],
    posteriors: ArrayLike | dict[str, ArrayLike],
    gold: Sequence[int] | ArrayLike | None = None,
    *,
    tags: Sequence[str] | None = None,
    min_probability: float = _LEAST,
) -> Figure:
    """Arcs from heads to dependents above the words of a sentence, the thicker and darker, the more probable.

    Parameters
    ----------
    words : sequence of str
    posteriors : array-like of shape (n_words, n_words), or dict of title -> such arrays
        Probabilities of arcs in [0, 1], [dependent, head], with those from the root on the diagonal, as
        ``predict_proba`` gives them; or the heads of one tree, shape (n_words,), -1 for the root. Several are drawn one
        below the other, under their titles.
    gold : array-like of shape (n_words,), int, optional
        True heads, -1 for the root, -2 where not known. Arcs of the true tree are drawn in one colour, all others in
        another one, dashed, and true arcs that are too improbable to be drawn as thin dotted lines.
    tags : sequence of str, optional
        Written below the words.
    min_probability : float
        Arcs below this probability are left out. Those that are certain have no number.

    Returns
    -------
    matplotlib.figure.Figure
        Belongs to no window; save it with `save_figure`.

    Raises
    ------
    InvalidInputError
        If matplotlib is missing, there are no words, or shapes or values do not fit.

    Examples
    --------
    >>> figure = plot_trees(["dogs", "bark"], [[0.25, 0.75], [0.25, 0.75]], gold=[1, -1])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['root', '.25', '.75', '.25', 'root', '.75', 'dogs', 'bark']
    """
    panels = posteriors if isinstance(posteriors, dict) else {"": posteriors}
    n = len(words)
    if not n or not panels:
        raise InvalidInputError(f"words and posteriors must not be empty, got {n} words and {len(panels)} pictures")
    tables = {title: _table(title, values, n) for title, values in panels.items()}
    true = None if gold is None else _heads("gold", gold, n)
    if tags is not None and len(tags) != n:
        raise InvalidInputError(f"tags must be one per word, {n}; got {len(tags)}")
    shown = list(map(plain_label, words))
    widths = [max(len(word), len(tags[k]) if tags is not None else 0, 3) for k, word in enumerate(shown)]
    sizes = np.array(widths) * _INCHES_PER_LETTER + _GAP
    places = np.cumsum(sizes) - sizes / 2
    drawn = [_arcs(table, true, min_probability) for table in tables.values()]
    levels = [arc_levels(arcs) for arcs in drawn]
    tops = [max(heights.values(), default=1) + 1 for heights in levels]
    height = 0.34 * sum(tops) + (0.75 + 0.25 * any(tables)) * len(tables)
    figure = make_figure(max(float(sizes.sum()) + 0.3, 2.5), height)
    axes = figure.subplots(len(tables), 1, squeeze=False, gridspec_kw={"height_ratios": [top + 2 for top in tops]})
    for panel, title, arcs, level, top in zip(axes[:, 0], tables, drawn, levels, tops, strict=True):
        _draw(panel, places, arcs, level, true)
        for k, word in enumerate(shown):
            panel.text(places[k], -0.12, word, ha="center", va="top", fontsize=11)
            if tags is not None:
                panel.text(places[k], -0.62, plain_label(tags[k]), ha="center", va="top", fontsize=_SMALL, color="0.45")
        panel.set_xlim(0, float(sizes.sum()))
        panel.set_ylim(-1.15 if tags is not None else -0.6, top + 0.15)
        panel.axis("off")
        if title:
            panel.set_title(plain_label(title), fontsize=11, loc="left")
    return figure


_Arcs: TypeAlias = dict[tuple[int, int], float]
_Levels: TypeAlias = dict[tuple[int, int], int]


def _draw(axes: Axes, places: Floats, arcs: _Arcs, levels: _Levels, gold: Ints | None) -> None:
    """Arcs of one picture, and heads of arrows; arcs from the root come straight from above."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    top = max(levels.values(), default=1) + 1
    beside = _ends(places, arcs, levels)
    for (dependent, head), probability in arcs.items():
        right = gold is None or gold[dependent] == head
        known = gold is None or gold[dependent] > -2
        colour = COLOURS[0] if right else COLOURS[1] if known else "0.5"
        missing = probability < 0
        alpha, width = (0.9, 0.9) if missing else (0.3 + 0.7 * probability, 0.5 + 2.0 * probability)
        end = beside[dependent, head, dependent]
        if head == ROOT:
            path, label = Path([(end, top), (end, 0.1)]), (end, 0.55 * top)
            axes.text(end, top, "root", ha="center", va="bottom", fontsize=_SMALL, color=colour, alpha=alpha)
        else:
            start, y = beside[dependent, head, head], float(levels[dependent, head])
            bend = (end - start) * 0.12
            points = [(start, 0.0), (start, y), (start + bend, y), (end - bend, y), (end, y), (end, 0.1)]
            codes = [Path.MOVETO, Path.CURVE3, Path.CURVE3, Path.LINETO, Path.CURVE3, Path.CURVE3]
            above = 0.2 if abs(end - start) < _NARROW else 0.0
            path, label = Path(points, codes), ((start + end) / 2, y + above)
        line: Any = ":" if missing else "-" if right else (0, (4, 2))
        axes.add_patch(PathPatch(path, fill=False, edgecolor=colour, alpha=alpha, linewidth=width, linestyle=line))
        axes.plot(end, 0.1, "v", color=colour, alpha=alpha, markersize=3 + 1.5 * width, markeredgewidth=0)
        if 0 <= probability < 0.995:
            axes.text(
                *label,
                f"{probability:.2f}".removeprefix("0"),
                ha="center",
                va="center",
                fontsize=_SMALL,
                color=colour,
                bbox={"boxstyle": "round,pad=0.12", "facecolor": axes.figure.get_facecolor(), "edgecolor": "none"},
            )


def _arcs(table: Floats, true: Ints | None, least: float) -> _Arcs:
    """Probabilities of the arcs (dependent, head) that are drawn; -1 for true ones that are improbable."""
    arcs: _Arcs = {}
    for dependent, row in enumerate(table):
        for k, probability in enumerate(row.tolist()):
            head = ROOT if k == dependent else k
            if probability >= least:
                arcs[dependent, head] = probability
            elif true is not None and true[dependent] == head:
                arcs[dependent, head] = -1.0
    return arcs


def _ends(places: Floats, arcs: _Arcs, levels: _Levels) -> dict[Any, float]:
    """Where each arc ends at each of its words: (dependent, head, word) -> place.

    Arcs to the left come first, the highest of them last, then those from the root, then arcs to the right, the highest
    of them first: so arcs that enclose each other do not cross.
    """
    ends = {}
    for word, place in enumerate(places.tolist()):
        here = []
        for arc in arcs:
            if word in arc:
                side = 0 if arc[1] == ROOT else 1 if sum(arc) > 2 * word else -1
                here.append((side, -side * levels.get(arc, 0), arc))
        for k, (_, _, arc) in enumerate(sorted(here)):
            ends[*arc, word] = place + 0.1 * (k - (len(here) - 1) / 2)
    return ends


def _table(title: str, values: ArrayLike, n: int) -> Floats:
    """Probabilities of arcs, of heads too."""
    array, name = np.asarray(values), f"posteriors[{title!r}]" if title else "posteriors"
    if array.ndim == 1:
        heads, table = _heads(name, array, n), np.zeros((n, n))
        taken = np.flatnonzero(heads > -2)
        table[taken, np.where(heads < 0, np.arange(n), heads)[taken]] = 1.0
        return table
    if array.shape != (n, n):
        raise InvalidInputError(
            f"{name} must have shape ({n}, {n}), [dependent, head], or be {n} heads; got shape {array.shape}"
        )
    table = array.astype(np.float64)
    if not ((table >= -1e-9) & (table <= 1 + 1e-9)).all():
        raise InvalidInputError(
            f"{name} must hold probabilities in [0, 1], got values from {table.min():g} to {table.max():g}; give "
            "posteriors, not scores"
        )
    return table


def _heads(name: str, values: ArrayLike, n: int) -> Ints:
    array = np.asarray(values)
    if array.shape != (n,) or array.dtype.kind not in "iu" or array.min() < -2 or array.max() >= n:
        raise InvalidInputError(
            f"{name} must be {n} heads from -2 to {n - 1}, counted from 0, -1 for the root; got {array.tolist()}"
        )
    return array.astype(np.int64)
