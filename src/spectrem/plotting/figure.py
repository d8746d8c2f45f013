"""Figures that belong to no window, and that notebooks show."""

from __future__ import annotations

import warnings
from io import BytesIO

from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A matplotlib Figure on the Agg canvas that a notebook shows where it is the last expression of a cell.

    Notebooks show the figures of pyplot, which knows nothing of this one.

    Parameters
    ----------
    width, height : float
        Inches.

    Examples
    --------
    >>> NotebookFigure(1, 1)._repr_png_()[:4]
    b'\\x89PNG'
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(self)

    def draw(self, renderer: RendererBase) -> None:
        """Draw all; letters that no font has are boxes, of which nothing warns."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()
