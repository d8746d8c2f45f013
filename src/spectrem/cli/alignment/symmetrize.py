"""`spectrem symmetrize`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spectrem.cli.declare import argument, option, takes
from spectrem.cli.files import command_files
from spectrem.cli.options import Output


@dataclass(frozen=True)
class SymmetrizeOptions:
    """Arguments and options of `spectrem symmetrize`.

    Parameters
    ----------
    forward
        Links where every target word chose a source word.
    backward
        Links where every source word chose a target word.
    method
        One of intersection, union, grow-diag, grow-diag-final, grow-diag-final-and.
    """

    forward: str = argument("FORWARD")
    backward: str = argument("BACKWARD")
    method: Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"] = option(
        "grow-diag-final-and", metavar="NAME"
    )
    output: Output = "-"


@takes()
def symmetrize(options: SymmetrizeOptions) -> None:
    """Merge the alignments of two directions into one.

    Example: **spectrem symmetrize forward.txt backward.txt -o links.txt**

    Both files hold one line per sentence pair, links written source-target in
    both, or JSON as of spectrem align --output-format json. intersection keeps the links
    of both (precise), union those of either (complete). The grow methods start from
    the intersection and add links of the union next to those already there; final
    then adds links of words that have none yet, final-and only links of two such
    words.
    """
    with command_files({"FORWARD": options.forward, "BACKWARD": options.backward}, {"--output": options.output}):
        from spectrem.data import read_links, write_pharaoh
        from spectrem.data import symmetrize as merge

        forward = read_links(options.forward)
        write_pharaoh(options.output, merge(forward, read_links(options.backward, forward.n_sentences), options.method))
