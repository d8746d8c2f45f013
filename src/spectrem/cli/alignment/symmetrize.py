"""`spectrem symmetrize`."""

from __future__ import annotations

from typing import Annotated

import typer

from spectrem.cli.files import command_files
from spectrem.cli.options import MethodName, Output


def symmetrize(
    forward: Annotated[
        str, typer.Argument(metavar="FORWARD", help="Links where every target word chose a source word.")
    ],
    backward: Annotated[
        str, typer.Argument(metavar="BACKWARD", help="Links where every source word chose a target word.")
    ],
    method: Annotated[
        MethodName, typer.Option("--method", metavar="NAME", help=f"One of {', '.join(MethodName)}.")
    ] = MethodName.GROW_DIAG_FINAL_AND,
    output: Output = "-",
) -> None:
    """Merge the alignments of two directions into one.

    Example: **spectrem symmetrize forward.txt backward.txt -o links.txt**

    Both files hold one line per sentence pair, links written source-target in
    both, or JSON as of spectrem align --format json. intersection keeps the links
    of both (precise), union those of either (complete). The grow methods start from
    the intersection and add links of the union next to those already there; final
    then adds links of words that have none yet, final-and only links of two such
    words.
    """
    with command_files({"FORWARD": forward, "BACKWARD": backward}, {"--output": output}):
        from spectrem.data import read_links, write_pharaoh
        from spectrem.data import symmetrize as merge

        links = read_links(forward)
        write_pharaoh(output, merge(links, read_links(backward, links.n_sentences), method.value))
