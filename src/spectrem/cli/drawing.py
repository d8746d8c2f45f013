"""Posteriors as text: matrices drawn with characters, and lines of words with their likeliest choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spectrem.cli.options import LEAST_PROBABILITY

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


def posterior_lines(
    sentences: Iterable[Sequence[str]],
    tables: Iterable[NDArray[np.float64]],
    name: Callable[[int, int], object],
    least: float | None,
) -> Iterator[str]:
    r"""A line per word of the word and its choices, likeliest first, and a blank one after every sentence.

    Parameters
    ----------
    sentences : iterable of sequence of str
    tables : iterable of ndarray of shape (n_words, n_choices)
    name : function of word and choice
        What a choice of a word, both by number, is called.
    least : float or None
        Choices below this probability are left out.

    Yields
    ------
    str
        Lines with their ends.

    Examples
    --------
    >>> import numpy as np
    >>> list(posterior_lines([["run"]], [np.array([[0.25, 0.0, 0.75]])], lambda word, k: ["NN", "DT", "VB"][k], None))
    ['run\tVB:0.75\tNN:0.25\n', '\n']
    """
    least = LEAST_PROBABILITY if least is None else least
    for words, table in zip(sentences, tables, strict=True):
        for number, (word, row) in enumerate(zip(words, table, strict=True)):
            likely = [k for k in (-row).argsort(kind="stable").tolist() if row[k] >= least]
            yield "\t".join([word, *(f"{name(number, k)}:{row[k]:.4g}" for k in likely)]) + "\n"
        yield "\n"
