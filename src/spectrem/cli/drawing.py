"""Posterior matrices drawn with characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHADES = " ░▒▓█"


def draw_matrices(
    matrices: Mapping[str, NDArray[np.float64]],
    source: Sequence[str],
    target: Sequence[str],
    gold: Iterable[tuple[int, int]] = (),
) -> str:
    """Matrices of one sentence pair side by side, source words as rows, target words as numbered columns.

    Parameters
    ----------
    matrices : mapping of title -> ndarray of shape (source length, target length)
        Probabilities in [0, 1]; the darker, the more probable, in five steps.
    source, target : sequence of str
    gold : iterable of (source, target)
        Cells to put in brackets.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> print(draw_matrices({"one": np.array([[1.0, 0.0], [0.1, 0.5]])}, ["la", "casa"], ["the", "house"], [(0, 0)]))
          one
           0  1
    la   │[█]   │
    casa │    ▒ │
    <BLANKLINE>
    columns: 0 the, 1 house
    """
    marked = set(gold)
    margin = max(map(len, source), default=0)
    width = max(3 * len(target), max(map(len, matrices), default=0))
    title = "  ".join(f" {name:<{width}} " for name in matrices)
    header = "".join(f"{j:^3}" for j in range(len(target)))
    lines = [f"{'':{margin}} {title}", f"{'':{margin}} " + "  ".join(f" {header:<{width}} " for _ in matrices)]
    for i, word in enumerate(source):
        rows = [
            "".join(_cell(matrix[i, j], (i, j) in marked) for j in range(len(target))) for matrix in matrices.values()
        ]
        lines.append(f"{word:<{margin}} " + "  ".join(f"│{row}│{'':{width - 3 * len(target)}}" for row in rows))
    lines += ["", "columns: " + ", ".join(f"{j} {word}" for j, word in enumerate(target))]
    return "\n".join(line.rstrip() for line in lines)


def _cell(probability: float, marked: bool) -> str:
    shade = _SHADES[min(int(probability * 4 + 0.5), 4)]
    return f"[{shade}]" if marked else f" {shade} "
