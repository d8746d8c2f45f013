"""Probabilities and trees drawn with characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_SHADES = " ░▒▓█"
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
# Box-drawing characters by the sides that they touch.
_BOXES = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"


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


def draw_tree(
    words: Sequence[str],
    heads: Sequence[int] | ArrayLike,
    posteriors: ArrayLike | None = None,
    relations: Sequence[str] | None = None,
) -> str:
    r"""A tree with one line per word, arcs to the right of the words; an arc ends at the dependent with an arrow.

    Parameters
    ----------
    words : sequence of str
    heads : array-like of shape (n_words,), int
        Positions in the sentence from 0; -1 for the root, -2 for no head.
    posteriors : array-like of shape (n_words, n_words), optional
        Probabilities of arcs, [dependent, head], with those from the root on the diagonal: that of every head is
        written behind its arcs.
    relations : sequence of str, optional
        Written behind the arcs, too.

    Returns
    -------
    str
        Lines with line ends between.

    Raises
    ------
    InvalidInputError
        If there is not one head per word.

    Examples
    --------
    >>> print(draw_tree(["the", "dog", "barks", "loudly"], [1, 2, -1, 2]))
    the    ◄┐
    dog    ─┴◄┐
    barks  ───┴─┐ root
    loudly ────◄┘
    """
    import numpy as np

    head = np.asarray(heads, np.int64)
    if head.shape != (len(words),):
        raise InvalidInputError(f"heads must be one per word, {len(words)}; got shape {head.shape}")
    arcs = [(word, above) for word, above in enumerate(head.tolist()) if above >= 0]
    columns = _columns(arcs)
    width = 2 * (1 + max(columns, default=-1))
    sides = np.zeros((len(words), width), np.int64)
    arrows = []
    for (word, above), column in zip(arcs, columns, strict=True):
        top, bottom, at = min(word, above), max(word, above), 2 * column + 1
        for end, turn in ((top, _DOWN), (bottom, _UP)):
            sides[end, :at] |= _LEFT | _RIGHT
            sides[end, at] |= _LEFT | turn
        sides[top + 1 : bottom, at] |= _UP | _DOWN
        arrows.append((word, at - 1))
    grid = [[_BOXES[side] for side in row] for row in sides.tolist()]
    for word, at in arrows:
        grid[word][at] = "◄"
    longest = max(map(len, words), default=0)
    table = None if posteriors is None else np.asarray(posteriors, np.float64)
    lines = []
    for word, (boxes, above) in enumerate(zip(grid, head.tolist(), strict=True)):
        notes = ["root"] if above == -1 else []
        if relations is not None and relations[word] not in ("_", "root"):
            notes.append(relations[word])
        if table is not None and above > -2:
            notes.append(f"{table[word, word if above == -1 else above]:.2f}")
        picture = "".join(boxes)
        if table is None and relations is None:
            picture = picture.rstrip()
        lines.append(f"{words[word]:<{longest}} {picture} {' '.join(notes)}".rstrip())
    return "\n".join(lines)


def _columns(arcs: list[tuple[int, int]]) -> list[int]:
    """A column for every arc, outside all shorter ones with which it shares a line."""
    columns = [0] * len(arcs)
    placed: list[int] = []
    for arc in sorted(range(len(arcs)), key=lambda k: (abs(arcs[k][0] - arcs[k][1]), min(arcs[k]))):
        low, high = sorted(arcs[arc])
        beside = [columns[k] for k in placed if min(arcs[k]) <= high and low <= max(arcs[k])]
        columns[arc] = max(beside, default=-1) + 1
        placed.append(arc)
    return columns
