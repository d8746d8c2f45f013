"""Posterior matrices of one sentence pair, side by side."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spectrem._outputs import open_bytes
from spectrem.exceptions import InvalidInputError
from spectrem.plotting.curves import make_figure, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCHES_PER_WORD = 0.42
FORMATS = (".png", ".svg", ".pdf")


def plot_posteriors(
    matrices: Mapping[str, NDArray[np.float64]],
    source: Sequence[str],
    target: Sequence[str],
    gold: Iterable[tuple[int, int]] = (),
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
    for axes, (title, matrix) in zip(panels, matrices.items(), strict=True):
        image = axes.imshow(matrix, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
        axes.set_title(plain_label(title), fontsize=11)
        _label(axes, source, target)
        _box(axes, links)
    figure.colorbar(image, ax=list(panels), label="link probability", pad=0.01, aspect=24)
    if links:
        figure.supxlabel("boxes: true links", fontsize=9)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as .png, .svg or .pdf, whole or not at all; links are followed.

    Raises
    ------
    InvalidInputError
        If the name ends otherwise or the folder does not exist.
    """
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        raise InvalidInputError(f"{path}: a figure is written as {', '.join(FORMATS)}; choose one of these endings")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=suffix[1:], dpi=150)
    with open_bytes(path) as stream:
        stream.write(drawn.getbuffer())


def _check(matrices: Mapping[str, NDArray[np.float64]], n_source: int, n_target: int) -> None:
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


def _box(axes: Axes, links: Iterable[tuple[int, int]]) -> None:
    from matplotlib.patches import Rectangle

    for i, j in links:
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor="tab:orange", linewidth=2.2, zorder=3))
